"""Evaluators in code that are often needed."""

from __future__ import annotations

from typing import Any, cast

from operad.runtime.values.errors import FaultError
from operad.runtime.values.json_like import as_json
from operad.runtime.values.text import short_line

_LONGEST = 200


def equals(output: Any, expected: Any) -> None:
    """Accept the output if it equals the expected one; of texts, spaces at both ends do not count.

        report = flow.evaluate(cases, evaluators=[equals])

    Raises:
        FaultError: The output is another one.
    """
    found, wanted = as_json(output), as_json(expected)
    if isinstance(found, str) and isinstance(wanted, str):
        found, wanted = found.strip(), wanted.strip()
    if found != wanted or (isinstance(found, bool) is not isinstance(wanted, bool)):
        raise FaultError(f"expected {_shown(wanted)}, got {_shown(found)}")


def contains(output: Any, expected: Any) -> None:
    """Accept the output if its text contains the expected text; of a list, all of its texts.

        report = flow.evaluate(cases, evaluators=[contains])

    Raises:
        FaultError: The output lacks a text.
    """
    found = output if isinstance(output, str) else str(as_json(output))
    wanted = cast("list[Any]", expected) if isinstance(expected, list) else [expected]
    missing = [each for each in wanted if str(each) not in found]
    if missing:
        raise FaultError(f"lacks {', '.join(map(_shown, missing))}: {_shown(found)}")


def _shown(value: Any) -> str:
    return short_line(repr(value), _LONGEST)
