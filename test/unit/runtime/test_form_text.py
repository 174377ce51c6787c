"""The text of an answer's form: read, or refused with its place."""

import json

import pytest
import yaml
from amounts import examples
from answer_forms import parsed
from hypothesis import given
from hypothesis import strategies as st

from operad.operators import Operator, OperatorConfig
from operad.runtime.values.errors import InvalidError
from operad.runtime.values.form_text import TYPE_WORDS, FormError
from operad.runtime.values.schema import AnswerSchema

REFUSED = {
    "{why: strng}": ("no-type", "line 1, column 7, at the ^ of {why: ^strng}: 'strng' is not a type (did you mean 'string'?)"),
    '{"why": "strng"}': ("no-type", "line 1, column 9, at the ^ of {\"why\": ^\"strng\"}: 'strng' is not a type (did you mean"),
    "{a: string, b: [bolean]}": ("no-type", "line 1, column 17, at the ^ of {a: string, b: [^bolean]}: 'bolean' is not a type (did you mean 'boolean'?)"),
    "a: string\nb: nubmer": ("no-type", "line 2, column 4, at the ^ of b: ^nubmer: 'nubmer' is not a type (did you mean 'number'?)"),
    "{n: Integer}": ("no-type", "line 1, column 5, at the ^ of {n: ^Integer}: 'Integer' is not a type (did you mean 'integer'?)"),
    "{n: numbers}": ("no-type", "line 1, column 5, at the ^ of {n: ^numbers}: 'numbers' is not a type (did you mean 'number'?)"),
    "```yaml\n{a:\n   strng}\n```": ("no-type", "line 3, column 4, at the ^ of    ^strng}: 'strng' is not a type"),
    "{names: list}": ("no-type", "line 1, column 9, at the ^ of {names: ^list}: 'list' is not a type; write [string]"),
    "{who: object}": ("no-type", "line 1, column 7, at the ^ of {who: ^object}: 'object' is not a type; write {key: string}"),
    "a: number\nb: list[string]": ("no-type", "line 2, column 4, at the ^ of b: ^list[string]: 'list[string]' is not a type; write [string]"),
    "a: number\nb: string[]": ("no-type", "line 2, column 4, at the ^ of b: ^string[]: 'string[]' is not a type; write [string]"),
    "{a: string?}": ("no-type", "line 1, column 5, at the ^ of {a: ^string?}: 'string?' is not a type; write string | null, or KEY?: string"),
    "{a: string | none}": ("no-type", "line 1, column 5, at the ^ of {a: ^string | none}: 'string | none' mixes types with other words; write types, as in string | null, or a choice, as in {a: {enum: [a, b]}}"),
    "{a?: strng | b}": ("no-type", "line 1, column 6, at the ^ of {a?: ^strng | b}: 'strng | b' mixes types with other words"),
    "{why: string, why?: number}": ("duplicate-key", "line 1, column 21, at the ^ of {why: string, why?: ^number}: duplicate key 'why'"),
    "- strng\n- other": ("no-type", "line 1, column 3, at the ^ of - ^strng: 'strng' is not a type (did you mean 'string'?)"),
    "why: strng": ("no-type", "line 1, column 6, at the ^ of why: ^strng: 'strng' is not a type (did you mean 'string'?)"),
    "nonsense": ("no-type", "'nonsense' is not a type; write a form such as {nonsense: string}, or describe the answer in several words"),
    "42": ("no-type", "'42' is not a type; write a form such as {answer: string}, or describe the answer in several words"),
    "Markdown.": ("no-type", "'Markdown.' is not a type; write a form"),
    "strng": ("no-type", "'strng' is not a type (did you mean 'string'?); describe a text in several words"),
    "list[str]": ("no-type", "'list[str]' is not a type; write [string]"),
    "dict[str, int]": ("no-type", "'dict[str, int]' is not a type; write {key: string}"),
    "integers | null": ("no-type", "'integers | null' mixes types with other words"),
    "{why: string": ("unreadable", "line 1, column 1, at the ^ of ^{why: string: neither JSON nor YAML: the { that opens here has no , or } before"),
    "{a: [string}": ("unreadable", "line 1, column 5, at the ^ of {a: ^[string}: neither JSON nor YAML: the [ that opens here has no , or ] before line 1, column 12"),
    "[string": ("unreadable", "line 1, column 1, at the ^ of ^[string: neither JSON nor YAML: the [ that opens here has no , or ] before"),
    "why: string}": ("no-type", "line 1, column 6, at the ^ of why: ^string}: 'string}' is not a type (did you mean 'string'?)"),
    "{a: 'x}": ("unreadable", "line 1, column 5, at the ^ of {a: ^'x}: neither JSON nor YAML: the quote that opens here is not closed"),
    "{a: string} please": ("unreadable", "line 1, column 13, at the ^ of {a: string} ^please: neither JSON nor YAML: a second value after the end of the first"),
    "{why string}": ("unreadable", "line 1, column 2, at the ^ of {^why string}: the key 'why string' has no value"),
    "{why:string}": ("unreadable", "line 1, column 2, at the ^ of {^why:string}: the key 'why:string' has no value; write KEY: VALUE"),
    "{a: b: c}": ("unreadable", "line 1, column 1, at the ^ of ^{a: b: c}: neither JSON nor YAML: a second `: ` in one entry"),
    "{a: string, a: number}": ("duplicate-key", "line 1, column 13, at the ^ of {a: string, ^a: number}: duplicate key 'a'"),
    '{"a": 1, "a": 2}': ("duplicate-key", "line 1, column 10, at the ^ of"),
    "{v: {enum: [1.10, 1.2]}}": ("value", "line 1, column 13, at the ^ of {v: {enum: [^1.10, 1.2]}}: 1.10 is read as 1.1; write 1.1, or '1.10' for a text"),
    "{v: {enum: [a, ~]}}": ("value", "line 1, column 16, at the ^ of {v: {enum: [a, ^~]}}: ~ is read as null; write null, or '~' for a text"),
    "{v: {enum: [True, a]}}": ("value", "line 1, column 13, at the ^ of {v: {enum: [^True, a]}}: True is read as true; write true, or 'True' for a text"),
    "{v: {enum: [.inf]}}": ("value", "line 1, column 13, at the ^ of {v: {enum: [^.inf]}}: '.inf' is not a finite number; put it in quotes"),
    "{v: 1.10 | 1.2}": ("value", "line 1, column 5, at the ^ of {v: ^1.10 | 1.2}: 1.10 | 1.2 is read as 1.1 | 1.2; write 1.1 | 1.2, or {enum: ['1.10', '1.2']} for texts"),
    "{type: object, properties: {v: {const: 1_000}}}": ("value", "line 1, column 40, at the ^ of {type: object, properties: {v: {const: ^1_000}}}: 1_000 is read as 1000; write 1000"),
    "a: string\na: number": ("duplicate-key", "line 2, column 1, at the ^ of ^a: number: duplicate key 'a'"),
}  # fmt: skip


