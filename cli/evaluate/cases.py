"""`operad evaluate cases` and `operad evaluate judge`: an expert on cases, and its evaluator on labelled cases."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from operad.cli.durable import Database, database_option, new_run_id, open_ledger
from operad.cli.evaluate.work import progress, run_interruptibly
from operad.cli.formats import refuse_unwritable, write_file
from operad.cli.options import BaseUrl, ExpertName, ModelName, PricesFile, WorkflowFile
from operad.cli.tables import Report, show
from operad.cli.trust_store import Trusted, trusting
from operad.configs.python_reference import named_object
from operad.configs.runnable import Runnable, Source, lasting, make
from operad.evaluators import Evaluator
from operad.runtime.evaluation.cases import Dataset
from operad.runtime.evaluation.checks import contains, equals
from operad.runtime.evaluation.comparison import Comparison
from operad.runtime.evaluation.report import EvaluationReport
from operad.runtime.evaluation.tables import measurement_tables, report_tables
from operad.runtime.values.errors import InputError, did_you_mean
from operad.runtime.values.text import printable
from operad.runtime.workflow.evaluate import AT_ONCE
from operad.runtime.workflow.measure import measure
from operad.server.view.evaluation import markdown as markdown_of
from operad.server.view.evaluation import page as page_of

EXIT_NOT_PASSED = 1

_NAMED: dict[str, Callable[..., Any]] = {"equals": equals, "contains": contains}

CasesFile = Annotated[
    Path, typer.Option("--cases", metavar="FILE", help="Cases: JSON lines (.jsonl), or YAML with a list.")
]
EvaluatorTexts = Annotated[
    list[str] | None,
    typer.Option(
        "--evaluator",
        metavar="WHAT",
        help="equals, contains, a function as module:name, or criteria in words, by which a model judges. Repeatable.",
    ),
]
Concurrency = Annotated[int, typer.Option(min=1, help="Maximum number of runs at the same time.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the figures and all results as JSON.")]


def cases(
    config: WorkflowFile,
    cases_file: CasesFile,
    evaluator: EvaluatorTexts = None,
    repeat: Annotated[int, typer.Option(min=1, help="Number of runs of each case.")] = 1,
    scripted: Annotated[
        bool, typer.Option("--scripted", help="Answer with the scripts of the cases; no model is asked.")
    ] = False,
    concurrency: Concurrency = AT_ONCE,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="File of the results, written as they come; by default NAME.evaluation.jsonl in this folder.",
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the evaluation in the file of results.")] = False,
    db: Database = None,
    run_id: Annotated[
        str | None, typer.Option(help="With --db: id of the evaluation; an existing one is continued.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the report as a self-contained page.")
    ] = None,
    markdown: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the report as Markdown.")] = None,
    compare: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Compare with an earlier report: its results, or its JSON.")
    ] = None,
    as_json: AsJson = False,
    expert: ExpertName = None,
    model: ModelName = None,
    base_url: BaseUrl = None,
    prices: PricesFile = None,
    trust: Trusted = False,
) -> None:
    """Run an expert on cases, score the results, and report which operators are at fault.

    Without --evaluator, outputs are compared with the expected ones of the cases; the checks of a case always apply. With --db, the database of runs
    keeps the results instead of a file, and each run opens in operad view. Exit status: 0 if every case passed, 1 if
    not, 2 bad input or an error, 130 interrupted; what is done is kept, and --resume continues.
    """
    for path in (html, markdown):
        if path is not None:
            refuse_unwritable(str(path))
    if db is None and run_id is not None:
        raise InputError("--run-id is the id of an evaluation in a database: name it, --db FILE")
    if db is not None and (out is not None or resume):
        raise InputError("with --db, the database keeps the results: --run-id ID continues an evaluation")
    dataset = Dataset.load(cases_file)
    before = None if compare is None else EvaluationReport.load(compare)
    evaluators = [_evaluator_of(text) for text in evaluator] if evaluator else None
    source = Source(file=config, expert=expert, model=model, base_url=base_url)
    runnable = trusting(lambda trusted: make(source, trusted, asks_model=not scripted), trust)
    total = len(dataset) * repeat
    place: Path | None = None
    if db is not None:
        runnable.agent.workflow.keep_in(open_ledger(db, lasting(source), durable=runnable.durable))
        run_id = new_run_id(runnable.agent.workflow.name) if run_id is None else run_id
        print(f"evaluation: {run_id}", file=sys.stderr)
    else:
        place = out or Path(f"{Path(config).stem}.evaluation.jsonl")
        _prepare(place, [f"{case.name}#{number}" for case in dataset for number in range(1, repeat + 1)], resume)
    finished = 0

    def kept() -> str:
        again = f"--run-id {run_id}{database_option(db)}" if place is None else "--resume"
        where = "the database" if place is None else str(place)
        return printable(
            f"{finished} of {total} runs are done and kept in {where}; the same command with {again} continues"
        )

    with progress(total, 0) as advance:

        def note(done: int, _: int, __: object) -> None:
            nonlocal finished
            for _step in range(done - finished):
                advance()
            finished = done

        work = runnable.agent.workflow.aevaluate(
            dataset,
            evaluators,
            repeat=repeat,
            max_concurrency=concurrency,
            model=runnable.agent.reasoner,
            scripted=scripted,
            results=place,
            run_id=run_id,
            progress=note,
        )
        report = run_interruptibly(work, kept)
    comparison = None if before is None else report.compare(before)
    _write(report, comparison, html, markdown, as_json=as_json)
    if place is not None:
        print(printable(f"results: {place}"), file=sys.stderr)
    raise typer.Exit(EXIT_NOT_PASSED if report.failed else 0)


def judge(
    config: WorkflowFile,
    cases_file: CasesFile,
    evaluator: EvaluatorTexts = None,
    concurrency: Concurrency = AT_ONCE,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="FILE", help="Keep the verdicts in this file, and use those in it again."
        ),
    ] = None,
    as_json: AsJson = False,
    expert: ExpertName = None,
    model: ModelName = None,
    base_url: BaseUrl = None,
    prices: PricesFile = None,
    trust: Trusted = False,
) -> None:
    """Measure the evaluators of an expert on labelled cases: accuracy, false rejections and acceptances, blame.

    A labelled case has the answers of the operators (steps), accepted, and blame; operad runs to-case writes a run as
    one. The operators do not run. Exit status: 0, 2 bad input or an error, 130 interrupted.
    """
    dataset = Dataset.load(cases_file)
    runnable = trusting(lambda trusted: _runnable(config, expert, model, base_url, trusted), trust)
    graph = runnable.agent.workflow.graph()
    judges: Sequence[Any] = [_evaluator_of(text) for text in evaluator] if evaluator else graph.evaluators
    if not judges:
        raise InputError(f"{config}: has no evaluator; add `evaluator` in the file, or give --evaluator")
    done = 0

    def kept() -> str:
        where = f"and kept in {out}; the same command continues" if out else "and lost: --output FILE would keep them"
        return printable(f"{done} of {len(dataset)} cases are judged {where}")

    with progress(len(dataset), 0) as advance:

        def note(count: int, _: int, __: object) -> None:
            nonlocal done
            for _step in range(count - done):
                advance()
            done = count

        reasoner = runnable.agent.reasoner
        work = measure(judges, dataset, graph, reasoner, max_concurrency=concurrency, results=out, progress=note)
        measured = run_interruptibly(work, kept)
    items = [case.model_dump(mode="json") for case in measured.cases]
    show(Report(measured.summary(), items, measurement_tables(measured)), as_json=as_json, plot=None)


def _runnable(config: str, expert: str | None, model: str | None, base_url: str | None, trusted: Any) -> Runnable:
    return make(Source(file=config, expert=expert, model=model, base_url=base_url), trusted)


def _write(
    report: EvaluationReport, comparison: Comparison | None, html: Path | None, markdown: Path | None, *, as_json: bool
) -> None:
    if html is not None:
        write_file(str(html), page_of(report, comparison).encode("utf-8", "replace"))
    if markdown is not None:
        write_file(str(markdown), markdown_of(report, comparison).encode("utf-8", "replace"))
    summary = report.summary()
    if comparison is not None:
        summary["comparison"] = comparison.model_dump(mode="json")
    items = [case.model_dump(mode="json") for case in report.cases]
    show(Report(summary, items, report_tables(report, comparison)), as_json=as_json, plot=None)


def _evaluator_of(text: str) -> Any:
    """Return the evaluator that a text names: a known one, a function, or criteria for a model."""
    if text in _NAMED:
        return _NAMED[text]
    if " " in text.strip():
        return Evaluator(text)
    if ":" not in text:
        raise InputError(
            f"--evaluator {text!r}{did_you_mean(text, _NAMED)}: write {', '.join(_NAMED)}, module:function, or criteria "
            "in words"
        )
    return named_object(text, "--evaluator")


def _prepare(path: Path, keys: Sequence[str], resume: bool) -> None:
    """Remove the results of a finished evaluation of the same cases, unless it is to be continued."""
    if resume or not path.exists() or not path.stat().st_size:
        return
    try:
        head, *lines = path.read_text(encoding="utf-8").splitlines()
        is_ours = isinstance(json.loads(head).get("evaluation"), dict)
        done = {json.loads(line)["key"] for line in lines}
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise InputError(
            f"{path}: is not a file of results, or its last line is cut off: {error}; --resume, or another "
            "file: --output FILE"
        ) from error
    if not is_ours:
        raise InputError(f"{path}: is not a file of results; name another one: --output FILE")
    missing = [key for key in keys if key not in done]
    if missing and (others := done.difference(keys)):
        raise InputError(
            f"{path}: holds an evaluation of other cases, such as {min(others)!r}; remove it, or name another file: "
            "--output FILE"
        )
    if missing:
        raise InputError(
            f"{path}: holds an evaluation without {len(missing)} of these {len(keys)} runs; --resume continues it; or "
            "name another file: --output FILE"
        )
    path.unlink()
