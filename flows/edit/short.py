"""Operations in the short form of the command line: ``connect 3 4 port=1``, ``set 3 system "Be brief."``.

The name of the operation is followed by its fields, in order or as ``name=value``. Words are split as in a shell, so a
value with spaces needs quotes. In fields that may have values other than text, a word that is JSON is read as JSON:
``2``, ``true``, ``["a"]``; other words are text, and ``'"2"'`` is the text 2. The variable ``text`` of node 3 is written
``3.text``. In operations with ``params``, ``name=value`` with an unknown name sets a parameter.
"""

from __future__ import annotations

import shlex
from typing import Any

from operad.flows.edit.batch import OPERATIONS, read_operations
from operad.flows.edit.operation import Operation
from operad.flows.formats.json_text import read_json
from operad.flows.formats.shapes import fields_of
from operad.runtime.values.errors import InputError, InvalidError, did_you_mean

_JSON = ("value", "branch", "params", "port", "at", "size")
"""Fields whose values may be JSON other than text."""


def parse(text: str) -> list[Operation]:
    """Read operations from JSON, or, if the text does not begin with a bracket, one operation in the short form.

        operations = parse("connect 1 2")

    Raises:
        InputError: The text does not have the short form.
        InvalidError: The text is not JSON, or is not an operation; all issues are listed.
    """
    if text.lstrip()[:1] in ("{", "["):
        return read_operations(read_json(text, "--op"))
    return read_operations(_fields(text))


def usage(name: str) -> str:
    """Return the short form of an operation, with optional fields in brackets."""
    fields = OPERATIONS[name].model_fields
    words = [key if field.is_required() else f"[{key}]" for key, field in fields.items() if key != "op"]
    return " ".join([name, *words])


def _fields(text: str) -> Any:
    """Return the JSON form of an operation in the short form.

    Raises:
        InputError: The text does not have the short form.
    """
    try:
        tokens = shlex.split(text)
    except ValueError as error:
        raise InputError(f"{text!r}: {str(error).lower()}; put a text that contains spaces in quotes") from error
    if not tokens:
        raise InputError("an operation is empty; write one, such as: connect 3 4 port=1")
    name, *words = tokens
    if name not in OPERATIONS:
        hint = did_you_mean(name, OPERATIONS) or f"; there are: {', '.join(OPERATIONS)}"
        raise InputError(f"{text!r}: {name!r} is not an operation{hint}")
    order = [key for key in OPERATIONS[name].model_fields if key != "op"]
    given: dict[str, Any] = {}
    params: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        unset = [field for field in order if field not in given and field != "params"]
        if equals and key in order and key not in given:
            given[key] = _value(key, value)
        elif equals and "params" in order and key.isidentifier() and key not in order:
            params[key] = _json_or_text(value)
        elif unset:
            given[unset[0]] = _value(unset[0], word)
        else:
            raise InputError(f"{text!r}: {word!r} is too much; write: {usage(name)}")
    if params:
        given["params"] = {**fields_of(given.get("params")), **params}
    return {"op": name, **given}


def _value(key: str, word: str) -> Any:
    """Return the value of a field in the short form."""
    return _json_or_text(word) if key in _JSON else word


def _json_or_text(word: str) -> Any:
    """Return the value of a word that is JSON, or the word."""
    try:
        value = read_json(word, "")
    except InvalidError:
        return word
    return word if value is None and word != "null" else value  # infinite numbers, which are read as None, stay text
