"""Measure how often the embedded model, with its evaluator, finds the credited people in changelogs of Debian packages.

    python test/benchmark/bench_credits.py [--set unseen] [--root /] [--json]

The gold names 211 entries of 20 Debian packages by file and hash; their texts come from the packages'
documentation. To read them without installing anything, unpack the packages and name the folder:

    python test/benchmark/bench_credits.py --packages | xargs apt-get download
    for deb in *.deb; do dpkg -x "$deb" unpacked; done
    python test/benchmark/bench_credits.py --root unpacked

Each entry holds two or more names or things written like names; somebody of this project read it and
wrote down the credited people. Prompt and rules were tuned on all sets but ``unseen``.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import hashlib
import json
import sys
from contextlib import aclosing
from pathlib import Path
from time import perf_counter
from typing import Any

from operad.configs import load
from operad.operators.operator import Operator
from operad.runtime import Job, WorkflowMessage, events

EXAMPLE = Path(__file__).parents[1] / "example" / "release_credits"
sys.path.insert(0, str(EXAMPLE))
from changelog import name_candidates, releases, split_release  # noqa: E402
from credit_judge import credit_phrases  # noqa: E402

GOLD = Path(__file__).with_name("credits_gold.json")


class GivenEntries(Operator):
    """Operator that replaces the one that reads a release."""

    def __init__(self, config: Any, entries: list[str]) -> None:
        super().__init__(config)
        self._entries = entries

    async def execute(self, *_: Any, **__: Any) -> WorkflowMessage:
        return WorkflowMessage(outputs={"release": "gold", "entries": self._entries})


async def credit(entries: list[str]) -> tuple[list[list[set[str]]], int]:
    """Return the people found per entry after each round, and the number of model calls."""
    workflow = load(EXAMPLE / "release_credits.yaml", trust=True).expert().workflow
    read, asking, *_ = workflow.get_operators()
    workflow.update_operator(GivenEntries(read.config, entries))  # type: ignore[attr-defined]
    reasoner = load(EXAMPLE / "release_credits.yaml", trust=True).expert().reasoner
    rounds: list[list[set[str]]] = []
    calls = 0
    async with aclosing(workflow.stream(Job(goal="credits"), reasoner)) as stream:
        async for event in stream:
            if isinstance(event, events.Progress):
                calls += 1
                print(f"\rround {event.round}: {event.done}/{event.total} ", end="", file=sys.stderr)
            if isinstance(event, events.OperatorFinished) and event.operator_id == asking.get_id():
                rounds.append([set(found["persons"]) for found in event.message.outputs["credits"]])
    print(file=sys.stderr)
    return rounds, calls


def read_gold(root: Path, which: str | None) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the gold whose entries exist below `root`, and these entries."""
    gold = [item for item in json.loads(GOLD.read_text()) if which in (None, item["set"])]
    texts: dict[str, str] = {}
    for path in sorted({item["path"] for item in gold}):
        file = root / path.lstrip("/")
        if not file.exists():
            print(f"{file}: not here; see the head of {Path(__file__).name}", file=sys.stderr)
            continue
        with gzip.open(file, "rt", encoding="utf-8", errors="replace") as stream:
            for _, body in releases(stream.read()):
                texts |= {hashlib.sha256(entry.encode()).hexdigest()[:16]: entry for entry in split_release(body)}
    found = [item for item in gold if item["sha256"] in texts]
    return found, [texts[item["sha256"]] for item in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path("/"), help="where usr/share/doc lies")
    parser.add_argument("--set", help="only this one: dev, test, fresh, last, unseen")
    parser.add_argument("--packages", action="store_true", help="print the names of the packages, and end")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.packages:
        print("\n".join(sorted({item["package"] for item in json.loads(GOLD.read_text())})))
        return
    gold, entries = read_gold(options.root, options.set)
    if not gold:
        sys.exit("no entry of the gold was found")
    began = perf_counter()
    rounds, calls = asyncio.run(credit(entries))
    seconds = perf_counter() - began
    guesses = {
        "every name": [set(name_candidates(entry)) for entry in entries],
        "the first name": [set(name_candidates(entry)[:1]) for entry in entries],
        "the evaluator's phrases, without a model": [set(credit_phrases(entry)) for entry in entries],
        "the model, first try": rounds[0],
        f"the model with the evaluator, {len(rounds)} rounds": rounds[-1],
    }
    result: dict[str, Any] = {
        "entries": len(gold),
        "packages": len({item["package"] for item in gold}),
        "right": {
            name: sum(found == set(item["persons"]) for found, item in zip(guess, gold, strict=True))
            for name, guess in guesses.items()
        },
        "seconds": round(seconds, 1),
        "seconds_per_call": round(seconds / calls, 2),
    }
    if options.json:
        print(json.dumps(result))
        return
    print(f"persons exactly right in {result['entries']} entries of {result['packages']} packages:")
    for name, right in result["right"].items():
        print(f"  {right:4}  {right / len(gold):4.0%}  {name}")
    print(f"{calls} calls, {seconds:.0f} s, {seconds / calls:.2f} s per call")


if __name__ == "__main__":
    main()
