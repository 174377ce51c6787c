"""The protocols of front ends, each with its own client in Node.js, which checks what it gets."""

import asyncio
import json

import pytest
from front_ends import talk
from serving import Code, echo, offered, order, served, words

from operad import tool
from operad.runtime import MonoModelReasoner, Policy, Retry, events, interrupt
from operad.runtime.testing import BreakOff, CallTools, Say, ScriptedModel
from operad.server.http.keys import Key, digest

pytestmark = pytest.mark.usefixtures("front_ends")
KEY = "a-key-of-many-characters"


@tool(approve=True)
def delete(file: str) -> str:
    """Delete a file."""
    return f"deleted {file}"


@tool
async def book(hotel: str) -> str:
    """Book a hotel."""
    return f"{hotel}: {await interrupt('How many nights?', 'integer')} nights"


def asking(model, *tools, **options):
    return offered(words(tools=list(tools), **options), reasoner=MonoModelReasoner(model.model))


def of_kind(run, kind):
    return [event for event in run["events"] if event["type"] == kind]


def text_in(run):
    return "".join(event["delta"] for event in of_kind(run, "TEXT_MESSAGE_CONTENT"))


async def ag_ui(here, *turns, name="Expert", **options):
    told, warnings = await talk("ag_ui.mjs", f"{here.url}/ag-ui/{name}", *turns, **options)
    assert warnings == ""
    return told


async def vercel_ai(here, *turns, name="Expert", **options):
    return (await talk("vercel_ai.mjs", f"{here.url}/vercel-ai/{name}", *turns, **options))[0]


# AG-UI


async def test_ag_ui_gets_text_as_it_is_written_steps_tool_calls_and_usage():
    @tool
    def find(topic: str) -> str:
        """Find a topic."""
        return f"all about {topic}"

    with ScriptedModel([CallTools({"find": {"topic": "tea"}}, text="I look."), Say("Tea is a drink.")]) as model:
        async with served(asking(model, find)) as here:
            (run,) = (told := await ag_ui(here, "What is tea?"))["runs"]
    assert [event["delta"] for event in of_kind(run, "TEXT_MESSAGE_CONTENT")][:2] == ["I ", "look."]
    assert [event["stepName"] for event in of_kind(run, "STEP_STARTED")] == ["words"]
    (started,), (result,) = of_kind(run, "TOOL_CALL_START"), of_kind(run, "TOOL_CALL_RESULT")
    assert (started["toolCallName"], result["content"]) == ("find", "all about tea")
    assert [(each["role"], each.get("content")) for each in told["messages"]] == [
        ("user", "What is tea?"),
        ("assistant", "I look."),
        ("assistant", None),
        ("tool", "all about tea"),
        ("assistant", "Tea is a drink."),
    ]
    finished = run["events"][-1]
    assert (finished["outcome"], finished["usage"][0]["outputTokens"]) == ({"type": "success"}, 8)
    assert finished["metadata"]["operad"]["status"] == "SUCCESS"


async def test_ag_ui_allows_refuses_or_changes_a_tool_call_by_an_interrupt():
    calls = [CallTools({"delete": {"file": "a.txt"}}), Say("Done.")]
    with ScriptedModel(calls * 3) as model:
        async with served(asking(model, delete)) as here:
            answers = (
                {"approved": True},
                {"approved": False, "reason": "keep it"},
                {"approved": True, "editedArgs": {"file": "b.txt"}},
            )
            talks = [(await ag_ui(here, "Delete a.txt.", {"answers": {"": each}}))["runs"] for each in answers]
    for asked, _ in talks:
        (interrupt_,) = asked["asked"]
        (call,) = of_kind(asked, "TOOL_CALL_START")
        assert (interrupt_["reason"], interrupt_["toolCallId"]) == ("tool_call", call["toolCallId"])
    results = [of_kind(resumed, "TOOL_CALL_RESULT")[0] for _, resumed in talks]
    assert [each["content"].splitlines()[-1] for each in results][::2] == ["deleted a.txt", "deleted b.txt"]
    assert "did not allow" in results[1]["content"]
    assert "keep it" in results[1]["content"]
    assert [text_in(resumed) for _, resumed in talks] == ["Done."] * 3
    assert all(not of_kind(resumed, "TOOL_CALL_START") for _, resumed in talks)  # the result belongs to the first call


