"""Errors can be pickled and copied, with their attributes and causes."""

import copy
import importlib
import pickle
import pkgutil
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import operad
from operad import Job, OperatorError, Workflow, operator
from operad.runtime.values.errors import InputError, InvalidError, Issue, OperadError, internal_text


def all_errors() -> list[type[OperadError]]:
    """Every class of errors that Operad defines, after all of its modules that can be imported were imported."""
    for module in pkgutil.walk_packages(operad.__path__, "operad."):
        if "__main__" not in module.name:
            with suppress(Exception):  # needs an extra
                importlib.import_module(module.name)
    found, open_ = [], [OperadError]
    while open_:
        kind = open_.pop()
        module = sys.modules.get(kind.__module__)
        if kind.__module__.startswith("operad.") and getattr(module, kind.__name__, None) is kind:  # none made in a run
            found.append(kind)
        open_ += kind.__subclasses__()
    return sorted(set(found), key=lambda kind: kind.__qualname__)


def made(kind: type[OperadError]) -> OperadError:
    """An error of a class whose constructor may take anything: what counts are its text, attributes and cause."""
    error = kind.__new__(kind, "what happened")
    Exception.__init__(error, "what happened")
    vars(error).update(operator_id="facts", attempt=2, extra=["a", {"b": 1}])
    error.__cause__ = KeyError("z")
    return error


def again(error: Any) -> Any:
    return pickle.loads(pickle.dumps(error))  # noqa: S301 - it has just been pickled


@pytest.mark.slow
def test_every_error_of_operad_can_be_pickled_and_copied():
    kinds = all_errors()
    assert len(kinds) > 20
    for kind in kinds:
        error = made(kind)
        for other in (again(error), copy.copy(error), copy.deepcopy(error)):
            assert (type(other), other.args, vars(other)) == (kind, error.args, vars(error))
            assert repr(other.__cause__) == "KeyError('z')"


def fails(job: Job) -> str:
    raise KeyError("z")


def failed() -> OperatorError:
    with pytest.raises(OperatorError) as caught:
        Workflow(operator(fails, id="bad")).run("q")
    return caught.value


@pytest.mark.parametrize("copied", [again, copy.copy, copy.deepcopy])
def test_an_error_of_a_run_is_the_same_after_it_was_copied(copied: Any):
    error = failed()
    other = copied(error)
    assert (str(other), other.operator_id, other.attempt) == (str(error), "bad", 1)
    assert isinstance(other, OperatorError)
    assert isinstance(other, KeyError)
    assert isinstance(other.__cause__, KeyError)
    assert str(again(other)) == str(error)


class Holds(Exception):  # noqa: N818
    def __init__(self, lock: Any, *, why: str) -> None:
        super().__init__(f"because {why}")
        self.lock = lock


def test_a_cause_that_cannot_be_pickled_becomes_its_description():
    def holds(job: Job) -> str:
        raise Holds(threading.Lock(), why="of it")

    with pytest.raises(OperatorError) as caught:
        Workflow(operator(holds)).run("q")
    other = again(caught.value)
    assert str(other) == str(caught.value)
    assert "because of it" in str(other.__cause__)
    assert internal_text(other) == internal_text(caught.value) == "Holds: because of it"


def test_a_cause_of_a_class_inside_a_function_becomes_its_description():
    class InsideError(ValueError):
        pass

    def raises(job: Job) -> str:
        raise InsideError("in here")

    with pytest.raises(OperatorError) as caught:
        Workflow(operator(raises)).run("q")
    other = again(caught.value)
    assert (str(other), isinstance(other, OperatorError)) == (str(caught.value), True)
    assert "in here" in str(other.__cause__)


def test_a_chain_of_causes_survives():
    error = InvalidError("x", [Issue("code", "message", "where")])
    error.__cause__ = InputError("second")
    error.__cause__.__cause__ = ValueError("third")
    other = again(error)
    assert other.issues == error.issues
    assert [str(other.__cause__), str(other.__cause__.__cause__)] == ["second", "third"]


POOL = """
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from operad import Job, OperatorError, Workflow, operator

def fails(job: Job) -> str:
    raise KeyError("z")

def work(_):
    return Workflow(operator(fails, id="bad")).run("q").text

if __name__ == "__main__":
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        try:
            pool.submit(work, 0).result(60)
        except OperatorError as error:
            print(error.operator_id, error)
"""


@pytest.mark.slow
def test_an_error_comes_back_from_a_pool_of_processes(forked: Any, tmp_path: Path):
    program = tmp_path / "program.py"
    program.write_text(POOL)
    done = forked.run([sys.executable, str(program)], cwd=tmp_path)
    assert done.stdout.startswith("bad operator 'bad' of workflow 'workflow' failed on attempt 1: KeyError: 'z'")
