"""`operad evaluate resolve`: over real HTTP, with files, a judge, interrupts, and endpoints that fail."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from operad.cli import main as cli
from operad.runtime.testing import Fail, Hang, Say, ScriptedModel

FLOW = {
    "nodes_info": [
        {"id": "1", "type": "start", "param": {"variables": [["topic", "string"]]}},
        {"id": "2", "type": "llm", "param": {"system": "", "user": "Write on {{#1.topic#}}."}},
        {"id": "3", "type": "end", "param": {"outputs": [["text", ["text", "2"]]]}},
    ],
    "edges": [["1", 0, "2"], ["2", 0, "3"]],
}
EXPORT = {
    "nodes_info": [
        *FLOW["nodes_info"][:2],
        {"id": "3", "type": "markdown-exporter", "param": {"target_type": "md", "md_text": "{{#2.text#}}"}},
        {"id": "4", "type": "end", "param": {"outputs": [["text", ["text", "2"]], ["file", ["files", "3"]]]}},
    ],
    "edges": [["1", 0, "2"], ["2", 0, "3"], ["3", 0, "4"]],
}
READ = {
    "nodes_info": [
        {"id": "1", "type": "start", "param": {"variables": [["paper", "file"]]}},
        {"id": "2", "type": "document-extractor", "param": {"variable_selector": ["paper", "1"]}},
        {"id": "3", "type": "end", "param": {"outputs": [["text", ["text", "2"]]]}},
    ],
    "edges": [["1", 0, "2"], ["2", 0, "3"]],
}
QUERIES = [
    {"id": 1, "category": "AIGC", "task": "Essay", "query1": "Write an essay.", "query2": "As a file, too."},
    {"id": 2, "category": "Research", "task": "Reader", "query1": "Read a paper."},
]
TOPICS = {f"test{number}": {"topic": topic} for number, topic in enumerate(("figs", "nuts", "tea"), 1)}
PAPERS = {f"test{n}": {"paper": {"mime_type": "document/txt", "value": f"paper {n}.txt"}} for n in (1, 2, 3)}
PASS_KEYS = {
    "Essay_1": {"input_var": ["topic"], "output_var": ["text"], "related_nodes": ["llm"], **TOPICS},
    "Essay_2": {"input_var": ["topic"], "output_var": ["text", "file"], "related_nodes": ["llm"], **TOPICS},
    "Reader_1": {"input_var": ["paper"], "output_var": ["text"], "related_nodes": ["document-extractor"], **PAPERS},
}
NODES: dict[str, str] = {"start": "Start", "end": "End", "llm": "LLM"}


def record(task, number, flow: Any):
    selection = ", ".join(NODES.get(node["type"]) or node["type"] for node in flow["nodes_info"])
    return {
        "task": task,
        "round": number,
        "node_selection": selection,
        "design_principle": "One step after another.",
        "workflow": json.dumps(flow),
    }


RECORDS = [record("Essay", 1, FLOW), record("Essay", 2, EXPORT), record("Reader", 1, READ)]


def judge(request):
    """Finds right what is about figs, whatever was read."""
    shown = str(request["messages"][-1]["content"])
    return Say(json.dumps({"reason": "As asked for.", "resolved": "nuts" not in shown}))


def answer(request):
    """A model that writes, and judges."""
    if "response_format" in request:
        return judge(request)
    return Say(str(request["messages"][-1]["content"]))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a dataset and the run `runs/m.json`, and an environment that names nothing."""
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith(("OPENAI_", "OPERAD_", "SERPAPI_")):
            monkeypatch.delenv(name)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "dataset").mkdir()
    (tmp_path / "runs").mkdir()
    (tmp_path / "files").mkdir()
    for name, value in (
        ("dataset/query.json", QUERIES),
        ("dataset/check_pass_stage.json", PASS_KEYS),
        ("dataset/check_resolve_stage.json", {"Essay_2": {"file": ".md"}}),
        ("runs/m.json", RECORDS),
    ):
        (tmp_path / name).write_text(json.dumps(value))
    for number in (1, 2, 3):
        (tmp_path / "files" / f"paper {number}.txt").write_text(f"This is paper {number}.")
    return tmp_path


@pytest.fixture
def resolve(folder, monkeypatch, capsys):
    """Runs the command: exit status, stdout, stderr."""

    def resolve(*arguments, run="runs/m.json"):
        monkeypatch.setattr(sys, "argv", ["operad", "evaluate", "resolve", run, "--dataset", "dataset", *arguments])
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        assert "internal error" not in captured.err
        return exit_.value.code, captured.out, captured.err

    return resolve


