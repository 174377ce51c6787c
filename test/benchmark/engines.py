"""Engines to measure: each function prepares a graph of naps and returns a function that runs it once.

Other frameworks are imported when used, so that a missing one is reported and the others are measured. Each is used as its
documentation shows, and builds or compiles the graph here.
"""

from __future__ import annotations

import asyncio
import operator
import os
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from graphlib import TopologicalSorter
from importlib import import_module
from typing import Annotated, Any, TypedDict

from graphs import JOB, Graph, Naps

from operad.runtime.events import Event, Listener
from operad.runtime.values.message import WorkflowMessage
from operad.runtime.workflow.workflow import BuiltinWorkflow, DbgptWorkflow, Workflow

os.environ.update(HAYSTACK_TELEMETRY_ENABLED="False", LANGSMITH_TRACING="false", LANGCHAIN_TRACING_V2="false")

Go = Callable[[], Awaitable[Any]]
Engine = Callable[[Graph, Naps], Go]


# Ours


def workflow_of(kind: type[Workflow], graph: Graph, naps: Naps, *listeners: Listener) -> Workflow:
    workflow = kind(listeners=listeners)
    for node, before in graph.items():
        workflow.add_operator(naps[node], [naps[parent] for parent in before])
    return workflow


def ours(kind: type[Workflow], graph: Graph, naps: Naps) -> Go:
    return partial(workflow_of(kind, graph, naps).aexecute, JOB, None)  # type: ignore[arg-type]


def ours_with_events(kind: type[Workflow], graph: Graph, naps: Naps) -> Go:
    heard = deque[Event](maxlen=100)
    return partial(workflow_of(kind, graph, naps, heard.append).aexecute, JOB, None)  # type: ignore[arg-type]


# By hand


def by_waiting(graph: Graph, naps: Naps) -> Go:
    """Run the graph by waiting for the first of all running tasks."""

    async def go() -> None:
        said: dict[str, WorkflowMessage] = {}
        running: dict[asyncio.Task[WorkflowMessage], str] = {}
        sorter = TopologicalSorter(graph)
        sorter.prepare()
        while sorter.is_active():
            for node in sorter.get_ready():
                inputs = [said[parent] for parent in graph[node]]
                running[asyncio.create_task(naps[node].execute(None, JOB, inputs))] = node
            done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                node = running.pop(task)
                said[node] = task.result()
                sorter.done(node)

    return go


def by_queue(graph: Graph, naps: Naps) -> Go:
    """Run the graph with tasks that report to a queue."""

    async def go() -> None:
        said: dict[str, WorkflowMessage] = {}
        finished: asyncio.Queue[asyncio.Task[WorkflowMessage]] = asyncio.Queue()
        running: dict[asyncio.Task[WorkflowMessage], str] = {}
        sorter = TopologicalSorter(graph)
        sorter.prepare()
        while sorter.is_active():
            for node in sorter.get_ready():
                inputs = [said[parent] for parent in graph[node]]
                task = asyncio.create_task(naps[node].execute(None, JOB, inputs))
                running[task] = node
                task.add_done_callback(finished.put_nowait)
            task = await finished.get()
            node = running.pop(task)
            said[node] = task.result()
            sorter.done(node)

    return go


# The field


def in_awel(graph: Graph, naps: Naps) -> Go:
    """Build AWEL operators for AWEL's runner: maps, and joins for several parents."""
    awel = import_awel()
    runner = awel.DefaultWorkflowRunner()
    with awel.DAG("bench"):
        nodes: dict[str, Any] = {}
        for name, before in graph.items():

            async def nap(*messages: Any, name: str = name) -> WorkflowMessage:
                return await naps[name].execute(None, JOB, list(messages) if graph[name] else [])

            kind = awel.JoinOperator if len(before) > 1 else awel.MapOperator
            nodes[name] = node = kind(nap, runner=runner)
            for parent in before:
                node << nodes[parent]  # pyright: ignore[reportUnusedExpression]
    return partial(nodes[last(graph)].call, 1)


def import_awel() -> Any:
    import_module("operad.runtime.graph.awel")  # imports dbgpt without what it prints
    return sys.modules["dbgpt.core.awel"]


def in_langgraph(graph: Graph, naps: Naps) -> Go:
    """Build a state of all messages with a reducer; an edge from several nodes waits for all of them."""
    langgraph = import_module("langgraph.graph")

    class State(TypedDict):
        said: Annotated[dict[str, WorkflowMessage], operator.or_]

    builder = langgraph.StateGraph(State)
    for name, before in graph.items():

        async def nap(state: Any, name: str = name) -> Any:
            return {"said": {name: await naps[name].execute(None, JOB, [state["said"][n] for n in graph[name]])}}

        builder.add_node(name, nap)
        builder.add_edge(list(before) if len(before) > 1 else before[0] if before else langgraph.START, name)
    builder.add_edge(last(graph), langgraph.END)
    return partial(builder.compile().ainvoke, {"said": {}}, {"recursion_limit": len(graph) + 2})


