"""Runner: the settings of a workflow's runs, their start, and the runs in progress."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Collection, Iterable, Sequence
from copy import copy
from functools import partial
from typing import Any, cast
from weakref import finalize

from msgspec.structs import replace as changed
from typing_extensions import Self, TypeVar

from operad.runtime import events
from operad.runtime.events import Listener, RunLog, Scope
from operad.runtime.events.log import check_listener
from operad.runtime.events.stream import Buffer
from operad.runtime.graph.build import Build, Engine
from operad.runtime.graph.call import OperatorCall
from operad.runtime.graph.engines import EngineName, awel_is_installed, engine_for
from operad.runtime.graph.operator import BaseOperator
from operad.runtime.graph.schedule import Plan
from operad.runtime.knowledge.insights import Insights
from operad.runtime.knowledge.run_insights import RunInsights
from operad.runtime.models.model import Model
from operad.runtime.policies.limits import Limits, limiters
from operad.runtime.policies.policy import Budget, Policy
from operad.runtime.reasoning.reasoner import Reasoner, reasoner_of
from operad.runtime.values.arguments import short_repr
from operad.runtime.values.errors import InputError
from operad.runtime.values.forks import ProcessLock
from operad.runtime.values.json_like import JsonLike
from operad.runtime.values.map_item import MapItem
from operad.runtime.values.message import WorkflowMessage, new_id
from operad.runtime.values.questions import Question
from operad.runtime.workflow.definition import Definition
from operad.runtime.workflow.run import Run
from operad.runtime.workflow.run_handle import LiveRun, outcome_of
from operad.runtime.workflow.run_input import JobLike, ReasonerLike, job_of
from operad.runtime.workflow.runs import Runs, RunStore
from operad.runtime.workflow.setting import setting
from operad.runtime.workflow.start import check_reasoner, check_resume, check_start
from operad.runtime.workflow.workflow_arguments import ROUNDS_WITH_EVALUATOR, OnReject

T = TypeVar("T", default=Any, covariant=True)


class Runner(Definition[T]):
    """Definition with the settings of its runs, which it starts; `Workflow` has the methods that run it.

    Args:
        name: The workflow's name.
        policy: Default policy of the operators.
        max_rounds: Maximum number of rounds until the evaluator accepts the result; None for the default.
        on_reject: Effect of a result that no round could repair.
        engine: Engine of the runs; see `Workflow`, also for the other settings.
        model: Model of the runs.
        limits: Limits of all runs together.
        budget: Budget of each run.
        listeners: Functions that are called with every event.
        insights: Insights that the runs use and extend.

    Raises:
        InputError: The engine is unknown, or another one than that of the class.
    """

    budget: Budget = setting()
    on_reject: OnReject = setting()

    def __init__(
        self,
        name: str,
        policy: Policy,
        max_rounds: int | None,
        *,
        on_reject: OnReject,
        engine: EngineName | None,
        model: Model | Reasoner | str | None,
        limits: Limits | None,
        budget: Budget,
        listeners: Sequence[Listener],
        insights: Insights | None,
    ) -> None:
        self._engine = engine
        if engine is not None and engine != self.engine:
            ours = "'dbgpt' or 'builtin'" if type(self).engine is Runner.engine else repr(self.engine)
            raise InputError(f"workflow {name!r}: engine: expected {ours}, got {engine!r}")
        super().__init__(name, policy)
        self._max_rounds = max_rounds
        self.on_reject = on_reject
        self.budget = budget
        self._listeners = tuple(listeners)
        self.insights = insights
        self._places, self._calls = limiters(limits, name) if limits else (None, None)
        self._runs = Runs(name)
        # A paused run cannot be answered without its workflow: it is cancelled instead of being collected halfway.
        finalize(self, self._runs.cancel_all).atexit = False
        self.model = model

    def __repr__(self) -> str:
        count = len(self._operators)
        operators = "1 operator" if count == 1 else f"{count} operators"
        return f"<{type(self).__name__} {self.name!r}: {operators}, engine {self.engine}>"

    # Settings

    @property
    def max_rounds(self) -> int:
        """Maximum number of rounds until the evaluator accepts the result: by default 3 with an evaluator, 1 without.

        An assignment takes effect at the next run.
        """
        if self._max_rounds is not None:
            return self._max_rounds
        return ROUNDS_WITH_EVALUATOR if self._evaluators else 1

    @max_rounds.setter
    def max_rounds(self, rounds: int) -> None:
        with self._lock:
            self._max_rounds, self._built = rounds, None

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

    def with_operators(self, operators: Iterable[BaseOperator]) -> Self:
        """Return a copy in which operators with these ids are replaced; it has no stored runs of its own.

            brief = flow.with_operators([answer.with_instruction("Answer in one word.")])
            print(brief.run("Is this so? The moon has air.").text)

        Raises:
            InvalidError: The workflow has no operator with one of the ids.
        """
        copied = copy(self)
        with self._lock:
            copied._lock, copied._built, copied._runs = ProcessLock(), None, Runs(self.name)
            copied._operators, copied._made_steps = {**self._operators}, {**self._made_steps}
            copied._before = {key: {**before} for key, before in self._before.items()}
            copied._joins, copied._policies = {**self._joins}, {**self._policies}
            copied._duplicate_ids, copied._evaluators = [*self._duplicate_ids], [*self._evaluators]
        finalize(copied, copied._runs.cancel_all).atexit = False
        for operator in operators:
            copied.update_operator(operator)
        return copied

    def add_listener(self, listener: Listener) -> None:
        """Add a function that is called with every event of runs that start from now on."""
        check_listener(listener, self.name)
        self._listeners = (*self._listeners, listener)

    def keep_in(self, ledger: RunStore | None) -> None:
        """Store runs that start from now on, with their nested runs, in a ledger; None to store nothing."""
        self._runs.store = ledger

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

    # Runs by id

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

    async def cancel(self, run_id: str) -> None:
        """Cancel a run that is running or paused in this process, and wait until it has ended.

        A durable run is also found if another `Workflow` object started it.

        Raises:
            InputError: No run with this id is in progress in this process.
        """
        await self._runs.cancel(run_id)

    # Start

    def _call_of(
        self,
        job: JobLike,
        reasoner: ReasonerLike,
        messages: Sequence[WorkflowMessage] | None = None,
        lesson: str | None = None,
        deps: object = None,
    ) -> OperatorCall:
        """Return the input of a run, from the arguments of `arun` and `aexecute`.

        Raises:
            InputError: The job has another type, or the model cannot be used.
        """
        chosen = self._run_reasoner if reasoner is None else reasoner_of(reasoner)
        return OperatorCall(chosen, job_of(job), previous=tuple(messages or ()), lesson=lesson, deps=deps)

    async def _run_to_end(
        self, call: OperatorCall, run_id: str | None, listeners: Sequence[Listener] = ()
    ) -> tuple[Run, WorkflowMessage]:
        """Execute a run, which belongs to the run of the current operator, if there is one.

        Args:
            call: The input of the run.
            run_id: The run's id; a new one by default.
            listeners: Further listeners of a run that is not inside of an operator.
        """
        outer = events.current_scope()
        if outer is not None:
            run = self.run_within(outer, call)
            return run, await run.execute()
        unfinished = await self._runs.unfinished(run_id, self.graph) if run_id else None
        return await outcome_of(self._start(call, run_id, watched=True, unfinished=unfinished, further=listeners))

    async def _resume_to_end(
        self, run_id: str, answers: JsonLike, model: ReasonerLike, deps: object
    ) -> tuple[Run, WorkflowMessage]:
        """Answer questions of a run that is paused here or stored, and execute the rest of it; see `aresume`."""
        given = await self._runs.by_question(run_id, answers)
        store = self._runs.store_of(run_id)
        if store is None:
            return await self._runs.resume(run_id, given, deps=deps)
        going_on = reasoner_of(model) if model is not None else self._reasoner
        call = await asyncio.to_thread(store.to_resume, run_id, self, going_on)
        if call is None and (live := store.live_run(run_id)) is not None:
            return await self._runs.resume(run_id, given, live, deps)
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
        return await outcome_of(self._start(call, run_id, watched=True, unfinished=unfinished))

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

    def _start(
        self,
        call: OperatorCall,
        run_id: str | None,
        buffer: Buffer | None = None,
        *,
        watched: bool = False,
        streamed: bool = False,
        unfinished: Collection[BaseOperator] | None = None,
        further: Sequence[Listener] = (),
    ) -> LiveRun:
        """Start a run in the running event loop.

        Args:
            call: The input of the run.
            run_id: The run's id; a new one by default.
            buffer: Buffer that receives the events of the run.
            watched: True to show the progress if the run is in a notebook.
            streamed: True if the events have a consumer, which learns of questions from them.
            unfinished: The operators that a stored run has not finished; None if all of them may run.
            further: Listeners of this run only.
        """
        if not isinstance(run_id, str | None):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"workflow {self.name!r}: run_id: expected a text, got {short_repr(run_id)}")
        build, store, outer = self.built(), self._runs.store, events.current_scope()
        if outer is None:
            check_start(build, call, unfinished, has_workers=store is not None and store.workers is not None)
        run_id = run_id or new_id()
        path = outer.path if outer else ()
        insights, listeners = self._insights_and_listeners(outer)
        listeners = (*listeners, *further)
        if watched and "IPython" in sys.modules:
            from operad.runtime.observe.notebook import progress_in_notebook  # only notebooks need it

            listeners = (*listeners, *progress_in_notebook())
        log = RunLog(run_id, listeners, buffer, outer=outer.run.log if outer else None, depth=len(path))
        run = Run(build, call, log, outer=outer, prefix=path, insights=insights)
        run.is_traced = run.is_traced or bool(further)  # they may be judged when the run has finished
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
        insights, listeners = self._insights_and_listeners(outer)
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
                    on_reject=self.on_reject if isinstance(self.on_reject, WorkflowMessage) else None,
                )
            return self._built

    def _build(self, plan: Plan) -> Engine:
        """Return the engine for a plan; called once after each edit, under the workflow's lock."""
        return engine_for(plan, self.engine, self.name)

    def _insights_and_listeners(self, outer: Scope | None) -> tuple[RunInsights | None, tuple[Listener, ...]]:
        """Return the insights and the listeners of a run.

        New insights become the first listener. Insights of the same store that an enclosing run has are used as they
        are.
        """
        if self.insights is None:
            return None, self._listeners
        for scope in outer.outwards() if outer else ():
            existing = scope.run.insights
            if isinstance(existing, RunInsights) and existing.store is self.insights:
                return existing, self._listeners
        insights = RunInsights(self.insights)
        return insights, (insights, *self._listeners)
