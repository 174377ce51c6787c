"""Values made up for JSON Schemas: they fit, or an error names the place."""

import datetime
import ipaddress
import json
import uuid
from decimal import Decimal
from typing import Annotated, Any, Literal, cast

import openai
import pytest
from answer_forms import faults
from pydantic import AnyUrl, BaseModel, ByteSize, Field, Json, NegativeInt

from operad import Operator, Workflow
from operad.runtime.values.errors import InputError
from operad.testing import Plausible, ScriptedModel, plausible

SCHEMAS = [
    {"type": "string", "format": "uuid"},
    {"type": "string", "pattern": r"^\d{4}-[A-F]+(x|y)?$", "minLength": 9},
    {"type": "string", "pattern": "b+", "minLength": 5, "maxLength": 6},
    {"type": "integer", "minimum": 10, "multipleOf": 7},
    {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 0.5},
    {"type": "number", "multipleOf": 0.01, "minimum": 0.335},
    {"type": "integer", "maximum": -3},
    {"type": "integer", "exclusiveMaximum": -3, "multipleOf": 5},
    {"type": "number", "exclusiveMinimum": 1.5, "maximum": 1.6},
    {"type": "array", "items": {"type": "integer"}, "minItems": 5, "uniqueItems": True},
    {"type": "array", "items": {"type": "boolean"}, "uniqueItems": True, "minItems": 2},
    {"type": "array", "items": {"enum": ["a", "b", "c"]}, "uniqueItems": True, "minItems": 3},
    {
        "type": "array",
        "items": {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
        "uniqueItems": True,
        "minItems": 3,
    },
    {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": False, "minItems": 2},
    {
        "type": "array",
        "prefixItems": [{"type": "integer"}, {"type": "integer"}],
        "items": {"type": "integer"},
        "minItems": 4,
        "uniqueItems": True,
    },
    {"type": "array", "contains": {"const": 3}, "items": {"type": "integer"}},
    {"contains": {"type": "string"}, "minContains": 2},
    {"type": "object", "minProperties": 3},
    {"type": "object", "minProperties": 2, "additionalProperties": {"type": "array", "items": {"type": "integer"}}},
    {"type": "object", "minProperties": 2, "propertyNames": {"pattern": "^x_[0-9]$"}},
    {
        "type": "object",
        "minProperties": 1,
        "patternProperties": {"^n[0-9]+$": {"type": "integer"}},
        "additionalProperties": False,
    },
    {"type": "object", "minProperties": 3, "propertyNames": {"enum": ["a", "b", "c"]}},
    {
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "type": "object",
    },
    {"oneOf": [{"type": "integer"}, {"type": "number", "minimum": 5}]},
    {
        "allOf": [
            {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
            {"properties": {"a": {"minimum": 5}, "b": {"type": "string"}}, "required": ["b"]},
        ]
    },
    {"type": "integer", "not": {"const": 1}},
    {"not": {"type": "string"}},
    {"type": "string", "not": {"enum": ["text"]}},
    {"not": {"type": ["string", "object"]}},
    {
        "type": "object",
        "properties": {"kind": {"enum": ["a", "b"]}, "n": {"type": "integer"}},
        "required": ["kind"],
        "if": {"properties": {"kind": {"const": "a"}}},
        "then": {"required": ["n"], "properties": {"n": {"minimum": 50}}},
        "else": False,
    },
    {"type": "object", "properties": {"card": {"type": "string"}}, "dependentRequired": {"card": ["addr"]}},
    {
        "$ref": "#/$defs/n",
        "$defs": {
            "n": {
                "type": "object",
                "properties": {"v": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]}},
                "required": ["v", "next"],
            }
        },
    },
    {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#"}}, "l": {"$ref": "#"}}},
    {
        "type": "object",
        "properties": {"kids": {"type": "array", "items": {"$ref": "#"}, "minItems": 0}},
        "required": ["kids"],
    },
    {"type": ["string", "null"], "minLength": 3},
    {"type": "string", "minLength": 3, "maxLength": 3},
    {"enum": [3, "x"]},
    {"const": None},
    {},
    {"type": "string", "pattern": "^(?:[a-z0-9]+\\.)+com$"},
    {"type": "string", "pattern": "^[^@]+@[^@]+$", "maxLength": 5},
    {"minimum": 7},
    {"type": "array", "minItems": 2, "maxItems": 2, "items": {"type": "string", "format": "date"}, "uniqueItems": True},
    {"type": "object", "maxProperties": 1, "properties": {"a": {"type": "string"}, "b": {"type": "string"}}},
    {
        "type": "object",
        "properties": {"a": {"type": "integer"}},
        "required": ["z"],
        "additionalProperties": {"type": "boolean"},
    },
    {"anyOf": [{"type": "integer", "minimum": 5, "maximum": 4}, {"type": "string"}]},
    {"type": "string", "enum": ["a", "b"], "not": {"const": "a"}},
    {"type": "array", "items": {"anyOf": [{"type": "integer"}, {"type": "string"}]}, "minItems": 3},
    {
        "type": "object",
        "properties": {"a": {"$ref": "#/definitions/x"}},
        "definitions": {"x": {"type": "number", "maximum": 0.1}},
    },
    {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "array",
        "items": [{"type": "integer"}, {"type": "string"}],
        "minItems": 2,
    },
    {"type": "string", "pattern": "^\\S+ \\w{2,4}$"},
    {"type": "string", "pattern": "^[A-Z]{2}\\d{2}(?:[ ]?[0-9]{4}){4}$"},
    {"type": "number", "minimum": 0, "maximum": 1},
    {"type": "integer", "minimum": 0, "maximum": 0},
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=json.dumps)
def test_a_plausible_value_fits_its_schema(schema):
    assert faults(schema, plausible(schema)) == []


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "integer", "exclusiveMinimum": 5}, 6),
        ({"type": "number", "multipleOf": 0.01, "minimum": 0.335}, 0.34),
        ({"type": "string", "pattern": "^[A-Z]{3}$"}, "AAA"),
        ({"type": "string", "format": "date-time"}, "2026-01-01T12:00:00Z"),
        ({"prefixItems": [{"type": "integer"}, {"type": "string"}], "items": False, "minItems": 2}, [1, "text"]),
        ({"additionalProperties": {"type": "integer"}, "minProperties": 2}, {"key1": 1, "key2": 1}),
        ({"type": "integer", "not": {"const": 1}}, 2),
        ({"anyOf": [{"type": "integer", "minimum": 5, "maximum": 4}, {"type": "string"}]}, "text"),
        ({"anyOf": [{"type": "number", "exclusiveMinimum": 3}, {"type": "string"}]}, 4),
        ({"type": "array", "items": {"type": "string", "pattern": "(?=x)y"}}, []),
    ],
    ids=str,
)
def test_a_plausible_value_is_the_simplest_one(schema, value):
    assert plausible(schema) == value


