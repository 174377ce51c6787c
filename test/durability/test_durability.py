"""The short form of `chaos.py`: each scenario once, with fewer kills."""

import random

import pytest
from databases import Sqlite
from scenarios import UnableError, carry_out

SHORT = [
    ("driver killed", {"times": 2}),
    ("driver stopped, woken", {}),
    ("database gone", {"seconds": 3}),
    ("worker killed", {"times": 1}),
]
ONCE = [
    ("two drivers", {}),
    ("driver killed, elsewhere", {}),
    ("driver stopped in writing", {"seconds": 0}),
    ("disk full", {}),
    ("file deleted", {}),
    ("worker of another version", {}),
    ("operator that kills", {}),
]


def names(cases):
    return [pytest.param(*case, id=case[0].replace(" ", "-")) for case in cases]


def comes_out_right(name, databases, folder, options):
    chance = random.Random(name)  # noqa: S311
    try:
        found = carry_out(name, databases, folder, chance, **options)
    except UnableError as reason:
        pytest.skip(str(reason))
    assert found.wrong == []


@pytest.mark.parametrize(("name", "options"), names([*SHORT, *ONCE]))
def test_a_run_in_a_file_comes_out_right(name, options, tmp_path):
    comes_out_right(name, Sqlite(tmp_path), tmp_path, options)


@pytest.mark.parametrize(("name", "options"), names(SHORT))
def test_a_run_on_a_server_comes_out_right(name, options, postgresql, tmp_path):
    comes_out_right(name, postgresql, tmp_path, options)
