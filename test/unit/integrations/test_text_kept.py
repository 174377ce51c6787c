"""An edit of a file of any format with a text-preserving writer changes the lines of what was edited, and no others."""

import random
from difflib import SequenceMatcher
from pathlib import Path

import pytest
import yaml
from amounts import amount, sample

from operad.flows.edit import AddNode, RemoveNode, SetParam, apply, new_issues
from operad.flows.edit.paths import path_of
from operad.flows.formats.table import FORMATS
from operad.runtime.values.errors import InvalidError

DATA = Path(__file__).parents[1] / "data"
OTHER_FORMS = ("form-", "refused-", "app-")
"""Beginnings of names of Dify files that have no app around their graph, or no graph."""

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
    """The files in Dify's form, and in Operad's form."""
    for path in FILES:
        yield pytest.param("dify", path.read_text(), id=path.stem)
    for path in FILES[::4]:
        graph = FORMATS["dify"].load(path)
        yield pytest.param("operad", FORMATS["operad"].dump(graph).decode(), id=f"operad-{path.stem}")
    yield pytest.param("dify", BACKWARDS, id="backwards")


@pytest.mark.parametrize(("name", "text"), sample(texts(), 9))
def test_a_changed_value_changes_lines_of_its_node_only(name, text):
    form = FORMATS[name]
    graph = form.load(text, "it")
    issues, lines = form.check(graph), lines_of_nodes(text)
    ids = {
        spec.id: spec.extra.get("dify", {}).get("id", spec.id) if name == "dify" else spec.id for spec in graph.nodes
    }
    values = [
        (spec, path, value) for spec in graph.nodes for path, value in leaves(spec.params) if path[0] not in SHARED
    ]
    random.Random(7).shuffle(values)  # noqa: S311 - the same sample in each run
    for spec, path, value in values[: amount(4, 10**9)]:
        try:
            edited = apply(graph, [SetParam(node=spec.id, path=path_of(path), value=other(value))])
        except InvalidError:
            continue
        if path[0] == "outputs" and path[2:] == (0,):  # a renamed output, of which readers state the type
            continue
        if new_issues(issues, form.check(edited.graph)):  # such as a renamed variable, whose readers change their types
            continue
        after = form.dump_keeping_text(edited.graph, text.encode()).decode()
        first, last = lines[ids[spec.id]]
        assert [line for line in lost_lines(text, after) if not first <= line <= last + 1] == [], (spec.id, path)


@pytest.mark.parametrize(("name", "text"), sample(texts(), 9))
def test_a_new_node_leaves_all_others_as_they_are_and_is_gone_without_a_trace(name, text):
    form = FORMATS[name]
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