async def test_ag_ui_asks_again_for_an_answer_that_does_not_fit():
    async with served(offered(Code(order))) as here:
        told = await ag_ui(here, "tea", {"answers": {"": "maybe"}}, {"answers": {"": True}})
    first, again, done = told["runs"]
    assert first["asked"][0]["responseSchema"] == {"type": "boolean"}
    assert first["asked"][0]["id"] == again["asked"][0]["id"]
    assert "boolean" in again["asked"][0]["message"]
    assert (text_in(done), done["asked"]) == ("tea: ordered", [])


async def test_a_cancelled_interrupt_of_ag_ui_cancels_the_run():
    async with served(offered(Code(order))) as here:
        told = await ag_ui(here, "tea", {"cancel": True})
        (run,) = (await here.http.get("/runs")).json()["runs"]
    assert told["runs"][1]["events"][-1]["outcome"] == {"type": "cancelled"}
    assert run["state"] == "cancelled"


async def test_a_thread_of_ag_ui_that_waits_for_an_answer_takes_no_other_message():
    body = {"threadId": "thread", "runId": "2", "messages": [{"id": "1", "role": "user", "content": "milk"}]}
    async with served(offered(Code(order))) as here:
        await ag_ui(here, "tea")
        lines = (await here.http.post("/ag-ui/Expert", json=body)).text.splitlines()
        resumed = {**body, "resume": [{"interruptId": "x:code", "status": "resolved"}]}
        unknown = (await here.http.post("/ag-ui/Expert", json=resumed)).text.splitlines()
    errors = [json.loads(each.removeprefix("data: ")) for each in (lines[2], unknown[2])]
    assert [(each["type"], each["code"]) for each in errors] == [("RUN_ERROR", "conflict"), ("RUN_ERROR", "not_found")]


async def test_ag_ui_shows_thinking_and_a_failed_run():
    async def think(job):
        events.emit(events.ThinkingStreamed(text="Hmm."))
        raise ValueError("no tea")

    async with served(offered(Code(think))) as here:
        (run,) = (await ag_ui(here, "tea"))["runs"]
    assert [event["delta"] for event in of_kind(run, "REASONING_MESSAGE_CONTENT")] == ["Hmm."]
    assert run["events"][-1]["type"] == "RUN_ERROR"
    assert (run["events"][-1]["code"], "no tea" in run["events"][-1]["message"]) == ("run_failed", True)


async def test_messages_and_context_of_ag_ui_reach_the_expert():
    async with served(offered(Code(echo))) as here:
        told = await ag_ui(here, "Hello", "And now?")
    assert text_in(told["runs"][1]) == "And now?||{}|user: Hello|assistant: Hello||{}"


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"tools": [{"name": "t", "description": "d"}]}, "tools"),
        ({"messages": [{"id": "1", "role": "user", "content": [{"type": "image", "source": {"type": "url", "value": "u"}}]}]}, "messages[0].content[0]"),
        ({"messages": []}, "messages"),
        ({"threadId": "t" * 300}, "threadId"),
        ({"threadId": None}, "threadId"),
    ],
)  # fmt: skip
async def test_what_experts_do_not_support_is_refused_by_name(change, param):
    body = {"threadId": "t", "runId": "r", "messages": [{"id": "1", "role": "user", "content": "hi"}], **change}
    async with served(offered(Code(echo))) as here:
        reply = await here.http.post("/ag-ui/Expert", json=body)
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, param)


