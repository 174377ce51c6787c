"""Compare the verdicts of the pass rate with recorded ones; print the counts behind its rules, and what soundness predicts.

    python test/benchmark/bench_pass.py [RUN.json…] [--dataset DIR] [--json] [--page FILE]

Each run is a list of records of Chat2Workflow with ``fail_step``, and ``test1`` to ``test3`` where it was executed.
The output is Markdown tables: the agreement per run; how often each rule finds a fault in workflows that the recorded
program could and could not convert; resolved test cases by the result of the static check; and all disagreements with the
recorded judge. The exit status is 1 if less than 98.5% agree on steps 1 to 3.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from page import write_figures, write_into

from operad.integrations.chat2workflow.conversion import conversion_faults
from operad.integrations.chat2workflow.scores import PassVerdict, Record, judge, read_dataset, read_run
from operad.runtime.values.errors import InvalidError

AIM = 0.985
DATA = Path(__file__).resolve().parents[3] / "shared/data/chat2workflow"
_TOLD = 160
"""Characters of the end of a judge's reason that are shown."""


class Judged(NamedTuple):
    """A record and our verdict."""

    run: str
    record: Record
    verdict: PassVerdict

    @property
    def ours(self) -> str:
        """The step that failed here; step 4 and a pass count as one, because the recorded judge decides them."""
        return _without_model(self.verdict.fail_step)

    @property
    def recorded(self) -> str:
        """The step that failed in the record, in the same form."""
        return _without_model(self.record.fail_step)


def _without_model(step: str | None) -> str:
    return step if step in ("1_1", "1_2", "1_3") else "passed"


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return f"## {title}\n\n" + "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines) + "\n"


def _agreement(judged: Sequence[Judged]) -> str:
    rows: list[Sequence[object]] = []
    runs = dict.fromkeys(each.run for each in judged)
    for name, of_run in [*((run, [each for each in judged if each.run == run]) for run in runs), ("all", judged)]:
        steps = sum(each.ours == each.recorded for each in of_run)
        fourth = [each for each in of_run if each.ours == each.recorded == "passed"]
        same = sum(each.verdict.passed == (each.record.fail_step is None) for each in fourth)
        passed = sum(each.verdict.passed == (each.record.fail_step is None) for each in of_run)
        rows.append(
            [name, f"{steps} of {len(of_run)}", f"{same} of {len(fourth)}", f"{passed} of {len(of_run)}"]
            + [f"{100 * part / len(of_run):.2f}" for part in (
                sum(each.verdict.passed for each in of_run), sum(each.record.fail_step is None for each in of_run)
            )]
        )  # fmt: skip
    columns = ["run", "steps 1–3 agree", "step 4 agrees", "passed agrees", "our pass rate", "recorded"]
    return _table("Agreement", columns, rows)


def _rules(judged: Sequence[Judged]) -> str:
    """Return for each fault of a conversion how often it occurs where the recorded program failed, alone, and elsewhere."""
    failed, alone, passed = Counter[str](), Counter[str](), Counter[str]()
    total: Counter[bool] = Counter()
    for each in judged:
        if each.record.fail_step == "1_1":
            continue
        try:
            workflow = each.record.response.json()
        except InvalidError:
            continue
        bad = each.record.fail_step == "1_2"
        total[bad] += 1
        kinds = set(_kinds(workflow))
        (failed if bad else passed).update(kinds)
        if bad and len(kinds) == 1:
            alone.update(kinds)
    rows = [[kind, failed[kind], alone[kind], passed[kind]] for kind in sorted(failed | passed)]
    title = f"Faults in {total[True]} rejected and {total[False]} converted workflows"
    return _table(title, ["fault", "rejected", "rejected, alone", "converted"], rows)


def _kinds(workflow: object) -> Iterator[str]:
    nodes = workflow.get("nodes_info", []) if isinstance(workflow, dict) else []
    types = {node.get("id"): node.get("type") for node in nodes if isinstance(node, dict)}
    for fault in conversion_faults(workflow):
        parameter = fault.message.partition(":")[0] if ": " in fault.message else ""
        kind = types.get(fault.where, "") if fault.code in ("param", "missing-param", "undefined-variable") else ""
        yield f"{fault.code} {kind}.{parameter}" if kind else fault.code


