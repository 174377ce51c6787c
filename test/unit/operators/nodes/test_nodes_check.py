"""The full static check of typed nodes: each fault, with its place and what to do."""

import copy
import json
from typing import Any

import pytest
from amounts import amount, sample
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from operad.flows.assemble import assemble
from operad.flows.check import MOST_LEVELS, check
from operad.flows.formats.chat2workflow import issues_of, load, parent_of
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.integrations.dify.format import DIFY
from operad.operators.nodes import CHAT2WORKFLOW_TYPES, NODE_TYPES
from operad.runtime import InvalidError
from operad.runtime.values import near_names

START = ("1", "start", {"variables": [["x", "string"], ["xs", "array[string]"], ["f", "file"], ["n", "number"]]})
TEXT = ("2", "template-transform", {"variables": [["x", ["x", "1"]]], "template": "{{ x }}"})
END = ("9", "end", {"outputs": [["out", ["output", "2"]]]})
EDGES = (("1", "2"), ("2", "9"))
EACH = ("5", "iteration", {"iterator_selector": ["xs", "1"], "output_selector": ["output", "5-2"]})
FIRST = ("5-1", "iteration-start", {})
INNER = ("5-2", "template-transform", {"variables": [["x", ["item", "5"]]], "template": "{{ x }}"})
INSIDE = (("1", "5"), ("5-1", "5-2"))


def graph_of(nodes, edges):
    return NodeGraph(
        [NodeSpec(name, kind, params, parent_of(name)) for name, kind, params in nodes], [Edge(*e) for e in edges]
    )


def found(nodes, edges):
    """Code, place and message of each issue."""
    return [(issue.code, issue.where, issue.message) for issue in check(graph_of(nodes, edges), NODE_TYPES)]


def beside(*nodes, edges=()):
    """What is wrong with nodes beside a sound workflow; an edge leads to the first of them from the text."""
    return found((START, TEXT, *nodes, END), (*EDGES, ("2", nodes[0][0]), *edges))


def node(kind, **params):
    """What is wrong with such a node "3" beside a sound workflow."""
    return beside(("3", kind, params))


def test_a_sound_graph_has_no_issues():
    assert found((START, TEXT, EACH, FIRST, INNER, END), (*EDGES, *INSIDE)) == []


# Each code


