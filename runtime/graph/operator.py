"""BaseOperator: the base class of everything that a workflow runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from typing import Any, ClassVar, Protocol, cast

from pydantic import JsonValue
from typing_extensions import TypeVar

from operad.runtime.graph.call import OperatorCall
from operad.runtime.graph.chat2graph import Answer, Executable, ExecutesCalls, awaitable, executed, make_both
from operad.runtime.graph.edges import Step
from operad.runtime.graph.schedule import Join, Ports
from operad.runtime.policies.policy import Policy
from operad.runtime.reasoning.reasoner import Reasoner
from operad.runtime.values.errors import InputError, Issue
from operad.runtime.values.ids import settled_id
from operad.runtime.values.message import Job, WorkflowMessage
from operad.runtime.values.own import own
from operad.runtime.values.secret import SecretUse
from operad.runtime.values.step_record import StepRecord

T = TypeVar("T", default=Any, covariant=True)


class OperatorGraph(Protocol):
    """Protocol of the graph of a workflow that an operator runs, such as `WorkflowGraph`, which is made of operators."""

    @property
    def operators(self) -> Mapping[str, BaseOperator]:
        """The operators by id."""
        ...

    @property
    def before(self) -> Mapping[str, Mapping[str, Ports]]:
        """Predecessors of each operator, with the ports of the edge."""
        ...

    @property
    def joins(self) -> Mapping[str, Join]:
        """Joins other than ``all_done``."""
        ...

    @property
    def policies(self) -> Mapping[str, Policy]:
        """Policies of operators that have one."""
        ...

    @property
    def evaluators(self) -> Sequence[BaseOperator]:
        """Evaluators of the result."""
        ...

    @property
    def tails(self) -> Sequence[str]:
        """Ids of the operators without successors."""
        ...


class HasGraph(Protocol):
    """Protocol of a workflow that an operator runs, for code that needs only its name and its graph."""

    name: str

    @property
    def model(self) -> object | None:
        """Reasoner of the workflow's own; None if it was given none."""
        ...

    def graph(self) -> OperatorGraph:
        """Return a frozen copy of the workflow's operators and edges as they are now."""
        ...

    def built(self) -> Any:
        """Return the workflow as it is now, ready to run: a `Build`, which is made once after each edit."""
        ...


