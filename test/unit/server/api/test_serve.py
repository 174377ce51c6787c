"""`operad serve` on a port of this machine: the openai client, an MCP client, plain HTTP, and whoever means harm."""

import asyncio
import json
import logging
import threading
from contextlib import AsyncExitStack, nullcontext
from itertools import product
from typing import Any

import httpx2
import pytest
from mcp import Client as McpClient
from mcp.client.streamable_http import streamable_http_client
from openai import APIError, BadRequestError, InternalServerError, NotFoundError
from serving import HELLO, Code, echo, offered, order, served, words

from operad.configs.runnable import Source
from operad.evaluators import Evaluator
from operad.operators import OperatorConfig
from operad.runtime import Action, Model, MonoModelReasoner, Policy, Retry, RunContext, Tool, Workflow, events
from operad.runtime.agents.agent import Expert, Profile
from operad.runtime.testing import BreakOff, Fail, Say, ScriptedModel, ScriptedReasoner
from operad.runtime.values.errors import InputError
from operad.runtime.values.fault import Fault
from operad.runtime.values.message import WorkflowMessage, WorkflowStatus
from operad.server.api.app import Serving
from operad.server.api.event_log import EventLog
from operad.server.api.experts import Offer, by_name, offers_of
from operad.server.http.bounds import Bounds

Client: Any = McpClient
KEY = "a-key-of-many-characters"


def faults(caplog):
    return [record for record in caplog.records if record.levelno >= logging.ERROR]


async def events_of(response):
    """The events of a stream: number, type, data."""
    text = (await response.aread()).decode()
    blocks = [
        dict(line.split(": ", 1) for line in block.splitlines()) for block in text.split("\n\n") if "data: " in block
    ]
    return [(int(block["id"]), block["event"], json.loads(block["data"])) for block in blocks]


# As a chat model


async def test_an_expert_is_a_model_that_answers():
    with ScriptedModel([Say("Good day to you.")]) as model:
        async with (
            served(offered(words(), name="Greeter", reasoner=MonoModelReasoner(model.model))) as here,
            here.openai() as client,
        ):
            assert [each.id async for each in client.models.list()] == ["Greeter"]
            assert (await client.models.retrieve("Greeter")).owned_by == "operad"
            said = await client.chat.completions.create(
                model="Greeter",
                messages=[{"role": "system", "content": "Be polite."}, {"role": "user", "content": [{"type": "text", "text": "Hello"}]}],
                temperature=0.1,
            )  # fmt: skip
    assert said.choices[0].message.content == "Good day to you."
    assert said.choices[0].finish_reason == "stop"
    assert (said.usage.completion_tokens, said.usage.total_tokens) == (4, said.usage.prompt_tokens + 4)
    assert said.operad["status"] == "SUCCESS"
    prompt = json.dumps(model.requests[0]["messages"])
    assert "Hello" in prompt
    assert "## Context\\nBe polite." in prompt


async def test_words_are_streamed_as_they_come_and_add_up_to_the_answer():
    spoken, released = threading.Event(), threading.Event()

    def wait(_):
        spoken.set()
        assert released.wait(30)
        return Say("done")

    first = Say("These are five little words.")
    with ScriptedModel([first, wait]) as model:
        reasoner = MonoModelReasoner(model.model)
        chain = offered(words("one"), name="Words", reasoner=reasoner)
        async with served(chain) as here, here.openai() as client:
            stream = await client.chat.completions.create(
                model="Words", messages=[HELLO], stream=True, stream_options={"include_usage": True}
            )
            chunks = [chunk async for chunk in stream]
            released.set()
            again = await client.chat.completions.create(model="Words", messages=[HELLO])
    pieces = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices and chunk.choices[0].delta.content]
    assert pieces == ["These ", "are ", "five ", "little ", "words."]
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    assert chunks[-1].usage.completion_tokens == 5
    assert len({chunk.id for chunk in chunks}) == 1
    assert again.choices[0].message.content == "done"


async def test_words_come_before_the_run_has_ended():
    go_on = asyncio.Event()

    class Slow(MonoModelReasoner):
        async def infer(self, task):
            events.emit(events.TokenStreamed(text="First, "))
            await go_on.wait()
            events.emit(events.TokenStreamed(text="then."))
            return "First, then."

    async with served(offered(words(), reasoner=Slow("embedded"))) as here, here.openai() as client:
        heard = []
        async for chunk in await client.chat.completions.create(model="Expert", messages=[HELLO], stream=True):
            heard.append(chunk.choices[0].delta.content)
            if heard[-1] == "First, ":
                go_on.set()
    assert "".join(filter(None, heard)) == "First, then."


async def test_an_answer_that_begins_anew_is_an_error_once_a_part_was_sent_and_goes_on_where_it_can():
    retrying = Policy(retry=Retry(attempts=2, first_delay=0.01))
    for second, wanted in (("One two three.", None), ("Four.", "begin|began anew")):
        with ScriptedModel([BreakOff(8, "One two three."), Say(second)]) as model:
            offer = offered(words(), reasoner=MonoModelReasoner(model.model), policy=retrying)
            async with served(offer) as here, here.openai() as client:
                heard = []
                with pytest.raises(APIError, match=wanted) if wanted else nullcontext():
                    async for chunk in await client.chat.completions.create(
                        model="Expert", messages=[HELLO], stream=True
                    ):
                        heard.append(chunk.choices[0].delta.content or "")
        assert "".join(heard) == ("One two " if wanted else "One two three.")


def test_whose_words_are_the_answer_is_known_only_where_nothing_can_take_them_back():
    async def tool():
        """Do nothing."""

    judge = Evaluator(OperatorConfig(id="judge", instruction="Judge."))
    able = MonoModelReasoner(Model(name="m"))
    without_calls = MonoModelReasoner(Model(name="m", tools="constrained"))

    def judged(rounds):
        offer = offered(words(), reasoner=able, max_rounds=rounds)
        offer.agent.workflow.set_evaluator(judge)
        return offer

    two = offered(words("one"), reasoner=able)
    two.agent.workflow.add_operator(words("two"))
    told = {
        "one": offered(words(), reasoner=able),
        "the last of two": offered(words("first"), words(), reasoner=able),
        "judged in one round": judged(1),
        "judged in more": judged(2),
        "two tails": two,
        "a form": offered(words(output_schema="{a: string}"), reasoner=able),
        "tools": offered(words(actions=[Action(name="act", tools=(Tool.of(tool),))]), reasoner=able),
        "tools of its own": offered(words(tools=[tool]), reasoner=able),
        "tools by a schema": offered(words(tools=[tool]), reasoner=without_calls),
        "code": offered(Code(echo), reasoner=able),
        "another reasoner": offered(words()),
    }
    live = {name for name, offer in told.items() if offer.answer_stream().is_live}
    assert live == {"one", "the last of two", "judged in one round", "tools", "tools of its own"}


