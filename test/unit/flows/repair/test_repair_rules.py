"""Each rule of `operad.flows.repair` by itself: what was written, what it becomes, what is said of it."""

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest

from operad.flows import repair as package
from operad.flows.formats.chat2workflow import load
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.flows.repair import FORMAT, Rules
from operad.flows.repair.containers import rename

repair: Any = package.repair
repair_graph: Any = package.repair_graph


def node(id, type, **param):
    return {"id": id, "type": type, "param": param}


START = node("1", "start", variables=[["text", "string"], ["n", "number"]])
LLM = node("2", "llm", system="", user="{{#1.text#}}")


def end(variable="text", of="2", id="9"):
    return node(id, "end", outputs=[["out", [variable, of]]])


def flow(*nodes, edges=None):
    """A workflow; without edges, one node after the other."""
    ids = [each["id"] for each in nodes]
    edges = [[one, 0, two] for one, two in itertools.pairwise(ids)] if edges is None else edges
    return {"nodes_info": list(nodes), "edges": edges}


def only(*names):
    """The rules of these names."""
    return Rules._make({name: rule for name, rule in table.items() if name in names} for table in FORMAT)


def mended(value, *rules):
    return repair(json.dumps(value), only(*rules) if rules else FORMAT)


def param(result, id):
    return result.graph.by_id[id].params


GOOD = flow(START, LLM, end())
TEXT = json.dumps(GOOD)


def test_what_is_right_stays_as_it_is_to_the_letter():
    text = "  " + TEXT + "\n\n"
    result = repair(text)
    assert (result.text, list(result.repairs), list(result.issues), list(result.lessons)) == (text, [], [], [])


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("json", f"```json\n{TEXT}\n```"),
        ("json", f"Here [it] is:\n```\n{TEXT}\n```\nDone, see [1]."),
        ("json", f"```json\n{TEXT[:-1]},}}\n```"),
        ("json", TEXT.replace('"edges"', '// from node to node\n "edges"')),
        ("json", TEXT.replace('"edges"', '/* all "of" them */ "edges"')),
        ("json", TEXT.replace('"9"]]', '"9"],]')),
        ("json", TEXT[:-1]),
        ("json", TEXT + "}"),
        ("json", TEXT.replace('"edges"', "'edges'").replace('{"id": "1"', '{id: "1"')),
    ],
)
def test_text_that_is_no_json_is_mended(rule, text):
    result = repair(text, only(rule))
    assert load(result.text).nodes == load(TEXT).nodes
    assert [each.rule for each in result.repairs] == [rule]
    assert repair(text, FORMAT._replace(text={})).graph is None


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        ("type-names", flow(START, {**LLM, "type": "LLM"}, end())),
        ("type-names", flow({**START, "type": "Start Node"}, {**LLM, "type": "large language model"}, end())),
        ("edge-form", flow(START, LLM, end(), edges=[["1", "2"], ["2", "9"]])),
        ("edge-form", flow(START, LLM, end(), edges=[["1", 0, "2", 0], ["2", 0, "9", 0]])),
    ],
)
def test_json_of_another_form_is_mended(rule, value):
    result = mended(value, rule)
    assert (list(result.graph.nodes), list(result.graph.edges)) == (list(load(TEXT).nodes), list(load(TEXT).edges))
    assert {each.rule for each in result.repairs} == {rule}


@pytest.mark.parametrize(
    ("said", "meant"),
    [("Template", "template-transform"), ("IfElse", "if-else"), ("if_else", "if-else"), ("text to speech", "tts"),
     ("Document Extracter", "document-extractor"), ("python", "code"), ("quantum", "quantum"), ("end of", "end of")],
)  # fmt: skip
def test_types_are_those_of_the_catalogue_or_stay(said, meant):
    result = mended(flow(START, {**LLM, "type": said}, end()), "type-names")
    assert result.graph.by_id["2"].type == meant


