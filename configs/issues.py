"""Issues as every command prints them: ``FILE:LINE: WHERE: MESSAGE [CODE]``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from operad.runtime.values.errors import InvalidError, Issue
from operad.runtime.values.text import printable

_IN_FILE = re.compile(r"(?P<file>.+?):(?P<line>\d+)(?::\d+)?(?::? (?P<where>.*))?", re.DOTALL)
_IN_TEXT = re.compile(r"line (?P<line>\d+)(?:, column \d+)?(?: (?P<where>.*))?", re.DOTALL)


class Placed(NamedTuple):
    """An issue at a place in a file.

    Attributes:
        message: The problem and how to fix it.
        where: The node or the part of the file; may be empty.
        line: Line of the file, from 1; 0 if it is not known.
    """

    code: str
    message: str
    where: str = ""
    line: int = 0


def issue_line(issue: Placed, file: str = "", titles: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return an issue as one line; without `file`, the line starts with the place inside the file.

    Args:
        titles: Titles of nodes by their ids, which stand before the ids.

    Example:
        >>> issue_line(Placed("cycle", "waits for itself", "greet", 3), "expert.yaml")
        'expert.yaml:3: greet: waits for itself [cycle]'
    """
    place = f"{file}:{issue.line}" if issue.line else file
    return printable(f"{': '.join(filter(None, (place, _titled(issue.where, titles), issue.message)))} [{issue.code}]")


def issue_dicts(error: InvalidError) -> list[dict[str, Any]]:
    """Return the issues of an error as JSON values; `file` is empty for an issue of no file."""
    dicts: list[dict[str, Any]] = []
    for issue in error.issues:
        found = _IN_FILE.fullmatch(issue.where)
        file = found["file"] if found else ""
        dicts.append({"file": file, **placed(issue, file)._asdict()})
    return dicts


def error_lines(error: InvalidError) -> Iterator[str]:
    """Yield the subject of the error, then its issues, one per line."""
    yield printable(str(error).splitlines()[0])
    for issue in error.issues:
        if found := _IN_FILE.fullmatch(issue.where):
            yield issue_line(placed(issue, found["file"]), found["file"])
        else:
            yield issue_line(Placed(issue.code, issue.message, issue.where))


def located(
    subject: str, issues: Sequence[Placed], file: str, titles: Mapping[str, str] = MappingProxyType({})
) -> InvalidError:
    """Return an error with the issues of a file; the place of each issue includes the file, and the titles of nodes."""
    placed = [each._replace(where=_titled(each.where, titles)) for each in issues]
    return InvalidError(subject, [Issue(issue.code, issue.message, _place_text(issue, file)) for issue in placed])


def _titled(where: str, titles: Mapping[str, str]) -> str:
    """Return a place with the titles of its node, or of both ends of its edge, before the ids."""
    return " → ".join(f"{titles[each]} ({each})" if each in titles else each for each in where.split(" → "))


def placed(issue: Issue, file: str) -> Placed:
    """Return an issue with its line separated from its place: the file, a line of it, or a part of it."""
    line, where = 0, issue.where
    if file and (where == file or where.startswith((f"{file}:", f"{file} "))):
        found = _IN_FILE.fullmatch(f"_{where[len(file) :]}")
        line, where = (int(found["line"]), found["where"] or "") if found else (0, where[len(file) :].lstrip(": "))
    elif found := _IN_TEXT.fullmatch(where):
        line, where = int(found["line"]), found["where"] or ""
    return Placed(issue.code, issue.message, where.strip(), line)


def in_file(issues: Sequence[Issue], lines: Mapping[str, int]) -> Iterator[Placed]:
    """Yield issues of nodes and edges with their lines; an edge has the line of its target, or else of its source."""
    for issue in issues:
        source, _, target = issue.where.partition(" → ")
        yield Placed(issue.code, issue.message, issue.where, lines.get(target) or lines.get(source, 0))


def _place_text(issue: Placed, file: str) -> str:
    return ": ".join(filter(None, (f"{file}:{issue.line}" if issue.line else file, issue.where)))
