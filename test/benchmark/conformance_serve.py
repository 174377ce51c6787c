"""Serve experts, and try each protocol with its own client: a table of protocol, client, what was tried and whether it passed.

    python test/benchmark/conformance_serve.py

Models are scripted. AG-UI and the Vercel AI SDK need Node.js and ``npm ci`` in test/front_ends. The exit status is 1 if a
trial fails.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import httpx
from a2a.client import ClientConfig, ClientFactory
from a2a.client.client import ClientCallContext
from a2a.helpers import new_text_message
from a2a.types import CancelTaskRequest, GetTaskRequest, Role, SendMessageRequest, TaskState
from front_ends import talk
from local_http import NO_AUTHORITIES
from mcp import Client as McpClient
from rich.console import Console
from rich.table import Table
from serving import Code, offered, order, served, words

from operad import Workflow, tool
from operad.operators.remote_agent import RemoteAgent
from operad.runtime import MonoModelReasoner
from operad.runtime.testing import CallTools, Say, ScriptedModel

Client: Any = McpClient
Trial = Callable[[Any], Awaitable[bool]]


@tool(approve=True)
def delete(file: str) -> str:
    """Delete a file."""
    return f"deleted {file}"


async def openai_streams(here: Any) -> bool:
    async with here.openai() as client:
        talk: Any = [{"role": "user", "content": "Hello"}]
        stream = await client.chat.completions.create(model="Greeter", messages=talk, stream=True)
        pieces = [chunk.choices[0].delta.content async for chunk in stream if chunk.choices]
    return "".join(filter(None, pieces)) == "Good day." and len(pieces) > 2


async def openai_asks(here: Any) -> bool:
    async with here.openai() as client:
        asked = await client.responses.create(model="Orders", input="tea")
        done = await client.responses.create(model="Orders", input="yes", previous_response_id=asked.id)
    return "Order tea?" in asked.output_text and done.output_text == "tea: ordered"


async def mcp_calls(here: Any) -> bool:
    async with Client(f"{here.url}/mcp") as client:
        result = await client.call_tool("Greeter", {"goal": "Hello"})
    return result.content[0].text == "Good day."


async def mcp_asks(here: Any) -> bool:
    async with Client(f"{here.url}/mcp") as client:
        asked = (await client.call_tool("Orders", {"goal": "tea"})).content[0].text
        answer = {"run_id": asked.split()[1], "question_id": "code", "answer": True}
        return (await client.call_tool("answer_question", answer)).content[0].text == "tea: ordered"


async def ag_ui(here: Any, name: str, *turns: Any) -> Any:
    told, warnings = await talk("ag_ui.mjs", f"{here.url}/ag-ui/{name}", *turns)
    return told if not warnings else {"messages": [{"content": warnings}], "runs": []}


async def ag_ui_streams(here: Any) -> bool:
    told = await ag_ui(here, "Greeter", "Hello")
    return told["messages"][-1]["content"] == "Good day." and told["runs"][0]["error"] is None


async def ag_ui_approves(here: Any) -> bool:
    told = await ag_ui(here, "Deleter", "Delete a.txt.", {"answers": {"": {"approved": True}}})
    return [each.get("content") for each in told["messages"]][-2:] == ["deleted a.txt", "Done."]


async def ag_ui_asks(here: Any) -> bool:
    told = await ag_ui(here, "Orders", "tea", {"answers": {"": True}})
    return told["messages"][-1]["content"] == "tea: ordered"


async def vercel_ai(here: Any, name: str, *turns: Any) -> Any:
    return (await talk("vercel_ai.mjs", f"{here.url}/vercel-ai/{name}", *turns))[0]


async def vercel_streams(here: Any) -> bool:
    told = await vercel_ai(here, "Greeter", "Hello")
    return told["errors"] == [] and told["messages"][-1]["parts"][-1]["text"] == "Good day."


async def vercel_approves(here: Any) -> bool:
    told = await vercel_ai(here, "Deleter", "Delete a.txt.", {"approved": True})
    outputs = [part.get("output") for part in told["messages"][-1]["parts"] if part["type"] == "dynamic-tool"]
    return told["errors"] == [] and outputs == ["deleted a.txt"] and told["requests"] == 2


async def vercel_asks(here: Any) -> bool:
    told = await vercel_ai(here, "Orders", "tea", "yes")
    return told["errors"] == [] and told["messages"][-1]["parts"][-1]["text"] == "tea: ordered"


async def a2a(here: Any, name: str, *texts: str) -> Any:
    """Return the responses to the last text, and the task."""
    patient, task_id, told = ClientCallContext(timeout=60), "", list[Any]()
    async with httpx.AsyncClient(timeout=60, verify=NO_AUTHORITIES) as http:
        client = await ClientFactory(ClientConfig(httpx_client=http)).create_from_url(f"{here.url}/a2a/{name}")
        for text in texts:
            message = new_text_message(text, role=Role.ROLE_USER, task_id=task_id or None)
            told = [each async for each in client.send_message(SendMessageRequest(message=message), context=patient)]
            task_id = told[0].task.id
        task = await client.get_task(GetTaskRequest(id=task_id), context=patient)
        if task.status.state == TaskState.TASK_STATE_INPUT_REQUIRED:
            task = await client.cancel_task(CancelTaskRequest(id=task_id), context=patient)
    return told, task


async def a2a_streams(here: Any) -> bool:
    told, task = await a2a(here, "Greeter", "Hello")
    text = "".join(each.artifact_update.artifact.parts[0].text for each in told if each.HasField("artifact_update"))
    return text == task.artifacts[0].parts[0].text == "Good day."


async def a2a_asks(here: Any) -> bool:
    _, task = await a2a(here, "Orders", "tea", "yes")
    return task.artifacts[0].parts[0].text == "tea: ordered"


async def a2a_approves(here: Any) -> bool:
    _, task = await a2a(here, "Deleter", "Delete a.txt.", "yes")
    return task.artifacts[0].parts[0].text == "Done."


async def a2a_cancels(here: Any) -> bool:
    return (await a2a(here, "Orders", "tea"))[1].status.state == TaskState.TASK_STATE_CANCELED


async def a2a_operator(here: Any) -> bool:
    greet = RemoteAgent("Greet.", server=f"{here.url}/a2a/Greeter")
    return (await Workflow(greet).arun("Ada")).text == "Good day."


TRIALS: list[tuple[str, str, str, Trial]] = [
    ("Chat completions", "openai", "streams text", openai_streams),
    ("Responses", "openai", "asks, and takes the answer", openai_asks),
    ("MCP", "mcp", "calls an expert as a tool", mcp_calls),
    ("MCP", "mcp", "asks, and takes the answer", mcp_asks),
    ("AG-UI", "@ag-ui/client", "streams text", ag_ui_streams),
    ("AG-UI", "@ag-ui/client", "asks by an interrupt, resumes", ag_ui_asks),
    ("AG-UI", "@ag-ui/client", "approves a tool call", ag_ui_approves),
    ("Vercel AI", "ai", "streams text", vercel_streams),
    ("Vercel AI", "ai", "asks in text, takes the answer", vercel_asks),
    ("Vercel AI", "ai", "approves a tool call", vercel_approves),
    ("A2A", "a2a-sdk", "streams an artifact", a2a_streams),
    ("A2A", "a2a-sdk", "input-required, takes the answer", a2a_asks),
    ("A2A", "a2a-sdk", "approves a tool call", a2a_approves),
    ("A2A", "a2a-sdk", "cancels a task", a2a_cancels),
    ("A2A", "operad", "a remote agent is an operator", a2a_operator),
]


async def attempt(trial: Trial, here: Any) -> str:
    """Return the result of a trial."""
    try:
        return "passed" if await asyncio.wait_for(trial(here), 120) else "failed"
    except Exception as error:  # noqa: BLE001 - a client may raise anything
        return f"failed: {error!r:.60}"


def greets(request: dict[str, Any]) -> Say | CallTools:
    """Return the turn of the model: it calls the tool if it has one, and otherwise greets."""
    if not request.get("tools"):
        return Say("Good day.")
    return Say("Done.") if request["messages"][-1]["role"] == "tool" else CallTools({"delete": {"file": "a.txt"}})


async def main() -> int:
    """Print the table."""
    table = Table("protocol", "client", "tried", "result", title="operad serve")
    results: list[str] = []
    with ScriptedModel(greets) as model:
        reasoner = MonoModelReasoner(model.model)
        experts = [
            offered(words(), name="Greeter", reasoner=reasoner),
            offered(words(tools=[delete]), name="Deleter", reasoner=reasoner),
            offered(Code(order), name="Orders"),
        ]
        async with served(*experts) as here:
            for protocol, client, tried, trial in TRIALS:
                results.append(await attempt(trial, here))
                table.add_row(protocol, client, tried, results[-1])
    Console(width=100).print(table)
    return int(any(result != "passed" for result in results))


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