def in_pydantic_graph(graph: Graph, naps: Naps) -> Go:
    """Build steps with a broadcast after each, and a join before each step with several parents.

    Joins of pydantic-graph belong to one fork. In other graphs a join may open early, depending on which node finishes
    first; such a run is not counted.
    """
    pydantic_graph = import_module("pydantic_graph")
    builder = pydantic_graph.GraphBuilder()
    following: dict[str, list[Any]] = {name: [] for name in graph}
    steps: dict[str, Any] = {}
    for name, before in graph.items():

        async def nap(context: Any, name: str = name) -> WorkflowMessage:
            messages = context.inputs if len(graph[name]) > 1 else [context.inputs] if graph[name] else []
            return await naps[name].execute(None, JOB, messages)

        steps[name] = entry = builder.step(nap, node_id=name)
        if len(before) > 1:
            entry = builder.join(pydantic_graph.reduce_list_append, initial_factory=list, node_id=f"before {name}")
            builder.add(builder.edge_from(entry).to(steps[name]))
        for parent in before:
            following[parent].append(entry)
    builder.add(builder.edge_from(builder.start_node).to(steps[next(iter(graph))]))
    following[last(graph)].append(builder.end_node)
    for name, entries in following.items():
        builder.add(builder.edge_from(steps[name]).to(*entries))
    return builder.build().run


def in_llama_index(graph: Graph, naps: Naps) -> Go:
    """Build one step for all nodes, and send an event for each node that is ready.

    Short flows are usually written as one step per node, which collects the events of its parents; with a hundred nodes,
    that costs five times as much.
    """
    workflows, events = import_module("workflows"), import_module("workflows.events")
    children: dict[str, list[str]] = {name: [] for name in graph}
    for name, before in graph.items():
        for parent in before:
            children[parent].append(name)

    class Ready(events.Event):
        node: str
        said: Any

    async def start(_: Any) -> Any:
        return Ready(node=next(iter(graph)), said={})

    async def nap(ctx: Any, ready: Any) -> Any:
        said = ready.said
        message = await naps[ready.node].execute(None, JOB, [said[parent] for parent in graph[ready.node]])
        said[ready.node] = message
        for child in children[ready.node]:
            if all(parent in said for parent in graph[child]):
                ctx.send_event(Ready(node=child, said=said))
        return None if children[ready.node] else events.StopEvent(result=message)

    class Workflow(workflows.Workflow):
        pass

    start.__annotations__ = {"_": events.StartEvent, "return": Ready}
    nap.__annotations__ = {"ctx": workflows.Context, "ready": Ready, "return": Ready | events.StopEvent | None}
    for step in (start, nap):
        workflows.step(workflow=Workflow, num_workers=len(graph))(step)
    return Workflow(timeout=None).run


def in_haystack(graph: Graph, naps: Naps) -> Go:
    """Build a component per node, with an input for each predecessor."""
    haystack = import_module("haystack")

    @haystack.component
    class Component:
        def __init__(self, name: str) -> None:
            self._name = name
            self._inputs = [f"from_{n}" for n in range(len(graph[name]))]
            haystack.component.set_input_types(self, **dict.fromkeys(self._inputs or ["start"], WorkflowMessage))
            haystack.component.set_output_types(self, said=WorkflowMessage)

        def run(self, **said: Any) -> Any:
            raise NotImplementedError

        async def run_async(self, **said: Any) -> Any:
            messages = [said[name] for name in self._inputs]
            return {"said": await naps[self._name].execute(None, JOB, messages)}

    pipeline = haystack.Pipeline(max_runs_per_component=1)
    for name, before in graph.items():
        pipeline.add_component(name, Component(name))
        for number, parent in enumerate(before):
            pipeline.connect(f"{parent}.said", f"{name}.from_{number}")
    start = {next(iter(graph)): {"start": WorkflowMessage()}}
    return partial(pipeline.run_async, start, concurrency_limit=len(graph))


def last(graph: Graph) -> str:
    return next(reversed(list(graph)))


STDLIB = ("graphlib, waiting", "graphlib, queue")
"""Two hand-written loops, of which the faster counts."""

OURS: Mapping[str, Engine] = {
    "BuiltinWorkflow": partial(ours, BuiltinWorkflow),
    "BuiltinWorkflow, events on": partial(ours_with_events, BuiltinWorkflow),
    "DbgptWorkflow": partial(ours, DbgptWorkflow),
    "DbgptWorkflow, events on": partial(ours_with_events, DbgptWorkflow),
}

FIELD: Mapping[str, Engine] = {
    "AWEL, its own runner": in_awel,
    "langgraph": in_langgraph,
    "pydantic-graph": in_pydantic_graph,
    "llama-index-workflows": in_llama_index,
    "haystack-ai": in_haystack,
}

ENGINES: Mapping[str, Engine] = {**dict(zip(STDLIB, (by_waiting, by_queue), strict=True)), **OURS, **FIELD}
