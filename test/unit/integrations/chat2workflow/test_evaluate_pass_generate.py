"""`operad evaluate pass --generate`: responses are made, recorded, gone on with, and judged again for nothing."""

import json

import pytest

from operad.cli.evaluate.work import IncompleteError
from operad.cli.main import app
from operad.runtime.testing import Fail, Say, ScriptedModel
from operad.runtime.values.errors import InputError

ASKED = {
    "query1": "The user provides a question (variable question). Answer it. The workflow outputs the answer (variable answer).",
    "query2": "Also translate the answer into French. The workflow outputs only the translation (variable french).",
}
KEYS = {
    "Answers_1": {"input_var": ["question"], "output_var": ["answer"], "related_nodes": ["llm"]},
    "Answers_2": {"input_var": ["question"], "output_var": ["french"], "related_nodes": ["llm"]},
    "Questions_1": {"input_var": ["question"], "output_var": ["answer"], "related_nodes": ["llm"]},
    "Questions_2": {"input_var": ["question"], "output_var": ["french"], "related_nodes": ["llm"]},
}


def node(id, type, after=(), **params):
    return {"id": id, "type": type, "after": list(after), "params": params}


FIRST = [
    node("1", "start", variables=[{"name": "question", "type": "string"}]),
    node("2", "llm", ["1"], system="", user="{{#1.question#}}"),
    node("3", "end", ["2"], outputs=[{"name": "answer", "value": "2.text"}]),
]
SECOND = [
    node("4", "llm", ["2"], system="", user="Into French: {{#2.text#}}"),
    node("3", "end", ["4"], outputs=[{"name": "french", "value": "4.text"}]),
]
CONTENT = {"evaluation": "right", "findings": []}


class Model:
    """Answers the stages of both rounds; fails from a call on, if told to."""

    def __init__(self, fails_at=None):
        self.calls, self.fails_at = 0, fails_at

    def __call__(self, request):
        self.calls += 1
        if self.fails_at and self.calls >= self.fails_at:
            return Fail(503)
        form = request["response_format"]["json_schema"]["schema"]["properties"]
        told = "\n".join(str(message["content"]) for message in request["messages"])
        if "nodes" in form:
            return Say(json.dumps({"nodes": SECOND if "into French" in told else FIRST}))
        return Say(json.dumps(CONTENT))


@pytest.fixture
def dataset(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "dataset"
    folder.mkdir()
    tasks = [
        {"id": n, "category": "Research", "task": name, **ASKED} for n, name in enumerate(["Answers", "Questions"])
    ]
    cases = {f"test{n}": {"question": "What?"} for n in (1, 2, 3)}
    keys = {name: {**key, **cases} for name, key in KEYS.items()}
    for name, value in (("query", tasks), ("check_pass_stage", keys), ("check_resolve_stage", {})):
        (folder / f"{name}.json").write_text(json.dumps(value), encoding="utf-8")
    return folder


def evaluate(model, *options):
    with ScriptedModel(model) as scripted:
        named = ["--generate", "--model", "scripted", "--base-url", scripted.model.base_url]
        app(["evaluate", "pass", "run.jsonl", "--dataset", "dataset", *named, *options], standalone_mode=False)


def test_all_rounds_are_generated_and_pass(dataset, capsys):
    evaluate(Model(), "--json")
    found = json.loads(capsys.readouterr().out)
    assert [(item["task"], item["round"], item["passed"], item["sound"]) for item in found["items"]] == [
        ("Answers", 1, True, True),
        ("Answers", 2, True, True),
        ("Questions", 1, True, True),
        ("Questions", 2, True, True),
    ]
    records = [json.loads(line) for line in (dataset.parent / "run.jsonl").read_text().splitlines()]
    assert records[1]["node_selection"] == "start, llm, end"
    assert records[1]["accepted"] is True
    assert records[1]["tokens"] > 0


def test_a_recorded_run_is_judged_again_for_nothing(dataset, capsys):
    evaluate(Model())
    capsys.readouterr()
    app(["evaluate", "pass", "run.jsonl", "--dataset", "dataset", "--json"], standalone_mode=False)
    assert all(item["passed"] for item in json.loads(capsys.readouterr().out)["items"])


def test_an_endpoint_that_breaks_down_keeps_what_was_made(dataset):
    with pytest.raises(IncompleteError, match=r"1 of 4 responses are made and kept in run\.jsonl"):
        evaluate(Model(fails_at=2))
    again = Model()
    evaluate(again)
    assert again.calls == 3
    assert len((dataset.parent / "run.jsonl").read_text().splitlines()) == 4


def test_a_line_cut_off_in_the_middle_is_made_again(dataset, capsys):
    evaluate(Model())
    path = dataset.parent / "run.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    again = Model()
    evaluate(again)
    assert again.calls == 1


@pytest.mark.parametrize(
    "content", ["{}\n", "[1]\n", "hello\n", "[" * 100_000 + "\n", '{"task": "A", "round": 1, "workflow": "no"}\n']
)
def test_another_file_is_left_as_it_is(dataset, content):
    path = dataset.parent / "run.jsonl"
    path.write_text(content)
    with pytest.raises(InputError, match="is not a generated response"):
        evaluate(Model())
    assert path.read_text() == content


def test_a_folder_is_no_run_to_be_generated(dataset):
    (dataset.parent / "run.jsonl").mkdir()
    with pytest.raises(InputError, match="cannot be used: Is a directory"):
        evaluate(Model())


def test_one_run_is_generated_at_a_time(dataset):
    with pytest.raises(InputError, match="makes one run, not 2"):
        evaluate(Model(), "other.jsonl")
