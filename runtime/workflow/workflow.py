"""Workflow: operators in order, edited freely, built once, run any number of times."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast
from weakref import finalize

from msgspec.structs import replace as changed
from typing_extensions import TypeVar

from operad.runtime import events
from operad.runtime.events import Event, Listener, RunLog, Scope
from operad.runtime.events.log import check_listener
from operad.runtime.events.stream import Buffer
from operad.runtime.graph.build import Build, Engine
from operad.runtime.graph.call import Executable, OperatorCall
from operad.runtime.graph.edges import Answers, AwelNode, Function, Step, chain_of
from operad.runtime.graph.engines import INSTALL_AWEL, EngineName, awel_is_installed, engine_for
from operad.runtime.graph.operator import BaseOperator
from operad.runtime.graph.schedule import Plan
from operad.runtime.knowledge.insights import Insights
from operad.runtime.models.model import Model
from operad.runtime.policies.limits import Limits, limiters
from operad.runtime.policies.policy import NO_BUDGET, NO_POLICY, Budget, Policy
from operad.runtime.reasoning.reasoner import Reasoner, reasoner_of
from operad.runtime.values.arguments import known_arguments, short_repr
from operad.runtime.values.errors import InputError, MissingExtraError, RunningLoopError
from operad.runtime.values.json_like import JsonLike
from operad.runtime.values.map_item import MapItem
from operad.runtime.values.message import WorkflowMessage, new_id
from operad.runtime.values.questions import Question
from operad.runtime.values.sync import run_sync, running_loop
from operad.runtime.workflow.definition import Definition
from operad.runtime.workflow.event_stream import EventStream, StreamedRun, TextStream, event_filter, run_events
from operad.runtime.workflow.handle import RunHandle
from operad.runtime.workflow.live import LiveRun, Runs
from operad.runtime.workflow.result import Result
from operad.runtime.workflow.run import Run
from operad.runtime.workflow.run_input import JobLike, ReasonerLike, call_of, one_of
from operad.runtime.workflow.run_store import RunStore, run_store_of
from operad.runtime.workflow.setting import setting
from operad.runtime.workflow.start import check_reasoner, check_resume, check_start, with_insights
from operad.runtime.workflow.workflow_arguments import check_types, rounds_of

if TYPE_CHECKING:
    from operad.runtime.workflow.awel import WorkflowNode
    from operad.runtime.workflow.chat import Chat
    from operad.runtime.workflow.chat_store import ChatStore

T = TypeVar("T", default=Any, covariant=True)
E = TypeVar("E", bound=Event, default=Event)


class Workflow(Definition[T]):
    """Directed acyclic graph of operators, optionally with an evaluator of the result.

        workflow = Workflow(write >> check, name="letters", evaluator=Evaluator("The letter is polite."), max_rounds=3)
        print(workflow)  # <Workflow 'letters': 2 operators, engine dbgpt>
        result = workflow.run("Write to Tom.")
        print(result.text, result.status)

    The class is generic in the type of the workflow's answer, which is the answer of the last operator. `add` and
    `add_operator` add operators later.

    The workflow runs on the AWEL engine if dbgpt is installed, otherwise on the built-in engine; both follow the same
    schedule. `BuiltinWorkflow` and `DbgptWorkflow` choose an engine.

    The first run checks and builds the workflow. It can be edited at any time: the next run builds it again, and runs
    in progress do not change. A workflow can be an operator of another workflow; its name is its id there.

    Args:
        graph: The operators with their edges, such as ``a >> [b, c] >> d``; a single operator or function; or a list.
        max_rounds: Maximum number of rounds until the evaluator accepts the result; by default 3 with an `evaluator`,
            and 1 without. In YAML, the default is always 3.
        evaluator: Evaluator of the result, or a function, as for `set_evaluator`.
        model: Model of the runs: a model, its name, or a reasoner; by default the model that environment variables
            name.
        engine: ``dbgpt`` or ``builtin``; by default dbgpt if it is installed.
        durable: Database that stores the runs, so that they survive a crash: a URL such as ``sqlite:///runs.db``, a
            path, or a `Ledger`.
        name: Name in errors and events; id in another workflow.
        policy: Default policy of the operators. It does not apply to nested workflows and maps, whose operators have
            their own policies.
        limits: Maximum number of operators at once, and of requests and tokens per minute sent to models, for all runs
            in this process together.
        budget: Budget of each run, including nested runs.
        listeners: Functions that are called with every event of every run.
        insights: Insights that the runs, including nested runs, use and extend; None for no insights.

    Attributes:
        memory: Maximum number of tokens of a conversation in a prompt of a `chat`; None for 4,000.

    Raises:
        InputError: A value has another type, or an argument is unknown.
        InvalidError: `max_rounds` is below 1, or a listener or the insights cannot be used.
    """

    max_rounds: int = setting()
    budget: Budget = setting()

    @known_arguments
    def __init__(
        self,
        graph: Step[T]
        | Executable
        | Answers[T]
        | Sequence[Step[Any] | Executable | AwelNode | Function]
        | AwelNode
        | int
        | None = None,
        max_rounds: int | None = None,
        *,
        evaluator: Executable | Function | None = None,
        model: Model | Reasoner | str | None = None,
        engine: EngineName | None = None,
        durable: RunStore | str | Path | None = None,
        name: str = "workflow",
        policy: Policy | None = None,
        limits: Limits | None = None,
        budget: Budget | None = None,
        listeners: Sequence[Listener] = (),
        insights: Insights | None = None,
    ) -> None:
        if isinstance(graph, int):
            graph, max_rounds = None, graph  # Workflow(3): the first signature, which keeps working
        check_types(name, policy=policy, budget=budget, limits=limits, listeners=listeners, insights=insights)
        rounds = rounds_of(name, max_rounds, evaluator)
        self._engine = engine
        if engine is not None and engine != self.engine:
            ours = "'dbgpt' or 'builtin'" if type(self).engine is Workflow.engine else repr(self.engine)
            raise InputError(f"workflow {name!r}: engine: expected {ours}, got {engine!r}")
        super().__init__(name, NO_POLICY if policy is None else policy)
        self.max_rounds = rounds
        self.budget = budget or NO_BUDGET
        self._listeners = tuple(listeners)
        self.insights = insights
        self._places, self._calls = limiters(limits, name) if limits else (None, None)
        self._runs = Runs(name)
        # A paused run cannot be answered without its workflow: it is cancelled instead of being collected halfway.
        finalize(self, self._runs.cancel_all).atexit = False
        self.model = model
        self.memory: int | None = None
        if durable is not None:
            self.keep_in(run_store_of(durable))
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
        """The engine that runs the workflow: by default ``dbgpt`` if dbgpt is installed, otherwise ``builtin``."""
        if self._engine in ("dbgpt", "builtin"):
            return self._engine
        return "dbgpt" if awel_is_installed() else "builtin"

    @property
    def model(self) -> Reasoner | None:
        """Reasoner of runs that are given no model; None for the model that environment variables name.

        An assignment takes a model, its name or a reasoner, and has an effect on runs that start from then on.
        """
        return self._given_reasoner

    @model.setter
    def model(self, model: Model | Reasoner | str | None) -> None:
        self._given_reasoner = None if model is None else reasoner_of(model)
        self._reasoner = self._given_reasoner or reasoner_of(None)

    def add_listener(self, listener: Listener) -> None:
        """Add a function that is called with every event of runs that start from now on."""
        check_listener(listener, self.name)
        self._listeners = (*self._listeners, listener)

    def keep_in(self, ledger: RunStore | None) -> None:
        """Store runs that start from now on, with their nested runs, in a ledger; None to store nothing."""
        self._runs.store = ledger

    def run(
        self,
        job: JobLike,
        reasoner: ReasonerLike = None,
        *,
        model: ReasonerLike = None,
        lesson: str | None = None,
        run_id: str | None = None,
        deps: object = None,
    ) -> Result[T]:
        """Run the workflow, wait for it, and return the result; for callers without an event loop.

            result = flow.run("Is this so? The moon has air.", model="gpt-5")
            print(result.output)

        Arguments and errors are those of `arun`.

        Raises:
            RunningLoopError: An event loop is running here: await `arun` instead.
        """
        return run_sync(
            partial(self.arun, job, reasoner, model=model, lesson=lesson, run_id=run_id, deps=deps),
            instead="flow.arun(…)",
        )

    async def arun(
        self,
        job: JobLike,
        reasoner: ReasonerLike = None,
        *,
        model: ReasonerLike = None,
        lesson: str | None = None,
        run_id: str | None = None,
        deps: object = None,
    ) -> Result[T]:
        """Run the workflow and return the result. In a notebook, the cell shows the progress.

        Inside an operator or a tool, the run is a part of that operator's run, as with `aexecute`.

        Args:
            job: The job: a text, a dict or pydantic model of inputs, or a `Job`.
            reasoner: The same as `model`, as a positional argument.
            model: Model of this run: a model, its name or a reasoner; by default the workflow's `model`.
            lesson: Lesson from an earlier attempt.
            run_id: The run's id; a new one by default.
            deps: Any object, such as a database connection, that functions and tools get as `RunContext.deps`, also in
                nested workflows and maps. It is not stored.

        Raises:
            InputError: The job has another type, `reasoner` and `model` are both given, or a run with this id is in
                progress.
            Exception: The errors of `aexecute`.
        """
        call = call_of(job, one_of(reasoner, model), None, lesson, self._run_reasoner, deps)
        outer = events.current_scope()
        if outer is not None:
            run = self.run_within(outer, call)
            return self._result(run, await run.execute())
        unfinished = await self._runs.unfinished(run_id, self.graph) if run_id else None
        return await self._outcome(self._start(call, run_id, watched=True, unfinished=unfinished))

    def start(
        self,
        job: JobLike,
        reasoner: ReasonerLike = None,
        *,
        model: ReasonerLike = None,
        lesson: str | None = None,
        run_id: str | None = None,
        deps: object = None,
    ) -> RunHandle[T]:
        """Start a run in the running event loop and return its handle, which can be awaited, iterated and cancelled.

            run = flow.start("Is this so? The moon has air.")
            async for event in run:
                print(event)
            result = await run

        Arguments and errors are those of `arun`.

        Raises:
            RunningLoopError: No event loop is running here: call `run` instead.
        """
        if running_loop() is None:
            raise RunningLoopError("start(…) needs a running event loop; without one, call run(…)")
        buffer = Buffer(slows=False)
        run_id = run_id or new_id()
        call = call_of(job, one_of(reasoner, model), None, lesson, self._run_reasoner, deps)
        live = self._start(call, run_id, buffer)
        runs = self._runs
        live.task.add_done_callback(lambda _: runs.forget(live))
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

        Arguments, result and errors are those of `aexecute`.

        Raises:
            RunningLoopError: An event loop is running here: await `aexecute` instead.
        """
        return run_sync(
            partial(self.aexecute, job, reasoner, workflow_messages, lesson, run_id=run_id), instead="flow.aexecute(…)"
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
        """Run the workflow and return its message. In a notebook, the cell shows the progress.

        Inside an operator or a tool, the run is a part of that operator's run: its events, usage and questions belong
        to that run.

        Args:
            job: The job: a `Job`, a text, which is its goal, or a dict of its inputs.
            reasoner: Reasoner of this run: a reasoner, a model or its name; by default the workflow's `model`.
            workflow_messages: Messages of earlier experts.
            lesson: Lesson from an earlier attempt.
            run_id: Id of the run; a new one by default.

        Returns:
            The verdict of the best round, with the text and outputs that it judges. Without an evaluator: the message
            of the last operator, or of several ones joined, in the order in which they were added.

        Raises:
            InvalidError: The workflow cannot be built; all its issues are listed.
            OperatorError: An operator failed; its error is the cause.
            SkippedError: Every tail was skipped.
            BudgetError: The run used more than its budget.
            PausedError: The run waits for a person; resume it with `aresume`.
            InputError: A run with this id is in progress.
        """
        call = call_of(job, reasoner, workflow_messages, lesson, self._run_reasoner)
        outer = events.current_scope()
        if outer is not None:
            return await self.run_within(outer, call).execute()
        unfinished = await self._runs.unfinished(run_id, self.graph) if run_id else None
        return await self._start(call, run_id, watched=True, unfinished=unfinished).outcome()

    def stream(
        self,
        job: JobLike,
        reasoner: ReasonerLike = None,
        workflow_messages: Sequence[WorkflowMessage] | None = None,
        lesson: str | None = None,
        *,
        model: ReasonerLike = None,
        run_id: str | None = None,
        deps: object = None,
        only: Sequence[type[E]] | type[E] | None = None,
        under: Sequence[Any] | Step[Any] | Function | str = (),
    ) -> EventStream[E]:
        """Run the workflow and yield its events as they happen; the last event has the message.

            for event in flow.stream("Is this so? The moon has air.", only=events.OperatorFinished):
                print(event.operator_id)

        In an event loop, iterate with ``async for``.

        Arguments and errors are those of `aexecute`. A question to a person is an event, `events.Interrupted`, which
        the body of the loop answers with `EventStream.answer`. ``async for`` also waits for an answer that comes from
        elsewhere, by `answer`; ``for`` raises `PausedError` if the body has not answered. Closing the stream stops the
        run; a durable run can be resumed. A consumer that falls far behind slows the run down, so that memory stays
        bounded.

        Args:
            job: The job: a `Job`, a text, which is its goal, or a dict of its inputs.
            reasoner: The same as `model`, as a positional argument.
            workflow_messages: Messages of earlier experts.
            lesson: Lesson from an earlier attempt.
            model: Model of this run: a model, its name or a reasoner; by default the workflow's `model`.
            run_id: Id of the run; a new one by default.
            deps: Object for functions and tools; see `arun`.
            only: The types of events to yield; all by default.
            under: Prefix of the paths of the events to yield: an operator, its id, or a path as text with slashes or as
                a sequence.

        Raises:
            InvalidError: `only` or `under` has another type.
        """
        known = [*self._operators, *(evaluator.get_id() for evaluator, _ in self._evaluators)]
        wanted = event_filter(() if only is None else only, under, self._id_of, known)
        call = call_of(job, one_of(reasoner, model), workflow_messages, lesson, self._run_reasoner, deps)
        return EventStream(partial(self._start, call, run_id), wanted)

    def stream_text(
        self,
        job: JobLike,
        reasoner: ReasonerLike = None,
        *,
        model: ReasonerLike = None,
        lesson: str | None = None,
        run_id: str | None = None,
        deps: object = None,
    ) -> TextStream:
        """Run the workflow and yield the text of its answer, piece by piece.

            for piece in flow.stream_text("Is this so? The moon has air."):
                print(piece, end="", flush=True)

        In an event loop, iterate with ``async for``. The pieces come while the model writes if they are certain to be
        the answer: the last operator has no tools, ports or output type, and no evaluator can ask for another round.
        Otherwise they come at the end. Arguments and errors are those of `arun`. Closing the stream stops the run; a
        run that waits for a person stays paused after the `PausedError`.

        Raises:
            AnswerError: The model broke off, and its repeated answer differs.
        """
        from operad.runtime.workflow.answer_stream import pieces  # imported here because that module imports this one

        given = one_of(reasoner, model)
        thinks = self._run_reasoner if given is None else reasoner_of(given)
        call = call_of(job, thinks, None, lesson, self._run_reasoner, deps)
        heard = run_events(partial(self._start, call, run_id), StreamedRun(pauses=True))
        return TextStream(pieces(cast("Any", self), thinks, heard))

    def chat(
        self,
        id: str | None = None,
        *,
        store: ChatStore | str | Path | None = None,
        memory: int | None = None,
        model: Model | Reasoner | str | None = None,
        deps: object = None,
    ) -> Chat[T]:
        """Start or continue a conversation with the workflow; see `Chat`.

            chat = flow.chat("user-42", store="chats.db")
            print(chat.send("My name is Ada.").text)

        Args:
            id: The id of the conversation; a new one by default.
            store: An SQLite file or a `ChatStore` that stores the turns; by default they are in memory.
            memory: Maximum number of tokens of the conversation in a prompt; by default the workflow's `memory`, or
                4,000.
            model: The model of the answers and the summaries; by default the workflow's.
            deps: Object for functions and tools in the runs; see `arun`.

        Raises:
            InputError: A value has another type.
        """
        from operad.runtime.workflow.chat import Chat  # imported here because that module imports this one

        reasoner = self._run_reasoner if model is None else reasoner_of(model)
        tokens = self.memory if memory is None else memory
        return Chat(cast("Any", self), reasoner, id, store=store, memory=tokens, deps=deps)

    def as_awel(
        self, *, stream: bool = False, model: Model | Reasoner | str | None = None, deps: object = None, **options: Any
    ) -> WorkflowNode:
        """Return the workflow as an AWEL operator for use in an AWEL DAG: ``a >> workflow.as_awel() >> b``.

        The input of the AWEL operator is the job: a text is the goal, a dict the inputs. Its output is the workflow's
        answer.

        Args:
            stream: True if the output is a stream of pieces of the text, for AWEL's streaming operators.
            model: The model of the runs; by default the workflow's.
            deps: Object for functions and tools in the runs; see `arun`.
            options: For AWEL's BaseOperator: ``task_name`` (by default the workflow's name), ``dag``, ``runner``.

        Raises:
            MissingExtraError: dbgpt is not installed.
        """
        try:
            from operad.runtime.workflow.awel import WorkflowNode  # imported here because it imports dbgpt
        except ImportError as error:
            raise MissingExtraError(
                f"workflow {self.name!r}: as_awel() needs dbgpt ({error}): {INSTALL_AWEL}"
            ) from error
        reasoner = self._reasoner if model is None else reasoner_of(model)
        return WorkflowNode(cast("Any", self), reasoner, stream=stream, deps=deps, **options)

    # Runs that wait for a person

    def questions(self, run_id: str) -> Sequence[Question]:
        """Return the open questions of a run; may block, if a ledger stores the runs.

        Raises:
            InputError: No run with this id is in progress.
        """
        return self._runs.questions(run_id)

    def live_questions(self, run_id: str) -> Sequence[Question]:
        """Return the open questions of a run in progress in this process, without a look into the database.

        A run that is not in progress here has none.
        """
        live = self._runs.get(run_id)
        return () if live is None else live.run.questions.open()

    async def answer(self, run_id: str, answers: JsonLike) -> None:
        """Answer questions of a run, and return once the answers are accepted; further events show the effect.

        Args:
            run_id: The run.
            answers: Answers by question id; some questions may stay open. A value that is not a dict is the answer to
                the only open question.

        Raises:
            InputError: No run with this id is in progress or stored.
            InvalidError: An answer does not fit its question's schema, or the question is unknown. No answer was
                accepted then.
        """
        await self._runs.answer(run_id, answers)

    async def aresume(
        self, run_id: str, answers: JsonLike, model: ReasonerLike = None, *, deps: object = None
    ) -> Result[T]:
        """Answer questions of a paused run, and continue it to its end.

        A durable run without a driver continues in this process: operators that had not finished start again. If one of
        them asks another question than before, the answer is not used, and the run waits again.

        Args:
            run_id: The run.
            answers: Answers by question id; some questions may stay open. A value that is not a dict is the answer to
                the only open question.
            model: Model, name of a model or reasoner with which a durable run without a driver continues; by default
                the workflow's `model`.
            deps: Object for functions and tools, as for `arun`. In a run in progress in this process, those that start
                from now on get it instead of the deps that the run began with; an operator that waits keeps its own.

        Raises:
            InputError: No run with this id is in progress or stored; or the run's stream has a consumer, or another
                process drives the run: `answer` passes the answers on.
            InvalidError: An answer does not fit its question's schema, or the question is unknown. No answer was
                accepted then.
            PausedError: The run waits for more answers.
            Exception: The errors of `aexecute`.
        """
        given = await self._runs.by_question(run_id, answers)
        store = self._runs.store_of(run_id)
        if store is None:
            return self._result(*await self._runs.resume(run_id, given, deps=deps))
        going_on = reasoner_of(model) if model is not None else self._reasoner
        call = await asyncio.to_thread(store.to_resume, run_id, self, going_on)
        if call is None and (live := store.live_run(run_id)) is not None:
            return self._result(*await self._runs.resume(run_id, given, live, deps))
        if call is None:
            raise InputError(
                f"workflow {self.name!r}: run {run_id!r} is in progress in another process: pass the answers on with "
                f"`await flow.answer({run_id!r}, answers)`; it continues the run, and ledger.result({run_id!r}) returns its message"
            )
        unfinished = await self._runs.unfinished(run_id, self.graph)
        call = changed(call, deps=deps)
        # Checked first, so that a run that cannot continue uses no answer.
        check_resume(self.built(), call, unfinished, has_workers=store.workers is not None)
        await asyncio.to_thread(store.answer, run_id, given)
        return await self._outcome(self._start(call, run_id, watched=True, unfinished=unfinished))

    def resume(self, run_id: str, answers: JsonLike, model: ReasonerLike = None, *, deps: object = None) -> Result[T]:
        """Answer questions of a paused run, and continue it to its end; for callers without an event loop.

        Arguments, result and errors are those of `aresume`.

        Raises:
            RunningLoopError: An event loop is running here: await `aresume` instead.
        """
        self._runs.refuse_streamed(run_id)
        return run_sync(partial(self.aresume, run_id, answers, model, deps=deps), instead="flow.aresume(…)")

    async def cancel(self, run_id: str) -> None:
        """Cancel a run that is running or paused in this process, and wait until it has ended.

        A durable run is also found if another `Workflow` object started it.

        Raises:
            InputError: No run with this id is in progress in this process.
        """
        await self._runs.cancel(run_id)

    def check_model(self, reasoner: Reasoner, operators: Collection[BaseOperator] | None = None) -> None:
        """Check that the reasoner has a model that suits the operators known to ask it, also in nested workflows.

        Args:
            reasoner: The reasoner.
            operators: The operators and evaluators that are going to run; by default all.

        Raises:
            InputError: The reasoner has no model, or a too small one.
        """
        graph = self.graph()
        check_reasoner(reasoner, [*graph.operators.values(), *graph.evaluators] if operators is None else operators)

    # Inside

    @property
    def _run_reasoner(self) -> Reasoner:
        """The reasoner of a run without one: the workflow's; without that, the one of the run that contains it."""
        outer = None if self._given_reasoner else events.current_scope()
        return cast("Reasoner", outer.run.reasoner) if outer else self._reasoner

    @property
    def has_model(self) -> bool:
        """True if the workflow was given a model of its own."""
        return self._given_reasoner is not None

    def inner_call(self, call: OperatorCall) -> OperatorCall:
        """Return an operator's call as the input of a run inside it: with the workflow's own model, if it has one.

        Its deps are left out, as the run has those of the run around it, also if these are replaced later.
        """
        if self._given_reasoner is None and call.deps is None:
            return call
        return changed(call, reasoner=self._given_reasoner or call.reasoner, deps=None)

    def _result(self, run: Run, message: WorkflowMessage) -> Result[T]:
        return Result(message, run.messages, run.build.graph.operators, run.tails, run.rounds, run.root.log.run_id)

    async def _outcome(self, live: LiveRun) -> Result[T]:
        try:
            return self._result(live.run, await live.outcome())
        finally:
            del live  # live -> task -> error -> traceback -> this frame -> live would wait for the garbage collector

    def _start(
        self,
        call: OperatorCall,
        run_id: str | None,
        buffer: Buffer | None = None,
        *,
        watched: bool = False,
        streamed: bool = False,
        unfinished: Collection[BaseOperator] | None = None,
    ) -> LiveRun:
        """Start a run in the running event loop.

        Args:
            call: The input of the run.
            run_id: The run's id; a new one by default.
            buffer: Buffer that receives the events of the run.
            watched: True to show the progress if the run is in a notebook.
            streamed: True if the events have a consumer, which learns of questions from them.
            unfinished: The operators that a stored run has not finished; None if all of them may run.
        """
        if not isinstance(run_id, str | None):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"workflow {self.name!r}: run_id: expected a text, got {short_repr(run_id)}")
        build, store, outer = self.built(), self._runs.store, events.current_scope()
        if outer is None:
            check_start(build, call, unfinished, has_workers=store is not None and store.workers is not None)
        run_id = run_id or new_id()
        path = outer.path if outer else ()
        insights, listeners = with_insights(self.insights, self._listeners, outer)
        if watched and "IPython" in sys.modules:
            from operad.runtime.observe.notebook import progress_in_notebook  # only notebooks need it

            listeners = (*listeners, *progress_in_notebook())
        log = RunLog(run_id, listeners, buffer, outer=outer.run.log if outer else None, depth=len(path))
        run = Run(build, call, log, outer=outer, prefix=path, insights=insights)
        work = partial(store.execute, self, run, call) if store is not None and outer is None else run.execute
        return self._runs.start(run_id, run, work, streamed=streamed)

    def run_within(self, outer: Scope, call: OperatorCall, item: MapItem | None = None) -> Run:
        """Return a run inside an operator of another run, which writes its events into the log of that run.

        Args:
            outer: The operator that contains the run.
            call: The input of the run.
            item: The item of a map, or the pass of a loop, that the run is for; it replaces the operator's id in paths.
        """
        path = outer.path if item is None else (*outer.path[:-1], str(item))
        insights, listeners = with_insights(self.insights, self._listeners, outer)
        log = outer.run.log
        if listeners:
            log = RunLog(new_id(), listeners, outer=log, depth=len(path))
        return Run(self.built(), call, log, outer=outer, prefix=path, insights=insights)

    def built(self) -> Build:
        """Return the workflow as it is now, ready to run; it is built once after each edit.

        Raises:
            InvalidError: The workflow cannot be built; all its issues are listed.
            MissingExtraError: The engine is ``dbgpt``, and dbgpt is not installed.
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
        """Return the engine for a plan; called once after each edit, under the workflow's lock."""
        return engine_for(plan, self.engine, self.name)


class BuiltinWorkflow(Workflow[T]):
    """Workflow that runs on the built-in engine, without dbgpt.

    Example:
        print(BuiltinWorkflow(facts >> check).engine)  # builtin
    """

    @property
    def engine(self) -> Literal["builtin"]:
        """The engine that runs the workflow: always ``builtin``."""
        return "builtin"


class DbgptWorkflow(Workflow[T]):
    """Workflow that runs as a DB-GPT AWEL DAG, with the runner `AwelRunner`. The first build imports dbgpt.

        workflow = DbgptWorkflow(facts >> answer)
        print(workflow.run("Is this so? The moon has air.").text)

    If dbgpt is not installed, the build raises `MissingExtraError`, which names the command that installs it.
    """

    @property
    def engine(self) -> Literal["dbgpt"]:
        """The engine that runs the workflow: always ``dbgpt``."""
        return "dbgpt"
