"""Reasoners: whoever takes a task and answers it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from pydantic import JsonValue

from operad.runtime.events import TaskBuilt, emit, heard
from operad.runtime.models.model import Model, resolve_model
from operad.runtime.reasoning.conversation import Conversation, Form
from operad.runtime.reasoning.prompt import fence, render
from operad.runtime.reasoning.task import Task
from operad.runtime.values.errors import AnswerError, InputError
from operad.runtime.values.fingerprint import name_of
from operad.runtime.values.output import shown
from operad.runtime.values.schema import SchemaMismatch, is_json_schema, parse_output_schema

T = TypeVar("T")

THINKER = """\
You lead the work on the task below; an actor, who sees the task too, does it. In each turn give the actor one \
instruction: the next step, concrete and small. Look at what came of it before you give the next. When the actor has \
all that the answer needs, set `finished`, and say in `instruction` what the answer must heed."""

STEP = {
    "type": "object",
    "properties": {"instruction": {"type": "string"}, "finished": {"type": "boolean"}},
    "required": ["instruction", "finished"],
    "additionalProperties": False,
}
"""What a thinker says in a turn, as JSON Schema."""


MAX_TRIES = 3
"""How often at most an answer that can be read is asked for."""


class Reasoner(Protocol):
    """Anything that takes a task and answers it.

        class Shout:
            async def infer(self, task: Task) -> str:
                return task.job.goal.upper()

        loud: Reasoner = Shout()
        print(Workflow(Operator("Say it.")).run("hello", loud).text)  # HELLO

    One reasoner serves any number of operators at once, so a call keeps its state to itself.
    """

    async def infer(self, task: Task) -> str:
        """The answer: words, or JSON where the task's `output_schema` asks for it."""
        ...


async def ask(reasoner: Reasoner, task: Task) -> str:
    """The reasoner's answer; whoever watches the run is shown the task first."""
    if heard():
        emit(TaskBuilt(task=task.shown()))
    return await reasoner.infer(task)


async def ask_until_read(
    reasoner: Reasoner, task: Task, read: Callable[[str], T], *, who: str, wanted: str, operator_id: str = ""
) -> T:
    """Ask until an answer can be read; what was wrong with those that could not is added to the lesson.

    Args:
        reasoner: The reasoner.
        task: The task.
        read: What reads an answer, and raises ValueError or `SchemaMismatch` for one that it cannot.
        who: Who asks, for the error.
        wanted: What is asked for, for the error.
        operator_id: The operator that asks.

    Raises:
        AnswerError: None of `MAX_TRIES` answers can be read.
    """
    lessons = [task.lesson] if task.lesson else []
    answer, fault = "", ""
    for _ in range(MAX_TRIES):
        answer = await ask(reasoner, task.model_copy(update={"lesson": "\n".join(lessons)}))
        try:
            return read(answer)
        except (ValueError, SchemaMismatch) as error:
            fault = str(error)
            lessons.append(f"Your last answer could not be read: {fault}")
    raise AnswerError(
        f"{who} got no {wanted} in {MAX_TRIES} tries; the last answer was {answer[:200]!r}: {fault}",
        operator_id=operator_id,
    )


def reasoner_of(model: Model | Reasoner | str | None) -> Reasoner:
    """A reasoner from what a user says of a model.

    Args:
        model: A model or its name, for a reasoner with one model; None for the model that the environment names; a
            reasoner, which is returned as it is.

    Raises:
        InputError: It is none of these.
    """
    if model is None or isinstance(model, str | Model):
        return MonoModelReasoner(model)
    if isinstance(model, type) or not callable(getattr(model, "infer", None)):
        raise InputError(f"model: expected a model's name, a Model or a reasoner; got {shown(model)}")
    return model


