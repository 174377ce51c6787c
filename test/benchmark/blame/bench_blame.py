"""Measure blame: the evidence in the judge's prompt, recorded or new verdicts on known faults, and the cost until SUCCESS.

    python test/benchmark/blame/bench_blame.py --replay                    # recorded verdicts, as in make bench
    python test/benchmark/blame/bench_blame.py --replay --page docs/blame.md
    python test/benchmark/blame/bench_blame.py --model NAME                # ask a model, and record its verdicts
    python test/benchmark/blame/bench_blame.py --prompts DIR --seeds 7     # write prompts of new cases, without their keys
    python test/benchmark/blame/bench_blame.py --answers DIR --by WHO --seeds 7

The operators are real and answer from the script of a case; the judge is the library's evaluator. If a verdict takes several
requests, ``--prompts`` writes the next request of each case that has no answer: repeat ``--prompts`` and ``--answers``
until none is left. Round 2 is judged by the key of the case: it accepts a right result.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from collections.abc import Collection, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from cases import KINDS, Case
from costs import Request, schema_of
from families import FAMILIES, SEEDS, case_of, cases_of
from metrics import Measured, costs, evidence, hidden, judged, rows
from play import Judge, Played, key_answer, play
from recording import RECORDED, Recording, hash_of, read_answers, write_prompts
from rich.console import Console
from tables import aims_table, families_table, figures, players_line

from operad import Model, OperadError, WorkflowStatus
from operad.runtime.models.messages import Message
from operad.runtime.values.schema import AnswerSchema

sys.path.insert(0, str(Path(__file__).parents[1]))
from page import markdown, write_figures, write_into

MOST_NAMES = 20
"""Maximum number of names of cases that are printed."""


def recorded_judge(recording: Recording) -> Judge:
    """Return the judge that answers from a recording in round 1, and from the key in round 2."""

    def judge(case: Case, request: Request, active: frozenset[str], round: int) -> str | None:
        return recording.answer(case, request) if round == 1 else key_answer(case, request, active)

    return judge


def judge_from_folder(recording: Recording, answers: Mapping[str, str], by: str) -> Judge:
    """Return the judge that also answers from the files of a folder, and adds them to the recording."""

    def judge(case: Case, request: Request, active: frozenset[str], round: int) -> str | None:
        new = answers.get(hash_of(request)) if round == 1 else None
        if new is not None:
            recording.add(case, request, new, by, str(date.today()))
        return recorded_judge(recording)(case, request, active, round)

    return judge


def asking_judge(recording: Recording, name: str) -> Judge:
    """Return the judge that asks a model in round 1, and adds its answers to the recording."""

    def judge(case: Case, request: Request, active: frozenset[str], round: int) -> str | None:
        if round == 1:
            recording.add(case, request, asyncio.run(ask(name, request)), name, str(date.today()))
        return recorded_judge(recording)(case, request, active, round)

    return judge


async def ask(name: str, request: Request) -> str:
    """Send a request of the judge to a model; return its answer."""
    makers: Mapping[str, Any] = {"system": Message.system, "user": Message.user, "assistant": Message.assistant}
    messages = [makers[message["role"]](message["content"]) for message in request["messages"]]
    model = Model(name)
    try:
        schema = dict(schema_of(request))
        return (await model.complete(messages, output=AnswerSchema.unchecked(schema) if schema else None)).text
    finally:
        await model.aclose()


async def measure(case: Case, judge: Judge) -> Measured:
    """Play a case with a judge, and with the key, and measure both.

    The cost is that of the judge's run if its result is right in the end, and else that of the key's.
    """
    played, by_key = await play(case, judge), await play(case, key_answer)
    errors = [each.error for each in (played, by_key) if each.error]
    found = None if errors else await measure_costs(case, played, by_key)
    return Measured(played, evidence(by_key), hidden(by_key), found, errors)


async def measure_costs(case: Case, played: Played, by_key: Played) -> Any:
    """Return the costs of a case; None if another round cannot mend its result."""
    status = played.verdict.status if played.verdict else None
    counted = played if status is case.status and played.is_right else by_key
    if case.status is WorkflowStatus.SUCCESS:
        return costs(counted, None, None)
    if case.status is not WorkflowStatus.EXECUTION_ERROR:
        return None
    return costs(counted, *[await play(case, key_answer, method) for method in ("all", "last")])


def selected(seeds: Sequence[int], families: Sequence[str], recording: Recording) -> list[Case]:
    """Return the cases of some seeds; without seeds, those of every run and the recorded ones."""
    if seeds:
        return cases_of(seeds, families)
    cases = {case.name: case for case in cases_of(SEEDS, families)}
    for name in recording.cases():
        if not families or name.partition("-")[0] in families:
            cases.setdefault(name, case_of(name))
    return list(cases.values())


def report(all_measured: Sequence[Measured], recording: Recording) -> list[str]:
    """Print the inexact verdicts, and the missing and the stale ones; return the faults of the measurement."""
    names = {each.played.case.name for each in all_measured}
    for each in all_measured:
        case, verdict = each.played.case, each.played.verdict
        if verdict and not judged(each.played).exact.hits:
            key, said = _said(case.status, case.roots), _said(verdict.status, verdict.blamed)
            print(f"{case.name} ({KINDS[case.kind]}): {said}; the key is {key}")
    missing = sorted(each.played.case.name for each in all_measured if each.played.open is not None)
    stale = sorted({each.case for each in recording.stale() if each.case in names})
    if missing:
        shown = missing if len(missing) <= MOST_NAMES else [*missing[:MOST_NAMES], "…"]
        print(f"{len(missing)} cases without a recorded verdict on their prompt: {', '.join(shown)}")
    if stale:
        print(f"{len(stale)} cases whose recorded verdict is stale, as the prompt has changed: {', '.join(stale)}")
    unseen = [
        f"{each.played.case.name}: the judge did not receive {value!r} of {fault.root or 'the job'}"
        for each in all_measured
        for fault, value in each.hidden
    ]
    return [*unseen, *(f"{each.played.case.name}: {error}" for each in all_measured for error in each.errors)]


def _said(status: WorkflowStatus, places: Collection[str]) -> str:
    return f"{status.value}, blame {', '.join(sorted(places)) or 'none'}"


async def write_open(cases: Sequence[Case], judge: Judge, folder: Path) -> None:
    """Write the open request of each case into a folder."""
    requests = [played.open for each in cases if (played := await play(each, judge)).open is not None]
    number = write_prompts(folder, [request for request in requests if request is not None])
    print(f"{number} prompts of {len(cases)} cases are in {folder}; the others have their verdict")


async def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--replay", action="store_true", help="use the recorded verdicts (the default)")
    parser.add_argument("--model", metavar="NAME", help="ask this model, and record its verdicts")
    parser.add_argument("--prompts", type=Path, metavar="DIR", help="write the open request of each case there")
    parser.add_argument("--answers", type=Path, metavar="DIR", help="record the answers there, files HASH.json")
    parser.add_argument("--by", metavar="WHO", help="who wrote the answers")
    parser.add_argument("--seeds", type=int, nargs="+", default=[], metavar="N", help="only cases with these seeds")
    parser.add_argument("--families", nargs="+", default=[], choices=sorted(FAMILIES), metavar="NAME")
    parser.add_argument(
        "--recording", type=Path, default=RECORDED, metavar="FILE", help="file of the recorded verdicts"
    )
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the tables into this page")
    args = parser.parse_args()
    if args.answers and not args.by:
        parser.error("--answers needs --by: who wrote the answers")
    logging.disable(logging.WARNING)  # rejected results are expected
    recording = Recording.read(args.recording)
    cases = selected(args.seeds, args.families, recording)
    judge = recorded_judge(recording)
    if args.answers:
        judge = judge_from_folder(recording, read_answers(args.answers), args.by)
    elif args.model:
        judge = asking_judge(recording, args.model)
    if args.prompts:
        await write_open(cases, judge, args.prompts)
        return
    all_measured: list[Measured] = []
    try:
        for each in cases:
            all_measured.append(await measure(each, judge))
    finally:
        if args.answers or args.model:
            recording.drop_stale([each.played.case.name for each in all_measured if each.played.verdict])
            recording.write(args.recording)
    found = rows(all_measured)
    tables = [families_table(found), aims_table(found[-1])]
    console = Console(width=max(170, Console().width))
    for table in tables:
        console.print(table)
    print(players_line(recording))
    faults = report(all_measured, recording)
    if args.page:
        command = "python test/benchmark/blame/bench_blame.py --replay"
        write_figures(figures(found[-1]))
        write_into(args.page, f"{players_line(recording)}\n\n{markdown(tables, command)}", "blame")
    if faults:
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except OperadError as failed:
        sys.exit(str(failed))
