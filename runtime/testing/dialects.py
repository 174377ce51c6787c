"""Dialects of chat completions: answers as servers send them, each with what a client must read in it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from operad.runtime.testing.steps import Raw

_EVENTS = "text/event-stream"


@dataclass(frozen=True, slots=True)
class Dialect(Raw):
    """Step that sends an answer as a certain server does.

    Example:
        for name, dialect in DIALECTS.items():
            with ScriptedModel([dialect]) as endpoint:
                print(name, dialect.text, dialect.calls)

    Attributes:
        text: Text of the answer.
        thinking: Reasoning before it.
        calls: Tool calls, each a name and arguments.
        fails: True if the answer is an error that a client must raise.
    """

    text: str = ""
    thinking: str = ""
    calls: Sequence[tuple[str, Mapping[str, Any]]] = ()
    fails: bool = False


def _stream(*deltas: Mapping[str, Any], finish: str | None) -> bytes:
    choices: list[dict[str, Any]] = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    if finish is not None:
        choices.append({"index": 0, "delta": {}, "finish_reason": finish})
    chunks = [{"id": "x", "choices": [choice]} for choice in choices]
    return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks).encode() + b"data: [DONE]\n\n"


def _text(*deltas: Mapping[str, Any], text: str = "It is noon.", thinking: str = "", finish: str = "stop") -> Dialect:
    return Dialect(_stream(*deltas, finish=finish), _EVENTS, text=text, thinking=thinking)


_OSLO, _ROME = {"city": "Oslo"}, {"city": "Rome"}


def _calls(*chunks: Any, thinking: str = "", finish: str = "tool_calls") -> Dialect:
    """Return a dialect in which `weather` is called for Oslo and for Rome; a chunk is a delta or parts of calls."""
    deltas: list[Any] = [chunk if isinstance(chunk, dict) else {"tool_calls": chunk} for chunk in chunks]
    both = (("weather", _OSLO), ("weather", _ROME))
    return Dialect(_stream(*deltas, finish=finish), _EVENTS, thinking=thinking, calls=both)


def _part(arguments: Any, name: str | None = "weather", **fields: Any) -> dict[str, Any]:
    function = {"arguments": arguments} if name is None else {"name": name, "arguments": arguments}
    return {**fields, "type": "function", "function": function}


_OSLO_TEXT, _ROME_TEXT = json.dumps(_OSLO), json.dumps(_ROME)

DIALECTS: Mapping[str, Dialect] = MappingProxyType(
    {
        "plain text": _text({"role": "assistant", "content": "It is "}, {"content": "noon."}),
        "an end with another word": _text({"content": "It is noon."}, finish="eos"),
        "content as a list of parts": _text(
            {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}]},
            {"content": [{"type": "text", "text": "It is noon."}]},
            thinking="Hm.",
        ),
        "reasoning_content": _text({"reasoning_content": "Hm."}, {"content": "It is noon."}, thinking="Hm."),
        "reasoning": _text({"reasoning": "Hm."}, {"content": "It is noon."}, thinking="Hm."),
        "reasoning in two fields": _text(
            {"reasoning": "Hm.", "reasoning_content": "Hm."}, {"content": "It is noon."}, thinking="Hm."
        ),
        "think tags": _text(
            {"content": "<thi"}, {"content": "nk>\nHm.\n</think>"}, {"content": "\n\nIt is noon."}, thinking="Hm."
        ),
        "a closing think tag alone": _text({"content": "Hm.\n</think>\n\nIt is noon."}, thinking="Hm."),
        "THINK in square brackets": _text({"content": "[THINK]Hm.[/THINK]It is noon."}, thinking="Hm."),
        "halves of a surrogate pair": _text(
            {"content": "It is noon \ud83d"}, {"content": "\ude00"}, text="It is noon \N{GRINNING FACE}"
        ),
        "plain calls": _calls(
            [_part('{"city":', index=0, id="a")],
            [_part(' "Oslo"}', None, index=0)],
            [_part(_ROME_TEXT, index=1, id="b")],
        ),
        "calls that end with stop": _calls(
            [_part(_OSLO_TEXT, index=0, id="a"), _part(_ROME_TEXT, index=1, id="b")], finish="stop"
        ),
        "the name again with each part": _calls(
            [_part('{"city":', index=0, id="a")],
            [_part(' "Oslo"}', index=0, id="a")],
            [_part('{"city":', index=1, id="b")],
            [_part(' "Rome"}', index=1, id="b")],
        ),
        "the name in pieces": _calls(
            [_part("", "wea", index=0, id="a")],
            [_part(_OSLO_TEXT, "ther", index=0)],
            [_part(_ROME_TEXT, index=1, id="b")],
        ),
        "neither index nor id": _calls([_part(_OSLO_TEXT), _part(_ROME_TEXT)]),
        "index 0 for all calls, no ids": _calls([_part(_OSLO_TEXT, index=0)], [_part(_ROME_TEXT, index=0)]),
        "the head of the second call under index 0": _calls(
            [_part(_OSLO_TEXT, index=0, id="a")],
            [_part("", index=0, id="b")],
            [_part(_ROME_TEXT, None, index=1)],
        ),
        "one id for all calls": _calls([_part(_OSLO_TEXT, index=0, id="a"), _part(_ROME_TEXT, index=1, id="a")]),
        "ids that are numbers": _calls([_part(_OSLO_TEXT, index=0, id=1), _part(_ROME_TEXT, index=1, id=2)]),
        "arguments as an object": _calls([_part(_OSLO, index=0, id="a"), _part(_ROME, index=1, id="b")]),
        "calls after reasoning": _calls(
            {"reasoning_content": "Hm."},
            [_part(_OSLO_TEXT, index=0, id="a"), _part(_ROME_TEXT, index=1, id="b")],
            thinking="Hm.",
        ),
        "calls with a signature": _calls(
            [
                _part(_OSLO_TEXT, index=0, id="a", extra_content={"google": {"thought_signature": "c2lnbmVk"}}),
                _part(_ROME_TEXT, index=1, id="b"),
            ]
        ),
        "an end with an error": Dialect(_stream({"content": "It is"}, finish="error"), _EVENTS, fails=True),
        "no end": Dialect(_stream({"content": "It is"}, finish=None), _EVENTS, fails=True),
        "an error as an event": Dialect(b'data: {"error": {"message": "out of memory"}}\n\n', _EVENTS, fails=True),
        "an error as a body": Dialect(b'{"error": {"message": "out of memory"}}', "application/json", fails=True),
    }
)
"""Answers by the name of their peculiarity. The tool that they call is ``weather(city: str)``."""
