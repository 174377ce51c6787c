"""Run recorded Chat2Workflow responses that passed on their test cases, and compare the results with the recorded ones.

    python test/benchmark/resolve_recorded.py [RUN.json…] [--own-only] [--json]

Models answer with values that fit their schema, as in a dry run, and the judge accepts everything, so that only execution
and files, steps 2.1 and 2.2, are compared. Files of test cases are replaced by small generated files of the same types;
with --own-only, test cases that need files are left out. In a record, a case passed these steps if it was resolved, or if
a judge gave a reason.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from operad.evaluators import dry_run_services
from operad.flows.node_graph import NodeGraph
from operad.integrations.chat2workflow.resolve_rate import CaseVerdict, files_of, graph_of, resolve
from operad.integrations.chat2workflow.scores import Dataset, RecordedCase, read_dataset, read_run
from operad.runtime.testing import ScriptedReasoner
from operad.runtime.values.errors import InvalidError

DATA = Path(__file__).resolve().parents[3] / "shared/data/chat2workflow"
LONGEST_RUN = 60.0
"""Time limit of a workflow in seconds."""

YES = json.dumps({"reason": "It is not looked at.", "resolved": True})


async def make_files(data: Dataset, folder: Path) -> Path:
    """Return a folder with a small file for each file of the test cases."""
    folder.mkdir()
    made: dict[str, bytes] = {}
    for subtask in data.subtasks.values():
        for case in subtask.cases:
            for name in files_of(case):
                kind = name.rpartition(".")[2].lower()
                made[kind] = made.get(kind) or await dry_run_services.file(kind)
                (folder / name).write_bytes(made[kind])
    return folder


def about(text: str) -> dry_run_services.Answers:
    """Return the scripted answers for the workflow of a response."""
    try:
        return dry_run_services.Answers.for_workflow(graph_of(text))
    except InvalidError:
        return dry_run_services.Answers.for_workflow(NodeGraph())


def came_through(case: RecordedCase) -> bool:
    """Return whether a case ran and gave the right files when it was recorded."""
    return case.passed is True or case.reason is not None


async def run_all(paths: Sequence[Path], data: Dataset, folder: Path, own_only: bool) -> list[dict[str, Any]]:
    """Run every test case of the responses that passed."""
    files = await make_files(data, folder / "files")
    judge = ScriptedReasoner(lambda task: YES)
    found: list[dict[str, Any]] = []
    for path in paths:
        run = read_run(path, data)
        for record in run.records:
            if not record.valid:
                continue
            subtask = data.subtasks[record.key]
            for case in subtask.cases:
                if own_only and any(files_of(case)):
                    continue
                verdict = await resolve(
                    record.response.text,
                    case,
                    subtask,
                    reasoner=about(record.response.text),
                    judge=judge,
                    services=dry_run_services.services(folder / "made"),
                    folder=files,
                    seconds=LONGEST_RUN,
                )
                recorded = came_through(record.cases[case.name])
                found.append(_told(f"{run.label} {record.key} {case.name}", verdict, recorded))
    return found


def _told(name: str, verdict: CaseVerdict, recorded: bool) -> dict[str, Any]:
    return {"case": name, "ours": verdict.resolved, "recorded": recorded, "step": verdict.step, "why": verdict.reason}


def main() -> int:
    """Print the tables, or the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", type=Path, help="recorded runs; default: those of ../shared")
    parser.add_argument("--dataset", type=Path, default=DATA / "dataset")
    parser.add_argument("--own-only", action="store_true", help="leave out test cases that need files")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    runs = options.runs or sorted([*DATA.glob("may/*.json"), *DATA.glob("apr/*.json")])
    if not runs:
        print(f"no recorded runs: none is named, and none is at {DATA}", file=sys.stderr)
        return 0
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(run_all(runs, read_dataset(options.dataset), Path(folder), options.own_only))
    if options.json:
        print(json.dumps(found, ensure_ascii=False, indent=1))
        return 0
    counts = Counter((each["ours"], each["recorded"]) for each in found)
    agree = counts[True, True] + counts[False, False]
    print(f"{len(found)} test cases of responses that passed, {time.perf_counter() - began:.0f} s")
    print(f"{'':24}{'recorded: through':>18}{'recorded: failed':>18}")
    for ours, what in ((True, "ours: through"), (False, "ours: failed")):
        print(f"{what:24}{counts[ours, True]:18}{counts[ours, False]:18}")
    print(f"agree: {agree} of {len(found)} ({agree / max(len(found), 1):.1%})")
    ended = sum(each["step"] != "2_1" for each in found)
    print(f"ours ran to the end: {ended} ({ended / max(len(found), 1):.1%})")
    print("ours by step:", dict(Counter(each["step"] or "through" for each in found)))
    for each in found:
        if each["ours"] != each["recorded"]:
            said = " ".join(each["why"].split())[:160] if not each["ours"] else "ended, and failed when recorded"
            print(f"  {each['case']}: {said}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
