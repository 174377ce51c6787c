"""Operations on workflows: what each does and refuses, all of them or none, and nothing else touched."""

import copy
import json
import re
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from amounts import amount, sample
from answer_forms import validate
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from operad.flows.edit import (
    OPERATIONS,
    AddInput,
    AddNode,
    Connect,
    InsertBetween,
    RemoveNode,
    RenameVariable,
    SetParam,
    apply,
    difference,
    in_json,
    new_issues,
    parse,
    read_operations,
    schema,
)
from operad.flows.formats.chat2workflow import dump, issues_of, load
from operad.flows.formats.format import check_nodes
from operad.flows.formats.operad import OPERAD
from operad.flows.formats.table import FORMATS
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec, flowchart
from operad.flows.repair import repair_graph
from operad.operators.nodes import NODE_TYPES
from operad.runtime.values.errors import InputError, InvalidError

FLOW = b"""
workflow: greet
sticky_notes:
  1: {text: Mind the **hours**.}
nodes:
  1: {type: start, variables: [[name, string], [names, 'array[string]']]}
  2: {type: if-else, after: 1, cases: [[null, [[[name, '1'], empty]]]]}
  3: {type: llm, after: 2, system: '', user: Greet nobody.}
  4: {type: llm, after: {2: else}, system: Be kind., user: "Greet {{#'1'.name#}}, {{#1.name#}}, {{# 1.names #}}."}
  5: {type: variable-aggregator, after: [3, 4], variables: [[text, '3'], [text, '4']]}
  6:
    type: iteration
    after: 5
    iterator_selector: [names, '1']
    output_selector: [output, 6-2]
    nodes:
      6-1: {type: iteration-start}
      6-2: {type: template-transform, after: 6-1, variables: [[name, [name, '1']]], template: "{{ name }} {{ 'name' }}"}
  7: {type: code, after: 6, variables: [[said, [output, '5']]], outputs: [[size, number]], code: "def main(said):\\n    return {'size': len(said)}"}
  8: {type: end, after: 7, outputs: [[all, [output, '6']], [size, [size, '7']]]}
"""


@pytest.fixture
def graph():
    return OPERAD.load(FLOW, "greet")


def edit(graph, *texts):
    return apply(graph, [operation for text in texts for operation in parse(text)])


def lines(graph, *texts):
    return str(edit(graph, *texts).changes).splitlines()


def refused(graph, *texts):
    with pytest.raises(InvalidError) as caught:
        edit(graph, *texts)
    return [(issue.code, issue.where, issue.message) for issue in caught.value.issues]


def test_the_workflow_of_these_tests_is_sound(graph):
    assert check_nodes(graph) == []


# Each operation


