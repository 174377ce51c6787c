"""Insights: lessons of earlier runs for an operator, kept as long as they help.

An evaluator's lesson is kept for the operators that it blames, with the job. In later runs with similar jobs, these
operators receive the lesson from the start. Each use is counted, with its success; an insight that rarely helps is not
used until it has helped again.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path

from operad.runtime.events import (
    InsightsRecalled,
)
from operad.runtime.knowledge.knowledge import Insight
from operad.runtime.policies.cache import cache_key
from operad.runtime.values.errors import InputError, did_you_mean, shorten
from operad.runtime.values.forks import after_fork, around_fork
from operad.runtime.values.message import Job, new_id
from operad.runtime.values.sqlite_file import FORK_SECONDS, FileKind, SqliteFile
from operad.runtime.values.text import short_line
from operad.runtime.values.words import similarity, words

SIMILAR = 0.3
"""Minimum `similarity` of two jobs for an insight of one to apply to the other.

Measured: see `test/benchmark/bench_insights.py --similarity`.
"""

MOST_SHOWN = 3
"""Maximum number of insights about similar jobs that an operator receives."""

ENOUGH_USES = 3
"""Minimum number of uses for an insight to count as useless."""

MOST_PER_OPERATOR = 100
"""Maximum number of insights kept for an operator."""
MOST_OPERATORS = 1_000
"""Maximum number of operators with insights."""
LONGEST_LESSON = 2_000
"""Maximum length of a kept lesson, in characters."""
LONGEST_ABOUT = 1_000
"""Maximum length of a kept job, in characters."""

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
"""Query whose columns have the expected types, whatever another program wrote into the file."""


def about(job: Job) -> str:
    """Return the text by which jobs are compared: goal and context, shortened."""
    return storable_line(f"{job.goal}\n{job.context}", LONGEST_ABOUT)


def relevant(insights: Iterable[Insight], job: Job) -> tuple[Insight, ...]:
    """Return the insights for a job: those for all jobs, and at most `MOST_SHOWN` about the most similar jobs."""
    for_all_jobs: list[Insight] = []
    similar: list[tuple[float, Insight]] = []
    job_text = about(job)
    for insight in insights:
        if not insight.about:
            for_all_jobs.append(insight)
        elif (score := similarity(insight.about, job_text)) >= SIMILAR:
            similar.append((score, insight))
    similar.sort(key=lambda pair: -pair[0])
    return (*for_all_jobs, *(insight for _, insight in similar[:MOST_SHOWN]))


@dataclass(frozen=True, slots=True)
class KeptInsight:
    """An insight with its record of uses.

        with closing(Insights("insights.db")) as insights:
            kept: KeptInsight
            for kept in insights.entries():
                print(kept.label, kept.text, kept.helped, "of", kept.used)

    Attributes:
        operator: Fingerprint of the operator.
        key: Id within the operator; operators with the same lesson from the same job have the same key.
        label: Id of the operator when the insight was learned, for display.
        text: Text of the insight.
        about: Text of the job from which the insight was learned.
        used: Number of times that the operator received it, as an insight or as a lesson.
        helped: Number of these uses after which the operator was not blamed.
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
        """Rank: the estimated probability that the insight helps, then the time of its last use."""
        return (self.helped + 1) / (self.used + 2), self.seen

    @property
    def useless(self) -> bool:
        """True if the insight helped in less than two thirds of enough uses; then operators do not receive it.

        The threshold is not one half, because an insight that did not help is given again as a lesson, which mostly
        helps in the next round: half of its uses would be successes, though the insight has no effect.
        """
        return self.used >= ENOUGH_USES and 3 * self.helped < 2 * self.used

    def counted(self, used: int, helped: int, now: float) -> KeptInsight:
        """Return the insight with further uses and successes added."""
        return replace(self, used=self.used + used, helped=self.helped + helped, seen=now)


