"""The text of an answer's form: read, or refused with its place."""

import json

import pytest
import yaml
from amounts import examples
from hypothesis import given
from hypothesis import strategies as st

from operad.runtime.values.errors import InvalidError
from operad.runtime.values.schema import TYPE_WORDS, parse_output_schema

REFUSED = {
    "{why: strng}": ("no-type", "line 1, column 7, at the ^ of {why: ^strng}: 'strng' is no type (did you mean 'string'?)"),
    '{"why": "strng"}': ("no-type", "line 1, column 9, at the ^ of {\"why\": ^\"strng\"}: 'strng' is no type (did you mean"),
    "{a: string, b: [bolean]}": ("no-type", "line 1, column 17, at the ^ of {a: string, b: [^bolean]}: 'bolean' is no type (did you mean 'boolean'?)"),
    "a: string\nb: nubmer": ("no-type", "line 2, column 4, at the ^ of b: ^nubmer: 'nubmer' is no type (did you mean 'number'?)"),
    "{n: Integer}": ("no-type", "line 1, column 5, at the ^ of {n: ^Integer}: 'Integer' is no type (did you mean 'integer'?)"),
    "{n: numbers}": ("no-type", "line 1, column 5, at the ^ of {n: ^numbers}: 'numbers' is no type (did you mean 'number'?)"),
    "```yaml\n{a:\n   strng}\n```": ("no-type", "line 3, column 4, at the ^ of    ^strng}: 'strng' is no type"),
    "{names: list}": ("no-type", "line 1, column 9, at the ^ of {names: ^list}: 'list' is no type; write [string]"),
    "{who: object}": ("no-type", "line 1, column 7, at the ^ of {who: ^object}: 'object' is no type; write {key: string}"),
    "a: number\nb: list[string]": ("no-type", "line 2, column 4, at the ^ of b: ^list[string]: 'list[string]' is no type; write [string]"),
    "a: number\nb: string[]": ("no-type", "line 2, column 4, at the ^ of b: ^string[]: 'string[]' is no type; write [string]"),
    "{kind: a|b}": ("no-type", "line 1, column 8, at the ^ of {kind: ^a|b}: 'a|b' is no choice; write {kind: {enum: [a, b]}}"),
    '{"kind": "\'a\' | \'b\'"}': ("no-type", "line 1, column 10, at the ^ of"),
    "{a: string|null}": ("no-type", "line 1, column 5, at the ^ of {a: ^string|null}: 'string|null' is no type; write any, or a JSON Schema with anyOf"),
    "{why: string": ("unreadable", "line 1, column 1, at the ^ of ^{why: string: this { is not closed"),
    "{a: [string}": ("unreadable", "line 1, column 12, at the ^ of {a: [string^}: } where ] is to close ["),
    "[string": ("unreadable", "line 1, column 1, at the ^ of ^[string: this [ is not closed"),
    "why: string}": ("unreadable", "line 1, column 12, at the ^ of why: string^}: } closes nothing"),
    "{a: 'x}": ("unreadable", "line 1, column 5, at the ^ of {a: ^'x}: this ' is not closed"),
    "{a: string} please": ("unreadable", "line 1, column 13, at the ^ of {a: string} ^please: the form ends before this"),
    "{why string}": ("unreadable", "line 1, column 2, at the ^ of {^why string}: the key 'why string' has no value"),
    "{why:string}": ("unreadable", "line 1, column 2, at the ^ of {^why:string}: the key 'why:string' has no value; write KEY: VALUE"),
    "{a: b: c}": ("unreadable", "line 1, column 6, at the ^ of {a: b^: c}: is in braces but neither JSON nor YAML"),
    "{a: string, a: number}": ("duplicate-key", "line 1, column 13, at the ^ of {a: string, ^a: number}: the key 'a' stands twice"),
    '{"a": 1, "a": 2}': ("duplicate-key", "line 1, column 10, at the ^ of"),
    "a: string\na: number": ("duplicate-key", "line 2, column 1, at the ^ of ^a: number: the key 'a' stands twice"),
}  # fmt: skip


@pytest.mark.parametrize("text", REFUSED)
def test_a_form_that_says_less_than_it_seems_to_is_refused_with_its_place(text):
    code, said = REFUSED[text]
    with pytest.raises(InvalidError) as raised:
        parse_output_schema(text)
    (issue,) = raised.value.issues
    assert issue.code == code
    assert issue.message.startswith(said)


READ = {
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
    assert parse_output_schema(text) == {
        "type": "object",
        "properties": {"kind": READ[text]},
        "required": ["kind"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    "text", ["[x] is done", "[a](b) is a link", "Write {a: strng}", "Kind: a|b", "why: in a word", "- strng\n- other"]
)
def test_what_begins_with_words_stays_words(text):
    assert parse_output_schema(text) is None


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
    schema = parse_output_schema(json.dumps(form))
    assert parse_output_schema(yaml.safe_dump(form, default_flow_style=True, sort_keys=False, width=10_000)) == schema
    assert parse_output_schema(json.dumps(schema)) == schema
    assert parse_output_schema(yaml.safe_dump(schema)) == schema


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
@examples(200, 1000)
def test_every_text_is_read_or_refused(text):
    try:
        schema = parse_output_schema(text)
    except InvalidError:
        return
    if schema is None:  # words, or nothing
        assert not text.strip().startswith("{") or not text.strip("{} \n")
    else:
        assert parse_output_schema(json.dumps(schema)) == schema
