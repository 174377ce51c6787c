"""An edit of a file of any format changes the lines of what was edited, and no others."""

import io
import json
import random
import zipfile
from difflib import SequenceMatcher
from functools import cache
from pathlib import Path

import pytest
import yaml
from amounts import sample

from operad.flows.edit import AddNode, Connect, Disconnect, RemoveNode, RenameVariable, SetParam, apply, new_issues
from operad.flows.edit.paths import path_of
from operad.flows.formats.table import FORMATS, find_format
from operad.runtime.values.errors import InvalidError

DATA = Path(__file__).parents[1] / "data"
OTHER_FORMS = ("form-", "refused-", "app-")
"""Beginnings of names of Dify files that have no app around their graph, or no graph; see `WHOLE`."""

WHOLE = [
    *sorted(DATA.glob("dify_cases/form-*.yml")),
    *sorted(DATA.glob("coze_canvas_cases/*.json")),
    *sorted(DATA.glob("flowise_cases/*.json")),
    *sorted(DATA.glob("comfyui_cases/*.json")),
]
"""Files of the other formats."""

FILES = [
    path
    for path in sorted((*DATA.glob("dify/*.yml"), *DATA.glob("dify_cases/*.yml")))
    if not path.stem.startswith(OTHER_FORMS)
]
SHARED = ("class_ids", "authorization", "actions")
"""Parameters that other parts of a file hold, too: edges name classes and actions; secrets are environment variables."""

BACKWARDS = """\
app: {mode: workflow, name: t}
kind: app
version: 0.3.0
workflow:
  graph:
    edges:
    - {id: a, source: '1', target: '9', sourceHandle: source, targetHandle: target}
    - {id: b, source: '9', target: '2', sourceHandle: source, targetHandle: target}
    nodes:
    - {id: '2', type: custom, data: {type: end, title: Template, outputs: [{variable: r, value_selector: ['9', output]}]}}
    - {id: '9', type: custom, data: {type: template-transform, title: Template, template: "x",  variables: []}}
    # asked first
    - {id: '1', type: custom, data: {type: start, title: S, variables: [{variable: q, label: Q, type: select, options: [a]}]}}
"""


def third(cases, number):
    """A third of the cases, so that three properties try each file once; fewer where slow tests do not run."""
    return sample(list(cases)[number::3], 8)


