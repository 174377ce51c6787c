"""Databases of runs in which somebody else has written."""

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("dbos")

from operad.runtime import FileDescriptor, FileStore
from operad.runtime.durable.places import check_id, database_url, file_store, is_dead, process_identity
from operad.runtime.durable.store import Executor, KeptQuestion, KeptRun, Store
from operad.runtime.durable.wire import Wire
from operad.runtime.errors import InputError
from test.unit.test_runs_command import operad  # noqa: F401 - a fixture


def planted(statement, *values):
    with sqlite3.connect("runs.sqlite") as connection:
        connection.execute(statement, values)
    connection.close()


def test_a_key_is_sent_to_no_endpoint_that_only_the_database_names(operad):  # noqa: F811
    operad("run", "asking.yaml", "--run-id", "one")
    source = {"file": str(Path("asking.yaml").absolute()), "base_url": "http://127.0.0.1:9/v1"}
    planted("UPDATE operad_runs SET source = ?", json.dumps(source))
    status, _, err = operad("runs", "resume", "one")
    assert status == 2
    assert "is kept with the endpoint http://127.0.0.1:9/v1, and keys are sent only where you say" in err
    command = "operad runs resume one --base-url http://127.0.0.1:9/v1"
    assert command in err
    assert command in operad("runs", "show", "one")[1]
    answered = operad("runs", "resume", "one", "--answer", "b=yes", "--base-url", "http://127.0.0.1:9/v1")
    assert answered[0] == 0, answered


@pytest.mark.parametrize("schema", ["{{", "5", "[" * 100_000, '{"type": "strin", "enum": 7}'])
def test_a_schema_that_cannot_be_used_is_said(operad, schema):  # noqa: F811
    operad("run", "asking.yaml", "--run-id", "one")
    planted("UPDATE operad_questions SET schema = ?", schema)
    assert "asks" in operad("runs")[1]
    assert "the schema of its answer cannot be used" in operad("runs", "show", "one")[1]
    status, _, err = operad("runs", "resume", "one", "--answer", "b=yes")
    assert status == 2
    assert "the schema of its answer cannot be used" in err


def test_rows_of_nonsense_hide_no_other_run(operad):  # noqa: F811
    operad("run", "three.yaml", "--run-id", "one")
    columns = "id, kind, process, version, queues, doing, concurrency, started, beat, max_silence"
    planted(f"INSERT INTO operad_executors ({columns}) VALUES ('\x1b[2J[red]x','w','','[/x]','{{','5',1,0,'now','x')")  # noqa: S608
    planted("UPDATE operad_runs SET done = 'many', created = x'00', source = '{', graph = '[1]'")
    assert "one" in operad("runs")[1]
    assert "Last Greet Ada." in operad("runs", "show", "one")[1]
    assert operad("runs", "show", "one", "--json")[0] == 0
    status, out, _ = operad("workers")
    assert status == 0
    assert "\x1b" not in out
    assert "\\x1b[2J[red]x" in out
    assert "[/x]" in out


def test_a_planted_id_is_quoted_in_commands(operad):  # noqa: F811
    operad("run", "asking.yaml", "--run-id", "one")
    planted("UPDATE operad_runs SET run_id = 'one;touch x'")
    assert "operad runs resume 'one;touch x'" in operad("runs", "show", "one;touch x")[1]
    with pytest.raises(InputError, match="no '-' first"):
        check_id("-x")


def test_a_file_is_read_by_its_digest_and_never_by_a_path_alone(tmp_path):
    Path(tmp_path, "secret").write_text("x")
    text = Wire().dump(FileDescriptor.of(tmp_path / "secret"))
    with pytest.raises(InputError, match="is no digest"):
        Wire(FileStore(tmp_path / "files")).load(text)


def test_databases_of_a_server_have_folders_of_their_own_for_files(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    urls = [database_url(f"postgresql://ada:{word}@host/{name}") for name, word in (("a", "x"), ("a", "y"), ("b", "x"))]
    one, same, other = (vars(vars(file_store(None, url))["_folder"])["root"] for url in urls)
    assert one == same != other


def test_an_identity_without_a_number_is_not_known_to_be_dead():
    here = process_identity().split()
    assert not is_dead(" ".join([*here[:2], "abc"]))
    assert not is_dead(" ".join(here[:2]))


def test_rows_become_values_of_their_types(tmp_path):
    store = Store(database_url(tmp_path / "runs.sqlite"))
    assert store.create(KeptRun("one", source="null"))
    store.beat(Executor("here", queues=("q",)))
    store.ask(KeptQuestion("one", "a", "a", "How?"))
    assert store.executors()[0].queues == ("q",)
    assert store.executors()[0].limit == 10.0
    assert store.questions("one") == [KeptQuestion("one", "a", "a", "How?")]
    store.close()


def test_a_run_with_a_place_for_files_can_be_looked_at_and_delivered(operad):  # noqa: F811
    Path("note.txt").write_text("x")
    operad("run", "three.yaml", "--run-id", "one", "--files", "kept", "--file", "note.txt")
    status, out, err = operad("runs", "show", "one")
    assert status == 0 and "note.txt" in out and "cannot be read" not in out, err
    assert operad("runs", "resume", "one")[0] == 0


PAUSED = """
from operad.runtime import DurableWorkflow, Job, interrupt
from operad.runtime.errors import PausedError
class Pay:
    def get_id(self): return "pay"
    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        return await interrupt("Pay?")
workflow = DurableWorkflow("paused.sqlite", name="pay")
workflow.add_operator(Pay())
try:
    workflow.execute(Job(goal="x"), None, run_id="one")
except PausedError:
    print("paused")
"""


def test_a_program_whose_run_is_paused_ends(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", PAUSED], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "paused\n"), done.stderr
