"""Files of other platforms that become files of experts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from operad.operators.integration import integrations, named
from operad.runtime.values.errors import InvalidError, Issue


class Experts(NamedTuple):
    """A file of experts that was made of files of another platform.

    Attributes:
        text: Its text.
        losses: What it does not hold: code ``loss`` for parts that change results, ``note`` for others.
    """

    text: str
    losses: Sequence[Issue]


@dataclass(frozen=True, slots=True)
class ExpertSource:
    """Files of another platform that become a file of experts; an `Integration` names the value.

    Attributes:
        files: Function that returns the files that belong to the given files or folders; none if these are not of the
            platform.
        read: Function that reads these files; raises `InvalidError` with every issue.
    """

    files: Callable[[Sequence[Path]], Sequence[Path]]
    read: Callable[[Sequence[Path]], Experts]


def experts_in(paths: Sequence[Path]) -> Experts | None:
    """Return the file of experts that files or folders of another platform become; None if no platform knows them.

    Raises:
        InvalidError: The files are of a platform, and cannot be converted.
        InputError: A file cannot be read.
    """
    for each in integrations():
        for home in each.experts.values():
            source: ExpertSource = named(home)
            if files := source.files(paths):
                return source.read(files)
    return None


def refuse_foreign(path: Path) -> None:
    """Raise InvalidError for a file or folder of another platform that only `operad convert` reads."""
    if issue := conversion_needed(path):
        raise InvalidError(f"{path} cannot be used", [issue])


def conversion_needed(path: Path) -> Issue | None:
    """Return the issue of a file or folder of another platform that only `operad convert` reads; None for any other."""
    try:
        home = next(
            (home for each in integrations() for home in each.experts.values() if named(home).files([path])), ""
        )
    except InvalidError as error:  # a file that belongs to it is missing
        return error.issues[0]
    except OSError:  # such as a name that is too long: whoever reads the file says so
        return None
    told = f"describes agents of another platform; write a file of experts: operad convert {quote(str(path))} -o experts.yaml"
    return Issue("format", told, str(path)) if home else None
