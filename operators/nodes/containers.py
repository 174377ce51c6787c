"""Nodes that run other nodes: iteration, loop and sub-workflow."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple, cast

from pydantic import Field, JsonValue

from operad.operators.conditions import Condition, condition_fault, holds
from operad.operators.node import (
    ADVANCED,
    Fault,
    NodeCall,
    NodeError,
    NodeOperator,
    NodeParams,
    NodeResult,
    ParamsT,
    Reference,
    TypeOf,
    references_in,
)
from operad.operators.nodes.flow import Start, duplicate_faults, items_of
from operad.operators.nodes.values import Argument, Declared
from operad.operators.variables import (
    ARRAYS,
    Accepts,
    Selector,
    Values,
    Variables,
    VariableType,
    fits,
    part_type,
    plain,
    selectors_in,
    short_json,
)
from operad.runtime.graph.call import OperatorCall
from operad.runtime.values.errors import BudgetError, InputError, OperadError, describe, did_you_mean
from operad.runtime.values.file import FileDescriptor
from operad.runtime.values.map_item import MapItem
from operad.runtime.values.message import Job, WorkflowMessage
from operad.runtime.workflow.base_workflow import run_nested
from operad.runtime.workflow.map import Calls, for_each
from operad.runtime.workflow.workflow import Workflow

T = VariableType


class NoParams(NodeParams):
    """Parameters of a type without any."""


class _Marker(NodeOperator[NoParams]):
    """Node without work of its own, which marks a place inside a container."""

    params_type = NoParams

    async def compute(self, call: NodeCall) -> Values:
        """Do nothing."""
        return {}


class IterationStart(_Marker):
    """Begins what an iteration runs for each item; it is the first node inside."""

    type = "iteration-start"


class IterationParams(NodeParams):
    """A list, and what to keep of each item."""

    iterator_selector: Annotated[Selector, Accepts(ARRAYS)] = Field(description="The list.")
    output_selector: Selector = Field(description="What each item comes to: a variable of a node inside.")
    concurrency: int = Field(default=10, ge=1, le=1000, description="How many items at once.")
    flatten_output: Annotated[bool, ADVANCED] = Field(
        default=True, description="Whether results that are lists are joined to one."
    )
    on_error: Literal["fail", "skip", "keep"] = Field(
        default="fail",
        description="What an item that fails does: ends the run, is left out, or leaves a null in its place.",
    )


class _Container(NodeOperator[ParamsT]):
    """Node whose body may assign variables of the conversation, which later passes and later nodes read."""

    def _current_conversation(self, call: NodeCall, carried: Values) -> tuple[Values, Sequence[str]] | None:
        """Return the current values of the conversation's variables that nodes inside assign, and their assigners.

        Args:
            call: Call of the container.
            carried: The values that nodes inside have assigned so far, by the whole name of the variable.
        """
        if not self._carried:
            return None
        values = {each.variable: carried.get(str(each), call.get(each)) for each in self._carried}
        return values, [assigner for each in self._carried for assigner in self._assigned.get(each, ())]


class Iteration(_Container[IterationParams]):
    """Runs the nodes inside of it, whose ids begin with its own and a hyphen, once for each item of a list.

    Inside, the item is [item, id of the iteration] and its place, from 0, [index, id of the iteration].
    Results keep the order of the list; results that are lists are joined into one list. A variable of the conversation
    that an item assigns has the new value for the items that begin after it has ended, and after the iteration; of items
    at the same time, the last one in the list counts.
    """

    type = "iteration"
    params_type = IterationParams
    hint = "Runs the nodes inside for each item; lists are joined into one. A failed item ends the run, is left out (skip) or null (keep)."
    answer_output = "output"
    gives = "output (a list: output_selector of each item); inside only: item, index (number)"
    example = {"iterator_selector": ["chapters", "2"], "output_selector": ["text", "3-2"]}
    body_starts_with = IterationStart.type

    @property
    def runs_workflows(self) -> Sequence[Workflow]:
        """The body."""
        return (_body(self),)

    def outputs(self, type_of: TypeOf) -> Mapping[str, VariableType]:
        """Return the type of ``output``: a list of the items' results."""
        kind = type_of(self.params.output_selector)
        nested = kind.item is not None and not self.params.flatten_output
        return {"output": T.ARRAY if nested else kind.array}

    def inside(self, type_of: TypeOf) -> Mapping[str, VariableType]:
        """Return the types of ``item`` and ``index``."""
        return {"item": type_of(self.params.iterator_selector).item or T.ANY, "index": T.NUMBER}

    @property
    def results(self) -> Sequence[tuple[str, Selector]]:
        """The variable inside that is the result of each item."""
        return [("output_selector", self.params.output_selector)]

    async def compute(self, call: NodeCall) -> NodeResult:
        """Run the body for each item."""
        carried: dict[str, Any] = {}

        def call_for(item: Any, index: int) -> OperatorCall:
            own = {"item": item, "index": index}
            return _inner_call(call, self.get_id(), own, self._current_conversation(call, carried))

        def carry(_: OperatorCall, message: WorkflowMessage) -> WorkflowMessage:
            carried.update(message.outputs["assigned"])
            return message

        outcomes = await for_each(
            _body(self),
            Calls(items_of(self, call, self.params.iterator_selector), call_for, self.get_id()),
            self.get_id(),
            concurrency=self.params.concurrency,
            on_error=self.params.on_error,
            keep=carry,
        )
        results: list[Any] = [
            outcome.outputs["results"][0] if isinstance(outcome, WorkflowMessage) else None for outcome in outcomes.said
        ]
        present = [value for value in results if value is not None]
        if self.params.flatten_output and present and all(isinstance(value, list) for value in present):
            results = [each for value in cast("list[list[Any]]", present) for each in value]
        finished = [each for each in outcomes.said if isinstance(each, WorkflowMessage)]
        assigned = {name: value for each in finished for name, value in each.outputs["assigned"].items()}
        return NodeResult({"output": results, **assigned}, parts=tuple(each for each in finished if each.parts))


