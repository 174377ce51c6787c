"""Words in an experts' file are words, whatever YAML 1.1 makes of them; odd values are errors in words."""

import json
from typing import Any

import pytest
from amounts import sample

from operad import load_workflow
from operad.configs import load
from operad.runtime.testing import Say, ScriptedModel
from operad.runtime.values.document import parse_document, parse_yaml
from operad.runtime.values.errors import InvalidError, OperadError

FILE = """\
operators:
  - &ask {instruction: Answer., name: ask, KEYS}
experts:
  - profile: {name: E}
    workflow: [[*ask]]
"""


@pytest.fixture
def written(tmp_path):
    def written(keys, file=FILE):
        path = tmp_path / "e.yaml"
        path.write_text(file.replace("KEYS", keys))
        return path

    return written


def properties_of(path):
    with ScriptedModel([Say("{}")] * 3) as model:
        with pytest.raises(OperadError):
            load_workflow(str(path)).run("Go.", model=model.model)
        return model.requests[0]["response_format"]["json_schema"]["schema"]["properties"]


def operator_of(configuration) -> Any:
    [step] = configuration.workflows["E"].get_operators()
    return step


@pytest.mark.parametrize(
    ("form", "properties"),
    [
        ("{ok: {enum: [yes, no]}}", {"ok": {"enum": ["yes", "no"]}}),
        ("{to: {enum: [NO, SE, on, OFF]}}", {"to": {"enum": ["NO", "SE", "on", "OFF"]}}),
        ("{at: {enum: [12:30, 08:00]}}", {"at": {"enum": ["12:30", "08:00"]}}),
        ("{day: {enum: [2026-01-01, 2026-01-01 12:00:00]}}", {"day": {"enum": ["2026-01-01", "2026-01-01 12:00:00"]}}),
        ("{code: {enum: [010, 0x1F, 0b1, =]}}", {"code": {"enum": ["010", "0x1F", "0b1", "="]}}),
        ("{n: {enum: [1, -2.5, true, null]}}", {"n": {"enum": [1, -2.5, True, None]}}),
        ("{type: object, properties: {a: {enum: [no, 12:30]}}, required: [a]}", {"a": {"enum": ["no", "12:30"]}}),
        ("{yes: string, on: boolean, 010: number}", {"yes": {"type": "string"}, "on": {"type": "boolean"}, "010": {"type": "number"}}),
        ("{to: [NO]}", {"to": {"type": "array", "items": {"type": "string", "description": "NO"}}}),
    ],
)  # fmt: skip
def test_a_word_in_a_form_is_a_word(written, form, properties):
    assert properties_of(written(f"output: {form}")) == properties


@pytest.mark.parametrize(
    ("keys", "where", "told"),
    [
        ("output: {v: {enum: [a, 1.10]}}", "operators[0].output.v.enum[1]", "1.10 is read as 1.1; write 1.1, or '1.10' for a text"),
        ("output: {v: {enum: [~]}}", "operators[0].output.v.enum[0]", "~ is read as null; write null, or '~' for a text"),
        ("output: {v: {enum: [True]}}", "operators[0].output.v.enum[0]", "True is read as true; write true, or 'True' for a text"),
        ("output: {type: object, properties: {v: {const: 1_000}}}", "operators[0].output.properties.v.const", "1_000 is read as 1000"),
        ("output: {v: {enum: [.inf]}}", "", "'.inf' is not a finite number; put it in quotes if a text is meant"),
        ("output: {v: 1.10 | 1.2}", "operators[0].output.v", "1.10 | 1.2 is read as 1.1 | 1.2"),
        ("output: {why string}", "operators[0].output.why string", "the key 'why string' has no value"),
        ("ports: [1.10, b]", "operators[0].ports[0]", "must be text, not 1.10; put it in quotes"),
        ("ports: [true, b]", "operators[0].ports[0]", "must be text, not True; put it in quotes"),
    ],
)  # fmt: skip
def test_a_number_or_a_switch_where_a_word_may_be_meant_is_refused_with_the_quotes_to_write(written, keys, where, told):
    with pytest.raises(InvalidError) as raised:
        load(written(keys))
    [issue] = raised.value.issues
    assert issue.where.endswith(f":2 {where}".rstrip())
    assert issue.message.startswith(told)


def test_ports_and_names_are_words_without_quotes(written):
    path = written("ports: [yes, no]", FILE.replace("name: ask", "name: NO"))
    operator = operator_of(load(path))
    assert (operator.get_id(), operator.ports) == ("NO", ("yes", "no"))


def test_a_switch_may_be_yes_or_no(written):
    assert operator_of(load(written("memory: no"))).memory is False


ODD = (
    "2026-01-01", "2026-01-01T12:00:00Z", "!!timestamp 2026-01-01", "!!binary aGk=", "!!set {a, b}", "!!omap [a: 1]", "~",
    ".inf", "-.INF", ".nan", "!!float .inf", "1e400", "9.9e+999", "{<<: {a: 1}}", "{? [a] : 1}", "*none", "! 5", "!!null x", "!!str 5",
)  # fmt: skip
KEYS = (
    "output", "ports", "retry", "timeout", "cache", "memory", "tools", "actions", "inputs", "hops", "threshold", "fallback",
    "join", "model", "examples", "map", "class", "params", "knowledge",
)  # fmt: skip


@pytest.mark.parametrize("key", sample(KEYS, 4))
def test_an_odd_value_of_a_key_is_used_or_refused_in_words(written, key):
    for odd in (each for value in ODD for each in (value, f"[{value}, b]", f"{{enum: [{value}]}}", f"{{a: {value}}}")):
        try:
            configuration = load(written(f"{key}: {odd}"), trust=True)
        except OperadError as error:
            refused = str(error)
        else:
            refused = ""
            json.dumps(operator_of(configuration).fingerprint(), allow_nan=False)
        assert "internal" not in refused


def test_a_file_of_another_platform_is_read_by_yaml_1_1():
    text = "a: [yes, 010, 12:30, 0x1F]"
    assert parse_yaml(text, "f").value == {"a": [True, 8, 750, 31]}
    assert parse_document(text, "f").data == {"a": ["yes", "010", "12:30", "0x1F"]}
