"""Definition: the operators of a workflow with their edges and evaluators, which may be edited at any time."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast, get_args, overload

from typing_extensions import TypeVar, Unpack

from operad.runtime.graph.build import Build
from operad.runtime.graph.call import Executable
from operad.runtime.graph.chart import chart
from operad.runtime.graph.edges import (
    After,
    AnswerPath,
    Awaited,
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
from operad.runtime.graph.graph import WorkflowGraph
from operad.runtime.graph.operator import BaseOperator, as_operator
from operad.runtime.graph.schedule import Join, Ports
from operad.runtime.policies.policy import NO_POLICY, Policy
from operad.runtime.values.arguments import short_repr
from operad.runtime.values.errors import InputError, InvalidError, Issue, did_you_mean
from operad.runtime.values.forks import ProcessLock
from operad.runtime.values.message import WorkflowMessage
from operad.runtime.values.own import own
from operad.runtime.workflow.function import FunctionOperator
from operad.runtime.workflow.function_evaluator import FunctionEvaluator
from operad.runtime.workflow.nested import Within
from operad.runtime.workflow.setting import setting
from operad.runtime.workflow.workflow_arguments import AddOptions, AnyOptions, FailOptions, KeepOptions

if TYPE_CHECKING:
    from operad.runtime.workflow.map import Map
    from operad.runtime.workflow.map_items import ItemError

T = TypeVar("T", default=Any, covariant=True)
U = TypeVar("U")

Over = str | AnswerPath | Executable | Function


class Definition(Step[T]):
    """Directed acyclic graph of operators and the evaluators of its result, which can be edited; `Workflow` runs it.

    Args:
        name: The workflow's name, which is its id as an operator of another workflow.
        policy: Default policy of the operators.
    """

    name: str = setting()
    policy: Policy = setting()

    def __init__(self, name: str, policy: Policy = NO_POLICY) -> None:
        self._lock = ProcessLock()
        self._built: Build | None = None
        self.name = name
        self.policy = policy
        self._operators: dict[str, Executable | Definition] = {}
        self._before: dict[str, dict[str, Ports]] = {}
        self._joins: dict[str, Join] = {}
        self._policies: dict[str, Policy] = {}
        self._duplicate_ids: list[str] = []
        self._evaluators: list[tuple[Executable, Policy]] = []
        self._made_steps: dict[object, BaseOperator] = {}  # the operators made of functions and AWEL operators

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
        from operad.runtime.workflow.map import Map  # imported here because that module imports workflows

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

    def add_operator(
        self,
        operator: Executable | Definition | Function,
        previous_ops: Sequence[Executable | Definition | Port | Function | str] | None = None,
        next_ops: Sequence[Executable | Definition | Function | str] | None = None,
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
            policy: Policy of the operator.

        Raises:
            InvalidError: The join is unknown, or a `Port` is among `next_ops`.
            InputError: A value is not an operator.
        """
        step: Executable | Definition = self._as_step(operator)
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

    def remove_operator(self, operator: Executable | Definition | Function | str) -> None:
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

    def update_operator(self, operator: Executable | Definition | Function) -> None:
        """Replace the operator that has the id of `operator`, which is the name of a function; its edges stay.

        Raises:
            InvalidError: The workflow has no operator with this id.
        """
        step: Executable | Definition = self._made(operator)
        operator_id = step.get_id()
        with self._lock:
            self._require(operator_id, "update")
            self._built = None
            self._operators[operator_id] = step
            self._duplicate_ids = [double for double in self._duplicate_ids if double != operator_id]

    def get_operator(self, operator_id: str) -> Executable | Definition | None:
        """Return the operator with this id, or None."""
        return self._operators.get(operator_id)

    def get_operators(self) -> list[Executable | Definition]:
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
            evaluator: The evaluator.
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

    def as_operator(self) -> BaseOperator:
        """Return an operator that runs the workflow inside another one."""
        return Within(self)

    # Inside

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
