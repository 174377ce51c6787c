"""`operad run`, and parts shared with `operad runs resume`."""

from __future__ import annotations

import getpass
import json
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TextIO

import typer
from rich.console import Console

from operad.cli.ask import Lines, read_answers
from operad.cli.durable import Database, Files, Kept, new_run_id, open_ledger
from operad.cli.follow import follow, run_to_end, say
from operad.cli.options import (
    Answers,
    BaseUrl,
    EventsFile,
    ExpertName,
    MessageAsJson,
    ModelName,
    PricesFile,
    ServicesFile,
    WorkflowFile,
    named_values,
    refuse_repeated,
)
from operad.cli.process import StdoutError, put
from operad.cli.progress import RESULT
from operad.cli.remarks import Lossy, plain_remarks, remark_lines
from operad.cli.telemetry import Traced, listened
from operad.cli.trust_store import Trusted, trusting
from operad.cli.view import View, ViewPort, page_of, port_of
from operad.configs.flow import result_text
from operad.configs.inputs import expert_inputs, job_of, looks_like_json, start_params, text_input
from operad.configs.remarks import doubled
from operad.configs.runnable import Runnable, Source, lasting, make
from operad.flows.check import OUTCOME
from operad.flows.node_graph import titles_of
from operad.operators.nodes.flow import StartVariable
from operad.runtime.agents.agent import Agent
from operad.runtime.events.events_file import may_be_written
from operad.runtime.values.errors import InputError, shorten
from operad.runtime.values.file import FileDescriptor
from operad.runtime.values.message import Job, WorkflowMessage, WorkflowStatus

if TYPE_CHECKING:
    from operad.flows.node_graph import NodeGraph
    from operad.runtime.durable.ledger import Ledger

EXIT_NOT_SUCCESS = 1
EXIT_INCOMPLETE = 2
"""Exit status if the result was printed, but not all events could be written."""

RestartFrom = Annotated[
    str | None,
    typer.Option(
        metavar="OPERATOR",
        help="Continue a copy of the run in which this operator, and all that comes after it, runs again; with slashes below those around it: outer/inner, each[2]/check.",
    ),
]
Round = Annotated[int, typer.Option("--round", min=1, help="With --restart-from: the first round to repeat.")]


def run(
    config: WorkflowFile,
    job: Annotated[
        str,
        typer.Option(help="The task, in words. Experts need it, unless there is a --file or an --input."),
    ] = "",
    file: Annotated[list[Path] | None, typer.Option(help="A file for the job. Repeatable.")] = None,
    input_: Annotated[
        list[str] | None,
        typer.Option("--input", help="A named value, NAME=VALUE; for a file, its path. Repeatable."),
    ] = None,
    expert: ExpertName = None,
    model: ModelName = None,
    base_url: BaseUrl = None,
    prices: PricesFile = None,
    events_file: EventsFile = None,
    answer: Answers = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FOLDER",
            help="Folder for files that the nodes of a workflow write; by default, a fresh one.",
        ),
    ] = None,
    services_file: ServicesFile = None,
    as_json: MessageAsJson = False,
    durable: Annotated[
        bool, typer.Option("--durable", help="Keep the run in a database, so that it can resume after a crash.")
    ] = False,
    db: Database = None,
    run_id: Annotated[
        str | None,
        typer.Option(help="Id of the durable run, by default a fresh one. An existing run resumes."),
    ] = None,
    restart_from: RestartFrom = None,
    round_: Round = 1,
    workers_: Annotated[
        bool, typer.Option("--workers", help="Let workers execute the operators: operad worker FILE, on any machines.")
    ] = False,
    files: Files = None,
    lossy: Lossy = False,
    trace: Traced = None,
    view_: View = False,
    view_port: ViewPort = None,
    trust: Trusted = False,
) -> None:
    """Run an expert or a leader of experts from a YAML file, or a workflow of typed nodes.

    The result goes to stdout; progress, questions, the verdict and errors go to stderr. Questions of
    the run are answered by --answer, or else by a line of stdin. Exit status: 0 accepted,
    1 rejected by an evaluator, 2 bad input or an error, 130 interrupted, 143 terminated. With --json, an
    error is printed as JSON, too, with its issues or the messages of finished operators.

    With a --file or an --input, but no --job, the task is that of `app: {desc: …}` in the expert's file.

    --db, --run-id, --restart-from, --workers and --files imply --durable: the messages of operators are kept. The same
    command with --run-id, or operad runs resume, continues after a crash, Ctrl-C or an open question.

    --view shows the run on a page in the browser, too, to answer its questions or cancel it; at a terminal the
    page stays after the run, until Ctrl-C.

    The format of a file is determined by its content: Operad's YAML, a Dify file, a Coze archive, Chat2Workflow's
    JSON, or a whole response with it.
    --file sets its file inputs, in order; missing inputs are asked for at the terminal. Differences from the platform of
    an imported file are printed first; if they may affect results, the workflow runs only with --lossy.
    """
    source = Source(
        file=config,
        expert=expert,
        model=model,
        base_url=base_url,
        services=None if services_file is None else str(services_file),
        out=None if output is None else str(output),
        workers=workers_,
        files=files,
        lossy=lossy,
    )
    check_restart(restart_from, round_, run_id)
    check_events_file(events_file)
    runnable, lines = trusting(lambda trusted: make(source, trusted), trust), Lines.of_stdin()
    given, missing = named_values("--input", "NAME", input_), list[StartVariable]()
    if runnable.graph is None:  # lists of files of other workflows are given one by one
        refuse_repeated("--input", given)
    goal = job.strip() and job
    if not goal and runnable.graph is None and not (file or given):
        raise _no_job(config, runnable)
    described = Job(goal=goal or runnable.goal, files=tuple(map(FileDescriptor.of, file or ())))
    if runnable.graph is None:
        described = described.model_copy(update={"inputs": expert_inputs(given)})
    else:
        if goal and not given and (text := text_input(start_params(runnable.graph))):
            given = [(text, goal)]
        described, missing = job_of(runnable.graph, described, given, may_ask=lines.typed, file=config)
    answers = refuse_repeated("--answer", named_values("--answer", "ID", answer))
    kept: Kept | None = None
    if durable or workers_ or any(given is not None for given in (db, run_id, files)):
        served = runnable.served() if workers_ else None
        ledger = open_ledger(db, lasting(source), workers=served, files=files, durable=runnable.durable)
        run_id = new_run_id(runnable.agent.workflow.name) if run_id is None else run_id
        if restart_from is not None:
            if not missing:  # before the copy is made, which another job could not continue
                from operad.runtime.durable.description import refuse_other_job

                refuse_other_job(run_id, ledger.job(run_id), described)
            run_id = restart(ledger, run_id, restart_from, round_, runnable.agent, answers)
        kept = Kept(ledger, run_id, db, lasting(source).base_url, trust=trust)
    port = port_of(view_, view_port)
    for line in _remarks(runnable, config, goal, described.inputs):
        say(Console(stderr=True), line)
    carry_out(
        runnable,
        described,
        missing,
        answers,
        events_file,
        lines,
        as_json=as_json,
        kept=kept,
        trace=trace,
        view_port=port,
    )


