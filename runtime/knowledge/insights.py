"""Insights: lessons of earlier runs for an operator, kept as long as they help.

An evaluator's lesson is kept for the operators that it blames, with the job concerned.
Later runs of such an operator on similar jobs are shown it from the start. Each use
is counted, with its success; an insight that helps too rarely is not shown until it has helped again.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path

from operad.runtime.events import (
    InsightsRecalled,
)
from operad.runtime.knowledge.knowledge import Insight
from operad.runtime.knowledge.similarity import similarity
from operad.runtime.policies.cache import cache_key
from operad.runtime.values.errors import InputError, did_you_mean, shorten
from operad.runtime.values.message import Job, new_id
from operad.runtime.values.sqlite_file import FileKind, SqliteFile
from operad.runtime.values.words import words

SIMILAR = 0.3
"""Minimum `similarity` of two jobs for an insight of one to apply to the other.

Measured: see `test/benchmark/bench_insights.py --similarity`.
"""

MOST_SHOWN = 3
"""Number of insights with a job of their own an operator is shown at most."""

ENOUGH_USES = 3
"""Number of uses before an insight may count as useless."""

MOST_PER_OPERATOR = 100
MOST_OPERATORS = 1_000
LONGEST_LESSON = 2_000
"""Characters of a lesson that are kept."""
LONGEST_ABOUT = 1_000
"""Characters of a job that are kept."""

APPLICATION_ID = 0x6F706169
"""Application id that marks an SQLite file of insights: "opai"."""

_INSIGHTS = FileKind(
    name="a store of insights",
    application_id=APPLICATION_ID,
    version=2,
    tables=(
        "CREATE TABLE IF NOT EXISTS insights (operator TEXT NOT NULL, key TEXT NOT NULL, label TEXT NOT NULL, "
        "text TEXT NOT NULL, about TEXT NOT NULL, used INTEGER NOT NULL, helped INTEGER NOT NULL, seen REAL NOT NULL, "
        "PRIMARY KEY (operator, key)) WITHOUT ROWID",
    ),
    private=True,  # texts of jobs are private
)
_ROWS = (
    "SELECT CAST(ifnull(operator, '') AS TEXT), CAST(ifnull(key, '') AS TEXT), CAST(ifnull(label, '') AS TEXT), "
    "CAST(ifnull(text, '') AS TEXT), CAST(ifnull(about, '') AS TEXT), CAST(ifnull(used, 0) AS INTEGER), "
    "CAST(ifnull(helped, 0) AS INTEGER), CAST(ifnull(seen, 0) AS REAL) FROM insights "
)
"""Columns with the expected types, whatever another program wrote into the file."""


def about(job: Job) -> str:
    """Return the text of a job for comparison: goal and context, shortened."""
    return shortened(f"{job.goal}\n{job.context}", LONGEST_ABOUT)


def relevant(insights: Iterable[Insight], job: Job) -> tuple[Insight, ...]:
    """Return the insights to show for a job: those about no job, and the few about the most similar jobs."""
    everywhere: list[Insight] = []
    near: list[tuple[float, Insight]] = []
    this = about(job)
    for insight in insights:
        if not insight.about:
            everywhere.append(insight)
        elif (alike := similarity(insight.about, this)) >= SIMILAR:
            near.append((alike, insight))
    near.sort(key=lambda found: -found[0])
    return (*everywhere, *(insight for _, insight in near[:MOST_SHOWN]))


@dataclass(frozen=True, slots=True)
class KeptInsight:
    """An insight with its record of uses.

        with closing(Insights("insights.db")) as insights:
            kept: KeptInsight
            for kept in insights.entries():
                print(kept.label, kept.text, kept.helped, "of", kept.used)

    Attributes:
        operator: Fingerprint of its operator.
        key: Its id within its operator: operators with the same lesson from the same job share it.
        label: The operator's id when the insight was learned, for display.
        text: Text of the insight.
        about: Text of the job that taught it.
        used: Number of times that it was shown, or given as a lesson.
        helped: Number of these uses after which the operator was not found at fault.
        seen: Time of its last use, in seconds since the epoch.
    """

    operator: str
    key: str
    label: str
    text: str
    about: str
    used: int = 0
    helped: int = 0
    seen: float = 0.0

    @property
    def worth(self) -> tuple[float, float]:
        """Rank: the estimated probability that it helps, then the time of its last use."""
        return (self.helped + 1) / (self.used + 2), self.seen

    @property
    def useless(self) -> bool:
        """True if it was used often enough and helped in fewer than two thirds: then it is not shown.

        The threshold is two thirds, not half: an insight given again as a lesson mostly helps the next try, and would
        otherwise be shown to every other job, without effect.
        """
        return self.used >= ENOUGH_USES and 3 * self.helped < 2 * self.used

    def counted(self, used: int, helped: int, now: float) -> KeptInsight:
        """The same after more uses."""
        return replace(self, used=self.used + used, helped=self.helped + helped, seen=now)


@dataclass(slots=True)
class Experience:
    """Findings of a run on the insights of one operator.

    Attributes:
        shown: Number of uses and number of successes, by key.
        lessons: New lessons, each with its job's text and its success.
        label: The operator's id in the run.
    """

    shown: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    lessons: dict[tuple[str, str], bool] = field(default_factory=dict[tuple[str, str], bool])
    label: str = ""

    def after(self, operator: str, kept: Iterable[KeptInsight], now: float) -> list[KeptInsight]:
        """Return an operator's entries, updated by this run, the best first.

        A lesson that exists already, from a similar job, is counted; but not if it was
        shown in this run and so has its count. Above `MOST_PER_OPERATOR`, useless ones are dropped first, then
        the worst, new ones last.
        """
        entries = {entry.key: entry for entry in kept}
        for key, (used, helped) in self.shown.items():
            if key in entries:
                entries[key] = entries[key].counted(used, helped, now)
        said = {key: _wording(entry.text) for key, entry in entries.items()}
        new: set[str] = set()
        for (job, text), succeeded in [*self.lessons.items()][-MOST_PER_OPERATOR:]:
            wording = _wording(text)
            same = (e for key, e in entries.items() if said[key] == wording and similarity(e.about, job) >= SIMILAR)
            entry = next(same, None) or KeptInsight(operator, cache_key(job, text)[:16], self.label, text, job)
            if entry.key not in self.shown and entry.key not in new:
                entries[entry.key] = entry.counted(1, int(succeeded), now)
                said[entry.key] = wording
                new.add(entry.key)
        left = list(entries.values())
        left.sort(key=lambda entry: (not entry.useless, entry.key in new, entry.worth), reverse=True)
        return _best_first(left[:MOST_PER_OPERATOR])


class Insights:
    """Keeps what runs learn, by operator; for workflows: `BuiltinWorkflow(insights=Insights("insights.sqlite"))`.

        insights = Insights("insights.sqlite")
        workflow = Workflow(facts >> answer, evaluator=Evaluator("Be brief."), insights=insights)

    Workflows, threads and event loops may share one; processes may share a file.

    Args:
        path: An SQLite file, made if there is none, for its owner's eyes; None to keep insights in memory.

    Attributes:
        id: What events call it; of this process alone.

    Raises:
        InputError: The file cannot be used, or is of another kind. It is left as it is.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        if str(path) == ":memory:":
            raise InputError("insights ':memory:': write Insights() to keep them in memory, or name a file")
        self.id = new_id()
        self._kept = _Memory() if path is None else _File(path)

    def recall(self, operator: str) -> list[Insight]:
        """Return the useful insights for the operator with this fingerprint, the best first.

        Raises:
            InputError: The file cannot be used.
        """
        return [
            Insight(
                text=entry.text,
                source=f"earlier runs; it helped in {entry.helped} of {entry.used}",
                about=entry.about,
                key=entry.key,
            )
            for entry in self._kept.load(operator)
            if not entry.useless
        ]

    def entries(self) -> list[KeptInsight]:
        """All that is kept, useless ones included: operators in the order of their ids, the best of each first.

        Raises:
            InputError: The file cannot be used.
        """
        return sorted(_best_first(self._kept.load()), key=lambda entry: (entry.label, entry.operator))

    def forget(self, *keys: str) -> None:
        """Remove the insights with these keys, of every operator that has them.

        Raises:
            InputError: Nothing is kept under one of them; then nothing is removed. Or the file cannot be used.
        """
        there = list(dict.fromkeys(entry.key for entry in self.entries()))
        if unknown := [key for key in keys if key not in there]:
            near = ", ".join(f"{key!r}{did_you_mean(key, there)}" for key in unknown)
            raise InputError(f"no insight is kept under {near}; there is {shorten(there) or 'none'}")
        self._kept.remove(keys)

    def clear(self) -> None:
        """Remove all insights.

        Raises:
            InputError: The file cannot be used.
        """
        self._kept.remove(None)

    def learn(self, experiences: Mapping[str, Experience], failed: Callable[[Exception], object]) -> None:
        """Take in what a run found out. A file is written to by a thread; what is recalled next includes it.

        Args:
            experiences: By the fingerprints of operators.
            failed: Called with the error if it cannot be kept.
        """
        self._kept.save(experiences, failed)

    def close(self) -> None:
        """Wait until all is written, and close the file. It can be used again."""
        self._kept.close()