ENDLESS = {"type": "object", "properties": {"n": {"$ref": "#/$defs/n"}}, "required": ["n"]}


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"type": "object", "properties": {"a": {"type": "integer", "minimum": 5, "maximum": 4}}, "required": ["a"]}, r"\$\.a of .* less than the minimum of 5"),
        ({"type": "object", "properties": {"a": {"type": "string", "pattern": "(?=x)y"}}, "required": ["a"]}, r"\$\.a of .* pattern '\(\?=x\)y' cannot be made up \(look-around"),
        ({"type": "array", "items": {"type": "string", "minLength": 10**9}, "minItems": 1}, r"\$\.items of .* 1,000,000,000 characters"),
        ({"type": "array", "items": {"enum": [1]}, "minItems": 2, "uniqueItems": True}, r"\$ of .* non-unique"),
        ({"$ref": "#/$defs/n", "$defs": {"n": ENDLESS}}, r"\$\.n\.n.* would have no end"),
        ({"$ref": "#"}, "would have no end"),
        ({"$ref": "#/$defs/nope"}, "'#/\\$defs/nope' has no target"),
        ({"allOf": [{"type": "string"}, {"type": "integer"}]}, "it allows no value"),
        ({"type": "thing"}, "not a valid JSON Schema"),
    ],
)  # fmt: skip
def test_a_schema_without_a_plausible_value_is_named_with_its_place_and_the_remedy(schema, told):
    with pytest.raises(InputError, match=told) as raised:
        plausible(schema)
    assert str(raised.value).endswith("give the answer with Say(…) instead")


class Tree(BaseModel):
    name: str
    children: list["Tree"] = []


class Everything(BaseModel):
    at: datetime.datetime
    day: datetime.date
    time: datetime.time
    lasts: datetime.timedelta
    amount: Decimal
    key: uuid.UUID
    page: AnyUrl
    host: ipaddress.IPv4Address
    network: ipaddress.IPv6Network
    size: ByteSize
    raw: bytes
    said: Json
    below: NegativeInt
    pair: tuple[int, str]
    several: Annotated[set[int], Field(min_length=2)]
    by_name: Annotated[dict[Literal["x", "y"], float], Field(min_length=1)]
    tree: Tree
    other: "Everything | None" = None


def test_a_plausible_step_answers_for_a_type_of_every_kind(capfd):
    with ScriptedModel(lambda request: Plausible()) as scripted:
        run = Workflow(Operator("Answer.", id="a", output=Everything), model=scripted.model).run("q")
    assert isinstance(run.output, Everything)
    assert run.output.tree == Tree(name="text", children=[Tree(name="text")])
    assert (run.output.pair, run.output.several) == ((1, "text"), {1, 2})
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("script", [lambda request: Plausible(), [Plausible()]], ids=["function", "steps"])
def test_a_step_without_a_plausible_value_fails_the_test_and_writes_nothing(script, capfd):
    schema = {"type": "object", "properties": {"code": {"enum": []}}, "required": ["code"]}
    request = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}

    def asks():
        with ScriptedModel(script) as scripted:
            client = openai.OpenAI(base_url=scripted.base_url, api_key="k", max_retries=0)
            with pytest.raises(openai.BadRequestError, match="the script failed"):
                client.chat.completions.create(model="m", messages=[], response_format=cast("Any", request))

    with pytest.raises(InputError, match=r"Plausible\(\) found no value for \$\.code"):
        asks()
    assert capfd.readouterr() == ("", "")