async def test_what_cannot_stream_comes_at_the_end_in_pieces():
    async with served(offered(Code(echo))) as here, here.openai() as client:
        stream = await client.chat.completions.create(model="Expert", messages=[HELLO], stream=True)
        heard = [chunk.choices[0].delta.content or "" async for chunk in stream]
    assert "".join(heard) == "Hello||{}"


async def test_of_wrong_items_of_a_list_the_first_is_named():
    """A list may have a million items, and naming them all would hold up all other requests for seconds."""
    async with served(offered(Code(echo))) as here:
        for path, body in [
            ("chat/completions", {"messages": [1] * 9}),
            ("chat/completions", {"messages": [{"role": "user", "content": [{}] * 9}]}),
            ("responses", {"input": [1] * 9}),
            ("responses", {"input": [{"role": "user", "content": [1] * 9}]}),
        ]:
            reply = await here.http.post(f"/v1/{path}", json={"model": "Expert", **body})
            assert reply.status_code == 400
            assert ".1" not in reply.json()["error"]["message"]  # the place of the second item


async def test_what_no_expert_does_is_refused_in_words():
    async with served(offered(Code(echo))) as here, here.openai() as client:
        for request_, wanted in [
            ({"model": "Exprt"}, "did you mean 'Expert'"),
            ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}]}, r"messages\[0\]\.content\[0\]: is 'image_url'"),
            ({"messages": [{"role": "system", "content": "x"}]}, "none of the role 'user' has text"),
            ({"messages": []}, "must not be empty"),
            ({"n": 2}, "n: one answer is given"),
            ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools: .* leave it out"),
            ({"response_format": {"type": "json"}}, r"response_format\.type: .*json_object"),
            ({"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "objekt"}}}}, r"response_format\.json_schema\.schema: .*objekt"),
            ({"n": 2, "tools": [{}], "functions": [{}], "response_format": {"type": "json_schema"}, "logprobs": True, "messages": [{"role": "user", "content": [{"type": "image_url"}, {"type": "file"}]}]},
             r"7 issues\n  n: .*\n  tools: .*\n  functions: .*\n  response_format.json_schema: .*\n  logprobs: .*\n  messages\[0\].content\[0\]: .*\n  messages\[0\].content\[1\]: "),
        ]:  # fmt: skip
            with pytest.raises(NotFoundError if "model" in request_ else BadRequestError, match=wanted) as refused:
                await client.chat.completions.create(**{"model": "Expert", "messages": [HELLO], **request_})
            body: Any = refused.value.body
            assert body.keys() == {"message", "type", "param", "code"}


async def test_a_run_that_fails_is_an_error_and_the_client_does_not_pay_for_another():
    with ScriptedModel([Fail(400, "no")]) as model:
        async with served(offered(words(), reasoner=MonoModelReasoner(model.model))) as here, here.openai() as client:
            with pytest.raises(InternalServerError, match=r"failed: operator 'words'") as failed:
                await client.chat.completions.create(model="Expert", messages=[HELLO])
    assert (failed.value.status_code, failed.value.code) == (502, "run_failed")


async def test_a_run_that_fails_in_a_stream_ends_it_with_an_error():
    with ScriptedModel([Fail(400, "no")]) as model:
        async with served(offered(words(), reasoner=MonoModelReasoner(model.model))) as here, here.openai() as client:
            with pytest.raises(APIError, match=r"failed: operator 'words'"):
                async for _ in await client.chat.completions.create(model="Expert", messages=[HELLO], stream=True):
                    pass


@pytest.mark.parametrize("stream", [False, True])
async def test_a_question_is_what_the_assistant_says_and_the_next_message_answers_it(stream):
    async with served(offered(Code(order))) as here, here.openai() as client:
        talk = [{"role": "user", "content": "two figs"}]
        said = []
        for answer in ("maybe", "yes", None):
            reply = await client.chat.completions.create(model="Expert", messages=talk, stream=stream)
            text = (
                "".join([c.choices[0].delta.content or "" async for c in reply])
                if stream
                else reply.choices[0].message.content
            )
            said.append(text)
            talk += [{"role": "assistant", "content": text}, {"role": "user", "content": answer}]
        known = (await here.http.get("/runs")).json()["runs"]
        again = await client.chat.completions.create(model="Expert", messages=talk[:-2])
        fresh = await client.chat.completions.create(
            model="Expert", messages=[*talk[:-1], {"role": "user", "content": "a ship"}]
        )
        await here.http.delete(f"/runs/{known[0]['id']}")
        with pytest.raises(NotFoundError, match="no run has the id"):
            await client.chat.completions.create(model="Expert", messages=talk[:-2])
    assert said[0].startswith("Order two figs? (yes or no)\n\n(run ")
    assert said[1].startswith("'maybe' is not of type 'boolean'; try again\n\nOrder two figs?")
    assert said[2] == "two figs: ordered"
    assert [run["state"] for run in known] == ["finished"]
    assert again.choices[0].message.content == "two figs: ordered"  # asked twice, done once
    assert fresh.choices[0].message.content.startswith("Order a ship?")


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_leaves_ends_its_run(stream):
    began, ended = asyncio.Event(), asyncio.Event()

    async def hang(job):
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with served(offered(Code(hang))) as here:
        asking = {"model": "Expert", "messages": [HELLO], "stream": stream}
        leaving = asyncio.ensure_future(here.http.post("/v1/chat/completions", json=asking))
        await began.wait()
        leaving.cancel()
        await ended.wait()
        (run,) = (await here.http.get("/runs")).json()["runs"]
        run = await here.ended(run["id"])
    assert (run["state"], run["error"]) == ("cancelled", "was cancelled, because the client disconnected")


# As plain HTTP


async def test_the_goal_of_a_run_may_be_called_job_as_on_the_command_line_and_has_one_of_both_names():
    async with served(offered(Code(echo))) as here:
        begun = await here.http.post("/runs", json={"expert": "Expert", "job": "g"})
        assert (begun.status_code, begun.json()["goal"]) == (202, "g")
        both = await here.http.post("/runs", json={"expert": "Expert", "job": "g", "goal": "g"})
    assert (both.status_code, both.json()["error"]["message"]) == (400, "body.job: give goal or job, not both")


async def test_a_job_that_cannot_start_is_refused_before_it_has_a_run():
    def count(claim: str) -> str:
        return claim

    def look(context: RunContext[list[str]]) -> str:
        return context.deps[0]

    flows = {"Count": Workflow(count, engine="builtin"), "Look": Workflow(look, engine="builtin")}
    offers = [
        Offer(Expert(Profile(name=name), flow, ScriptedReasoner("said")), Source(file="x.yaml"))
        for name, flow in flows.items()
    ]
    async with served(*offers) as here, Client(f"{here.url}/mcp") as mcp:
        misspelt = await here.http.post("/runs", json={"expert": "Count", "inputs": {"clam": "c"}})
        without_deps = await here.http.post("/runs", json={"expert": "Look", "goal": "g", "id": "r"})
        called = await mcp.call_tool("Count", {"goal": "g", "inputs": {"clam": "c"}})
        known = (await here.http.get("/runs")).json()["runs"]
    assert misspelt.status_code == 400
    assert "no operator reads these inputs of the job: 'clam' (did you mean 'claim'?)" in misspelt.text
    assert (without_deps.status_code, "operator 'look' takes deps" in without_deps.text) == (400, True)
    assert (called.is_error, "'clam' (did you mean 'claim'?)" in called.content[0].text) == (True, True)
    assert known == []


async def test_other_answers_for_the_id_of_a_known_run_are_refused():
    asked = {"expert": "Expert", "goal": "figs", "id": "r", "answers": {"code": True}}
    async with served(offered(Code(order))) as here:
        codes = [(await here.http.post("/runs", json=asked)).status_code]
        codes += [
            (await here.http.post("/runs", json={**asked, "answers": given})).status_code
            for given in ({"code": True}, {})
        ]
        other = await here.http.post("/runs", json={**asked, "answers": {"code": False}})
        run = await here.until("r", "finished")
        more = await here.http.post("/runs", json={**asked, "answers": {"code": True, "code#2": True}})
    assert codes == [202, 200, 200]
    assert [(each.status_code, each.json()["error"]["param"]) for each in (other, more)] == [(409, "answers")] * 2
    assert "begun without these answers: 'code#2'; answer its questions" in more.text
    assert run["result"] == "figs: ordered"


async def test_a_run_is_begun_followed_and_its_result_fetched():
    async with served(offered(Code(echo))) as here:
        begun = await here.http.post(
            "/runs", json={"expert": "Expert", "goal": "g", "context": "c", "inputs": {"n": 1}}
        )
        assert (begun.status_code, begun.json()["state"]) == (202, "running")
        where = begun.headers["location"]
        async with here.http.stream("GET", f"{where}/events") as following:
            seen = await events_of(following)
        run = (await here.http.get(where)).json()
        listed = (await here.http.get("/runs?limit=1")).json()["runs"]
        experts = (await here.http.get("/experts")).json()["experts"]
    assert [number for number, *_ in seen] == [*range(1, len(seen)), len(seen) - 1]
    assert [name for _, name, _ in seen][-2:] == ["RunFinished", "ended"]
    assert seen[-1][2] == {"id": run["id"], "state": "finished"}
    assert (run["result"], run["status"], run["error"]) == ('g|c|{"n": 1}', "SUCCESS", "")
    assert [each["id"] for each in listed] == [run["id"]]
    assert experts == [{"name": "Expert", "description": "It is Expert.", "leader": False, "operators": ["code"], "inputs": None, "defaults": {}, "opening": "", "questions": []}]  # fmt: skip


async def test_a_stream_of_events_goes_on_after_the_last_one_that_was_seen():
    go_on = asyncio.Event()

    async def wait(job):
        await go_on.wait()
        return "done"

    async with served(offered(Code(wait))) as here:
        await here.http.post("/runs", json={"expert": "Expert", "goal": "", "id": "r"})
        first = []
        async with here.http.stream("GET", "/runs/r/events") as following:
            async for line in following.aiter_lines():
                first += [int(line[4:])] if line.startswith("id: ") else []
                if "OperatorStarted" in line and line.startswith("data"):
                    break
        go_on.set()
        async with here.http.stream("GET", "/runs/r/events", headers={"Last-Event-ID": str(first[-1])}) as following:
            rest = await events_of(following)
        after = await here.http.get("/runs/r/events", headers={"Last-Event-ID": str(rest[-1][0])})
        wrong = await here.http.get("/runs/r/events", headers={"Last-Event-ID": "soon"})
    assert first == [1, 2, 3]
    assert [number for number, *_ in rest][:-1] == list(range(4, rest[-1][0] + 1))
    assert after.status_code == 204  # which tells an EventSource to come no more
    assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, "header.last-event-id")


