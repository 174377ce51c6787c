"""Chats: earlier turns reach the model as turns, within a budget; they last, and what was said is not lost."""

import asyncio
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import closing
from typing import Any

import pytest

from operad import Evaluator, Operator, OperatorConfig, Workflow, events, operator
from operad.runtime import (
    AnswerError,
    ChatStore,
    Example,
    FaultError,
    InputError,
    InvalidError,
    Job,
    ModelError,
    MonoModelReasoner,
    OperatorError,
    PausedError,
    Policy,
    Reasoner,
    Retry,
    RunContext,
    Task,
    Turn,
    WorkflowMessage,
)
from operad.runtime.durable import Ledger
from operad.runtime.reasoning.prompt import ATTACHED_RULE, MATERIAL_BUDGET, SUMMARY_REQUEST
from operad.runtime.testing import BreakOff, Fail, Hang, Say, ScriptedModel, run_on_fake_clock
from operad.runtime.workflow.answer_stream import AnswerStream, Writer
from operad.runtime.workflow.chat_store import APPLICATION_ID
from operad.runtime.workflow.memory import LEAST_TOKENS, MOST_PIECES, Memory, count_tokens

SUMMARIZES = "You keep the memory of a conversation"


def answer(memory=True, id="answer"):
    return Operator("Answer the user.", id=id, memory=memory)


def sent(request):
    """The messages of a request, as pairs."""
    return [(message["role"], message["content"]) for message in request["messages"]]


def summarizes(request):
    return any(SUMMARIZES in request["messages"][place]["content"] for place in (0, -1))


def tokens_of(request):
    return sum(count_tokens(message["content"]) + 4 for message in request["messages"])


def facts_in(text):
    """A summary as a careful model would write it: each fact of a text, once."""
    return " ".join(dict.fromkeys(re.findall(r"fact \d+ is \w+\.", text)))


@pytest.fixture
def scripted():
    """A workflow of one operator whose model says what it is given to say: the workflow, and the model."""
    opened = []

    def scripted(*script: Any, **options):
        steps: Any = script[0] if callable(script[0]) else [Say(text) for text in script]
        model = ScriptedModel(steps).__enter__()
        opened.append(model)
        return Workflow(answer(), model=model.model, **options), model

    yield scripted
    for model in opened:
        model.__exit__(None, None, None)


def test_earlier_turns_reach_the_model_as_turns(scripted):
    flow, model = scripted("Hello Ada.", "Ada.")
    chat = flow.chat("user-42")
    assert chat.send("My name is Ada.").text == "Hello Ada."
    assert chat.send("What is my name?").text == "Ada."
    assert sent(model.requests[1]) == [
        ("system", "Answer the user."),
        ("user", "My name is Ada."),
        ("assistant", "Hello Ada."),
        ("user", "What is my name?"),
    ]
    assert [(turn.role, turn.text) for turn in chat.turns] == [
        ("user", "My name is Ada."), ("assistant", "Hello Ada."), ("user", "What is my name?"), ("assistant", "Ada."),
    ]  # fmt: skip


def test_the_files_of_earlier_messages_are_shown_again_the_newest_first(tmp_path):
    plan, notes, hall = tmp_path / "plan.png", tmp_path / "notes.txt", tmp_path / "hall.png"
    plan.write_bytes(b"\x89PNG\r\n\x1a\nplan")
    hall.write_bytes(b"\x89PNG\r\n\x1a\nhall")
    notes.write_text("n" * (MATERIAL_BUDGET - 10), encoding="utf-8")
    with ScriptedModel([Say("One."), Say("Two."), Say("Three."), Say("Four.")]) as model:
        flow = Workflow(answer(), model=model.model.model_copy(update={"vision": True}))
        flow.chat("ada", store=tmp_path / "chats.db").send(Job("A plan.", files=[plan, notes]))
        chat = flow.chat("ada", store=tmp_path / "chats.db")
        chat.send(Job("A hall.", files=[hall]))
        chat.send("And now?")
        plan.unlink()
        chat.send("And without it?")
    assert [[file.name for file in turn.files] for turn in chat.turns[:4]] == [
        ["plan.png", "notes.txt"],
        [],
        ["hall.png"],
        [],
    ]
    system, first, _, second, _, last = model.requests[2]["messages"]
    assert system["content"].splitlines()[-1] == ATTACHED_RULE
    text, image = first["content"]
    assert text["text"].startswith(
        "A plan.\n\n## Files\n### plan.png (image/png, 12 bytes)\n(attached below, as number 1)"
    )
    assert "n" * (MATERIAL_BUDGET - 10) in text["text"]
    assert b64decode(image["image_url"]["url"].partition(",")[2]) == b"\x89PNG\r\n\x1a\nplan"
    assert b64decode(second["content"][1]["image_url"]["url"].partition(",")[2]).endswith(b"hall")
    assert last["content"] == "And now?"
    assert "plan.png: cannot be read: No such file" in model.requests[3]["messages"][1]["content"]


