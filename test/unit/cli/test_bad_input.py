"""Bad input of every command: one clear message, exit status 2, no traceback."""

import os
import sys
from pathlib import Path

import pytest
from amounts import sample

from operad.flows.formats.table import FORMATS
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.runtime.durable.database_names import database_url
from operad.runtime.durable.run_owner import leave

FILES = ("missing", "folder", "binary", "empty", "unreadable", "other.txt", "two\nlines", "x" * 5000)
READERS = {
    "check": ["check", "FILE"],
    "run": ["run", "FILE", "--job", "x"],
    "run --file": ["run", "expert.yaml", "--job", "x", "--file", "FILE"],
    "run --services": ["run", "flow.json", "--services", "FILE"],
    "run --prices": ["run", "expert.yaml", "--job", "x", "--prices", "FILE"],
    "run --db": ["run", "expert.yaml", "--job", "x", "--db", "FILE/x.sqlite"],
    "show": ["show", "FILE"],
    "convert": ["convert", "FILE", "--to", "dify"],
    "convert --object-info": ["convert", "flow.json", "--to", "dify", "--object-info", "FILE"],
    "edit": ["edit", "FILE", "--op", "delete 1"],
    "edit --ops": ["edit", "flow.json", "--ops", "FILE"],
    "repair": ["repair", "FILE"],
    "report": ["report", "FILE"],
    "insights": ["insights", "FILE"],
    "generate --continue": ["generate", "x", "--continue", "FILE"],
    "generate --designer": ["generate", "x", "--designer", "FILE"],
    "optimise": ["optimise", "FILE", "--tasks", "FILE"],
    "optimise --tasks": ["optimise", "expert.yaml", "--tasks", "FILE"],
    "runs list": ["runs", "list", "--db", "FILE"],
    "runs show": ["runs", "show", "one", "--db", "FILE"],
    "runs resume": ["runs", "resume", "one", "--db", "FILE"],
    "runs cancel": ["runs", "cancel", "one", "--db", "FILE"],
    "runs delete": ["runs", "delete", "one", "--db", "FILE"],
    "serve": ["serve", "FILE"],
    "serve --key-file": ["serve", "expert.yaml", "--key-file", "FILE"],
    "view": ["view", "FILE", "--no-browser"],
    "worker": ["worker", "FILE"],
    "workers": ["workers", "--db", "FILE"],
    "evaluate worf": ["evaluate", "worf", "FILE", "--gold", "FILE"],
    "evaluate comfy": ["evaluate", "comfy", "FILE", "--object-info", "FILE"],
    "evaluate pass": ["evaluate", "pass", "FILE", "--dataset", "FILE"],
    "evaluate resolve": ["evaluate", "resolve", "FILE", "--dataset", "FILE"],
    "init": ["init", "FILE"],
}
"""Commands that read a file, which FILE stands for."""

GOOD = {
    ("run --file", "empty"),
    ("run --file", "other.txt"),
    ("run --file", "two\nlines"),
    ("run --db", "folder"),
    ("init", "missing"),
    ("init", "folder"),
    ("init", "two\nlines"),
}
"""What is no bad input."""

GOOD |= {("runs list", "empty"), ("workers", "empty")}
"""An empty file is a database without runs."""

