"""What is kept of a run ↔ JSON text: messages, jobs, errors and events, exactly as they were.

JSON itself has no tuples, bytes, files or errors. Each stands as an object with one key that begins with ``$``;
an object of the user's that looks like that stands under ``$object``. Nothing is imported or called by a name that
is read: an error of a class that is not loaded comes back as one of the same name and text.
"""

from __future__ import annotations

import base64
import json
import math
import sys
from collections.abc import Callable, Mapping
from enum import Enum
from functools import lru_cache
from itertools import pairwise
from typing import Any, Protocol, cast

import msgspec
from pydantic import BaseModel, ValidationError

from operad.runtime import events
from operad.runtime.errors import InputError, Issue, OperadError
from operad.runtime.file import FileDescriptor
from operad.runtime.map import ItemError
from operad.runtime.message import Contribution, Job, SubJob, Usage, WorkflowMessage, WorkflowStatus

MAX_CAUSES = 32
"""How many errors of a chain are kept."""

MAX_TEXT = 64 * 2**20
"""The longest text, in characters, that is read or written: what an operator is given, or what comes of it."""

_MODELS: dict[str, type[BaseModel]] = {
    "$message": WorkflowMessage,
    "$usage": Usage,
    "$item_error": ItemError,
    "$contribution": Contribution,
    "$job": Job,
    "$sub_job": SubJob,
}
_TAGS: dict[type, str] = {model: tag for tag, model in _MODELS.items()}

_EVENTS = {
    kind.__name__: kind
    for kind in vars(events).values()
    if isinstance(kind, type) and issubclass(kind, events.Event) and kind is not events.Event
}


class Files(Protocol):
    """Where files are kept."""

    def put(self, file: FileDescriptor) -> str:
        """Keep a file; its digest."""
        ...

    def get(self, digest: str, name: str) -> Any:
        """Where a kept file lies here."""
        ...


class Outcome(msgspec.Struct, frozen=True):
    """What came of an operator's work.

    Attributes:
        message: What it said; None where it failed.
        error: What it raised.
        usage: What that cost.
        events: What happened meanwhile.
    """

    message: WorkflowMessage | None = None
    error: BaseException | None = None
    usage: Usage = Usage()
    events: tuple[events.Event, ...] = ()


