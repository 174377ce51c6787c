import json
import pickle
from pathlib import Path
from typing import Any

import pytest
import yaml
from answer_forms import faults, parsed, validate

from operad.operators import Operator
from operad.runtime.reasoning.task import Task
from operad.runtime.testing import ScriptedReasoner
from operad.runtime.values.answer_json import MAX_SLIPS
from operad.runtime.values.errors import AnswerError, InvalidError
from operad.runtime.values.json_schema import is_strict
from operad.runtime.values.message import Job
from operad.runtime.values.output import Output
from operad.runtime.values.schema import MAX_ANSWER, AnswerSchema, SchemaMismatch

STRING = {"type": "string"}


def closed(**properties):
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def array(items):
    return {"type": "array", "items": items}


def described(text):
    return {"type": "string", "description": text}


EXAMPLES = {
    "{claims: [string]}": closed(claims=array(STRING)),
    '{"answer": "In one sentence."}': closed(answer=described("In one sentence.")),
    "{a: string, b: number, c: integer, d: boolean, e: any, f: null}": closed(
        a=STRING, b={"type": "number"}, c={"type": "integer"}, d={"type": "boolean"}, e={}, f={}
    ),
    '{"n": 3, "x": 0.5, "big": 1e3, "ok": true, "text": ""}': closed(
        n={"type": "integer"}, x={"type": "number"}, big={"type": "number"}, ok={"type": "boolean"}, text=STRING
    ),
    "{on: string, at: 12:30, day: 2024-01-01}": closed(on=STRING, at=described("12:30"), day=described("2024-01-01")),
    "[string]": array(STRING),
    "{a: []}": closed(a=array({})),
    "{a: [integer, string]}": closed(a=array({"anyOf": [{"type": "integer"}, STRING]})),
    '{a: ["first", "second"]}': closed(a=array(described("first, second"))),
    "{a: [{b: x}, ...]}": closed(a=array(closed(b=described("x")))),
    "title: string\nclaims:\n  - text: The claim.\n    sure: true": closed(
        title=STRING, claims=array(closed(text=described("The claim."), sure={"type": "boolean"}))
    ),
    "- name: string\n": array(closed(name=STRING)),
    "```json\n{a: string}\n```": closed(a=STRING),
    "{type: string, name: string}": closed(type=STRING, name=STRING),
    "{type: string, description: string}": closed(type=STRING, description=STRING),
    "{items: [string], properties: string}": closed(items=array(STRING), properties=STRING),
    "base: &b {x: integer}\nother: *b": closed(base=closed(x={"type": "integer"}), other=closed(x={"type": "integer"})),
}


@pytest.mark.parametrize("text", EXAMPLES)
def test_an_example_becomes_a_schema(text):
    assert parsed(text) == EXAMPLES[text]
    assert not AnswerSchema.parse(text).is_json_schema


WORDS = [
    "",
    "  \n",
    "string",
    "Answer in one sentence.",
    "Answer: yes or no",
    "information: The information gathered.\nsources_used: A list of all URLs.",
    "- Return only your answer.\n- No units.",
    "**Status**: whether it passed\n**Labels**: [names]",
    "Steps taken:\n  - first\n  - second",
    "Use {name} and [x] as you like",
    "first: a\nsecond: b: c",
    "word " * 20_000,
]


@pytest.mark.parametrize("text", WORDS, ids=lambda text: text[:20])
def test_words_stay_words_even_if_they_parse_as_yaml(text):
    assert parsed(text) is None


SCHEMAS = [
    {"type": "object", "properties": {"a": {"enum": ["x"]}}, "required": ["a"]},
    {"type": "array", "items": STRING, "minItems": 1},
    {"enum": ["yes", "no"]},
    {"type": ["string", "null"]},
    {"type": "string", "description": "The answer."},
    {"anyOf": [STRING, {"type": "null"}]},
    {"$schema": "https://json-schema.org/draft/2020-12/schema"},
    {"$ref": "#/$defs/a", "$defs": {"a": STRING}},
    {"type": "object", "properties": {}, "x-vendor": 1},
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=json.dumps)
def test_a_json_schema_is_taken_as_it_is_in_json_and_in_yaml(schema):
    assert parsed(json.dumps(schema)) == schema
    assert parsed(yaml.safe_dump(schema)) == schema
    assert AnswerSchema.parse(json.dumps(schema)).is_json_schema


