"""Experts as agents of A2A, with the client of its SDK; and agents of A2A as operators."""

import asyncio
import json
from contextlib import asynccontextmanager

import httpx
import pytest
from a2a.client import ClientConfig, ClientFactory
from a2a.client.client import ClientCallContext
from a2a.helpers import get_stream_response_text, new_data_message, new_text_message
from a2a.types import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
)
from a2a.types import TaskState as State
from a2a.utils.errors import A2AError, InvalidParamsError, TaskNotCancelableError, TaskNotFoundError
from held_model import held_model
from local_http import NO_AUTHORITIES
from serving import Code, echo, offered, order, served, words

from operad import Workflow, tool
from operad.configs.runnable import Source
from operad.operators.remote_agent import RemoteAgent
from operad.runtime import MonoModelReasoner, events, interrupt
from operad.runtime.testing import CallTools, Say, ScriptedModel
from operad.runtime.values.errors import AnswerError, FetchError, InputError, OperatorError
from operad.runtime.values.message import Job, WorkflowMessage, WorkflowStatus
from operad.server.api.experts import offers_of
from operad.server.http.bounds import Bounds
from operad.server.http.keys import Key, digest

KEY = "a-key-of-many-characters"
PATIENT = ClientCallContext(timeout=30)


class Agent:
    """Client of an expert, as an agent."""

    def __init__(self, client, http):
        self.client, self.http = client, http

    async def say(self, text, **message):
        return await self.send(new_text_message(text, role=Role.ROLE_USER, **message))

    async def send(self, message):
        """Return the responses to a message, and the task after it."""
        request = SendMessageRequest(message=message)
        told = [each async for each in self.client.send_message(request, context=PATIENT)]
        task = await self.client.get_task(GetTaskRequest(id=told[0].task.id), context=PATIENT)
        return told, task


@asynccontextmanager
async def agent(here, name="Expert", streaming=True, headers=None):
    async with httpx.AsyncClient(headers=headers, timeout=60, verify=NO_AUTHORITIES) as http:
        config = ClientConfig(httpx_client=http, streaming=streaming)
        yield Agent(await ClientFactory(config).create_from_url(f"{here.url}/a2a/{name}"), http)


def text_of(task):
    return "".join(part.text for artifact in task.artifacts for part in artifact.parts)


@tool(approve=True)
def delete(file: str) -> str:
    """Delete a file."""
    return f"deleted {file}"


async def test_an_expert_has_a_card_and_streams_its_answer():
    with ScriptedModel([Say("Good day to you.")]) as model:
        offer = offered(words(), name="Greeter", reasoner=MonoModelReasoner(model.model))
        async with served(offer) as here:
            root = (await here.http.get("/.well-known/agent-card.json")).json()
            async with agent(here, "Greeter") as client:
                told, task = await client.say("Hello")
    assert (root["name"], root["description"]) == ("Greeter", "It is Greeter.")
    assert root["supportedInterfaces"][0]["url"] == f"{here.url}/a2a/Greeter"
    assert root["capabilities"]["streaming"] is True
    pieces = [get_stream_response_text(each) for each in told if each.HasField("artifact_update")]
    assert pieces == ["Good ", "day ", "to ", "you."]
    assert [each.artifact_update.append for each in told if each.HasField("artifact_update")] == [
        False,
        True,
        True,
        True,
    ]
    assert told[-1].status_update.status.state == task.status.state == State.TASK_STATE_COMPLETED
    assert text_of(task) == "Good day to you."


@pytest.mark.parametrize("streaming", [True, False])
async def test_a_question_is_input_required_and_a_wrong_answer_is_asked_again(streaming):
    async with served(offered(Code(order))) as here, agent(here, streaming=streaming) as client:
        asked, task = await client.say("tea")
        again, _ = await client.say("maybe", task_id=task.id)
        _, done = await client.say("yes", task_id=task.id)
    assert task.status.state == State.TASK_STATE_INPUT_REQUIRED
    assert task.status.message.parts[0].text == "Order tea? (yes or no)"
    last = again[-1].task if not streaming else again[-1].status_update
    assert "boolean" in last.status.message.parts[0].text
    assert (done.status.state, text_of(done)) == (State.TASK_STATE_COMPLETED, "tea: ordered")
    assert asked


