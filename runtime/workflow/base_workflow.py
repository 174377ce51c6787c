"""BaseWorkflow: operators with edges and evaluators, which may be edited at any time, and their runs."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self, cast, get_args, overload
from weakref import finalize

from msgspec.structs import replace as changed
from pydantic import BaseModel, JsonValue
from typing_extensions import TypedDict, TypeVar, Unpack

from operad.runtime.events import Listener, RunLog, Scope, current_scope
from operad.runtime.events.log import check_listener
from operad.runtime.events.stream import Buffer
from operad.runtime.graph.build import Build, Engine, EngineName, awel_is_installed, engine_for
from operad.runtime.graph.call import JobLike, OperatorCall, ReasonerLike, RunOptions, job_of, one_of
from operad.runtime.graph.chart import chart
from operad.runtime.graph.chat2graph import Executable, ExecutesJobs
from operad.runtime.graph.edges import (
    After,
    Answers,
    Awaited,
    AwelNode,
    Chain,
    Function,
    Plain,
    Port,
    Step,
    Streaming,
    chain_of,
    check_step,
    is_awel,
    is_executable,
    predecessors,
)
from operad.runtime.graph.graph import WorkflowGraph, read_outside
from operad.runtime.graph.operator import BaseOperator, as_operator
from operad.runtime.graph.schedule import Join, Plan, Ports
from operad.runtime.knowledge.insights import Insights
from operad.runtime.knowledge.run_insights import RunInsights
from operad.runtime.models.model import Model
from operad.runtime.policies.limits import Limits, limiters
from operad.runtime.policies.policy import NO_BUDGET, NO_POLICY, Budget, Policy, check_positive
from operad.runtime.reasoning.reasoner import Reasoner, reasoner_of
from operad.runtime.values.arguments import known_arguments, refuse_unknown, short_repr
from operad.runtime.values.errors import InputError, InvalidError, Issue, did_you_mean, shorten
from operad.runtime.values.forks import ProcessLock
from operad.runtime.values.json_like import JsonLike
from operad.runtime.values.map_item import MapItem
from operad.runtime.values.message import WorkflowMessage, new_id
from operad.runtime.values.own import own
from operad.runtime.values.questions import Question
from operad.runtime.values.round_trip import message_of
from operad.runtime.workflow.function import FunctionOperator
from operad.runtime.workflow.function_evaluator import FunctionEvaluator
from operad.runtime.workflow.result import Result
from operad.runtime.workflow.run import Run
from operad.runtime.workflow.run_checks import check_resume, check_start
from operad.runtime.workflow.runs import LiveRun, Runs, RunStore, outcome_of, run_store_of

T = TypeVar("T", default=Any, covariant=True)
U = TypeVar("U")


class AddOptions(TypedDict, total=False):
    """Options of `Workflow.add`."""

    join: Join | None
    policy: Policy | None


ROUNDS_WITH_EVALUATOR = 3
"""Default of `max_rounds` for a workflow that is given an evaluator."""


OnReject = Literal["stop", "continue"] | WorkflowMessage
"""Effect of a result that no round could repair: see `Workflow`."""


_RUN_OPTIONS = tuple(RunOptions.__annotations__)


class _Setting:
    """Descriptor of an attribute of a workflow; an assignment has the workflow built again at its next run.

    Without `__get__`, the attribute is read from the instance as fast as any other.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __set__(self, workflow: BaseWorkflow[Any], value: object) -> None:
        with workflow._lock:  # pyright: ignore[reportPrivateUsage]
            vars(workflow)[self._name] = value
            workflow._built = None  # pyright: ignore[reportPrivateUsage]


