"""`operad runs`: list, show, resume, cancel and delete durable runs."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from pydantic import JsonValue

from operad.cli.ask import Lines, read_answers
from operad.cli.columns import print_table
from operad.cli.durable import Database, Kept, database_option, open_ledger, trusted
from operad.cli.options import Answers, EventsFile, MessageAsJson, PricesFile, named_values, refuse_repeated
from operad.cli.process import put
from operad.cli.run import (
    RestartFrom,
    Round,
    carry_out,
    check_events_file,
    check_restart,
    deliver,
    restart,
)
from operad.cli.run_record import (
    INTERRUPTED,
    UNIT_SECONDS,
    ago,
    answer_instructions,
    asked,
    caught_up,
    details,
    displayed_runs,
    errors,
    facts,
    is_of_a_command,
    next_step,
    row,
    step_row,
)
from operad.cli.telemetry import Traced
from operad.cli.trust_store import Trusted, trusting
from operad.cli.view import View, ViewPort, port_of
from operad.configs.flow import find_graph
from operad.configs.inputs import expert_inputs
from operad.configs.runnable import make, source_of
from operad.operators.secrets import known_secrets
from operad.runtime.durable.codec import Codec
from operad.runtime.durable.copies import operator_at
from operad.runtime.durable.database_names import display_name
from operad.runtime.durable.description import describe_workflow, refuse_changed
from operad.runtime.durable.ledger import Ledger
from operad.runtime.durable.store import Store
from operad.runtime.durable.tables import (
    ASKS,
    CANCELLED,
    FAILED,
    FINISHED,
    RUNNING,
    StoredQuestion,
    StoredRun,
    question_of,
)
from operad.runtime.durable.work_table import batched
from operad.runtime.evaluation.recording import case_of
from operad.runtime.models.addresses import without_key
from operad.runtime.values.errors import InputError, OperadError, shorten
from operad.runtime.values.secret import hide
from operad.runtime.values.text import printable
from operad.runtime.workflow.workflow import Workflow

_AGE_PATTERN = re.compile(r"(\d{1,6})([smhdw])")
_STYLES = {RUNNING: "bold cyan", INTERRUPTED: "yellow", ASKS: "bold magenta", FAILED: "bold red", CANCELLED: "dim"}

_MOST = 1_000_000_000
"""Maximum of a number of runs, which databases store in four bytes."""

_MOST_ASKING = 1_000
"""Maximum number of runs whose questions are listed."""

RunId = Annotated[str, typer.Argument(metavar="ID", help="The run's id.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print it in full, as JSON.")]

app = typer.Typer(
    help="List, show, resume, cancel and delete durable runs.", no_args_is_help=True, add_completion=False
)


@app.command("list")
def list_runs(
    limit: Annotated[int, typer.Option(min=1, max=_MOST, help="Maximum number of runs.")] = 50,
    after: Annotated[
        str | None, typer.Option(metavar="ID", help="List the runs after this one: the next page of a list.")
    ] = None,
    db: Database = None,
    as_json: AsJson = False,
) -> None:
    """List durable runs, the newest first."""
    ledger = _ledger_for_reading(db)
    found = ledger.runs(limit + 1, after or "")
    seen = [
        run if run.state == FINISHED else caught_up(run, ledger.timeline(run.kept.run_id))
        for run in displayed_runs(ledger, *found[:limit])
    ]
    if as_json:
        put(json.dumps([run.as_dict() for run in seen], indent=2, ensure_ascii=False))
    elif not seen:
        print(f"{printable(display_name(ledger.url))}: no {'more ' if after else ''}runs")
    else:
        triggered = any(run.kept.started_by for run in seen)
        print_table(
            ("id", "workflow", "state", "done", "age", "tokens", "cost", *(["started by"] if triggered else [])),
            [(*row(run), *([run.kept.started_by] if triggered else [])) for run in seen],
            {2: [_STYLES.get(run.state, "green") for run in seen]},
        )
    if len(found) > limit:
        again = f"--limit {limit} --after {shlex.quote(seen[-1].kept.run_id)}{database_option(db)}"
        print(printable(f"there are more: operad runs list {again}"), file=sys.stderr)


@app.command("questions")
def list_questions(db: Database = None, as_json: AsJson = False) -> None:
    """List the open questions of all durable runs: since when they are open, who may answer, and how."""
    ledger = _ledger_for_reading(db)
    now = ledger.store.database.now()
    found = [(run_id, each) for run_id in ledger.store.asking(_MOST_ASKING) for each in ledger.questions(run_id)]
    if as_json:
        fields = ("run", "id", "text", "asked", "answer_by", "form")
        rows = [(run, each.id, each.text, each.asked, *_people_and_form(each)) for run, each in found]
        put(json.dumps([dict(zip(fields, row, strict=True)) for row in rows], indent=2, ensure_ascii=False))
    elif not found:
        print(f"{printable(display_name(ledger.url))}: no open questions")
    else:
        print_table(
            ("run", "question", "asked", "for", "text"),
            [
                (
                    run,
                    each.id,
                    f"{ago(max(0.0, now - each.asked))} ago",
                    ", ".join(_people_and_form(each)[0]),
                    each.text,
                )
                for run, each in found
            ],
        )
        print(
            printable(f"to answer one: operad runs resume RUN --answer QUESTION=…{database_option(db)}"),
            file=sys.stderr,
        )


def _people_and_form(kept: StoredQuestion) -> tuple[list[str], JsonValue]:
    """Return the people who may answer a question, and the JSON Schema of the answer; none of one that cannot be read."""
    with suppress(InputError):
        question = question_of(kept)
        return list(question.answer_by), question.schema_
    return [], None


@app.command("show")
def show_run(run_id: RunId, db: Database = None, as_json: AsJson = False) -> None:
    """Print the record of a run: its job, its operators, its questions, and the command to resume it."""
    ledger = _ledger_for_reading(db)
    steps = ledger.timeline(run_id)
    seen = caught_up(displayed_runs(ledger, ledger.run(run_id))[0], steps)
    if as_json:
        put(json.dumps(details(ledger, seen, steps), indent=2, ensure_ascii=False))
        return
    width = max(len(name) for name, _ in facts(ledger, seen, db))
    for name, text in facts(ledger, seen, db):
        print(f"{name:{width}}  {printable(text)}")
    if steps:
        print()
        print_table(
            ("operator", "state", "seconds", "tokens", "cost", "answer"), [step_row(step, seen) for step in steps]
        )
    for line in errors(seen, steps):
        print(printable(line))
    for line in asked(seen, db):
        print(printable(line))
    print(f"\n{printable(next_step(seen, db))}")


@app.command("resume")
def resume_run(
    run_id: RunId,
    answer: Answers = None,
    model: Annotated[str | None, typer.Option(help="Name of the model at its endpoint, from now on.")] = None,
    base_url: Annotated[str | None, typer.Option(help="OpenAI-compatible endpoint, with /v1, from now on.")] = None,
    prices: PricesFile = None,
    restart_from: RestartFrom = None,
    round_: Round = 1,
    output: Annotated[
        list[str] | None,
        typer.Option(
            metavar="OPERATOR=VALUE",
            help="With --restart-from: another output of an operator, as text or JSON, or @FILE. Repeatable.",
        ),
    ] = None,
    input_: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            metavar="NAME=VALUE",
            help="With --restart-from: another input of the job, for the operators that run again. Repeatable.",
        ),
    ] = None,
    events_file: EventsFile = None,
    db: Database = None,
    as_json: MessageAsJson = False,
    trace: Traced = None,
    view: View = False,
    view_port: ViewPort = None,
    trust: Trusted = False,
) -> None:
    """Resume a durable run; finished operators do not run again.

    Failed operators run again; if the run has finished, its result is printed. A run that another
    process drives receives the answers, and continues there. Exit status as for operad run.
    """
    check_restart(restart_from, round_, run_id)
    check_events_file(events_file)
    given = refuse_repeated("--answer", named_values("--answer", "ID", answer))
    outputs = refuse_repeated("--output", named_values("--output", "OPERATOR", output))
    inputs = refuse_repeated("--input", named_values("--input", "NAME", input_))
    if restart_from is None and (outputs or inputs):
        raise InputError("--output and --input need --restart-from OPERATOR: a copy of the run continues with them")
    ledger = open_ledger(db)
    kept = ledger.run(run_id)
    if kept.state == FINISHED and restart_from is None:
        if given:
            raise InputError(f"run {run_id!r} has finished, and asks nothing; leave --answer out")
        _deliver_stored(open_ledger(db, files=_file_store_of(kept)), kept, as_json=as_json)
    is_driven = restart_from is None and ledger.is_driven(kept)
    if given and not is_driven:
        _refuse_answers_of_program_run(kept)
    values, unasked = read_answers(given, ledger.open_questions(run_id))
    if is_driven:
        ledger.answer(run_id, values)
        _report_to_driver(kept, given, unasked)
        return
    source = trusted(source_of(kept), run_id, db, model, base_url)
    runnable = trusting(lambda trusted: make(source, trusted), trust)
    served = runnable.served() if source.workers else None
    ledger = open_ledger(db, workers=served, files=source.files, durable=runnable.durable)
    if restart_from is not None:
        changes = {
            "outputs": {path: _output_value(runnable.agent.workflow, path, text) for path, text in outputs.items()},
            "inputs": expert_inputs(inputs.items()),
        }
        run_id = restart(ledger, run_id, restart_from, round_, runnable.agent, given, changes)
    elif kept.state == FAILED:
        ledger.retry(run_id, runnable.agent.workflow)
    else:
        refuse_changed(kept, describe_workflow(runnable.agent.workflow))
    values, unasked = read_answers(given, ledger.open_questions(run_id))  # again: restarted operators ask anew
    ledger.answer(run_id, values)  # last: a command that fails stores no answers
    job, going_on = ledger.job(run_id), Kept(ledger, run_id, db, source.base_url, trust=trust)
    port, lines = port_of(view, view_port), Lines.of_stdin()
    carry_out(
        runnable, job, [], unasked, events_file, lines, as_json=as_json, kept=going_on, trace=trace, view_port=port
    )


@app.command("to-case")
def run_to_case(
    run_id: RunId,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE.jsonl", help="Add the case to this file.")
    ] = None,
    db: Database = None,
) -> None:
    """Write a finished run as a case of an evaluation, as a line of JSON: its job, operators, verdict and model's answers.

    The label is the run's own verdict: correct accepted and blame where it is wrong. Values of secrets are hidden.
    """
    ledger = _ledger_for_reading(db)
    values = known_secrets()
    try:
        case = case_of(
            run_id, ledger.job(run_id), ledger.events(run_id), lambda text: hide(without_key(text, ""), values)
        )
    except ValueError as error:
        raise InputError(f"run {run_id!r}: {error}; operad runs show {run_id}") from error
    line = json.dumps(case.as_dict(), ensure_ascii=False)
    if output is None:
        put(line)
        return
    try:
        with output.open("a", encoding="utf-8", errors="replace") as file:
            file.write(f"{line}\n")
    except OSError as error:
        raise InputError(f"--output {output}: cannot be written: {error.strerror or error}") from error
    print(printable(f"{run_id}: added to {output}; check `accepted`, `blame` and `expected`"), file=sys.stderr)


@app.command("cancel")
def cancel_run(run_id: RunId, db: Database = None) -> None:
    """Cancel a run. Finished operators are kept, and operad runs resume continues it."""
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
        typer.Option(
            metavar="AGE", help="Instead of ids: all runs without an update for this time: 30d, 12h, 90m, 2w."
        ),
    ] = None,
    keep: Annotated[
        int | None,
        typer.Option(
            min=0, max=_MOST, metavar="COUNT", help="Instead of ids: all runs except for this number of the newest."
        ),
    ] = None,
    state: Annotated[
        Literal["finished", "failed", "cancelled", "interrupted", "asks"],
        typer.Option(help="With --older-than and --keep: only runs in this state."),
    ] = "finished",
    db: Database = None,
) -> None:
    """Delete runs with all their records, without confirmation. Runs that a process drives are not deleted.

    With --older-than and --keep, runs that match both are deleted, a few at a time: other
    runs continue meanwhile, and Ctrl-C keeps the rest.
    """
    chooses = older_than is not None or keep is not None
    if bool(run_ids) == chooses:
        raise InputError("give the ids of runs, or --older-than 30d or --keep 1000")
    least = None if older_than is None else _age_seconds(older_than)
    ledger = _ledger_without_files(db)
    chosen = _runs_in_state(ledger, state, least, keep) if chooses else run_ids or []
    sources = {source for few in batched(chosen) for source in ledger.store.sources(few)}
    for run_id in ledger.deleting(chosen):
        print(printable(f"deleted: {run_id}"))
    if not chosen:
        print(f"nothing deleted: no run that is {state} is {_criteria_text(older_than, keep)}")
        return
    ledger.give_back_space()
    for place in {_file_store_of(StoredRun("", source=source)) for source in sources}:
        if freed := open_ledger(db, files=place).collect_files():
            print(f"files that no run refers to any more: {freed:,} bytes less")


def _runs_in_state(ledger: Ledger, state: str, least: float | None, keep: int | None) -> Sequence[str]:
    """Return the ids of runs in a state that are at least `least` seconds old and not among the `keep` newest."""
    if state in (FINISHED, FAILED, CANCELLED):
        return ledger.store.ended(state, seconds=least, but=keep)
    unfinished = ledger.store.runs(states=(RUNNING, ASKS))
    matching = [run for run in displayed_runs(ledger, *unfinished) if run.state == state]
    return [run.kept.run_id for run in matching[keep or 0 :] if run.idle >= (least or 0.0)]


def _criteria_text(older_than: str | None, keep: int | None) -> str:
    older = [] if older_than is None else [f"older than {older_than}"]
    return " and ".join([*older, *([] if keep is None else [f"beyond the {keep} newest"])])


def _ledger_without_files(db: str | None) -> Ledger:
    """Return a ledger for inspecting runs: files keep their stored addresses, and none is fetched."""
    ledger = open_ledger(db)
    ledger.codec = Codec()
    return ledger


def _ledger_for_reading(db: str | None) -> Ledger:
    """Return a ledger for inspecting runs, also in a file that this user may not write."""
    ledger = _ledger_without_files(db)
    ledger.store = Store(ledger.url, reading=True)
    return ledger


def _file_store_of(kept: StoredRun) -> str | None:
    with suppress(InputError):  # the run was started by a program
        return source_of(kept).files
    return None


# Steps of the commands


def _output_value(workflow: Workflow, path: str, text: str) -> Any:
    """Return the value of --output: the text itself for an operator that returns text, else JSON if it is valid."""
    if text.startswith("@"):
        try:
            text = Path(text[1:]).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"--output {path}: {text[1:]}: cannot be read: {error}") from error
    operator = operator_at(workflow, path)
    if operator is None or operator.answer_type is not str:
        with suppress(ValueError, RecursionError):
            return json.loads(text)
    return text


def _refuse_answers_of_program_run(kept: StoredRun) -> None:
    """Raise InputError if a program started the run, as no command can resume it; no answer is stored then."""
    if not is_of_a_command(kept):
        raise InputError(
            f"run {kept.run_id!r} was started by a program, not by a command, so no answer is stored; answer it "
            f"{answer_instructions(kept)}"
        )


def _report_to_driver(kept: StoredRun, given: Mapping[str, str], unasked: Mapping[str, str]) -> None:
    """Print that a driver continues the run with the answers; raise InputError if they do not let it continue."""
    if not given:
        raise InputError(f"run {kept.run_id!r} is being driven by {kept.driver}; wait for it, or cancel it first")
    if unasked:
        raise InputError(f"run {kept.run_id!r} does not ask {shorten(list(unasked))}; operad runs show {kept.run_id}")
    print(f"{kept.run_id}: answered; {printable(kept.driver)} continues the run")


def _deliver_stored(ledger: Ledger, kept: StoredRun, *, as_json: bool) -> None:
    """Print the result of a finished run, and exit with its status."""
    message = ledger.result(kept.run_id)
    assert message is not None  # noqa: S101 - it has finished
    typed = False
    with suppress(OperadError):  # if the file is gone, the text of the result is printed
        typed = find_graph(source_of(kept).file) is not None
    deliver(message, typed=typed, as_json=as_json)


def _age_seconds(text: str) -> float:
    found = _AGE_PATTERN.fullmatch(text.strip())
    if not found:
        raise InputError(f"--older-than {text!r}: write a number with s, m, h, d or w: 90m, 12h, 30d, 2w")
    return int(found[1]) * UNIT_SECONDS[found[2]]