DONE = {
    "set 2 cases[0].conditions[0].variable 1.names": ['~ node 2 cases[0].conditions[0].variable: "1.name" → "1.names"'],
    "set 8 outputs.all 5.output": ['~ node 8 outputs.all: "6.output" → "5.output"'],
    'add_node 9 template-transform \'variables={"a":"1.name"}\' template=x': ['+ node 9 (template-transform): {"variables": {"a": "1.name"}, "template": "x"}'],
    'add_branch 2 \'{"conditions": [{"variable": "1.name", "operator": "empty"}]}\'': [
        '~ node 2 +cases[1]: {"conditions": [{"variable": "1.name", "operator": "empty"}]}',
        "- edge 2 port 1 → 4",
        "+ edge 2 port 2 → 4",
    ],
    "add_node 9 llm system=x user=y": ['+ node 9 (llm): {"system": "x", "user": "y"}'],
    "add_node 6-3 llm": ["+ node 6-3 (llm) inside 6"],
    "add_node 9 llm inside=6": ["+ node 9 (llm) inside 6"],
    "remove_node 7": [
        '- node 7 (code): {"variables": {"said": "5.output"}, "outputs": {"size": "number"}, "code": "def … (125 characters)',
        "- edge 6 → 7",
        "- edge 7 → 8",
        "+ edge 6 → 8",
    ],
    "remove_node 3 cut": ['- node 3 (llm): {"system": "", "user": "Greet nobody."}', "- edge 2 → 3", "- edge 3 → 5"],
    'rename_node 4 "Greet a person"': ['~ node 4 +title: "Greet a person"'],
    'set 4 system "Be brief."': ['~ node 4 system: "Be kind." → "Be brief."'],
    "set 2 cases[0][1][0][1] 'not empty'": ['~ node 2 cases[0].conditions[0].operator: "empty" → "not empty"'],
    'set 1 variables[2] \'["n", "number"]\'': ['~ node 1 +variables.n: "number"'],
    "replace_text 4 user Greet Praise": [
        "~ node 4 user: \"Greet {{#'1'.name#}}, {{#1.name#}}, {{# 1.names #}}.\" → " "\"Praise {{#'1'.name#}}, {{#1.name#}}, {{# 1.names #}}.\"",
    ],
    "connect 2 5": ["+ edge 2 → 5"],
    "connect 2 5 else": ["+ edge 2 port 1 → 5"],
    "disconnect 3 5": ["- edge 3 → 5"],
    "insert_between 2 4 9 llm system=x user=y": ['+ node 9 (llm): {"system": "x", "user": "y"}', "- edge 2 port 1 → 4", "+ edge 2 port 1 → 9", "+ edge 9 → 4"],
    """add_branch 2 '["or", [[["name", "1"], "is", "Bob"]]]' 0""": [
        '~ node 2 +cases[0]: {"logic": "or", "conditions": [{"variable": "1.name", "operator": "is", "value":… (89 characters)',
        "- edge 2 → 3",
        "- edge 2 port 1 → 4",
        "+ edge 2 port 1 → 3",
        "+ edge 2 port 2 → 4",
    ],
    "rename_variable 1 name person": [
        '~ node 1 -variables.name: "string"',
        '~ node 1 +variables.person: "string"',
        '~ node 2 cases[0].conditions[0].variable: "1.name" → "1.person"',
        "~ node 4 user: \"Greet {{#'1'.name#}}, {{#1.name#}}, {{# 1.names #}}.\" → \"Greet {{#'1'.person#}}, {{#1.person#}}, {{# 1.names #}}.\"",
        '~ node 6-2 variables.name: "1.name" → "1.person"',
    ],
    "rename_variable 6-2 name who": [
        '~ node 6-2 -variables.name: "1.name"',
        '~ node 6-2 +variables.who: "1.name"',
        "~ node 6-2 template: \"{{ name }} {{ 'name' }}\" → \"{{ who }} {{ 'name' }}\"",
    ],
    "rename_variable 7 size length": [
        '~ node 7 -outputs.size: "number"',
        '~ node 7 +outputs.length: "number"',
        "~ node 7 code: \"def main(said):\\n    return {'size': len(said)}\" → \"def main(said):\\n    return {'length': len(said)}\"",
        '~ node 8 outputs.size: "7.size" → "7.length"',
    ],
    "rename_variable 7 said text": [
        '~ node 7 -variables.said: "5.output"',
        '~ node 7 +variables.text: "5.output"',
        "~ node 7 code: \"def main(said):\\n    return {'size': len(said)}\" → \"def main(text):\\n    return {'size': len(text)}\"",
    ],
    "rename_variable 8 all lines": ['~ node 8 -outputs.all: "6.output"', '~ node 8 +outputs.lines: "6.output"'],
    "add_input n number": ['~ node 1 +variables.n: "number"'],
    "remove_input names": ['~ node 1 -variables.names: "array[string]"'],
    "add_output said 5.output": ['~ node 8 +outputs.said: "5.output"'],
    "remove_output size": ['~ node 8 -outputs.size: "7.size"'],
    "set_note 1 color=blue": ['~ sticky note 1: "Mind the **hours**."'],
    "set_note b Hello at=[1,2.5] size=[300,90]": ['+ sticky note b: "Hello"'],
    "remove_note 1": ['- sticky note 1: "Mind the **hours**."'],
}  # fmt: skip


@pytest.mark.parametrize("text", DONE)
def test_an_operation_does_what_it_says_and_no_more(text, graph):
    before = copy.deepcopy(graph)
    edited = edit(graph, text)
    assert str(edited.changes).splitlines() == DONE[text]
    assert graph == before
    touched = {change.node for change in edited.changes.changed} | {spec.id for spec in edited.changes.added}
    assert all(spec is graph.by_id[spec.id] for spec in edited.graph.nodes if spec.id not in touched)
    assert [spec.id for spec in edited.graph.nodes if spec.id in graph.by_id] == [
        spec.id for spec in graph.nodes if spec.id in edited.graph.by_id
    ]


