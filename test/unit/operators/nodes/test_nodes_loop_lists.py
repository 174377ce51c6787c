"""A loop goes through lists and collects what its passes come to; conditions compare lengths."""

import pytest

from operad.flows.assemble import assemble
from operad.flows.check import check
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.operators.conditions import compare, fault_of
from operad.operators.nodes import NODE_TYPES
from operad.operators.variables import VariableType
from operad.runtime.testing import ScriptedReasoner
from operad.runtime.values.errors import OperadError


def looping(**params):
    nodes = [
        NodeSpec("1", "start", {"variables": [["l", "array[string]"], ["m", "array[number]"]]}),
        NodeSpec("2", "loop", {"loop_count": 3, "lists": [["each", ["l", "1"]], ["n", ["m", "1"]]], **params}),
        NodeSpec("2-1", "loop-start", {}, "2"),
        NodeSpec(
            "2-2",
            "template-transform",
            {"variables": [["a", ["each", "2"]], ["n", ["n", "2"]]], "template": "{{a}}{{n}}"},
            "2",
        ),
        NodeSpec("2-3", "assigner", {"assignments": [[["last", "2"], "set", ["output", "2-2"]]]}, "2"),
        NodeSpec("3", "end", {"outputs": [["all", ["all", "2"]], ["end", ["end", "2"]], ["rounds", ["rounds", "2"]]]}),
    ]
    edges = [Edge("1", "2"), Edge("2-1", "2-2"), Edge("2-2", "2-3"), Edge("2", "3")]
    return NodeGraph(nodes, edges, "looping")


KEPT = {
    "variables": [["last", "string", ""]],
    "collected": [["all", ["output", "2-2"]], ["end", ["last", "2"]]],
}


def run(graph, **inputs):
    return assemble(graph, NODE_TYPES).run(inputs, ScriptedReasoner([])).message.outputs


def test_a_loop_ends_with_its_shortest_list_and_gives_what_it_collected():
    outputs = run(looping(**KEPT), l=["a", "b", "c"], m=[1, 2])
    assert outputs == {"all": ["a1", "b2"], "end": "b2", "rounds": 2}
    assert run(looping(**KEPT), l=[], m=[1]) == {"all": [], "end": "", "rounds": 0}


def test_a_list_that_is_longer_than_the_count_of_passes_is_an_error_not_a_shorter_result():
    with pytest.raises(OperadError, match="4 items"):
        run(looping(**KEPT), l=list("abcd"), m=[1, 2, 3, 4])


def test_wrong_lists_and_outputs_of_a_loop_are_reported():
    wrong = {**KEPT, "lists": [["last", ["l", "1"]]], "collected": [["all", ["other", "2"]], ["end", ["x", "9"]]]}
    found = check(looping(**wrong), NODE_TYPES)
    assert [(each.where, each.code) for each in found if each.where == "2"] == [
        ("2", "undefined-node"),
        ("2", "param"),
        ("2", "param"),
    ]


@pytest.mark.parametrize(
    ("value", "operator", "number", "holds"),
    [
        ("figs", "length >", "3", True),
        ("fig", "length ≥", "3", True),
        (["a"], "length <", "1", False),
        (None, "length ≤", "0", True),
        ("无花果", "length ≤", "3", True),
    ],
)
def test_conditions_compare_the_length_of_texts_and_lists(value, operator, number, holds):
    assert compare(value, operator, number) is holds


def test_a_length_is_a_number_and_only_texts_and_lists_have_one():
    assert fault_of("length >", "three", VariableType.STRING)
    assert fault_of("length >", "3", VariableType.NUMBER)
    assert not fault_of("length >", "3", VariableType.ARRAY_STRING)
