"""Forms of answers: the JSON Schema of an `output_schema`, and validation of answers."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypeGuard, cast

from operad.runtime.values.answer_json import candidates, refuse_constant, unfenced
from operad.runtime.values.answer_slips import readings, values_alone
from operad.runtime.values.errors import AnswerError, InvalidError, Issue
from operad.runtime.values.form_text import (
    AND_SO_ON,
    OPTIONAL,
    FormFault,
    PathInForm,
    bracket_fault,
    choice_of,
    fault_message,
    is_of_a_type,
    lone_word,
    place_of,
    read_yaml_form,
    value_at,
    word_fault,
)
from operad.runtime.values.json_schema import EndlessSchemaError, of_meant_branch, schema_errors
from operad.runtime.values.schema_check import (
    MAX_ERRORS,
    Schema,
    check_schema,
    holds_more_than,
    invalid_schema,
    is_strict,
    without_middle,
)

if TYPE_CHECKING:
    from jsonschema import ValidationError

MAX_TEXT = 64 * 2**10
"""Maximum length of an `output_schema`, in characters."""

MAX_DEPTH = 32
"""Maximum nesting of an example."""

MAX_NODES = 2_000
"""Maximum number of values in an example, aliases counted as often as they are used."""

MAX_ANSWER = 2**20
"""Maximum length of an answer, in characters."""

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
"""Words for types in an example. Any other text describes a string."""

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
_KEY = re.compile(r"[^\W\d][\w-]*\??")
_SURROGATE = re.compile("[\ud800-\udfff]")
_KEY_AND_COLON = re.compile(r"[^\W\d][\w-]*\??\s*:")


class SchemaMismatch(AnswerError):  # noqa: N818 - an answer's state; the error is an AnswerError
    """An answer does not fit its schema; the text names every fault and can be shown to a model."""


class FormError(InvalidError):
    """A form has an unknown type word, or a duplicate key.

    Attributes:
        path: Path to the fault: keys and indices.
    """

    def __init__(self, slip: FormFault, path: PathInForm) -> None:
        super().__init__("output_schema", [Issue(slip.code, slip.what)])
        self.slip = slip
        self.path = path


def parse_output_schema(text: str) -> Schema | None:
    """Return the JSON Schema of an `output_schema`.

    ===================================================  ==============================================
    a JSON Schema, in JSON or YAML                       itself
    ``{claims: [string], score: 0.5}``, JSON or YAML     derived: keys are required, and there are no others; types
                                                         by the words of `TYPE_WORDS` or by the values
    ``{"answer": "In one sentence."}``                   the same; such a text describes a string
    ``{why?: string, kind: a | b}``                      the same; ``why`` may be missing, ``kind`` is one of two
    ``integer``, ``a | b``                               a type or a choice that stands alone
    ``nonsense``                                         refused: a single word that is not a type
    a list or a mapping of mere sentences, unbraced      none: words that happen to parse as YAML
    Markdown, several words, ``string``, an empty text   none
    ===================================================  ==============================================

    A list permits any number of its items; ``...`` in a list or a mapping is ignored. Null permits any value,
    ``{enum: [a, b]}`` one of the listed values. A text that begins with a brace is either parsed or refused with the
    position of the fault: an unclosed bracket, a duplicate key, a key without a value, a misspelt type, or a type of
    another language (`strng`, `list`).

    Returns:
        A JSON Schema, or None for prose, which a model gets as it is.

    Raises:
        InvalidError: The text is an invalid JSON Schema, an unreadable form in braces, too large, or an unknown word.

    Example:
        >>> parse_output_schema("{kind: a | b}")["properties"]
        {'kind': {'enum': ['a', 'b']}}
    """
    if word := lone_word(unfenced(text.strip())):
        return _schema_of_word(word)
    value = _read_form(text)
    if _is_schema(value):
        if holds_more_than(len(text), value):
            raise invalid_schema(
                "too-large", f"holds more than {len(text):,} values once its aliases (*name) are replaced"
            )
        check_schema(value)
        return value
    if value is None:
        return None
    try:
        return _Derivation().derive(value)
    except FormError as error:
        form = unfenced(text.strip())
        at = place_of(form, error.path, value_at(value, error.path))
        slip = error.slip._replace(at=at)
        raise invalid_schema(slip.code, fault_message(slip, text, text.find(form))) from error


def schema_of(form: Any) -> Schema:
    """Return the JSON Schema of a form that is given as plain values; a JSON Schema is checked and returned as it is.

    Raises:
        FormError: The form has an unknown type word, or a duplicate key.
        InvalidError: The JSON Schema is invalid, or the form is too large.
    """
    if _is_schema(form):
        check_schema(form)
        return form
    return _Derivation().derive(form)


def _schema_of_word(word: str) -> Schema | None:
    """Return the schema of a text that is a single type or choice; None for ``string``, which every answer fits.

    Raises:
        InvalidError: The word is not a type.
    """
    try:
        schema = _Derivation().derive(word)
    except FormError as error:
        raise invalid_schema(error.slip.code, error.slip.what) from error
    if "description" in schema:
        raise invalid_schema(
            "no-type",
            f"{without_middle(word, 80)!r} is not a type; write a form such as "
            f"{{{word if len(word) < 40 and word.isidentifier() else 'answer'}: string}}, "
            "or describe the answer in several words",
        )
    return None if schema == TYPE_WORDS["string"] else schema


def is_json_schema(text: str) -> bool:
    """Return True if an `output_schema` is a JSON Schema itself, rather than an example or words.

    Raises:
        InvalidError: As `parse_output_schema`.
    """
    return _is_schema(_read_form(text))


def validate(schema: Schema, text: str, *, repair: bool = True) -> Any:
    """Return the value of an answer, after checking that it fits the schema.

    The JSON may be in a code fence or amid prose.

    Args:
        schema: The schema.
        text: The answer.
        repair: True to repair a trailing comma, a missing bracket or single quotes, and to read the slips of
            `answer_slips`. Use False for an answer that was cut off, whose missing end a repair would hide.

    Raises:
        SchemaMismatch: The answer does not fit the schema, or has no JSON.
        InvalidError: The schema itself is not valid.
    """
    if len(text) > MAX_ANSWER:
        raise SchemaMismatch(f"the answer has {len(text):,} characters; at most {MAX_ANSWER:,} are read")
    unfit: list[tuple[Any, Sequence[ValidationError], list[str]]] = []
    for value in candidates(text, repair):
        errors, violations = _violations(schema, value)
        if not violations:
            return value
        unfit.append((value, errors, violations))
    alone = _only_field(schema, text) if repair else []
    misread = [(value, errors) for value, errors, _ in unfit] + [(each, _violations(schema, each)[0]) for each in alone]
    read = [*alone, *(each for value, errors in misread if repair for each in readings(errors, schema, value))]
    fitting = {json.dumps(each): each for each in read if not faults(schema, each)}
    if len(fitting) == 1:
        return fitting.popitem()[1]
    if not unfit:
        raise SchemaMismatch("the answer holds no JSON; answer with JSON alone")
    # Other values amid prose, or in JSON that cannot be read, are often parts of the largest.
    raise SchemaMismatch("\n".join(max(unfit, key=lambda each: len(json.dumps(each[0])))[2]))


def _only_field(schema: Schema, text: str) -> list[Schema]:
    """Return the answers that a text may stand for as the value of the only field; none if any text is such a value."""
    names = list(schema.get("properties", ()))
    if schema.get("type") != "object" or len(names) != 1 or not faults(schema, {names[0]: "any text"}):
        return []
    return [{names[0]: value} for value in values_alone(unfenced(text.strip()))]


def response_format(schema: Schema) -> dict[str, Any]:
    """Return the protocol's ``response_format`` for a schema; strict if the schema permits."""
    strict = schema.get("type") == "object" and is_strict(schema)
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": strict}}


