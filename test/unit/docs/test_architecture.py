"""The structure that docs/make/architecture.py measures: no circles of files, short ways of a run."""

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def architecture() -> Iterator[ModuleType]:
    sys.path.insert(0, str(ROOT / "docs" / "make"))
    try:
        yield import_module("architecture")
    finally:
        sys.path.pop(0)


def test_no_files_import_each_other_in_a_circle(architecture):
    assert architecture.cycles(architecture.files_graph(architecture.modules())) == []


def test_imports_in_functions_and_for_types_close_circles(architecture):
    a = architecture.Module("runtime.a", 1, "", frozenset({"runtime.b"}))
    b = architecture.Module("runtime.b", 1, "", frozenset({"runtime.a"}))
    c = architecture.Module("runtime.c", 1, "", frozenset({"runtime.a"}))
    assert architecture.cycles(architecture.files_graph([a, b, c])) == [["runtime.a", "runtime.b"]]


def test_a_run_a_resume_and_a_load_enter_at_most_so_many_modules(architecture):
    walks = architecture.walks
    assert len(set(walks.run_walk())) <= 47
    assert len(set(walks.resume_walk())) <= 44
    assert sum(walks.load_stays().values()) <= 45