CASES = {
    "duplicate-id": ([START, TEXT, TEXT, END], EDGES, ("duplicate-id", "2", "2 nodes have this id; each needs its own id")),
    "unknown type with a near name": ([START, ("2", "template-transfrom", {}), END], EDGES,
     ("unknown-type", "2", "'template-transfrom' is not a node type (did you mean 'template-transform'?)")),
    "unknown type": ([START, ("2", "zzz", {}), END], EDGES, ("unknown-type", "2", f"'zzz' is not a node type; there are: {', '.join(NODE_TYPES)}")),
    "missing-param": ([START, ("2", "template-transform", {"variables": []}), END], EDGES, ("missing-param", "2", "template: is missing")),
    "unknown-param": ([START, ("2", "template-transform", {"variables": [], "template": "", "templte": ""}), END], EDGES,
     ("unknown-param", "2", "templte: is not a parameter (did you mean 'template'?); there are: variables, template")),
    "param": ([START, ("2", "template-transform", {"variables": [], "template": 3}), END], EDGES, ("param", "2", "template: must be text, not 3")),
    "a value that is nearly a permitted one": ([START, TEXT, ("3", "markdown-exporter", {"target_type": "docs", "md_text": "x"}), END], [*EDGES, ("2", "3")],
     ("param", "3", 'target_type: must be \'docx\', \'pptx\', \'pdf\', \'png\', \'html\', \'md\' or \'xlsx\', not "docs" (did you mean \'docx\'?)')),
    "a selector where a text is needed": ([START, TEXT, ("3", "llm", {"system": "", "user": ["output", "2"]}), END], [*EDGES, ("2", "3")],
     ("param", "3", 'user: a text is needed; name the variable in it, {{#2.output#}}, not ["output", "2"]')),
    "two texts where one is needed": ([START, TEXT, ("3", "llm", {"system": "", "user": ["Sum up:", "{{#2.output#}}"]}), END], [*EDGES, ("2", "3")],
     ("param", "3", 'user: must be text, not ["Sum up:", "{{#2.output#}}"]')),
    "a named value without its name": ([START, TEXT, ("9", "end", {"outputs": ["out"]})], EDGES,
     ("param", "9", 'outputs[0]: must be [name, value], or an object with these keys, not "out"')),
    "a named value with too many items": ([START, TEXT, ("9", "end", {"outputs": [["out", "output", "2"]]})], EDGES,
     ("param", "9", 'outputs[0]: must be [name, value], or an object with these keys, not ["out", "output", "2"]')),
    "a key that a named value does not have": ([START, TEXT, ("9", "end", {"outputs": [{"name": "out", "value": ["output", "2"], "vlaue": 1}]})], EDGES,
     ("unknown-param", "9", "outputs[0].vlaue: is not a field (did you mean 'value'?); there are: name, value")),
    "a selector written the other way round": ([START, TEXT, ("9", "end", {"outputs": [["out", ["2", "output"]]]})], EDGES,
     ("undefined-node", "9", "outputs[0].value: '2' of 'output': there is no node 'output' (did you mean 'output' of '2'?)")),
    "undefined-node": ([START, TEXT, ("9", "end", {"outputs": [["out", ["output", "22"]]]})], EDGES,
     ("undefined-node", "9", "outputs[0].value: 'output' of '22': there is no node '22' (did you mean '2'?)")),
    "undefined-variable": ([START, TEXT, ("9", "end", {"outputs": [["out", ["outptu", "2"]]]})], EDGES,
     ("undefined-variable", "9", "outputs[0].value: 'outptu' of '2': node '2' (template-transform) has no variable 'outptu' (did you mean 'output'?); it has: output")),
    "a part that files do not have": ([START, TEXT, ("9", "end", {"outputs": [["out", ["f.kind", "1"]]]})], EDGES,
     ("undefined-variable", "9", "outputs[0].value: 'f.kind' of '1': 'f' is a file, which has no 'kind'; it has: type, name, size, extension, mime_type, transfer_method, url, remote_url, related_id; its text is what a document-extractor gives")),
    "not-before": ([START, ("2", "template-transform", {"variables": [["x", ["output", "3"]]], "template": "{{ x }}"}), ("3", "template-transform", {"variables": [], "template": "hi"}), END], [*EDGES, ("2", "3")],
     ("not-before", "2", "variables[0].value: 'output' of '3': reads '3', which does not run before it")),
    "itself": ([START, ("2", "template-transform", {"variables": [["x", ["output", "2"]]], "template": "{{ x }}"}), END], EDGES,
     ("not-before", "2", "variables[0].value: 'output' of '2': reads itself")),
    "a branch beside it": ([START, TEXT, ("3", "llm", {"system": "", "user": "{{#2.output#}}"}), END], [*EDGES, ("1", "3")],
     ("not-before", "3", "user: 'output' of '2': reads '2', which does not run before it")),
    "an edge into an iteration": ([START, TEXT, EACH, FIRST, INNER, END], [*EDGES, *INSIDE, ("2", "5-2")],
     ("crosses-border", "2 → 5-2", "'5-2' runs inside '5'; edges from outside end, and edges to outside begin, at '5' itself")),
    "an edge out of an iteration": ([START, TEXT, EACH, FIRST, INNER, END], [*EDGES, *INSIDE, ("5-2", "9")],
     ("crosses-border", "5-2 → 9", "'5-2' runs inside '5'; edges from outside end, and edges to outside begin, at '5' itself")),
    "a reference into an iteration": ([START, TEXT, EACH, FIRST, INNER, ("9", "end", {"outputs": [["out", ["output", "5-2"]]]})], [*EDGES, *INSIDE, ("5", "9")],
     ("crosses-border", "9", "outputs[0].value: 'output' of '5-2': '5-2' runs inside '5', and only what '5' gives can be read outside")),
    "the item outside": ([START, TEXT, EACH, FIRST, INNER, ("9", "end", {"outputs": [["out", ["item", "5"]]]})], [*EDGES, *INSIDE, ("5", "9")],
     ("undefined-variable", "9", "outputs[0].value: 'item' of '5': node '5' (iteration) has no variable 'item'; it has: output")),
    "nodes inside of what holds none": ([START, TEXT, ("2-1", "template-transform", {"variables": [], "template": "hi"}), END], EDGES,
     ("crosses-border", "2", "nothing can run inside a node of type 'template-transform': 2-1")),
    "an end inside an iteration": ([START, TEXT, EACH, FIRST, INNER, ("5-3", "end", {"outputs": [["out", ["output", "5-2"]]]}), END], [*EDGES, *INSIDE, ("5-2", "5-3")],
     ("crosses-border", "5-3", "names results of the workflow, which would be lost inside '5'; put it after '5'")),
    "edge-to-own-start": ([START, TEXT, EACH, FIRST, INNER, END], [*EDGES, *INSIDE, ("5", "5-1")],
     ("edge-to-own-start", "5 → 5-1", "what runs inside '5' begins by itself; leave this edge out")),
    "dangling-edge": ([START, TEXT, END], [*EDGES, ("22", "9")], ("dangling-edge", "22 → 9", "there is no node '22' (did you mean '2'?)")),
    "no ports": ([START, TEXT, END], [("1", "2"), ("2", "9", 1)], ("port-out-of-range", "2 → 9", "'2' (template-transform) has no port 1; it has only port 0")),
    "port-out-of-range": ([START, TEXT, ("3", "if-else", {"cases": [[None, [[["x", "1"], "is", "a"]]]]}), END], [*EDGES, ("2", "3"), ("3", "9", 2)],
     ("port-out-of-range", "3 → 9", "'3' (if-else) has no port 2; it has 0 to 1: 0, else")),
    "a port below 0": ([START, TEXT, END], [("1", "2"), ("2", "9", -1)],
     ("port-out-of-range", "2 → 9", "'2' (template-transform) has no port -1; it has only port 0")),
    "no-start": ([("2", "template-transform", {"variables": [], "template": "hi"}), END], [("2", "9")], ("no-start", "", "there is no node of type 'start'")),
    "no start inside": ([START, TEXT, EACH, INNER, END], [*EDGES, ("1", "5")],
     ("no-start", "5", "what runs inside it begins with one of type 'iteration-start', and there is none")),
    "several-starts": ([START, ("7", "start", {"variables": []}), TEXT, END], [*EDGES, ("7", "2")],
     ("several-starts", "", "there can be one of type 'start', not 1, 7")),
    "several starts inside": ([START, TEXT, EACH, FIRST, ("5-3", "iteration-start", {}), INNER, END], [*EDGES, *INSIDE, ("5-3", "5-2")],
     ("several-starts", "5", "there can be one of type 'iteration-start', not 5-1, 5-3")),
    "no-end": ([START, TEXT], [("1", "2")], ("no-end", "", "there is no node of type 'end' or 'answer', and so no result")),
    "isolated": ([START, TEXT, ("3", "template-transform", {"variables": [], "template": "hi"}), END], EDGES, ("isolated", "3", "no edge leads to it or from it")),
    "unreachable": ([START, TEXT, ("3", "template-transform", {"variables": [], "template": "hi"}), END], [*EDGES, ("3", "9")],
     ("unreachable", "3", "no path leads to it from '1'")),
    "outside-body": ([START, TEXT, ("5", "iteration", {"iterator_selector": ["xs", "1"], "output_selector": ["output", "2"]}), FIRST, END], [*EDGES, ("1", "5")],
     ("outside-body", "5", "output_selector: '2' does not run inside '5'")),
    "a result of nobody": ([START, TEXT, ("5", "iteration", {"iterator_selector": ["xs", "1"], "output_selector": ["output", "5-3"]}), FIRST, INNER, END], [*EDGES, *INSIDE],
     ("undefined-node", "5", "output_selector: there is no node '5-3' (did you mean '5-2'?)")),
    "a result that is not there": ([START, TEXT, ("5", "iteration", {"iterator_selector": ["xs", "1"], "output_selector": ["text", "5-2"]}), FIRST, INNER, END], [*EDGES, *INSIDE],
     ("undefined-variable", "5", "output_selector: 'text' of '5-2': node '5-2' (template-transform) has no variable 'text'; it has: output")),
    "inside of nobody": ([START, TEXT, ("7-1", "iteration-start", {}), END], EDGES, ("undefined-node", "7-1", "belongs inside '7', which is not there")),
    "an id that is taken": ([START, TEXT, ("conversation", "template-transform", {"variables": [], "template": ""}), END], [*EDGES, ("2", "conversation")],
     ("duplicate-id", "conversation", "this id is taken; give it another")),
    "an edge of the conversation": ([START, ("conversation", "conversation", {"variables": []}), TEXT, END], [*EDGES, ("conversation", "1")],
     ("crosses-border", "conversation → 1", "a node of type 'conversation' has no edges; leave this one out")),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_fault_of_the_graph_is_found(name):
    nodes, edges, issue = CASES[name]
    assert found(nodes, edges) == [issue]


@pytest.mark.parametrize("outcome", ["<outcome>", "<end>"])
def test_ids_of_what_ends_a_workflow_are_taken(outcome):
    nodes = [START, TEXT, (outcome, "template-transform", {"variables": [], "template": ""}), END]
    assert found(nodes, [*EDGES, ("2", outcome)]) == [("duplicate-id", outcome, "this id is taken; give it another")]


def test_a_cycle_is_named_all_around():
    nodes = [START, *((name, "template-transform", {"variables": [], "template": ""}) for name in "234"), END]
    edges = [("1", "2"), ("2", "3"), ("3", "4"), ("4", "2"), ("4", "9")]
    [(code, where, message)] = found(nodes, edges)
    assert (code, where in "234") == ("cycle", True)
    assert message.removeprefix("each of these leads to the next: ") in (
        "2 → 3 → 4 → 2",
        "3 → 4 → 2 → 3",
        "4 → 2 → 3 → 4",
    )


def test_a_node_that_runs_inside_itself_is_a_cycle():
    specs = [NodeSpec(*each) for each in (START, TEXT, END)]
    specs += [NodeSpec("a", "iteration", {}, parent="b"), NodeSpec("b", "iteration", {}, parent="a")]
    issues = check(NodeGraph(specs, [Edge(*edge) for edge in EDGES]), NODE_TYPES)
    assert [(i.where, i.message) for i in issues if i.code == "cycle"] == [
        ("a", "runs inside itself: a, b, a"),
        ("b", "runs inside itself: b, a, b"),
    ]


def test_nodes_too_deep_inside_others_are_said_once():
    ids = ["5" + "-5" * depth for depth in range(500)]
    nodes = [(name, "iteration", {"iterator_selector": ["xs", "1"], "output_selector": ["x", "1"]}) for name in ids]
    [issue] = [issue for issue in found([START, TEXT, END, *nodes], EDGES) if issue[0] == "too-deep"]
    assert issue[1:] == (ids[MOST_LEVELS + 1], "runs inside more than 16 nodes")


def test_an_empty_workflow_is_said():
    assert found([], []) == [("no-nodes", "", "the workflow has no nodes")]


# Parameters and types


@pytest.mark.parametrize(
    "text", ["{{#x#}}", "{{#2.#}}", "{{#.output#}}", "{{#2.out put#}}", "{{#2.output}}", "{{##}}", "{{#'2.output#}}"]
)
def test_a_misshapen_reference_is_said(text):
    expected = ("misshapen-reference", "3", f"{text} names no variable; write {{{{#id.variable#}}}}")
    assert node("llm", system="", user=f"Say {text}.") == [expected]


@pytest.mark.parametrize(
    ("kind", "params", "said"),
    [
        ("llm", {"system": "{{#1.f#}}", "user": "hi"}, "system: 'f' of '1' is file, and what is needed is string, "),
        ("iteration", {"iterator_selector": ["x", "1"], "output_selector": ["y", "1"]}, "iterator_selector: 'x' of '1' is "),
        ("list-operator", {"variable": ["n", "1"], "operator": ["limit", 1]}, "variable: 'n' of '1' is number, and what"),
        ("document-extractor", {"variable_selector": ["x", "1"]}, "variable_selector: 'x' of '1' is string, and what is needed is file, array[file]"),
        ("http-request", {"url": ["f", "1"]}, "url: 'f' of '1' is file, and what is needed is string"),
        ("question-classifier", {"query_variable_selector": ["f", "1"], "classes": ["a", "b"]}, "query_variable_selector: 'f'"),
        ("tts", {"text": "{{#1.f#}}"}, "text: 'f' of '1' is file, "),
        ("code", {"variables": [["n", ["n", "1"]]], "outputs": [["a", "number"]], "code": "def main(n):\n  return {'a': sum(n)}"}, "variables[0]: 'n' is number, but main iterates over it"),
    ],
)  # fmt: skip
def test_a_variable_of_the_wrong_type_is_said(kind, params, said):
    [(code, where, message)] = [issue for issue in node(kind, **params) if issue[0] == "wrong-type"]
    assert (code, where) == ("wrong-type", "3")
    assert message.startswith(said)


COMPARISONS = (
    "contains, not contains, start with, end with, is, is not, in, not in, empty, not empty, "
    "length >, length ≥, length <, length ≤, exists, not exists"
)


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ([["x", "1"], "conatins", "a"], f"'conatins' is not a comparison of a string (did you mean 'contains'?); there are: {COMPARISONS}"),
        ([["n", "1"], "contains", "1"], "'contains' is not a comparison of a number; there are: =, ≠, >, <, ≥, ≤, empty, not empty, exists, not exists"),
        ([["n", "1"], ">", "many"], "\"many\" is not a number, which '>' needs here"),
        ([["x", "1"], "is"], "'is' needs a value to compare with"),
        ([["f", "1"], "is", "a"], "'is' is not a comparison of a file; there are: exists, not exists"),
    ],
)  # fmt: skip
def test_a_comparison_that_a_type_does_not_have_is_said(condition, said):
    assert node("if-else", cases=[[None, [condition]]]) == [("param", "3", f"cases[0].conditions[0]: {said}")]