class Wire:
    """Turns what is kept into text and back.

    Args:
        files: Where files are kept; None to keep nothing of them but where they lie.
    """

    def __init__(self, files: Files | None = None) -> None:
        self._files = files

    def dump(self, value: object) -> str:
        """A value as text.

        Raises:
            InputError: Something in it cannot be kept, or it is too long.
        """
        try:
            text = json.dumps(self._plain(value, ""), separators=(",", ":"))
        except RecursionError:
            raise InputError("it is nested too deeply to be kept") from None
        if len(text) > MAX_TEXT:
            raise InputError(f"it has {len(text):,} characters as JSON, and at most {MAX_TEXT:,} are kept; use a file")
        return text

    def load(self, text: str) -> Any:
        """The value of a text.

        Raises:
            InputError: It is none that was written here, or a file of it is gone.
        """
        if len(text) > MAX_TEXT:
            raise InputError(f"what was kept has {len(text):,} characters, and at most {MAX_TEXT:,} are read")
        try:
            return self._value(json.loads(text))
        except InputError:
            raise
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, msgspec.ValidationError) as error:
            raise InputError(f"what was kept cannot be read: {type(error).__name__}: {str(error)[:200]}") from error

    # Values → plain JSON values

    def _plain(self, value: Any, where: str) -> Any:
        kind = cast("type[object]", type(value))
        if value is None or kind in (bool, int, str):
            return value
        if kind is float:
            return value if math.isfinite(value) else {"$float": repr(value)}
        if kind is list:
            return [self._plain(item, f"{where}[{place}]") for place, item in enumerate(value)]
        if kind is dict:
            return self._plain_dict(value, where)
        if kind is tuple:
            return {"$tuple": [self._plain(item, f"{where}[{place}]") for place, item in enumerate(value)]}
        tagged = self._tagged(value, where)
        if tagged is None:
            raise InputError(
                f"{where.removeprefix('.') or 'it'} is {kind.__module__}.{kind.__qualname__}, which cannot be kept: "
                "give JSON values, bytes or files"
            )
        return tagged

    def _plain_dict(self, value: dict[Any, Any], where: str) -> Any:
        if all(type(key) is str for key in value) and not any(key.startswith("$") for key in value):
            return {key: self._plain(item, f"{where}.{key}") for key, item in value.items()}
        return {
            "$object": [[self._plain(key, where), self._plain(item, f"{where}.{key}")] for key, item in value.items()]
        }

    def _tagged(self, value: Any, where: str) -> dict[str, Any] | None:
        if isinstance(value, bytes):
            return {"$bytes": base64.b64encode(value).decode()}
        if isinstance(value, FileDescriptor):
            digest = self._files.put(value) if self._files else ""
            return {"$file": [str(value.path), value.name, value.size, value.mime_type, digest]}
        if type(value) in _TAGS:
            fields = {name: getattr(value, name) for name in _MODELS[_TAGS[type(value)]].model_fields}
            return {_TAGS[type(value)]: {name: self._plain(each, f"{where}.{name}") for name, each in fields.items()}}
        if isinstance(value, WorkflowStatus):
            return {"$status": value.value}
        if isinstance(value, Issue):
            return {"$issue": [value.code, value.message, value.where]}
        if isinstance(value, Outcome):
            kept = [value.message, value.error, value.usage, list(value.events)]
            return {"$outcome": [self._plain(each, where) for each in kept]}
        if isinstance(value, events.Event):
            fields = {name: getattr(value, name) for name in value.__struct_fields__ if name not in _STAMPED}
            return {"$event": [type(value).__name__, self._loosely(fields)]}
        if isinstance(value, BaseException):
            return {"$error": self._error(value)}
        return None

    def _loosely(self, value: Any) -> Any:
        """The same, with texts for what has no JSON form: for what is only shown to people."""
        if isinstance(value, Mapping):
            return {str(key): self._loosely(item) for key, item in cast("Mapping[Any, Any]", value).items()}
        if isinstance(value, list | tuple):
            return [self._loosely(item) for item in cast("list[Any]", value)]
        if isinstance(value, Enum):
            return value.value
        if isinstance(value, BaseModel):
            return value.model_dump(mode="json", fallback=str)
        return value if value is None or isinstance(value, bool | int | float | str) else str(value)

    def _error(self, error: BaseException) -> dict[str, Any]:
        links: list[BaseException] = []
        link: BaseException | None = error
        while link is not None and link not in links and len(links) < MAX_CAUSES:
            links.append(link)
            link = link.__cause__
        return {"chain": [self._link(each) for each in links]}

    def _link(self, error: BaseException) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        for name, value in vars(error).items():
            if name.startswith("_") or name in ("finished", "questions"):
                continue
            try:
                fields[name] = self._plain(value, name)
            except (InputError, RecursionError):
                continue
        try:
            args = self._plain(_args_of(error), "args")
        except (InputError, RecursionError):
            args = [str(error)]
        kind = type(error)
        return {
            "module": kind.__module__,
            "name": kind.__qualname__,
            "args": args,
            "text": _text_of(error) or "",
            "fields": fields,
        }

    # Plain JSON values → values

    def _value(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._value(item) for item in cast("list[Any]", value)]
        if not isinstance(value, dict):
            return value
        given = cast("dict[str, Any]", value)
        if len(given) == 1:
            (tag, inner) = next(iter(given.items()))
            if tag.startswith("$"):
                return self._of_tag(tag, inner)
        return {key: self._value(item) for key, item in given.items()}

    def _of_tag(self, tag: str, inner: Any) -> Any:
        if tag in _MODELS:
            return self._model(_MODELS[tag], inner)
        read: dict[str, Callable[[Any], Any]] = {
            "$tuple": lambda items: tuple(self._value(item) for item in items),
            "$object": lambda pairs: {self._value(key): self._value(item) for key, item in pairs},
            "$bytes": lambda text: base64.b64decode(text, validate=True),
            "$float": lambda text: {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[text],
            "$status": WorkflowStatus,
            "$issue": lambda fields: Issue(*map(str, fields)),
            "$file": self._file,
            "$event": lambda named: _event(*named),
            "$error": self._raised,
            "$outcome": self._outcome,
        }
        if tag not in read:
            raise InputError(f"what was kept cannot be read: {tag!r} is nothing that this version writes")
        return read[tag](inner)

    def _model(self, model: type[BaseModel], inner: dict[str, Any]) -> BaseModel:
        try:
            return model.model_validate({name: self._value(each) for name, each in inner.items()})
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise InputError(f"what was kept is no {model.__name__}: {where}: {first['msg']}") from error

    def _file(self, fields: list[Any]) -> FileDescriptor:
        path, name, size, mime_type, digest = fields
        if digest and self._files:
            path = self._files.get(digest, name)
        return FileDescriptor(path=path, name=name, size=size, mime_type=mime_type)

    def _outcome(self, fields: list[Any]) -> Outcome:
        message, error, usage, happened = map(self._value, fields)
        if not (isinstance(usage, Usage) and (isinstance(message, WorkflowMessage) or isinstance(error, Exception))):
            raise InputError("what was kept of an operator is neither a message nor an error")
        return Outcome(message, error, usage, tuple(happened))

    def _raised(self, inner: dict[str, Any]) -> BaseException:
        chain = [self._raised_link(link) for link in inner["chain"][:MAX_CAUSES]]
        for error, cause in pairwise(chain):
            error.__cause__ = cause
        return chain[0]

    def _raised_link(self, link: dict[str, Any]) -> Exception:
        module, name, text = str(link["module"]), str(link["name"]), str(link["text"])
        kind = _error_class(module, name)
        own = next(base for base in kind.__mro__ if base.__module__ == "builtins")
        args = tuple(self._value(link["args"]))
        error: Exception = own.__new__(kind, *args)
        error.args = args
        vars(error).update({str(field): self._value(value) for field, value in link["fields"].items()})
        if isinstance(error, OperadError):
            error.finished = {}
        return error if _text_of(error) == text else _stranger(module, name)(text)


_STAMPED = frozenset(events.Event.__struct_fields__)


def _event(name: str, fields: dict[str, Any]) -> events.Event:
    def of_ours(kind: type, value: Any) -> Any:
        return kind.model_validate(value) if issubclass(kind, BaseModel) else value

    return msgspec.convert(fields, type=_EVENTS[name], dec_hook=of_ours)


def _args_of(error: BaseException) -> list[Any]:
    if isinstance(error, OSError) and error.filename is not None:
        return [error.errno, error.strerror, error.filename]
    return list(error.args)


def _text_of(error: BaseException) -> str | None:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - it is somebody's class, made without its constructor
        return None


def _error_class(module: str, name: str) -> type[Exception]:
    """The class of that name, if it is loaded; else one of the same name."""
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = cast("dict[str, Any]", getattr(found, "__dict__", {})).get(part)
    return found if isinstance(found, type) and issubclass(found, Exception) else _stranger(module, name)


@lru_cache(maxsize=1000)
def _stranger(module: str, name: str) -> type[Exception]:
    return type(name.rsplit(".", 1)[-1], (Exception,), {"__module__": module})
