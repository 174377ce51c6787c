"""What typed nodes do, case by case; the expected values follow from Dify's rules."""

import json
from itertools import pairwise

import pytest

from operad.flows.assemble import assemble
from operad.flows.formats.chat2workflow import parent_of
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.operators.nodes import NODE_TYPES
from operad.operators.services import Services
from operad.runtime import BuiltinWorkflow, DbgptWorkflow, InvalidError, Job, OperadError, OperatorError, Tool
from operad.runtime.knowledge.knowledge import Knowledge, Passage
from operad.runtime.testing import ScriptedReasoner


def graph_of(nodes, edges):
    """A workflow of nodes (id, type, params) and edges (source, target, port); ids say who runs inside whom."""
    specs = [NodeSpec(node_id, kind, params, parent_of(node_id)) for node_id, kind, params in nodes]
    return NodeGraph(specs, [Edge(*edge) for edge in edges])


def run(nodes, edges, inputs=None, *, session="s", **given):
    """The outputs of such a workflow."""
    workflow = assemble(graph_of(nodes, edges), NODE_TYPES, **given)
    return workflow.execute(Job(goal="go", inputs=inputs or {}, session_id=session), ScriptedReasoner([])).outputs


def chain(*nodes, inputs=None, **given):
    """The outputs of nodes one after another; those inside others are a chain of their own."""
    levels = {}
    for node in nodes:
        levels.setdefault(parent_of(node[0]), []).append(node[0])
    edges = [pair for ids in levels.values() for pair in pairwise(ids)]
    return run(nodes, edges, inputs, **given)


def start(**kinds):
    return "1", "start", {"variables": [[name, kind] for name, kind in kinds.items()]}


def end(**outputs):
    return "end", "end", {"outputs": [[name, selector] for name, selector in outputs.items()]}


def code(id, body, outputs, **variables):
    source = f"def main({', '.join(variables)}):\n    {body}"
    return id, "code", {"variables": list(variables.items()), "outputs": outputs, "code": source}


def template(id, text, **variables):
    return id, "template-transform", {"variables": list(variables.items()), "template": text}


def iteration(id, over, output, **others):
    return id, "iteration", {"iterator_selector": over, "output_selector": output, **others}


@pytest.fixture
def files(tmp_path):
    """The path of a file, by its name."""

    def of(name):
        path = tmp_path / name
        path.write_bytes(b"content")
        return str(path)

    return of


# if-else


def way(kind, value, *cases):
    """The answer of the way that is taken: the number of a case, or "else"."""
    answers = [(f"a{port}", "answer", {"answer": str(port)}) for port in range(len(cases))]
    answers.append(("else", "answer", {"answer": "else"}))
    nodes = [start(x=kind, limit="string"), ("2", "if-else", {"cases": cases}), *answers]
    edges = [("1", "2"), *(("2", answer[0], port) for port, answer in enumerate(answers))]
    return run(nodes, edges, {"x": value, "limit": "3"})["answer"]


def holds(kind, value, operator, *expected, variable="x"):
    return way(kind, value, [None, [[[variable, "1"], operator, *expected]]]) == "0"


CONDITIONS = {
    ("string", True): [("figs", "contains", "ig"), ("figs", "not contains", "x"), ("figs", "start with", "fi"),
        ("figs", "end with", "gs"), ("figs", "is", "figs"), ("Figs", "is not", "figs"), ("", "empty"),
        ("figs", "not empty"), ("", "not contains", ""), ("", "is", ""), (None, "empty"),
        (None, "not contains", "a")],
    ("string", False): [("figs", "contains", "IG"), ("figs", "not contains", "ig"), ("figs", "start with", "gs"),
        ("figs", "end with", "fi"), ("Figs", "is", "figs"), ("figs ", "is", "figs"), ("figs", "is not", "figs"),
        ("10", "is", "10.0"), (" ", "empty"), ("", "not empty"), ("", "contains", ""), ("", "start with", ""),
        (None, "not empty"), (None, "contains", "a"), (None, "is", "a"), (None, "is not", "a")],
    ("number", True): [(3, "=", "3"), (3, "=", 3), (3, "≠", "4"), (10, ">", "9"), (2.5, ">", "2"), (3, "<", "3.5"),
        (3, "‹", "4"), (3, "≥", "3"), (3, "≤", "3"), (-1, "<", "0"), ("7", ">", "6"), (0, "empty"), (7, "not empty"),
        (None, "empty")],
    ("number", False): [(3, "≠", "3"), (3, ">", "3"), (3, ">=", "4"), (3, "<=", "2.9"), (0, "not empty"),
        (None, "=", "0"), (None, "≠", "0"), (None, ">", "-1")],
    ("boolean", True): [(True, "is", "true"), (True, "is", True), (False, "is", "false"), (False, "is not", "true"),
        ("true", "is", "true"), (False, "empty"), (True, "not empty")],
    ("boolean", False): [(False, "is", "true"), (True, "is not", "true"), (None, "is", "false"),
        (None, "is not", "true")],
    ("object", True): [({}, "empty"), ({"a": 1}, "not empty"), ({"a": 1}, "is", '{"a": 1}'), (None, "empty")],
    ("object", False): [({"a": 1}, "is not", '{"a": 1}')],
    ("array[string]", True): [(["a", "bc"], "contains", "bc"), (["a", "bc"], "not contains", "b"),
        ([], "not contains", "a"), ([], "empty"), (None, "empty"), (None, "not contains", "a")],
    ("array[string]", False): [(["a", "bc"], "contains", "b"), (["a", "bc"], "not contains", "a"),
        ([], "contains", "a"), ([""], "empty"), (None, "contains", "a")],
    ("array[number]", True): [([1, 2], "contains", "2"), ([12], "not contains", "2"), ([0], "not empty")],
    ("array[boolean]", True): [([False, True], "contains", "true")],
    ("array[boolean]", False): [([False], "contains", "true")],
    ("array[object]", True): [([{"a": 1}], "not empty"), ([], "empty")],
    ("file", True): [(None, "not exists")],
    ("file", False): [(None, "exists")],
}  # fmt: skip
"""Value, operator and what it is compared with, by the type of the variable and whether the condition holds."""


