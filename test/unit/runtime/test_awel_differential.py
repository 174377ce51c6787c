"""Our AWEL runner beside AWEL's own on 600 random DAGs of maps, joins, branches and nodes that raise.

Each DAG is built once and run by both. Every node notes what it heard, so that more than the end
result is compared: which nodes ran, each once, and what each was given.

Where the documented rules differ (see runtime/graph/awel.py), each runner is held to its own:

- A skipped parent: AWEL must hand on its sentinel, ours None (`Notes.nothing`).
- A skipped end: AWEL must return its sentinel, ours raise OperadError (`RandomDag.run`).
- Failure: AWEL runs one node after another, ours together, so where several nodes could raise,
  which of them is first may differ, and with it what else ran (`_check_failure`).
"""

from __future__ import annotations

# pyright: reportUnusedExpression=false, reportIncompatibleMethodOverride=false
# AWEL's `>>` is a statement.
import asyncio
import gc
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from amounts import amount

from operad.runtime.graph.awel import AwelRunner  # first: it imports dbgpt with care

from dbgpt.core.awel import (  # isort: skip
    DAG,
    BranchJoinOperator,
    BranchOperator,
    DefaultWorkflowRunner,
    InputOperator,
    InputSource,
    JoinOperator,
    MapOperator,
    TriggerOperator,
    WorkflowRunner,
)
from dbgpt.core.awel.task.base import SKIP_DATA  # isort: skip

from operad.runtime.values.errors import OperadError

DAGS, BLOCK = amount(300, 600), 150
RENDEZVOUS = 10.0
NOTHING = "nothing"
SKIPPED = "the end was skipped"
ERRORS: list[Callable[[str], Exception]] = [LookupError, KeyError, ValueError, RuntimeError, OSError, AssertionError]


@dataclass(repr=False)
class Node:
    """What a node of a random DAG is, before it is built."""

    number: int
    kind: str
    parents: list[Node]
    can_skip: bool
    pauses: int
    error: Exception | None
    chosen_by: dict[int, bool] = field(default_factory=dict)
    """Of the branches before it that name it: whether each chooses it."""

    @property
    def name(self) -> str:
        return f"n{self.number}"

    @property
    def may_pass_nothing_on(self) -> bool:
        """Whether it is a branch that may run after a skipped node, and hand on what it got: nothing."""
        return self.kind == "branch" and (not self.can_skip or self.parents[0].may_pass_nothing_on)

    def __repr__(self) -> str:
        after = ",".join(str(parent.number) for parent in self.parents)
        return f"{self.kind} {self.number} <- {after}; {self.can_skip=} {self.chosen_by=} {self.pauses=} {self.error=}"

    def ancestors(self) -> set[int]:
        return {number for parent in self.parents for number in {parent.number, *parent.ancestors()}}


def random_nodes(seed: int) -> list[Node]:
    """3 to 14 nodes, the end node last; the same for the same seed."""
    chance = random.Random(seed)  # noqa: S311
    with_errors = chance.random() < 0.5
    nodes: list[Node] = []

    def add(kind: str, parents: list[Node]) -> None:
        number = len(nodes)
        broken = with_errors and chance.random() < 0.25 and kind not in {"trigger", "input", "first"}
        node = Node(
            number,
            kind,
            parents,
            can_skip=chance.random() < (0.3 if kind in {"first", "branch join"} else 0.9),
            pauses=chance.choice([0, 0, 0, 1, 3]),
            error=chance.choice(ERRORS)(f"{number} broke") if broken else None,
        )
        for parent in parents:
            if parent.kind == "branch" and chance.random() < 0.9:
                node.chosen_by[parent.number] = chance.random() < 0.5
        nodes.append(node)

    add("trigger", [])
    for _ in range(chance.randint(1, 12)):
        kind = chance.choice(["map", "map", "map", "branch", "branch", "join", "join", "branch join", "first", "root"])
        if kind == "root":
            add(chance.choice(["trigger", "input", "map"]), [])
        elif kind in {"map", "branch"}:
            add(kind, [chance.choice(nodes[-4:])])
        else:
            known = [node for node in nodes[1:] if kind != "first" or not node.may_pass_nothing_on]
            some = chance.sample(known, min(len(known), chance.randint(1, 3)))
            add(kind, some if some and kind != "first" else [*some, nodes[0]])  # without any, AWEL's "first" raises
    had = {parent.number for node in nodes for parent in node.parents}
    leaves = [node for node in nodes if node.number not in had]
    kind = "map" if len(leaves) == 1 else chance.choice(["join", "join", "join", "branch join"])
    add(kind, leaves)
    return nodes


@dataclass
class Notes:
    """What happened in one run."""

    nothing: Any
    """What the runner hands to a node in place of a skipped parent."""
    outcome: Any = None
    error: Exception | None = None
    heard: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    raised: list[int] = field(default_factory=list)