def test_a_summary_names_the_files_of_the_messages_that_it_replaces(scripted, tmp_path):
    plan = tmp_path / "plan.png"
    plan.write_bytes(b"\x89PNG\r\n\x1a\n")

    def says(request):
        return Say("A summary." if summarizes(request) else "word " * 700)

    flow, model = scripted(says)
    chat = flow.chat(memory=LEAST_TOKENS)
    chat.send(Job("A plan.", files=[plan]))
    chat.send("More.")
    chat.send("More.")
    assert any(summarizes(each) and "(with the files plan.png)" in sent(each)[-1][1] for each in model.requests)
    assert "plan.png" not in str(sent(model.requests[-1]))


def test_a_store_of_the_version_before_files_is_upgraded(scripted, tmp_path):
    path = tmp_path / "chats.db"
    with closing(sqlite3.connect(path)) as old, old:
        old.execute(
            "CREATE TABLE turns (chat TEXT NOT NULL, number INTEGER NOT NULL, message TEXT NOT NULL, answer TEXT NOT NULL, "
            "summary TEXT, written REAL NOT NULL, PRIMARY KEY (chat, number)) WITHOUT ROWID"
        )
        old.execute("INSERT INTO turns VALUES ('ada', 1, 'I am Ada.', 'Hello.', NULL, 0)")
        old.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        old.execute("PRAGMA user_version = 1")
    flow, model = scripted("Ada.")
    chat = flow.chat("ada", store=path)
    assert chat.send("Who am I?").text == "Ada."
    assert sent(model.requests[0])[1:] == [("user", "I am Ada."), ("assistant", "Hello."), ("user", "Who am I?")]
    assert len(flow.chat("ada", store=path).turns) == 4
    with closing(sqlite3.connect(path)) as new:
        assert new.execute("PRAGMA user_version").fetchone() == (2,)


@pytest.mark.parametrize("files", ["{", "[1]", '[{"path": 1}]', "null", "[" * 100_000])
def test_files_that_another_program_has_written_into_a_store_are_not_read(scripted, tmp_path, files):
    store = ChatStore(tmp_path / "chats.db")
    store.add("ada", 1, Turn(role="user", text="Hello."), "Hello.")
    with closing(sqlite3.connect(tmp_path / "chats.db")) as other, other:
        other.execute("UPDATE turns SET files = ?", (files,))
    flow, _ = scripted("Ada.")
    assert flow.chat("ada", store=store).send("Who am I?").text == "Ada."


