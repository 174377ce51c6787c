"""Conversation with a model: rounds of tool calls, then an answer in the requested form."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from pydantic import TypeAdapter

from operad.runtime.events import (
    AnswerRejected,
    ConversationShortened,
    MaxTurnsReached,
    ToolCalled,
    ToolReturned,
    emit,
)
from operad.runtime.events.interrupts import in_tool_call, is_cancelled, tool_call_of
from operad.runtime.events.journal import numbered, part_of_work
from operad.runtime.events.run_context import lacks_deps
from operad.runtime.models.messages import Blob, Message, Text, ToolCall, ToolResult
from operad.runtime.models.model import Model
from operad.runtime.models.settings import NO_SETTINGS, ModelSettings
from operad.runtime.models.turn import Completion, with_new_ids
from operad.runtime.reasoning.exchange import Exchange, UnfitError, until_fit
from operad.runtime.reasoning.shown_files import MAX_ATTACHED
from operad.runtime.reasoning.tool_results import MAX_RESULT, NO_RESULTS, READ_MORE, ToolResults
from operad.runtime.tools.tool import Tool
from operad.runtime.values.answer_json import without_half_escapes
from operad.runtime.values.blob import Blobs
from operad.runtime.values.errors import (
    AnswerError,
    MaxTurnsError,
    OperadError,
    PromptTooLongError,
    ToolError,
    describe,
    did_you_mean,
    internal_text,
)
from operad.runtime.values.file import MAX_IMAGE_BYTES, media_type_of
from operad.runtime.values.message import new_id
from operad.runtime.values.model_text import told
from operad.runtime.values.schema import AnswerSchema, Schema, SchemaMismatch, object_schema
from operad.runtime.values.text import fence, shortened

_logger = logging.getLogger(__name__)

FULL = 0.9
"""Share of the model's context above which older results are shortened before the next turn."""

_TOKEN_CHARACTERS = 3
"""Number of characters of a token, for an estimate that is rather too high."""

MAX_EXCERPT = 200
"""Maximum number of characters of an answer that an error shows."""

_RAISE_MAX_TOKENS = "; raise max_tokens"

MORE_ROOM = 2
"""Factor by which the maximum of an answer's tokens is raised, once, after an answer was cut off."""


@dataclass(frozen=True, slots=True)
class Form:
    """Form of an answer.

    Attributes:
        schema: Form that the answer must have.
        check: Further check of an answer that fits the schema, such as the validators of a pydantic model.
    """

    schema: AnswerSchema
    check: Callable[[str], object] | None = None

    def read(self, text: str, *, repair: bool = True) -> str:
        """Return an answer as normalised JSON, without the enclosing object.

        A check that parses the answer may accept more than the model is asked for: what it returns is the answer then.

        Raises:
            SchemaMismatch: The answer does not fit the schema.
            ValueError: The check rejects the answer.
        """
        try:
            answer = json.dumps(self.schema.read(text, repair=repair), ensure_ascii=False)
        except SchemaMismatch:
            parsed = _parsed(self.check, text) if repair and self.check else None
            if parsed is None:
                raise
            return parsed
        if self.check:
            self.check(answer)
        return answer


@dataclass(frozen=True, slots=True)
class Returned:
    """Return of a call of a tool.

    Attributes:
        text: Whole text of the result, or of the error.
        files: Images and documents that are shown to the model.
        failed: True for an error.
        internal: See `internal_text`.
    """

    text: str
    files: Sequence[Blob] = ()
    failed: bool = False
    internal: str = ""


_RETURNED = TypeAdapter(Returned)


