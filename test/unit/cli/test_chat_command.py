"""`operad chat` and `operad chats`: at a terminal, from a pipe, kept and continued, stopped and ended."""

import json
import os
import pty
import re
import signal
import subprocess

import pytest
from forked import OPERAD_COMMAND
from small_flows import echo
from trusting import with_trust

from operad.runtime import ChatStore
from operad.runtime.models.model import DEFAULT_MODEL
from operad.runtime.testing import BreakOff, Fail, Hang, Say, ScriptedModel

GREETER = """
operators:
  - &greet {instruction: Greet.}
experts:
  - profile: {name: Greeter, desc: Greets people.}
    memory: {tokens: 2000}
    workflow: [[*greet]]
"""

ORDERS = """
from operad.operators import Operator
from operad.runtime import interrupt

class Order(Operator):
    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        agreed = await interrupt(f"Order {job.goal}?", "boolean")
        return f"{job.goal}: {'ordered' if agreed else 'left'}, {len(job.turns)} turns before"
"""

ORDERING = """
operators:
  - &order {instruction: Order., class: my_orders.Order}
experts:
  - profile: {name: Buyer}
    workflow: [[*order]]
"""


def counted(request):
    """Which message of the conversation it is, and what it says."""
    return Say(f"Answer {len(request['messages']) // 2}.")


@pytest.fixture
def place(tmp_path, monkeypatch):
    (tmp_path / "greeter.yaml").write_text(GREETER)
    (tmp_path / "buyer.yaml").write_text(ORDERING)
    (tmp_path / "my_orders.py").write_text(ORDERS)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


@pytest.fixture
def piped(forked, place):
    """Runs the command with lines of stdin: exit status, stdout, stderr."""

    def piped(*arguments, said=""):
        done = forked.run([*OPERAD_COMMAND, *map(str, arguments)], cwd=place, input=said)
        assert "Traceback" not in done.stderr
        return done.returncode, done.stdout, done.stderr

    return piped


def test_each_line_of_a_pipe_is_a_message(piped):
    with ScriptedModel(counted) as model:
        status, out, err = piped("chat", "greeter.yaml", "--base-url", model.base_url, said="Hi.\n\nAnd now?\nlast")
    assert (status, out) == (0, "Answer 1.\nAnswer 2.\nAnswer 3.\n")
    assert err.splitlines() == [f"model: {DEFAULT_MODEL} at {model.base_url}"]
    assert [message["content"] for message in model.requests[2]["messages"][1:]] == [
        "Hi.", "Answer 1.", "And now?", "Answer 2.", "last",
    ]  # fmt: skip


def test_a_conversation_is_kept_listed_and_forgotten(piped, place):
    with ScriptedModel(counted) as model:
        asked = "chat", "greeter.yaml", "--base-url", model.base_url
        assert piped(*asked, "--chat", "ada", said="Hi.\n")[:2] == (0, "Answer 1.\n")
        assert piped(*asked, "--chat", "ada", said="Again.\n")[:2] == (0, "Answer 2.\n")
        assert piped(*asked, "--db", "chats.db", said="Hi.\n")[:2] == (0, "Answer 1.\n")
        assert piped(*asked, "--db", "chats.db", said="Again.\n")[:2] == (0, "Answer 2.\n")
        assert piped(*asked, said="Hi.\n")[:2] == (0, "Answer 1.\n")
    status, out, _ = piped("chats")
    assert (status, re.sub(r" +", " ", out.splitlines()[1]).split(" ")[:2]) == (0, ["ada", "2"])
    listed = json.loads(piped("chats", "--db", "chats.db", "--json")[1])
    assert [(each["id"], each["messages"]) for each in listed] == [("Greeter", 2)]
    status, _, err = piped("chats", "--forget", "adda")
    assert (status, err.endswith("no chat has the id 'adda' (did you mean 'ada'?)\n")) == (2, True)
    assert piped("chats", "--forget", "ada")[:2] == (0, "no conversations\n")
    assert (place / "state" / "operad" / "chats.sqlite").stat().st_mode & 0o077 == 0


