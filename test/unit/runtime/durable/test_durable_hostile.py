"""Databases of runs in which somebody else has written."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("sqlalchemy")

from operad.runtime import FileDescriptor, FileStore
from operad.runtime.durable.codec import Codec
from operad.runtime.durable.database_names import database_url, file_store
from operad.runtime.durable.process_ids import is_dead, process_identity
from operad.runtime.durable.store import Store
from operad.runtime.durable.tables import Executor, StoredQuestion, StoredRun
from operad.runtime.values.errors import InputError


def test_a_file_is_read_by_its_digest_and_never_by_a_path_alone(tmp_path):
    Path(tmp_path, "secret").write_text("x")
    text = Codec().dump(FileDescriptor.of(tmp_path / "secret"))
    with pytest.raises(InputError, match="is not the digest"):
        Codec(FileStore(tmp_path / "files")).load(text)


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
    assert store.create(StoredRun("one", source="null"))
    store.beat(Executor("here", queues=("q",)))
    store.ask(StoredQuestion("one", "a", "a", "How?"))
    assert store.executors()[0].queues == ("q",)
    assert store.executors()[0].limit == 10.0
    (question,) = store.questions("one")
    assert replace(question, asked=0.0) == StoredQuestion("one", "a", "a", "How?")
    assert 0 <= store.database.now() - question.asked < 3600
    store.close()


PAUSED = """
from operad.runtime import DurableWorkflow, Job, interrupt
from operad.runtime.values.errors import PausedError
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


def test_a_program_whose_run_is_paused_ends(tmp_path, forked):
    done = forked.run([sys.executable, "-c", PAUSED], cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "paused\n"), done.stderr