def llm(**params):
    return node("2", "llm", **params)


SWITCH = node("3", "if-else", cases=[[None, [[["text", "1"], "is", "x"]]]])
ONE_PARAM = [
    ("selectors-in-texts", llm(system="", user=["text", "1"]), {"system": "", "user": "{{#1.text#}}"}),
    ("selectors-in-texts", llm(system="", user=["what it is", ["text", "1"]]), {"system": "", "user": "{{#1.text#}}"}),
    ("selectors-in-texts", llm(system="", user=["Sum up:", "{{#1.text#}}"]), {"system": "", "user": ["Sum up:", "{{#1.text#}}"]}),
    ("references", llm(system="", user="{{#1.text}} {{9 }} {{#x#}}"), {"system": "", "user": "{{#1.text#}} {{9 }} {{#x#}}"}),
    ("references", llm(system="", user="{{1.text}} {{ 7.text }}"), {"system": "", "user": "{{#1.text#}} {{ 7.text }}"}),
    ("references", llm(system="", user="{{#text.1#}}"), {"system": "", "user": "{{#1.text#}}"}),
    ("bare-references", llm(system="", user="{{#text#}} {{#'n'#}}"), {"system": "", "user": "{{#1.text#}} {{#1.n#}}"}),
    ("variables", llm(system="", user="{{#1.texts#}}"), {"system": "", "user": "{{#1.text#}}"}),
    ("pairs", node("2", "code", variables={"a": ["text", "1"]}, outputs=[["text", "string"]], code="def main(a): return {'text': a}"),
     {"variables": [["a", ["text", "1"]]], "outputs": [["text", "string"]], "code": "def main(a): return {'text': a}"}),
    ("pairs", node("2", "template-transform", variables=[{"name": "a", "value": "1.text"}], template="{{ a }}"),
     {"variables": [["a", ["text", "1"]]], "template": "{{ a }}"}),
    ("pairs", node("2", "template-transform", variables=[["text", "1"]], template="{{ text }}"),
     {"variables": [["text", ["text", "1"]]], "template": "{{ text }}"}),
    ("pairs", node("2", "http-request", url="1.text"), {"url": ["text", "1"]}),
    ("cases", node("2", "if-else", cases=[[None, [[["1", "text"], "size", "is", "3"]]]]), {"cases": [[None, [[["text.size", "1"], "is", "3"]]]]}),
    ("cases", node("2", "if-else", cases=[[None, [["text", "is", "x"]]]]), {"cases": [[None, [[["text", "1"], "is", "x"]]]]}),
    ("comparisons", node("2", "if-else", cases=[[None, [[["text", "1"], "=", "x"]]]]), {"cases": [[None, [[["text", "1"], "is", "x"]]]]}),
    ("comparisons", node("2", "if-else", cases=[[None, [[["n", "1"], "is", "3"]]]]), {"cases": [[None, [[["n", "1"], "=", "3"]]]]}),
    ("aggregator-groups", node("2", "variable-aggregator", variables=[["a", ["text", "1"]]]), {"variables": [["text", "1"]]}),
    ("template-references", node("2", "template-transform", variables=[], template="A {{#1.text#}}"),
     {"variables": [["text", ["text", "1"]]], "template": "A {{ text }}"}),
    ("unknown-names", node("2", "template-transform", variables=[], template="A {{ today }}."), {"variables": [], "template": "A ."}),
    ("named-inputs", llm(system="{{ n }} {{x}}", user="{{n}} {{text}}"), {"system": "{{#1.n#}} {{x}}", "user": "{{#1.n#}} {{text}}"}),
    ("bare-references", node("2", "template-transform", variables=[["a", ["text", "1"]]], template="{{#a#}}"),
     {"variables": [["a", ["text", "1"]]], "template": "{{ a }}"}),
    ("escapes", node("2", "code", variables=[], outputs=[["text", "string"]], code="def main():\\n\\treturn {'text': 'a'}"),
     {"variables": [], "outputs": [["text", "string"]], "code": "def main():\n\treturn {'text': 'a'}"}),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "before", "after"), ONE_PARAM)