@pytest.mark.parametrize(
    ("kind", "outcome", "condition"), [(*case, each) for case, conditions in CONDITIONS.items() for each in conditions]
)
def test_a_condition_holds_by_the_type_of_its_variable(kind, outcome, condition):
    assert holds(kind, *condition) is outcome


@pytest.mark.parametrize(
    ("name", "variable", "operator", "expected", "outcome"),
    [
        ("a.png", "x", "exists", None, True),
        ("a.png", "x", "not exists", None, False),
        ("a.png", "x.type", "in", ["image"], True),
        ("a.png", "x.type", "in", ["document", "image"], True),
        ("a.pdf", "x.type", "in", ["image", "audio"], False),
        ("a.pdf", "x.type", "in", "document", True),
        ("a.mp3", "x.type", "not in", ["image"], True),
        ("a.mp4", "x.type", "not in", ["video"], False),
        ("a.png", "x.type", "is", "image", True),
        ("a.png", "x.name", "end with", ".png", True),
        ("a.png", "x.extension", "is", ".png", True),
        ("a.png", "x.mime_type", "start with", "image/", True),
        ("a.png", "x.size", "=", "7", True),
        (None, "x.type", "in", ["image"], False),
        (None, "x.type", "not in", ["image"], True),
    ],
)
def test_files(files, name, variable, operator, expected, outcome):
    given = [] if expected is None else [expected]
    assert holds("file", name and files(name), operator, *given, variable=variable) is outcome


@pytest.mark.parametrize(
    ("names", "operator", "expected", "outcome"),
    [
        (["a.png", "b.pdf"], "contains", ["image"], True),
        (["a.png", "b.pdf"], "contains", "image", True),
        (["b.pdf"], "contains", ["image", "audio"], False),
        (["a.png", "b.pdf"], "not contains", ["image"], False),
        (["b.pdf", "c.mp3"], "not contains", ["image"], True),
        (["a.png", "b.jpg"], "all of", ["image"], True),
        (["a.png", "b.pdf"], "all of", ["image"], False),
        (["a.png", "b.pdf"], "all of", ["image", "document"], True),
        ([], "all of", ["image"], False),
        ([], "empty", None, True),
        (["a.png"], "not empty", None, True),
    ],
)
def test_lists_of_files_are_compared_by_the_types_of_files(files, names, operator, expected, outcome):
    given = [] if expected is None else [expected]
    assert holds("array[file]", [files(name) for name in names], operator, *given) is outcome


@pytest.mark.parametrize(
    ("logic", "value", "taken"),
    [
        ("and", "ab", "0"),
        ("and", "a", "else"),
        (None, "a", "else"),
        (None, "ba", "0"),
        ("or", "a", "0"),
        ("or", "c", "else"),
    ],
)
def test_conditions_of_a_case_hold_together_or_one_of_them_does(logic, value, taken):
    conditions = [[["x", "1"], "contains", "a"], [["x", "1"], "contains", "b"]]
    assert way("string", value, [logic, conditions]) == taken


@pytest.mark.parametrize(("value", "taken"), [(95, "0"), (85, "1"), (75, "2"), (5, "else")])
def test_the_first_case_that_holds_is_taken(value, taken):
    cases = [[None, [[["x", "1"], ">=", str(least)]]] for least in (90, 80, 70)]
    assert way("number", value, *cases) == taken


def test_a_file_may_be_asked_for_beside_a_text(files):
    cases = [[None, [[["x", "1"], "not exists"]]], ["and", [[["limit", "1"], "is", "3"], [["x", "1"], "exists"]]]]
    assert way("file", files("a.png"), *cases) == "1"


def test_a_value_to_compare_with_may_name_variables():
    assert holds("number", 4, ">", "{{#1.limit#}}")
    assert not holds("number", 3, ">", "{{#'1'.limit#}}")
    assert holds("string", "a3", "is", "a{{#1.limit#}}")


def test_what_cannot_be_compared_is_an_error_that_names_the_case_and_the_variable():
    nodes = [
        start(),
        code("2", "return {'x': {'n': 'many'}}", [["x", "object"]]),
        ("3", "if-else", {"cases": [[None, [[["x.n", "2"], ">", "3"]]]]}),
        ("4", "answer", {"answer": "hi"}),
    ]
    with pytest.raises(
        OperatorError, match=r"case 0: variable '2\.x\.n': \"many\" \(string\) cannot be compared by '>'"
    ):
        chain(*nodes)


def test_both_ways_may_lead_to_one_node():
    nodes = [start(x="string"), ("2", "if-else", {"cases": [[None, [[["x", "1"], "is", "a"]]]]})]
    nodes += [template("3", "hi"), end(out=["output", "3"])]
    edges = [("1", "2"), ("2", "3", 0), ("2", "3", 1), ("3", "end")]
    assert [run(nodes, edges, {"x": x}) for x in "ab"] == [{"out": "hi"}] * 2


def test_a_way_that_leads_nowhere_is_an_error_that_names_the_port():
    nodes = [start(x="string"), ("2", "if-else", {"cases": [[None, [[["x", "1"], "is", "a"]]]]}), end(x=["x", "1"])]
    with pytest.raises(OperadError, match="'2' took port 'else', not '0'"):
        run(nodes, [("1", "2"), ("2", "end", 0)], {"x": "b"})


# list-operator


