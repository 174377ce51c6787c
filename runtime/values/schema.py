"""The form of an answer: what an `output_schema` asks for, and whether an answer fits it."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Any, TypeGuard, cast

from operad.runtime.values.errors import AnswerError, InvalidError, Issue
from operad.runtime.values.form_text import (
    AND_SO_ON,
    OPTIONAL,
    PathInForm,
    Slip,
    bracket_slip,
    choice_of,
    is_of_a_type,
    lone_word,
    place_of,
    read_yaml_form,
    said_of,
    value_at,
    word_slip,
)
from operad.runtime.values.json_schema import UNCHECKED, EndlessSchemaError, matcher, schema_errors

Schema = dict[str, Any]
"""A JSON Schema."""

MAX_TEXT = 64 * 2**10
"""Characters of the longest `output_schema`."""

MAX_DEPTH = 32
"""How deep an example may nest."""

MAX_NODES = 2_000
"""How many values an example may hold, aliases counted as often as they are used."""

MAX_ANSWER = 2**20
"""Characters of the longest answer that is read."""

MAX_STARTS = 100
"""At how many brackets of an answer JSON is looked for amid prose."""

MAX_MENDED = 16_000
"""Characters of the longest answer whose slips are mended; the time that takes may grow with the square."""

MAX_ERRORS = 20
"""How many faults of one answer are listed."""

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
"""What stands for a type in an example. Any other text describes a string."""

_JSON_TYPES = {"string", "number", "integer", "boolean", "object", "array", "null"}
_STRUCTURE: Mapping[str, type | tuple[type, ...]] = {
    "properties": dict,
    "items": (dict, bool),
    "prefixItems": list,
    "anyOf": list,
    "oneOf": list,
    "allOf": list,
    "enum": list,
    "$ref": str,
    "$defs": dict,
}
_ANNOTATIONS = {"type", "title", "description", "$schema", "$id", "default", "examples"}
_FENCE_BEGINS = re.compile(r"```[ \t]*(?:[\w-]+[ \t]*)?\n")
_FENCE_ENDS = re.compile(r"\n[ \t]*```")
_KEY = re.compile(r"[^\W\d][\w-]*\??")
_KEY_BEFORE = re.compile(r"[^\W\d][\w-]*\??\s*:")


class SchemaMismatch(AnswerError):  # noqa: N818 - an answer's state; the error is an AnswerError
    """An answer that does not fit its schema; the text names every fault and is fit for a model to read."""


class FormError(InvalidError):
    """A form with a word that is no type, or with a key twice.

    Attributes:
        path: The keys and places that lead to it.
    """

    def __init__(self, slip: Slip, path: PathInForm) -> None:
        super().__init__("output_schema", [Issue(slip.code, slip.what)])
        self.slip = slip
        self.path = path


def parse_output_schema(text: str) -> Schema | None:
    """Return the JSON Schema that an `output_schema` asks for.

    ===================================================  ==============================================
    a JSON Schema, in JSON or YAML                       itself
    ``{claims: [string], score: 0.5}``, JSON or YAML     derived: keys are required, and there are no others; types
                                                         by the words of `TYPE_WORDS` or by the values
    ``{"answer": "In one sentence."}``                   the same; such a text describes a string
    ``{why?: string, kind: a | b}``                      the same; ``why`` may be missing, ``kind`` is one of two
    ``integer``, ``a | b``                               a type or a choice that stands alone
    ``nonsense``                                         refused: a single word that is no type
    a list or a mapping of mere sentences, unbraced      none: words that happen to parse as YAML
    Markdown, several words, ``string``, nothing         none
    ===================================================  ==============================================

    A list stands for any number of its items, ``...`` among them for "and so on", null for any value, ``{enum: [a, b]}``
    for one of these. What begins with a brace is read or refused, with its place: a bracket that is not closed, a key
    twice or without a value, a word that is nearly a type, or one elsewhere (`strng`, `list`).

    Returns:
        A JSON Schema, or None where the text is words, which a model gets as they are.

    Raises:
        InvalidError: It is a JSON Schema but a broken one, in braces but unreadable, too large, or a word that is no type.

    Example:
        >>> parse_output_schema("{kind: a | b}")["properties"]
        {'kind': {'enum': ['a', 'b']}}
    """
    if word := lone_word(_unfenced(text.strip())):
        return _alone(word)
    value = _structure(text)
    if _is_schema(value):
        if _holds_more_than(len(text), value):
            raise _invalid("too-large", f"holds more than {len(text):,} values once its aliases (*name) are replaced")
        check_schema(value)
        return value
    if value is None:
        return None
    try:
        return _Derivation().derive(value)
    except FormError as error:
        form = _unfenced(text.strip())
        at = place_of(form, error.path, value_at(value, error.path))
        slip = error.slip._replace(at=at)
        raise _invalid(slip.code, said_of(slip, text, text.find(form))) from error


def schema_of(form: Any) -> Schema:
    """Return the JSON Schema of a form, or a JSON Schema, that is given as plain values.

    Raises:
        FormError: A word in it is no type, or a key stands twice.
        InvalidError: It is a JSON Schema but a broken one, or too large.
    """
    if _is_schema(form):
        check_schema(form)
        return form
    return _Derivation().derive(form)


def _alone(word: str) -> Schema | None:
    """Return the schema of a type or a choice that stands alone; None for any text."""
    try:
        schema = _Derivation().derive(word)
    except FormError as error:
        raise _invalid(error.slip.code, error.slip.what) from error
    if "description" in schema:
        raise _invalid(
            "no-type",
            f"{_short(word, 80)!r} is no type; write a form such as "
            f"{{{word if len(word) < 40 and word.isidentifier() else 'answer'}: string}}, "
            "or describe the answer in several words",
        )
    return None if schema == TYPE_WORDS["string"] else schema


def is_json_schema(text: str) -> bool:
    """Whether an `output_schema` is a JSON Schema already, rather than an example or words.

    Raises:
        InvalidError: As `parse_output_schema`.
    """
    return _is_schema(_structure(text))


def validate(schema: Schema, text: str, *, repair: bool = True) -> Any:
    """The value in an answer, once it fits the schema.

    The JSON may stand in a code fence or amid prose.

    Args:
        schema: What it must fit.
        text: The answer.
        repair: Whether to mend slips: a trailing comma, a missing bracket, single quotes. Not to be
            done to an answer that was cut off, whose end would be lost without a word.

    Raises:
        SchemaMismatch: It does not fit, or holds no JSON.
        InvalidError: The schema itself cannot be used.
    """
    if len(text) > MAX_ANSWER:
        raise SchemaMismatch(f"the answer has {len(text):,} characters; at most {MAX_ANSWER:,} are read")
    first: list[str] = []
    for value in _values(text, repair):
        found = faults(schema, value)
        if not found:
            return value
        first = first or found
    raise SchemaMismatch("\n".join(first) or "the answer holds no JSON; answer with JSON alone")


def response_format(schema: Schema, name: str = "answer") -> dict[str, Any]:
    """The protocol's ``response_format`` for a schema; strict where the schema permits."""
    return {
        "type": "json_schema",
        "json_schema": {"name": name, "schema": schema, "strict": schema.get("type") == "object" and is_strict(schema)},
    }