def test_parameters_are_mended(rule, before, after):
    result = mended(flow(START, before, node("9", "end", outputs=[["out", ["text", "1"]]])), rule)
    assert param(result, "2") == after
    assert before["param"] == after or {(each.rule, each.where) for each in result.repairs} == {(rule, "2")}
    again = repair(result.text, only(rule))
    assert (again.text, list(again.repairs)) == (result.text, [])


def test_every_rule_on_workflows_says_what_and_why():
    for rule, before, after in ONE_PARAM:
        result = mended(flow(START, before, node("9", "end", outputs=[["out", ["text", "1"]]])), rule)
        assert all(each.what and each.why and rule in str(each) for each in result.repairs), after


@pytest.mark.parametrize(
    ("before", "code", "told"),
    [
        (llm(system=None, user="{{#1.text#}}"), "param", "system"),
        (node("2", "request", url="https://a.example", headers={"X-Key": "{{#1.text#}}"}), "param", "headers"),
        (node("2", "http-request", url=["1", "text"]), "undefined-node", "'text' of '1'"),
    ],
)
def test_what_no_rule_repairs_is_a_lesson(before, code, told):
    result = mended(flow(START, before, node("9", "end", outputs=[["out", ["text", "1"]]])))
    assert (param(result, "2"), list(result.repairs)) == (before["param"], [])
    assert any(lesson.startswith(f"[{code}] 2:") and told in lesson for lesson in result.lessons)


@pytest.mark.parametrize(
    ("nodes", "edges", "code"),
    [
        ([START, LLM, end()], [["1", 0, "2"], ["2", 0, "9"], ["2", 0, "7"]], "dangling-edge"),
        (
            [
                node("1", "start", variables=[["items", "array[string]"]]),
                node("2", "iteration", iterator_selector=["items", "1"], output_selector=["text", "2-1"]),
                node("2-1", "llm", system="", user="{{#2.item#}}"),
                end("output", "2"),
            ],
            [["1", 0, "2"], ["2", 0, "9"]],
            "no-start",
        ),
    ],
)
def test_edges_of_missing_nodes_and_missing_starts_are_lessons(nodes, edges, code):
    result = mended(flow(*nodes, edges=edges))
    assert any(lesson.startswith(f"[{code}]") for lesson in result.lessons), result.lessons


def test_a_value_that_code_gives_and_does_not_declare_is_a_lesson_and_not_another_value():
    text = "def main():\n    return {'total': 1, 'size': 'big'}"
    code = node("2", "code", variables=[], outputs=[["total", "number"]], code=text)
    result = mended(flow(START, code, node("9", "end", outputs=[["size", ["size", "2"]]])), "variables")
    assert list(result.repairs) == []
    assert any("no variable 'size'" in lesson and "declare it there" in lesson for lesson in result.lessons)


def test_the_only_variable_of_a_node_is_meant_and_several_are_a_lesson():
    result = mended(flow(START, LLM, end("summary")), "variables")
    assert param(result, "9") == {"outputs": [["out", ["text", "2"]]]}
    two = node(
        "2",
        "code",
        variables=[],
        outputs=[["a", "string"], ["b", "string"]],
        code="def main(): return {'a': '', 'b': ''}",
    )
    result = mended(flow(START, two, end("zzz")))
    assert param(result, "9") == {"outputs": [["out", ["zzz", "2"]]]}
    assert "name one of: a of '2' | b of '2'" in result.lessons[0]