def test_a_number_to_compare_with_may_be_named_by_a_variable():
    assert node("if-else", cases=[[None, [[["n", "1"], ">", "{{#1.x#}}"]]]]) == []


@pytest.mark.parametrize(
    ("operator", "said"),
    [
        (["limt", 2], "operator: 'limt' is not an operation (did you mean 'limit'?); there are: extract_by, limit, order_by, filter_by"),
        (["limit", -1], "operator: limit needs a whole number from 0, not [-1]"),
        (["extract_by", "first"], 'operator: extract_by needs a whole number from 1, not ["first"]'),
        (["order_by", "up"], 'operator: order_by needs asc or desc, not ["up"]'),
        (["filter_by", ">", "3"], f"operator: '>' is not a comparison of a string; there are: {COMPARISONS}"),
    ],
)  # fmt: skip
def test_an_operation_on_a_list_that_there_is_none_of_is_said(operator, said):
    assert node("list-operator", variable=["xs", "1"], operator=operator) == [("param", "3", said)]


def test_variables_of_different_types_are_not_brought_together():
    [issue] = node("variable-aggregator", variables=[["x", "1"], ["n", "1"], ["output", "2"]])
    assert issue == (
        "param",
        "3",
        "variables[1]: '1.n' is number, and the others are string; make them of one type before, by a template or code node",
    )


