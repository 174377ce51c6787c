"""Workflows from words: an expert that designs them, and what it came to."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from pydantic import JsonValue

from operad.configs.code import Trust
from operad.configs.loader import load
from operad.flows.edit.difference import Difference, difference
from operad.flows.formats.chat2workflow import dump
from operad.flows.generation.comfyui.continued import continued
from operad.flows.generation.comfyui.designer import CODE
from operad.flows.generation.designer import EXAMPLE, ROUNDS, WORKFLOW
from operad.flows.generation.graph_json import to_json, with_originals, workflow_of
from operad.flows.generation.plan import read_plan
from operad.flows.generation.prompts import planned
from operad.flows.generation.store import nearest_example
from operad.flows.node_graph import NodeGraph
from operad.runtime.agents.agent import Expert
from operad.runtime.events import Event
from operad.runtime.models.model import Model
from operad.runtime.values.errors import BudgetError, InputError, OperatorError, describe
from operad.runtime.values.message import Job, WorkflowMessage, WorkflowStatus
from operad.runtime.values.sync import run_sync

DESIGNER = "designer"
"""The configuration that comes with operad."""

NOTHING = NodeGraph(name="workflow")


@dataclass(frozen=True)
class Design:
    """What became of an instruction.

    Attributes:
        graph: The workflow: the best that was made, or the one that was there, where none was.
        base: The workflow that was there; without nodes where there was none.
        message: What the expert said in the end.
        error: What the run broke off with; None where it came to its end.
    """

    graph: NodeGraph
    base: NodeGraph
    message: WorkflowMessage
    error: BudgetError | OperatorError | None = None

    @property
    def made(self) -> bool:
        """Whether a workflow was made at all."""
        return self.graph is not self.base

    @property
    def accepted(self) -> bool:
        """Whether a workflow was made, and nothing of it is left to mend."""
        return self.made and self.message.status is WorkflowStatus.SUCCESS

    @property
    def findings(self) -> Sequence[str]:
        """What is left to mend."""
        return [str(each) for each in cast("Sequence[Any]", self.message.outputs.get("findings", ()))]

    @property
    def plan(self) -> Sequence[str]:
        """What was planned, a line for each node that is new, changed or led to anew."""
        plan: Any = self.message.outputs.get("plan")
        return planned(read_plan(plan)).splitlines() if plan else []

    @property
    def repairs(self) -> Sequence[str]:
        """What rules mended without asking, in the last round."""
        return [str(each) for each in cast("Sequence[Any]", self.message.outputs.get("repairs", ()))]

    @cached_property
    def changes(self) -> Difference:
        """What makes it of the workflow that was there."""
        return difference(self.base, self.graph)


class Designer:
    """Makes workflows of typed nodes from instructions, and changes them (Chat2Workflow, section 2.2).

        design = Designer().design("Sum up a paper (variable paper). Output the summary (variable summary).")
        more = Designer().design("Also translate it into French (variable french).", design.graph)

    Args:
        model: Who is asked; None for whom the configuration or the environment names.
        config: The configuration of the expert: a YAML file, or the name of one that comes with operad.
        model_name: The model's name at its endpoint, instead of the configuration's.
        base_url: An endpoint, instead of the configuration's.
        store: A folder of workflows with their instructions; the one that was made from the likest words is an example.
        trust: Whether the code that the configuration names may run; see `load`.

    Raises:
        InputError: There is no such configuration.
        InvalidError: It is not right; every issue is listed.
    """

    def __init__(
        self,
        model: Model | None = None,
        *,
        config: str | Path = DESIGNER,
        model_name: str | None = None,
        base_url: str | None = None,
        store: Path | None = None,
        trust: Trust = False,
    ) -> None:
        self._store = store
        self.expert: Expert = load(config, trust=trust).expert(model=model, model_name=model_name, base_url=base_url)

    def job(self, instruction: str, base: NodeGraph = NOTHING) -> Job:
        """An instruction as a job of the expert.

        Args:
            instruction: What is asked for.
            base: The workflow that is there, with the instructions that it was made from.

        Raises:
            InputError: The instruction is empty; there is no such folder of workflows.
        """
        if not instruction.strip():
            raise InputError(
                "the instruction is empty: say what the workflow is given, what it does, and what it outputs"
            )
        inputs: dict[str, JsonValue] = {}
        if base.nodes:
            inputs = {WORKFLOW: to_json(base), ROUNDS: list[JsonValue](base.instructions)}
        if self._store and (example := nearest_example(self._store, instruction)):
            inputs[EXAMPLE] = {"says": example.says, "workflow": dump(replace(example.graph, extra={})).decode()}
        return Job(goal=instruction.strip(), inputs=inputs)

    def design(self, instruction: str, base: NodeGraph = NOTHING) -> Design:
        """Make a workflow, or change one, and wait for it; for callers without an event loop. See `adesign`.

        Raises:
            RunningLoopError: An event loop is running here: await `adesign` instead.
        """
        return run_sync(lambda: self.adesign(instruction, base), instead="Designer.adesign(…)")

    async def adesign(self, instruction: str, base: NodeGraph = NOTHING) -> Design:
        """Make a workflow, or change one: nodes that the instruction does not concern stay the very same.

        Args:
            instruction: What is asked for.
            base: The workflow that is there.

        Raises:
            InputError: The instruction is empty.
            ModelError: The endpoint fails, and nothing was written before.
        """
        job = self.job(instruction, base)
        try:
            message = await self.expert.aexecute(job)
        except (BudgetError, OperatorError) as error:
            return best_so_far(error, job, base)
        return result(message, job, base)

    def stream(self, instruction: str, base: NodeGraph = NOTHING) -> AsyncGenerator[Event, None]:
        """The same, yielding the events of the run; `result` makes a design of the last one's message."""
        return self.expert.stream(self.job(instruction, base))


def result(message: WorkflowMessage, job: Job, base: NodeGraph) -> Design:
    """What the expert's last message comes to.

    Args:
        message: The message.
        job: The job that it was for.
        base: The workflow that was there.
    """
    made = _made(message, job, base)
    if made is None:
        return Design(base, base, message)
    return Design(replace(made, instructions=(*base.instructions, job.goal)), base, message)


def _made(message: WorkflowMessage, job: Job, base: NodeGraph) -> NodeGraph | None:
    """The workflow of a message, of typed nodes or ComfyUI's; None where there is none."""
    code = message.outputs.get(CODE)
    if isinstance(code, str):
        return continued(code, str(job.inputs.get(CODE) or ""), base)
    made = workflow_of(message.outputs)
    return made if made is None else with_originals(made, base)


def best_so_far(error: BudgetError | OperatorError, job: Job, base: NodeGraph) -> Design:
    """What had been made when a run broke off.

    Raises:
        BudgetError, OperatorError: Nothing had been made; the error itself.
    """
    for message in reversed(list(error.finished.values())):
        if _made(message, job, base) is not None:
            ended = message.model_copy(
                update={"status": WorkflowStatus.EXECUTION_ERROR, "evaluation": f"the run broke off: {describe(error)}"}
            )
            return replace(result(ended, job, base), error=error)
    raise error