def test_named_groups_that_others_read_by_name_are_aggregators_of_their_own():
    groups = node("4", "variable-aggregator", variables=[["a", ["text", "2"]], ["b", ["n", "1"]]])
    last = node("9", "end", outputs=[["a", ["a", "4"]], ["b", ["b", "4"]]])
    result = mended(flow(START, LLM, groups, last), "aggregator-groups")
    assert [(each.id, each.type) for each in result.graph.nodes][2:4] == [
        ("4", "variable-aggregator"),
        ("3", "variable-aggregator"),
    ]
    assert param(result, "9") == {"outputs": [["a", ["output", "4"]], ["b", ["output", "3"]]]}
    assert not result.issues


def test_groups_as_dify_has_them_are_flat():
    groups = node("4", "variable-aggregator", groups=[{"group_name": "g", "variables": [["text", "2"], ["text", "1"]]}])
    result = mended(flow(START, LLM, groups, end("g", "4")), "aggregator-groups")
    assert param(result, "4") == {"variables": [["text", "2"], ["text", "1"]]}
    assert not result.issues


LIST = node("1", "start", variables=[["items", "array[string]"]])
EACH = node("2", "iteration", iterator_selector=["items", "1"], output_selector=["text", "2-2"])
FIRST = node("2-1", "iteration-start")


def inside(user="{{#2.item#}}", id="2-2"):
    return node(id, "llm", system="", user=user)


OVER = [["1", 0, "2"], ["2-1", 0, "2-2"], ["2", 0, "9"]]


@pytest.mark.parametrize(
    "said", ["{{#2-1.item#}}", "{{#item#}}", "{{item}}", "{{#2-1.query#}}", "{{#1.item#}}", "{{#2.items#}}"]
)
def test_the_item_of_the_iteration_around_is_meant(said):
    result = mended(flow(LIST, EACH, FIRST, inside(said), end("output", "2"), edges=OVER), "items", "variables")
    assert param(result, "2-2")["user"] == "{{#2.item#}}"
    assert not result.issues


@pytest.mark.parametrize(
    ("extra", "what"),
    [(["2", 0, "2-1"], "2 → 2-1"), (["2-2", 0, "2"], "2-2 → 2"), (["2", 0, "2-2"], "2 → 2-2"),
     (["2-2", 0, "9"], "2-2 → 9"), (["1", 0, "2-2"], "1 → 2-2")],
)  # fmt: skip
def test_no_edge_crosses_the_border_of_an_iteration(extra, what):
    result = mended(flow(LIST, EACH, FIRST, inside(), end("output", "2"), edges=[*OVER, extra]), "borders")
    assert [each.where for each in result.repairs] == [what]
    assert {(edge.source, edge.target) for edge in result.graph.edges} == {(one, two) for one, _, two in OVER}


@pytest.mark.parametrize("selector", [["text", "9"], ["text", "7"], None, ["summary", "2-2"]])
def test_the_result_of_an_iteration_is_of_its_last_node(selector):
    each = {**EACH, "param": {"iterator_selector": ["items", "1"]}}
    if selector:
        each["param"]["output_selector"] = selector
    result = mended(flow(LIST, each, FIRST, inside(), end("output", "2"), edges=OVER), "results", "variables")
    assert param(result, "2")["output_selector"] == ["text", "2-2"]


def test_what_an_iteration_is_to_run_moves_inside():
    each = {**EACH, "param": {**EACH["param"], "output_selector": ["text", "3"]}}
    body = inside(id="3")
    edges = [["1", 0, "2"], ["2-1", 0, "3"], ["3", 0, "2"], ["2", 0, "9"]]
    result = mended(flow(LIST, each, FIRST, body, end("output", "2"), edges=edges))
    assert result.graph.by_id["2-2"].type == "llm"
    assert param(result, "2")["output_selector"] == ["text", "2-2"]
    assert not result.issues


def test_what_runs_inside_is_read_outside_through_the_iteration():
    result = mended(flow(LIST, EACH, FIRST, inside(), end("text", "2-2"), edges=OVER), "inside-read-outside")
    assert param(result, "9") == {"outputs": [["out", ["output", "2"]]]}
    assert not result.issues