async def test_of_dropped_events_it_is_said_which_are_missing():
    log = EventLog(most=3, most_bytes=10_000)
    for seq in range(1, 8):
        log.add(events.OperatorStarted(seq=seq))
    log.close()
    seen = [(entry.name, entry.number, json.loads(entry.data)) async for entry in log.follow(after=2) if entry]
    assert [(name, number) for name, number, _ in seen] == [
        ("EventsMissed", 4),
        *(("OperatorStarted", n) for n in (5, 6, 7)),
    ]
    assert seen[0][2] == {"event": "EventsMissed", "first": 3, "last": 4}
    small = EventLog(most=100, most_bytes=300)
    for seq in range(1, 8):
        small.add(events.TokenStreamed(text="x" * 200, seq=seq))
    small.close()
    assert [entry.number async for entry in small.follow(after=6) if entry] == [7]


async def test_a_question_is_answered_over_http():
    async with served(offered(Code(order, "shop#1/é"))) as here:
        begun = (await here.http.post("/runs", json={"expert": "Expert", "goal": "figs"})).json()
        run = await here.until(begun["id"], "asks")
        (question,) = run["questions"]
        at = f"/runs/{run['id']}/answers/"
        wrong = await here.http.post(f"{at}shop%231/%C3%A9", json={"answer": "perhaps"})
        other = await here.http.post(f"{at}shp", json={"answer": True})
        right = await here.http.post(f"{at}shop%231/%C3%A9", json={"answer": True})
        run = await here.ended(run["id"])
        late = await here.http.post(f"{at}shop%231/%C3%A9", json={"answer": True})
    assert question == {"id": "shop#1/é", "text": "Order figs?", "form": {"type": "boolean"}}
    assert (wrong.status_code, other.status_code, right.status_code, late.status_code) == (400, 404, 200, 409)
    assert "'perhaps' is not of type 'boolean'" in wrong.json()["error"]["message"]
    assert "open questions: shop#1/é" in other.json()["error"]["message"]
    assert run["result"] == "figs: ordered"


