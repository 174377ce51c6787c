"""How far the embedded model gets in making workflows: the first instructions of Chat2Workflow, one round each.

    python test/benchmark/bench_generate_embedded.py [HOW MANY]

A row per instruction: how far it came (none, written, checked, run, judged), seconds, tokens. The model is very small, and is
not made for this; what it does not manage is said here and nowhere hidden.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from importlib.resources import files
from pathlib import Path

from operad.configs.generation import Designer
from operad.runtime.values.errors import BudgetError, OperatorError

QUERIES = Path(__file__).resolve().parents[3] / "shared/data/chat2workflow/dataset/query.json"
OWN = "The user provides a question (variable question). Answer it. The workflow outputs the answer (variable answer)."


def instructions(count: int) -> list[str]:
    """An instruction of our own, as simple as can be, and the first rounds of tasks."""
    known = json.loads(QUERIES.read_text(encoding="utf-8")) if QUERIES.exists() else []
    return [OWN, *(each["query1"] for each in known)][:count]


def main() -> int:
    """Print the table."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    config = (
        (files("operad.configs") / "designer.yaml")
        .read_text(encoding="utf-8")
        .replace("max_rounds: 4", "max_rounds: 1")
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "designer.yaml"
        path.write_text(config, encoding="utf-8")
        for instruction in instructions(count):
            began = time.monotonic()
            try:
                design = Designer(config=path, model_name="embedded").design(instruction)
                stage, tokens = str(design.message.outputs.get("stage", "none")), design.message.usage.tokens
            except (BudgetError, OperatorError) as error:
                stage, tokens = f"error: {error}"[:100], 0
            print(f"{stage:10} {time.monotonic() - began:7.1f} s {tokens:8,} tokens  {instruction[:70]}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
