import asyncio
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from forked import OPERAD_COMMAND
from trusting import with_trust
from typer.testing import CliRunner

from operad import Operator, Workflow
from operad.cli.main import app
from operad.evaluation import Dataset
from operad.runtime.durable import Ledger

pytest.importorskip("sqlalchemy")

from operad.cli.durable import new_run_id
from operad.cli.run_record import DisplayedRun, caught_up
from operad.runtime import BuiltinWorkflow, Job, Usage, WorkflowMessage, events, interrupt
from operad.runtime.durable.codec import Outcome
from operad.runtime.durable.database_names import database_url
from operad.runtime.durable.run_owner import leave
from operad.runtime.durable.tables import StoredRun
from operad.runtime.durable.work_table import StoredStep
from operad.runtime.testing import Say, ScriptedModel, ScriptedReasoner
from operad.runtime.values.pip import pip_install

STEPS = """
import asyncio, os
from pathlib import Path
from operad.operators import Operator
from operad.runtime import interrupt

class Step(Operator):
    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        with open("ran.txt", "a") as file:
            file.write(self.get_id() + "\\n")
        if os.environ.get("HANG") == self.get_id():
            Path("hangs").touch()
            await asyncio.sleep(600)
        if os.environ.get("FAIL") == self.get_id():
            raise ValueError("disk on fire") from OSError("it was hot")
        return f"{self.config.instruction} {job.goal}"

class Ask(Operator):
    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        return repr(await interrupt(self.config.instruction, {"type": "boolean"}))
"""

INPUTS = """
workflow: letter
nodes:
  1: {type: start, variables: {name: string}}
  2: {type: template-transform, after: 1, template: 'Dear {{ name }}', variables: {name: 1.name}}
  3: {type: template-transform, after: 2, template: '{{ text }} ({{ name }})', variables: {text: 2.output, name: 1.name}}
  4: {type: end, after: 3, outputs: {text: 3.output}}
"""

THREE = """
app: {desc: Greet Ada.}
operators:
  - &a {instruction: First, class: kept_steps.Step}
  - &b {instruction: Then, class: kept_steps.Step}
  - &c {instruction: Last, class: kept_steps.Step}
experts:
  - profile: {name: Three}
    max_rounds: 1
    workflow: [[*a, *b, *c]]
"""

ASKING = THREE.replace("{instruction: Then, class: kept_steps.Step}", '{instruction: "Pay?", class: kept_steps.Ask}')


