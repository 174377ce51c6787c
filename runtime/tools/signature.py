"""A function's parameters as a model sees them: a JSON Schema, and the validation of a call."""

from __future__ import annotations

import functools
import inspect
import re
from dataclasses import dataclass, field
from importlib import import_module
from inspect import cleandoc
from operator import attrgetter
from types import MethodType
from typing import TYPE_CHECKING, Any, NamedTuple, cast, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError
from pydantic.json_schema import GenerateJsonSchema

from operad.runtime.events.run_context import RunContext
from operad.runtime.values.answer_json import readings
from operad.runtime.values.errors import ToolError, did_you_mean
from operad.runtime.values.json_schema import EndlessSchemaError, schema_errors, validator_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


# Parser of docstrings: the text, and the description of each argument.
#
# Google ("Args:"), NumPy ("Parameters" underlined) and reST (":param x:") styles are read.

_GOOGLE_TITLE = re.compile(r"(?:Args|Arguments|Parameters):\s*$")
_GOOGLE_ENTRY = re.compile(r"(?P<names>\*{0,2}\w+)\s*(?:\([^()]*(?:\([^()]*\)[^()]*)*\))?\s*:\s*(?P<text>.*)")
_NUMPY_TITLE = re.compile(r"(?:Other )?Parameters\s*$")
_NUMPY_ENTRY = re.compile(r"(?P<names>\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?$")
_UNDERLINE = re.compile(r"-{3,}\s*$")
_REST_PARAM = re.compile(r":param\s+(?:[^:]*\s)?(?P<names>\w+)\s*:\s*(?P<text>.*)")
_REST_TYPE = re.compile(r":type\s+\w+\s*:")


