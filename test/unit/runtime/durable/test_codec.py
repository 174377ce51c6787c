"""What is kept of a run comes back as it was; what somebody else wrote is refused in words, and never run."""

import asyncio
import builtins
import json
import math
import subprocess  # noqa: F401 - one that is loaded
import sys
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest
from amounts import amount
from hypothesis import given, settings
from hypothesis import strategies as st

from operad.runtime import InputError, Job, WorkflowMessage, WorkflowStatus, events
from operad.runtime.durable.codec import MAX_CAUSES, MAX_DEPTH, Codec, Outcome
from operad.runtime.events.run_context import MissingDepsError
from operad.runtime.policies.policy import Retry, causes
from operad.runtime.values import errors
from operad.runtime.values.errors import (
    BudgetError,
    FaultError,
    FetchError,
    InvalidError,
    Issue,
    JobError,
    ModelError,
    OperadError,
    OperatorError,
    PausedError,
    describe,
)
from operad.runtime.values.file import FileDescriptor
from operad.runtime.values.message import SubJob, Turn, Usage
from operad.runtime.values.questions import Question
from operad.runtime.values.step_record import StepRecord
from operad.runtime.workflow.map import ItemError
from operad.runtime.workflow.verdict import fault_in, is_retryable

WIRE = Codec()
USAGE = Usage(calls=1, prompt_tokens=2, completion_tokens=3, seconds=0.1, cost=0.5)


def again(value, codec=WIRE):
    return codec.load(codec.dump(value))


# Values

TEXTS = st.text(st.characters(), max_size=8)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.binary(max_size=8) | TEXTS
KEYS = TEXTS | TEXTS.map("${}".format) | st.integers() | st.tuples(st.integers(), TEXTS) | st.none() | st.booleans()
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.lists(inner, max_size=3).map(tuple) | st.dictionaries(KEYS, inner),
    max_leaves=20,
)


@settings(max_examples=amount(30, 300))
@given(VALUES)
def test_values_come_back_as_they_were(value):
    assert repr(again(value)) == repr(value)


@settings(max_examples=amount(20, 100))
@given(st.dictionaries(TEXTS, VALUES, max_size=3), TEXTS, st.none() | st.tuples(TEXTS))
def test_messages_come_back_as_they_were(outputs, text, ports):
    part = WorkflowMessage(scratchpad=text, operator_id=text, usage=USAGE)
    message = WorkflowMessage(outputs=outputs, ports=ports, parts=(part,), blame=(text,), score=0.5, lesson=text)
    assert repr(again(message)) == repr(message)


@pytest.mark.parametrize(
    "value",
    [
        {"$tuple": [1]},
        {"$error": {"chain": []}},
        {"$": 1},
        {"$a": 1, "b": 2},
        {"a": {"$message": {}}},
        [{"$object": []}],
        {1: "a", "1": "b", None: "c", (1, "d"): "e"},
        "\ud800 alone, \udfff",
        "zero \0 sign",
        10**4000,
        -(2**200),
        math.nan,
        math.inf,
        -math.inf,
        -0.0,
        1e308,
        b"\0\xff",
        (),
        [[], {}, ()],
        WorkflowStatus.INPUT_DATA_ERROR,
        USAGE,
        ItemError(index=3, error="e", kind="K"),
        StepRecord(operator_id="a", before=("b",), message=WorkflowMessage(scratchpad="s")),
        Job(goal="g", inputs={"a": [1, None, {"b": 0.5}]}),
        Job(goal="g", turns=(Turn(role="summary", text="s"), Turn(role="user", text="u"))),
        SubJob(goal="g", parent_id="p", dependencies=("a", "b"), completion_criteria="c"),
        Question(id="a", text="t", schema_={"type": "boolean"}),
        Issue("code", "message", "where"),
        WorkflowMessage(outputs={"items": [ItemError(index=0, error="e", kind="K"), b"x"]}, ports=()),
        WorkflowMessage(status=WorkflowStatus.EXECUTION_ERROR, ports=("yes", "no"), score=-1.5),
    ],
    ids=lambda value: type(value).__name__,
)
def test_odd_values_come_back_as_they_were(value):
    assert repr(again(value)) == repr(value)
    json.loads(WIRE.dump(value), parse_constant=pytest.fail)  # which other readers of JSON would refuse