@pytest.fixture
def operad(operad, tmp_path, monkeypatch):
    """Runs the command in a folder with three.yaml: exit status, stdout, stderr. Runs are kept there."""
    monkeypatch.setenv("OPERAD_DB", str(tmp_path / "runs.sqlite"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "kept_steps.py").write_text(STEPS)
    (tmp_path / "three.yaml").write_text(THREE)
    (tmp_path / "asking.yaml").write_text(ASKING)
    yield lambda *arguments: operad(*with_trust(arguments))
    for path in tmp_path.rglob("*.sqlite"):
        leave(database_url(path))


@pytest.fixture
def started(tmp_path, operad, forked):
    """Starts the command in a process of its own, in which an operator hangs."""
    processes = []

    def started(*arguments, hang):
        environment = {**os.environ, "PYTHONUNBUFFERED": "1", "HANG": hang}
        process = forked.begin(
            [*OPERAD_COMMAND, *with_trust(arguments)], cwd=tmp_path, env=environment, text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        processes.append(process)
        while not (tmp_path / "hangs").exists() and process.poll() is None:
            time.sleep(0.05)
        assert process.poll() is None, process.communicate()
        return process

    yield started
    for process in processes:
        process.kill()
        process.communicate()


def ran():
    return Path("ran.txt").read_text().split()


def rows(out):
    """The table as a dict for each run."""
    first, *others = out.splitlines()
    starts = [found.start() for found in re.finditer(r"\S+", first)]
    cut = [slice(a, b) for a, b in zip(starts, [*starts[1:], None], strict=True)]
    return [dict(zip(first.split(), (line[each].strip() for each in cut), strict=True)) for line in others]


# Beginning, and going on


def test_the_id_of_a_finished_run_with_another_job_is_an_error_only(operad):
    assert operad("run", "three.yaml", "--job", "Greet Ada.", "--run-id", "one")[0] == 0
    status, out, err = operad("run", "three.yaml", "--job", "Greet Bob.", "--run-id", "one")
    assert (status, out) == (2, "")
    assert "run 'one' has another job: its goal differs" in err
    assert "this is its result" not in err
    assert "this is its result" in operad("run", "three.yaml", "--job", "Greet Ada.", "--run-id", "one")[2]


def test_the_hint_for_an_unknown_run_names_the_database(operad, tmp_path):
    assert operad("run", "three.yaml", "--job", "Greet Ada.", "--run-id", "one", "--db", "q.db")[0] == 0
    status, _, err = operad("runs", "show", "oen", "--db", "q.db")
    assert (status, err) == (
        2,
        "operad: no run has the id 'oen' (did you mean 'one'?); to list the runs: "
        f"operad runs list --db {tmp_path / 'q.db'}\n",
    )


def test_a_run_is_kept_and_its_id_goes_on_or_prints_what_is_kept(operad, monkeypatch):
    monkeypatch.setenv("FAIL", "c")
    status, out, err = operad("run", "three.yaml", "--job", "Greet Ada.", "--run-id", "one")
    assert (status, out) == (2, "")
    assert "run: one  (operad runs show one)\n" in err
    status, out, err = operad("run", "three.yaml", "--job", "Greet Ada.", "--run-id", "one")
    assert (status, out) == (2, "")
    assert "run 'one' failed: operator 'c' of workflow 'Three' failed" in err
    assert "operad runs resume one" in err
    monkeypatch.delenv("FAIL")
    status, out, err = operad("runs", "resume", "one")
    assert (status, out) == (0, "Last Greet Ada.\n"), err
    assert "run: one  (operad runs show one)" in err
    assert "kept from before: 2 operators" in err
    assert ran() == ["a", "b", "c", "c"]
    for command in (["run", "three.yaml", "--job", "Greet Ada.", "--run-id", "one"], ["runs", "resume", "one"]):
        assert operad(*command)[:2] == (0, "Last Greet Ada.\n")
    assert json.loads(operad("runs", "resume", "one", "--json")[1])["scratchpad"] == "Last Greet Ada."
    assert ran() == ["a", "b", "c", "c"]


def test_a_run_without_an_id_gets_one_that_can_be_read(operad):
    _, out, err = operad("run", "three.yaml", "--durable", "--job", "Sing.")
    assert out == "Last Sing.\n"
    found = re.search(r"^run: (three-\d{4}-\d{4}-[0-9a-f]{4})  ", err, re.MULTILINE)
    assert found
    assert operad("runs", "resume", found[1])[:2] == (0, "Last Sing.\n")
    assert new_run_id("Ünd §").startswith("nd-")
    assert new_run_id("§").startswith("run-")


def test_a_run_is_kept_without_keys_and_with_paths_that_hold_elsewhere(operad, tmp_path):
    with ScriptedModel([Say("Hello!")]) as endpoint:
        url = endpoint.base_url.replace("http://", "http://me:secret@")
        Path("plain.yaml").write_text(THREE.replace(", class: kept_steps.Step", "").replace("[[*a, *b, *c]]", "[[*a]]"))
        operad("run", "plain.yaml", "--job", "Greet Ada.", "--run-id", "one", "--base-url", url, "--model", "small")
    with closing(sqlite3.connect("runs.sqlite")) as connection, connection:
        ((source,),) = connection.execute("SELECT source FROM operad_runs").fetchall()
    connection.close()
    assert json.loads(source) == {
        "file": str(tmp_path / "plain.yaml"), "model": "small", "base_url": endpoint.base_url,
    }  # fmt: skip
    assert b"secret" not in Path("runs.sqlite").read_bytes()


def test_after_kill_9_the_same_command_goes_on(operad, started):
    process = started("run", "three.yaml", "--job", "Greet Ada.", "--run-id", "one", hang="b")
    process.kill()
    process.communicate()
    (row,) = rows(operad("runs", "list")[1])
    assert (row["id"], row["workflow"], row["state"], row["age"][-2:]) == ("one", "Three", "interrupted", " s")
    status, out, err = operad("run", "three.yaml", "--job", "Greet Ada.", "--run-id", "one")
    assert (status, out) == (0, "Last Greet Ada.\n"), err
    assert "run: one  (operad runs show one); it is resumed" in err
    assert "kept from before: 1 operator\n" in err
    assert ran() == ["a", "b", "b", "c"]
    (row,) = rows(operad("runs", "list")[1])
    assert (row["state"], row["done"]) == ("finished: SUCCESS", "3/3")


REJECTS = """
from operad import Evaluator, Fault, WorkflowMessage, WorkflowStatus

class Rejects(Evaluator):
    async def run(self, call):
        fault = Fault(operator="c", wrong="Last", right="First")
        status = WorkflowStatus.EXECUTION_ERROR
        return WorkflowMessage(status=status, evaluation="out of order", faults=[fault], unsure=["Who Ada is."])
"""


def test_a_rejected_run_says_so_in_the_list_and_its_record_has_the_faults(operad):
    Path("kept_rejects.py").write_text(REJECTS)
    judged = THREE + "    evaluator: {instruction: Judge., class: kept_rejects.Rejects}\n"
    Path("judged.yaml").write_text(judged)
    assert operad("run", "judged.yaml", "--job", "Greet Ada.", "--run-id", "one")[0] == 1
    (row,) = rows(operad("runs", "list")[1])
    assert row["state"] == "finished: rejected (EXECUTION_ERROR)"
    (run,) = json.loads(operad("runs", "list", "--json")[1])
    assert (run["accepted"], run["status"]) == (False, "EXECUTION_ERROR")
    lines = [line.strip() for line in operad("runs", "show", "one")[1].splitlines()]
    at = lines.index("verdict   rejected: out of order (EXECUTION_ERROR)")
    assert lines[at + 1 : at + 5] == ["at fault: c", "wrong: Last", "right: First", "not verified: Who Ada is."]


@pytest.mark.parametrize(("sent", "status", "said"), [(2, 130, "interrupted"), (15, 143, "terminated")])
def test_a_signal_leaves_the_run_to_be_gone_on_with(operad, started, sent, status, said):
    process = started("run", "three.yaml", "--job", "Greet Ada.", "--run-id", "one", "--db", "runs.sqlite", hang="b")
    process.send_signal(signal.Signals(sent))
    _, err = process.communicate(timeout=60)
    assert process.returncode == status
    database = Path("runs.sqlite").absolute()
    assert err.endswith(f"operad: {said}; to resume: operad runs resume one --db {database} --trust\n")
    assert Ledger("runs.sqlite").run("one").driver == ""
    assert operad("runs", "resume", "one")[:2] == (0, "Last Greet Ada.\n")
    assert ran() == ["a", "b", "b", "c"]


def test_two_at_once_are_refused_and_one_is_cancelled_from_elsewhere(operad, started):
    process = started("run", "three.yaml", "--job", "Greet Ada.", "--run-id", "one", hang="b")
    (row,) = rows(operad("runs", "list")[1])
    assert row["state"] == "running"
    driver = Ledger("runs.sqlite").run("one").driver
    assert f":{process.pid}:" in driver
    for command in (
        ["run", "three.yaml", "--job", "Greet Ada.", "--run-id", "one"],
        ["runs", "resume", "one"],
        ["runs", "delete", "one"],
    ):
        status, out, err = operad(*command)
        assert (status, out) == (2, "")
        assert driver in err
    assert operad("runs", "resume", "one", "--restart-from", "a")[:2] == (0, "Last Greet Ada.\n")  # a copy
    assert [run["id"] for run in rows(operad("runs", "list")[1])] == ["one-2", "one"]
    assert f"{driver} drives it; operad runs cancel one ends it" in operad("runs", "show", "one")[1]
    assert operad("runs", "cancel", "one")[:2] == (0, f"one: {driver} was told to end it\n")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "run 'one' was cancelled; to resume it: operad runs resume one" in err
    assert rows(operad("runs", "list")[1])[1]["state"] == "cancelled"
    assert operad("runs", "cancel", "one")[0] == 2
    assert operad("runs", "resume", "one")[:2] == (0, "Last Greet Ada.\n")
    assert ran() == ["a", "b", "a", "b", "c", "b", "c"]


def stop_between_writes(process):
    """Stop a process that does not hold the file: others would wait for it until it ends."""
    while True:
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        with closing(sqlite3.connect("runs.sqlite", timeout=0)) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError:
                process.send_signal(signal.SIGCONT)
        time.sleep(0.01)


def test_a_run_is_cancelled_though_its_driver_is_dead_and_goes_on_all_the_same(operad, started):
    process = started("run", "three.yaml", "--job", "Greet Ada.", "--run-id", "one", hang="b")
    ledger = Ledger("runs.sqlite")
    stop_between_writes(process)
    ledger.store.request_cancel("one")
    process.kill()  # before it has heard
    process.communicate()
    assert operad("runs", "resume", "one")[:2] == (0, "Last Greet Ada.\n")
    ledger.close()


# Questions


def test_a_question_that_nobody_answers_leaves_the_run_to_be_answered_later(operad):
    status, out, err = operad("run", "asking.yaml", "--job", "Greet Ada.", "--run-id", "one")
    assert (status, out) == (2, "")
    assert "'b' asks 'Pay?', and stdin holds no answer; give it: operad runs resume one --trust --answer b=…" in err
    assert rows(operad("runs", "list")[1])[0]["state"] == "asks"
    shown = operad("runs", "show", "one")[1]
    assert "b asks: Pay? (yes or no)\n  answer it: operad runs resume one --answer b=…\n" in shown
    (question,) = json.loads(operad("runs", "show", "one", "--json")[1])["questions"]
    assert question == {"id": "b", "text": "Pay?", "schema": {"type": "boolean"}}
    status, out, err = operad("runs", "resume", "one", "--answer", "b=perhaps")
    assert (status, out) == (2, "")
    assert "--answer b=perhaps: 'perhaps' is not of type 'boolean'; it was asked: Pay?" in err
    status, out, err = operad("runs", "resume", "one", "--answer", "b=yes", "--answer", "bb=1")
    assert (status, out) == (0, "Last Greet Ada.\n")
    assert "no question used --answer bb" in err
    assert ran() == ["a", "c"]
    assert json.loads(operad("runs", "show", "one", "--json")[1])["questions"] == []
    assert operad("runs", "resume", "one", "--answer", "b=yes")[0] == 2


def test_an_answer_is_not_kept_if_the_command_fails_because_the_workflow_has_changed(operad):
    operad("run", "asking.yaml", "--job", "Greet Ada.", "--run-id", "one")
    file = Path("asking.yaml")
    text = file.read_text()
    file.write_text(text.replace(", *c]", "]"))
    status, out, err = operad("runs", "resume", "one", "--answer", "b=yes")
    assert (status, out) == (2, "")
    assert "run 'one' began with another workflow" in err
    assert [each["id"] for each in json.loads(operad("runs", "show", "one", "--json")[1])["questions"]] == ["b"]
    file.write_text(text)
    assert operad("runs", "resume", "one", "--answer", "b=yes")[:2] == (0, "Last Greet Ada.\n")


def test_a_run_that_a_program_began_is_answered_there_and_the_command_stores_nothing(operad):
    class Ask:
        def get_id(self):
            return "ask"

        async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
            return str(await interrupt("How many?", "integer"))

    reasoner = ScriptedReasoner([])

    workflow = BuiltinWorkflow(name="Mine")
    workflow.add_operator(Ask())
    ledger = Ledger("runs.sqlite")
    workflow.keep_in(ledger)

    async def until_it_asks():
        async for event in workflow.stream(Job(goal=""), reasoner, run_id="mine"):
            if isinstance(event, events.Interrupted):
                return

    asyncio.run(until_it_asks())
    assert "execute its workflow with run_id='mine'" in operad("runs", "show", "mine")[1]
    told = "in that program: ledger.answer('mine', {'ask': VALUE}), then execute its workflow with run_id='mine' again"
    assert f"answer it: {told}\n" in operad("runs", "show", "mine")[1]
    status, out, err = operad("runs", "resume", "mine", "--answer", "ask=3")
    assert (status, out) == (2, "")
    assert err == (
        "operad: run 'mine' was started by a program, not by a command, so no answer is stored; answer it "
        f"{told.replace('ask', 'QUESTION')}\n"
    )
    assert [question.answer for question in ledger.questions("mine")] == [None]
    ledger.answer("mine", {"ask": 3})
    assert workflow.execute(Job(goal=""), reasoner, run_id="mine").scratchpad == "3"
    shown = operad("runs", "show", "mine")[1]
    assert shown.endswith("for its result: run its workflow with run_id='mine' in the program that started it\n")
    assert "to go on" not in shown
    ledger.close()


# Showing


def test_show_prints_what_is_kept_for_people_and_for_programs(operad, monkeypatch):
    monkeypatch.setenv("FAIL", "b")
    operad("run", "three.yaml", "--run-id", "one", "--job", "Greet\x1b[31m all.", "--input", "tone=warm")
    status, out, _ = operad("runs", "show", "one")
    assert status == 0
    for line in (
        "state     failed, 1/3 done, driven once",
        "job       Greet\\x1b[31m all.",
        "input     tone=warm",
        "b failed: ValueError: disk on fire",
        "  caused by: OSError: it was hot",
        "to run the failed operators again: operad runs resume one",
    ):
        assert f"{line}\n" in out
    assert re.search(r"^a +done +\d+\.\d +First Greet", out, re.MULTILINE)
    told = json.loads(operad("runs", "show", "one", "--json")[1])
    assert [(step["key"], step["state"]) for step in told["operators"]] == [("a", "done"), ("b", "failed")]
    assert told["operators"][1]["error"] == ["ValueError: disk on fire", "OSError: it was hot"]
    assert (told["state"], told["job"]["inputs"], told["result"]) == ("failed", {"tone": "warm"}, None)
    (listed,) = json.loads(operad("runs", "list", "--json")[1])
    assert (listed["id"], listed["state"], listed["done"], listed["total"]) == ("one", "failed", 1, 3)


def test_progress_and_usage_of_a_run_are_at_least_those_of_its_operators():
    used = Usage(calls=1, prompt_tokens=5, completion_tokens=2)
    done = [
        StoredStep(key, Outcome(WorkflowMessage(), usage=used), 1.0, 2.0) for key in ("draft", "draft@2", "in/look")
    ]
    failed = StoredStep("ask", Outcome(error=ValueError(), usage=used), 1.0, 2.0)
    steps = [*done, failed, StoredStep("last", None, 1.0, 0.0)]
    stale = DisplayedRun(StoredRun("r", total=4, usage=""), "asks", "", (), 1.0, 1.0)
    seen = caught_up(stale, steps)
    assert seen.progress == "2/4"
    assert (seen.usage.calls, seen.usage.tokens) == (4, 28)
    ahead = replace(stale, kept=replace(stale.kept, done=4, usage=Usage(calls=9, prompt_tokens=99).model_dump_json()))
    assert (caught_up(ahead, steps).usage.calls, caught_up(ahead, steps).progress) == (9, "4/?")
    finished = replace(ahead, state="finished", kept=replace(ahead.kept, done=6))
    assert finished.progress == "6/6"


def test_list_and_show_say_the_same_of_a_run_whose_process_died_before_it_noted_its_progress(operad, monkeypatch):
    monkeypatch.setenv("FAIL", "c")
    operad("run", "three.yaml", "--job", "Greet Ada.", "--run-id", "one")
    with closing(sqlite3.connect("runs.sqlite")) as database:
        database.execute("UPDATE operad_runs SET state = 'running', done = 0")
        database.commit()
    [listed] = rows(operad("runs", "list")[1])
    assert (listed["state"], listed["done"]) == ("interrupted", "2/3")
    assert "state     interrupted, 2/3 done" in operad("runs", "show", "one")[1]


# Anew from an operator on


def test_restart_from_does_an_operator_and_what_follows_anew(operad):
    operad("run", "three.yaml", "--job", "Greet Ada.", "--run-id", "one")
    status, out, err = operad("run", "three.yaml", "--job", "Greet Ada.", "--run-id", "one", "--restart-from", "b")
    assert (status, out) == (0, "Last Greet Ada.\n"), err
    assert "run one-2: a copy of one; operators that run again: b, c" in err
    assert ran() == ["a", "b", "c", "b", "c"]
    status, _, err = operad("runs", "resume", "one-2", "--restart-from", "c")
    assert (status, ran()[5:]) == (0, ["c"])
    assert "run one-2-2: a copy of one-2" in err
    assert {run["id"]: run["state"] for run in rows(operad("runs", "list")[1])} == dict.fromkeys(
        ["one", "one-2", "one-2-2"], "finished: SUCCESS"
    )
    status, _, err = operad("runs", "resume", "one", "--restart-from", "c", "--round", "2")
    assert (status, ran()[6:]) == (2, [])
    assert "'c' did not run in round 2; it ran in: 1" in err
    assert "no operator has the path 'd'" in operad("runs", "resume", "one", "--restart-from", "d")[2]


def test_a_copy_of_a_run_continues_with_another_output_and_other_inputs(operad):
    Path("outer.yaml").write_text(INPUTS)
    status, out, err = operad("run", "outer.yaml", "--input", "name=Ada", "--run-id", "one", "--json")
    assert (status, json.loads(out)["outputs"]) == (0, {"text": "Dear Ada (Ada)"}), err
    again = ("runs", "resume", "one", "--restart-from")
    for output in ("Hi", '{"output": "Hi"}'):
        status, out, err = operad(*again, "2", "--output", f"2={output}", "--json")
        assert (status, json.loads(out)["outputs"]) == (0, {"text": "Hi (Ada)"}), err
    status, out, err = operad(*again, "3", "--input", "name=Bob", "--json")
    assert (status, json.loads(out)["outputs"]) == (0, {"text": "Dear Ada (Bob)"}), err
    assert [run["id"] for run in rows(operad("runs", "list")[1])] == ["one-4", "one-3", "one-2", "one"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--output", "2=x"], "need --restart-from"),
        (["--input", "name=Bob"], "need --restart-from"),
        (["--restart-from", "2", "--output", "9=x"], "'9'"),
        (["--restart-from", "1", "--output", '1={"nmae": "Bob"}'], "'name'"),
    ],
)
def test_changes_of_a_copy_that_do_not_fit_leave_no_copy_behind(operad, options, said):
    Path("outer.yaml").write_text(INPUTS)
    operad("run", "outer.yaml", "--input", "name=Ada", "--run-id", "one")
    status, _, err = operad("runs", "resume", "one", *options)
    assert (status, said in err) == (2, True), err
    assert [run["id"] for run in rows(operad("runs", "list")[1])] == ["one"]


def test_restart_from_with_another_job_leaves_no_copy_behind(operad):
    operad("run", "three.yaml", "--job", "Greet Ada.", "--run-id", "one")
    status, _, err = operad("run", "three.yaml", "--job", "Greet Bob.", "--run-id", "one", "--restart-from", "b")
    assert (status, "run 'one' has another job: its goal differs" in err) == (2, True), err
    assert [run["id"] for run in rows(operad("runs", "list")[1])] == ["one"]


@pytest.mark.parametrize("again", [("run", "asking.yaml", "--job", "Greet Ada.", "--run-id"), ("runs", "resume")])
def test_restart_from_with_a_wrong_answer_leaves_no_copy_behind(operad, again):
    operad("run", "asking.yaml", "--job", "Greet Ada.", "--run-id", "one", "--answer", "b=yes")
    status, _, err = operad(*again, "one", "--restart-from", "b", "--answer", "b=perhaps")
    assert (status, "--answer b=perhaps: 'perhaps' is not of type 'boolean'; it was asked: Pay?" in err) == (2, True), (
        err
    )
    assert [run["id"] for run in rows(operad("runs", "list")[1])] == ["one"]
    assert operad(*again, "one", "--restart-from", "b", "--answer", "b=no")[0] == 0


def test_a_changed_workflow_is_refused_but_from_the_change_on(operad, monkeypatch):
    monkeypatch.setenv("FAIL", "c")
    operad("run", "three.yaml", "--job", "Greet Ada.", "--run-id", "one")
    monkeypatch.delenv("FAIL")
    Path("three.yaml").write_text(THREE.replace("Then", "Next"))
    for command in (["runs", "resume", "one"], ["runs", "resume", "one", "--restart-from", "c"]):
        status, out, err = operad(*command)
        assert (status, out) == (2, "")
        assert "b" in err
        assert rows(operad("runs", "list")[1])[0]["state"] == "failed"
    assert "b has another instruction" in operad("runs", "resume", "one")[2]
    assert "--restart-from b" in operad("runs", "resume", "one")[2]
    assert operad("runs", "resume", "one", "--restart-from", "b")[:2] == (0, "Last Greet Ada.\n")
    assert ran() == ["a", "b", "c", "b", "c"]


# Forgetting


def test_delete_forgets_what_is_named_or_old(operad, monkeypatch):
    for run_id in ("one", "two"):
        operad("run", "three.yaml", "--job", "Greet Ada.", "--run-id", run_id)
    operad("run", "asking.yaml", "--job", "Greet Ada.", "--run-id", "open")
    status, out, err = operad("runs", "delete", "one", "twoo")
    assert (status, out) == (2, "")
    assert "no run has the id 'twoo' (did you mean 'two'?)" in err
    assert operad("runs", "delete", "one")[:2] == (0, "deleted: one\n")
    assert operad("runs", "delete", "--older-than", "30d")[1].startswith("nothing deleted")
    assert operad("runs", "delete", "--older-than", "0s")[1] == "deleted: two\n"
    assert operad("runs", "delete", "--older-than", "0s", "--state", "asks")[1] == "deleted: open\n"
    assert operad("runs", "list")[1].endswith("runs.sqlite: no runs\n")
    with closing(sqlite3.connect("runs.sqlite")) as connection, connection:
        assert connection.execute("SELECT count(*) FROM operad_steps").fetchall() == [(0,)]
    connection.close()


# Lists


def test_a_long_list_is_read_in_parts_the_newest_first(operad):
    for run_id in ("one", "two", "three"):
        operad("run", "three.yaml", "--job", "Greet Ada.", "--run-id", run_id)
    status, out, err = operad("runs", "list", "--limit", "2")
    assert (status, [row["id"] for row in rows(out)]) == (0, ["three", "two"])
    assert err == "there are more: operad runs list --limit 2 --after two\n"
    status, out, err = operad("runs", "list", "--limit", "2", "--after", "two")
    assert (status, [row["id"] for row in rows(out)], err) == (0, ["one"], "")
    status, out, err = operad("runs", "list", "--limit", "1", "--after", "three", "--json")
    assert (status, [row["id"] for row in json.loads(out)]) == (0, ["two"])
    assert err == "there are more: operad runs list --limit 1 --after two\n"
    assert operad("runs", "list", "--after", "one")[:2] == (0, f"{Path('runs.sqlite').resolve()}: no more runs\n")
    status, out, err = operad("runs", "list", "--after", "tow")
    assert (status, out) == (2, "")
    assert "no run has the id 'tow' (did you mean 'two'?)" in err


def test_delete_keeps_so_many_of_the_newest(operad):
    for run_id in ("one", "two", "three"):
        operad("run", "three.yaml", "--job", "Greet Ada.", "--run-id", run_id)
    operad("run", "asking.yaml", "--job", "Greet Ada.", "--run-id", "open")
    assert operad("runs", "delete", "--keep", "3")[:2] == (
        0,
        "nothing deleted: no run that is finished is beyond the 3 newest\n",
    )
    assert operad("runs", "delete", "--keep", "1", "--older-than", "1d")[1].endswith(
        "older than 1d and beyond the 1 newest\n"
    )
    assert operad("runs", "delete", "--keep", "1", "--older-than", "0s")[1] == "deleted: two\ndeleted: one\n"
    assert operad("runs", "delete", "--keep", "1", "--state", "asks")[1].startswith("nothing deleted")
    assert operad("runs", "delete", "--keep", "0", "--state", "asks")[1] == "deleted: open\n"
    assert [row["id"] for row in rows(operad("runs", "list")[1])] == ["three"]
    assert operad("runs", "delete", "--keep", "0")[1] == "deleted: three\n"
    with closing(sqlite3.connect("runs.sqlite")) as connection:
        for table in ("operad_runs", "operad_events", "operad_steps"):
            assert connection.execute(f"SELECT count(*) FROM {table}").fetchall() == [(0,)]  # noqa: S608


def test_a_configuration_says_how_many_finished_runs_are_kept(operad):
    Path("three.yaml").write_text(f"{THREE}\ndurable: {{max_runs: 2}}\n")
    for run_id in ("one", "two", "three"):
        assert operad("run", "three.yaml", "--job", "Greet Ada.", "--run-id", run_id)[0] == 0
    assert [row["id"] for row in rows(operad("runs", "list")[1])] == ["three", "two"]


# What cannot be


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["runs", "show", "oen"], "no run has the id 'oen' (did you mean 'one'?)"),
        (["runs", "resume", "oen"], "did you mean 'one'?"),
        (["runs", "cancel", "../x"], "no run has the id '../x'"),
        (["run", "three.yaml", "--job", "Greet Ada.", "--run-id", "a b/c"], "a run cannot have the id 'a b/c'"),
        (["run", "three.yaml", "--job", "Greet Ada.", "--run-id", ""], "a run cannot have the id ''"),
        (["run", "three.yaml", "--run-id", "one", "--job", "Another."], "has another job: its goal differs; "),
        (["run", "three.yaml", "--job", "Greet Ada.", "--restart-from", "a"], "--restart-from needs the run"),
        (["runs", "resume", "one", "--round", "2"], "--round needs --restart-from"),
        (["runs", "delete"], "give the ids of runs, or --older-than 30d or --keep 1000"),
        (["runs", "delete", "one", "--keep", "1"], "give the ids of runs, or --older-than 30d or --keep 1000"),
        (["runs", "delete", "--older-than", "soon"], "--older-than 'soon': write a number"),
        (["runs", "resume", "one", "--answer", "b"], "write ID=VALUE"),
        (["runs", "list", "--limit", "99999999999999999999"], "Invalid value for '--limit'"),
        (["runs", "list", "--db", "missing.sqlite"], "missing.sqlite: there is no such file, so there are no runs"),
        (["runs", "list", "--db", "no/such/x.sqlite"], "there is no folder"),
        (["run", "three.yaml", "--job", "Greet Ada.", "--db", "no/such/x.sqlite"], "there is no folder"),
        (["run", "three.yaml", "--job", "Greet Ada.", "--db", "."], "is a folder; name a file in it"),
        (["run", "three.yaml", "--job", "Greet Ada.", "--db", "three.yaml"], "file is not a database"),
        (["runs", "list", "--db", "three.yaml"], "file is not a database"),
        (["runs", "list", "--db", "mysql://me:secret@host/x"], "runs are kept in sqlite or postgresql, not in mysql"),
        (["runs", "list", "--db", "postgresql://me:secret@127.0.0.1:9/x"], "postgresql://me:***@127.0.0.1:9/x: cannot be used"),
        (["run", "three.yaml", "--job", "Greet Ada.", "--db", "postgresql://me:secret@127.0.0.1:9/x"], "cannot be used"),
        (["runs", "list", "--db", "postgresql://me:secret@host:port/x"], "the URL of the database cannot be read"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_one_message_and_exit_status_2(operad, arguments, message):
    if {"one", "oen", "../x"}.intersection(arguments):
        operad("run", "three.yaml", "--job", "Greet Ada.", "--run-id", "one")
    status, out, err = operad(*arguments)
    assert (status, out) == (2, ""), err
    assert message in err
    assert "secret" not in err
    assert not Path("missing.sqlite").exists()
    assert Path("three.yaml").read_text() == THREE


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() == 0, reason="everything can be written by root")
def test_a_database_that_cannot_be_written_is_one_message(operad, tmp_path):
    Path("closed").mkdir(mode=0o500)
    status, _, err = operad("run", "three.yaml", "--job", "Greet Ada.", "--db", "closed/runs.sqlite")
    assert status == 2
    assert "cannot be made: Permission denied" in err


