"""Files of other platforms that become files of experts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from operad.operators.integration import integrations, named
from operad.runtime.values.errors import Issue


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