REFUSED = {
    "add_node 3 llm": ("duplicate-id", "id: '3' is a node already (llm); '9' is free"),
    "add_node 6-2 llm": ("duplicate-id", "id: '6-2' is a node already (template-transform); '6-3' is free"),
    "add_node conversation llm": ("duplicate-id", "id: the id 'conversation' and the type 'conversation' go together"),
    "add_node 9 lmm": ("unknown-type", "type: 'lmm' is not a node type (did you mean 'llm'?)"),
    "add_node 9 llm usr=x": ("unknown-param", "params.usr: llm has no parameter 'usr' (did you mean 'user'?); it has: system, user"),
    "add_node 9 llm inside=3": ("crosses-border", "inside: nothing can run inside '3', which is of type 'llm'; these can hold nodes: iteration, loop"),
    "rename_node 44 x": ("undefined-node", "node: there is no node '44' (did you mean '4'?); there are: 1, 2, 3, 4, 5, 6, 6-1, 6-2 and 2 more"),
    "remove_node 66": ("undefined-node", "node: there is no node '66' (did you mean '6'?); there are: 1, 2, 3, 4, 5, 6, 6-1, 6-2 and 2 more"),
    "set 3 usr x": ("unknown-param", "path: llm has no parameter 'usr' (did you mean 'user'?); it has: system, user"),
    "set 2 cases[3][1] x": ("no-path", "path: node '2': cases has 1 item, so cases[3] is not there; places count from 0"),
    "set 3 user[0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0] x": ("no-path", "path: node '3': the path has 22 steps; the maximum is 20"),
    "set 3 user[0] x": ("no-path", 'path: node \'3\': user is not a list: "Greet nobody."'),
    "set 3 user..x x": ("no-path", "path: node '3': 'user..x' is not a path; write it as cases[0][1] or arguments.city"),
    "replace_text 3 user everybody x": ("no-text", 'old: "everybody" does not stand in user of \'3\', which is: "Greet nobody."'),
    "replace_text 4 user name x": ("no-text", 'old: "name" stands 3 times in user of \'4\'; give more of the text around it'),
    "replace_text 2 cases x y": ("no-path", 'path: cases of \'2\' is not a text: [[null, [[["name", "1"], "empty"]]]]; use set'),
    "connect 3 5": ("duplicate-edge", "target: an edge leads from port 0 of '3' to '5' already; leave this out"),
    "connect 3 8 1": ("port-out-of-range", "port: '3' (llm) has no port 1; it has only port 0"),
    "connect 2 8 2": ("port-out-of-range", "port: '2' (if-else) has no port 2; it has 0 to 1: 0, else"),
    "connect 3 8 else": ("port-out-of-range", "port: only if-else has a port else, and '3' is of type 'llm'; give a number, or leave it out"),
    "connect 3 3": ("cycle", "target: '3' cannot lead to itself"),
    "connect 6 6-1": ("edge-to-own-start", "target: what runs inside '6' begins by itself, at its start node; leave this edge out"),
    "connect 5 6-2": ("crosses-border", "target: '6-2' runs inside '6'; an edge across that border begins or ends at '6'"),
    "disconnect 3 8": ("no-edge", "target: no edge leads from '3' to '8'; '3' leads to: 5"),
    "disconnect 2 4 0": ("no-edge", "port: no edge leads from '2' to '4' from port 0; it is from port 1"),
    "insert_between 1 5 9 llm": ("no-edge", "target: no edge leads from '1' to '5'; '1' leads to: 2"),
    "add_branch 3 x": ("no-branches", "node: '3' is of type 'llm', and only if-else and question-classifier have branches; add one of these"),
    "add_branch 2 Bob": ("param", 'branch: a case is {"conditions": [{"variable": "id.variable", "operator": …, "value": …}, …]}, not "Bob"'),
    "add_branch 2 '[null, []]' 4": ("port-out-of-range", "port: '2' has 1 branches; give 0 to 1"),
    "rename_variable 1 nam x": ("undefined-variable", "old: '1' (start) has no variable 'nam' (did you mean 'name'?); it has: name, names"),
    "rename_variable 1 name names": ("duplicate-name", "new: '1' has a variable 'names' already; choose another name, or rename that one first"),
    "rename_variable 3 text x": ("undefined-variable", "old: the variables of '3' have their names from its type, 'llm'"),
    "rename_variable 7 said len": ("param", "old: 'said' of '7': the code uses 'said' or 'len' for something else, too; change the code with replace_text, and the declaration with set"),
    "rename_variable 6-2 name a-b": ("param", "old: 'name' of '6-2': 'a-b' is not a name, or the template has it already; choose another"),
    "add_input name": ("duplicate-name", "name: '1' has the input 'name' already; leave this out"),
    "remove_input nam": ("undefined-variable", "name: '1' has no input 'nam' (did you mean 'name'?); it has: name, names"),
    "add_output all 5.output": ("duplicate-name", "name: '8' has the output 'all' already; set its outputs to change it"),
    "add_output more 5.output 3": ("no-end", "node: '3' is of type 'llm', and outputs are of ends; these are: 8"),
    "remove_output al": ("undefined-variable", "name: '8' has no output 'al' (did you mean 'all'?); it has: all, size"),
    "remove_note 2": ("undefined-node", "id: there is no sticky note '2'; there are: 1"),
    "set_note 1 color=bleu": ("param", 'color: must be \'yellow\', \'blue\', \'cyan\', \'green\', \'pink\' or \'violet\', not "bleu" (did you mean \'blue\'?)'),
}  # fmt: skip


