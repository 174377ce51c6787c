"""Each tool call of a conversation has an id of its own, whatever ids the endpoint sends."""

import json
from typing import Any

import pytest

from operad import Operator, Workflow, events, tool
from operad.testing import Raw, Say, ScriptedModel


@tool
async def look(x: str) -> str:
    """Look something up."""
    return f"found {x}"


def turn(*calls: tuple[int | None, Any, str]) -> Raw:
    """A streamed turn with calls of the tool: index, id and argument of each."""
    parts = [
        {
            **({} if index is None else {"index": index}),
            **({} if call_id is ... else {"id": call_id}),
            "type": "function",
            "function": {"name": "look", "arguments": json.dumps({"x": argument})},
        }
        for index, call_id, argument in calls
    ]
    choices = [{"index": 0, "delta": {"tool_calls": parts}, "finish_reason": "tool_calls"}]
    return Raw(f"data: {json.dumps({'choices': choices})}\n\ndata: [DONE]\n\n".encode(), "text/event-stream")


TURNS = {
    "one id twice": [turn((0, "same", "a"), (1, "same", "b"))],
    "an id that a new one would have": [turn((0, "same", "a"), (1, "same_2", "b"), (2, "same", "c"))],
    "the id of an earlier turn": [turn((0, "same", "a")), turn((0, "same", "b")), turn((0, "same", "c"))],
    "no ids": [turn((0, ..., "a"), (1, ..., "b")), turn((0, ..., "c"))],
    "null and empty ids": [turn((0, None, "a"), (1, "", "b")), turn((0, "", "c"))],
    "numbers": [turn((0, 0, "a"), (1, 1, "b")), turn((0, 0, "c"))],
    "long ids": [turn((0, "x" * 500, "a"), (1, "x" * 500, "b"))],
}


@pytest.mark.parametrize("name", TURNS)
def test_each_call_of_a_conversation_has_its_own_id_and_its_result(name: str):
    heard: list[events.Event] = []
    with ScriptedModel([*TURNS[name], Say("done")]) as endpoint:
        flow = Workflow(Operator("Look.", id="l", tools=[look]), model=endpoint.model)
        flow.add_listener(heard.append)
        assert flow.run("q").text == "done"
        messages = endpoint.requests[-1]["messages"]
    asked = {
        call["id"]: json.loads(call["function"]["arguments"])["x"]
        for message in messages
        for call in message.get("tool_calls", ())
    }
    answers = [message for message in messages if message["role"] == "tool"]
    found = {message["tool_call_id"]: message["content"] for message in answers}
    assert found == {call_id: f"found {x}" for call_id, x in asked.items()}
    assert all(isinstance(call_id, str) and call_id for call_id in asked)
    arguments = "abc"[: len(answers)]
    assert sorted(asked.values()) == [*arguments]
    called = [event.call_id for event in heard if isinstance(event, events.ToolCalled)]
    returned = [event.call_id for event in heard if isinstance(event, events.ToolReturned)]
    assert sorted(called) == sorted(returned) == sorted(asked)