def test_a_default_folder_that_cannot_be_made_is_said_in_one_line(piped, place, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(place / "greeter.yaml"))
    status, out, err = piped(
        "chat", "greeter.yaml", "--chat", "ada", "--base-url", "http://127.0.0.1:9/v1", said="Hi.\n"
    )
    assert (status, out) == (2, "")
    assert err.splitlines()[-1] == f"operad: {place}/greeter.yaml/operad: cannot be written: Not a directory"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["chats"], "chats.sqlite: there is no such file, so there are no conversations; operad chat FILE --chat ID starts one"),
        (["chat", "greeter.yaml", "--db", "no/chats.db"], "no/chats.db: there is no folder 'no'; make it, or name another file: --db FILE"),
        (["chat", "greeter.yaml", "--chat", " "], "chat: id: expected a text such as 'user-42'; got ' '"),
        (["chat", "greter.yaml"], "greter.yaml"),
        (["chat", "greeter.yaml", "--db", "greeter.yaml"], "greeter.yaml: cannot be used as a store of chats"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_said_in_one_line(piped, arguments, said):
    with ScriptedModel(counted) as model:
        options = ["--base-url", model.base_url] if arguments[0] == "chat" else []
        status, out, err = piped(*arguments, *options, said="Hi.\n")
    assert (status, out) == (2, "")
    assert said in err.splitlines()[-1]


def test_an_error_ends_a_pipe_with_what_was_answered_so_far(piped):
    steps = iter([Say("Yes."), Fail(400, "no")])
    with ScriptedModel(lambda request: next(steps)) as model:
        status, out, err = piped("chat", "greeter.yaml", "--base-url", model.base_url, said="One.\nTwo.\nThree.\n")
    assert (status, out) == (2, "Yes.\n")
    assert "400" in err


def test_code_that_is_not_trusted_does_not_run(piped):
    status, out, err = piped("chat", "buyer.yaml", said="olives\nyes\n")
    assert (status, out) == (2, "")
    assert "--trust" in err


def test_a_question_is_answered_by_the_next_line(piped):
    status, out, err = piped(*with_trust(["chat", "buyer.yaml"]), said="olives\nyes\nfigs\nno\n")
    assert (status, out) == (0, "olives: ordered, 0 turns before\nfigs: left, 2 turns before\n")
    assert "order asks: Order olives? (yes or no)" in err
    status, _, err = piped(*with_trust(["chat", "buyer.yaml"]), said="olives\n")
    assert status == 2
    assert err.splitlines()[-1].endswith("asks 'Order olives?', and stdin holds no answer; write it on the next line")


def test_a_verdict_other_than_success_is_said(piped, place):
    judged = GREETER.replace("memory:", "evaluator: {instruction: It is polite.}\n    max_rounds: 1\n    memory:")
    (place / "judged.yaml").write_text(judged)
    verdict = {"evaluation": "too short", "status": "EXECUTION_ERROR", "lesson": "", "blame": [], "score": 1}
    with ScriptedModel([Say("Hi."), Say(json.dumps(verdict))]) as model:
        status, out, err = piped("chat", "judged.yaml", "--base-url", model.base_url, said="Hello\n")
    assert (status, out) == (1, "Hi.\n")
    assert err.splitlines()[-1] == "rejected: too short (EXECUTION_ERROR)"


def test_at_a_terminal_a_conversation_goes_on_where_it_was(at_a_terminal, place):
    with ScriptedModel(counted) as model:
        asked = ["chat", "greeter.yaml", "--base-url", model.base_url, "--chat", "ada", "--db", "chats.db"]
        status, out, seen = at_a_terminal(asked, "One.", "Two.", "Three.", "Four.", b"\x04")
        assert (status, out) == (0, "Answer 1.\nAnswer 2.\nAnswer 3.\nAnswer 4.\n")
        assert "chat with Greeter, kept in chats.db. Ctrl-C stops an answer, Ctrl-D ends" in seen
        status, out, seen = at_a_terminal(asked, "Five.", b"\x04")
    assert (status, out) == (0, "Answer 5.\n")
    assert "… 1 earlier message\n> Two.\nAnswer 2.\n> Three.\nAnswer 3.\n> Four.\nAnswer 4.\n> " in seen


def test_at_a_terminal_without_a_name_it_is_said_that_nothing_is_kept(at_a_terminal, place):
    with ScriptedModel(counted) as model:
        status, _, seen = at_a_terminal(["chat", "greeter.yaml", "--base-url", model.base_url], b"\x04")
    assert status == 0
    assert "chat with Greeter; --chat ID keeps it. Ctrl-C stops an answer, Ctrl-D ends" in seen


def test_what_goes_wrong_at_a_terminal_is_said_and_the_conversation_goes_on(at_a_terminal, place):
    steps = iter([Fail(400, "no"), Say("Yes.")])
    with ScriptedModel(lambda request: next(steps)) as model:
        asked = ["chat", "greeter.yaml", "--base-url", model.base_url]
        status, out, seen = at_a_terminal(asked, "One.", "Again.", b"\x04")
    assert (status, out) == (0, "Yes.\n")
    assert "operad: " in seen
    assert "400" in seen


def test_ctrl_c_at_the_prompt_ends_the_command(at_a_terminal, place):
    with ScriptedModel(counted) as model:
        asked = ["chat", "greeter.yaml", "--base-url", model.base_url]
        status, out, seen = at_a_terminal(asked, "One.", signal.SIGINT)
    assert (status, out) == (130, "Answer 1.\n")
    assert seen.endswith("> \noperad: interrupted\n")


def test_ctrl_c_during_an_answer_stops_that_answer_alone(forked, place):
    def script(request):
        if len(model.requests) == 2:
            process.send_signal(signal.SIGINT)
            return Hang()
        return counted(request)

    ours, theirs = pty.openpty()
    with ScriptedModel(script) as model:
        command = [*OPERAD_COMMAND, "chat", "greeter.yaml", "--base-url", model.base_url, "--db", "chats.db"]
        process = forked.begin(command, cwd=place, stdin=theirs, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
        os.close(theirs)
        with process:
            os.write(ours, b"One.\nTwo.\nThree.\n\x04")
            out, err = process.communicate(timeout=60)
        os.close(ours)
    assert (process.returncode, out) == (0, b"Answer 1.\n\nAnswer 2.\n")
    assert b"stopped; this message is not kept" in err
    assert [turn.text for turn in ChatStore(place / "chats.db").turns("Greeter")[::2]] == ["One.", "Three."]


def test_sigterm_ends_the_command_during_an_answer(forked, place):
    def script(request):
        process.send_signal(signal.SIGTERM)
        return Hang()

    with ScriptedModel(script) as model:
        command = [*OPERAD_COMMAND, "chat", "greeter.yaml", "--base-url", model.base_url]
        process = forked.begin(
            command, cwd=place, stdin=subprocess.PIPE, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        with process:
            out, err = process.communicate("One.\n", timeout=60)
    assert (process.returncode, out, err.splitlines()[-1]) == (143, "", "operad: terminated")


def test_an_answer_that_begins_anew_is_given_whole(piped, place):
    (place / "retry.yaml").write_text(
        GREETER.replace("instruction: Greet.", "instruction: Greet., retry: {attempts: 2, first_delay: 0.01}")
    )
    steps = iter([BreakOff(8, "One two three"), Say("Something else.")])
    with ScriptedModel(lambda request: next(steps)) as model:
        status, out, err = piped("chat", "retry.yaml", "--base-url", model.base_url, said="Hello\n")
    assert (status, out) == (0, "One two Something else.\n")
    assert "the model started again; its answer is:" in err


def test_a_workflow_of_typed_nodes_takes_a_message_as_its_one_text(piped, place):
    (place / "one.json").write_text(json.dumps(echo(["text", "string"])))
    (place / "two.json").write_text(json.dumps(echo(["text", "string"], ["n", "number"])))
    assert piped("chat", "one.json", said="Hello.\n")[:2] == (0, "Hello.\n")
    status, _, err = piped("chat", "two.json", said="Hello.\n")
    assert status == 2
    assert (
        "has the inputs text (string), n (number), but a message is one text; use operad run for such workflows" in err
    )