def is_strict(schema: Any) -> bool:
    """Whether an endpoint may keep to the schema to the letter: all objects closed, all keys required."""
    if not isinstance(schema, dict):
        return False
    schema = cast("Schema", schema)
    if schema.keys() & {"oneOf", "allOf", "not", "if", "patternProperties", "prefixItems", "default"}:
        return False
    if not schema.keys() & {"type", "enum", "const", "anyOf", "$ref"}:
        return False
    parts: list[Any] = [*schema.get("anyOf", ()), *schema.get("$defs", {}).values()]
    kinds = schema.get("type", ())
    if "object" in ([kinds] if isinstance(kinds, str) else kinds):
        properties = schema.get("properties", {})
        if schema.get("additionalProperties") is not False or set(schema.get("required", ())) != set(properties):
            return False
        parts += properties.values()
    if "array" in ([kinds] if isinstance(kinds, str) else kinds):
        parts.append(schema.get("items"))
    return all(map(is_strict, parts))


class _Derivation:
    """Derives a schema from an example, within `MAX_NODES` and `MAX_DEPTH`."""

    def __init__(self) -> None:
        self._nodes = 0

    def derive(self, example: Any, path: PathInForm = ()) -> Schema:
        self._nodes += 1
        if len(path) > MAX_DEPTH:
            raise _invalid("too-deep", f"nested more than {MAX_DEPTH} deep")
        if self._nodes > MAX_NODES:
            raise _invalid("too-large", f"holds more than {MAX_NODES:,} values")
        if isinstance(example, dict):
            return self._object(cast("dict[Any, Any]", example), path)
        if isinstance(example, list):
            return self._array(cast("list[Any]", example), path)
        if isinstance(example, str):
            return self._text_of(example, path)
        for kind, name in ((bool, "boolean"), (int, "integer"), (float, "number")):
            if isinstance(example, kind):
                return {"type": name}
        return {}

    def _text_of(self, example: str, path: PathInForm) -> Schema:
        if example in TYPE_WORDS:
            return dict(TYPE_WORDS[example])
        if (choice := choice_of(example, TYPE_WORDS)) is not None:
            return choice
        key = next((each for each in reversed(path) if isinstance(each, str)), "")
        if what := word_slip(example, key, list(TYPE_WORDS)):
            raise FormError(Slip(what, None, "no-type"), path)
        return {"type": "string", "description": example} if example else {"type": "string"}

    def _object(self, example: dict[Any, Any], path: PathInForm) -> Schema:
        choices = example.get("enum")
        if len(example) == 1 and isinstance(choices, list) and choices and _are_plain(cast("list[Any]", choices)):
            return {"enum": choices}
        properties: dict[str, Schema] = {}
        required: list[str] = []
        for key, value in ((str(key), value) for key, value in example.items()):
            if key == AND_SO_ON:
                continue
            name = key.removesuffix(OPTIONAL) or key
            if name in properties:
                raise FormError(Slip(f"the key {name!r} stands twice", None, "duplicate-key"), (*path, key))
            properties[name] = self.derive(value, (*path, key))
            required += [name] if name == key else []
        return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}

    def _array(self, example: list[Any], path: PathInForm) -> Schema:
        forms: dict[str, Schema] = {}
        for number, item in enumerate(example):
            if item == AND_SO_ON:
                continue
            form = self.derive(item, (*path, number))
            known = forms.setdefault(json.dumps({**form, "description": None}), form)
            if known is not form and "description" in form:
                known["description"] = ", ".join(filter(None, (known.get("description"), form["description"])))
        kinds = list(forms.values()) or [Schema()]
        return {"type": "array", "items": {"anyOf": kinds} if len(kinds) > 1 else kinds[0]}