def test_without_the_extra_it_is_said_what_to_install(operad, monkeypatch):
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    for command in (["runs", "list"], ["run", "three.yaml", "--job", "Greet Ada.", "--durable"]):
        status, _, err = operad(*command)
        assert (status, pip_install("durable") in err) == (2, True)


def test_of_no_runs_at_all_it_is_said_where_they_would_be(operad, monkeypatch, tmp_path):
    monkeypatch.delenv("OPERAD_DB")
    path = tmp_path / "state" / "operad" / "runs.sqlite"
    assert operad("runs", "list")[:2] == (0, f"{path}: no runs\n")
    assert path.stat().st_mode & 0o777 == 0o600


# Databases in which somebody else has written


def planted(statement, *values):
    with closing(sqlite3.connect("runs.sqlite")) as connection, connection:
        connection.execute(statement, values)
    connection.close()


def test_a_key_is_sent_to_no_endpoint_that_only_the_database_names(operad):
    operad("run", "asking.yaml", "--job", "Greet Ada.", "--run-id", "one")
    source = {"file": str(Path("asking.yaml").absolute()), "base_url": "http://127.0.0.1:9/v1"}
    planted("UPDATE operad_runs SET source = ?", json.dumps(source))
    status, _, err = operad("runs", "resume", "one")
    assert status == 2
    assert "is kept with the endpoint http://127.0.0.1:9/v1, and keys are sent only to endpoints that you name" in err
    command = "operad runs resume one --base-url http://127.0.0.1:9/v1"
    assert command in err
    assert command in operad("runs", "show", "one")[1]
    answered = operad("runs", "resume", "one", "--answer", "b=yes", "--base-url", "http://127.0.0.1:9/v1")
    assert answered[0] == 0, answered


