"""Lossless conversion between the values of a run (messages, jobs, errors, events) and JSON text.

JSON has no tuples, bytes, files or errors. Each is written as an object with a single key that starts with ``$``. A
user's object with such a key is wrapped in ``$object``. Reading does not import or call anything that the text names:
an error whose class is not loaded is read as an error with the same name and text.
"""

from __future__ import annotations

import base64
import builtins
import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from functools import lru_cache
from itertools import pairwise
from typing import Any, Protocol, cast

import msgspec
from pydantic import BaseModel, ValidationError

from operad.runtime import events
from operad.runtime.policies.policy import causes
from operad.runtime.reasoning.exchange import Exchange, Rejection
from operad.runtime.values import errors
from operad.runtime.values.errors import InputError, Issue, OperadError
from operad.runtime.values.fault import Fault
from operad.runtime.values.file import FileDescriptor
from operad.runtime.values.fingerprint import name_of
from operad.runtime.values.message import Job, SubJob, Turn, Usage, WorkflowMessage, WorkflowStatus
from operad.runtime.values.private_modules import loaded_module, public_name
from operad.runtime.values.questions import Question
from operad.runtime.values.step_record import StepRecord, ToolUse
from operad.runtime.workflow.map import ItemError

MAX_CAUSES = 32
"""Maximum number of errors that are stored of a chain of causes."""

MAX_DEPTH = 100
"""Maximum nesting of values. Within this limit, every written value can be read back on any Python."""

MAX_TEXT = 64 * 2**20
"""Maximum number of characters of a stored text, such as the input or the outcome of an operator."""

_MODELS: dict[str, type[BaseModel]] = {
    "$message": WorkflowMessage,
    "$usage": Usage,
    "$item_error": ItemError,
    "$fault": Fault,
    "$contribution": StepRecord,
    "$tool_use": ToolUse,
    "$rejection": Rejection,
    "$job": Job,
    "$sub_job": SubJob,
    "$turn": Turn,
    "$question": Question,
}
_TAGS: dict[type, str] = {model: tag for tag, model in _MODELS.items()}

_EVENTS = events.Event.__module__.rpartition(".")[0]
"""Package of the types of events that can be read back."""

_Path = tuple[str, ...]
"""Path to a part of a value, as steps such as ``.outputs`` and ``[2]``."""


class Outcome(msgspec.Struct, frozen=True):
    """Outcome of an operator's work: a message or an error.

    Attributes:
        message: The operator's message; None if it failed.
        error: The error that the operator raised, if any.
        usage: Tokens, calls and cost of the work.
        events: Events written during the work.
        traced: True if OpenTelemetry spans were written for the work.
        exchange: Conversation with the model that led to the message; None if it is not kept.
    """

    message: WorkflowMessage | None = None
    error: BaseException | None = None
    usage: Usage = Usage()
    events: tuple[events.Event, ...] = ()
    traced: bool = False
    exchange: Exchange | None = None


class Files(Protocol):
    """Storage of files."""

    def put(self, file: FileDescriptor) -> str:
        """Store a file, and return its digest."""
        ...

    def get(self, digest: str, name: str) -> Any:
        """Return the local path of a stored file."""
        ...