def test_all_that_is_wrong_with_a_json_schema_is_said_at_once():
    broken = {"type": "object", "properties": {"a": {"type": "text"}, "b": {"minimum": "1"}, "c": {"$ref": "#/nope"}}}
    with pytest.raises(InvalidError) as raised:
        parsed(json.dumps(broken))
    assert [(issue.code, issue.where) for issue in raised.value.issues] == [
        ("json-schema", "output_schema $.properties.a.type"),
        ("json-schema", "output_schema $.properties.b.minimum"),
        ("reference", "output_schema"),
    ]


def test_a_reference_to_elsewhere_is_refused_and_nothing_is_fetched():
    with pytest.raises(InvalidError, match=r"'http://127\.0\.0\.1:9/x' has no target in this schema"):
        parsed('{"$ref": "http://127.0.0.1:9/x"}')


BOMB = "{a: &a [x, x], b: &b [*a, *a, *a, *a, *a, *a, *a, *a], c: &c [*b, *b, *b, *b, *b, *b, *b, *b], "
BOMB += "d: &d [*c, *c, *c, *c, *c, *c, *c, *c], e: [*d, *d, *d, *d, *d, *d, *d, *d]}"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{a: [string}", "unreadable"),
        ("{a: !!python/name:os.system }", "unreadable"),
        ("[" * 40 + "]" * 40, "too-deep"),
        ("[" * 30_000 + "]" * 30_000, "too-deep"),
        ("{a: &a [*a]}", "too-deep"),
        (BOMB, "too-large"),
        ("{" + "a" * 70_000 + "}", "too-large"),
    ],
    ids=["unclosed", "python", "deep", "very deep", "recursive", "bomb", "long"],
)
def test_what_is_in_braces_but_cannot_be_used_is_an_error(text, code):
    with pytest.raises(InvalidError) as raised:
        parsed(text)
    assert [issue.code for issue in raised.value.issues] == [code]


def output_schemas(folder: Path):
    for file in sorted(folder.glob("*.yml")):
        for index, operator in enumerate(yaml.safe_load(file.read_text("utf-8")).get("operators") or ()):
            yield f"{file.stem} {index}", parsed(operator["output_schema"])


def test_chat2graph_files_give_schemas_where_they_hold_json_and_words_elsewhere(shared_data):
    kinds = {
        where: sorted(schema["properties"]) if schema else None
        for where, schema in output_schemas(shared_data / "chat2graph")
    }
    assert {where: keys for where, keys in kinds.items() if keys} == {
        "data_importation 0": ["result"],
        "graph_modeling 0": [
            "concepts",
            "data_full_view",
            "document_insights",
            "document_snippets",
            "domain",
            "potential_relations",
            "properties",
        ],
        "graph_modeling 1": ["entity_label", "reachability", "relation_label", "status"],
        "graph_query 0": ["analysis", "object_vertex_type", "query_condition", "supplement"],
        "graph_query 1": ["query", "query_result"],
        "question_answering 0": [
            "internet_references",
            "internet_result",
            "knowledge_base_references",
            "knowledge_base_result",
            "original_question",
        ],
        "question_answering 1": ["anwser", "references"],
    }
    assert sorted(where for where, keys in kinds.items() if keys is None) == [
        *(f"chat2graph {index}" for index in range(9)),
        *(f"gaia_agents {index}" for index in range(3)),
    ]


FORM = closed(a={"type": "integer"}, b=array(STRING))
VALUE = {"a": 1, "b": ["x"]}


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1, "b": ["x"]}',
        '```json\n{"a": 1, "b": ["x"]}\n```',
        'Here it is:\n```\n{"a": 1, "b": ["x"]}\n```\nAnything else?',
        'I think {"a": 1, "b": ["x"]} is right.',
        'First [1], then {"a": 1, "b": ["x"]}.',
        '{"a": 1, "b": ["x",],}',
        "{'a': 1, 'b': ['x']}",
        '{a: 1, b: ["x"]',
    ],
)
def test_json_is_found_in_fences_and_prose_and_slips_are_mended(text):
    assert validate(FORM, text) == VALUE