def test_thirty_turns_stay_within_the_budget_and_the_first_is_known_after_summaries(scripted, tmp_path):
    def model_says(request):
        text = "\n".join(message["content"] for message in request["messages"])
        return Say(facts_in(text) if summarizes(request) else f"I know: {facts_in(text)} " + "So it is. " * 40)

    flow, model = scripted(model_says)
    chat = flow.chat("user-42", store=tmp_path / "chats.db", memory=4_000)
    for turn in range(1, 31):
        result = chat.send(f"fact {turn} is x{turn}. " + "There is more to say of this one. " * 10)
        assert result.text.startswith("I know: fact 1 is x1. fact 2 is x2.") or turn == 1
    assert len([request for request in model.requests if not summarizes(request)]) == 30
    assert max(tokens_of(request) for request in model.requests) <= 4_000
    last = sent(model.requests[-1])
    assert last[1] == ("user", SUMMARY_REQUEST)
    assert last[2][1].startswith("fact 1 is x1.")
    assert [role for role, _ in last[1:]] == ["user", "assistant"] * (len(last) // 2 - 1) + ["user"]
    assert 2 <= len([request for request in model.requests if summarizes(request)]) <= 8
    assert len(chat.turns) == 60


def test_a_summary_is_kept_and_not_asked_for_again(scripted, tmp_path):
    flow, model = scripted(lambda request: Say("fact 1 is x." if summarizes(request) else "word " * 200))
    for number in range(14):
        flow.chat("c", store=tmp_path / "chats.db", memory=2_000).send(f"message {number}")
    summaries = [number for number, request in enumerate(model.requests) if summarizes(request)]
    assert summaries == [6, 11]
    assert [sent(model.requests[number + 1])[2] for number in summaries] == [("assistant", "fact 1 is x.")] * len(
        summaries
    )
    later = sent(model.requests[summaries[1]])[1][1]
    assert later.removeprefix("## Job\n").startswith(
        "## The summary so far\n```\nfact 1 is x.\n```\n\n## The messages since then\n```\nUser: message "
    )
    assert "message 0" not in later


def test_what_a_summary_costs_is_part_of_what_the_answer_cost(scripted):
    flow, _ = scripted(lambda request: Say("Short." if summarizes(request) else "word " * 200))
    chat = flow.chat(memory=2_000)
    assert [chat.send("Go on.").usage.calls for _ in range(8)] == [1, 1, 1, 1, 1, 1, 2, 1]


def test_a_summary_that_is_too_long_is_asked_for_again_and_then_cut(scripted):
    flow, model = scripted(lambda request: Say("long " * 400 if summarizes(request) else "word " * 200))
    chat = flow.chat(memory=2_000)
    for _ in range(7):
        chat.send("Go on.")
    again = [request for request in model.requests if summarizes(request)]
    assert sent(again[1])[1][1].removeprefix("## Job\n").startswith("## The summary so far\n```\nlong long")
    summary = sent(model.requests[-1])[2][1]
    assert re.search(r"long\s*\n\[… cut: [\d,]+ more characters\]$", summary)
    assert count_tokens(summary) <= 515


def test_a_message_longer_than_the_budget_is_answered_and_then_summarized_in_pieces(scripted):
    flow, model = scripted(lambda request: Say("Seen." if summarizes(request) else "Read."))
    chat = flow.chat(memory=1_000)
    chat.send("line of the file\n" * 700)
    assert tokens_of(model.requests[0]) > 3_900
    chat.send("And now?")
    asked = [request for request in model.requests if summarizes(request)]
    assert 5 <= len(asked) <= 9
    assert max(tokens_of(request) for request in model.requests[1:]) <= 1_000
    assert sum(sent(request)[1][1].count("line of the file") for request in asked) == 700


def test_of_turns_beyond_all_bounds_the_oldest_are_left_out_with_a_mark(scripted):
    flow, model = scripted(lambda request: Say("Seen." if summarizes(request) else "Read."))
    chat = flow.chat(memory=1_000)
    chat.send("a line\n" * 10_000)
    chat.send("And now?")
    asked = [sent(request)[1][1] for request in model.requests if summarizes(request)]
    assert len(asked) <= MOST_PIECES
    assert re.search(r"\[… left out: [\d,]+ earlier characters\]", asked[0])
    assert "Assistant: Read." in asked[-1]


def test_the_newest_answer_is_sent_as_it_is_where_it_fits(scripted):
    flow, model = scripted(lambda request: Say("Summed up." if summarizes(request) else "word " * 350))
    chat = flow.chat(memory=1_000)
    chat.send("One.")
    chat.send("Two.")
    assert [role for role, _ in sent(model.requests[1])] == ["system", "user", "assistant", "user"]
    chat.send("Three.")
    assert sent(model.requests[-1])[1:4:2] == [("user", SUMMARY_REQUEST), ("user", "Two.")]


@pytest.mark.parametrize("budget", [0, 999, True, "4000", {"tokens": 4000}])
def test_a_budget_that_is_none_is_refused(budget):
    with pytest.raises(InputError, match=r"^memory: expected a number of tokens, 1,000 or more; got "):
        Workflow(answer()).chat(memory=budget)


@pytest.mark.parametrize("text", ["", "   "])
def test_an_empty_message_is_refused(scripted, text):
    flow, _ = scripted("never")
    with pytest.raises(InputError, match="chat 'c': the message is empty"):
        flow.chat("c").send(text)
    flow.run("go")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"id": 42}, "chat: id: expected a text such as 'user-42'; got 42"),
        ({"id": " "}, "chat: id: expected a text such as 'user-42'; got ' '"),
        ({"store": "sqlite:///chats.db"}, "store: expected the path of an SQLite file, such as 'chats.db', or None; got 'sqlite:"),
        ({"store": 7}, "store: expected the path of an SQLite file, such as 'chats.db', or None; got 7"),
        ({"model": 7}, "model: expected a model's name, a Model or a reasoner; got 7"),
    ],
)  # fmt: skip
def test_wrong_values_are_refused_where_they_are_given(arguments, said):
    with pytest.raises(InputError) as refused:
        Workflow(answer()).chat(**arguments)
    assert str(refused.value).startswith(said)


def test_what_is_sent_is_a_text_or_a_job(scripted):
    flow, model = scripted("Yes.")
    with pytest.raises(InputError, match="expected a text or a Job; got 42"):
        flow.chat().send(42)
    flow.chat("c").send(Job("Is it so?", context="In a school book."))
    assert sent(model.requests[0])[1] == ("user", "## Job\nIs it so?\n\n## Context\nIn a school book.")


def test_every_operator_sees_the_turns_unless_it_says_otherwise():
    seen = {}

    @operator
    def code(job: Job) -> str:
        seen["code"] = [turn.text for turn in job.turns]
        return "done"

    with ScriptedModel(lambda request: Say("ok")) as model:
        chat = Workflow([code, answer(id="sees"), answer(memory=False, id="blind")], model=model.model).chat()
        chat.send("One.")
        chat.send("Two.")
        later = model.requests[2:]
    assert sorted(len(request["messages"]) for request in later) == [2, 4]
    assert seen["code"][0] == "One."


def test_an_evaluator_sees_the_turns():
    verdict = '{"evaluation": "fine", "status": "SUCCESS", "lesson": "", "blame": [], "score": 9}'
    script = ["Hello.", verdict, "Ada.", verdict]
    with ScriptedModel([Say(text) for text in script]) as model:
        chat = Workflow(answer(), model=model.model, evaluator=Evaluator("The name is right.")).chat()
        chat.send("I am Ada.")
        chat.send("Who am I?")
    assert sent(model.requests[3])[1:3] == [("user", "I am Ada."), ("assistant", "Hello.")]