@pytest.mark.parametrize("text", REFUSED)
def test_a_form_that_says_less_than_it_seems_to_is_refused_with_its_place(text):
    code, said = REFUSED[text]
    with pytest.raises(InvalidError) as raised:
        parsed(text)
    (issue,) = raised.value.issues
    assert issue.code == code
    assert issue.message.startswith(said)


READ = {
    "{kind: a|b}": {"enum": ["a", "b"]},
    "{kind: a | b-c | d.e}": {"enum": ["a", "b-c", "d.e"]},
    '{"kind": "\'a\' | \'b c\'"}': {"enum": ["a", "b c"]},
    "{kind: 1 | 2.5}": {"enum": [1, 2.5]},
    "{kind: 1 | a}": {"enum": ["1", "a"]},
    "{kind: string|null}": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    "{kind: {enum: [yes, no]}}": {"enum": ["yes", "no"]},
    "{kind: {enum: [NO, on, 12:30, 2026-01-01, 010, 0x1F, 1e3]}}": {"enum": ["NO", "on", "12:30", "2026-01-01", "010", "0x1F", "1e3"]},
    "{kind: {enum: [1, 2.5, true, null]}}": {"enum": [1, 2.5, True, None]},
    "{kind: 010}": {"type": "string", "description": "010"},
    "{kind: 1.10}": {"type": "number"},
    "{kind: string | integer}": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
    "{kind: any | null}": {},
    "kind: a|b": {"enum": ["a", "b"]},
    "{kind: very good | bad}": {"type": "string", "description": "very good | bad"},
    "{kind: {enum: [a, b]}}": {"enum": ["a", "b"]},
    "{kind: [{enum: [1, 2]}]}": {"type": "array", "items": {"enum": [1, 2]}},
    "{kind: {enum: string}}": {"type": "object", "properties": {"enum": {"type": "string"}}, "required": ["enum"], "additionalProperties": False},
    "{kind: either a or b}": {"type": "string", "description": "either a or b"},
    "{kind: the reader's name}": {"type": "string", "description": "the reader's name"},
    "{kind: 'a {b'}": {"type": "string", "description": "a {b"},
    '{"kind": "a } \\" b"}': {"type": "string", "description": 'a } " b'},
    "{kind: book}": {"type": "string", "description": "book"},
    "{kind: string # of a kind}\n}": {"type": "string"},
    "{kind: string, ...}": {"type": "string"},
    "{kind: null}": {},
}  # fmt: skip