@pytest.mark.parametrize("schema", ["{{", "5", "[" * 100_000, '{"type": "strin", "enum": 7}'])
def test_a_schema_that_cannot_be_used_is_said(operad, schema):
    operad("run", "asking.yaml", "--job", "Greet Ada.", "--run-id", "one")
    planted("UPDATE operad_questions SET schema = ?", schema)
    assert "asks" in operad("runs", "list")[1]
    assert "the JSON Schema of its answer is not valid" in operad("runs", "show", "one")[1]
    status, _, err = operad("runs", "resume", "one", "--answer", "b=yes")
    assert status == 2
    assert "the JSON Schema of its answer is not valid" in err


def test_rows_of_nonsense_hide_no_other_run(operad):
    operad("run", "three.yaml", "--job", "Greet Ada.", "--run-id", "one")
    columns = "id, kind, process, version, queues, doing, concurrency, started, beat, max_silence"
    planted(f"INSERT INTO operad_executors ({columns}) VALUES ('\x1b[2J[red]x','w','','[/x]','{{','5',1,0,'now','x')")  # noqa: S608
    planted("UPDATE operad_runs SET done = 'many', created = x'00', source = '{', graph = '[1]'")
    assert "one" in operad("runs", "list")[1]
    assert "Last Greet Ada." in operad("runs", "show", "one")[1]
    assert operad("runs", "show", "one", "--json")[0] == 0
    status, out, _ = operad("workers")
    assert status == 0
    assert "\x1b" not in out
    assert "\\x1b[2J[red]x" in out
    assert "[/x]" in out


