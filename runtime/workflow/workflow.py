"""Workflow: operators in order, edited freely, built once, run any number of times."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from threading import RLock
from typing import Any, Literal, cast, get_args, overload

from msgspec.structs import replace as changed
from pydantic import JsonValue, ValidationError
from typing_extensions import TypeVar

from operad.runtime import events
from operad.runtime.events import Event, Listener, RunLog, Scope
from operad.runtime.events.stream import Buffer
from operad.runtime.graph.build import Build, Engine
from operad.runtime.graph.chart import chart
from operad.runtime.graph.engine import drive
from operad.runtime.graph.graph import Executable, WorkflowGraph, asks_model, read_outside, reads_of
from operad.runtime.graph.schedule import Join, Plan, Ports
from operad.runtime.knowledge.insights import Insights, RunInsights
from operad.runtime.models.model import Model
from operad.runtime.policies.limits import Limiter, Limits
from operad.runtime.policies.policy import NO_BUDGET, NO_POLICY, Budget, Policy, check_positive
from operad.runtime.reasoning.reasoner import Reasoner, reasoner_of
from operad.runtime.values.errors import (
    InputError,
    InvalidError,
    Issue,
    MissingExtraError,
    OperadError,
    RunningLoopError,
    did_you_mean,
    shorten,
)
from operad.runtime.values.message import Job, WorkflowMessage, new_id
from operad.runtime.values.output import plain_value, shown
from operad.runtime.values.questions import Question
from operad.runtime.values.sync import run_sync, running_loop
from operad.runtime.workflow.edges import Chain, Function, Port, Step, chain_of, check_step, is_executable
from operad.runtime.workflow.function import FunctionOperator
from operad.runtime.workflow.guard import Call
from operad.runtime.workflow.handle import RunHandle
from operad.runtime.workflow.kept import Ledger, ledger_of
from operad.runtime.workflow.live import LiveRun
from operad.runtime.workflow.result import Result
from operad.runtime.workflow.run import Run

_AWEL_IMPORTS = ("dbgpt", "cloudpickle", "cachetools")
"""What ``import dbgpt.core.awel`` needs besides the packages that operad itself depends on."""

INSTALL_AWEL = "pip install --no-deps 'dbgpt>=0.8.2,<0.9' cloudpickle cachetools"
"""The command that installs the AWEL engine on any Python: dbgpt's own pins cannot be installed on Python 3.12 and later."""


T = TypeVar("T", default=Any, covariant=True)
U = TypeVar("U")

JobLike = Job | str | Mapping[str, JsonValue]
"""What a run is given: a job, a text, which is the job's goal, or a dict, which is its inputs."""


