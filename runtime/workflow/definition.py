"""Definition: the operators of a workflow with their edges and evaluators, which may be edited at any time."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from threading import RLock
from typing import TYPE_CHECKING, Any, Literal, cast, get_args, overload

from typing_extensions import TypedDict, TypeVar, Unpack

from operad.runtime.graph.build import Build
from operad.runtime.graph.call import Executable
from operad.runtime.graph.chart import chart
from operad.runtime.graph.edges import (
    After,
    AnswerPath,
    Chain,
    Function,
    Port,
    Step,
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
from operad.runtime.values.errors import InputError, InvalidError, Issue, did_you_mean
from operad.runtime.values.message import WorkflowMessage
from operad.runtime.values.output import plain_value, shown
from operad.runtime.workflow.function import FunctionOperator
from operad.runtime.workflow.function_evaluator import FunctionEvaluator
from operad.runtime.workflow.within import Within

if TYPE_CHECKING:
    from operad.runtime.workflow.map import Map

T = TypeVar("T", default=Any, covariant=True)
U = TypeVar("U")


class _How(TypedDict, total=False):
    join: Join | None
    policy: Policy | None


class Definition(Step[T]):
    """Operators in a directed acyclic graph, with the evaluators of its result; `Workflow` runs it.

    Args:
        name: The workflow's name; its id in another workflow.
        policy: Default policy of its operators.
    """

    def __init__(self, name: str, policy: Policy = NO_POLICY) -> None:
        self.name = name
        self.policy = policy
        self._lock = RLock()
        self._built: Build | None = None
        self._operators: dict[str, Executable | Definition] = {}
        self._before: dict[str, dict[str, Ports]] = {}
        self._joins: dict[str, Join] = {}
        self._policies: dict[str, Policy] = {}
        self._doubles: list[str] = []
        self._evaluators: list[tuple[Executable, Policy]] = []
        self._made: dict[object, BaseOperator] = {}  # of functions and AWEL operators

    def get_id(self) -> str:
        """Return its id as an operator of another workflow: its name."""
        return self.name

    @overload
    def add(self, step: Step[U], after: After = (), **how: Unpack[_How]) -> Step[U]: ...
    @overload
    def add(
        self, step: Callable[..., AsyncIterator[str] | Iterator[str]], after: After = (), **how: Unpack[_How]
    ) -> Step[str]: ...
    @overload
    def add(self, step: Callable[..., Awaitable[U]], after: After = (), **how: Unpack[_How]) -> Step[U]: ...
    @overload
    def add(self, step: Callable[..., U], after: After = (), **how: Unpack[_How]) -> Step[U]: ...
    @overload
    def add(self, step: Any, after: After = (), **how: Unpack[_How]) -> Any: ...
    def add(self, step: Any, after: After = (), *, join: Join | None = None, policy: Policy | None = None) -> Any:
        """Add an operator after others.

            check = flow.add(Operator("Check it."), after=["facts", triage["question"]])

        Args:
            step: An operator, a workflow or a plain function; or several with edges between them, as ``a >> b``.
            after: A predecessor, or a list of these: operators, ports, functions, or ids.
            join: When it runs, and
            policy: how it runs; both as for `add_operator`, and for a single operator only.

        Returns:
            The step; of a function, the operator that is made of it.

        Raises:
            InputError: A value has another type.
            InvalidError: There is no such join.
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

    def map(
        self,
        each: Any,
        over: str | AnswerPath,
        *,
        id: str = "",
        after: After = (),
        concurrency: int = 8,
        on_error: Literal["fail", "skip", "keep"] = "fail",
        policy: Policy | None = None,
    ) -> Map:
        """Add a map, which runs an operator for each item of a list, after the operator that gives the list.

            flow = Workflow(facts)
            checked = flow.map(check, over=facts.output.claims)

        Args:
            each: Body to run for each item: an operator, a workflow or a function.
            over: The list: ``facts.output.claims``, or the same as text: ``facts.claims``.
            id: The id of the map; by default that of what it runs.
            after: Other operators that come before it, as for `add`.
            concurrency: Maximum number of items at once.
            on_error: Effect of a failing item; see `Map`.
            policy: How the map as a whole runs.

        Returns:
            The map, an operator.

        Raises:
            InputError: A value has another type.
            InvalidError: `concurrency` is below 1, or `on_error` none of these.
        """
        from operad.runtime.workflow.map import Map  # not at import: it is made of workflows

        made = Map(id, each=each, over=over, concurrency=concurrency, on_error=on_error)
        lists = made.reads or ([over] if isinstance(over, str) and over in self._operators else [])
        others = predecessors(after)
        before = [read for read in lists if read not in map(self._id_of, others)]
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

        Adding the same operator again adds the edges. The others may be added later.

        Args:
            operator: The operator; a workflow, which runs inside this one; or a plain function.
            previous_ops: Predecessors, as objects or ids; a `Port` if the edge is taken only if
                that operator's message takes the port.
            next_ops: Successors, likewise.
            join: When it runs: ``all_done`` (the default), when all before it have ended or been
                skipped, and one at least ran; ``all``, only if all ran; ``any``, as soon as the
                first ran, with that one's message alone.
            policy: How it runs.

        Raises:
            InvalidError: There is no such join, or a `Port` is among `next_ops`.
            InputError: Something else is given in the place of an operator.
        """
        step: Executable | Definition = self._as_step(operator)
        operator_id = step.get_id()
        self._check_added(operator_id, previous_ops, next_ops, join)
        parents = [self._leaves(previous, operator_id) for previous in previous_ops or ()]
        children = [self._id_of(following) for following in next_ops or ()]
        with self._lock:
            self._built = None
            if self._operators.setdefault(operator_id, step) is not step and operator_id not in self._doubles:
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

    def remove_operator(self, operator: Executable | Definition) -> None:
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

    def update_operator(self, operator: Executable | Definition) -> None:
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

    def get_operator(self, operator_id: str) -> Executable | Definition | None:
        """The operator with that id, or None."""
        return self._operators.get(operator_id)

    def get_operators(self) -> list[Executable | Definition]:
        """All operators, in order of adding."""
        with self._lock:
            return list(self._operators.values())

    def set_evaluator(self, evaluator: Executable | Function | None, *, policy: Policy = NO_POLICY) -> None:
        """Set the evaluator of the result, in place of all earlier ones; None for none.

        The operators run again after its verdict where the workflow was made with `max_rounds` above 1.

        Args:
            evaluator: The evaluator, or a function: it returns a `WorkflowMessage` with a status, or None for a right
                result, and raises `FaultError` for a wrong one.
            policy: How it runs. The workflow's own completes it, except for the fallback: a text
                that replaces an answer is not a verdict.
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
        """An evaluator as it is, with an id of its own; the one that is made of a function."""
        judge: Any = evaluator
        is_operator = is_executable(judge)
        if isinstance(judge, type) or not (getattr(judge, "gives_verdict", True) if is_operator else callable(judge)):
            raise InputError(
                f"evaluator: expected an Evaluator, such as Evaluator('…'), or a function; got {shown(judge)}"
            )
        if not is_operator:
            judge = FunctionOperator(judge)
        if isinstance(judge, FunctionOperator):
            judge = FunctionEvaluator(cast("FunctionOperator[Any]", judge))
        self._settle(judge)
        return judge

    def graph(self) -> WorkflowGraph:
        """The workflow as it stands, frozen."""
        with self._lock:
            in_order = [*self._operators, *(key for key in self._before if key not in self._operators)]
            operators = {key: self._as_operator(operator) for key, operator in self._operators.items()}
            policies = {key: self._policy_of(key, operators.get(key)) for key in in_order}
            evaluators = [(as_operator(evaluator), policy) for evaluator, policy in self._evaluators]
            for evaluator, policy in evaluators:
                default = replace(self.policy, fallback=None)
                policies[evaluator.get_id()] = policy.or_else(evaluator.policy or NO_POLICY).or_else(default)
            return WorkflowGraph(
                operators=operators,
                before={key: dict(self._before.get(key, {})) for key in in_order},
                joins={key: join for key, join in self._joins.items() if join != "all_done"},
                policies={key: policy for key, policy in policies.items() if policy},
                evaluators=tuple(evaluator for evaluator, _ in evaluators),
                doubles=tuple(self._doubles),
            )

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """Return the operators as a flowchart for notebooks."""
        from operad.runtime.observe.notebook import picture

        return {"text/plain": repr(self), **picture(chart(self.graph()))}

    def read_output(self, message: WorkflowMessage) -> T:
        """The answer that a message of the workflow holds, as an instance of its type."""
        graph = self.graph()
        followed = {parent for parents in graph.before.values() for parent in parents}
        tails = [key for key in self._operators if key not in followed]
        said = {part.operator_id: part for part in message.parts} or ({tails[0]: message} if len(tails) == 1 else {})
        values = {key: graph.operators[key].read_output(part) for key, part in said.items() if key in tails}
        if len(values) == 1:
            return cast("T", next(iter(values.values())))
        return cast("T", values or plain_value(message))

    # Inside

    def _as_step(self, step: Any) -> Any:
        """An operator or a workflow as it is, with an id of its own; the operator that is made of a function."""
        check_step(step)
        if not is_executable(step):
            key = step if inspect.isroutine(step) else id(step)  # a bound method is a new object each time
            made = self._made.get(key)
            if made is None:
                made = self._made[key] = _made_of(step)
            step = made
        self._settle(step)
        return step

    def _settle(self, step: Any) -> None:
        if isinstance(step, BaseOperator):
            with self._lock:
                judges = [evaluator for evaluator, _ in self._evaluators]
                step.settle_id(_TakenIds(cast("object", step), self._operators, self._before, judges))

    def _id_of(self, step: Any) -> str:
        """The id of an operator that is given by itself or by that."""
        return step if isinstance(step, str) else self._as_step(step).get_id()

    def _leaves(self, step: Any, operator_id: str = "") -> tuple[str, Ports]:
        """Return the source of an edge: the id of the operator, and its port; of an AWEL branch, that of the operator's id."""
        if isinstance(step, Port):
            port = cast("Port[Any]", step)
            return self._id_of(port.operator), frozenset({port.name})
        before = step if isinstance(step, str) else self._as_step(step).get_id()
        known = self._operators.get(before, step)
        is_branch = isinstance(known, BaseOperator) and is_awel(known.added) and operator_id in known.ports
        return before, frozenset({operator_id}) if is_branch else frozenset()

    def _add_chain(self, chain: Chain[Any]) -> None:
        dangling: list[Port[Any]] = [tail for tail in chain.tails if isinstance(tail, Port)]
        if dangling:
            port = dangling[0]
            raise InputError(f"the port {port.name!r} leads nowhere: write operator[{port.name!r}] >> what follows")
        for step in chain.steps:
            self.add_operator(step)
        for before, after in chain.edges:
            self.add_operator(after, [before])

    def _as_operator(self, operator: Executable | Definition) -> BaseOperator:
        return self._within(operator) if isinstance(operator, Definition) else as_operator(operator)

    def _within(self, workflow: Any) -> Within:
        around: Any = self
        return Within(workflow, around)

    def _policy_of(self, operator_id: str, operator: BaseOperator | None) -> Policy:
        """Its own; completed by the workflow's, which is for single operators and not for whole workflows inside."""
        policy = self._policies.get(operator_id, NO_POLICY)
        if operator is not None and operator.policy is not None:
            policy = policy.or_else(operator.policy)
        if operator is None or not operator.runs_workflows:
            policy = policy.or_else(self.policy)
        fallback: Any = policy.fallback
        if isinstance(fallback, Definition):
            policy = replace(policy, fallback=self._within(fallback))
        return policy

    def _require(self, operator_id: str, what: str) -> None:
        if operator_id not in self._operators:
            hint = did_you_mean(operator_id, self._operators)
            issue = Issue("unknown-operator", f"is not in the workflow{hint}", operator_id)
            raise InvalidError(f"workflow {self.name!r}: nothing to {what}", [issue])


