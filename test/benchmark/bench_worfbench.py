"""Measure time and scores of WorFEval on the gold workflows of WorFBench.

    python test/benchmark/bench_worfbench.py
    python test/benchmark/bench_worfbench.py --data ../shared/data/worfbench --similarity exact

Each workflow is first compared with a copy with mistakes, chosen by a fixed seed: nodes dropped, doubled, reworded and
moved, edges dropped and added. Then it is compared with itself. Sentences are embedded before the measurement.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter, process_time

from rich.console import Console
from rich.table import Table

from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.integrations.worfbench.plan import load, plan_of
from operad.integrations.worfbench.similarity import Embeddings, Similarity, exact
from operad.integrations.worfbench.worfeval import MODES, score

DATA = Path(__file__).parents[3] / "shared" / "data" / "worfbench"


def gold_workflows(folder: Path) -> dict[str, list[str]]:
    """Return the texts of the gold workflows by data set."""
    return {
        file.stem: [item["conversations"][-1]["content"] for item in json.loads(file.read_text())]
        for file in sorted(folder.glob("*.json"))
    }


def with_mistakes(graph: NodeGraph, rng: random.Random) -> NodeGraph:
    """Return a renumbered copy with one to four mistakes."""
    tasks = [node for node in graph.nodes if node.type == "task"]
    edges = {(edge.source, edge.target) for edge in graph.edges}
    for mistake in rng.choices(("drop", "double", "reword", "move", "cut", "join"), k=rng.randint(1, 4)):
        at = rng.randrange(len(tasks))
        match mistake:
            case "drop" if len(tasks) > 1:
                del tasks[at]
            case "double":
                tasks.append(NodeSpec(f"copy {len(tasks)}", "task", tasks[at].params))
            case "reword":
                words = str(tasks[at].params["task"]).split()
                rng.shuffle(words)
                tasks[at] = NodeSpec(tasks[at].id, "task", {"task": " ".join(words[: len(words) // 2 + 1])})
            case "move":
                tasks.insert(rng.randrange(len(tasks)), tasks.pop(at))
            case "cut" if edges:
                edges.discard(rng.choice(sorted(edges)))
            case _:
                edges.add((tasks[at].id, rng.choice(tasks).id))
    numbers = {node.id: str(number) for number, node in enumerate(tasks, start=1)}
    return NodeGraph(
        [NodeSpec(numbers[node.id], "task", node.params) for node in tasks],
        [Edge(numbers[a], numbers[b]) for a, b in sorted(edges) if a in numbers and b in numbers],
        graph.name,
    )


def against_mistakes(golds: Mapping[str, Sequence[str]], similarity: Similarity) -> Table:
    table = Table(
        "mode", "seconds", "of a core", "items", "proven", "node F1", "graph F1", title="against copies with mistakes"
    )
    rng = random.Random(7)  # noqa: S311 - to make mistakes with
    graphs = [load(gold.encode()) for items in golds.values() for gold in items]
    pairs = [(gold, with_mistakes(gold, rng)) for gold in graphs]
    if isinstance(similarity, Embeddings):
        start = perf_counter()
        texts = [text for pair in pairs for graph in pair for text in plan_of(graph).texts]
        similarity.vectors(texts)
        print(f"{len(set(texts)):,} texts embedded in {perf_counter() - start:.1f} s")
    for mode in MODES:
        start, at_work = perf_counter(), process_time()
        found = [score(copy, gold, similarity=similarity, mode=mode) for gold, copy in pairs]
        took = (perf_counter() - start, process_time() - at_work)
        f1 = [sum(f1s) / len(found) for f1s in zip(*((each.node.f1, each.graph.f1) for each in found), strict=True)]
        proven = sum(each.optimal for each in found)
        shown = (*(f"{seconds:.1f}" for seconds in took), str(len(found)), str(proven))
        table.add_row(mode, *shown, *(f"{100 * mean:.2f}" for mean in f1))
    return table


def against_itself(golds: Mapping[str, Sequence[str]], similarity: Similarity) -> Table:
    columns = [f"{mode} {kind}" for mode in MODES for kind in ("node", "graph")]
    table = Table("data set", "items", *columns, title="gold against itself, F1")
    for name, items in golds.items():
        cells: list[str] = []
        for mode in MODES:
            found = [score(gold, gold, similarity=similarity, mode=mode) for gold in items]
            cells.append(f"{sum(each.node.f1 for each in found) / len(found):.4f}")
            cells.append(f"{sum(each.graph.f1 for each in found) / len(found):.4f}")
        table.add_row(name, str(len(items)), *cells)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA, metavar="FOLDER", help="where WorFBench's JSON is")
    parser.add_argument("--similarity", choices=("embeddings", "exact"), default="embeddings")
    options = parser.parse_args()
    golds = gold_workflows(options.data)
    if not golds:
        parser.error(f"--data {options.data}: no .json file there")
    similarity: Similarity = exact if options.similarity == "exact" else Embeddings()
    console = Console(width=max(120, Console().width))
    console.print(against_mistakes(golds, similarity))
    console.print(against_itself(golds, similarity))
    print(f"Python {platform.python_version()}, {platform.system()}")


if __name__ == "__main__":
    main()