def test_examples_are_no_part_of_the_conversation():
    config = OperatorConfig(instruction="Translate.", examples=[Example(input="cat", output="chat")])
    with ScriptedModel([Say("chien"), Say("oiseau")]) as model:
        chat = Workflow(Operator(config), model=model.model).chat()
        chat.send("dog")
        chat.send("bird")
    assert sent(model.requests[0])[1:] == [("user", "cat"), ("assistant", "chat"), ("user", "dog")]
    assert sent(model.requests[1]) == [
        ("system", "Translate.\n\nExample of an input:\n```\ncat\n```\nIts answer:\n```\nchat\n```"),
        ("user", "dog"), ("assistant", "chien"), ("user", "bird"),
    ]  # fmt: skip


def test_jobs_with_other_turns_are_other_jobs():
    job = Job("Who am I?")
    with_turns = job.model_copy(update={"turns": (Turn(role="user", text="I am Ada."),)})
    assert "turns" not in job.fingerprint()
    assert with_turns.fingerprint() != job.fingerprint()
    assert "memory" not in OperatorConfig(instruction="i").fingerprint()
    assert OperatorConfig(instruction="i", memory=False).fingerprint()["memory"] is False


async def test_the_text_streams_as_the_model_writes_it(scripted):
    flow, _ = scripted("One two three.")
    chat = flow.chat()
    assert [piece async for piece in chat.stream("Count.")] == ["One ", "two ", "three."]
    assert [turn.text for turn in chat.turns] == ["Count.", "One two three."]


async def test_the_text_comes_at_the_end_where_only_that_is_certain():
    verdict = '{"evaluation": "fine", "status": "SUCCESS", "lesson": "", "blame": [], "score": 9}'
    with ScriptedModel([Say("One two."), Say(verdict)]) as model:
        flow = Workflow(answer(), 2, model=model.model, evaluator=Evaluator("It counts."))
        assert [piece async for piece in flow.chat().stream("Count.")] == ["One ", "two."]


async def test_closing_the_stream_cancels_the_run_and_keeps_nothing(scripted):
    flow, _ = scripted(lambda request: Say("word " * 1000))
    chat = flow.chat()
    stream = chat.stream("Talk.")
    assert await anext(stream) == "word "
    await stream.aclose()
    assert chat.turns == []
    assert len([piece async for piece in chat.stream("Again.")]) == 1000


@operator
async def pay(job: Job, context: RunContext) -> str:
    if not await context.ask(f"Pay {job.goal}?", "boolean"):
        return "Not paid."
    return "Paid." if await context.ask("Are you sure?", "boolean") else "Not paid."


@pytest.mark.parametrize("way", ["send", "stream"])
def test_a_message_whose_run_asks_a_person_is_kept_once_it_is_answered(way):
    chat = Workflow(pay).chat("ada")
    with pytest.raises(InputError, match="chat 'ada': no message waits for answers"):
        chat.resume(True)
    with pytest.raises(PausedError):
        chat.send("9 euros") if way == "send" else list(chat.stream("9 euros"))
    with pytest.raises(InvalidError, match="wrong-answer"):
        chat.resume("perhaps")
    with pytest.raises(PausedError):
        chat.resume(True)
    assert chat.turns == []
    assert chat.resume(True).text == "Paid."
    assert [turn.text for turn in chat.turns] == ["9 euros", "Paid."]
    with pytest.raises(InputError, match="no message waits for answers"):
        chat.resume(True)


@pytest.mark.parametrize("durable", [False, True])
def test_a_paused_message_is_answered_by_another_object_with_the_id_of_its_run(durable, tmp_path):
    store, runs = tmp_path / "chats.db", tmp_path / "runs.db"
    if durable:
        pytest.importorskip("sqlalchemy")
    ledger = Ledger(runs) if durable else None
    flow = Workflow(pay, durable=ledger)
    with pytest.raises(PausedError) as paused:
        flow.chat("ada", store=store).send("9 euros")
    run_id = paused.value.run_id
    if ledger is not None:  # as in another process
        ledger.close()
        flow = Workflow(pay, durable=Ledger(runs))
    chat = flow.chat("ada", store=store)
    with pytest.raises(InputError, match=r"give the run_id of its PausedError$"):
        chat.resume(True)
    with pytest.raises(InputError, match=f"chat 'bob': the run '{run_id}' is not one of this conversation"):
        flow.chat("bob", store=store).resume(True, run_id)
    with pytest.raises(PausedError):
        chat.resume(True, run_id)
    assert flow.chat("ada", store=store).resume(True, run_id).text == "Paid."
    assert [turn.text for turn in chat.turns] == ["9 euros", "Paid."]
    with pytest.raises(InputError, match="has finished" if durable else "the run has ended"):
        chat.resume({}, run_id)


