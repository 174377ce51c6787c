"""Workflows as DB-GPT AWEL DAGs, and a runner for any AWEL DAG. The one place that imports dbgpt.

`AwelRunner` runs each node as soon as its parents have finished, through the same scheduler as
`BuiltinWorkflow`. It also runs AWEL's own operators. It differs from AWEL's default runner as follows:

- Independent branches run concurrently. When a node raises, the others are cancelled and awaited, and the error
  reaches the caller unchanged.
- A node is skipped when a branch among its parents did not choose it, or when all its parents were skipped, unless
  it was created with ``can_skip_in_branch=False``. A join that runs after a skipped parent gets None as that
  parent's output, so a combine function must check ``x is None`` instead of ``is_empty_data(x)``. AWEL's own join
  that returns the first non-empty output gets only the outputs of parents that ran. A call whose end node was
  skipped is an error.
- Each consumer of a stream gets the whole stream.
- A cycle is an error before any node runs; the error names the nodes along it.
"""

# dbgpt has incomplete types, and some of its extension points are private (test_awel.py tests each that is used here).
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import random
import sys
from collections import deque
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, redirect_stdout, suppress
from graphlib import CycleError
from io import StringIO
from typing import Any, cast

from operad.runtime.graph.engine import Engine, Step, run_graph
from operad.runtime.graph.schedule import Plan, Progress
from operad.runtime.values.errors import InvalidError, Issue, OperadError
from operad.runtime.values.message import new_id

_random_state = random.getstate()
with redirect_stdout(StringIO()) as _printed:  # under pytest and in CI, dbgpt seeds the global `random` and prints so
    from dbgpt.core.awel import DAG, BaseOperator, BranchOperator, DAGContext, JoinOperator, WorkflowRunner
    from dbgpt.core.awel.dag.base import DAGNode, DAGVar, DAGVariables
    from dbgpt.core.awel.operators.base import CURRENT_DAG_CONTEXT
    from dbgpt.core.awel.task.base import SKIP_DATA, TaskContext, TaskOutput, TaskState
    from dbgpt.core.awel.task.task_impl import (
        DefaultInputContext,
        DefaultTaskContext,
        SimpleStreamTaskOutput,
        SimpleTaskOutput,
    )
random.setstate(_random_state)
if _other_output := _printed.getvalue().replace("Setting random seed to 42\n", ""):  # other threads print, too
    sys.stdout.write(_other_output)


def build(plan: Plan) -> Engine:
    """Return an engine that runs a plan, whose last node is its end, as an AWEL DAG.

    The engine calls the end node of the DAG with the nodes to start with and the step of the run as call data.
    """
    dag = DAG(f"operad-{new_id()}")
    runner = AwelRunner()
    nodes = [OperatorNode(dag=dag, task_id=node_id, task_name=node_id, runner=runner) for node_id in plan.ids]
    for node, parents in zip(nodes, plan.parents, strict=True):
        node.upstream.extend(nodes[parent] for parent in parents)  # set_upstream would take quadratic time
        for parent in parents:
            nodes[parent].downstream.append(node)
    end = nodes[-1]

    async def engine(start: Iterable[int], step: Step) -> None:
        await end.call((start, step))

    return engine


class OperatorNode(BaseOperator[None]):
    """Operator of a workflow in an AWEL DAG. Its work is done by the step in the call data, which gets its number."""

    async def _do_run(self, dag_ctx: DAGContext) -> TaskOutput[None]:
        raise OperadError(f"operator node {self.node_id!r} runs through the workflow that it was built for")


