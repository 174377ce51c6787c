"""What one operator has to do in a run, as whoever carries it out needs to know it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec import Struct

from operad.runtime.events import Scope
from operad.runtime.graph.graph import Executable, ports_of
from operad.runtime.policies.limits import Limiter
from operad.runtime.policies.policy import NO_BUDGET, Policy
from operad.runtime.values.errors import PortError, did_you_mean
from operad.runtime.values.message import NO_USAGE, Job, WorkflowMessage
from operad.runtime.workflow.guard import Call, guarded
from operad.runtime.workflow.verdict import bearing


class Errand(Struct, frozen=True):
    """An operator's work in a round of a run.

    Attributes:
        executable: The operator.
        call: What it is given.
        policy: How it runs.
        judged: What it judges; None where it is no evaluator.
        ways: The ports that edges leave from, for an operator that declares none.
        places: What limits how many operators of its workflow run at once.
    """

    executable: Executable
    call: Call
    policy: Policy
    judged: WorkflowMessage | None = None
    ways: Collection[str] = ()
    places: Limiter | None = None

    async def perform(self, scope: Scope) -> WorkflowMessage:
        """Have it done as its policy says.

        Raises:
            BaseException: What the last attempt raised, where there is no fallback.
        """
        given = self.call.messages.copy()
        said = await guarded(self.executable, self.call, self.policy, scope, self.places)
        return completed(said, self.executable, given, self.judged, self.ways, self.call.job, scope)


def completed(
    said: WorkflowMessage | str,
    executable: Executable,
    given: Sequence[WorkflowMessage],
    judged: WorkflowMessage | None,
    ways: Collection[str],
    job: Job,
    scope: Scope,
) -> WorkflowMessage:
    """What an operator said, as a message of its own that bears what it cost.

    Args:
        said: What it said.
        executable: The operator.
        given: The messages that it was given.
        judged: What it judges; None where it is no evaluator.
        ways: The ports that edges leave from, for an operator that declares none.
        job: What it worked on.
        scope: Where it ran.

    Raises:
        TypeError: It is no message, or an evaluator's is plain text.
        PortError: It takes a port that the operator does not have.
        BudgetError: The run has used more than its budget.
    """
    if isinstance(said, str):
        if judged is not None:
            raise TypeError("an evaluator returns a message with a status, not text")
        said = WorkflowMessage(scratchpad=said)
    elif not isinstance(said, WorkflowMessage):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"execute returned {type(said).__name__}, not a WorkflowMessage or text")
    passed_on = bool(said.operator_id) and any(said is message for message in given)
    if scope.usage is NO_USAGE and said.usage is not NO_USAGE and not passed_on:
        scope.charge(said.usage)  # it kept an account of its own
    if scope.run.budget is not NO_BUDGET:
        scope.run.check_budget()  # it may have gone on after it was told
    if judged is not None:
        said = bearing(said, judged)
    elif passed_on and said.operator_id != scope.operator_id:
        said = said.model_copy(update={"ports": None})
    elif said.ports is not None:
        _check_ports(executable, said.ports, ways)
    return said.stamped(scope.operator_id, job.id, scope.usage)


def _check_ports(executable: Executable, taken: Sequence[str], ways: Collection[str]) -> None:
    known = ports_of(executable) or ways
    unknown = [port for port in taken if port not in known] if known else []
    if unknown:
        hint = did_you_mean(unknown[0], known)
        raise PortError(f"it takes port {unknown[0]!r}, which it does not have{hint}: {', '.join(sorted(known))}")
