"""Families of workflows whose best member is known, because the score of a member is a function of its parts.

A member is a set of parts: hints in an instruction, an operator that checks, bad advice. A proposer draws good and bad
changes by a seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

HINTS = ("units", "dates", "names", "totals", "order")
CHECK, SHORTCUT, RAMBLE, RUSH = "check", "shortcut", "ramble", "rush"
BAD = (RAMBLE, RUSH)

Member = frozenset[str]
FIRST: Member = frozenset()
BEST: Member = frozenset((*HINTS, CHECK))


@dataclass(frozen=True, slots=True)
class Family:
    """Family of workflows.

    Attributes:
        score: Returns the score of a member, from 0 to 1.
        parts: The parts that a proposer may add, repeated by their probability.
    """

    score: Callable[[Member], float]
    parts: tuple[str, ...]


def _hill(member: Member) -> float:
    """Return a score to which each part adds a little."""
    return 0.1 + 0.13 * len(member & set(HINTS)) + 0.25 * (CHECK in member) - 0.15 * len(member & set(BAD))


def _trap(member: Member) -> float:
    """Return a score in which a shortcut helps at once and makes all other parts useless."""
    return 0.55 - 0.15 * len(member & set(BAD)) if SHORTCUT in member else _hill(member)


def _valley(member: Member) -> float:
    """Return a score in which the check does harm without the hints."""
    return _hill(member) - (0.4 if CHECK in member and len(member & set(HINTS)) < len(HINTS) else 0)


def _bounded(score: Callable[[Member], float]) -> Callable[[Member], float]:
    return lambda member: round(min(max(score(member), 0.0), 1.0), 6)


FAMILIES: Mapping[str, Family] = {
    "hill": Family(_bounded(_hill), (*HINTS, CHECK, *BAD)),
    "trap": Family(_bounded(_trap), (*HINTS, CHECK, *BAD, SHORTCUT, SHORTCUT)),
    "valley": Family(_bounded(_valley), (*HINTS, CHECK, *BAD)),
}


def changed(member: Member, family: Family, lot: random.Random) -> Member:
    """Return a member with one more part, or, one time in five, one part fewer; a shortcut is never removed."""
    there = sorted(member - {SHORTCUT})
    missing = [part for part in family.parts if part not in member]
    if there and (not missing or lot.random() < 0.2):
        return member - {lot.choice(there)}
    return member | {lot.choice(missing)}