class Shelf:
    """Keeps files by name, as if on another machine."""

    def __init__(self):
        self.files = {}

    def put(self, file):
        self.files[f"digest of {file.name}"] = file
        return f"digest of {file.name}"

    def get(self, digest, name):
        if digest not in self.files:
            raise InputError(f"{name} is gone")
        return f"/elsewhere/{name}"


def test_a_file_is_kept_as_where_it_lies_or_in_a_store_of_files(tmp_path):
    (tmp_path / "a.txt").write_text("text")
    file = FileDescriptor.of(tmp_path / "a.txt")
    job = SubJob(goal="g", files=(file,))
    assert again(job) == job
    shelf = Shelf()
    read = again(WorkflowMessage(outputs={"deep": [{"file": file}]}), Codec(shelf)).outputs["deep"][0]["file"]
    assert (str(read.path), read.name, read.size, read.mime_type) == ("/elsewhere/a.txt", "a.txt", 4, "text/plain")
    assert str(again(job, Codec(shelf)).files[0].path) == "/elsewhere/a.txt"
    text = Codec(shelf).dump(file)
    shelf.files.clear()
    with pytest.raises(InputError, match=r"a\.txt is gone"):
        Codec(shelf).load(text)


class Frame:
    """Stands for a data frame: it has no JSON form."""


class Words(str):
    """A text of a class of its own."""


@pytest.mark.parametrize("value", [Frame(), {1}, bytearray(b"x"), Words("w"), 1j, Frame, range(3), len])
def test_what_cannot_be_kept_is_named_with_its_place(value):
    with pytest.raises(InputError, match=rf"^outputs\.a\[1\]\.b is .*{type(value).__name__}, which cannot be kept"):
        WIRE.dump(WorkflowMessage(outputs={"a": [0, {"b": value}]}))


def test_what_is_nested_deeper_than_can_be_read_is_not_written():
    value, deepest = (), None
    for _ in range(MAX_DEPTH):
        value, deepest = (value,), value
    assert again(deepest) == deepest
    with pytest.raises(InputError, match=f"nested too deeply to be kept: the maximum is {MAX_DEPTH} levels"):
        WIRE.dump([value])
    ring = {}
    ring["ring"] = ring
    with pytest.raises(InputError, match=r"ring\.ring\.ring…: is nested too deeply"):
        WIRE.dump(ring)