def _remarks(runnable: Runnable, file: str, goal: str, inputs: Mapping[str, object]) -> Iterator[str]:
    """Yield the remarks before a run: on the file, on inputs and jobs that have no effect, and on the default job."""
    if runnable.graph is not None:
        yield from remark_lines(runnable.graph, file)
        if goal and (unread := _unread_job(runnable.graph, file, goal, inputs)):
            yield unread
        return
    yield from (f"{file}: {remark}" for remark in doubled(runnable.agent.workflow, inputs))
    for name, value in inputs.items():
        if isinstance(value, str) and looks_like_json(value):
            yield f"--input {name}: is not valid JSON, so it is given as text"
    if not goal:
        origin = "name of the expert" if runnable.goal == runnable.agent.profile.name else "description"
        yield f"job: {runnable.goal} (no --job is given; this is the {origin} in {file})"


def _no_job(file: str, runnable: Runnable) -> InputError:
    """Return the error for a missing job, with the options that give one."""
    profile = runnable.agent.profile
    about = f". {profile.name}: {profile.description}" if profile.description else ""
    return InputError(
        f'{file}: the task is missing: operad run {shlex.quote(file)} --job "…"; or give --file or --input{about}'
    )


def _unread_job(graph: NodeGraph, file: str, goal: str, inputs: Mapping[str, object]) -> str:
    """Return a remark if no input of a workflow of typed nodes takes the job; empty otherwise."""
    start = start_params(graph)
    names = [variable.name for variable in start.variables]
    if "sys.query" in names or inputs.get(text_input(start) or "") == goal:
        return ""
    options = ", ".join(f"--input {name}=…" for name in names)
    return f"--job: {file} has no input sys.query, so no input takes the job; its inputs: {options or 'none'}"


def check_restart(operator: str | None, round: int, run_id: str | None) -> None:
    """Check the options of a restart: --restart-from needs a run, and --round needs --restart-from.

    Raises:
        InputError: An option is missing.
    """
    if operator is not None and run_id is None:
        raise InputError("--restart-from needs the run: --run-id ID (operad runs list shows the ids)")
    if operator is None and round != 1:
        raise InputError("--round needs --restart-from OPERATOR")


def check_events_file(path: Path | None) -> None:
    """Check that the file of --events replaces nothing but earlier events, such as the expert that is run.

    Raises:
        InputError: The file exists and contains something else.
    """
    if path is not None and not may_be_written(path):
        raise InputError(f"--events {path}: is not a file of events, and was not changed; name another file")


