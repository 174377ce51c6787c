"""Dry run of a workflow with made-up inputs and answers, which finds faults without calling models or the web.

Answers of models fit the requested schema; without a schema, they are some words, a diagram or JSON, as the prompt asks
for. Every search has the same results, and images are small. Conditions, classes and questions to people get one of
their choices, in as many runs as are needed to take each branch once.

The answers of other systems are unknown, unless the workflow has samples of them. A node that reads such an answer and
fails was not tried; the run goes on with values of the declared types. If the node fails in the same way whatever the
system answers, the failure does not depend on the answer, and is an issue like any other.

A successful dry run shows that the workflow's own code, templates, conditions and files work together. It shows nothing
about the answers of a real model.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextvars import Context
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import Any

from operad.evaluators import dry_run_services
from operad.evaluators.branches import (
    Branch,
    MadeUpValues,
    Reached,
    after,
    branches_of,
    decided_by,
    values_for_branch,
    variants,
    why_not_reached,
)
from operad.evaluators.unknown import ANSWERS, UnknownValues
from operad.flows.assemble import assemble
from operad.flows.formats.shapes import fields_of
from operad.flows.node_graph import NodeGraph
from operad.operators.nodes import NODE_TYPES
from operad.operators.sandbox.code import CodeLimits
from operad.operators.variables import Selector
from operad.runtime import events
from operad.runtime.policies.policy import causes
from operad.runtime.testing import plausible
from operad.runtime.values.errors import InvalidError, Issue, MissingExtraError, OperatorError, describe
from operad.runtime.values.message import Job

LONGEST = 60.0
"""Default time limit of a dry run, in seconds."""

MOST_RUNS = 24
"""Maximum number of runs. Each run after the first is for a branch that no earlier run took."""

_NO_INPUTS: Mapping[str, Any] = {}


@dataclass(frozen=True)
class DryRun:
    """Result of a dry run.

    Attributes:
        issues: The issues that stopped a run, with the code ``dry-run``, or the issues of the check; empty if all runs
            ended. Of further runs, only issues after the branch in question count.
        skipped_reason: Message about nodes that cannot be tried, because a package is not installed; otherwise empty.
        not_tried: Nodes that fail on a made-up answer of another system, and branches that no run took, each with the
            reason.
    """

    issues: tuple[Issue, ...] = ()
    skipped_reason: str = ""
    not_tried: tuple[str, ...] = ()

    @property
    def ended(self) -> bool:
        """True if all runs ended with outputs."""
        return not self.issues and not self.skipped_reason


async def dry_run(
    graph: NodeGraph, inputs: Mapping[str, Any] = _NO_INPUTS, *, seconds: float = LONGEST, open_ends: bool = False
) -> DryRun:
    """Run a workflow with made-up answers, and again with other answers for each branch that was not taken.

    Args:
        graph: The workflow, with samples of the answers of other systems.
        inputs: Values to use for inputs that they fit; for files, names that give the type. Other values are made up.
        seconds: Time limit of all runs together.
        open_ends: True to also take branches that lead to no node, with which platforms such as Dify let a run end.
    """
    runs = _Runs(graph, inputs, seconds)
    first = await runs.once(MadeUpValues())
    if first.issues or first.skipped_reason:
        return DryRun(tuple(first.issues), first.skipped_reason, tuple(first.unknown.values()))
    issues: dict[tuple[str, str], Issue] = {}
    not_taken: list[str] = []
    unknown = {**runs.unused_samples, **first.unknown}
    taken = set(first.run.ports)
    reached: dict[str, Reached] = dict.fromkeys(first.reached, first.run)
    connected = {(edge.source, edge.port) for edge in graph.edges}
    pending = [each for each in branches_of(graph) if open_ends or (each.node, each.port) in connected]
    # a branch is tried from a run that reached its node, whichever way; other runs may reach the nodes of the others
    while branch := next((each for each in pending if each.node in reached), None):
        pending.remove(branch)
        if branch.key in taken:
            continue
        results, reason = await runs.for_branch(branch, reached[branch.node])
        for result in results:
            if not result.issues or branch.key in result.run.ports:
                taken |= result.run.ports
                reached = {**dict.fromkeys(result.reached, result.run), **reached}
        if reason:
            not_taken.append(f"{branch}: {reason}")
            continue
        result = results[-1]
        nodes_after = {"", *after(graph, branch)}
        unknown = {**{node: reason for node, reason in result.unknown.items() if node in nodes_after}, **unknown}
        for issue in result.issues:
            if issue.where in nodes_after:
                where = issue.where or branch.node
                located = replace(issue, message=f"{issue.message} (on {branch})", where=where)
                issues.setdefault((where, issue.message), located)
    not_taken += [f"{branch}: {why_not_reached(graph, branch.node, taken)}" for branch in pending]
    return DryRun(tuple(issues.values()), "", (*unknown.values(), *not_taken))


@dataclass
class _RunResult:
    """Result of one run.

    Attributes:
        issues: The issue that stopped the run, or the issues of the check.
        skipped_reason: Message about nodes that cannot be tried; otherwise empty.
        run: The made-up values, the ports taken, and the values of variables.
        failed: Errors of nodes that read unknown values, by node id.
        unknown: Messages about those of these nodes whose errors depend on the unknown values, by node id.
    """

    issues: list[Issue] = field(default_factory=list[Issue])
    skipped_reason: str = ""
    run: Reached = field(default_factory=Reached)
    failed: dict[str, str] = field(default_factory=dict[str, str])
    unknown: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def reached(self) -> set[str]:
        """Ids of nodes with branches that were reached."""
        return {node for node, _ in self.run.ports}


class _Runs:
    """Runs of a workflow.

    Args:
        inputs: Values to use for inputs that they fit.
        seconds: Time limit of all runs together.
    """

    def __init__(self, graph: NodeGraph, inputs: Mapping[str, Any], seconds: float) -> None:
        self._graph = graph
        self._inputs = inputs
        self._limit = seconds
        self._deadline = monotonic() + seconds
        self._unknown = UnknownValues(graph)
        self._runs_left = MOST_RUNS - 1

    @property
    def unused_samples(self) -> dict[str, str]:
        """Messages about samples that no run uses, by node id."""
        unused = self._unknown.unused_samples().items()
        return {node: f"the sample for node {node} is not used: {reason}" for node, reason in unused}

    async def for_branch(self, branch: Branch, reached: Reached) -> tuple[list[_RunResult], str]:
        """Run with one set of made-up values after another until a run takes a branch.

        Returns:
            The results, and the reason why no run took the branch; empty if the last one took it.
        """
        made_up = values_for_branch(self._graph, branch, reached)
        if isinstance(made_up, str):
            return [], made_up
        results: list[_RunResult] = []
        for tried in (*made_up, *(variants(self._graph, made_up[-1]) if made_up[-1].is_derived else ())):
            if self._runs_left <= 0 or monotonic() >= self._deadline:
                break
            self._runs_left -= 1
            results.append(await self.once(tried))
            if branch.key in results[-1].run.ports:
                return results, ""
        return results, self._why_not_taken(branch, reached, results)

    def _why_not_taken(self, branch: Branch, reached: Reached, results: Sequence[_RunResult]) -> str:
        """Return the reason why no run took a branch whose node was reached."""
        if not results:
            limit = f"{MOST_RUNS} runs" if self._runs_left <= 0 else f"{self._limit:g} s"
            return f"not tried, as the dry run ended after {limit}"
        there = [result.run for result in results if branch.node in result.reached]
        asked = self._unknown.readers(self._unknown.asking & self._graph.samples.keys())
        if there and (decided := decided_by(self._graph, branch, [reached, *there], asked)):
            return decided
        stopped = [result.skipped_reason or "; ".join(issue.message for issue in result.issues) for result in results]
        return f"the run stopped before: {stopped[0]}" if stopped[0] else "the run went another way"

    async def once(self, made_up: MadeUpValues) -> _RunResult:
        """Run once, and again with other answers of other systems if nodes fail that read such answers."""
        chosen = {node for node, _ in made_up.values}  # answers that lead to a branch replace samples
        sampled = self._unknown.asking & self._graph.samples.keys() - chosen
        readers = self._unknown.readers(self._unknown.asking - sampled)
        graph = self._unknown.going_on(readers)
        result = await self._with_answer(graph, made_up, ANSWERS[0], readers)
        replaced = chosen | result.failed.keys()  # nodes whose values do not differ with the answer
        always = {node: error for node, error in result.failed.items() if readers[node].isdisjoint(replaced)}
        for answer in ANSWERS[1:]:
            if always:
                other = await self._with_answer(graph, made_up, answer, readers)
                always = {node: error for node, error in always.items() if other.failed.get(node) == error}
        result.issues += [Issue("dry-run", error, node) for node, error in always.items()]
        result.issues = list(self._with_samples(result.issues, sampled))
        for node, error in result.failed.items():
            if node not in always:
                asked = ", ".join(sorted(readers[node] & self._unknown.asking))
                result.unknown[node] = (
                    f"node {node} ({self._graph.by_id[node].type}): it reads what node {asked} is answered, which is "
                    f"unknown, and fails on a made-up answer; a sample of the answer would try it: {error}"
                )
        return result

    def _with_samples(self, issues: Sequence[Issue], sampled: Collection[str]) -> Iterator[Issue]:
        """Yield issues, those of nodes that read samples with the nodes that the samples are for."""
        readers = self._unknown.readers(sampled if issues else ())
        for issue in issues:
            if used := sorted(readers.get(issue.where, frozenset()) & self._unknown.asking):
                what = f"with the sample of what node {', '.join(used)} is answered"
                issue = replace(issue, message=f"{issue.message} ({what})")
            yield issue

    async def _with_answer(
        self, graph: NodeGraph, made_up: MadeUpValues, answer: Any, readers: Collection[str]
    ) -> _RunResult:
        """Run with an answer of other systems; errors become issues, or failures of nodes that read such answers."""
        result = _RunResult(run=Reached(made_up))
        seconds = max(self._deadline - monotonic(), 0.0)
        try:
            with tempfile.TemporaryDirectory(prefix="operad-dry-") as folder:
                run = self._in_folder(Path(folder), graph, made_up, answer, readers, result, seconds)
                # a new context, as the dry run is not part of the run that evaluates the workflow
                running = Context().run(asyncio.ensure_future, run)
                result.issues = await asyncio.wait_for(running, seconds)
        except TimeoutError:
            result.issues = [Issue("dry-run", f"took longer than {self._limit:g} s")]
        except InvalidError as error:
            result.issues = list(error.issues)
        except Exception as error:  # noqa: BLE001 - every error of an untrusted workflow becomes an issue
            where = (error.operator_id if isinstance(error, OperatorError) else "") or ""
            if missing := next((cause for cause in causes(error) if isinstance(cause, MissingExtraError)), None):
                result.skipped_reason = str(missing)
            elif where in readers:
                result.failed.setdefault(where, describe(error))
            else:
                result.issues = [Issue("dry-run", describe(error), where)]
        return result

    async def _in_folder(
        self,
        folder: Path,
        graph: NodeGraph,
        made_up: MadeUpValues,
        answer: Any,
        readers: Collection[str],
        result: _RunResult,
        seconds: float,
    ) -> list[Issue]:
        """Run in a folder, add ports taken and nodes that failed to the result, and return the issues."""
        ends_without_outputs = {
            node.id for node in graph.nodes if node.type == "end" and not fields_of(node.params).get("outputs")
        }
        finished = set[str]()
        # code runs in a thread: the limit ends code that still runs when the dry run is over, one second later
        limits = CodeLimits(seconds=min(CodeLimits().seconds, seconds + 1))
        services = replace(dry_run_services.services(folder / "made", graph, made_up, answer), code=limits)
        workflow = assemble(graph, NODE_TYPES, services=services, lossy=True)
        start = next((node.id for node in graph.nodes if node.type == "start"), "")
        values = await dry_run_services.inputs_of(graph, folder, {**self._inputs, **made_up.of(start)})
        job = Job(goal=graph.name, inputs=values)
        stream = workflow.stream(job, dry_run_services.Answers.for_workflow(graph, made_up))
        async for event in stream:
            match event:
                case events.OperatorFinished():
                    result.run.ports.update((event.operator_id, port) for port in event.message.ports or ())
                    outputs = event.message.outputs.items()
                    result.run.values.update((Selector(name, event.operator_id), value) for name, value in outputs)
                    finished.add(event.operator_id)
                case events.FellBack() if event.operator_id in readers:
                    result.failed.setdefault(event.operator_id, event.error)
                case events.Interrupted():
                    reply: Any = plausible(event.schema or {"type": "string"})
                    wanted = made_up.of(event.operator_id)
                    stream.answer({event.interrupt_id: {**reply, **wanted} if wanted else reply})
                case events.RunFinished() if not event.message.outputs and finished.isdisjoint(ends_without_outputs):
                    return [Issue("dry-run", "ended without outputs: no end node was reached with one")]
                case _:
                    pass
        return []
