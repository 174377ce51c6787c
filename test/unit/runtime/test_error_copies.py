"""Errors are pickled and copied with message, attributes and causes, in pools of processes, too."""

import copy
import importlib
import json
import pickle
import pkgutil
import subprocess
import sys
import threading
from contextlib import suppress

import pytest

import operad
from operad import Job, Workflow, operator
from operad.runtime.values.errors import InputError, InvalidError, Issue, OperadError, OperatorError


def pickled(error):
    return pickle.loads(pickle.dumps(error))  # noqa: S301


COPIES = {
    "pickled": pickled,
    "copied": copy.copy,
    "copied deeply": copy.deepcopy,
}


@pytest.fixture(params=COPIES.values(), ids=COPIES)
def again(request):
    return request.param


class OddError(Exception):
    """Error that cannot be read from its arguments."""

    def __init__(self, first: str, second: int) -> None:
        super().__init__(f"{first} {second}")
        self.second = second


def of_json(job: Job) -> str:
    return json.loads("{")


def of_odd(job: Job) -> str:
    raise OddError("odd", 2)


def of_chain(job: Job) -> str:
    try:
        return {}["z"]
    except KeyError as error:
        raise ValueError("v") from error


def error_of(function) -> OperatorError:
    with pytest.raises(OperatorError) as raised:
        Workflow([Workflow(operator(function, id="inside"), name="inner")], name="outer").run("go")
    return raised.value


def all_kinds() -> list[type[OperadError]]:
    """All errors of the tree, also those of other modules."""
    for module in pkgutil.walk_packages(operad.__path__, "operad."):
        with suppress(ImportError, SystemExit):
            importlib.import_module(module.name)
    kinds, found = [OperadError], dict[type[OperadError], None]()
    while kinds:
        kind = kinds.pop()
        if kind.__module__.startswith("operad.") and "_combined_with" not in vars(kind):
            found[kind] = None
        kinds += kind.__subclasses__()
    return [*found]


def test_every_error_of_the_tree_keeps_message_attributes_and_cause(again):
    kinds = all_kinds()
    assert len(kinds) > 30
    for kind in kinds:
        error = kind.__new__(kind)
        OperadError.__init__(error, "the message", operator_id="facts", attempt=2)
        error.more = ["own"]
        error.__cause__ = KeyError("z")
        new = again(error)
        assert type(new) is kind
        assert new is not error
        assert (new.args, vars(new), repr(new.__cause__)) == (error.args, vars(error), "KeyError('z')")


def test_an_error_of_a_run_keeps_its_types_its_attributes_and_the_whole_chain(again):
    error = error_of(of_chain)
    new = again(error)
    assert isinstance(new, OperatorError)
    assert isinstance(new, ValueError)
    assert (str(new), vars(new)) == (str(error), vars(error))
    chain, link = [], new
    while link is not None:
        chain.append(type(link).__name__)
        link = link.__cause__
    assert chain == ["OperatorError", "OperatorError", "ValueError", "KeyError"]


def test_attributes_of_the_original_error_can_be_read_from_a_copy(again):
    new = again(error_of(of_json))
    assert isinstance(new, json.JSONDecodeError)
    assert (new.lineno, new.colno) == (1, 2)


def test_a_pickled_error_can_be_pickled_again():
    once = pickled(error_of(of_chain))
    assert repr(pickled(once).__cause__.__cause__.__cause__) == "KeyError('z')"


def test_issues_stay_values(again):
    issues = [Issue("cycle", "a waits for a", "a")]
    assert again(InvalidError("it", issues)).issues == tuple(issues)


def test_a_cause_that_cannot_be_pickled_becomes_its_description():
    new = pickled(error_of(of_odd))
    assert isinstance(new, OddError)
    cause = new.__cause__.__cause__
    assert (type(cause), str(cause)) == (OperadError, "OddError: odd 2")
    assert copy.deepcopy(error_of(of_odd)).second == 2


def test_an_attribute_that_cannot_be_pickled_becomes_its_text_and_is_shared_by_copies():
    error = InputError("x")
    error.lock = threading.Lock()
    error.finished = {"a": threading.Lock(), "b": 2}
    new = pickled(error)
    assert new.lock.startswith("<unlocked _thread.lock object")
    assert new.finished["b"] == 2
    assert copy.deepcopy(error).lock is error.lock


def test_an_error_of_a_class_inside_a_function_becomes_one_of_its_base():
    class OwnError(InputError):
        pass

    class OwnValueError(ValueError):
        pass

    def own(job: Job) -> str:
        raise OwnValueError("own")

    new = pickled(OwnError("x", operator_id="a"))
    assert (type(new), str(new), new.operator_id) == (InputError, "x", "a")
    assert type(pickled(error_of(own))) is OperatorError


POOLS = """
import concurrent.futures, json, multiprocessing
from operad import Job, OperatorError, Workflow, operator

def bad(job: Job) -> str:
    return json.loads("{")

def work(_):
    return Workflow(operator(bad)).run("go").text

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as futures, context.Pool(1) as pool:
        for get in (lambda: futures.submit(work, 0).result(60), lambda: pool.apply(work, (0,))):
            try:
                get()
            except json.JSONDecodeError as error:
                print(isinstance(error, OperatorError), error.operator_id, error.lineno, error)
"""


@pytest.mark.slow
def test_an_error_comes_back_from_pools_of_processes(tmp_path):
    program = tmp_path / "pools.py"
    program.write_text(POOLS)
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=120, check=False)
    line = "True bad 1 operator 'bad' of workflow 'workflow' failed on attempt 1: JSONDecodeError: "
    assert [text.startswith(line) for text in done.stdout.splitlines()] == [True, True], done.stderr