def test_a_hyphen_outside_of_iterations_goes():
    result = mended(flow(START, {**LLM, "id": "2-1"}, end(of="2-1")), "hyphens")
    assert [each.id for each in result.graph.nodes] == ["1", "2_1", "9"]
    assert not result.issues


@pytest.mark.parametrize(
    ("rule", "edges", "after"),
    [
        ("unconnected", [["2", 0, "9"]], {("1", "2"), ("2", "9")}),
        ("late-reads", [["1", 0, "2"], ["1", 0, "9"]], {("1", "2"), ("1", "9"), ("2", "9")}),
        ("cycles", [["1", 0, "2"], ["2", 0, "9"], ["9", 0, "2"]], {("1", "2"), ("2", "9")}),
    ],
)
def test_edges_are_mended(rule, edges, after):
    result = mended(flow(START, LLM, end(), edges=edges), rule)
    assert {(edge.source, edge.target) for edge in result.graph.edges} == after
    assert not result.issues


def test_the_only_port_is_meant():
    result = mended(flow(START, LLM, end(), edges=[["1", 3, "2"], ["2", 1, "9"]]), "ports")
    assert {edge.port for edge in result.graph.edges} == {0}
    other = node("4", "llm", system="", user="b")
    last = node("9", "end", outputs=[["out", ["text", "1"]]])
    edges = [["1", 0, "3"], ["3", 0, "2"], ["3", 5, "4"], ["2", 0, "9"], ["4", 0, "9"]]
    result = mended(flow(START, SWITCH, LLM, other, last, edges=edges), "ports")
    assert [edge.port for edge in result.graph.edges] == [0, 0, 1, 0, 0]


def test_what_nothing_leads_to_and_nothing_reads_goes():
    result = mended(
        flow(
            START,
            LLM,
            node("5", "template-transform", variables=[], template="x"),
            end(),
            edges=[["1", 0, "2"], ["2", 0, "9"]],
        )
    )
    assert "5" not in result.graph.by_id
    assert not result.issues


def test_several_starts_are_one():
    more = node("3", "start", variables=[["more", "string"]])
    ask = node("2", "llm", system="", user="{{#1.text#}} {{#3.more#}}")
    result = mended(flow(START, more, ask, end(), edges=[["1", 0, "2"], ["3", 0, "2"], ["2", 0, "9"]]), "one-start")
    assert param(result, "1")["variables"] == [["text", "string"], ["n", "number"], ["more", "string"]]
    assert param(result, "2")["user"] == "{{#1.text#}} {{#1.more#}}"
    assert not result.issues


def test_the_list_is_in_the_order_of_the_references():
    result = mended(flow(START, end(), LLM, edges=[["1", 0, "2"], ["2", 0, "9"]]), "order")
    assert [each.id for each in result.graph.nodes] == ["1", "2", "9"]
    assert not result.issues


def test_all_that_an_extractor_reads_out_is_a_text():
    ask = node(
        "2",
        "parameter-extractor",
        query=["text", "1"],
        parameters=[["", "a", "string"], ["", "b", "number"]],
        instruction="",
    )
    result = mended(flow(START, ask, end("output")))
    assert param(result, "9") == {"outputs": [["out", ["output", "3"]]]}
    assert result.graph.by_id["3"].type == "template-transform"
    assert not result.issues


def test_what_code_walks_through_is_a_list():
    ask = node("2", "parameter-extractor", query=["text", "1"], parameters=[["", "a", "number"]], instruction="")
    code = node(
        "3",
        "code",
        variables=[["a", ["a", "2"]]],
        outputs=[["b", "string"]],
        code="def main(a):\n    for x in a:\n        pass\n    return {'b': ''}",
    )
    result = mended(flow(START, ask, code, end("b", "3")), "walked-lists")
    assert param(result, "2")["parameters"] == [["", "a", "array[number]"]]
    assert not result.issues


