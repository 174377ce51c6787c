"""Type of an answer: a JSON Schema for the model, and conversion of a message to the type."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from typing import Annotated, Any, Generic, cast, get_args, get_origin, is_typeddict

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema
from typing_extensions import TypedDict, TypeVar, get_type_hints
from typing_extensions import is_typeddict as is_any_typeddict

from operad.runtime.values.arguments import short_repr
from operad.runtime.values.base_errors import InputError, InvalidError
from operad.runtime.values.form_text import is_json_schema
from operad.runtime.values.message import WorkflowMessage
from operad.runtime.values.own import own
from operad.runtime.values.schema import TEXT_FORM, AnswerSchema

T = TypeVar("T", default=Any)

EXPECTED = (
    "a pydantic model, a dataclass, a TypedDict, a type such as list[str], Literal['a', 'b'] or Invoice | Refusal, "
    "a JSON Schema as a dict, or text such as '{claims: [string]}'"
)

ANY_TEXT = ("", "string", "str")
"""Declarations of plain text, which has no form."""

MOST_FAULTS = 5
"""Maximum number of faults of one value that an error lists."""


class Output(Generic[T]):
    """Type of an operator's answers.

        output = Output(Claims)
        output.schema  # the form of the answer, with its JSON Schema
        output.read(message)  # the answer, an instance of Claims

    Args:
        type: The type of answers; None for any value.
        schema: Form of the answer; by default the JSON Schema of the type, empty for text.

    Attributes:
        schema: Form of the answer.
        called: Name of the type in errors.

    Raises:
        InputError: pydantic cannot read or describe the type.
    """

    def __init__(self, type: Any = None, schema: AnswerSchema | str | None = None) -> None:
        self.type = type
        self.called = name(type) if type else "answer of the wanted form"
        self._adapter: TypeAdapter[Any] | None = None
        if type is not None and type is not str:
            self._adapter = adapter(type)
        self.schema = self._schema() if schema is None else AnswerSchema.of(schema)

    @classmethod
    def of(cls, declared: Any) -> Output[Any]:
        """Return the output type that a user declares in one of the ways of `EXPECTED`; None stands for text.

        Raises:
            InputError: The declaration is none of these.
        """
        if declared is None or declared is str or (isinstance(declared, str) and declared.strip() in ANY_TEXT):
            return Output(str)
        if isinstance(declared, str | Mapping):
            try:
                schema = AnswerSchema.of(declared)
            except InvalidError as error:
                raise InputError(f"output: {'; '.join(issue.message for issue in error.issues)}") from error
            return Output(None, schema)
        if declared is BaseModel:
            raise InputError(
                "output: expected a subclass of BaseModel, whose fields are the answer's; got BaseModel itself"
            )
        if is_type(declared):
            return Output(declared)
        raise InputError(f"output: expected {EXPECTED}; got {short_repr(declared)}")

    @property
    def is_text(self) -> bool:
        """True if the answer is plain text."""
        return self.type is str

    @property
    def is_declared(self) -> bool:
        """True for a type other than text, by which values are read."""
        return self._adapter is not None

    def read(self, message: WorkflowMessage) -> T:
        """Return the value of a message, as an instance of the type.

        Raises:
            ValueError: The value does not fit the type; the text lists its faults on one line.
        """
        if self.type is str:
            value = message.value
            return value if isinstance(value, str) else message.scratchpad  # type: ignore[return-value]
        return self.read_value(message.value)

    def read_value(self, value: Any) -> T:
        """Return plain values as an instance of the type, which shares nothing with them that can be changed.

        Raises:
            ValueError: The value does not fit the type; the text lists its faults on one line.
        """
        if self._adapter is None:
            return own(value)
        try:
            return self._reader.read(value)
        except ValidationError as error:
            raise ValueError(_error_text(error)) from error
        except Exception as error:  # raised by a validator of the user's type
            raise ValueError(f"{type(error).__name__}: {error}") from error

    def is_instance(self, value: Any) -> bool:
        """Return True if the type is a class, and the value an instance of it."""
        return isinstance(self.type, type) and not is_any_typeddict(self.type) and isinstance(value, self.type)

    @cached_property
    def _reader(self) -> Reader:
        assert self._adapter is not None  # noqa: S101 - of a declared type
        return Reader(self._adapter)

    @property
    def reads_json(self) -> bool:
        """True for a type of which JSON is read otherwise than Python values."""
        return self._adapter is not None and self._reader.reads_json

    def write(self, value: Any) -> Any:
        """Return an instance of the type as JSON values, as the serializers of the type say."""
        assert self._adapter is not None  # noqa: S101 - of a declared type
        return self._adapter.dump_python(value, mode="json", by_alias=True, warnings=False)

    def accepts(self, value: Any) -> bool:
        """Return True if a value is an instance of the type without any conversion."""
        try:
            return self._adapter is None or (self._adapter.validate_python(value, strict=True), True)[1]
        except ValidationError:
            return False

    def read_json(self, value: Any) -> T:
        """Return a JSON value as an instance of the type.

        Raises:
            ValueError: The value does not fit the type; the text lists its faults on one line.
        """
        if self._adapter is None:
            return value
        try:
            return self._adapter.validate_json(json.dumps(value))
        except ValidationError as error:
            raise ValueError(_error_text(error)) from error

    def written_schema(self) -> dict[str, Any] | None:
        """Return the JSON Schema of serialized values; None for text, for any value, and for types without a schema."""
        if self._adapter is None:
            return None
        try:
            return cast("dict[str, Any]", _closed(self._adapter.json_schema(mode="serialization")))
        except PydanticUserError:
            return None

    def _schema(self) -> AnswerSchema:
        if self._adapter is None:
            return TEXT_FORM
        try:
            schema = self._adapter.json_schema(schema_generator=_AnswerSchema)
        except PydanticUserError as error:
            raise InputError(f"output: {name(self.type)} has no JSON Schema: {_first_sentence(error)}") from error
        closed = _closed(schema)
        if not is_json_schema(closed):  # the text of the schema is one, too
            closed = {"$schema": "https://json-schema.org/draft/2020-12/schema", **closed}
        return AnswerSchema.unchecked(closed)


class _AnswerSchema(GenerateJsonSchema):
    """JSON Schema generator that omits titles which repeat names."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def adapter(kind: Any) -> TypeAdapter[Any]:
    """Return pydantic's validator for a type.

    Raises:
        InputError: pydantic cannot read the type.
    """
    if sys.version_info < (3, 12) and is_typeddict(kind):
        kind = _typed_dict(kind)
    try:
        return TypeAdapter(kind)
    except PydanticUserError as error:
        raise InputError(
            f"pydantic cannot read the type {name(kind)}: {_first_sentence(error)}; use {EXPECTED}"
        ) from error


