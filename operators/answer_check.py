"""Checks of an operator's own answers: functions, and criteria in words."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, cast

from operad.runtime.events import AnswerRejected, current_scope, emit
from operad.runtime.reasoning.exchange import Exchange, Rejection, UnfitError, until_fit
from operad.runtime.reasoning.reasoner import Reasoner, ask_until_read
from operad.runtime.reasoning.task import Task
from operad.runtime.values.arguments import short_repr
from operad.runtime.values.errors import AnswerError, FaultError, InputError
from operad.runtime.values.fault import Fault
from operad.runtime.values.function_threads import in_function_thread
from operad.runtime.values.message import WorkflowMessage
from operad.runtime.values.schema import AnswerSchema, object_schema
from operad.runtime.values.text import fence, shortened

Check = str | Callable[..., object]
"""Check of an answer: a criterion in words, or a function that is given the answer."""

MAX_CHECK_REPAIRS = 2
"""Maximum number of further answers after one that does not pass its check."""

_LONGEST_ANSWER = 200
"""Maximum number of characters of an answer in an error."""

_VERDICT = AnswerSchema.unchecked(
    object_schema(
        {
            "wrong": {"type": "string", "description": "The text of the answer that breaks the criterion, quoted."},
            "right": {"type": "string", "description": "What would be right. Empty if the answer meets the criterion."},
            "meets": {"type": "boolean", "description": "True if the answer meets the criterion."},
        }
    )
)


def as_check(check: Any) -> Any:
    """Return a check as it is given.

    Raises:
        ValueError: The check is neither words nor a function with one parameter.
    """
    if check is None or (isinstance(check, str) and check.strip()):
        return check
    if isinstance(check, str):
        raise ValueError("the check is empty: say what the answer must be like, or leave it out")
    if not callable(check) or isinstance(check, type):
        raise ValueError(
            f"expected a criterion in words, or a function that is given the answer; got {short_repr(check)}"
        )
    try:
        inspect.signature(check).bind(None)
    except TypeError:
        raise ValueError(f"{_name(check)} must take one argument: the answer") from None
    except ValueError:  # a function without a known signature
        pass
    return check


async def ask_until_checked(
    ask: Callable[[Task], Awaitable[WorkflowMessage]],
    task: Task,
    thinker: Reasoner,
    *,
    check: Check,
    answer_in: Callable[[WorkflowMessage], object],
    operator_id: str,
) -> WorkflowMessage:
    """Ask until an answer passes its check; after a fault, in the same conversation.

    Args:
        ask: Function that returns the message with the answer to a task.
        thinker: Reasoner that decides on criteria in words.
        answer_in: Function that returns the answer in a message, as a function is given it.

    Raises:
        AnswerError: None of ``MAX_CHECK_REPAIRS + 1`` answers passes the check.
        FaultError: A function blames another operator.
        InputError: A function returns something else than a fault, or the model is too small for a criterion in words.
    """
    if isinstance(check, str) and not getattr(thinker, "writes_prose", True):
        raise InputError(
            f"operator {operator_id!r}: the embedded model cannot decide whether an answer meets a criterion in words; "
            "name an endpoint's model, or write the check as a function"
        )
    task, message, repairs = task.model_copy(update={"goes_on": True}), WorkflowMessage(), 0

    async def attempt(text: str) -> WorkflowMessage:
        nonlocal task, message, repairs
        if text:
            repairs += 1
            emit(AnswerRejected(error=text, repair=repairs))
        message = await ask(task)
        exchange = _exchange()
        if isinstance(check, str):
            fault = await _fault_by_words(check, task, message, exchange, thinker, operator_id)
        else:
            fault = await _fault_by_function(check, answer_in(message), operator_id)
        if fault is None:
            _forget_exchange()
            return message
        rejection = Rejection(answer=message, faults=(fault,), exchange=exchange)
        task = task.model_copy(update={"rejection": rejection, "followup": ""})
        raise UnfitError(_text_of(fault))

    try:
        return await until_fit(attempt, MAX_CHECK_REPAIRS + 1)
    except UnfitError as unfit:
        raise AnswerError(
            f"operator {operator_id!r}: none of {MAX_CHECK_REPAIRS + 1} answers passed its check; the last was "
            f"{shortened(message.scratchpad, _LONGEST_ANSWER)!r}: {unfit}",
            operator_id=operator_id,
        ) from None


def _exchange() -> Exchange | None:
    """Return the conversation that led to the operator's last answer; None outside of a run, or if none is kept."""
    scope = current_scope()
    return scope.trace.exchange if scope is not None and scope.trace is not None else None