class BaseWorkflow(Step[T], ExecutesJobs):
    """Base class of `Workflow`: everything but the methods for callers, which maps and conversations do not need.

    Arguments and errors are those of `Workflow`.
    """

    name: str = cast("str", _Setting())
    policy: Policy = cast("Policy", _Setting())
    budget: Budget = cast("Budget", _Setting())
    on_reject: OnReject = cast("OnReject", _Setting())

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
        self._lock = ProcessLock()
        self._built: Build | None = None
        self.name = name
        self.policy = NO_POLICY if policy is None else policy
        self._operators: dict[str, Executable | BaseWorkflow] = {}
        self._before: dict[str, dict[str, Ports]] = {}
        self._joins: dict[str, Join] = {}
        self._policies: dict[str, Policy] = {}
        self._duplicate_ids: list[str] = []
        self._evaluators: list[tuple[Executable, Policy]] = []
        self._made_steps: dict[object, BaseOperator] = {}  # the operators made of functions and AWEL operators
        self._engine = engine
        if engine is not None and engine != self.engine:
            ours = "'dbgpt' or 'builtin'" if type(self).engine is BaseWorkflow.engine else repr(self.engine)
            raise InputError(f"workflow {name!r}: engine: expected {ours}, got {engine!r}")
        self._max_rounds = max_rounds
        self.on_reject = on_reject_of(name, on_reject)
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

    def get_id(self) -> str:
        """Return the workflow's name, which is its id as an operator of another workflow."""
        return self.name

    @overload
    def add(self, step: Awaited[U], after: After = (), **options: Unpack[AddOptions]) -> Step[U]: ...
    @overload
    def add(self, step: Streaming, after: After = (), **options: Unpack[AddOptions]) -> Step[str]: ...
    @overload
    def add(self, step: Plain[U], after: After = (), **options: Unpack[AddOptions]) -> Step[U]: ...
    @overload
    def add(self, step: Any, after: After = (), **options: Unpack[AddOptions]) -> Any: ...
    def add(self, step: Any, after: After = (), *, join: Join | None = None, policy: Policy | None = None) -> Any:
        """Add an operator after others.

            check = flow.add(Operator("Check it."), after=["facts", triage["question"]])

        Args:
            step: An operator, a workflow or a plain function; or several with edges between them, as ``a >> b``.
            after: A predecessor, or a list of these: operators, ports, functions, or ids.
            join: Condition under which the operator runs, as for `add_operator`; for a single operator only.
            policy: Policy of the operator; for a single operator only.

        Returns:
            The step; for a function, the operator that is made of it.

        Raises:
            InputError: A value has another type.
            InvalidError: The join is unknown.
        """
        before = predecessors(after)
        if is_executable(step) or not isinstance(step, Step | list | tuple):
            added = self._as_step(step)
            self.add_operator(added, before, join=join, policy=policy)
            return added
        if join is not None or policy is not None:
            raise InputError("add(…): join and policy are for a single operator; add the operators one by one")
        chain = chain_of(cast("object", step))
        self._add_chain(chain)
        for head in chain.heads if before else ():
            self.add_operator(head, before)
        return cast("Any", step)

    def add_operator(
        self,
        operator: Executable | BaseWorkflow | Function,
        previous_ops: Sequence[Executable | BaseWorkflow | Port | Function | str] | None = None,
        next_ops: Sequence[Executable | BaseWorkflow | Function | str] | None = None,
        *,
        join: Join | None = None,
        policy: Policy | None = None,
    ) -> None:
        """Add an operator after `previous_ops` and before `next_ops`.

        Adding the same operator again adds the edges. Predecessors and successors may be added to the workflow later.

        Args:
            operator: The operator; a workflow, which runs inside this one; or a plain function.
            previous_ops: Predecessors, as objects or ids. For a `Port`, the edge is taken only if the message of the
                port's operator takes the port.
            next_ops: Successors, as objects or ids.
            join: Condition under which the operator runs: ``all_done`` (the default), when all predecessors have ended
                or were skipped, and at least one ran; ``all``, only if all predecessors ran; ``any``, as soon as the
                first predecessor ran, with the message of that predecessor only.

        Raises:
            InvalidError: The join is unknown, or a `Port` is among `next_ops`.
            InputError: A value is not an operator.
        """
        step: Executable | BaseWorkflow = self._as_step(operator)
        operator_id = step.get_id()
        self._check_added(operator_id, previous_ops, next_ops, join)
        parents = [self._leaves(previous, operator_id) for previous in previous_ops or ()]
        children = [self._id_of(following) for following in next_ops or ()]
        with self._lock:
            self._built = None
            if self._operators.setdefault(operator_id, step) is not step and operator_id not in self._duplicate_ids:
                self._duplicate_ids.append(operator_id)
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
            rule = "a Port is the start of an edge: pass it in the previous_ops of its successor"
            issues.append(Issue("port", rule, operator_id))
        if issues:
            raise InvalidError(f"workflow {self.name!r}: the operator cannot be added", issues)

    def remove_operator(self, operator: Executable | BaseWorkflow | Function | str) -> None:
        """Remove an operator, given as an object or by its id, and its edges.

        Raises:
            InvalidError: The operator is not in the workflow.
        """
        operator_id = operator if isinstance(operator, str) else self._made(operator).get_id()
        with self._lock:
            self._require(operator_id, "remove")
            self._built = None
            del self._operators[operator_id]
            for kept in (self._before, self._joins, self._policies):
                kept.pop(operator_id, None)
            self._duplicate_ids = [double for double in self._duplicate_ids if double != operator_id]
            for before in self._before.values():
                before.pop(operator_id, None)

    def update_operator(self, operator: Executable | BaseWorkflow | Function) -> None:
        """Replace the operator that has the id of `operator`, which is the name of a function; its edges stay.

        Raises:
            InvalidError: The workflow has no operator with this id.
        """
        step: Executable | BaseWorkflow = self._made(operator)
        operator_id = step.get_id()
        with self._lock:
            self._require(operator_id, "update")
            self._built = None
            self._operators[operator_id] = step
            self._duplicate_ids = [double for double in self._duplicate_ids if double != operator_id]

    def get_operator(self, operator_id: str) -> Executable | BaseWorkflow | None:
        """Return the operator with this id, or None."""
        return self._operators.get(operator_id)

    def get_operators(self) -> list[Executable | BaseWorkflow]:
        """Return all operators, in the order in which they were added."""
        with self._lock:
            return list(self._operators.values())

    def set_evaluator(self, evaluator: Executable | Function | None, *, policy: Policy = NO_POLICY) -> None:
        """Set the evaluator of the result, which replaces all earlier evaluators; None removes them.

        After a verdict, operators run again only if the workflow's `max_rounds` is above 1.

        Args:
            evaluator: The evaluator, or a function: it returns a `WorkflowMessage` with a status, or None for a right
                result, and raises `FaultError` for a wrong one.
            policy: Policy of the evaluator. Unset fields are those of the workflow's policy, except the fallback: a
                text that replaces an answer is not a verdict.
        """
        judges = [] if evaluator is None else [(self._as_evaluator(evaluator), policy)]
        with self._lock:
            self._built = None
            self._evaluators = judges

    def add_evaluator(self, evaluator: Executable | Function, *, policy: Policy = NO_POLICY) -> None:
        """Add another evaluator. All evaluators run concurrently, and their verdicts are joined: see `verdict.joined`.

        Args:
            policy: Its policy, as in `set_evaluator`.
        """
        judge = self._as_evaluator(evaluator)
        with self._lock:
            self._built = None
            self._evaluators.append((judge, policy))

    def _as_evaluator(self, evaluator: Executable | Function) -> Executable:
        """Return the evaluator, or one made of a function; an automatically chosen id is made unique."""
        judge: Any = evaluator
        is_operator = is_executable(judge)
        if isinstance(judge, type) or not (getattr(judge, "gives_verdict", True) if is_operator else callable(judge)):
            raise InputError(
                f"evaluator: expected an Evaluator, such as Evaluator('…'), or a function; got {short_repr(judge)}"
            )
        if not is_operator:
            judge = FunctionOperator(judge)
        if isinstance(judge, FunctionOperator):
            judge = FunctionEvaluator(cast("FunctionOperator[Any]", judge))
        self._settle(judge)
        return judge

    def graph(self) -> WorkflowGraph:
        """Return a frozen graph of the workflow as it is now."""
        with self._lock:
            in_order = [*self._operators, *(key for key in self._before if key not in self._operators)]
            operators = {key: as_operator(operator) for key, operator in self._operators.items()}
            policies = {key: self._policy_of(key, operators.get(key)) for key in in_order}
            evaluators = [(as_operator(evaluator), policy) for evaluator, policy in self._evaluators]
            for evaluator, policy in evaluators:
                default = replace(self.policy, fallback=None)
                policies[evaluator.get_id()] = policy.or_else(evaluator.policy).or_else(default)
            return WorkflowGraph(
                operators=operators,
                before={key: dict(self._before.get(key, {})) for key in in_order},
                joins={key: join for key, join in self._joins.items() if join != "all_done"},
                policies={key: policy for key, policy in policies.items() if policy},
                evaluators=tuple(evaluator for evaluator, _ in evaluators),
                duplicate_ids=tuple(self._duplicate_ids),
            )

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """Return the operators as a flowchart for notebooks."""
        from operad.runtime.observe.notebook import picture

        return {"text/plain": repr(self), **picture(chart(self.graph()))}

    def read_output(self, message: WorkflowMessage) -> T:
        """Return the answer in a message of the workflow: of the only tail that ran, or of several tails by id."""
        graph = self.graph()
        tails = {key: graph.operators[key] for key in graph.tails}
        if len(tails) == 1:
            return next(iter(tails.values())).read_output(message)
        values = {p.operator_id: tails[p.operator_id].read_output(p) for p in message.parts if p.operator_id in tails}
        if len(values) == 1:
            return cast("T", next(iter(values.values())))
        return cast("T", values or own(message.value))

    def _as_operator(self) -> BaseOperator:
        """Return an operator that runs the workflow inside another one."""
        return Within(self)

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

    @property
    def ledger(self) -> RunStore | None:
        """The ledger that stores runs which start from now on; None if none does."""
        return self._runs.store

    def keep_in(self, ledger: RunStore | None) -> None:
        """Store runs that start from now on, with their nested runs, in a ledger; None to store nothing."""
        self._runs.store = ledger

    # Runs

    async def arun(self, job: JobLike, reasoner: ReasonerLike = None, **options: Unpack[RunOptions]) -> Result[T]:
        """Run the workflow and return the result. In a notebook, the cell shows the progress.

        Inside an operator or a tool, the run is a part of that operator's run: its events, usage and questions belong
        to that run.

        Args:
            job: The job: a `Job`; a text, which is its goal; or a dict or pydantic model of its inputs.
            reasoner: The same as the option `model`, as a positional argument.
            options: `model`, `lesson`, `run_id` and `deps`; see `RunOptions`.

        Raises:
            InvalidError: The workflow cannot be built; all its issues are listed.
            OperatorError: An operator failed; its error is the cause.
            SkippedError: Every tail was skipped.
            BudgetError: The run used more than its budget.
            PausedError: The run waits for a person; resume it with `aresume`.
            InputError: The job has another type, an option is unknown, `reasoner` and `model` are both given, or a run
                with this id is in progress.
        """
        call = self._call_of(job, reasoner, options)
        return self._result(*await self._run_to_end(call, options.get("run_id")))

    async def _executed(
        self,
        job: JobLike,
        reasoner: ReasonerLike,
        messages: Sequence[WorkflowMessage] | None,
        lesson: str | None,
        run_id: str | None,
    ) -> WorkflowMessage:
        call = self._call_of(job, reasoner, {"lesson": lesson}, messages)
        return (await self._run_to_end(call, run_id))[1]

    async def aresume(
        self, run_id: str, answers: JsonLike, model: ReasonerLike = None, *, deps: object = None
    ) -> Result[T]:
        """Answer questions of a paused run, and continue it to its end.

        A durable run without a driver continues in this process: operators that had not finished start again. If one of
        them asks another question than before, the answer is not used, and the run waits again.

        Args:
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

    # Runs by id

    def questions(self, run_id: str) -> Sequence[Question]:
        """Return the open questions of a run; may block, if a ledger stores the runs.

        Raises:
            InputError: No run with this id is in progress.
        """
        return self._runs.questions(run_id)

    async def answer(self, run_id: str, answers: JsonLike, *, by: str = "") -> None:
        """Answer questions of a run, and return once the answers are accepted; further events show the effect.

        Args:
            answers: Answers by question id; some questions may stay open. A value that is not a dict is the answer to
                the only open question.
            by: Name of the person who answers, for the record: `events.Resumed` names it. Empty if it is not known.

        Raises:
            InputError: No run with this id is in progress or stored.
            InvalidError: An answer does not fit its question's schema, or the question is unknown. No answer was
                accepted then.
        """
        await self._runs.answer(run_id, answers, by)

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
        options: RunOptions,
        messages: Sequence[WorkflowMessage] | None = None,
    ) -> OperatorCall:
        """Return the input of a run, from the arguments of `arun` and `aexecute`.

        Raises:
            InputError: The job has another type, an option is unknown, or the model cannot be used.
        """
        refuse_unknown(f"workflow {self.name!r}: a run", options, _RUN_OPTIONS)
        given = one_of(reasoner, options.get("model"))
        chosen = self._run_reasoner if given is None else reasoner_of(given)
        lesson, deps = options.get("lesson"), options.get("deps")
        return OperatorCall(chosen, job_of(job), previous=tuple(messages or ()), lesson=lesson, deps=deps)

    async def _run_to_end(
        self, call: OperatorCall, run_id: str | None, listeners: Sequence[Listener] = ()
    ) -> tuple[Run, WorkflowMessage]:
        """Execute a run, which belongs to the run of the current operator, if there is one.

        Args:
            run_id: The run's id; a new one by default.
            listeners: Further listeners of a run that is not inside of an operator.
        """
        outer = current_scope()
        if outer is not None:
            run = run_within(self, outer, call)
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
        outer = None if self._given_reasoner else current_scope()
        return cast("Reasoner", outer.run.reasoner) if outer else self._reasoner

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
            run_id: The run's id; a new one by default.
            buffer: Buffer that receives the events of the run.
            watched: True to show the progress if the run is in a notebook.
            streamed: True if the events have a consumer, which learns of questions from them.
            unfinished: The operators that a stored run has not finished; None if all of them may run.
            further: Listeners of this run only.
        """
        if not isinstance(run_id, str | None):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"workflow {self.name!r}: run_id: expected a text, got {short_repr(run_id)}")
        build, store, outer = self.built(), self._runs.store, current_scope()
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

    def _result(self, run: Run, message: WorkflowMessage) -> Result[T]:
        return Result(message, run.messages, run.build.graph.operators, run.tails, run.rounds, run.root.log.run_id)

    def _as_step(self, step: Any) -> Any:
        """Return an operator or workflow, or the operator made of a function; automatic ids are made unique."""
        step = self._made(step)
        self._settle(step)
        return step

    def _made(self, step: Any) -> Any:
        """Return an operator or workflow, or the operator made of a function."""
        if is_executable(step):
            return step
        check_step(step)
        key = step if inspect.isroutine(step) else id(step)  # each access to a bound method creates a new object
        made = self._made_steps
        return made[key] if key in made else made.setdefault(key, _made_of(step))

    def _settle(self, step: Any) -> None:
        if isinstance(step, BaseOperator):
            with self._lock:
                step.settle_id(partial(self._is_taken, cast("object", step)))

    def _is_taken(self, step: object, name: str) -> bool:
        """Return True if another step has an id, or if edges name a step with this id that is added later."""
        known = self._operators.get(name, None if name in self._before else step)
        judges = (judge for judge, _ in self._evaluators if judge is not step)
        return known is not step or any(judge.get_id() == name for judge in judges)

    def _id_of(self, step: Any) -> str:
        """Return the id of a step that is given as an object or as an id."""
        return step if isinstance(step, str) else self._as_step(step).get_id()

    def _leaves(self, step: Any, operator_id: str = "") -> tuple[str, Ports]:
        """Return the operator id and the ports of an edge from a step; the port of an AWEL branch is `operator_id`."""
        if isinstance(step, Port):
            port = cast("Port[Any]", step)
            return self._id_of(port.operator), frozenset({port.name})
        before = self._id_of(step)
        known = self._operators.get(before, step)
        is_branch = isinstance(known, BaseOperator) and is_awel(known.added) and operator_id in known.ports
        return before, frozenset({operator_id}) if is_branch else frozenset()

    def _add_chain(self, chain: Chain[Any]) -> None:
        for port in chain.tails:
            if isinstance(port, Port):
                raise InputError(f"the port {port.name!r} has no successor: write operator[{port.name!r}] >> successor")
        with self._lock:
            for step in chain.steps:  # first, because automatic ids and the ports of AWEL branches depend on them
                self.add_operator(step)
            for before, after in chain.edges:
                after_id = self._id_of(after)
                _add_edge(self._before[after_id], *self._leaves(before, after_id))

    def _policy_of(self, operator_id: str, operator: BaseOperator | None) -> Policy:
        """Return an operator's policy; unless the operator runs workflows, unset fields are those of this workflow."""
        policy = self._policies.get(operator_id, NO_POLICY).or_else(operator and operator.policy)
        return policy if operator is not None and operator.runs_workflows else policy.or_else(self.policy)

    def _require(self, operator_id: str, what: str) -> None:
        if operator_id not in self._operators:
            hint = did_you_mean(operator_id, self._operators)
            issue = Issue("unknown-operator", f"is not in the workflow{hint}", operator_id)
            raise InvalidError(f"workflow {self.name!r}: nothing to {what}", [issue])


