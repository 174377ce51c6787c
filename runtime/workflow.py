"""Workflow: operators in order, edited freely, built once, run any number of times."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Sequence
from functools import partial
from threading import RLock

from operad.runtime.engine import drive
from operad.runtime.errors import InvalidError, Issue, did_you_mean
from operad.runtime.events import Event, Listener, RunLog
from operad.runtime.graph import Executable, WorkflowGraph
from operad.runtime.message import Job, WorkflowMessage, new_id
from operad.runtime.reasoner import Reasoner
from operad.runtime.run import Build, Engine, Run
from operad.runtime.schedule import Plan
from operad.runtime.sync import run_sync


class Workflow(ABC):
    """Operators in a directed acyclic graph, with an evaluator at the end if one is set.

    It is built when it is first run, exactly once, and checked before. Editing is allowed at any
    time: it makes the next run build anew, and never touches a run in flight.

    Args:
        max_rounds: How often at most the operators run until the evaluator is content.
        name: What errors and events call it.
    """

    def __init__(self, max_rounds: int = 1, *, name: str = "workflow") -> None:
        if max_rounds < 1:
            raise InvalidError(
                f"workflow {name!r}", [Issue("max-rounds", f"{max_rounds} is less than 1", "max_rounds")]
            )
        self.name = name
        self.max_rounds = max_rounds
        self._lock = RLock()
        self._operators: dict[str, Executable] = {}
        self._before: dict[str, dict[str, None]] = {}
        self._doubles: list[str] = []
        self._evaluator: Executable | None = None
        self._built: Build | None = None

    def add_operator(
        self,
        operator: Executable,
        previous_ops: Sequence[Executable] | None = None,
        next_ops: Sequence[Executable] | None = None,
    ) -> None:
        """Add an operator after `previous_ops` and before `next_ops`.

        Adding the same operator again adds the edges. The others may be added later.
        """
        operator_id = operator.get_id()
        with self._lock:
            self._built = None
            if self._operators.setdefault(operator_id, operator) is not operator:
                self._doubles.append(operator_id)
            before = self._before.setdefault(operator_id, {})
            before.update((previous.get_id(), None) for previous in previous_ops or ())
            for following in next_ops or ():
                self._before.setdefault(following.get_id(), {})[operator_id] = None

    def remove_operator(self, operator: Executable) -> None:
        """Remove an operator with its edges.

        Raises:
            InvalidError: It is not in the workflow.
        """
        operator_id = operator.get_id()
        with self._lock:
            self._require(operator_id, "remove")
            self._built = None
            del self._operators[operator_id]
            self._before.pop(operator_id, None)
            self._doubles = [double for double in self._doubles if double != operator_id]
            for before in self._before.values():
                before.pop(operator_id, None)

    def update_operator(self, operator: Executable) -> None:
        """Put `operator` in the place of the one with the same id.

        Raises:
            InvalidError: No operator has its id.
        """
        operator_id = operator.get_id()
        with self._lock:
            self._require(operator_id, "update")
            self._built = None
            self._operators[operator_id] = operator
            self._doubles = [double for double in self._doubles if double != operator_id]

    def get_operator(self, operator_id: str) -> Executable | None:
        """The operator with that id, or None."""
        return self._operators.get(operator_id)

    def get_operators(self) -> list[Executable]:
        """All operators, in order of adding."""
        with self._lock:
            return list(self._operators.values())

    def set_evaluator(self, evaluator: Executable | None) -> None:
        """Set what judges the result, or None for nobody."""
        with self._lock:
            self._built = None
            self._evaluator = evaluator

    def graph(self) -> WorkflowGraph:
        """The workflow as it stands, frozen."""
        with self._lock:
            in_order = [*self._operators, *(key for key in self._before if key not in self._operators)]
            return WorkflowGraph(
                operators=dict(self._operators),
                before={key: tuple(self._before[key]) for key in in_order},
                evaluator=self._evaluator,
                doubles=tuple(self._doubles),
            )

    def execute(
        self,
        job: Job,
        reasoner: Reasoner,
        workflow_messages: Sequence[WorkflowMessage] | None = None,
        lesson: str | None = None,
        *,
        run_id: str | None = None,
    ) -> WorkflowMessage:
        """Run the workflow and wait for it; for callers without an event loop.

        Takes, returns and raises what `aexecute` does.

        Raises:
            RunningLoopError: An event loop is running here: await `aexecute` instead.
        """
        return run_sync(
            partial(self.aexecute, job, reasoner, workflow_messages, lesson, run_id=run_id),
            instead=f"{type(self).__name__}.aexecute(…)",
        )

    async def aexecute(
        self,
        job: Job,
        reasoner: Reasoner,
        workflow_messages: Sequence[WorkflowMessage] | None = None,
        lesson: str | None = None,
        *,
        run_id: str | None = None,
    ) -> WorkflowMessage:
        """Run the workflow.

        Args:
            job: What is to be done.
            reasoner: Who does the thinking in this run.
            workflow_messages: What earlier experts produced.
            lesson: What to do better than last time.
            run_id: The run's identity in events; a fresh one by default.

        Returns:
            The last round's verdict with the text and outputs that it judged; without an
            evaluator the tail's message, or one that joins all tails in order of adding.

        Raises:
            InvalidError: The workflow cannot be built; all its issues are listed.
            OperatorError: An operator raised; its error is the cause.
        """
        return await self._run(job, reasoner, workflow_messages, lesson, run_id, ())

    async def stream(
        self,
        job: Job,
        reasoner: Reasoner,
        workflow_messages: Sequence[WorkflowMessage] | None = None,
        lesson: str | None = None,
        *,
        run_id: str | None = None,
    ) -> AsyncGenerator[Event, None]:
        """Run the workflow and yield its events as they happen; the last one bears the message.

        Takes and raises what `aexecute` does. Closing the stream cancels the run.
        """
        events: asyncio.Queue[Event | None] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def listen(event: Event) -> None:  # tools that run in threads speak too
            loop.call_soon_threadsafe(events.put_nowait, event)

        run = asyncio.ensure_future(self._run(job, reasoner, workflow_messages, lesson, run_id, (listen,)))
        run.add_done_callback(lambda _: loop.call_soon(events.put_nowait, None))
        try:
            while (event := await events.get()) is not None:
                yield event
            await run
        finally:
            run.cancel()
            await asyncio.wait([run])
            if not run.cancelled():
                run.exception()  # seen, where the consumer has left before it was raised

    async def _run(
        self,
        job: Job,
        reasoner: Reasoner,
        previous: Sequence[WorkflowMessage] | None,
        lesson: str | None,
        run_id: str | None,
        listeners: tuple[Listener, ...],
    ) -> WorkflowMessage:
        log = RunLog(run_id or new_id(), listeners)
        return await Run(
            self._build_once(), job, reasoner, list(previous or ()), lesson, log, self.max_rounds
        ).execute()

    def _build_once(self) -> Build:
        built = self._built
        if built is not None:
            return built
        with self._lock:
            if self._built is None:
                graph = self.graph()
                plan = graph.plan(self.name)
                self._built = Build(self.name, graph, plan, self._build(plan))
            return self._built

    def _require(self, operator_id: str, what: str) -> None:
        if operator_id not in self._operators:
            hint = did_you_mean(operator_id, self._operators)
            issue = Issue("unknown-operator", f"is not in the workflow{hint}", operator_id)
            raise InvalidError(f"workflow {self.name!r}: nothing to {what}", [issue])

    @abstractmethod
    def _build(self, plan: Plan) -> Engine:
        """Make what runs the plan; called once per edited state, under the workflow's lock."""


class BuiltinWorkflow(Workflow):
    """A workflow run by this package alone, without dbgpt."""

    def _build(self, plan: Plan) -> Engine:
        return partial(drive, plan)


class DbgptWorkflow(Workflow):
    """A workflow as a DB-GPT AWEL DAG, run by our AWEL runner. dbgpt is imported at the first build."""

    def _build(self, plan: Plan) -> Engine:
        from operad.runtime import awel

        return awel.build(plan)
