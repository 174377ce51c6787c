"""Ids for operators without one."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import chain, count

from operad.runtime.values.base_errors import InputError

MOST_WORDS = 4
MOST_CHARACTERS = 40


def id_fault(operator_id: str) -> str:
    """Return the fault of an id that a user gave to an operator; empty if there is none."""
    if "/" in str(operator_id):
        return (
            "must not contain '/', which separates ids in the paths of events and questions; write '-' or '_' instead"
        )
    if re.search("[\ud800-\udfff]", str(operator_id)):
        return "must not contain half a character (a lone surrogate), which no file and no database holds"
    return ""


def checked_id(operator_id: str) -> str:
    """Return the id that a user gave to an operator.

    Raises:
        InputError: The id is not valid.
    """
    if fault := id_fault(operator_id):
        raise InputError(f"operator(…): id: {fault}")
    return operator_id


def slug(text: str) -> str:
    """Return an id made of the first words of a text: ``list_what_the_text`` for "List what the text claims."."""
    words = [word for word in re.findall(r"\w+", text.lower()) if word.strip("_")][:MOST_WORDS]
    while len(words) > 1 and len("_".join(words)) > MOST_CHARACTERS:
        words.pop()
    return "_".join(words)[:MOST_CHARACTERS].strip("_") or "operator"


def settled_id(wanted: str, is_taken: Callable[[str], bool]) -> str:
    """Return the wanted id; if it is taken, with the first free number behind it, such as ``check_2``."""
    ids = chain([wanted], (f"{wanted}_{number}" for number in count(2)))
    return next(free for free in ids if not is_taken(free))


def as_name(operator_id: str) -> str:
    """Return an operator id as a Python identifier, for parameters: ``check_facts`` for ``check-facts``."""
    name = re.sub(r"\W", "_", operator_id)
    return f"_{name}" if name[:1].isdigit() else name
