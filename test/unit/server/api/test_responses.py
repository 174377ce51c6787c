"""`/v1/responses`, conversations and pages of other origins: the openai client itself, and whoever means harm."""

import asyncio
import json
import re
from typing import Any

import pytest
from openai import BadRequestError, ConflictError, InternalServerError, NotFoundError
from serving import Code, echo, offered, order, served, words

from operad import Operator, tool
from operad.runtime import MonoModelReasoner
from operad.runtime.testing import CallTools, Fail, Say, ScriptedModel
from operad.runtime.values.errors import InputError
from operad.runtime.workflow.memory import count_tokens
from operad.server.http.bounds import Bounds
from operad.server.http.guard import read_origins
from operad.server.http.problems import RefusedError

KEY = "a-key-of-many-characters"
SUMMARIZES = "You keep the memory of a conversation"


def greeter(model, **options):
    return offered(words(), name="Greeter", reasoner=MonoModelReasoner(model.model), **options)


def sent(request):
    return [(message["role"], message["content"]) for message in request["messages"]]


async def test_messages_of_a_chat_reach_the_model_as_turns():
    with ScriptedModel([Say("Ada.")]) as model:
        async with served(greeter(model)) as here, here.openai() as client:
            said = await client.chat.completions.create(
                model="Greeter",
                messages=[
                    {"role": "system", "content": "Be brief."},
                    {"role": "user", "content": "I am Ada."},
                    {"role": "assistant", "content": "Hello Ada."},
                    {"role": "user", "content": "Who"},
                    {"role": "user", "content": "am I?"},
                ],
            )
    assert said.choices[0].message.content == "Ada."
    assert sent(model.requests[0]) == [
        ("system", "Say something."),
        ("user", "I am Ada."),
        ("assistant", "Hello Ada."),
        ("user", "Who"),
        ("user", "## Job\nam I?\n\n## Context\nBe brief."),
    ]


async def test_several_messages_of_one_role_are_one_turn():
    async with served(offered(Code(echo))) as here, here.openai() as client:
        talk = [("user", "a"), ("user", "b"), ("assistant", "c"), ("assistant", ""), ("assistant", "d"), ("user", "e")]
        said = await client.chat.completions.create(
            model="Expert", messages=[{"role": role, "content": text} for role, text in talk]
        )
        after = await client.chat.completions.create(
            model="Expert", messages=[{"role": "user", "content": "e"}, {"role": "assistant", "content": "f"}]
        )
    assert said.choices[0].message.content == "e||{}|user: a\n\nb|assistant: c\n\nd"
    assert after.choices[0].message.content == "e|assistant, after the message: f|{}"


async def test_an_expert_responds():
    with ScriptedModel([Say("Good day to you.")]) as model:
        async with served(greeter(model)) as here, here.openai() as client:
            said = await client.responses.create(
                model="Greeter", input="Hello", instructions="Be polite.", temperature=0.1, max_output_tokens=9
            )
            again = await client.responses.retrieve(said.id)
            await client.responses.delete(said.id)
            with pytest.raises(NotFoundError, match=f"response_id: no response has the id '{said.id}'"):
                await client.responses.retrieve(said.id)
    assert said.output_text == "Good day to you."
    assert (said.status, said.model, said.object, said.previous_response_id) == (
        "completed",
        "Greeter",
        "response",
        None,
    )
    assert (said.instructions, said.error) == ("Be polite.", None)
    assert said.usage.output_tokens == 4
    assert said.usage.total_tokens == said.usage.input_tokens + 4
    assert said.operad["status"] == "SUCCESS"
    assert again == said
    assert sent(model.requests[0])[1] == ("user", "## Job\nHello\n\n## Context\nBe polite.")


