"""A dry run: a workflow is run to its end with made-up inputs and answers, so that what breaks it is found for nothing.

Models say what fits the schema that they are asked for; where they are asked in free words, some words, a diagram or
JSON, as the prompt names it. The web answers every address with a page, searches find the same, images are small ones.
So an end says that the workflow's own code, templates, conditions and files hold together. It says nothing of what a
real model would answer.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import Mapping
from contextvars import Context
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from operad.evaluators import stand_ins
from operad.flows.assemble import assemble
from operad.flows.node_graph import NodeGraph
from operad.operators.nodes import NODE_TYPES
from operad.operators.sandbox.code import CodeLimits
from operad.runtime import events
from operad.runtime.policies.policy import causes
from operad.runtime.values.errors import InvalidError, Issue, MissingExtraError, OperatorError, describe
from operad.runtime.values.message import Job

LONGEST = 60.0
"""Seconds that a dry run takes at most."""

_NO_INPUTS: Mapping[str, Any] = {}


@dataclass(frozen=True)
class DryRun:
    """What came of a dry run.

    Attributes:
        issues: What stopped it, of the code ``dry-run``, or, before it began, all that the check finds; none if it ended.
        untried: What could not be tried, as a package is not installed; empty where all could.
        ran: How many nodes ran to their end, by type.
        failed: How many failed, by type.
    """

    issues: tuple[Issue, ...] = ()
    untried: str = ""
    ran: Counter[str] = field(default_factory=Counter[str])
    failed: Counter[str] = field(default_factory=Counter[str])

    @property
    def ended(self) -> bool:
        """Whether it came to its end, with outputs."""
        return not self.issues and not self.untried


async def dry_run(graph: NodeGraph, inputs: Mapping[str, Any] = _NO_INPUTS, *, seconds: float = LONGEST) -> DryRun:
    """Run a workflow with made-up answers.

    Args:
        graph: The workflow.
        inputs: Values for its inputs, where they fit; of files, names that tell their kinds. Others are made up.
        seconds: How long it may take.
    """
    types = {node.id: node.type for node in graph.nodes}
    ran, failed = Counter[str](), Counter[str]()

    async def run(folder: Path) -> list[Issue]:
        # A snippet runs in a thread: one that goes on when the dry run is over ends a second later.
        limits = CodeLimits(seconds=min(CodeLimits().seconds, seconds + 1))
        workflow = assemble(
            graph, NODE_TYPES, services=replace(stand_ins.services(folder / "made"), code=limits), lossy=True
        )
        values = await stand_ins.inputs_of(graph, folder, inputs)
        stream = workflow.stream(Job(goal=graph.name, inputs=values), stand_ins.Answers.about(graph))
        async for event in stream:
            if isinstance(event, events.OperatorFinished):
                ran[types.get(event.operator_id, "")] += 1
            elif isinstance(event, events.OperatorFailed):
                failed[types.get(event.operator_id, "")] += 1
            elif isinstance(event, events.RunFinished) and not event.message.outputs:
                return [Issue("dry-run", "ended without outputs: no end node was reached with one")]
        return []

    try:
        with tempfile.TemporaryDirectory(prefix="operad-dry-") as folder:
            # In a context of its own: it is no part of the run that it may be judged in.
            running = Context().run(asyncio.ensure_future, run(Path(folder)))
            issues = await asyncio.wait_for(running, seconds)
    except asyncio.TimeoutError:
        issues = [Issue("dry-run", f"took longer than {seconds:g} s")]
    except InvalidError as error:
        issues = list(error.issues)
    except Exception as error:  # noqa: BLE001 - whatever a workflow of somebody else raises, it is said
        if missing := next((each for each in causes(error) if isinstance(each, MissingExtraError)), None):
            return DryRun(untried=str(missing), ran=ran, failed=failed)
        where = error.operator_id if isinstance(error, OperatorError) else ""
        issues = [Issue("dry-run", describe(error), where or "")]
    return DryRun(tuple(issues), "", ran, failed)
