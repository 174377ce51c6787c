"""Result of a run, with the answers as values of their types."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, cast, overload

from typing_extensions import TypeVar

from operad.runtime.graph.edges import AwelNode, Step, Streaming
from operad.runtime.graph.operator import BaseOperator
from operad.runtime.values.errors import AnswerError, InputError, did_you_mean, shorten
from operad.runtime.values.fault import Fault, status_text
from operad.runtime.values.message import Usage, WorkflowMessage, WorkflowStatus, message_html
from operad.runtime.values.own import own

T = TypeVar("T", default=Any, covariant=True)
U = TypeVar("U")


@dataclass(frozen=True, repr=False)
class Result(Generic[T]):
    """Result of a run.

        result: Result[str] = flow.run("Is this so? The moon has air.")
        result.output  # the answer of the last operator, an instance of its type
        result["facts"]  # that of the operator 'facts'; result[facts], by the operator itself, is typed
        if result.rejected:
            print(result.evaluation, result.faults)
        print(result.text, result.cost)

    Attributes:
        message: The run's message.
        messages: The messages of the operators that ran in the best round, by id, in the order in which the operators
            were added.
        steps: The operators, by id.
        tails: The ids of the operators without successors.
        rounds: Number of rounds of the run.
        run_id: The run's id.
    """

    message: WorkflowMessage
    messages: Mapping[str, WorkflowMessage]
    steps: Mapping[str, BaseOperator]
    tails: tuple[str, ...]
    rounds: int
    run_id: str

    @property
    def output(self) -> T:
        """The answer of the last operator, an instance of its type.

        With several last operators: the answer of the only one that ran, or a dict of the answers by id.

        Raises:
            AnswerError: The answer does not fit the type; or a nested workflow was rejected, and the last operator did
                not run.
        """
        ran = [tail for tail in self.tails if tail in self.messages]
        if len(ran) > 1:
            return cast("T", {tail: self[tail] for tail in ran})
        if ran:
            return cast("T", self[ran[0]])
        [tail, *others] = self.tails
        if self.rejected and not (self.message.scratchpad or self.message.outputs):
            told = "see result.faults, and result[…] for the answers of the operators that ran"
            raise AnswerError(f"{tail!r} did not run, because the run was rejected: {self.evaluation}; {told}")
        return cast("T", own(self.message.value) if others else _value(self.steps[tail], tail, self.message))

    @overload
    def __getitem__(self, of: Step[U]) -> U: ...
    @overload
    def __getitem__(self, of: str | AwelNode) -> Any: ...
    @overload
    def __getitem__(self, of: Streaming) -> str: ...
    @overload
    def __getitem__(self, of: Callable[..., Awaitable[U]]) -> U: ...
    @overload
    def __getitem__(self, of: Callable[..., U]) -> U: ...
    def __getitem__(self, of: Any) -> Any:
        """Return the answer of an operator, given as an object or an id, as an instance of its type.

        Raises:
            InputError: The operator is not in the workflow, or did not run.
            AnswerError: The answer does not fit the type.
        """
        key = self._id_of(of)
        if key not in self.messages:
            raise InputError(f"operator {key!r} has no answer: it did not run, or its message is not kept")
        return _value(self.steps[key], key, self.messages[key])

    def __contains__(self, of: object) -> bool:
        """Return True if an operator, given as an object or an id, has an answer."""
        return self._id_of(of) in self.messages

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the answers that the operators gave instead of the operators."""
        steps = {key: _Answered(key, partial(self.__getitem__, key)) for key in self.steps}
        if not any(tail in self.messages for tail in self.tails):
            [tail] = self.tails[:1]
            steps[tail] = _Answered(tail, lambda: self.output)
        return Result, (self.message, dict(self.messages), steps, self.tails, self.rounds, self.run_id)

    def __repr__(self) -> str:
        return f"<Result of run {self.run_id!r}: {status_text(self.status)}, rounds: {self.rounds}, {self.text!r:.80}>"

    def _repr_html_(self) -> str:
        """Return the run's message as HTML, for notebooks."""
        return message_html(self.message)

    @property
    def text(self) -> str:
        """The text of the run's message."""
        return self.message.scratchpad

    @property
    def scratchpad(self) -> str:
        """The same as `text`, under its name in a message."""
        return self.message.scratchpad

    @property
    def outputs(self) -> Mapping[str, Any]:
        """The named outputs of the run's message."""
        return self.message.outputs

    @property
    def accepted(self) -> bool:
        """True if no evaluator rejected the result; also without an evaluator."""
        return self.message.accepted

    @property
    def rejected(self) -> bool:
        """True if an evaluator rejected the result in all rounds; `evaluation` has the reason."""
        return self.message.rejected

    @property
    def faults(self) -> tuple[Fault, ...]:
        """The faults that the evaluator found; empty if it accepted the result or named none."""
        return self.message.faults

    @property
    def status(self) -> WorkflowStatus:
        """The verdict, under its name in Chat2Graph; SUCCESS without an evaluator."""
        return self.message.status

    @property
    def evaluation(self) -> str:
        """The reason for the verdict."""
        return self.message.evaluation

    @property
    def lesson(self) -> str:
        """The evaluator's last lesson."""
        return self.message.lesson

    @property
    def usage(self) -> Usage:
        """Usage of the run's model calls."""
        return self.message.usage

    @property
    def cost(self) -> float | None:
        """Cost in US dollars; None if a price is unknown, which `usage.cost` counts as 0.0."""
        return self.usage.known_cost

    def _id_of(self, of: Any) -> str:
        get_id: Callable[[], str] | None = getattr(of, "get_id", None)
        key: str = of if isinstance(of, str) else get_id() if get_id is not None else self._id_of_function(of)
        if key not in self.steps:
            if (outer := key.partition("/")[0]) in self.steps:
                raise InputError(
                    f"the result has no answers of the operators inside {outer!r}: read that of {key!r} from its event "
                    f"OperatorFinished, or return it from the last operator inside"
                )
            hint = did_you_mean(key, self.steps)
            raise InputError(f"no operator has the id {key!r}{hint}; the workflow has: {shorten(list(self.steps))}")
        return key

    def _id_of_function(self, of: Any) -> str:
        for key, step in self.steps.items():
            if step.added is of or getattr(step.added, "function", None) == of:
                return key
        raise InputError(f"result[…] expects an operator or its id, got {of!r}")


class _Answered(BaseOperator[Any]):
    """Operator in an unpickled result: its id, and the answer that it gave.

    Args:
        read: Function that returns its answer.
    """

    def __init__(self, operator_id: str, read: Callable[[], Any]) -> None:
        self._id = operator_id
        self._answer, self._fault = None, ""
        try:
            self._answer = read()
        except (AnswerError, InputError) as error:
            self._fault = str(error)

    def get_id(self) -> str:
        """Return the operator's id."""
        return self._id

    def read_output(self, message: WorkflowMessage) -> Any:
        """Return the answer, or raise ValueError if it did not fit the operator's type."""
        if self._fault:
            raise ValueError(self._fault)
        return self._answer


def _value(step: BaseOperator, key: str, message: WorkflowMessage) -> Any:
    """Return the answer in an operator's message, or raise AnswerError if it does not fit the operator's type."""
    try:
        return step.read_output(message)
    except ValueError as error:
        raise AnswerError(f"the answer of operator {key!r} does not fit its type: {error}", operator_id=key) from error