async def test_the_usage_of_a_run_that_asks_covers_the_models_called_so_far():
    with ScriptedModel(lambda request: Say("figs")) as model:
        offer = offered(words(), Code(order), reasoner=MonoModelReasoner(model.model))
        async with served(offer) as here, here.openai() as client:
            chat = await client.chat.completions.create(model="Expert", messages=[HELLO])
            response = await client.responses.create(model="Expert", input="Hello")
            begun = (await here.http.post("/runs", json={"expert": "Expert", "goal": "figs"})).json()
            run = await here.until(begun["id"], "asks")
            (question,) = run["questions"]
            await here.http.post(f"/runs/{run['id']}/answers/{question['id']}", json={"answer": True})
            ended = await here.ended(run["id"])
    assert chat.usage.completion_tokens > 0
    assert response.usage.output_tokens > 0
    assert run["usage"] == ended["usage"]
    assert run["usage"]["calls"] == 1


async def test_faults_of_a_body_are_in_words_with_near_names():
    async with served(offered(Code(echo))) as here:
        for path, body, faults in [
            ("/runs", '{"expert": "Expert", "gaol": "x"}', ["body.gaol: there is no such field (did you mean 'goal'?)"]),
            ("/runs", '{"expert": "Expert", "goal": "x", "id": "a b"}', ["body.id: takes letters, digits, _, - and ., and begins with a letter, a digit or _"]),
            ("/runs", "[]", ["body: must be a mapping of keys to values", "body: send a JSON object with expert, and the header Content-Type: application/json"]),
            ("/runs", '{"expert": x}', ["body: is not JSON (character 12)", "body: send a JSON object with expert, and the header Content-Type: application/json"]),
            ("/runs/x/answers/y", '{"anser": 1}', ["body.answer: is missing", "body.anser: there is no such field (did you mean 'answer'?)"]),
            ("/v1/chat/completions", '{"model": "m", "mesages": []}', ["body.messages: is missing; there is no field 'mesages' (did you mean 'messages'?)"]),
            ("/v1/chat/completions", '{"model": "m", "messages": []}', ["body.messages: must not be empty"]),
            ("/v1/chat/completions", '{"model": "m", "messages": [{"role": "usr"}]}', ["body.messages.0.role: must be 'system', 'developer', 'user', 'assistant' or 'tool' (did you mean 'user'?)"]),
            ("/v1/responses", '{"model": "m", "input": 3}', ["body.input: must be text", "body.input: must be a list"]),
            ("/v1/responses", '{"model": "m", "input": {"a": 3}}', ["body.input: must be text", "body.input: must be a list"]),
            ("/v1/responses", '{"model": "m", "input": [{"type": "x", "role": 1}, 3]}', ["body.input.1: must be a mapping of keys to values"]),
        ]:  # fmt: skip
            reply = await here.http.post(path, content=body, headers={"Content-Type": "application/json"})
            assert reply.status_code == 400
            head = [f"the request: {len(faults)} issues"] if len(faults) > 1 else []
            assert reply.json()["error"]["message"].split("\n  ") == head + faults


async def test_answers_may_be_given_beforehand_and_a_wrong_one_ends_the_run():
    async with served(offered(Code(order))) as here:
        runs = []
        for answer in (False, "perhaps"):
            asked = {"expert": "Expert", "goal": "figs", "answers": {"code": answer}}
            runs.append(await here.ended((await here.http.post("/runs", json=asked)).json()["id"]))
    assert [run["result"] for run in runs] == ["figs: left", ""]
    assert runs[1]["state"] == "failed"
    assert "answers.code: the answers: 1 issue" in runs[1]["error"]


async def test_answers_that_no_question_used_are_listed_once_the_run_has_ended():
    async with served(offered(Code(order))) as here:
        asked = {"expert": "Expert", "goal": "figs", "answers": {"code": True, "cod": True, "other": 3}}
        begun = (await here.http.post("/runs", json=asked)).json()
        ended = await here.ended(begun["id"])
    assert begun["unused_answers"] == []
    assert (ended["result"], ended["unused_answers"]) == ("figs: ordered", ["cod", "other"])


async def test_a_run_is_ended_and_forgotten():
    ended = asyncio.Event()

    async def hang(job):
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with served(offered(Code(hang))) as here:
        await here.http.post("/runs", json={"expert": "Expert", "goal": "", "id": "r"})
        async with here.http.stream("GET", "/runs/r/events") as following:
            cancelled = await here.http.post("/runs/r/cancel")
            seen = await events_of(following)
        again = await here.http.post("/runs/r/cancel")
        gone = [(await here.http.delete("/runs/r")).status_code, (await here.http.get("/runs/r")).status_code]
    assert ended.is_set()
    assert (cancelled.json()["state"], cancelled.json()["error"]) == ("cancelled", "was cancelled")
    assert again.json() == cancelled.json()
    assert seen[-1][2]["state"] == "cancelled"
    assert gone == [204, 404]


async def test_the_same_id_is_the_same_run():
    ran = []

    async def once(job):
        ran.append(job.goal)
        return "done"

    async with served(offered(Code(once))) as here:
        asked = {"expert": "Expert", "goal": "g"}
        said = await asyncio.gather(
            *(here.http.post("/runs", json=asked, headers={"Idempotency-Key": "k"}) for _ in range(5))
        )
        by_body = await here.http.post("/runs", json={**asked, "id": "k"})
        other = await here.http.post("/runs", json={**asked, "goal": "h", "id": "k"})
        both = await here.http.post("/runs", json={**asked, "id": "j"}, headers={"Idempotency-Key": "k"})
        await here.ended("k")
    assert sorted(each.status_code for each in said) == [200, 200, 200, 200, 202]
    assert (by_body.status_code, other.status_code, both.status_code) == (200, 409, 409)
    assert "was begun with another goal" in other.json()["error"]["message"]
    assert ran == ["g"]


