import os
import runpy
import sys
from pathlib import Path

import pytest
from forked import OPERAD_COMMAND

from operad.testing import Plausible, ScriptedModel

HERE = Path(__file__).parent
EXPERT = HERE / "release_credits" / "release_credits.yaml"
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "OPERAD_"))}


@pytest.fixture
def done_by(forked):
    """Runs a program that succeeds; what came of it."""

    def done_by(*command, **environment):
        done = forked.run([sys.executable, *command], env={**ENVIRONMENT, **environment})
        assert done.returncode == 0, done.stderr
        return done

    return done_by


@pytest.fixture
def run(done_by):
    """Runs a program that succeeds; what it prints."""
    return lambda *command, **environment: done_by(*command, **environment).stdout


EXPECTED = {
    "chat_with_memory.py": "  (2 model calls)\n> Who am I, and what was the number of my mill?\n"
    "You are Ada, and your mill has the number KM-2081.  (1 model calls)\nkept: 10 turns\n",
    "run_generate.py": "the very same as before: 1, 2\n",
    "run_leader.py": "to be done: costs, table, text; kept: visitors\n",
    "run_nodes.py": "We do. They are from Crete.\nmade: markdown-exporter-5.docx\n",
    "run_operator.py": "answer: {'person': 'Marit Solberg'}",
    "run_eval_operator.py": "lesson: Not planets: Pluto.",
    "run_lesson.py": "round 2 runs costs, letter and reuses read, dates, people\nSUCCESS, blamed: nobody\n",
    "run_optimise.py": "nothing is left to be improved: 0.00 became 0.96 by: add_operator check\n",
    "run_orders.py": "approve: Order olives?\nmail: stopped\ntold by phone: ordered\n",
    "run_workflow.py": "Thank you, Nils Berg!\nSUCCESS - Nils Berg is thanked in the entry\n2 model calls",
}


SLOW = {"run_workflow.py", "run_nodes.py", "run_optimise.py", "run_lesson.py"}


@pytest.mark.parametrize("name", [pytest.param(each, marks=[pytest.mark.slow] * (each in SLOW)) for each in EXPECTED])
def test_an_example_runs_on_this_machine_alone(name, run):
    assert EXPECTED[name] in run(HERE / name)


@pytest.mark.parametrize("name", ["chat_with_memory.py", "run_operator.py", "run_eval_operator.py", "run_lesson.py"])
def test_an_example_runs_on_an_endpoint_with_a_key(name, run):
    with ScriptedModel(lambda _: Plausible(), wants_key="sk-right") as endpoint:
        out = run(HERE / name, OPENAI_BASE_URL=endpoint.base_url, OPENAI_API_KEY="sk-right", OPERAD_MODEL="big")
    assert endpoint.requests
    assert all(request["model"] == "big" for request in endpoint.requests)
    assert "embedded" not in out


@pytest.mark.slow  # `make run` does it
def test_the_main_job_thanks_everybody_after_a_lesson(tmp_path, done_by):
    events = tmp_path / "run.jsonl"
    done = done_by(
        *OPERAD_COMMAND[1:], "run", EXPERT, "--trust", "--file", HERE / "data" / "NEWS", "--events", events,
    )  # fmt: skip
    told = done.stderr.splitlines()
    assert told[:2] == [
        "job: Whom to thank for the newest release of a project, and for what, from its changelog. "
        f"(no --job is given; this is the description in {EXPERT})",
        "model: SmolLM2-135M-Instruct, embedded; it can pick from given choices, but not judge, summarise or choose tools",
    ]
    assert told[-3:-1] == [
        "In round 1 the evaluator (judge) found a fault: 1 of 10 entries is at fault.",
        "In round 2 only credit (for 1 of 10 items) and write ran again; read was reused.",
    ]
    assert done.stdout == (HERE / "data" / "credits.md").read_text(encoding="utf-8")
    rounds = [line for line in events.read_text(encoding="utf-8").splitlines() if '"RoundFinished"' in line]
    assert len(rounds) == 2
    assert "EXECUTION_ERROR" in rounds[0]
    assert "'Paper Crane' stands after 'the'" in rounds[0]
    assert "SUCCESS" in rounds[1]


def test_the_leader_runs_on_an_endpoint_with_a_key(run):
    answer = runpy.run_path(str(HERE / "run_leader.py"))["answer"]
    with ScriptedModel(answer, wants_key="sk-right") as endpoint:
        out = run(HERE / "run_leader.py", OPENAI_BASE_URL=endpoint.base_url, OPENAI_API_KEY="sk-right")
    assert "6 sub-jobs done" in out
    assert "beginning all over: 7 sub-jobs done" in out
