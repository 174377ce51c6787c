"""Workflow: operators in order, edited freely, built once, run any number of times."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, overload

from msgspec.structs import replace
from typing_extensions import TypedDict, TypeVar, Unpack

from operad.runtime.events import Event, Listener
from operad.runtime.events.stream import Buffer
from operad.runtime.graph.build import INSTALL_AWEL
from operad.runtime.graph.call import JobLike, ReasonerLike, RunOptions, StreamOptions
from operad.runtime.graph.chat2graph import Executable
from operad.runtime.graph.edges import (
    After,
    AnswerPath,
    Awaited,
    Function,
    Plain,
    Step,
    Streaming,
    is_executable,
    predecessors,
)
from operad.runtime.models.model import Model
from operad.runtime.policies.policy import Policy
from operad.runtime.reasoning.reasoner import Reasoner, reasoner_of
from operad.runtime.values.errors import MissingExtraError, RunningLoopError
from operad.runtime.values.json_like import JsonLike
from operad.runtime.values.message import WorkflowMessage, new_id
from operad.runtime.values.sync import run_sync, running_loop
from operad.runtime.workflow.answer_stream import pieces
from operad.runtime.workflow.base_workflow import BaseWorkflow
from operad.runtime.workflow.event_stream import EventStream, StreamedRun, TextStream, event_filter, run_events
from operad.runtime.workflow.map import ItemError, Map, OnError
from operad.runtime.workflow.result import Result
from operad.runtime.workflow.runs import RunHandle

if TYPE_CHECKING:
    from operad.runtime.evaluation.cases import Case, CasesLike
    from operad.runtime.evaluation.report import EvaluationReport
    from operad.runtime.values.step_record import StepRecord
    from operad.runtime.workflow.awel import WorkflowNode
    from operad.runtime.workflow.chat import Chat
    from operad.runtime.workflow.chat_store import ChatStore
    from operad.runtime.workflow.evaluate import EvaluationOptions, Evaluators

T = TypeVar("T", default=Any, covariant=True)
U = TypeVar("U")
E = TypeVar("E", bound=Event, default=Event)

Over = str | AnswerPath | Executable | Function


class MapOptions(TypedDict, total=False):
    """Options of `Workflow.map`."""

    id: str
    after: After
    concurrency: int
    policy: Policy | None


class FailOptions(MapOptions, total=False):
    """Options of a map of which all items succeed, or failed ones are left out."""

    on_error: Literal["fail", "skip"]


class KeepOptions(MapOptions):
    """Options of a map with an `ItemError` in the place of each failed item."""

    on_error: OnError


class AnyOptions(MapOptions, total=False):
    """Options of a map whose type of results is unknown."""

    on_error: OnError


class Workflow(BaseWorkflow[T]):
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
        on_reject: Effect, in a workflow around this one, of a result that no round could repair: ``stop`` ends the run as
            rejected before operators that depend on it; ``continue`` passes the best result on. Another value replaces
            the result, also of a run of its own.
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

    @overload
    def map(self, each: Awaited[U], over: Over, **options: Unpack[FailOptions]) -> Map[U]: ...
    @overload
    def map(self, each: Awaited[U], over: Over, **options: Unpack[KeepOptions]) -> Map[U | ItemError]: ...
    @overload
    def map(self, each: Streaming | Executable, over: Over, **options: Unpack[AnyOptions]) -> Map[Any]: ...
    @overload
    def map(self, each: Plain[U], over: Over, **options: Unpack[FailOptions]) -> Map[U]: ...
    @overload
    def map(self, each: Plain[U], over: Over, **options: Unpack[KeepOptions]) -> Map[U | ItemError]: ...
    def map(
        self,
        each: Any,
        over: Over,
        *,
        id: str = "",
        after: After = (),
        concurrency: int = 8,
        on_error: Any = "fail",
        policy: Policy | None = None,
    ) -> Map[Any]:
        """Add a map, which runs an operator for each item of a list, after the operator whose answer has the list.

            flow = Workflow(facts)
            checked = flow.map(check, over=facts.output.claims)

        Args:
            each: Body to run for each item: an operator, a workflow or a function.
            over: The list: ``facts.output.claims``, or the same as text: ``facts.claims``; or an operator whose whole
                answer is the list. An operator that is not in the workflow is added.
            id: The id of the map; by default the id of its body.
            after: Further predecessors, as for `add`.
            concurrency: Maximum number of items at once.
            on_error: Effect of a failing item; see `Map`.
            policy: Policy of the map as a whole.

        Returns:
            The map, which is an operator.

        Raises:
            InputError: A value has another type.
            InvalidError: `concurrency` is below 1, or `on_error` has another value.
        """
        source, items = None, cast("Any", over)
        if is_executable(over) or (
            inspect.isroutine(over) and over in self._made_steps
        ):  # others make items themselves
            source = self._as_step(over)
            items = AnswerPath(source)
        made = Map(id, each=each, over=items, concurrency=concurrency, on_error=on_error)
        lists = made.reads or ([over] if isinstance(over, str) and over in self._operators else [])
        others = predecessors(after)
        before = [read for read in lists if read not in map(self._id_of, others)]
        if source is not None and source.get_id() not in self._operators:
            self.add_operator(source)
        self.add(made, after=[*before, *others], policy=policy)
        return made

    def run(self, job: JobLike, reasoner: ReasonerLike = None, **options: Unpack[RunOptions]) -> Result[T]:
        """Run the workflow, wait for it, and return the result; for callers without an event loop.

            result = flow.run("Is this so? The moon has air.", model="gpt-5.6")
            print(result.output)

        Arguments and errors are those of `arun`.

        Raises:
            RunningLoopError: An event loop is running here: await `arun` instead.
        """
        return run_sync(partial(self.arun, job, reasoner, **options), instead="flow.arun(…)")

    def start(self, job: JobLike, reasoner: ReasonerLike = None, **options: Unpack[RunOptions]) -> RunHandle[T]:
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
        run_id = options.get("run_id") or new_id()
        live = self._start(self._call_of(job, reasoner, options), run_id, buffer)
        runs = self._runs
        live.task.add_done_callback(lambda _: runs.forget(live))
        return RunHandle(run_id, live, buffer, partial(self._result, live.run))

    def stream(
        self,
        job: JobLike,
        reasoner: ReasonerLike = None,
        workflow_messages: Sequence[WorkflowMessage] | None = None,
        lesson: str | None = None,
        *,
        only: Sequence[type[E]] | type[E] | None = None,
        under: Sequence[Any] | Step[Any] | Function | str = (),
        **options: Unpack[StreamOptions],
    ) -> EventStream[E, T]:
        """Run the workflow and yield its events as they happen; then the stream has the result.

            stream = flow.stream("Is this so? The moon has air.", only=events.OperatorFinished)
            for event in stream:
                print(event.operator_id)
            print(stream.result.output)

        In an event loop, iterate with ``async for``.

        Further arguments and errors are those of `arun`. A question to a person is an event, `events.Interrupted`, which
        the body of the loop answers with `EventStream.answer`. ``async for`` also waits for an answer that comes from
        elsewhere, by `answer`; ``for`` raises `PausedError` if the body has not answered. Closing the stream stops the
        run; a durable run can be resumed. A consumer that falls far behind slows the run down, so that memory stays
        bounded.

        Args:
            job: The job.
            reasoner: The same as the option `model`, as a positional argument.
            workflow_messages: Messages of earlier experts.
            lesson: Lesson from an earlier attempt.
            only: The types of events to yield; all by default.
            under: Prefix of the paths of the events to yield: an operator, its id, or a path as text with slashes or as
                a sequence.
            options: `model`, `run_id` and `deps`; see `StreamOptions`.

        Raises:
            InvalidError: `only` or `under` has another type.
        """
        known = [*self._operators, *(evaluator.get_id() for evaluator, _ in self._evaluators)]
        wanted = event_filter(() if only is None else only, under, self._id_of, known)
        call = self._call_of(job, reasoner, {**options, "lesson": lesson}, workflow_messages)
        return EventStream(partial(self._start, call, options.get("run_id")), wanted, self._result)

    def stream_text(self, job: JobLike, reasoner: ReasonerLike = None, **options: Unpack[RunOptions]) -> TextStream:
        """Run the workflow and yield the text of its answer, piece by piece.

            for piece in flow.stream_text("Is this so? The moon has air."):
                print(piece, end="", flush=True)

        In an event loop, iterate with ``async for``. The pieces come while the model writes if the last operator has no
        ports and no output type, and no evaluator can ask for another round; otherwise at the end. Text that the model
        writes before it calls tools comes as a paragraph before the answer. Arguments and errors are those of `arun`.
        Closing the stream stops the run; a run that waits for a person stays paused after the `PausedError`.

        Raises:
            AnswerError: The model broke off, and its repeated answer differs.
        """
        call = self._call_of(job, reasoner, options)
        run = StreamedRun(pauses=True)
        heard = run_events(partial(self._start, call, options.get("run_id")), run)
        return TextStream(pieces(self, call.reasoner, heard), run)

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
        from operad.runtime.workflow.chat import Chat  # imported here because few workflows are used for a conversation

        reasoner = self._run_reasoner if model is None else reasoner_of(model)
        tokens = self.memory if memory is None else memory
        return Chat(self, reasoner, id, store=store, memory=tokens, deps=deps)

    def evaluate(
        self, cases: CasesLike, evaluators: Evaluators = None, **options: Unpack[EvaluationOptions]
    ) -> EvaluationReport:
        """Run the workflow on cases, judge the results, and return a report; for callers without an event loop.

            cases = [Case("moon", job="Is this so? The moon has air.", expected="no")]
            report = flow.evaluate(cases, evaluators=[Evaluator("The answer names a source.")], max_concurrency=4)
            print(report.pass_rate, report.failed)

        Arguments and errors are those of `aevaluate`.

        Raises:
            RunningLoopError: An event loop is running here: await `aevaluate` instead.
        """
        start = partial(self.aevaluate, cases, evaluators, **options)
        return run_sync(start, instead="flow.aevaluate(…)")

    async def aevaluate(
        self, cases: CasesLike, evaluators: Evaluators = None, **options: Unpack[EvaluationOptions]
    ) -> EvaluationReport:
        """Run the workflow on cases, judge the results, and return a report.

        A case that fails is a result like others. If the call is cancelled, finished results are kept, and the same
        call continues: in `results`, or for a durable workflow in its database, with the same `run_id`.

        Args:
            cases: Cases, a `Dataset`, or the path of a file with cases.
            evaluators: Functions, and evaluators of workflows, which judge the finished run. A function has parameters
                named ``output``, ``expected``, ``inputs``, ``metadata``, ``result``, ``job``, or like operators of the
                workflow; it returns True or None to accept the run, False, or a number, or raises `FaultError`. By
                default `equals`, if cases have expected outputs.
            options: See `EvaluationOptions`.

        Raises:
            InputError: A value has another type, or a file cannot be used.
            InvalidError: Cases or evaluators are not valid; the issues are listed.
        """
        from operad.runtime.workflow.evaluate import Subject, evaluate  # imported here because few runs are evaluated

        model, deps = options.get("model"), options.get("deps")
        reasoner = self._run_reasoner if model is None else reasoner_of(model)

        async def run(
            case: Case, run_id: str, listener: Listener, reasoner: Reasoner
        ) -> tuple[Result[Any], Sequence[StepRecord]]:
            call = replace(self._call_of(case.job, reasoner, {"deps": deps}), pinned=case.pinned or None)
            found, message = await self._run_to_end(call, run_id, [listener])
            return self._result(found, message), found.records()

        subject = Subject(self.name, self.graph(), run, self.cancel, reasoner, self._runs.store)
        return await evaluate(subject, cases, evaluators, options)

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
        given: RunOptions = {"model": self._reasoner if model is None else reasoner_of(model), "deps": deps}
        pieces = partial(self.stream_text, **given) if stream else None
        return WorkflowNode(self.name, partial(self.arun, **given), pieces, **options)

    def resume(self, run_id: str, answers: JsonLike, model: ReasonerLike = None, *, deps: object = None) -> Result[T]:
        """Answer questions of a paused run, and continue it to its end; for callers without an event loop.

        Arguments, result and errors are those of `aresume`.

        Raises:
            RunningLoopError: An event loop is running here: await `aresume` instead.
        """
        self._runs.refuse_streamed(run_id)
        return run_sync(partial(self.aresume, run_id, answers, model, deps=deps), instead="flow.aresume(…)")


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
