"""`operad evaluate cases` and `operad evaluate judge`."""

import json
import os
import signal
import threading
from pathlib import Path

import pytest
from forked import OPERAD_COMMAND
from typer.testing import CliRunner

from operad.cli.main import app
from operad.evaluation import EvaluationReport
from operad.testing import Hang, Say, ScriptedModel

EXPERT = """
plugin: {workflow_platform: BUILTIN}
operators:
  - &look {name: look, instruction: Look up the facts.}
  - &answer {name: answer, instruction: Answer in one sentence.}
experts:
  - profile: {name: Sky}
    workflow: [[*look, *answer]]
    evaluator: {name: style, instruction: The answer is one sentence.}
    max_rounds: 1
"""
CASES = """
- {name: sky, job: What colour is the sky?, expected: Blue.}
- {name: sea, job: What colour is the sea?, expected: Green.}
"""
LABELLED = """
- {name: fine, job: x, steps: {look: light, answer: Blue.}, accepted: true}
- {name: strict, job: x, steps: {look: light, answer: Blue. And wet.}, accepted: true}
- {name: bad, job: x, steps: {look: light, answer: Green. And wet.}, accepted: false, blame: [answer]}
"""


def verdict(accepts):
    blame = {} if accepts else {"blame": ["answer"], "lesson": "Merge <b>them</b>."}
    status = "SUCCESS" if accepts else "EXECUTION_ERROR"
    found = {"evaluation": "Read.", "status": status, "lesson": "", "blame": [], "score": 9 if accepts else 3, **blame}
    return Say(json.dumps(found))


def reply(request):
    instruction, *rest = (str(message["content"]) for message in request["messages"])
    if instruction.startswith("Judge"):
        return verdict("wet" not in "".join(rest))
    if instruction.startswith("Look"):
        return Say("light")
    return Say("Blue. And wet." if "sea" in "".join(rest) else "Blue.")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in (("sky.yaml", EXPERT), ("cases.yaml", CASES), ("labelled.yaml", LABELLED)):
        Path(name).write_text(text)
    return tmp_path


@pytest.fixture
def operad(folder, monkeypatch):
    """Run the command with a scripted model: exit status, stdout, stderr, and the number of requests."""

    def operad(*arguments, script=reply):
        with ScriptedModel(script) as endpoint:
            for name, value in (("BASE_URL", endpoint.base_url), ("API_KEY", "k")):
                monkeypatch.setenv(f"OPENAI_{name}", value)
            monkeypatch.setenv("OPERAD_MODEL", "scripted")
            result = CliRunner().invoke(app, ["evaluate", *map(str, arguments)])
            return result, len(endpoint.requests)

    return operad


def test_cases_are_run_scored_and_kept(operad):
    result, _ = operad("cases", "sky.yaml", "--cases", "cases.yaml", "--json")
    found = json.loads(result.stdout)
    assert result.exit_code == 1
    assert (found["summary"]["passed"], found["summary"]["runs"]) == (1, 2)
    assert [(each["name"], each["blamed_in_rounds"]) for each in found["summary"]["operators"]] == [
        ("look", 0),
        ("answer", 1),
        ("style", 0),
    ]
    assert EvaluationReport.load("sky.evaluation.jsonl").passed == 1
    Path("report.json").write_text(result.stdout)
    assert EvaluationReport.load("report.json").passed == 1


def test_all_cases_that_pass_exit_with_zero(operad):
    Path("cases.yaml").write_text(CASES.strip().splitlines()[0])
    result, _ = operad("cases", "sky.yaml", "--cases", "cases.yaml")
    assert result.exit_code == 0
    assert "passed (%)" in result.stdout


def test_evaluators_are_named_imported_or_words(operad):
    Path("mine.py").write_text("def short(output):\n    return len(output) < 6\n")
    chosen = [item for each in ("contains", "mine:short", "It is polite.") for item in ("--evaluator", each)]
    result, _ = operad("cases", "sky.yaml", "--cases", "cases.yaml", "--json", *chosen)
    evaluators = json.loads(result.stdout)["summary"]["evaluators"]
    assert [(each["name"], each["judged"], each["passed"]) for each in evaluators] == [
        ("contains", 2, 1),
        ("short", 2, 1),
        ("it_is_polite", 2, 1),
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("equal", "did you mean 'equals'?"),
        ("nowhere:short", "'nowhere' cannot be imported"),
        ("json:figs", "'json' has no 'figs'"),
    ],
)
def test_an_evaluator_that_names_nothing_is_an_error(operad, text, told):
    result, requests = operad("cases", "sky.yaml", "--cases", "cases.yaml", "--evaluator", text)
    assert told in str(result.exception)
    assert requests == 0