def listed(kind, values, *operator):
    nodes = [start(xs=kind), ("2", "list-operator", {"variable": ["xs", "1"], "operator": list(operator)})]
    outputs = end(result=["result", "2"], first=["first_record", "2"], last=["last_record", "2"])
    return chain(*nodes, outputs, inputs={"xs": values})


@pytest.mark.parametrize(
    ("kind", "values", "operator", "result"),
    [
        ("array[string]", ["c", "a", "b"], ("extract_by", 1), ["c"]),
        ("array[string]", ["c", "a", "b"], ("extract_by", "3"), ["b"]),
        ("array[string]", ["c", "a", "b"], ("limit", 2), ["c", "a"]),
        ("array[string]", ["c", "a", "b"], ("limit", 20), ["c", "a", "b"]),
        ("array[string]", ["c", "a", "b"], ("order_by", "asc"), ["a", "b", "c"]),
        ("array[string]", ["c", "a", "b"], ("order_by", "desc"), ["c", "b", "a"]),
        ("array[string]", ["b", "B", "a"], ("order_by", "asc"), ["B", "a", "b"]),
        ("array[string]", ["10", "9"], ("order_by", "asc"), ["10", "9"]),
        ("array[number]", [10, 9, 2.5], ("order_by", "asc"), [2.5, 9, 10]),
        ("array[number]", [10, 9, 2.5], ("order_by", "desc"), [10, 9, 2.5]),
        ("array[boolean]", [True, False], ("order_by", "asc"), [False, True]),
        ("array[string]", ["ab", "b", "cab"], ("filter_by", "contains", "ab"), ["ab", "cab"]),
        ("array[string]", ["ab", "b", "cab"], ("filter_by", "not contains", "ab"), ["b"]),
        ("array[string]", ["ab", "b", "cab"], ("filter_by", "start with", "a"), ["ab"]),
        ("array[string]", ["ab", "b", "cab"], ("filter_by", "end with", "b"), ["ab", "b", "cab"]),
        ("array[string]", ["ab", "b"], ("filter_by", "is", "b"), ["b"]),
        ("array[string]", ["ab", "b"], ("filter_by", "is not", "b"), ["ab"]),
        ("array[string]", ["a", "", "b"], ("filter_by", "empty"), [""]),
        ("array[string]", ["a", "", "b"], ("filter_by", "not empty"), ["a", "b"]),
        ("array[string]", ["a", "b", "c"], ("filter_by", "in", ["a", "c"]), ["a", "c"]),
        ("array[string]", ["a", "b", "c"], ("filter_by", "not in", ["a", "c"]), ["b"]),
        ("array[number]", [1, 2, 3], ("filter_by", "=", "2"), [2]),
        ("array[number]", [1, 2, 3], ("filter_by", "≠", "2"), [1, 3]),
        ("array[number]", [1, 2, 3], ("filter_by", ">", "1.5"), [2, 3]),
        ("array[number]", [1, 2, 3], ("filter_by", "<", 3), [1, 2]),
        ("array[number]", [1, 2, 3], ("filter_by", "≥", "2"), [2, 3]),
        ("array[number]", [1, 2, 3], ("filter_by", "<=", "1"), [1]),
        ("array[boolean]", [True, False, True], ("filter_by", "is", "true"), [True, True]),
        ("array[boolean]", [True, False, True], ("filter_by", "is", True), [True, True]),
        ("array[boolean]", [True, False, True], ("filter_by", "is not", True), [False]),
        ("array[boolean]", [True, False, True], ("filter_by", "not is", "true"), [False]),
        ("array[string]", ["a"], ("filter_by", "is", "b"), []),
        ("array[string]", [], ("extract_by", 3), []),
        ("array[string]", [], ("order_by", "desc"), []),
        ("array[string]", None, ("limit", 2), []),
    ],
)
def test_lists(kind, values, operator, result):
    first, last = (result[0], result[-1]) if result else (None, None)
    assert listed(kind, values, *operator) == {"result": result, "first": first, "last": last}


@pytest.mark.parametrize(
    ("operator", "names"),
    [
        (("filter_by", "in", ["image"]), ["d.jpg", "b.png"]),
        (("filter_by", "in", "image"), ["d.jpg", "b.png"]),
        (("filter_by", "not in", ["image", "audio"]), ["a.pdf"]),
        (("filter_by", "in", ["video"]), []),
        (("order_by", "asc"), ["a.pdf", "b.png", "c.mp3", "d.jpg"]),
        (("order_by", "desc"), ["d.jpg", "c.mp3", "b.png", "a.pdf"]),
        (("extract_by", 2), ["d.jpg"]),
    ],
)
def test_lists_of_files(files, operator, names):
    given = [files(name) for name in ("c.mp3", "d.jpg", "a.pdf", "b.png")]
    made = listed("array[file]", given, *operator)
    assert [file.name for file in made["result"]] == names


def test_an_item_beyond_the_list_is_an_error_that_says_how_many_there_are():
    with pytest.raises(OperatorError, match=r"node '2' \(list-operator\): extract_by 4, and '1\.xs' has 3 items"):
        listed("array[number]", [1, 2, 3], "extract_by", 4)


def test_the_number_of_an_item_may_be_a_variable():
    nodes = [start(xs="array[string]", n="number")]
    nodes += [("2", "list-operator", {"variable": ["xs", "1"], "operator": ["extract_by", "{{#1.n#}}"]})]
    nodes += [end(x=["first_record", "2"])]
    assert chain(*nodes, inputs={"xs": ["a", "b"], "n": 2}) == {"x": "b"}
    with pytest.raises(OperatorError, match="is not a number from 1"):
        chain(*nodes, inputs={"xs": ["a", "b"], "n": 0})


# variable-aggregator, joins, ends