def test_a_planted_id_is_quoted_in_commands(operad):
    operad("run", "asking.yaml", "--job", "Greet Ada.", "--run-id", "one")
    planted("UPDATE operad_runs SET run_id = 'one;touch x'")
    assert "operad runs resume 'one;touch x'" in operad("runs", "show", "one;touch x")[1]
    assert "no '-' first" in operad("run", "three.yaml", "--job", "Greet Ada.", "--run-id=-x")[2]


def test_a_run_with_a_place_for_files_can_be_looked_at_and_delivered(operad):
    Path("note.txt").write_text("x")
    operad("run", "three.yaml", "--job", "Greet Ada.", "--run-id", "one", "--files", "kept", "--file", "note.txt")
    status, out, err = operad("runs", "show", "one")
    assert status == 0, err
    assert "note.txt" in out
    assert "cannot be read" not in out
    assert operad("runs", "resume", "one")[0] == 0


def test_the_id_of_a_run_is_printed_when_the_database_has_the_run(operad, tmp_path, monkeypatch):
    (tmp_path / "letter.operad.yaml").write_text(INPUTS)
    stored = []

    def say(console, line):
        if found := re.match(r"run: (\S+)", line):
            with closing(sqlite3.connect(tmp_path / "runs.sqlite")) as database:
                stored.append(
                    database.execute("select count(*) from operad_runs where run_id = ?", (found[1],)).fetchone()
                )

    monkeypatch.setattr("operad.cli.follow.say", say)
    operad("run", "letter.operad.yaml", "--input", "name=Ada", "--db", "runs.sqlite", "--durable")
    assert stored == [(1,)]