class BaseOperator(Step[T], ExecutesCalls):
    """Base class of operators, with defaults for everything except the id and the work.

        class Shout(BaseOperator[str]):
            def get_id(self) -> str:
                return "shout"

            async def run(self, call: OperatorCall) -> str:
                return call.messages[0].scratchpad.upper()

    A subclass implements one of two methods: `run`, which takes an `OperatorCall`, or `execute`, which takes the parts
    of the call as arguments, as in Chat2Graph. The class then gets the other method, which calls the implemented one,
    so that both can be called and ``super()`` works in both.

    Attributes:
        policy: Policy of the operator, unless the workflow sets another one for it.
        title: Title for people, which errors name before the id; empty for none.
        takes_one_port: True if every message of an operator with ports takes exactly one of them.
        asks_model: True if the operator asks the reasoner of the run, so that the run needs a model; False if neither
            the operator nor a workflow inside it does; None if this is unknown.
        holds_inputs: True if the operator's message is the inputs of the job, so that it is made again when they change.
        gives_verdict: False if the operator's answer is never a verdict, so that it cannot be an evaluator.
        sequential: For an operator that runs a workflow repeatedly: True if each pass continues the previous one.
        is_foreign: True for a class outside of Operad, which may change the values that it gets and returns.
        gives_items: True if the operator is a map, whose answer is the output ``items`` of its message.
        stops: True if nothing that depends on the operator runs after a verdict other than SUCCESS in its message.
        recorded: Of an operator that replays a finished run: its record, then those of the operators inside it.
    """

    policy: Policy | None = None
    title: str = ""
    takes_one_port: bool = False
    asks_model: bool | None = None
    holds_inputs: bool = False
    gives_verdict: ClassVar[bool] = True
    sequential: ClassVar[bool] = False
    gives_items: bool = False
    stops: bool = False
    recorded: Sequence[StepRecord] = ()
    _id: str
    is_foreign: ClassVar[bool] = False
    _settled: bool = True  # False for an automatically chosen `_id`, which is not unique yet

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        defined = vars(cls)
        cls.is_foreign = defined.get("is_foreign", cls.__module__.partition(".")[0] != "operad")
        make_both(cls)

    def get_id(self) -> str:
        """Return the operator's id, unique in a workflow."""
        raise NotImplementedError(f"{type(self).__name__} has no get_id()")

    async def run(self, call: OperatorCall) -> Answer:
        """Do the work.

        Args:
            call: Input of the operator.
        """
        raise NotImplementedError(f"{type(self).__name__} has no method run(call) or execute(…); define one of them")

    @property
    def ports(self) -> Sequence[str]:
        """The ports that messages of the operator may take; none by default."""
        return ()

    @property
    def reads(self) -> Sequence[str]:
        """Ids of earlier operators whose messages the operator gets after those of its direct predecessors.

        The message of an id that is not in the workflow is taken from the messages that the workflow was given.
        """
        return ()

    @property
    def instruction(self) -> str:
        """Purpose of the operator, from which an evaluator can tell which operator is at fault."""
        return ""

    @property
    def reads_lesson(self) -> bool:
        """True if a lesson may change the work of the operator; otherwise an error of it ends the run at once."""
        return True

    @property
    def memory(self) -> bool:
        """True if the operator's job includes the earlier turns of a conversation; see `Job.turns`."""
        return True

    def streams_answer(self, reasoner: Reasoner) -> bool:
        """Return True if the text that the model streams is the operator's answer, after text before calls of tools."""
        return False

    @property
    def deps_type(self) -> str:
        """Name of the type of the deps without which the operator cannot run; empty if it needs none."""
        return ""

    @property
    def secret_uses(self) -> Sequence[SecretUse]:
        """Secrets that the operator sends, and where to."""
        return ()

    def missing_secrets(self) -> Collection[str]:
        """Return the names of the secrets that the operator sends and that have no value."""
        return ()

    def inputs_read(self, is_first: bool) -> Collection[str] | None:
        """Return the names of the inputs of the job that the operator reads; None if it may read any of them.

        Args:
            is_first: True if no operator comes before it, also not before the workflows around it.
        """
        return None

    def check_job(self, job: Job) -> None:
        """Check the inputs of a job, of an operator whose message they are; see `holds_inputs`.

        Raises:
            InputError: Inputs are missing, unknown, or of a wrong type; all are named.
        """

    @property
    def runs_workflows(self) -> Sequence[HasGraph] | None:
        """Workflows that the operator consists of; None for an operator that does work of its own.

        Of an operator with workflows, a durable run stores the outcomes of the operators inside. The operator itself
        runs again when the run is resumed.
        """
        return None

    @property
    def settings(self) -> Mapping[str, JsonValue]:
        """Parameters of an operator that runs workflows, as JSON values."""
        return {}

    @property
    def answer_type(self) -> Any:
        """Type of the operator's answers, for checks before a run; None if unknown."""
        return None

    @property
    def has_tools(self) -> bool:
        """True if the operator offers tools to a model, so that an evaluator is told which of them were called."""
        return False

    @property
    def added(self) -> Any:
        """The object that the user added to the workflow: here the operator itself."""
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

    def check_reasoner(self, reasoner: Reasoner) -> None:
        """Check that a reasoner with a very small model suits the operator, which is going to ask it.

        Raises:
            InputError: The model is too small.
        """

    def without_model(self) -> BaseOperator[T]:
        """Return an operator that does the same work, but asks the reasoner of the run instead of its own model."""
        return self

    def check(self, before: Mapping[str, BaseOperator]) -> list[Issue]:
        """Return the issues of the operator, given its predecessors by id."""
        return []

    def check_among(self, before: Mapping[str, BaseOperator], others: Collection[str]) -> list[Issue]:
        """Return the issues of `check`, with hints at other operators of the workflow that could come before it.

        Args:
            before: The operator's predecessors, by id.
            others: Ids of the operators that may be added as predecessors.
        """
        return self.check(before)

    def check_inside(self, before: Mapping[str, BaseOperator], *, of_map: bool) -> list[Issue]:
        """Return the issues of one of the first operators of a nested workflow or map, given those before it."""
        return []

    @property
    def names_operators(self) -> bool:
        """True if an instruction of the operator names other operators, which `check_among` checks in any case."""
        return False

    def check_inputs(self, inputs: Mapping[str, JsonValue], before: Collection[str]) -> list[Issue]:
        """Return the issues of names that neither an input of the job nor an operator before the operator has.

        Args:
            inputs: The inputs of the job.
            before: Ids of the operators before it, of those before the workflow if it is the first one in it, and
                ``item`` and ``index`` of a map.
        """
        return []

    def check_policy(self, policy: Policy) -> list[Issue]:
        """Return the issues of the policy with which a workflow runs the operator."""
        return []

    @property
    def has_fingerprint(self) -> bool:
        """True if the operator has a fingerprint, so that its messages can be cached."""
        return type(self).fingerprint is not BaseOperator.fingerprint

    def fingerprint(self) -> dict[str, JsonValue]:
        """Return JSON values that are equal for operators that answer alike.

        Raises:
            InputError: The class defines no fingerprint.
        """
        raise InputError(f"operator {self.get_id()!r} has no fingerprint; define fingerprint() to cache its messages")

    def settle_id(self, is_taken: Callable[[str], bool]) -> None:
        """Make an automatically chosen id different from the ids that are taken in a workflow."""
        if not self._settled:
            self._id, self._settled = settled_id(self._id, is_taken), True

    def read_output(self, message: WorkflowMessage) -> T:
        """Return the answer in a message of the operator.

        Raises:
            ValueError: The message does not hold an answer of the operator's type.
        """
        return cast("T", own(message.value))