def _are_plain(values: list[Any]) -> bool:
    return not any(isinstance(each, dict | list) for each in values)


def _structure(text: str) -> Any:
    """The schema or the example that a text holds, as plain values; None where it is words."""
    whole, text = text, _unfenced(text.strip())
    if not text:
        return None
    before = whole.find(text)
    braced = (text[0], text[-1]) in {("{", "}"), ("[", "]")}
    if len(text) > MAX_TEXT:
        if not braced:
            return None
        raise _invalid(
            "too-large", f"{len(text):,} characters; at most {MAX_TEXT:,} are read as a schema or an example"
        )
    _refuse_open(text, whole, before, braced)
    try:
        value, slips = _parse(text)
    except RecursionError as error:
        raise _invalid("too-deep", f"nested more than {MAX_DEPTH} deep") from error
    except ValueError as error:
        if not braced:
            return None
        what, at = (*error.args, None)[:2]
        slip = Slip(f"is in braces but neither JSON nor YAML: {what}; mend it, or begin with words", at)
        raise _invalid(slip.code, said_of(slip, whole, before)) from error
    if not isinstance(value, dict | list) or not value:
        return None
    if not (braced or _is_schema(value) or _is_example(value)):
        return None
    if slips:
        raise InvalidError("output_schema", [Issue(each.code, said_of(each, whole, before)) for each in slips])
    return cast("Any", value)


def _refuse_open(text: str, whole: str, before: int, braced: bool) -> None:
    """Raise InvalidError for what begins or ends as a form, and whose brackets do not match."""
    slip = bracket_slip(text) if text[0] in "{[" or text[-1] in "}]" else None
    if slip is None or slip.at is None:
        return
    begins = text[0] == "{" or braced or (text[0] == "[" and "]" not in text)
    ends = slip.at == len(text) - 1 and "\n" not in text and _KEY_BEFORE.match(text)
    if begins or ends:
        raise _invalid(slip.code, said_of(slip, whole, before))