def leaves(value, path=()):
    """The path and the value of each text and number in parameters."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from leaves(each, (*path, key))
    elif isinstance(value, list | tuple):
        for place, each in enumerate(value):
            yield from leaves(each, (*path, place))
    elif path and isinstance(value, str | int | float):
        yield path, value


def other(value):
    return (not value) if isinstance(value, bool) else f"{value}x" if isinstance(value, str) else value + 1


def last_line(node):
    if isinstance(node, yaml.CollectionNode) and node.value and not node.flow_style:
        last = node.value[-1]
        return last_line(last[1] if isinstance(last, tuple) else last)
    return node.end_mark.line - (node.end_mark.column == 0 and node.end_mark.line > node.start_mark.line)


def child(node, key):
    return next(value for name, value in node.value if name.value == key)


def lines_of_nodes(text):
    """The first and the last line of each node by its id, in Dify's form and in Operad's."""
    root = yaml.compose(text)
    assert isinstance(root, yaml.MappingNode)
    found = {}
    if "workflow" not in (key.value for key, _ in root.value) or isinstance(child(root, "workflow"), yaml.ScalarNode):
        nodes = [child(root, "nodes")]
        for level in nodes:
            for key, node in level.value:
                found[key.value] = key.start_mark.line, last_line(node)
                nodes += [value for name, value in node.value if name.value == "nodes"]
        return found
    for key, value in child(root, "workflow").value:
        if key.value == "conversation_variables":
            found["conversation"] = key.start_mark.line, last_line(value)
    for node in child(child(child(root, "workflow"), "graph"), "nodes").value:
        found[child(node, "id").value] = node.start_mark.line, last_line(node)
    return found


def lost_lines(before, after):
    """The numbers of the lines that the new text does not have; a line that was added counts as the one before it."""
    blocks = SequenceMatcher(None, before.splitlines(), after.splitlines(), False).get_opcodes()
    return [line for how, begin, end, *_ in blocks if how != "equal" for line in range(begin, max(end, begin + 1))]


def texts():
    """The files in Dify's form, and in Operad's form: a format and a file, None for `BACKWARDS`."""
    for path in FILES:
        yield pytest.param("dify", path, id=path.stem)
    for path in FILES[::4]:
        yield pytest.param("operad", path, id=f"operad-{path.stem}")
    yield pytest.param("dify", None, id="backwards")


@cache
def text_of(name, path):
    """The text of one of `texts`."""
    text = path.read_text() if path else BACKWARDS
    return text if name == "dify" else FORMATS[name].dump(FORMATS["dify"].load(text, "it")).decode()


@pytest.mark.parametrize(("name", "path"), third(texts(), 0))
def test_a_changed_value_changes_lines_of_its_node_only(name, path):
    form, text = FORMATS[name], text_of(name, path)
    graph = form.load(text, "it")
    issues, lines = form.check(graph), lines_of_nodes(text)
    ids = {
        spec.id: spec.extra.get("dify", {}).get("id", spec.id) if name == "dify" else spec.id for spec in graph.nodes
    }
    values = [
        (spec, path, value) for spec in graph.nodes for path, value in leaves(spec.params) if path[0] not in SHARED
    ]
    random.Random(7).shuffle(values)  # noqa: S311 - the same sample in each run
    for spec, place, value in values[:3]:
        try:
            edited = apply(graph, [SetParam(node=spec.id, path=path_of(place), value=other(value))])
        except InvalidError:
            continue
        if place[0] == "outputs" and place[2:] == (0,):  # a renamed output, of which readers state the type
            continue
        if new_issues(issues, form.check(edited.graph)):  # such as a renamed variable, whose readers change their types
            continue
        after = form.dump_keeping_text(edited.graph, text.encode()).decode()
        first, last = lines[ids[spec.id]]
        assert [line for line in lost_lines(text, after) if not first <= line <= last + 1] == [], (spec.id, place)


@pytest.mark.parametrize(("name", "path"), sample(third(texts(), 1), 3))
def test_a_new_node_leaves_all_others_as_they_are_and_is_gone_without_a_trace(name, path):
    form, text = FORMATS[name], text_of(name, path)
    graph = form.load(text, "it")
    more = apply(graph, [AddNode(id="777", type="template-transform", params={"template": "x"})]).graph
    with_node = form.dump_keeping_text(more, text.encode()).decode()
    lost = lost_lines(text, with_node)
    assert all(not first <= line - 1 < last for line in lost for first, last in lines_of_nodes(text).values())
    again = form.load(with_node, "it")
    without = form.dump_keeping_text(apply(again, [RemoveNode(node="777", edges="cut")]).graph, with_node.encode())
    assert without.decode() == text


def dify(text, *operations):
    form = FORMATS["dify"]
    edited = apply(form.load(text, "it"), operations)
    return form.dump_keeping_text(edited.graph, text.encode()).decode()


def test_the_list_of_a_file_keeps_its_order_and_nodes_their_titles():
    after = dify(BACKWARDS, RemoveNode(node="2"), AddNode(id="3", type="template-transform", params={"template": "y"}))
    assert after.index("id: '9'") < after.index("# asked first") < after.index("id: '1'") < after.index("id: '3'")
    titles = [node["data"]["title"] for node in yaml.safe_load(after)["workflow"]["graph"]["nodes"]]
    assert titles == ["Template", "S", "Template 2"]
    line = """    - {id: '9', type: custom, data: {type: template-transform, title: Template, template: "x",  variables: []}}"""
    assert line in after.splitlines()


# Every format


def whole():
    """The files of the other formats, and some of Dify's as responses of Chat2Workflow."""
    for path in WHOLE:
        yield pytest.param("", path, id=f"{path.parent.name}-{path.stem}")
    for path in FILES[::6]:
        yield pytest.param("chat2workflow", path, id=f"response-{path.stem}")


@cache
def file_of(name, path):
    """The format and the bytes of one of `whole`, and its graph; skips for files that are refused."""
    data = path.read_bytes()
    if name:
        data = b"So:\n<workflow>" + FORMATS[name].dump(FORMATS["dify"].load(path)) + b"</workflow> Done.\n"
    form = FORMATS[name] if name else find_format(data)
    if form is None:
        pytest.skip("the file is of no format")
    return form, data, loaded(form, data)


def loaded(form, data):
    try:
        return form.load(data, "it")
    except InvalidError:
        pytest.skip("the file is a refused one")


def changed_lines(before, after):
    """The lines of the first text that the second lacks, and the new ones."""
    lines = before.decode().splitlines(), after.decode().splitlines()
    blocks = [each for each in SequenceMatcher(None, *lines, False).get_opcodes() if each[0] != "equal"]
    return [line for _, begin, end, *_ in blocks for line in lines[0][begin:end]], [
        line for *_, begin, end in blocks for line in lines[1][begin:end]
    ]