class Workflow(Step[T]):
    """Operators in a directed acyclic graph, with an evaluator at the end if one is set.

        workflow = Workflow(write >> check, name="letters", evaluator=Evaluator("The letter is polite."), max_rounds=3)
        print(workflow)  # <Workflow 'letters': 2 operators, engine dbgpt>
        result = workflow.run("Write to Tom.")
        print(result.text, result.status)

    It is generic in the type of its answer, that of the last operator. `add` and `add_operator` add operators later.

    The AWEL engine of dbgpt runs it where dbgpt is installed, and the built-in engine elsewhere:
    both run the same schedule. `BuiltinWorkflow` and `DbgptWorkflow` choose an engine.

    It is built when it is first run, exactly once, and checked before. Editing is allowed at any
    time: it makes the next run build anew, and never touches a run in flight. A workflow may be
    added to another as an operator, whose id is its name.

    Args:
        graph: The operators with their edges, such as ``a >> [b, c] >> d``; a single operator or function; or a list.
        max_rounds: How often at most the operators run until the evaluator is content.
        evaluator: What judges the result.
        model: Who does the thinking in its runs: a model, its name, or a reasoner; by default the model that the
            environment names.
        engine: ``dbgpt`` or ``builtin``; by default dbgpt where it is installed.
        durable: Where its runs are kept, so that they survive a crash: a URL such as ``sqlite:///runs.db``, a path, or a
            `Ledger`.
        name: What errors and events call it; its id in another workflow.
        policy: How its operators run, where their own policy says nothing; but not the workflows
            and maps in it, whose operators have policies of their own.
        limits: How many of its operators may run at once, and how many requests and tokens a
            minute they may send to models; over all its runs in this process.
        budget: What each of its runs may use, all that runs inside included.
        listeners: Called with every event of every run.
        insights: What its runs learn from and add to, those of workflows inside it included; None
            for nothing.

    Raises:
        InputError: A value is none of these.
        InvalidError: `max_rounds` is below 1, or a listener or the insights cannot be used.
    """

    def __init__(
        self,
        graph: Step[T] | Sequence[Step[Any] | Executable | Function] | Function | int | None = None,
        max_rounds: int = 1,
        *,
        evaluator: Executable | None = None,
        model: Model | Reasoner | str | None = None,
        engine: Literal["dbgpt", "builtin"] | None = None,
        durable: Ledger | str | Path | None = None,
        name: str = "workflow",
        policy: Policy = NO_POLICY,
        limits: Limits | None = None,
        budget: Budget | None = None,
        listeners: Sequence[Listener] = (),
        insights: Insights | None = None,
    ) -> None:
        if isinstance(graph, int):
            graph, max_rounds = None, graph  # its first argument was max_rounds before it was the graph
        check_positive(f"workflow {name!r}", ("max_rounds",), max_rounds=max_rounds)
        self._engine = engine
        if engine is not None and engine != self.engine:
            ours = "'dbgpt' or 'builtin'" if type(self).engine is Workflow.engine else repr(self.engine)
            raise InputError(f"workflow {name!r}: engine: expected {ours}, got {engine!r}")
        for listener in listeners:
            self._check_listener(listener, name)
        if not isinstance(insights, Insights | None):  # pyright: ignore[reportUnnecessaryIsInstance]
            issue = Issue("insights", f"are given as Insights(path), not as {insights!r}", "insights")
            raise InvalidError(f"workflow {name!r}", [issue])
        self.name = name
        self.max_rounds = max_rounds
        self.policy = policy
        self.budget = budget or NO_BUDGET
        self._listeners = tuple(listeners)
        self.insights = insights
        self._places, self._calls = _limiters(limits or Limits(), name)
        self._lock = RLock()
        self._operators: dict[str, Executable | Workflow] = {}
        self._before: dict[str, dict[str, Ports]] = {}
        self._joins: dict[str, Join] = {}
        self._policies: dict[str, Policy] = {}
        self._doubles: list[str] = []
        self._evaluators: list[tuple[Executable, Policy]] = []
        self._built: Build | None = None
        self._live: dict[str, LiveRun] = {}
        self._ledger: Ledger | None = None
        self._functions: list[FunctionOperator[Any]] = []
        self._given_reasoner = None if model is None else reasoner_of(model)
        self._reasoner = self._given_reasoner or reasoner_of(None)
        if durable is not None:
            self.keep_in(ledger_of(durable))
        if graph is not None:
            self._add_chain(chain_of(graph))
        if evaluator is not None:
            self.set_evaluator(evaluator)

    def __repr__(self) -> str:
        count = len(self._operators)
        operators = "1 operator" if count == 1 else f"{count} operators"
        return f"<{type(self).__name__} {self.name!r}: {operators}, engine {self.engine}>"

    @property
    def engine(self) -> Literal["dbgpt", "builtin"]:
        """The engine that runs the workflow: ``dbgpt`` where dbgpt is installed, else ``builtin``."""
        if self._engine in ("dbgpt", "builtin"):
            return self._engine
        return "dbgpt" if awel_is_installed() else "builtin"

    def get_id(self) -> str:
        """Its identity as an operator of another workflow: its name."""
        return self.name

    @overload
    def add(
        self, step: Step[U], after: Sequence[Any] = (), *, join: Join | None = None, policy: Policy | None = None
    ) -> Step[U]: ...
    @overload
    def add(
        self, step: Any, after: Sequence[Any] = (), *, join: Join | None = None, policy: Policy | None = None
    ) -> Any: ...
    def add(
        self, step: Any, after: Sequence[Any] = (), *, join: Join | None = None, policy: Policy | None = None
    ) -> Any:
        """Add an operator after others.

            check = flow.add(Operator("Check it."), after=["facts", triage["question"]])

        Args:
            step: An operator, a workflow or a plain function; or several with edges between them, as ``a >> b``.
            after: What comes before it: operators, ports, functions, or ids.
            join: When it runs, and
            policy: how it runs; both as for `add_operator`, and for a single operator only.

        Returns:
            The step; of a function, the operator that is made of it.

        Raises:
            InputError: A value is none of these.
            InvalidError: There is no such join.
        """
        if isinstance(after, str) or not isinstance(after, list | tuple):
            raise InputError(f"add(…, after=…): expected a list such as ['facts'], got {shown(after)}")
        if is_executable(step) or not isinstance(step, Step | list | tuple):
            added = self._as_step(step)
            self.add_operator(added, cast("Sequence[Any]", after), join=join, policy=policy)
            return added
        if join is not None or policy is not None:
            raise InputError("add(…): join and policy are for a single operator; add the operators one by one")
        chain = chain_of(cast("object", step))
        self._add_chain(chain)
        for head in chain.heads if after else ():
            self.add_operator(head, cast("Sequence[Any]", after))
        return cast("Any", step)

    def add_operator(
        self,
        operator: Executable | Workflow | Function,
        previous_ops: Sequence[Executable | Workflow | Port | Function | str] | None = None,
        next_ops: Sequence[Executable | Workflow | Function | str] | None = None,
        *,
        join: Join | None = None,
        policy: Policy | None = None,
    ) -> None:
        """Add an operator after `previous_ops` and before `next_ops`.

        Adding the same operator again adds the edges. The others may be added later.

        Args:
            operator: The operator; a workflow, which runs inside this one; or a plain function.
            previous_ops: What comes before it, given by itself or its id; a `Port` where the edge is taken only if
                that operator's message takes the port.
            next_ops: What comes after it, likewise.
            join: When it runs: ``all_done`` (the default), when all before it have ended or been
                skipped, and one at least ran; ``all``, only if all ran; ``any``, as soon as the
                first ran, with that one's message alone.
            policy: How it runs.

        Raises:
            InvalidError: There is no such join, or a `Port` is among `next_ops`.
            InputError: Something else is given in the place of an operator.
        """
        step: Executable | Workflow = self._as_step(operator)
        operator_id = step.get_id()
        self._check_added(operator_id, previous_ops, next_ops, join)
        parents = [self._leaves(previous) for previous in previous_ops or ()]
        children = [self._id_of(following) for following in next_ops or ()]
        with self._lock:
            self._built = None
            if self._operators.setdefault(operator_id, step) is not step:
                self._doubles.append(operator_id)
            before = self._before.setdefault(operator_id, {})
            for previous, ports in parents:
                _add_edge(before, previous, ports)
            for following in children:
                _add_edge(self._before.setdefault(following, {}), operator_id, frozenset())
            if join is not None:
                self._joins[operator_id] = join
            if policy is not None:
                self._policies[operator_id] = policy

    def _check_added(
        self, operator_id: str, previous_ops: object, next_ops: Sequence[object] | None, join: Join | None
    ) -> None:
        for name, others in (("previous_ops", previous_ops), ("next_ops", next_ops)):
            if isinstance(others, str):
                raise InputError(f"{name}: expected a list such as [{others!r}], got the text {others!r}")
        issues: list[Issue] = []
        if join is not None and join not in get_args(Join):
            hint = did_you_mean(join, get_args(Join))
            issues.append(Issue("join", f"{join!r} is not {', '.join(get_args(Join))}{hint}", operator_id))
        if any(isinstance(following, Port) for following in next_ops or ()):
            issues.append(
                Issue(
                    "port",
                    "a Port says where an edge leaves: it belongs in the previous_ops of what follows",
                    operator_id,
                )
            )
        if issues:
            raise InvalidError(f"workflow {self.name!r}: the operator cannot be added", issues)

    def remove_operator(self, operator: Executable | Workflow) -> None:
        """Remove an operator with its edges.

        Raises:
            InvalidError: It is not in the workflow.
        """
        operator_id = operator.get_id()
        with self._lock:
            self._require(operator_id, "remove")
            self._built = None
            del self._operators[operator_id]
            for kept in (self._before, self._joins, self._policies):
                kept.pop(operator_id, None)
            self._doubles = [double for double in self._doubles if double != operator_id]
            for before in self._before.values():
                before.pop(operator_id, None)

    def update_operator(self, operator: Executable | Workflow) -> None:
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

    def get_operator(self, operator_id: str) -> Executable | Workflow | None:
        """The operator with that id, or None."""
        return self._operators.get(operator_id)

    def get_operators(self) -> list[Executable | Workflow]:
        """All operators, in order of adding."""
        with self._lock:
            return list(self._operators.values())

    def set_evaluator(self, evaluator: Executable | None, *, policy: Policy = NO_POLICY) -> None:
        """Set what judges the result, in place of all that did; None for nobody.

        Args:
            evaluator: What judges.
            policy: How it runs. The workflow's own completes it, except for the fallback: a text
                that stands in for an answer is no verdict.
        """
        if evaluator is not None:
            self._check_evaluator(evaluator)
        with self._lock:
            self._built = None
            self._evaluators = [(evaluator, policy)] if evaluator else []

    def add_evaluator(self, evaluator: Executable, *, policy: Policy = NO_POLICY) -> None:
        """Add another one that judges. All judge at once, and their verdicts are joined: see `verdict.joined`.

        Args:
            evaluator: What judges.
            policy: How it runs, as in `set_evaluator`.
        """
        self._check_evaluator(evaluator)
        with self._lock:
            self._built = None
            self._evaluators.append((evaluator, policy))

    def _check_evaluator(self, evaluator: object) -> None:
        if not is_executable(evaluator):
            raise InputError(f"evaluator: expected an Evaluator, such as Evaluator('…'); got {shown(evaluator)}")
        self._settle(evaluator)

    def add_listener(self, listener: Listener) -> None:
        """Have `listener` called with every event of every run that begins from now on."""
        self._check_listener(listener, self.name)
        self._listeners = (*self._listeners, listener)

    @staticmethod
    def _check_listener(listener: Listener, name: str) -> None:
        if not callable(listener) or inspect.iscoroutinefunction(listener):
            issue = Issue("listener", "is no plain function of an event; it is called, and not awaited", repr(listener))
            raise InvalidError(f"workflow {name!r}", [issue])

    def keep_in(self, ledger: Ledger | None) -> None:
        """Have every run that begins from now on kept in a ledger, such as a `Ledger`; None for nowhere.

        What runs inside of it is kept with it.
        """
        self._ledger = ledger

    def graph(self) -> WorkflowGraph:
        """The workflow as it stands, frozen."""
        with self._lock:
            in_order = [*self._operators, *(key for key in self._before if key not in self._operators)]
            operators = {key: self._as_operator(operator) for key, operator in self._operators.items()}
            policies = {key: self._policy_of(key, operators.get(key)) for key in in_order}
            for evaluator, policy in self._evaluators:
                own: Policy | None = getattr(evaluator, "policy", None)
                default = replace(self.policy, fallback=None)
                policies[evaluator.get_id()] = policy.or_else(own or NO_POLICY).or_else(default)
            return WorkflowGraph(
                operators=operators,
                before={key: dict(self._before.get(key, {})) for key in in_order},
                joins={key: join for key, join in self._joins.items() if join != "all_done"},
                policies={key: policy for key, policy in policies.items() if policy},
                evaluators=tuple(evaluator for evaluator, _ in self._evaluators),
                doubles=tuple(self._doubles),
            )

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """What a notebook shows: the operators as a flowchart."""
        from operad.runtime.observe.notebook import picture

        return {"text/plain": repr(self), **picture(chart(self.graph()))}

    def run(
        self,
        job: JobLike,
        reasoner: Reasoner | Model | str | None = None,
        *,
        lesson: str | None = None,
        run_id: str | None = None,
    ) -> Result[T]:
        """Run the workflow, wait for it, and return the result; for callers without an event loop.

            result = flow.run("Is this so? The moon has air.")
            print(result.output)

        Takes and raises what `arun` does.

        Raises:
            RunningLoopError: An event loop is running here: await `arun` instead.
        """
        return run_sync(
            partial(self.arun, job, reasoner, lesson=lesson, run_id=run_id), instead=f"{type(self).__name__}.arun(…)"
        )

    async def arun(
        self,
        job: JobLike,
        reasoner: Reasoner | Model | str | None = None,
        *,
        lesson: str | None = None,
        run_id: str | None = None,
    ) -> Result[T]:
        """Run the workflow and return the result. In a notebook, the cell shows how it gets on.

        Called inside an operator or a tool, it is a part of that operator's run, as with `aexecute`.

        Args:
            job: What is to be done: a text; a dict of inputs; or a `Job`.
            reasoner: Who does the thinking in this run: a reasoner, a model or its name; by default the workflow's `model`.
            lesson: What to do better than last time.
            run_id: The run's id; a fresh one by default.

        Raises:
            InputError: The job is none of these, or a run with this id is going on.
            Exception: As `aexecute`.
        """
        call = self._call(job, None if reasoner is None else reasoner_of(reasoner), None, lesson)
        outer = events.current_scope()
        if outer is not None:
            run = self._run_inside(outer, call)
            return self._result(run, await run.execute())
        live = self._start(call, run_id, watchers=_watchers())
        return self._result(live.run, await live.outcome())

    def start(
        self,
        job: JobLike,
        reasoner: Reasoner | Model | str | None = None,
        *,
        lesson: str | None = None,
        run_id: str | None = None,
    ) -> RunHandle[T]:
        """Start a run in the running event loop, and return its handle: to await, iterate, answer and cancel.

            run = flow.start("Is this so? The moon has air.")
            async for event in run:
                print(event)
            result = await run

        Takes and raises what `arun` does.

        Raises:
            RunningLoopError: No event loop is running here: call `run` instead.
        """
        if running_loop() is None:
            raise RunningLoopError("start(…) needs a running event loop; without one, call run(…)")
        buffer = Buffer(slows=False)
        run_id = run_id or new_id()
        call = self._call(job, None if reasoner is None else reasoner_of(reasoner), None, lesson)
        live = self._start(call, run_id, buffer, streamed=False)
        live.task.add_done_callback(lambda _: self._live.pop(run_id, None))
        return RunHandle(run_id, live, buffer, partial(self._result, live.run))

    def execute(
        self,
        job: JobLike,
        reasoner: Reasoner | Model | str | None = None,
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
        job: JobLike,
        reasoner: Reasoner | Model | str | None = None,
        workflow_messages: Sequence[WorkflowMessage] | None = None,
        lesson: str | None = None,
        *,
        run_id: str | None = None,
    ) -> WorkflowMessage:
        """Run the workflow. In a notebook, the cell shows how it gets on.

        Called inside an operator or a tool, it is a part of that operator's run: its events appear
        there, its usage counts there, its questions are asked there.

        Args:
            job: What is to be done: a `Job`; a text, which is its goal; or a dict of its inputs.
            reasoner: Who does the thinking in this run: a reasoner, a model or its name; by default the workflow's `model`.
            workflow_messages: What earlier experts produced.
            lesson: What to do better than last time.
            run_id: The run's identity in events; a fresh one by default.

        Returns:
            The last round's verdict with the text and outputs that it judged; without an
            evaluator the tail's message, or one that joins all tails that ran in order of adding.

        Raises:
            InvalidError: The workflow cannot be built; all its issues are listed.
            OperatorError: An operator raised; its error is the cause.
            SkippedError: Every tail was skipped.
            BudgetError: The run used more than its budget.
            PausedError: The run waits for a person; `aresume` goes on with it.
            InputError: A run with this id is going on.
        """
        call = self._call(job, reasoner, workflow_messages, lesson)
        outer = events.current_scope()
        if outer is not None:
            return await self._inside(outer, call)
        return await self._start(call, run_id, watchers=_watchers()).outcome()

    async def stream(
        self,
        job: JobLike,
        reasoner: Reasoner | Model | str | None = None,
        workflow_messages: Sequence[WorkflowMessage] | None = None,
        lesson: str | None = None,
        *,
        run_id: str | None = None,
        only: Sequence[type[Event]] | type[Event] = (),
        under: Sequence[str] | str = (),
    ) -> AsyncGenerator[Event, None]:
        """Run the workflow and yield its events as they happen; the last one bears the message.

        Takes and raises what `aexecute` does, except that a run that asks a person goes on waiting:
        the stream yields `events.Interrupted`, and `resume` answers. Closing the stream cancels the
        run. A consumer that falls far behind slows the run down instead of filling memory.

        Args:
            job: What is to be done: a `Job`; a text, which is its goal; or a dict of its inputs.
            reasoner: Who does the thinking in this run: a reasoner, a model or its name; by default the workflow's `model`.
            workflow_messages: What earlier experts produced.
            lesson: What to do better than last time.
            run_id: The run's identity in events; a fresh one by default.
            only: The kinds of events to yield; none for all.
            under: Where: the beginning of the paths of the events to yield, with slashes or one by one.

        Raises:
            InvalidError: `only` or `under` is none of this.
        """
        kinds, path = _filters(only, under)
        buffer = Buffer(lambda event: isinstance(event, kinds) and event.path[: len(path)] == path)
        call = self._call(job, reasoner, workflow_messages, lesson)
        live = self._start(call, run_id, buffer)
        live.task.add_done_callback(lambda _: buffer.close())
        try:
            while (event := await buffer.get()) is not None:
                yield event
            await live.task
        finally:
            await live.cancel()

    # Runs that wait for a person

    def questions(self, run_id: str) -> Sequence[Question]:
        """What a run asks and nobody has answered yet.

        Raises:
            InputError: No run with this id is going on.
        """
        if self._ledger is not None and run_id not in self._live:
            return self._ledger.open_questions(run_id)
        return self._find(run_id).run.questions.open()

    async def answer(self, run_id: str, answers: Mapping[str, JsonValue]) -> None:
        """Answer what a run asks, and return once the answers are taken; what comes of the run is in its events.

        Args:
            run_id: The run.
            answers: By the ids of the questions. Not all need be answered at once.

        Raises:
            InputError: No run with this id is going on, or is kept.
            InvalidError: An answer breaks its question's schema, or nobody asks what it answers; no answer was given.
        """
        if self._ledger is not None and run_id not in self._live:
            await asyncio.to_thread(self._ledger.answer, run_id, answers)
            return
        live = self._find(run_id)
        if live.loop is asyncio.get_running_loop():
            await live.answer(answers)
        else:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(live.answer(answers), live.loop))

    async def aresume(self, run_id: str, answers: Mapping[str, JsonValue]) -> WorkflowMessage | None:
        """Answer what a run asks, and go on with it.

        Args:
            run_id: The run.
            answers: By the ids of the questions. Not all need be answered at once.

        Returns:
            The run's message; None where somebody consumes its stream, which will bear it, or where the
            run is kept and goes on elsewhere, or when it is next executed.

        Raises:
            InputError: No run with this id is going on, or is kept.
            InvalidError: An answer breaks its question's schema, or nobody asks what it answers;
                then no answer was given.
            PausedError: The run waits for more answers.
            Exception: As `aexecute`.
        """
        if self._ledger is not None and run_id not in self._live:
            await asyncio.to_thread(self._ledger.answer, run_id, answers)
            return None
        live = self._find(run_id)
        if live.loop is asyncio.get_running_loop():
            return await live.resume(answers)
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(live.resume(answers), live.loop))

    def resume(self, run_id: str, answers: Mapping[str, JsonValue]) -> WorkflowMessage | None:
        """The same as `aresume`, for callers without an event loop, and for consumers of a stream.

        Raises:
            RunningLoopError: An event loop is running here and nobody consumes the run's stream:
                await `aresume` instead.
        """
        live = self._live.get(run_id)
        if live is not None and live.streamed and running_loop() is live.loop:
            live.run.questions.answer(answers)
            return None
        return run_sync(partial(self.aresume, run_id, answers), instead=f"{type(self).__name__}.aresume(…)")

    async def cancel(self, run_id: str) -> None:
        """End a run that waits or works, and wait until all in it has ended.

        Raises:
            InputError: No run with this id is going on.
        """
        live = self._find(run_id)
        if live.loop is asyncio.get_running_loop():
            await live.cancel()
        else:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(live.cancel(), live.loop))

    def check_model(self, reasoner: Reasoner) -> None:
        """Raises InputError if an operator, however deep inside, asks a model and the reasoner has none.

        Operators say so with ``asks_model``; the others are not known to ask.
        """
        check: Callable[[], None] | None = getattr(reasoner, "check_model", None)
        if check is None:
            return
        try:
            check()
        except OperadError:
            graph = self.graph()
            if asks_model([*graph.operators.values(), *graph.evaluators]):
                raise

    # Inside

    def _call(
        self,
        job: JobLike,
        reasoner: Reasoner | Model | str | None,
        workflow_messages: Sequence[WorkflowMessage] | None,
        lesson: str | None,
    ) -> Call:
        """What a run is given."""
        if isinstance(reasoner, Model | str):
            reasoner = reasoner_of(reasoner)
        return Call(reasoner or self._reasoner, _job(job), [], list(workflow_messages or ()), lesson)

    def with_own_model(self, call: Call) -> Call:
        """The call, with the workflow's own model for a reasoner where it was given one."""
        return changed(call, reasoner=self._given_reasoner) if self._given_reasoner else call

    def _result(self, run: Run, message: WorkflowMessage) -> Result[T]:
        return Result(message, run.messages, self._steps_of(run.build), run.tails, run.rounds, run.root.log.run_id)

    @staticmethod
    def _steps_of(build: Build) -> Mapping[str, Any]:
        return {
            key: getattr(step, "body", step) if isinstance(step, _Within) else step
            for key, step in build.graph.operators.items()
        }

    def read_output(self, message: WorkflowMessage) -> T:
        """The answer that a message of the workflow holds, as an instance of its type."""
        graph = self.graph()
        followed = {parent for parents in graph.before.values() for parent in parents}
        tails = {key: step for key, step in self._operators.items() if key not in followed}
        said = {part.operator_id: part for part in message.parts} or (
            {next(iter(tails)): message} if len(tails) == 1 else {}
        )
        values = {key: _read(tails[key], part) for key, part in said.items() if key in tails}
        if len(values) == 1:
            return cast("T", next(iter(values.values())))
        return cast("T", values or plain_value(message))

    def _as_step(self, step: Any) -> Any:
        """An operator or a workflow as it is, with an id of its own; the operator that is made of a function."""
        check_step(step)
        if not is_executable(step):
            made = next((each for each in self._functions if each.function == step), None)
            if made is None:
                made = FunctionOperator(step)
                self._functions.append(made)
            step = made
        self._settle(step)
        return step

    def _settle(self, step: Any) -> None:
        settle: Callable[[Collection[str]], None] | None = getattr(step, "settle_id", None)
        if settle is not None:
            with self._lock:
                judges = [evaluator for evaluator, _ in self._evaluators]
                named = {each.get_id() for each in (*self._operators.values(), *judges) if each is not step}
                settle(named | {key for key in self._before if key not in self._operators})

    def _id_of(self, step: Any) -> str:
        """The id of an operator that is given by itself or by that."""
        return step if isinstance(step, str) else self._as_step(step).get_id()

    def _leaves(self, step: Any) -> tuple[str, Ports]:
        """Where an edge leaves: the id of the operator, and its port."""
        if isinstance(step, Port):
            port = cast("Port[Any]", step)
            return self._id_of(port.operator), frozenset({port.name})
        return self._id_of(step), frozenset()

    def _add_chain(self, chain: Chain[Any]) -> None:
        dangling: list[Port[Any]] = [tail for tail in chain.tails if isinstance(tail, Port)]
        if dangling:
            port = dangling[0]
            raise InputError(f"the port {port.name!r} leads nowhere: write operator[{port.name!r}] >> what follows")
        for step in chain.steps:
            self.add_operator(step)
        for before, after in chain.edges:
            self.add_operator(after, [before])

    def _start(
        self,
        call: Call,
        run_id: str | None,
        buffer: Buffer | None = None,
        watchers: tuple[Listener, ...] = (),
        *,
        streamed: bool | None = None,
    ) -> LiveRun:
        run_id = run_id or new_id()
        going = self._live.get(run_id)
        if going is not None and not (self._ledger and going.task.done()):  # where its message is kept
            raise InputError(f"workflow {self.name!r}: a run with the id {run_id!r} is going on; give each its own")
        build = self.built()
        outer = events.current_scope()
        if outer is None:
            self._refuse_unknown_reads(build)
            if self._ledger is None or self._ledger.workers is None:  # whose models are their own
                self.check_model(call.reasoner)
                for operator in build.with_models:
                    operator.check_model()
        path = outer.path if outer else ()
        insights, listeners = self._insights_in(outer)
        outer_log = outer.run.log if outer else None
        log = RunLog(run_id, (*listeners, *watchers), buffer, outer=outer_log, depth=len(path))
        run = Run(build, call, log, outer=outer, prefix=path, insights=insights)
        kept = self._ledger is not None and outer is None
        work = partial(self._ledger.drive, self, run, call) if self._ledger and kept else run.execute
        forget = partial(self._live.pop, run_id, None)
        streamed = buffer is not None if streamed is None else streamed
        live = LiveRun(run_id, run, work, streamed=streamed, forget=forget)
        self._live[run_id] = live
        return live

    async def _inside(self, outer: Scope, call: Call, place: str | None = None) -> WorkflowMessage:
        """Run inside an operator; `place` replaces its id in the paths of what runs."""
        return await self._run_inside(outer, call, place).execute()

    def _run_inside(self, outer: Scope, call: Call, place: str | None = None) -> Run:
        """A run inside an operator."""
        prefix = outer.path if place is None else (*outer.path[:-1], place)
        log = outer.run.log
        insights, listeners = self._insights_in(outer)
        if listeners:
            log = RunLog(new_id(), listeners, outer=log, depth=len(prefix))
        return Run(self.built(), call, log, outer=outer, prefix=prefix, insights=insights)

    def _refuse_unknown_reads(self, build: Build) -> None:
        known = build.graph.operators
        issues = [
            Issue(
                "unknown-operator", f"reads what {read!r} said, and nobody is called so{did_you_mean(read, known)}", key
            )
            for key, operator in known.items()
            for read in reads_of(operator)
            if read not in known
        ]
        if issues:
            raise InvalidError(f"workflow {self.name!r} cannot be built", issues)

    def _insights_in(self, outer: Scope | None) -> tuple[RunInsights | None, tuple[Listener, ...]]:
        """What a run inside of `outer` is told by earlier ones, and who listens to it: what is told first, so as to
        learn, unless it listens further out already.
        """
        if self.insights is None:
            return None, self._listeners
        for scope in outer.outwards() if outer else ():
            there = scope.run.insights
            if isinstance(there, RunInsights) and there.store is self.insights:
                return there, self._listeners
        insights = RunInsights(self.insights)
        return insights, (insights, *self._listeners)

    def _as_operator(self, operator: Executable | Workflow) -> Executable:
        return _Within(operator, self) if isinstance(operator, Workflow) else operator

    def _policy_of(self, operator_id: str, operator: Executable | None) -> Policy:
        """Its own; completed by the workflow's, which is for single operators and not for whole workflows inside."""
        policy = self._policies.get(operator_id, NO_POLICY)
        own: Policy | None = getattr(operator, "policy", None)
        if own is not None and not isinstance(operator, _Within):
            policy = policy.or_else(own)
        if not isinstance(getattr(operator, "body", None), Workflow):
            policy = policy.or_else(self.policy)
        fallback: Any = policy.fallback
        if isinstance(fallback, Workflow):
            policy = replace(policy, fallback=_Within(cast("Workflow[Any]", fallback), self))
        return policy

    def _find(self, run_id: str) -> LiveRun:
        live = self._live.get(run_id)
        if live is None or live.loop.is_closed():
            hint = did_you_mean(run_id, self._live)
            raise InputError(
                f"workflow {self.name!r}: no run with the id {run_id!r} is going on{hint}; "
                "it ended, or the event loop that it waited in did"
            )
        return live

    def built(self) -> Build:
        """The workflow made ready to run, as it stands; made once per edited state.

        Raises:
            InvalidError: It cannot be built; all its issues are listed.
            MissingExtraError: It is a `DbgptWorkflow`, and dbgpt is not installed.
        """
        built = self._built
        if built is not None:
            return built
        with self._lock:
            if self._built is None:
                graph = self.graph()
                plan = graph.plan(self.name)
                self._built = Build(
                    name=self.name,
                    graph=graph,
                    plan=plan,
                    engine=self._build(plan),
                    engine_name=self.engine,
                    max_rounds=self.max_rounds,
                    budget=self.budget,
                    places=self._places,
                    calls=self._calls,
                )
            return self._built

    def _require(self, operator_id: str, what: str) -> None:
        if operator_id not in self._operators:
            hint = did_you_mean(operator_id, self._operators)
            issue = Issue("unknown-operator", f"is not in the workflow{hint}", operator_id)
            raise InvalidError(f"workflow {self.name!r}: nothing to {what}", [issue])

    def _build(self, plan: Plan) -> Engine:
        """Make what runs the plan; called once per edited state, under the workflow's lock."""
        if self.engine == "builtin":
            return drive
        try:
            from operad.runtime.graph import awel
        except ImportError as error:
            raise MissingExtraError(
                f"workflow {self.name!r}: the AWEL engine needs dbgpt ({error}): {INSTALL_AWEL}; "
                "Workflow and BuiltinWorkflow run without it"
            ) from error
        return awel.build(plan)