def _body(node: NodeOperator[Any]) -> Workflow:
    if node.body is None:
        raise InputError(f"node {node.get_id()!r} ({node.type}) has no body; give it one")
    return node.body


def _inner_call(
    call: NodeCall, node_id: str, variables: Values, conversation: tuple[Values, Sequence[str]] | None = None
) -> OperatorCall:
    """Return the call of the nodes inside: with the node's own variables, and the messages of nodes outside.

    Args:
        call: Call of the node.
        node_id: Id of the node.
        variables: Variables of the node for the nodes inside.
        conversation: Current values of variables of the conversation, and ids of the nodes outside whose assignments of
            these variables are outdated.
    """
    own_message = WorkflowMessage(outputs=dict(variables), operator_id=node_id, job_id=call.job.id)
    outside = [message for message in call.messages if message.operator_id != node_id]
    if conversation is not None:
        values, outdated = conversation
        outside = [
            message.model_copy(update={"outputs": {**message.outputs, **values}})
            if message.operator_id == "conversation"
            else message
            for message in outside
            if message.operator_id not in outdated
        ]
    return OperatorCall(call.reasoner, call.job, (own_message, *outside), call.previous, call.lesson)


class LoopStart(_Marker):
    """Begins each pass of a loop; it is the first node inside."""

    type = "loop-start"


class LoopEnd(_Marker):
    """Ends the loop around it, once the pass is over."""

    type = "loop-end"


class LoopVariable(NamedTuple):
    """A variable that passes change."""

    name: Annotated[str, Field(min_length=1, description="Its name.")]
    type: Annotated[VariableType, Field(description="Its type.")]
    value: Annotated[
        Selector | JsonValue,
        Field(
            description="Its value before the first pass: a variable, or a value itself.",
            union_mode="left_to_right",
        ),
    ] = None