def test_selectors_without_a_name_have_the_only_one():
    last = node("4", "variable-aggregator", variables=[["", "2"]])
    result = mended(flow(START, LLM, last, end("output", "4")), "empty-names")
    assert param(result, "4") == {"variables": [["text", "2"]]}


@pytest.mark.parametrize(
    ("said", "after"),
    [
        ("Start, LLM", "Start, LLM, End"),
        ("Start, LLM (big), Code, End", "Start, LLM, End"),
        ("- **Start**\n- LLM\n- Template", "Start, LLM, End"),
        ("", "Start, LLM, End"),
    ],
)
def test_the_selection_names_the_types(said, after):
    response = (
        f"<node_selection>{said}</node_selection>\n<design_principle>x</design_principle>\n<workflow>{TEXT}</workflow>"
    )
    result = repair(response, only("selection"))
    assert f"<node_selection>{after}</node_selection>\n<design_principle>x</design_principle>" in result.text
    assert not result.issues


def test_every_rule_is_listed_once():
    names = [name for table in FORMAT for name in table]
    assert len(names) == len(set(names))
    assert all(rule.__doc__ for rule in FORMAT.graph.values())


def test_workflows_of_other_formats_are_mended_as_graphs():
    graph = load(json.dumps(flow(START, LLM, end("summary"))))
    result = repair_graph(graph)
    assert [each.rule for each in result.repairs] == ["variables"]
    assert result.graph.by_id["9"].params == {"outputs": [["out", ["text", "2"]]]}
    assert graph.by_id["9"].params == {"outputs": [["out", ["summary", "2"]]]}, "what was given stays as it is"


def test_arguments_of_a_tool_follow_a_renamed_node():
    arguments = {"city": "in {{#2.text#}}", "answer": ["text", "2"], "unit": "C"}
    graph = NodeGraph([NodeSpec("2", "llm"), NodeSpec("3", "tool", {"tool": "send", "arguments": arguments})])
    assert rename(graph, {"2": "9"}).by_id["3"].params["arguments"] == {
        "city": "in {{#9.text#}}",
        "answer": ["text", "9"],
        "unit": "C",
    }


def test_what_runs_inside_of_a_renamed_node_is_renamed_with_it():
    graph = NodeGraph([NodeSpec("3", "llm"), NodeSpec("3-1", "llm", {}, "3"), NodeSpec("3-1-1", "llm", {}, "3-1"), NodeSpec("x", "llm", {}, "3")],
                      [Edge("3-1", "x")])  # fmt: skip
    moved = rename(graph, {"3": "2-2"})
    assert [(each.id, each.parent) for each in moved.nodes] == [
        ("2-2", ""),
        ("2-2-1", "2-2"),
        ("2-2-1-1", "2-2-1"),
        ("x", "2-2"),
    ]
    assert moved.edges == [Edge("2-2-1", "x")]


def test_mappings_of_names_are_read_as_in_yaml():
    value = flow(
        node("1", "start", variables={"name": "string"}),
        node("2", "llm", system="", user="{{#1.name#}}"),
        node("9", "end", outputs={"greeting": "2.text"}),
    )
    result = mended(value)
    assert (param(result, "1")["variables"], param(result, "9")["outputs"]) == (
        [["name", "string"]],
        [["greeting", ["text", "2"]]],
    )


def test_the_page_gives_rules_of_each_level_as_examples():
    page = Path(__file__).parents[4] / "docs" / "repair.md"
    rows = re.findall(r"^\| (text|shape|graph) \| (.*) \|$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert [level for level, _ in rows] == ["text", "shape", "graph"]
    for level, examples in rows:
        named = re.findall(r"`([a-z-]+)`", examples)
        assert named
        assert {*named} <= getattr(FORMAT, level).keys()
