"""Faults of a configuration file, with pydantic's messages replaced by Operad's, at their lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import UnionType
from typing import Any, cast, get_args

from pydantic import BaseModel, ValidationError

from operad.configs.schema import FUNCTION, KINDS, NODE, OPERATOR, OTHER_NAMES, SEVERAL, ConfigSpec, OperatorSpec
from operad.runtime.values.document import Document, Path_
from operad.runtime.values.errors import InvalidError, Issue, did_you_mean
from operad.runtime.values.near_names import near_name
from operad.runtime.values.value import nearest_choice, requirement

_UNION_MEMBERS = {*KINDS, SEVERAL, "definition", "switch", "str"}
"""Parts of pydantic's error paths that name members of a union, and are not keys of the file."""

_KIND_KEYS = {"workflow", "type", "function"}
"""Keys that make a mapping a workflow, a typed node or a function: these need no instruction."""

_OPERATOR_KEYS = {info.alias or name for name, info in OperatorSpec.model_fields.items()}


class Faults:
    """Collector of the faults of a file, which are reported together.

    Args:
        spec: Schema of the whole file.

    Attributes:
        stem: Name of the file without its suffix.
        written: Texts of values that are not written as in JSON; see `YamlValues`.
    """

    def __init__(self, document: Document, spec: type[BaseModel] = ConfigSpec) -> None:
        self._document = document
        self._spec = spec
        self.stem = Path(document.name).stem
        self.written = document.written
        self._issues: dict[tuple[str, str, int, str], Issue] = {}
        self._left_out: Sequence[Path_] = ()
        self._cause: ValidationError | None = None

    def __bool__(self) -> bool:
        return bool(self._issues)

    def report(self, path: Sequence[int | str], code: str, message: str) -> None:
        """Add a fault of the value at `path`, unless its path is left out."""
        path = real_path(path, self._document.data)
        if any(path == left_out[: len(path)] or left_out == path[: len(left_out)] for left_out in self._left_out):
            return
        key = _plain_key(path, self._document.data)
        fault = (code, message, self._document.line(path), key)  # YAML aliases repeat a fault; it is reported once
        self._issues.setdefault(fault, Issue(code, message, self._document.where(path)))

    def report_doubles(self, **names: Sequence[str]) -> None:
        """Add a fault for each name of a list that occurs earlier in it; `names` are lists by what they name."""
        for what, of_kind in names.items():
            for number, name in enumerate(of_kind):
                if name in of_kind[:number]:
                    self.report((f"{what}s", number), "duplicate-name", f"another {what} is called {name!r} too")

    def report_validation(self, path: Path_, error: ValidationError) -> None:
        """Add all faults that pydantic found in the value at `path`."""
        self._cause = error
        problems = error.errors()
        misspelt = {(*problem["loc"][:-1], meant_key(problem, self._spec)) for problem in problems}
        for problem in problems:
            if problem["type"] == "missing" and not misspelt.isdisjoint(_explaining_keys(problem["loc"])):
                continue
            fault_path = (*path, *problem["loc"])
            if _is_chain(problem):  # reported at the list of chains: an alias has the line of its anchor
                self.report(
                    fault_path[:-1], "value", f"a chain is a list: write [[{self._chain_text(fault_path[:-1])[:200]}]]"
                )
            else:
                self.report(fault_path, *explain(problem, self._spec, self._text_of(fault_path)))

    def _text_of(self, path: Path_) -> str | None:
        """Return the text of a value that is not written as in JSON, such as ``1.10``; None for other values."""
        holder: Any = self._document.data
        *parents, key = real_path(path, holder) or ("",)
        for part in parents:
            holder = holder[part]
        return self.written.get((id(holder), key))

    def _chain_text(self, path: Path_) -> str:
        """Return operators that were written in the place of chains, as the text of one chain."""
        items: Any = self._document.data
        for part in real_path(path, items):
            items = items[part]
        anchors = self._document.anchors
        names = [
            item if isinstance(item, str) else f"*{anchors[id(item)]}" if id(item) in anchors else "…" for item in items
        ]
        return ", ".join(name for item, name in zip(items, names, strict=True) if not isinstance(item, list))

    def leave_out(self, told: Sequence[Path_]) -> None:
        """Ignore later faults of values at, above or below these paths."""
        self._left_out = told

    def error(self) -> InvalidError:
        """Return all faults as one error, in the order of their lines."""
        issues = sorted(self._issues.items(), key=lambda item: item[0][2])
        error = InvalidError(f"{self._document.name} cannot be used", [issue for _, issue in issues])
        error.__cause__ = self._cause
        return error