def _made_of(step: Any) -> BaseOperator:
    """The operator that is made of a function or an AWEL operator."""
    if not is_awel(step):
        return FunctionOperator(step)
    from operad.runtime.workflow.awel import AwelOperator  # not at import: it imports dbgpt

    return AwelOperator(step)


class _TakenIds(Collection[str]):
    """Ids of a workflow's other operators and evaluators; looked up, for a set of all for each operator is quadratic."""

    def __init__(
        self, step: object, operators: Mapping[str, object], before: Mapping[str, object], judges: Sequence[Executable]
    ) -> None:
        self._step, self._operators, self._before, self._judges = step, operators, before, judges

    def __contains__(self, name: object) -> bool:
        known = self._operators.get(cast("str", name), self._step if name not in self._before else None)
        return known is not self._step or any(
            judge.get_id() == name for judge in self._judges if judge is not self._step
        )

    def __iter__(self) -> Iterator[str]:
        judges = (judge.get_id() for judge in self._judges)
        return (name for name in dict.fromkeys((*self._operators, *self._before, *judges)) if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _add_edge(before: dict[str, Ports], parent: str, ports: Ports) -> None:
    """Add an edge, or ports to the one that is there; one without ports is taken in any case."""
    there = before.get(parent)
    before[parent] = ports if there is None else there | ports if there and ports else frozenset()
