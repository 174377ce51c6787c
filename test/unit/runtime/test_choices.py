import pytest

from operad.runtime.models.embedded import grammar_of, steps_of


def closed(**properties):
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def test_an_answer_is_put_together_from_fixed_text_and_choices():
    schema = closed(fruit={"type": "string", "enum": ["fig", "pear"]}, ripe={"type": "boolean"}, kind={"const": 1})
    assert steps_of(schema) == (
        ('{"fruit": "',),
        ('fig", "ripe":', 'pear", "ripe":'),
        (' true, "kind": 1}', ' false, "kind": 1}'),
    )


def test_an_object_in_an_object_is_part_of_the_answer():
    assert steps_of(closed(names=closed(ada={"enum": ["yes", "no", "yes"]}))) == (
        ('{"names": {"ada": "',),
        ('yes"}}', 'no"}}'),
    )


def test_values_are_written_as_the_grammar_of_json_has_them():
    assert steps_of(closed(a={"enum": ['Zoë "Z"', None]})) == (('{"a":',), (' "Zoë \\"Z\\""}', " null}"))


@pytest.mark.parametrize(
    "schema",
    [
        None,
        {"enum": [1, 12]},
        closed(name={"type": "string"}),
        closed(names={"type": "array", "items": {"enum": ["a"]}}),
        closed(a={"enum": ["a", "b"], "not": {"const": "a"}}),
        closed(a={"$ref": "#/$defs/A"}),
        closed(a={"enum": []}),
        closed(a={"enum": ["a"]}) | {"required": []},
        closed(a={"enum": ["a"]}) | {"additionalProperties": True},
        closed(a={"anyOf": [{"enum": ["a"]}]}),
    ],
)
def test_a_schema_that_leaves_more_open_has_no_steps(schema):
    assert steps_of(schema) == ()


def test_a_grammar_holds_the_texts_as_they_are():
    assert grammar_of(['"a\\"é"', "b"]) == 'root ::= "\\"a\\\\\\"é\\"" | "b"'