def test_code_that_the_sandbox_cannot_run_is_said():
    code = "import numpy\ndef main(x):\n    return {}"
    [issue] = node("code", variables=[["x", ["x", "1"]]], outputs=[["a", "string"]], code=code)
    assert issue[:2] == ("import", "3")
    assert issue[2].startswith("code: line 1: import numpy: ")
    issues = node("code", variables=[["y", ["x", "1"]]], outputs=[["a", "string"]], code="def main(x):\n    return {}")
    assert [issue[:2] for issue in issues] == [("param", "3")] * 2
    assert all(issue[2].startswith("variables: ") for issue in issues)
    [issue] = node("code", variables=[], outputs=[["a", "string"]], code="def main(:")
    assert issue[0] == "code"
    assert issue[2].startswith("code: ")


@pytest.mark.parametrize(
    ("template", "code", "said"),
    [
        ("{{ y }}", "undefined-variable", "template: 'y' is not among its variables"),
        ("{{ lin }}", "undefined-variable", "template: 'lin' is not among its variables (did you mean 'line'?)"),
        ("{{#1.x#}}", "reference", "template: line 1: {{#1.x#}}: "),
        ("{% for %}", "template", "template: the template failed at line 1, "),
        ("{{ line | uper }}", "template", "template: the template failed at line 1, "),
        ("{% include 'a' %}", "template", "template: line 1: there are no other templates here; write all in one"),
    ],
)
def test_a_template_that_cannot_be_rendered_is_said(template, code, said):
    [issue] = node("template-transform", variables=[["line", ["x", "1"]]], template=template)
    assert issue[:2] == (code, "3")
    assert issue[2].startswith(said)


def test_a_name_that_jinja_takes_for_itself_is_said():
    assert node("template-transform", variables=[["self", ["x", "1"]]], template="{{ self }}") == [
        ("param", "3", "variables: 'self' is reserved by Jinja; rename the variable")
    ]


def test_what_comes_before_by_a_long_way_can_be_read_and_what_comes_beside_cannot():
    line = [(str(n), "template-transform", {"variables": [], "template": "x"}) for n in range(10, 90)]
    beside_it = ("100", "template-transform", {"variables": [["x", ["output", "50"]]], "template": "{{ x }}"})
    last = ("200", "answer", {"answer": "{{#10.output#}} {{#1.x#}} {{#100.output#}}"})
    way = [(str(n), str(n + 1)) for n in range(10, 89)]
    issues = found((START, *line, beside_it, last), [("1", "10"), *way, ("89", "200"), ("1", "100"), ("100", "200")])
    assert [issue[:2] for issue in issues] == [("not-before", "100")]


@pytest.mark.parametrize(
    ("kind", "params", "where"),
    [
        ("code", {"variables": [], "outputs": [["a", "string"]] * 2, "code": "def main():\n  return {}"}, "outputs: 'a'"),
        ("parameter-extractor", {"query": ["x", "1"], "parameters": [["", "a", "string"]] * 2, "instruction": ""}, "parameters: 'a'"),
        ("question-classifier", {"query_variable_selector": ["x", "1"], "classes": ["a", "a"]}, "classes: 'a'"),
        ("end", {"outputs": [["a", ["x", "1"]]] * 2}, "outputs: 'a'"),
    ],
)  # fmt: skip
def test_a_name_that_is_there_twice_is_said(kind, params, where):
    assert node(kind, **params) == [("param", "3", f"{where} is there 2 times")]