class _Derivation:
    """Derivation of a schema from an example, within `MAX_NODES` and `MAX_DEPTH`."""

    def __init__(self) -> None:
        self._nodes = 0

    def derive(self, example: Any, path: PathInForm = ()) -> Schema:
        """Return the schema of an example, whose path in the whole form is given for errors."""
        self._nodes += 1
        if len(path) > MAX_DEPTH:
            raise invalid_schema("too-deep", f"nested more than {MAX_DEPTH} deep")
        if self._nodes > MAX_NODES:
            raise invalid_schema("too-large", f"holds more than {MAX_NODES:,} values")
        if isinstance(example, dict):
            return self._object(cast("dict[Any, Any]", example), path)
        if isinstance(example, list):
            return self._array(cast("list[Any]", example), path)
        if isinstance(example, str):
            return self._text(example, path)
        for kind, name in ((bool, "boolean"), (int, "integer"), (float, "number")):
            if isinstance(example, kind):
                return {"type": name}
        return {}

    def _text(self, example: str, path: PathInForm) -> Schema:
        if example in TYPE_WORDS:
            return dict(TYPE_WORDS[example])
        if (choice := choice_of(example, TYPE_WORDS)) is not None:
            return choice
        key = next((each for each in reversed(path) if isinstance(each, str)), "")
        if fault := word_fault(example, key, list(TYPE_WORDS)):
            raise FormError(FormFault(fault, None, "no-type"), path)
        return {"type": "string", "description": example} if example else {"type": "string"}

    def _object(self, example: dict[Any, Any], path: PathInForm) -> Schema:
        choices = example.get("enum")
        if len(example) == 1 and isinstance(choices, list) and choices and _are_scalars(cast("list[Any]", choices)):
            return {"enum": choices}
        properties: dict[str, Schema] = {}
        required: list[str] = []
        for key, value in ((str(key), value) for key, value in example.items()):
            if key == AND_SO_ON:
                continue
            name = key.removesuffix(OPTIONAL) or key
            if name in properties:
                raise FormError(FormFault(f"duplicate key {name!r}", None, "duplicate-key"), (*path, key))
            properties[name] = self.derive(value, (*path, key))
            required += [name] if name == key else []
        return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}

    def _array(self, example: list[Any], path: PathInForm) -> Schema:
        by_shape: dict[str, Schema] = {}
        for number, item in enumerate(example):
            if item == AND_SO_ON:
                continue
            form = self.derive(item, (*path, number))
            known = by_shape.setdefault(json.dumps({**form, "description": None}), form)
            if known is not form and "description" in form:
                known["description"] = ", ".join(filter(None, (known.get("description"), form["description"])))
        item_schemas = list(by_shape.values()) or [Schema()]
        return {"type": "array", "items": {"anyOf": item_schemas} if len(item_schemas) > 1 else item_schemas[0]}


