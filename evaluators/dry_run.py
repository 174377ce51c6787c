"""Dry run: a workflow runs with made-up inputs and answers, which finds faults without calling models or the web.

Answers of models fit the requested schema; without a schema, they are some words, a diagram or JSON, as the prompt
asks for. Every web address returns the same page, every search the same results, and images are small. Conditions,
classes and questions to people get one of their choices, in as many runs as are needed to take each branch once.
A successful dry run shows that the workflow's own code, templates, conditions and files work together. It shows nothing
about the answers of a real model.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from contextvars import Context
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import Any

from operad.evaluators import dry_run_services
from operad.evaluators.branches import Branch, MadeUpValues, after, branches_of, values_for_branch, variants
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
"""Default time limit of a dry run, in seconds."""

_NO_INPUTS: Mapping[str, Any] = {}

MOST_RUNS = 24
"""Maximum number of runs. Each run after the first is for a branch that no earlier run took."""


@dataclass(frozen=True)
class DryRun:
    """Result of a dry run.

    Attributes:
        issues: The issues that stopped a run, with the code ``dry-run``, or the issues of the check; empty if all runs
            ended. Of further runs, only issues after the branch in question count.
        skipped_reason: Message about nodes that cannot be tried, because a package is not installed; otherwise empty.
        branches_not_taken: Branches that no run took, each with the reason.
    """

    issues: tuple[Issue, ...] = ()
    skipped_reason: str = ""
    branches_not_taken: tuple[str, ...] = ()

    @property
    def ended(self) -> bool:
        """True if all runs ended with outputs."""
        return not self.issues and not self.skipped_reason


async def dry_run(graph: NodeGraph, inputs: Mapping[str, Any] = _NO_INPUTS, *, seconds: float = LONGEST) -> DryRun:
    """Run a workflow with made-up answers, and again with other answers for each branch that was not taken.

    Args:
        graph: The workflow.
        inputs: Values to use for inputs that they fit; for files, names that give the type. Other values are made up.
        seconds: Time limit of all runs together.
    """
    deadline = monotonic() + seconds
    first = await _run_once(graph, inputs, MadeUpValues(), seconds)
    if first.issues or first.skipped_reason:
        return DryRun(tuple(first.issues), first.skipped_reason)
    issues: dict[tuple[str, str], Issue] = {}
    not_taken: list[str] = []
    taken, runs_left = set(first.ports), MOST_RUNS - 1
    for branch in branches_of(graph):
        if (branch.node, branch.name) in taken:
            continue
        made_up = values_for_branch(graph, branch)
        if isinstance(made_up, str):
            not_taken.append(f"{branch}: {made_up}")
            continue
        tries = [made_up, *(variants(graph, made_up) if made_up.derived else ())][:runs_left]
        result = await _run_for_branch(branch, graph, inputs, tries, deadline)
        runs_left -= len(tries)
        taken |= result.ports
        if (branch.node, branch.name) not in result.ports:
            not_taken.append(
                f"{branch}: {_why_not_taken(made_up, result) if tries else f'not tried, after {MOST_RUNS} runs'}"
            )
            continue
        nodes_after = {"", *after(graph, branch)}
        for issue in result.issues:
            if issue.where in nodes_after:
                located = replace(issue, message=f"{issue.message} (on {branch})")
                issues.setdefault((issue.where, issue.message), located)
    return DryRun(tuple(issues.values()), "", tuple(not_taken))


async def _run_for_branch(
    branch: Branch, graph: NodeGraph, inputs: Mapping[str, Any], tries: Sequence[MadeUpValues], deadline: float
) -> _RunResult:
    """Run a workflow with one set of made-up values after another until a run takes a branch; return the last run."""
    result = _RunResult()
    for made_up in tries:
        if (seconds := deadline - monotonic()) <= 0:
            break
        result = await _run_once(graph, inputs, made_up, seconds)
        if (branch.node, branch.name) in result.ports:
            break
    return result


def _why_not_taken(made_up: MadeUpValues, result: _RunResult) -> str:
    """Return the reason why a run did not take the branch that its values were made up for."""
    if made_up.derived:
        return f"{', '.join(made_up.derived)} came to another value than the condition asks for"
    stopped = result.skipped_reason or "; ".join(issue.message for issue in result.issues)
    return f"the run stopped before: {stopped}" if stopped else "the run went another way"


@dataclass
class _RunResult:
    """Result of one run.

    Attributes:
        issues: The issue that stopped the run, or the issues of the check.
        skipped_reason: Message about nodes that cannot be tried; otherwise empty.
        ports: Ports that were taken, as (node id, name of the port).
    """

    issues: list[Issue] = field(default_factory=list[Issue])
    skipped_reason: str = ""
    ports: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])


async def _run_once(graph: NodeGraph, inputs: Mapping[str, Any], made_up: MadeUpValues, seconds: float) -> _RunResult:
    """Run a workflow once and return the result; errors become issues."""
    result = _RunResult()
    try:
        with tempfile.TemporaryDirectory(prefix="operad-dry-") as folder:
            # a new context, as the dry run is not part of the run that evaluates the workflow
            running = Context().run(
                asyncio.ensure_future, _run_in_folder(graph, inputs, Path(folder), seconds, made_up, result)
            )
            result.issues = await asyncio.wait_for(running, seconds)
    except asyncio.TimeoutError:
        result.issues = [Issue("dry-run", f"took longer than {seconds:g} s")]
    except InvalidError as error:
        result.issues = list(error.issues)
    except Exception as error:  # noqa: BLE001 - every error of an untrusted workflow becomes an issue
        if missing := next((cause for cause in causes(error) if isinstance(cause, MissingExtraError)), None):
            result.skipped_reason = str(missing)
        else:
            where = error.operator_id if isinstance(error, OperatorError) else ""
            result.issues = [Issue("dry-run", describe(error), where or "")]
    return result


async def _run_in_folder(
    graph: NodeGraph, inputs: Mapping[str, Any], folder: Path, seconds: float, made_up: MadeUpValues, result: _RunResult
) -> list[Issue]:
    """Run a workflow in a folder, add the ports taken to the result, and return the issues."""
    ends_without_outputs = {
        node.id for node in graph.nodes if node.type == "end" and not fields_of(node.params).get("outputs")
    }
    finished = set[str]()
    # code runs in a thread: the limit ends code that still runs when the dry run is over, one second later
    limits = CodeLimits(seconds=min(CodeLimits().seconds, seconds + 1))
    services = replace(dry_run_services.services(folder / "made", graph, made_up), code=limits)
    workflow = assemble(graph, NODE_TYPES, services=services, lossy=True)
    start = next((node.id for node in graph.nodes if node.type == "start"), "")
    values = await dry_run_services.inputs_of(graph, folder, {**inputs, **made_up.of(start)})
    stream = workflow.stream(Job(goal=graph.name, inputs=values), dry_run_services.Answers.for_workflow(graph, made_up))
    async for event in stream:
        match event:
            case events.OperatorFinished():
                result.ports.update((event.operator_id, port) for port in event.message.ports or ())
                finished.add(event.operator_id)
            case events.Interrupted():
                answer: Any = plausible(event.schema or {"type": "string"})
                wanted = made_up.of(event.operator_id)
                stream.answer({event.interrupt_id: {**answer, **wanted} if wanted else answer})
            case events.RunFinished() if not event.message.outputs and finished.isdisjoint(ends_without_outputs):
                return [Issue("dry-run", "ended without outputs: no end node was reached with one")]
            case _:
                pass
    return []
