"""Recorded Chat2Workflow responses, run to their end: which are sound, which of these end, and what failed and why.

    python test/benchmark/run_recorded.py [RUN.json…] [--json]

Each file is a list of records with ``task``, ``round`` and ``workflow``. A response is sound when the
full static check finds nothing. The sound ones are run dry (operad.evaluators.dry_run), with the inputs of the
benchmark's first test case where the names fit, and small made-up files in the place of its own. Exit status 1
where fewer than 98% of the sound ones end.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from operad.evaluators.dry_run import dry_run
from operad.flows.formats.chat2workflow import issues_of, load
from operad.flows.node_graph import NodeGraph
from operad.operators.nodes import NODE_TYPES
from operad.runtime.values.errors import InvalidError, Issue

AIM = 0.98
DATA = Path(__file__).resolve().parents[3] / "shared/data/chat2workflow"
CASES = DATA / "dataset/check_pass_stage.json"


@dataclass
class Tally:
    """What came of the responses."""

    responses: int = 0
    sound: int = 0
    ended: int = 0
    by_code: Counter[str] = field(default_factory=Counter)
    ran: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    failures: list[dict[str, Any]] = field(default_factory=list)


def checked(recorded: Any, name: str) -> tuple[NodeGraph, Sequence[Issue]]:
    """A recorded workflow, and what is wrong with it."""
    try:
        graph = load(recorded if isinstance(recorded, str) else json.dumps(recorded), name)
    except InvalidError as error:
        return NodeGraph(), error.issues
    return graph, issues_of(graph, NODE_TYPES)


async def run_all(paths: Sequence[Path], cases: Mapping[str, Any]) -> Tally:
    """Check and run every response of the files."""
    tally = Tally()
    for path in paths:
        for record in json.loads(path.read_text(encoding="utf-8")):
            name = f"{path.parent.name}/{path.stem} {record['task']} {record['round']}"
            tally.responses += 1
            graph, issues = checked(record["workflow"], name)
            tally.by_code.update({issue.code for issue in issues})
            if issues:
                continue
            tally.sound += 1
            case = cases.get(f"{record['task']}_{record['round']}", {}).get("test1", {})
            done = await dry_run(graph, case)
            tally.ran += done.ran
            tally.failed += done.failed
            tally.ended += done.ended
            if not done.ended:
                error = done.skipped_reason or "; ".join(issue.message for issue in done.issues)
                tally.failures.append({"response": name, "error": error})
    return tally


def main() -> int:
    """Print the table, or the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", type=Path, help="recorded runs; those of ../shared where none is named")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--cases", type=Path, default=CASES, help="the benchmark's check_pass_stage.json")
    options = parser.parse_args()
    runs = options.runs or sorted([*DATA.glob("may/*.json"), *DATA.glob("apr/*.json")])
    if not runs:
        print(f"no recorded runs: none is named, and none is at {DATA}", file=sys.stderr)
        return 0
    cases = json.loads(options.cases.read_text(encoding="utf-8")) if options.cases.exists() else {}
    tally = asyncio.run(run_all(runs, cases))
    if options.json:
        figures = {
            "responses": tally.responses,
            "sound": tally.sound,
            "ended": tally.ended,
            "issues": dict(tally.by_code.most_common()),
            "types": {kind: {"ran": tally.ran[kind], "failed": tally.failed[kind]} for kind in NODE_TYPES},
            "failures": tally.failures,
        }
        print(json.dumps(figures, ensure_ascii=False, indent=1))
    else:
        share = tally.ended / max(tally.sound, 1)
        print(f"{tally.responses} responses, {tally.sound} sound, {tally.ended} ended ({share:.1%})")
        for kind in NODE_TYPES:
            print(f"  {kind:22} {tally.ran[kind]:6} ran {tally.failed[kind]:6} failed")
        print("not sound:", ", ".join(f"{code} {count}" for code, count in tally.by_code.most_common()))
        for failure in tally.failures:
            print(f"  {failure['response']}: {failure['error']}")
    return 0 if tally.ended >= AIM * tally.sound else 1


if __name__ == "__main__":
    sys.exit(main())
