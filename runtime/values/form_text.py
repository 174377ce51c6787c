"""Forms of answers, as people write them: their text becomes a JSON Schema, or an error with the place of each fault.

The grammar, as JSON or as YAML: a form is a mapping of keys to values, a list of values, or a JSON Schema; a value is a
type (`string`, `number`, `integer`, `boolean`, `any`), a choice (``a | b`` or ``{enum: [a, b]}``), a number, true,
false, null, a text that describes a string, or a form. A key that ends with ``?`` may be missing from the answer.
A text that is a single word must be a type; a text of several words is a description.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, NoReturn, TypeGuard, cast

from operad.runtime.values.answer_json import refuse_constant, unfenced
from operad.runtime.values.base_errors import InvalidError, Issue
from operad.runtime.values.document import YamlValues, parse_words
from operad.runtime.values.json_schema import Schema, holds_more_than, without_middle
from operad.runtime.values.yaml_faults import syntax_fault

MAX_TEXT = 64 * 2**10
"""Maximum length of a form, in characters."""

MAX_DEPTH = 32
"""Maximum nesting of a form."""

MAX_NODES = 2_000
"""Maximum number of values in a form, aliases counted as often as they are used."""

TYPE_WORDS: Mapping[str, Schema] = {
    "string": {"type": "string"},
    "number": {"type": "number"},
    "integer": {"type": "integer"},
    "boolean": {"type": "boolean"},
    "any": {},
    "str": {"type": "string"},
    "float": {"type": "number"},
    "int": {"type": "integer"},
    "bool": {"type": "boolean"},
}
"""Words for types in a form. Any other text describes a string."""

Written = Mapping[tuple[int, "str | int"], str]
"""Texts of values that are not written as in JSON; see `YamlValues`."""

_AND_SO_ON = "..."  # further items of the same form
_OPTIONAL = "?"  # at the end of a key that may be missing
_EXCERPT = 40
"""Number of characters that an error shows before a fault, and after it."""

_EQUIVALENTS: Mapping[str, str] = {
    **dict.fromkeys(("list", "array", "tuple"), "[string]"),
    **dict.fromkeys(("object", "dict", "map", "mapping"), "{key: string}"),
    **dict.fromkeys(("double", "decimal", "real"), "number"),
    **dict.fromkeys(("long", "whole"), "integer"),
    **dict.fromkeys(("null", "none", "unknown", "json"), "any"),
    "enum": "{enum: [a, b]}",
}
"""Type words of other languages, with their equivalents here."""

_JSON_TYPES = {"string", "number", "integer", "boolean", "object", "array", "null"}
_STRUCTURE: Mapping[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("properties", "$defs"), dict),
    **dict.fromkeys(("prefixItems", "anyOf", "oneOf", "allOf", "enum"), list),
    "items": (dict, bool),
    "$ref": str,
}
_ANNOTATIONS = {"type", "title", "description", "$schema", "$id", "default", "examples"}
_LIMITS = {"depth": "too-deep", "cycle": "too-deep", "size": "too-large"}
"""Codes of a form's limits, by those of the YAML parser."""

_FOREIGN_TYPE = re.compile(
    r"(list|array|tuple|set|dict|map|optional|union|literal|enum)\s*[\[(<].*", re.IGNORECASE | re.DOTALL
)
_ALTERNATIVE = r"""(?:[\w.+-]+|'[^'|]*'|"[^"|]*")"""
_ALTERNATIVES = re.compile(rf"{_ALTERNATIVE}(?:\s*\|\s*{_ALTERNATIVE})+")
_ONE_WORD = re.compile(r"(?![{\[])[!-9;-~]*[!-9;-\\^-|~]")  # ASCII: Chinese prose has no spaces
_KEY = re.compile(r"[^\W\d][\w-]*\??")
_SURROGATE = re.compile("[\ud800-\udfff]")


class FormFault(NamedTuple):
    """Fault of a form.

    Attributes:
        what: Description of the fault and its remedy.
        path: Path to the value with the fault: keys and indices.
        at: Position in the text, in characters; None for the position of the value.
    """

    code: str
    what: str
    path: Sequence[int | str] = ()
    at: int | None = None