_NEW = frozenset(
    "int float decimal str bool none date datetime time timedelta uuid literal enum url nullable union tagged-union "
    "model model-fields model-field typed-dict typed-dict-field dataclass dataclass-args dataclass-field arguments "
    "definitions definition-ref default list set frozenset tuple dict".split()
)
"""Kinds of pydantic's core schemas whose values share nothing with the input that can be changed."""


class Reader:
    """Validator of plain values, which shares nothing with them that can be changed.

    Attributes:
        adapter: pydantic's validator.
    """

    def __init__(self, adapter: TypeAdapter[Any]) -> None:
        self.adapter = adapter
        parts = list(_dicts_in(adapter.core_schema))
        self._shares = any(map(_may_share, parts))
        self.reads_json = any("val_json_bytes" in part for part in parts)
        """True for types of which pydantic reads JSON otherwise than Python values: bytes as base64."""

    def read(self, value: Any) -> Any:
        """Return plain values as an instance of the type; texts may be JSON, which models write.

        Raises:
            ValidationError: The value does not fit the type; its errors are those of the value as a Python value.
        """
        if self.reads_json and not isinstance(value, str):
            with suppress(ValidationError, TypeError, ValueError):
                return self.adapter.validate_json(json.dumps(value))
        try:
            return self.adapter.validate_python(own(value) if self._shares else value)
        except ValidationError:
            with suppress(ValidationError, TypeError, ValueError, RecursionError):
                return self.adapter.validate_json(value if isinstance(value, str) else json.dumps(value))
            if isinstance(value, str):  # a strict type, such as a date, takes a text from JSON alone
                with suppress(ValidationError):
                    return self.adapter.validate_json(json.dumps(value))
            raise


