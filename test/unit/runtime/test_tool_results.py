"""Results of tools that are too long for one message, or for the model."""

import json
import re
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest

from operad.runtime.events import ConversationShortened
from operad.runtime.models.messages import Blob, Message, Text, ToolResult
from operad.runtime.reasoning.reasoner import MonoModelReasoner
from operad.runtime.reasoning.task import Task
from operad.runtime.reasoning.tool_results import MAX_KEPT, MAX_RESULT, ToolResults
from operad.runtime.testing import CallTools, Fail, Say, ScriptedModel
from operad.runtime.tools.tool import Tool
from operad.runtime.values.errors import PromptTooLongError, ToolError
from operad.runtime.values.message import Job, Usage
from operad.runtime.values.model_text import as_text

LONG = "".join(f"row {number:05}\n" for number in range(5_000))  # 50,000 characters
TOO_LONG = Fail(400, "9031 tokens exceed 8192", error={"type": "exceed_context_size_error"})


def rows(table: str = "") -> str:
    return LONG


def count(text: str) -> int:
    return len(text)


def read_more(page: int) -> str:
    """Read the next page of the user's document."""
    return f"page {page}"


async def answered(script, *tools, **options):
    """The answer to a task with these tools, and the requests of the model."""
    with ScriptedModel(script) as scripted:
        reasoner = MonoModelReasoner(scripted.model.model_copy(update=options))
        task = Task(job=Job(goal="Count."), instruction="You count.", tools=tuple(map(Tool.of, tools)))
        return await reasoner.infer(task), scripted.requests


def last_of(request):
    return request["messages"][-1]["content"]


async def test_a_model_reads_a_long_result_to_its_end_by_the_calls_that_the_result_names():
    read = ""

    def reads_on(request):
        nonlocal read
        text, _, note = last_of(request).partition("\n[… ")
        read += text
        if not note:
            return Say("done")
        [(number, offset)] = re.findall(r"read_more\(id=(\d+), offset=(\d+)\)", note)
        return CallTools({"read_more": {"id": int(number), "offset": int(offset)}})

    answer, requests = await answered([CallTools({"rows": {}}), *[reads_on] * 4], rows)
    assert (answer, read, len(requests)) == ("done", LONG, 5)
    assert all(len(last_of(request)) <= MAX_RESULT + 100 for request in requests)


def test_pages_end_at_the_end_of_a_line_if_one_is_near():
    results, text = ToolResults(), "".join(f"entry {number}\n" for number in range(5_000))
    page, note = results.enter("a", text).split("\n[… ")
    assert text.startswith(page)
    [offset] = map(int, re.findall(r"offset=(\d+)", note))
    assert offset == len(page)
    assert results.read_more(1, offset).startswith(text[offset : offset + 50])
    results.enter("b", "x" * 40_000)
    assert len(results.read_more(2, 0).partition("\n")[0]) == MAX_RESULT - 200


def test_a_text_is_found_in_what_is_left():
    results, text = ToolResults(), "".join(f"entry {number}\n" for number in range(5_000))
    results.enter("a", text)
    assert results.read_more(1, 0, "ry 4990").startswith("entry 4990\nentry 4991\n")
    assert results.read_more(1, 0, "entry 4990") == results.read_more(1, text.index("entry 4990"), "")
    with pytest.raises(ToolError, match="'entry 12' is not in result 1 after 40,000 characters"):
        results.read_more(1, 40_000, "entry 12")
    results.enter("b", "x" * 40_000 + "needle")
    assert results.read_more(2, 0, "needle") == "x" * 300 + "needle"


async def test_a_result_that_is_none_is_not_the_value_null():
    def book() -> None:
        """Book."""

    _, requests = await answered([CallTools({"book": {}}), Say("booked")], book)
    assert last_of(requests[1]) == "(done)"


async def test_the_tools_of_a_conversation_stay_the_same():
    _, requests = await answered([CallTools({"rows": {}}), CallTools({"count": {"text": "x"}}), Say("1")], rows, count)
    offered = [[tool["function"]["name"] for tool in request["tools"]] for request in requests]
    assert offered == [["rows", "count", "read_more"]] * 3


async def test_an_own_tool_of_that_name_stays_the_users():
    script = [CallTools({"read_more": {"page": 2}, "rows": {}}), Say("done")]
    _, requests = await answered(script, rows, read_more)
    offered = [tool["function"]["name"] for tool in requests[0]["tools"]]
    assert offered == ["rows", "read_more", "read_more_of_result"]
    page, table = (message["content"] for message in requests[1]["messages"][-2:])
    assert page == "page 2"
    assert re.search(r"read_more_of_result\(id=[12], offset=16000\)", table), (
        "numbers are in the order in which tools end"
    )


async def test_without_tools_there_is_nothing_to_read():
    _, (request,) = await answered([Say("hello")])
    assert "tools" not in request