def test_an_answer_that_was_cut_off_is_not_mended():
    with pytest.raises(SchemaMismatch):
        validate(FORM, '{"a": 1, "b": ["x", "y', repair=False)


SLIPS = {
    "score": {"type": "integer", "maximum": 10},
    "share": {"type": "number"},
    "sure": {"type": "boolean"},
    "kind": {"enum": ["praise", "Bug report"]},
    "level": {"enum": [1, 2], "type": "integer"},
    "tone": {"const": "calm"},
    "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    "blame": array({"type": "string", "enum": ["title", "points"]}),
    "scores": array({"type": "integer"}),
    "steps": array({"$ref": "#/$defs/step"}),
}
STEP = {"type": "object", "properties": {"name": STRING, "hours": {"type": "integer"}}, "required": ["name"]}


def slips_schema(*names):
    return {**closed(**{name: SLIPS[name] for name in names}), "$defs": {"step": STEP}}


@pytest.mark.parametrize(
    ("name", "given", "read"),
    [
        ("score", "10", 10),
        ("share", "-0.5e1", -5.0),
        ("sure", "false", False),
        ("kind", "Praise", "praise"),
        ("kind", " bug report\n", "Bug report"),
        ("level", "2", 2),
        ("tone", "Calm", "calm"),
        ("limit", "7", 7),
        ("blame", "title", ["title"]),
        ("blame", ["Title"], ["title"]),
        ("scores", 3, [3]),
        ("scores", ["3", 4], [3, 4]),
        ("steps", {"name": "a"}, [{"name": "a"}]),
        ("steps", [{"name": "a", "hours": "2"}], [{"name": "a", "hours": 2}]),
    ],
)
def test_a_slip_with_one_reading_is_read(name, given, read):
    result = validate(slips_schema(name), json.dumps({name: given}))
    assert json.dumps(result) == json.dumps({name: read})


def test_all_slips_of_an_answer_are_read_and_the_rest_stays_as_it_is():
    answer = {"score": "9", "blame": "points", "kind": "BUG REPORT", "sure": True, "limit": None}
    assert validate(slips_schema(*answer), json.dumps(answer)) == {
        **answer,
        "score": 9,
        "blame": ["points"],
        "kind": "Bug report",
    }


@pytest.mark.parametrize(
    ("schema", "given"),
    [
        ({"type": "integer"}, "ten"),
        ({"type": "integer"}, " 10"),
        ({"type": "integer"}, "9.5"),
        ({"type": "integer"}, "010"),
        ({"type": "integer"}, "1" * 5_000),
        ({"type": "integer", "maximum": 10}, "11"),
        ({"type": "number"}, "1e999"),
        ({"type": "boolean"}, "yes"),
        ({"type": "boolean"}, "True"),
        ({"type": "integer"}, True),
        (STRING, 10.5),
        ({"enum": ["a", "A"]}, "a "),
        ({"enum": ["praise"]}, "compliment"),
        ({"anyOf": [{"type": "integer"}, {"type": "array", "items": {"enum": ["10"]}}]}, "10"),
        (array(STRING), "none"),
        (array(STRING), "a, b"),
        (array({}), "a"),
        (array(True), 3),
        (array({"type": ["integer", "null"]}), None),
        (array({"enum": ["title"]}), "Title"),
        (array(STEP), {}),
        (array({"type": "object"}), {"items": []}),
        ({**array({"type": "integer"}), "minItems": 2}, 3),
        (closed(groups=array(array({"type": "integer"}))), {"groups": [1, 5]}),
        ({"propertyNames": {"enum": ["a"]}}, {"A": 1}),
        ({"propertyNames": {"type": "integer"}}, {"1": 1}),
    ],
)
def test_a_value_with_no_reading_or_several_keeps_its_faults(schema, given):
    answer = {"value": given}
    with pytest.raises(SchemaMismatch) as raised:
        validate(closed(value=schema), json.dumps(answer))
    assert str(raised.value).splitlines() == faults(closed(value=schema), answer)