class MonoModelReasoner:
    """One model thinks, calls tools and answers.

        reasoner = MonoModelReasoner("gpt-5")  # at the endpoint that the environment names
        reasoner = MonoModelReasoner(Model(name="llama3.2", base_url="http://localhost:11434/v1"))

    Args:
        model: The model, or its name: the endpoint and the key come from the environment then. None for the
            model that the environment names. The environment is read at the first use.
        max_rounds: How many turns a task may take at most: those with tools, and that of the answer.
        max_repairs: How often an answer that does not fit its schema is asked for again.

    Raises:
        InputError: Fewer than one round, or fewer than no repairs.
    """

    def __init__(self, model: Model | str | None = None, *, max_rounds: int = 8, max_repairs: int = 2) -> None:
        _at_least(1, max_rounds=max_rounds)
        _at_least(0, max_repairs=max_repairs)
        self._model = _Chosen(model)
        self._max_rounds = max_rounds
        self._max_repairs = max_repairs

    @property
    def model(self) -> Model:
        """Who is asked.

        Raises:
            InputError: No model is configured.
        """
        return self._model.get()

    def check_model(self) -> None:
        """Raises InputError if no model is configured."""
        _ = self.model

    def describe(self) -> str:
        """Who is asked and where, in one line without secrets."""
        return self.model.describe()

    def fingerprint(self) -> dict[str, JsonValue]:
        """What makes two of these answer alike."""
        return {
            "type": name_of(type(self)),
            "max_rounds": self._max_rounds,
            "max_repairs": self._max_repairs,
            "model": self._model.fingerprint(),
        }

    @property
    def writes_prose(self) -> bool:
        """Whether its free text can be used; a very small model's cannot."""
        return self.model.prose

    def with_model(self, model: Model) -> MonoModelReasoner:
        """The same with another model."""
        return MonoModelReasoner(model, max_rounds=self._max_rounds, max_repairs=self._max_repairs)

    async def infer(self, task: Task) -> str:
        """The model's answer, with the tools' results behind it.

        Raises:
            ModelError: The model's endpoint fails.
            AnswerError: No answer fits the task's `output_schema`, or the model says nothing.
            InvalidError: The `output_schema` is a broken one.
        """
        form = _form(task)
        conversation = Conversation(self.model, await _opening(task, self.model), task.tools)
        draft = await conversation.work(self._max_rounds)
        return await conversation.answer(form, draft, self._max_repairs)