async def test_a_model_that_chooses_tools_by_a_schema_may_read_on_once_a_result_was_long():
    script = [
        Say('{"tool": "rows"}'),
        Say('{"table": "a"}'),
        Say('{"tool": "read_more"}'),
        Say('{"id": 1, "offset": 49990}'),
        Say('{"tool": "answer"}'),
        Say("done"),
    ]
    _, requests = await answered(script, rows, tools="constrained")
    choices = [
        found["enum"]
        for request in requests
        if (found := request.get("response_format", {}).get("json_schema", {}).get("schema", {}))
        and (found := found["properties"].get("tool"))
    ]
    assert choices == [["answer", "rows"], ["answer", "rows", "read_more"], ["answer", "rows", "read_more"]]
    assert "Result of read_more:\n```\nrow 04999\n```" in json.dumps(requests[-1]["messages"]).replace("\\n", "\n")


@pytest.mark.parametrize(
    ("number", "offset", "fault"),
    [(0, 0, "there are 1"), (2, 0, "there are 1"), (1, 5, "has 5 characters"), (1, -1, "not negative")],
)
def test_what_is_not_there_cannot_be_read(number, offset, fault):
    results = ToolResults()
    results.enter("a", "short")
    with pytest.raises(ToolError, match=fault):
        results.read_more(number, offset)


def test_what_is_too_long_to_be_kept_is_said_to_be_lost():
    results = ToolResults()
    note = results.enter("a", "x" * (MAX_KEPT + 7)).removeprefix("x" * MAX_RESULT)
    assert "the last 7 are lost" in note
    assert "read_more(id=1, offset=16000)" in note
    assert len(results.read_more(1, MAX_KEPT - 1)) == 1
    note = results.enter("b", "y" * 20_000).removeprefix("y" * MAX_RESULT)
    assert "the last 20,000 are lost" in note
    assert "read_more" not in note


def shortenings(events):
    return [(event.results, event.characters) for event in events if isinstance(event, ConversationShortened)]


async def test_a_conversation_that_is_too_long_goes_on_with_the_beginnings_of_older_results(in_a_run):
    script = [CallTools({"rows": {}}), CallTools({"rows": {"table": "b"}}), TOO_LONG, Say("done")]
    (answer, requests), events = await in_a_run(lambda: answered(script, rows))
    assert answer == "done"
    before, after = (
        [message["content"] for message in request["messages"] if message["role"] == "tool"] for request in requests[2:]
    )
    assert before[1] == after[1], "the last one stays"
    assert after[0] == before[0][:300] + (
        "\n[… 49,700 characters no longer shown, to make room; read_more(id=1, offset=300) shows them]"
    )
    assert shortenings(events) == [(1, len(before[0]) - len(after[0]))]


async def test_at_last_the_last_result_is_shortened_too_and_then_it_is_an_error():
    requests = []

    def too_long(request):
        requests.append(request)
        return TOO_LONG

    with pytest.raises(PromptTooLongError):
        await answered([CallTools({"rows": {}}), too_long, too_long], rows)
    assert [len(last_of(request)) < 500 for request in requests] == [False, True]


async def test_a_model_whose_context_is_known_is_not_asked_for_more_than_it_takes(in_a_run):
    used = Usage(prompt_tokens=120_000, completion_tokens=10)
    script = [
        CallTools({"rows": {}}),
        CallTools({"rows": {"table": "b"}}, usage=used),
        Say("done"),
    ]
    (_, requests), events = await in_a_run(lambda: answered(script, rows, name="gemma-3-27b"))
    assert [results for results, _ in shortenings(events)] == [1]
    assert next(len(message["content"]) for message in requests[2]["messages"] if message["role"] == "tool") < 500


def test_images_of_older_results_are_left_out_and_said():
    results = ToolResults()
    image = Blob(data=b"png", media_type="image/png")
    text = results.enter("a", "a picture")
    messages = [Message.user(ToolResult(id="a", name="draw", content=(Text(text=text), image))), Message.user("Well?")]
    shown, last = results.shortened(messages, keep=1)
    assert shown.tool_results[0].content == (Text(text="a picture\n[… images no longer shown: 1]"),)
    assert last is messages[1]
    assert results.shortened([shown, last], keep=0) == [shown, last], "nothing is left to shorten"


def test_arrays_and_tables_are_whole():
    assert as_text(np.arange(2_000)).endswith(", 1999]")
    assert as_text({"n": np.int64(7)}) == '{"n": 7}'
    assert as_text(pd.DataFrame({"a": [1], "b": ["x"]})) == '[{"a": 1, "b": "x"}]'


def test_objects_with_methods_of_these_names_are_told_as_text():
    class Frame:
        columns = ("a",)

        def to_dict(self):
            raise AssertionError

        def __str__(self):
            return "a frame"

    assert as_text(Frame()) == '"a frame"'
    assert as_text(Mock()).startswith('"<Mock')