def test_another_message_takes_the_place_of_a_paused_one():
    flow = Workflow(pay)
    chat = flow.chat()
    with pytest.raises(PausedError) as paused:
        chat.send("9 euros")
    with pytest.raises(PausedError):
        chat.send("8 euros")
    assert chat.resume(False).text == "Not paid."
    assert [turn.text for turn in chat.turns] == ["8 euros", "Not paid."]
    assert flow.resume(paused.value.run_id, False).text == "Not paid."


def paused_run(send, *given):
    """The id of the run with which a method of a chat pauses."""
    with pytest.raises(PausedError) as paused:
        send(*given)
    return paused.value.run_id


def test_a_chat_remembers_the_last_run_that_paused_and_forgets_only_that(tmp_path):
    flow, store = Workflow(pay), tmp_path / "chats.db"
    chat, other = flow.chat("ada", store=store), flow.chat("ada", store=store)
    first, second = paused_run(chat.send, "9 euros"), paused_run(other.send, "8 euros")
    assert chat.resume(False, second).text == "Not paid."
    assert paused_run(chat.resume, True) == first
    assert chat.resume(True).text == "Paid."
    third = paused_run(chat.send, "7 euros")
    assert paused_run(other.resume, True, third) == third
    assert other.resume(True).text == "Paid."
    assert [turn.text for turn in chat.turns] == ["8 euros", "Not paid.", "9 euros", "Paid.", "7 euros", "Paid."]


def test_a_paused_message_is_stored_after_the_messages_that_were_sent_meanwhile(tmp_path):
    flow, store = Workflow(pay), tmp_path / "chats.db"
    chat, other = flow.chat("ada", store=store), flow.chat("ada", store=store)
    first, second = paused_run(chat.send, "9 euros"), paused_run(other.send, "8 euros")
    assert other.resume(False).text == "Not paid."
    assert paused_run(chat.resume, True) == first
    third = paused_run(chat.send, "7 euros")
    assert chat.resume(True, first).text == "Paid."
    assert chat.resume(False).text == "Not paid."
    assert [turn.text for turn in chat.turns[::2]] == ["8 euros", "9 euros", "7 euros"]
    assert len({first, second, third}) == 3


async def test_a_message_whose_run_asks_a_person_raises_is_not_kept_and_leaves_the_chat_free():
    @operator
    async def order(job: Job, context: RunContext) -> str:
        return "Ordered." if await context.ask(f"Order {job.goal}?", "boolean") else "Not ordered."

    flow = Workflow(order)
    chat = flow.chat()
    with pytest.raises(PausedError) as paused:
        [piece async for piece in chat.stream("figs")]
    assert [question.text for question in paused.value.questions] == ["Order figs?"]
    result = await flow.aresume(paused.value.run_id, True)
    assert result
    assert result.text == "Ordered."
    assert chat.turns == []
    async for event in chat.events("dates"):
        if isinstance(event, events.Interrupted):
            await flow.answer(event.run_id, {event.interrupt_id: False})
    assert [turn.text for turn in chat.turns] == ["dates", "Not ordered."]


async def test_one_message_is_answered_at_a_time():
    with ScriptedModel(lambda request: Hang()) as model:
        chat = Workflow(answer(), model=model.model).chat("c")
        first = asyncio.ensure_future(chat.asend("One."))
        await asyncio.sleep(0)
        with pytest.raises(InputError, match="chat 'c': a message is being answered; wait for its answer"):
            await chat.asend("Two.")
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
    assert chat.turns == []


def test_a_message_that_fails_is_not_kept_and_can_be_sent_again(scripted):
    steps = iter([Say("Hello."), Fail(400, "no"), Say("Ada.")])
    flow, _ = scripted(lambda request: next(steps))
    chat = flow.chat()
    chat.send("I am Ada.")
    with pytest.raises(Exception, match="400"):
        chat.send("Who am I?")
    assert len(chat.turns) == 2
    assert chat.send("Who am I?").text == "Ada."


def test_a_summary_that_fails_loses_nothing(scripted):
    failing = []

    def script(request):
        if summarizes(request):
            failing.append(request)
            return Fail(400, "no summary") if len(failing) == 1 else Say("Summed up.")
        return Say("word " * 300)

    flow, _ = scripted(script)
    chat = flow.chat(memory=1_000)
    chat.send("One.")
    chat.send("Two.")
    with pytest.raises(Exception, match="no summary") as failed:
        chat.send("Three.")
    assert isinstance(failed.value.__cause__, ModelError)
    assert len(chat.turns) == 4
    chat.send("Three.")
    assert [turn.text for turn in chat.turns[::2]] == ["One.", "Two.", "Three."]


def test_without_a_text_the_outputs_are_the_answer():
    @operator
    def count(job: Job) -> WorkflowMessage:
        return WorkflowMessage(outputs={"turns": len(job.turns)})

    chat = Workflow(count).chat()
    chat.send("One.")
    chat.send("Two.")
    assert [turn.text for turn in chat.turns[1::2]] == ['{"turns": 0}', '{"turns": 2}']


