"""What a run looks like while it runs."""

import io
import time

import pytest
from rich.console import Console

from operad import Fault
from operad.cli import progress
from operad.cli.columns import print_table
from operad.cli.follow import LiveTable, PlainLines, display_on
from operad.cli.progress import Row, RunView, remarks_on
from operad.cli.rounds import RoundLines, repetition_lines
from operad.evaluators import Evaluator
from operad.operators import Operator, OperatorConfig
from operad.runtime import (
    BuiltinWorkflow,
    FaultError,
    Job,
    MonoModelReasoner,
    SubJob,
    Usage,
    WorkflowMessage,
    WorkflowStatus,
    events,
)
from operad.runtime.events import (
    AnswerRejected,
    BlameUnknown,
    CacheHit,
    EvidenceCut,
    FellBack,
    InsightsRecalled,
    Interrupted,
    JobSplit,
    ModelAnswered,
    ModelRetried,
    OperatorCancelled,
    OperatorFailed,
    OperatorFinished,
    OperatorKept,
    OperatorRetried,
    OperatorSkipped,
    OperatorStarted,
    PassagesEmbedded,
    Progress,
    Resumed,
    RoundFinished,
    RoundStarted,
    RunFailed,
    RunFinished,
    RunStarted,
    TokenStreamed,
    ToolCalled,
    ToolReturned,
    WorkflowEntered,
)
from operad.runtime.observe.trace import Trace

NOW = time.time()
USAGE = Usage(calls=1, prompt_tokens=1000, completion_tokens=234, seconds=1.0)
STARTED = RunStarted(workflow="w", goal="g", operators={"read": (), "check": ("read",)}, time=NOW)
FAULT = RoundFinished(
    status=WorkflowStatus.EXECUTION_ERROR, evaluation="[bold]wrong[/bold]", lesson="l", blame=("check",), round=1
)


def at(path, kind, round=1, **fields):
    """An event of an operator, whose path has slashes, in a round."""
    parts = tuple(path.split("/"))
    return kind(**{"path": parts, "operator_id": parts[-1], "round": round, "time": NOW, **fields})


def ended(operator_id, seconds=1.5, round=1):
    message = WorkflowMessage(usage=USAGE)
    return at(operator_id, OperatorFinished, round, seconds=seconds, message=message, time=NOW + seconds)


def begun(*happened):
    """The events, with the start of an operator before its first event."""
    running = set()
    for event in happened:
        starts = isinstance(event, OperatorStarted | OperatorSkipped | OperatorKept) or not event.operator_id
        if not starts and event.path not in running:
            yield at("/".join(event.path), OperatorStarted, event.round)
        running.add(event.path)
        if isinstance(event, OperatorFinished):
            running.discard(event.path)
        yield event


def viewed(*happened):
    view = RunView()
    for event in begun(*happened):
        view.apply(event)
    return view


def rows(view):
    return {"/".join(path): row for path, row in view.rows().items()}


def states(view):
    return {name: row.state for name, row in rows(view).items()}


def test_at_the_start_every_operator_waits():
    view = viewed(STARTED, RoundStarted(operators=("read", "check"), round=1))
    assert rows(view) == {"read": Row(), "check": Row()}
    assert Row().state == "waiting"


def test_an_operator_runs_and_is_done_while_the_other_waits():
    view = viewed(STARTED, at("read", OperatorStarted))
    assert states(view) == {"read": "running", "check": "waiting"}
    view.apply(ended("read"))
    assert states(view) == {"read": "done", "check": "waiting"}
    assert (round(rows(view)["read"].seconds, 3), rows(view)["read"].rounds) == (1.5, 1)


def test_a_failure_is_told_and_what_was_stopped_by_it():
    view = viewed(
        STARTED,
        at("read", OperatorStarted),
        at("check", OperatorStarted),
        at("read", OperatorFailed, seconds=0.5, usage=USAGE, error="ValueError: x", time=NOW + 0.5),
        at("check", OperatorCancelled, seconds=0.25, usage=USAGE, time=NOW + 0.25),
    )
    assert states(view) == {"read": "failed", "check": "stopped"}
    assert [(round(row.seconds, 3), row.note) for row in rows(view).values()] == [(0.5, "ValueError: x"), (0.25, "")]


AGAIN = at("read", ModelRetried, call_id="c", model="m", error="m failed (503): [down]", delay=2.0, retry=1)
CUT = at("read", ModelAnswered, model="m", usage=USAGE, finish_reason="length")


