"""The questions of conformance_models.py: the same tools, types and settings for each library.

Imported where Operad is not installed, too.
"""

from __future__ import annotations

import asyncio
import logging
import time
import warnings
from base64 import b64decode
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, TypeAdapter

PNG = b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==")
SECONDS = 60
"""Maximum duration of an answer, with the import of a vendor's library at its first one, also on a busy machine."""
WAIT = 1.0
"""Seconds that a library has to close its connection after a cancellation."""


@dataclass(frozen=True)
class Ask:
    """A question to a model.

    Attributes:
        endpoint: Kind of the endpoint, such as ``deepseek``.
        api: Its protocol: ``responses``, ``chat-completions``, ``anthropic``, ``google`` or ``mistral``.
        model: Name of the model at the endpoint.
        url: Address.
        key: API key.
        prompt: Text of the question.
        then: Text of a second question in the same conversation; empty for none.
        tools: Names of functions of this module.
        output: Name of a type in `TYPES`; empty for text.
        image: True to ask about `PNG`.
        thinking: Effort of reasoning; empty for the default.
        settings: ``temperature``, ``top_p``, ``seed``, ``stop`` and ``max_tokens``.
        cancel: True to cancel at the first piece of the answer.
    """

    endpoint: str
    api: str
    model: str
    url: str
    key: str
    prompt: str = "How warm is it?"
    then: str = ""
    tools: tuple[str, ...] = ()
    output: str = ""
    image: bool = False
    thinking: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    cancel: bool = False


@dataclass
class Outcome:
    """Result of a question, as far as a library tells it.

    Attributes:
        text: The answer, if it is a text.
        output: The answer as JSON, if it has a type.
        error: Type and text of the error.
        finish: Reason for the end of the answer, in the library's word.
        usage: Numbers of tokens: ``prompt``, ``cached``, ``reasoning``.
        said: Warnings, and settings that were left out.
        cancelled_at: Time of the cancellation.
    """

    text: str = ""
    output: Any = None
    error: str = ""
    finish: str = ""
    usage: dict[str, int] = field(default_factory=dict)
    said: str = ""
    cancelled_at: float = 0.0

    def answer(self, value: Any, ask: Ask) -> Outcome:
        """Set the answer."""
        if ask.output:
            self.output = TypeAdapter(TYPES[ask.output]).dump_python(value, mode="json")
        else:
            self.text = str(value)
        return self


class City(BaseModel):
    name: str
    degrees: int


class Country(BaseModel):
    code: str


class Part(BaseModel):
    name: str
    parts: list[Part] = []


TYPES: Mapping[str, Any] = {
    "City": City,
    "City | Country": City | Country,
    "Part": Part,
    "list[int]": list[int],
    "dict[str, int]": dict[str, int],
}


def weather(city: str) -> str:
    """The weather in a city."""
    return f"sun in {city}"


def total(prices: dict[str, int]) -> str:
    """The sum of prices by their names."""
    return f"{sum(prices.values())} euros"


async def outcome(answer: Callable[[Ask, Outcome, Callable[[], None]], Awaitable[Outcome]], ask: Ask) -> Outcome:
    """Return what a library answers.

    Args:
        answer: Function of the question, the outcome to complete, and a function to call at each piece of the answer.
        ask: The question.
    """
    found, began = Outcome(), asyncio.Event()
    with noted(found):
        return await _outcome(answer, ask, found, began)


@contextmanager
def noted(found: Outcome) -> Generator[None]:
    """Note warnings, and log records from this level on."""
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: said.append(record.getMessage())
    said: list[str] = []
    logging.getLogger().addHandler(handler)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield
        finally:
            logging.getLogger().removeHandler(handler)
    said += [str(each.message) for each in caught if issubclass(each.category, UserWarning)]
    found.said = "; ".join([*filter(None, [found.said]), *said])


async def _outcome(answer: Any, ask: Ask, found: Outcome, began: asyncio.Event) -> Outcome:
    running = asyncio.ensure_future(answer(ask, found, began.set))
    if ask.cancel:
        waiting = asyncio.ensure_future(began.wait())
        await asyncio.wait({running, waiting}, timeout=SECONDS, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if began.is_set():
            running.cancel()
            found.cancelled_at = time.monotonic()
            with suppress(asyncio.CancelledError, asyncio.TimeoutError):
                await asyncio.wait_for(running, SECONDS)
            await asyncio.sleep(WAIT)  # the loop runs on, as in a server
            return found
    try:
        return await asyncio.wait_for(running, SECONDS)
    except TimeoutError:
        found.error = f"no end within {SECONDS} s"
    except Exception as error:  # noqa: BLE001 - it is the outcome
        causes: list[BaseException] = [error]
        while causes[-1].__cause__ and len(causes) < 5:
            causes.append(causes[-1].__cause__)
        found.error = "; ".join(f"{type(each).__name__}: {each}" for each in causes)
    return found