@dataclass(slots=True)
class Recalled:
    """Insights that an operator was shown.

    Attributes:
        event: The last event.
        blamed_since: By key, True if the operator was found at fault after the insight was shown.
    """

    event: InsightsRecalled
    blamed_since: dict[str, bool] = field(default_factory=dict[str, bool])


class _Memory:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: OrderedDict[str, list[KeptInsight]] = OrderedDict()

    def load(self, operator: str | None = None) -> list[KeptInsight]:
        with self._lock:
            if operator is None:
                return [entry for entries in self._entries.values() for entry in entries]
            return self._entries.get(operator, [])

    def remove(self, keys: Collection[str] | None) -> None:
        with self._lock:
            for operator, entries in [*self._entries.items()]:
                self._entries[operator] = [e for e in entries if keys is not None and e.key not in keys]
                if not self._entries[operator]:
                    del self._entries[operator]

    def save(self, experiences: Mapping[str, Experience], failed: Callable[[Exception], object]) -> None:
        with self._lock:
            for operator, experience in experiences.items():
                self._entries[operator] = experience.after(operator, self._entries.get(operator, ()), time.time())
                self._entries.move_to_end(operator)
            while len(self._entries) > MOST_OPERATORS:
                self._entries.popitem(last=False)

    def close(self) -> None:
        pass