def test_the_session_of_the_jobs_is_the_chat():
    @operator
    def session(job: Job) -> str:
        return job.session_id

    assert Workflow(session).chat("user-42").send("Hi.").text == "user-42"


@operator
async def talk(job: Job) -> AsyncIterator[str]:
    yield "One "
    await asyncio.sleep(60)
    yield "two."


@operator
async def retell(job: Job, reasoner: Reasoner) -> AsyncIterator[str]:
    yield "Said: "
    yield (await reasoner.infer(Task(job=job, instruction="Say it."))).upper()


@pytest.mark.parametrize(
    "flow", [Workflow(talk), Workflow(Workflow(talk, name="inner")), Workflow([talk >> Workflow(talk, name="inner")])]
)
def test_a_generator_and_a_nested_workflow_stream_while_they_write(flow):
    async def main():
        begun = asyncio.get_running_loop().time()
        return [(piece, asyncio.get_running_loop().time() - begun) async for piece in flow.stream_text("x")]

    pieces, times = zip(*run_on_fake_clock(main()), strict=True)
    assert pieces == ("One ", "two.")
    assert times[1] - times[0] == 60


def handed_off(**options):
    triage = Operator("Choose.", id="triage", ports=["a", "b"])
    return Workflow([triage["a"] >> Operator("A", id="a"), triage["b"] >> Operator("B", id="b")], **options)


@pytest.mark.parametrize("port", ["a", "b"])
@pytest.mark.parametrize("nested", [False, True])
def test_the_last_operator_that_is_taken_streams_while_it_writes(port, nested):
    flow = Workflow(handed_off(name="inner")) if nested else handed_off()
    pieces, steps = [], [Say(f'{{"port": "{port}"}}'), BreakOff(after_chars=12)]
    with ScriptedModel(steps) as model, pytest.raises(OperatorError):
        pieces.extend(flow.stream_text("hi", model=model.model))  # keeps those before the error
    assert pieces == ["an ", "answer ", "th"]


def test_last_operators_that_may_both_run_do_not_stream():
    ends = [Operator(name.upper(), id=name) for name in "ab"]
    start = Operator("Choose.", id="triage", ports=["a", "b"])
    both = Workflow([start["a"] >> ends[0], start >> ends[1]])
    with ScriptedModel([]) as model:
        assert not AnswerStream.of(both, MonoModelReasoner(model.model)).is_live


def test_the_text_of_a_model_that_a_generator_asks_is_not_streamed():
    with ScriptedModel([Say("one two")]) as model:
        assert list(Workflow(retell, model=model.model).stream_text("x")) == ["Said: ", "ONE ", "TWO"]


def test_the_text_of_a_nested_workflow_that_is_tried_again_is_streamed_once():
    tried: list[int] = []

    @operator
    async def breaking(job: Job) -> AsyncIterator[str]:
        yield "One "
        tried.append(1)
        if len(tried) == 1:
            raise ConnectionError
        yield "two."

    flow = Workflow()
    flow.add(Workflow(breaking, name="inner"), policy=Policy(retry=Retry(attempts=2, first_delay=0.01)))
    assert list(flow.stream_text("x")) == ["One ", "two."]


@operator(id="talk")
async def breaks(job: Job) -> AsyncIterator[str]:
    yield "One "
    raise ConnectionError


@operator(id="talk")
async def spare(job: Job) -> AsyncIterator[str]:
    yield "Spare "
    yield "text."


@operator
async def at_fault(job: Job, context: RunContext) -> AsyncIterator[str]:
    yield "One " if context.round == 1 else "Two "
    if context.round == 1:
        raise FaultError("again", lesson="Write two.", blame=["at_fault"])
    yield "words."


def with_fallback(step, fallback):
    flow = Workflow()
    flow.add(step, policy=Policy(fallback=fallback))
    return flow


@pytest.mark.parametrize(
    ("flow", "pieces"),
    [
        (with_fallback(breaks, "sorry"), ["sorry"]),
        (Workflow(breaks, policy=Policy(fallback="sorry")), ["sorry"]),
        (with_fallback(Workflow(breaks, name="inner"), Workflow(spare, name="other")), ["Spare ", "text."]),
        (Workflow(Workflow(breaks, policy=Policy(fallback=""), name="inner")), []),
        (Workflow(at_fault, max_rounds=2), ["Two ", "words."]),
        (Workflow(Workflow(at_fault, max_rounds=2, name="inner")), ["Two ", "words."]),
    ],
)
def test_text_that_a_fallback_or_another_round_can_replace_comes_at_the_end(flow, pieces):
    assert list(flow.stream_text("x")) == pieces


def test_the_text_of_a_nested_workflow_that_another_round_repeats_comes_at_the_end():
    rounds: list[int] = []

    @operator
    async def again(job: Job) -> AsyncIterator[str]:
        rounds.append(1)
        yield "One "
        if len(rounds) == 1:
            raise FaultError("again", lesson="Go on.", blame=["inner"])
        yield "two."

    assert list(Workflow(Workflow(again, name="inner"), max_rounds=2).stream_text("x")) == ["One ", "two."]
    assert len(rounds) == 2


