"""Answers of models to the stages of a design, read with forgiveness where one reading exists.

Words in place of an answer, such as a refusal, are kept and shown to the user.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from operad.flows.formats.shapes import each_of, fields_of
from operad.runtime.reasoning.reasoner import Reasoner, ask
from operad.runtime.reasoning.task import Task
from operad.runtime.values.answer_json import candidates
from operad.runtime.values.errors import RequestError

SAID = "said"
"""Key of the words of a model that answered nothing else."""

LONGEST_SAID = 2_000
"""Maximum number of characters of a model's words."""


async def ask_object(reasoner: Reasoner, task: Task, keys: Sequence[str]) -> dict[str, Any]:
    """Return the object that a model answers, whatever its fields hold; ``{"said": …}`` if it answers in words.

    Args:
        reasoner: The reasoner.
        task: The task, with the schema that a model is asked for.
        keys: Keys of which the object has at least one, the most important first.

    Raises:
        AnswerError: The answer was cut off.
        ModelError: The endpoint failed.
    """
    read: Callable[[str], dict[str, Any]] = lambda text: read_object(text, keys)  # noqa: E731 - it is passed on
    try:
        return read(await ask(reasoner, task.model_copy(update={"check": read})))
    except RequestError as error:
        if not error.refusal:
            raise
        return {SAID: error.refusal}


def read_object(text: str, keys: Sequence[str]) -> dict[str, Any]:
    """Return the first object of an answer that has one of the keys; ``{"said": text}`` if there is none.

    An object inside of another is read with the fields around it, and a list of objects as the value of the first key.
    """
    for value in candidates(text, repair=True):
        fields = fields_of(value)
        inner = next((each for each in map(fields_of, fields.values()) if keys[0] in each), dict[str, Any]())
        if not {*keys, SAID}.isdisjoint({**fields, **inner}):
            return {**fields, **inner}
        if each_of(value):
            return {keys[0]: value}
    return {SAID: text.strip()[:LONGEST_SAID]}


def words_of(answer: dict[str, Any]) -> str:
    """Return the words in place of an answer, in one line; empty if there is an answer."""
    return " ".join(str(answer[SAID]).split()) or "nothing" if SAID in answer else ""
