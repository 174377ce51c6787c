"""What fuzzing found stays found, and a little more of it with each run: see `test/fuzz/fuzz.py`."""

import sys
import tempfile
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from amounts import amount
from hypothesis import HealthCheck, given, settings

FUZZ = Path(__file__).parents[1] / "fuzz"
sys.path.insert(0, str(FUZZ))
bounds, inputs = import_module("bounds"), import_module("inputs")
TARGETS = import_module("targets").TARGETS
sys.path.remove(str(FUZZ))

FOUND = sorted((FUZZ / "found").glob("*/*.bin"))


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("file", FOUND, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_what_was_found_is_mended(file):
    bounds.attempt(TARGETS[file.parent.name], file.read_bytes())


@pytest.mark.parametrize("name", TARGETS)
def test_real_and_broken_inputs_are_read_or_refused(name):
    target = TARGETS[name]
    seeds = [each for each in target.seeds() if len(each) <= bounds.LONGEST]
    assert seeds
    with suppress(Exception):  # what is imported when it is first needed takes its time
        target.run(seeds[0])

    checks: Any = list(HealthCheck)

    @settings(max_examples=amount(2, 8), derandomize=True, database=None, suppress_health_check=checks)
    @given(inputs.anything(seeds))
    def run(data):
        bounds.attempt(target, data)

    run()
