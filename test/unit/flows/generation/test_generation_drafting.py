"""The form in which parameters are drafted, and back to what is declared without a loss."""

import json

import pytest

from operad.flows.generation.drafting import drafted, params_of
from operad.operators.nodes import CHAT2WORKFLOW_TYPES, NODE_TYPES


def as_json(value):
    return json.loads(json.dumps(value))


@pytest.mark.parametrize("name", NODE_TYPES)
def test_what_is_drafted_is_what_was_declared(name):
    node_type = NODE_TYPES[name]
    example = as_json(node_type.example)
    assert as_json(params_of(node_type, drafted(node_type, example))) == example


def test_conditions_are_read_with_and_without_a_value():
    cases = [{"logic": None, "conditions": [{"variable": "1.x", "operator": "empty", "value": None}]}]
    cases += [{"logic": "or", "conditions": [{"variable": "1.x", "operator": "in", "value": ["a", "b"]}]}]
    assert params_of(NODE_TYPES["if-else"], {"cases": cases}) == {
        "cases": [[None, [[["x", "1"], "empty"]]], ["or", [[["x", "1"], "in", ["a", "b"]]]]]
    }


@pytest.mark.parametrize("name", CHAT2WORKFLOW_TYPES)
@pytest.mark.parametrize("value", [None, 3, "x", [], [1], {}, {"a": {"b": [None]}}, [["x"]]])
def test_whatever_is_drafted_is_read_without_a_crash(name, value):
    node_type = NODE_TYPES[name]
    params_of(node_type, dict.fromkeys(node_type.params_type.model_fields, value))
    drafted(node_type, dict.fromkeys(node_type.params_type.model_fields, value))


def test_mappings_of_names_are_read_as_in_yaml():
    outputs = [["greeting", ["text", "2"]], ["french", ["text", "4"]]]
    assert params_of(NODE_TYPES["end"], {"outputs": {"greeting": "2.text", "french": "4.text"}}) == {"outputs": outputs}
    assert params_of(NODE_TYPES["end"], {"outputs": {"name": "greeting", "value": "2.text"}}) == {
        "outputs": outputs[:1]
    }
    assert params_of(NODE_TYPES["start"], {"variables": {"name": "string"}}) == {"variables": [["name", "string"]]}


@pytest.mark.parametrize(
    "outputs", [[{"variable": "sum", "value_selector": ["2", "text"]}], [["sum", "text", "2"]]], ids=["keys", "items"]
)
def test_values_of_another_form_are_kept_and_shown_as_the_model_wrote_them(outputs):
    end = NODE_TYPES["end"]
    declared = params_of(end, {"outputs": outputs})
    assert declared == {"outputs": outputs}
    assert drafted(end, declared) == {"outputs": outputs}


def test_a_field_that_a_record_leaves_out_before_its_last_has_its_default():
    drafted = {
        "assignments": [{"variable": "2.best", "value": "{{#2-1.text#}}"}, {"variable": "2.n", "operation": "add"}]
    }
    declared = params_of(NODE_TYPES["assigner"], drafted, ["2", "2-1"])
    assert declared == {"assignments": [[["best", "2"], "set", ["text", "2-1"]], [["n", "2"], "add"]]}


def test_a_parameter_whose_name_has_more_words_is_the_one_that_it_means():
    variables = [{"name": "best", "type": "string", "value": ""}]
    assert params_of(NODE_TYPES["loop"], {"loop_count": 4, "loop_variables": variables}) == {
        "loop_count": 4,
        "variables": [["best", "string", ""]],
    }
    both = {"variables": [], "loop_variables": variables}
    assert params_of(NODE_TYPES["loop"], both) == both, "it is given already"
    assert params_of(NODE_TYPES["llm"], {"system_user": "x"}) == {"system_user": "x"}, "two may be meant"
