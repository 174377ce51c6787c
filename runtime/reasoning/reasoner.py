"""Reasoners: they take a task and return its answer."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from pydantic import JsonValue

from operad.runtime.events import MaxTurnsReached, TaskBuilt, current_scope, emit
from operad.runtime.models.messages import Message
from operad.runtime.models.model import Model
from operad.runtime.models.resolve import resolve_model
from operad.runtime.reasoning.conversation import Conversation, Form
from operad.runtime.reasoning.evidence import prompt_budget
from operad.runtime.reasoning.exchange import UnfitError, rejection_text, until_fit
from operad.runtime.reasoning.prompt import MATERIAL_BUDGET, has_long_job, render
from operad.runtime.reasoning.task import Task
from operad.runtime.tools.tool import Tool
from operad.runtime.values.arguments import short_repr
from operad.runtime.values.errors import AnswerError, InputError, MaxTurnsError, PromptTooLongError
from operad.runtime.values.fingerprint import name_of
from operad.runtime.values.forks import ProcessLock
from operad.runtime.values.schema import AnswerSchema, SchemaMismatch, object_schema
from operad.runtime.values.text import fence

T = TypeVar("T")

_logger = logging.getLogger(__name__)

THINKER = """\
You direct the work on the task and the job below. An actor, who sees both too, does the work and writes the answer. In \
each turn, give the actor one `instruction`: the next step, concrete and small. You see its result before you give the \
next. When the actor has everything that the answer needs, set `finished` to true and say in `instruction` what the \
answer must take into account. The form of the answer, if one is given, applies to the actor's answer, not to your turns."""

STEP = AnswerSchema.unchecked(object_schema({"instruction": {"type": "string"}, "finished": {"type": "boolean"}}))
"""Form of a thinker's turn."""


MAX_TURNS = 50
"""Maximum number of turns for a task, unless the operator or the reasoner sets another."""

MAX_TRIES = 3
"""Maximum number of tries of `ask_until_read`."""


class Reasoner(Protocol):
    """Protocol of reasoners, which answer tasks.

        class Shout:
            async def infer(self, task: Task) -> str:
                return task.job.goal.upper()

        loud: Reasoner = Shout()
        print(Workflow(Operator("Say it.")).run("hello", loud).text)  # HELLO

    A reasoner serves any number of operators concurrently, so calls must not share state.
    """

    async def infer(self, task: Task) -> str:
        """Return the answer: text, or JSON if the task's `output_schema` asks for it."""
        ...


def own_or(own: Reasoner | None, reasoner: Reasoner) -> Reasoner:
    """Return an operator's own reasoner, or that of the run: without an own one, or if it is the sole one."""
    return reasoner if own is None or isinstance(reasoner, SoleReasoner) else own


async def ask(reasoner: Reasoner, task: Task) -> str:
    """Return the reasoner's answer to a task, after emitting a `TaskBuilt` event.

    Raises:
        InputError: The reasoner's `infer` is not async, or returns something else than text.
    """
    scope = current_scope()
    if scope is not None and scope.heard:
        emit(TaskBuilt(task=task.shown()))
    pending: Any = reasoner.infer(task)
    if not hasattr(pending, "__await__"):
        raise InputError(f"{type(reasoner).__name__}.infer must be async: write `async def infer(self, task)`")
    answer: Any = await pending
    if not isinstance(answer, str):
        raise InputError(
            f"{type(reasoner).__name__}.infer returned {short_repr(answer)}; expected text, or JSON as text"
        )
    return answer


async def ask_until_read(
    reasoner: Reasoner, task: Task, read: Callable[[str], T], *, who: str, wanted: str, operator_id: str = ""
) -> T:
    """Ask until an answer can be parsed, and return its value; faults of earlier answers are added to the lesson.

    The parser is also the task's `check`, so a reasoner that calls it is asked once.

    Args:
        read: Parser of an answer, which raises ValueError or `SchemaMismatch` for an unusable one.
        who: Name of the caller, for the error.
        wanted: Name of the requested value, for the error.

    Raises:
        AnswerError: None of `MAX_TRIES` answers can be parsed.
    """
    lessons = [task.lesson] if task.lesson else []
    answer = ""

    async def attempt(fault: str) -> T:
        nonlocal answer
        if fault:
            lessons.append(f"Your last answer could not be read: {fault}")
        answer = await ask(reasoner, task.model_copy(update={"lesson": "\n".join(lessons), "check": read}))
        try:
            return read(answer)
        except (ValueError, SchemaMismatch) as error:
            raise UnfitError(str(error)) from error

    try:
        return await until_fit(attempt, MAX_TRIES)
    except UnfitError as unfit:
        raise AnswerError(
            f"{who} got no {wanted} in {MAX_TRIES} tries; the last answer was {answer[:200]!r}: {unfit}",
            operator_id=operator_id,
        ) from None