class DualModelReasoner:
    """A thinker instructs, an actor acts (Chat2Graph's dual-model reasoner).

        reasoner = DualModelReasoner(actor="gpt-5-mini", thinker="gpt-5")
        workflow = Workflow(Operator("Check each claim.", tools=[search]), model=reasoner)

    The thinker gives one instruction per turn, the actor carries it out with the task's tools, and
    the thinker sees the result, until it says that the work is finished. Then the actor answers.

    Args:
        actor: Who acts: a model or its name, as for `MonoModelReasoner`; None for the model that the environment names.
        thinker: Who thinks, likewise; None for the actor's model.
        max_rounds: How many instructions a task may take at most.
        max_tool_rounds: How many turns the actor may take for each.
        max_repairs: How often an answer that does not fit its schema is asked for again.

    Raises:
        InputError: Fewer than one round of either kind, or fewer than no repairs.
    """

    def __init__(
        self,
        actor: Model | str | None = None,
        thinker: Model | str | None = None,
        *,
        max_rounds: int = 8,
        max_tool_rounds: int = 4,
        max_repairs: int = 2,
    ) -> None:
        _at_least(1, max_rounds=max_rounds, max_tool_rounds=max_tool_rounds)
        _at_least(0, max_repairs=max_repairs)
        self._actor = _Chosen(actor)
        self._thinker = _Chosen(thinker) if thinker else self._actor
        self._max_rounds = max_rounds
        self._max_tool_rounds = max_tool_rounds
        self._max_repairs = max_repairs

    @property
    def actor(self) -> Model:
        """Who acts."""
        return self._actor.get()

    @property
    def thinker(self) -> Model:
        """Who thinks."""
        return self._thinker.get()

    def check_model(self) -> None:
        """Raises InputError if no model is configured."""
        _ = self.actor, self.thinker

    def describe(self) -> str:
        """Who is asked and where, in one line without secrets."""
        if self.actor == self.thinker:
            return self.actor.describe()
        return f"{self.thinker.describe()}, thinks; {self.actor.describe()}, acts"

    def fingerprint(self) -> dict[str, JsonValue]:
        """What makes two of these answer alike."""
        return {
            "type": name_of(type(self)),
            "max_rounds": self._max_rounds,
            "max_tool_rounds": self._max_tool_rounds,
            "max_repairs": self._max_repairs,
            "actor": self._actor.fingerprint(),
            "thinker": self._thinker.fingerprint(),
        }

    @property
    def writes_prose(self) -> bool:
        """Whether its free text can be used; a very small model's cannot."""
        return self.actor.prose

    def with_model(self, model: Model) -> DualModelReasoner:
        """The same with another model, which both thinks and acts."""
        return DualModelReasoner(
            model,
            max_rounds=self._max_rounds,
            max_tool_rounds=self._max_tool_rounds,
            max_repairs=self._max_repairs,
        )

    async def infer(self, task: Task) -> str:
        """The actor's answer, after the thinker's instructions.

        Raises:
            ModelError: A model's endpoint fails.
            AnswerError: No answer fits the task's `output_schema`, no step the thinker's form, or the
                actor says nothing.
            InvalidError: The `output_schema` is a broken one.
        """
        form = _form(task)
        actor = Conversation(self.actor, await _opening(task, self.actor), task.tools)
        thinker = Conversation(self.thinker, _led(await _opening(task, self.thinker)))
        for _ in range(self._max_rounds):
            step: dict[str, Any] = json.loads(await thinker.answer(Form(STEP), max_repairs=self._max_repairs))
            if step["finished"]:
                actor.say(f"The work is done; give the answer to the task now. {step['instruction']}".strip())
                break
            actor.say(f"Do this now, as a step towards the answer: {step['instruction']}")
            result = await actor.answer(None, await actor.work(self._max_tool_rounds))
            thinker.say(f"What came of it:\n{fence(result)}")
        else:
            actor.say("No more steps can be taken; give the answer to the task now.")
        return await actor.answer(form, max_repairs=self._max_repairs)


class _Chosen:
    """A model that was given, or the one that its name and the environment stand for when it is first asked for."""

    def __init__(self, model: Model | str | None) -> None:
        if not isinstance(model, Model | str | None):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"expected a model or its name, such as 'gpt-5'; got {shown(model)}")
        self._model = model
        self._choosing = threading.Lock()

    def get(self) -> Model:
        with self._choosing:
            if not isinstance(self._model, Model):
                self._model = resolve_model(self._model)
            return self._model

    def fingerprint(self) -> dict[str, JsonValue] | None:
        """That of the model; None where none is configured, and so none can have answered."""
        try:
            model = self.get()
        except InputError:
            return None
        return model.fingerprint()


def _at_least(least: int, **given: int) -> None:
    for name, number in given.items():
        if number < least:
            raise InputError(f"{name} must be at least {least}, not {number}")


def _form(task: Task) -> Form | None:
    schema = parse_output_schema(task.output_schema)
    return None if schema is None else Form.of(schema)


async def _opening(task: Task, model: Model) -> list[dict[str, Any]]:
    """The rendered task. A JSON Schema is left out where the model is held to it from its first word."""
    free_to_begin = bool(task.tools) and model.tools == "native"
    held = model.structured and not free_to_begin and is_json_schema(task.output_schema)
    if not task.files:
        return render(task, show_schema=not held, vision=model.vision)
    return await asyncio.to_thread(render, task, show_schema=not held, vision=model.vision)  # they are read


def _led(opening: list[dict[str, Any]]) -> list[dict[str, Any]]:
    told = [f"The task:\n{message['content']}" for message in opening if message["role"] == "system"]
    rest = [message for message in opening if message["role"] != "system"]
    return [{"role": "system", "content": "\n\n".join([THINKER, *told])}, *rest]