@pytest.mark.parametrize(("value", "made"), [("a", "first"), ("b", "second"), ("c", "third")])
def test_an_aggregator_gives_the_variable_of_the_branch_that_ran(value, made):
    cases = [[None, [[["x", "1"], "is", each]]] for each in "ab"]
    nodes = [start(x="string"), ("2", "if-else", {"cases": cases})]
    nodes += [template(str(n), text) for n, text in ((3, "first"), (4, "second"), (5, "third"))]
    nodes += [("6", "variable-aggregator", {"variables": [["output", "3"], ["output", "4"], ["output", "5"]]})]
    edges = [("1", "2"), ("2", "3", 0), ("2", "4", 1), ("2", "5", 2)]
    edges += [("3", "6"), ("4", "6"), ("5", "6"), ("6", "end")]
    for platform in (BuiltinWorkflow, DbgptWorkflow):
        assert run([*nodes, end(out=["output", "6"])], edges, {"x": value}, platform=platform) == {"out": made}


def test_where_several_branches_ran_the_first_in_order_counts():
    nodes = [start(), template("2", "two"), template("3", "three")]
    nodes += [("4", "variable-aggregator", {"variables": [["output", "3"], ["output", "2"]]}), end(x=["output", "4"])]
    assert run(nodes, [("1", "2"), ("1", "3"), ("2", "4"), ("3", "4"), ("4", "end")]) == {"x": "three"}


def test_a_variable_of_a_branch_that_did_not_run_is_not_there():
    nodes = [start(x="string"), ("2", "if-else", {"cases": [[None, [[["x", "1"], "is", "a"]]]]})]
    nodes += [
        template("3", "three"),
        template("4", "four"),
        ("5", "answer", {"answer": "{{#3.output#}}|{{#4.output#}}"}),
    ]
    edges = [("1", "2"), ("2", "3", 0), ("2", "4", 1), ("3", "5"), ("4", "5")]
    assert run(nodes, edges, {"x": "b"}) == {"answer": "|four"}


def test_of_several_ends_those_that_ran_give_results():
    nodes = [start(x="string"), ("2", "if-else", {"cases": [[None, [[["x", "1"], "is", "a"]]]]})]
    nodes += [("3", "end", {"outputs": [["first", ["x", "1"]]]}), ("4", "end", {"outputs": [["other", ["x", "1"]]]})]
    edges = [("1", "2"), ("2", "3", 0), ("2", "4", 1)]
    assert run(nodes, edges, {"x": "a"}) == {"first": "a"}
    assert run(nodes, edges, {"x": "b"}) == {"other": "b"}
    assert run(nodes, [("1", "3"), ("1", "2"), ("2", "4", 1)], {"x": "b"}) == {"first": "b", "other": "b"}


def test_an_answer_is_a_result_and_the_text_of_the_workflow():
    nodes = [start(name="string", n="number"), ("2", "answer", {"answer": "Hi {{#'1'.name#}}, {{#1.n#}} of you."})]
    workflow = assemble(graph_of(nodes, [("1", "2")]), NODE_TYPES)
    message = workflow.execute(Job(goal="go", inputs={"name": "Ann", "n": 2}), ScriptedReasoner([]))
    assert message.outputs == {"answer": "Hi Ann, 2 of you."}
    assert message.scratchpad == "Hi Ann, 2 of you."


# start


@pytest.mark.parametrize(
    ("kind", "given", "value"),
    [
        ("number", "3", 3),
        ("number", 2.5, 2.5),
        ("boolean", "yes", True),
        ("boolean", "False", False),
        ("string", 7, "7"),
        ("string", "", ""),
        ("number", "", None),
        ("array[string]", "a", ["a"]),
        ("array[number]", "[1, 2]", [1, 2]),
        ("object", '{"a": 1}', {"a": 1}),
    ],
)
def test_inputs_may_be_written_as_text(kind, given, value):
    assert chain(start(x=kind), end(x=["x", "1"]), inputs={"x": given}) == {"x": value}


def test_inputs_that_are_missing_unknown_or_of_the_wrong_type_are_all_named():
    with pytest.raises(OperatorError) as caught:
        chain(start(name="string", n="number", paper="file"), end(x=["n", "1"]), inputs={"nmae": "x", "n": "many"})
    text = str(caught.value)
    assert "there is no input 'nmae' (did you mean 'name'?)" in text
    assert "input 'name' (string) is missing" in text
    assert "input 'n': expected number, got \"many\"" in text
    assert "input 'paper' (file) is missing" in text


# iteration

INNER = ("2-1", "iteration-start", {})


def test_an_iteration_keeps_the_order_and_knows_the_place():
    nodes = [start(xs="array[string]"), iteration("2", ["xs", "1"], ["output", "2-2"]), INNER]
    nodes += [template("2-2", "{{ n }}{{ x }}", n=["index", "2"], x=["item", "2"]), end(out=["output", "2"])]
    letters = list("abcdefghijklmnopqrstuvwxyz")
    expected = [f"{n}{letter}" for n, letter in enumerate(letters)]
    assert chain(*nodes, inputs={"xs": letters}) == {"out": expected}
    assert chain(*nodes, inputs={"xs": []}) == {"out": []}
    assert chain(*nodes, inputs={"xs": None}) == {"out": []}


def test_nodes_inside_read_variables_from_outside():
    nodes = [start(xs="array[number]", plus="number"), iteration("2", ["xs", "1"], ["sum", "2-2"]), INNER]
    nodes += [code("2-2", "return {'sum': x + plus}", [["sum", "number"]], x=["item", "2"], plus=["plus", "1"])]
    assert chain(*nodes, end(out=["output", "2"]), inputs={"xs": [1, 2], "plus": 10}) == {"out": [11, 12]}


