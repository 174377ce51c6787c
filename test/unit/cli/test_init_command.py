"""`operad init`: what it writes runs."""

import json
import os
import sys
from pathlib import Path

import pytest

from operad.runtime.testing import Say, ScriptedModel

VERDICT = {"evaluation": "Good.", "status": "SUCCESS", "lesson": "", "blame": [], "score": 9}


def script():
    return [Say(json.dumps({"topic": "delivery"})), Say("It comes on Tuesday."), Say(json.dumps(VERDICT))]


def test_the_yaml_that_is_written_has_no_issues_and_runs_with_the_model_of_the_environment(operad, monkeypatch):
    status, out, err = operad("init", "first")
    assert (status, err) == (0, "")
    assert operad("check", "first/expert.yaml") == (0, "1 file: no issues\n", "")
    with ScriptedModel(script()) as endpoint:
        monkeypatch.setenv("OPENAI_BASE_URL", endpoint.base_url)
        monkeypatch.setenv("OPERAD_MODEL", "m")
        status, out, _ = operad("run", "first/expert.yaml", "--job", "Where is my parcel?")
    assert (status, out) == (0, "It comes on Tuesday.\n")


def python(forked, *arguments, **environment):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "OPERAD_"))}
    done = forked.run([sys.executable, *arguments], env={**kept, **environment})
    return done.returncode, done.stdout, done.stderr


def test_the_program_that_is_written_runs_without_a_model(operad, forked):
    operad("init", "first")
    assert python(forked, "first/expert.py") == (
        0,
        "round 1  rejected: The reply does not say when the parcel comes.\n"
        "round 2  accepted: The reply says what happens next, and when.\n"
        "Sorry about that! Your parcel comes on Tuesday.\n",
        "",
    )


def test_the_program_that_is_written_runs_with_the_model_of_the_environment(operad, forked):
    operad("init", "first")
    with ScriptedModel(script()) as endpoint:
        done = python(forked, "first/expert.py", "Where is it?", OPENAI_BASE_URL=endpoint.base_url, OPERAD_MODEL="m")
    assert done == (0, "round 1  accepted: Good.\nIt comes on Tuesday.\n", "")
    assert "Where is it?" in json.dumps(endpoint.requests[0])


def test_the_next_commands_are_printed(operad):
    _, out, _ = operad("init")
    assert out.startswith("wrote expert.yaml\nwrote expert.py\n")
    assert "  python expert.py\n" in out
    assert '  operad run expert.yaml --job "My parcel has not arrived."\n' in out
    assert "OPENAI_API_KEY" in out


@pytest.mark.parametrize("there", ["expert.yaml", "expert.py"])
def test_a_file_that_is_there_stays_and_nothing_is_written(there, operad):
    Path("first").mkdir()
    Path("first", there).write_text("mine")
    status, out, err = operad("init", "first")
    assert (status, out) == (2, "")
    assert err == (
        f"operad: first/{there}: already there, so nothing was written; name another folder: operad init FOLDER\n"
    )
    assert [each.name for each in Path("first").iterdir()] == [there]
    assert Path("first", there).read_text() == "mine"


def test_a_folder_that_cannot_be_made_is_said(operad):
    Path("file").write_text("")
    assert operad("init", "file")[2] == "operad: file: is a file; name a folder: operad init FOLDER\n"
    assert operad("init", "file/inside")[2] == "operad: file/inside: cannot be written: Not a directory\n"