@pytest.mark.parametrize(
    ("event", "note"),
    [
        (at("read", Progress, done=3, total=7), "3/7"),
        (at("read", ToolCalled, call_id="1", tool="search", arguments={}), "calls search"),
        (at("read", AnswerRejected, error="no", repair=2), "asks again (2)"),
        (AGAIN, "model asked again, 2.0 s after: m failed (503): [down]"),
        (CUT, progress.CUT_OFF),
        (at("read", TokenStreamed, text="t"), ""),
        (at("read", ToolReturned, call_id="1", tool="t", result="r", failed=False, seconds=1.0), ""),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_running_operator_says_what_it_does(event, note):
    view = viewed(STARTED, at("read", OperatorStarted), event)
    assert (rows(view)["read"].note, rows(view)["read"].state) == (note, "running")


ASKS, ASKS_TOO = (at("read", Interrupted, interrupt_id=number, question="Which\none?") for number in "12")
ANSWERED, ANSWERED_TOO = (at("read", Resumed, interrupt_id=number, seconds=3.0) for number in "12")
WAITS = at("read", OperatorRetried, error="ModelError: 429", delay=1e6, attempt=1)
RETRIED = at("read", OperatorRetried, error="ModelError: 429", delay=2.0, attempt=1, time=NOW - 10)


@pytest.mark.parametrize(
    ("happened", "state", "note"),
    [
        ([ASKS], "asking", "Which\none?"),
        ([ASKS, ASKS_TOO, ANSWERED], "asking", ""),
        ([ASKS, ASKS_TOO, ANSWERED, ANSWERED_TOO], "running", ""),
        ([WAITS], "retrying", "attempt 2 after: ModelError: 429"),
        ([RETRIED], "running", "attempt 2 after: ModelError: 429"),
        ([RETRIED, ended("read")], "done", "attempt 2 after: ModelError: 429"),
        ([at("read", FellBack, error="e", to="a constant")], "running", "falls back to a constant"),
        ([at("read", CacheHit)], "cached", ""),
        ([at("read", CacheHit), ended("read")], "cached", ""),
        ([at("read", OperatorSkipped, reason="'x' took no port")], "skipped", "'x' took no port"),
    ],
)
def test_asking_retrying_falling_back_caches_and_skips_are_told(happened, state, note):
    row = rows(viewed(STARTED, at("read", OperatorStarted), *happened))["read"]
    assert (row.state, row.note) == (state, note)


def test_the_operators_of_a_workflow_inside_have_rows_below_its_own():
    view = viewed(
        STARTED,
        at("read", OperatorStarted),
        WorkflowEntered(workflow="w", operators={"draft": (), "cut": ("draft",)}, path=("read",), operator_id="read"),
        RoundStarted(operators=("draft", "cut"), path=("read",), round=1),
        at("read/draft", OperatorStarted),
        at("read/judge", OperatorStarted),
    )
    assert list(rows(view)) == ["read", "read/draft", "read/cut", "check", "read/judge"]
    assert states(view)["read/draft"] == "running"
    view.apply(RoundStarted(operators=("draft",), path=("read",), round=2))
    assert (states(view)["read/draft"], states(view)["read"]) == ("waiting", "running")


def test_a_map_has_one_row_for_all_its_items():
    view = viewed(
        STARTED,
        at("check", OperatorStarted),
        WorkflowEntered(workflow="w", operators={"one": ()}, path=("check[0]",), operator_id="check"),
        RoundStarted(operators=("one",), path=("check[0]",), round=1),
        at("check[0]/one", OperatorStarted),
        at("check[0]/one", ModelAnswered, model="m", usage=USAGE),
        at("check[12]/inner/two", ModelAnswered, model="m", usage=USAGE),
        at("check[0]/one", OperatorFailed, seconds=1.0, usage=USAGE, error="e"),
        at("check", Progress, done=1, total=13),
    )
    row = rows(view)["check"]
    assert list(rows(view)) == ["read", "check"]
    assert (row.state, row.note, row.usage) == ("running", "1/13", USAGE + USAGE)
    for event in begun(at("check[2]/one", Interrupted, interrupt_id="check[2]/one", question="Well?")):
        view.apply(event)
    row = rows(view)["check"]
    assert (row.state, row.note) == ("asking", "Well?")


def test_the_end_says_in_a_few_words_what_was_out_of_the_ordinary():
    view = viewed(STARTED)
    assert remarks_on(view.trace) == ""
    for event in begun(
        RETRIED,
        RETRIED,
        at("check[0]/one", FellBack, error="e", to="a constant"),
        at("check[1]/one", FellBack, error="e", to="a constant"),
        AGAIN,
        CUT,
        CUT,
        at("other", CacheHit),
        at("read", OperatorSkipped, reason="r"),
        at("\x1b[2J", OperatorSkipped, reason="r"),
        at("read", OperatorStarted, 2),
    ):
        view.apply(event)
    assert remarks_on(view.trace) == (
        "skipped: \\x1b[2J; retried: read (2 times); model asked again: read; "
        "answers cut off at max_tokens: read (2 times); fell back: check (2 times); from the cache: other"
    )


def test_tokens_add_up_over_calls_and_rounds_and_so_do_seconds():
    view = viewed(
        STARTED,
        at("read", OperatorStarted),
        at("read", ModelAnswered, model="m", usage=USAGE),
        at("read", ModelAnswered, model="m", usage=USAGE),
        ended("read"),
        RoundStarted(operators=("read",), round=2),
        at("read", OperatorStarted, 2),
        at("read", ModelAnswered, 2, model="m", usage=USAGE),
        ended("read", 2.0, 2),
    )
    row = rows(view)["read"]
    assert (row.usage, round(row.seconds, 3), row.rounds) == (USAGE + USAGE + USAGE, 3.5, 2)


def test_a_new_round_lets_only_those_wait_that_run_again():
    view = viewed(
        STARTED,
        at("read", OperatorStarted),
        ended("read"),
        at("check", OperatorStarted),
        at("check", Progress, done=1, total=1),
        ended("check"),
        RoundStarted(operators=("check",), round=2),
    )
    assert states(view) == {"read": "done", "check": "waiting"}
    assert rows(view)["check"].note == ""


def test_an_operator_that_was_kept_stays_so_until_it_runs_again():
    kept = [STARTED, ended("check"), RoundStarted(operators=("check",), round=2), at("check", OperatorKept, 2)]
    view = viewed(*kept, RoundStarted(operators=("read",), round=3))
    assert states(view) == {"read": "waiting", "check": "kept"}
    view.apply(RoundStarted(operators=("check",), round=4))
    assert states(view)["check"] == "waiting"


def test_an_evaluator_joins_when_it_starts_and_what_concerns_the_whole_run_makes_no_row():
    view = viewed(STARTED, FAULT, at("judge", OperatorStarted), RunFailed(error="e", seconds=1.0, usage=USAGE))
    assert states(view) == {"read": "waiting", "check": "waiting", "judge": "stopped"}


def shown(*happened, width=40):
    """What plain lines say of it."""
    written = io.StringIO()
    with PlainLines(Console(file=written, force_terminal=False, width=width)) as display:
        for event in happened:
            display.show(event)
    return written.getvalue().splitlines()


def test_without_a_terminal_each_step_is_a_line_never_folded_and_never_markup():
    success = RoundFinished(status=WorkflowStatus.SUCCESS, evaluation="right", lesson="", blame=(), round=2)
    assert shown(
        STARTED,
        RoundStarted(operators=("read", "check"), round=1),
        at("read", OperatorStarted),
        at("read", TokenStreamed, text="t"),
        ended("read"),
        at("check", OperatorStarted),
        ended("check", 0.04),
        FAULT,
        RoundStarted(operators=("check",), round=2),
        at("check", OperatorStarted, 2),
        ended("check", 10, 2),
        success,
        RunFinished(message=WorkflowMessage(), seconds=1.0, rounds=2),
    ) == [
        "round 1  read: running",
        "round 1  read: done, 1.5 s, 1,234 tokens",
        "round 1  check: running",
        "round 1  check: done, 0.0 s, 1,234 tokens",
        "round 1  rejected: [bold]wrong[/bold] (EXECUTION_ERROR)",
        "  at fault: check",
        "round 2  check: running",
        "round 2  check: done, 10.0 s, 1,234 tokens",
        "round 2  check: gives the same answer again",
        "round 2  accepted: right",
    ]


def test_failures_and_stops_are_lines_too():
    error = "ValueError: [a] is longer than the forty columns of this console"
    assert shown(
        STARTED,
        at("read", OperatorFailed, seconds=0.5, usage=USAGE, error=error),
        at("check", OperatorCancelled, seconds=0.25, usage=USAGE),
    ) == [f"round 1  read: failed, 0.5 s: {error}", "round 1  check: stopped"]


def test_what_is_out_of_the_ordinary_is_a_line_too_by_the_operators_path():
    assert shown(
        STARTED,
        at("in/read", OperatorRetried, error="ModelError:\x1b[2J", delay=2.0, attempt=1),
        AGAIN,
        CUT,
        at("in/read", FellBack, error="ModelError: gone", to="a constant"),
        at("in/read", Interrupted, interrupt_id="in/read", question="Which?"),
        at("in/read", Resumed, interrupt_id="in/read", seconds=3.0),
        at("check", CacheHit),
        at("other", OperatorSkipped, reason="'check' took port 'a', not 'b'"),
        RoundFinished(status=WorkflowStatus.SUCCESS, evaluation="right", lesson="", blame=(), round=1, path=("in",)),
    ) == [
        "round 1  in/read: attempt 1 failed, again in 2.0 s: ModelError:\\x1b[2J",
        "round 1  read: the model is asked again in 2.0 s: m failed (503): [down]",
        "round 1  read: the answer was cut off; raise max_tokens",
        "round 1  in/read: falls back to a constant: ModelError: gone",
        "round 1  in/read: waits for an answer",
        "round 1  in/read: was answered, after 3.0 s",
        "round 1  check: from the cache",
        "round 1  other: skipped: 'check' took port 'a', not 'b'",
        "round 1 of in  accepted: right",
    ]


def test_of_the_items_of_a_map_only_what_is_out_of_the_ordinary_is_a_line():
    assert shown(
        at("check[0]/one", OperatorStarted),
        at("check[0]/one", OperatorRetried, error="e", delay=2.0, attempt=1),
        at("check[0]/one", CacheHit),
        at("check[0]/one", OperatorFailed, seconds=0.5, usage=USAGE, error="e"),
        at("check", Progress, done=1, total=2),
        ended("check[1]/one"),
    ) == [
        "round 1  check[0]/one: attempt 1 failed, again in 2.0 s: e",
        "round 1  check[0]/one: failed, 0.5 s: e",
        "round 1  check: 1/2",
    ]


def test_what_an_operator_was_told_of_earlier_runs_is_a_line_shortened_and_printable():
    def recalled(path, *texts):
        keys = tuple(map(str, range(len(texts))))
        return at(path, InsightsRecalled, operator="f", about="a job", insights=keys, texts=texts, store="s")

    assert shown(
        recalled("read"),
        recalled("read", "Be\nbrief\x1b[2J."),
        recalled("in/read", "x" * 200, "Be [bold]."),
        recalled("check[0]/one", "of an item"),
    ) == [
        "round 1  read: recalled 1 insight of earlier runs: Be brief\\x1b[2J.",
        f"round 1  in/read: recalled 2 insights of earlier runs: {'x' * 99}…; Be [bold].",
    ]


def test_that_all_passages_are_embedded_is_a_line():
    embedded = [at("read", PassagesEmbedded, model="small", done=done, total=1064) for done in (64, 1064)]
    assert shown(*embedded) == ["round 1  read: passages embedded with small: 1,064"]


def test_where_nobody_judged_there_is_no_verdict():
    assert shown(RoundFinished(status=WorkflowStatus.SUCCESS, evaluation="", lesson="", blame=(), round=1)) == []


@pytest.mark.parametrize(
    ("total", "lines"),
    [
        (3, ["1/3", "2/3", "3/3"]),
        (10, [f"{n}/10" for n in range(1, 11)]),
        (25, ["3/25", "5/25", "8/25", "10/25", "13/25", "15/25", "18/25", "20/25", "23/25", "25/25"]),
        (1000, [f"{n}/1000" for n in range(100, 1001, 100)]),
        (0, []),
    ],
)
def test_progress_is_a_line_per_tenth(total, lines):
    happened = [at("read", Progress, done=done, total=total) for done in range(1, max(total, 1) + 1)]
    assert shown(*happened) == [f"round 1  read: {line}" for line in lines]


def terminal(written):
    return Console(file=written, force_terminal=True, width=80, height=20, color_system=None)


def table_of(*happened):
    """All that a live table writes to a terminal."""
    written = io.StringIO()
    with LiveTable(terminal(written)) as display:
        for event in begun(*happened):
            display.show(event)
    return written.getvalue()


def test_a_terminal_gets_a_live_table_and_anything_else_plain_lines():
    assert isinstance(display_on(terminal(io.StringIO())), LiveTable)
    assert isinstance(display_on(Console(file=io.StringIO(), force_terminal=False)), PlainLines)


HAPPENED = {
    "waiting": [],
    "running": [at("check", OperatorStarted)],
    "done": [at("check", OperatorStarted), ended("check")],
    "failed": [at("check", OperatorFailed, seconds=1.0, usage=USAGE, error="ValueError: [x]")],
    "stopped": [at("check", OperatorCancelled, seconds=1.0, usage=USAGE)],
    "skipped": [at("check", OperatorSkipped, reason="r")],
    "retrying": [at("check", OperatorRetried, error="e", delay=1e6)],
    "asking": [at("check", Interrupted, interrupt_id="check", question="Well?")],
    "cached": [at("check", CacheHit), ended("check")],
    "kept": [RoundStarted(operators=("check",), round=2), at("check", OperatorKept, 2)],
}


@pytest.mark.parametrize("state", HAPPENED)
def test_the_live_table_shows_each_state(state):
    written = table_of(STARTED, at("read", OperatorStarted), ended("read"), *HAPPENED[state])
    table = written.replace("\r", "").split("\x1b[2K")[-1].splitlines()
    words = [line.split() for line in table if line.startswith(("operator", "read", "check"))]
    assert ["read", "done", "1", "1.5"] in words
    [row] = [line for line in words if line[0] == "check"]
    assert row[1] == state
    if state == "failed":
        assert row[2:] == ["1", "0.0", "ValueError:", "[x]"]


def test_the_live_table_stays_above_a_question_and_goes_on_below_the_answer():
    written = io.StringIO()
    with LiveTable(console := terminal(written)) as display:
        display.show(STARTED)
        with display.paused():
            before = len(written.getvalue())
            assert "0/2 done" in written.getvalue().split("\x1b[2K")[-1], "the table is there, and not erased"
            console.print("Which?")
            display.show(at("read", OperatorStarted))
            assert written.getvalue()[before:] == "Which?\n"
        after = written.getvalue()[before:]
    assert "running" in written.getvalue()
    up = after.partition("running")[0].count("\x1b[1A")
    assert up == 0, "neither the question nor the table above it is overwritten"


def test_the_live_table_keeps_verdicts_above_itself():
    text = table_of(STARTED, at("read", OperatorStarted), FAULT)
    assert "round 1  rejected: [bold]wrong[/bold] (EXECUTION_ERROR)\n  at fault: check\n" in text
    assert text.index("EXECUTION_ERROR") < text.rindex("operator")


def test_the_table_has_rounds_seconds_tokens_notes_and_totals(monkeypatch):
    monkeypatch.setattr(progress, "time", lambda: NOW)
    written = io.StringIO()
    happened = [
        STARTED,
        at("read", OperatorStarted),
        at("read", ModelAnswered, model="m", usage=USAGE),
        at("read", Progress, done=3, total=7),
        ended("read", 12.34),
    ]
    Console(file=written, force_terminal=False, width=80).print(viewed(*happened).table())
    assert [line.rstrip() for line in written.getvalue().splitlines()] == [
        "operator  state     round  seconds  tokens",
        "read      done          1     12.3   1,234  3/7",
        "check     waiting",
        "total     1/2 done             0.0   1,234",
    ]


def test_the_totals_have_the_cost_where_one_is_known(monkeypatch):
    monkeypatch.setattr(progress, "time", lambda: NOW)
    priced = USAGE.model_copy(update={"cost": 0.25})
    told = [at(name, ModelAnswered, model="m", usage=priced) for name in ("read", "check")]
    written = io.StringIO()
    Console(file=written, width=80).print(viewed(STARTED, *told).table())
    assert written.getvalue().splitlines()[-1].split()[:7] == ["total", "0/2", "done", "0.0", "2,468", "0.5", "USD"]


def test_where_rows_are_more_than_lines_those_at_work_are_shown_and_the_others_counted():
    many = RunStarted(workflow="w", operators={f"op{number}": () for number in range(50)}, goal="g")
    ends = [ended(f"op{number}") for number in range(20)]
    written = io.StringIO()
    Console(file=written, width=80).print(viewed(many, *ends, at("op30", OperatorStarted)).table(4))
    lines = [line.split()[:2] for line in written.getvalue().splitlines()]
    assert [first for first, *_ in lines] == ["operator", "op0", "op1", "op30", "47", "total"]
    assert "18 done, 29 waiting" in written.getvalue()


def test_a_narrow_terminal_cuts_names_and_notes_and_no_figure():
    name = "an-operator-with-quite-a-long-name"
    started = RunStarted(workflow="w", operators={name: (), "b": ()}, goal="g")
    told = [
        at(name, OperatorStarted),
        at(name, ModelAnswered, model="m", usage=USAGE),
        at(name, ToolCalled, call_id="1", tool="t" * 80, arguments={}),
    ]
    written = io.StringIO()
    Console(file=written, width=50).print(viewed(started, *told).table())
    _, row, *others = written.getvalue().splitlines()
    assert (len(others), max(map(len, written.getvalue().splitlines()))) == (2, 50)
    assert "running" in row
    assert "1,234" in row
    assert row.count("…") == 2


SPLIT = at(
    "leader",
    JobSplit,
    sub_jobs=(
        SubJob(id="facts", goal="g", assigned_expert_name="Finder"),
        SubJob(id="more", goal="g", assigned_expert_name="Finder"),
        SubJob(id="te\nxt", goal="g", assigned_expert_name="Wri\x1bter", dependencies=("facts", "more")),
    ),
)
STRANGER = BlameUnknown(blame="'chek' (did you mean\n'check'?)", round=2)


def test_a_split_is_a_line_and_a_note_in_the_table():
    [line] = shown(SPLIT, width=20)
    parts = "facts (Finder), more (Finder), te xt (Wri\\x1bter after facts and more)"
    assert line == f"round 1  leader: split into {parts}"
    view = viewed(RunStarted(workflow="w", goal="g", operators={"leader": ()}), at("leader", OperatorStarted), SPLIT)
    assert rows(view)["leader"].note.startswith("split: facts (Finder), more (Finder)")
    assert rows(view)["leader"].state == "running"


def test_of_a_split_into_many_the_first_parts_are_told():
    many = tuple(SubJob(id=f"p{number}", goal="g", assigned_expert_name="X") for number in range(20))
    [line] = shown(at("leader/p", JobSplit, sub_jobs=many))
    assert line.startswith("round 1  leader/p: split into p0 (X), p1 (X), ")
    assert line.endswith("p7 (X) and 12 more")


def test_strangers_that_are_blamed_are_told_on_one_line():
    assert shown(STRANGER) == ["round 2  blamed an unknown operator: 'chek' (did you mean 'check'?)"]
    assert "blamed an unknown operator: 'chek'" in table_of(STARTED, STRANGER)


def test_sub_jobs_have_rows_below_their_leader_and_experts_operators_below_these():
    view = viewed(
        RunStarted(workflow="w", goal="g", operators={"leader": ()}),
        at("leader", OperatorStarted),
        WorkflowEntered(workflow="Boss", operators={"a": (), "b": ("a",)}, path=("leader",), operator_id="leader"),
        at("leader/a", OperatorStarted),
        WorkflowEntered(workflow="X", operators={"do": ()}, path=("leader", "a"), operator_id="a"),
        at("leader/a/do", OperatorStarted),
        RoundStarted(operators=("b",), path=("leader",), round=2),
    )
    assert list(rows(view)) == ["leader", "leader/a", "leader/a/do", "leader/b"]
    assert states(view)["leader/b"] == "waiting"


def test_the_internal_last_operator_of_typed_nodes_is_shown_as_result():
    assert shown(at("<outcome>", OperatorStarted), at("each/<outcome>", OperatorStarted)) == [
        "round 1  result: running",
        "round 1  each/result: running",
    ]
    view = viewed(RunStarted(workflow="w", goal="g", operators={"<outcome>": ()}), at("<outcome>", CacheHit))
    written = io.StringIO()
    Console(file=written, width=80).print(view.table())
    assert "result" in written.getvalue()
    assert "<outcome>" not in written.getvalue()
    assert remarks_on(view.trace) == "from the cache: result"


def judged(status, round=1, path=(), **fields):
    fields = {"evaluation": "It is wrong.", "lesson": "", "blame": (), **fields}
    return RoundFinished(status=status, round=round, path=path, **fields)


def answered(path, text, round=1, **fields):
    message = WorkflowMessage(scratchpad=text, **fields)
    return at(path, OperatorFinished, round, seconds=1.0, message=message)


def rounds_of(*happened):
    """What is told of rounds alone."""
    trace = Trace()
    lines = RoundLines(trace)
    return [line for event in begun(STARTED, *happened) for line in lines.of(event, trace.apply(event))]


REJECTED = WorkflowStatus.EXECUTION_ERROR


def test_a_rejected_round_shows_its_faults_what_runs_again_and_what_it_cost():
    cached = Usage(calls=2, prompt_tokens=1000, completion_tokens=234, cached_tokens=800, cost=0.25)
    faults = (
        Fault(operator="sums", item=3, wrong="total 174.30", right="total 149.40", lesson="Six pieces."),
        Fault(operator="draft/body", wrong="1968", sure=False),
    )
    repairs = {"sums[3]": "", "draft/body": "", "facts": "an operator after it was blamed twice"}
    verdict = judged(REJECTED, faults=faults, blame=("sums[3]", "draft/body"), unsure=("The rate.",), repairs=repairs)
    assert rounds_of(RoundStarted(operators=()), at("sums", ModelAnswered, model="m", usage=cached), verdict) == [
        "round 1  rejected: It is wrong. (EXECUTION_ERROR)",
        "  at fault: sums[3]",
        "    wrong: total 174.30",
        "    right: total 149.40",
        "    lesson: Six pieces.",
        "  suspected: draft/body",
        "    wrong: 1968",
        "  not verified: The rate.",
        "  runs again, too, because an operator after it was blamed twice: facts",
        "  used: 2 model calls, 1,234 tokens (800 cached), cost 0.25 USD",
    ]


def test_what_could_not_be_verified_is_shown_for_an_accepted_result_too():
    assert rounds_of(judged(WorkflowStatus.SUCCESS, evaluation="", unsure=("The rate.",))) == [
        "round 1  accepted",
        "  not verified: The rate.",
    ]


def test_a_later_round_costs_what_it_used_itself():
    first, second = (Usage(calls=1, prompt_tokens=tokens) for tokens in (700, 30))
    lines = rounds_of(
        RoundStarted(operators=()),
        at("read", ModelAnswered, model="m", usage=first),
        ended("read"),
        judged(REJECTED),
        RoundStarted(operators=(), round=2),
        at("read", ModelAnswered, model="m", usage=second),
        judged(WorkflowStatus.SUCCESS, 2),
    )
    assert [line for line in lines if "used" in line] == [
        "  used: 1 model call, 700 tokens, cost unknown",
        "  used: 1 model call, 30 tokens, cost unknown",
    ]


@pytest.mark.parametrize(
    ("place", "path"), [("read", "read"), ("in/read", "in/read"), ("each[2]/read", "each[2]/read")]
)
def test_what_changed_in_the_answer_of_a_blamed_operator_is_shown(place, path):
    lines = rounds_of(
        answered(path, "One.\nTwo."),
        answered("other", "x"),
        judged(REJECTED, blame=(place,)),
        answered(path, "One.\n2.", 2),
        answered("other", "y", 2),
        answered(path, "Three.", 3),
    )
    assert lines[2:] == [f"round 2  {place}: changed", "  - Two.", "  + 2."]


def test_of_a_blamed_item_of_a_map_the_change_of_the_item_is_shown():
    def items(*texts):
        return [WorkflowMessage(scratchpad=text) for text in texts]

    lines = rounds_of(
        answered("each", "a b", parts=items("a", "b")),
        judged(REJECTED, blame=("each[1]",)),
        answered("each", "a c", 2, parts=items("a", "c")),
    )
    assert lines[2:] == ["round 2  each[1]: changed", "  - b", "  + c"]


def test_a_blamed_operator_that_gives_the_same_answer_says_so():
    lines = rounds_of(answered("read", "a"), judged(REJECTED, blame=("read",)), answered("read", "a", 2))
    assert lines[2:] == ["round 2  read: gives the same answer again"]


def test_the_verdict_of_a_workflow_inside_names_it_and_that_of_an_item_is_left_out():
    fault = Fault(operator="read")
    assert rounds_of(
        answered("in/read", "a"),
        judged(REJECTED, path=("in",), faults=(fault,), blame=("read",)),
        answered("in/read", "b", 2),
        judged(REJECTED, path=("each[1]",)),
    ) == [
        "round 1 of in  rejected: It is wrong. (EXECUTION_ERROR)",
        "  at fault: read",
        "round 2  in/read: changed",
        "  - a",
        "  + b",
    ]


def test_hostile_text_of_a_verdict_is_bounded_and_without_control_characters():
    hostile = "\x1b[2J\n\u202e" + "x" * 100_000
    fault = Fault(operator=hostile, wrong=hostile, right=hostile, lesson=hostile)
    verdict = judged(
        REJECTED, evaluation=hostile, faults=(fault,) * 500, blame=(hostile,) * 500, unsure=(hostile,) * 500,
        repairs={hostile: hostile},
    )  # fmt: skip
    for lines in (rounds_of(verdict), rounds_of(judged(REJECTED, blame=(f"x[{'9' * 5000}]",)))):
        assert all(line.isprintable() and len(line) < 3_000 for line in lines)
        assert len(lines) < 120


def test_an_operator_that_is_kept_and_evidence_that_was_cut_are_lines():
    cut = at("judge", EvidenceCut, operators=("read", "check"), characters=12_345)
    assert shown(at("check", OperatorKept, 2), cut) == [
        "round 2  check: kept: its input did not change",
        "round 1  judge: was shown only a part of read, check: 12,345 characters are left out",
    ]


# Tables in a pipe


def test_columns_with_wide_characters_are_aligned(capsys):
    print_table(("id", "workflow", "state"), [("一", "写诗", "done"), ("r2", "Poems", "failed")])
    assert capsys.readouterr().out == (
        "id  workflow  state\n"
        "一  写诗      done\n"
        "r2  Poems     failed\n"
    )  # fmt: skip


# What the end of a run says of its rounds


class Work(Operator):
    """Works through a list: in the first run through all of it, then through one item."""

    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        if self.get_id() == "list":
            events.emit(events.Progress(done=1, total=1 if lesson else 10))
        if self.get_id() == "fail" and not lesson:
            raise FaultError("no dates", lesson="Give dates.", blame=["fail"])
        return WorkflowMessage(scratchpad=f"text, {lesson}")


class Judge(Evaluator):
    """Blames, round by round, whom a test names."""

    def __init__(self, *rounds):
        super().__init__(OperatorConfig(instruction="Judge.", id="judge"))
        self.rounds = list(rounds)

    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        blame = self.rounds.pop(0) if self.rounds else ()
        if not blame:
            return WorkflowMessage(evaluation="right")
        status = WorkflowStatus.EXECUTION_ERROR
        return WorkflowMessage(status=status, evaluation="two are wrong.", lesson="Better.", blame=blame)


async def told(*names, judge=None, max_rounds=4):
    workflow, before = BuiltinWorkflow(max_rounds=max_rounds), None
    for name in names:
        operator = Work(OperatorConfig(instruction="Work.", id=name))
        workflow.add_operator(operator, [before] if before else [])
        before = operator
    if judge:
        workflow.set_evaluator(judge)
    trace = Trace()
    async for event in workflow.stream(Job(goal="g"), MonoModelReasoner()):
        trace.apply(event)
    return list(repetition_lines(trace))


async def test_a_run_of_one_round_has_nothing_to_tell():
    assert await told("a", "b") == []
    assert await told("a", "b", judge=Judge()) == []


async def test_what_ran_again_and_what_was_reused_is_told():
    assert await told("a", "b", "c", judge=Judge(["b"])) == [
        "In round 1 the evaluator (judge) found a fault: two are wrong.",
        "In round 2 only b and c ran again; a was reused.",
    ]


async def test_an_operator_that_did_part_of_its_list_again_says_how_much():
    lines = await told("a", "b", "list", judge=Judge(["list"]))
    assert lines[1] == "In round 2 only list (for 1 of 10 items) ran again; a and b were reused."


def test_an_operator_that_kept_its_answer_is_neither_run_again_nor_reused():
    rejected = {"status": WorkflowStatus.EXECUTION_ERROR, "evaluation": "wrong", "lesson": "", "blame": ("b",)}
    trace = Trace.of((
        events.RunStarted(workflow="w", goal="g", operators={"a": (), "b": ("a",), "c": ("b",)}),
        events.RoundStarted(operators=("a", "b", "c"), round=1),
        events.RoundFinished(round=1, **rejected),
        events.RoundStarted(operators=("b", "c"), round=2),
        events.OperatorKept(path=("c",), operator_id="c", round=2),
    ))  # fmt: skip
    again = "only b ran again; c kept its answer: the input did not change; a was reused"
    assert repetition_lines(trace)[1] == f"In round 2 {again}."


def test_the_items_of_a_map_that_kept_their_answers_are_not_counted_as_run_again():
    rejected = {"status": WorkflowStatus.EXECUTION_ERROR, "evaluation": "wrong", "lesson": "", "blame": ("list[1]",)}
    trace = Trace.of((
        events.RunStarted(workflow="w", goal="g", operators={"a": (), "list": ("a",)}),
        events.RoundStarted(operators=("a", "list"), round=1),
        events.OperatorStarted(path=("list",), operator_id="list", round=1),
        events.Progress(path=("list",), operator_id="list", round=1, done=3, total=3),
        events.RoundFinished(round=1, **rejected),
        events.RoundStarted(operators=("list",), round=2),
        events.OperatorStarted(path=("list",), operator_id="list", round=2),
        *(events.OperatorKept(path=(f"list[{item}]",), operator_id="list", round=2) for item in (0, 2)),
        events.Progress(path=("list",), operator_id="list", round=2, done=3, total=3),
    ))  # fmt: skip
    assert repetition_lines(trace)[1] == "In round 2 only list (for 1 of 3 items) ran again; a was reused."


async def test_where_all_ran_again_nothing_was_reused():
    lines = await told("a", "b", judge=Judge(["a"]))
    assert lines[1] == "In round 2 all operators ran again: a and b."


async def test_of_several_rounds_the_last_is_told():
    assert await told("a", "b", judge=Judge(["a"], ["b"])) == [
        "In round 2 the evaluator (judge) found a fault: two are wrong.",
        "In round 3 only b ran again; a was reused.",
    ]


async def test_a_fault_that_an_operator_reports_is_not_the_evaluators():
    lines = await told("a", "fail", judge=Judge())
    assert lines == [
        "In round 1 an operator reported a fault: fail: no dates.",
        "In round 2 only fail ran again; a was reused.",
    ]


@pytest.mark.usefixtures("nothing_configured")
async def test_operators_in_code_run_without_a_model():
    assert await told("a") == []