class Conversation:
    """Conversation with a model about one task.

    Args:
        messages: Opening messages.
        tools: Tools that the model may call.
        settings: Settings of the calls, in place of the model's own.
        results: Results of tools in the opening messages, if they are those of an earlier conversation that goes on.
        enforces: False to ask for the form of an answer in words, also of an endpoint that can enforce it.
    """

    def __init__(
        self,
        model: Model,
        messages: Sequence[Message],
        tools: Sequence[Tool] = (),
        settings: ModelSettings = NO_SETTINGS,
        results: Mapping[str, str] = NO_RESULTS,
        *,
        enforces: bool = True,
    ) -> None:
        self.model = model
        self._enforces = enforces and model.profile.structured
        self._settings = settings
        self._messages = list(messages)
        self._tools = {tool.name: tool for tool in tools}
        self._results = ToolResults(READ_MORE if READ_MORE not in self._tools else f"{READ_MORE}_of_result", results)
        self._tokens = 0
        if self._native_tools:
            self._offer_rest()

    @property
    def exchange(self) -> Exchange:
        """The conversation so far, which can go on later."""
        return Exchange(messages=tuple(self._messages), results=self._results.texts)

    def say(self, text: str) -> None:
        """Add a text to the user's message that comes next; it is appended to a last message that is the user's."""
        last = self._messages[-1]
        if last.role != "user":
            self._messages.append(Message.user(text))
        else:
            self._messages[-1] = last.with_parts([*last.parts, Text(text=text)])

    async def work(self, max_turns: int) -> Completion | None:
        """Let the model call tools until it is ready to answer.

        Args:
            max_turns: Maximum number of turns, including the answer.

        Returns:
            The model's turn without tool calls; None if the model only decided to answer, or has no tools.

        Raises:
            MaxTurnsError: The model called tools in each turn.
        """
        if not self._tools:
            return None
        made = Counter[str]()
        for _ in range(max_turns):
            if self.model.profile.tools == "constrained":
                call = await self._choose_tool()
                if call is None:
                    return None
                told = {"tool": call.name, "arguments": json.loads(call.arguments)}
                self._messages.append(Message.assistant(json.dumps(told, ensure_ascii=False)))
                self.say(f"Result of {call.name}:\n{fence((await self._call(call)).text)}")
                made[call.name] += 1
                continue
            turn = await self._complete(tools=list(self._tools.values()))
            used = {result.id for message in self._messages for result in message.tool_results}
            message = with_new_ids(turn.message, used)
            self._messages.append(message)
            if not message.tool_calls:
                return turn
            results = await _concurrently(*map(self._call, message.tool_calls))
            self._messages.append(Message.user(*results))
            self._tokens += sum(len(result.text) for result in results) // _TOKEN_CHARACTERS
            made.update(call.name for call in message.tool_calls)
        emit(MaxTurnsReached(model=self.model.name, turns=max_turns, tool_calls=dict(made)))
        calls = ", ".join(f"{name} {count} time{'s' * (count > 1)}" for name, count in made.most_common())
        raise MaxTurnsError(
            f"{self.model.name} called tools in all of its {max_turns} turns, and gave no answer; it called {calls}. "
            "If that is the right way, give it more: Operator(max_turns=…), or `max_turns` of the operator in YAML; "
            "otherwise say in the instruction when the work is done",
            max_turns,
            dict(made),
        )

    async def _complete(self, **options: Any) -> Completion:
        """Return the model's next turn; if the conversation is too long for it, older results are shortened."""
        context = self.model.profile.context
        if context and self._tokens > FULL * context:
            self._make_room(keep=1)
        while True:
            try:
                turn = await self.model.complete(self._messages, settings=self._settings, **options)
            except PromptTooLongError:
                if not (self._make_room(keep=1) or self._make_room(keep=0)):
                    raise
            else:
                self._tokens = turn.usage.tokens
                return turn

    def _make_room(self, keep: int) -> bool:
        """Shorten the results of tools, but not those in the last `keep` messages; return False if none is long."""
        before = self._messages
        self._messages = self._results.shortened(before, keep)
        changed = [
            (len(old.text), len(new.text))
            for was, now in zip(before, self._messages, strict=True)
            for old, new in zip(was.tool_results, now.tool_results, strict=True)
            if old != new
        ]
        if not changed:
            return False
        removed = sum(old - new for old, new in changed)
        emit(ConversationShortened(model=self.model.name, results=len(changed), characters=removed))
        return True

    def _offer_rest(self) -> None:
        self._tools.setdefault(self._results.tool.name, self._results.tool)

    async def answer(self, form: Form | None, draft: Completion | None = None, max_repairs: int = 0) -> str:
        """Return the model's answer.

        Args:
            draft: Result of `work`, used as the answer if it fits.
            max_repairs: Maximum number of further requests after an answer that does not fit.

        Returns:
            The text, or normalised JSON.

        Raises:
            AnswerError: No answer fits the form, or the text is empty.
        """
        if form is None:
            return await self._text_answer(draft)
        turn, fault, repairs = Completion(Message.assistant("")), "", 0
        if draft and draft.text:
            try:
                return _read(form, draft)
            except SchemaMismatch as mismatch:
                self.say(_repair_request(str(mismatch), form))
            except ValueError as error:
                fault, turn = str(error) or type(error).__name__, draft
        elif not self._enforces or self._messages[-1].role == "assistant":
            self.say(_schema_request(form))

        async def attempt(fault: str) -> str:
            nonlocal turn, repairs
            before = turn
            if fault:
                repairs += 1
                emit(AnswerRejected(error=fault, repair=repairs))
                self.say(_repair_request(fault, form))
            turn = await self._request_turn(form)
            try:
                return _read(form, turn)
            except (SchemaMismatch, ValueError) as mismatch:
                self._give_room(before, turn)
                raise UnfitError(_fault_text(mismatch, turn)) from mismatch

        try:
            return await until_fit(attempt, max_repairs if fault else max_repairs + 1, fault)
        except UnfitError as unfit:
            cut = _RAISE_MAX_TOKENS if _was_cut(turn) else ""
            raise AnswerError(
                f"{self.model.name} gave no answer that fits its schema in {max_repairs + 1} tries; "
                f"the last was {shortened(turn.text, MAX_EXCERPT)!r}: {unfit}{cut}"
            ) from None

    def _give_room(self, before: Completion, turn: Completion) -> None:
        """Raise the maximum of an answer's tokens if an answer was cut off."""
        if not _was_cut(turn):
            return
        if _was_cut(before):
            lengths = f"{before.usage.completion_tokens:,} and {turn.usage.completion_tokens:,} tokens"
            raise AnswerError(
                f"{self.model.name} was cut off twice, after {lengths}: at the most tokens that an answer may have"
                f"{_RAISE_MAX_TOKENS}"
            ) from None
        most = max(self._settings.max_tokens or self.model.max_tokens or 0, turn.usage.completion_tokens)
        self._settings = ModelSettings(max_tokens=MORE_ROOM * most or None).over(self._settings)

    @property
    def _native_tools(self) -> bool:
        return bool(self._tools) and self.model.profile.tools == "native"

    async def _text_answer(self, draft: Completion | None) -> str:
        """Return an answer without a form: the text of the draft, or of another turn."""
        turn = draft if draft and draft.text.strip() else await self._request_turn()
        if turn.text.strip():
            if _was_cut(turn):
                _logger.warning(
                    "the answer of %s was cut off at the most tokens it may have%s", self.model.name, _RAISE_MAX_TOKENS
                )
            return turn.text
        reason = ": ask it again, or use another model"
        if turn.tool_calls:
            reason = ": it called tools instead of answering"
        elif _was_cut(turn):
            reason = f": it was cut off{_RAISE_MAX_TOKENS}"
        raise AnswerError(f"{self.model.name} said nothing{reason}")

    async def _request_turn(self, form: Form | None = None) -> Completion:
        """Request a turn without tool calls, and add it; native tools remain described, as endpoints require."""
        turn = await self._complete(
            tools=list(self._tools.values()) if self._native_tools else (),
            tool_choice="none",
            output=form.schema.asked if form and self._enforces else None,
        )
        self._messages.append(turn.message.with_parts(part for part in turn.message.parts if part.kind != "call"))
        return turn

    async def _choose_tool(self) -> ToolCall | None:
        """Ask the model for a tool, then for its arguments, each by a schema; return None if it prefers to answer."""
        answer = "answer" if "answer" not in self._tools else "give_answer"
        known = "\n".join(f"- {tool.name}: {tool.description}" for tool in self._tools.values())
        choice = object_schema({"tool": {"type": "string", "enum": [answer, *self._tools]}})
        question = (
            f"## Next step\nChoose the tool for the next call; more calls may follow. Choose {answer!r} when you can give "
            f"the final answer.\n{known}\n- {answer}: give the final answer"
        )
        if not self.model.profile.structured:  # models often give the arguments, too
            choice["properties"]["arguments"] = {"type": ["object", "null"]}
            parameters = {tool.name: tool.parameters for tool in self._tools.values()}
            question += f"\nThe JSON Schema of each tool's arguments: {json.dumps(parameters, ensure_ascii=False)}"
        chosen = await self._decide(question, choice)
        name = str(chosen.get("tool", answer))
        tool = self._tools.get(name)
        if tool is None:
            return None
        arguments: dict[str, Any] | None = chosen.get("arguments")
        if not arguments and tool.parameters.get("properties" if arguments is None else "required"):
            question = f"## Next step\nGive the arguments for one call of the tool {name!r}: {tool.description}"
            arguments = await self._decide(question, tool.parameters)
        return ToolCall(id=f"call_{new_id()}", name=name, arguments=json.dumps(arguments or {}, ensure_ascii=False))

    async def _decide(self, question: str, schema: Schema) -> dict[str, Any]:
        """Ask for a decision in a copy of the conversation, so that question and answer are not added to this one."""
        aside = Conversation(self.model, self._messages, settings=self._settings)
        aside.say(question)
        return cast(
            "dict[str, Any]", json.loads(await aside.answer(Form(AnswerSchema.unchecked(schema)), max_repairs=1))
        )

    async def _call(self, call: ToolCall) -> ToolResult:
        """Call a tool and return its result; an error becomes a result, so that the model can react to it.

        In a durable run, a call whose result an ended process has kept is not made again.
        """
        began = time.perf_counter()
        arguments: dict[str, Any] = {}
        fault: ToolError | None = None
        try:
            arguments = _parse_arguments(call)
        except ToolError as error:
            fault = error
        place = numbered(tool_call_of(call.name, arguments))
        part = await part_of_work(lambda: place, _RETURNED)
        with part.told():
            emit(ToolCalled(call_id=call.id, tool=call.name, arguments=arguments))
        returned = part.value
        if returned is None:
            with in_tool_call(place, self.model):
                returned = await self._returned(call.name, arguments, fault)
            if call.name != self._results.tool.name:  # which reads what is kept anyway
                await part.keep(returned)
        if len(returned.text) > MAX_RESULT:
            self._offer_rest()
        result = self._results.enter(call.id, returned.text)
        seconds = time.perf_counter() - began
        with part.told():
            emit(
                ToolReturned(
                    call_id=call.id,
                    tool=call.name,
                    result=result,
                    failed=returned.failed,
                    seconds=seconds,
                    internal=returned.internal,
                )
            )
        content = (Text(text=result), *returned.files)
        return ToolResult(id=call.id, name=call.name, content=content, error=returned.failed)

    async def _returned(self, name: str, arguments: Mapping[str, Any], fault: ToolError | None) -> Returned:
        """Return what a tool returns, or the fault of its arguments or of itself."""
        try:
            if fault is not None:
                raise fault
            value = await self._tool_result(name, arguments)
            # without a result, a word, because ``null`` could be a result as well
            text, blobs = told("(done)" if value is None else value)
            files, note = self._attached(blobs)
            return Returned(text + note, files)
        except (Exception, SystemExit) as error:
            if lacks_deps(error):  # a fault of the caller, which the model cannot mend
                raise
            text, internal = _error_texts(error)
        except asyncio.CancelledError as error:
            if is_cancelled():
                raise
            text, internal = _error_texts(error)
        return Returned(text, failed=True, internal=internal)

    def _attached(self, blobs: Blobs) -> tuple[list[Blob], str]:
        """Return the images and documents of a tool's result that the model takes, and a note if it does not take all."""
        shown, hidden = list[Blob](), list[str]()
        for blob in blobs:
            kind = media_type_of(blob.data)
            if kind in self.model.profile.takes and len(blob.data) <= MAX_IMAGE_BYTES and len(shown) < MAX_ATTACHED:
                shown.append(Blob(data=blob.data, media_type=kind, name=blob.name))
            else:
                hidden.append(str(blob))
        return shown, f"\n(You are not shown the content of {', '.join(hidden)}.)" if hidden else ""

    async def _tool_result(self, name: str, arguments: Mapping[str, Any]) -> Any:
        if name not in self._tools:
            raise ToolError(
                f"there is no tool {name!r}{did_you_mean(name, self._tools)}; there are: {', '.join(self._tools)}"
            )
        return await self._tools[name].call(arguments)