class FormError(InvalidError):
    """A form has faults, such as an unknown type word, a duplicate key, or a choice that may be a text or a number."""

    def __init__(self, *faults: FormFault) -> None:
        super().__init__("output_schema", [Issue(fault.code, fault.what) for fault in faults])
        self.faults = faults


def read_form(text: str) -> tuple[Schema | None, bool]:
    """Return the JSON Schema of a text as for `AnswerSchema.parse`, unchecked, and True if the text is one itself.

    Raises:
        InvalidError: The text is an unreadable form in braces, too large, or an unknown word.
    """
    form = unfenced(text.strip())
    try:
        if is_lone_word(form):
            return _schema_of_word(form), False
        value, written = _values_of(form) or (None, {})
        if not isinstance(value, dict | list):
            return None, False
        if is_json_schema(value) and holds_more_than(len(text), value):
            _refuse("too-large", f"holds more than {len(text):,} values once its aliases (*name) are replaced")
        return schema_of_form(value, written), is_json_schema(value)
    except FormError as error:
        issues = [Issue(fault.code, _located(fault, text, form)) for fault in error.faults]
        raise InvalidError("output_schema", issues) from error


def schema_of_form(form: Any, written: Written) -> Schema:
    """Return the JSON Schema of a form that is given as plain values; a JSON Schema is returned as it is.

    Args:
        written: Texts of values that are not written as in JSON; see `YamlValues`.

    Raises:
        FormError: The form has an unknown type word, a duplicate key, or a choice that may be a text or not.
    """
    if not is_json_schema(form):
        derivation = _Derivation(written)
        schema = derivation.part(form, ())
        if derivation.faults:
            raise FormError(*derivation.faults)
        return schema
    _refuse_unclear(form, written)
    return form


def is_json_schema(parsed: Any) -> TypeGuard[Schema]:
    """Return True for a JSON Schema; False for a form whose keys happen to be schema keywords."""
    if not isinstance(parsed, dict):
        return False
    value = cast("Schema", parsed)
    if "$schema" in value:
        return True
    structured = {key for key, kind in _STRUCTURE.items() if isinstance(value.get(key), kind)}
    kind = value.get("type")
    kinds = cast("list[Any]", kind) if isinstance(kind, list) else [kind]
    typed = bool(kinds) and all(isinstance(name, str) and name in _JSON_TYPES for name in kinds)
    if typed and structured & {"properties", "items", "enum"}:
        return True
    known = value.keys() <= _ANNOTATIONS | _STRUCTURE.keys() | _schema_keywords()
    if structured:
        return known
    return known and typed and not any(value.get(key) in TYPE_WORDS for key in ("title", "description"))


@cache
def _schema_keywords() -> frozenset[str]:
    from jsonschema import Draft202012Validator

    return frozenset(Draft202012Validator.VALIDATORS)


def _refuse(code: str, what: str, path: Sequence[int | str] = (), at: int | None = None) -> NoReturn:
    raise FormError(FormFault(code, what, path, at))


# Values


