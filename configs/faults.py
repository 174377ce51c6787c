"""Faults of a configuration file, with pydantic's messages replaced by Operad's, at their lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import UnionType
from typing import Any, cast, get_args

from pydantic import BaseModel, ValidationError

from operad.configs.schema import KINDS, NODE, OPERATOR, OTHER_NAMES, SEVERAL, ConfigSpec, OperatorSpec
from operad.runtime.values.document import Document, Path_
from operad.runtime.values.errors import InvalidError, Issue, did_you_mean
from operad.runtime.values.near_names import near_name
from operad.runtime.values.validation import nearest_choice, requirement

_MEMBERS = {*KINDS, SEVERAL, "definition", "switch"}
"""Parts of pydantic's paths that stand for members of a union, and are not keys."""

_MAKES_ANOTHER = {"workflow", "type", "function"}
"""Keys that make a workflow, a typed node or a function of an operator, which then needs no instruction."""

_OF_OPERATORS = {info.alias or name for name, info in OperatorSpec.model_fields.items()}


class Faults:
    """Faults of a file, collected to be reported together.

    Args:
        document: The file.
        spec: Schema of the whole file.

    Attributes:
        stem: Name of the file without its suffix.
    """

    def __init__(self, document: Document, spec: type[BaseModel] = ConfigSpec) -> None:
        self._document = document
        self._spec = spec
        self.stem = Path(document.name).stem
        self._issues: dict[tuple[str, str, int, str], Issue] = {}
        self._told: Sequence[Path_] = ()

    def __bool__(self) -> bool:
        return bool(self._issues)

    def report(self, path: Sequence[int | str], code: str, message: str) -> None:
        """Note a fault of the value at `path`."""
        path = real_path(path, self._document.data)
        if any(path == told[: len(path)] or told == path[: len(told)] for told in self._told):
            return
        key = _plain_key(path, self._document.data)
        fault = (code, message, self._document.line(path), key)  # one fault, though aliases repeat it
        self._issues.setdefault(fault, Issue(code, message, self._document.where(path)))

    def report_doubles(self, what: str, names: Sequence[str]) -> None:
        """Note each name of a list that stands in it before."""
        for number, name in enumerate(names):
            if name in names[:number]:
                self.report((f"{what}s", number), "duplicate-name", f"another {what} is called {name!r} too")

    def report_validation(self, path: Path_, error: ValidationError) -> None:
        """Note all that pydantic finds wrong with the value at `path`."""
        problems = error.errors()
        misspelt = {(*problem["loc"][:-1], meant_key(problem, self._spec)) for problem in problems}
        for problem in problems:
            if problem["type"] == "missing" and not misspelt.isdisjoint(_excuses(problem["loc"])):
                continue
            at = (*path, *problem["loc"])
            if _is_chain(problem):  # said of the list of chains: an alias would be at the line of its anchor
                self.report(at[:-1], "value", f"a chain is a list: write [[{self._chain(at[:-1])[:200]}]]")
            else:
                self.report(at, *explain(problem, self._spec))

    def _chain(self, path: Path_) -> str:
        """Return the operators in the place of chains, as they are to be written into one."""
        items: Any = self._document.data
        for part in real_path(path, items):
            items = items[part]
        anchors = self._document.anchors
        names = [
            each if isinstance(each, str) else f"*{anchors[id(each)]}" if id(each) in anchors else "…" for each in items
        ]
        return ", ".join(name for each, name in zip(items, names, strict=True) if not isinstance(each, list))

    def leave_out(self, told: Sequence[Path_]) -> None:
        """Note no more faults of values at these paths, around them and in them."""
        self._told = told

    def error(self) -> InvalidError:
        """Return all faults as one error, in the order of their lines."""
        issues = sorted(self._issues.items(), key=lambda item: item[0][2])
        return InvalidError(f"{self._document.name} cannot be used", [issue for _, issue in issues])


