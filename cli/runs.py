"""`operad runs`: the runs that are kept, looked at, gone on with, ended and forgotten."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from pydantic import ValidationError
from rich.console import Console
from rich.table import Table
from rich.text import Text

from operad.cli.ask import Lines
from operad.cli.durable import Database, Kept, database_option, open_ledger, resume_command, trusted
from operad.cli.progress import shortened, used
from operad.cli.run import RestartFrom, Round, carry_out, check_restart, deliver, named_values, restart
from operad.cli.telemetry import Traced
from operad.cli.trust_store import Trusted, trusting
from operad.cli.view import View, ViewPort, port_of
from operad.configs.answers import WrongAnswerError, describe_answer, read_answer
from operad.configs.flow import find_graph
from operad.configs.prices import PricesFile
from operad.configs.printable import printable, put
from operad.configs.runnable import make, source_of
from operad.runtime.durable.codec import Codec
from operad.runtime.durable.drive import question_of
from operad.runtime.durable.history import KeptStep
from operad.runtime.durable.ledger import Ledger
from operad.runtime.durable.places import shown
from operad.runtime.durable.records import batched
from operad.runtime.durable.rows import CANCELLED, FAILED, FINISHED, PAUSED, RUNNING, KeptQuestion, KeptRun
from operad.runtime.policies.policy import causes
from operad.runtime.values.errors import InputError, OperadError, describe, shorten
from operad.runtime.values.message import NO_USAGE, Job, Usage, WorkflowMessage
from operad.runtime.values.questions import Question

LONGEST_SAID = 200
"""Characters of what an operator said, or of a job, that people are shown."""

INTERRUPTED, ASKS = "interrupted", "asks"
"""Of runs that are under way: nobody drives it any more; it waits for a person."""

_AGE = re.compile(r"(\d{1,6})([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_STYLES = {RUNNING: "bold cyan", INTERRUPTED: "yellow", ASKS: "bold magenta", FAILED: "bold red", CANCELLED: "dim"}

RunId = Annotated[str, typer.Argument(metavar="ID", help="The run's id.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print it in full, as JSON.")]

app = typer.Typer(
    help="List, show, resume, cancel and delete durable runs.", no_args_is_help=True, add_completion=False
)


@dataclass(frozen=True, slots=True)
class Seen:
    """A kept run as people see it.

    Attributes:
        kept: What is kept of it.
        state: ``running``, ``interrupted``, ``asks``, ``finished``, ``failed`` or ``cancelled``.
        verdict: The status of its message, if it has finished.
        questions: What it asks.
        age: Seconds since it was begun.
        idle: Seconds since anything was noted of it.
    """

    kept: KeptRun
    state: str
    verdict: str
    questions: Sequence[Question]
    age: float
    idle: float

    @property
    def usage(self) -> Usage:
        """What it has cost."""
        with suppress(ValidationError):
            return Usage.model_validate_json(self.kept.usage)
        return NO_USAGE

    @property
    def progress(self) -> str:
        """How many operators have finished, of how many that are known; further rounds and items add to both."""
        return f"{self.kept.done}/{max(self.kept.done, self.kept.total)}"

    def as_dict(self) -> dict[str, Any]:
        """It as JSON."""
        kept, usage = self.kept, self.usage
        return {
            "id": kept.run_id,
            "workflow": kept.workflow,
            "state": self.state,
            **({"status": self.verdict} if self.verdict else {}),
            "done": kept.done,
            "total": max(kept.done, kept.total),
            "age": round(self.age, 3),
            "created": kept.created,
            "updated": kept.updated,
            "drives": kept.drives,
            "driver": kept.driver,
            "usage": {**usage.model_dump(mode="json"), "tokens": usage.tokens},
        }


@app.command("list")
def list_runs(
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 50,
    after: Annotated[
        str | None, typer.Option(metavar="ID", help="Those that come after this run: the next ones of a list.")
    ] = None,
    db: Database = None,
    as_json: AsJson = False,
) -> None:
    """List the runs that are kept, the newest first."""
    ledger = _ledger_to_look_at(db)
    found = ledger.runs(limit + 1, after or "")
    seen = look(ledger, *found[:limit])
    if as_json:
        put(json.dumps([each.as_dict() for each in seen], indent=2, ensure_ascii=False))
    elif not seen:
        print(f"{printable(shown(ledger.url))}: no {'more ' if after else ''}runs")
    else:
        _print_table(
            ("id", "workflow", "state", "done", "age", "tokens", "cost"),
            [_row(each) for each in seen],
            {2: [_STYLES.get(each.state, "green") for each in seen]},
        )
    if len(found) > limit:
        again = f"--limit {limit} --after {shlex.quote(seen[-1].kept.run_id)}{database_option(db)}"
        print(printable(f"there are more: operad runs list {again}"), file=sys.stderr)


@app.command("show")
def show_run(run_id: RunId, db: Database = None, as_json: AsJson = False) -> None:
    """Print what is kept of a run: its job, its operators, its questions, and how it goes on."""
    ledger = _ledger_to_look_at(db)
    seen = look(ledger, ledger.run(run_id))[0]
    steps = ledger.timeline(run_id)
    if as_json:
        put(json.dumps(_details(ledger, seen, steps), indent=2, ensure_ascii=False))
        return
    width = max(len(name) for name, _ in _facts(ledger, seen, db))
    for name, text in _facts(ledger, seen, db):
        print(f"{name:{width}}  {printable(text)}")
    if steps:
        print()
        _print_table(
            ("operator", "state", "seconds", "tokens", "cost", "said"), [_step_row(step, seen) for step in steps]
        )
    for line in _errors(seen, steps):
        print(printable(line))
    for line in _asked(seen, db):
        print(printable(line))
    print(f"\n{printable(_what_next(seen, db))}")


@app.command("resume")
def resume_run(
    run_id: RunId,
    answer: Annotated[
        list[str] | None,
        typer.Option(help="The answer to a question that it asks, ID=VALUE. May be given again."),
    ] = None,
    model: Annotated[str | None, typer.Option(help="From now on, the model's name at its endpoint.")] = None,
    base_url: Annotated[str | None, typer.Option(help="From now on, the endpoint, with /v1.")] = None,
    prices: PricesFile = None,
    restart_from: RestartFrom = None,
    round_: Round = 1,
    events_file: Annotated[
        Path | None, typer.Option("--events", help="Write every event to this file, as JSON lines.")
    ] = None,
    db: Database = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole message as JSON.")] = False,
    trace: Traced = None,
    view: View = False,
    view_port: ViewPort = None,
    trust: Trusted = False,
) -> None:
    """Go on with a run as operad run began it: what had finished does not run again.

    What failed is tried again; of a run that has finished, the result is printed. A run that another
    process drives gets the answers, and goes on there. Exit status as of operad run.
    """
    check_restart(restart_from, round_, run_id)
    given = dict(named_values("--answer", "ID", answer))
    ledger = open_ledger(db)
    kept = ledger.run(run_id)
    if kept.state == FINISHED and restart_from is None:
        if given:
            raise InputError(f"run {run_id!r} has finished, and asks nothing; leave --answer out")
        _deliver_kept(open_ledger(db, files=_place_of_files(kept)), kept, as_json=as_json)
    if given and not ledger.is_driven(kept):
        _refuse_answers_to_a_program(kept)
    later = keep_answers(ledger, run_id, given)
    if ledger.is_driven(kept):
        _leave_to_driver(kept, given, later)
        return
    source = trusted(source_of(kept), run_id, db, model, base_url)
    runnable = trusting(lambda trusted: make(source, trusted), trust)
    served = runnable.served() if source.workers else None
    ledger = open_ledger(db, workers=served, files=source.files, durable=runnable.durable)
    if restart_from is not None:
        restart(ledger, run_id, restart_from, round_, runnable.agent)
    elif kept.state == FAILED:
        ledger.retry(run_id, runnable.agent.workflow)
    job, going_on = ledger.job(run_id), Kept(ledger, run_id, db, source.base_url)
    port, lines = port_of(view, view_port), Lines.of_stdin()
    carry_out(runnable, job, [], later, events_file, lines, as_json=as_json, kept=going_on, trace=trace, view_port=port)


@app.command("cancel")
def cancel_run(run_id: RunId, db: Database = None) -> None:
    """End a run: nothing more begins in it. What has finished is kept, and operad runs resume goes on with it."""
    ledger = open_ledger(db)
    driver = ledger.run(run_id).driver
    ledger.cancel(run_id)
    ended = ledger.run(run_id).state == CANCELLED
    print(printable(f"{run_id}: cancelled" if ended else f"{run_id}: {driver} was told to end it"))


@app.command("delete")
def delete_runs(
    run_ids: Annotated[list[str] | None, typer.Argument(metavar="ID", help="The runs' ids.")] = None,
    older_than: Annotated[
        str | None,
        typer.Option(metavar="AGE", help="Instead, all of which nothing was noted for so long: 30d, 12h, 90m, 2w."),
    ] = None,
    keep: Annotated[
        int | None, typer.Option(min=0, metavar="COUNT", help="Instead, all but so many of the newest.")
    ] = None,
    state: Annotated[
        Literal["finished", "failed", "cancelled", "interrupted", "asks"],
        typer.Option(help="With --older-than and --keep: those in this state."),
    ] = "finished",
    db: Database = None,
) -> None:
    """Forget runs with all that is kept of them, without asking. None that is being driven is forgotten.

    With --older-than and --keep, those that are older and not among the newest. It is done a few runs at a time: what
    runs goes on meanwhile, and Ctrl-C leaves the rest.
    """
    chooses = older_than is not None or keep is not None
    if bool(run_ids) == chooses:
        raise InputError("name the runs, or say --older-than 30d or --keep 1000")
    least = None if older_than is None else _age(older_than)
    ledger = _ledger_to_look_at(db)
    chosen = _ended(ledger, state, least, keep) if chooses else run_ids or []
    sources = {source for few in batched(chosen) for source in ledger.store.sources(few)}
    for run_id in ledger.deleting(chosen):
        print(printable(f"deleted: {run_id}"))
    if not chosen:
        print(f"nothing deleted: no run that is {state} is {_asked_for(older_than, keep)}")
        return
    if not ledger.give_back_space():
        print(
            f"{printable(shown(ledger.url))}: keeps its size, and has room for as many new runs; deleting a run while no "
            "other process uses the file makes it smaller",
            file=sys.stderr,
        )
    for place in {_place_of_files(KeptRun("", source=source)) for source in sources}:
        if freed := open_ledger(db, files=place).collect_files():
            print(f"files that no run refers to any more: {freed:,} bytes less")


def _ended(ledger: Ledger, state: str, least: float | None, keep: int | None) -> Sequence[str]:
    """The runs in a state that are so old and not among the newest."""
    if state in (FINISHED, FAILED, CANCELLED):
        return ledger.store.ended(state, seconds=least, but=keep)
    open_ = ledger.store.runs(states=(RUNNING, PAUSED))
    these = [each for each in look(ledger, *open_) if each.state == state]
    return [each.kept.run_id for each in these[keep or 0 :] if each.idle >= (least or 0.0)]


def _asked_for(older_than: str | None, keep: int | None) -> str:
    older = [] if older_than is None else [f"older than {older_than}"]
    return " and ".join([*older, *([] if keep is None else [f"beyond the {keep} newest"])])


def _ledger_to_look_at(db: str | None) -> Ledger:
    """A ledger that names files by where they lay, and brings none here."""
    ledger = open_ledger(db)
    ledger.codec = Codec()
    return ledger


def _place_of_files(kept: KeptRun) -> str | None:
    with suppress(InputError):  # a program began it
        return source_of(kept).files
    return None


# What commands do with a run


def keep_answers(ledger: Ledger, run_id: str, answers: Mapping[str, str]) -> dict[str, str]:
    """Keep the answers to what a run asks; return those to what it does not ask yet.

    Raises:
        InputError: One does not fit its question; then none is kept.
    """
    open_ = {question.id: question for question in ledger.open_questions(run_id)}
    meant: dict[str, Any] = {}
    for question_id, text in answers.items():
        if question_id in open_:
            asked = open_[question_id]
            try:
                meant[question_id] = read_answer(text, asked.schema_)
            except WrongAnswerError as error:
                raise InputError(f"--answer {question_id}={text}: {error}; it was asked: {asked.text}") from error
    if meant:
        ledger.answer(run_id, meant)
    return {question_id: text for question_id, text in answers.items() if question_id not in meant}


def _refuse_answers_to_a_program(kept: KeptRun) -> None:
    """Raise InputError for a run that no command can go on with, before any answer to it is kept."""
    if not _is_of_a_command(kept):
        raise InputError(
            f"run {kept.run_id!r} was begun by a program, not by a command, so no answer is stored; answer it "
            f"{_in_program(kept)}"
        )


def _is_of_a_command(kept: KeptRun) -> bool:
    with suppress(InputError):
        return bool(source_of(kept).file)
    return False


def _in_program(kept: KeptRun, question_id: str = "QUESTION") -> str:
    answers = f"{{{question_id!r}: VALUE}}"
    return (
        f"in that program: ledger.answer({kept.run_id!r}, {answers}), then execute its workflow with "
        f"run_id={kept.run_id!r} again"
    )


def _leave_to_driver(kept: KeptRun, given: Mapping[str, str], unasked: Mapping[str, str]) -> None:
    if not given:
        raise InputError(f"run {kept.run_id!r} is being driven by {kept.driver}; wait for it, or cancel it first")
    if unasked:
        raise InputError(f"run {kept.run_id!r} does not ask {shorten(list(unasked))}; operad runs show {kept.run_id}")
    print(f"{kept.run_id}: answered; {printable(kept.driver)} goes on with it")


def _deliver_kept(ledger: Ledger, kept: KeptRun, *, as_json: bool) -> None:
    message = ledger.result(kept.run_id)
    assert message is not None  # noqa: S101 - it has finished
    typed = False
    with suppress(OperadError):  # the file may have gone since; then the text is shown, as for any other
        typed = find_graph(source_of(kept).file) is not None
    deliver(message, typed=typed, as_json=as_json)


def _age(text: str) -> float:
    found = _AGE.fullmatch(text.strip())
    if not found:
        raise InputError(f"--older-than {text!r}: write a number with s, m, h, d or w: 90m, 12h, 30d, 2w")
    return int(found[1]) * _SECONDS[found[2]]


# What people see


def look(ledger: Ledger, *chosen: KeptRun) -> list[Seen]:
    """Kept runs as people see them."""
    alive, now = ledger.alive(), ledger.store.now()
    return [_seen(ledger, kept, alive, now) for kept in chosen]


def _seen(ledger: Ledger, kept: KeptRun, alive: Collection[str], now: float) -> Seen:
    state, verdict = kept.state, ""
    questions: Sequence[Question] = ()
    if state == FINISHED:
        verdict = kept.verdict
    elif state not in (FAILED, CANCELLED):
        questions = list(map(_question, ledger.questions(kept.run_id)))
        state = ASKS if questions else RUNNING if kept.driver in alive else INTERRUPTED
    driven = replace(kept, driver=kept.driver if kept.driver in alive else "")
    return Seen(driven, state, verdict, questions, max(0.0, now - kept.created), max(0.0, now - kept.updated))


def _question(kept: KeptQuestion) -> Question:
    try:
        return question_of(kept)
    except InputError as error:
        return Question(id=kept.id, text=f"{kept.text} ({error})")


def _row(seen: Seen) -> tuple[str, ...]:
    kept, usage = seen.kept, seen.usage
    cost = usage.money() if usage.calls else ""
    state = f"{seen.state}: {seen.verdict}" if seen.verdict else seen.state
    return (kept.run_id, kept.workflow, state, seen.progress, ago(seen.age), f"{usage.tokens:,}", cost)


def ago(seconds: float) -> str:
    """A time for people, in its largest unit that counts more than one."""
    for unit in "dhm":
        if seconds >= 2 * _SECONDS[unit]:
            return f"{seconds / _SECONDS[unit]:.0f} {'min' if unit == 'm' else unit}"
    return f"{seconds:.0f} s"


def _job_facts(ledger: Ledger, seen: Seen) -> Iterator[tuple[str, str]]:
    job = _job(ledger, seen)
    if isinstance(job, str):
        yield "job", job
        return
    yield "job", shortened(job.goal, LONGEST_SAID)
    for name, value in job.inputs.items():
        yield "input", shortened(f"{name}={value}", LONGEST_SAID)
    for file in job.files:
        yield "file", str(file.path)


def _job(ledger: Ledger, seen: Seen) -> Job | str:
    try:
        return ledger.job(seen.kept.run_id)
    except OperadError as error:
        return f"cannot be read: {error}"


def _facts(ledger: Ledger, seen: Seen, db: str | None) -> list[tuple[str, str]]:
    kept = seen.kept
    drives = "driven once" if kept.drives == 1 else f"driven {kept.drives} times"
    facts = [
        ("run", kept.run_id),
        ("workflow", kept.workflow),
        ("state", f"{seen.state}{': ' if seen.verdict else ''}{seen.verdict}, {seen.progress} done, {drives}"),
        *([("driver", kept.driver)] if kept.driver else []),
        *_job_facts(ledger, seen),
        ("source", _source_text(kept)),
        ("begun", f"{_moment(kept.created)}, {ago(seen.age)} ago; last noted {ago(seen.idle)} ago"),
        ("used", used(seen.usage)),
        ("kept in", shown(ledger.url)),
    ]
    if result := _result(ledger, kept):
        facts.append(("result", result if isinstance(result, str) else shortened(result.scratchpad, LONGEST_SAID)))
    return facts


def _result(ledger: Ledger, kept: KeptRun) -> WorkflowMessage | str | None:
    try:
        return ledger.result(kept.run_id)
    except OperadError as error:
        return f"cannot be read: {error}"


def _source_text(kept: KeptRun) -> str:
    try:
        source = source_of(kept).model_dump(exclude_defaults=True)
    except InputError:
        return "a program, not a command"
    return ", ".join([source.pop("file"), *(f"{name} {value}" for name, value in source.items())])


def _moment(seconds: float) -> str:
    with suppress(ValueError, OverflowError, OSError):  # no time that there is
        return f"{datetime.fromtimestamp(seconds).astimezone():%Y-%m-%d %H:%M:%S}"
    return "?"


def _step_state(step: KeptStep, seen: Seen) -> str:
    if step.outcome is None:
        return "waiting" if step.waits else "running" if seen.kept.driver else INTERRUPTED
    return "failed" if step.outcome.error is not None else "done"


def _step_row(step: KeptStep, seen: Seen) -> tuple[str, ...]:
    outcome = step.outcome
    if outcome is None:
        return (step.key, _step_state(step, seen), "", "", "", "")
    said = describe(outcome.error) if outcome.error is not None else ""
    if outcome.message is not None:
        message = outcome.message
        said = message.scratchpad or (
            json.dumps(message.outputs, default=str, ensure_ascii=False) if message.outputs else ""
        )
    usage = outcome.usage
    tokens, cost = f"{usage.tokens:,}" if usage.tokens else "", usage.money() if usage.calls else ""
    return (step.key, _step_state(step, seen), f"{step.seconds:.1f}", tokens, cost, shortened(said, LONGEST_SAID))


def _errors(seen: Seen, steps: Sequence[KeptStep]) -> Iterator[str]:
    for step in steps:
        if step.outcome is not None and step.outcome.error is not None:
            first, *others = causes(step.outcome.error)
            yield ""
            yield f"{step.key} failed: {describe(first)}"
            yield from (f"  caused by: {describe(cause)}" for cause in others)
    if seen.kept.error:
        yield ""
        yield f"the run failed: {seen.kept.error}"


def _asked(seen: Seen, db: str | None) -> Iterator[str]:
    for question in seen.questions:
        form = f" ({wanted})" if (wanted := describe_answer(question.schema_)) else ""
        yield ""
        yield f"{question.id} asks: {question.text}{form}"
        yield f"  answer it: {_answer_command(seen, question, db) if _is_of_a_command(seen.kept) else _in_program(seen.kept, question.id)}"


def _answer_command(seen: Seen, question: Question, db: str | None) -> str:
    return f"{_resume(seen.kept, db)} --answer {shlex.quote(question.id)}=…"


def _resume(kept: KeptRun, db: str | None) -> str:
    with suppress(InputError):  # a program began it
        return resume_command(kept.run_id, db, source_of(kept).base_url)
    return resume_command(kept.run_id, db)


def _what_next(seen: Seen, db: str | None) -> str:
    kept, resume = seen.kept, _resume(seen.kept, db)
    if kept.driver:
        return f"{kept.driver} drives it; operad runs cancel {shlex.quote(kept.run_id)}{database_option(db)} ends it"
    if kept.source in ("", "null"):
        return f"to go on: execute its workflow with run_id={kept.run_id!r} in the program that began it"
    return {
        FINISHED: f"its result: {resume}; to do it anew from an operator on: {resume} --restart-from OPERATOR",
        FAILED: f"to try again what failed: {resume}",
        ASKS: f"to answer and go on: {_answer_command(seen, seen.questions[0], db)}" if seen.questions else "",
    }.get(seen.state, f"to go on: {resume}")


def _details(ledger: Ledger, seen: Seen, steps: Sequence[KeptStep]) -> dict[str, Any]:
    kept = seen.kept
    job = _job(ledger, seen)
    message = _result(ledger, kept)
    return {
        **seen.as_dict(),
        "source": _json(kept.source),
        "job": job if isinstance(job, str) else job.model_dump(mode="json", fallback=str),
        "error": kept.error,
        "questions": [
            {"id": question.id, "text": question.text, "schema": question.schema_} for question in seen.questions
        ],
        "operators": [_step_dict(step, seen) for step in steps],
        "result": message.model_dump(mode="json", fallback=str) if isinstance(message, WorkflowMessage) else message,
    }


def _json(text: str) -> Any:
    with suppress(ValueError, RecursionError):  # none of ours
        return json.loads(text)
    return None


def _step_dict(step: KeptStep, seen: Seen) -> dict[str, Any]:
    outcome = step.outcome
    made: dict[str, Any] = {"key": step.key, "state": _step_state(step, seen), "seconds": step.seconds}
    if outcome is None:
        return made
    made["usage"] = outcome.usage.model_dump(mode="json")
    if outcome.message is not None:
        made["message"] = outcome.message.model_dump(mode="json", fallback=str)
    if outcome.error is not None:
        made["error"] = [describe(cause) for cause in causes(outcome.error)]
    return made


def _print_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], styles: Mapping[int, Sequence[str]] | None = None
) -> None:
    """A table at a terminal; elsewhere columns with spaces between them, which nothing wraps."""
    console = Console()
    cells = [[printable(cell) for cell in row] for row in rows]
    if not console.is_terminal:
        widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
        for row in (columns, *cells):
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        return
    table = Table(box=None, pad_edge=False)
    for place, column in enumerate(columns):
        table.add_column(column, no_wrap=place == 0, overflow="fold")
    for number, row in enumerate(cells):
        style = {place: named[number] for place, named in (styles or {}).items()}
        table.add_row(*(Text(cell, style=style.get(place, "")) for place, cell in enumerate(row)))
    console.print(table)
