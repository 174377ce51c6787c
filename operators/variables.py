"""Variables of typed nodes: values, names and types.

The outputs of a node are variables. Another node refers to a variable by a selector, ``id.variable`` in YAML and
``[variable, id]`` in lists, or in a text by ``{{#id.variable#}}``, the id with or without quotes (Chat2Workflow,
section 2.4). Names of parts may follow the name of the variable, separated by dots: a field of an object, or a property
of a file (`FILE_PARTS`).
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, NamedTuple, cast
from uuid import NAMESPACE_URL, uuid5

from pydantic import Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from operad.runtime.values.errors import did_you_mean
from operad.runtime.values.file import FileDescriptor
from operad.runtime.values.message import WorkflowMessage
from operad.runtime.values.text import whole

Values = Mapping[str, Any]

_LARGEST = sys.float_info.max
"""Largest number; a larger int is not a number for other readers of JSON."""

ADVANCED = "advanced"
"""Annotation of a parameter that is hidden from models which generate workflows; files and people use it."""

MAX_SHOWN_VALUE = 80
"""Maximum length of a value in an error, in characters."""


class VariableType(StrEnum):
    """The type of a variable, as people and models write it.

    Example:
        print(VariableType.STRING.value)  # string
    """

    STRING = "string"
    NUMBER = "number"
    BOOLEAN = "boolean"
    OBJECT = "object"
    FILE = "file"
    ARRAY_STRING = "array[string]"
    ARRAY_NUMBER = "array[number]"
    ARRAY_BOOLEAN = "array[boolean]"
    ARRAY_OBJECT = "array[object]"
    ARRAY_FILE = "array[file]"
    ARRAY = "array"
    ANY = "any"

    @property
    def item(self) -> VariableType | None:
        """Type of the items of an array; None for other types."""
        if self is VariableType.ARRAY:
            return VariableType.ANY
        return VariableType(self.value[6:-1]) if self.value.startswith("array[") else None

    @property
    def array(self) -> VariableType:
        """Type of an array of values of this type; for an array, the same type."""
        if self.item is not None:
            return self
        return VariableType.ARRAY if self is VariableType.ANY else VariableType(f"array[{self.value}]")

    @property
    def is_file(self) -> bool:
        """True for a file and for an array of files."""
        return self in (VariableType.FILE, VariableType.ARRAY_FILE)

    def may_be(self, wanted: VariableType) -> bool:
        """Return True if a variable of this type may have a value of the type `wanted`."""
        if self is wanted or VariableType.ANY in (self, wanted):
            return True
        return VariableType.ARRAY in (self, wanted) and self.item is not None and wanted.item is not None

    def json_schema(self) -> dict[str, Any]:
        """Return the JSON Schema of values of this type, which must not be a file: models cannot write files."""
        if self.item is not None:
            return {"type": "array", "items": self.item.json_schema()}
        return {} if self is VariableType.ANY else {"type": self.value}


T = VariableType
ARRAYS = tuple(kind for kind in T if kind.item is not None)
FILES = (T.FILE, T.ARRAY_FILE)
WITHOUT_FILES = tuple(kind for kind in T if not kind.is_file and kind not in (T.ARRAY, T.ANY))
"""Types that can occur in a text."""

FILE_PARTS: Mapping[str, VariableType] = {
    "type": T.STRING,
    "name": T.STRING,
    "size": T.NUMBER,
    "extension": T.STRING,
    "mime_type": T.STRING,
    "transfer_method": T.STRING,
    "url": T.STRING,
    "remote_url": T.STRING,
    "related_id": T.STRING,
}
"""Accessible properties of a file, by Dify's names."""

FILE_FIELDS = (*FILE_PARTS, "filename")
"""Keys of a file in code and templates, where it is the object of `plain`."""


class Selector(NamedTuple):
    """A variable of a node.

    Example:
        print(Selector("text", "2"))  # the variable `text` of the node 2
    """

    variable: Annotated[str, Field(min_length=1, description="The variable's name.")]
    node: Annotated[str, Field(min_length=1, description="The id of the node that it is an output of.")]

    def __str__(self) -> str:
        return f"{self.node}.{self.variable}"

    @property
    def in_text(self) -> str:
        """Reference to the variable in a text: ``{{#id.variable#}}``."""
        return f"{{{{#{self}#}}}}"


