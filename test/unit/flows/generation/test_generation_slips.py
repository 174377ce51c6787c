"""Slips in parameters and operations that have one meaning."""

from __future__ import annotations

from operad.flows.edit.batch import read_operations
from operad.flows.edit.paths import steps_of, with_value
from operad.flows.generation.drafting import params_of
from operad.flows.generation.nodes_shown import whole
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.operators.nodes import NODE_TYPES


def test_a_choice_is_read_in_any_case_and_a_type_by_a_word_of_another_language():
    assert params_of(NODE_TYPES["request"], {"method": "POST"}) == {"method": "post"}
    declared = params_of(
        NODE_TYPES["start"], {"variables": [{"name": "a", "type": "str"}, {"name": "b", "type": "Text"}]}
    )
    assert declared == {"variables": [["a", "string"], ["b", "string"]]}


def test_a_variable_is_read_from_an_object_with_the_id_of_its_node():
    outputs = [{"name": "a", "value": {"node_id": 3, "variable": "text"}}]
    assert params_of(NODE_TYPES["end"], {"outputs": outputs}) == {"outputs": [["a", ["text", "3"]]]}


def test_an_operation_may_give_the_id_of_a_node_as_a_number():
    [operation] = read_operations([{"op": "remove_node", "node": 3}])
    assert operation.model_dump()["node"] == "3"


def test_a_path_may_give_the_place_in_a_list_after_a_dot():
    assert with_value({"outputs": [{"value": 1}]}, steps_of("outputs.0.value"), 2) == {"outputs": [{"value": 2}]}


def test_the_port_of_a_node_with_several_ports_is_shown_also_if_it_is_the_first():
    ask = {"question": "Send?", "actions": [["yes", "Send"], ["no", "Leave it"]]}
    nodes = [NodeSpec("1", "human-input", ask), NodeSpec("2", "end", {"outputs": []})]
    shown = whole(NodeGraph(nodes, [Edge("1", "2")]), NODE_TYPES)
    assert "2 end after 1:0: " in shown