def _unfenced(text: str) -> str:
    begin, end = _FENCE_BEGINS.match(text), text.rfind("\n")
    fenced = begin and end >= begin.end() and _FENCE_ENDS.fullmatch(text, end)
    return text[begin.end() : end].strip() if begin and fenced else text


def _parse(text: str) -> tuple[Any, Sequence[Slip]]:
    twice: list[str] = []

    def mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        twice.extend(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        return dict(pairs)

    try:
        value = json.loads(text, parse_constant=_refuse, object_pairs_hook=mapping)
    except ValueError:
        return read_yaml_form(text)
    return value, [Slip(f"the key {key!r} stands twice", text.rfind(json.dumps(key)), "duplicate-key") for key in twice]


def _load_json(text: str) -> Any:
    return json.loads(text, parse_constant=_refuse)


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _is_schema(parsed: Any) -> TypeGuard[Schema]:
    """Whether a value is a JSON Schema rather than an example whose keys are called like its words."""
    if not isinstance(parsed, dict):
        return False
    value = cast("Schema", parsed)
    if "$schema" in value:
        return True
    structured = {key for key, kind in _STRUCTURE.items() if isinstance(value.get(key), kind)}
    kind = value.get("type")
    kinds = cast("list[Any]", kind) if isinstance(kind, list) else [kind]
    typed = bool(kinds) and all(isinstance(one, str) and one in _JSON_TYPES for one in kinds)
    if typed and structured & {"properties", "items", "enum"}:
        return True
    known = value.keys() <= _ANNOTATIONS | _STRUCTURE.keys() | _keywords()
    if structured:
        return known
    return known and typed and not any(value.get(key) in TYPE_WORDS for key in ("title", "description"))


@cache
def _keywords() -> frozenset[str]:
    from jsonschema import Draft202012Validator

    return frozenset(Draft202012Validator.VALIDATORS)


def _is_example(value: Any) -> bool:
    """Whether YAML without braces shows a structure, or is sentences that happen to parse."""
    items = list(cast("dict[Any, Any]", value).values() if isinstance(value, dict) else cast("list[Any]", value))
    if isinstance(value, dict):
        keys = cast("dict[Any, Any]", value)
        if not all(isinstance(key, str) and _KEY.fullmatch(key) for key in keys):
            return False
    return any(not isinstance(item, str) or is_of_a_type(item, TYPE_WORDS) for item in items)


def check_schema(schema: Schema) -> None:
    """Raise all that is wrong with a JSON Schema, references to elsewhere included."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for

    validator: Any = validator_for(schema, default=Draft202012Validator)
    metaschema = validator(validator.META_SCHEMA)
    try:
        errors = sorted(metaschema.iter_errors(schema), key=lambda error: error.json_path)
    except RecursionError as error:
        raise _invalid("too-deep", "is a JSON Schema nested too deep to be checked; let it hold less") from error
    issues = [Issue("json-schema", _short(error.message), f"output_schema {error.json_path}") for error in errors]
    issues += [*_reference_issues(schema), *_unchecked_issues(schema)]
    if issues:
        raise InvalidError("output_schema", issues[:MAX_ERRORS])


def _holds_more_than(most: int, value: Any) -> bool:
    """Whether a value holds more values than that, or itself. Without aliases, a text has fewer than characters."""
    waiting: list[Any] = [value]
    while waiting and most >= 0:
        part = waiting.pop()
        if isinstance(part, dict | list):
            inner = cast("dict[str, Any]", part).values() if isinstance(part, dict) else cast("list[Any]", part)
            most -= len(inner)
            waiting += inner if most >= 0 else ()
    return most < 0


def _reference_issues(schema: Schema) -> Iterator[Issue]:
    from referencing import Registry
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    resource: Any = DRAFT202012.create_resource(schema)
    resolver = cast("Any", Registry)().with_resource("", resource).resolver()
    for part in _objects(schema):
        reference = part.get("$ref")
        if not isinstance(reference, str):
            continue
        try:
            resolver.lookup(reference)
        except (Unresolvable, AttributeError, LookupError, TypeError, ValueError):  # or to what is no schema
            yield Issue(
                "reference", f"{reference!r} leads nowhere in this schema, and nothing is fetched", "output_schema"
            )


def _unchecked_issues(schema: Schema) -> Iterator[Issue]:
    """What an answer would not be held to, as `json_schema` passes it over."""
    for part in _objects(schema):
        patterns: list[Any] = [part.get("pattern"), *_names(part.get("patternProperties"))]
        for pattern in patterns:
            if isinstance(pattern, str) and matcher(pattern) is None:
                yield Issue(
                    "pattern",
                    f"{_short(pattern)!r} is a pattern with look-around or back-references, which may take for ever, or "
                    "an unusual one; write it without, or leave it out",
                    "output_schema",
                )
        for keyword in UNCHECKED:
            if keyword in part:
                yield Issue("keyword", f"{keyword} is not checked; use additionalProperties or items", "output_schema")


def _names(value: Any) -> list[Any]:
    return list(cast("dict[Any, Any]", value)) if isinstance(value, dict) else []


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """All objects inside a value."""
    waiting: list[Any] = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            yield cast("dict[str, Any]", part)
            waiting += cast("dict[str, Any]", part).values()
        elif isinstance(part, list):
            waiting += cast("list[Any]", part)


def _values(text: str, repair: bool) -> Iterator[Any]:
    """What an answer may mean, the likeliest first: all of it, its fenced parts, JSON amid prose, broken JSON."""
    text = text.strip()
    fenced = list(_fenced(text))
    for candidate in (text, *fenced):
        try:
            yield _load_json(candidate)
        except (ValueError, RecursionError):
            continue
    yield from _embedded(text)
    for candidate in (*fenced, text) if repair else ():
        start = min((at for at in (candidate.find("{"), candidate.find("[")) if at >= 0), default=-1)
        if start >= 0 and len(candidate) - start <= MAX_MENDED:
            yield from _repaired(candidate[start:])


def _fenced(text: str) -> Iterator[str]:
    """What stands in code fences; two searches, as one for both would look for each end from every beginning."""
    at = 0
    while (begin := _FENCE_BEGINS.search(text, at)) and (end := _FENCE_ENDS.search(text, begin.end())):
        yield text[begin.end() : end.start()]
        at = end.end()


def _embedded(text: str) -> Iterator[Any]:
    decoder = json.JSONDecoder()
    at = 0
    for start in islice(re.finditer(r"[{\[]", text), MAX_STARTS):
        if start.start() < at:
            continue
        try:
            value, at = decoder.raw_decode(text, start.start())
        except (ValueError, RecursionError):
            continue
        yield value


def _repaired(text: str) -> Iterator[Any]:
    import json_repair

    try:
        value: Any = json_repair.loads(text)
    except (ValueError, RecursionError):
        return
    if isinstance(value, dict | list):
        yield value


def faults(schema: Schema, value: Any) -> list[str]:
    """What of a value does not fit a schema, one line each.

    Raises:
        SchemaMismatch: The value is nested too deep to be looked at.
        InvalidError: The schema refers to something that it does not hold.
    """
    from referencing.exceptions import Unresolvable

    try:
        json.dumps(value, allow_nan=False)
        errors = sorted(schema_errors(schema, value), key=lambda error: error.json_path)
        found = [f"{error.json_path}: {_short(error.message)}" for error in errors]
    except Unresolvable as error:
        raise _invalid("reference", f"{error} leads nowhere in this schema") from error
    except RecursionError as error:
        raise SchemaMismatch("the answer is nested too deep") from error
    except EndlessSchemaError as error:
        raise SchemaMismatch(f"the answer cannot be held against its schema: {error}") from error
    except OverflowError:
        return ["a number is too large; give a smaller one"]
    except ValueError:
        return ["NaN and Infinity are not JSON; give a number that is finite"]
    more = len(found) - MAX_ERRORS
    return [*found[:MAX_ERRORS], f"and {more} more"] if more > 0 else found


def _short(text: str, most: int = 300) -> str:
    return text if len(text) <= most else f"{text[: most // 2]} … {text[-most // 2 :]}"


def _invalid(code: str, message: str) -> InvalidError:
    return InvalidError("output_schema", [Issue(code, message)])