def reasoner_of(model: Model | Reasoner | str | None) -> Reasoner:
    """Return a reasoner for a user's choice of model.

    Args:
        model: A model or its name, for a reasoner with one model; None for the model that the environment variables
            select; a reasoner, which is returned as it is.

    Raises:
        InputError: The value is of another type.
    """
    if model is None or isinstance(model, str | Model):
        return MonoModelReasoner(model)
    if isinstance(model, type) or not callable(getattr(model, "infer", None)):
        raise InputError(f"model: expected a model's name, a Model or a reasoner; got {short_repr(model)}")
    return model


class MonoModelReasoner:
    """Reasoner with one model, which reasons, calls tools and answers.

        reasoner = MonoModelReasoner("gpt-5.6")  # at the endpoint that the environment names
        reasoner = MonoModelReasoner(Model(name="llama3.2", base_url="http://localhost:11434/v1"))

    Args:
        model: The model, or its name; for a name, endpoint and key come from environment variables. None for the model
            that the environment variables select. They are read on first use.
        max_rounds: Maximum number of turns for a task, of which the last gives the answer; an operator may set another.
        max_repairs: Maximum number of further requests after an answer that does not fit its schema.

    Raises:
        InputError: `max_rounds` is below 1, or `max_repairs` below 0.
    """

    def __init__(self, model: Model | str | None = None, *, max_rounds: int = MAX_TURNS, max_repairs: int = 2) -> None:
        _at_least(1, max_rounds=max_rounds)
        _at_least(0, max_repairs=max_repairs)
        self._model = _ModelChoice(model)
        self._max_rounds = max_rounds
        self._max_repairs = max_repairs

    @property
    def model(self) -> Model:
        """Model of the reasoner.

        Raises:
            InputError: No model is configured.
        """
        return self._model.get()

    def check_model(self) -> None:
        """Check the model.

        Raises:
            InputError: No model is configured, or its file does not exist.
            MissingExtraError: A package that the model needs is not installed.
        """
        self.model.check()

    def describe(self) -> str:
        """Return the model and its endpoint in one line, without secrets."""
        return self.model.describe()

    def fingerprint(self) -> dict[str, JsonValue]:
        """Return the values that determine the answers."""
        return {
            "type": name_of(type(self)),
            "max_rounds": self._max_rounds,
            "max_repairs": self._max_repairs,
            "model": self._model.fingerprint(),
        }

    @property
    def writes_prose(self) -> bool:
        """True if free text of the model is usable; that of very small models is not."""
        return self.model.prose

    def with_model(self, model: Model) -> MonoModelReasoner:
        """Return the same reasoner with another model."""
        return MonoModelReasoner(model, max_rounds=self._max_rounds, max_repairs=self._max_repairs)

    async def infer(self, task: Task) -> str:
        """Return the model's answer, after its tool calls.

        Raises:
            ModelError: The model's endpoint fails.
            AnswerError: No answer fits the task's `output_schema` and `check`, or the answer is empty.
            MaxTurnsError: The model called tools in each turn.
        """
        *tries, last = _shorter_and_shorter(task)
        for each, share in tries:
            try:
                return await self._infer(each, share)
            except PromptTooLongError:
                _logger.warning("the prompt is too long for %s, which is asked again with less", self.model.name)
        return await self._infer(*last)

    async def _infer(self, task: Task, share: float) -> str:
        """Return the model's answer to a task; an evaluator's prompt takes a share of the model's window."""
        form = _form(task)
        chooses_tools = bool(task.tools) and (self.model.profile.tools == "native" or not self.model.profile.structured)
        # Without tools, the conversation gives the model a JSON Schema, or its endpoint enforces it.
        show_schema = chooses_tools or not task.output_schema.is_json_schema
        conversation = await _conversation(task, self.model, show_schema=show_schema, share=share)
        draft = None if task.aside else await conversation.work(task.max_turns or self._max_rounds)
        answer = await conversation.answer(form, draft, self._max_repairs)
        _keep(conversation, task)
        return answer