class _File:
    """File of insights, used by a single thread, so that readers see everything written before."""

    def __init__(self, path: str | Path) -> None:
        self._file = SqliteFile(path, _INSIGHTS)
        with self._file.connection():  # faults of the file are found before anything runs
            pass
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="insights")

    def load(self, operator: str | None = None) -> list[KeptInsight]:
        return self._thread.submit(self._load, operator).result()

    def remove(self, keys: Collection[str] | None) -> None:
        self._thread.submit(self._remove, keys).result()

    def save(self, experiences: Mapping[str, Experience], failed: Callable[[Exception], object]) -> None:
        self._thread.submit(self._save, experiences, failed)

    def close(self) -> None:
        self._thread.submit(self._file.close).result()

    def _load(self, operator: str | None) -> list[KeptInsight]:
        with self._file.connection() as connection:
            found = (
                connection.execute(f"{_ROWS} LIMIT ?", (MOST_PER_OPERATOR * MOST_OPERATORS,))
                if operator is None
                else connection.execute(f"{_ROWS} WHERE operator = ? LIMIT ?", (operator, MOST_PER_OPERATOR))
            ).fetchall()
        return _best_first(KeptInsight(*row) for row in found)

    def _remove(self, keys: Collection[str] | None) -> None:
        with self._file.connection() as connection:
            connection.execute("PRAGMA secure_delete = ON")  # forgotten texts are not left in the file's free pages
        with self._file.transaction() as connection:
            if keys is None:
                connection.execute("DELETE FROM insights")
            else:
                connection.executemany("DELETE FROM insights WHERE key = ?", [(key,) for key in keys])
        with self._file.connection() as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()  # nor in its journal

    def _save(self, experiences: Mapping[str, Experience], failed: Callable[[Exception], object]) -> None:
        try:
            with self._file.transaction() as connection:
                now = time.time()
                for operator, experience in experiences.items():
                    found = connection.execute(f"{_ROWS} WHERE operator = ?", (operator,)).fetchall()
                    before = {KeptInsight(*row) for row in found}
                    after = set(experience.after(operator, before, now))
                    gone = [(operator, entry.key) for entry in before - after]
                    connection.executemany("DELETE FROM insights WHERE operator = ? AND key = ?", gone)
                    new = [astuple(entry) for entry in after - before]
                    connection.executemany("INSERT INTO insights VALUES (?, ?, ?, ?, ?, ?, ?, ?)", new)
                connection.execute(
                    "DELETE FROM insights WHERE operator IN "
                    "(SELECT operator FROM insights GROUP BY operator ORDER BY max(seen) DESC LIMIT -1 OFFSET ?)",
                    (MOST_OPERATORS,),
                )
        except Exception as error:  # noqa: BLE001 - no caller waits for this thread
            failed(error)


def _best_first(entries: Iterable[KeptInsight]) -> list[KeptInsight]:
    return sorted(entries, key=lambda entry: entry.worth, reverse=True)


def _wording(text: str) -> Sequence[str]:
    """Return the words of a lesson, by which equal lessons are recognised."""
    return words(text) or [text]


def shortened(text: str, most: int) -> str:
    """Return a text on one line, of at most so many characters."""
    text = " ".join(text.split()).encode(errors="replace").decode()  # half a character has no place in a file
    return text if len(text) <= most else f"{text[: most - 1]}…"


def without_item(part: str) -> str:
    """The map's id, from an element of a path that stands for one of its items."""
    return part.rpartition("[")[0] if part.endswith("]") else part