async def test_approvals_are_answered_by_words_or_data():
    with ScriptedModel([CallTools({"delete": {"file": "a.txt"}}), Say("Done.")] * 2) as model:
        offer = offered(words(tools=[delete]), reasoner=MonoModelReasoner(model.model))
        async with served(offer) as here, agent(here) as client:
            for answer in (
                lambda task: new_text_message("yes", role=Role.ROLE_USER, task_id=task.id),
                lambda task: new_data_message(
                    {"approved": False, "reason": "no"}, role=Role.ROLE_USER, task_id=task.id
                ),
            ):
                _, task = await client.say("Delete a.txt.")
                assert task.status.state == State.TASK_STATE_INPUT_REQUIRED
                _, done = await client.send(answer(task))
                assert text_of(done) == "Done."
    results = [request["messages"][-1]["content"] for request in model.requests if len(request["messages"]) > 2]
    assert results[0] == "deleted a.txt"
    assert "did not allow" in results[1]


async def test_messages_of_a_context_continue_the_conversation_and_data_is_inputs():
    async with served(offered(Code(echo))) as here, agent(here) as client:
        _, first = await client.say("Hello")
        _, second = await client.say("And now?", context_id=first.context_id)
        tasks = await client.client.list_tasks(ListTasksRequest(context_id=first.context_id))
        with pytest.raises(InvalidParamsError, match="object"):
            await client.send(new_data_message([1], role=Role.ROLE_USER))
        with pytest.raises(A2AError, match="takes no message"):
            await client.say("more", task_id=first.id)
    assert text_of(second) == "And now?||{}|user: Hello|assistant: Hello||{}"
    assert [each.id for each in tasks.tasks] == [second.id, first.id]


async def test_a_task_is_cancelled_followed_and_not_found():
    began = asyncio.Event()

    async def wait(job):
        began.set()
        await asyncio.Event().wait()

    offers = (offered(Code(wait)), offered(Code(echo), name="Other"))
    async with served(*offers) as here, agent(here) as client, agent(here, "Other") as other:
        run = (await here.http.post("/runs", json={"expert": "Expert", "goal": "x"})).json()["id"]
        await began.wait()
        following = client.client.subscribe(SubscribeToTaskRequest(id=run), context=PATIENT)
        assert (await anext(following)).task.status.state == State.TASK_STATE_WORKING
        cancelled = await client.client.cancel_task(CancelTaskRequest(id=run))
        assert [each async for each in following][-1].status_update.status.state == State.TASK_STATE_CANCELED
        with pytest.raises(TaskNotCancelableError):
            await client.client.cancel_task(CancelTaskRequest(id=run))
        with pytest.raises(TaskNotFoundError):  # it is a task of another agent
            await other.client.get_task(GetTaskRequest(id=run))
    assert cancelled.status.state == State.TASK_STATE_CANCELED


async def test_a_rejected_result_is_a_failed_task_with_its_artifact():
    async def judged(job):
        status = WorkflowStatus.EXECUTION_ERROR
        return WorkflowMessage(scratchpad="poor", status=status, evaluation="It is poor.", lesson="Do better.")

    async with served(offered(Code(judged))) as here, agent(here) as client:
        _, task = await client.say("Hello")
    assert (task.status.state, text_of(task)) == (State.TASK_STATE_FAILED, "poor")
    assert "It is poor." in task.status.message.parts[0].text


async def test_keys_hold_for_cards_and_tasks():
    key = Key("web", experts=frozenset({"Expert"}), own_runs=True, digest=digest(KEY.encode()))
    async with served(
        offered(Code(echo)), offered(Code(echo), name="Other"), keys=[key, Key.of(KEY * 2, "all")]
    ) as here:
        assert (await here.http.get("/a2a/Expert/.well-known/agent-card.json")).status_code == 401
        with_key = {"Authorization": f"Bearer {KEY}"}
        assert (await here.http.get("/a2a/Other/.well-known/agent-card.json", headers=with_key)).status_code == 404
        card = (await here.http.get("/.well-known/agent-card.json", headers=with_key)).json()
        assert card["securitySchemes"]["key"]["httpAuthSecurityScheme"] == {"scheme": "Bearer"}
        async with agent(here, headers={"Authorization": f"Bearer {KEY * 2}"}) as client:
            _, foreign = await client.say("Hello")
        async with agent(here, headers=with_key) as client:
            with pytest.raises(TaskNotFoundError):
                await client.client.get_task(GetTaskRequest(id=foreign.id))


def call(method, **params):
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})


