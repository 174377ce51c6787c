"""Checks of the arguments of `Workflow`."""

from __future__ import annotations

from typing import Any

from operad.runtime.events.log import check_listener
from operad.runtime.graph.edges import Step, is_executable
from operad.runtime.knowledge.insights import Insights
from operad.runtime.policies.limits import Limits
from operad.runtime.policies.policy import Budget, Policy, check_positive
from operad.runtime.values.arguments import short_repr
from operad.runtime.values.errors import InputError, InvalidError, Issue

ROUNDS_WITH_EVALUATOR = 3
"""Default of `max_rounds` for a workflow that is given an evaluator."""


def rounds_of(name: str, given: Any, evaluator: object) -> int:
    """Return the maximum number of rounds, by default the one for a workflow with or without an evaluator.

    Raises:
        InputError: An operator or a function is given instead.
        InvalidError: The number is below 1.
    """
    if given is None:
        return 1 if evaluator is None else ROUNDS_WITH_EVALUATOR
    got = short_repr(given)
    if isinstance(given, Step) or callable(given) or is_executable(given):
        raise InputError(
            f"workflow {name!r}: the second argument is max_rounds, a number; got {got}: for several "
            "operators, write Workflow(a >> b) or Workflow([a, b]), and for an evaluator, evaluator=…"
        )
    check_positive(f"workflow {name!r}", ("max_rounds",), max_rounds=given)
    return given


def check_types(name: Any, *, policy: Any, budget: Any, limits: Any, listeners: Any, insights: Any) -> None:
    """Check the types of arguments of `Workflow`.

    Raises:
        InputError: An argument has another type.
        InvalidError: A listener cannot be called with an event, or the insights have another type.
    """
    if not isinstance(name, str):
        raise InputError(f"Workflow(…): name: expected a text, got {short_repr(name)}")
    for kind, value in ((Policy, policy), (Budget, budget), (Limits, limits)):
        if value is not None and not isinstance(value, kind):
            argument = kind.__name__.lower()
            raise InputError(f"workflow {name!r}: {argument}: expected {kind.__name__}(…), got {short_repr(value)}")
    if callable(listeners):
        raise InputError(
            f"workflow {name!r}: listeners: expected a list of functions: listeners=[{short_repr(listeners)}]"
        )
    for listener in listeners:
        check_listener(listener, name)
    if not isinstance(insights, Insights | None):
        issue = Issue("insights", f"are given as Insights(path), not as {insights!r}", "insights")
        raise InvalidError(f"workflow {name!r}", [issue])
