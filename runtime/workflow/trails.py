"""The trail of a run: what its operators have done, for those who judge it."""

from __future__ import annotations

from operad.runtime.events import current_scope
from operad.runtime.values.message import Contribution


def trail() -> tuple[Contribution, ...]:
    """What the operators of the run that the current code works in have said, in order of adding.

    An evaluator that knows what every operator said, and not the last ones alone, can tell who is
    at fault. Those that did not run, or run again, are left out. Empty outside of a run.
    """
    scope = current_scope()
    return scope.run.contributions() if scope else ()