@pytest.mark.parametrize("text", READ)
def test_a_value_of_a_form_is_read(text):
    assert parsed(text) == {
        "type": "object",
        "properties": {"kind": READ[text]},
        "required": ["kind"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    "text", ["[x] is done", "[a](b) is a link", "Write {a: strng}", "why: in a word", "一句话", "Format: JSON"]
)
def test_what_begins_with_words_stays_words(text):
    assert parsed(text) is None


@pytest.mark.parametrize(
    "text",
    ["{claims: [string], why?: string}", "claims: [string]\nwhy?: string", '{"claims": ["string"], "why?": "string"}'],
)
def test_a_key_with_a_question_mark_may_be_missing(text):
    assert parsed(text) == {
        "type": "object",
        "properties": {"claims": {"type": "array", "items": {"type": "string"}}, "why": {"type": "string"}},
        "required": ["claims"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    ("text", "schema"),
    [("integer", {"type": "integer"}), (" bool ", {"type": "boolean"}), ("a | b", {"enum": ["a", "b"]}), ("any", {}), ("string", None), ("str", None)],
)  # fmt: skip
def test_a_type_or_a_choice_may_stand_alone_and_a_string_is_any_text(text, schema):
    assert parsed(text) == schema


@pytest.mark.parametrize("text", ["string", " str\n", ""])
def test_an_operator_whose_answer_is_a_string_has_no_form(text):
    assert OperatorConfig(instruction="Say.", output_schema=text).output_schema == ""
    assert Operator("Say.", output=text).config.output_schema == ""


def test_plain_values_are_a_form_as_text_is():
    form = {"claims": ["string"], "why?": "string", "kind": "a | b"}
    assert AnswerSchema.of(form).schema == parsed(json.dumps(form))
    with pytest.raises(FormError) as raised:
        AnswerSchema.of({"claims": [{"text": "string", "sure": "nubmer"}]})
    [fault] = raised.value.faults
    assert (fault.path, fault.what[:25]) == (("claims", 0, "sure"), "'nubmer' is not a type (d")


KEYS = st.text("abcdefgh_", min_size=1, max_size=6).filter(lambda key: key != "enum")
VALUES = st.sampled_from([*TYPE_WORDS, "", "In one sentence.", "of what, and why"]) | st.integers() | st.booleans()
FORMS = st.recursive(
    VALUES
    | st.none()
    | st.builds(lambda each: {"enum": each}, st.lists(st.text("abc |{}'\"é", max_size=5), min_size=1, max_size=3)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, min_size=1, max_size=3),
    max_leaves=8,
)


@given(form=st.dictionaries(KEYS, FORMS, min_size=1, max_size=4))
@examples(40, 200)
def test_a_form_says_the_same_as_json_as_yaml_and_as_the_schema_that_it_becomes(form):
    schema = parsed(json.dumps(form))
    assert parsed(yaml.safe_dump(form, default_flow_style=True, sort_keys=False, width=10_000)) == schema
    assert parsed(json.dumps(schema)) == schema
    assert parsed(yaml.safe_dump(schema)) == schema


PIECES = [
    "{",
    "}",
    "[",
    "]",
    ":",
    ": ",
    ",",
    ", ",
    "'",
    '"',
    "\\",
    "#",
    "&a",
    "*a",
    "|",
    ">",
    "\n",
    "  ",
    "- ",
    "...",
    "!!x ",
]
WORDS = [
    "string",
    "strng",
    "number",
    "why",
    "a|b",
    "list[string]",
    "null",
    "1",
    "enum",
    "type",
    "properties",
    "é",
    "words in a row",
]


@given(text=st.lists(st.sampled_from(PIECES + WORDS) | st.text(max_size=3), max_size=14).map("".join))
@examples(200, 400)
def test_every_text_is_read_or_refused(text):
    try:
        schema = parsed(text)
    except InvalidError:
        return
    if schema is None:  # words, or nothing
        assert not text.strip().startswith("{") or not text.strip("{} \n")
    else:
        assert parsed(json.dumps(schema)) == schema


def test_all_faults_of_a_form_are_found_at_once():
    with pytest.raises(InvalidError) as raised:
        AnswerSchema.parse("{claims: [strng], n: integr, inner: {a: 'x', a?: 'y'}}")
    assert [issue.code for issue in raised.value.issues] == ["no-type", "no-type", "duplicate-key"]
