"""BaseOperator: the base class of everything that a workflow runs."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast

from pydantic import JsonValue
from typing_extensions import TypeVar

from operad.runtime.graph.call import Executable, OperatorCall
from operad.runtime.graph.edges import Step
from operad.runtime.policies.policy import Policy
from operad.runtime.reasoning.reasoner import Reasoner
from operad.runtime.values.errors import InputError, Issue
from operad.runtime.values.message import Job, WorkflowMessage
from operad.runtime.values.output import plain_value, shown

if TYPE_CHECKING:
    from operad.runtime.graph.graph import HasGraph

T = TypeVar("T", default=Any, covariant=True)

Answer = WorkflowMessage | str
"""Return value of an operator; plain text counts as a message with that text."""


class BaseOperator(Step[T]):
    """Base class of operators, with a default for everything but the id and the work.

        class Shout(BaseOperator[str]):
            def get_id(self) -> str:
                return "shout"

            async def run(self, call: OperatorCall) -> str:
                return call.messages[0].scratchpad.upper()

    A subclass does the work in one of two methods: `run`, which is given an `OperatorCall`, or `execute`, which is
    given its parts one by one, as in Chat2Graph. The other method of the same class then calls it, so that both can
    be called, and ``super()`` works in both.

    Attributes:
        policy: Policy of the operator, unless the workflow sets another one for it.
        takes_one_port: True if every message of an operator with ports takes exactly one of them.
        asks_model: True if it asks the reasoner of the run, and the run needs a model; None if that is not known,
            False if neither the operator nor a workflow inside it does.
        gives_verdict: False if its answer is never a verdict, so that it cannot be an evaluator.
        sequential: For an operator that runs a workflow again and again: whether each pass continues the last one.
    """

    policy: Policy | None = None
    takes_one_port: bool = False
    asks_model: bool | None = None
    gives_verdict: ClassVar[bool] = True
    sequential: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        own = vars(cls)
        if "run" in own and "execute" not in own:
            cls.execute = _execute_by(own["run"])
        elif "execute" in own and "run" not in own:
            cls.run = _run_by(own["execute"])

    def get_id(self) -> str:
        """Return the operator's id, unique in a workflow."""
        raise NotImplementedError(f"{type(self).__name__} has no get_id()")

    async def run(self, call: OperatorCall) -> Answer:
        """Do the work.

        Args:
            call: Input of the operator.
        """
        raise NotImplementedError(f"{type(self).__name__} does nothing: give it run(call) or execute(…)")

    async def execute(
        self,
        reasoner: Reasoner,
        job: Job,
        workflow_messages: list[WorkflowMessage] | None = None,
        previous_expert_outputs: list[WorkflowMessage] | None = None,
        lesson: str | None = None,
    ) -> Answer:
        """Do the work, given the parts of an `OperatorCall` one by one.

        Args:
            reasoner: The reasoner of the run.
            job: The job that the workflow works on.
            workflow_messages: The messages of the operators before it.
            previous_expert_outputs: The messages of earlier experts.
            lesson: Advice from the last round.
        """
        return await self.run(OperatorCall.of(reasoner, job, workflow_messages, previous_expert_outputs, lesson))

    @property
    def ports(self) -> Sequence[str]:
        """The ports that its messages may take; none by default."""
        return ()

    @property
    def reads(self) -> Sequence[str]:
        """The ids of operators further back whose messages it is given, too, after those of the operators before it.

        One that is not in the workflow is looked for among the messages that the workflow was given.
        """
        return ()

    @property
    def instruction(self) -> str:
        """Purpose of the operator, by which an evaluator can tell which one is at fault."""
        return ""

    @property
    def reads_lesson(self) -> bool:
        """True if a lesson may change the work of the operator; otherwise an error of it ends the run at once."""
        return True

    @property
    def memory(self) -> bool:
        """True if its job comes with the earlier turns of a conversation; see `Job.turns`."""
        return True

    def streams_answer(self, reasoner: Reasoner) -> bool:
        """Return True if the text that a model writes for it, as it comes, is certain to be its answer."""
        return False

    @property
    def runs_workflows(self) -> Sequence[HasGraph] | None:
        """The workflows that an operator consists of; None for one that does work of its own.

        What is kept of a run is then what the operators inside did, and the operator itself runs again when the run
        is resumed.
        """
        return None

    @property
    def settings(self) -> Mapping[str, JsonValue]:
        """For an operator that runs workflows: its own parameters, as JSON values."""
        return {}

    @property
    def answer_type(self) -> Any:
        """The type of its answers, for checks before a run; None if it is not known."""
        return None

    @property
    def added(self) -> Any:
        """The object that was added to the workflow: the operator itself."""
        return self

    @property
    def has_model(self) -> bool:
        """True if the operator was given a model of its own."""
        return False

    def check_model(self) -> None:
        """Check the operator's own model.

        Raises:
            InputError: The model is not configured.
        """

    def without_model(self) -> BaseOperator[T]:
        """Return the same operator, which asks the reasoner of the run instead of a model of its own."""
        return self

    def check(self, before: Mapping[str, BaseOperator]) -> list[Issue]:
        """Return what is wrong with the operator after the operators `before` it."""
        return []

    def check_among(self, before: Mapping[str, BaseOperator], others: Collection[str]) -> list[Issue]:
        """Return the issues of `check`, with hints at other operators of the workflow that could come before it."""
        return self.check(before)

    @property
    def has_fingerprint(self) -> bool:
        """True if something tells the operator from others, so that its messages can be cached."""
        return type(self).fingerprint is not BaseOperator.fingerprint

    def fingerprint(self) -> dict[str, JsonValue]:
        """Return plain values that are the same for operators that answer alike.

        Raises:
            InputError: Nothing tells the operator from others.
        """
        raise InputError(f"nothing tells operator {self.get_id()!r} from others: give it a method fingerprint()")

    def settle_id(self, taken: Collection[str]) -> None:
        """Make an automatically chosen id unique among those that are taken."""

    def read_output(self, message: WorkflowMessage) -> T:
        """Return the answer that one of its messages holds.

        Raises:
            ValueError: The message does not hold an answer of the operator's type.
        """
        return cast("T", plain_value(message))