@pytest.fixture
def endpoint():
    """An endpoint that writes and judges, and the options for it."""
    with ScriptedModel(answer) as model:
        yield model, ("--model", "m", "--base-url", model.base_url)


def items(out):
    return {item["key"]: item for item in json.loads(out)["items"]}


def test_responses_are_run_and_judged(resolve, endpoint, folder):
    model, options = endpoint
    status, out, _ = resolve(*options, "--files", "files", "--json", "--at-once", "2", "--keep", "kept")
    found = items(out)
    summary = json.loads(out)["summary"]
    counts = summary["counts"]["runs/m"]
    assert status == 0
    assert [found[f"runs/m {key}"]["resolved"] for key in ("Essay_1 test1", "Essay_1 test2", "Essay_2 test3")] == [
        True,
        False,
        True,
    ]
    assert found["runs/m Essay_1 test2"]["step"] == "2_3"
    assert found["runs/m Reader_1 test1"]["reason"] == "As asked for."
    assert found["runs/m Essay_1 test1"]["usage"]["calls"] == 2
    assert (counts["cases"], counts["resolved"], counts["steps"]["2_3"]) == (9, 7, 2)
    domains = {name: rate for name, rate in summary["domains"]["runs/m"].items() if rate is not None}
    assert domains == pytest.approx({"Research": 1, "AIGC": 2 / 3, "Average": 7 / 9})
    assert summary["rounds"]["runs/m"] == pytest.approx({"1": 5 / 6, "2": 2 / 3})
    assert counts["usage"]["calls"] == len(model.requests) == 15
    kept = sorted(path.relative_to(folder / "kept").as_posix() for path in (folder / "kept").rglob("*.md"))
    assert kept == [f"runs_m_Essay_2_test{n}/markdown-exporter-3.md" for n in (1, 2, 3)]


def test_tables_name_files_that_are_missing(resolve, endpoint, folder):
    (folder / "files" / "paper 2.txt").unlink()
    _, options = endpoint
    status, out, err = resolve(*options, "--files", "files")
    assert status == 0
    assert "1 of 9 test cases are left out, because these 1 files are missing, in --files files:\n  paper 2.txt" in err
    assert "no file" in out
    assert "runs/m" in out
    assert "Resolve rate, by domain" in out
    _, _, err = resolve(*options)
    assert "3 of 9 test cases are left out, because these 3 files are missing, as --files names no folder" in err
    assert not list((folder / "tmp").iterdir())


def test_a_response_that_does_not_pass_is_not_run(resolve, endpoint, folder):
    model, options = endpoint
    broken = {**RECORDS[0], "workflow": None}
    (folder / "runs" / "m.json").write_text(json.dumps([broken]))
    _, out, _ = resolve(*options, "--json")
    assert [item["step"] for item in items(out).values()] == ["1_1"] * 3
    assert [item["resolved"] for item in items(out).values()] == [False] * 3
    assert not model.requests


def test_wrong_files_end_at_step_2_2(resolve, endpoint, folder):
    _, options = endpoint
    pdf = json.dumps({"Essay_2": {"file": ".pdf"}})
    (folder / "dataset" / "check_resolve_stage.json").write_text(pdf)
    _, out, _ = resolve(*options, "--json", "--only", "Essay_2")
    assert {item["step"] for item in items(out).values()} == {"2_2"}
    assert "markdown-exporter-3.md where .pdf is wanted" in items(out)["runs/m Essay_2 test1"]["reason"]


def test_a_judge_of_its_own(resolve, endpoint):
    model, options = endpoint
    with ScriptedModel(judge) as other:
        _, out, _ = resolve(
            *options, "--judge-model", "j", "--judge-base-url", other.base_url, "--only", "Essay_1", "--json"
        )
        assert len(other.requests) == len(model.requests) == 3
        assert {request["model"] for request in other.requests} == {"j"}
        assert json.loads(out)["summary"]["settings"]["judge"] == f"j at {other.base_url}"


def test_what_is_kept_is_not_run_again(resolve, endpoint, folder):
    model, options = endpoint
    first = resolve(*options, "--files", "files", "--output", "o.jsonl", "--json")
    asked = len(model.requests)
    second = resolve(*options, "--files", "files", "--output", "o.jsonl", "--json")
    assert json.loads(first[1]) == json.loads(second[1])
    assert len(model.requests) == asked
    (folder / "files" / "paper 1.txt").write_text("Another paper.")
    resolve(*options, "--files", "files", "--output", "o.jsonl", "--json")
    assert len(model.requests) == asked + 1