class LoopParams(NodeParams):
    """Number of passes, variables and conditions."""

    loop_count: int = Field(ge=1, le=1000, description="How many passes at most.")
    variables: list[LoopVariable] = Field(
        default_factory=list[LoopVariable],
        description="Variables that assigner nodes inside change from pass to pass.",
    )
    logic: Literal["and", "or"] = Field(
        default="and", description="Whether all conditions must hold to end it, or one."
    )
    break_conditions: list[Condition] = Field(
        default_factory=list[Condition],
        description="When it ends, looked at before each pass; of a node inside, what it gave in the pass before.",
    )
    lists: Annotated[list[Argument], ADVANCED] = Field(
        default_factory=list[Argument],
        description="Lists that it goes through: inside, each name is the item of the pass. It ends with the shortest.",
    )
    collected: Annotated[list[Argument], ADVANCED] = Field(
        default_factory=list[Argument],
        description="Outputs by name: a list of what a variable of a node inside was in each pass, without null, or a "
        "variable of the loop itself.",
    )


class Loop(_Container[LoopParams]):
    """Runs the nodes inside of it pass after pass, until its conditions hold, a loop-end inside ran, or it has run often enough.

    Its variables are id.name with the id of the loop, inside as well; inside, its index counts passes from 0.
    """

    type = "loop"
    sequential = True
    params_type = LoopParams
    hint = "Repeats the nodes inside until the conditions, also on nodes inside, hold; assigners inside change its variables."
    gives = "its variables, and rounds (number); inside also: index (number)"
    example = {
        "loop_count": 10,
        "variables": [["draft", "string", ["text", "2"]], ["good", "boolean", False]],
        "break_conditions": [[["good", "7"], "is", "true"]],
    }
    body_starts_with = LoopStart.type

    @property
    def runs_workflows(self) -> Sequence[Workflow]:
        """The body."""
        return (_body(self),)

    def outputs(self, type_of: TypeOf) -> Mapping[str, VariableType]:
        """Return the types of the loop's variables, of the collected lists and of ``rounds``."""
        own = {variable.name: variable.type for variable in self.params.variables}
        collected = {
            name: own.get(value.variable, T.ANY) if value.node == self.get_id() else type_of(value).array
            for name, value in self.params.collected
        }
        return {**own, **collected, "rounds": T.NUMBER}

    def inside(self, type_of: TypeOf) -> Mapping[str, VariableType]:
        """Return the types of the loop's variables, of the items of its lists and of ``index``."""
        items = {name: type_of(value).item or T.ANY for name, value in self.params.lists}
        return {variable.name: variable.type for variable in self.params.variables} | items | {"index": T.NUMBER}

    @cached_property
    def references(self) -> Sequence[Reference]:
        """Variables of other nodes that the lists, the initial values and the conditions refer to."""
        inside = self.body.graph().operators if self.body else ()
        lists = [each._replace(accepts=ARRAYS) for each in self._references("lists")]
        initial = [*lists, *self._references("variables")]
        return [*initial, *(each for each in self._references("break_conditions") if each.selector.node not in inside)]

    def _references(self, name: str) -> Sequence[Reference]:
        """Return the variables of other nodes that a parameter refers to."""
        found = references_in(LoopParams, {name: getattr(self.params, name)})
        return [each for each in found if each.selector.node != self.get_id()]

    @property
    def results(self) -> Sequence[tuple[str, Selector]]:
        """Variables that the conditions refer to after a pass, of nodes inside and before the loop, and collected ones."""
        return [
            (each.where, each.selector) for name in ("break_conditions", "collected") for each in self._references(name)
        ]

    def faults(self, type_of: TypeOf) -> Iterator[Fault]:
        """Yield faults: duplicate names, initial values of a wrong type, and conditions that are invalid here."""
        names = [variable.name for variable in self.params.variables]
        yield from duplicate_faults("variables", [*names, *(name for name, _ in self.params.lists)])
        yield from duplicate_faults("collected", [name for name, _ in self.params.collected])
        for name, value in self.params.collected:
            if value.node == self.get_id() and value.variable not in names:
                yield Fault("collected", f"{name!r}: {value.variable!r} is not a variable of this loop")
        for number, variable in enumerate(self.params.variables):
            initial = variable.value
            if not isinstance(initial, Selector) and not fits(initial, variable.type):
                yield Fault(f"variables[{number}]", f"{short_json(initial)} is not a valid {variable.type.value}")
        own = self.inside(type_of)
        for number, condition in enumerate(self.params.break_conditions):
            where = f"break_conditions[{number}]"
            selector = condition.variable
            name, _, part = selector.variable.partition(".")
            is_own = selector.node == self.get_id()
            kind = part_type(own.get(name, T.STRING), part) if is_own else type_of(selector)
            if is_own and (name not in own or kind is None):
                known = ", ".join(own)
                yield Fault(
                    where, f"{str(selector)!r} is not a variable of this loop{did_you_mean(name, own)}; it has: {known}"
                )
            elif fault := condition_fault(condition, kind or T.ANY):
                yield Fault(where, fault)

    async def compute(self, call: NodeCall) -> NodeResult:
        """Run the body until the conditions hold, a loop-end ran, or the maximum number of passes is reached."""
        values = {
            variable.name: call.get(variable.value) if isinstance(variable.value, Selector) else variable.value
            for variable in self.params.variables
        }
        passes = 0
        lists = {name: items_of(self, call, value) for name, value in self.params.lists}
        shortest = min(map(len, lists.values()), default=self.params.loop_count)
        if shortest > self.params.loop_count:
            raise NodeError(
                f"{self._who}: its lists have {shortest:,} items, and loop_count is {self.params.loop_count}"
            )
        collected: dict[str, list[Any]] = {name: [] for name, _ in self.params.collected}
        carried: dict[str, Any] = {}
        parts: list[WorkflowMessage] = []
        own_names = {variable.name for variable in self.params.variables}
        inside_ids = _body(self).graph().operators
        others = {selector: call.get(selector) for _, selector in self.results if selector.node not in inside_ids}
        while passes < shortest and not self._has_ended({**values, "index": passes}, others):
            own = {**values, **{name: items[passes] for name, items in lists.items()}, "index": passes}
            inside = _inner_call(call, self.get_id(), own, self._current_conversation(call, carried))
            try:
                message = await run_nested(_body(self), inside, MapItem(self.get_id(), passes))
            except BudgetError:
                raise
            except Exception as error:
                raise OperadError(f"pass {passes} of loop {self.get_id()!r}: {describe(error)}") from error
            assigned = message.outputs["assigned"]
            values |= {name: value for name, value in assigned.items() if name in own_names}
            carried |= {name: value for name, value in assigned.items() if name not in own_names}
            others = {
                selector: value for (_, selector), value in zip(self.results, message.outputs["results"], strict=True)
            }
            for name, selector in self.params.collected:
                collected[name] += [] if (value := others.get(selector)) is None else [value]
            parts += [message] if message.parts else []
            passes += 1
            if message.outputs["ended"]:
                break
        own = {name: values.get(each.variable) for name, each in self.params.collected if each.node == self.get_id()}
        return NodeResult({**values, **collected, **own, "rounds": passes, **carried}, parts=tuple(parts))

    def _has_ended(self, values: Values, others: Mapping[Selector, Any]) -> bool:
        """Return True if the conditions for the end of the loop hold.

        Args:
            values: The variables of the loop, by name.
            others: The other variables of the conditions. Before the first pass, those of nodes inside are missing:
                from the first condition on such a variable on, none is looked at, and the loop goes on, as in Dify.
        """
        outputs: dict[str, Values] = {self.get_id(): values}
        for selector, value in others.items():
            outputs[selector.node] = {**outputs.get(selector.node, {}), selector.variable: value}
        messages = [WorkflowMessage(outputs=dict(each), operator_id=node_id) for node_id, each in outputs.items()]
        variables = Variables(messages, writing=self._writing)
        ends_with_one = self.params.logic == "or"
        for condition in self.params.break_conditions:
            needed = [selector for _, selector, _ in selectors_in(condition)]
            if any(each.node != self.get_id() and each not in others for each in needed):
                return False
            if holds(condition, variables) is ends_with_one:
                return ends_with_one
        return bool(self.params.break_conditions) and not ends_with_one


