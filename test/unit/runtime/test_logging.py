"""What is logged: where in a run it was said, as JSON lines if wanted, and never a secret."""

import ast
import io
import json
import logging
from pathlib import Path

import pytest

from operad.runtime import BuiltinWorkflow, Job, OperatorError, WorkflowStatus, events
from operad.runtime.observe.logs import JsonFormatter, RunFilter, log_event
from operad.runtime.testing import Fail, Say, ScriptedModel, ScriptedReasoner

ROOT = Path(__file__).parents[3]
CANARY = "canary-9f8e7d6c5b4a"
EXPERT = """
operators:
  - &greet {instruction: Greet.}
experts:
  - profile: {name: Greeter}
    max_rounds: 1
    workflow: [[*greet]]
"""


@pytest.fixture
def lines():
    """What is logged as JSON, line by line, once it was."""
    text, log = io.StringIO(), logging.getLogger("operad")
    handler = logging.StreamHandler(text)
    handler.addFilter(RunFilter())
    handler.setFormatter(JsonFormatter())
    log.addHandler(handler)
    before = log.level
    log.setLevel(logging.DEBUG)
    yield lambda: [json.loads(line) for line in text.getvalue().splitlines()]
    log.removeHandler(handler)
    log.setLevel(before)


class Do:
    def __init__(self, work):
        self._work = work

    def get_id(self):
        return "a"

    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        return self._work()


async def run(work, **options):
    workflow = BuiltinWorkflow(name="flow", **options)
    workflow.add_operator(Do(work))
    await workflow.aexecute(Job(goal="goal"), ScriptedReasoner([]), run_id="R")


async def test_what_an_operator_logs_says_where_it_was(lines):
    def work():
        logging.getLogger("operad.mine").warning("two\nlines of %s", "text")
        return ""

    await run(work)
    [line] = lines()
    assert line.pop("time").endswith("+00:00")
    assert line == {
        "level": "WARNING",
        "logger": "operad.mine",
        "message": "two\nlines of text",
        "run_id": "R",
        "operator": "a",
        "round": 1,
        "attempt": 1,
    }


async def test_outside_of_runs_there_is_no_where(lines):
    logging.getLogger("operad.mine").warning("hello")
    assert lines()[0].keys() == {"time", "level", "logger", "message"}


async def test_an_error_is_there_with_its_traceback(lines):
    try:
        raise ValueError("wrong")
    except ValueError:
        logging.getLogger("operad.mine").exception("it failed")
    [line] = lines()
    assert line["message"] == "it failed"
    assert line["error"].endswith("ValueError: wrong")


async def test_a_runs_events_are_log_lines(lines):
    await run(lambda: "", listeners=[log_event])
    assert [(line["level"], line["message"].split(" after ")[0], line.get("operator")) for line in lines()] == [
        ("INFO", "run of 'flow' begins", None),
        ("INFO", "'a' begins", "a"),
        ("INFO", "'a' ended", "a"),
        ("INFO", "round 1: SUCCESS", None),
        ("INFO", "run ended: SUCCESS", None),
    ]
    assert {line["run_id"] for line in lines()} == {"R"}


async def test_failures_are_warnings(lines):
    def fail():
        raise ValueError("wrong")

    with pytest.raises(OperatorError):
        await run(fail, listeners=[log_event])
    warned = [line["message"] for line in lines() if line["level"] == "WARNING"]
    assert warned[0].endswith(": ValueError: wrong")
    assert len(warned) == 2


# The command


@pytest.fixture
def operad(operad, tmp_path, monkeypatch):
    """Runs the command in a folder with expert.yaml: exit status, stdout, stderr."""
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    (tmp_path / "expert.yaml").write_text(EXPERT)
    root, ours = logging.getLogger(), logging.getLogger("operad")
    before = root.handlers[:], root.level, ours.level
    yield operad
    root.handlers[:], level, ours_level = before
    root.setLevel(level)
    ours.setLevel(ours_level)


def logged(err):
    return [json.loads(line) for line in err.splitlines() if line.startswith("{")]


def test_a_command_logs_as_json_if_told_to(operad):
    with ScriptedModel([Say("Hello.")]) as endpoint:
        status, out, err = operad(
            "--log-json", "run", "expert.yaml", "--job", "Greet.", "--base-url", endpoint.base_url
        )
    assert (status, out) == (0, "Hello.\n")
    assert [line["message"].split(" after")[0] for line in logged(err)] == [
        "run of 'Greeter' begins",
        "'greet' begins",
        "'greet' ended",
        "round 1: SUCCESS",
        "run ended: SUCCESS",
    ]


def test_a_command_logs_text_from_a_level_on(operad):
    with ScriptedModel([Fail(400, "no \x1b[31mred")]) as endpoint:
        status, _, err = operad(
            "--log-level", "warning", "run", "expert.yaml", "--job", "Greet.", "--base-url", endpoint.base_url
        )
    assert status == 2
    assert " INFO " not in err
    assert "\x1b" not in err


def test_without_being_told_nothing_is_logged(operad):
    with ScriptedModel([Say("Hello.")]) as endpoint:
        _, _, err = operad("run", "expert.yaml", "--job", "Greet.", "--base-url", endpoint.base_url)
    assert logged(err) == []
    assert "operad.run" not in err


@pytest.mark.parametrize("step", [Say("Hello."), Fail(401, f"Incorrect API key: {CANARY}."), Fail(403, "no", headers={"X-Key": CANARY})])  # fmt: skip
def test_a_key_is_in_no_log_however_much_is_logged(operad, step):
    with ScriptedModel([step], wants_key=CANARY) as endpoint:
        _, out, err = operad(
            "--log-level", "debug", "--log-json", "run", "expert.yaml", "--job", "Greet.", "--base-url", endpoint.base_url
        )  # fmt: skip
    assert len(logged(err)) > 3
    assert CANARY not in out + err


def test_what_is_a_level_is_said(operad):
    status, _, err = operad("--log-level", "loud", "run", "expert.yaml")
    assert status == 2
    assert "debug" in err


def test_nothing_but_commands_prints():
    printing = []
    for folder in ("runtime", "operators", "flows", "evaluators"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            tree = ast.parse(text if "print(" in text else "")
            calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
            printing += [str(path) for call in calls if isinstance(call.func, ast.Name) and call.func.id == "print"]
    assert printing == []


def test_a_rejected_round_and_evidence_that_was_cut_are_logged(caplog):
    caplog.set_level(logging.INFO, "operad.run")
    status = WorkflowStatus.EXECUTION_ERROR
    log_event(events.RoundFinished(round=1, status=status, evaluation="secret", lesson="", blame=("a", "sums[3]")))
    log_event(events.EvidenceCut(operator_id="judge", operators=("a", "b"), characters=1_234))
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("INFO", "round 1: rejected (EXECUTION_ERROR); at fault: a, sums[3]"),
        ("WARNING", "'judge' was shown only a part of a, b: 1,234 characters are left out"),
    ]