async def test_a_response_goes_on_with_the_conversation_of_another():
    with ScriptedModel([Say("Hello Ada."), Say("Ada."), Say("Still Ada.")]) as model:
        async with served(greeter(model)) as here, here.openai() as client:
            first = await client.responses.create(model="Greeter", input="I am Ada.", instructions="Be brief.")
            second = await client.responses.create(model="Greeter", input="Who am I?", previous_response_id=first.id)
            await client.responses.delete(first.id)
            third = await client.responses.create(model="Greeter", input="And now?", previous_response_id=second.id)
    assert third.output_text == "Still Ada."
    assert (second.previous_response_id, second.instructions) == (first.id, None)
    assert sent(model.requests[2])[1:] == [
        ("user", "I am Ada."), ("assistant", "Hello Ada."), ("user", "Who am I?"), ("assistant", "Ada."),
        ("user", "And now?"),
    ]  # fmt: skip


async def test_a_long_conversation_stays_within_the_experts_budget():
    def script(request):
        facts = " ".join(dict.fromkeys(re.findall(r"fact \d+\.", json.dumps(request["messages"]))))
        return Say(facts if request["messages"][0]["content"].startswith(SUMMARIZES) else "word " * 100)

    with ScriptedModel(script) as model:
        offer = greeter(model)
        offer.agent.memory = 1_500
        async with served(offer) as here, here.openai() as client:
            said, costs = None, []
            for number in range(12):
                said = await client.responses.create(
                    model="Greeter", input=f"fact {number}. " + "more " * 40, previous_response_id=said and said.id
                )
                costs.append(said.usage.input_tokens)
    assert max(sum(count_tokens(text) + 4 for _, text in sent(request)) for request in model.requests) <= 1_500
    assert "fact 0." in sent(model.requests[-1])[2][1]
    summaries = [request for request in model.requests if request["messages"][0]["content"].startswith(SUMMARIZES)]
    assert 1 <= len(summaries) <= 4
    assert sum(costs) == sum(len(text.split()) for request in model.requests for _, text in sent(request))


async def test_input_may_be_messages_with_parts():
    async with served(offered(Code(echo))) as here, here.openai() as client:
        first = await client.responses.create(model="Expert", input="a")
        said = await client.responses.create(
            model="Expert",
            input=[
                {"role": "developer", "content": "Be brief."},
                {
                    "role": "user",
                    "content": [{"type": "input_text", "text": "I am"}, {"type": "input_text", "text": "Ada."}],
                },
                first.output[0].model_dump(),
                {"type": "message", "role": "user", "content": "Who am I?"},
            ],
        )
    assert said.output_text == "Who am I?|Be brief.|{}|user: I am\nAda.|assistant: a||{}"


async def test_the_events_of_a_stream_are_those_that_the_protocol_names_and_add_up_to_the_response():
    with ScriptedModel([Say("One two three.")]) as model:
        async with served(greeter(model)) as here, here.openai() as client:
            stream = await client.responses.create(model="Greeter", input="Count.", stream=True)
            seen = [event async for event in stream]
            kept = await client.responses.retrieve(seen[-1].response.id)
    assert [event.type for event in seen] == [
        "response.created", "response.in_progress", "response.output_item.added", "response.content_part.added",
        "response.output_text.delta", "response.output_text.delta", "response.output_text.delta",
        "response.output_text.done", "response.content_part.done", "response.output_item.done", "response.completed",
    ]  # fmt: skip
    assert [event.sequence_number for event in seen] == list(range(11))
    assert [event.delta for event in seen[4:7]] == ["One ", "two ", "three."]
    assert (seen[0].response.status, seen[0].response.output, seen[0].response.usage) == ("in_progress", [], None)
    assert seen[7].text == seen[8].part.text == seen[9].item.content[0].text == "One two three."
    assert len({seen[0].response.id, seen[1].response.id, kept.id}) == 1
    assert kept == seen[-1].response