def test_each_item_takes_its_own_way_inside():
    nodes = [start(xs="array[number]"), iteration("2", ["xs", "1"], ["output", "2-5"]), INNER]
    nodes += [("2-2", "if-else", {"cases": [[None, [[["item", "2"], ">", "1"]]]]})]
    nodes += [template("2-3", "big {{ x }}", x=["item", "2"]), template("2-4", "small")]
    nodes += [("2-5", "variable-aggregator", {"variables": [["output", "2-3"], ["output", "2-4"]]})]
    edges = [("1", "2"), ("2", "end"), ("2-1", "2-2"), ("2-2", "2-3", 0), ("2-2", "2-4", 1)]
    edges += [("2-3", "2-5"), ("2-4", "2-5")]
    assert run([*nodes, end(out=["output", "2"])], edges, {"xs": [1, 2, 3]}) == {"out": ["small", "big 2", "big 3"]}


def test_an_item_whose_way_ends_before_the_result_comes_to_nothing():
    nodes = [start(xs="array[number]"), iteration("2", ["xs", "1"], ["output", "2-3"]), INNER]
    nodes += [("2-2", "if-else", {"cases": [[None, [[["item", "2"], ">", "1"]]]]})]
    nodes += [template("2-3", "big"), end(out=["output", "2"])]
    edges = [("1", "2"), ("2", "end"), ("2-1", "2-2"), ("2-2", "2-3", 0)]
    assert run(nodes, edges, {"xs": [1, 2]}) == {"out": [None, "big"]}


SPLIT = code("2-2", "return {'parts': s.split(',') if s else None}", [["parts", "array[string]"]], s=["item", "2"])


@pytest.mark.parametrize(
    ("items", "joined"),
    [
        (["a,b", "c"], ["a", "b", "c"]),
        (["a,b", "", "c"], ["a", "b", "c"]),
        (["", ""], [None, None]),
    ],
)
def test_results_that_are_lists_are_joined(items, joined):
    nodes = [start(xs="array[string]"), iteration("2", ["xs", "1"], ["parts", "2-2"]), INNER, SPLIT]
    assert chain(*nodes, end(out=["output", "2"]), inputs={"xs": items}) == {"out": joined}


FAILING = code("2-2", "return {'out': 12 / n}", [["out", "number"]], n=["item", "2"])


@pytest.mark.parametrize(("on_error", "out"), [("skip", [12, 6, 3]), ("keep", [12, 6, None, 3])])
def test_an_item_that_fails_may_be_left_out_or_kept_as_nothing(on_error, out):
    nodes = [start(xs="array[number]"), iteration("2", ["xs", "1"], ["out", "2-2"], on_error=on_error), INNER, FAILING]
    assert chain(*nodes, end(out=["output", "2"]), inputs={"xs": [1, 2, 0, 4]}) == {"out": out}


def test_an_item_that_fails_ends_the_run_and_is_named():
    nodes = [start(xs="array[number]"), iteration("2", ["xs", "1"], ["out", "2-2"]), INNER, FAILING]
    with pytest.raises(OperatorError, match=r"item 2\[2\]: .*'2-2'.*ZeroDivisionError"):
        chain(*nodes, end(out=["output", "2"]), inputs={"xs": [1, 2, 0, 4]})


def test_iterations_inside_iterations_read_all_that_is_around_them():
    split = code("2-2", "return {'parts': s.split()}", [["parts", "array[string]"]], s=["item", "2"])
    inner = {"p": ["item", "2-3"], "o": ["index", "2"], "i": ["index", "2-3"], "pre": ["pre", "1"]}
    nodes = [start(xs="array[string]", pre="string"), iteration("2", ["xs", "1"], ["output", "2-3"]), INNER, split]
    nodes += [iteration("2-3", ["parts", "2-2"], ["output", "2-3-2"]), ("2-3-1", "iteration-start", {})]
    nodes += [template("2-3-2", "{{ pre }}{{ o }}{{ i }}{{ p }}", **inner), end(out=["output", "2"])]
    assert chain(*nodes, inputs={"xs": ["a b", "c"], "pre": "-"}) == {"out": ["-00a", "-01b", "-10c"]}


# code, template-transform


@pytest.mark.parametrize(
    ("kind", "returned", "value"),
    [
        ("string", "'a'", "a"),
        ("number", "2.5", 2.5),
        ("number", "True", 1),
        ("boolean", "False", False),
        ("object", "{'a': [1]}", {"a": [1]}),
        ("array[number]", "[1, True, 2.5]", [1, 1, 2.5]),
        ("array[string]", "['a', None]", ["a", None]),
        ("array[object]", "[{'a': 1}]", [{"a": 1}]),
        ("array[boolean]", "[True]", [True]),
        ("string", "None", None),
    ],
)
def test_code_gives_what_it_declares(kind, returned, value):
    made = chain(start(), code("2", f"return {{'x': {returned}}}", [["x", kind]]), end(x=["x", "2"]))["x"]
    assert (made, json.dumps(made)) == (value, json.dumps(value))


@pytest.mark.parametrize(
    ("kind", "returned", "said"),
    [
        ("string", "3", "output 'x' is declared as string, and is number: 3"),
        ("number", "'3'", "output 'x' is declared as number, and is string: \"3\""),
        ("number", "[3]", "output 'x' is declared as number, and is array"),
        ("object", "'{}'", "output 'x' is declared as object, and is string"),
        ("array[string]", "['a', 1]", "output 'x' is declared as array[string], and is array: "),
        ("array[boolean]", "[1]", "output 'x' is declared as array[boolean], and is array[number]"),
    ],
)
def test_code_that_gives_something_else_is_an_error_that_names_the_output(kind, returned, said):
    with pytest.raises(OperatorError) as caught:
        chain(start(), code("2", f"return {{'x': {returned}}}", [["x", kind]]), end(x=["x", "2"]))
    assert f"node '2' (code): {said}" in str(caught.value)