R = TypeVar("R", bound=Callable[..., Any])


def refusing_jobs(run: R) -> R:
    """Make a method `run` of an operator raise InputError for a job, which is given to a workflow."""

    @functools.wraps(run)
    def checked(self: Any, call: Any = None, *more: Any, **named: Any) -> Any:
        if not isinstance(call, OperatorCall):
            own = type(self).__name__
            raise InputError(
                f"{own}.run(…) got {shown(call)}: an operator runs in a workflow: Workflow({own}(…)).run(…)"
            )
        return run(self, call, *more, **named)

    return cast("R", checked)


def _execute_by(run: Callable[..., Awaitable[Answer]]) -> Any:
    """A method `execute` that calls this `run`."""

    async def execute(
        self: Any,
        reasoner: Reasoner,
        job: Job,
        workflow_messages: list[WorkflowMessage] | None = None,
        previous_expert_outputs: list[WorkflowMessage] | None = None,
        lesson: str | None = None,
    ) -> Answer:
        return await run(self, OperatorCall.of(reasoner, job, workflow_messages, previous_expert_outputs, lesson))

    execute.__doc__ = BaseOperator.execute.__doc__
    return execute


def _run_by(execute: Callable[..., Awaitable[Answer]]) -> Any:
    """A method `run` that calls this `execute`."""

    def run(self: Any, call: OperatorCall) -> Awaitable[Answer]:
        return execute(
            self,
            call.reasoner,
            call.job,
            workflow_messages=[*call.messages],
            previous_expert_outputs=[*call.previous],
            lesson=call.lesson,
        )

    run.__doc__ = BaseOperator.run.__doc__
    return run


class Adapted(BaseOperator[Any]):
    """An `Executable` of another class, as an operator.

    Args:
        executable: The object; what it has of the optional attributes and methods of `BaseOperator` counts.
    """

    def __init__(self, executable: Executable) -> None:
        self._executable: Any = executable
        self.policy = self._has("policy", None)
        self.takes_one_port = self._has("takes_one_port", False)
        self.asks_model = self._has("asks_model", None)

    def _has(self, name: str, default: Any) -> Any:
        return getattr(self._executable, name, default)

    def get_id(self) -> str:
        """Return the id of the object."""
        return self._executable.get_id()

    def run(self, call: OperatorCall) -> Any:
        """Do the work."""
        return self._executable.execute(
            call.reasoner,
            call.job,
            workflow_messages=[*call.messages],
            previous_expert_outputs=[*call.previous],
            lesson=call.lesson,
        )

    @property
    def ports(self) -> Sequence[str]:
        """The ports of the object."""
        ports: str | Sequence[str] = self._has("ports", None) or ()
        return (ports,) if isinstance(ports, str) else tuple(ports)

    @property
    def reads(self) -> Sequence[str]:
        """The operators further back that the object reads."""
        return tuple(self._has("reads", None) or ())

    @property
    def instruction(self) -> str:
        """Purpose of the object."""
        return str(self._has("instruction", ""))

    @property
    def memory(self) -> bool:
        """True if the object sees the earlier turns of a conversation."""
        return bool(self._has("memory", True))

    @property
    def runs_workflows(self) -> Sequence[HasGraph] | None:
        """The workflows that the object runs."""
        return self._has("runs_workflows", None)

    @property
    def settings(self) -> Mapping[str, JsonValue]:
        """The parameters of the object."""
        return self._has("settings", {})

    @property
    def added(self) -> Any:
        """The object."""
        return self._executable

    def check(self, before: Mapping[str, BaseOperator]) -> list[Issue]:
        """Return what the object finds wrong with itself."""
        check: Callable[[Mapping[str, Any]], list[Issue]] | None = self._has("check", None)
        return check({key: operator.added for key, operator in before.items()}) if check else []

    @property
    def has_fingerprint(self) -> bool:
        """True if the object has a method `fingerprint`."""
        return callable(self._has("fingerprint", None))

    def fingerprint(self) -> dict[str, JsonValue]:
        """Return the fingerprint of the object."""
        return self._executable.fingerprint() if self.has_fingerprint else super().fingerprint()

    def read_output(self, message: WorkflowMessage) -> Any:
        """Return the answer that one of its messages holds."""
        return self._has("read_output", plain_value)(message)


def as_operator(executable: Executable | BaseOperator) -> BaseOperator:
    """Return an object that a workflow runs as an operator: itself where it is one, else adapted."""
    return cast("BaseOperator", executable) if isinstance(executable, BaseOperator) else Adapted(executable)
