"""Issues as every command prints them: ``FILE:LINE: WHERE: MESSAGE [CODE]``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from operad.configs.printable import printable
from operad.runtime.values.errors import InvalidError, Issue

_IN_FILE = re.compile(r"(?P<file>.+?):(?P<line>\d+)(?::\d+)?(?::? (?P<where>.*))?", re.DOTALL)
_IN_TEXT = re.compile(r"line (?P<line>\d+)(?:, column \d+)?(?: (?P<where>.*))?", re.DOTALL)


class Placed(NamedTuple):
    """Issue of a file.

    Attributes:
        code: The kind of fault.
        message: The fault and its remedy.
        where: The node or the part of the file; may be empty.
        line: The line of the file, counted from 1; 0 where no line is known.
    """

    code: str
    message: str
    where: str = ""
    line: int = 0


def issue_line(issue: Placed, file: str = "") -> str:
    """Return an issue as one line; without a file, the line begins with the place inside of it.

    Example:
        >>> issue_line(Placed("cycle", "waits for itself", "greet", 3), "expert.yaml")
        'expert.yaml:3: greet: waits for itself [cycle]'
    """
    place = f"{file}:{issue.line}" if issue.line else file
    return printable(f"{': '.join(filter(None, (place, issue.where, issue.message)))} [{issue.code}]")


def issue_dicts(error: InvalidError) -> list[dict[str, Any]]:
    """Return the issues of an error as JSON values; `file` is empty for an issue of no file."""
    dicts: list[dict[str, Any]] = []
    for issue in error.issues:
        found = _IN_FILE.fullmatch(issue.where)
        file = found["file"] if found else ""
        dicts.append({"file": file, **placed(issue, file)._asdict()})
    return dicts


def error_lines(error: InvalidError) -> Iterator[str]:
    """Yield what the error is about, then its issues, one a line."""
    yield printable(str(error).splitlines()[0])
    for issue in error.issues:
        if found := _IN_FILE.fullmatch(issue.where):
            yield issue_line(placed(issue, found["file"]), found["file"])
        else:
            yield issue_line(Placed(issue.code, issue.message, issue.where))


def located(subject: str, issues: Sequence[Placed], file: str) -> InvalidError:
    """Return the issues of a file as an error whose issues name the file."""
    return InvalidError(subject, [Issue(each.code, each.message, _place(each, file)) for each in issues])


def placed(issue: Issue, file: str) -> Placed:
    """Return an issue with its line apart; its place is the file, a line of the file, or a part of it."""
    line, where = 0, issue.where
    if file and (where == file or where.startswith((f"{file}:", f"{file} "))):
        found = _IN_FILE.fullmatch(f"_{where[len(file) :]}")
        line, where = (int(found["line"]), found["where"] or "") if found else (0, where[len(file) :].lstrip(": "))
    elif found := _IN_TEXT.fullmatch(where):
        line, where = int(found["line"]), found["where"] or ""
    return Placed(issue.code, issue.message, where.strip(), line)


def in_file(issues: Sequence[Issue], lines: Mapping[str, int]) -> Iterator[Placed]:
    """Yield issues of nodes and edges with their lines; an edge stands where its target does, or else its source."""
    for issue in issues:
        source, _, target = issue.where.partition(" → ")
        yield Placed(issue.code, issue.message, issue.where, lines.get(target) or lines.get(source, 0))


def _place(issue: Placed, file: str) -> str:
    return ": ".join(filter(None, (f"{file}:{issue.line}" if issue.line else file, issue.where)))
