"""Search for near names in a check, limited in its total cost."""

from __future__ import annotations

from collections.abc import Collection

from operad.runtime.values.base_errors import did_you_mean

MOST_COMPARED = 200_000
"""Maximum number of comparisons in one check, to find near names; each takes some 10 microseconds."""

_LONGEST_NAME = 200
"""Maximum length, in characters, of a name for which near names are searched."""


class Hints:
    """Search for near names, limited in the total cost of one check."""

    def __init__(self) -> None:
        self._left = MOST_COMPARED

    def near(self, name: str, known: Collection[str]) -> str:
        """Return the text of `did_you_mean`, or an empty string if the limit of this check is reached."""
        return did_you_mean(name, known) if self.allow(name, known) else ""

    def allow(self, name: str, known: Collection[str]) -> bool:
        """Count a search among the known names, and return True if the limit of this check permits it."""
        if len(known) > self._left or len(name) > _LONGEST_NAME:
            return False
        self._left -= len(known)
        return True