def test_a_page_and_markdown_show_cases_operators_and_lessons_as_text(operad):
    operad("cases", "sky.yaml", "--cases", "cases.yaml", "--html", "r.html", "--markdown", "r.md")
    page, markdown = Path("r.html").read_text(), Path("r.md").read_text()
    assert "Merge &lt;b&gt;them&lt;/b&gt;." in page
    assert "<b>" not in page
    assert not any(text in page for text in ("<script", "src=", "http://", "https://"))
    assert "default-src 'none'" in page
    assert "`Merge <b>them</b>. (1)`" in markdown


def test_two_reports_are_compared(operad):
    operad("cases", "sky.yaml", "--cases", "cases.yaml", "-o", "before.jsonl")
    Path("cases.yaml").write_text(CASES.replace("expected: Blue.", "expected: Red."))
    arguments = ("cases", "sky.yaml", "--cases", "cases.yaml", "--compare", "before.jsonl")
    result, _ = operad(*arguments, "--json")
    comparison = json.loads(result.stdout)["summary"]["comparison"]
    assert (comparison["better"], comparison["worse"]) == ([], ["sky"])
    shown, _ = operad(*arguments)
    assert "worse" in shown.stdout
    assert "95% interval" in shown.stdout


def test_a_finished_evaluation_is_run_anew_and_one_that_ended_early_only_with_resume(operad):
    arguments = ("cases", "sky.yaml", "--cases", "cases.yaml")
    _, first = operad(*arguments)
    _, again = operad(*arguments)
    assert first == again == 6
    path = Path("sky.evaluation.jsonl")
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:2]))
    refused, asked = operad(*arguments)
    assert "--resume continues it" in str(refused.exception)
    assert asked == 0
    resumed, asked = operad(*arguments, "--resume")
    assert (resumed.exit_code, asked) == (1, 3)


def test_an_evaluation_of_other_cases_is_not_replaced(operad, folder):
    arguments = ("cases", "sky.yaml", "--cases", "cases.yaml")
    operad(*arguments)
    (folder / "cases.yaml").write_text(CASES.replace("name: sea", "name: ocean"))
    refused, _ = operad(*arguments)
    assert (refused.exit_code, "'sea#1'" in str(refused.exception)) == (1, True)
    assert "--resume" not in str(refused.exception)
    assert "sea#1" in (folder / "sky.evaluation.jsonl").read_text()


def test_a_file_that_holds_something_else_is_not_replaced(operad):
    Path("notes.txt").write_text("notes")
    result, _ = operad("cases", "sky.yaml", "--cases", "cases.yaml", "-o", "notes.txt")
    assert "is not a file of results" in str(result.exception)
    assert Path("notes.txt").read_text() == "notes"


def test_ctrl_c_keeps_what_is_done(folder, forked):
    Path("cases.yaml").write_text("".join(f"- {{name: c{n}, job: question {n}, expected: Blue.}}\n" for n in range(20)))
    hangs = threading.Event()

    def slow(request):
        if "question 11" in str(request):
            hangs.set()
            return Hang()
        return reply(request)

    with ScriptedModel(slow) as endpoint:
        environment = {"OPENAI_BASE_URL": endpoint.base_url, "OPENAI_API_KEY": "k", "OPERAD_MODEL": "scripted"}
        command = [*OPERAD_COMMAND, "evaluate", "cases", "sky.yaml", "--cases", "cases.yaml", "--concurrency", "1"]
        with forked.begin(command, cwd=folder, env={**os.environ, **environment}, stderr=-1, stdout=-1) as process:
            assert hangs.wait(60)
            process.send_signal(signal.SIGINT)
            _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"11 of 20 runs are done and kept in sky.evaluation.jsonl" in told
    assert len(EvaluationReport.load("sky.evaluation.jsonl").cases) == 11