def test_what_is_as_deep_as_may_be_is_read_also_where_little_of_the_stack_is_left():
    value = WorkflowMessage()
    for _ in range(MAX_DEPTH // 2 - 1):
        value = WorkflowMessage(parts=(value,))
    text = WIRE.dump(Outcome(message=value))

    def deep(levels):
        return deep(levels - 1) if levels else WIRE.load(text)

    assert deep(150).message == value


def test_a_number_with_more_digits_than_python_reads_is_refused_when_it_is_written():
    with pytest.raises(InputError, match="the value cannot be kept: ValueError: Exceeds the limit"):
        WIRE.dump({"a": 10**5000})


def test_the_longest_texts_are_bounded_both_ways(monkeypatch):
    text = WIRE.dump("12345678")
    monkeypatch.setattr("operad.runtime.durable.codec.MAX_TEXT", 9)
    with pytest.raises(InputError, match="the value has 10 characters as JSON; the maximum is 9: use a file"):
        WIRE.dump("12345678")
    with pytest.raises(InputError, match="has 10 characters; the maximum is 9"):
        WIRE.load(text)


# Errors


class UsersError(Exception):
    """With a constructor that takes other things than its text."""

    def __init__(self, code, *, hint):
        super().__init__(f"code {code}")
        self.code, self.hint = code, hint

    def __str__(self):
        return f"{self.args[0]}: {self.hint}"


class UsersTimeoutError(TimeoutError):
    """One that passes."""


class UsersOSError(OSError):
    """One with a constructor of its own."""

    def __init__(self, number):
        super().__init__(number, f"number {number}", "file.txt")


class MuteError(Exception):
    """One whose text cannot be had."""

    def __str__(self):
        raise RuntimeError("mute")


def of_json():
    try:
        json.loads("{")
    except ValueError as error:
        return error


ERRORS = [
    OperadError("m", operator_id="a", attempt=2),
    InvalidError("subject", [Issue("c", "m", "w"), Issue("d", "n")]),
    InputError("m"),
    OperatorError("w", "a", 2, KeyError("k"), 3),
    errors.OperatorTimeoutError("m", operator_id="a", attempt=1),
    FaultError("m", lesson="l", blame=["a", "b"]),
    errors.PortError("m"),
    errors.SkippedError("m"),
    JobError("m", operator_id="a", verdict=WorkflowMessage(lesson="l", status=WorkflowStatus.EXECUTION_ERROR)),
    BudgetError("m", USAGE),
    PausedError("run", [Question(id="a", text="t", schema_={"type": "string"})]),
    ModelError("m", transient=True, retry_after=2.5),
    errors.PromptTooLongError("m"),
    errors.RequestError("m"),
    FetchError("m", transient=True),
    errors.AnswerError("m"),
    errors.MaxTurnsError("m", 2, {"look": 2}),
    errors.ToolError("m"),
    errors.MissingExtraError("m"),
    errors.RunningLoopError("m"),
    ValueError(),
    ValueError("a", 1, b"x"),
    KeyError("k"),
    FileNotFoundError(2, "No such file or directory", "a.txt"),
    ConnectionResetError(104, "reset"),
    OSError("just a text"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    of_json(),
    ZeroDivisionError("division by zero"),
    ModuleNotFoundError("No module named 'x'", name="x"),
    SyntaxError("bad", ("file.py", 1, 2, "text")),
    RecursionError("deep"),
    MissingDepsError("a function takes deps"),
    StopAsyncIteration(),
    ValueError("\ud800 \0"),
    ValueError(Frame),
    UsersError(7, hint="mind the gap"),
    UsersTimeoutError("late"),
    UsersOSError(5),
]


def test_there_is_an_example_of_every_error_of_ours():
    ours = {kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)}
    assert ours <= {type(error) for error in ERRORS}


def state_of(error):
    return {name: value for name, value in vars(error).items() if not name.startswith("_")}


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_comes_back_as_it_was(error):
    read = again(error)
    assert type(read) is type(error)
    assert (str(read), describe(read)) == (str(error), describe(error))
    assert state_of(read) == state_of(error)
    for retry in (Retry(), Retry(on=(ValueError,)), Retry(on=(UsersError, OSError))):
        assert retry.wants(read) == retry.wants(error)


def test_every_error_of_python_comes_back_as_one_of_its_class():
    for kind in vars(builtins).values():
        if isinstance(kind, type) and issubclass(kind, Exception):
            try:
                error = kind("text")
            except TypeError:
                continue  # made of other things; some are above
            read = again(error)
            assert (type(read), str(read), read.args) == (kind, str(error), error.args)


def chained(*links):
    for link, cause in pairwise(links):
        link.__cause__ = cause
    return links[0]


@pytest.mark.parametrize(
    "error",
    [
        chained(OperatorError("w", "a", 1, FaultError("f")), FaultError("f", blame=["b"], lesson="l")),
        chained(OperatorError("o", "n", 1, ValueError()), OperatorError("w", "a", 1, ValueError()), ValueError("v")),
        chained(OperadError("item 2"), OperatorError("w", "a", 1, ModelError("m")), ModelError("m", transient=True)),
        chained(OperatorError("w", "a", 1, ModelError("m")), ModelError("m"), UsersTimeoutError("late")),
        chained(OperatorError("w", "a", 1, InputError("m")), InputError("m"), UsersError(1, hint="h")),
        chained(TimeoutError("t"), asyncio.CancelledError("c")),
    ],
)
def test_a_chain_of_errors_means_the_same_afterwards(error):
    read = again(error)
    assert [(type(link).__name__, str(link)) for link in causes(read)] == [
        (type(link).__name__, str(link)) for link in causes(error)
    ]
    assert is_retryable(read) == is_retryable(error)
    assert Retry().wants(read) == Retry().wants(error)
    fault, read_fault = fault_in(error), fault_in(read)
    assert (fault is None) == (read_fault is None)
    if fault and read_fault:
        assert (read_fault.blame, read_fault.lesson) == (fault.blame, fault.lesson)


def test_an_error_of_a_class_that_is_not_loaded_keeps_its_name_its_text_and_what_it_is_for_python():
    class LocalError(ConnectionError):
        def __init__(self, text):
            super().__init__(text)
            self.status = 503

    read = again(LocalError("gone"))
    assert (type(read).__name__, str(read), describe(read), read.status) == (
        "LocalError",
        "gone",
        "LocalError: gone",
        503,
    )
    assert isinstance(read, ConnectionError)
    assert Retry().wants(read)
    text = WIRE.dump(UsersError(7, hint="h")).replace(__name__, "somewhere.not_loaded")
    read = WIRE.load(text)
    assert (describe(read), read.hint) == ("UsersError: code 7: h", "h")
    assert "somewhere" not in sys.modules


def test_an_error_of_which_something_cannot_be_kept_is_kept_without():
    error: Any = UsersError(Frame(), hint="h")
    error.itself, error.frame, error.fine = error, Frame(), (1, 2)
    read = again(error)
    assert str(read) == str(error)
    assert state_of(read) == {"hint": "h", "fine": (1, 2)}
    assert type(again(MuteError("m"))).__name__ == "MuteError"


def test_the_messages_that_an_error_bears_are_not_kept_twice():
    error = OperatorError("w", "a", 1, ValueError())
    error.finished = {"b": WorkflowMessage(scratchpad="long")}
    assert "long" not in WIRE.dump(error)
    assert again(error).finished == {}


def test_of_a_chain_without_end_the_beginning_is_kept():
    links = [ValueError(str(number)) for number in range(MAX_CAUSES + 5)]
    assert [str(link) for link in causes(again(chained(*links)))] == [str(n) for n in range(MAX_CAUSES)]
    first, second = ValueError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first
    assert [str(link) for link in causes(again(first))] == ["a", "b"]


def test_a_group_of_errors_comes_back():
    group = ExceptionGroup("several", [ValueError("a"), KeyError("b")])
    read = again(group)
    assert (type(read), str(read), [*map(repr, read.exceptions)]) == (
        type(group),
        str(group),
        ["ValueError('a')", "KeyError('b')"],
    )


# Events

TOLD = [
    events.Progress(done=1, total=2),
    events.ModelAnswered(model="m", usage=USAGE),
    events.AnswerRejected(error="e", repair=1),
    events.ToolCalled(call_id="c", tool="t", arguments={"a": [1, {"b": None}], "$tuple": 1}),
    events.ToolReturned(call_id="c", tool="t", result="r", failed=False, seconds=0.5),
    events.OperatorRetried(error="e", delay=0.5),
    events.FellBack(error="e", to="a constant"),
    events.CacheHit(),
    events.KnowledgeRetrieved(sources=("a:1", "b:2"), scores=(0.5, 0.25)),
    events.PassagesEmbedded(model="m", done=64, total=100),
    events.InsightsRecalled(operator="o", about="a", insights=("k",), texts=("t",), store="s"),
    events.WorkflowEntered(workflow="w", operators={"a": (), "b": ("a",)}),
    events.Interrupted(interrupt_id="a", question="q", schema={"type": "boolean"}),
    events.Interrupted(interrupt_id="a", question="q"),
    events.Resumed(interrupt_id="a", seconds=0.5),
    events.JobSplit(sub_jobs=(SubJob(goal="g", dependencies=("a",)), SubJob(goal="h"))),
    events.OperatorFinished(seconds=0.5, message=WorkflowMessage(outputs={"a": 1}, ports=("p",), usage=USAGE)),
    events.RoundFinished(
        status=WorkflowStatus.EXECUTION_ERROR, evaluation="e", lesson="l", blame=("a",), score=0.5, by_error=True
    ),
    events.RunFailed(error="e", seconds=0.5, usage=USAGE),
]


@pytest.mark.parametrize("event", TOLD, ids=lambda event: type(event).__name__)
def test_an_event_comes_back_as_it_was_without_its_stamp(event):
    stamped = {"run_id": "r", "path": ("a",), "operator_id": "a", "round": 2, "attempt": 1, "seq": 3, "time": 4.0}
    (read,) = again(Outcome(message=WorkflowMessage(), events=(type(event)(**_fields(event), **stamped),))).events
    assert read == event


def _fields(event):
    stamp = events.Event.__struct_fields__
    return {name: getattr(event, name) for name in event.__struct_fields__ if name not in stamp}


def test_of_what_an_event_bears_that_has_no_json_form_its_text_is_kept():
    event = events.ToolCalled(call_id="c", tool="t", arguments={"a": (1, {2: 1j}), "b": WorkflowStatus.SUCCESS})
    (read,) = again(Outcome(message=WorkflowMessage(), events=(event,))).events
    assert read.arguments == {"a": [1, {"2": "1j"}], "b": "SUCCESS"}


class UsersEvent(events.Event, frozen=True, kw_only=True):
    """One that whoever goes on with the run may not know."""


def test_events_of_users_are_not_kept_and_do_no_harm():
    outcome = Outcome(message=WorkflowMessage(), events=(UsersEvent(), events.CacheHit()))
    assert again(outcome).events == (events.CacheHit(),)


@pytest.mark.parametrize("part", [{"message": WorkflowMessage(scratchpad="s")}, {"error": KeyError("k")}])
def test_an_outcome_is_a_message_or_an_error_with_what_it_cost(part):
    outcome = Outcome(**part, usage=USAGE, events=(events.CacheHit(),))
    assert repr(again(outcome)) == repr(outcome)


# What somebody else wrote


def error_named(module, name, args=(), base="Exception", **more):
    link = {"module": module, "name": name, "base": base, "args": list(args), "text": "t", "fields": {}, **more}
    return json.dumps({"$error": {"chain": [link]}})


HOSTILE = [
    "",
    "{",
    "nonsense",
    "gASVIQAAAAAAAACMBXBvc2l4lIwGc3lzdGVtlJOUjAZ0b3VjaCB4lIWUUpQu",
    '{"$unknown": 1}',
    '{"$pickle": "gASVIQAAAA=="}',
    "[" * 100_000,
    '{"a":' * 100_000,
    '{"$tuple":[' * 5_000 + "]}" * 5_000,
    "9" * 5_000,
    '{"$tuple": 1}',
    '{"$tuple": null}',
    '{"$object": [1]}',
    '{"$object": [[[1], 2]]}',
    '{"$object": {"a": 1}}',
    '{"$object": [[1, 2, 3]]}',
    '{"$bytes": "no base64"}',
    '{"$bytes": 1}',
    '{"$float": "1"}',
    '{"$float": ["nan"]}',
    '{"$status": "FINE"}',
    '{"$status": {}}',
    '{"$issue": ["a"]}',
    '{"$issue": [1, 2, 3, 4]}',
    '{"$file": []}',
    '{"$file": ["/etc/passwd", "n", "many", "t", ""]}',
    '{"$message": []}',
    '{"$message": {"unknown": 1}}',
    '{"$message": {"status": "FINE"}}',
    '{"$message": {"score": {"$float": "nan"}}}',
    '{"$job": {}}',
    '{"$job": {"goal": {"$tuple": []}}}',
    '{"$usage": {"calls": "many"}}',
    '{"$event": ["Event", {}]}',
    '{"$event": ["Unknown", {}]}',
    '{"$event": ["Progress", {"done": "one", "total": 2}]}',
    '{"$event": ["Progress", {}]}',
    '{"$event": ["RunFailed", {"error": "e", "seconds": 1, "usage": {"calls": "x"}}]}',
    '{"$event": "Progress"}',
    '{"$event": [["Progress"], {}]}',
    '{"$outcome": []}',
    '{"$outcome": [null, null, {"$usage": {}}, []]}',
    '{"$outcome": [{"$message": {}}, null, null, []]}',
    '{"$outcome": [1, 2, {"$usage": {}}, []]}',
    '{"$outcome": [{"$message": {}}, null, {"$usage": {}}, [1]]}',
    '{"$outcome": [{"$message": {}}, null, {"$usage": {}}, 1]}',
    '{"$error": {}}',
    '{"$error": {"chain": []}}',
    '{"$error": {"chain": [1]}}',
    '{"$error": {"chain": {"a": 1}}}',
    '{"$error": []}',
    error_named("builtins", "ValueError", fields=[]),
    error_named("a", "nul\0"),
    error_named("a", "\ud800"),
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:40])
def test_what_nobody_here_wrote_is_refused_in_words(text):
    with pytest.raises(InputError, match="the stored"):
        WIRE.load(text)