class _Derivation:
    """Derivation of a schema from a form, within `MAX_NODES` and `MAX_DEPTH`.

    Attributes:
        faults: The faults of the parts so far.
    """

    def __init__(self, written: Written) -> None:
        self._nodes = 0
        self._written = written
        self.faults: list[FormFault] = []

    def part(self, form: Any, path: Sequence[int | str]) -> Schema:
        """Return the schema of a part of a form; its faults are noted, so that those of all parts are found at once."""
        try:
            return self._derive(form, path)
        except FormError as error:
            if any(fault.code.startswith("too-") for fault in error.faults):
                raise
            self.faults += error.faults
            return {}

    def _derive(self, form: Any, path: Sequence[int | str]) -> Schema:
        """Return the schema of a form, whose path in the whole form is given for errors."""
        self._nodes += 1
        if len(path) > MAX_DEPTH:
            _refuse("too-deep", f"nested more than {MAX_DEPTH} deep")
        if self._nodes > MAX_NODES:
            _refuse("too-large", f"holds more than {MAX_NODES:,} values")
        if isinstance(form, dict):
            return self._object(cast("dict[Any, Any]", form), path)
        if isinstance(form, list):
            return self._array(cast("list[Any]", form), path)
        if isinstance(form, str):
            return _schema_of_text(form, path)
        for kind, name in ((bool, "boolean"), (int, "integer"), (float, "number")):
            if isinstance(form, kind):
                return {"type": name}
        return {}

    def _object(self, form: dict[Any, Any], path: Sequence[int | str]) -> Schema:
        choices: Any = form.get("enum")
        listed = cast("list[Any]", choices) if len(form) == 1 and isinstance(choices, list) else []
        if listed and not any(isinstance(each, dict | list) for each in listed):
            _refuse_unclear(form, self._written, path)
            return {"enum": listed}
        properties: dict[str, Schema] = {}
        required: list[str] = []
        for key, value in ((str(key), value) for key, value in form.items()):
            if key == _AND_SO_ON:
                continue
            name = key.removesuffix(_OPTIONAL) or key
            if name in properties:
                _refuse("duplicate-key", f"duplicate key {name!r}", (*path, key))
            if self._written.get((id(form), key)) == "":
                _refuse("unreadable", _without_value(key), (*path, key))
            properties[name] = self.part(value, (*path, key))
            required += [name] if name == key else []
        return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}

    def _array(self, form: list[Any], path: Sequence[int | str]) -> Schema:
        by_shape: dict[str, Schema] = {}
        for number, item in enumerate(form):
            if item == _AND_SO_ON:
                continue
            schema = self.part(item, (*path, number))
            known = by_shape.setdefault(json.dumps({**schema, "description": None}), schema)
            if known is not schema and "description" in schema:
                known["description"] = ", ".join(filter(None, (known.get("description"), schema["description"])))
        item_schemas = list(by_shape.values()) or [Schema()]
        return {"type": "array", "items": {"anyOf": item_schemas} if len(item_schemas) > 1 else item_schemas[0]}


def _without_value(key: str) -> str:
    return f"the key {key!r} has no value; write KEY: VALUE, with a space behind the colon"


def _refuse_unclear(form: Any, written: Written, path: Sequence[int | str] = ()) -> None:
    """Refuse choices that people may mean as texts: those not written as in JSON, such as ``1.10`` and ``~``."""
    pending: list[tuple[Any, Sequence[int | str]]] = [(form, path)] if written else []
    while pending:
        part, part_path = pending.pop()
        for key, value in _items_of(part):
            is_choice = key == "const" or part_path[-1:] == ("enum",)
            if is_choice and (text := written.get((id(part), key))) is not None:
                said = json.dumps(value)
                _refuse("value", f"{text} is read as {said}; write {said}, or {text!r} for a text", (*part_path, key))
            if isinstance(value, dict | list):
                pending.append((cast("Any", value), (*part_path, key)))


def _items_of(part: Any) -> list[tuple[str | int, Any]]:
    return list(cast("dict[str, Any]", part).items() if isinstance(part, dict) else enumerate(cast("list[Any]", part)))


# Words


def is_lone_word(text: str) -> bool:
    """Return True for a text that is a single word, or words with ``|`` between them.

    Example:
        >>> is_lone_word("nonsense"), is_lone_word("a | b"), is_lone_word("In one sentence.")
        (True, True, False)
    """
    return any(pattern.fullmatch(text) for pattern in (_ONE_WORD, _ALTERNATIVES, _FOREIGN_TYPE))


def _schema_of_word(word: str) -> Schema | None:
    """Return the schema of a text that is a single type or choice; None for ``string``, which every answer fits."""
    schema = _schema_of_text(word, ())
    if "description" in schema:
        name = word if len(word) < 40 and word.isidentifier() else "answer"
        form = f"write a form such as {{{name}: string}}, or describe the answer in several words"
        _refuse("no-type", f"{without_middle(word, 80)!r} is not a type; {form}")
    return None if schema == TYPE_WORDS["string"] else schema