def _are_scalars(values: list[Any]) -> bool:
    return not any(isinstance(each, dict | list) for each in values)


def _read_form(text: str) -> Any:
    """Return the JSON Schema or the example that a text consists of, as plain values; None for prose."""
    whole, text = text, unfenced(text.strip())
    if not text:
        return None
    offset = whole.find(text)
    braced = (text[0], text[-1]) in {("{", "}"), ("[", "]")}
    if len(text) > MAX_TEXT:
        if not braced:
            return None
        raise invalid_schema(
            "too-large", f"{len(text):,} characters; at most {MAX_TEXT:,} are read as a schema or an example"
        )
    _refuse_broken(text, whole, offset, braced)
    try:
        value, slips = _parse(text)
    except RecursionError as error:
        raise invalid_schema("too-deep", f"nested more than {MAX_DEPTH} deep") from error
    except ValueError as error:
        if not braced:
            return None
        problem, at = (*error.args, None)[:2]
        slip = FormFault(f"is in braces but neither JSON nor YAML: {problem}; correct it, or begin with words", at)
        raise invalid_schema(slip.code, fault_message(slip, whole, offset)) from error
    if not isinstance(value, dict | list) or not value:
        return None
    if not (braced or _is_schema(value) or _is_example(value)):
        return None
    if slips:
        raise InvalidError("output_schema", [Issue(each.code, fault_message(each, whole, offset)) for each in slips])
    return cast("Any", value)