def explain(problem: Any, spec: type[BaseModel] = ConfigSpec, written: str | None = None) -> tuple[str, str]:
    """Return the issue code and the message for a problem that pydantic found in a value of type `spec`.

    Args:
        written: Text of the value in the file, if it is not written as in JSON.
    """
    path, value = problem["loc"], problem["input"]
    if problem["type"] == "extra_forbidden":
        return "unknown-key", _unknown_key(problem, spec)
    if problem["type"] == "missing":
        return "missing-key", "this key is missing"
    if problem["type"] == "value_error":
        return "value", str(problem["ctx"]["error"])
    if problem["type"] == "union_tag_invalid":
        tag, known = problem["ctx"]["tag"], re.findall(r"[\w-]+", problem["ctx"]["expected_tags"])
        known = [name for name in known if name not in ("name", "definition")]  # tags of forms other than a mapping
        return "value", f"unknown type {tag!r}{did_you_mean(str(tag), known)}; known: {', '.join(known)}"
    secret = "mcp_transport_config" in path or "base_url" in path  # addresses and headers may hold passwords
    shown = (
        ""
        if secret or isinstance(value, dict | list)
        else f", not {written or repr(value)}"[:120] + nearest_choice(problem)
    )
    if problem["type"] == "string_type" and isinstance(value, bool | int | float):
        shown += "; put it in quotes"
    return "value", f"{requirement(problem)}{shown}"


def _unknown_key(problem: Any, spec: type[BaseModel]) -> str:
    """Return the message on an unknown key."""
    path, value = problem["loc"], problem["input"]
    known = sorted(_known_keys(spec, path[:-1]))
    if path[-2:-1] == (NODE,) and path[-1] in _OPERATOR_KEYS:
        return f"an operator has either a `type` with `params`, or an `instruction`; remove {path[-1]!r} or `type`"
    if path[-2:-1] == (FUNCTION,) and path[-1] == "instruction":
        return "write instruction or function, not both"
    if path[-1] == "type" and "instruction" in known:
        return "a typed node can be neither an evaluator nor a fallback"
    if meant := meant_key(problem, spec):
        return f"unknown key (did you mean {meant!r}?)"
    if value is None and " " in str(path[-1]):  # {instruction: Say hi, then go}
        return "unknown key; a comma ends a text in { }: put the text in quotes"
    return f"unknown key; known: {', '.join(known) or 'none'}"


def _is_chain(problem: Any) -> bool:
    """Return True if the problem is an operator in the place of a chain."""
    path = problem["loc"]
    return problem["type"] == "list_type" and path[-2:-1] == ("workflow",) and isinstance(path[-1], int)


def meant_key(problem: Any, spec: type[BaseModel] = ConfigSpec) -> str:
    """Return the known key that is most similar to an unknown one; empty if none is, and for other problems."""
    if problem["type"] != "extra_forbidden":
        return ""
    path = problem["loc"]
    known = _known_keys(spec, path[:-1])
    if path[-2:-1] == (OPERATOR,):
        known |= _KIND_KEYS
    return near_name(str(path[-1]), sorted(known))


def _explaining_keys(path: Path_) -> set[Path_]:
    """Return the paths of the keys that, if one is misspelt, explain why the key at `path` is missing."""
    others = _KIND_KEYS if path[-1] == "instruction" else ()
    return {path, *((*path[:-1], other) for other in others)}


def _known_keys(spec: type[BaseModel], path: Sequence[int | str]) -> set[str]:
    """Return the keys that are allowed at `path`."""
    specs = {spec}
    for part in path:
        if part in KINDS:
            specs = {KINDS[str(part)]}
            continue
        inner = [
            s.model_fields[name] for s in specs for name in s.model_fields if part in (name, s.model_fields[name].alias)
        ]
        if inner:
            specs = {found for info in inner for found in _models_in(info.annotation)}
    known = {info.alias or name for s in specs for name, info in s.model_fields.items()}
    return known | {other for name, other in OTHER_NAMES.items() if name in known}


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the pydantic models in a type annotation."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        if isinstance(argument, type | UnionType) or get_args(argument):
            yield from _models_in(argument)


def _plain_key(path: Path_, data: Any) -> str:
    """Return the key at the end of `path` if its value is a plain or missing one of a mapping; otherwise empty."""
    around: Any = None
    for part in path:
        around, data = data, None
        if isinstance(around, dict):
            data = cast("dict[Any, Any]", around).get(part)
        elif isinstance(around, list) and isinstance(part, int):
            data = next(iter(cast("list[Any]", around)[part : part + 1]), None)
    return str(path[-1]) if isinstance(around, dict) and not isinstance(data, dict | list) else ""


def _is_union_member(part: int | str) -> bool:
    return part in _UNION_MEMBERS or "[" in str(part)


def real_path(path: Sequence[int | str], data: Any) -> Path_:
    """Return `path` with the keys as they are written, without the names of union members that pydantic inserts."""
    real: list[int | str] = []
    for number, part in enumerate(path):
        if isinstance(data, dict) and part not in data and OTHER_NAMES.get(str(part)) in data:
            part = OTHER_NAMES[str(part)]
        if isinstance(data, dict) and (part in data or (number == len(path) - 1 and not _is_union_member(part))):
            data = cast("dict[Any, Any]", data).get(part)
        elif isinstance(data, list) and isinstance(part, int):
            items = cast("list[Any]", data)
            data = items[part] if part < len(items) else None
        else:
            continue
        real.append(part)
    return tuple(real)
