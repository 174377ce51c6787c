"""Arguments of `Workflow` and of its methods `add` and `map`, and their checks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from typing_extensions import TypedDict

from operad.runtime.events.log import check_listener
from operad.runtime.graph.edges import After, Step, is_executable
from operad.runtime.graph.schedule import Join
from operad.runtime.knowledge.insights import Insights
from operad.runtime.policies.limits import Limits
from operad.runtime.policies.policy import Budget, Policy, check_positive
from operad.runtime.values.arguments import short_repr
from operad.runtime.values.errors import InputError, InvalidError, Issue, did_you_mean
from operad.runtime.values.message import WorkflowMessage
from operad.runtime.values.round_trip import message_of

if TYPE_CHECKING:
    from operad.runtime.workflow.map_items import OnError


class AddOptions(TypedDict, total=False):
    """Options of `Workflow.add`."""

    join: Join | None
    policy: Policy | None


class MapOptions(TypedDict, total=False):
    """Options of `Workflow.map`."""

    id: str
    after: After
    concurrency: int
    policy: Policy | None


class FailOptions(MapOptions, total=False):
    """Options of a map of which all items succeed, or failed ones are left out."""

    on_error: Literal["fail", "skip"]


class KeepOptions(MapOptions):
    """Options of a map with an `ItemError` in the place of each failed item."""

    on_error: OnError


class AnyOptions(MapOptions, total=False):
    """Options of a map whose type of results is unknown."""

    on_error: OnError


ROUNDS_WITH_EVALUATOR = 3
"""Default of `max_rounds` for a workflow that is given an evaluator."""


OnReject = Literal["stop", "continue"] | WorkflowMessage
"""Effect of a result that no round could repair: see `Workflow`."""


def check_rounds(name: str, given: Any) -> None:
    """Check the maximum number of rounds.

    Raises:
        InputError: An operator or a function is given instead.
        InvalidError: The number is below 1.
    """
    if given is None:
        return
    got = short_repr(given)
    if isinstance(given, Step) or callable(given) or is_executable(given):
        raise InputError(
            f"workflow {name!r}: the second argument is max_rounds, a number; got {got}: for several "
            "operators, write Workflow(a >> b) or Workflow([a, b]), and for an evaluator, evaluator=…"
        )
    check_positive(f"workflow {name!r}", ("max_rounds",), max_rounds=given)


def on_reject_of(name: str, given: Any) -> OnReject:
    """Return the effect of a result that no round could repair; values other than texts become messages.

    Raises:
        InputError: The value is none of these.
    """
    if isinstance(given, WorkflowMessage) or (isinstance(given, str) and given in ("stop", "continue")):
        return given
    told = f"workflow {name!r}: on_reject: expected 'stop', 'continue', or a value in place of the result"
    if isinstance(given, str):
        hint = did_you_mean(given, ("stop", "continue"))
        raise InputError(f"{told}, as WorkflowMessage('…') if it is a text; got {given!r}{hint}")
    try:
        return message_of(given)
    except InputError as error:
        raise InputError(f"{told}; got {short_repr(given)}") from error


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
