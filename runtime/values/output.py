"""Type of an answer: a JSON Schema for the model, and conversion of a message to the type."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Mapping
from typing import Annotated, Any, Generic, cast, get_args, get_origin, is_typeddict

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import to_jsonable_python
from typing_extensions import TypedDict, TypeVar, get_type_hints

from operad.runtime.values.arguments import short_repr
from operad.runtime.values.errors import InputError, InvalidError
from operad.runtime.values.form_text import is_json_schema
from operad.runtime.values.message import WorkflowMessage
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
        type: The type.
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

    def read(self, message: WorkflowMessage) -> T:
        """Return the value of a message, as an instance of the type.

        Raises:
            ValueError: The value does not fit the type; the text lists its faults on one line.
        """
        value: Any = plain_value(message)
        if self.type is str:
            return value if isinstance(value, str) else message.scratchpad  # type: ignore[return-value]
        if self._adapter is None:
            return value
        try:
            return self._adapter.validate_python(value)
        except ValidationError as error:
            fault = error
        try:
            text = value if isinstance(value, str) else json.dumps(value)
            return self._adapter.validate_json(text)
        except (ValidationError, TypeError, ValueError):
            raise ValueError(_error_text(fault)) from fault

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


def plain_value(message: WorkflowMessage) -> Any:
    """Return the value of a message: its output named ``output`` if it is the only one, its outputs, or its text."""
    outputs = message.outputs
    if not outputs:
        return message.scratchpad
    return outputs["output"] if outputs.keys() == {"output"} else outputs


def is_type(declared: object) -> bool:
    """Return True for a type: a class, a type such as ``list[str]``, or an alias of one made by ``type``."""
    return isinstance(declared, type) or get_origin(declared) is not None or hasattr(declared, "__value__")


def is_class(kind: object) -> bool:
    """Return True if a type is a class; False for ``list[str]``, which is an instance of `type` on Python 3.10."""
    return isinstance(kind, type) and get_origin(kind) is None


def name(kind: Any) -> str:
    """Return a type's name for error messages."""
    kind = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    return kind.__name__ if is_class(kind) else str(kind).replace("typing.", "")


def field_names(kind: Any) -> Collection[str] | None:
    """Return the names by which a model, dataclass or typed dict takes its fields; None if it may take others."""
    if not (is_class(kind) and issubclass(kind, BaseModel)):
        try:
            hints = {} if hasattr(kind, "__pydantic_config__") else get_type_hints(kind, include_extras=True)
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


def message_of(value: Any, ports: tuple[str, ...] | None = None) -> WorkflowMessage:
    """Return a value as a message: text as it is, an object by its fields, any other value as the output ``output``."""
    if isinstance(value, str):
        return WorkflowMessage(scratchpad=value, ports=ports)
    plain = to_jsonable_python(value, by_alias=True)
    if isinstance(plain, str):  # an Enum, a date
        return WorkflowMessage(scratchpad=plain, outputs={"output": plain}, ports=ports)
    text = "" if plain is None else json.dumps(plain, ensure_ascii=False)
    outputs = cast("dict[str, Any]", plain) if isinstance(plain, dict) else {"output": plain}
    return WorkflowMessage(scratchpad=text, outputs=outputs, ports=ports)
