"""The transcript of a run: what its operators have said, for evaluators."""

from __future__ import annotations

from operad.runtime.events import current_scope
from operad.runtime.values.message import StepRecord


def transcript() -> tuple[StepRecord, ...]:
    """Return what the operators of the current run have said, in order of adding.

    An evaluator that knows what every operator said, and not the last ones alone, can tell which one is
    at fault. Operators that did not run, or run again, are left out. Empty outside of a run.
    """
    scope = current_scope()
    return scope.run.transcript() if scope else ()