def test_a_model_has_something_to_do():
    assert node("llm", system=" ", user="")[0][2] == "user: is empty, and so is system: say what the model is to do"


def test_of_a_type_that_runs_others_with_broken_parameters_only_these_are_said():
    nodes = (START, TEXT, ("5", "iteration", {"iterator_selector": ["xs", "1"]}), FIRST, INNER, END)
    assert found(nodes, (*EDGES, *INSIDE)) == [("missing-param", "5", "output_selector: is missing")]


def test_of_an_unknown_type_around_others_only_this_is_said():
    nodes = (START, TEXT, ("5", "iteraton", {}), FIRST, INNER, END)
    assert found(nodes, (*EDGES, *INSIDE)) == [
        ("unknown-type", "5", "'iteraton' is not a node type (did you mean 'iteration'?)")
    ]


# Loops, assigners, conversations

LOOP = ("5", "loop", {"loop_count": 3, "variables": [["i", "number", 0], ["s", "string", "a"]]})
TALK = ("conversation", "conversation", {"variables": [["said", "array[string]", []]]})


def assigner(*assignments):
    """What is wrong with an assigner inside a loop."""
    nodes = [LOOP, ("5-1", "loop-start", {}), ("5-2", "assigner", {"assignments": assignments}), TALK]
    return beside(*nodes, edges=[("5-1", "5-2")])


@pytest.mark.parametrize(
    ("assignments", "code", "said"),
    [
        ([[["i", "5"], "set", "a"]], "wrong-type", 'assignments[0]: "a" is not a valid number'),
        ([[["i", "5"], "set", ["x", "1"]]], "wrong-type", "assignments[0]: '1.x' is string, and set needs number"),
        ([[["s", "5"], "add", 1]], "wrong-type", "assignments[0]: add needs number, and '5.s' is string"),
        ([[["s", "5"], "append", "b"]], "wrong-type", "assignments[0]: append needs array, and '5.s' is string"),
        ([[["i", "5"], "add"]], "param", "assignments[0]: add needs a value"),
        ([[["n", "1"], "set", 1]], "crosses-border", "'n' of '1': here only variables of '5', which it runs inside of, and of the conversation can be set"),
        ([[["j", "5"], "set", 1]], "undefined-variable", "assignments[0].variable: 'j' of '5': node '5' (loop) has no variable 'j'"),
    ],
)  # fmt: skip
def test_what_cannot_be_assigned_is_said(assignments, code, said):
    [issue] = assigner(*assignments)
    assert issue[:2] == (code, "5-2")
    assert issue[2].startswith(said)


def test_what_can_be_assigned_is_not():
    assert assigner([["i", "5"], "add", 1], [["s", "5"], "set", "{{#1.x#}}"], [["i", "5"], "clear"]) == []