def _made_of(step: Any) -> BaseOperator:
    """Return an operator made of a function or an AWEL operator."""
    if not is_awel(step):
        return FunctionOperator(step)
    from operad.runtime.workflow.awel import AwelOperator  # imported here because it imports dbgpt

    return AwelOperator(step)


def _add_edge(before: dict[str, Ports], parent: str, ports: Ports) -> None:
    """Add an edge from `parent`, or ports to an existing edge; without ports, it is taken whenever the parent ran."""
    existing = before.get(parent)
    before[parent] = ports if existing is None else existing | ports if existing and ports else frozenset()


def check_rounds(name: str, given: Any) -> None:
    """Check the maximum number of rounds.

    Raises:
        InputError: An operator or a function is given instead.
        InvalidError: The number is below 1.
    """
    if given is None:
        return
    got = short_repr(given)
    if isinstance(given, Step) or callable(given) or is_executable(given):
        raise InputError(
            f"workflow {name!r}: the second argument is max_rounds, a number; got {got}: for several "
            "operators, write Workflow(a >> b) or Workflow([a, b]), and for an evaluator, evaluator=…"
        )
    check_positive(f"workflow {name!r}", ("max_rounds",), max_rounds=given)


def on_reject_of(name: str, given: Any) -> OnReject:
    """Return the effect of a result that no round could repair; values other than texts become messages.

    Raises:
        InputError: The value is none of these.
    """
    if isinstance(given, WorkflowMessage) or (isinstance(given, str) and given in ("stop", "continue")):
        return given
    told = f"workflow {name!r}: on_reject: expected 'stop', 'continue', or a value in place of the result"
    if isinstance(given, str):
        hint = did_you_mean(given, ("stop", "continue"))
        raise InputError(f"{told}, as WorkflowMessage('…') if it is a text; got {given!r}{hint}")
    try:
        return message_of(given)
    except InputError as error:
        raise InputError(f"{told}; got {short_repr(given)}") from error