@pytest.mark.parametrize("text", REFUSED)
def test_an_operation_that_makes_no_sense_is_refused_and_says_what_to_do(text, graph):
    before = copy.deepcopy(graph)
    code, message = REFUSED[text]
    assert refused(graph, text) == [(code, f"operation 1 ({text.split()[0]})", message)]
    assert graph == before


def test_every_operation_is_in_both_tables():
    assert {text.split()[0] for text in DONE} == set(OPERATIONS)
    assert {text.split()[0] for text in REFUSED} == set(OPERATIONS)


def test_all_faults_of_all_operations_are_told_and_none_follows_from_another(graph):
    texts = ["add_node 9 lmm", "connect 3 9", "connect 33 44", "set 9 user x", "connect 2 8 7"]
    assert [(where, code) for code, where, _ in refused(graph, *texts)] == [
        ("operation 1 (add_node)", "unknown-type"),
        ("operation 3 (connect)", "undefined-node"),
        ("operation 3 (connect)", "undefined-node"),
        ("operation 5 (connect)", "port-out-of-range"),
    ]


# Branches


def test_else_follows_its_port_when_cases_come_and_go_by_any_way(graph):
    more = edit(graph, "add_branch 2 '[null, []]'").graph
    assert Edge("2", "4", 2) in more.edges
    less = edit(more, """set 2 cases '[[null, [[["name", "1"], "empty"]]]]'""").graph
    assert (less.edges, less.by_id["2"].params) == (graph.edges, graph.by_id["2"].params)


def test_ports_of_a_classifier_follow_their_classes():
    params = {"query_variable_selector": ["q", "1"], "classes": ["a", "b"]}
    graph = NodeGraph([NodeSpec("1", "question-classifier", params)], [Edge("1", "x", 0), Edge("1", "y", 1)])
    edited = edit(graph, "add_branch 1 c 1")
    assert edited.graph.by_id["1"].params["classes"] == ["a", "c", "b"]
    assert [edge.port for edge in edited.graph.edges] == [0, 2]
    assert refused(graph, "add_branch 1 a")[0][2] == "branch: '1' has the class 'a' already"


# Renaming


def test_names_that_only_begin_alike_and_parts_are_told_apart():
    graph = NodeGraph(
        [
            NodeSpec("1", "start", {"variables": [["f", "file"], ["f.name", "string"]]}),
            NodeSpec("2", "llm", {"system": "{{#1.f.type#}} {{#1.f.name#}} {{#1.ff#}}", "user": "{{#1.f#}}"}),
            NodeSpec("3", "mine", {"text": ["f", "1"]}),
        ]
    )
    edited = edit(graph, "rename_variable 1 f paper").graph
    assert edited.by_id["2"].params == {
        "system": "{{#1.paper.type#}} {{#1.f.name#}} {{#1.ff#}}",
        "user": "{{#1.paper#}}",
    }
    assert edited.by_id["3"] is graph.by_id["3"]


def test_what_an_assigner_sets_is_renamed_with_it():
    graph = NodeGraph(
        [
            NodeSpec("conversation", "conversation", {"variables": [["n", "number", 0]]}),
            NodeSpec("1", "assigner", {"assignments": [[["n", "conversation"], "add", 1]]}),
            NodeSpec("2", "answer", {"answer": "{{#1.n#}} {{#conversation.n#}}"}),
        ]
    )
    edited = edit(graph, "rename_variable conversation n count").graph
    assert edited.by_id["1"].params == {"assignments": [[["count", "conversation"], "add", 1]]}
    assert edited.by_id["2"].params == {"answer": "{{#1.count#}} {{#conversation.count#}}"}
    assert "rename these at the conversation" in refused(graph, "rename_variable 1 n x")[0][2]


@pytest.mark.parametrize(
    "code",
    [
        "def main(x):\n    r = {'a': x}\n    r.update(b=1)\n    return r",
        "def main(x):\n    return dict(a=x)",
        "def main(x):\n    return {'a': x, 'b': 1}",
        "def main(x):\n    return {**x, 'a': 1}",
        "def main(x):\n    return {r'a': x}",
        "def main(x:",
        "def other(x):\n    return {'a': x}",
        3,
    ],
)
def test_code_that_cannot_follow_is_refused(code):
    params = {"variables": [["x", ["x", "1"]]], "outputs": [["a", "string"]], "code": code}
    assert refused(NodeGraph([NodeSpec("2", "code", params)]), "rename_variable 2 a b")[0][0] == "param"