def test_files_that_come_later_are_run_then(resolve, endpoint):
    _, options = endpoint
    _, out, _ = resolve(*options, "--only", "Reader", "--output", "o.jsonl", "--json")
    assert [item["resolved"] for item in items(out).values()] == [None] * 3
    _, out, _ = resolve(*options, "--only", "Reader", "--output", "o.jsonl", "--json", "--files", "files")
    assert [item["resolved"] for item in items(out).values()] == [True] * 3


def test_a_service_that_comes_later_is_used_then(resolve, endpoint, folder, monkeypatch):
    model, options = endpoint
    draw = {
        "nodes_info": [
            FLOW["nodes_info"][0],
            {"id": "2", "type": "text2image", "param": {"prompt": "{{#1.topic#}}"}},
            {"id": "3", "type": "end", "param": {"outputs": [["text", ["topic", "1"]], ["file", ["files", "2"]]]}},
        ],
        "edges": FLOW["edges"],
    }
    key = {**PASS_KEYS["Essay_2"], "related_nodes": ["text2image"]}
    (folder / "dataset" / "check_pass_stage.json").write_text(json.dumps({**PASS_KEYS, "Essay_2": key}))
    (folder / "runs" / "m.json").write_text(json.dumps([RECORDS[0], record("Essay", 2, draw)]))
    _, out, err = resolve(*options, "--output", "o.jsonl", "--json")
    assert "1 of 2 responses are not run: no model makes images, and a text2image node needs that" in err
    assert items(out)["runs/m Essay_2 test1"]["reason"].startswith("no service: no model makes images")
    monkeypatch.setenv("OPERAD_IMAGE_MODEL", "painter")
    monkeypatch.setenv("OPENAI_BASE_URL", model.base_url)
    status, _, err = resolve(*options, "--output", "o.jsonl", "--json")
    assert "3 of 6 were done before" in err
    assert (status, "painter at" in err) == (2, True)  # the scripted endpoint draws nothing


@pytest.mark.parametrize("failure", [Fail(401), Fail(404)])
def test_an_endpoint_that_fails_ends_it_and_what_is_done_is_kept(resolve, folder, failure):
    working = [True]

    def until_it_fails(request):
        if len(model.requests) > 4 and working[0]:
            return failure
        return answer(request)

    with ScriptedModel(until_it_fails) as model:
        options = ("--model", "m", "--base-url", model.base_url, "--only", "Essay", "--output", "o.jsonl")
        status, out, err = resolve(*options)
        assert (status, out) == (2, "")
        assert "2 of 6 items are done and kept in o.jsonl" in err
        working[0] = False
        status, out, err = resolve(*options, "--json")
        assert status == 0
        assert "2 of 6 were done before" in err
        assert sum(item["resolved"] for item in items(out).values()) == 4


def test_an_endpoint_that_is_not_there(resolve, folder):
    status, out, err = resolve("--model", "m", "--base-url", "http://127.0.0.1:9/v1", "--only", "Essay_1")
    assert (status, out) == (2, "")
    assert "cannot connect" in err
    assert "0 of 3 items are done" in err


def test_a_request_that_is_refused_is_the_workflows_fault(resolve):
    with ScriptedModel(lambda request: Fail(400, "too much")) as model:
        status, out, _ = resolve("--model", "m", "--base-url", model.base_url, "--only", "Essay_1", "--json")
    assert status == 0
    assert {item["step"] for item in items(out).values()} == {"2_1"}
    assert all("operator '2'" in item["reason"] for item in items(out).values())


def test_workflows_that_take_too_long_are_stopped(resolve):
    with ScriptedModel(lambda request: Hang()) as model:
        options = ("--model", "m", "--base-url", model.base_url, "--only", "Essay_1")
        status, out, _ = resolve(*options, "--seconds", "0.3", "--at-once", "3", "--json")
    assert status == 0
    assert {item["reason"] for item in items(out).values()} == {"ran longer than the 0.3 s that it may"}