class SoleReasoner(MonoModelReasoner):
    """Reasoner that operators with a model of their own use, too."""


class DualModelReasoner:
    """Reasoner with two models: a thinker instructs, an actor acts (Chat2Graph's dual-model reasoner).

        reasoner = DualModelReasoner(actor="gpt-5.6-luna", thinker="gpt-5.6")
        workflow = Workflow(Operator("Check each claim.", tools=[search]), model=reasoner)

    In each turn, the thinker gives one instruction, the actor carries it out with the task's tools, and the thinker
    receives the result. When the thinker reports that the work is finished, the actor answers.

    Args:
        actor: Acting model or its name, as for `MonoModelReasoner`; None for the model that the environment variables
            select.
        thinker: Thinking model or its name; None for the actor's model.
        max_rounds: Maximum number of instructions for a task; an operator may set another by its `max_turns`.
        max_tool_rounds: Maximum number of the actor's turns for each instruction.
        max_repairs: Maximum number of further requests after an answer that does not fit its schema.

    Raises:
        InputError: `max_rounds` or `max_tool_rounds` is below 1, or `max_repairs` below 0.
    """

    def __init__(
        self,
        actor: Model | str | None = None,
        thinker: Model | str | None = None,
        *,
        max_rounds: int = MAX_TURNS,
        max_tool_rounds: int = MAX_TURNS,
        max_repairs: int = 2,
    ) -> None:
        _at_least(1, max_rounds=max_rounds, max_tool_rounds=max_tool_rounds)
        _at_least(0, max_repairs=max_repairs)
        self._actor = _ModelChoice(actor)
        self._thinker = _ModelChoice(thinker) if thinker else self._actor
        self._max_rounds = max_rounds
        self._max_tool_rounds = max_tool_rounds
        self._max_repairs = max_repairs

    @property
    def actor(self) -> Model:
        """Acting model."""
        return self._actor.get()

    @property
    def thinker(self) -> Model:
        """Thinking model."""
        return self._thinker.get()

    def check_model(self) -> None:
        """Check both models; see `MonoModelReasoner.check_model`."""
        self.actor.check()
        self.thinker.check()

    def describe(self) -> str:
        """Return the models and their endpoints in one line, without secrets."""
        if self.actor == self.thinker:
            return self.actor.describe()
        return f"{self.thinker.describe()}, thinks; {self.actor.describe()}, acts"

    def fingerprint(self) -> dict[str, JsonValue]:
        """Return the values that determine the answers."""
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
        """True if free text of the actor is usable; that of very small models is not."""
        return self.actor.prose

    def with_model(self, model: Model) -> DualModelReasoner:
        """Return the same reasoner with another model, which both thinks and acts."""
        return DualModelReasoner(
            model,
            max_rounds=self._max_rounds,
            max_tool_rounds=self._max_tool_rounds,
            max_repairs=self._max_repairs,
        )

    async def infer(self, task: Task) -> str:
        """Return the actor's answer, after the thinker's instructions.

        Raises:
            ModelError: A model's endpoint fails.
            AnswerError: No answer fits the task's `output_schema` and `check`, no turn of the thinker fits its schema,
                or the actor's answer is empty.
            MaxTurnsError: The thinker gave an instruction in each turn, or the actor called tools in each turn of one.
        """
        # The actor receives a JSON Schema when it is asked for the answer.
        actor = await _conversation(task, self.actor, show_schema=not task.output_schema.is_json_schema)
        if not task.aside:
            await self._direct(actor, task)
        answer = await actor.answer(_form(task), max_repairs=self._max_repairs)
        _keep(actor, task)
        return answer

    async def _direct(self, actor: Conversation, task: Task) -> None:
        """Let the thinker instruct the actor until the work is finished."""
        max_turns = task.max_turns or self._max_rounds
        opening = await _opening_messages(task, self.thinker, show_schema=True)
        thinker = Conversation(self.thinker, _thinker_opening(opening, task.tools), settings=task.settings)
        for _ in range(max_turns):
            step: dict[str, Any] = json.loads(await thinker.answer(Form(STEP), max_repairs=self._max_repairs))
            if step["finished"]:
                actor.say(
                    f"## Answer\nThe steps are done. Give the answer to the job now. {step['instruction']}".strip()
                )
                break
            actor.say(f"## Step\nDo only this step, and report its result in plain text: {step['instruction']}")
            result = await actor.answer(None, await actor.work(self._max_tool_rounds))
            thinker.say(f"The result:\n{fence(result)}")
        else:
            emit(MaxTurnsReached(model=self.thinker.name, turns=max_turns, tool_calls={}))
            raise MaxTurnsError(
                f"{self.thinker.name} gave an instruction in all of its {max_turns} turns, and never said that the work is "
                "finished; give it more: Operator(max_turns=…), or `max_turns` of the operator in YAML",
                max_turns,
                {},
            )


