"""One tree of errors, and the words that help."""

import inspect
import re
from difflib import get_close_matches

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operad.operators import Operator
from operad.runtime.testing import LeftoverStepsError, UnexpectedStepError
from operad.runtime.values import base_errors, errors
from operad.runtime.values.errors import (
    AnswerError,
    FaultError,
    InputError,
    InvalidError,
    Issue,
    OperadError,
    OperatorError,
    describe,
    did_you_mean,
    internal_text,
)
from operad.runtime.values.near_names import near_name
from operad.runtime.values.schema import SchemaMismatch


def drawn_tree() -> dict[str, str]:
    """Class → parent, as the docstring of the module draws it."""
    parents: dict[str, str] = {}
    path: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        if found := re.match(r"((?:[│ ]   )*(?:[├└]── )?)(\w+Error)\b", line):
            del path[len(found[1]) // 4 :]
            parents[found[2]] = path[-1] if path else "Exception"
            path.append(found[2])
    return parents


class UnspeakableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def test_the_tree_in_the_docstring_is_the_tree_of_classes():
    classes = {
        name: kind.__bases__[0].__name__
        for name, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, BaseException) and kind.__module__ in (errors.__name__, base_errors.__name__)
    }
    assert drawn_tree() == classes
    assert classes["OperadError"] == "Exception"


@pytest.mark.parametrize(
    ("kind", "parent"),
    [(SchemaMismatch, AnswerError), (UnexpectedStepError, OperadError), (LeftoverStepsError, OperadError)],
)
def test_errors_of_other_modules_grow_on_the_same_tree(kind, parent):
    assert issubclass(kind, parent)


def test_an_error_bears_operator_and_attempt_where_one_is_concerned():
    error = InputError("x", operator_id="a", attempt=2)
    assert (str(error), error.operator_id, error.attempt) == ("x", "a", 2)
    assert (InputError("x").operator_id, InputError("x").attempt) == ("", 0)


def test_an_issue_says_code_place_and_message():
    assert str(Issue("cycle", "a waits for a", "a")) == "[cycle] a: a waits for a"
    assert str(Issue("no-operators", "add one")) == "[no-operators] add one"


def test_invalid_lists_all_issues_and_counts_them():
    issues = [Issue("cycle", "a waits for a", "a"), Issue("no-operators", "add one")]
    error = InvalidError("workflow 'w' cannot be built", issues)
    assert error.issues == tuple(issues)
    assert str(error) == (
        "workflow 'w' cannot be built: 2 issues\n  [cycle] a: a waits for a\n  [no-operators] add one"
    )
    assert str(InvalidError("it", issues[1:])) == "it: 1 issue\n  [no-operators] add one"
    assert str(InvalidError("it", [])) == "it: 0 issues"


def test_an_operator_error_names_workflow_operator_attempt_and_cause():
    error = OperatorError("credits", "read", 3, KeyError("entries"))
    assert (error.workflow, error.operator_id, error.attempt) == ("credits", "read", 3)
    assert str(error) == "operator 'read' of workflow 'credits' failed on attempt 3: KeyError: 'entries'"


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (InputError("notes.txt: is empty"), "notes.txt: is empty"),
        (ValueError("too small"), "ValueError: too small"),
        (TimeoutError(), "TimeoutError"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (
            ExceptionGroup("in a TaskGroup", [ValueError("a"), ExceptionGroup("inner", [KeyError("b")])]),
            "ExceptionGroup: in a TaskGroup (2 sub-exceptions): ValueError: a; "
            "ExceptionGroup: inner (1 sub-exception): KeyError: 'b'",
        ),
        (UnspeakableError(), "UnspeakableError, whose text cannot be read"),
    ],
)
def test_an_error_is_described_by_its_text_and_a_foreign_one_by_its_type_too(error, line):
    assert describe(error) == line


@pytest.mark.parametrize(
    ("name", "known", "hint"),
    [
        ("serch", ["read", "search", "reach"], " (did you mean 'search'?)"),
        ("zzz", ["read", "search"], ""),
        ("read", [], ""),
        ("gret", iter(["greet", "other"]), " (did you mean 'greet'?)"),
    ],
)
def test_the_nearest_known_name_is_suggested_if_there_is_one(name, known, hint):
    assert did_you_mean(name, known) == hint


@given(st.text("abAB_", max_size=8), st.lists(st.text("abAB_", max_size=8), max_size=8))
def test_the_near_name_is_the_first_close_match(name, known):
    assert near_name(name, known) == next(iter(get_close_matches(name, known, n=1, cutoff=0.6)), "")


def test_a_fault_blames_operators_by_id_by_themselves_and_by_their_function():
    facts = Operator("List.", id="facts")
    assert FaultError("wrong", blame=["check", facts, drawn_tree]).blame == ("check", "facts", "drawn_tree")
    assert FaultError("wrong", blame=facts).blame == ("facts",)
    with pytest.raises(InputError, match=r"expects operators, functions or ids; got 42 \(int\)"):
        FaultError("wrong", blame=[42])  # type: ignore[list-item]
    with pytest.raises(InputError, match=r"got <class 'int'> \(type\)"):
        FaultError("wrong", blame=int)


def test_an_internal_text_is_that_of_an_exception_of_others_which_the_errors_around_it_repeat():
    def behind(error, *around):
        for each in around:
            each.__cause__, error = error, each
        return internal_text(error)

    outer = OperatorError("w", "a", 1, KeyError("k"))
    assert behind(KeyError("k")) == "KeyError: 'k'"
    assert behind(KeyError("k"), outer, OperadError("item 1"), InputError("no")) == "KeyError: 'k'"
    assert behind(KeyError("k"), InputError("there is no k")) == ""
    assert behind(KeyError(), outer) == ""
    assert behind(InputError("no"), outer) == ""
    error = OperadError("itself")
    assert behind(error, error) == ""