def test_code_that_leaves_an_output_out_is_an_error_that_says_what_it_gave():
    with pytest.raises(OperatorError, match=r"node '2' \(code\): main returned no 'x', .* it returned: y"):
        chain(start(), code("2", "return {'y': 1}", [["x", "number"]]), end(x=["x", "2"]))


def test_code_gets_files_by_what_can_be_named_of_them(files):
    body = "return {'x': f['name'] + f['type'] + f['extension'] + str(f['size'])}"
    nodes = [start(f="file"), code("2", body, [["x", "string"]], f=["f", "1"]), end(x=["x", "2"])]
    assert chain(*nodes, inputs={"f": files("a.png")}) == {"x": "a.pngimage.png7"}


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("{{ xs | join(', ') }}", "a, b"),
        ("{% for x in xs %}{{ loop.index }}{{ x }} {% endfor %}", "1a 2b "),
        ("{% if n > 2 %}many{% else %}few{% endif %}", "many"),
        ("{{ xs | length }} of {{ o.most }}", "2 of 5"),
        ("{{ none }}", "None"),
        ("<b>{{ xs[0] }}</b>", "<b>a</b>"),
    ],
)
def test_templates(text, made):
    names = {"xs": "array[string]", "n": "number", "o": "object", "none": "string"}
    nodes = [start(**names), template("2", text, **{name: [name, "1"] for name in names}), end(x=["output", "2"])]
    assert chain(*nodes, inputs={"xs": ["a", "b"], "n": 3, "o": {"most": 5}, "none": None}) == {"x": made}


# loop, assigner


def loop(*assignments, count=10, variables=(), conditions=(), **others):
    """The outputs of a loop "2" whose one node assigns."""
    params = {"loop_count": count, "variables": list(variables), "break_conditions": list(conditions), **others}
    nodes = [start(n="number"), ("2", "loop", params), ("2-1", "loop-start", {})]
    nodes += [("2-2", "assigner", {"assignments": list(assignments)})] if assignments else []
    names = {variable[0]: [variable[0], "2"] for variable in variables}
    return chain(*nodes, end(rounds=["rounds", "2"], **names), inputs={"n": 3})


COUNT = [["i", "2"], "add", 1]


@pytest.mark.parametrize(
    ("count", "logic", "conditions", "rounds"),
    [
        (4, "and", [], 4),
        (10, "and", [[["i", "2"], "≥", "3"]], 3),
        (2, "and", [[["i", "2"], "≥", "3"]], 2),
        (10, "and", [[["i", "2"], "=", "0"]], 0),
        (10, "and", [[["i", "2"], "≥", "{{#1.n#}}"]], 3),
        (10, "and", [[["i", "2"], "≥", "3"], [["i", "2"], "≥", "5"]], 5),
        (10, "or", [[["i", "2"], "≥", "3"], [["i", "2"], "≥", "5"]], 3),
        (10, "and", [[["index", "2"], "=", "2"]], 2),
    ],
)
def test_a_loop_ends_when_its_conditions_hold_or_it_ran_often_enough(count, logic, conditions, rounds):
    made = loop(COUNT, count=count, variables=[["i", "number", 0]], conditions=conditions, logic=logic)
    assert made == {"rounds": rounds, "i": rounds}


@pytest.mark.parametrize(
    ("logic", "first", "conditions", "rounds"),
    [
        ("and", 0, [[["output", "2-3"], "is", "3"]], 3),  # a node inside
        ("and", 0, [[["output", "2-3"], "is", "3"], [["i", "2"], "≥", "2"]], 3),
        ("and", 0, [[["i", "2"], "=", "{{#2-3.output#}}"]], 1),  # on the right, too
        ("or", 5, [[["i", "2"], "≥", "2"], [["output", "2-3"], "is", "9"]], 0),
        ("or", 5, [[["output", "2-3"], "is", "9"], [["i", "2"], "≥", "2"]], 1),  # no look past it before the first pass
        ("and", 0, [[["n", "1"], "=", "3"]], 0),  # a node before the loop
        ("and", 0, [[["n", "1"], "=", "4"]], 7),
        ("and", 0, [[["o.k", "2"], "=", "1"]], 0),  # a part of an own variable
        ("and", 0, [[["o.k", "2"], "=", "2"]], 7),
    ],
)
def test_a_loop_ends_by_variables_of_nodes_inside_and_before_it(logic, first, conditions, rounds):
    variables = [["i", "number", first], ["o", "object", {"k": 1}]]
    params = {"loop_count": 7, "variables": variables, "break_conditions": conditions, "logic": logic}
    nodes = [start(n="number"), ("2", "loop", params), ("2-1", "loop-start", {})]
    nodes += [("2-2", "assigner", {"assignments": [COUNT]}), template("2-3", "{{ i }}", i=["i", "2"])]
    edges = [("1", "2"), ("2", "end"), ("2-1", "2-2"), ("2-2", "2-3")]
    assert run([*nodes, end(rounds=["rounds", "2"])], edges, {"n": 3}) == {"rounds": rounds}


def test_a_loop_end_ends_it_after_the_pass():
    nodes = [start(), ("2", "loop", {"loop_count": 9, "variables": [["i", "number", 0], ["s", "string", ""]]})]
    nodes += [("2-1", "loop-start", {}), ("2-2", "assigner", {"assignments": [COUNT]})]
    nodes += [("2-3", "if-else", {"cases": [[None, [[["i", "2"], ">", "2"]]]]}), ("2-4", "loop-end", {})]
    nodes += [("2-5", "assigner", {"assignments": [[["s", "2"], "set", "{{#2.s#}}{{#2.i#}}"]]})]
    edges = [("1", "2"), ("2", "end"), ("2-1", "2-2"), ("2-2", "2-3"), ("2-3", "2-4", 0), ("2-3", "2-5", 1)]
    made = run([*nodes, end(i=["i", "2"], s=["s", "2"], rounds=["rounds", "2"])], edges)
    assert made == {"i": 3, "s": "12", "rounds": 3}