@pytest.mark.parametrize("kind", [Outcome, dict, tuple])
def test_what_is_of_another_kind_than_expected_is_refused(kind):
    with pytest.raises(InputError, match=f"expected {kind.__name__}, got list"):
        WIRE.load("[]", kind)


@pytest.mark.parametrize(
    ("module", "name", "base"),
    [
        ("os", "system", "Exception"),
        ("posix", "system", "Exception"),
        ("subprocess", "Popen", "Popen"),
        ("builtins", "SystemExit", "SystemExit"),
        ("builtins", "KeyboardInterrupt", "KeyboardInterrupt"),
        ("builtins", "GeneratorExit", "BaseException"),
        ("builtins", "eval", "eval"),
        ("builtins", "ExceptionGroup", "ExceptionGroup"),
        ("builtins", "UnicodeDecodeError", "UnicodeDecodeError"),
        ("asyncio", "CancelledError", "CancelledError"),
        ("antigravity", "Error", "Exception"),
        ("this", "s", "Exception"),
        ("", "", ""),
        ("a.b", "c.d.e", "__import__"),
        (__name__, "TrapError", "Exception"),
        (__name__, "TrapError.__init__", "Exception"),
        ("operad.runtime.values.errors", "OperatorError", "Exception"),
    ],
)
@pytest.mark.parametrize("args", [[], ["touch canary"], ["a", ["b"]], [["touch", "canary"]]])
def test_nothing_is_imported_called_or_ended_by_a_name_that_is_read(module, name, base, args, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    loaded = set(sys.modules)
    read = WIRE.load(error_named(module, name, args, base))
    assert isinstance(read, Exception)
    assert not isinstance(read, SystemExit)
    assert type(read).__name__ == name.rsplit(".", 1)[-1]
    assert str(read) == "t"
    assert set(sys.modules) == loaded
    assert not list(tmp_path.iterdir())


class TrapError(Exception):
    """What must not be built by who reads a name."""

    def __new__(cls, *args):
        raise SystemExit("it was called")

    def __init__(self, *args):
        raise SystemExit("it was called")


def test_what_is_set_on_an_error_that_is_read_replaces_nothing_of_it():
    odd = {"__class__": 1, "args": [1], "__cause__": 2, "__str__": 3, "with_traceback": 4}
    read = WIRE.load(error_named("builtins", "ValueError", ["t"], fields=odd))
    assert (type(read), str(read), read.args, read.__cause__) == (ValueError, "t", ("t",), None)


@settings(max_examples=amount(30, 300))
@given(
    st.recursive(
        SCALARS.filter(lambda each: not isinstance(each, bytes)),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "$message",
                        "$error",
                        "$outcome",
                        "$event",
                        "$object",
                        "$tuple",
                        "$file",
                        "$job",
                        "chain",
                        "module",
                        "name",
                        "args",
                    ]
                ),
                inner,
                max_size=2,
            )
        ),
        max_leaves=15,
    )
)
def test_anything_else_is_a_value_or_refused_in_words(value):
    with suppress(InputError):
        WIRE.load(json.dumps(value))
