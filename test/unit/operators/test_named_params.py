"""Parameters with names in place of positions: read, written, and found again in what was written."""

import pytest

from operad.flows.formats.json_text import plain
from operad.operators.named_params import named, named_place, positional, written_path
from operad.operators.nodes import NODE_TYPES

FORMS = [
    ("end", {"outputs": [["sum", ["text", "3"]]]}, {"outputs": {"sum": "3.text"}}),
    ("start", {"variables": [["a", "string"], ["b", "file"]]}, {"variables": {"a": "string", "b": "file"}}),
    (  # a name twice is for the check to report
        "start",
        {"variables": [["a", "string"], ["a", "file"]]},
        {"variables": [{"name": "a", "type": "string"}, {"name": "a", "type": "file"}]},
    ),
    (
        "if-else",
        {"cases": [["or", [[["x", "1"], "is", "a"], [["x", "1"], "empty"]]], [None, []]]},
        {
            "cases": [
                {
                    "logic": "or",
                    "conditions": [
                        {"variable": "1.x", "operator": "is", "value": "a"},
                        {"variable": "1.x", "operator": "empty"},
                    ],
                },
                {"conditions": []},
            ]
        },
    ),
    (
        "parameter-extractor",
        {"query": ["text", "2"], "parameters": [["what it is", "city", "string"]], "instruction": "Read."},
        {
            "query": "2.text",
            "parameters": [{"name": "city", "type": "string", "description": "what it is"}],
            "instruction": "Read.",
        },
    ),
    (  # fields between that have their default are left out, the last one is not
        "assigner",
        {"assignments": [[["n", "5"], "set", None], [["n", "5"]]]},
        {"assignments": [{"variable": "5.n", "value": None}, {"variable": "5.n"}]},
    ),
    (  # where a text may stand as well, a variable stays a list
        "tool",
        {"tool": "weather", "arguments": {"city": ["city", "1"], "unit": "1.text"}},
        {"tool": "weather", "arguments": {"city": ["city", "1"], "unit": "1.text"}},
    ),
    ("variable-aggregator", {"variables": [["a.b", "1"]]}, {"variables": ["1.a.b"]}),
    ("variable-aggregator", {"variables": [["a", "1.2"]]}, {"variables": [["a", "1.2"]]}),
    ("llm", {"memory": [None, "{{#1.q#}}"]}, {"memory": {"query": "{{#1.q#}}"}}),
]


@pytest.mark.parametrize(("kind", "lists", "names"), FORMS)
def test_both_forms_say_the_same(kind, lists, names):
    declared = NODE_TYPES[kind].params_type
    assert named(declared, lists) == names
    assert positional(declared, names) == lists
    assert positional(declared, lists) == lists


def test_a_variable_may_be_written_as_in_a_text():
    declared = NODE_TYPES["end"].params_type
    assert positional(declared, {"outputs": {"sum": "{{#3.text#}}"}}) == {"outputs": [["sum", ["text", "3"]]]}


@pytest.mark.parametrize("kind", NODE_TYPES)
def test_every_example_has_both_forms(kind):
    declared, lists = NODE_TYPES[kind].params_type, plain(NODE_TYPES[kind].example)
    assert positional(declared, named(declared, lists)) == lists


@pytest.mark.parametrize(
    "given",
    [
        {"outputs": "3.text"},
        {"outputs": [{"nmae": "a", "value": "3.text"}]},
        {"outputs": [{"value": "3.text"}]},
        {"outputs": [{}]},
        {"outputs": [["a"], ["a", ["text", "3"], "more"], 7, None]},
        {"outputs": None},
        {"others": {"a": "3.text"}},
        [],
        None,
    ],
)
def test_what_fits_neither_form_is_left_for_the_check(given):
    declared = NODE_TYPES["end"].params_type
    assert named(declared, given) == given
    assert positional(declared, given) == given


@pytest.mark.parametrize(
    ("kind", "params", "place", "written"),
    [
        ("end", {"outputs": {"a": "3.x", "b": "3.y"}}, ["outputs", 1, 1], ["outputs", "b"]),
        ("end", {"outputs": {"a": "3.x", "b": "3.y"}}, ["outputs", 1, 0], ["outputs", "b"]),
        ("end", {"outputs": [["a", "3.x"]]}, ["outputs", 0, 1, 0], ["outputs", 0, 1]),
        ("if-else", {"cases": [{"conditions": [{"variable": "1.x"}]}]}, ["cases", 0, 1, 0, 0],
         ["cases", 0, "conditions", 0, "variable"]),
        ("llm", {"system": ""}, ["failure", "retries"], ["failure"]),
        ("llm", None, ["system"], ["system"]),
    ],
)  # fmt: skip
def test_a_place_is_found_as_it_is_written(kind, params, place, written):
    assert written_path(NODE_TYPES[kind].params_type, params, place) == written


@pytest.mark.parametrize(
    ("kind", "where", "said"),
    [
        ("end", "outputs[0][1]", "outputs[0].value"),
        ("if-else", "cases[2][1][0][2]", "cases[2].conditions[0].value"),
        ("variable-aggregator", "variables[1]", "variables[1]"),
        ("llm", "failure.retries", "failure.retries"),
        ("llm", "", ""),
        ("end", "outputs[0][9]", "outputs[0][9]"),
    ],
)
def test_a_place_is_said_with_names(kind, where, said):
    assert named_place(NODE_TYPES[kind].params_type, where) == said