def test_variables_of_one_name_of_two_holders_are_not_assigned_by_one_node():
    nodes = [("conversation", "conversation", {"variables": [["n", "number", 0]]})]
    assignments = [[["n", "conversation"], "add", 1], [["n", "1"], "add", 1]]
    issues = beside(("3", "assigner", {"assignments": assignments}), *nodes)
    assert ("param", "3", "assignments: 'n' is there 2 times") in issues


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"variables": [["i", "number", "a"]]}, 'variables[0]: "a" is not a valid number'),
        ({"variables": [["i", "number", 0], ["i", "string", ""]]}, "variables: 'i' is there 2 times"),
        ({"break_conditions": [[["i", "5"], ">", "3"]]}, "break_conditions[0]: '5.i' is not a variable of this loop; it has: index"),
        ({"variables": [["i", "number", 0]], "break_conditions": [[["i", "5"], "contains", "3"]]}, "break_conditions[0]: 'contains' is no"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_loop_is_said(params, said):
    [issue] = beside(("5", "loop", {"loop_count": 2, **params}), ("5-1", "loop-start", {}))
    assert issue[:2] == ("param", "5")
    assert issue[2].startswith(said)


@pytest.mark.parametrize(
    ("condition", "code", "said"),
    [
        ([["n", "5-2"], "contains", "3"], "param", "break_conditions[0]: 'contains' is not a comparison of a number"),
        ([["m", "5-2"], "=", "3"], "undefined-variable", "break_conditions[0].variable: 'm' of '5-2': node '5-2' (code) has no"),
        ([["n", "7"], "=", "3"], "undefined-node", "break_conditions[0].variable: 'n' of '7': there is no node '7'"),
        ([["answer", "6"], "is", "3"], "not-before", "break_conditions[0].variable: 'answer' of '6': reads '6', which does"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_condition_on_another_node_is_said(condition, code, said):
    count = {"variables": [], "outputs": [["n", "number"]], "code": "def main():\n    return {'n': 1}"}
    loop = ("5", "loop", {"loop_count": 2, "break_conditions": [condition]})
    nodes = [loop, ("5-1", "loop-start", {}), ("5-2", "code", count), ("6", "answer", {"answer": "a"})]
    [issue] = beside(*nodes, edges=[("5-1", "5-2"), ("5", "6")])
    assert issue[:2] == (code, "5")
    assert issue[2].startswith(said)


def test_the_initial_value_of_a_loop_is_of_no_node_inside():
    loop = ("5", "loop", {"loop_count": 2, "variables": [["i", "string", ["text", "5-2"]]]})
    inside = (("5-1", "loop-start", {}), ("5-2", "llm", {"system": "", "user": "a"}))
    [issue] = beside(loop, *inside, edges=[("5-1", "5-2")])
    assert issue[:2] == ("crosses-border", "5")


def test_a_conversation_has_its_id_and_values_of_its_types():
    [issue] = beside(("3", "conversation", {"variables": [["n", "number", "a"]]}))[:1]
    assert issue[0] == "crosses-border"
    issues = found((START, TEXT, ("talk", "conversation", {"variables": [["n", "number", "a"]]}), END), EDGES)
    assert issues == [
        ("param", "talk", "id: a node of this type has the id 'conversation'"),
        ("param", "talk", 'variables[0]: "a" is not a valid number'),
    ]


# All at once


def test_all_faults_are_found_at_once():
    nodes = [
        ("1", "start", {"variables": [["x", "strnig"]]}),
        ("2", "llm", {"system": ""}),
        ("3", "llmm", {}),
        ("4", "llm", {"system": "", "user": "{{#7.text#}} {{#oh}}"}),
        ("5", "iteration", {"iterator_selector": ["x", "1"], "output_selector": ["text", "4"]}),
    ]
    edges = [("1", "2"), ("2", "3"), ("3", "4", 4), ("4", "1"), ("8", "2")]
    codes = {code for code, _, _ in found(nodes, edges)}
    assert codes == {
        "param", "missing-param", "unknown-type", "misshapen-reference", "dangling-edge", "no-end", "isolated", "cycle",
        "undefined-node", "outside-body", "no-start", "not-before",
    }  # fmt: skip


def test_a_node_with_an_unreadable_parameter_has_its_others_checked():
    end = ("3", "end", {"outputs": [["r", ["t", "9"]]], "mood": 1})
    issues = check(graph_of([START, TEXT, end], [("1", "2"), ("2", "3")]), NODE_TYPES)
    assert [(issue.code, issue.where) for issue in issues] == [("unknown-param", "3"), ("undefined-node", "3")]


def test_what_is_not_sound_is_refused_with_every_issue():
    graph = graph_of([START, TEXT], [("1", "2"), ("2", "9")])
    with pytest.raises(InvalidError) as caught:
        assemble(graph, NODE_TYPES)
    assert [issue.code for issue in caught.value.issues] == ["dangling-edge", "no-end"]


# The format Chat2Workflow


def text_of(nodes, edges):
    listed = [{"id": name, "type": kind, "param": params} for name, kind, params in nodes]
    return json.dumps({"nodes_info": listed, "edges": [[source, 0, target] for source, target in edges]})


def test_order_is_a_rule_of_this_format_alone():
    graph = load(text_of([START, END, TEXT], EDGES))
    assert check(graph, NODE_TYPES) == []
    [issue] = issues_of(graph, NODE_TYPES)
    assert (issue.code, issue.where, issue.message) == (
        "order",
        "9",
        "refers to '2', which stands after it in the list",
    )


def test_an_iteration_may_name_what_stands_after_it_as_its_result():
    assert issues_of(load(text_of([START, TEXT, EACH, FIRST, INNER, END], (*EDGES, *INSIDE))), NODE_TYPES) == []


@pytest.mark.parametrize(
    ("text", "where", "said"),
    [
        ('{"nodes_info": [\n  {"id": }]}', "line 2, column 10", "is not JSON: Expecting value"),
        ("", "line 1, column 1", "is not JSON: Expecting value"),
        ("[" * 100_000, "workflow", "is not JSON that can be read: "),
        ("[]", "", 'must be an object with "nodes_info" and "edges"'),
        ('{"nodes_inf": [], "edges": []}', "nodes_info", "is missing (did you mean 'nodes_inf'?)"),
        ('{"plan": {"nodes_info": [], "edges": []}}', "nodes_info", "is missing; it is inside 'plan', and must be at the root"),
        ('{"nodes_info": {}, "edges": []}', "nodes_info", "must be a list"),
        ('{"nodes_info": [3], "edges": []}', "nodes_info[0]", "must be an object with id, type and param"),
        ('{"nodes_info": [{"id": 1, "type": "end"}], "edges": []}', "nodes_info[0]", "id: must be a text"),
        ('{"nodes_info": [{"id": "1", "kind": "end"}], "edges": []}', "nodes_info[0]", "type: is missing"),
        ('{"nodes_info": [{"id": "1", "type": "end", "param": []}], "edges": []}', "nodes_info[0]", "param: must be an object"),
        ('{"nodes_info": [{"id": "1", "type": "end", "params": {}}], "edges": []}', "nodes_info[0]", "params: is not a key of a node (did you mean 'param'?)"),
        ('{"nodes_info": [], "edges": [["1", "2"]]}', "edges[0]", 'must be [source, port, target], not ["1", "2"]; for example ["1", 0, "2"]'),
        ('{"nodes_info": [], "edges": [["1", true, "2"]]}', "edges[0]", 'must be [source, port, target], not ["1", true, "2"]'),
    ],
)  # fmt: skip
def test_what_is_no_such_workflow_is_said_with_its_place(text, where, said):
    with pytest.raises(InvalidError) as caught:
        load(text)
    issue = caught.value.issues[0]
    assert issue.where == where
    assert issue.message.startswith(said)


def test_a_whole_response_is_read():
    text = f"<design_principle>…</design_principle><workflow>{text_of([START, TEXT, END], EDGES)}</workflow>"
    assert issues_of(load(text), NODE_TYPES) == []


# Recorded workflows


def recorded(folder):
    for file in sorted(folder.glob("chat2workflow/*/*.json")):
        for record in json.loads(file.read_text(encoding="utf-8")) if file.parent.name != "dataset" else []:
            yield record["workflow"] or ""


def issues_in(text):
    """What is wrong with a text, and its graph; never any other error."""
    try:
        graph = load(text)
    except InvalidError as error:
        return list(error.issues), None
    return issues_of(graph, NODE_TYPES), graph


def test_recorded_workflows_are_checked_and_the_sound_ones_are_assembled(shared_data):
    total = sound = 0
    for text in sample(recorded(shared_data), 8):
        total += 1
        issues, graph = issues_in(text)
        assert all(issue.code and issue.message for issue in issues)
        if graph is not None and not check(graph, NODE_TYPES):
            sound += 1
            assert assemble(graph, NODE_TYPES).graph().check() == []
    assert total == amount(79, 632)
    assert sound >= amount(18, 150)


# Whatever comes


SCALAR = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12)
JSON: Any = st.deferred(
    lambda: SCALAR | st.lists(JSON, max_size=3) | st.dictionaries(st.text(max_size=8), JSON, max_size=3)
)
IDS = st.sampled_from(["1", "2", "3", "3-1", "3-2", "3-2-1", "-", "--", "conversation", "<end>", "1.x", " ", "9"])
NAMES = st.sampled_from(["x", "output", "item", "text", "x.y", ""])
VALUE = (
    JSON
    | st.tuples(NAMES, IDS).map(list)
    | st.lists(st.tuples(NAMES, st.tuples(NAMES, IDS).map(list)).map(list), max_size=3)
    | st.builds("{{{{#{}.{}#}}}}".format, IDS, NAMES)
)


@st.composite
def nodes(draw):
    kind = draw(st.sampled_from([*NODE_TYPES, "zzz"]))
    fields = list(NODE_TYPES[kind].params_type.model_fields) if kind in NODE_TYPES else []
    params = dict(NODE_TYPES[kind].example) if kind in NODE_TYPES else {}
    for name in draw(st.lists(st.sampled_from([*fields, "more"]), max_size=2)):
        params[name] = draw(VALUE)
    return {"id": draw(IDS), "type": kind, "param": params}


EDGE = st.tuples(IDS, st.integers(-1, 3), IDS).map(list)
QUIET = settings(
    max_examples=amount(15, 80),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@QUIET
@given(JSON | st.fixed_dictionaries({"nodes_info": JSON, "edges": JSON}))
def test_no_json_makes_it_raise_anything_but_issues(data):
    issues_in(json.dumps(data))


@QUIET
@given(st.text())
def test_no_text_makes_it_raise_anything_but_issues(text):
    issues_in(text)


@QUIET
@given(st.lists(nodes(), max_size=6), st.lists(EDGE, max_size=8))
def test_no_nodes_make_it_raise_and_what_is_sound_is_assembled(listed, edges):
    issues, graph = issues_in(json.dumps({"nodes_info": listed, "edges": edges}))
    if graph is not None and not [issue for issue in issues if issue.code != "order"]:
        assert assemble(graph, NODE_TYPES).graph().check() == []


@pytest.mark.parametrize("turned", [False, True])
def test_two_nodes_with_one_id_of_which_one_has_an_unknown_type_are_reported(turned):
    known = {"id": "2", "type": "end", "param": {"outputs": [["x", ["y", "9"]]]}}
    listed = [known, {"id": "2", "type": "zzz", "param": {}}]
    start = {"id": "1", "type": "start", "param": {"variables": []}}
    listed = [start, *(listed[::-1] if turned else listed)]
    issues, _ = issues_in(json.dumps({"nodes_info": listed, "edges": [["1", 0, "2"]]}))
    assert {issue.code for issue in issues} >= {"duplicate-id", "unknown-type", "undefined-node"}


def is_json(text):
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


@st.composite
def mutated(draw, texts):
    """A recorded workflow with some of its values replaced, left out, or put in again elsewhere."""
    data = json.loads(texts[draw(st.integers(0, len(texts) - 1))])
    for _ in range(draw(st.integers(1, 4))):
        holder: Any = None
        key: Any = None
        inner: Any = data
        while isinstance(inner, dict | list) and inner and draw(st.integers(0, 6)):
            holder, key = inner, draw(st.sampled_from(sorted(inner) if isinstance(inner, dict) else range(len(inner))))
            inner = inner[key]
        if holder is None:
            continue
        match draw(st.integers(0, 3)):
            case 0:
                del holder[key]
            case 1:
                holder[key] = draw(VALUE)
            case 2 if isinstance(holder, list):
                holder.append(copy.deepcopy(inner))
            case _:
                holder[key] = copy.deepcopy(data)
    return data


def test_no_change_to_a_recorded_workflow_makes_it_raise_anything_but_issues(shared_data):
    texts = [text for text in recorded(shared_data) if is_json(text)]

    changed = mutated(texts).map(json.dumps)

    @QUIET
    @given(st.data())
    def holds(data):
        issues, graph = issues_in(data.draw(changed, label="a changed workflow"))
        if graph is not None and not [issue for issue in issues if issue.code != "order"]:
            assert assemble(graph, NODE_TYPES).graph().check() == []

    holds()


def deep(levels):
    value = "x"
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("levels", [50, 240, 260, 500, 900, 5000])
@pytest.mark.parametrize("kind", ["llm", "list-operator", "tool", "assigner", "loop", "if-else"])
def test_parameters_nested_deep_are_issues_or_sound(levels, kind):
    params = dict(NODE_TYPES[kind].example)
    for name in params:
        specs = [NodeSpec("1", kind, {**params, name: deep(levels)})]
        assert all(issue.message for issue in check(NodeGraph(specs), NODE_TYPES))


@pytest.mark.parametrize(
    "text", ["{{#" + " " * 50_000, "{{#" * 30_000, "{{#a." * 20_000, "{{#'" * 20_000, "{{#a.b " * 20_000]
)
def test_long_texts_of_half_references_are_read_at_once(text):
    issues = node("llm", system="", user=text)
    assert all(code == "misshapen-reference" for code, _, _ in issues)


def test_the_types_of_the_format_are_twenty():
    assert len(CHAT2WORKFLOW_TYPES) == 20


def test_near_names_of_many_bad_references_are_looked_for_in_bounded_work(monkeypatch):
    compared = []
    monkeypatch.setattr(near_names, "near_name", lambda name, known: compared.append(len(list(known))) or "")
    count = amount(500, 2_000)
    nodes = [
        NodeSpec(f"n{number}", "llm", {"system": "", "user": f"{{{{#m{number}.text#}}}}"}) for number in range(count)
    ]
    nodes.append(NodeSpec("s", "start", {"variables": [[f"x{number}", "string"] for number in range(count)]}))
    nodes.append(NodeSpec("e", "end", {"outputs": [[f"y{number}", [f"y{number}", "s"]] for number in range(count)]}))
    edges = [Edge("s", f"k{number}") for number in range(count)] + [Edge("s", "e")]
    issues = check(NodeGraph(nodes, edges), NODE_TYPES)
    assert sum(issue.code == "undefined-node" for issue in issues) == count
    assert sum(issue.code == "undefined-variable" for issue in issues) == count
    assert 0 < sum(compared) <= near_names.MOST_COMPARED
    assert max(len(issue.message) for issue in issues) < 2_000


# Parts of files

FILE_HAS = "it has: type, name, size, extension, mime_type, transfer_method, url, remote_url, related_id, filename; its text is what a document-extractor gives"


def of_files(kind, **params):
    """What is wrong with code or a template that gets a file and a list of files."""
    start = ("1", "start", {"variables": [["doc", "file"], ["docs", "array[file]"], ["o", "object"]]})
    given = [[name, [name, "1"]] for name in ("doc", "docs", "o")]
    output = {"outputs": [["output", "string"]]} if kind == "code" else {}
    nodes = (start, ("2", kind, {"variables": given, **output, **params}), END)
    return [message for code, _, message in found(nodes, EDGES) if code == "file-part"]


@pytest.mark.parametrize(
    ("template", "told"),
    [
        ("# {{ doc.file_name }}", f"template: line 1: 'doc' is a file, which has no 'file_name' (did you mean 'filename'?); {FILE_HAS}"),
        ("\n{{ doc['title'] | upper }}", f"template: line 2: 'doc' is a file, which has no 'title'; {FILE_HAS}"),
        ("{% for each in docs %}{{ each.text }}{% endfor %}", f"template: line 1: an item of 'docs' is a file, which has no 'text'; {FILE_HAS}"),
        ("{{ docs[0].text }}", f"template: line 1: an item of 'docs' is a file, which has no 'text'; {FILE_HAS}"),
    ],
)  # fmt: skip
def test_a_template_that_reads_what_files_do_not_have_is_told_what_they_have(template, told):
    assert of_files("template-transform", template=template) == [told]


@pytest.mark.parametrize(
    "template",
    [
        "{{ doc.name }} {{ doc['mime_type'] }} {{ doc.filename }} {{ doc }} {{ o.title }} {{ docs.title }} {{ doc.items() }}",
        "{% for each in docs %}{{ each.name }} {{ loop.index }}{% endfor %}",
        "{% if doc.title %}{{ doc.title }}{% endif %}{{ doc.id or doc.name }}{{ doc.text | default('none') }}",
        "{% set doc = o %}{{ doc.title }}{% for o in docs %}{% for docs in o %}{{ docs.title }}{% endfor %}{% endfor %}",
    ],
)
def test_a_template_may_read_what_files_have_and_what_it_can_do_without(template):
    assert of_files("template-transform", template=template) == []


def main(*lines):
    return "def main(doc, docs, o):\n" + "".join(f"    {line}\n" for line in lines) + "    return {'output': ''}"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("t = doc['title']", f"code: line 2: 'doc' is a file, which has no 'title'; {FILE_HAS}"),
        ("t = doc.get('id')", f"code: line 2: 'doc' is a file, which has no 'id'; {FILE_HAS}"),
        ("t = [each['text'] for each in docs]", f"code: line 2: an item of 'docs' is a file, which has no 'text'; {FILE_HAS}"),
        ("t = docs[0]['text']", f"code: line 2: an item of 'docs' is a file, which has no 'text'; {FILE_HAS}"),
        ("t = doc.name", "code: line 2: in code, a file is an object: write ['name'], not .name"),
    ],
)  # fmt: skip
def test_code_that_reads_what_files_do_not_have_is_told_what_they_have(line, told):
    assert of_files("code", code=main(line)) == [told]


@pytest.mark.parametrize(
    "lines",
    [
        ["t = doc['name'] + doc.get('extension') + o['title'] + str(doc.keys())"],
        ["if 'title' in doc:", "    t = doc['title']"],
        ["try:", "    t = doc['title']", "except KeyError:", "    t = ''"],
        ["t = doc.get('title') or doc['name']", "u = doc.get('id', '')"],
        ["doc = o", "t = doc['title']"],
        ["for each in docs:", "    each = o", "    t = each['title']"],
    ],
)
def test_code_may_read_what_files_have_and_what_it_can_do_without(lines):
    assert of_files("code", code=main(*lines)) == []


def test_a_reference_to_what_files_do_not_have_is_told_what_they_have():
    wrong = node("llm", system="", user="{{#1.f.title#}}")
    has = "it has: type, name, size, extension, mime_type, transfer_method, url, remote_url, related_id; its text is what a document-extractor gives"
    told = f"user: 'f.title' of '1': 'f' is a file, which has no 'title'; {has}"
    assert wrong == [("undefined-variable", "3", told)]


def test_files_of_an_imported_dify_workflow_have_other_parts_which_are_empty_here():
    nodes = (("1", "start", {"variables": [["doc", "file"]]}), ("2", "template-transform", {"variables": [["doc", ["doc", "1"]]], "template": "{{ doc.id }}"}), END)  # fmt: skip
    graph = graph_of(nodes, EDGES)
    assert [issue.code for issue in check(graph, NODE_TYPES)] == ["file-part"]
    imported = DIFY.load(DIFY.dump(graph).replace(b"description: ''", b"description: of Dify", 1), "imported")
    assert check(imported, NODE_TYPES) == []