@pytest.mark.parametrize(
    ("code", "made"),
    [
        (
            "def main(x):\n    r = {}\n    r['a'] = x\n    return r",
            "def main(x):\n    r = {}\n    r['b'] = x\n    return r",
        ),
        (
            "def main(x):\n    r = {'a': f'{x} a'}\n    return r",
            "def main(x):\n    r = {'b': f'{x} a'}\n    return r",
        ),
        (
            "def main(x):\n    if x:\n        return {\"a\": 'a'}\n    return {'é': {'a': 1}, 'a': 2}",
            "def main(x):\n    if x:\n        return {\"b\": 'a'}\n    return {'é': {'a': 1}, 'b': 2}",
        ),
    ],
)
def test_only_the_key_that_is_returned_is_renamed(code, made):
    params = {"variables": [], "outputs": [["a", "string"]], "code": code}
    edited = edit(NodeGraph([NodeSpec("2", "code", params)]), "rename_variable 2 a b")
    assert edited.graph.by_id["2"].params["code"] == made


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n", "\n   \r\r"], ids=repr)
def test_names_are_renamed_in_lines_that_any_line_break_ends(end):
    code = f"def main(x):{end}    r = {{'a': x}}{end}    return r{end}"
    params = {"variables": [["x", ["x", "1"]]], "outputs": [["a", "string"]], "code": code}
    graph = edit(NodeGraph([NodeSpec("2", "code", params)]), "rename_variable 2 x y").graph
    made = edit(graph, "rename_variable 2 a b").graph.by_id["2"].params["code"]
    assert made == f"def main(y):{end}    r = {{'b': y}}{end}    return r{end}"


def test_an_argument_is_renamed_in_texts_with_braces_too():
    code = "def main(x):\n    return {'a': f'{x} {len(x)}', 'x': 'x'}"
    params = {"variables": [["x", ["x", "1"]]], "outputs": [["a", "string"]], "code": code}
    edited = edit(NodeGraph([NodeSpec("2", "code", params)]), "rename_variable 2 x y")
    assert edited.graph.by_id["2"].params["code"] == "def main(y):\n    return {'a': f'{y} {len(y)}', 'x': 'x'}"


@pytest.mark.parametrize(
    ("template", "made"),
    [
        (
            "x {{ x.x }} {# x #}{% for y in x -%} {{ y|join('x') }} {% endfor %}",
            "x {{ z.x }} {# x #}{% for y in z -%} {{ y|join('x') }} {% endfor %}",
        ),
        ("{% raw %}{{ x }}{% endraw %}\r\n{{x}}", "{% raw %}{{ x }}{% endraw %}\r\n{{z}}"),
        ("{{ x", None),
        ("{{ z }}{{ x }}", None),
    ],
)
def test_a_template_follows_or_is_refused(template, made):
    graph = NodeGraph([NodeSpec("2", "template-transform", {"variables": [["x", ["x", "1"]]], "template": template})])
    if made is None:
        assert refused(graph, "rename_variable 2 x z")[0][0] == "param"
    else:
        assert edit(graph, "rename_variable 2 x z").graph.by_id["2"].params["template"] == made


# Order


def test_a_new_node_stands_behind_what_it_reads_and_before_what_reads_it(graph):
    edited = edit(
        graph,
        'set 5 variables[2] \'["text", "9"]\'',
        "add_node 9 llm system= user='{{#3.text#}}'",
        "connect 4 9",
        "connect 9 5",
    ).graph
    assert [spec.id for spec in edited.nodes] == ["1", "2", "3", "4", "9", "5", "6", "6-1", "6-2", "7", "8"]


def test_nodes_that_stay_keep_their_order_even_if_they_read_a_later_node(graph):
    backwards = replace(graph, nodes=graph.nodes[::-1])
    edited = edit(backwards, 'set 5 variables[2] \'["text", "9"]\'', "add_node 9 llm system= user='{{#3.text#}}'").graph
    assert [spec.id for spec in edited.nodes] == ["8", "7", "6-2", "6-1", "6", "5", "4", "3", "9", "2", "1"]
    set_text = edit(graph, "set 3 user '{{#4.text#}}'").graph
    assert [spec.id for spec in set_text.nodes] == [spec.id for spec in graph.nodes]


# Forms


