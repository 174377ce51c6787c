"""Iterations of Dify whose result is a variable of their own: the item, or its place in the list."""

import pytest
import yaml

from operad.flows.assemble import assemble
from operad.flows.formats.table import FORMATS
from operad.integrations.dify.format import load
from operad.operators.nodes import NODE_TYPES
from operad.operators.services import Services
from operad.runtime import Job
from operad.runtime.values.errors import OperadError


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