class Codec:
    """Conversion of values of a run to text and back.

    Args:
        files: Storage of files; None to store the path of a file instead of its content.
    """

    def __init__(self, files: Files | None = None) -> None:
        self._files = files

    def dump(self, value: object) -> str:
        """Return a value as text.

        Raises:
            InputError: A part of the value has no JSON form, or the text would be too long.
        """
        try:
            text = json.dumps(self._plain(value, ()), separators=(",", ":"))
        except InputError:
            raise
        except (ValueError, RecursionError) as error:  # for example, an integer of thousands of digits
            raise InputError(f"the value cannot be kept: {type(error).__name__}: {str(error)[:200]}") from error
        if len(text) > MAX_TEXT:
            raise InputError(f"the value has {len(text):,} characters as JSON; the maximum is {MAX_TEXT:,}: use a file")
        return text

    def load(self, text: str, kind: type = object) -> Any:
        """Return the value written in a text.

        Args:
            kind: The expected type of the value.

        Raises:
            InputError: The text was not written by `dump`, the value has another type, or a file is missing.
        """
        if len(text) > MAX_TEXT:
            raise InputError(f"the stored value has {len(text):,} characters; the maximum is {MAX_TEXT:,}")
        try:
            value = self._read(json.loads(text))
        except InputError:
            raise
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError, msgspec.ValidationError) as error:
            raise InputError(f"the stored value cannot be read: {type(error).__name__}: {str(error)[:200]}") from error
        if not isinstance(value, kind):
            raise InputError(f"the stored value cannot be read: expected {kind.__name__}, got {type(value).__name__}")
        return value

    def dump_events(self, happened: Sequence[events.Event]) -> str:
        """Return events as text, with their paths and times; parts without a JSON form are replaced by their `str`.

        Events of types that users define are left out, because they cannot be read later.

        Raises:
            InputError: The text would be too long.
        """
        text = json.dumps([self._plain_event(event) for event in _readable(happened)], separators=(",", ":"))
        if len(text) > MAX_TEXT:
            raise InputError(f"the events have {len(text):,} characters, which is too long to be kept")
        return text

    def load_events(self, text: str) -> list[events.Event | None]:
        """Return the events written by `dump_events`; None for an event whose type this version does not know.

        Raises:
            InputError: The text was not written by `dump_events`.
        """
        try:
            return [events.read_event({**self._read(fields), "event": name}) for name, fields in json.loads(text)]
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError, msgspec.ValidationError) as error:
            raise InputError(f"the stored value cannot be read: {type(error).__name__}: {str(error)[:200]}") from error

    def _plain_event(self, event: events.Event) -> list[Any]:
        """Return an event's type and the fields that differ from their defaults."""
        plain: dict[str, Any] = {}
        for name, default in zip(event.__struct_fields__, _defaults(type(event)), strict=True):
            if (value := getattr(event, name)) == default:
                continue
            value = value.value if isinstance(value, Enum) else value
            try:
                plain[name] = self._plain(value, ())
            except (InputError, ValueError, RecursionError):
                plain[name] = self._lossy(value)
        return [type(event).__name__, plain]

    # Writing: values → plain JSON values

    def _plain(self, value: Any, where: _Path) -> Any:
        if len(where) > MAX_DEPTH:
            raise InputError(
                f"{_path_text(where[:3])}…: is nested too deeply to be kept: the maximum is {MAX_DEPTH} levels"
            )
        kind = cast("type[object]", type(value))
        if value is None or kind in (bool, int, str):
            return value
        if kind is float:
            return value if math.isfinite(value) else {"$float": repr(value)}
        if kind is list:
            return self._plain_items(value, where)
        if kind is dict:
            return self._plain_dict(value, where)
        if kind is tuple:
            return {"$tuple": self._plain_items(value, where)}
        tagged = self._tagged(value, where)
        if tagged is None:
            raise InputError(
                f"{_path_text(where)} is {name_of(kind)}, which cannot be kept: give JSON values, bytes or files"
            )
        return tagged

    def _plain_items(self, items: Sequence[Any], where: _Path) -> list[Any]:
        return [self._plain(item, (*where, f"[{place}]")) for place, item in enumerate(items)]

    def _plain_dict(self, value: dict[Any, Any], where: _Path) -> Any:
        if all(type(key) is str for key in value) and not any(key.startswith("$") for key in value):
            return {key: self._plain(item, (*where, f".{key}")) for key, item in value.items()}
        pairs = [(key, (*where, f".{key}"), item) for key, item in value.items()]
        return {"$object": [[self._plain(key, path), self._plain(item, path)] for key, path, item in pairs]}

    def _tagged(self, value: Any, where: _Path) -> dict[str, Any] | None:
        if isinstance(value, bytes):
            return {"$bytes": base64.b64encode(value).decode()}
        if isinstance(value, FileDescriptor):
            digest = self._files.put(value) if self._files else ""
            return {"$file": [str(value.path), value.name, value.size, value.mime_type, digest]}
        if (tag := _TAGS.get(cast("type[object]", type(value)))) is not None:
            given = ((name, getattr(value, name), default) for name, default in _model_defaults(_MODELS[tag]).items())
            return {
                tag: {
                    name: self._plain(each, (*where, f".{name}"))
                    for name, each, default in given
                    if type(each) is not type(default) or each != default
                }
            }
        if (write := _WRITERS.get(cast("type[object]", type(value)))) is not None:
            return write(value)
        if isinstance(value, Outcome):
            return {"$outcome": [self._plain(part, where) for part in _parts_of(value)]}
        if isinstance(value, events.Event):
            fields = {name: getattr(value, name) for name in value.__struct_fields__ if name not in _STAMPED}
            return {"$event": [type(value).__name__, self._lossy(fields)]}
        if isinstance(value, BaseException):
            return {"$error": {"chain": [self._plain_error(link, where) for link in causes(value)[:MAX_CAUSES]]}}
        return None

    def _lossy(self, value: Any) -> Any:
        """Return a value as JSON values for display; parts without a JSON form become text."""
        if isinstance(value, Mapping):
            return {str(key): self._lossy(item) for key, item in cast("Mapping[Any, Any]", value).items()}
        if isinstance(value, list | tuple):
            return [self._lossy(item) for item in cast("list[Any]", value)]
        if isinstance(value, Enum):
            return value.value
        if isinstance(value, BaseModel):
            return value.model_dump(mode="json", fallback=str)
        return value if value is None or isinstance(value, bool | int | float | str) else str(value)

    def _plain_error(self, error: BaseException, where: _Path) -> dict[str, Any]:
        """Return an error without its causes; attributes without a JSON form are left out."""
        kind, text = type(error), _text_of(error) or ""
        fields: dict[str, Any] = {}
        for name, value in vars(error).items():
            if name.startswith("_") or name == "finished" or isinstance(value, BaseException):
                continue
            with suppress(InputError, RecursionError):
                fields[name] = self._plain(value, (*where, f".{name}"))
        try:
            args = self._plain_items(_args_of(error), (*where, ".args"))
        except (InputError, RecursionError):
            args = [text]
        return {
            "module": public_name(kind.__module__),
            "name": kind.__qualname__,
            "base": _builtin(kind).__name__,
            "args": args,
            "text": text,
            "fields": fields,
        }

    # Reading: plain JSON values → values

    def _read(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._read(item) for item in cast("list[Any]", value)]
        if not isinstance(value, dict):
            return value
        fields = cast("dict[str, Any]", value)
        if len(fields) == 1:
            (tag, inner) = next(iter(fields.items()))
            if tag.startswith("$"):
                return self._read_tagged(tag, inner)
        return {key: self._read(item) for key, item in fields.items()}

    def _read_tagged(self, tag: str, inner: Any) -> Any:
        if tag in _MODELS:
            return self._read_model(_MODELS[tag], inner)
        read: dict[str, Callable[[Any], Any]] = {
            "$tuple": lambda items: tuple(self._read(item) for item in items),
            "$object": lambda pairs: {self._read(key): self._read(item) for key, item in pairs},
            "$bytes": lambda text: base64.b64decode(text, validate=True),
            "$float": lambda text: {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[text],
            "$status": WorkflowStatus,
            "$issue": lambda fields: Issue(*map(str, fields)),
            "$file": self._read_file,
            "$event": lambda named: _read_event(*named),
            "$error": self._read_errors,
            "$outcome": self._read_outcome,
            "$exchange": Exchange.model_validate_json,
        }
        if tag not in read:
            raise InputError(f"the stored value cannot be read: this version of operad does not know the tag {tag!r}")
        return read[tag](inner)

    def _read_model(self, model: type[BaseModel], inner: dict[str, Any]) -> BaseModel:
        try:
            return model.model_validate({name: self._read(each) for name, each in inner.items()})
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise InputError(f"the stored value is not a valid {model.__name__}: {where}: {first['msg']}") from error

    def _read_file(self, fields: list[Any]) -> FileDescriptor:
        path, name, size, mime_type, digest = fields
        # The stored content is used, never the path in the text: it could name any file on this machine.
        if self._files:
            path = self._files.get(digest, name)
        return FileDescriptor(path=path, name=name, size=size, mime_type=mime_type)

    def _read_outcome(self, fields: list[Any]) -> Outcome:
        message, error, usage, happened, *rest = map(self._read, fields)
        traced, exchange = bool(rest and rest[0]), rest[1] if len(rest) > 1 else None
        if not (isinstance(usage, Usage) and (isinstance(message, WorkflowMessage) or isinstance(error, Exception))):
            raise InputError("the stored outcome of an operator is neither a message nor an error")
        if not all(isinstance(event, events.Event) for event in happened):
            raise InputError("the stored outcome of an operator holds a value that is not an event")
        if not isinstance(exchange, Exchange | None):
            raise InputError("the stored outcome of an operator holds a conversation that is none")
        return Outcome(message, error, usage, tuple(happened), traced, exchange)

    def _read_errors(self, inner: dict[str, Any]) -> BaseException:
        chain = [self._read_error(link) for link in inner["chain"][:MAX_CAUSES]]
        for error, cause in pairwise(chain):
            error.__cause__ = cause
        return chain[0]

    def _read_error(self, link: dict[str, Any]) -> Exception:
        module, name, base, text = (str(link[each]) for each in ("module", "name", "base", "text"))
        kind = _error_class(module, name)
        fields = {str(field): self._read(value) for field, value in link["fields"].items()}
        error = _recreated(kind, self._read(link["args"]), fields) if kind else None
        if error is None or _text_of(error) != text:
            error = _stand_in_class(module, name, base)(text)
            vars(error).update(fields)
        if isinstance(error, OperadError):
            error.finished = {}
        return error


@lru_cache
def _defaults(kind: type[events.Event]) -> tuple[Any, ...]:
    """Return the default of each field of an event type; `msgspec.NODEFAULT` for required fields."""
    return tuple(field.default for field in msgspec.structs.fields(kind))


@lru_cache
def _model_defaults(model: type[BaseModel]) -> Mapping[str, Any]:
    """Return the default of each field of a model, which is not written; a new object for fields without one."""
    return {
        name: each.get_default(call_default_factory=True, validated_data={})
        if not each.is_required() and each.default_factory in (None, dict, list)
        else object()
        for name, each in model.model_fields.items()
    }


_STAMPED = frozenset(events.Event.__struct_fields__)


_WRITERS: dict[type, Callable[[Any], dict[str, Any]]] = {
    Exchange: lambda exchange: {"$exchange": exchange.model_dump_json()},
    WorkflowStatus: lambda status: {"$status": status.value},
    Issue: lambda issue: {"$issue": [issue.code, issue.message, issue.where]},
}


def _parts_of(outcome: Outcome) -> Sequence[Any]:
    """Return the parts of an outcome to store, without the empty ones at its end."""
    parts = [outcome.message, outcome.error, outcome.usage, _readable(outcome.events)]
    further = [outcome.traced, outcome.exchange]
    while further and not further[-1]:
        further.pop()
    return [*parts, *further]


def _readable(happened: Sequence[events.Event]) -> list[events.Event]:
    """Return the events of Operad's own types: only these can be read later."""
    return [event for event in happened if type(event).__module__.startswith(_EVENTS)]


def _read_event(name: str, fields: dict[str, Any]) -> events.Event:
    event = events.read_event({**fields, "event": name})
    if event is None:
        raise InputError(f"the stored events cannot be read: this version of operad does not know the event {name!r}")
    return event


def _args_of(error: BaseException) -> list[Any]:
    """Return the arguments from which an error can be created again."""
    if isinstance(error, OSError) and error.filename is not None:
        return [error.errno, error.strerror, error.filename]
    return list(error.args)


def _text_of(error: BaseException) -> str | None:
    """Return the text of an error; None if its `__str__` raises."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - a user's class, of which this instance was created without the constructor
        return None


def _builtin(kind: type[BaseException]) -> type[BaseException]:
    """Return the nearest built-in base class of an error class."""
    return next(base for base in kind.__mro__ if base.__module__ == "builtins" and base in vars(builtins).values())


def _error_class(module: str, name: str) -> type[Exception] | None:
    """Return the loaded error class with this name, or None; the module of Operad's own errors may have changed."""
    own = {kind.__name__: kind for kind in vars(errors).values() if isinstance(kind, type)}
    if module.partition(".")[0] == "operad" and name in own and issubclass(own[name], Exception):
        return own[name]
    found: Any = loaded_module(module)
    for part in name.split("."):
        found = cast("dict[str, Any]", getattr(found, "__dict__", {})).get(part)
    return found if isinstance(found, type) and issubclass(found, Exception) else None


def _recreated(kind: type[Exception], args: list[Any], fields: Mapping[str, Any]) -> Exception | None:
    """Create an error without calling the constructor of its class; return None if Python refuses."""
    own: Any = _builtin(kind)
    try:
        error: Exception = own.__new__(kind, *args)
        own.__init__(error, *args)
    except (TypeError, ValueError):
        return None
    vars(error).update(fields)
    return error


@lru_cache(maxsize=1000)
def _stand_in_class(module: str, name: str, base: str) -> type[Exception]:
    """Return a new class for an error class that is not loaded: with the same name and its built-in base class."""
    own: Any = vars(builtins).get(base)
    if not (isinstance(own, type) and issubclass(own, Exception) and _recreated(own, [""], {})):
        own = Exception
    return cast(
        "type[Exception]", type(name.rsplit(".", 1)[-1], (own,), {"__module__": module, "__str__": _stored_text})
    )


def _stored_text(error: BaseException) -> str:
    return str(error.args[0])


def _path_text(where: _Path) -> str:
    """Return the path of a part of a value, for an error."""
    return "".join(where).removeprefix(".") or "it"
