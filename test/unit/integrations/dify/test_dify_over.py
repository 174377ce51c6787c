"""A changed workflow over Dify's file: nodes stay where they stand, and what is the same keeps its text."""

import difflib
from pathlib import Path

import pytest
import yaml
from amounts import sample

from operad.flows.assemble import assemble
from operad.flows.edit.batch import apply
from operad.flows.edit.short import parse
from operad.flows.formats.table import FORMATS
from operad.integrations.dify.format import DIFY, keep_positions, load
from operad.operators.nodes import NODE_TYPES
from operad.operators.services import Services
from operad.runtime import Job
from operad.runtime.values.errors import OperadError

DATA = Path(__file__).parents[2] / "data"
OTHER_FORMS = ("form-", "refused-", "app-")
"""Beginnings of names of files that have no app around their graph, or no graph: they are written with both."""

FILES = [
    file
    for file in sorted((*DATA.glob("dify/*.yml"), *DATA.glob("dify_cases/*.yml")))
    if not file.stem.startswith(OTHER_FORMS)
]

FILE = """\
# exported by hand
kind: app
version: 0.4.0
app: {mode: workflow, name: translate}   # what it is called
workflow:
    graph:
        nodes:
            -   id: 's'
                type: custom
                position: {x: 0, y: 0}
                data:
                    type: start
                    title: "Begin"
                    variables:
                        - {variable: text, label: text, type: paragraph, required: true}
            # the one that does the work
            -   data:
                    title: Translate
                    type: llm
                    model:
                        {mode: chat, name: qwen-plus, provider: langgenius/tongyi/tongyi, completion_params: {}}
                    prompt_template:
                        - role: user
                          text: >-
                            Translate this:
                            {{#s.text#}}
                type: custom
                id: 't'
                position:
                    x: 304
                    y: 0
            -   id: 'e'
                type: custom
                position: {x: 608, y: 0}
                data:
                    type: end
                    title: End
                    outputs:
                        - {variable: result, value_selector: [t, text]}
        edges:
            -   {id: s-t, source: s, sourceHandle: source, target: t, targetHandle: target}
            -   id: t-e
                source: t
                sourceHandle: source
                target: e
                targetHandle: target
    features: {}
"""


def changed(text, *operations):
    """The file after operations, and the lines that it lost and got."""
    graph = load(text.encode(), "translate")
    edited = apply(graph, [each for operation in operations for each in parse(operation)])
    after = DIFY.dump_keeping_text(edited.graph, text.encode()).decode()
    lines = list(difflib.unified_diff(text.splitlines(), after.splitlines(), n=0, lineterm=""))[2:]
    return after, [line[1:] for line in lines if line[0] == "-"], [line[1:] for line in lines if line[0] == "+"]


def nodes(text):
    return {node["id"]: node for node in yaml.safe_load(text)["workflow"]["graph"]["nodes"]}


@pytest.mark.parametrize("file", sample(FILES, 4), ids=lambda file: file.stem)
def test_a_file_without_a_change_stays_to_the_letter(file):
    data = file.read_bytes()
    assert DIFY.dump_keeping_text(load(data, "it"), data) == data


def test_a_file_in_another_layout_stays_to_the_letter():
    assert changed(FILE) == (FILE, [], [])


def test_a_change_touches_its_own_field_only():
    after, lost, got = changed(FILE, 'set t user "Translate kindly: {{#s.text#}}"')
    assert lost == [
        "                          text: >-",
        "                            Translate this:",
        "                            {{#s.text#}}",
    ]
    assert got == ["                          text: 'Translate kindly: {{#s.text#}}'"]
    assert nodes(after)["t"]["position"] == {"x": 304, "y": 0}


def test_a_new_node_stands_behind_the_one_before_it_and_the_others_stay():
    after, lost, got = changed(FILE, "insert_between t e id=u type=template-transform template=x")
    assert {name: (node["position"]["x"], node["position"]["y"]) for name, node in nodes(after).items()} == {
        "s": (0, 0),
        "t": (304, 0),
        "u": (608, 150),  # below the end, which stands where the new node would
        "e": (608, 0),
    }
    assert lost == ["                target: e"]  # of the edge, which leads to the new node now
    assert "            - data:" in got


def test_what_is_gone_goes_with_its_comment():
    after, lost, got = changed(FILE, "remove_node t")
    assert lost[0].strip() == "# the one that does the work"
    edge = "            -   {id: s-t, source: s, sourceHandle: source, target: e, targetHandle: target}"
    assert got == [edge]  # the edge from s leads to e now
    assert nodes(after)["e"] == nodes(FILE)["e"]


def at(x, y, **more):
    return {"position": {"x": x, "y": y}, "positionAbsolute": {"x": x, "y": y}, "width": 100, "height": 50, **more}


def test_a_node_that_holds_a_new_one_grows_and_the_new_one_stands_in_it():
    old = [at(500, 300, id="i", width=300, height=200), at(60, 68, id="a", parentId="i")]
    new = [at(0, 0, id="i", width=900, height=500), at(60, 68, id="a", parentId="i"), at(9, 9, id="b", parentId="i")]
    outer, _, inner = keep_positions(new, [{"source": "a", "target": "b"}], old)
    assert outer == {**old[0], "width": 380, "height": 200}
    assert inner == {**new[2], "position": {"x": 220, "y": 68}, "positionAbsolute": {"x": 720, "y": 368}}


def test_places_that_are_no_numbers_are_kept_and_count_as_none():
    old = [{"id": "a", "position": {"x": "left", "y": float("nan")}, "width": 10**400}]
    first, second = keep_positions([at(0, 0, id="a"), at(0, 0, id="b")], [{"source": "a", "target": "b"}], old)
    assert first["position"] is old[0]["position"]
    assert second["position"] == {"x": 304, "y": 0}


