"""State of a run while its events are derived: the workflows that are executed, and the operators that contain others."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

from msgspec.structs import replace

from operad.runtime.durable.description import Description
from operad.runtime.durable.restart import following
from operad.runtime.graph.build import ports_of_edges
from operad.runtime.values.map_item import MapItem, without_index
from operad.runtime.values.message import NO_USAGE, Job, Usage, WorkflowMessage
from operad.runtime.workflow.places import NO_REPAIRS, place_of, repairs_of
from operad.runtime.workflow.rounds import Rounds
from operad.runtime.workflow.verdict import joined_tails


@dataclass
class Level:
    """Execution of one workflow: the outermost one, or one nested in an operator.

    Attributes:
        path: Path of the operator that contains the workflow, with the index of a map's item.
        about: Description of the workflow.
        rounds: State of the rounds.
        to_run: Operators that run in the current round.
        begun: Operators and evaluators that have started in the current round.
        start_times: Start times of unfinished operators.
        around: Unfinished operators that contain others, by id; they have no records.
        failed: Errors raised in the current round, by operator.
        verdicts: Verdicts of the evaluators in the current round.
        is_judged: True if the current round has ended with a verdict.
        messages: Last message of each operator.
        verdict: Verdict on the last round, if any.
        cut: Operators of which an evaluator was shown a part only, in the current round.
        inside: Last execution of each workflow inside an operator, by the operator with the index of a map's item.
    """

    path: tuple[str, ...]
    about: Description
    rounds: Rounds = field(default_factory=partial(Rounds, max_rounds=sys.maxsize))
    to_run: tuple[str, ...] = ()
    begun: set[str] = field(default_factory=set[str])
    start_times: dict[str, float] = field(default_factory=dict[str, float])
    around: dict[str, Container] = field(default_factory=dict[str, "Container"])
    failed: dict[str, BaseException] = field(default_factory=dict[str, BaseException])
    verdicts: dict[str, WorkflowMessage] = field(default_factory=dict[str, WorkflowMessage])
    is_judged: bool = False
    messages: dict[str, WorkflowMessage] = field(default_factory=dict[str, WorkflowMessage])
    verdict: WorkflowMessage | None = None
    cut: list[str] = field(default_factory=list[str])
    inside: dict[str, Level] = field(default_factory=dict[str, "Level"])

    @property
    def operators(self) -> Mapping[str, Any]:
        """Descriptions of the operators, by id."""
        return self.about.get("operators", {})

    @property
    def judges(self) -> Mapping[str, Any]:
        """Descriptions of the evaluators, by id."""
        return self.about.get("evaluators", {})

    @property
    def before(self) -> dict[str, tuple[str, ...]]:
        """Ids of the predecessors of each operator."""
        return {name: tuple(described.get("after", ())) for name, described in self.operators.items()}

    @property
    def ports(self) -> dict[str, dict[str, tuple[str, ...]]]:
        """Ports of the edges to each operator, by predecessor; edges without ports are left out."""
        return ports_of_edges({name: described.get("after", {}) for name, described in self.operators.items()})

    def tails(self) -> list[WorkflowMessage]:
        """Return the messages of the operators without successors."""
        has_children = {parent for parents in self.before.values() for parent in parents}
        last = [name for name in self.operators if name not in has_children] or list(self.messages)
        return [self.messages[name] for name in last if name in self.messages]

    def operator(self, name: str) -> str:
        """Return an operator's id, without the index of a map's item."""
        return name if name in self.operators else without_index(name)

    def again(self) -> tuple[str, ...]:
        """Return the operators that may run in the next round: those to repair, and all that depend on them."""
        places = [place_of(fault.place, self.operators) for fault in self.rounds.repairs]
        first = {place.operator for place in places if place} | self.failed.keys()
        again = {*first, *following(first, self.operators)}
        return tuple(name for name in self.operators if name in again)

    def runs(self, name: str) -> list[Level]:
        """Return the last executions of the workflows inside an operator, in the order of a map's items."""
        last = [inside for step, inside in self.inside.items() if self.operator(step) == name]
        return sorted(last, key=lambda inside: item.index if (item := MapItem.parse(inside.path[-1])) else 0)

    def goes_on_from(self, earlier: Level, around: Rounds, name: str) -> None:
        """Continue an earlier execution of the workflow, in which a later round of the workflow around it repairs faults.

        Args:
            earlier: The earlier execution.
            around: State of the rounds of the workflow around it.
            name: The operator that contains the workflow.
        """
        self.messages = dict(earlier.messages)
        repairs = repairs_of(around.repairs, {name: 0, without_index(name): 0}).get(0, NO_REPAIRS)
        self.rounds = replace(self.rounds, repairs=repairs.inside(name))

    def message(self, job: Job) -> WorkflowMessage | None:
        """Return the message of the workflow; None if no operator has a message yet."""
        if self.rounds.best is not None:
            return cast("WorkflowMessage", self.rounds.best)
        return joined_tails(tails, job) if (tails := self.tails()) else None


@dataclass
class Container:
    """Unfinished operator that contains other operators.

    Attributes:
        inside: Executions of the workflows in the operator, by key.
        usage: Usage of these executions.
        attempt: Current attempt of the operator.
    """

    inside: dict[str, Level] = field(default_factory=dict[str, "Level"])
    usage: Usage = NO_USAGE
    attempt: int = 1

    def error(self) -> BaseException | None:
        """Return the last error raised inside the operator, if any."""
        return next((error for inside in reversed(self.inside.values()) for error in inside.failed.values()), None)