GOOD |= {("view", file) for file in ("binary", "empty", "other.txt", "two\nlines")}
"""A file of events may still be written: the page waits for it."""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with bad files, and with a good one of each kind."""
    folder = tmp_path_factory.mktemp("bad")
    (folder / "folder").mkdir()
    (folder / "binary").write_bytes(b"\x7fELF\0\xff\xfe")
    (folder / "empty").write_bytes(b"")
    (folder / "other.txt").write_text("Dear all,\n\tthis is a letter: no more.\n")
    (folder / "two\nlines").write_text("Dear all")
    (folder / "unreadable").symlink_to("unreadable")
    (folder / "expert.yaml").write_text(
        "operators: [{name: greet, instruction: Greet.}]\n"
        "experts: [{profile: {name: Greeter}, workflow: [[greet]]}]\n"
        "model: {name: m, base_url: 'http://127.0.0.1:9/v1', max_retries: 0}\n"
    )
    graph = NodeGraph(
        [NodeSpec("1", "start", {"variables": []}), NodeSpec("2", "end", {"outputs": []})], [Edge("1", "2")], "a"
    )
    (folder / "flow.json").write_bytes(FORMATS["chat2workflow"].dump(graph))
    yield folder
    for path in folder.rglob("*.sqlite"):
        leave(database_url(path))  # a process drives runs in one database at a time


@pytest.fixture
def operad(operad, files, monkeypatch):
    """Runs the command in the folder of bad files: exit status, stdout, stderr."""
    monkeypatch.chdir(files)
    monkeypatch.setenv("OPERAD_DB", str(files / "runs.sqlite"))
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    return operad


@pytest.mark.parametrize(
    ("command", "file"),
    sample(
        [
            pytest.param(command, file, id=f"{command}-{file[:10]}".replace("\n", " "))
            for command in READERS
            for file in FILES
        ],
        4,
    ),
)
def test_a_file_that_a_command_cannot_use_is_one_message_and_exit_2(command, file, operad):
    if (command, file) in GOOD:
        pytest.skip("no bad input")
    status, out, err = operad(*(argument.replace("FILE", file) for argument in READERS[command]))
    told = out if command == "check" else err
    assert status == 2, out + err
    assert "Traceback" not in err
    assert "internal error" not in err
    assert told.strip()
    assert command == "check" or "operad: " in err
    assert len(told.splitlines()) <= 6, told
    assert not Path("one").exists()


OPTIONS = [
    ["run", "expert.yaml", "--job", "x", "--round", "0"],
    ["run", "expert.yaml", "--job", "x", "--round", "2"],
    ["run", "expert.yaml", "--job", "x", "--input", "novalue"],
    ["run", "expert.yaml", "--job", "x", "--answer", "novalue"],
    ["run", "expert.yaml", "--job", "x", "--trace", "nowhere"],
    ["run", "expert.yaml", "--job", "x", "--view-port", "70000"],
    ["run", "expert.yaml", "--job", "x", "--events", "folder"],
    ["run", "expert.yaml", "--job", "x", "--output", "made"],
    ["run", "expert.yaml", "--job", "x", "--out", "made"],
    ["run", "flow.json", "--output", "other.txt"],
    ["convert", "flow.json"],
    ["convert", "flow.json", "--to", "difi"],
    ["convert", "flow.json", "-o", "folder", "--to", "dify"],
    ["convert", "flow.json", "-o", "missing/x.dify.yml"],
    ["show", "flow.json", "-o", "x.gif"],
    ["show", "expert.yaml", "-o", "x"],
    ["show", "expert.yaml", "-o", "missing/x.md"],
    ["edit", "flow.json"],
    ["edit", "flow.json", "--op", "fly 1"],
    ["edit", "flow.json", "--op", "delete 9", "--format", "difi"],
    ["report", "other.txt", "-o", "x.doc"],
    ["generate"],
    ["generate", "x", "--picture", "x.gif"],
    ["generate", "x", "-o", "missing/x.yaml"],
    ["generate", "x", "--to", "difi"],
    ["generate", "x", "--run", "novalue"],
    ["insights", "other.txt", "--clear", "--forget", "x"],
    ["nodes", "lmm"],
    ["nodes", "no.such.Module"],
    ["optimise", "expert.yaml"],
    ["runs", "shoe"],
    ["runs", "resume", "one", "--answer", "novalue"],
    ["runs", "delete"],
    ["runs", "delete", "--older-than", "soon"],
    ["serve", "expert.yaml", "--port", "70000"],
    ["serve", "expert.yaml", "--host", "no such host"],
    ["serve", "expert.yaml", "--host", "0.0.0.0"],  # noqa: S104 - refused without keys
    ["view", "--port", "-1"],
    ["worker", "expert.yaml", "--concurrency", "0"],
    ["worker", "expert.yaml", "expert.yaml"],
    ["evaluate", "comfy", "flow.json"],
    ["evaluate", "worf", "flow.json", "--gold", "flow.json", "--plot", "x.gif"],
    ["evaluate", "shine", "flow.json"],
    ["--log-level", "loud", "nodes"],
]


@pytest.mark.parametrize("arguments", OPTIONS, ids=" ".join)
def test_an_option_that_cannot_be_is_said_and_exit_2(arguments, operad):
    status, out, err = operad(*arguments)
    assert (status, out) == (2, ""), err
    assert "Traceback" not in err
    assert "internal error" not in err
    assert err.strip()


def test_a_current_folder_that_is_gone_is_said(operad, tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    told = "operad: the current folder does not exist any more; change to another one\n"
    assert operad("trust", "--revoke", "expert.yaml") == (2, "", told)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["chat", "expert.yaml", "--db", "folder"], "operad: folder: is a folder; name a file in it\n"),
        (["chats", "--db", "folder"], "operad: folder: is a folder; name a file in it\n"),
        (["studio", os.devnull], f"operad: {os.devnull}: is neither a folder nor a regular file\n"),
        (["run", "expert.yaml", "--job", "x", "--files", "other.txt"], "--files other.txt: is a file; name a folder\n"),
        (["worker", "expert.yaml", "--db", "x.sqlite", "--files", "other.txt"], "--files other.txt: is a file; name a folder\n"),
        (["serve", "expert.yaml", "expert.yaml"], ", in expert.yaml, expert.yaml; name each file once\n"),
    ],
    ids=str,
)  # fmt: skip
def test_a_file_or_folder_in_a_wrong_place_is_said_as_what_it_is(operad, monkeypatch, arguments, told):
    with Path("expert.yaml").open() as lines:
        monkeypatch.setattr(sys, "stdin", lines)
        status, out, err = operad(*arguments)
    assert (status, out) == (2, "")
    assert err.endswith(told), err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_without_permission_is_said(operad, files):
    (files / "secret").touch(mode=0)
    assert operad("run", "secret", "--job", "x")[0] == 2