class AwelRunner(WorkflowRunner[Any]):
    """Runner of any AWEL DAG: concurrent, without recursion, and without state left in dbgpt after a run.

    The runner has no state: one instance can serve every DAG, thread and event loop, and can be AWEL's default
    runner (``dbgpt.core.awel.operators.base.initialize_runner(AwelRunner())``).
    """

    async def execute_workflow(
        self,
        node: BaseOperator[Any],
        call_data: Any = None,
        streaming_call: bool = False,
        exist_dag_ctx: DAGContext | None = None,
        dag_variables: DAGVariables | None = None,
    ) -> DAGContext:
        """Run all nodes that `node` depends on, then `node`.

        Args:
            node: The end node.
            call_data: The argument of `call`, as ``{"data": …}``; with several root nodes, such a value per id.
            streaming_call: True if the caller will consume a stream.
            exist_dag_ctx: The context of an outer call. Nodes that have an output in it do not run again.
            dag_variables: Values of variables in the nodes.

        Returns:
            The context of the end node, with its output.

        Raises:
            InvalidError: The nodes form a cycle.
            OperadError: The end node was skipped.
        """
        if isinstance(node, OperatorNode):
            start, step = cast("dict[str, tuple[Iterable[int], Step]]", call_data)["data"]
            await run_graph(start, step)
            return _context_of(node, SimpleTaskOutput(None))
        run = _AwelRun(node, call_data, streaming_call, exist_dag_ctx, dag_variables)
        return await run.execute()


def _context_of(node: BaseOperator[Any], output: TaskOutput[Any]) -> DAGContext:
    """Return a context in which the node has finished with this output."""
    context = DAGContext({}, {}, event_loop_task_id=id(asyncio.current_task()))
    context.set_current_task_context(DefaultTaskContext(node.node_id, TaskState.SUCCESS, output))
    return context