class SubWorkflowParams(NodeParams):
    """A workflow by its name."""

    workflow: str = Field(description="The name of the workflow.")
    inputs: list[Argument] = Field(default_factory=list[Argument], description="Its inputs.")
    outputs: list[Declared] = Field(default_factory=list[Declared], description="Its results.")


class SubWorkflow(NodeOperator[SubWorkflowParams]):
    """Runs another workflow, with its own start and end."""

    type = "sub-workflow"
    params_type = SubWorkflowParams
    gives = "the declared results of that workflow"
    example = {"workflow": "translate", "inputs": [["text", ["text", "2"]]], "outputs": [["translation", "string"]]}

    @property
    def runs_workflows(self) -> Sequence[Workflow]:
        """The workflow with the name of the parameter, if it exists."""
        return [w for name, w in self.services.workflows.items() if name == self.params.workflow]

    def outputs(self, type_of: TypeOf) -> Mapping[str, VariableType]:
        """Return the types of the declared results."""
        return {output.name: output.type for output in self.params.outputs}

    @property
    def unknown_outputs(self) -> Sequence[str]:
        """The declared results: their types are known, their content is not."""
        return [output.name for output in self.params.outputs]

    async def compute(self, call: NodeCall) -> NodeResult:
        """Run the workflow."""
        name = self.params.workflow
        workflow = self._service("workflow", name, self.services.workflows, "workflows")
        message = await run_workflow(workflow, call, {each.name: call.get(each.value) for each in self.params.inputs})
        missing = [output.name for output in self.params.outputs if output.name not in message.outputs]
        if missing:
            raise NodeError(
                f"{self._who}: {name!r} has no output {missing[0]!r}; "
                f"its outputs: {', '.join(message.outputs) or 'none'}"
            )
        return NodeResult(dict(message.outputs), text=message.scratchpad, status=message.status, parts=(message,))


async def run_workflow(workflow: Workflow, call: NodeCall, values: Values) -> WorkflowMessage:
    """Run a workflow for a node, with a job of its own whose inputs are the values.

    Raises:
        InputError: An input that takes files is given something else, such as a path that a model wrote.
    """
    job = call.job
    for start in workflow.graph().operators.values():
        for name, kind in start.params.variables if isinstance(start, Start) else ():
            if kind.is_file and not fits(values.get(name), kind):
                given = short_json(values[name])
                raise InputError(f"input {name!r} of the workflow takes a file of a node before it, not {given}")
    inputs = {name: as_input(value) for name, value in values.items()}
    inner = Job(goal=job.goal, context=job.context, session_id=job.session_id, inputs=inputs)
    return await run_nested(workflow, OperatorCall(call.reasoner, inner, previous=call.previous, lesson=call.lesson))


def as_input(value: Any) -> JsonValue:
    """Return a value as an input of a job, with files replaced by their paths."""
    if isinstance(value, FileDescriptor):
        return str(value.path)
    if isinstance(value, list | tuple):
        return [as_input(each) for each in cast("Sequence[Any]", value)]
    return json.loads(json.dumps(plain(value), default=str))