def _not_asked(judged: Sequence[Judged]) -> str:
    """Return for each fault of the static check the numbers of workflows that were converted and that failed."""
    failed, passed = Counter[str](), Counter[str]()
    for each in judged:
        if each.record.fail_step != "1_1":
            codes = {issue.code for issue in each.verdict.issues} or {"none"}
            (failed if each.record.fail_step == "1_2" else passed).update(codes)
    rows = [[code, failed[code], passed[code]] for code in sorted(failed | passed)]
    return _table("Issues of the static check", ["fault", "rejected", "converted"], rows)


def _resolved(judged: Sequence[Judged]) -> str:
    rows = [
        [name, len(found), f"{100 * sum(found) / len(found):.1f}"] for name, found in sorted(_cases(judged).items())
    ]
    return _table("Test cases resolved when they were recorded", ["workflows", "test cases", "resolved, %"], rows)


def _figures(judged: Sequence[Judged]) -> dict[str, str]:
    cases = _cases(judged)
    names = {"pass.sound": "passed, sound", "pass.unsound": "passed, not sound"}
    return {name: f"{sum(cases[group]) / len(cases[group]):.1%}" for name, group in names.items()}


def _cases(judged: Sequence[Judged]) -> dict[str, list[bool]]:
    groups: dict[str, list[bool]] = defaultdict(list)
    for each in judged:
        cases = [case.passed for case in each.record.cases.values() if case.passed is not None]
        if not cases:
            continue
        codes = {issue.code for issue in each.verdict.issues}
        said = f"{'passed' if each.verdict.passed else 'failed'}, {'sound' if each.verdict.sound else 'not sound'}"
        for group in (said, *(f"with {code}" for code in sorted(codes))):
            groups[group] += cases
    return groups


def _disagreements(judged: Sequence[Judged]) -> str:
    rows: list[Sequence[object]] = []
    for each in judged:
        ours, recorded = each.verdict.fail_step, each.record.fail_step
        if ours != recorded:
            why = each.verdict.reason or f"the judge: … {' '.join((each.record.reason or '').split())[-_TOLD:]}"
            rows.append([each.run, each.record.key, ours or "passed", recorded or "passed", why.replace("|", "\\|")])
    return _table("Disagreements", ["run", "instruction", "ours", "recorded", "why"], rows)


def main() -> int:
    """Print the tables, or the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", type=Path, help="recorded runs; default: those of ../shared")
    parser.add_argument("--dataset", type=Path, default=DATA / "dataset")
    parser.add_argument("--json", action="store_true")
    parser.add_argument(
        "--page", type=Path, help="write the agreement between the marks of this file, and the figures of sentences"
    )
    options = parser.parse_args()
    paths = options.runs or sorted([*DATA.glob("apr/*.json"), *DATA.glob("may/*.json")])
    if not paths:
        print(f"no recorded runs: none is named, and none is at {DATA}", file=sys.stderr)
        return 0
    dataset = read_dataset(options.dataset)
    judged = [
        Judged(run.label, record, judge(record.response, dataset.subtasks[record.key]))
        for run in (read_run(path, dataset) for path in paths)
        for record in run.records
        if record.valid is not None
    ]
    agree = sum(each.ours == each.recorded for each in judged) / max(len(judged), 1)
    if options.json:
        wrong = [
            {"run": each.run, "key": each.record.key, "ours": each.verdict.fail_step, "recorded": each.record.fail_step}
            for each in judged
            if each.verdict.fail_step != each.record.fail_step
        ]
        print(json.dumps({"responses": len(judged), "steps_1_to_3": agree, "disagreements": wrong}, indent=1))
    else:
        tables = "\n".join(table(judged) for table in (_agreement, _rules, _not_asked, _resolved, _disagreements))
        print(tables)
        if options.page:
            write_into(options.page, _agreement(judged).partition("\n\n")[2], "pass")
            write_figures(_figures(judged))
    return 0 if agree >= AIM else 1


if __name__ == "__main__":
    sys.exit(main())