async def test_text_before_tool_calls_is_streamed_before_the_answer_or_the_question_of_the_tool():
    @tool(approve=True)
    def pay(euros: int) -> str:
        """Pay an invoice."""
        return f"paid {euros} euros"

    payer = Operator("Pay.", id="payer", tools=[pay])
    steps = [CallTools({"pay": {"euros": 3}}, text="I pay it."), Say("It is paid.")]
    with ScriptedModel(steps) as model:
        async with (
            served(offered(payer, reasoner=MonoModelReasoner(model.model))) as here,
            here.openai() as client,
        ):
            async with client.responses.stream(model="Expert", input="Pay it.") as stream:
                asked = await stream.get_final_response()
            async with client.responses.stream(model="Expert", input="yes", previous_response_id=asked.id) as stream:
                said = await stream.get_final_response()
    assert asked.output_text.startswith("I pay it.\n\n")
    assert "pay" in asked.output_text.removeprefix("I pay it.\n\n")
    assert said.output_text == "It is paid."


async def test_a_run_that_fails_is_an_error_or_ends_the_stream_with_one():
    with ScriptedModel(lambda request: Fail(400, "no")) as model:
        async with served(greeter(model)) as here, here.openai(max_retries=2) as client:
            with pytest.raises(InternalServerError, match="failed: "):
                await client.responses.create(model="Greeter", input="Hello")
            assert len(model.requests) == 1
            stream = await client.responses.create(model="Greeter", input="Hello", stream=True)
            seen = [event async for event in stream]
            failed = await client.responses.retrieve(seen[-1].response.id)
            with pytest.raises(ConflictError, match="previous_response_id: the response failed"):
                await client.responses.create(model="Greeter", input="On.", previous_response_id=failed.id)
    assert seen[-1].type == "response.failed"
    assert "400" in seen[-1].response.error.message
    assert (failed.status, failed.output) == ("failed", [])


@pytest.mark.parametrize("stream", [False, True])
async def test_what_is_not_to_be_stored_is_forgotten(stream):
    async with served(offered(Code(echo))) as here, here.openai() as client:
        said = await client.responses.create(model="Expert", input="a", store=False, stream=stream)
        if stream:
            said = [event async for event in said][-1].response
        with pytest.raises(NotFoundError, match="store: false"):
            await client.responses.create(model="Expert", input="b", previous_response_id=said.id)
        assert (await here.http.get("/runs")).json()["runs"] == []
    assert said.output_text == "a||{}"


@pytest.mark.parametrize("store", [False, True])
@pytest.mark.parametrize("stream", [False, True])
async def test_what_is_not_to_be_stored_is_forgotten_also_if_the_client_leaves(stream, store):
    began, ended = asyncio.Event(), asyncio.Event()

    async def hang(job):
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with served(offered(Code(hang))) as here:
        asking = {"model": "Expert", "input": "a", "stream": stream, "store": store}
        leaving = asyncio.ensure_future(here.http.post("/v1/responses", json=asking))
        await began.wait()
        (run,) = (await here.http.get("/runs")).json()["runs"]
        leaving.cancel()
        await ended.wait()
    # The server has ended, and with it the reply.
    if store:
        assert (await here.serving.runs.find(run["id"])).error == "was cancelled, because the client disconnected"
    else:
        with pytest.raises(RefusedError, match="no run has the id"):
            await here.serving.runs.find(run["id"])


async def test_a_question_is_the_output_and_the_next_input_answers_it():
    async with served(offered(Code(order))) as here, here.openai() as client:
        asked = await client.responses.create(model="Expert", input="olives")
        again = await client.responses.create(model="Expert", input="perhaps", previous_response_id=asked.id)
        said = await client.responses.create(model="Expert", input="yes", previous_response_id=again.id)
        other = await client.responses.create(model="Expert", input="figs")
        items = [
            {"role": "user", "content": "figs"},
            {"role": "assistant", "content": other.output_text},
            {"role": "user", "content": "no"},
        ]
        left = await client.responses.create(model="Expert", input=items)
    assert asked.output_text.startswith("Order olives? (yes or no)")
    assert "try again" in again.output_text
    assert said.output_text == "olives: ordered"
    assert left.output_text == "figs: left"


