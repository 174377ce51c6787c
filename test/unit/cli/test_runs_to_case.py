"""`operad runs to-case`."""

import json

import pytest
from typer.testing import CliRunner

from operad import Operator, Workflow
from operad.cli.main import app
from operad.evaluation import Dataset
from operad.runtime.durable import Ledger
from operad.testing import ScriptedModel


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
