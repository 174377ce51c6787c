"""Workflow: operators in order, edited freely, built once, run any number of times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from pydantic import BaseModel
from typing_extensions import TypeVar

from operad.runtime.events import Event, Listener
from operad.runtime.events.stream import Buffer
from operad.runtime.graph.call import Executable
from operad.runtime.graph.edges import Answers, AwelNode, Function, Step, chain_of
from operad.runtime.graph.engines import INSTALL_AWEL, EngineName
from operad.runtime.knowledge.insights import Insights
from operad.runtime.models.model import Model
from operad.runtime.policies.limits import Limits
from operad.runtime.policies.policy import NO_BUDGET, NO_POLICY, Budget, Policy
from operad.runtime.reasoning.reasoner import Reasoner, reasoner_of
from operad.runtime.values.arguments import known_arguments
from operad.runtime.values.errors import MissingExtraError, RunningLoopError
from operad.runtime.values.json_like import JsonLike
from operad.runtime.values.message import Job, WorkflowMessage, new_id
from operad.runtime.values.sync import run_sync, running_loop
from operad.runtime.workflow.event_stream import EventStream, StreamedRun, TextStream, event_filter, run_events
from operad.runtime.workflow.result import Result
from operad.runtime.workflow.run import Run
from operad.runtime.workflow.run_handle import RunHandle
from operad.runtime.workflow.run_input import JobLike, ReasonerLike, one_of
from operad.runtime.workflow.runner import Runner
from operad.runtime.workflow.runs import RunStore, run_store_of
from operad.runtime.workflow.workflow_arguments import check_rounds, check_types, on_reject_of

if TYPE_CHECKING:
    from operad.runtime.evaluation.cases import CasesLike
    from operad.runtime.evaluation.report import EvaluationReport
    from operad.runtime.values.step_record import StepRecord
    from operad.runtime.workflow.awel import WorkflowNode
    from operad.runtime.workflow.chat import Chat
    from operad.runtime.workflow.chat_store import ChatStore
    from operad.runtime.workflow.evaluate import Evaluators, ReportProgress

T = TypeVar("T", default=Any, covariant=True)
E = TypeVar("E", bound=Event, default=Event)


class Workflow(Runner[T]):
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
        on_reject: Literal["stop", "continue"] | WorkflowMessage | BaseModel | Mapping[str, Any] | list[Any] = "stop",
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
        check_rounds(name, max_rounds)
        super().__init__(
            name,
            NO_POLICY if policy is None else policy,
            max_rounds,
            on_reject=on_reject_of(name, on_reject),
            engine=engine,
            model=model,
            limits=limits,
            budget=budget or NO_BUDGET,
            listeners=listeners,
            insights=insights,
        )
        self.memory: int | None = None
        if durable is not None:
            self.keep_in(run_store_of(durable))
        if graph is not None:
            self._add_chain(chain_of(graph))
        if evaluator is not None:
            self.set_evaluator(evaluator)

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

            result = flow.run("Is this so? The moon has air.", model="gpt-5.6")
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
        call = self._call_of(job, one_of(reasoner, model), lesson=lesson, deps=deps)
        return self._result(*await self._run_to_end(call, run_id))

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
        call = self._call_of(job, one_of(reasoner, model), lesson=lesson, deps=deps)
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
        _, message = await self._run_to_end(self._call_of(job, reasoner, workflow_messages, lesson), run_id)
        return message

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
        call = self._call_of(job, one_of(reasoner, model), workflow_messages, lesson, deps)
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

        In an event loop, iterate with ``async for``. The pieces come while the model writes if the last operator has no
        ports and no output type, and no evaluator can ask for another round; otherwise at the end. Text that the model
        writes before it calls tools comes as a paragraph before the answer. Arguments and errors are those of `arun`. Closing the stream stops the run; a
        run that waits for a person stays paused after the `PausedError`.

        Raises:
            AnswerError: The model broke off, and its repeated answer differs.
        """
        from operad.runtime.workflow.answer_stream import pieces  # imported here because that module imports this one

        call = self._call_of(job, one_of(reasoner, model), lesson=lesson, deps=deps)
        run = StreamedRun(pauses=True)
        heard = run_events(partial(self._start, call, run_id), run)
        return TextStream(pieces(cast("Any", self), call.reasoner, heard), run)

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

    def evaluate(
        self,
        cases: CasesLike,
        evaluators: Evaluators = None,
        *,
        repeat: int = 1,
        max_concurrency: int = 8,
        model: ReasonerLike = None,
        deps: object = None,
        results: str | Path | None = None,
        run_id: str | None = None,
        progress: ReportProgress | None = None,
    ) -> EvaluationReport:
        """Run the workflow on cases, judge the results, and return a report; for callers without an event loop.

            cases = [Case("moon", job="Is this so? The moon has air.", expected="no")]
            report = flow.evaluate(cases, evaluators=[Evaluator("The answer names a source.")], max_concurrency=4)
            print(report.pass_rate, report.failed)

        Arguments and errors are those of `aevaluate`.

        Raises:
            RunningLoopError: An event loop is running here: await `aevaluate` instead.
        """
        options = {"repeat": repeat, "max_concurrency": max_concurrency, "model": model, "deps": deps}
        options |= {"results": results, "run_id": run_id, "progress": progress}
        start: Any = partial(self.aevaluate, cases, evaluators, **options)
        return run_sync(start, instead="flow.aevaluate(…)")

    async def aevaluate(
        self,
        cases: CasesLike,
        evaluators: Evaluators = None,
        *,
        repeat: int = 1,
        max_concurrency: int = 8,
        model: ReasonerLike = None,
        deps: object = None,
        results: str | Path | None = None,
        run_id: str | None = None,
        progress: ReportProgress | None = None,
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
            repeat: Number of runs of each case.
            max_concurrency: Maximum number of runs at the same time.
            model: Model of the runs, and of evaluators without one; by default the workflow's `model`.
            deps: Object for functions and tools; see `arun`.
            results: File that keeps the results, as JSON lines; those in it that match are used again.
            run_id: For a durable workflow: id of the evaluation, with which the ids of its runs begin.
            progress: Function that is called after each run, with the number of finished runs, the number of all, and
                the `ReportCase`.

        Raises:
            InputError: A value has another type, or a file cannot be used.
            InvalidError: Cases or evaluators are not valid; the issues are listed.
        """
        from operad.runtime.workflow.evaluate import Subject, evaluate  # imported here because that module imports this

        reasoner, store = self._run_reasoner if model is None else reasoner_of(model), self._runs.store

        async def run(job: Job, run_id: str, listener: Listener) -> tuple[Result[Any], Sequence[StepRecord]]:
            found, message = await self._run_to_end(self._call_of(job, reasoner, deps=deps), run_id, [listener])
            return self._result(found, message), found.records()

        subject = Subject(self.name, self.graph(), run, self.cancel, reasoner, store)
        return await evaluate(
            subject,
            cases,
            evaluators,
            repeat=repeat,
            max_concurrency=max_concurrency,
            results=results,
            run_id=run_id,
            progress=progress,
        )

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
        return self._result(*await self._resume_to_end(run_id, answers, model, deps))

    def resume(self, run_id: str, answers: JsonLike, model: ReasonerLike = None, *, deps: object = None) -> Result[T]:
        """Answer questions of a paused run, and continue it to its end; for callers without an event loop.

        Arguments, result and errors are those of `aresume`.

        Raises:
            RunningLoopError: An event loop is running here: await `aresume` instead.
        """
        self._runs.refuse_streamed(run_id)
        return run_sync(partial(self.aresume, run_id, answers, model, deps=deps), instead="flow.aresume(…)")

    def _result(self, run: Run, message: WorkflowMessage) -> Result[T]:
        return Result(message, run.messages, run.build.graph.operators, run.tails, run.rounds, run.root.log.run_id)


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
