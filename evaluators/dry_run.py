"""A dry run: a workflow is run to its end with made-up inputs and answers, so that what breaks it is found for nothing.

Models say what fits the schema that they are asked for; where they are asked in free words, some words, a diagram or
JSON, as the prompt names it. The web answers every address with a page, searches find the same, images are small ones.
Conditions, classes and questions to people are answered with the words that they offer, in as many runs as it takes to
take each branch once. So an end says that the workflow's own code, templates, conditions and files hold together. It
says nothing of what a real model would answer.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from contextvars import Context
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import Any

from operad.evaluators import stand_ins
from operad.evaluators.branches import Branch, Steering, after, branches_of, steering, variants
from operad.flows.assemble import assemble
from operad.flows.formats.shapes import fields_of
from operad.flows.node_graph import NodeGraph
from operad.operators.nodes import NODE_TYPES
from operad.operators.sandbox.code import CodeLimits
from operad.runtime import events
from operad.runtime.policies.policy import causes
from operad.runtime.testing import plausible
from operad.runtime.values.errors import InvalidError, Issue, MissingExtraError, OperatorError, describe
from operad.runtime.values.message import Job

LONGEST = 60.0
"""Seconds that a dry run takes at most."""

_NO_INPUTS: Mapping[str, Any] = {}


MOST_RUNS = 24
"""Runs at most, of which each but the first one is for a branch that none before it took."""


@dataclass(frozen=True)
class DryRun:
    """Result of a dry run.

    Attributes:
        issues: The issue that stopped it, and those that stopped further runs behind a branch, with the code
            ``dry-run``; or those of the check before; empty if all ended.
        untried: Nodes that could not be tried, because a package is not installed; empty if all could.
        untaken: Branches that no run took, each with the reason.
        ran: Number of nodes that ran to their end, by type.
        failed: Number of nodes that failed, by type.
    """

    issues: tuple[Issue, ...] = ()
    untried: str = ""
    untaken: tuple[str, ...] = ()
    ran: Counter[str] = field(default_factory=Counter[str])
    failed: Counter[str] = field(default_factory=Counter[str])

    @property
    def ended(self) -> bool:
        """True if it came to its end, with outputs."""
        return not self.issues and not self.untried


async def dry_run(graph: NodeGraph, inputs: Mapping[str, Any] = _NO_INPUTS, *, seconds: float = LONGEST) -> DryRun:
    """Run a workflow with made-up answers; then again for each branch that was not taken, with others.

    Args:
        graph: The workflow.
        inputs: Values for its inputs, where they fit; of files, names that tell their kinds. Others are made up.
        seconds: Time limit of all runs together.
    """
    until = monotonic() + seconds
    first = await _once(graph, inputs, Steering(), seconds)
    if first.issues or first.untried:
        return DryRun(tuple(first.issues), first.untried, (), first.ran, first.failed)
    issues: dict[tuple[str, str], Issue] = {}
    untaken: list[str] = []
    taken, left = set(first.ports), MOST_RUNS - 1
    for branch in branches_of(graph):
        if (branch.node, branch.name) in taken:
            continue
        steered = steering(graph, branch)
        if isinstance(steered, str):
            untaken.append(f"{branch}: {steered}")
            continue
        tries = [steered, *(variants(graph, steered) if steered.derived else ())][:left]
        done = await _taking(branch, graph, inputs, tries, until)
        left -= len(tries)
        taken |= done.ports
        if (branch.node, branch.name) not in done.ports:
            untaken.append(f"{branch}: {_why(steered, done) if tries else f'not tried, after {MOST_RUNS} runs'}")
            continue
        behind = {"", *after(graph, branch)}
        for issue in done.issues:
            if issue.where in behind:
                said = replace(issue, message=f"{issue.message} (on {branch})")
                issues.setdefault((issue.where, issue.message), said)
    return DryRun(tuple(issues.values()), "", tuple(untaken), first.ran, first.failed)


async def _taking(
    branch: Branch, graph: NodeGraph, inputs: Mapping[str, Any], tries: Sequence[Steering], until: float
) -> _Ran:
    """Run a workflow until a run takes a branch; of runs that do not, return the last one."""
    done = _Ran()
    for each in tries:
        if (seconds := until - monotonic()) <= 0:
            break
        done = await _once(graph, inputs, each, seconds)
        if (branch.node, branch.name) in done.ports:
            break
    return done


def _why(steered: Steering, done: _Ran) -> str:
    """Return the reason for which a run did not take the branch that its values were made up for."""
    if steered.derived:
        return f"{', '.join(steered.derived)} came to another value than the condition asks for"
    stopped = done.untried or "; ".join(issue.message for issue in done.issues)
    return f"the run stopped before: {stopped}" if stopped else "the run went another way"


@dataclass
class _Ran:
    """One run.

    Attributes:
        issues: The issue that stopped it, or those of the check.
        untried: Nodes that could not be tried.
        ports: The ports that were taken, by node and name.
        ran: Number of nodes that ran to their end, by type.
        failed: Number of nodes that failed, by type.
    """

    issues: list[Issue] = field(default_factory=list[Issue])
    untried: str = ""
    ports: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    ran: Counter[str] = field(default_factory=Counter[str])
    failed: Counter[str] = field(default_factory=Counter[str])


async def _once(graph: NodeGraph, inputs: Mapping[str, Any], steered: Steering, seconds: float) -> _Ran:
    """Run a workflow once, and say what came of it, whatever it raises."""
    done = _Ran()
    try:
        with tempfile.TemporaryDirectory(prefix="operad-dry-") as folder:
            # In a context of its own: it does not belong to the run in which it is judged.
            running = Context().run(asyncio.ensure_future, _run(graph, inputs, Path(folder), seconds, steered, done))
            done.issues = await asyncio.wait_for(running, seconds)
    except asyncio.TimeoutError:
        done.issues = [Issue("dry-run", f"took longer than {seconds:g} s")]
    except InvalidError as error:
        done.issues = list(error.issues)
    except Exception as error:  # noqa: BLE001 - whatever a workflow of somebody else raises, it is said
        if missing := next((each for each in causes(error) if isinstance(each, MissingExtraError)), None):
            done.untried = str(missing)
        else:
            where = error.operator_id if isinstance(error, OperatorError) else ""
            done.issues = [Issue("dry-run", describe(error), where or "")]
    return done


async def _run(
    graph: NodeGraph, inputs: Mapping[str, Any], folder: Path, seconds: float, steered: Steering, done: _Ran
) -> list[Issue]:
    """Run a workflow in a folder, and note the nodes that ran and failed, and the ports that they took."""
    types = {node.id: node.type for node in graph.nodes}
    silent = {node.id for node in graph.nodes if node.type == "end" and not fields_of(node.params).get("outputs")}
    reached = set[str]()
    # A snippet runs in a thread: one that goes on when the dry run is over ends a second later.
    limits = CodeLimits(seconds=min(CodeLimits().seconds, seconds + 1))
    services = replace(stand_ins.services(folder / "made", graph, steered), code=limits)
    workflow = assemble(graph, NODE_TYPES, services=services, lossy=True)
    start = next((node.id for node in graph.nodes if node.type == "start"), "")
    values = await stand_ins.inputs_of(graph, folder, {**inputs, **steered.of(start)})
    async for event in workflow.stream(Job(goal=graph.name, inputs=values), stand_ins.Answers.about(graph, steered)):
        match event:
            case events.OperatorFinished():
                done.ran[types.get(event.operator_id, "")] += 1
                done.ports.update((event.operator_id, port) for port in event.message.ports or ())
                reached.add(event.operator_id)
            case events.OperatorFailed():
                done.failed[types.get(event.operator_id, "")] += 1
            case events.Interrupted():
                made_up: Any = plausible(event.schema or {"type": "string"})
                wanted = steered.of(event.operator_id)
                workflow.resume(event.run_id, {event.interrupt_id: {**made_up, **wanted} if wanted else made_up})
            case events.RunFinished() if not event.message.outputs and reached.isdisjoint(silent):
                return [Issue("dry-run", "ended without outputs: no end node was reached with one")]
            case _:
                pass
    return []
