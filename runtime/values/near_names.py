"""Search for the known name that is nearest to an unknown one, and hints in errors, limited in their total cost."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import SequenceMatcher

_NEAR = 0.6
"""Minimum similarity of a near name, from 0 to 1."""


def near_name(name: str, known: Iterable[str]) -> str:
    """Return the nearest known name, or an empty string.

    The result is the first of `difflib.get_close_matches`, in half the time: ratios are computed only for names whose
    upper bound, the ratio of common letters in any order, exceeds the best ratio so far.
    """
    letters = [(letter, name.count(letter)) for letter in set(name)]
    nearest, best = "", _NEAR
    bounds: list[tuple[float, str]] = []
    for each in known:
        length = len(name) + len(each)
        if not length or 2 * min(len(name), len(each)) / length < best:
            continue
        bound = 2 * sum([min(count, each.count(letter)) for letter, count in letters]) / length
        if bound >= best:
            bounds.append((bound, each))
    matcher = SequenceMatcher(b=name)
    for bound, each in sorted(bounds, reverse=True):
        if bound < best:
            break
        matcher.set_seq1(each)
        ratio = matcher.ratio()
        if (ratio, each) > (best, nearest):
            nearest, best = each, ratio
    return nearest


MOST_COMPARED = 200_000
"""Maximum number of comparisons in one check, to find near names; each takes some 10 microseconds."""

_LONGEST_NAME = 200
"""Maximum length, in characters, of a name for which near names are searched."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``" (did you mean 'x'?)"`` for the nearest known name, or an empty string."""
    nearest = near_name(name, known)
    return f" (did you mean {nearest!r}?)" if nearest else ""


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