def explain(problem: Any, spec: type[BaseModel] = ConfigSpec) -> tuple[str, str]:
    """A pydantic problem with a value of that shape, as our code and message."""
    path, value = problem["loc"], problem["input"]
    if problem["type"] == "extra_forbidden":
        known = sorted(_keys(spec, path[:-1]))
        if path[-2:-1] == (NODE,) and path[-1] in _OF_OPERATORS:
            return "unknown-key", (
                f"an operator has either a `type`, and what it works with in `params`, or an `instruction`: "
                f"with `type` there is no {path[-1]!r}"
            )
        if path[-1] == "type" and "instruction" in known:
            return "unknown-key", "a typed node can be neither an evaluator nor a fallback"
        if meant := meant_key(problem, spec):
            return "unknown-key", f"unknown key (did you mean {meant!r}?)"
        if value is None and " " in str(path[-1]):  # {instruction: Say hi, then go}
            return "unknown-key", "unknown key; a comma ends a text in { }: put the text in quotes"
        return "unknown-key", f"unknown key; known: {', '.join(known) or 'none'}"
    if problem["type"] == "missing":
        return "missing-key", "this key is missing"
    if problem["type"] == "value_error":
        return "value", str(problem["ctx"]["error"])
    if problem["type"] == "union_tag_invalid":
        tag, known = problem["ctx"]["tag"], re.findall(r"[\w-]+", problem["ctx"]["expected_tags"])
        known = [each for each in known if each not in ("name", "definition")]  # other forms than a mapping
        return "value", f"the type {tag!r} is none of {', '.join(known)}{did_you_mean(str(tag), known)}"
    secret = "mcp_transport_config" in path or "base_url" in path  # an address, a header
    shown = "" if secret or isinstance(value, dict | list) else f", not {value!r}"[:120] + nearest_choice(problem)
    if problem["type"] == "string_type" and isinstance(value, bool | int | float):
        shown += "; put it in quotes"  # to YAML, yes and no are true and false
    return "value", f"{requirement(problem)}{shown}"


def _is_chain(problem: Any) -> bool:
    """Return True if a problem is an operator in the place of a chain."""
    path = problem["loc"]
    return problem["type"] == "list_type" and path[-2:-1] == ("workflow",) and isinstance(path[-1], int)


def meant_key(problem: Any, spec: type[BaseModel] = ConfigSpec) -> str:
    """Return the known key that is nearest to an unknown one; empty for none, and for another fault."""
    if problem["type"] != "extra_forbidden":
        return ""
    path = problem["loc"]
    known = _keys(spec, path[:-1])
    if path[-2:-1] == (OPERATOR,):
        known |= _MAKES_ANOTHER
    return near_name(str(path[-1]), sorted(known))


def _excuses(path: Path_) -> set[Path_]:
    """Return the keys of which any, where it is misspelt, is why the key at `path` is missing."""
    others = _MAKES_ANOTHER if path[-1] == "instruction" else ()
    return {path, *((*path[:-1], other) for other in others)}


def _keys(spec: type[BaseModel], path: Sequence[int | str]) -> set[str]:
    """The keys that may stand at `path`."""
    specs = {spec}
    for part in path:
        if part in KINDS:
            specs = {KINDS[str(part)]}
            continue
        inner = [
            s.model_fields[name] for s in specs for name in s.model_fields if part in (name, s.model_fields[name].alias)
        ]
        if inner:
            specs = {found for info in inner for found in _specs(info.annotation)}
    known = {info.alias or name for s in specs for name, info in s.model_fields.items()}
    return known | {other for name, other in OTHER_NAMES.items() if name in known}


def _specs(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        if isinstance(argument, type | UnionType) or get_args(argument):
            yield from _specs(argument)


def _plain_key(path: Path_, data: Any) -> str:
    """The key of a mapping under which a plain value stands, or should; empty for anything else."""
    around: Any = None
    for part in path:
        around, data = data, None
        if isinstance(around, dict):
            data = cast("dict[Any, Any]", around).get(part)
        elif isinstance(around, list) and isinstance(part, int):
            data = next(iter(cast("list[Any]", around)[part : part + 1]), None)
    return str(path[-1]) if isinstance(around, dict) and not isinstance(data, dict | list) else ""


def real_path(path: Sequence[int | str], data: Any) -> Path_:
    """`path` without the names of union members that pydantic puts in."""
    real: list[int | str] = []
    for number, part in enumerate(path):
        if isinstance(data, dict) and part not in data and OTHER_NAMES.get(str(part)) in data:
            part = OTHER_NAMES[str(part)]
        if isinstance(data, dict) and (part in data or (number == len(path) - 1 and part not in _MEMBERS)):
            data = cast("dict[Any, Any]", data).get(part)
        elif isinstance(data, list) and isinstance(part, int):
            items = cast("list[Any]", data)
            data = items[part] if part < len(items) else None
        else:
            continue
        real.append(part)
    return tuple(real)