@pytest.mark.parametrize(("name", "path"), third(whole(), 0))
def test_a_file_without_a_change_is_the_same(name, path):
    form, data, graph = file_of(name, path)
    assert form.dump_keeping_text(graph, data) == data


@pytest.mark.parametrize(("name", "path"), third(whole(), 1))
def test_other_nodes_keep_their_lines_in_every_format(name, path):
    form, data, graph = file_of(name, path)
    values = [(spec, path, value) for spec in graph.nodes for path, value in leaves(spec.params)]
    random.Random(5).shuffle(values)  # noqa: S311 - the same sample in each run
    for spec, place, value in values[:2]:
        try:
            edited = apply(graph, [SetParam(node=spec.id, path=path_of(place), value=other(value))]).graph
            after = form.dump_keeping_text(edited, data)
        except InvalidError:
            continue
        assert form.load(after, "it") == form.load(form.dump_keeping_text(edited, after), "it")
        gone = [line.strip() for line in changed_lines(data, after)[0]]
        for each in graph.nodes:  # a node is written with its id in a line of its own, or all of it in one line
            own = json.dumps(each.id)
            assert each.id == spec.id or f'"id": {own},' not in gone, (spec.id, place, gone)


@pytest.mark.parametrize(("name", "path"), third(whole(), 2))
def test_a_node_that_came_and_went_leaves_no_trace_in_any_format(name, path):
    form, data, graph = file_of(name, path)
    try:
        more = apply(graph, [AddNode(id="777", type="template-transform", params={"template": "x"})]).graph
    except InvalidError:
        pytest.skip("its nodes are of other types")
    if form.name == "comfyui":
        pytest.skip("the page counts the ids that a file ever had")
    with_node = form.dump_keeping_text(more, data)
    without = apply(form.load(with_node, "it"), [RemoveNode(node="777", edges="cut")]).graph
    assert form.dump_keeping_text(without, with_node) == data


@pytest.mark.parametrize(("name", "path"), sample(third(texts(), 2), 3))
def test_an_edge_that_was_cut_and_a_renamed_input_leave_other_nodes_alone(name, path):
    form, text = FORMATS[name], text_of(name, path)
    graph, lines = form.load(text, "it"), lines_of_nodes(text)
    by_id = {
        spec.id: spec.extra.get("dify", {}).get("id", spec.id) if name == "dify" else spec.id for spec in graph.nodes
    }
    for edge in graph.edges[:2]:
        ends = {"source": edge.source, "target": edge.target, "port": edge.port}
        try:
            edited = apply(graph, [Disconnect(**ends)]).graph
            again = apply(edited, [Connect(**ends)]).graph
        except InvalidError:  # an edge out of the start of a container, which is not the file's
            continue
        for each in (edited, again):
            after = form.dump_keeping_text(each, text.encode()).decode()
            inside = [
                line for first, last in (lines[i] for i in by_id.values() if i in lines) for line in range(first, last)
            ]
            lost = [line for line in lost_lines(text, after) if name == "dify" and line in inside]
            assert lost == [], (edge, lost)
    start = next((spec for spec in graph.nodes if spec.type == "start" and spec.params.get("variables")), None)
    if start:
        inputs = start.params["variables"]
        first = inputs[0][0] if isinstance(inputs[0], list) else next(iter(inputs))
        try:
            edited = apply(graph, [RenameVariable(node=start.id, old=first, new="renamed")])
        except InvalidError:
            return
        touched = {by_id[spec.id] for spec in edited.graph.nodes if spec not in graph.nodes}
        after = form.dump_keeping_text(edited.graph, text.encode()).decode()
        others = [line for i, (first, last) in lines.items() if i not in touched for line in range(first, last + 1)]
        own = [line for i, (first, last) in lines.items() if i in touched for line in range(first, last + 2)]
        assert [line for line in lost_lines(text, after) if line in others and line not in own] == []


STYLES = [{"indent": 2}, {"indent": "\t"}, {"separators": (",", ":")}, {}, {"indent": 4, "ensure_ascii": False}]
API = {
    "1": {"class_type": "Text", "inputs": {"text": "né \U0001f600", "scale": 1.50, "size": {"__value__": []}}},
    "2": {"class_type": "Show", "inputs": {"text": ["1", 0], "on": True}},
}