def test_a_stream_of_a_workflow_that_is_nested_in_itself_ends():
    flow = Workflow(name="flow")
    flow.add(flow)
    with pytest.raises(InvalidError, match="nested-in-itself"):
        list(flow.stream_text("x"))


def test_the_text_of_a_fallback_is_no_part_of_the_text_before_it():
    live = AnswerStream([Writer(("a",), streams=True)])
    assert live.next(events.TokenStreamed(text="One ", path=("a",), attempt=1)) == "One "
    assert live.next(events.FellBack(error="x", to="a constant", path=("a",), attempt=1)) == ""
    assert live.next(events.TokenStreamed(text="Spare.", path=("a",), attempt=1)) == ""


def test_an_answer_that_begins_anew_is_told():
    live = AnswerStream([Writer(("a",), streams=True)])
    first, second = (
        events.TokenStreamed(text=text, path=("a",), attempt=attempt)
        for attempt, text in ((1, "One two"), (2, "Three."))
    )
    assert live.next(first) == "One two"
    assert live.next(second) == ""
    with pytest.raises(AnswerError, match="began anew"):
        list(live.rest("Three."))


def test_an_answer_that_begins_anew_and_repeats_the_text_goes_on_after_it():
    live = AnswerStream([Writer(("a",), streams=True)])
    tokens = [(1, "One t"), (1, "wo"), (2, "One"), (2, " two th"), (2, "ree"), (3, "One two t"), (3, "wo"), (3, "!")]
    said = [live.next(events.TokenStreamed(text=text, path=("a",), attempt=attempt)) for attempt, text in tokens]
    assert said == ["One t", "wo", "", " th", "ree", "", "", ""]
    assert list(live.rest("One two three.")) == ["."]


@pytest.mark.parametrize("attempts", [1, 2])
def test_a_long_answer_is_streamed_in_linear_time(attempts):
    live, count, piece = AnswerStream([Writer(("a",), streams=True)]), 40_000, "x" * 50
    streamed = [events.TokenStreamed(text=piece, path=("a",), attempt=attempt + 1) for attempt in range(attempts)]
    began = time.thread_time()
    assert sum(len(live.next(event)) for event in streamed for _ in range(count)) == count * len(piece)
    assert time.thread_time() - began < 2


# Stores

CHILD = """
import sys
from operad import Operator, Workflow
flow = Workflow(Operator("Answer."), model=sys.argv[1])
chat = flow.chat("user-42", store="chats.db")
for line in sys.stdin:
    print(chat.send(line.strip()).text, flush=True)
"""