def _schema_of_text(text: str, path: Sequence[int | str]) -> Schema:
    """Return the schema of a type, a choice, or a description."""
    if text in TYPE_WORDS:
        return dict(TYPE_WORDS[text])
    word = text.strip()
    if _ALTERNATIVES.fullmatch(word):
        return _choice_of(word, path)
    if correction := None if word in TYPE_WORDS else _correction(word):
        _refuse("no-type", f"{word!r} is not a type{correction}", path)
    return {"type": "string", "description": text} if text else {"type": "string"}


def _choice_of(text: str, path: Sequence[int | str]) -> Schema:
    """Return the schema of a choice: words with ``|`` between them, of which all are types, or none."""
    parts = [part.strip() for part in text.split("|")]
    if all(part in TYPE_WORDS or part == "null" for part in parts):
        schemas: list[Schema] = [{"type": "null"} if part == "null" else dict(TYPE_WORDS[part]) for part in parts]
        return {"anyOf": schemas} if all(schemas) else {}
    if any(part in TYPE_WORDS or _correction(part) for part in parts):
        key = next((str(each).removesuffix(_OPTIONAL) for each in reversed(path) if isinstance(each, str)), "kind")
        remedy = f"write types, as in string | null, or a choice, as in {{{key}: {{enum: [a, b]}}}}"
        _refuse("no-type", f"{text!r} mixes types with other words; {remedy}", path)
    numbers = [_number(part) for part in parts]
    if None in numbers:
        return {"enum": [part.strip("'\"") for part in parts]}
    if (said := " | ".join(map(json.dumps, numbers))) != " | ".join(parts):
        _refuse("value", f"{text} is read as {said}; write {said}, or {{enum: {parts}}} for texts", path)
    return {"enum": numbers}


def _number(text: str) -> int | float | None:
    try:
        value = json.loads(text, parse_constant=refuse_constant)
    except ValueError:
        return None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _correction(word: str) -> str | None:
    """Return the end of an error message that says what to write in place of a word; None for a word unlike any type.

    Words that resemble types are misspelt types, types of other languages, and types with ``[]`` or ``?`` behind them.
    """
    lowered = word.lower()
    type_word = lowered.removesuffix("[]").removesuffix("?")
    if type_word != lowered and type_word in TYPE_WORDS:
        return (
            f"; write [{type_word}]" if lowered.endswith("[]") else f"; write {type_word} | null, or KEY?: {type_word}"
        )
    if foreign := _FOREIGN_TYPE.fullmatch(word):
        return f"; write {_EQUIVALENTS.get(foreign[1].lower(), 'a JSON Schema')}"
    if lowered in _EQUIVALENTS:
        return f"; write {_EQUIVALENTS[lowered]}, or describe a text in several words"
    near = next((each for each in TYPE_WORDS if _is_near(lowered, each)), None)
    return near and f" (did you mean {near!r}?); describe a text in several words"


def _is_near(word: str, known: str) -> bool:
    """Return True if a word is a known type in the plural or with one typing error.

    A typing error adds, omits or replaces a letter, or swaps two. Words of less than five letters have only plurals.
    """
    if word in (known, f"{known}s"):
        return True
    if len(known) < 5 or abs(len(word) - len(known)) > 1:
        return False
    begin = next((n for n, (a, b) in enumerate(zip(word, known, strict=False)) if a != b), min(len(word), len(known)))
    rest, known_rest = word[begin:], known[begin:]
    swapped = rest[:2] == known_rest[1::-1] and rest[2:] == known_rest[2:]
    return swapped or rest[1:] == known_rest[1:] or rest == known_rest[1:] or rest[1:] == known_rest


# Text