def test_a_loop_begins_with_variables_from_outside():
    assert loop(COUNT, count=2, variables=[["i", "number", ["n", "1"]]]) == {"rounds": 2, "i": 5}


def test_a_node_after_an_assigner_reads_the_new_value_and_one_before_it_the_old():
    nodes = [start(), ("2", "loop", {"loop_count": 2, "variables": [["i", "number", 0], ["s", "string", ""]]})]
    nodes += [("2-1", "loop-start", {}), template("2-2", "{{ i }}", i=["i", "2"])]
    nodes += [("2-3", "assigner", {"assignments": [COUNT]}), template("2-4", "{{ i }}", i=["i", "2"])]
    nodes += [("2-5", "assigner", {"assignments": [[["s", "2"], "set", "{{#2.s#}} {{#2-2.output#}}{{#2-4.output#}}"]]})]
    assert chain(*nodes, end(s=["s", "2"])) == {"s": " 01 12"}


def test_a_pass_that_fails_is_named():
    nodes = [start(), ("2", "loop", {"loop_count": 3, "variables": [["i", "number", 1]]}), ("2-1", "loop-start", {})]
    nodes += [("2-2", "assigner", {"assignments": [[["i", "2"], "subtract", 1], [["i", "2"], "divide", ["i", "2"]]]})]
    with pytest.raises(
        OperatorError, match=r"pass 0 of loop '2': .*assignments\[1\]: divide on '2\.i', which is 0, with 0: "
    ):
        chain(*nodes, end(i=["i", "2"]))


def test_an_assignment_reads_those_before_it():
    assignments = [[["a", "2"], "add", 1], [["b", "2"], "set", ["a", "2"]], [["s", "2"], "set", "{{#2.a#}}{{#2.b#}}"]]
    variables = [["a", "number", 1], ["b", "number", 0], ["s", "string", ""]]
    assert loop(*assignments, count=1, variables=variables) == {"rounds": 1, "a": 2, "b": 2, "s": "22"}


@pytest.mark.parametrize(
    ("kind", "first", "assignments", "value"),
    [
        ("string", "a", [["set", "b"]], "b"),
        ("string", "a", [["clear"]], ""),
        ("number", 6, [["add", 2]], 8),
        ("number", 6, [["subtract", 2]], 4),
        ("number", 6, [["multiply", 2]], 12),
        ("number", 6, [["divide", 4]], 1.5),
        ("number", 6, [["divide", ["n", "1"]]], 2),
        ("number", 6, [["clear"]], 0),
        ("number", 6, [["add", 1], ["multiply", 2]], 14),
        ("boolean", False, [["set", True]], True),
        ("object", {}, [["set", {"a": 1}]], {"a": 1}),
        ("array[string]", ["a"], [["append", "b"]], ["a", "b"]),
        ("array[number]", [1], [["append", ["n", "1"]]], [1, 3]),
        ("array[number]", [1], [["extend", [2, 3]]], [1, 2, 3]),
        ("array[number]", [1, 2, 3], [["remove_first"]], [2, 3]),
        ("array[number]", [1, 2, 3], [["remove_last"]], [1, 2]),
        ("array[number]", [], [["remove_first"]], []),
        ("array[number]", [1], [["clear"]], []),
        ("array[number]", [1], [["set", [7]]], [7]),
    ],
)
def test_assignments(kind, first, assignments, value):
    made = loop(*([["x", "2"], *each] for each in assignments), count=1, variables=[["x", kind, first]])
    assert made == {"rounds": 1, "x": value}


def test_a_value_that_is_not_there_changes_nothing():
    nodes = [start(none="string"), ("2", "loop", {"loop_count": 1, "variables": [["x", "string", "a"]]})]
    nodes += [("2-1", "loop-start", {}), ("2-2", "assigner", {"assignments": [[["x", "2"], "set", ["none", "1"]]]})]
    assert chain(*nodes, end(x=["x", "2"]), inputs={"none": None}) == {"x": "a"}


# conversation


def test_a_conversation_keeps_its_variables_from_run_to_run_of_a_session():
    nodes = [("conversation", "conversation", {"variables": [["said", "array[string]", []], ["n", "number", 0]]})]
    assignments = [[["said", "conversation"], "append", "{{#1.x#}}"], [["n", "conversation"], "add", 1]]
    nodes += [start(x="string"), ("2", "assigner", {"assignments": assignments})]
    nodes += [("3", "answer", {"answer": "{{#conversation.n#}}: {{#conversation.said#}}"})]
    services, edges = Services(), [("1", "2"), ("2", "3")]

    def say(x, session):
        return run(nodes, edges, {"x": x}, services=services, session=session)["answer"]

    assert say("a", "one") == '1: ["a"]'
    assert say("b", "one") == '2: ["a", "b"]'
    assert say("c", "other") == '1: ["c"]'
    assert run(nodes, edges, {"x": "d"}, session="one") == {"answer": '1: ["d"]'}


def test_a_conversation_keeps_what_was_assigned_on_the_way_that_was_taken():
    nodes = [("conversation", "conversation", {"variables": [["name", "string", "nobody"]]}), start(x="string")]
    nodes += [("2", "if-else", {"cases": [[None, [[["x", "1"], "not empty"]]]]})]
    nodes += [("3", "assigner", {"assignments": [[["name", "conversation"], "set", ["x", "1"]]]})]
    nodes += [("4", "answer", {"answer": "{{#conversation.name#}}"})]
    edges, services = [("1", "2"), ("2", "3", 0), ("2", "4", 1), ("3", "4")], Services()
    said = [run(nodes, edges, {"x": x}, services=services)["answer"] for x in ("", "Ann", "", "Bob", "")]
    assert said == ["nobody", "Ann", "Ann", "Bob", "Bob"]