class Text(str):
    """A text in which variables may be named, ``{{#id.variable#}}``; a parameter type for pydantic.

    Example:
        class Params(NodeParams):
            prompt: Annotated[Text, Field(description="Prompt, such as: Translate {{#1.text#}}.")]
    """

    __slots__ = ()

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        text = core_schema.no_info_after_validator_function(lambda said: cls(whole(said)), core_schema.str_schema())
        return core_schema.no_info_before_validator_function(_refuse_selector, text)

    @property
    def selectors(self) -> list[Selector]:
        """Variables that the text refers to, in order."""
        return [Selector(match["variable"], match["node"]) for match in _REFERENCE.finditer(self)]

    def renamed(self, name: Callable[[Selector], str]) -> str:
        """Return the text with each reference to a variable replaced by the result of `name`."""
        return _REFERENCE.sub(lambda match: name(Selector(match["variable"], match["node"])), self)

    def reselected(self, change: Callable[[Selector], Selector]) -> str:
        """Return the text with each variable replaced by the result of `change`; quotes of references remain."""

        def replacement(match: re.Match[str]) -> str:
            old = Selector(match["variable"], match["node"])
            new = change(old)
            if new == old:
                return match[0]
            text, begin = match.string, match.start()
            before, between = text[begin : match.start("node")], text[match.end("node") : match.start("variable")]
            return f"{before}{new.node}{between}{new.variable}{text[match.end('variable') : match.end()]}"

        return _REFERENCE.sub(replacement, self)

    @property
    def misshapen(self) -> list[str]:
        """Parts of the text that look like references but are invalid."""
        return [reference for reference in _ANY_REFERENCE.findall(self) if not _REFERENCE.fullmatch(reference)]


def _refuse_selector(value: object) -> object:
    match value:
        case [str() as variable, str() as node] if _REFERENCE.fullmatch(Selector(variable, node).in_text):
            raise ValueError(f"a text is needed; name the variable in it, {Selector(variable, node).in_text}")
        case _:
            return value


# Adjacent parts cannot match the same characters, so the search takes linear time.
_REFERENCE = re.compile(
    r"""\{\{#\s*(?P<quote>['"]?)(?P<node>[^\s'"#{}.][^'"#{}.]*?)(?P=quote)\.(?P<variable>[^\s#{}]+?)\s*#\}\}"""
)
_ANY_REFERENCE = re.compile(r"\{\{#[^{}]*\}\}")
_INDEX = re.compile(r"[0-9]{1,9}")


class Accepts(NamedTuple):
    """Annotation of a parameter with the permitted types of its variables."""

    types: Sequence[VariableType]


class Variables:
    """Variables that a node can read.

    Args:
        messages: Messages of nodes, whose outputs are the variables; a message without outputs has the variable
            ``text``.
        assigned: For each variable, the nodes that may have assigned it, in order.
        writing: Representation of values in texts and conditions.
    """

    def __init__(
        self,
        messages: Iterable[WorkflowMessage],
        assigned: Mapping[Selector, Sequence[str]] | None = None,
        writing: Writing | None = None,
    ) -> None:
        self._writing = writing or PLAIN
        self._outputs = {message.operator_id: message.outputs or {"text": message.scratchpad} for message in messages}
        self._assigned = assigned or {}

    def __contains__(self, selector: Selector) -> bool:
        """Return True if the variable has a value, even None: a node gave or assigned it, with such a part."""
        try:
            self._value(selector)
        except LookupError:
            return False
        return True

    def get(self, selector: Selector) -> Any:
        """Return the value of a variable; None if its node did not run, or if the value has no such part."""
        try:
            return self._value(selector)
        except LookupError:
            return None

    def _value(self, selector: Selector) -> Any:
        for assigner in reversed(self._assigned.get(selector, ())):
            outputs = self._outputs.get(assigner, {})
            for key in (str(selector), selector.variable):  # nodes inside another one assign by the whole name
                if key in outputs:
                    return outputs[key]
        outputs = self._outputs[selector.node]
        return outputs[selector.variable] if selector.variable in outputs else part_at(outputs, selector.variable)

    def compared(self, value: Any, operator: str) -> Any:
        """Return a value as conditions compare it by an operator."""
        return self._writing.compared(value, operator)

    def text(self, template: Text, *, answer: bool = False) -> str:
        """Return the template with its variables replaced by their values.

        Args:
            answer: True for an answer to the user.
        """
        if "{{#" not in template:
            return template
        write = self._writing.answer if answer else self._writing.text
        return _REFERENCE.sub(lambda match: write(self.get(Selector(match["variable"], match["node"]))), template)