def _values_of(text: str) -> tuple[Any, Written] | None:
    """Return the JSON Schema or the form that a text consists of, as plain values; None for prose."""
    braced = text[:1] + text[-1:] in ("{}", "[]")
    if not text or (len(text) > MAX_TEXT and not braced):
        return None
    if len(text) > MAX_TEXT:
        _refuse("too-large", f"{len(text):,} characters; at most {MAX_TEXT:,} are read as a schema or a form")
    if braced and (half := _SURROGATE.search(text)):
        _refuse("not-text", "half of a UTF-16 pair is not a character; remove it", (), half.start())
    try:
        return json.loads(text, parse_constant=refuse_constant, object_pairs_hook=_distinct) or None, {}
    except (ValueError, RecursionError):
        values = _yaml_of(text, is_form=braced or text[0] == "{" or (text[0] == "[" and "]" not in text))
    value, slips = (values.value, values.slips) if values else (None, ())
    tagged = next((slip for slip in slips if slip[0].code == "tag"), None)
    if tagged and braced:
        _refuse("unreadable", f"neither JSON nor YAML: {tagged[0].message}", (), tagged[1])
    is_form = braced or is_json_schema(value) or _is_form(value)
    if values is None or tagged or not isinstance(value, dict | list) or not value or not is_form:
        return None
    if slips:
        raise FormError(*(FormFault(issue.code, issue.message, (), at) for issue, at in slips))
    return cast("Any", value), values.written


def _yaml_of(text: str, *, is_form: bool) -> YamlValues | None:
    """Return the values of YAML; None for a text that is not YAML, if it need not be a form."""
    try:
        return parse_words(text, "the form")
    except InvalidError as error:
        issue, cause = error.issues[-1], error.__cause__
        if issue.code in _LIMITS:
            raise FormError(FormFault(_LIMITS[issue.code], issue.message)) from error
        if not is_form:
            return None
        what, mark = syntax_fault(cause, text) if isinstance(cause, Exception) else (issue.message, None)
        what = f"neither JSON nor YAML: {what}; correct it, or begin with words"
        raise FormError(FormFault("unreadable", what, (), mark.index if mark else None)) from error


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON; duplicate keys raise ValueError, and the YAML parser reports their places."""
    if len(found := dict(pairs)) < len(pairs):
        raise ValueError
    return found


def _is_form(value: Any) -> bool:
    """Return True if YAML without braces is a form; False for sentences that happen to parse as YAML."""
    if not isinstance(value, dict | list):
        return False
    items = list(cast("dict[Any, Any]", value).values() if isinstance(value, dict) else cast("list[Any]", value))
    if isinstance(value, dict) and not all(_KEY.fullmatch(key) for key in cast("dict[str, Any]", value)):
        return False
    words = [item.strip() for item in items if isinstance(item, str)]
    types = [word.lower().removesuffix("[]").removesuffix("?") for word in words]
    is_near = any(_is_near(word.lower(), known) for word in words for known in TYPE_WORDS)
    return (
        len(words) < len(items)
        or is_near
        or any(map(_ALTERNATIVES.fullmatch, words))
        or any(t in TYPE_WORDS for t in types)
    )


def _located(fault: FormFault, text: str, form: str) -> str:
    """Return the message of a fault: line, column, an excerpt with ``^`` before the place, and the description."""
    place = fault.at if fault.at is not None else _place_of(form, fault.path)
    if place is None:
        return fault.what
    at = min(text.find(form) + place, len(text))
    line, start = text.count("\n", 0, at) + 1, text.rfind("\n", 0, at) + 1
    end = text.find("\n", at)
    excerpt = text[max(start, at - _EXCERPT) : at] + "^" + text[at : len(text) if end < 0 else end][:_EXCERPT]
    said = f"line {line}, column {at - start + 1}, at the ^ of {excerpt}: {fault.what}"
    return said.encode("utf-8", "replace").decode()  # without half characters


def _place_of(form: str, path: Sequence[int | str]) -> int | None:
    """Return the position of the value at a path of a form's text; None without a path."""
    if not path:
        return None
    values: YamlValues = parse_words(form, "")
    holder: Any = values.value
    for key in path[:-1]:
        holder = holder[key]
    key = path[-1]
    at = values.marks.get((id(holder), key))
    is_empty = values.written.get((id(holder), key)) == ""
    return max(form.rfind(str(key), 0, at), 0) if is_empty else at