async def test_whatever_a_run_says_the_answer_is_json():
    async def odd(job):
        return WorkflowMessage(scratchpad="\ud800", outputs={"odd": object(), "nan": float("nan"), "bytes": b"\xff"})

    async with served(offered(Code(odd))) as here, here.openai() as client:
        begun = await here.http.post("/runs", json={"expert": "Expert", "goal": "g"})
        run = await here.ended(begun.json()["id"])
        async with here.http.stream("GET", f"/runs/{run['id']}/events") as following:
            seen = await events_of(following)
        chat = await client.chat.completions.create(model="Expert", messages=[HELLO])
        async with Client(f"{here.url}/mcp") as mcp:
            called = await mcp.call_tool("Expert", {"goal": "g"})
    assert (run["result"], run["outputs"]["nan"]) == ("\ud800", None)
    assert seen[-1][1] == "ended"
    assert chat.choices[0].message.content == "\ud800"
    assert called.content[0].text == "\\ud800"


async def test_inputs_with_defaults_may_be_left_out_and_a_goal_without_inputs_too(tmp_path):
    """The goal is the only input without a default; inputs need no goal; a tool's schema tells what is needed."""
    file = tmp_path / "flow.yaml"
    variables = "[[text, string], [language, string], [count, number]]"
    file.write_text(FLOW.replace("[[text, string]]", f"{variables}, defaults: {{language: en, count: null}}"))
    (offer,) = offers_of(Source(file=str(file)))
    (tmp_path / "two.yaml").write_text(FLOW.replace("[[text, string]]", "[[text, string], [paper, file], [n, number]]"))
    (two,) = offers_of(Source(file=str(tmp_path / "two.yaml")))
    (tmp_path / "all.yaml").write_text(FLOW.replace("string]]", "string]], defaults: {text: hi}"))
    (all_given,) = offers_of(Source(file=str(tmp_path / "all.yaml")))
    names = [offer.agent.profile.name, two.agent.profile.name]
    async with served(offer, two, offered(Code(echo)), all_given) as here, here.openai() as client:
        said = await client.chat.completions.create(model=names[0], messages=[HELLO])
        begun = await here.http.post("/runs", json={"expert": names[0], "inputs": {"text": "t"}})
        run = await here.ended(begun.json()["id"])
        assert begun.headers["location"] == f"runs/{run['id']}"  # relative to /runs, also behind the prefix of a proxy
        experts = (await here.http.get("/experts")).json()["experts"]
        empty = await here.http.post("/runs", json={"expert": "Expert"})
        with pytest.raises(
            BadRequestError, match=r"'n' \(number\) is missing; .*; POST /runs and the MCP tool take `inputs`"
        ):
            await client.chat.completions.create(model=names[1], messages=[HELLO])
        async with Client(f"{here.url}/mcp") as mcp:
            schemas = [tool.input_schema for tool in (await mcp.list_tools()).tools[:4]]
            called = await mcp.call_tool("two_yaml", {"inputs": {"text": "t", "paper": None, "n": 2}})
            by_default = await mcp.call_tool("all_yaml", {})
    assert (said.choices[0].message.content, run["result"], called.content[0].text) == ("Hello", "t", "t")
    assert by_default.content[0].text == "hi"
    assert list(by_default.structured_content.values()) == ["hi"]
    assert [each["operators"] for each in experts] == [["1", "2"], ["1", "2"], ["code"], ["1", "2"]]
    assert [each["defaults"] for each in experts] == [{"language": "en", "count": None}, {}, {}, {"text": "hi"}]
    assert (empty.status_code, empty.json()["error"]["message"]) == (
        400,
        "goal: is missing; give the task, or inputs",
    )
    assert [schema["required"] for schema in schemas] == [["goal"], ["inputs"], ["goal"], []]
    assert [schema["properties"]["inputs"].get("required") for schema in schemas] == [
        ["text"],
        ["text", "paper", "n"],
        None,
        [],
    ]
    assert schemas[1]["properties"]["inputs"]["properties"] == {
        "text": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "paper": {"type": "null", "description": "A file, which cannot be given here."},
        "n": {"anyOf": [{"type": "number"}, {"type": "null"}]},
    }


# As an MCP server


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_an_expert_is_an_mcp_tool_that_tells_how_far_it_is(mode):
    told = []

    async def progress(done, total, message):
        told.append((done, message))

    offers = [offered(Code(echo), name=name) for name in ("An expert", "An.expert")]
    async with served(*offers) as here, Client(f"{here.url}/mcp", mode=mode) as mcp:
        tools = (await mcp.list_tools()).tools
        done = await mcp.call_tool("An_expert", {"goal": "g", "inputs": {"n": 1}}, progress_callback=progress)
        wrong = await mcp.call_tool("An_expert", {"gaol": "g", "context": 7})
        missing = await mcp.call_tool("An_expert", {"inputs": {"n": 1}})
        nobody = await mcp.call_tool("An_exprt", {"goal": "g"})
    assert [tool.name for tool in tools] == ["An_expert", "An_expert_2", "answer_question"]
    assert tools[0].description == "It is An expert."
    assert (done.content[0].text, done.is_error) == ('g||{"n": 1}', False)
    assert told == [(1, "code runs"), (2, "code has finished")]
    faults = "context: must be text; gaol: there is no such field (did you mean 'goal'?)"
    assert (wrong.is_error, wrong.content[0].text) == (True, f"the arguments of 'An_expert': {faults}")
    assert (missing.is_error, "goal: is missing" in missing.content[0].text) == (True, True)
    assert (nobody.is_error, "did you mean 'An_expert'" in nobody.content[0].text) == (True, True)


@pytest.mark.parametrize("used_before", [False, True])
async def test_an_mcp_request_during_the_shutdown_is_refused(caplog, used_before):
    async with served(offered(Code(echo))) as here:
        if used_before:
            await here.http.post("/mcp", json={})
        await here.serving.drain(0)
        late = await here.http.post("/mcp", json={})
    assert (late.status_code, late.headers["retry-after"]) == (503, "30")
    assert "the server is shutting down" in late.text
    assert not faults(caplog)