class _ModelChoice:
    """A given model, or the model that a name and the environment variables select on first use."""

    def __init__(self, model: Model | str | None) -> None:
        if not isinstance(model, Model | str | None):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"expected a model or its name, such as 'gpt-5.6'; got {short_repr(model)}")
        self._model = model
        self._choosing = ProcessLock()

    def get(self) -> Model:
        with self._choosing:
            if not isinstance(self._model, Model):
                self._model = resolve_model(self._model)
            return self._model

    def fingerprint(self) -> dict[str, JsonValue] | None:
        """Return the fingerprint of the model; None if no model is configured."""
        try:
            model = self.get()
        except InputError:
            return None
        return model.fingerprint()


def _at_least(minimum: int, **numbers: int) -> None:
    for name, number in numbers.items():
        if number < minimum:
            raise InputError(f"{name} must be at least {minimum}, not {number}")


def _form(task: Task) -> Form | None:
    return None if task.output_schema.schema is None else Form(task.output_schema, task.check)


def _shorter_and_shorter(task: Task) -> list[tuple[Task, float]]:
    """Return a task, and what is asked instead if its prompt is too long, each with the share of the window for an evaluator.

    A conversation that goes on begins afresh; an evaluator, whose model's window may be unknown, is shown less.
    """
    rejection = task.rejection
    tries = [(task, 1.0)]
    if rejection is not None and rejection.exchange is not None and not task.aside:
        afresh = rejection.model_copy(update={"exchange": None})
        tries.append((task.model_copy(update={"rejection": afresh, "followup": ""}), 1.0))
    last = tries[-1][0]
    return [*tries, (last, 0.5), (last, 0.25)] if task.transcript else tries


async def _conversation(task: Task, model: Model, *, show_schema: bool, share: float = 1.0) -> Conversation:
    """Return a conversation about a task: a new one or, after a rejection, the one that led to the rejected answer."""
    rejection = task.rejection
    # Vendors put a form that they enforce before the prompt, so that an evaluator would read a long job anew at full price.
    enforces = not (task.transcript and has_long_job(task))
    if rejection is None or rejection.exchange is None:
        opening = await _opening_messages(task, model, show_schema=show_schema, share=share)
        return Conversation(model, opening, task.tools, task.settings, enforces=enforces)
    exchange = rejection.exchange
    conversation = Conversation(
        model, exchange.messages, task.tools, task.settings, exchange.results, enforces=enforces
    )
    conversation.say(task.followup or rejection_text(rejection.faults))
    return conversation


def _keep(conversation: Conversation, task: Task) -> None:
    """Keep a conversation that has led to an answer, if the answer may be rejected."""
    scope = current_scope()
    if scope is not None and (scope.run.repeats or task.goes_on) and not task.aside:
        scope.traced().exchange = conversation.exchange


async def _opening_messages(task: Task, model: Model, *, show_schema: bool, share: float = 1.0) -> list[Message]:
    """Return the rendered task; its files are read in a thread."""
    budget = int(share * prompt_budget(model.profile.context)) if task.transcript else MATERIAL_BUDGET
    rendered = partial(render, task, show_schema=show_schema, budget=budget, takes=model.profile.takes)
    return await asyncio.to_thread(rendered) if task.files else rendered()


def _thinker_opening(opening: Sequence[Message], tools: Sequence[Tool]) -> list[Message]:
    """Return the opening of the thinker: the rendered task, with its role and the actor's tools in the system message."""
    lines = [f"- {tool.name}: {' '.join(tool.description.strip().splitlines()[:1])}" for tool in tools]
    names = "\n".join(lines)
    role = f"{THINKER}\n\nThe actor's tools:\n{names}" if tools else THINKER
    task_instructions = [f"The task:\n{message.text}" for message in opening if message.role == "system"]
    rest = [message for message in opening if message.role != "system"]
    return [Message.system("\n\n".join([role, *task_instructions])), *rest]