def part_at(value: Any, path: str) -> Any:
    """Return the part of a value at a path of names and indices."""
    for name in path.split("."):
        if isinstance(value, FileDescriptor):
            value = file_parts(value)[name]
        elif isinstance(value, Mapping):
            value = cast("Values", value)[name]
        elif isinstance(value, list) and _INDEX.fullmatch(name):
            value = cast("list[Any]", value)[int(name)]
        else:
            raise LookupError(path)
    return value


def part_type(kind: VariableType, path: str) -> VariableType | None:
    """Return the type of the part at a path of a variable; None if the type of the variable has no such part."""
    if not path:
        return kind
    if kind is T.FILE:
        return FILE_PARTS.get(path)
    return T.ANY if kind in (T.OBJECT, T.ANY) or kind.item is not None else None


def file_parts(file: FileDescriptor) -> dict[str, Any]:
    """Return the accessible properties of a file: `FILE_PARTS`.

    A file has no public address here: its URL is its path on this machine, and its id is one of this URL.
    """
    url = file.path.as_uri() if file.path.is_absolute() else file.path.as_posix()
    return {
        "type": file_type(file),
        "name": file.name,
        "size": file.size,
        "extension": file.path.suffix or (file.name[file.name.rfind(".") :] if "." in file.name else ""),
        "mime_type": file.mime_type,
        "transfer_method": "local_file",
        "url": url,
        "remote_url": url,
        "related_id": str(uuid5(NAMESPACE_URL, url)),
    }


def files_in(value: Any) -> Iterator[FileDescriptor]:
    """Yield the files in a value, in order."""
    if isinstance(value, FileDescriptor):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        inner = cast("Values", value).values() if isinstance(value, Mapping) else cast("Sequence[Any]", value)
        for each in inner:
            yield from files_in(each)


def no_file_part(what: str, part: str, fields: Iterable[str] = FILE_FIELDS) -> str:
    """Return the message that a file has no such part, with the parts that it has.

    Args:
        what: Description of the file.
        fields: Names of the parts that the file has there.
    """
    known = list(fields)
    return (
        f"{what} is a file, which has no {part!r}{did_you_mean(part, known)}; it has: {', '.join(known)}; its text is "
        "what a document-extractor gives"
    )


def file_type(file: FileDescriptor) -> str:
    """Return the type of a file: image, audio, video, or else document."""
    kind = file.mime_type.partition("/")[0]
    return kind if kind in ("image", "audio", "video") else "document"


def plain(value: Any) -> Any:
    """Return a value as plain JSON, with each file replaced by its `file_parts` and its ``filename``, as in Dify."""
    if isinstance(value, FileDescriptor):
        return {**file_parts(value), "filename": value.name}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in cast("Values", value).items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in cast("Sequence[Any]", value)]
    return value


def as_text(value: Any) -> str:
    """Return a value as a text: None is empty, objects and arrays are JSON, files are their names."""
    match value:
        case None:
            return ""
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case float() if value.is_integer() and abs(value) < 1e15:
            return str(int(value))
        case int() | float():
            return str(value)
        case FileDescriptor():
            return value.name
        case [] | ():
            return ""
        case [FileDescriptor(), *_] | (FileDescriptor(), *_):
            return ", ".join(as_text(each) for each in value)
        case _:
            return json.dumps(plain(value), ensure_ascii=False, default=str)


def as_answer(value: Any) -> str:
    """Return a value as a text for people: files are Markdown links, and images are shown."""
    match value:
        case FileDescriptor():
            link = f"[{value.name}]({file_parts(value)['url']})"
            return f"!{link}" if file_type(value) == "image" else link
        case [FileDescriptor(), *_] | (FileDescriptor(), *_):
            return "\n".join(as_answer(each) for each in value)
        case _:
            return as_text(value)