def check_types(name: Any, *, policy: Any, budget: Any, limits: Any, listeners: Any, insights: Any) -> None:
    """Check the types of arguments of `Workflow`.

    Raises:
        InputError: An argument has another type.
        InvalidError: A listener cannot be called with an event, or the insights have another type.
    """
    if not isinstance(name, str):
        raise InputError(f"Workflow(…): name: expected a text, got {short_repr(name)}")
    for kind, value in ((Policy, policy), (Budget, budget), (Limits, limits)):
        if value is not None and not isinstance(value, kind):
            argument = kind.__name__.lower()
            raise InputError(f"workflow {name!r}: {argument}: expected {kind.__name__}(…), got {short_repr(value)}")
    if callable(listeners):
        raise InputError(
            f"workflow {name!r}: listeners: expected a list of functions: listeners=[{short_repr(listeners)}]"
        )
    for listener in listeners:
        check_listener(listener, name)
    if not isinstance(insights, Insights | None):
        issue = Issue("insights", f"are given as Insights(path), not as {insights!r}", "insights")
        raise InvalidError(f"workflow {name!r}", [issue])


class Within(BaseOperator[Any]):
    """Operator that runs a nested workflow."""

    def __init__(self, workflow: Any) -> None:
        self.body: BaseWorkflow = workflow

    @property
    def added(self) -> BaseWorkflow:
        """The nested workflow."""
        return self.body

    @property
    def runs_workflows(self) -> Sequence[BaseWorkflow]:
        """The nested workflow."""
        return (self.body,)

    @property
    def gives_items(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """True if the only last operator of the nested workflow is a map."""
        return self.body.graph().gives_items

    @property
    def stops(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """True unless the nested workflow goes on with a rejected result."""
        return self.body.on_reject != "continue"

    def get_id(self) -> str:
        """Return the name of the nested workflow."""
        return self.body.get_id()

    @property
    def instruction(self) -> str:
        """Description that lists the operators of the nested workflow."""
        return f"A workflow of {shorten([operator.get_id() for operator in self.body.get_operators()])}."

    @property
    def reads(self) -> Sequence[str]:
        """Ids of operators outside of the nested workflow that its operators read."""
        return read_outside([*self.body.graph().operators.values()])

    def check(self, before: Mapping[str, BaseOperator]) -> list[Issue]:
        """Return the issues of the nested workflow."""
        name = self.get_id()
        if contains(self.body, self.body):
            return [Issue("nested-in-itself", "the workflow contains itself; make a second one for the inside", name)]
        found = self.body.graph().check()
        issues = [Issue(i.code, i.message, f"{name}/{i.where}" if i.where else name) for i in found]
        return issues + inside_issues(self.body, name, before, of_map=False)

    def check_inputs(self, inputs: Mapping[str, JsonValue], before: Collection[str]) -> list[Issue]:
        """Return the issues of names in the instructions of the nested workflow."""
        found = self.body.built().check_inputs(inputs, before)
        return [Issue(i.code, i.message, f"{self.get_id()}/{i.where}") for i in found]

    def inputs_read(self, is_first: bool) -> Collection[str] | None:
        """Return the names of the inputs of the job that the operators of the nested workflow read."""
        return self.body.built().inputs_read(is_first)

    def read_output(self, message: WorkflowMessage) -> Any:
        """Return the answer in a message of the nested workflow."""
        return self.body.read_output(message)

    async def run(self, call: OperatorCall) -> WorkflowMessage:
        """Run the workflow inside the current run."""
        return await run_nested(self.body, call)


def inside_issues(body: BaseWorkflow, place: str, before: Mapping[str, BaseOperator], *, of_map: bool) -> list[Issue]:
    """Return the issues of the first operators of a workflow that comes after others, or of the body of a map."""
    graph = body.graph()
    first = [each for key, each in graph.operators.items() if not graph.before.get(key)] if before else []
    return [
        Issue(issue.code, issue.message, f"{place}/{issue.where}")
        for operator in first
        for issue in operator.check_inside(before, of_map=of_map)
    ]


async def run_nested(workflow: BaseWorkflow, call: OperatorCall, item: MapItem | None = None) -> WorkflowMessage:
    """Run a workflow inside the current operator.

    Args:
        call: The input; operators without predecessors get the call's messages.
        item: The item of a map, or the pass of a loop, that the run is for; it replaces the operator's id in paths.
    """
    return await run_within(workflow, inside(), inner_call(workflow, call), item).execute()


def inner_call(workflow: BaseWorkflow, call: OperatorCall) -> OperatorCall:
    """Return an operator's call as the input of a run inside it: with the workflow's own model, if it has one.

    Its deps are left out, as the run has those of the run around it, also if these are replaced later.
    """
    model = workflow.model
    return call if model is None and call.deps is None else changed(call, reasoner=model or call.reasoner, deps=None)


def run_within(workflow: BaseWorkflow, outer: Scope, call: OperatorCall, item: MapItem | None = None) -> Run:
    """Return a run inside an operator of another run, which writes its events into the log of that run.

    Args:
        outer: The operator that contains the run.
        item: The item of a map, or the pass of a loop, that the run is for; it replaces the operator's id in paths.
    """
    path = outer.path if item is None else (*outer.path[:-1], str(item))
    insights, listeners = workflow._insights_and_listeners(outer)  # pyright: ignore[reportPrivateUsage]
    log = outer.run.log
    if listeners:
        log = RunLog(new_id(), listeners, outer=log, depth=len(path))
    return Run(workflow.built(), call, log, outer=outer, prefix=path, insights=insights)


def live_questions(workflow: BaseWorkflow, run_id: str) -> Sequence[Question]:
    """Return the open questions of a run in progress in this process, without a look into the database.

    A run that is not in progress here has none.
    """
    live = workflow._runs.get(run_id)  # pyright: ignore[reportPrivateUsage]
    return () if live is None else live.run.questions.open()


def inside() -> Scope:
    """Return the scope of the current operator."""
    scope = current_scope()
    assert scope is not None  # noqa: S101 - operators run in runs
    return scope


def contains(workflow: BaseWorkflow, wanted: object) -> bool:
    """Return True if a workflow holds an operator or a workflow, however deep inside."""
    open_, seen = [workflow], {id(workflow)}
    while open_:
        for operator in open_.pop().get_operators():
            if operator is wanted:
                return True
            for inner in as_operator(operator).runs_workflows or ():
                if inner is wanted:
                    return True
                if id(inner) not in seen:
                    seen.add(id(inner))
                    open_.append(cast("BaseWorkflow", inner))
    return False
