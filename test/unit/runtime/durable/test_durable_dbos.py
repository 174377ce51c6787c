"""What is relied upon in dbos beyond what it documents: where a version of it differs, this says in what."""

import inspect
import threading
import time
from concurrent.futures import Future
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from uuid import uuid4

import pytest
from dbos import DBOS, DBOSClient
from dbos import _serialization as serialization
from dbos._dbos import DBOSRegistry, _get_dbos_instance, _get_or_create_dbos_registry
from dbos._sys_db import SystemDatabase
from dbos._utils import INTERNAL_QUEUE_NAME
from sqlalchemy import NullPool, create_engine, text

from operad.runtime import InputError
from operad.runtime.durable import dbos_process
from operad.runtime.durable.database_names import database_url
from operad.runtime.durable.dispatch import Request
from operad.runtime.durable.serializer import JsonSerializer, refuse_pickles

RENDEZVOUS = 10.0
QUEUES = dbos_process.Queues(("queue",), 4, recorded=lambda _: None, listening=lambda: True)


def parameters(function):
    return list(inspect.signature(function).parameters)


def test_it_is_the_version_that_this_was_written_for():
    assert version("dbos").startswith("3."), "read its changes, then this file, then allow it here"


@pytest.mark.parametrize(
    ("function", "named"),
    [
        (SystemDatabase.reenqueue_for_recovery, ["self", "workflow_id", "executor_ids", "recovery_queue_name"]),
        (DBOSRegistry._register_internal_queue, ["self", "name", "limits"]),
        (SystemDatabase._is_latest_version, ["self", "app_version", "c"]),
        (SystemDatabase._now_ms_sql, ["self"]),
        (SystemDatabase.verify_migrations, ["self"]),
        (SystemDatabase.run_migrations, ["self"]),
        (_get_dbos_instance, []),
        (_get_or_create_dbos_registry, []),
        (serialization.DefaultSerializer.serialize, ["self", "data"]),
        (serialization.deserialize_value, ["serialized_value", "serialization", "serializer"]),
        (serialization.deserialize_args, ["serialized_value", "serialization", "serializer"]),
        (serialization.deserialize_exception, ["serialized_value", "serialization", "serializer"]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_is_private_in_it_is_called_as_it_was(function, named):
    assert parameters(function) == named


@pytest.mark.parametrize(
    ("function", "named"),
    [
        (DBOSClient.__init__, {"system_database_url", "serializer", "application_name", "lazy"}),
        (
            DBOSClient.list_workflows,
            {"workflow_ids", "workflow_id_prefix", "status", "load_input", "load_output", "limit", "offset"},
        ),
        (DBOSClient.delete_workflows, {"workflow_ids"}),
        (DBOSClient.cancel_workflows, {"workflow_ids"}),
        (DBOSClient.destroy, set()),
        (DBOS.destroy, {"workflow_completion_timeout_sec"}),
        (DBOS.listen_queues, set()),
    ],
    ids=lambda value: getattr(value, "__qualname__", ""),
)
def test_what_it_offers_takes_what_it_is_given(function, named):
    assert named <= set(parameters(function))


def test_whether_a_program_runs_it_can_be_seen():
    assert hasattr(import_module("dbos._dbos"), "_dbos_global_instance")
    assert isinstance(_get_or_create_dbos_registry().internal_queue_map, dict)


def test_all_that_reads_a_row_that_says_it_is_a_pickle_is_stopped():
    refuse_pickles()
    assert serialization.DBOSDefaultSerializer.name() == "py_pickle"
    for read in (serialization.deserialize_value, serialization.deserialize_args, serialization.deserialize_exception):
        with pytest.raises(InputError, match="is marked as a pickle"):
            read("gASVCgAAAAAAAACMBmFsYXJtZZQu", "py_pickle", JsonSerializer())
    assert serialization.serialize_value_as({}, "py_pickle", JsonSerializer()) == ("{}", "py_pickle")


def test_pickle_is_used_nowhere_else_in_it():
    """So that what refuses pickles refuses all of them."""
    folder = Path(inspect.getfile(DBOS)).parent
    found = {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if "pickle.loads" in line or "pickle.load(" in line or "import pickle" in line
    }
    assert found == {"_serialization.py"}


@pytest.mark.parametrize("data", [None, 1, "text \ud800 \0", ["a", {"b": None}], {"args": ["x"], "kwargs": {}}])
def test_what_is_written_is_json_and_comes_back(data):
    serializer = JsonSerializer()
    assert serializer.deserialize(serializer.serialize(data)) == data
    error = serializer.deserialize(serializer.serialize(ValueError("odd")))
    assert (type(error), str(error)) == (InputError, "ValueError: odd")


# What it does


class Work:
    """What operators' work comes to; by the ids of the work."""

    def __init__(self):
        self.results = {}
        self.begun = []
        self.under_way = set()

    def perform(self, step_id, request):
        self.under_way.add(step_id)
        self.begun.append(step_id)
        try:
            return self.results[step_id].result(RENDEZVOUS)
        finally:
            self.under_way.remove(step_id)


class DroppedError(BaseException):
    """Nothing is to be recorded."""


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    return database_url(tmp_path_factory.mktemp("dbos") / "runs.sqlite")


@pytest.fixture(scope="module")
def work():
    return Work()


@pytest.fixture(scope="module")
def client(url):
    client = dbos_process.client(url)
    yield client
    client.destroy()


@pytest.fixture(scope="module")
def process(url, client, work):
    process = dbos_process.launch(url, "this-process", work.perform, version="1", queues=QUEUES)
    yield process
    assert threads_that_take_work()
    process.stop()
    assert dbos_process._here is None
    assert not threads_that_take_work()


def threads_that_take_work():
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("queue-worker-")]


@pytest.fixture
def step_id(process, client, work):
    """The id of work that has begun."""
    step_id = f"run:{uuid4()}"
    work.results[step_id] = Future()
    begin(process, client, work, step_id)
    yield step_id
    if not work.results[step_id].done():
        work.results[step_id].set_exception(DroppedError())


def begin(process, client, work, step_id):
    """Request work, and wait until it has begun once more."""
    times = work.begun.count(step_id)
    dbos_process.enqueue(client, [Request("queue", step_id, "given", "1")], lambda _: None)
    process.wake("queue")
    assert is_true(lambda: work.begun.count(step_id) == times + 1)


def is_true(condition):
    """Whether something comes true."""
    end = time.monotonic() + RENDEZVOUS
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


def row(client, step_id):
    (found,) = client.list_workflows(workflow_ids=[step_id])
    return found


def test_work_that_is_requested_again_is_done_once(process, client, work, step_id):
    dbos_process.enqueue(client, [Request("queue", step_id, "given", "1")], lambda _: None)
    work.results[step_id].set_result("what came of it")
    assert is_true(lambda: row(client, step_id).status == "SUCCESS")
    dbos_process.enqueue(client, [Request("queue", step_id, "given", "1")], lambda _: None)
    found = row(client, step_id)
    assert (found.status, found.output, found.executor_id) == ("SUCCESS", "what came of it", "this-process")
    assert work.begun.count(step_id) == 1


def test_an_error_that_is_no_exception_records_nothing_and_the_id_is_free_again_once_it_is_deleted(
    process, client, work, step_id
):
    work.results[step_id].set_exception(DroppedError())
    assert is_true(lambda: step_id not in work.under_way)
    assert row(client, step_id).status == "PENDING"
    client.delete_workflows([step_id])
    work.results[step_id] = Future()
    begin(process, client, work, step_id)
    work.results[step_id].set_result("second")
    assert is_true(lambda: row(client, step_id).output == "second")


def test_work_is_given_to_others_only_where_the_one_that_began_it_is_dead(client, url):
    step_id = f"run:{uuid4()}"
    dbos_process.enqueue(client, [Request("elsewhere", step_id, "given", "1")], lambda _: None)
    with create_engine(url, poolclass=NullPool).begin() as connection:
        taken = "UPDATE workflow_status SET status = 'PENDING', executor_id = 'taker' WHERE workflow_uuid = :id"
        assert connection.execute(text(taken), {"id": step_id}).rowcount == 1
    assert not dbos_process.give_back(client, step_id, "another-process", "elsewhere")
    assert dbos_process.give_back(client, step_id, "taker", "elsewhere")
    assert not dbos_process.give_back(client, step_id, "taker", "elsewhere"), "it is nobody's now"
    found = row(client, step_id)
    assert (found.status, found.queue_name) == ("ENQUEUED", "elsewhere")


def test_what_looks_into_it_shows_a_planted_pickle_as_text(client, work, step_id, url):
    work.results[step_id].set_result("fine")
    assert is_true(lambda: row(client, step_id).status == "SUCCESS")
    with create_engine(url, poolclass=NullPool).begin() as connection:
        for change in (
            "UPDATE workflow_status SET serialization = 'py_pickle' WHERE workflow_uuid = :id",
            "UPDATE workflow_output SET output = 'gASVCgAAAAAAAACMBmFsYXJtZZQu' WHERE workflow_uuid = :id",
        ):
            assert connection.execute(text(change), {"id": step_id}).rowcount == 1
    assert row(client, step_id).output == "gASVCgAAAAAAAACMBmFsYXJtZZQu"


def test_sqlite_has_the_time_that_dbos_asks_for_on_python_3_12_whatever_the_version_of_either(process, client):
    for tables in (client._sys_db, _get_dbos_instance()._sys_db):
        with tables.engine.begin() as connection:
            before = time.time()
            (now,) = connection.execute(text("SELECT unixepoch('subsec')")).one()
            assert before - 0.001 <= now <= time.time()


def test_a_second_database_is_refused_in_this_process(process, url, tmp_path):
    other = database_url(tmp_path / "other.sqlite")
    with pytest.raises(
        InputError, match=f"is a worker of {url.database} already, and dbos serves one database per process"
    ):
        dbos_process.launch(other, "x", Work().perform, version="1", queues=QUEUES)


def test_a_program_that_runs_dbos_for_itself_is_told_so(process, monkeypatch, url):
    monkeypatch.setattr(dbos_process, "_here", None)
    with pytest.raises(InputError, match="this program runs dbos for itself"):
        dbos_process.launch(url, "x", Work().perform, version="1", queues=QUEUES)


def test_its_threads_without_work_here_have_ended(process):
    """Those for new queues, its own queue, schedules and delays; what is left takes work from the queue that was given."""
    ended = ("queue-worker-_dbos", "dbos-background-jobs", "(queue_thread)")
    assert is_true(
        lambda: not [each.name for each in threading.enumerate() if any(name in each.name for name in ended)]
    )
    assert threads_that_take_work() == ["queue-worker-queue"]


def test_it_serves_no_queues_but_its_own_that_it_was_not_told_of(process):
    assert list(_get_or_create_dbos_registry().internal_queue_map) == [INTERNAL_QUEUE_NAME]