def test_operations_are_the_same_as_json_and_in_words():
    listed = [*DONE]
    operations = [operation for text in listed for operation in parse(text)]
    data = json.loads(in_json(operations))
    assert read_operations(data) == operations == read_operations(data["operations"])
    jsonschema.Draft202012Validator.check_schema(schema())
    jsonschema.validate(data, schema())
    assert validate(schema(), in_json(operations))["operations"]
    assert [parse(json.dumps(each))[0] for each in data["operations"]] == operations


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"op": "conect"}, "operation 1 (conect): op: 'conect' is not an operation (did you mean 'connect'?)"),
        ({}, "operation 1: op: is missing; it is one of: add_node, "),
        (["x"], 'operation 1: must be an object with "op", not "x"'),
        ({"op": "connect", "source": "1"}, "[missing-param] operation 1 (connect): target: is missing"),
        (
            [{"op": "connect", "source": "1", "target": "2"}, {"op": "connect", "sorce": "1", "target": 2}],
            "operation 2 (connect): sorce: is not a parameter (did you mean 'source'?)",
        ),
        ({"op": "add_node", "id": "a.b", "type": "llm"}, "id: must match the pattern"),
        ({"operations": [], "more": 1}, "more: beside operations there are no other keys"),
    ],
)
def test_json_that_is_no_operation_is_refused(given, said):
    with pytest.raises(InvalidError) as caught:
        read_operations(given)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("conect 3 4", "'conect' is not an operation (did you mean 'connect'?)"),
        ("connect 3 4 5 6", "'6' is too much; write: connect source target [port]"),
        ('set 3 "', "no closing quotation"),
        ("", "an operation is empty; write one, such as: connect 3 4 port=1"),
    ],
)
def test_words_that_are_no_operation_are_refused(text, said):
    with pytest.raises(InputError) as caught:
        parse(text)
    assert said in str(caught.value)


def test_values_in_words_are_json_where_that_is_meant():
    texts = ["a=b", "2", """'"2"'""", "1e999", "null", "'[1]'"]
    values = [parse(f"set 3 user {text}")[0].model_dump()["value"] for text in texts]
    assert values == ["a=b", 2, "2", "1e999", None, [1]]
    made = parse("""add_node 3 iteration iterator_selector='["a", "1"]'""")[0]
    assert made.model_dump()["params"] == {"iterator_selector": ["a", "1"]}


# Differences


def test_a_difference_is_a_value_and_a_chart_shows_it(graph):
    edited = edit(graph, "add_node 9 llm", "set 3 user x", "disconnect 3 5")
    assert edited.changes == difference(graph, edited.graph)
    assert not difference(graph, copy.deepcopy(graph))
    assert edited.changes.status == {"3": "changed", "9": "added"}
    chart = flowchart(edited.graph, edited.changes.status)
    assert "classDef added " in chart
    assert "classDef changed " in chart
    assert edited.changes.as_dict()["edges_removed"] == [["3", 0, "5"]]
    retyped = NodeGraph([NodeSpec("3", "tts", {"text": "x"})])
    assert (
        str(difference(NodeGraph([NodeSpec("3", "llm")]), retyped)) == '- node 3 (llm)\n+ node 3 (tts): {"text": "x"}'
    )


def test_of_long_texts_only_what_is_another_is_shown(graph):
    long = edit(graph, f"set 3 user '{'a' * 200}b{'c' * 200}'").graph
    assert lines(long, "replace_text 3 user b B") == [
        f'~ node 3 user: "…{"a" * 20}b{"c" * 20}…" → "…{"a" * 20}B{"c" * 20}…"'
    ]


# Any batch


TEXTS = st.sampled_from([*DONE, *REFUSED, "remove_node 6", "add_node 9 end", "connect 6 9"])