async def test_a_conversation_is_one_session():
    async def session_of(job):
        return job.session_id

    async with served(offered(Code(session_of))) as here, here.openai() as client:
        first = await client.responses.create(model="Expert", input="a")
        second = await client.responses.create(model="Expert", input="b", previous_response_id=first.id)
        other = await client.responses.create(model="Expert", input="c")
    assert first.output_text == second.output_text != other.output_text


async def test_what_no_expert_does_is_refused_by_name():
    async with served(offered(Code(echo))) as here, here.openai() as client:
        for request_, said in [
            ({"tools": [{"type": "web_search"}]}, "tools: experts have tools of their own and call none of yours; leave it out"),
            ({"background": True}, "background: responses are synchronous; POST /runs starts a run in the background"),
            ({"conversation": "conv_1"}, "conversation: to continue a conversation, send previous_response_id"),
            ({"include": ["reasoning.encrypted_content"]}, "include: nothing more is given out"),
            ({"metadata": {"a": "b"}}, "metadata: it is not kept here"),
            ({"prompt": {"id": "p"}}, "prompt: prompts are the experts' own"),
            ({"text": {"format": {"type": "json_schema"}}}, "text.format.schema: is missing"),
            ({"instruction": "x"}, "instruction: there is no such parameter (did you mean 'instructions'?); leave it out"),
            ({"input": [{"role": "user", "content": [{"type": "input_text", "txt": "x"}]}]},
             "input[0].content[0]: is 'input_text', and must have a text, as `text`"),
            ({"input": [{"type": "message", "role": "usr", "content": "x"}]},
             "input[0]: is 'message', and must have a role and content: a text, or a list of parts"),
            ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]},
             "input[0].content[0]: is 'input_image', but only parts of the type 'input_text' are accepted; write it as text"),
            ({"input": [{"type": "function_call_output", "call_id": "c", "output": "o"}]},
             "input[0]: is 'function_call_output', but only items of the type 'message' are accepted; write it as text"),
            ({"input": [{"role": "assistant", "content": "a"}]}, "input: none of the role 'user' has text"),
            ({"input": "  "}, "input: none of the role 'user' has text"),
            ({"input": []}, "input: none of the role 'user' has text"),
            ({"input": [{"role": "tool", "content": "a"}]}, "the request: "),
            ({"tools": [{}], "metadata": {"a": "b"}, "input": [{"type": "item_reference"}, {"role": "user", "content": [{"type": "input_file"}]}]},
             "the request: 4 issues\n  tools: experts have tools of their own and call none of yours; leave it out\n  metadata: it is not kept here; leave it out\n  input[0]: "),
        ]:  # fmt: skip
            with pytest.raises(BadRequestError) as refused:
                await client.responses.create(model="Expert", input="a", extra_body=request_)
            error: Any = refused.value
            assert error.body["message"].startswith(said)
            assert (error.type, error.code) == ("invalid_request_error", "invalid_request")
            assert error.param
            assert (await here.http.get("/runs")).json()["runs"] == []


async def test_unset_parameters_and_those_without_effect_change_nothing():
    async with served(offered(Code(echo))) as here, here.openai() as client:
        said = await client.responses.create(
            model="Expert", input="a", tools=[], include=[], metadata={}, background=False, top_p=0.5, user="u",
            text={"format": {"type": "text"}}, truncation="auto", tool_choice="auto", reasoning={"effort": "low"},
        )  # fmt: skip
    assert said.output_text == "a||{}"


async def test_unknown_experts_and_responses_are_not_found():
    async with served(offered(Code(echo))) as here, here.openai() as client:
        with pytest.raises(NotFoundError, match=r"model: no expert has the name 'Exbert' \(did you mean 'Expert'\?\)"):
            await client.responses.create(model="Exbert", input="a")
        for unknown in ("resp_nobody", "nobody"):
            with pytest.raises(NotFoundError, match=f"previous_response_id: no response has the id '{unknown}'"):
                await client.responses.create(model="Expert", input="a", previous_response_id=unknown)
        assert (await here.http.get("/v1/responses/nobody")).status_code == 400
        said = await client.responses.create(model="Expert", input="a")
        refused = await here.http.get(f"/v1/responses/{said.id}?stream=true")
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "stream")


