"""Cases of the blame benchmark: a workflow, a job, criteria, the scripted answers of its operators, and a key.

A case is a value that depends on its family, its fault and its seed alone. The answers of its operators are computed from
the faults that are still there: without its fault, the operator and all that depend on it answer right.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from operad import Job, WorkflowMessage, WorkflowStatus, tool
from operad.operators import Operator
from operad.runtime.knowledge.knowledge import Knowledge, Passage

Random = random.Random

KINDS: Mapping[str, str] = {
    "none": "no fault",
    "middle": "a root in the middle",
    "passed": "an error that several operators passed on",
    "last": "a root at the end",
    "checker": "a checker that wrongly says that all is right",
    "vanished": "an error that vanished before the result",
    "two": "two faults",
    "item": "a fault of an item of a map",
    "inner": "a fault of an operator of a nested workflow",
    "router": "a wrong choice of a router",
    "unsupported": "a claim that is not in tool results or passages",
    "contradiction": "a job that contradicts itself",
    "earlier": "a fault of an earlier expert",
    "unnamed": "a breached instruction that no criterion mentions, without harm to the result",
}
"""Kinds of faults, with their descriptions."""


@dataclass(frozen=True)
class Calls:
    """Answer of an operator that calls tools first: pairs of a tool and its arguments, and the text at the end."""

    calls: Sequence[tuple[str, Mapping[str, Any]]]
    text: str


Answers = Mapping[str, "str | Calls"]
"""Answers of operators by their places, such as ``total``, ``draft/body`` or ``sums[3]``."""


@dataclass(frozen=True)
class Lookup:
    """Tool of an operator: `table` has a result for each argument.

    Attributes:
        name: Name of the tool.
        description: Description for the model.
        table: Results by argument.
    """

    name: str
    description: str
    table: Mapping[str, str]

    def as_tool(self) -> Any:
        """Return the tool."""

        def look_up(key: str) -> str:
            return self.table.get(key, f"unknown: {key}")

        look_up.__name__, look_up.__doc__ = self.name, self.description
        return tool(look_up)


@dataclass(frozen=True)
class Passages:
    """Knowledge base with the same passages, by source, for every query."""

    texts: Mapping[str, str]

    def retrieve(self, query: str) -> Knowledge:
        """Return all passages."""
        found = (Passage(text=text, source=source, score=1.0) for source, text in self.texts.items())
        return Knowledge(passages=tuple(found))


@dataclass(frozen=True)
class Op:
    """Description of an operator.

    Attributes:
        instruction: The instruction.
        place: Place of the operator if it is inside another, such as ``draft/body``; of the body of a map, ``sums``.
        items: Texts that identify the items of a map, for its body.
        tools: The tools.
        passages: The knowledge base.
        ports: The ports of a router.
        output: The type of the answer.
    """

    instruction: str
    place: str = ""
    items: Sequence[str] = ()
    tools: Sequence[Lookup] = ()
    passages: Passages | None = None
    ports: Sequence[str] = ()
    output: Any = None

    def operator(self, id: str, model: Any) -> Operator:
        """Return the operator, with its own model."""
        more: dict[str, Any] = {"ports": list(self.ports)} if self.ports else {}
        more |= {"output": self.output} if self.output else {}
        return Operator(
            self.instruction,
            id=id,
            model=model,
            tools=[each.as_tool() for each in self.tools],
            knowledge_base=self.passages,
            **more,
        )


@dataclass(frozen=True)
class Fault:
    """Fault of a case.

    Attributes:
        root: Place of the operator, or id of the earlier expert, with which the fault began; empty if the job did.
        wrong: The wrong value, as it stands in the answer of the root.
        right: The right value, as it stands in what the root received.
    """

    root: str
    wrong: str
    right: str


Ops = Mapping[str, Op]


@dataclass(frozen=True)
class Case:
    """Case of the benchmark.

    Attributes:
        family: Name of the family.
        fault: Name of the fault within the family.
        kind: Kind of the fault, of `KINDS`.
        seed: Seed of names and numbers.
        job: The job.
        criteria: The criteria of the evaluator.
        ops: The operators that ask a model, by id.
        wire: Function that connects the operators.
        answers: Function from the places of the faults that are still there to the answers.
        last: Id of the operator whose answer is the result.
        faults: The faults.
        status: The right status of round 1.
        also: Places that may be blamed beside the roots.
        previous: Results of earlier experts.
    """

    family: str
    fault: str
    kind: str
    seed: int
    job: Job
    criteria: str
    ops: Ops
    wire: Callable[[Mapping[str, Operator]], Any]
    answers: Callable[[frozenset[str]], Answers]
    last: str
    faults: Sequence[Fault] = ()
    status: WorkflowStatus = WorkflowStatus.SUCCESS
    also: frozenset[str] = frozenset()
    previous: Sequence[WorkflowMessage] = ()

    @property
    def name(self) -> str:
        """Name of the case, the same in every version of the benchmark."""
        return f"{self.family}-{self.fault}-{self.seed}"

    @property
    def roots(self) -> frozenset[str]:
        """The places to blame."""
        if self.status is WorkflowStatus.SUCCESS:
            return frozenset()
        return frozenset(fault.root for fault in self.faults if fault.root)

    @property
    def roots_before_others(self) -> frozenset[str]:
        """The places to blame whose results others received."""
        return self.roots - {self.last}

    @property
    def active(self) -> frozenset[str]:
        """The places of all faults."""
        return frozenset(fault.root for fault in self.faults)

    def place(self, id: str, asked: str) -> str:
        """Return the place of the operator with an id that was asked with a text."""
        op = self.ops[id]
        if not op.items:
            return op.place or id
        [number] = [number for number, item in enumerate(op.items) if item in asked]
        return f"{op.place}[{number}]"


Make = Callable[[Random, str], Mapping[str, Any]]


@dataclass(frozen=True)
class Family:
    """Workflow and generator of cases.

    Attributes:
        name: Name of the family.
        shape: Description of the workflow.
        kinds: Kind of each fault, by name.
        make: Function that returns the remaining fields of a `Case`.
    """

    name: str
    shape: str
    kinds: Mapping[str, str]
    make: Make = field(repr=False)

    def case(self, fault: str, seed: int) -> Case:
        """Return the case of a fault and a seed."""
        rng = Random(f"{self.name} {fault} {seed}")
        kind = self.kinds[fault]
        fields = dict(self.make(rng, fault))
        faults = fields.get("faults", ())
        if "status" not in fields and faults and kind not in ("vanished", "unnamed"):
            fields["status"] = WorkflowStatus.EXECUTION_ERROR
        return Case(family=self.name, fault=fault, kind=kind, seed=seed, **fields)

    def cases(self, seeds: Sequence[int]) -> list[Case]:
        """Return the cases of all faults with some seeds."""
        return [self.case(fault, seed) for fault in self.kinds for seed in seeds]