@pytest.mark.parametrize(
    "text",
    [
        '{"score": "3", "sure": "true", "why": "surplus"}',
        'First {"score": "3", "sure": true}, then {"score": "9", "sure": true}.',
    ],
)
def test_slips_are_not_read_in_an_answer_with_other_faults_or_in_one_of_several(text):
    with pytest.raises(SchemaMismatch):
        validate(slips_schema("score", "sure"), text)


def test_an_item_alone_is_not_read_as_the_list_because_it_may_be_the_first_of_several():
    with pytest.raises(SchemaMismatch):
        validate(array(STEP), '{"name": "a"}')


@pytest.mark.parametrize(
    ("form", "text", "read"),
    [
        ({"enum": ["praise", "bug"]}, "praise", "praise"),
        ({"enum": ["praise", "bug"]}, "```\nBug\n```", "bug"),
        ({"anyOf": [{"const": "bug"}, {"type": "null"}]}, "bug", "bug"),
        ({"type": "integer"}, "10", 10),
        ({"type": "boolean"}, "true", True),
        (array(STRING), "- The moon has air.\n- It is round.\n", ["The moon has air.", "It is round."]),
        (array(STRING), "* **a**\n\n* b", ["**a**", "b"]),
        (array(STRING), "1. a\n2. see [1]\n3. b", ["a", "see [1]", "b"]),
        (array(STRING), "1) a\r\n2) b", ["a", "b"]),
        (array(STRING), '["a"]', ["a"]),
        (array({"type": "integer"}), "- 3\n- 4", [3, 4]),
        (array({"enum": ["title", "points"]}), "• Title\n• points", ["title", "points"]),
    ],
)
def test_the_value_of_the_only_field_is_read_without_json(form, text, read):
    assert json.dumps(validate(closed(value=form), text)) == json.dumps({"value": read})


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (closed(kind={"enum": ["praise", "bug"]}), "It is praise."),
        (closed(kind={"enum": ["praise", "bug"]}, why=STRING), "praise"),
        (closed(text=STRING), "The moon has no air."),
        (closed(text={"anyOf": [STRING, {"type": "integer"}]}), "10"),
        (closed(steps=array(STEP)), '{"name": "a"}'),
        *(
            (closed(claims=array(STRING)), text)
            for text in (
                "none",
                "a, b",
                "a\nb",
                "- none",
                "Two claims:\n- a\n- b",
                "- a\n- b\nThese are all.",
                "- a\n  - b\n- c",
                "- a\n* b",
                "-a\n-b",
                "1. a\n3. b",
                "2. a\n3. b",
                '- "a"\n- "b"',
                "- [x] a\n- [ ] b",
            )
        ),
    ],
)
def test_a_text_that_may_mean_something_else_is_not_read_as_the_only_field(schema, text):
    with pytest.raises(SchemaMismatch):
        validate(schema, text)


def test_slips_of_an_answer_that_was_cut_off_are_not_read():
    with pytest.raises(SchemaMismatch):
        validate(slips_schema("score"), '{"score": "1"}', repair=False)


def test_a_whole_number_is_read_as_a_text():
    assert validate(closed(id=STRING, after=array(STRING)), '{"id": 2, "after": [1]}') == {"id": "2", "after": ["1"]}
    with pytest.raises(SchemaMismatch):
        validate(closed(id=STRING), '{"id": true}')


def test_the_faults_are_those_of_the_largest_value_and_of_the_branch_that_is_meant():
    with pytest.raises(SchemaMismatch, match="'id' is a required property"):
        validate(closed(id=STRING, after=array(STRING)), '{"after": ["1", "2"],}')
    add, remove = closed(op={"const": "add"}, name=STRING), closed(op={"const": "remove"}, id=STRING)
    with pytest.raises(SchemaMismatch) as raised:
        validate(array({"anyOf": [add, remove]}), '[{"op": "remove", "name": "a"}]')
    assert "$[0]: 'id' is a required property" in str(raised.value).splitlines()