@dataclass(slots=True)
class Experience:
    """Results of a run for the insights of one operator.

    Attributes:
        shown: Number of uses and of successes of each insight, by key.
        lessons: Success of each new lesson, by the text of the job and the text of the lesson.
    """

    shown: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    lessons: dict[tuple[str, str], bool] = field(default_factory=dict[tuple[str, str], bool])
    label: str = ""

    def after(self, operator: str, kept: Iterable[KeptInsight], now: float) -> list[KeptInsight]:
        """Return the kept insights of an operator, updated by this run, best first.

        A lesson that is kept already, from a similar job, counts as another use, unless the operator received it in
        this run, which is counted in `shown`. Beyond `MOST_PER_OPERATOR`, useless insights are dropped first, then the
        worst ones, and new ones last.
        """
        entries = {entry.key: entry for entry in kept}
        for key, (used, helped) in self.shown.items():
            if key in entries:
                entries[key] = entries[key].counted(used, helped, now)
        wordings = {key: _wording_of(entry.text) for key, entry in entries.items()}
        new: set[str] = set()
        for (job, text), succeeded in [*self.lessons.items()][-MOST_PER_OPERATOR:]:
            wording = _wording_of(text)
            equal_insights = (
                e for key, e in entries.items() if wordings[key] == wording and similarity(e.about, job) >= SIMILAR
            )
            entry = next(equal_insights, None) or KeptInsight(
                operator, cache_key(job, text)[:16], self.label, text, job
            )
            if entry.key not in self.shown and entry.key not in new:
                entries[entry.key] = entry.counted(1, int(succeeded), now)
                wordings[entry.key] = wording
                new.add(entry.key)
        ranked = list(entries.values())
        ranked.sort(key=lambda entry: (not entry.useless, entry.key in new, entry.worth), reverse=True)
        return _best_first(ranked[:MOST_PER_OPERATOR])


class Insights:
    """Store of insights by operator, which the runs of workflows read and extend.

        insights = Insights("insights.sqlite")
        workflow = Workflow(facts >> answer, evaluator=Evaluator("Be brief."), insights=insights)

    Workflows, threads and event loops may share a store; processes may share a file.

    Args:
        path: An SQLite file, readable by its owner only; the first run creates it if it does not exist. None to keep
            insights in memory.

    Attributes:
        id: Id of the store in events, valid in this process only.

    Raises:
        InputError: The file cannot be used, or is of another kind. It is not changed.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        if str(path) == ":memory:":
            raise InputError("insights ':memory:': write Insights() to keep them in memory, or name a file")
        self.id = new_id()
        self._storage = _Memory() if path is None else _File(path)

    def recall(self, operator: str) -> list[Insight]:
        """Return the useful insights for the operator with this fingerprint, best first.

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
            for entry in self._storage.load(operator)
            if not entry.useless
        ]

    def entries(self) -> list[KeptInsight]:
        """Return all kept insights, including useless ones, sorted by the operator's id and then best first.

        Raises:
            InputError: The file cannot be used.
        """
        return sorted(_best_first(self._storage.load()), key=lambda entry: (entry.label, entry.operator))

    def forget(self, *keys: str) -> None:
        """Remove the insights with these keys, for all operators.

        Raises:
            InputError: A key does not exist, and nothing is removed; or the file cannot be used.
        """
        known = list(dict.fromkeys(entry.key for entry in self.entries()))
        if unknown := [key for key in keys if key not in known]:
            described = ", ".join(f"{key!r}{did_you_mean(key, known)}" for key in unknown)
            raise InputError(f"no insight is kept under {described}; there is {shorten(known) or 'none'}")
        self._storage.remove(keys)

    def clear(self) -> None:
        """Remove all insights.

        Raises:
            InputError: The file cannot be used.
        """
        self._storage.remove(None)

    def learn(self, experiences: Mapping[str, Experience], failed: Callable[[Exception], object]) -> None:
        """Store the results of a run. A file is written in a thread; later calls of `recall` see the results.

        Args:
            experiences: Results of the run, by fingerprint of the operator.
            failed: Function to call with the error if they cannot be stored.
        """
        self._storage.save(experiences, failed)

    def close(self) -> None:
        """Wait until all results are written, and close the file. The store can be used again."""
        self._storage.close()