async def test_an_mcp_session_that_is_idle_is_closed():
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client}
    accept = {"Accept": "application/json, text/event-stream"}
    assert Bounds().session_seconds == 300
    async with served(offered(Code(echo)), bounds=Bounds(session_seconds=0.01)) as here:
        begun = await here.http.post("/mcp", json=begin, headers=accept)
        session = {**accept, "Mcp-Session-Id": begun.headers["mcp-session-id"]}
        ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        while (answer := await here.http.post("/mcp", json=ping, headers=session)).status_code != 404:
            await asyncio.sleep(0.05)
    assert begun.status_code == 200
    assert "error" in answer.json()


@pytest.mark.parametrize("said", [True, "yes"])
async def test_a_question_of_a_tools_run_is_answered_by_another_tool(said):
    async with served(offered(Code(order))) as here, Client(f"{here.url}/mcp") as mcp:
        asked = (await mcp.call_tool("Expert", {"goal": "figs"})).content[0].text
        (run,) = (await here.http.get("/runs")).json()["runs"]
        answer = {"run_id": run["id"], "question_id": "code", "answer": said}
        wrong = await mcp.call_tool("answer_question", {**answer, "answer": "perhaps"})
        done = await mcp.call_tool("answer_question", answer)
    assert f"Run {run['id']} waits for answers" in asked
    assert "code: Order figs? (yes or no)" in asked
    assert (wrong.is_error, "not of type 'boolean'" in wrong.content[0].text) == (True, True)
    assert done.content[0].text == "figs: ordered"


async def test_a_call_of_a_tool_that_is_given_up_ends_its_run():
    began, ended = asyncio.Event(), asyncio.Event()

    async def hang(job):
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with served(offered(Code(hang))) as here, Client(f"{here.url}/mcp") as mcp:
        calling = asyncio.ensure_future(mcp.call_tool("Expert", {"goal": "g"}))
        await began.wait()
        calling.cancel()
        await asyncio.wait_for(ended.wait(), 30)


async def test_a_run_that_fails_and_one_that_is_judged_badly_are_errors_of_the_tool():
    async def fail(job):
        raise InputError("no figs")

    async def bad(job):
        return WorkflowMessage(
            scratchpad="figs?", status=WorkflowStatus.INPUT_DATA_ERROR, evaluation="No figs.", lesson="Buy figs."
        )

    async with served(offered(Code(fail)), offered(Code(bad), name="Bad")) as here, Client(f"{here.url}/mcp") as mcp:
        failed = await mcp.call_tool("Expert", {"goal": "g"})
        judged = await mcp.call_tool("Bad", {"goal": "g"})
    assert (failed.is_error, "no figs" in failed.content[0].text) == (True, True)
    assert (judged.is_error, judged.content[0].text) == (
        True,
        "figs?\n\nThe result was rejected: No figs. (INPUT_DATA_ERROR)\nBuy figs.",
    )


# Keys, hosts, bounds


async def test_nobody_comes_in_without_a_key(caplog):
    caplog.set_level(logging.DEBUG)
    async with served(offered(Code(echo)), keys=["another-key-of-this-server", KEY], hosts=None) as here:
        for headers in (
            {},
            {"Authorization": "Bearer wrong"},
            {"Authorization": f"Basic {KEY}"},
            {"Authorization": KEY},
        ):
            for method, path in (("GET", "/runs"), ("GET", "/openapi.json"), ("POST", "/mcp"), ("GET", "/nowhere")):
                refused = await here.http.request(method, path, headers=headers)
                assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
        let_in = await here.http.get("/runs", headers={"Authorization": f"Bearer {KEY}"})
        health = await here.http.get("/healthz")
        async with here.openai(KEY) as client:
            said = await client.chat.completions.create(model="Expert", messages=[HELLO])
        async with (
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {KEY}"}) as http,
            Client(streamable_http_client(f"{here.url}/mcp", http_client=http)) as mcp,
        ):
            assert len((await mcp.list_tools()).tools) == 2
    assert (let_in.status_code, health.json()) == (200, {"status": "ok", "stuck": []})
    assert said.choices[0].message.content == "Hello||{}"
    assert KEY not in "".join(record.getMessage() for record in caplog.records if record.name != "openai._base_client")


def test_a_server_that_any_host_may_name_needs_keys():
    with pytest.raises(InputError, match="needs keys"):
        Serving({}, hosts=None)


async def test_a_web_page_begins_no_runs():
    """A name that leads here (DNS rebinding), a form of another page, a page in a frame."""
    async with served(offered(Code(echo))) as here:
        asked = {"expert": "Expert", "goal": "g"}
        port = here.url.rpartition(":")[2]
        statuses = []
        for headers in (
            {"Host": "evil.example"},
            {"Host": f"evil.example:{port}"},
            {"Host": "127.0.0.1.evil.example"},
            {"Host": "evil.example:127.0.0.1"},
            {"Host": ""},
            {"Origin": "http://evil.example"},
            {"Origin": "http://localhost:1"},
            {"Origin": "null"},
            {"Origin": f"http://127.0.0.1:{port}.evil.example"},
        ):
            refused = [
                await here.http.post("/runs", json=asked, headers=headers),
                await here.http.post(
                    "/v1/chat/completions", json={"model": "Expert", "messages": [HELLO]}, headers=headers
                ),
                await here.http.post("/mcp", json={}, headers=headers),
            ]
            statuses += [each.status_code for each in refused]
        form = await here.http.post("/runs", content=json.dumps(asked), headers={"Content-Type": "text/plain"})
        known = (await here.http.get("/runs", headers={"Host": f"localhost:{port}"})).json()
        own = await here.http.get("/runs", headers={"Origin": here.url})
    assert set(statuses) <= {400, 403}
    assert statuses.count(403) >= len(statuses) - 3  # an empty Host may be refused earlier
    assert (form.status_code, own.status_code) == (400, 200)
    assert known == {"runs": []}


