"""`operad evaluate pass`: rates of runs, kept results, the judge, and what cannot be judged."""

import json
import sys

import pytest

from operad.cli import main as cli
from operad.integrations.chat2workflow.commands.pass_rate import report_of
from operad.runtime.testing import Fail, Say, ScriptedModel

GOOD = {
    "nodes_info": [
        {"id": "1", "type": "start", "param": {"variables": [["text", "string"]]}},
        {"id": "2", "type": "llm", "param": {"system": "", "user": "Summarise {{#1.text#}}"}},
        {"id": "3", "type": "end", "param": {"outputs": [["summary", ["text", "2"]]]}},
    ],
    "edges": [["1", 0, "2"], ["2", 0, "3"]],
}
UNSOUND = json.loads(json.dumps(GOOD).replace('"text", "2"', '"gone", "2"'))
VERDICT = '{"reason": "as planned", "consistent": %s}'


def record(number, workflow=GOOD):
    text = workflow if isinstance(workflow, str) else json.dumps(workflow)
    said = {"node_selection": "Start, LLM, End", "design_principle": "Summarise.", "workflow": text}
    return {"task": "Summary", "round": number, **said}


@pytest.fixture
def operad(tmp_path, monkeypatch, capfdbinary):
    """Runs the command in a folder with a dataset of two rounds: status, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    key = {"input_var": ["text"], "output_var": ["summary"], "related_nodes": ["llm"], "test1": {"text": "x"}}
    data = tmp_path / "data"
    data.mkdir()
    query = {
        "category": "Document",
        "task": "Summary",
        "query1": "Summarise a text (variable text) that the user provides as input. Output the summary (variable summary).",
        "query2": "Be brief.",
    }
    (data / "query.json").write_text(json.dumps([query]))
    (data / "check_pass_stage.json").write_text(json.dumps({"Summary_1": key, "Summary_2": key}))
    (data / "check_resolve_stage.json").write_text("{}")

    def operad(*arguments):
        monkeypatch.setattr(sys, "argv", ["operad", "evaluate", "pass", *map(str, arguments), "--dataset", "data"])
        with pytest.raises(SystemExit) as left:
            cli.main()
        out, err = capfdbinary.readouterr()
        return left.value.code or 0, out.decode(), err.decode()

    return operad


@pytest.fixture
def runs(tmp_path):
    """Two runs of one model, and one of another."""
    for name, records in {
        "a/model.json": [record(1), record(2, "{")],
        "b/model.json": [record(1), record(2, UNSOUND)],
        "b/other.json": [record(1)],
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(json.dumps(records))
    return ["a/model.json", "b/model.json", "b/other.json"]


def test_json_has_an_item_for_each_response_and_rates_of_runs_and_models(operad, runs):
    status, out, err = operad(*runs, "--json")
    found = json.loads(out)
    assert status == 0
    assert "b/other.json: answers 1 of 2 instructions; its rates are of these" in err
    first, broken, _, unsound, _ = found["items"]
    assert (first["file"], first["task"], first["round"]) == ("a/model.json", "Summary", 1)
    assert (first["passed"], first["fail_step"], first["sound"], first["issues"]) == (True, None, True, [])
    assert (broken["passed"], broken["fail_step"], broken["sound"]) == (False, "1_1", False)
    assert (unsound["passed"], unsound["sound"]) == (True, False)
    assert set(unsound["issues"][0]) == {"code", "message", "where"}
    summary = found["summary"]
    assert [summary["runs"][name]["passed"] for name in ("a/model", "b/model", "b/other")] == [0.5, 1, 1]
    assert summary["models"]["model"]["passed"] == 0.75
    assert summary["models"]["model"]["by_category"]["passed"]["Document"] == 0.75
    assert summary["models"]["model"]["by_round"]["sound"] == {"1": 1, "2": 0}
    assert summary["runs"]["a/model"]["fail_steps"] == {"1_1": 1, "1_2": 0, "1_3": 0, "1_4": 0}


def test_tables_show_runs_and_means(operad, runs):
    status, out, _ = operad(*runs)
    assert status == 0
    for said in ("Pass rate, steps 1 to 4, by domain", "model: mean of 2 runs", "mean of 2 models", "75.00", "87.50"):
        assert said in out


def test_results_are_kept_and_taken_again(operad, runs, tmp_path):
    operad(*runs, "--output", "kept.jsonl", "--json")
    (tmp_path / "b" / "other.json").write_text(json.dumps([record(1, "{")]))
    status, out, err = operad(*runs, "--output", "kept.jsonl", "--json")
    assert status == 0
    assert "4 of 5 were done before" in err
    assert json.loads(out)["items"][-1]["fail_step"] == "1_1"


def test_responses_can_be_repaired_before_they_are_judged(operad, runs):
    (status, plain, _), (_, mended, _) = operad("b/model.json", "--json"), operad("b/model.json", "--repair", "--json")
    before, after = json.loads(plain)["items"][1], json.loads(mended)["items"][1]
    assert status == 0
    assert (before["sound"], "repairs" in before) == (False, False)
    assert (after["passed"], after["sound"]) == (True, True)
    assert set(after["repairs"][0]) == {"rule", "where", "what", "why"}


def test_a_run_whose_name_begins_with_an_underscore_is_in_the_legend(operad, tmp_path):
    pytest.importorskip("matplotlib")
    (tmp_path / "_a").mkdir()
    for name in ("_a/model.json", "b.json"):
        (tmp_path / name).write_text(json.dumps([record(1), record(2)]))
    assert operad("_a/model.json", "--plot", "rates.svg")[0] == 0


def test_a_picture_is_drawn(operad, runs, tmp_path):
    pytest.importorskip("matplotlib")
    assert operad(*runs, "--plot", "rates.svg")[0] == 0
    assert b"by round" in (tmp_path / "rates.svg").read_bytes() or (tmp_path / "rates.svg").stat().st_size


def test_a_model_judges_what_passes(operad, runs):
    with ScriptedModel([Say(VERDICT % "true"), Say(VERDICT % "true"), Say(VERDICT % "false")]) as model:
        status, out, _ = operad("b/model.json", "a/model.json", "--judge", "--model", "m", "--base-url", model.base_url, "--json")  # fmt: skip
    items = json.loads(out)["items"]
    assert status == 0
    assert [item.get("consistent") for item in items] == [True, True, False, None]
    assert json.loads(out)["summary"]["models"]["model"]["judged"] == 0.5


def test_a_response_without_a_verdict_counts_as_not_consistent_and_the_others_are_judged(operad, runs):
    asked = ("b/model.json", "--judge", "--model", "m", "--json")
    with ScriptedModel([*[Say("no")] * 3, Say(VERDICT % "true")]) as model:
        status, out, _ = operad(*asked, "--base-url", model.base_url)
    first, second = json.loads(out)["items"]
    assert status == 0
    assert first["consistent"] is False
    assert first["judged"].startswith("no verdict: ")
    assert second["consistent"] is True


def test_a_judge_that_fails_ends_the_evaluation_and_what_was_done_is_kept(operad, runs, tmp_path):
    asked = ("b/model.json", "--judge", "--model", "m", "--output", "kept.jsonl", "--json")
    with ScriptedModel([Say(VERDICT % "true"), Fail(401)]) as model:
        status, _, err = operad(*asked, "--base-url", model.base_url)
    assert status != 0
    assert "1 of 2 items are done and kept in kept.jsonl" in err
    assert len((tmp_path / "kept.jsonl").read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["no.json"], "no.json: cannot be read"),
        (["a/model.json", "a/model.json"], "is there twice"),
        (["a/model.json", "--model", "m"], "add one of these"),
        (["a/model.json", "--judge", "--model", "embedded"], "cannot judge"),
        (["a/model.json", "--plot", "x.gif"], ".png or .svg"),
        (["data/check_resolve_stage.json"], "task: must be a text"),
        (["data/query.json"], "round: must be a whole number"),
    ],
)
def test_what_cannot_be_judged_is_refused_without_a_traceback(operad, runs, arguments, said):
    status, out, err = operad(*arguments)
    assert (status, out) == (2, "")
    assert said in err
    assert "Traceback" not in err


def test_a_report_of_nothing_is_empty():
    report = report_of([], {"judge": None})
    assert (report.summary["runs"], report.items) == ({}, [])
