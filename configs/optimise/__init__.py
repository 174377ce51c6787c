"""Search for a better workflow, by changes that a model proposes, and tasks or cases that score them."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, overload

from operad.configs.optimise import search
from operad.configs.optimise.flows import FlowCandidate, OptimisedFlow, aoptimise_flow
from operad.configs.optimise.search import Optimised
from operad.configs.optimise.state import Candidate, State, Step
from operad.configs.optimise.trial import Result
from operad.runtime.evaluation.cases import CasesLike
from operad.runtime.values.sync import run_sync
from operad.runtime.workflow.evaluate import Evaluators
from operad.runtime.workflow.workflow import Workflow

__all__ = [
    "Candidate",
    "FlowCandidate",
    "Optimised",
    "OptimisedFlow",
    "Result",
    "State",
    "Step",
    "aoptimise",
    "optimise",
]


@overload
def optimise(subject: Workflow, tasks: CasesLike, evaluators: Evaluators = None, **options: Any) -> OptimisedFlow: ...
@overload
def optimise(subject: str | Path, tasks: str | Path, **options: Any) -> Optimised: ...
def optimise(subject: Any, tasks: Any, *evaluators: Any, **options: Any) -> Any:
    """Search for a better workflow, and wait for it; for callers without an event loop.

    Arguments, result and errors are those of `aoptimise`.

    Raises:
        RunningLoopError: An event loop is running here: await `aoptimise` instead.
    """
    start: Any = partial(aoptimise, subject, tasks, *evaluators, **options)
    return run_sync(start, instead="aoptimise(…)")


@overload
async def aoptimise(
    subject: Workflow, tasks: CasesLike, evaluators: Evaluators = None, **options: Any
) -> OptimisedFlow: ...
@overload
async def aoptimise(subject: str | Path, tasks: str | Path, **options: Any) -> Optimised: ...
async def aoptimise(subject: Workflow | str | Path, tasks: Any, *evaluators: Any, **options: Any) -> Any:
    """Search for a better workflow.

    Args:
        subject: A workflow in Python, or a configuration file.
        tasks: For a workflow, its cases, as for `Workflow.evaluate`; for a configuration file, a file of tasks.
        evaluators: For a workflow, the evaluators, as for `Workflow.evaluate`.
        options: For a workflow, those of `flows.aoptimise_flow`; for a file, those of `search.aoptimise`.

    Returns:
        For a workflow, an `OptimisedFlow`; for a configuration file, an `Optimised`.
    """
    if isinstance(subject, Workflow):
        return await aoptimise_flow(subject, tasks, *evaluators, **options)
    return await search.aoptimise(subject, tasks, *evaluators, **options)
