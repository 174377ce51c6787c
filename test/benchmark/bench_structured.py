"""Measure the processor time of answers with a schema, compared with answers in text.

    python test/benchmark/bench_structured.py [--items 200]

A map asks for an answer about each item: of a model at an endpoint in this process, whose time is in the figures, and of a
reasoner that follows a script, which leaves out the requests. The table shows milliseconds per answer, the minimum of
several turns.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from pathlib import Path
from time import process_time
from typing import Any

from page import end, markdown, worsened, write_into
from pydantic import BaseModel
from rich.console import Console
from rich.table import Table

from operad import Job, Map, Operator, Workflow
from operad.runtime.models.model import Model
from operad.runtime.reasoning.reasoner import Reasoner
from operad.testing import Say, ScriptedModel, ScriptedReasoner


class Claim(BaseModel):
    text: str
    sure: bool
    weight: float


class Review(BaseModel):
    claims: list[Claim]
    kind: str
    score: int
    sources: dict[str, list[str]]


CLAIMS = [Claim(text=f"claim {number}", sure=True, weight=0.5) for number in range(3)]
ANSWER = Review(claims=CLAIMS, kind="review", score=7, sources={"a": ["x", "y"], "b": ["z"]}).model_dump_json()


def measure(model: Model | Reasoner, output: Any, items: int) -> float:
    """Return the seconds of processor time of a map."""
    each = Operator("Review the item.", id="review", output=output)
    workflow = Workflow(Map("reviews", each, over="items"), model=model)
    job = Job("Review the items.", inputs={"items": [f"item {number}" for number in range(items)]})
    began = process_time()
    answers: list[Any] = workflow.run(job).output
    seconds = process_time() - began
    assert len(answers) == items
    return seconds


def table_of(items: int, turns: int) -> Table:
    """Measure in turns; the minimum counts, because other programs only add time."""
    outputs: Mapping[str, Any] = {"text": None, "with a schema": Review}
    with ScriptedModel(lambda request: Say(ANSWER)) as scripted:
        models: Mapping[str, Model | Reasoner] = {"a model": scripted.model, "a script": ScriptedReasoner(ANSWER)}
        least = {(model, output): math.inf for model in models for output in outputs}
        for turn in range(turns + 1):  # the first imports what is used later
            for model, output in least:
                seconds = measure(models[model], outputs[output], items)
                least[model, output] = min(least[model, output], seconds if turn else math.inf)
    table = Table(
        "answer", "of a model, ms", "of a script, ms", title=f"{items} answers of a map: milliseconds per answer"
    )
    for output in outputs:
        cells = [
            f"{least[model, output] / items * 1e3:.2f} ({least[model, output] / least[model, 'text']:.2f}x)"
            for model in models
        ]
        table.add_row(output, *cells)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=200)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the table between the marks of this file")
    args = parser.parse_args()
    table = table_of(args.items, args.turns)
    Console().print(table)
    if args.page:
        text = markdown([table], "python test/benchmark/bench_structured.py")
        worse = worsened(args.page, text, "structured", ["with a schema"])
        write_into(args.page, text, "structured")
        end(worse)


if __name__ == "__main__":
    main()
