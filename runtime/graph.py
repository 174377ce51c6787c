"""What a workflow consists of, and whether it can run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError
from typing import Protocol

from operad.runtime.errors import InvalidError, Issue, did_you_mean
from operad.runtime.message import Job, WorkflowMessage
from operad.runtime.reasoner import Reasoner
from operad.runtime.schedule import Plan

END = "<end>"
"""The id of the node that joins the tails of a workflow without an evaluator."""


class Executable(Protocol):
    """What a workflow runs: an operator, or anything else with an id that executes."""

    def get_id(self) -> str:
        """Its identity; unique in a workflow."""
        ...

    async def execute(
        self,
        reasoner: Reasoner,
        job: Job,
        workflow_messages: list[WorkflowMessage] | None = None,
        previous_expert_outputs: list[WorkflowMessage] | None = None,
        lesson: str | None = None,
    ) -> WorkflowMessage | str:
        """Do the work; plain text counts as a message with that text."""
        ...


@dataclass(frozen=True, slots=True)
class WorkflowGraph:
    """The operators of a workflow and their order, frozen.

    Attributes:
        operators: The operators by id, in order of adding.
        before: The ids of the operators before each operator.
        evaluator: What judges the result, if anything does.
        doubles: Ids under which a second operator was added.
    """

    operators: Mapping[str, Executable]
    before: Mapping[str, Sequence[str]]
    evaluator: Executable | None = None
    doubles: tuple[str, ...] = ()

    def plan(self, name: str) -> Plan:
        """The graph as a plan that ends in one node: the evaluator, or a join of the tails.

        Args:
            name: What to call the workflow in an error.

        Raises:
            InvalidError: It has no operators, a cycle, duplicate ids, or names operators that were never added.
        """
        issues = self.check()
        if issues:
            raise InvalidError(f"workflow {name!r} cannot be built", issues)
        has_children = {parent for parents in self.before.values() for parent in parents}
        return Plan({**self.before, self._end: [node_id for node_id in self.before if node_id not in has_children]})

    @property
    def _end(self) -> str:
        return self.evaluator.get_id() if self.evaluator else END

    def check(self) -> list[Issue]:
        """All that is wrong with it."""
        issues = [] if self.operators else [Issue("no-operators", "add at least one operator")]
        issues += [
            Issue("duplicate-id", "two different operators have this id; give each its own", node_id)
            for node_id in self.doubles
        ]
        if self._end in self.operators:
            issues.append(Issue("duplicate-id", "an operator has the id of what ends the workflow", self._end))
        missing = [(node_id, p) for node_id, parents in self.before.items() for p in parents if p not in self.operators]
        issues += [
            Issue(
                "unknown-operator",
                f"operator {parent!r} comes before it but was never added{did_you_mean(parent, self.operators)}",
                node_id,
            )
            for node_id, parent in missing
        ]
        issues += [
            Issue("unknown-operator", "comes after other operators but was never added", node_id)
            for node_id in self.before
            if node_id not in self.operators
        ]
        try:
            Plan({node_id: [p for p in parents if p in self.before] for node_id, parents in self.before.items()})
        except CycleError as error:
            issues.append(Issue("cycle", "each of these waits for the one before it: " + " → ".join(error.args[1])))
        return issues