class BuiltinWorkflow(Workflow[T]):
    """A workflow that the built-in engine runs, without dbgpt."""

    @property
    def engine(self) -> Literal["builtin"]:
        """The engine that runs the workflow: always ``builtin``."""
        return "builtin"


class DbgptWorkflow(Workflow[T]):
    """A workflow as a DB-GPT AWEL DAG, run by our AWEL runner. dbgpt is imported at the first build.

    Where dbgpt is not installed, building it raises `MissingExtraError`, with the command that installs dbgpt.
    """

    @property
    def engine(self) -> Literal["dbgpt"]:
        """The engine that runs the workflow: always ``dbgpt``."""
        return "dbgpt"


def awel_is_installed() -> bool:
    """Return whether the AWEL engine can be imported, without importing it."""
    return all(find_spec(name) is not None for name in _AWEL_IMPORTS)


class _Within:
    """A workflow as an operator of another.

    Attributes:
        body: The workflow.
    """

    def __init__(self, workflow: Workflow, around: Workflow) -> None:
        self.body = workflow
        self._around = around

    @property
    def runs_workflows(self) -> Sequence[Workflow]:
        return (self.body,)

    def get_id(self) -> str:
        return self.body.get_id()

    @property
    def instruction(self) -> str:
        return f"A workflow of {shorten([operator.get_id() for operator in self.body.get_operators()])}."

    @property
    def reads(self) -> Sequence[str]:
        return read_outside([*self.body.graph().operators.values()])

    def check(self, before: Mapping[str, Executable]) -> list[Issue]:
        name = self.get_id()
        if self.body is self._around or contains(self.body, self._around):
            return [Issue("nested-in-itself", f"it contains the workflow {self._around.name!r} that it is in", name)]
        found = self.body.graph().check()
        return [Issue(i.code, i.message, f"{name}/{i.where}" if i.where else name) for i in found]

    async def execute(
        self,
        reasoner: Reasoner,
        job: Job,
        workflow_messages: list[WorkflowMessage] | None = None,
        previous_expert_outputs: list[WorkflowMessage] | None = None,
        lesson: str | None = None,
    ) -> WorkflowMessage:
        return await run_inside(
            self.body, Call(reasoner, job, workflow_messages or [], previous_expert_outputs or [], lesson)
        )