def _forget_exchange() -> None:
    """Forget the conversation if the answer cannot be rejected any more."""
    scope = current_scope()
    if scope is not None and scope.trace is not None and not scope.run.repeats:
        scope.trace.exchange = None


async def _fault_by_function(check: Callable[..., object], answer: object, operator_id: str) -> Fault | None:
    """Return the fault that a function finds in an answer; None if it finds none."""
    try:
        if inspect.iscoroutinefunction(check):
            found: object = await check(answer)
        else:
            found = await in_function_thread(f"the check of operator {operator_id!r}", check, answer)
            found = await found if inspect.isawaitable(found) else found
    except FaultError as error:
        if any(blamed != operator_id for blamed in error.blame):
            raise
        lesson = error.lesson if error.lesson and error.lesson != str(error) else ""
        return Fault(operator=operator_id, lesson="\n".join(filter(None, (str(error), lesson))))
    except ValueError as error:
        return Fault(operator=operator_id, lesson=str(error) or f"{type(error).__name__} in {_name(check)}")
    if found is None or found is True or found == "":
        return None
    if isinstance(found, Fault):
        return found.model_copy(update={"operator": operator_id})
    if isinstance(found, str):
        return Fault(operator=operator_id, lesson=found)
    if found is False:
        return Fault(operator=operator_id, lesson=f"The answer does not pass the check {_name(check)}.")
    raise InputError(
        f"operator {operator_id!r}: its check {_name(check)} returned {short_repr(found)}; expected None or True if the "
        "answer is right, otherwise the fault as text"
    )


async def _fault_by_words(
    criterion: str,
    task: Task,
    message: WorkflowMessage,
    exchange: Exchange | None,
    thinker: Reasoner,
    operator_id: str,
) -> Fault | None:
    """Ask whether an answer meets a criterion, in a copy of its conversation, and return the fault; None without one."""
    question = (
        f"Check the answer against this criterion:\n{fence(criterion)}\n\nDecide whether the answer meets the "
        "criterion. If it does not, quote the wrong text of the answer, and say what would be right. Judge the criterion "
        "alone: other weaknesses of the answer do not count."
    )
    update: dict[str, Any] = {"output_schema": _VERDICT, "lesson": "", "goes_on": False}
    if exchange is not None:
        rejection = Rejection(answer=message, exchange=exchange)
        update |= {"rejection": rejection, "followup": question, "aside": True}
    else:
        told = f"{task.instruction}\n\nThis has been done. The answer:\n{fence(message.scratchpad)}\n\n{question}"
        update |= {"instruction": told, "tools": (), "actions": (), "rejection": None, "examples": ()}
    verdict = await ask_until_read(
        thinker,
        task.model_copy(update=update),
        _verdict_in,
        who=f"the check of operator {operator_id!r}",
        wanted="decision",
        operator_id=operator_id,
    )
    if verdict["meets"]:
        return None
    lesson = f"The answer must meet this criterion: {criterion}"
    return Fault(operator=operator_id, wrong=str(verdict["wrong"]), right=str(verdict["right"]), lesson=lesson)


def _verdict_in(text: str) -> dict[str, Any]:
    return cast("dict[str, Any]", _VERDICT.read(text))


def _text_of(fault: Fault) -> str:
    """Return a fault in one line, for an event or an error."""
    named = [f"{name}: {text}" for name, text in (("wrong", fault.wrong), ("right", fault.right)) if text]
    return "; ".join(filter(None, (fault.lesson, *named)))


def _name(check: Any) -> str:
    return str(getattr(check, "__name__", None) or type(check).__name__)