async def test_faults_of_an_input_are_named_by_their_places_unless_they_are_too_many():
    body = {"threadId": "t", "runId": "r", "messages": [{"id": "1", "role": "user", "content": [{"type": "text"}]}]}
    async with served(offered(Code(echo))) as here:
        few = (await here.http.post("/ag-ui/Expert", json=body)).json()["error"]
        many = await here.http.post("/ag-ui/Expert", json={**body, "messages": [{}] * 100_000})
    assert few["message"] == "messages.0.content.0.text: is missing"
    assert (many.status_code, len(many.json()["error"]["message"].splitlines())) == (400, 1)


async def test_threads_of_ag_ui_that_differ_before_a_slash_are_two():
    def body(thread):
        return {"threadId": thread, "runId": "1", "messages": [{"id": "1", "role": "user", "content": "milk"}]}

    async with served(offered(Code(order))) as here:
        told = [(await here.http.post("/ag-ui/Expert", json=body(thread))).text for thread in ("a/1", "b/1", "a/1")]
    assert ["RUN_ERROR" in each for each in told] == [False, False, True]


async def test_answers_of_the_vercel_chat_are_for_one_run_and_each_question_once():
    def body(*ids):
        answers = [{"state": "approval-responded", "approval": {"id": each, "approved": True}} for each in ids]
        return {"messages": [{"role": "assistant", "parts": [{"type": "dynamic-tool", **each} for each in answers]}]}

    async with served(offered(Code(order))) as here:
        runs = [
            (await here.http.post("/runs", json={"expert": "Expert", "goal": "tea"})).json()["id"] for _ in range(2)
        ]
        for run in runs:
            await here.until(run, "asks")
        ids = [f"{run}:code" for run in runs]
        replies = [await here.http.post("/vercel-ai/Expert", json=body(*each)) for each in (ids, ids[:1] * 2)]
        states = [(await here.http.get(f"/runs/{run}")).json()["state"] for run in runs]
    assert [each.status_code for each in replies] == [400, 400]
    assert states == ["asks", "asks"]


async def test_a_retried_operator_is_one_step_and_its_text_goes_on():
    retrying = Policy(retry=Retry(attempts=2, first_delay=0.01))
    with ScriptedModel([BreakOff(8, "One two three."), Say("One two three.")]) as model:
        async with served(offered(words(), reasoner=MonoModelReasoner(model.model), policy=retrying)) as here:
            (run,) = (await ag_ui(here, "count"))["runs"]
    assert [event["type"] for event in run["events"] if "STEP" in event["type"]] == ["STEP_STARTED", "STEP_FINISHED"]
    assert (text_in(run), len(of_kind(run, "TEXT_MESSAGE_START"))) == ("One two three.", 1)


# The Vercel AI SDK


async def test_the_vercel_chat_gets_text_and_tool_calls():
    with ScriptedModel([CallTools({"book": {"hotel": "Ritz"}}, text="I book."), Say("Booked.")]) as model:
        async with served(asking(model, book)) as here:
            told = await vercel_ai(here, "Book the Ritz.", "3")
    assert told["errors"] == []
    _, question, _, answer = told["messages"]
    assert next(part["text"] for part in question["parts"] if part["type"] == "text") == "I book."
    assert [part["data"]["question"] for part in question["parts"] if part["type"] == "data-question"] == [
        "How many nights?"
    ]
    (call,) = [part for part in answer["parts"] if part["type"] == "dynamic-tool"]
    assert (call["input"], call["output"]) == ({"hotel": "Ritz"}, "Ritz: 3 nights")
    assert answer["parts"][-1]["text"] == "Booked."
    assert (answer["metadata"]["status"], told["requests"]) == ("SUCCESS", 2)