def started(operator: BaseOperator[Any], call: OperatorCall) -> Coroutine[Any, Any, Answer]:
    """Return the coroutine of an operator's run; a user's class gets copies of the values that others read, too."""
    return cast("Coroutine[Any, Any, Answer]", operator.run(call.own() if operator.is_foreign else call))


class Adapted(BaseOperator[Any]):
    """Operator that wraps an `Executable` of another class.

    Args:
        executable: The object. Optional attributes and methods of `BaseOperator` that the object has are used.
    """

    is_foreign = True

    def __init__(self, executable: Executable) -> None:
        self._executable: Any = executable
        self.policy = self._optional("policy", None)
        self.takes_one_port = self._optional("takes_one_port", False)
        self.asks_model = self._optional("asks_model", None)

    def _optional(self, name: str, default: Any) -> Any:
        """Return an attribute of the object, or the default if the object lacks it."""
        return getattr(self._executable, name, default)

    def get_id(self) -> str:
        """Return the id of the object."""
        return self._executable.get_id()

    def run(self, call: OperatorCall) -> Any:
        """Do the work."""
        return awaitable(executed(self._executable.execute, call), self._executable, "execute")

    @property
    def ports(self) -> Sequence[str]:
        """The ports of the object."""
        ports: str | Sequence[str] = self._optional("ports", None) or ()
        return (ports,) if isinstance(ports, str) else tuple(ports)

    @property
    def reads(self) -> Sequence[str]:
        """Ids of earlier operators whose messages the object reads."""
        return tuple(self._optional("reads", None) or ())

    @property
    def instruction(self) -> str:
        """Purpose of the object."""
        return str(self._optional("instruction", ""))

    @property
    def memory(self) -> bool:
        """True if the object sees the earlier turns of a conversation."""
        return bool(self._optional("memory", True))

    @property
    def runs_workflows(self) -> Sequence[HasGraph] | None:
        """The workflows that the object runs."""
        return self._optional("runs_workflows", None)

    @property
    def settings(self) -> Mapping[str, JsonValue]:
        """The parameters of the object."""
        return self._optional("settings", {})

    @property
    def added(self) -> Any:
        """The object."""
        return self._executable

    def check(self, before: Mapping[str, BaseOperator]) -> list[Issue]:
        """Return the issues that the object reports."""
        check: Callable[[Mapping[str, Any]], list[Issue]] | None = self._optional("check", None)
        return check({key: operator.added for key, operator in before.items()}) if check else []

    @property
    def has_fingerprint(self) -> bool:
        """True if the object has a method `fingerprint`."""
        return callable(self._optional("fingerprint", None))

    def fingerprint(self) -> dict[str, JsonValue]:
        """Return the fingerprint of the object."""
        return self._executable.fingerprint() if self.has_fingerprint else super().fingerprint()

    def read_output(self, message: WorkflowMessage) -> Any:
        """Return the answer in a message of the object."""
        return self._optional("read_output", super().read_output)(message)


def as_operator(executable: Any) -> BaseOperator:
    """Return the object if it is a `BaseOperator`, otherwise an operator that runs the workflow or wraps the object."""
    if isinstance(executable, BaseOperator):
        return cast("BaseOperator", executable)
    # A workflow makes its own operator, because this package does not know workflows.
    return executable._as_operator() if hasattr(executable, "_as_operator") else Adapted(executable)