# sub-workflow, knowledge-retrieval, tool


def test_a_workflow_runs_inside_another():
    inner = [start(text="string", n="number"), template("2", "{{ t * n }}", t=["text", "1"], n=["n", "1"])]
    inside = assemble(graph_of([*inner, end(out=["output", "2"])], [("1", "2"), ("2", "end")]), NODE_TYPES)
    params = {"workflow": "repeat", "inputs": [["text", ["x", "1"]], ["n", ["n", "1"]]], "outputs": [["out", "string"]]}
    nodes = [start(x="string", n="number"), ("2", "sub-workflow", params), end(said=["out", "2"])]
    services = Services(workflows={"repeat": inside})
    assert chain(*nodes, inputs={"x": "ab", "n": 2}, services=services) == {"said": "abab"}


@pytest.mark.parametrize("kind", ["file", "array[file]"])
@pytest.mark.parametrize("node", ["sub-workflow", "tool"])
def test_a_workflow_inside_takes_files_of_nodes_and_no_paths(tmp_path, kind, node):
    """A model, or a stranger's file, could otherwise have any file read by its path."""
    (tmp_path / "secret.txt").write_text("secret")
    inner = [start(doc=kind), ("2", "document-extractor", {"variable_selector": ["doc", "1"]})]
    inside = assemble(graph_of([*inner, end(text=["text", "2"])], [("1", "2"), ("2", "end")]), NODE_TYPES)
    services = Services(workflows={"read": inside})
    inputs = {"doc": ["x", "1"]}
    params = {
        "sub-workflow": {"workflow": "read", "inputs": [["doc", ["x", "1"]]], "outputs": [["text", "any"]]},
        "tool": {"tool": "read", "arguments": inputs},
    }[node]
    said = ["text", "2"] if node == "sub-workflow" else ["json", "2"]
    path = str(tmp_path / "secret.txt")
    with pytest.raises(Exception, match="input 'doc' of the workflow takes a file of a node before it, not"):
        chain(start(x="string"), ("2", node, params), end(said=said), inputs={"x": path}, services=services)
    result = chain(start(x=kind), ("2", node, params), end(said=said), inputs={"x": path}, services=services)
    assert "secret" in str(result["said"])


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"workflow": "repaet"}, "no workflow is called 'repaet' (did you mean 'repeat'?); there are: repeat"),
        ({"workflow": "repeat", "outputs": [["more", "string"]]}, "'repeat' has no output 'more'; its outputs: out"),
    ],
)
def test_a_workflow_that_is_not_there_or_gives_less_is_said(params, said):
    inside = assemble(
        graph_of([start(), template("2", "hi"), end(out=["output", "2"])], [("1", "2"), ("2", "end")]), NODE_TYPES
    )
    with pytest.raises(OperatorError) as caught:
        chain(
            start(x="string"),
            ("2", "sub-workflow", params),
            end(x=["x", "1"]),
            inputs={"x": ""},
            services=Services(workflows={"repeat": inside}),
        )
    assert f"node '2' (sub-workflow): {said}" in str(caught.value)


class Handbook:
    def retrieve(self, query):
        return Knowledge(passages=(Passage(text=f"on {query}", source="p. 7", score=0.5),))


def test_a_passage_is_looked_up():
    nodes = [start(q="string"), ("2", "knowledge-retrieval", {"query": ["q", "1"], "knowledge": "handbook"})]
    nodes += [end(found=["result", "2"])]
    made = chain(*nodes, inputs={"q": "figs"}, services=Services(knowledge={"handbook": Handbook()}))
    assert made == {"found": [{"content": "on figs", "source": "p. 7", "score": 0.5}]}
    with pytest.raises(OperatorError, match="no knowledge base is called 'handbook'; there are: none; name them"):
        chain(*nodes, inputs={"q": "figs"})


def weather(city: str, days: int = 1) -> dict:
    """Look the weather up."""
    return {"city": city, "days": days}


def shout(text: str) -> str:
    """Say it loud."""
    return text.upper()


@pytest.mark.parametrize(
    ("params", "text", "value"),
    [
        ({"tool": "shout", "arguments": {"text": ["x", "1"]}}, "FIGS", None),
        ({"tool": "shout", "arguments": {"text": "{{#1.x#}}, please"}}, "FIGS, PLEASE", None),
        ({"tool": "weather", "arguments": {"city": "Rome", "days": 3}}, '{"city": "Rome", "days": 3}', "Rome"),
    ],
)
def test_a_tool_is_called(params, text, value):
    nodes = [start(x="string"), ("2", "tool", params), end(text=["text", "2"], city=["json.city", "2"])]
    services = Services(tools=[Tool.of(weather), Tool.of(shout)])
    assert chain(*nodes, inputs={"x": "figs"}, services=services) == {"text": text, "city": value}


def nested() -> str:
    """Give what no reader of JSON goes to the bottom of."""
    return "[" * 200_000


def test_what_a_tool_nests_too_deep_is_a_text():
    nodes = [start(), ("2", "tool", {"tool": "nested"}), end(text=["text", "2"], json=["json", "2"])]
    assert chain(*nodes, services=Services(tools=[Tool.of(nested)])) == {"text": nested(), "json": None}


def test_a_tool_that_is_not_there_is_said_with_the_near_name():
    nodes = [start(), ("2", "tool", {"tool": "wether"}), end(text=["text", "2"])]
    with pytest.raises(OperatorError, match=r"no tool is called 'wether' \(did you mean 'weather'\?\)"):
        chain(*nodes, services=Services(tools=[Tool.of(weather)]))


# all of it


def test_what_is_not_sound_is_not_assembled():
    with pytest.raises(InvalidError) as caught:
        chain(start(), end(x=["y", "1"]))
    assert [issue.code for issue in caught.value.issues] == ["undefined-variable"]
