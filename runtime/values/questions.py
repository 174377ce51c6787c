"""The open questions of a run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from pydantic import JsonValue

from operad.runtime.values.base_errors import InvalidError, Issue
from operad.runtime.values.json_schema import ANSWER_BY, APPROVAL
from operad.runtime.values.near_names import did_you_mean
from operad.runtime.values.schema import AnswerSchema
from operad.runtime.values.value import Value


class Question(Value):
    """A question of a run to a person.

        async def main() -> None:
            run = Workflow(Operator("Delete the file.", tools=[delete])).start("Delete a.txt.")
            questions: Sequence[Question] = run.questions
            print([(question.id, question.text, question.schema_) for question in questions])
            await run.cancel()

        asyncio.run(main())

    Attributes:
        id: Id under which the question is answered: the path of the asking operator, with slashes; the ids of its
            second and later questions end in ``#2``, ``#3`` and so on.
        text: The question.
        schema_: JSON Schema of the answer; None for any answer.
    """

    id: str
    text: str
    schema_: dict[str, Any] | None = None

    @property
    def tool(self) -> str | None:
        """Name of the tool that is to be allowed; None for other questions."""
        return approved_call(self.schema_)[0]

    @property
    def arguments(self) -> Mapping[str, JsonValue]:
        """Arguments with which the tool is to be called; empty for other questions."""
        return approved_call(self.schema_)[1]

    @property
    def answer_by(self) -> Sequence[str]:
        """Names of the people who may answer; empty for anyone."""
        return people_in(self.schema_)


def people_in(schema: Mapping[str, Any] | None) -> Sequence[str]:
    """Return the names of the people who may answer a question; empty for anyone.

    Args:
        schema: JSON Schema of the answer.
    """
    names: Any = (schema or {}).get(ANSWER_BY)
    return [str(each) for each in cast("list[object]", names)] if isinstance(names, list) else []


def approved_call(schema: Mapping[str, Any] | None) -> tuple[str | None, Mapping[str, JsonValue]]:
    """Return the tool and the arguments of the call that a question asks to allow; None and none for other questions.

    Args:
        schema: JSON Schema of the answer.
    """
    call: Any = (schema or {}).get(APPROVAL)
    try:
        return str(call["tool"]), dict(call["arguments"])
    except (TypeError, KeyError, ValueError):  # no approval
        return None, {}


class Questions:
    """Open questions of a run.

    Attributes:
        asked: Questions by id, each with the future of its answer.
        allowed: Tools that a person has allowed for the rest of the run: their names and pins.
        by: Names of the persons who gave answers that no operator has read yet, by question id.
    """

    def __init__(self) -> None:
        self.allowed: set[tuple[str, str]] = set()
        self.asked: dict[str, tuple[Question, asyncio.Future[JsonValue]]] = {}
        self.by: dict[str, str] = {}

    def ask(self, question: Question) -> asyncio.Future[JsonValue]:
        """Open a question and return the future of its answer."""
        future: asyncio.Future[JsonValue] = asyncio.get_running_loop().create_future()
        self.asked[question.id] = question, future
        return future

    def withdraw(self, question_id: str) -> None:
        """Close a question, answered or not."""
        self.asked.pop(question_id, None)

    def open(self) -> Sequence[Question]:
        """Return the questions without an answer, in order of asking."""
        return [question for question, future in self.asked.values() if not future.done()]

    def waits(self) -> bool:
        """Return True if a question is open, and no operator is about to continue with an answer."""
        return bool(self.asked) and not any(future.done() for _, future in self.asked.values())

    def answer(self, answers: Mapping[str, JsonValue], by: str = "") -> None:
        """Answer questions. If one answer is invalid, none is accepted.

        Args:
            by: Name of the person; empty if it is not known.

        Raises:
            InvalidError: An answer does not fit the question's schema, or no open question has the id.
        """
        check_answers(answers, self.open())
        for question_id, value in answers.items():
            self.by[question_id] = by
            self.asked[question_id][1].set_result(value)


def check_answers(answers: Mapping[str, JsonValue], questions: Sequence[Question]) -> None:
    """Check answers, by question id, to open questions.

    Raises:
        InvalidError: An answer does not fit the question's schema, or no open question has the id.
    """
    by_id = {question.id: question for question in questions}
    issues: list[Issue] = []
    for question_id, value in answers.items():
        question = by_id.get(question_id)
        if question is None:
            hint, known = did_you_mean(question_id, by_id), ", ".join(by_id) or "none"
            told = f"there is no open question with this id{hint}; open: {known}"
            issues.append(Issue("unknown-question", told, question_id))
        elif question.schema_ is not None:
            form = AnswerSchema.unchecked(question.schema_)
            hint = _only_field_hint(form, value)
            issues += [Issue("wrong-answer", fault + hint, question_id) for fault in form.faults(value)]
    if issues:
        raise InvalidError("the answers", issues)


def _only_field_hint(form: AnswerSchema, value: JsonValue) -> str:
    """Return a hint if a value fits the only field of the object that is expected; otherwise an empty text."""
    objects = [{name: value} for name in (form.schema or {}).get("properties", ())]
    fits = len(objects) == 1 and not isinstance(value, dict) and not form.faults(objects[0])
    return f"; write {json.dumps(objects[0], ensure_ascii=False)}" if fits else ""
