"""The form in which parameters are drafted: closed, and back to what is declared without a loss."""

import json

import pytest
from answer_forms import faults

from operad.flows.generation.drafting import drafted, params_of, params_schema
from operad.operators.nodes import CHAT2WORKFLOW_TYPES, NODE_TYPES
from operad.runtime.values.schema_check import check_schema, is_strict


def as_json(value):
    return json.loads(json.dumps(value))


@pytest.mark.parametrize("name", NODE_TYPES)
def test_what_is_drafted_is_what_was_declared(name):
    node_type = NODE_TYPES[name]
    example = as_json(node_type.example)
    assert as_json(params_of(node_type, drafted(node_type, example))) == example


@pytest.mark.parametrize("name", CHAT2WORKFLOW_TYPES)
def test_endpoints_can_keep_to_the_schema_to_the_letter(name):
    schema = params_schema(NODE_TYPES[name], ["1.text"])
    check_schema(schema)
    assert is_strict(schema)


@pytest.mark.parametrize("name", CHAT2WORKFLOW_TYPES)
def test_an_example_fits_its_schema(name):
    node_type = NODE_TYPES[name]
    value = as_json(drafted(node_type, as_json(node_type.example)))
    if set(value) != set(node_type.params_type.model_fields):
        pytest.skip("the example leaves out what may be left out")
    named = [text for text in json.dumps(value).split('"') if "." in text]
    assert faults(params_schema(node_type, named), value) == []


def test_a_variable_that_there_is_not_cannot_be_written():
    schema = params_schema(NODE_TYPES["end"], ["3.text"])
    assert not faults(schema, {"outputs": [{"name": "summary", "value": "3.text"}]})
    assert faults(schema, {"outputs": [{"name": "summary", "value": "4.text"}]})


def test_without_variables_nothing_can_be_chosen_and_nothing_breaks():
    schema = params_schema(NODE_TYPES["tts"], [])
    check_schema(schema)
    assert params_of(NODE_TYPES["document-extractor"], {"variable_selector": "none"}) == {"variable_selector": "none"}


def test_conditions_are_read_with_and_without_a_value():
    cases = [{"logic": None, "conditions": [{"variable": "1.x", "operator": "empty", "value": None}]}]
    cases += [{"logic": "or", "conditions": [{"variable": "1.x", "operator": "in", "value": ["a", "b"]}]}]
    assert params_of(NODE_TYPES["if-else"], {"cases": cases}) == {
        "cases": [[None, [[["x", "1"], "empty"]]], ["or", [[["x", "1"], "in", ["a", "b"]]]]]
    }


def test_descriptions_do_not_tell_of_the_declared_form():
    for name in CHAT2WORKFLOW_TYPES:
        assert "[variable" not in json.dumps(params_schema(NODE_TYPES[name], ["1.text"])), name
        assert "[[name" not in json.dumps(params_schema(NODE_TYPES[name], ["1.text"])), name


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