def test_show_has_the_result_of_a_workflow_of_typed_nodes(operad, tmp_path):
    (tmp_path / "letter.operad.yaml").write_text(INPUTS)
    operad("run", "letter.operad.yaml", "--input", "name=Ada", "--db", "runs.sqlite", "--durable", "--run-id", "letter")
    _, out, _ = operad("runs", "show", "letter", "--db", "runs.sqlite")
    assert re.search(r"^result +Dear Ada \(Ada\)$", out, re.MULTILINE)


# `operad runs to-case`


@pytest.fixture
def database(tmp_path, monkeypatch):
    """The path of a database with the finished run r1."""
    monkeypatch.setenv("SHOP_TOKEN", "figs-and-dates")
    path = tmp_path / "runs.db"
    with (
        Ledger(path) as ledger,
        ScriptedModel(["The token is figs-and-dates, the key sk-abcdefghijkl, too."]) as endpoint,
    ):
        Workflow(Operator("Answer.", id="answer"), durable=ledger).run("Which?", model=endpoint.model, run_id="r1")
    return path


def to_case(*arguments):
    return CliRunner().invoke(app, ["runs", "to-case", *map(str, arguments)])


def test_a_run_is_printed_as_a_case_without_secrets(database):
    case = json.loads(to_case("r1", "--db", database).stdout)
    assert (case["name"], case["job"], case["accepted"]) == ("r1", "Which?", True)
    assert case["steps"]["answer"]["message"] == "The token is [hidden], the key [key], too."
    assert case["script"] == [
        {"operator": "answer", "instruction": "Answer.", "text": "The token is [hidden], the key [key], too."}
    ]


def test_runs_are_added_to_a_file_of_cases(database, tmp_path):
    path = tmp_path / "cases.jsonl"
    told = to_case("r1", "--db", database, "-o", path)
    assert "check `accepted`" in told.stderr
    assert [case.name for case in Dataset.load(path)] == ["r1"]


def test_a_run_that_is_not_there_is_an_error(database):
    assert "r2" in str(to_case("r2", "--db", database).exception)