def _may_share(part: Mapping[str, Any]) -> bool:
    """Return True if a part of a core schema may pass on values of the input as they are."""
    kind = part.get("type")
    if kind == "list" and "items_schema" not in part:
        return True
    further_fields = (part.get("extra_fields_behavior"), part.get("extra_behavior"))
    return (isinstance(kind, str) and kind not in _NEW) or "allow" in further_fields


def _dicts_in(value: Any) -> Iterator[dict[str, Any]]:
    """Yield all dicts inside a core schema, without defaults and metadata, which may hold anything."""
    pending: list[Any] = [value]
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            inner = cast("dict[str, Any]", part)
            yield inner
            pending += [each for key, each in inner.items() if key not in ("metadata", "default", "expected")]
        elif isinstance(part, list | tuple):
            pending += cast("list[Any]", part)


def is_type(declared: object) -> bool:
    """Return True for a type: a class, a type such as ``list[str]``, or an alias of one made by ``type``."""
    return isinstance(declared, type) or get_origin(declared) is not None or hasattr(declared, "__value__")


def name(kind: Any) -> str:
    """Return a type's name for error messages."""
    kind = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    return kind.__name__ if isinstance(kind, type) else str(kind).replace("typing.", "")


def field_names(kind: Any) -> Collection[str] | None:
    """Return the names by which a model, dataclass or typed dict takes its fields; None if it may take others."""
    if not (isinstance(kind, type) and issubclass(kind, BaseModel)):
        of_pydantic = hasattr(cast("Any", kind), "__pydantic_config__")
        try:
            hints: dict[str, Any] = {} if of_pydantic else get_type_hints(kind, include_extras=True)
        except (NameError, TypeError):  # an annotation that only pydantic resolves
            return None
        has_alias = any(get_origin(hint) is Annotated for hint in hints.values())  # perhaps
        return None if has_alias else hints or None
    validators = kind.__pydantic_decorators__.model_validators.values()
    if kind.model_config.get("extra") == "allow" or any(each.info.mode != "after" for each in validators):
        return None
    names = [alias for field in kind.model_fields.values() if (alias := field.validation_alias) is not None]
    return None if any(not isinstance(each, str) for each in names) else {*kind.model_fields, *map(str, names)}


def _typed_dict(kind: Any) -> Any:
    """Return a TypedDict as a TypedDict of typing_extensions, which pydantic requires before Python 3.12."""
    if kind.__class__.__module__ == TypedDict.__module__:
        return kind
    hints = get_type_hints(kind, include_extras=True)
    converted: Any = TypedDict(kind.__name__, hints, total=kind.__total__)  # type: ignore[misc]
    converted.__required_keys__, converted.__optional_keys__ = kind.__required_keys__, kind.__optional_keys__
    return converted


def _closed(part: Any) -> Any:
    """Return the schema with ``additionalProperties: false`` in all objects that do not set it."""
    if isinstance(part, list):
        return [_closed(item) for item in part]  # pyright: ignore
    if not isinstance(part, dict):
        return part
    closed = {key: _closed(value) for key, value in cast("dict[str, Any]", part).items()}
    if closed.get("type") == "object" and isinstance(closed.get("properties"), dict):
        closed.setdefault("additionalProperties", False)
    return closed


def _first_sentence(error: Exception) -> str:
    return str(error).splitlines()[0].split(". ")[0].rstrip(".")


def _error_text(error: ValidationError) -> str:
    errors = error.errors(include_url=False, include_context=False, include_input=False)
    lines = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}".removeprefix(": ") for each in errors[:MOST_FAULTS]]
    more = f"; and {len(errors) - MOST_FAULTS} more" if len(errors) > MOST_FAULTS else ""
    return "; ".join(lines) + more


def outputs_of(value: Any) -> tuple[dict[str, Any], str | None]:
    """Return plain values as outputs of a message, and the name of the output that is the whole answer.

    An object with fields is its outputs, whatever their names. Any other value is the output ``output``.
    """
    if value and isinstance(value, dict):
        return cast("dict[str, Any]", value), None
    return {"output": value}, "output"