def test_one_value_of_a_real_workflow_of_comfyui_changes_alone(shared_data):
    for path in sample(sorted((shared_data / "comfyui" / "workflows").iterdir()), 8):
        form, data = FORMATS["comfyui"], path.read_bytes()
        graph = form.load(data, "it")
        assert form.dump_keeping_text(graph, data) == data
        values = [(spec.id, place, value) for spec in graph.nodes for place, value in leaves(spec.params)]
        for node, place, value in values[:1]:
            edited = apply(graph, [SetParam(node=node, path=path_of(place), value=other(value))]).graph
            gone, come = changed_lines(data, form.dump_keeping_text(edited, data))
            # a page of ComfyUI may hold a value twice: with and without its name
            assert len(gone) == len(come) <= 2, path.name
            forms = [json.dumps(value, ensure_ascii=escaped)[:20] for escaped in (True, False)]
            assert all(forms[0] in line or forms[1] in line for line in gone), path.name


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
@pytest.mark.parametrize("style", STYLES)
def test_json_keeps_its_layout(style, end):
    text = json.dumps(API, **style).replace("1.5,", "1.50,").replace("\n", end or "\n") + end
    form = FORMATS["comfyui-api"]
    edited = apply(form.load(text, "it"), [SetParam(node="2", path="on", value=False)]).graph
    assert form.dump_keeping_text(edited, text.encode()) == text.replace("true", "false").encode()


def test_code_keeps_its_comments_and_its_layout():
    code = "# first\n\nVALUE_1 = A( a=1 )  # 1\n# then\nB(x = VALUE_1, n=2)  # 2\n# end\n"
    form = FORMATS["comfyui-code"]
    edited = apply(form.load(code, "it"), [SetParam(node="2", path="n", value=3)]).graph
    after = form.dump_keeping_text(edited, code.encode()).decode().splitlines()
    assert form.load("\n".join(after), "it") == edited
    assert after == [*code.splitlines()[:4], "B(n=3, x=VALUE_1)  # 2", "# end"]


FLOW = """\
# mine
schema_version: 1.0.0
name: t   # its name
id: 1
description: ''
mode: workflow
icon: plugin_icon/workflow.png
nodes:
  - {id: "100001", type: start, title: S, parameters: {node_outputs: {q: {type: string, required: true}}}}
  # asks
  - id: "100002"
    type: llm
    title: "Ask"
    parameters:
      node_inputs: [{name: a, input: {type: string, value: {path: q, ref_node: "100001"}}}]
      llmParam:
        - {name: temperature, input: {type: float, value: "0.9"}}
        - {name: prompt, input: {type: string, value: "Say {{a}}"}}
        - {name: systemPrompt, input: {type: string, value: Be brief.}}
      node_outputs: {output: {type: string}}
  - {id: "900001", type: end, title: E, parameters: {node_inputs: [{name: r, input: {type: string, value: {path: output, ref_node: "100002"}}}], terminatePlan: returnVariables}}
edges:
  - {source_node: "100001", target_node: "100002"}
  - {source_node: "100002", target_node: "900001"}
"""


def test_an_archive_keeps_the_text_of_its_files_and_what_a_node_says_besides():
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("W/MANIFEST.yml", "type: Workflow\nversion: 1.0.0\nmain: {id: 1, name: t}  # main\n")
        archive.writestr("W/workflow/t-draft.yaml", FLOW)
    form = FORMATS["coze"]
    edited = apply(form.load(stream.getvalue(), "t"), [SetParam(node="100002", path="system", value="Be long.")]).graph
    with zipfile.ZipFile(io.BytesIO(form.dump_keeping_text(edited, stream.getvalue()))) as archive:
        assert archive.read("W/workflow/t-draft.yaml").decode() == FLOW.replace("Be brief.", "Be long.")


OUTSIDE = BACKWARDS.replace("variables: []", "variables: [{variable: s, value_selector: [sys, query]}]").replace(
    'template: "x"', 'template: "{{ s }}"'
)


def test_the_start_stays_as_it_is_when_nothing_reads_a_value_from_outside_any_more():
    after = dify(
        OUTSIDE, SetParam(node="9", path="variables", value=[]), SetParam(node="9", path="template", value="y")
    )
    assert after.splitlines()[-1] == OUTSIDE.splitlines()[-1]


def test_an_app_that_becomes_a_graph_keeps_the_text_of_the_app():
    text = (DATA / "dify_cases" / "app-chat.yml").read_text().replace("name: case", "name:   'case' # mine")
    after = dify(text, AddNode(id="777", type="template-transform", params={"template": "x"}))
    assert "  name:   'case' # mine\nkind: app\nversion: 0.4.0\nworkflow:" in after


def test_a_graph_without_an_app_is_one_of_dify_whatever_its_nodes_are():
    node = "{id: a, data: {type: http-request, title: H, method: get, url: 'http://a.b', params: ''}}"
    text = f"edges:\n- {{source: s, target: a}}\nnodes:\n- {{id: s, data: {{type: start}}}}\n- {node}\n"
    found = find_format(text.encode())
    assert found
    assert found.name == "dify"