def message(text, **more):
    return {"message": {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": text}], **more}}


async def test_a_request_that_is_no_call_is_an_error_of_the_client_and_leaves_the_log_alone(caplog):
    async with served(offered(Code(echo))) as here:
        for body in [
            b"",
            b"[]",
            b"{}",
            b"[" * 100_000,
            b'{"a": "\xff"}',
            b"1" * 5_000,
            b'{"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": []}',
            b'{"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": 5}}',
            b'{"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": 5}}',
            call("SendMessage", **message("x", parts=[{"data": [[1e300]]}])).replace("1e+300", "1e999").encode(),
            call("SendMessage", **message("\ud800")).encode(),
        ]:
            version = {"A2A-Version": "0.3" if b"message/send" in body else "1.0"}
            reply = await here.http.post("/a2a/Expert", content=body, headers=version)
            assert reply.status_code == 200
            assert reply.json()["error"]["code"] in (-32700, -32600, -32602)
    assert [each for each in caplog.records if each.name.startswith("a2a")] == []


async def test_a_question_is_answered_only_by_the_people_that_it_names():
    async def ask(job):
        return f"{await interrupt('Pay?', 'boolean', answer_by=['alice'])}"

    keys = [Key(name, digest=digest(name.encode())) for name in ("alice", "bob")]
    async with served(offered(Code(ask)), keys=keys) as here:

        async def say(name, **more):
            headers = {"Authorization": f"Bearer {name}", "A2A-Version": "1.0"}
            return await here.http.post(
                "/a2a/Expert", content=call("SendMessage", **message("yes", **more)), headers=headers
            )

        task = (await say("bob")).json()["result"]["task"]["id"]
        refused = await say("bob", taskId=task)
        done = (await say("alice", taskId=task)).json()["result"]["task"]
    assert (refused.status_code, "alice" in refused.json()["error"]["message"]) == (403, True)
    assert done["artifacts"][0]["parts"][0]["text"] == "True"


async def test_ids_of_contexts_are_kept_as_they_are_and_bounded():
    async with served(offered(Code(echo))) as here, agent(here) as client:
        _, first = await client.say("one", context_id="a/1")
        _, other = await client.say("two", context_id="b/1")
        _, second = await client.say("three", context_id="a/1")
        with pytest.raises(InvalidParamsError, match="context_id"):
            await client.say("x", context_id="x" * 201)
        with pytest.raises(InvalidParamsError, match="context_id"):
            await client.say("x", context_id="b/1", task_id=first.id)
        with pytest.raises(InvalidParamsError, match="status_timestamp_after"):
            await client.client.list_tasks(ListTasksRequest(status_timestamp_after={"seconds": 1}))
    assert (first.context_id, text_of(other)) == ("a/1", "two||{}")
    assert text_of(second) == "three||{}|user: one|assistant: one||{}"


async def test_contexts_of_two_callers_with_the_same_id_are_two_conversations():
    keys = [Key(name, digest=digest(name.encode())) for name in ("alice", "bob")]
    async with served(offered(Code(echo)), keys=keys) as here:
        for name in ("alice", "bob"):
            async with agent(here, headers={"Authorization": f"Bearer {name}"}) as client:
                _, task = await client.say(f"I am {name}.", context_id="main")
    assert (task.context_id, text_of(task)) == ("main", "I am bob.||{}")


async def test_whole_numbers_in_data_are_integers_and_an_answer_is_one_part():
    async def count(job):
        return WorkflowMessage(outputs={"n": job.inputs["n"], "more": await interrupt("How many?", "integer")})

    async with served(offered(Code(count))) as here, agent(here) as client:
        _, task = await client.send(new_data_message({"n": 3}, role=Role.ROLE_USER))
        both = new_data_message(4, role=Role.ROLE_USER, task_id=task.id)
        both.parts.add(text="5")
        with pytest.raises(InvalidParamsError, match="one answer"):
            await client.send(both)
        await client.send(new_data_message(4, role=Role.ROLE_USER, task_id=task.id))
        outputs = (await here.http.get(f"/runs/{task.id}")).json()["outputs"]
    assert json.dumps(outputs) == '{"n": 3, "more": 4}'


async def test_subscriptions_count_as_followers():
    async with served(offered(Code(order)), bounds=Bounds(followers=1)) as here, agent(here) as client:
        _, task = await client.say("tea")
        subscribe, headers = call("SubscribeToTask", id=task.id), {"A2A-Version": "1.0"}
        async with here.http.stream("GET", f"/runs/{task.id}/events") as following:
            lines = following.aiter_lines()  # closes the response when it is dropped
            await anext(lines)
            refused = await here.http.post("/a2a/Expert", content=subscribe, headers=headers)
        assert refused.status_code == 429
        while (told := await here.http.post("/a2a/Expert", content=subscribe, headers=headers)).status_code == 429:
            await asyncio.sleep(0.01)
    assert "TASK_STATE_INPUT_REQUIRED" in told.text


# Agents of other servers as operators


async def test_a_remote_agent_is_an_operator():
    async def greet(job):
        return WorkflowMessage(scratchpad=job.goal, outputs={"greeting": f"Hello, {job.inputs['name']}"})

    async with served(offered(Code(greet))) as here:
        remote = RemoteAgent("Greet.", server=f"{here.url}/a2a/Expert", id="greet")
        message = await Workflow(remote).arun(Job("Ada", inputs={"name": "Ada"}))
    assert (message.outputs, message.scratchpad) == ({"greeting": "Hello, Ada"}, "Greet.\n\nAda")


async def test_questions_of_a_remote_agent_are_questions_of_the_run():
    async with served(offered(Code(order))) as here:
        run = Workflow(RemoteAgent("Order.", server=f"{here.url}/a2a/Expert", id="order")).start("tea")
        async for event in run:
            if isinstance(event, events.Interrupted):
                assert event.schema == {"type": "boolean"}
                assert event.question.startswith(f"The agent {here.url}/a2a/Expert asks: Order Order.")
                await run.answer({event.interrupt_id: True})
        assert (await run).scratchpad.endswith("tea: ordered")


async def test_a_cancelled_run_cancels_the_task_of_its_remote_agent():
    with held_model("Once ", "upon a time.") as (model, release):
        async with served(offered(words(), reasoner=MonoModelReasoner(model))) as here:
            run = Workflow(RemoteAgent("Tell.", server=f"{here.url}/a2a/Expert")).start("a tale")
            async for event in run:
                if isinstance(event, events.TokenStreamed):  # the agent's text
                    assert event.text == "Once "
                    break
            await run.cancel()
            release.set()
            (there,) = (await here.http.get("/runs")).json()["runs"]
            assert (await here.ended(there["id"]))["state"] == "cancelled"


async def test_a_remote_agent_that_fails_or_is_silent_is_an_error():
    async def fail(job):
        raise ValueError("no tea")

    async def wait(job):
        await asyncio.Event().wait()

    async with served(offered(Code(fail), name="Fails"), offered(Code(wait), name="Waits")) as here:
        for name, error, words_ in (
            ("Fails", AnswerError, "no tea"),
            ("Nobody", FetchError, "404"),
            ("Waits", FetchError, "in time"),
        ):
            remote = RemoteAgent("Do.", server=f"{here.url}/a2a/{name}", timeout=1 if name == "Waits" else 60)
            with pytest.raises(OperatorError, match=words_) as raised:
                await Workflow(remote).arun("x")
            assert isinstance(raised.value.__cause__, error)


async def test_a_remote_agent_without_room_may_be_asked_again():
    async with served(offered(Code(order)), bounds=Bounds(runs=1)) as here:
        await here.http.post("/runs", json={"expert": "Expert", "goal": "tea"})
        with pytest.raises(OperatorError, match="429") as raised:
            await Workflow(RemoteAgent("Do.", server=f"{here.url}/a2a/Expert")).arun("x")
    assert isinstance(raised.value.__cause__, FetchError)
    assert raised.value.__cause__.transient


@pytest.mark.parametrize(
    ("card", "words_"),
    [
        ([], "cannot be used"),
        ("{", "cannot be used"),
        ({"name": "x", "supportedInterfaces": []}, "cannot be used"),
        ({"name": "x", "version": "1", "description": "d", "supportedInterfaces": [{"url": "http://169.254.169.254/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}]}, "169.254"),
        ({"name": "x", "version": "1", "description": "d", "supportedInterfaces": [{"url": "http://127.0.0.1:1/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}]}, "Loopback"),
    ],
)  # fmt: skip
async def test_a_hostile_card_leads_nowhere(card, words_):
    asked = []

    async def serve(reader, writer):
        asked.append((await reader.readuntil(b"\r\n\r\n")).decode())
        body = card if isinstance(card, str) else json.dumps(card)
        head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        writer.write((head + body).encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(OperatorError, match=words_):
            await Workflow(RemoteAgent("Do.", server=url, timeout=10)).arun("x")
    assert len(asked) == 1


async def test_the_secret_of_a_remote_agent_goes_to_its_server_only(monkeypatch):
    monkeypatch.setenv("AGENT_KEY", KEY)
    async with served(offered(Code(echo)), keys=[KEY]) as here:
        remote = RemoteAgent("Greet.", server=f"{here.url}/a2a/Expert", secret="AGENT_KEY")
        assert (await Workflow(remote).arun("Hello")).scratchpad.startswith("Greet.")
        assert remote.secret_uses[0].host == here.url.removeprefix("http://")


def test_an_address_of_a_remote_agent_is_checked():
    for server in ("", "ftp:/x", "agents.example.com", "https://me:pass@a.example", "https://a.example/?key=pass"):
        with pytest.raises(InputError, match="server") as raised:
            RemoteAgent("Do.", server=server)
        assert "pass@" not in str(raised.value)
        assert "=pass" not in str(raised.value)


@asynccontextmanager
async def told_agent(*replies):
    """Agent that answers each call by the next reply: results, as events if there are several."""
    calls, left = [], list(replies)

    async def serve(reader, writer) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        kind = "application/json"
        if length:
            calls.append(json.loads(await reader.readexactly(int(length[0].split(b":")[1]))))
            reply = left.pop(0) if left else {}
            answers = [
                {"jsonrpc": "2.0", "id": calls[-1]["id"], "result": each}
                for each in (reply if isinstance(reply, list) else [reply])
            ]
            body = json.dumps(answers[0])
            if isinstance(reply, list):
                kind, body = "text/event-stream", "".join(f"data: {json.dumps(each)}\n\n" for each in answers)
        else:
            interface = {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
            body = json.dumps(
                {
                    "name": "x",
                    "version": "1",
                    "description": "d",
                    "capabilities": {"streaming": True},
                    "supportedInterfaces": [interface],
                }
            )
        writer.write(
            f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n{body}".encode()
        )
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield url, calls


def piece(text, **more):
    artifact = {"artifactId": "a", "parts": [{"text": text}]}
    return {"artifactUpdate": {"taskId": "t", "contextId": "c", "artifact": artifact, **more}}


async def test_a_task_that_is_told_only_by_its_updates_is_followed_to_its_end():
    whole = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}
    async with told_agent([piece("Good "), piece("day.", append=True)], whole) as (url, calls):
        message = await Workflow(RemoteAgent("Greet.", server=url, timeout=10)).arun("x")
    assert message.scratchpad == "Good day."
    assert [(each["method"], each["params"].get("id")) for each in calls] == [
        ("SendStreamingMessage", None),
        ("GetTask", "t"),
    ]


async def test_a_remote_agent_cannot_say_who_answers_here():
    schema = {"type": "integer", "answer_by": ["nobody"], "approval": {"tool": "pay", "arguments": {}}}
    status = {
        "state": "TASK_STATE_INPUT_REQUIRED",
        "message": {
            "messageId": "1",
            "role": "ROLE_AGENT",
            "parts": [{"text": "How many?"}],
            "metadata": {"operad": {"schema": schema}},
        },
    }
    asks = {"statusUpdate": {"taskId": "t", "contextId": "c", "status": status}}
    done = {"statusUpdate": {"taskId": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}}
    async with told_agent([asks], [piece("Three."), done]) as (url, calls):
        run = Workflow(RemoteAgent("Greet.", server=url, timeout=10)).start("x")
        async for event in run:
            if isinstance(event, events.Interrupted):
                assert event.schema == {"type": "integer"}
                await run.answer({event.interrupt_id: 3})
        assert (await run).scratchpad == "Three."
    assert calls[1]["params"]["message"]["taskId"] == "t"


async def test_a_remote_agent_is_an_operator_of_a_file(tmp_path):
    file = tmp_path / "team.yaml"
    async with served(offered(Code(echo), name="There")) as here:
        params = f"{{server: {here.url}/a2a/There, timeout: 60}}"
        file.write_text(
            "operators:\n  - &ask {name: ask, instruction: Ask., class: operad.operators.remote_agent.RemoteAgent, params: "
            f"{params}}}\nexperts:\n  - profile: {{name: Here, desc: Asks.}}\n    workflow: [[*ask]]\n"
        )
        (offer,) = offers_of(Source(file=str(file)), trust=True)
        async with served(offer) as outer, agent(outer, "Here") as client:
            _, task = await client.say("Hello")
    assert (task.status.state, text_of(task)) == (State.TASK_STATE_COMPLETED, "Ask.\n\nHello||{}")


async def test_a_question_of_a_remote_agent_passes_through_two_servers():
    async with served(offered(Code(order), name="There")) as there:
        remote = RemoteAgent("Order.", server=f"{there.url}/a2a/There", id="ask")
        async with served(offered(remote, name="Here")) as here, agent(here, "Here") as client:
            _, asked = await client.say("tea")
            _, done = await client.say("yes", task_id=asked.id)
    assert "Order Order.\n\ntea?" in asked.status.message.parts[0].text
    assert text_of(done).endswith("tea: ordered")