@pytest.mark.parametrize(
    ("answer", "state"),
    [({"approved": True}, "output-available"), ({"approved": False, "reason": "keep it"}, "output-error")],
)
async def test_the_vercel_chat_allows_a_tool_call_in_the_same_message_and_asks_once(answer, state):
    with ScriptedModel([CallTools({"delete": {"file": "a.txt"}}), Say("Done.")]) as model:
        async with served(asking(model, delete)) as here:
            told = await vercel_ai(here, "Delete a.txt.", answer)
    assert told["errors"] == []
    _, message = told["messages"]
    (call,) = [part for part in message["parts"] if part["type"] == "dynamic-tool"]
    assert (call["state"], call["approval"]["approved"]) == (state, answer["approved"])
    assert (message["parts"][-1]["text"], told["requests"]) == ("Done.", 2)


async def test_words_of_a_user_answer_an_approval_of_the_vercel_chat():
    with ScriptedModel([CallTools({"delete": {"file": "a.txt"}}), Say("Done.")]) as model:
        async with served(asking(model, delete)) as here:
            told = await vercel_ai(here, "Delete a.txt.", "perhaps", "yes")
    assert told["errors"] == []
    again, done = told["messages"][3], told["messages"][5]
    assert [part["state"] for part in again["parts"] if part["type"] == "dynamic-tool"] == ["approval-requested"]
    assert [part.get("output") for part in done["parts"] if part["type"] == "dynamic-tool"] == ["deleted a.txt"]


async def test_a_failed_run_is_an_error_of_the_vercel_chat_and_keys_hold():
    async def fail(job):
        raise ValueError("no tea")

    key = Key("web", experts=frozenset({"Expert"}), digest=digest(KEY.encode()))
    async with served(offered(Code(fail)), offered(Code(echo), name="Other"), keys=[key]) as here:
        with_key = {"Authorization": f"Bearer {KEY}"}
        failed = await vercel_ai(here, "tea", headers=with_key)
        foreign = await vercel_ai(here, "tea", name="Other", headers=with_key)
        no_key = await vercel_ai(here, "tea")
    assert "ValueError: internal error" in failed["errors"][0]
    assert "no expert has the name" in foreign["errors"][0]
    assert "key is missing" in no_key["errors"][0]


async def test_a_run_ends_when_its_front_end_leaves():
    began = asyncio.Event()

    async def wait(job):
        began.set()
        await asyncio.Event().wait()

    body = {"messages": [{"role": "user", "parts": [{"type": "text", "text": "tea"}]}]}
    async with served(offered(Code(wait))) as here:
        async with here.http.stream("POST", "/vercel-ai/Expert", json=body):
            await began.wait()
        (run,) = (await here.http.get("/runs")).json()["runs"]
        assert (await here.ended(run["id"]))["state"] == "cancelled"


async def test_thinking_ends_before_the_text_begins():
    with ScriptedModel(lambda request: Say("Good day.", thinking="Be polite.")) as scripted:
        async with served(offered(words(), reasoner=MonoModelReasoner(scripted.model))) as here:
            body = {"threadId": "t", "runId": "r", "messages": [{"id": "1", "role": "user", "content": "Hello"}]}
            stream = (await here.http.post("/ag-ui/Expert", json=body)).text
    kinds = [json.loads(line.removeprefix("data: "))["type"] for line in stream.splitlines() if line]
    assert kinds.index("REASONING_END") < kinds.index("TEXT_MESSAGE_START")


async def test_thinking_of_operators_side_by_side_is_kept_apart():
    async def think(job):
        for text in ("one ", "two"):
            events.emit(events.ThinkingStreamed(text=text))
            await asyncio.sleep(0)
        return "said"

    workflow = offered(Code(think, "a"))
    workflow.agent.workflow.add_operator(Code(think, "b"))
    async with served(workflow) as here:
        told = await vercel_ai(here, "think")
    assert told["errors"] == []
    assert [part["text"] for part in told["messages"][1]["parts"] if part["type"] == "reasoning"] == ["one two"] * 2
