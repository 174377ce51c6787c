"""Form of an answer: its JSON Schema, parsed and checked once, and validation of answers by it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from operad.runtime.values.answer_json import candidates, readings, unfenced, values_alone, without_half_escapes
from operad.runtime.values.base_errors import AnswerError
from operad.runtime.values.form_text import Written, read_form, schema_of_form
from operad.runtime.values.json_schema import (
    MAX_ERRORS,
    EndlessSchemaError,
    Schema,
    check_schema,
    invalid_schema,
    is_strict,
    of_meant_branch,
    schema_errors,
    validator_of,
    without_middle,
)

if TYPE_CHECKING:
    from jsonschema import ValidationError
    from pydantic_core import CoreSchema

MAX_ANSWER = 2**20
"""Maximum length of an answer, in characters."""


class SchemaMismatch(AnswerError):  # noqa: N818 - an answer's state; the error is an AnswerError
    """An answer does not fit its schema; the text names every fault and can be shown to a model."""


@dataclass(frozen=True)
class AnswerSchema:
    """Form of an answer, parsed and checked: a JSON Schema, a form such as ``{claims: [string]}``, or prose.

        claims = AnswerSchema.parse("{claims: [string]}")
        claims.validate('{"claims": ["The moon has air."]}')

    Attributes:
        text: The form as it was declared, which a model is shown; empty for any text.
        schema: Its JSON Schema; None for prose, which a model gets as it is.
        is_json_schema: True if the text is the JSON Schema itself.
    """

    text: str = ""
    schema: Schema | None = field(default=None, compare=False)
    is_json_schema: bool = False

    @classmethod
    def parse(cls, text: str) -> AnswerSchema:
        """Return the form that a text describes.

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
        ``{enum: [a, b]}`` one of the listed values. A text that begins with a brace is either parsed or refused with
        the position of the fault: an unclosed bracket, a duplicate key, a key without a value, a misspelt type, a type
        of another language (`strng`, `list`), or a choice that may be a text or a number (`1.10`).

        Raises:
            InvalidError: The text is an invalid JSON Schema, an unreadable form in braces, too large, or an unknown word.

        Example:
            >>> AnswerSchema.parse("{kind: a | b}").schema["properties"]
            {'kind': {'enum': ['a', 'b']}}
        """
        schema, is_json_schema = read_form(text)
        if is_json_schema and schema is not None:
            check_schema(schema)
        return cls(text, schema, is_json_schema)

    @classmethod
    def of(cls, declared: Any, written: Written | None = None) -> AnswerSchema:
        """Return the form for a text as for `parse`, for plain values, or for a form, which is returned as it is.

        Args:
            written: Texts of plain values from YAML that are not written as in JSON; see `YamlValues`.

        Raises:
            FormError: Plain values have an unknown type word, a duplicate key, or an unclear choice.
            InvalidError: As `parse`.
        """
        if isinstance(declared, AnswerSchema):
            return declared
        if isinstance(declared, str):
            return cls.parse(declared)
        schema = schema_of_form(declared, written or {})
        if schema is declared:
            check_schema(schema)
        return cls.unchecked(schema)

    @classmethod
    def unchecked(cls, schema: Mapping[str, Any]) -> AnswerSchema:
        """Return the form for a JSON Schema that is known to be valid."""
        return cls(json.dumps(schema, ensure_ascii=False), dict(schema), is_json_schema=True)

    def __bool__(self) -> bool:
        return bool(self.text)

    def __str__(self) -> str:
        return self.text

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle: without the validator."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> CoreSchema:
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(
            cls.of, serialization=core_schema.to_string_ser_schema(), json_schema_input_schema=core_schema.str_schema()
        )

    @cached_property
    def _validator(self) -> Any:
        return validator_of(self.schema or {})

    @cached_property
    def asked(self) -> AnswerSchema:
        """Form that a model is asked for: of an object, as endpoints require.

        Another value is the object's only key ``answer``. Optional keys that may be null are required, because strict
        mode has no others.
        """
        schema: Schema = self._root
        if self.is_enclosed:
            moved = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
            inner = {key: value for key, value in schema.items() if key not in moved}
            return AnswerSchema.unchecked({**object_schema({"answer": inner}), **moved})
        schema = schema if "type" in schema else {"type": "object", **schema}
        properties: Schema = schema.get("properties", {})
        optional = [part for name, part in properties.items() if name not in schema.get("required", ())]
        is_nullable = optional and all(map(_may_be_null, optional))
        if is_nullable:
            return AnswerSchema.unchecked({**schema, "required": list(properties)})
        return self if schema is self.schema else AnswerSchema.unchecked(schema)

    @cached_property
    def _root(self) -> Schema:
        """The schema; that of a recursive type, which is a reference, with the referenced schema at its root."""
        schema: Any = self.schema or {}
        kind, _, name = str(schema.get("$ref", "")).rpartition("/")
        target = schema.get("$defs", {}).get(name) if kind == "#/$defs" and schema.keys() == {"$ref", "$defs"} else None
        return {**target, "$defs": schema["$defs"]} if isinstance(target, dict) else schema

    @property
    def is_enclosed(self) -> bool:
        """True if a model is asked for an object around the answer, because the answer is not one."""
        schema = self._root
        return schema.get("type") != "object" and not ("type" not in schema and "properties" in schema)

    @cached_property
    def response_format(self) -> Mapping[str, Any]:
        """The protocol's ``response_format`` for the JSON Schema; strict if the schema permits."""
        strict = (self.schema or {}).get("type") == "object" and is_strict(self.schema)
        return {"type": "json_schema", "json_schema": {"name": "answer", "schema": self.schema, "strict": strict}}

    def read(self, text: str, *, repair: bool = True) -> Any:
        """Return the value of an answer to `asked`, or of an answer without the enclosing object; see `validate`."""
        if not self.is_enclosed:
            return self.validate(text, repair=repair)
        with suppress(SchemaMismatch):  # first, because the object may itself fit, as for any value
            return self.asked.validate(text, repair=False)["answer"]
        with suppress(SchemaMismatch):
            return self.validate(text, repair=False)
        try:
            return self.asked.validate(text, repair=repair)["answer"]
        except SchemaMismatch:
            if '"answer"' in text:  # otherwise the faults of the object around the answer say nothing of the answer
                raise
        return self.validate(text, repair=repair)

    def validate(self, text: str, *, repair: bool = True) -> Any:
        """Return the value of an answer, after checking that it fits the schema.

        The JSON may be in a code fence or amid prose.

        Args:
            repair: True to repair a trailing comma, a missing bracket or single quotes, and to read the slips of
                `answer_json`. Use False for an answer that was cut off, whose missing end a repair would hide.

        Raises:
            SchemaMismatch: The answer does not fit the schema, or has no JSON.
            InvalidError: The schema itself is not valid.
        """
        if len(text) > MAX_ANSWER:
            raise SchemaMismatch(f"the answer has {len(text):,} characters; at most {MAX_ANSWER:,} are read")
        text = without_half_escapes(text)
        unfit: list[tuple[Any, Sequence[ValidationError], list[str]]] = []
        for value in candidates(text, repair):
            errors, violations = self._violations(value)
            if not violations:
                return value
            unfit.append((value, errors, violations))
        alone = self._only_field(text) if repair else []
        misread = [(value, errors) for value, errors, _ in unfit] + [
            (each, self._violations(each)[0]) for each in alone
        ]
        schema = self.schema or {}
        read = [*alone, *(each for value, errors in misread if repair for each in readings(errors, schema, value))]
        fitting = {json.dumps(each): each for each in read if not self.faults(each)}
        if len(fitting) == 1:
            return fitting.popitem()[1]
        if not unfit:
            raise SchemaMismatch("the answer holds no JSON; answer with JSON alone")
        # Other values amid prose, or in JSON that cannot be read, are often parts of the largest.
        raise SchemaMismatch("\n".join(max(unfit, key=lambda each: len(json.dumps(each[0])))[2]))

    def faults(self, value: Any) -> list[str]:
        """Return the violations of the schema by a value, one line each.

        Raises:
            SchemaMismatch: The value is nested too deeply to be checked.
            InvalidError: The schema refers to a schema outside itself.
        """
        return self._violations(value)[1]

    def _only_field(self, text: str) -> list[Schema]:
        """Return the answers that a text may stand for as the value of the only field; none if any text is one."""
        schema = self.schema or {}
        names = list(schema.get("properties", ()))
        if schema.get("type") != "object" or len(names) != 1 or not self.faults({names[0]: "any text"}):
            return []
        return [{names[0]: value} for value in values_alone(unfenced(text.strip()))]

    def _violations(self, value: Any) -> tuple[Sequence[ValidationError], list[str]]:
        from referencing.exceptions import Unresolvable

        try:
            json.dumps(value, allow_nan=False)
            errors = sorted(schema_errors(self._validator, value), key=lambda error: error.json_path)
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


TEXT_FORM = AnswerSchema()
"""Form of an answer that is any text."""


def object_schema(properties: Schema) -> Schema:
    """Return the JSON Schema of an object with exactly these properties."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _may_be_null(schema: Any) -> bool:
    """Return True if null can stand for a missing value: the schema permits it and has no default."""
    if not isinstance(schema, dict) or "default" in schema:
        return False
    return {"type": "null"} in cast("Schema", schema).get("anyOf", ())