@settings(
    max_examples=amount(15, 150), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(texts=st.lists(TEXTS, max_size=6))
def test_a_batch_is_done_as_a_whole_or_not_at_all(graph, texts):
    before, specs = copy.deepcopy(graph), list(graph.nodes)
    wheres: list[str] = []
    try:
        edited = edit(graph, *texts)
    except InvalidError as error:
        wheres = [issue.where for issue in error.issues]
    else:
        changes = edited.changes
        touched = {change.node for change in changes.changed} | {spec.id for spec in changes.added}
        # What was changed and changed back is another object, and equal.
        assert all(
            spec is graph.by_id[spec.id] or spec == graph.by_id[spec.id]
            for spec in edited.graph.nodes
            if spec.id not in touched
        )
        assert OPERAD.load(OPERAD.dump(edited.graph), "greet") == edited.graph
    assert all(where.startswith("operation ") for where in wheres)
    assert graph == before
    assert all(one is other for one, other in zip(graph.nodes, specs, strict=True))


# Recorded workflows


@pytest.fixture(scope="module")
def recorded():
    found = []

    def of(data):
        if not found:
            for path in sorted(data.glob("chat2workflow/may/*.json")):
                for record in sample(json.loads(path.read_text(encoding="utf-8")), 8):
                    try:
                        graph = load(record["workflow"] or "", record["task"])
                    except InvalidError:
                        continue
                    issues = issues_of(graph, NODE_TYPES)
                    if all(issue.code == "not-selected" for issue in issues):
                        found.append((graph, issues))
        return found

    return of


NAMED = {
    "start": [("variables", 0)],
    "end": [("outputs", 0)],
    "code": [("outputs", 0), ("variables", 0)],
    "template-transform": [("variables", 0)],
    "parameter-extractor": [("parameters", 1)],
}


def test_every_variable_of_recorded_workflows_is_renamed_and_renamed_back(shared_data, recorded):
    count, refused = 0, []
    for graph, issues in recorded(shared_data):
        data = dump(graph)
        for spec in graph.nodes:
            names = {item[at] for param, at in NAMED.get(spec.type, ()) for item in spec.params[param]}
            for name in sorted(names):
                count += 1
                try:
                    renamed = apply(graph, [RenameVariable(node=spec.id, old=name, new="zz_new")]).graph
                except InvalidError as error:  # code whose answer has no key that could be renamed
                    refused += [issue.message for issue in error.issues]
                    continue
                assert new_issues(issues, issues_of(renamed, NODE_TYPES)) == []
                assert dump(renamed) != data
                back = apply(renamed, [RenameVariable(node=spec.id, old="zz_new", new=name)])
                assert dump(back.graph) == data
    assert count > amount(75, 600)
    assert [why for why in refused if "main does not return a dict with literal keys" not in why] == []
    assert len(refused) <= count // 100


def test_recorded_workflows_stay_sound_with_a_node_in_every_edge_and_are_the_same_without_it(shared_data, recorded):
    count = 0
    for graph, issues in recorded(shared_data):
        data = dump(graph)
        for edge in graph.edges:
            parent = graph.by_id[edge.source].parent
            node_id = f"{parent}-777" if parent else "777"
            between = InsertBetween(
                source=edge.source,
                target=edge.target,
                port=edge.port,
                id=node_id,
                type="llm",
                params={"system": "", "user": "Hello."},
            )
            longer = apply(graph, [between]).graph
            new = new_issues(issues, issues_of(longer, NODE_TYPES))
            assert [issue for issue in new if issue.code != "not-selected"] == []
            assert dump(apply(longer, [RemoveNode(node=node_id)]).graph) == data
            count += 1
    assert count > amount(60, 700)


def test_nodes_of_recorded_workflows_that_are_removed_and_added_again_leave_no_new_issue(shared_data, recorded):
    for graph, issues in recorded(shared_data)[::5]:
        for spec in graph.nodes:
            if any(other.parent == spec.id for other in graph.nodes):
                continue
            edges = [edge for edge in graph.edges if spec.id in (edge.source, edge.target)]
            again = apply(
                graph,
                [
                    RemoveNode(node=spec.id, edges="cut"),
                    AddNode(id=spec.id, type=spec.type, params=spec.params, inside=spec.parent),
                    *(Connect(source=edge.source, target=edge.target, port=edge.port) for edge in edges),
                ],
            )
            assert not again.changes
            assert new_issues(issues, issues_of(again.graph, NODE_TYPES)) == []


# Formats


@pytest.mark.parametrize("name", ["operad", "chat2workflow", "dify", "coze"])
def test_what_a_format_keeps_survives_an_edit(name, graph):
    form = FORMATS[name]
    loaded = form.load(form.dump(graph), "greet")
    edited = edit(
        loaded,
        "insert_between 4 5 9 llm system= user='Shorter: {{#4.text#}}'",
        """add_branch 2 '[null, [[["name", "1"], "is", "Bob"]]]' 0""",
        "add_node 10 llm system=x user=y",
        "connect 2 10",
        "connect 10 5",
        "rename_variable 1 name person",
        "add_input n number",
    ).graph
    again = form.load(form.dump(edited), "greet")
    assert form.check(again) == []
    assert not difference(edited, again)
    assert form.dump(again) == form.dump(edited)


def test_a_dify_file_keeps_what_else_it_says_and_new_nodes_have_their_places(graph):
    form = FORMATS["dify"]
    text = form.dump(graph).decode()
    text = text.replace("title: LLM\n", "title: Our own title\n", 1).replace("icon: 🤖", "icon: 🦜")
    text = text.replace(
        "environment_variables: []", "environment_variables:\n  - {name: KEY, value: v, value_type: string}"
    )
    loaded = form.load(text.encode(), "greet")
    edited = edit(
        loaded, "insert_between 2 4 9 llm system=x user=y", "set 3 user New", "add_branch 2 '[null, []]'"
    ).graph
    written = form.dump(edited).decode()
    assert "title: Our own title" in written
    assert "icon: 🦜" in written
    assert "name: KEY" in written
    again = form.load(written.encode(), "greet")
    assert not difference(edited, again)
    assert [(edge.source, edge.port) for edge in again.edges if edge.target == "9"] == [("2", 2)]
    assert "source: '2'\n" in written
    assert "sourceHandle: 'false'\n" in written


def test_inputs_of_a_workflow_without_a_start_are_refused():
    with pytest.raises(InvalidError, match="add_node 1 start first"):
        apply(NodeGraph(), [AddInput(name="x")])
    with pytest.raises(InvalidError, match="add_node 1 end first"):
        edit(NodeGraph(), "remove_output x")


def test_of_two_nodes_with_one_id_one_can_be_removed():
    twice = NodeGraph(
        [NodeSpec("1", "start", {"variables": []}), NodeSpec("1", "llm"), NodeSpec("2", "llm")], [Edge("1", "2")]
    )
    edited = apply(twice, [RemoveNode(node="1")]).graph
    assert [(spec.id, spec.type) for spec in edited.nodes] == [("1", "llm"), ("2", "llm")]
    assert edited.edges == twice.edges


def test_parameters_that_are_no_mapping_are_refused_and_not_lost():
    graph = NodeGraph([NodeSpec("1", "llm", [1, 2])])
    with pytest.raises(InvalidError, match="has no names in it"):
        apply(graph, [SetParam(node="1", path="user", value="x")])


def test_the_examples_of_the_documentation_do_what_they_should():
    page = (Path(__file__).parents[4] / "docs" / "edit.md").read_text(encoding="utf-8")
    text = page.partition('TEXT = b"""')[2].partition('"""')[0]
    graph = OPERAD.load(text.encode(), "greet")
    examples = dict(re.findall(r"^\| `(\w+)` \| `(.+?)` \|", page, re.MULTILINE))
    assert list(examples) == list(OPERATIONS)
    for name, example in examples.items():
        assert lines(graph, example), name


def test_what_names_a_variable_elsewhere_in_its_node_follows_a_new_name():
    code = {"variables": [], "outputs": [["n", "number"]], "code": "def main():\n    return {'n': 1}"}
    failure = {"then": "values", "values": {"n": 0}}
    read = {"query": ["x", "1"], "instruction": "", "parameters": [["", "a", "string"], ["", "b", "string"]]}
    graph = NodeGraph(
        [
            NodeSpec("1", "start", {"variables": [["x", "string"], ["y", "string"]], "defaults": {"x": "hi", "y": ""}}),
            NodeSpec("2", "code", {**code, "failure": failure}),
            NodeSpec("3", "parameter-extractor", {**read, "optional": ["b"], "options": {"a": ["u"], "b": ["v"]}}),
            NodeSpec("4", "end", {"outputs": [["n", ["n", "2"]]]}),
        ],
        [Edge("1", "2"), Edge("2", "3"), Edge("3", "4")],
    )
    renames = ["rename_variable 1 x z", "rename_variable 2 n m", "rename_variable 3 b c", "remove_input y"]
    made = edit(graph, *renames).graph
    assert made.by_id["1"].params == {"variables": [["z", "string"]], "defaults": {"z": "hi"}}
    assert made.by_id["2"].params["failure"] == {"then": "values", "values": {"m": 0}}
    params = made.by_id["3"].params
    assert (params["optional"], params["options"]) == (["c"], {"a": ["u"], "c": ["v"]})


def test_a_loop_that_breaks_on_a_node_inside_it_stays_together():
    inside = {"loop_count": 5, "variables": [["draft", "string", ["text", "1"]]]}
    graph = NodeGraph(
        [
            NodeSpec("1", "start", {"variables": [["text", "string"]]}),
            NodeSpec("2", "loop", {**inside, "break_conditions": [[["text", "2-2"], "contains", "ok"]]}),
            NodeSpec("2-1", "loop-start", {}, parent="2"),
            NodeSpec("2-2", "llm", {"system": "Improve it.", "user": "{{#2.draft#}}"}, parent="2"),
            NodeSpec("2-3", "assigner", {"assignments": [[["draft", "2"], "set", ["text", "2-2"]]]}, parent="2"),
            NodeSpec("3", "end", {"outputs": [["draft", ["draft", "2"]]]}),
        ],
        [Edge("1", "2"), Edge("2-1", "2-2"), Edge("2-2", "2-3"), Edge("2", "3")],
    )
    changed = apply(graph, parse("set 2 loop_count 7")).graph
    assert [spec.id for spec in changed.nodes] == ["1", "2", "2-1", "2-2", "2-3", "3"]
    assert list(issues_of(changed, NODE_TYPES)) == []
    start, *others = changed.nodes
    late_start = NodeGraph([*others, start], changed.edges)
    assert [issue.code for issue in issues_of(late_start, NODE_TYPES)] == ["order"]
    mended = repair_graph(late_start).graph
    assert mended is not None
    assert [spec.id for spec in mended.nodes] == ["1", "2", "2-1", "2-2", "2-3", "3"]