def test_of_types_that_nothing_distinguishes_the_nearest_is_meant():
    refund, reply = closed(order={"type": "integer"}, amount={"type": "number"}), closed(text=STRING)
    either = {"anyOf": [refund, reply]}
    assert faults(either, {"order": "x", "amount": 3}) == ["$.order: 'x' is not of type 'integer'"]
    assert "'text' is a required property" in faults(either, {"txt": 3})
    assert faults(either, {}) == ["'text' is a required property"]
    [undecided] = faults({"anyOf": [closed(a=STRING), closed(b=STRING)]}, {})
    assert "is not valid under any" in undecided


def test_faults_of_an_answer_without_the_object_around_it_are_those_of_the_answer():
    schema = AnswerSchema.unchecked({"anyOf": [closed(order={"type": "integer"}), closed(text=STRING)]})
    for text in ('{"order": "x"}', '{"answer": {"order": "x"}}'):
        with pytest.raises(SchemaMismatch) as raised:
            schema.read(text)
        assert str(raised.value).endswith("order: 'x' is not of type 'integer'")
    assert schema.read('{"order": 1,}') == {"order": 1}
    with pytest.raises(SchemaMismatch):
        schema.read('{"order": 1,}', repair=False)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"op": "rename"}, "{'op': 'rename'} is not valid under any of the given schemas"),
        ({"op": "add", "at": {"unit": "cm"}}, "$.at.unit: 'mm' was expected"),
        (3, "3 is not valid under any of the given schemas"),
    ],
)
def test_faults_of_a_branch_are_named_only_for_a_value_that_is_meant_for_it(value, message):
    at = {"type": "object", "properties": {"unit": {"const": "mm"}}}
    add = {"type": "object", "properties": {"op": {"const": "add"}, "at": at}}
    assert faults({"anyOf": [{"type": "null"}, add]}, value) == [message]


def test_a_value_that_fits_is_preferred_to_one_with_slips():
    assert validate(slips_schema("score"), 'Not {"score": "3"} but {"score": 9}.') == {"score": 9}


def test_slips_are_read_in_a_bounded_number_of_values():
    scores = slips_schema("scores")
    assert validate(scores, json.dumps({"scores": ["1"] * MAX_SLIPS})) == {"scores": [1] * MAX_SLIPS}
    with pytest.raises(SchemaMismatch):
        validate(scores, json.dumps({"scores": ["1"] * (MAX_SLIPS + 1)}))


def test_every_fault_is_named_with_its_path():
    with pytest.raises(SchemaMismatch) as raised:
        validate(FORM, '{"a": "one", "b": ["x", 2], "c": 3}')
    assert str(raised.value).splitlines() == [
        "Additional properties are not allowed ('c' was unexpected)",
        "$.a: 'one' is not of type 'integer'",
        "$.b[1]: 2 is not of type 'string'",
    ]
    assert isinstance(raised.value, AnswerError)


def test_a_long_list_of_faults_is_shortened():
    with pytest.raises(SchemaMismatch) as raised:
        validate(array(STRING), json.dumps([[number] for number in range(100)]))
    assert len(str(raised.value).splitlines()) == 21
    assert str(raised.value).endswith("and 80 more")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("I cannot say.", "the answer holds no JSON"),
        ("", "the answer holds no JSON"),
        ("NaN", "the answer holds no JSON"),
        ("x" * (MAX_ANSWER + 1), "at most 1,048,576 are read"),
        ("[" * 100_000, "the answer holds no JSON"),
    ],
    ids=["prose", "empty", "nan", "long", "deep"],
)
def test_an_answer_without_usable_json_is_a_mismatch(text, message):
    with pytest.raises(SchemaMismatch, match=message):
        validate(FORM, text)