def _refuse_broken(text: str, whole: str, offset: int, braced: bool) -> None:
    """Raise InvalidError for a text that begins or ends like a form, but has unmatched brackets or lone surrogates."""
    if braced and (surrogate := _SURROGATE.search(text)):
        slip = FormFault("half of a UTF-16 pair is not a character; remove it", surrogate.start(), "not-text")
        raise invalid_schema(slip.code, fault_message(slip, whole, offset).encode("utf-8", "replace").decode())
    slip = bracket_fault(text) if text[0] in "{[" or text[-1] in "}]" else None
    if slip is None or slip.at is None:
        return
    begins_as_form = text[0] == "{" or braced or (text[0] == "[" and "]" not in text)
    ends_as_form = slip.at == len(text) - 1 and "\n" not in text and _KEY_AND_COLON.match(text)
    if begins_as_form or ends_as_form:
        raise invalid_schema(slip.code, fault_message(slip, whole, offset))


def _parse(text: str) -> tuple[Any, Sequence[FormFault]]:
    """Return the value of JSON or YAML text, and its faults, such as duplicate keys."""
    duplicates: list[str] = []

    def mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        duplicates.extend(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        return dict(pairs)

    try:
        value = json.loads(text, parse_constant=refuse_constant, object_pairs_hook=mapping)
    except ValueError:
        return read_yaml_form(text)
    return value, [
        FormFault(f"duplicate key {key!r}", text.rfind(json.dumps(key)), "duplicate-key") for key in duplicates
    ]


def _is_schema(parsed: Any) -> TypeGuard[Schema]:
    """Return True for a JSON Schema; False for an example whose keys happen to be schema keywords."""
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


def _is_example(value: Any) -> bool:
    """Return True if YAML without braces is an example; False for sentences that happen to parse as YAML."""
    items = list(cast("dict[Any, Any]", value).values() if isinstance(value, dict) else cast("list[Any]", value))
    if isinstance(value, dict):
        keys = cast("dict[Any, Any]", value)
        if not all(isinstance(key, str) and _KEY.fullmatch(key) for key in keys):
            return False
    return any(not isinstance(item, str) or is_of_a_type(item, TYPE_WORDS) for item in items)


def faults(schema: Schema, value: Any) -> list[str]:
    """Return the violations of a schema by a value, one line each.

    Raises:
        SchemaMismatch: The value is nested too deeply to be checked.
        InvalidError: The schema refers to a schema outside itself.
    """
    return _violations(schema, value)[1]


def _violations(schema: Schema, value: Any) -> tuple[Sequence[ValidationError], list[str]]:
    from referencing.exceptions import Unresolvable

    try:
        json.dumps(value, allow_nan=False)
        errors = sorted(schema_errors(schema, value), key=lambda error: error.json_path)
        messages = [
            f"{'' if each.json_path == '$' else f'{each.json_path}: '}{without_middle(each.message)}"
            for error in errors
            for each in of_meant_branch(error)
        ]
    except Unresolvable as error:
        raise invalid_schema("reference", f"the reference {error} has no target in this schema") from error
    except RecursionError as error:
        raise SchemaMismatch("the answer is nested too deep") from error
    except EndlessSchemaError as error:
        raise SchemaMismatch(f"the answer cannot be checked by its schema: {error}") from error
    except OverflowError:
        return (), ["a number is too large; give a smaller one"]
    except ValueError:
        return (), ["NaN and Infinity are not JSON; give a number that is finite"]
    more = len(messages) - MAX_ERRORS
    return errors, [*messages[:MAX_ERRORS], f"and {more} more"] if more > 0 else messages
