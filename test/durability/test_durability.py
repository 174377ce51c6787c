"""The short form of `chaos.py`: each scenario once on a file of SQLite, and what a server does otherwise on PostgreSQL.

The processes are forked (test/support/forked.py); under the marker ``slow`` they are started, and there are more kills.
"""

import random
import subprocess

import pytest
from databases import Sqlite
from scenarios import UnableError, carry_out

SHORT = [
    ("driver killed", {"times": 1}),
    ("two drivers", {}),
    ("disk full", {}),
    ("file deleted", {}),
    ("worker killed", {"times": 1}),
]
LONG = [
    ("driver killed", {"times": 2}),
    ("driver killed, elsewhere", {}),
    ("driver stopped, woken", {}),
    ("driver stopped in writing", {"seconds": 0}),
    ("database gone", {"seconds": 3}),
    ("worker killed", {"times": 1}),
    ("worker of another version", {}),
    ("wake-ups lost", {"times": 3}),
    ("operator that kills", {}),
]
ON_A_SERVER = [("driver killed", {"times": 1}), ("wake-ups lost", {"times": 3})]
LONG_ON_A_SERVER = [
    ("database gone from workers", {"seconds": 1}),
    ("driver killed", {"times": 2}),
    ("driver stopped, woken", {}),
    ("database gone", {"seconds": 3}),
    ("worker killed", {"times": 1}),
]


def names(cases):
    return [pytest.param(*case, id=case[0].replace(" ", "-")) for case in cases]


def comes_out_right(name, databases, folder, options, begin=subprocess.Popen):
    chance = random.Random(name)  # noqa: S311
    try:
        found = carry_out(name, databases, folder, chance, begin=begin, **options)
    except UnableError as reason:
        pytest.skip(str(reason))
    assert found.wrong == []


@pytest.mark.parametrize(("name", "options"), names(SHORT))
def test_a_run_in_a_file_comes_out_right(name, options, tmp_path, forked):
    comes_out_right(name, Sqlite(tmp_path), tmp_path, options, forked.begin)


@pytest.mark.parametrize(("name", "options"), names(ON_A_SERVER))
def test_a_run_on_a_server_comes_out_right(name, options, postgresql, tmp_path, forked):
    comes_out_right(name, postgresql, tmp_path, options, forked.begin)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), names(LONG))
def test_a_run_in_a_file_comes_out_right_in_processes_that_are_started(name, options, tmp_path):
    comes_out_right(name, Sqlite(tmp_path), tmp_path, options)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), names(LONG_ON_A_SERVER))
def test_a_run_on_a_server_comes_out_right_in_processes_that_are_started(name, options, postgresql, tmp_path):
    comes_out_right(name, postgresql, tmp_path, options)