class AwelTask:
    """Task of an AWEL operator: its inputs and its output."""

    def __init__(self, context: TaskContext[Any]) -> None:
        self._context = context

    @property
    def is_stream(self) -> bool:
        """True if the output is a stream."""
        return self._context.task_output.is_stream

    @property
    def output(self) -> Any:
        """The output, unless it is a stream."""
        return self._context.task_output.output

    def stream(self) -> AsyncIterator[Any]:
        """Return the output if it is a stream."""
        return self._context.task_output.output_stream

    @property
    def not_chosen(self) -> Sequence[str]:
        """Names of the operators that the task, if it is a branch, did not choose."""
        return self._context.metadata.get("skip_node_names", ())

    async def inputs(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the parents' outputs by these names, streams as lists; without names, the call data as ``data``."""
        if not names:
            call_data = await self._context._call_data_to_output()
            return {"data": None if call_data is None else await _output_value(call_data)}
        parents = cast("list[TaskContext[Any]]", self._context.task_input.parent_outputs)
        return {name: await _output_value(parent.task_output) for name, parent in zip(names, parents, strict=True)}

    def give(self, value: Any) -> TaskOutput[Any]:
        """Set the output to a value, and return the output."""
        output = SimpleTaskOutput(value)
        self._context.set_task_output(output)
        return output

    def give_stream(self, stream: AsyncIterator[Any]) -> TaskOutput[Any]:
        """Set the output to a stream, and return the output."""
        output: TaskOutput[Any] = SimpleStreamTaskOutput(stream)
        self._context.set_task_output(output)
        return output


async def _output_value(output: TaskOutput[Any]) -> Any:
    """Return the value of an output; the items of a stream as a list."""
    return [part async for part in output.output_stream] if output.is_stream else output.output


async def run_task(node: BaseOperator[Any], inputs: Sequence[Any], streams: Sequence[bool] = ()) -> AwelTask:
    """Run an AWEL operator on values.

    An operator that has parents in a DAG runs together with all its ancestors; the first value is the call data of
    the roots.

    Args:
        inputs: The values; at least one.
        streams: For each value, True if it is a list whose items the operator gets as a stream; none by default.

    Raises:
        Exception: The error of the operator.
    """
    if node.upstream:
        roots = [ancestor for ancestor in _upstream_closure(node) if not ancestor.upstream]
        data = inputs[0] if len(roots) == 1 else {root.node_id: {"data": inputs[0]} for root in roots}
        call_data = {"data": data} if len(roots) == 1 else data
        context = await AwelRunner().execute_workflow(node, call_data, streaming_call=node.streaming_operator)
        return AwelTask(context.current_task_context)
    if not node._node_id:
        node.set_node_id(new_id())
    parents: list[TaskContext[Any]] = []
    for number, value in enumerate(inputs):
        is_stream = number < len(streams) and streams[number] and isinstance(value, list)
        output: TaskOutput[Any] = SimpleStreamTaskOutput(_stream_of(value)) if is_stream else SimpleTaskOutput(value)
        parents.append(DefaultTaskContext(f"input {number}", TaskState.SUCCESS, output))
    task = DefaultTaskContext[Any](node.node_id, TaskState.RUNNING, log_index=1)
    if not any(streams):
        task.set_call_data({"data": inputs[0]})
    task.set_task_input(DefaultInputContext(parents))
    context = _NodeContext({}, {}, event_loop_task_id=id(asyncio.current_task()))
    context.set_current_task_context(task)
    await node._run(context, task.log_id)
    return AwelTask(cast("TaskContext[Any]", context.current_task_context))


async def _stream_of(items: Iterable[Any]) -> AsyncIterator[Any]:
    for item in items:
        yield item


class _AwelRun:
    """One call of a DAG of AWEL's own operators.

    AWEL has one "current task" per context, so every node gets its own context. The contexts of a call share its
    outputs, its shared data and the lock of these data. The arguments are those of `AwelRunner.execute_workflow`.
    """

    def __init__(
        self,
        end: BaseOperator[Any],
        call_data: Any,
        streaming_call: bool,
        outer: DAGContext | None,
        variables: DAGVariables | None,
    ) -> None:
        self._nodes = _upstream_closure(end)
        self._plan = _plan_of(self._nodes)
        self._progress = Progress(self._plan)
        self._end = len(self._nodes) - 1
        self._streaming_call = streaming_call
        self._outer = outer
        self._call_data = call_data
        self._outputs: dict[str, TaskContext[Any]] = outer._node_to_outputs if outer else {}
        self._share_data: dict[str, Any] = outer._share_data if outer else {}
        self._share_lock = outer._share_data_lock if outer else asyncio.Lock()
        self._task_id = outer._event_loop_task_id if outer else id(asyncio.current_task())
        self._dags: list[DAG] = outer.dags if isinstance(outer, _NodeContext) else []
        self._running: dict[str, asyncio.Event] = outer.running if isinstance(outer, _NodeContext) else {}
        if outer and variables and outer._dag_variables:
            variables = variables.merge(outer._dag_variables)
        self._variables = variables or (end.dag._default_dag_variables if end.dag else None)
        self._names = {n.node_name: n.node_id for n in self._nodes if n.node_name is not None}
        self._skipped: dict[int, str] = {}  # per skipped node: the reason
        self._streams: dict[int, deque[AsyncIterator[Any]]] = {}  # per node: copies of its stream for its children

    async def execute(self) -> DAGContext:
        """Run the nodes, and return the context of the end node, or raise the error of the first node that fails."""
        end = self._nodes[self._end]
        context = self._new_context()
        ends_here = not self._streaming_call and self._outer is None
        if end.dag:
            end.dag._event_loop_task_id_to_ctx[self._task_id] = context
            self._dags.append(end.dag)
        try:
            for node in self._nodes:
                await node.before_dag_run()
            await run_graph(self._progress.ready, self._step)
            context.set_current_task_context(self._outputs[end.node_id])
        except BaseException:
            if ends_here:
                with suppress(Exception):  # the first error is raised instead
                    await self._after_dag_end(context)
            raise
        if ends_here:
            await self._after_dag_end(context)
        elif self._outer is None:
            CURRENT_DAG_CONTEXT.set(context)  # nodes that stream still run while the caller consumes the stream
        if self._end in self._skipped:
            todo = "end with a BranchJoinOperator after all branches"
            raise OperadError(f"the end node {_name(end)} was skipped: {self._skipped[self._end]}; {todo}")
        return context

    async def _after_dag_end(self, context: DAGContext) -> None:
        """Call the hook `after_dag_end` of all nodes, in order, with `context` as the current context."""
        dag = self._nodes[self._end].dag
        async with AsyncExitStack() as hooks:  # runs every hook even if some raise, the last added first
            hooks.callback(self._unregister)
            # dbgpt's conversation operators read the shared data from the current context in their hooks
            hooks.callback(CURRENT_DAG_CONTEXT.reset, CURRENT_DAG_CONTEXT.set(context))
            for node in reversed([*dag.node_map.values()] if dag else self._nodes):
                hooks.push_async_callback(node.after_dag_end, self._task_id)

    def _unregister(self) -> None:
        for dag in self._dags:
            dag._event_loop_task_id_to_ctx.pop(self._task_id, None)

    async def _step(self, number: int) -> list[int]:
        await self._run_node(number)
        return self._progress.finish(number)

    async def _run_node(self, number: int) -> None:
        """Run a node, unless it has already run in the outer call."""
        node_id = self._nodes[number].node_id
        while node_id in self._running:  # sibling nodes may call the same DAG with the same context at the same time
            await self._running[node_id].wait()
        if node_id in self._outputs:
            if self._outputs[node_id].current_state is TaskState.SKIP:
                self._skipped[number] = "the outer call skipped it"
            return
        finished = self._running[node_id] = asyncio.Event()
        try:
            await self._run_unfinished(number, self._nodes[number])
        finally:
            del self._running[node_id]
            finished.set()

    async def _run_unfinished(self, number: int, node: BaseOperator[Any]) -> None:
        task = DefaultTaskContext[Any](node.node_id, TaskState.RUNNING, log_index=1)
        parents = self._plan.parents[number]
        skip_reason = self._skip_reason(number, node)
        if skip_reason:
            self._skipped[number] = skip_reason
            task.set_current_state(TaskState.SKIP)
            task.set_task_output(SimpleTaskOutput(SKIP_DATA))
            self._outputs[node.node_id] = task
            return
        if not parents and self._call_data:
            only_root = len(self._plan.roots) == 1
            task.set_call_data(self._call_data if only_root else self._call_data.get(node.node_id))
        task.set_task_input(DefaultInputContext(self._inputs(number, node)))
        context = self._new_context()
        context.set_current_task_context(task)
        system_app = DAGVar.get_current_system_app()
        if system_app is not None and node.system_app is None:
            node.set_system_app(system_app)
        try:
            await node._run(context, task.log_id)
        except BaseException:
            task.set_current_state(TaskState.FAILED)
            raise
        task = cast("DefaultTaskContext[Any]", context.current_task_context)
        task.set_current_state(TaskState.SUCCESS)
        consumers = len(self._plan.children[number])
        if task.task_output.is_stream and consumers > 1:
            self._streams[number] = deque(Tee(task.task_output.output_stream, consumers).copies())
        self._outputs[node.node_id] = task

    def _skip_reason(self, number: int, node: BaseOperator[Any]) -> str:
        """Return the reason for which a node is skipped; an empty text if it runs."""
        if not node.can_skip_in_branch():
            return ""
        parents = self._plan.parents[number]
        for parent in parents:
            branch = self._nodes[parent]
            if isinstance(branch, BranchOperator) and parent not in self._skipped:
                not_chosen = self._outputs[branch.node_id].metadata.get("skip_node_names", ())
                if node.node_name in not_chosen:
                    return f"branch {_name(branch)} did not choose {_name(node)}"
        if parents and all(parent in self._skipped for parent in parents):
            return self._skipped[parents[0]]
        return ""

    def _inputs(self, number: int, node: BaseOperator[Any]) -> list[TaskContext[Any]]:
        """Return the tasks of the node's parents, with a placeholder for each skipped parent."""
        inputs: list[TaskContext[Any]] = []
        takes_first = isinstance(node, JoinOperator) and node.combine_function == node._return_first_non_empty
        for parent in self._plan.parents[number]:
            parent_id = self._nodes[parent].node_id
            if parent in self._skipped:
                placeholder: TaskOutput[Any] = SimpleTaskOutput(SKIP_DATA) if takes_first else _SkippedOutput(None)
                inputs.append(DefaultTaskContext(parent_id, TaskState.SKIP, placeholder))
            elif parent in self._streams:
                copy = SimpleStreamTaskOutput(self._streams[parent].popleft())
                inputs.append(DefaultTaskContext(parent_id, TaskState.SUCCESS, copy))
            else:
                inputs.append(self._outputs[parent_id])
        return inputs

    def _new_context(self) -> _NodeContext:
        context = _NodeContext(
            node_to_outputs=self._outputs,
            share_data=self._share_data,
            event_loop_task_id=self._task_id,
            streaming_call=self._streaming_call,
            node_name_to_ids=self._names,
            dag_variables=self._variables,
        )
        context._share_data_lock = self._share_lock
        context.dags = self._dags
        context.running = self._running
        return context


class _NodeContext(DAGContext):
    """Context of a node in one call.

    Attributes:
        dags: The DAGs in which the call is registered for `DAG._after_dag_end`: the called DAG, and those that its
            nodes called with their context.
        running: The running nodes of all these DAGs, by id, each with an event that is set when the node finishes.
    """

    dags: list[DAG]
    running: dict[str, asyncio.Event]


class _SkippedOutput(SimpleTaskOutput[None]):
    """Input of a join for a skipped parent: None, which AWEL counts as empty."""

    @property
    def is_empty(self) -> bool:
        return True


def _upstream_closure(end: BaseOperator[Any]) -> list[BaseOperator[Any]]:
    """Return `end` and all its ancestors, each once, with `end` last."""
    seen: dict[int, DAGNode] = {id(end): end}
    to_visit: list[DAGNode] = [end]
    while to_visit:
        node = to_visit.pop()
        if not node._node_id:
            node.set_node_id(new_id())
        for parent in reversed(node.upstream):  # reversed so that siblings start in the order of the edges, as in AWEL
            if id(parent) not in seen:
                seen[id(parent)] = parent
                to_visit.append(parent)
    return cast("list[BaseOperator[Any]]", list(seen.values())[::-1])


def _plan_of(nodes: list[BaseOperator[Any]]) -> Plan:
    """Return the plan of AWEL nodes, or raise InvalidError if they form a cycle."""
    try:
        return Plan({node.node_id: [parent.node_id for parent in node.upstream] for node in nodes})
    except CycleError as error:
        names = {node.node_id: _name(node) for node in nodes}
        cycle = " → ".join(names[node_id] for node_id in error.args[1])
        raise InvalidError(
            "the AWEL DAG cannot run",
            [Issue("cycle", f"the operators wait for each other: {cycle}; remove one of these edges")],
        ) from error


def _name(node: BaseOperator[Any]) -> str:
    return repr(node.node_name or node.node_id)


class Tee:
    """Stream for several consumers. Each consumer gets every item and, at the end, the error of the stream."""

    def __init__(self, stream: AsyncIterator[Any], consumers: int) -> None:
        self._stream = stream
        self._buffers = [deque[Any]() for _ in range(consumers)]
        self._lock = asyncio.Lock()
        self._ended = False
        self._error: Exception | None = None

    def copies(self) -> list[AsyncIterator[Any]]:
        """Return one copy of the stream per consumer."""
        return [self._copy(buffer) for buffer in self._buffers]

    async def _copy(self, buffer: deque[Any]) -> AsyncIterator[Any]:
        while True:
            if not buffer:
                async with self._lock:
                    if not buffer and not self._ended:
                        await self._advance()
            if buffer:
                yield buffer.popleft()
            elif self._error:
                raise self._error
            else:
                return

    async def _advance(self) -> None:
        """Read the next item of the stream into the buffers of all consumers."""
        try:
            item = await anext(self._stream)
        except StopAsyncIteration:
            self._ended = True
        except Exception as error:  # noqa: BLE001 - raised to every consumer
            self._ended, self._error = True, error
        else:
            for buffer in self._buffers:
                buffer.append(item)