@pytest.fixture
def child(forked, tmp_path, monkeypatch):
    """Begins a program that answers in a chat, a line for each that it is sent."""

    def child(model):
        monkeypatch.setenv("OPENAI_BASE_URL", model.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "scripted")
        process = forked.begin(
            [sys.executable, "-c", CHILD, "scripted"], cwd=tmp_path, text=True, bufsize=1,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

        def say(line):
            process.stdin.write(line + "\n")
            process.stdin.flush()
            return process.stdout.readline().strip()

        return process, say

    return child


def test_kill_9_between_turns_loses_nothing(child, tmp_path):
    def counted(request):
        return Say(f"{len(request['messages']) // 2} messages")

    with ScriptedModel(counted) as model:
        for number in range(1, 4):
            process, say = child(model)
            with process:
                assert say(f"message {2 * number - 1}") == f"{2 * number - 1} messages"
                assert say(f"message {2 * number}") == f"{2 * number} messages"
                process.send_signal(signal.SIGKILL)
            assert process.returncode == -signal.SIGKILL
        store = ChatStore(tmp_path / "chats.db")
        assert [turn.text for turn in store.turns("user-42")[::2]] == [f"message {n}" for n in range(1, 7)]
        assert len(sent(model.requests[-1])) == 12


def test_kill_9_during_an_answer_loses_that_message_only(child, tmp_path):
    asked = threading.Event()

    def script(request):
        if len(request["messages"]) == 2:
            return Say("Hello.")
        asked.set()
        return Hang()

    with ScriptedModel(script) as model:
        process, say = child(model)
        with process:
            assert say("I am Ada.") == "Hello."
            process.stdin.write("Who am I?\n")
            process.stdin.flush()
            assert asked.wait(60)
            process.send_signal(signal.SIGKILL)
        assert [turn.text for turn in ChatStore(tmp_path / "chats.db").turns("user-42")] == ["I am Ada.", "Hello."]


async def test_of_two_programs_that_answer_at_once_one_is_told(tmp_path):
    with ScriptedModel(lambda request: Say("Yes.")) as model:
        flow = Workflow(answer(), model=model.model)
        mine = flow.chat("c", store=tmp_path / "chats.db")
        await mine.asend("One.")

        async def both():
            async for event in mine.events("Mine."):
                if isinstance(event, events.OperatorStarted):
                    ChatStore(tmp_path / "chats.db").add(
                        "c", 2, Turn(role="user", text="Other's."), "Yes."
                    )  # as another process does

        with pytest.raises(InputError) as refused:
            await both()
    assert str(refused.value) == (
        "chat 'c': it was changed elsewhere while this message was answered (it has 2 messages, not 1); "
        "this message and its answer are not kept: send it again"
    )
    assert [turn.text for turn in mine.turns[::2]] == ["One.", "Other's."]


def test_a_program_goes_on_after_what_another_one_said(scripted, tmp_path):
    flow, model = scripted("A.", "B.", "C.")
    mine, other = (flow.chat("c", store=tmp_path / "chats.db") for _ in range(2))
    mine.send("One.")
    other.send("Two.")
    mine.send("Three.")
    assert [text for role, text in sent(model.requests[2]) if role == "user"] == ["One.", "Two.", "Three."]


def test_chats_are_listed_and_forgotten(scripted, tmp_path):
    flow, _ = scripted(lambda request: Say("Yes."))
    store = ChatStore(tmp_path / "chats.db")
    for name, count in (("a", 1), ("b", 2), ("c", 1)):
        for _ in range(count):
            flow.chat(name, store=store).send("Hi.")
    assert [(kept.id, kept.messages) for kept in store.chats()] == [("c", 1), ("b", 2), ("a", 1)]
    with pytest.raises(InputError, match=r"no chat has the id 'bb' \(did you mean 'b'\?\)"):
        store.forget("a", "bb")
    store.forget("a")
    flow.chat("c", store=store).forget()
    flow.chat("never", store=store).forget()
    assert [kept.id for kept in store.chats()] == ["b"]
    assert (tmp_path / "chats.db").stat().st_mode & 0o077 == 0


def test_a_store_in_memory_is_shared_by_the_chats_that_it_is_given_to(scripted):
    flow, _ = scripted("A.", "B.")
    store = ChatStore()
    flow.chat("c", store=store).send("One.")
    flow.chat("c", store=store).send("Two.")
    assert store.chats()[0].messages == 2
    assert flow.chat("c").turns == []


def test_a_file_of_another_kind_or_version_is_left_alone(scripted, tmp_path):
    flow, _ = scripted("never")
    with sqlite3.connect(tmp_path / "other.db") as other:
        other.execute("CREATE TABLE t (a)")
    other.close()
    with pytest.raises(InputError, match="is an SQLite file, but not a store of chats of operad; name another file"):
        flow.chat(store=tmp_path / "other.db").send("Hi.")
    ChatStore(tmp_path / "chats.db").chats()
    with sqlite3.connect(tmp_path / "chats.db") as ours:
        ours.execute("PRAGMA user_version = 9")
    ours.close()
    with pytest.raises(InputError, match="of another version of operad"):
        ChatStore(tmp_path / "chats.db").chats()
    flow.run("go")


def test_signs_that_no_file_can_hold_are_replaced():
    store = ChatStore()
    store.add("c", 1, Turn(role="user", text="half a \ud800 pair"), "and \udfff another")
    store.summarize("c", 1, "a \ud800 b")
    assert [turn.text for turn in store.turns("c")] == ["half a \ufffd pair", "and \ufffd another"]
    assert store.latest("c") == (1, [Turn(role="summary", text="a \ufffd b")])


def test_tokens_are_counted_by_bytes():
    assert [count_tokens(text) for text in ("", "a", "abc", "abcd", "知識", "\ud800")] == [0, 1, 1, 2, 2, 1]


async def test_a_memory_without_anything_to_summarize_sends_all(scripted):
    flow, _ = scripted("never")
    memory = Memory(flow, MonoModelReasoner("never"), 1_000)
    turns = (Turn(role="summary", text="s"), Turn(role="user", text="u"), Turn(role="assistant", text="a"))
    assert (await memory.recall(turns, "m")).turns == turns
    assert (await memory.recall(turns[:1], "m" * 9_000)).turns == turns[:1]
    await flow.aexecute("go")


def test_the_answer_streams_without_an_event_loop():
    with ScriptedModel([Say("Good morning."), Say("Well.")]) as scripted:
        chat = Workflow(answer(), model=scripted.model).chat("a")
        assert [*chat.stream("Hello.")] == ["Good ", "morning."]
        for _ in chat.stream("How are you?"):
            break
    assert [turn.text for turn in chat.turns] == ["Hello.", "Good morning."]


async def test_another_object_for_the_same_conversation_refuses_at_once(tmp_path):
    async with ScriptedModel(lambda request: Say("Yes.")) as scripted:
        flow = Workflow(answer(), model=scripted.model)

        async def send(store, id="a"):
            return (await flow.chat(id, store=store).asend("Well?")).text

        path = tmp_path / "chats.db"
        said = await asyncio.gather(send(path), send(str(path)), send(path, "b"), send(None), return_exceptions=True)
        assert [said[0], *said[2:]] == ["Yes."] * 3
        assert str(said[1]).startswith("chat 'a': a message is being answered; wait for its answer")
        assert len(scripted.requests) == 3
        assert await send(path) == "Yes."