class RandomDag:
    def __init__(self, nodes: list[Node]) -> None:
        self._notes = Notes(None)
        self._armed = True
        with DAG("random"):
            operators = [self._operator(node, nodes) for node in nodes]
            for node, operator in zip(nodes, operators, strict=True):
                for parent in node.parents:
                    operators[parent.number] >> operator
        self._end = operators[-1]
        roots = [node for node in nodes if not node.parents]
        data = {node.name: {"data": f"data {node.number}"} for node in roots}
        self._call_data = data if len(roots) > 1 else data[roots[0].name]

    async def run(self, runner: WorkflowRunner[Any], *, armed: bool = True) -> Notes:
        notes = self._notes = Notes(SKIP_DATA if isinstance(runner, DefaultWorkflowRunner) else None)
        self._armed = armed
        try:
            call = runner.execute_workflow(self._end, self._call_data)
            context = await asyncio.wait_for(call, RENDEZVOUS)
        except OperadError as error:
            notes.outcome = SKIPPED if "was skipped: " in str(error) else error
        except Exception as error:  # noqa: BLE001 - compared
            notes.outcome, notes.error = (type(error), str(error)), error
        else:
            output = context.current_task_context.task_output.output
            notes.outcome = SKIPPED if output is SKIP_DATA is notes.nothing else output
        return notes

    def _operator(self, node: Node, nodes: list[Node]) -> Any:
        kind, options = node.kind, {"task_id": node.name, "task_name": node.name, "can_skip_in_branch": node.can_skip}
        if kind == "trigger":
            return TriggerOperator(**options)
        if kind == "input":
            return InputOperator(InputSource.from_data(f"input {node.number}"), **options)
        if kind == "first":
            return BranchJoinOperator(**options)
        if kind == "branch":
            choices: dict[Any, Any] = {self._work(node): "nobody"}
            for child in nodes:
                if node.number in child.chosen_by:
                    choices[_choice(child.chosen_by[node.number], node.pauses)] = child.name
            return BranchOperator(choices, **options)
        operator = {"map": MapOperator, "join": JoinOperator, "branch join": BranchJoinOperator}[kind]
        return operator(self._work(node), **options)

    def _work(self, node: Node) -> Callable[..., Any]:
        def work(*values: Any) -> str:
            assert node.number not in self._notes.heard, f"node {node.number} ran twice"
            heard = tuple(NOTHING if value is self._notes.nothing else value for value in values)
            self._notes.heard[node.number] = heard
            if self._armed and node.error:
                self._notes.raised.append(node.number)
                raise node.error
            return f"{node.number}({','.join(map(str, heard))})"

        async def work_slowly(*values: Any) -> str:
            for _ in range(node.pauses):
                await asyncio.sleep(0)
            return work(*values)

        return work_slowly if node.pauses else work


def _choice(chosen: bool, pauses: int) -> Callable[[Any], Any]:
    async def choose(_: Any) -> bool:
        await asyncio.sleep(0)
        return chosen

    return choose if pauses else lambda _: chosen


def _check_failure(nodes: list[Node], theirs: Notes, ours: Notes, without_errors: Notes) -> int:
    """Hold a run in which a node raises to all that is true of it, whatever ran first.

    A node can raise first if it would run were nothing broken, is broken, and no such node is before
    it. The caller gets the error of one of these, the very object; if there is only one, the same
    from both runners. No node runs after one that raised, and those that do run are given what
    they are given when nothing is broken.

    Returns:
        How many nodes can raise first.
    """
    broken = {node.number for node in nodes if node.error} & without_errors.heard.keys()
    first = {number for number in broken if not broken & nodes[number].ancestors()}

    assert without_errors.error is None
    assert theirs.error in [nodes[number].error for number in first]
    assert ours.error in [nodes[number].error for number in ours.raised]
    assert set(ours.raised) <= first, "a node ran after one that had raised"
    assert ours.heard.items() <= without_errors.heard.items()
    if len(first) == 1:
        assert ours.outcome == theirs.outcome
    return len(first)


# A BranchOperator that fails or is cancelled leaves coroutines that it never awaited.
@pytest.mark.filterwarnings("ignore:coroutine 'BranchOperator:RuntimeWarning")
@pytest.mark.parametrize("block", range(0, DAGS, BLOCK))
async def test_both_runners_agree_on_random_dags(block: int) -> None:
    seen = Counter[str]()
    for seed in range(block, block + BLOCK):
        nodes = random_nodes(seed)
        try:
            seen.update(await _compare(nodes))
        except AssertionError as error:
            raise AssertionError("\n".join([f"seed {seed}: {error}", *map(repr, nodes)])) from error
    gc.collect()  # what was never awaited says so here, where it is expected

    kinds = ("succeeds", "skips its end", "hears nothing", "fails", "may fail in several ways")
    assert min(seen[kind] for kind in kinds) >= 3, f"the DAGs of block {block} show too little: {seen}"


async def _compare(nodes: list[Node]) -> list[str]:
    """Run one DAG with both runners and hold ours to AWEL's; return what kind of run it was."""
    dag = RandomDag(nodes)
    theirs, ours = await dag.run(DefaultWorkflowRunner()), await dag.run(AwelRunner())
    if theirs.error:
        without_errors = await dag.run(DefaultWorkflowRunner(), armed=False)
        return ["fails", *["may fail in several ways"] * (_check_failure(nodes, theirs, ours, without_errors) > 1)]
    assert ours.outcome == theirs.outcome
    assert ours.heard == theirs.heard
    nothing = any(NOTHING in heard for heard in ours.heard.values())
    return ["skips its end" if theirs.outcome is SKIPPED else "succeeds", *["hears nothing"] * nothing]
