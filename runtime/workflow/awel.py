"""AWEL operators as operators of a workflow, and a workflow as an AWEL operator."""

# dbgpt has incomplete types, and some of its extension points are private.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

from operad.runtime.events import RunInProgress, TokenStreamed, current_scope, emit
from operad.runtime.graph.awel import AwelRunner, AwelTask, run_task
from operad.runtime.graph.awel import BaseOperator as AwelBase
from operad.runtime.graph.call import OperatorCall, job_of
from operad.runtime.graph.operator import BaseOperator
from operad.runtime.values.errors import InputError, Issue
from operad.runtime.values.ids import slug
from operad.runtime.values.message import Job, WorkflowMessage
from operad.runtime.values.own import own
from operad.runtime.values.round_trip import message_of
from operad.runtime.workflow.event_stream import TextStream
from operad.runtime.workflow.result import Result


class AwelOperator(BaseOperator[Any]):
    """Operator of a workflow that runs an AWEL operator; `Workflow.add` and ``>>`` create it.

        shout = AwelOperator(MapOperator(str.upper), id="shout")
        print(Workflow(shout).run("hello").output)  # HELLO

    The AWEL operator gets the answers of its predecessors, in order, as its inputs; None for a skipped predecessor. An
    operator without predecessors gets the job's inputs, or its goal. An AWEL operator that has ancestors in its own DAG
    runs together with them, as a single operator, and the roots of that DAG get the answer of the predecessor.

    If the output is a stream, AWEL operators after it get the stream. Other operators get the list of its parts, and
    parts that are texts are emitted as events as they come.

    Args:
        id: Its id in the workflow; by default its ``task_name``, or the name of its function or class.
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

    @property
    def ports(self) -> Sequence[str]:
        """Names of the operators that a BranchOperator chooses from; names that a function returns are unknown."""
        targets = (getattr(self.node, "_branches", None) or {}).values()
        return tuple(dict.fromkeys(target for target in targets if isinstance(target, str)))

    @property
    def gives_stream(self) -> bool:
        """True if the AWEL operator itself creates a stream."""
        return bool(self.node.streaming_operator)

    def check(self, before: Mapping[str, BaseOperator]) -> list[Issue]:
        """Return the issues of the operator, given its predecessors by id."""
        if type(self.node).__name__ == "MapOperator" and len(before) > 1:
            what = (
                f"an AWEL MapOperator takes one input, and {len(before)} operators come before it; use a JoinOperator"
            )
            return [Issue("awel-inputs", what, self._id)]
        return []

    async def run(self, call: OperatorCall) -> WorkflowMessage:
        """Run the AWEL operator on the answers of its predecessors.

        Raises:
            Exception: The error of the AWEL operator.
        """
        said = {message.operator_id: message for message in reversed(call.messages)}
        scope = current_scope()
        run = scope.run if scope else None
        before = run.build.before.get(self._id, ()) if run else ()
        before = before or tuple(message.operator_id for message in call.messages)
        inputs = [_read(said.get(key), run, key) for key in before] or [dict(call.job.inputs) or call.job.goal]
        task = await run_task(self.node, inputs, [_is_stream(run, key) for key in before])
        value = await _whole(task)
        ports = self.ports
        taken = tuple(port for port in ports if port not in task.not_chosen) if ports else None
        return message_of(value, who=repr(self._id)).changed(ports=taken)


class WorkflowNode(AwelBase[Any]):
    """AWEL operator that runs a workflow, created by `Workflow.as_awel`.

    The input is the job: a text is the goal, a dict the inputs, any other value the goal as JSON. With several parents,
    their outputs are the job's inputs, by ``task_name``. The output is the workflow's answer.
    """

    def __init__(
        self,
        name: str,
        run: Callable[[Job], Awaitable[Result[Any]]],
        stream: Callable[[Job], TextStream] | None,
        **options: Any,
    ) -> None:
        given: dict[str, Any] = {"runner": AwelRunner(), "task_name": name, **options}
        super().__init__(**given)
        self._run_workflow = run
        self._stream_workflow = stream
        self.streaming_operator = stream is not None

    async def _do_run(self, dag_ctx: Any) -> Any:
        task = AwelTask(dag_ctx.current_task_context)
        values = await task.inputs([parent.node_name or parent.node_id for parent in self.upstream])
        job = _job_of(values)
        if self._stream_workflow is not None:
            return task.give_stream(_pieces(self._stream_workflow(job)))
        return task.give((await self._run_workflow(job)).output)


async def _pieces(stream: TextStream) -> AsyncIterator[str]:
    """Yield the text of an answer in pieces."""
    async with stream as pieces:
        async for piece in pieces:
            yield piece


def _job_of(values: Mapping[str, Any]) -> Job:
    """Return the job for the inputs of a node. The workflow may leave outputs of AWEL operators unread."""
    value = next(iter(values.values())) if len(values) == 1 else dict(values)
    return job_of(value if isinstance(value, str | dict) else message_of(value).scratchpad, of_data=True)


def _name_of(node: Any) -> str:
    """Return the name of an AWEL operator's function, or of its class if the function has no public name."""
    function: Callable[..., Any] | None = getattr(node, "map_function", None) or getattr(node, "combine_function", None)
    name = getattr(function, "__name__", "")
    return name if name.isidentifier() and not name.startswith("_") else type(node).__name__


def _read(message: WorkflowMessage | None, run: RunInProgress | None, key: str) -> Any:
    """Return the answer in the message of an operator; None without a message."""
    if message is None:
        return None
    operator = run.build.graph.operators.get(key) if run else None
    return operator.read_output(message) if operator is not None else own(message.value)


def _is_stream(run: RunInProgress | None, key: str) -> bool:
    """Return True if the answer of an operator was a stream that an AWEL operator created or mapped."""
    operator = run.build.graph.operators.get(key) if run else None
    if run is None or not isinstance(operator, AwelOperator):
        return False
    maps = type(operator.node).__name__ == "MapOperator"
    return operator.gives_stream or (maps and any(_is_stream(run, each) for each in run.build.before.get(key, ())))


async def _whole(task: AwelTask) -> Any:
    """Return the output of an AWEL operator; for a stream, the list of its parts, whose texts are emitted as events."""
    if not task.is_stream:
        return task.output
    parts: list[Any] = []
    async for part in task.stream():
        if isinstance(part, str):
            emit(TokenStreamed(text=part))
        parts.append(part)
    return parts