def _parsed(check: Callable[[str], object], text: str) -> str | None:
    """Return the JSON object or list as which a check parses an answer, as text; None if it does not parse it so."""
    try:
        value = check(text)
        return json.dumps(value, ensure_ascii=False, allow_nan=False) if isinstance(value, dict | list) else None
    except Exception:  # noqa: BLE001 - a user's check expects an answer that fits the schema, and may raise anything
        return None


def _was_cut(turn: Completion) -> bool:
    return turn.finish_reason == "length"


def _fault_text(error: Exception, turn: Completion) -> str:
    return (
        f"the answer was cut off at the most tokens it may have; be shorter\n{error}" if _was_cut(turn) else str(error)
    )


def _read(form: Form, turn: Completion) -> str:
    # Repairing an answer that was cut off would hide the missing rest.
    return form.read(turn.text, repair=not _was_cut(turn))


def _parse_arguments(call: ToolCall) -> dict[str, Any]:
    """Return the arguments of a tool call."""
    try:
        arguments = json.loads(without_half_escapes(call.arguments or "{}"), parse_constant=_refuse_constant)
    except ValueError as error:
        written = shortened(call.arguments, MAX_EXCERPT)
        raise ToolError(f"the arguments of {call.name!r} are not JSON: {error}; you wrote: {written}") from error
    except RecursionError as error:
        raise ToolError(f"the arguments of {call.name!r} are nested too deep") from error
    if not isinstance(arguments, dict):
        raise ToolError(f"the arguments of {call.name!r} are not a JSON object but {call.arguments[:MAX_EXCERPT]}")
    return cast("dict[str, Any]", arguments)


def _refuse_constant(word: str) -> Any:
    raise ValueError(f"{word} is not a JSON number; give one that is finite")


def _error_texts(error: BaseException) -> tuple[str, str]:
    """Return an error of a tool as text for a model, and its `internal_text`."""
    text = describe(error)
    return f"{type(error).__name__}: {text}" if isinstance(error, OperadError) else text, internal_text(error)


async def _concurrently(*calls: Any) -> list[ToolResult]:
    """Await all calls concurrently. On cancellation, all are cancelled, and their end is awaited."""
    results: list[Any] = await asyncio.gather(*calls, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


def _schema_request(form: Form) -> str:
    return f"Answer only with JSON that fits this JSON Schema:\n{form.schema.asked.text}"


def _repair_request(fault: str, form: Form) -> str:
    return f"Your answer does not fit:\n{fault}\n\n{_schema_request(form)}"