@dataclass(slots=True)
class Recalled:
    """Insights that an operator received in a run.

    Attributes:
        event: The last event of the operator.
        blamed_since: By key of an insight, True if the operator was blamed after it received the insight.
    """

    event: InsightsRecalled
    blamed_since: dict[str, bool] = field(default_factory=dict[str, bool])


class _Memory:
    """Insights in memory; the operators are in the order of their last use."""

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
    """File of insights, accessed by a single thread, so that readers see everything written before."""

    def __init__(self, path: str | Path) -> None:
        self._renew()
        after_fork(self._renew)
        around_fork(self._write_all)  # registered before the file, which closes itself for a fork
        self._file = SqliteFile(path, _INSIGHTS)
        place = Path(self._file.path)
        if place.exists() or not place.parent.is_dir():  # a new file is created by the first run
            with self._file.connection():  # raises the faults of the file before any run
                pass

    def _renew(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="insights")
        self._writing: Future[None] | None = None

    def _write_all(self) -> None:
        """Wait for what is being written, so that the child reads what its parent would have read at the fork."""
        # Not for a new task: while the process forks, a lock of `concurrent.futures` is held that `submit` needs.
        if self._writing:
            wait([self._writing], FORK_SECONDS)

    def load(self, operator: str | None = None) -> list[KeptInsight]:
        return self._thread.submit(self._load, operator).result()

    def remove(self, keys: Collection[str] | None) -> None:
        self._thread.submit(self._remove, keys).result()

    def save(self, experiences: Mapping[str, Experience], failed: Callable[[Exception], object]) -> None:
        self._writing = self._thread.submit(self._save, experiences, failed)

    def close(self) -> None:
        self._thread.submit(self._file.close).result()

    def _load(self, operator: str | None) -> list[KeptInsight]:
        with self._file.connection() as connection:
            rows = (
                connection.execute(f"{_ROWS} LIMIT ?", (MOST_PER_OPERATOR * MOST_OPERATORS,))
                if operator is None
                else connection.execute(f"{_ROWS} WHERE operator = ? LIMIT ?", (operator, MOST_PER_OPERATOR))
            ).fetchall()
        return _best_first(KeptInsight(*row) for row in rows)

    def _remove(self, keys: Collection[str] | None) -> None:
        with self._file.connection() as connection:
            connection.execute("PRAGMA secure_delete = ON")  # so that removed texts do not remain in free pages
        with self._file.transaction() as connection:
            if keys is None:
                connection.execute("DELETE FROM insights")
            else:
                connection.executemany("DELETE FROM insights WHERE key = ?", [(key,) for key in keys])
        with self._file.connection() as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()  # nor in the journal

    def _save(self, experiences: Mapping[str, Experience], failed: Callable[[Exception], object]) -> None:
        try:
            with self._file.transaction() as connection:
                now = time.time()
                for operator, experience in experiences.items():
                    rows = connection.execute(f"{_ROWS} WHERE operator = ?", (operator,)).fetchall()
                    old = {KeptInsight(*row) for row in rows}
                    updated = set(experience.after(operator, old, now))
                    removed = [(operator, entry.key) for entry in old - updated]
                    connection.executemany("DELETE FROM insights WHERE operator = ? AND key = ?", removed)
                    new = [astuple(entry) for entry in updated - old]
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


def _wording_of(text: str) -> Sequence[str]:
    """Return the words of a lesson; lessons with the same words are equal."""
    return words(text) or [text]


def storable_line(text: str, most: int) -> str:
    """Return a text on one line, shortened to `most` characters, without lone surrogates, which SQLite rejects."""
    return short_line(text, most).encode(errors="replace").decode()