def test_nodes_inside_one_another_in_a_circle_end():
    made = keep_positions([at(0, 0, id="a", parentId="b"), at(0, 0, id="b", parentId="a")], [], [])
    assert [node["id"] for node in made] == ["a", "b"]


@pytest.mark.parametrize("text", [FILE.replace("name: qwen-plus", "name: &m qwen-plus"), FILE.replace("\n", "\r\n")])
def test_a_text_that_cannot_be_kept_is_written_anew_with_the_same_values(text):
    after, _, _ = changed(text, 'set t user "Kindly: {{#s.text#}}"')
    same, _, _ = changed(FILE, 'set t user "Kindly: {{#s.text#}}"')
    assert yaml.safe_load(after) == yaml.safe_load(same)


@pytest.mark.parametrize("old", [b"", b"[]\n", b"a: 1\n", b"app: {}\n", b"workflow: {graph: 3}\n", b"workflow:\n"])
def test_over_what_is_no_workflow_of_dify_a_workflow_is_written_anew(old):
    graph = load(FILE, "translate")
    assert DIFY.dump_keeping_text(graph, old) == DIFY.dump(graph)


def test_inputs_keep_their_labels_and_limits_when_others_come_and_go_and_a_new_default_is_written():
    given = FILE.replace("label: text, type", "label: Your text, max_length: 9, type")
    for operations in (["add_input n number"], ["rename_variable s text words"], ["set s defaults.text x"]):
        after, _, _ = changed(given.replace("required: true", "required: false"), *operations)
        first, *_ = nodes(after)["s"]["data"]["variables"]
        assert (first["label"], first["max_length"], first["type"]) == ("Your text", 9, "paragraph")
    assert first["default"] == "x"


# Iterations of Dify whose result is a variable of their own: the item, or its place in the list


def app(result):
    inside = {"isInIteration": True, "iteration_id": "i"}
    datas = {
        "s": {"type": "start", "variables": []},
        "c": {
            "type": "code", "code_language": "python3", "code": "def main():\n    return {'l': ['a', 'b']}\n",
            "outputs": {"l": {"type": "array[string]", "children": None}}, "variables": [],
        },
        "i": {"type": "iteration", "iterator_selector": ["c", "l"], "output_selector": result, "start_node_id": "is"},
        "is": {"type": "iteration-start", **inside},
        "t": {
            "type": "template-transform", "template": "{{ x }}", **inside,
            "variables": [{"variable": "x", "value_selector": ["i", "item"]}],
        },
        "e": {"type": "end", "outputs": [{"variable": "all", "value_selector": ["i", "output"]}]},
    }  # fmt: skip
    nodes = [
        {"id": name, "data": {"title": name, **data}, **({"parentId": "i"} if "isInIteration" in data else {})}
        for name, data in datas.items()
    ]
    edges = [{"source": source, "target": target} for source, target in ("sc", "ci", "ie", ("is", "t"))]
    whole = {"app": {"mode": "workflow"}, "kind": "app", "workflow": {"graph": {"nodes": nodes, "edges": edges}}}
    return yaml.safe_dump(whole).encode()


@pytest.mark.parametrize(("name", "results"), [("item", ["a", "b"]), ("index", [0, 1])])
def test_the_result_of_an_iteration_may_be_its_own_item_or_index(name, results):
    workflow = assemble(load(app(["i", name])), NODE_TYPES, services=Services())
    assert workflow.run(Job("Go")).message.outputs == {"all": results}


def test_an_iteration_has_no_other_variable_inside_that_can_be_its_result():
    assert [(each.code, each.where) for each in FORMATS["dify"].check(load(app(["i", "output"])))] == [
        ("undefined-variable", "i")
    ]


@pytest.mark.parametrize(("failing", "stored"), [("e", "b"), ("x", "a")])  # after the iteration, in its first item
def test_a_variable_that_an_item_set_is_stored_though_what_follows_fails(failing, stored):
    inside = {"isInIteration": True, "iteration_id": "i"}
    whole = yaml.safe_load(app(["i", "item"]))
    whole["app"]["mode"] = "advanced-chat"
    whole["workflow"]["conversation_variables"] = [{"name": "last", "value_type": "string", "value": "", "id": "v"}]
    graph = whole["workflow"]["graph"]
    nodes = {node["id"]: node for node in graph["nodes"]}
    nodes["t"]["data"] = {
        "title": "t", "type": "assigner", "version": "2", **inside,
        "items": [{
            "variable_selector": ["conversation", "last"], "input_type": "variable", "operation": "over-write",
            "value": ["i", "item"],
        }],
    }  # fmt: skip
    for name, around in (("e", {}), ("x", inside)):
        body = "raise ValueError('no')" if name == failing else "return {'x': ''}"
        nodes[name] = {"id": name, "data": {
            "title": name, "type": "code", "code_language": "python3", "code": f"def main():\n    {body}\n",
            "outputs": {"x": {"type": "string"}}, "variables": [], **around,
        }, **({"parentId": "i"} if around else {})}  # fmt: skip
    nodes["a"] = {"id": "a", "data": {"title": "a", "type": "answer", "answer": "done"}}
    graph["nodes"] = list(nodes.values())
    graph["edges"] += [{"source": "e", "target": "a"}, {"source": "t", "target": "x"}]
    services = Services()
    workflow = assemble(load(yaml.safe_dump(whole).encode()), NODE_TYPES, services=services)
    with pytest.raises(OperadError):
        workflow.run(Job("Go", session_id="s"))
    assert services.conversations.get("s") == {"last": stored}
