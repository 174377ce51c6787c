"""Workflow: operators in order, edited freely, built once, run any number of times."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from msgspec.structs import replace as changed
from pydantic import JsonValue
from typing_extensions import TypeVar

from operad.runtime import events
from operad.runtime.events import Event, Listener, RunLog, Scope
from operad.runtime.events.stream import Buffer
from operad.runtime.graph.build import Build, Engine
from operad.runtime.graph.call import Executable, OperatorCall
from operad.runtime.graph.edges import Function, Step, chain_of
from operad.runtime.graph.engines import EngineName, awel_is_installed, engine_for
from operad.runtime.graph.graph import asks_model
from operad.runtime.graph.schedule import Plan
from operad.runtime.knowledge.insights import Insights, RunInsights
from operad.runtime.models.model import Model
from operad.runtime.policies.limits import Limiter, Limits
from operad.runtime.policies.policy import NO_BUDGET, NO_POLICY, Budget, Policy, check_positive
from operad.runtime.reasoning.reasoner import Reasoner, reasoner_of
from operad.runtime.values.errors import InputError, InvalidError, Issue, OperadError, RunningLoopError, did_you_mean
from operad.runtime.values.message import WorkflowMessage, new_id
from operad.runtime.values.questions import Question
from operad.runtime.values.sync import run_sync, running_loop
from operad.runtime.workflow.definition import Definition
from operad.runtime.workflow.event_stream import EventStream
from operad.runtime.workflow.given import JobLike, ReasonerLike, call_of
from operad.runtime.workflow.handle import RunHandle
from operad.runtime.workflow.kept import Ledger, ledger_of
from operad.runtime.workflow.live import LiveRun, LiveRuns
from operad.runtime.workflow.result import Result
from operad.runtime.workflow.run import Run

if TYPE_CHECKING:
    from operad.runtime.workflow.chat import Chat
    from operad.runtime.workflow.chat_store import ChatStore

T = TypeVar("T", default=Any, covariant=True)


class Workflow(Definition[T]):
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
        engine: EngineName | None = None,
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
        super().__init__(name, policy)
        self.max_rounds = max_rounds
        self.budget = budget or NO_BUDGET
        self._listeners = tuple(listeners)
        self.insights = insights
        self._places, self._calls = _limiters(limits or Limits(), name)
        self._live = LiveRuns(name)
        self._ledger: Ledger | None = None
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
    def engine(self) -> EngineName:
        """The engine that runs the workflow: ``dbgpt`` where dbgpt is installed, else ``builtin``."""
        if self._engine in ("dbgpt", "builtin"):
            return self._engine
        return "dbgpt" if awel_is_installed() else "builtin"

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

    def run(
        self,
        job: JobLike,
        reasoner: ReasonerLike = None,
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
        reasoner: ReasonerLike = None,
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
        call = call_of(job, reasoner, None, lesson, self._reasoner)
        outer = events.current_scope()
        if outer is not None:
            run = self.run_within(outer, call)
            return self._result(run, await run.execute())
        live = self._start(call, run_id, watchers=_watchers())
        return self._result(live.run, await live.outcome())

    def start(
        self,
        job: JobLike,
        reasoner: ReasonerLike = None,
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
        call = call_of(job, reasoner, None, lesson, self._reasoner)
        live = self._start(call, run_id, buffer, streamed=False)
        live.task.add_done_callback(lambda _: self._live.forget(run_id))
        return RunHandle(run_id, live, buffer, partial(self._result, live.run))

    def execute(
        self,
        job: JobLike,
        reasoner: ReasonerLike = None,
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
        reasoner: ReasonerLike = None,
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
        call = call_of(job, reasoner, workflow_messages, lesson, self._reasoner)
        outer = events.current_scope()
        if outer is not None:
            return await self.run_within(outer, call).execute()
        return await self._start(call, run_id, watchers=_watchers()).outcome()

    def stream(
        self,
        job: JobLike,
        reasoner: ReasonerLike = None,
        workflow_messages: Sequence[WorkflowMessage] | None = None,
        lesson: str | None = None,
        *,
        run_id: str | None = None,
        only: Sequence[type[Event]] | type[Event] = (),
        under: Sequence[str] | str = (),
    ) -> EventStream:
        """Run the workflow and yield its events as they happen; the last one bears the message.

            for event in flow.stream("Is this so? The moon has air.", only=events.OperatorFinished):
                print(event.operator_id)

        With an event loop it is iterated by ``async for``.

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
        call = call_of(job, reasoner, workflow_messages, lesson, self._reasoner)
        return EventStream(
            self._events(call, run_id, lambda event: isinstance(event, kinds) and event.path[: len(path)] == path)
        )

    async def _events(
        self, call: OperatorCall, run_id: str | None, wanted: Callable[[Event], bool]
    ) -> AsyncGenerator[Event, None]:
        buffer = Buffer(wanted)
        live = self._start(call, run_id, buffer)
        live.task.add_done_callback(lambda _: buffer.close())
        try:
            while (event := await buffer.get()) is not None:
                yield event
            await live.task
        finally:
            await live.cancel()

    def chat(
        self,
        id: str | None = None,
        *,
        store: ChatStore | str | Path | None = None,
        memory: int | None = None,
        model: Model | Reasoner | str | None = None,
    ) -> Chat[T]:
        """Begin a conversation with the workflow, or go on with one; see `Chat`.

            chat = flow.chat("user-42", store="chats.db")
            print(chat.send("My name is Ada.").text)

        Args:
            id: The id of the conversation; a fresh one by default.
            store: An SQLite file or a `ChatStore` that keeps the turns; by default they are in memory.
            memory: Tokens that the conversation may have in a prompt; 4,000 by default.
            model: The model of the answers and the summaries; by default the workflow's.

        Raises:
            InputError: A value is none of these.
        """
        from operad.runtime.workflow.chat import Chat  # not at import: it is made of workflows

        reasoner = self._reasoner if model is None else reasoner_of(model)
        return Chat(cast("Any", self), reasoner, id, store=store, memory=memory)

    # Runs that wait for a person

    def questions(self, run_id: str) -> Sequence[Question]:
        """What a run asks and nobody has answered yet.

        Raises:
            InputError: No run with this id is going on.
        """
        if self._ledger is not None and run_id not in self._live:
            return self._ledger.open_questions(run_id)
        return self._live.find(run_id).run.questions.open()

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
        await self._live.answer(run_id, answers)

    async def aresume(self, run_id: str, answers: Mapping[str, JsonValue]) -> WorkflowMessage | None:
        """Answer what a run asks, and go on with it.

        Args:
            run_id: The run.
            answers: By the ids of the questions. Not all need be answered at once.

        Returns:
            The run's message; None where somebody consumes its stream, which will bear it, or where the
            run is kept and goes on in another process. A kept run that no process drives goes on here.

        Raises:
            InputError: No run with this id is going on, or is kept.
            InvalidError: An answer breaks its question's schema, or nobody asks what it answers;
                then no answer was given.
            PausedError: The run waits for more answers.
            Exception: As `aexecute`.
        """
        if self._ledger is None or run_id in self._live:
            return await self._live.resume(run_id, answers)
        await asyncio.to_thread(self._ledger.answer, run_id, answers)
        call = await asyncio.to_thread(self._ledger.to_resume, run_id, self._reasoner)
        return None if call is None else await self._start(call, run_id, watchers=_watchers()).outcome()

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
        await self._live.cancel(run_id)

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

    def with_own_model(self, call: OperatorCall) -> OperatorCall:
        """The call, with the workflow's own model for a reasoner where it was given one."""
        return changed(call, reasoner=self._given_reasoner) if self._given_reasoner else call

    def _result(self, run: Run, message: WorkflowMessage) -> Result[T]:
        return Result(message, run.messages, run.build.graph.operators, run.tails, run.rounds, run.root.log.run_id)

    def _start(
        self,
        call: OperatorCall,
        run_id: str | None,
        buffer: Buffer | None = None,
        watchers: tuple[Listener, ...] = (),
        *,
        streamed: bool | None = None,
    ) -> LiveRun:
        run_id = run_id or new_id()
        self._live.refuse_second(run_id, unless_done=self._ledger is not None)  # its message is kept then
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
        return self._live.start(run_id, run, work, streamed=buffer is not None if streamed is None else streamed)

    def run_within(self, outer: Scope, call: OperatorCall, place: str | None = None) -> Run:
        """Return a run of the workflow inside an operator of another run; `place` replaces the operator's id in paths."""
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
            for read in operator.reads
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

    def _build(self, plan: Plan) -> Engine:
        """Make what runs the plan; called once per edited state, under the workflow's lock."""
        return engine_for(plan, self.engine, self.name)


class BuiltinWorkflow(Workflow[T]):
    """A workflow that the built-in engine runs, without dbgpt."""

    @property
    def engine(self) -> Literal["builtin"]:
        """The engine that runs the workflow: always ``builtin``."""
        return "builtin"


class DbgptWorkflow(Workflow[T]):
    """A workflow as a DB-GPT AWEL DAG, run by our AWEL runner. dbgpt is imported at the first build.

        workflow = DbgptWorkflow(facts >> answer)
        print(workflow.run("Is this so? The moon has air.").text)

    Where dbgpt is not installed, building it raises `MissingExtraError`, with the command that installs dbgpt.
    """

    @property
    def engine(self) -> Literal["dbgpt"]:
        """The engine that runs the workflow: always ``dbgpt``."""
        return "dbgpt"


def _filters(
    only: Sequence[type[Event]] | type[Event], under: Sequence[str] | str
) -> tuple[tuple[type[Event], ...], tuple[str, ...]]:
    kinds: tuple[Any, ...] = tuple(only) if isinstance(only, list | tuple | set) else (only,)
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