@dataclass(frozen=True, slots=True)
class Docstring:
    """A parsed docstring.

    Attributes:
        text: The summary and the body, without the section on arguments.
        arguments: Description of each argument, on one line.
    """

    text: str = ""
    arguments: dict[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def parse(cls, docstring: str | None) -> Docstring:
        """Parse a docstring; without a section on arguments, the whole docstring is the text."""
        lines = cleandoc(docstring or "").splitlines()
        text_lines: list[str] = []
        arguments: dict[str, str] = {}
        at = 0
        while at < len(lines):
            line = lines[at]
            if _GOOGLE_TITLE.match(line):
                end = _end_of_indented(lines, at + 1)
                arguments |= _entries(lines[at + 1 : end], _GOOGLE_ENTRY)
            elif _NUMPY_TITLE.match(line) and _is_underline(lines, at + 1):
                end = _end_of_numpy_section(lines, at + 2)
                arguments |= _entries(lines[at + 2 : end], _NUMPY_ENTRY)
            elif _REST_PARAM.match(line):
                end = _end_of_indented(lines, at + 1)
                arguments |= _entries(lines[at:end], _REST_PARAM)
            elif _REST_TYPE.match(line):
                end = _end_of_indented(lines, at + 1)
            else:
                text_lines.append(line)
                end = at + 1
            at = end
        return cls(text=re.sub(r"\n{3,}", "\n\n", "\n".join(text_lines)).strip(), arguments=arguments)


def _entries(lines: list[str], entry: re.Pattern[str]) -> dict[str, str]:
    """Return the descriptions of a block of entries, by name. Entries have the indent of the first line; deeper lines
    continue an entry.
    """
    descriptions: dict[str, list[str]] = {}
    current: list[str] = []
    entry_indent = next((_indent(line) for line in lines if line.strip()), 0)
    for line in lines:
        match = entry.match(line.strip()) if _indent(line) == entry_indent else None
        if match:
            current = [match.groupdict().get("text") or ""]
            for name in match["names"].split(","):
                descriptions[name.strip().lstrip("*")] = current
        elif line.strip():
            current.append(line.strip())
    return {name: " ".join(filter(None, parts)) for name, parts in descriptions.items()}


def _end_of_indented(lines: list[str], start: int) -> int:
    """Return the index of the first line from `start` on that is neither indented nor blank."""
    return next((at for at in range(start, len(lines)) if lines[at].strip() and not _indent(lines[at])), len(lines))


def _end_of_numpy_section(lines: list[str], start: int) -> int:
    """Return the index of the next section's title from `start` on."""
    return next((at for at in range(start, len(lines)) if _is_underline(lines, at + 1)), len(lines))


def _is_underline(lines: list[str], at: int) -> bool:
    return at < len(lines) and _UNDERLINE.match(lines[at]) is not None


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


_SCHEMA_ERRORS = (PydanticUserError, PydanticUndefinedAnnotation, SyntaxError)


class Signature:
    """Signature of a function for calls by models.

    Arguments are validated by a pydantic model. Its fields are numbered, with the names of the parameters as aliases,
    because a parameter may have a name that a field may not have, such as `_id`, `json` or `schema`.

    Attributes:
        description: The function's docstring, without the section on arguments.
        schema: JSON Schema of the arguments.
        context: Name of the parameter that is annotated with `RunContext` and hidden from the model; empty if there is
            none.
        context_type: Annotation of that parameter.
        defaults: Default values of the arguments that may be left out.
    """

    def __init__(self, function: Callable[..., Any], name: str = "") -> None:
        """Read the signature and the docstring of a function.

        Args:
            name: Name of the tool, also in errors; by default the name of the function.
        """
        self._function = function
        self.name = name or _name_of(function)
        docstring = Docstring.parse(_docstring_of(function))
        self.description = docstring.text
        parameters = self._parameters(function)
        context = next((each for each in parameters if is_context(each.annotation)), None)
        self.context, self.context_type = (context.name, context.annotation) if context else ("", None)
        parameters = [each for each in parameters if each.name != self.context]
        self._names = tuple(parameter.name for parameter in parameters)
        self.defaults = {each.name: each.default for each in parameters if each.default is not each.empty}
        namespace: dict[str, Any] = getattr(_plain_function(function), "__globals__", {})
        try:
            self._model = _model_of(parameters, namespace)
            self.schema = self._model.model_json_schema(schema_generator=_ArgumentsSchema)
        except _SCHEMA_ERRORS as error:
            unusable = [p.name for p in parameters if not _is_usable(p, namespace)]
            raise ToolError(
                f"tool {self.name!r}: a model cannot be told the type of parameter {', '.join(map(repr, unusable))}: "
                f"{str(error).splitlines()[0].split('. ')[0]}"
            ) from error
        del self.schema["title"]
        for name, schema in self.schema["properties"].items():
            if description := docstring.arguments.get(name):
                schema.setdefault("description", description)

    def __reduce__(self) -> tuple[Any, ...]:
        return _signature_of, (by_name(self._function), self.name)

    def validate(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the given arguments, converted to the annotated types.

        Raises:
            ToolError: Arguments are wrong; the message names all faults.
        """
        try:
            valid = self._model.model_validate(arguments)
        except ValidationError as error:
            faults = [self._fault(fault["type"], fault["loc"], fault["msg"]) for fault in error.errors()]
            raise wrong_arguments(self.name, faults) from error
        return {
            name: getattr(valid, field)
            for name, field in zip(self._names, self._model.model_fields, strict=True)
            if field in valid.model_fields_set
        }

    def _parameters(self, function: Callable[..., Any]) -> list[inspect.Parameter]:
        """Return the parameters of a function, without those bound by a partial."""
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError) as error:
            raise ToolError(
                f"tool {self.name!r} has no signature to read; wrap it in a function of your own"
            ) from error
        bound: Iterable[str] = function.keywords if isinstance(function, functools.partial) else ()
        parameters = [parameter for parameter in signature.parameters.values() if parameter.name not in bound]
        if parameters and parameters[0].name == "self":
            raise ToolError(
                f"tool {self.name!r}: 'self' has no value; give the method of an object, undecorated: "
                f"tools=[clerk.{self.name}]"
            )
        for parameter in parameters:
            if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                raise ToolError(
                    f"tool {self.name!r}: parameter {str(parameter)!r} is {parameter.kind.description}; a model gives "
                    "arguments by name, so each needs one (a decorator without functools.wraps hides them)"
                )
        return parameters

    def _fault(self, kind: str, where: tuple[int | str, ...], message: str) -> str:
        """Return the description of an error of pydantic, given as its type, location and message."""
        if len(where) == 1 and kind == "extra_forbidden":
            return unknown_argument(str(where[0]), self._names)
        if len(where) == 1 and kind == "missing":
            return missing_argument(str(where[0]))
        return wrong_argument(where, message)


def missing_argument(name: str) -> str:
    """Return the description of a fault: an argument is missing."""
    return f"{name!r} is missing"


def unknown_argument(name: str, known: Iterable[str]) -> str:
    """Return the description of a fault: an argument is unknown."""
    return f"{name!r} is not an argument{did_you_mean(name, known)}"


def wrong_argument(where: Iterable[int | str], message: str) -> str:
    """Return the description of a fault: the value at a path is wrong."""
    return f"{'.'.join(map(str, where))!r}: {message}"


def wrong_arguments(tool: str, faults: Iterable[str]) -> ToolError:
    """Return the error that lists all faults of a call."""
    return ToolError(f"tool {tool!r} was called with wrong arguments: {'; '.join(faults)}")


class _ArgumentsSchema(GenerateJsonSchema):
    """JSON Schema generator that omits titles which repeat names, and defaults without a JSON form."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def checked_by_schema(tool: str, schema: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """Return arguments that fit the JSON Schema of a tool, with slips such as ``"10"`` for a number read.

    A missing argument that the schema requires, and for which it has a default, gets the default: zod, with which most MCP
    servers in TypeScript are written, requires each argument that has one.

    Raises:
        ToolError: The arguments do not fit the schema, or the schema is not usable.
    """
    from jsonschema import Draft202012Validator, SchemaError
    from jsonschema.validators import validator_for
    from referencing.exceptions import Unresolvable

    try:
        validator_for(schema, default=Draft202012Validator).check_schema(schema)
        validator = validator_of(schema)
        arguments = _with_defaults(schema, arguments)
        errors = schema_errors(validator, arguments)
        for read in readings(errors, schema, arguments):
            if not schema_errors(validator, read):
                return read
    except (SchemaError, Unresolvable, EndlessSchemaError, RecursionError) as error:
        raise ToolError(f"tool {tool!r}: its parameters are not a usable JSON Schema: {error}") from error
    except OverflowError as error:
        raise ToolError(f"tool {tool!r} was called with a number that is too large") from error
    known = list(schema.get("properties", {}))
    faults: dict[str, None] = {}
    for error in errors:
        if error.validator == "additionalProperties" and not error.path:
            faults |= dict.fromkeys(unknown_argument(name, known) for name in arguments if name not in known)
        elif error.validator == "required" and not error.path:
            faults |= dict.fromkeys(missing_argument(name) for name in schema["required"] if name not in arguments)
        else:
            faults[wrong_argument(error.path, error.message) if error.path else error.message] = None
    if faults:
        raise wrong_arguments(tool, faults)
    return arguments


def _with_defaults(schema: Any, value: Any) -> Any:
    """Return a value with the defaults of required fields that it lacks, also inside objects."""
    if not isinstance(value, dict) or not isinstance(schema, dict):
        return cast("Any", value)
    given, described = cast("dict[str, Any]", value), cast("dict[str, Any]", schema)
    properties: dict[str, Any] = described.get("properties", {})
    filled = {name: _with_defaults(properties.get(name), each) for name, each in given.items()}
    for name in described.get("required", ()):
        if name not in filled and isinstance(field := properties.get(name), dict) and "default" in field:
            filled[name] = field["default"]
    return filled


class FunctionName(NamedTuple):
    """Name of a function in a pickle, also of one that a decorator such as ``@tool`` replaced in its module."""

    module: str
    name: str


def by_name(function: Callable[..., Any]) -> Any:
    """Return the name of a function of a module; any other callable is returned as it is."""
    name = FunctionName(getattr(function, "__module__", None) or "", getattr(function, "__qualname__", ""))
    try:
        return name if named(name) is function else function
    except (ImportError, AttributeError):
        return function


def named(function: Any) -> Any:
    """Return the function with a name; anything else is returned as it is."""
    if not isinstance(function, FunctionName):
        return function
    found = attrgetter(function.name)(import_module(function.module))
    return getattr(found, "function", found)


def _signature_of(function: Any, name: str) -> Signature:
    """Return the signature of a function that is given by its name, as in a pickle."""
    return Signature(named(function), name)


def is_context(annotation: Any) -> bool:
    """Return True if an annotation is `RunContext` or an optional one."""
    if isinstance(annotation, str):
        return (
            annotation.replace(" ", "").removesuffix("|None").partition("[")[0].rpartition(".")[2]
            == RunContext.__name__
        )
    return any(each is RunContext or get_origin(each) is RunContext for each in (annotation, *get_args(annotation)))


def _model_of(parameters: Iterable[inspect.Parameter], namespace: dict[str, Any]) -> type[BaseModel]:
    """Return the pydantic model for parameters, with types resolved in a namespace."""
    fields: dict[str, Any] = {}
    for number, parameter in enumerate(parameters):
        annotation = Any if parameter.annotation is parameter.empty else parameter.annotation
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[f"argument{number}"] = (annotation, Field(default, alias=parameter.name))
    model = create_model("Arguments", __config__=ConfigDict(extra="forbid"), **fields)
    model.model_rebuild(force=True, _types_namespace=namespace)
    return model


def _is_usable(parameter: inspect.Parameter, namespace: dict[str, Any]) -> bool:
    try:
        _model_of([parameter], namespace).model_json_schema(schema_generator=_ArgumentsSchema)
    except _SCHEMA_ERRORS:
        return False
    return True


def _plain_function(function: Any) -> Any:
    """Return the plain function inside a partial, a method, a decorated function or a callable object."""
    while True:
        if isinstance(function, functools.partial):
            function = cast("Any", function).func
        elif isinstance(function, MethodType):
            function = function.__func__
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        elif inspect.isroutine(function) or isinstance(function, type):
            return cast("Any", function)
        else:
            function = type(function).__call__


def _name_of(function: Any) -> str:
    while isinstance(function, functools.partial):
        function = cast("Any", function).func
    return getattr(function, "__name__", "") or type(function).__name__


def _docstring_of(function: Any) -> str | None:
    if isinstance(function, functools.partial):
        return _docstring_of(cast("Any", function).func)
    return _plain_function(function).__doc__ or inspect.getdoc(function)