async def run_inside(workflow: Workflow, call: Call, place: str | None = None) -> WorkflowMessage:
    """Run a workflow inside the operator that the current code is.

    Args:
        workflow: The workflow.
        call: What it is given; its first operators get the call's messages.
        place: What replaces the operator's id in the paths of what runs.
    """
    outer = events.current_scope()
    assert outer is not None  # noqa: S101 - operators run in runs
    return await workflow._inside(outer, workflow.with_own_model(call), place)  # pyright: ignore[reportPrivateUsage]


def contains(workflow: Workflow, wanted: object) -> bool:
    """Whether a workflow holds an operator or a workflow, however deep inside."""
    open_, seen = [workflow], {id(workflow)}
    while open_:
        for operator in open_.pop().get_operators():
            inner: Any = operator if isinstance(operator, Workflow) else getattr(operator, "body", None)
            if operator is wanted or inner is wanted:
                return True
            if isinstance(inner, Workflow) and id(cast("object", inner)) not in seen:
                seen.add(id(cast("object", inner)))
                open_.append(cast("Workflow", inner))
    return False


def _job(job: JobLike) -> Job:
    """A job from what a user gives."""
    if isinstance(job, Job):
        return job
    if isinstance(job, str):
        return Job(goal=job)
    if not isinstance(job, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(f"expected a text, a dict of inputs or a Job; got {shown(job)}")
    try:
        return Job(goal="", inputs=dict(job))
    except ValidationError as error:
        fault = error.errors()[0]
        where = ".".join(map(str, fault["loc"]))
        raise InputError(f"{where}: the inputs of a job are JSON values by name: {fault['msg']}") from error


def _read(step: Any, message: WorkflowMessage) -> Any:
    read: Callable[[WorkflowMessage], Any] = getattr(step, "read_output", plain_value)
    return read(message)


def _filters(
    only: Sequence[type[Event]] | type[Event], under: Sequence[str] | str
) -> tuple[tuple[type[Event], ...], tuple[str, ...]]:
    kinds: tuple[Any, ...] = (only,) if isinstance(only, type) else tuple(only)
    path: tuple[Any, ...] = tuple(under.split("/")) if isinstance(under, str) and under else tuple(under)
    issues = [
        Issue("only", f"{kind!r} is no type of event; name such as events.OperatorFinished", "only")
        for kind in kinds
        if not (isinstance(kind, type) and issubclass(kind, Event))
    ]
    issues += [Issue("under", f"{step!r} is no id", "under") for step in path if not isinstance(step, str)]
    if issues:
        raise InvalidError("the filters of a stream", issues)
    return kinds or (Event,), path


def _add_edge(before: dict[str, Ports], parent: str, ports: Ports) -> None:
    """Add an edge, or ports to the one that is there; one without ports is taken in any case."""
    there = before.get(parent)
    before[parent] = ports if there is None else there | ports if there and ports else frozenset()


def _limiters(limits: Limits, name: str) -> tuple[Limiter | None, Limiter | None]:
    """What limits the operators that run at once, and what their calls of models."""
    places = Limiter(Limits(concurrency=limits.concurrency)) if limits.concurrency else None
    rates = Limits(requests_per_minute=limits.requests_per_minute, tokens_per_minute=limits.tokens_per_minute)
    return places, Limiter(rates, f"workflow {name}") if rates.a_minute else None


def _watchers() -> tuple[Listener, ...]:
    """Who shows a run in a notebook, where this is one."""
    if "IPython" not in sys.modules:
        return ()
    from operad.runtime.observe.notebook import progress_in_notebook

    return progress_in_notebook()
