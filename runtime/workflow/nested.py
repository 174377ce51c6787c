"""A workflow as an operator of another one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from pydantic import JsonValue

from operad.runtime.events import Scope, current_scope
from operad.runtime.graph.call import OperatorCall
from operad.runtime.graph.graph import read_outside
from operad.runtime.graph.operator import BaseOperator, as_operator
from operad.runtime.values.errors import Issue, shorten
from operad.runtime.values.map_item import MapItem
from operad.runtime.values.message import WorkflowMessage

if TYPE_CHECKING:
    from operad.runtime.workflow.definition import Definition
    from operad.runtime.workflow.workflow import Workflow


class Within(BaseOperator[Any]):
    """Operator that runs a nested workflow.

    Args:
        workflow: The nested workflow.
    """

    def __init__(self, workflow: Any) -> None:
        self.body: Workflow = workflow

    @property
    def added(self) -> Workflow:
        """The nested workflow."""
        return self.body

    @property
    def runs_workflows(self) -> Sequence[Workflow]:
        """The nested workflow."""
        return (self.body,)

    @property
    def gives_items(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """True if the only last operator of the nested workflow is a map."""
        return self.body.graph().gives_items

    @property
    def stops(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """True unless the nested workflow goes on with a rejected result."""
        return self.body.on_reject != "continue"

    def get_id(self) -> str:
        """Return the name of the nested workflow."""
        return self.body.get_id()

    @property
    def instruction(self) -> str:
        """Description that lists the operators of the nested workflow."""
        return f"A workflow of {shorten([operator.get_id() for operator in self.body.get_operators()])}."

    @property
    def reads(self) -> Sequence[str]:
        """Ids of operators outside of the nested workflow that its operators read."""
        return read_outside([*self.body.graph().operators.values()])

    def check(self, before: Mapping[str, BaseOperator]) -> list[Issue]:
        """Return the issues of the nested workflow."""
        name = self.get_id()
        if contains(self.body, self.body):
            return [Issue("nested-in-itself", "the workflow contains itself; make a second one for the inside", name)]
        found = self.body.graph().check()
        issues = [Issue(i.code, i.message, f"{name}/{i.where}" if i.where else name) for i in found]
        return issues + inside_issues(self.body, name, before, of_map=False)

    def check_inputs(self, inputs: Mapping[str, JsonValue], before: Collection[str]) -> list[Issue]:
        """Return the issues of names in the instructions of the nested workflow."""
        found = self.body.built().check_inputs(inputs, before)
        return [Issue(i.code, i.message, f"{self.get_id()}/{i.where}") for i in found]

    def inputs_read(self, is_first: bool) -> Collection[str] | None:
        """Return the names of the inputs of the job that the operators of the nested workflow read."""
        return self.body.built().inputs_read(is_first)

    def read_output(self, message: WorkflowMessage) -> Any:
        """Return the answer in a message of the nested workflow."""
        return self.body.read_output(message)

    async def run(self, call: OperatorCall) -> WorkflowMessage:
        """Run the workflow inside the current run."""
        return await run_nested(self.body, call)


def inside_issues(body: Workflow, place: str, before: Mapping[str, BaseOperator], *, of_map: bool) -> list[Issue]:
    """Return the issues of the first operators of a workflow that comes after others, or of the body of a map."""
    graph = body.graph()
    first = [each for key, each in graph.operators.items() if not graph.before.get(key)] if before else []
    return [
        Issue(issue.code, issue.message, f"{place}/{issue.where}")
        for operator in first
        for issue in operator.check_inside(before, of_map=of_map)
    ]


async def run_nested(workflow: Workflow, call: OperatorCall, item: MapItem | None = None) -> WorkflowMessage:
    """Run a workflow inside the current operator.

    Args:
        workflow: The workflow.
        call: The input; operators without predecessors get the call's messages.
        item: The item of a map, or the pass of a loop, that the run is for; it replaces the operator's id in paths.
    """
    return await workflow.run_within(inside(), workflow.inner_call(call), item).execute()


def inside() -> Scope:
    """Return the scope of the current operator."""
    scope = current_scope()
    assert scope is not None  # noqa: S101 - operators run in runs
    return scope


def contains(workflow: Definition, wanted: object) -> bool:
    """Return True if a workflow holds an operator or a workflow, however deep inside."""
    open_, seen = [workflow], {id(workflow)}
    while open_:
        for operator in open_.pop().get_operators():
            if operator is wanted:
                return True
            for inner in as_operator(operator).runs_workflows or ():
                if inner is wanted:
                    return True
                if id(inner) not in seen:
                    seen.add(id(inner))
                    open_.append(cast("Definition", inner))
    return False