def test_the_database_of_runs_keeps_the_results(operad):
    arguments = ("cases", "sky.yaml", "--cases", "cases.yaml", "--db", "runs.db", "--run-id", "nightly")
    first, asked = operad(*arguments)
    again, none = operad(*arguments)
    assert (asked, none) == (6, 0)
    assert first.exit_code == again.exit_code == 1
    assert not Path("sky.evaluation.jsonl").exists()
    listed = CliRunner().invoke(app, ["runs", "list", "--db", "runs.db", "--json"])
    assert len(json.loads(listed.stdout)) == 2


@pytest.mark.parametrize("more", [["--run-id", "x"], ["--db", "runs.db", "--resume"], ["--db", "runs.db", "-o", "x"]])
def test_options_of_files_and_databases_do_not_mix(operad, more):
    result, requests = operad("cases", "sky.yaml", "--cases", "cases.yaml", *more)
    assert "--run-id" in str(result.exception)
    assert requests == 0


def test_the_evaluator_of_an_expert_is_measured(operad):
    result, requests = operad("judge", "sky.yaml", "--cases", "labelled.yaml", "--json")
    summary = json.loads(result.stdout)["summary"]
    assert requests == 3
    assert {
        name: (summary[name]["count"], summary[name]["of"])
        for name in summary
        if isinstance(summary[name], dict) and "of" in summary[name]
    } == {
        "accuracy": (2, 3),
        "false_rejections": (1, 2),
        "false_acceptances": (0, 1),
        "exact": (2, 3),
        "blame_precision": (1, 2),
        "blame_recall": (1, 1),
    }
    shown, _ = operad("judge", "sky.yaml", "--cases", "labelled.yaml")
    assert "strict" in shown.stdout


def test_an_expert_without_an_evaluator_needs_one_to_be_measured(operad):
    Path("sky.yaml").write_text(
        EXPERT.replace("    evaluator: {name: style, instruction: The answer is one sentence.}\n", "")
    )
    result, _ = operad("judge", "sky.yaml", "--cases", "labelled.yaml")
    assert "has no evaluator" in str(result.exception)
    measured, requests = operad("judge", "sky.yaml", "--cases", "labelled.yaml", "--evaluator", "One sentence.")
    assert (measured.exit_code, requests) == (0, 3)


FLOW = """
workflow: greet
nodes:
  1: {type: start, variables: {name: string}}
  2: {type: llm, after: 1, system: '', user: "Greet {{#1.name#}}."}
  3: {type: template-transform, after: 2, variables: {said: 2.text}, template: "{{ said }}!"}
  4: {type: end, after: 3, outputs: {text: 3.output}}
"""


def test_scripts_checks_and_pinned_values_of_cases_need_no_model(tmp_path, monkeypatch, nothing_configured):
    monkeypatch.chdir(tmp_path)
    script = [{"operator": "2", "text": "Hello, Ada"}]
    job = {"name": "ada", "job": "greet", "inputs": {"name": "Ada"}}
    cases = [
        {**job, "script": script, "checks": [{"of": "2.text", "contains": "Ada"}, {"contains": "!"}]},
        {
            **job,
            "name": "pinned",
            "pinned": {"2": {"scratchpad": "", "outputs": {"text": "Hi"}}},
            "expected": {"text": "Hi!"},
        },
        {**job, "name": "silent", "expected": {"text": "Hi!"}},
        {**job, "name": "wrong", "script": script, "checks": [{"of": "3.output", "equals": "Bye"}]},
    ]
    Path("flow.yaml").write_text(FLOW)
    Path("cases.jsonl").write_text("".join(f"{json.dumps(case)}\n" for case in cases))
    told = CliRunner().invoke(app, ["evaluate", "cases", "flow.yaml", "--cases", "cases.jsonl", "--scripted", "--json"])
    assert told.exit_code == 1, told.output
    found = {case.name: case for case in EvaluationReport.load("flow.evaluation.jsonl").cases}
    assert {name: case.passed for name, case in found.items()} == {
        "ada": True, "pinned": True, "silent": False, "wrong": False,
    }  # fmt: skip
    assert found["silent"].error
    assert [fault.operator for each in found["wrong"].evaluators for fault in each.faults] == ["3"]
