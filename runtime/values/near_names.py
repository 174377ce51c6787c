"""Search for the known name that is nearest to an unknown one."""

from __future__ import annotations

from collections.abc import Iterable
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
