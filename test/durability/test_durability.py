"""Short form of `chaos.py`: each scenario on SQLite, and those that differ on a server on PostgreSQL.

The processes are forked (test/support/forked.py), except in the tests of new interpreters.
"""

import random
import subprocess

import pytest
from databases import Sqlite
from scenarios import UnsupportedError, run_scenario

SHORT = [
    ("driver killed", {"times": 1}),
    ("two drivers", {}),
]
LONG = [
    ("killed after a verdict", {}),
    ("many runs end", {"runs": 40}),
    ("many runs resumed", {"runs": 40, "times": 1}),
    ("disk full", {}),
    ("file deleted", {}),
    ("driver killed, elsewhere", {}),
    ("driver stopped, woken", {}),
    ("driver stopped in writing", {"seconds": 0}),
    ("database gone", {"seconds": 3}),
]
ON_A_SERVER = [
    ("killed after a verdict", {}),
]
LONG_ON_A_SERVER = [
    ("driver killed", {"times": 1}),
    ("notifications lost", {"times": 3}),
    ("worker killed", {"times": 1}),
    ("database gone from workers", {"seconds": 1}),
    ("driver stopped, woken", {}),
    ("database gone", {"seconds": 3}),
    ("operator that kills", {}),
    ("worker of another version", {}),
    ("worker stopped, woken", {}),
]


def names(short, long):
    return [
        pytest.param(*case, id=case[0].replace(" ", "-"), marks=[pytest.mark.slow] if case in long else [])
        for case in [*short, *long]
    ]


def assert_right(name, databases, folder, options, begin=subprocess.Popen):
    rng = random.Random(name)  # noqa: S311
    try:
        result = run_scenario(name, databases, folder, rng, begin=begin, **options)
    except UnsupportedError as reason:
        pytest.skip(str(reason))
    assert result.problems == []


@pytest.mark.parametrize(("name", "options"), names(SHORT, LONG))
def test_a_run_in_a_file_ends_right(name, options, tmp_path, forked):
    assert_right(name, Sqlite(tmp_path), tmp_path, options, forked.begin)


@pytest.mark.parametrize(("name", "options"), names(ON_A_SERVER, LONG_ON_A_SERVER))
def test_a_run_on_a_server_ends_right(name, options, postgresql, tmp_path, forked):
    assert_right(name, postgresql, tmp_path, options, forked.begin)


@pytest.mark.slow
def test_a_run_in_a_file_ends_right_in_new_interpreters(tmp_path):
    assert_right("driver killed", Sqlite(tmp_path), tmp_path, {"times": 2})


@pytest.mark.slow
def test_a_run_on_a_server_ends_right_in_new_interpreters(postgresql, tmp_path):
    assert_right("worker killed", postgresql, tmp_path, {"times": 1})