@pytest.mark.parametrize("schema", [{}, closed(a={"type": "number"}), closed(a={"multipleOf": 0.5})], ids=json.dumps)
@pytest.mark.parametrize(
    "text",
    [
        '{"a": NaN}',
        'It is {"a": NaN}.',
        '{"a": -Infinity}',
        '{"a": 1e999}',
        '{"a": 1e999,}',
        '```\n{"a": Infinity}\n```',
    ],
)
def test_a_number_that_is_not_finite_is_a_mismatch(text, schema):
    with pytest.raises(SchemaMismatch, match="NaN and Infinity are not JSON"):
        validate(schema, text)


def test_scalars_are_values_too():
    assert validate({"type": "integer"}, " 42 ") == 42
    assert validate({"enum": ["yes", "no"]}, '"yes"') == "yes"


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        (FORM, True),
        (closed(a={"anyOf": [STRING, {"type": "null"}]}), True),
        ({**FORM, "required": ["a"]}, False),
        ({"type": "object", "properties": {"a": STRING}, "required": ["a"]}, False),
        (closed(a={}), False),
        (closed(a=array(closed(b={}))), False),
        (closed(a={"oneOf": [STRING]}), False),
        (array(STRING), False),
        (closed(a={**STRING, "format": "date-time", "pattern": "^2"}), True),
        (closed(a={**STRING, "format": "uri"}), False),
        (closed(a={**STRING, "minLength": 1}), False),
        (closed(a={**array(STRING), "minItems": 1}), True),
        (closed(a={**array(STRING), "uniqueItems": True}), False),
        (closed(a={**STRING, "examples": ["a"]}), False),
    ],
)
def test_a_response_format_is_strict_where_everything_is_closed_and_required(schema, strict):
    assert AnswerSchema.unchecked(schema).response_format == {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": schema, "strict": strict},
    }


def test_a_list_may_be_part_of_a_strict_schema():
    assert is_strict(array(STRING))


def test_a_form_is_a_value_that_is_pickled_with_its_schema_and_parsed_once():
    form = AnswerSchema.parse("{a: integer}")
    assert form.validate('{"a": 1}') == {"a": 1}
    copied = pickle.loads(pickle.dumps(form))  # noqa: S301 - of this test
    assert (copied, copied.schema, copied.is_json_schema) == (form, form.schema, False)
    assert copied.validate('{"a": 2}') == {"a": 2}
    assert AnswerSchema.of(form) is form


def test_plain_values_are_checked_as_a_json_schema_or_become_one():
    assert AnswerSchema.of({"a": "integer"}).schema == closed(a={"type": "integer"})
    assert AnswerSchema.of(FORM).schema is not None
    with pytest.raises(InvalidError, match="'text' is not valid"):
        AnswerSchema.of({"type": "object", "properties": {"a": {"type": "text"}}})


async def test_the_tasks_of_an_operator_hold_one_form():
    reasoner = ScriptedReasoner('{"a": 1}')
    operator = Operator("Count.", id="count", output="{a: integer}")
    for _ in range(2):
        await operator.execute(reasoner, Job("Go."))
    first, second = (task.output_schema for task in reasoner.tasks)
    assert first is second
    assert (first.text, first.schema) == ("{a: integer}", closed(a={"type": "integer"}))


def test_a_task_takes_a_form_as_text_or_as_values():
    for form in ("{a: integer}", {"a": "integer"}, AnswerSchema.parse("{a: integer}")):
        task = Task(job=Job("Go."), instruction="Count.", output_schema=form)
        assert task.output_schema.schema == closed(a={"type": "integer"})
    assert Task(job=Job("Go."), instruction="Count.").output_schema.schema is None
    with pytest.raises(InvalidError, match="'strng' is not a type"):
        Task(job=Job("Go."), instruction="Count.", output_schema="{a: strng}")


@pytest.mark.parametrize("kind", [Any, dict[str, Any] | list[int]])
def test_the_object_around_an_answer_is_taken_off_although_it_would_fit_itself(kind):
    schema = Output(kind).schema
    assert schema.is_enclosed
    assert schema.read('{"answer": {"answer": [1]}}') == {"answer": [1]}
    assert schema.read('{"figs": [1]}') == {"figs": [1]}