def restart(
    ledger: Ledger,
    run_id: str,
    operator: str,
    round: int,
    agent: Agent,
    answers: Mapping[str, str],
    changes: Mapping[str, Mapping[str, Any]] | None = None,
) -> str:
    """Copy a run from an operator on, print which operators run again, and return the id of the copy.

    Args:
        changes: The arguments `outputs` and `inputs` of `Ledger.restart_from`.

    Raises:
        InputError: As `Ledger.restart_from`; or an answer does not fit the question with its id that the run asked.
    """
    from operad.runtime.durable.tables import question_of

    read_answers(answers, map(question_of, ledger.store.questions(run_id)))  # a copy cannot be undone
    by = user_of_process() if any((changes or {}).values()) else ""
    copy = ledger.restart_from(run_id, operator, agent.workflow, round=round, by=by, **(changes or {}))
    copied = {row.key for row in ledger.steps.of_run(copy)}
    again = [row.key for row in ledger.steps.of_run(run_id) if row.key not in copied]
    say(
        Console(stderr=True),
        f"run {copy}: a copy of {run_id}; operators that run again: {shorten(again) or 'none that had run'}",
    )
    return copy


def user_of_process() -> str:
    """Return the name of the user of this process; empty if the system has none."""
    with suppress(OSError, KeyError, ImportError):
        return getpass.getuser()
    return ""


def carry_out(
    runnable: Runnable,
    job: Job,
    missing: Sequence[StartVariable],
    answers: Mapping[str, str],
    events_file: Path | None,
    lines: Lines,
    *,
    as_json: bool,
    kept: Kept | None = None,
    trace: str | None = None,
    view_port: int | None = None,
) -> NoReturn:
    """Run a job, print its result to stdout and everything else to stderr, and exit with a status.

    Args:
        runnable: Workflow or agent to run.
        missing: Inputs that are asked for at the terminal.
        answers: Answers to questions of the run, by question ids.
        lines: Source of further answers.
        as_json: True if the whole message is printed as JSON.
        kept: The durable run, if it is one.
        trace: Destination of the spans of the run.
        view_port: Port of the page that shows the run; None for no page.
    """
    services = runnable.services
    names = {} if runnable.graph is None else titles_of(runnable.graph)
    with ExitStack() as stack:
        written = stack.enter_context(_open_for_events(events_file)) if events_file else None
        page = None if view_port is None else stack.enter_context(page_of(runnable.agent.workflow, view_port, names))
        try:
            work = follow(runnable.agent, job, missing, answers, written, lines, kept, page, names=names)
            message = run_to_end(listened(runnable.agent.workflow, trace, work), kept)
        finally:
            if services.made and not services.folder:
                say(Console(stderr=True), f"files: {services.made}")
        try:
            deliver(message, typed=runnable.graph is not None, as_json=as_json, remarks=plain_remarks(runnable.graph))
        except typer.Exit:
            if written is None or not written.closed:
                raise
            raise typer.Exit(EXIT_INCOMPLETE) from None  # events could not be written


def deliver(
    message: WorkflowMessage, *, typed: bool, as_json: bool, remarks: Sequence[Mapping[str, object]] = ()
) -> NoReturn:
    """Print a result, and exit with its status. If stdout cannot be written, the result goes to stderr.

    Args:
        typed: True if the result is that of a workflow of typed nodes.
        as_json: True to print the whole message as JSON.
        remarks: Differences from the platform that the workflow comes from; a part of the JSON.

    Raises:
        StdoutError: Stdout cannot be written.
    """
    text = message_json(message, remarks) if as_json else _result_text(message, typed=typed)
    try:
        put(text)
        sys.stdout.flush()
    except StdoutError:
        put(text, sys.stderr)  # so that the result is not lost
        raise
    raise typer.Exit(0 if message.status is WorkflowStatus.SUCCESS else EXIT_NOT_SUCCESS)


def message_json(message: WorkflowMessage, remarks: Sequence[Mapping[str, object]] = ()) -> str:
    """Return the message as JSON, with ``accepted``; outputs that JSON cannot represent become text."""
    values = message.model_dump(mode="json", fallback=str)
    if message.operator_id == OUTCOME:
        values["operator_id"] = RESULT
    values = {"accepted": message.accepted, **values}
    return json.dumps({**values, "remarks": list(remarks)} if remarks else values, indent=2, ensure_ascii=False)


def _result_text(message: WorkflowMessage, *, typed: bool) -> str:
    """Return the result for people: outputs of a workflow of typed nodes, text of others, or whichever exists."""
    outputs = result_text(message.outputs)
    return (outputs or message.scratchpad) if typed else (message.scratchpad or outputs)


def _open_for_events(path: Path) -> TextIO:
    try:
        return path.open(
            "w", buffering=1, encoding="utf-8", errors="backslashreplace"
        )  # half a surrogate pair is valid JSON
    except OSError as error:
        raise InputError(f"--events {path}: cannot be written: {error.strerror or error}") from error
