"""AWEL operators as operators of a workflow, and a workflow as an AWEL operator."""

# dbgpt ships no complete types, and parts of its extension points are private.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

from operad.runtime.events import RunFinished, TokenStreamed, current_scope, emit
from operad.runtime.graph.awel import AwelRunner, AwelTask, run_task
from operad.runtime.graph.awel import BaseOperator as AwelBase
from operad.runtime.graph.call import OperatorCall
from operad.runtime.graph.operator import BaseOperator
from operad.runtime.reasoning.reasoner import Reasoner
from operad.runtime.values.errors import InputError, Issue
from operad.runtime.values.ids import settled_id, slug
from operad.runtime.values.message import WorkflowMessage
from operad.runtime.values.output import plain_value
from operad.runtime.workflow.answer_stream import AnswerStream, answering_operator
from operad.runtime.workflow.parameters import message_of

if TYPE_CHECKING:
    from operad.runtime.workflow.run import Run
    from operad.runtime.workflow.workflow import Workflow


class AwelOperator(BaseOperator[Any]):
    """An AWEL operator as an operator of a workflow; `Workflow.add` and ``>>`` make one of an AWEL operator.

        shout = AwelOperator(MapOperator(str.upper), id="shout")
        print(Workflow(shout).run("hello").output)  # HELLO

    It gets the answers of the operators before it, in order, as AWEL's nodes get their inputs; None for one that was
    skipped. The first operator gets the job's inputs, or its goal. An AWEL operator that others come before in its own
    DAG runs with all of them, as a single operator, and the first of them get the answer.

    A stream is an answer in full for other operators: the list of its parts, or the text where all parts are texts, which
    are streamed as they come. An AWEL operator after it gets the stream.

    Args:
        node: The AWEL operator.
        id: Its id in a workflow; by default its ``task_name``, or the name of its function or class.

    Attributes:
        node: The AWEL operator.
    """

    def __init__(self, node: Any, *, id: str = "") -> None:
        if not isinstance(node, AwelBase):
            raise InputError(f"AwelOperator(…) expects an AWEL operator, got {type(node).__name__}")
        self.node: Any = node
        self._id = id or node.node_name or slug(_name_of(node))
        self._settled = bool(id or node.node_name)

    def __repr__(self) -> str:
        return f"<AWEL operator {self._id!r}>"

    @property
    def added(self) -> Any:
        """The AWEL operator."""
        return self.node

    def get_id(self) -> str:
        """Return the id."""
        return self._id

    def settle_id(self, taken: Collection[str]) -> None:
        """Make the id unique among those that are taken, unless it was chosen or is settled."""
        if not self._settled:
            self._id, self._settled = settled_id(self._id, taken), True

    @property
    def ports(self) -> Sequence[str]:
        """The names of the operators that a BranchOperator chooses from; those that a function names are not known."""
        targets = (getattr(self.node, "_branches", None) or {}).values()
        return tuple(dict.fromkeys(target for target in targets if isinstance(target, str)))

    @property
    def gives_stream(self) -> bool:
        """True if the AWEL operator itself creates a stream."""
        return bool(self.node.streaming_operator)

    def check(self, before: Mapping[str, BaseOperator]) -> list[Issue]:
        """Return what is wrong with it after the operators `before` it."""
        if type(self.node).__name__ == "MapOperator" and len(before) > 1:
            what = (
                f"an AWEL MapOperator takes one input, and {len(before)} operators come before it; use a JoinOperator"
            )
            return [Issue("awel-inputs", what, self._id)]
        return []

    async def run(self, call: OperatorCall) -> WorkflowMessage:
        """Run the AWEL operator on the answers of the operators before it.

        Raises:
            Exception: As the AWEL operator.
        """
        said = {message.operator_id: message for message in reversed(call.messages)}
        scope = current_scope()
        run = cast("Run", scope.run) if scope else None
        before = run.build.before.get(self._id, ()) if run else ()
        before = before or tuple(message.operator_id for message in call.messages)
        inputs = [_read(said.get(key), run, key) for key in before] or [dict(call.job.inputs) or call.job.goal]
        task = await run_task(self.node, inputs, [_is_stream(run, key) for key in before])
        value = await _whole(task)
        ports = self.ports
        return message_of(value, tuple(port for port in ports if port not in task.not_chosen) if ports else None)


class WorkflowNode(AwelBase[Any]):
    """A workflow as an AWEL operator; `Workflow.as_awel` makes one.

    Its input is the job: a text is the goal, a dict the inputs, any other value the goal as JSON. Of several operators
    before it, their values are the inputs by their ``task_name``. Its output is the workflow's answer.
    """

    def __init__(self, workflow: Workflow[Any], reasoner: Reasoner, *, stream: bool, **options: Any) -> None:
        given: dict[str, Any] = {"runner": AwelRunner(), "task_name": workflow.name, **options}
        super().__init__(**given)
        self._workflow = workflow
        self._reasoner = reasoner
        self.streaming_operator = stream

    async def _do_run(self, dag_ctx: Any) -> Any:
        task = AwelTask(dag_ctx.current_task_context)
        values = await task.inputs([parent.node_name or parent.node_id for parent in self.upstream])
        job = _job_of(values)
        if self.streaming_operator:
            return task.give_stream(self._pieces(job))
        result = await self._workflow.arun(job, self._reasoner)
        return task.give(result.output)

    async def _pieces(self, job: Any) -> AsyncIterator[str]:
        live = AnswerStream(answering_operator(self._workflow, self._reasoner))
        async with aclosing(cast("Any", self._workflow.stream(job, self._reasoner))) as events:
            async for event in events:
                if piece := live.next(event):
                    yield piece
                if isinstance(event, RunFinished) and not event.path:
                    for piece in live.rest(event.message.scratchpad):
                        yield piece


def _job_of(values: Mapping[str, Any]) -> Any:
    value = next(iter(values.values())) if len(values) == 1 else dict(values)
    return value if isinstance(value, str | dict) else message_of(value).scratchpad


def _name_of(node: Any) -> str:
    function: Callable[..., Any] | None = getattr(node, "map_function", None) or getattr(node, "combine_function", None)
    name = getattr(function, "__name__", "")
    return name if name.isidentifier() and not name.startswith("_") else type(node).__name__


def _read(message: WorkflowMessage | None, run: Run | None, key: str) -> Any:
    if message is None:
        return None
    operator = run.build.graph.operators.get(key) if run else None
    return operator.read_output(message) if operator is not None else plain_value(message)


def _is_stream(run: Run | None, key: str) -> bool:
    """Return True if an answer was a stream: of an AWEL operator that creates one, or maps one."""
    operator = run.build.graph.operators.get(key) if run else None
    if run is None or not isinstance(operator, AwelOperator):
        return False
    maps = type(operator.node).__name__ == "MapOperator"
    return operator.gives_stream or (maps and any(_is_stream(run, each) for each in run.build.before.get(key, ())))


async def _whole(task: AwelTask) -> Any:
    """The output of an AWEL operator; of a stream all of it, whose texts are streamed as they come."""
    if not task.is_stream:
        return task.output
    parts: list[Any] = []
    async for part in task.stream():
        if isinstance(part, str):
            emit(TokenStreamed(text=part))
        parts.append(part)
    return parts