def as_markdown(value: Any) -> str:
    """Return a value as in answers of Dify: lists are Markdown lists, objects are indented JSON."""
    match value:
        case Mapping():
            return json.dumps(plain(value), ensure_ascii=False, indent=2, default=str)
        case list() | tuple() if not any(isinstance(each, FileDescriptor) for each in cast("Sequence[Any]", value)):
            return "\n".join(f"- {plain(each)}" for each in cast("Sequence[Any]", value))
        case bool() | float():
            return str(value)
        case _:
            return as_answer(value)


def as_dify(value: Any) -> str:
    """Return a value as in texts of Dify: as Python writes it; files are empty."""
    match value:
        case FileDescriptor() | [FileDescriptor(), *_]:
            return ""
        case bool() | float():
            return str(value)
        case [str(), *_] | [] | None | str():
            return as_text(value)
        case list():
            return str(plain(cast("list[Any]", value)))
        case _:
            return as_text(value)


def _unchanged(value: Any, operator: str) -> Any:
    return value


class Writing(NamedTuple):
    """Representation of values in texts and conditions.

    Attributes:
        text: Form in texts.
        answer: Form in answers to the user.
        compared: Function that returns a value as conditions compare it, given the value and the comparison.
    """

    text: Callable[[Any], str]
    answer: Callable[[Any], str]
    compared: Callable[[Any, str], Any] = _unchanged


PLAIN = Writing(as_text, as_answer)
DIFY = Writing(as_dify, as_markdown)
"""Representation in the texts of workflows imported from Dify."""


def fits(value: Any, kind: VariableType) -> bool:
    """Return True if a value is of a type; None is of every type."""
    match kind:
        case _ if value is None or kind is T.ANY:
            return True
        case T.STRING:
            return isinstance(value, str)
        case T.NUMBER:
            return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _LARGEST
        case T.BOOLEAN:
            return isinstance(value, bool)
        case T.OBJECT:
            return isinstance(value, Mapping)
        case T.FILE:
            return isinstance(value, FileDescriptor)
        case _:
            item = kind.item or T.ANY
            return isinstance(value, list | tuple) and (
                item is T.ANY or all(fits(each, item) for each in cast("Sequence[Any]", value))
            )


def type_of(value: Any) -> str:
    """Return the type of a value, for errors."""
    if value is None:
        return "nothing"
    if isinstance(value, int | float) and not fits(value, T.NUMBER) and not isinstance(value, bool):
        return "no finite number"
    return next(kind.value for kind in T if fits(value, kind))


def short_json(value: Any) -> str:
    """Return a value as shortened JSON, for errors."""
    try:
        text = json.dumps(plain(value), ensure_ascii=False, default=str)
    except RecursionError:
        return "what is nested too deep to be shown"
    return text if len(text) <= MAX_SHOWN_VALUE else f"{text[:MAX_SHOWN_VALUE]}… ({len(text):,} characters)"


def selectors_in(value: Any, path: str = "") -> Iterator[tuple[str, Selector, bool]]:
    """Yield the variables in a parameter, at any depth, each with its path, and True if it is part of a text."""
    if isinstance(value, Selector):
        yield path, value, False
    elif isinstance(value, Text):
        yield from ((path, selector, True) for selector in value.selectors)
    elif isinstance(value, list | tuple):
        for number, item in enumerate(cast("Sequence[Any]", value)):
            yield from selectors_in(item, f"{path}[{number}]")
    elif isinstance(value, Mapping):
        for key, item in cast("Values", value).items():
            yield from selectors_in(item, f"{path}.{key}" if path else str(key))


def texts_in(value: Any) -> Iterator[Text]:
    """Yield the texts in a parameter that may contain variables, at any depth."""
    if isinstance(value, Text):
        yield value
    elif isinstance(value, list | tuple):
        for item in cast("Sequence[Any]", value):
            yield from texts_in(item)
    elif isinstance(value, Mapping):
        for item in cast("Values", value).values():
            yield from texts_in(item)