async def test_the_bounds_of_the_server_hold():
    async def hang(job):
        await asyncio.Event().wait()

    bounds = Bounds(runs=1, seconds=0.2, body=2_000)
    async with served(offered(Code(hang)), bounds=bounds) as here:
        too_large = await here.http.post("/v1/responses", json={"model": "Expert", "input": "a" * 3_000})
        too_long = await here.http.post("/v1/responses", json={"model": "Expert", "input": "a"})
        await here.http.post("/runs", json={"expert": "Expert", "goal": "a"})
        too_many = await here.http.post("/v1/responses", json={"model": "Expert", "input": "a"})
    assert (too_large.status_code, too_long.status_code, too_many.status_code) == (413, 504, 429)


# The page


async def test_the_page_names_the_paths_needs_no_key_and_asks_nobody_else():
    async with served(offered(Code(echo), name="<script>"), keys=[KEY]) as here:
        page = await here.http.get("/")
        elsewhere = await here.http.get("/v1/models")
    assert (page.status_code, elsewhere.status_code) == (200, 401)
    for path in ("/v1/chat/completions", "/v1/responses", "/v1/models", "/runs", "/mcp", "/openapi.json", "/healthz"):
        assert f"<code>{path}</code>" in page.text
    policy = page.headers["content-security-policy"]
    assert policy.startswith(
        "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; connect-src 'self';"
    )
    assert "unsafe" not in policy
    assert page.headers["x-frame-options"] == "DENY"
    assert not re.search(r"(?:src|href)=\W?https?:|innerHTML|<script>.*</script>.*<script>", page.text, re.DOTALL)


# Pages of other origins


async def test_pages_of_other_origins_come_in_only_where_the_origin_is_allowed():
    asks = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}
    body = {"model": "Expert", "input": "a"}
    async with served(offered(Code(echo)), keys=[KEY], origins=["https://app.example"]) as here:
        allowed = await here.http.options("/v1/responses", headers={"Origin": "https://app.example", **asks})
        refused = await here.http.options("/v1/responses", headers={"Origin": "https://other.example", **asks})
        headers = {"Authorization": f"Bearer {KEY}", "Origin": "https://app.example"}
        said = await here.http.post("/v1/responses", json=body, headers=headers)
        no_key = await here.http.post("/v1/responses", json=body, headers={"Origin": "https://app.example"})
        other = await here.http.post("/v1/responses", json=body, headers={**headers, "Origin": "https://other.example"})
    assert (allowed.status_code, allowed.headers["access-control-allow-origin"]) == (200, "https://app.example")
    assert "authorization" in allowed.headers["access-control-allow-headers"]
    assert refused.status_code == 400
    assert "access-control-allow-origin" not in refused.headers
    assert (said.status_code, said.headers["access-control-allow-origin"]) == (200, "https://app.example")
    assert no_key.status_code == 401
    assert no_key.headers["access-control-allow-origin"] == "https://app.example"
    assert (other.status_code, "access-control-allow-origin" in other.headers) == (403, False)


async def test_by_default_no_page_of_another_origin_is_told_anything():
    async with served(offered(Code(echo))) as here:
        asks = {"Origin": "https://app.example", "Access-Control-Request-Method": "POST"}
        preflight = await here.http.options("/v1/responses", headers=asks)
        own = await here.http.get("/v1/models", headers={"Origin": here.url})
    assert preflight.status_code == 403
    assert not [name for answer in (preflight, own) for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize("text", ["*", "https://app.example/", "app.example", "https://App.example"])
def test_an_origin_that_is_none_is_refused(text):
    with pytest.raises(InputError, match=r"--cors-origin .*: expected an origin in lower case"):
        read_origins([text], "--cors-origin")
