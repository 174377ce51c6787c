"""Steps of the script of an endpoint."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from pydantic import BaseModel

from operad.runtime.values.message import Usage


class Step:
    """Base class of the steps of a script.

    Example:
        def answer(request: dict) -> Step:
            return Plausible() if request.get("response_format") else Say("done")

        with ScriptedModel(answer) as scripted:
            print(Workflow(Operator("Greet."), model=scripted.model).run("Ada").text)  # done
    """

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Say(Step):
    """Step that answers with a text.

        with ScriptedModel([Say("Good morning."), Say("cut o", finish_reason="length")]) as scripted:
            print(Workflow(Operator("Greet."), model=scripted.model).run("Ada").text)
            print(Workflow(Operator("Greet."), model=scripted.model).run("Ada").text)

    Attributes:
        text: The text, which is streamed word by word.
        finish_reason: Reason for the end of the text: ``length`` if it was cut off, ``content_filter`` if a filter stopped
            it, ``error`` if the model failed.
        thinking: Reasoning before the text.
        usage: Reported tokens; by default the number of words.
    """

    text: str
    finish_reason: str = "stop"
    thinking: str = ""
    usage: Usage | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"Say(…): expected a text, got {self.text!r:.200}")


@dataclass(frozen=True, slots=True)
class CallTools(Step):
    """Step that calls tools, given as pairs of a name and arguments, or as a dict; arguments as text may be invalid JSON.

    Example:
        with ScriptedModel([CallTools({"search": {"claim": "x"}}), Say("done")]) as scripted:
            Workflow(Operator("Check.", tools=[search]), model=scripted.model).run("x")

    Attributes:
        calls: The calls.
        text: Text before the calls.
        thinking: Reasoning before the calls. The endpoint signs it, and refuses a later request with these calls that does
            not return reasoning and signature unchanged, as vendors do.
        usage: Reported tokens; by default the number of words.

    Raises:
        TypeError: The calls have another form.
    """

    calls: Sequence[tuple[str, Mapping[str, Any] | str]] | Mapping[str, Mapping[str, Any] | str]
    text: str = ""
    thinking: str = ""
    usage: Usage | None = None

    def __post_init__(self) -> None:
        calls: Any = self.pairs
        if not isinstance(calls, list | tuple) or not all(map(_is_call, cast("Sequence[Any]", calls))):
            wanted = "CallTools([('search', {'claim': 'x'})]) or CallTools({'search': {'claim': 'x'}})"
            raise TypeError(f"expected names of tools with their arguments, such as {wanted}; got {self.calls!r:.200}")

    @property
    def pairs(self) -> Sequence[tuple[str, Mapping[str, Any] | str]]:
        """The calls as pairs of a name and arguments."""
        return [*self.calls.items()] if isinstance(self.calls, Mapping) else self.calls


@dataclass(frozen=True, slots=True)
class Refuse(Step):
    """Step that refuses to answer.

    Example:
        with ScriptedModel([Refuse("I cannot help with that.")]) as scripted:
            try:
                Workflow(Operator("Greet."), model=scripted.model).run("Ada")
            except OperatorError as error:
                print(error)
    """

    text: str


@dataclass(frozen=True, slots=True)
class Fail(Step):
    """Step that answers with an HTTP error.

    Example:
        with ScriptedModel([Fail(429, headers={"retry-after": "0"}), Say("done")]) as scripted:
            model = scripted.model.model_copy(update={"max_retries": 1})
            print(Workflow(Operator("Greet."), model=model).run("Ada").text)  # done
    """

    status: int
    message: str = "scripted failure"
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    error: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Further fields of the error object, such as ``type`` and ``code``."""


@dataclass(frozen=True, slots=True)
class Hang(Step):
    """Step that accepts the request and sends no answer until the model is closed.

    Example:
        with ScriptedModel([Hang()]) as scripted:
            model = scripted.model.model_copy(update={"timeout": 0.1})
            try:
                Workflow(Operator("Greet."), model=model).run("Ada")
            except OperatorError as error:
                print(error)
    """


@dataclass(frozen=True, slots=True)
class BreakOff(Step):
    """Step that closes the connection after the first `after_chars` characters of `text`.

    Example:
        with ScriptedModel([BreakOff(after_chars=5)]) as scripted:
            try:
                Workflow(Operator("Greet."), model=scripted.model).run("Ada")
            except OperatorError as error:
                print(error)
    """

    after_chars: int
    text: str = "an answer that breaks off"


@dataclass(frozen=True, slots=True)
class Plausible(Step):
    """Step that answers with a value that fits the JSON Schema of the request, or with a word if there is no schema.

    Example:
        with ScriptedModel(lambda request: Plausible()) as scripted:
            print(Workflow(facts, model=scripted.model).run("hello").output)  # claims=['text']
    """


@dataclass(frozen=True, slots=True)
class Raw(Step):
    """Step that sends the given bytes as the response.

    Example:
        with ScriptedModel([Raw(b"<html>502 Bad Gateway</html>")]) as scripted:
            try:
                Workflow(Operator("Greet."), model=scripted.model).run("Ada")
            except OperatorError as error:
                print(error)
    """

    body: bytes
    content_type: str = "text/html"


@dataclass(frozen=True, slots=True)
class Recorded(Step):
    """Answer of a recorded run, from the script of a case: it answers the operator that it answered then.

    Example:
        step = Recorded(Say("seven"), instruction="Count the {goods}.")
        print(step.fits({"messages": [{"role": "system", "content": "Count the figs."}]}))  # True

    Attributes:
        answer: The answer.
        instruction: Instruction of the operator that asked; empty if it is not known.
    """

    answer: Say | CallTools
    instruction: str = ""

    def fits(self, request: Mapping[str, Any]) -> bool:
        """Return True if the request has the instruction, up to its first value in braces."""
        known = json.dumps(self.instruction.partition("{")[0].strip(), ensure_ascii=False)[1:-1]
        return known in json.dumps(request, ensure_ascii=False)


def step_of(value: Step | BaseModel | Mapping[str, Any] | str) -> Step:
    """Return a step unchanged, and a text, a pydantic model or a recorded answer as the step that says it.

    Raises:
        TypeError: The value is none of these.
    """
    if isinstance(value, Step):
        return value
    if isinstance(value, Mapping) and "text" in value:
        text, calls = str(value["text"]), [(name, arguments) for name, arguments in value.get("calls", ())]
        answer = CallTools(calls, text=text) if calls else Say(text)
        return Recorded(answer, str(value.get("instruction", "")))
    if isinstance(value, str | BaseModel):  # pyright: ignore[reportUnnecessaryIsInstance]
        return Say(value if isinstance(value, str) else value.model_dump_json())
    raise TypeError(f"a script holds steps, such as Say('…'), texts, pydantic models and functions; got {value!r:.200}")


def _is_call(pair: Any) -> bool:
    match pair:
        case str(), str() | Mapping():
            return True
        case _:
            return False


def step_name(step: Any) -> str:
    """Return the description of an unused step, for an error."""
    return getattr(step, "__name__", "function") if callable(step) else repr(step)