async def test_a_body_that_is_too_large_or_too_slow_is_refused():
    async def chunks():
        for _ in range(100):
            yield b"x" * 1_000

    async with served(offered(Code(echo)), bounds=Bounds(body=10_000, body_seconds=0.2)) as here:
        told = await here.http.post("/runs", json={"expert": "Expert", "goal": "x" * 20_000})
        untold = await here.http.post("/mcp", content=chunks(), headers={"Content-Type": "application/json"})
        reader, writer = await asyncio.open_connection("127.0.0.1", int(here.url.rpartition(":")[2]))
        writer.write(b"POST /runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        slow = await reader.read()
        writer.close()
    assert (told.status_code, untold.status_code) == (413, 413)
    assert "10,000 bytes" in told.json()["error"]["message"]
    assert slow.startswith(b"HTTP/1.1 408")


HOSTILE = [
    b"", b"[]", b"null", b"{", b"\xff", b'{"expert": 1}', b"[" * 100_000, b'{"a":' * 50_000, b"9" * 10_000,
    b'{"expert": "Expert", "goal": "g", "inputs": {"n": ' + b"9" * 5_000 + b"}}",
    b'{"expert": "Expert", "goal": "g", "id": "../x"}',
    b'{"expert": "Expert", "goal": "g", "id": "a/b"}',
    b'{"expert": "Expert", "goal": "g", "id": ""}',
    b'{"expert": "Expert", "goal": "g", "surprise": 1}',
    b'{"expert": "Expert", "goal": null}',
]  # fmt: skip


async def test_a_hostile_body_is_refused_in_words(caplog):
    async with served(offered(Code(echo))) as here:
        for path, body in product(
            ("/runs", "/v1/chat/completions", "/v1/responses", "/runs/r/answers/q", "/mcp"), HOSTILE
        ):
            refused = await here.http.post(path, content=body, headers={"Content-Type": "application/json"})
            assert 400 <= refused.status_code < 500, (path, body[:60], refused.text)
            if path != "/mcp":
                assert refused.json()["error"]["message"]
        known = (await here.http.get("/runs")).json()["runs"]
    assert known == []
    assert faults(caplog) == []


async def test_odd_values_make_no_trouble(caplog):
    """NaN and half surrogate pairs, which Python's JSON takes."""
    async with served(offered(Code(echo))) as here:
        for body in (
            b'{"expert": "Expert", "goal": "\\ud800"}',
            b'{"expert": "Expert", "goal": "g", "inputs": {"n": NaN, "s": "\\ud800"}}',
            b'{"expert": "\\ud800", "goal": "g"}',
        ):
            said = await here.http.post("/runs", content=body, headers={"Content-Type": "application/json"})
            assert said.status_code in (202, 400, 404)
            said.json()
    assert faults(caplog) == []


async def test_more_runs_than_are_taken_on_come_later():
    async def hang(job):
        await asyncio.Event().wait()

    async with served(offered(Code(hang)), bounds=Bounds(runs=2)) as here:
        asked = {"expert": "Expert", "goal": ""}
        begun = [await here.http.post("/runs", json=asked) for _ in range(3)]
        chat = await here.http.post("/v1/chat/completions", json={"model": "Expert", "messages": [HELLO]})
        async with Client(f"{here.url}/mcp") as mcp:
            called = await mcp.call_tool("Expert", {"goal": ""})
        await here.http.post(f"/runs/{begun[0].json()['id']}/cancel")
        again = await here.http.post("/runs", json=asked)
    assert [each.status_code for each in begun] == [202, 202, 429]
    assert (chat.status_code, begun[2].headers["retry-after"], again.status_code) == (429, "5", 202)
    assert (called.is_error, "2 runs have not ended" in called.content[0].text) == (True, True)


async def test_a_run_that_takes_too_long_is_ended():
    async def hang(job):
        await asyncio.Event().wait()

    async with served(offered(Code(hang)), bounds=Bounds(seconds=0.1)) as here:
        run = await here.ended((await here.http.post("/runs", json={"expert": "Expert", "goal": ""})).json()["id"])
        chat = await here.http.post("/v1/chat/completions", json={"model": "Expert", "messages": [HELLO]})
        waiting = {"expert": "Expert", "goal": ""}
        assert (await here.http.post("/runs", json=waiting)).status_code == 202
    assert (run["state"], run["error"]) == ("cancelled", "took longer than the 0.1 s that a run may take here")
    assert (chat.status_code, chat.json()["error"]["code"], chat.headers["x-should-retry"]) == (
        504,
        "run_timeout",
        "false",
    )


async def test_runs_that_have_ended_are_forgotten_by_number_and_by_age():
    for bounds in (Bounds(kept=2), Bounds(kept_seconds=0)):
        async with served(offered(Code(echo)), bounds=bounds) as here:
            for number in range(4):
                await here.http.post("/runs", json={"expert": "Expert", "goal": "", "id": f"r{number}"})
                while (found := await here.http.get(f"/runs/r{number}")).is_success and found.json()[
                    "state"
                ] == "running":
                    await asyncio.sleep(0.01)
            left = sorted(run["id"] for run in (await here.http.get("/runs")).json()["runs"])
        assert left == (["r2", "r3"] if bounds.kept == 2 else [])


async def test_runs_that_have_ended_are_forgotten_by_what_they_hold_but_never_the_newest():
    listed: list[Any] = []
    async with served(offered(Code(echo)), bounds=Bounds(kept_bytes=300_000)) as here:
        for number, size in enumerate((20_000, 20_000, 10, 500_000)):
            asked = {"expert": "Expert", "goal": "x" * size, "id": f"r{number}"}
            await here.http.post("/runs", json=asked)
            await here.ended(f"r{number}")
            listed = (await here.http.get("/runs")).json()["runs"]
            if number == 2:
                assert [run["id"] for run in listed] == ["r2", "r1", "r0"]
        forgotten = await here.http.get("/runs/r0")
    assert [run["id"] for run in listed] == ["r3"]
    assert "or when these hold 300,000 bytes" in forgotten.json()["error"]["message"]


async def test_a_list_of_runs_has_neither_their_goals_nor_their_results():
    async with served(offered(Code(echo))) as here:
        await here.http.post("/runs", json={"expert": "Expert", "goal": "x" * 100_000, "id": "r"})
        run = await here.ended("r")
        listed = await here.http.get("/runs")
    assert listed.json() == {
        "runs": [
            {
                name: run[name]
                for name in ("id", "expert", "state", "created", "user", "started_by", "accepted", "status")
            }
        ],
    }
    assert (run["goal"], run["accepted"], run["status"]) == ("x" * 100_000, True, "SUCCESS")


async def test_a_rejected_run_has_its_faults():
    async def judged(job):
        fault = Fault(operator="code", wrong="174", right="149")
        status = WorkflowStatus.EXECUTION_ERROR
        return WorkflowMessage(
            scratchpad="174", status=status, evaluation="Wrong.", faults=(fault,), unsure=("The rate.",)
        )

    async with served(offered(Code(judged))) as here:
        await here.http.post("/runs", json={"expert": "Expert", "goal": "x", "id": "r"})
        run = await here.ended("r")
    assert (run["accepted"], run["status"], run["unsure"]) == (False, "EXECUTION_ERROR", ["The rate."])
    assert [(fault["operator"], fault["wrong"], fault["right"]) for fault in run["faults"]] == [("code", "174", "149")]


async def test_followers_and_requests_a_minute_are_bounded():
    async def hang(job):
        await asyncio.Event().wait()

    async with served(offered(Code(hang)), bounds=Bounds(followers=1, beat=0.01)) as here:
        await here.http.post("/runs", json={"expert": "Expert", "goal": "", "id": "r"})
        async with here.http.stream("GET", "/runs/r/events") as following:
            lines = following.aiter_lines()  # held, because the end of the iterator is the end of the connection
            async for line in lines:
                if line == ": waiting":
                    break
            assert (await here.http.get("/runs/r/events")).status_code == 429
        async with AsyncExitStack() as stack:
            for _ in range(100):
                following = await stack.enter_async_context(here.http.stream("GET", "/runs/r/events"))
                if following.status_code == 200:
                    break
                await asyncio.sleep(0.01)
            assert following.status_code == 200
    async with served(offered(Code(echo)), bounds=Bounds(requests_a_minute=3)) as here:
        said = [await here.http.get("/runs") for _ in range(4)]
        assert [each.status_code for each in said] == [200, 200, 200, 429]
        assert 0 < int(said[-1].headers["retry-after"]) <= 61
        assert (await here.http.get("/healthz")).status_code == 200


async def test_a_server_that_ends_finishes_what_it_can_and_begins_no_more():
    go_on, ended = asyncio.Event(), []

    async def work(job):
        try:
            await (go_on if job.goal == "short" else asyncio.Event()).wait()
        finally:
            ended.append(job.goal)
        return "done"

    async with served(offered(Code(work)), offered(Code(order), name="Shop")) as here:
        for goal in ("short", "long"):
            await here.http.post("/runs", json={"expert": "Expert", "goal": goal, "id": goal})
        await here.http.post("/runs", json={"expert": "Shop", "goal": "figs", "id": "figs"})
        await here.until("figs", "asks")
        draining = asyncio.ensure_future(here.serving.drain(0.5))
        while not here.serving.runs.ending:
            await asyncio.sleep(0)
        late = await here.http.post("/runs", json={"expert": "Expert", "goal": "late"})
        health = await here.http.get("/healthz")
        go_on.set()
        await draining
        states = {run["id"]: run["state"] for run in (await here.http.get("/runs")).json()["runs"]}
    assert (late.status_code, late.headers["retry-after"]) == (503, "30")
    assert (health.status_code, health.json()) == (503, {"status": "ending", "stuck": []})
    assert states == {"short": "finished", "long": "cancelled", "figs": "cancelled"}


# What is offered


FLOW = """
nodes:
  1: {type: start, variables: [[text, string]]}
  2: {type: end, after: 1, outputs: [[result, [text, '1']]]}
"""


def test_all_experts_of_a_file_and_its_leader_are_offered(tmp_path):
    file = tmp_path / "team.yaml"
    file.write_text(
        "model: embedded\noperators:\n  - &a {instruction: Do it.}\n"
        "leader: {profile: {name: Boss}}\n"
        "experts:\n  - {profile: {name: One, desc: The first.}, workflow: [[*a]]}\n"
        "  - {profile: {name: Two}, workflow: [[*a]]}\n"
    )
    offers = offers_of(Source(file=str(file)))
    assert [offer.name for offer in offers] == ["Boss", "One", "Two"]
    assert [offer.source.expert for offer in offers] == ["Boss", "One", "Two"]
    with pytest.raises(InputError, match="2 experts are called 'One'"):
        by_name([*offers, offers[1]])
    with pytest.raises(InputError, match="write `services: …` in it instead"):
        offers_of(Source(file=str(file), services="x.yaml"))


def test_an_expert_whose_functions_take_deps_is_not_served(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "looking.py").write_text(
        "from operad.runtime import RunContext\n\n\ndef look(context: RunContext[list[str]]) -> str:\n    return context.deps[0]\n"
    )
    file = tmp_path / "look.yaml"
    file.write_text(
        "operators:\n  - &a {function: looking.look}\nexperts:\n  - {profile: {name: Look}, workflow: [[*a]]}\n"
    )
    with pytest.raises(
        InputError, match=r"look.yaml: 'Look' cannot be served: operator 'a' takes deps \(list\[str\]\)"
    ):
        offers_of(Source(file=str(file)), trust=True)


async def test_a_workflow_of_typed_nodes_says_what_it_takes_and_no_file_of_the_server_is_read(tmp_path):
    (tmp_path / "secret.txt").write_text("secret")
    file = tmp_path / "flow.yaml"
    file.write_text(FLOW)
    (offer,) = offers_of(Source(file=str(file)))
    one = offer.agent.profile.name
    (tmp_path / "two.yaml").write_text(FLOW.replace("[[text, string]]", "[[text, string], [paper, file]]"))
    (both,) = offers_of(Source(file=str(tmp_path / "two.yaml")))
    two = both.agent.profile.name
    async with served(offer, both) as here, here.openai() as client:
        said = await client.chat.completions.create(model=one, messages=[HELLO])
        experts = {each["name"]: each["inputs"] for each in (await here.http.get("/experts")).json()["experts"]}
        asked = {"expert": two, "goal": ""}
        path = str(tmp_path / "secret.txt")
        told = [
            await here.http.post("/runs", json={**asked, "inputs": inputs})
            for inputs in (
                {"text": "t", "paper": path},
                {"text": "t", "paper": {"path": path}},
                {"text": "t", "paper": [path]},
                {"txt": "t"},
                {"text": "t", "paper": None},
            )
        ]
        done = await here.ended(told[-1].json()["id"])
    assert said.choices[0].message.content == "Hello"
    assert experts == {one: {"text": "string"}, two: {"text": "string", "paper": "file"}}
    assert [each.status_code for each in told] == [400, 400, 400, 400, 202]
    assert "'paper'" in told[0].json()["error"]["message"]
    assert "did you mean 'text'" in told[3].json()["error"]["message"]
    assert done["result"] == "t"