@pytest.mark.slow
def test_an_interrupted_evaluation_goes_on(folder, forked):
    """The process is really interrupted, after some items, and another one goes on."""
    stuck = threading.Event()
    go_on = threading.Event()

    def slow(request):
        if len(model.requests) > 5:
            stuck.set()
            go_on.wait(60)
        return answer(request)

    command = [
        sys.executable,
        "-c",
        "from operad.cli.main import main; main()",
        "evaluate",
        "resolve",
        "runs/m.json",
    ]
    with ScriptedModel(slow) as model:
        command += ["--dataset", "dataset", "--model", "m", "--base-url", model.base_url, "--output", "o.jsonl"]
        command += ["--only", "Essay", "--json"]
        with forked.begin(command, cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert stuck.wait(60)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        go_on.set()
        assert (process.returncode, out) == (130, "")
        assert "interrupted; 2 of 6 items are done and kept in o.jsonl" in err
        assert len(Path(folder, "o.jsonl").read_text().splitlines()) == 3
        asked = len(model.requests)
        done = forked.run(command, cwd=folder)
        assert "2 of 6 were done before" in done.stderr
        assert len(items(done.stdout)) == 6
        assert len(model.requests) == asked + 8
    assert not list((folder / "tmp").iterdir())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--only", "Essy"), "--only: the dataset has no 'Essy' (did you mean 'Essay'?)"),
        (("--only", "Essay_3"), "the dataset has no 'Essay_3' (did you mean 'Essay_"),
        (("--files", "nowhere"), "--files nowhere: is not there"),
        (("--files", "runs/m.json"), "--files runs/m.json: is not a folder"),
        (("--keep", "runs/m.json"), "--keep runs/m.json: is not a folder"),
        (("--seconds", "nan"), "--seconds nan: must be more than 0"),
        (("--seconds", "-1"), "--seconds -1: must be more than 0"),
        (("--services", "none.yaml"), "none.yaml"),
        (("--plot", "x.gif"), "must end in .png or .svg"),
        (("--judge-model", "embedded"), "cannot judge; name another model"),
        (("--dataset", "runs"), "runs/query.json: cannot be read"),
    ],
)
def test_wrong_options_are_told_before_anything_is_run(resolve, endpoint, arguments, said):
    model, options = endpoint
    status, out, err = resolve(*options, *arguments)
    assert (status, out) == (2, "")
    assert said in err
    assert not model.requests


def test_rates_are_drawn_and_models_with_several_runs_have_a_mean(resolve, endpoint, folder):
    pytest.importorskip("matplotlib")
    _, options = endpoint
    (folder / "more").mkdir()
    (folder / "more" / "m.json").write_text(json.dumps([{**RECORDS[0], "workflow": None}]))
    status, out, _ = resolve("more/m.json", *options, "--only", "Essay_1", "--json", "--plot", "rates.png")
    assert status == 0
    summary = json.loads(out)["summary"]
    assert {name: rates["AIGC"] for name, rates in summary["domains"].items()} == pytest.approx(
        {"more/m": 0, "runs/m": 2 / 3, "m: mean of 2 runs": 1 / 3}
    )
    assert summary["rounds"]["m: mean of 2 runs"] == pytest.approx({"1": 1 / 3})
    assert (folder / "rates.png").read_bytes().startswith(b"\x89PNG")


# Recorded responses


def test_tables_without_rows_are_left_out(resolve, endpoint):
    _, options = endpoint
    status, out, _ = resolve(*options, "--only", "Reader")
    assert (status, "Where test cases end" in out) == (0, True)
    assert "Resolve" not in out


def test_recorded_responses_run_to_their_end(resolve, endpoint, folder, shared_data):
    data = shared_data / "chat2workflow"
    _, options = endpoint
    status, out, err = resolve(
        *options, "--dataset", str(data / "dataset"), "--json", "--at-once", "2", "--keep", "kept",
        "--only", "HTML_1", "--only", "StoryPPT_1", "--only", "SciencePopularization_1", "--only", "PaperQA_1",
        run=str(data / "apr" / "gpt_5d1.json"),
    )  # fmt: skip
    assert status == 0
    assert "Question Answering based Clinical Text Structuring Using Pre-trained Language Model.pdf" in err
    found = items(out)
    assert all(found[f"apr/gpt_5d1 HTML_1 test{n}"]["resolved"] for n in (1, 2, 3))
    assert all(found[f"apr/gpt_5d1 PaperQA_1 test{n}"]["reason"].startswith("no file: ") for n in (1, 2, 3))
    assert len(list((folder / "kept").rglob("*.html"))) == 3
