"""Insights: what earlier runs taught an operator, kept while it helps.

A lesson that an evaluator gives is kept for the operators that it blames, with the job that taught
it. Later runs of such an operator on similar jobs are shown it from the start. Each time it is
shown counts, and whether it helped; what helps too rarely is dropped.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from operad.runtime.cache import cache_key
from operad.runtime.events import (
    Event,
    InsightsRecalled,
    RoundFinished,
    RunFailed,
    RunFinished,
    RunStarted,
    WorkflowEntered,
    current_scope,
)
from operad.runtime.knowledge import Insight
from operad.runtime.message import Job, WorkflowStatus, new_id
from operad.runtime.similarity import similarity
from operad.runtime.sqlite_file import FileKind, SqliteFile
from operad.runtime.words import words

_logger = logging.getLogger(__name__)

SIMILAR = 0.3
"""How alike two jobs are at least, by `similarity`, for what one taught to concern the other.

Measured, not guessed: see `test/benchmark/bench_insights.py --similarity`.
"""

MOST_SHOWN = 3
"""How many insights with a job of their own an operator is shown at most."""

ENOUGH_USES = 3
"""How often an insight was used before it may be dropped for not helping."""

MOST_PER_OPERATOR = 100
MOST_OPERATORS = 1_000
LONGEST_LESSON = 2_000
"""Characters of a lesson that are kept."""
LONGEST_ABOUT = 1_000
"""Characters of a job that are kept."""

APPLICATION_ID = 0x6F706169
"""What marks an SQLite file as insights of ours: "opai"."""

_INSIGHTS = FileKind(
    name="a store of insights",
    application_id=APPLICATION_ID,
    version=1,
    tables=(
        "CREATE TABLE IF NOT EXISTS insights (operator TEXT NOT NULL, key TEXT NOT NULL, text TEXT NOT NULL, "
        "about TEXT NOT NULL, used INTEGER NOT NULL, helped INTEGER NOT NULL, seen REAL NOT NULL, "
        "PRIMARY KEY (operator, key)) WITHOUT ROWID",
    ),
)


def about(job: Job) -> str:
    """What a job is about, as insights keep it and compare it: goal and context, shortened."""
    return _shortened(f"{job.goal}\n{job.context}", LONGEST_ABOUT)


def relevant(insights: Iterable[Insight], job: Job) -> tuple[Insight, ...]:
    """Those that a job's operator is shown: the ones about no job, and the few about jobs most like this one."""
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
class Entry:
    """An insight as it is kept.

    Attributes:
        key: Its identity among those of its operator.
        text: What it says.
        about: The job that taught it.
        used: How often it was shown, or given as a lesson.
        helped: In how many of these cases all went well then.
        seen: When it was last of use, in seconds since the epoch.
    """

    key: str
    text: str
    about: str
    used: int = 0
    helped: int = 0
    seen: float = 0.0

    @property
    def worth(self) -> tuple[float, float]:
        """What it is ranked by: how likely it helps, then how lately it was seen."""
        return (self.helped + 1) / (self.used + 2), self.seen

    @property
    def useless(self) -> bool:
        """Whether it was used often enough and helped too rarely."""
        return self.used >= ENOUGH_USES and 2 * self.helped < self.used

    def counted(self, used: int, helped: int, now: float) -> Entry:
        """The same after more uses."""
        return replace(self, used=self.used + used, helped=self.helped + helped, seen=now)


@dataclass(slots=True)
class Experience:
    """What a run found out about the insights of one operator.

    Attributes:
        shown: By key, how often it was shown, and how often it helped.
        lessons: New ones, each with what the job was about, and whether all went well then.
    """

    shown: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    lessons: dict[tuple[str, str], bool] = field(default_factory=dict[tuple[str, str], bool])

    def after(self, kept: Iterable[Entry], now: float) -> list[Entry]:
        """What is kept of an operator's entries and of new lessons, the best first, at a time in seconds.

        A lesson that is there already, from a similar job, is counted up; but not where it was
        shown in this run and so has its count. Above `MOST_PER_OPERATOR` the worst go, new ones last.
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
            entry = next(same, None) or Entry(cache_key(job, text)[:16], text, job)
            if entry.key not in self.shown and entry.key not in new:
                entries[entry.key] = entry.counted(1, int(succeeded), now)
                said[entry.key] = wording
                new.add(entry.key)
        left = [entry for entry in entries.values() if not entry.useless]
        left.sort(key=lambda entry: (entry.key in new, entry.worth), reverse=True)
        return _best_first(left[:MOST_PER_OPERATOR])


class Insights:
    """Keeps what runs learn, by operator; for workflows: `BuiltinWorkflow(insights=Insights("insights.sqlite"))`.

    Workflows, threads and event loops may share one; processes may share a file.

    Args:
        path: An SQLite file, made if there is none; None to keep insights in memory.

    Attributes:
        id: What events call it; of this process alone.

    Raises:
        InputError: The file cannot be used, or is of another kind. It is left as it is.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self.id = new_id()
        self._kept = _Memory() if path is None else _File(path)

    def recall(self, operator: str) -> list[Insight]:
        """All that is kept for the operator with this fingerprint, the best first.

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
        ]

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


class RunInsights:
    """What earlier runs tell one run, and what this one tells later ones: a listener to its events.

    Nothing that goes wrong with the store stops the run: it is reported to the log, once, and the
    run goes on without.

    Args:
        store: Where insights are kept.

    Attributes:
        store: Where insights are kept.
    """

    def __init__(self, store: Insights) -> None:
        self.store = store
        self._failed = False
        self._operators: dict[tuple[str, ...], frozenset[str]] = {}
        self._recalled: defaultdict[tuple[str, ...], dict[tuple[tuple[str, ...], str], _Recalled]] = defaultdict(dict)
        self._verdicts: dict[tuple[str, ...], RoundFinished] = {}
        self._lessons: dict[tuple[tuple[str, ...], str, str, str], None] = {}

    def recall(self, operator: str) -> list[Insight]:
        """All that is kept for the operator with this fingerprint, the best first; nothing once the store failed."""
        if self._failed:
            return []
        try:
            return self.store.recall(operator)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with it, the run goes on
            self._fail(error)
            return []

    def __call__(self, event: Event) -> None:
        """Take in one event of the run; at its end, tell the store."""
        match event:
            case RunStarted() | WorkflowEntered():
                self._operators[event.path] = frozenset(event.operators)
            case InsightsRecalled() if event.store == self.store.id:
                self._note(event)
            case RoundFinished():
                self._judge(event)
            case RunFinished() | RunFailed():
                if found := self._experiences(ended=isinstance(event, RunFinished)):
                    self.store.learn(found, self._fail)
            case _:
                pass

    def _note(self, event: InsightsRecalled) -> None:
        path = event.path
        if event.operator_id not in self._operators.get(path[:-1], ()):
            return  # an evaluator: lessons are for those whom it judges
        recalled = self._recalled[()].setdefault((path, event.operator), _Recalled(event))
        recalled.event = event
        for key in event.insights:
            recalled.blamed_since.setdefault(key, False)
        for depth in range(1, len(path)):
            self._recalled[path[:depth]][path, event.operator] = recalled

    def _judge(self, event: RoundFinished) -> None:
        """Note whom a verdict blames, and its lesson for them. Who is in a blamed workflow or map is blamed, too."""
        around = event.path
        last = self._verdicts.get(around)
        self._verdicts[around] = event
        if event.status is not WorkflowStatus.EXECUTION_ERROR or event.by_error:
            return  # an outage teaches nothing, and its text may hold what is nobody's business
        blamed = self._operators.get(around, frozenset()).intersection(event.blame)
        lesson = _shortened(event.lesson, LONGEST_LESSON)
        for (path, operator), recalled in self._recalled[around].items():
            if blamed and not blamed & {path[len(around)], _without_item(path[len(around)])}:
                continue
            recalled.blamed_since = dict.fromkeys(recalled.blamed_since, True)
            if lesson and (blamed or last is None or recalled.event.seq > last.seq):
                self._lessons[around, operator, recalled.event.about, lesson] = None

    def _experiences(self, *, ended: bool) -> dict[str, Experience]:
        """What the run found out, by operator.

        Args:
            ended: Whether it ended with a verdict; else nobody knows about those whom it did not blame before.
        """
        found: defaultdict[str, Experience] = defaultdict(Experience)
        for (path, operator), recalled in self._recalled[()].items():
            verdict = self._verdicts.get(path[:-1]) if ended else None
            for key, blamed in recalled.blamed_since.items():
                if blamed or verdict:
                    helped = not blamed and verdict is not None and verdict.status is WorkflowStatus.SUCCESS
                    used, good = found[operator].shown.get(key, (0, 0))
                    found[operator].shown[key] = (used + 1, good + helped)
        for around, operator, job, lesson in self._lessons:
            succeeded = ended and self._verdicts[around].status is WorkflowStatus.SUCCESS
            lessons = found[operator].lessons
            lessons[job, lesson] = lessons.get((job, lesson), True) and succeeded
        return dict(found)

    def _fail(self, error: Exception) -> None:
        if not self._failed:
            self._failed = True
            _logger.warning("the run goes on without insights: %s", error)


def current_insights() -> RunInsights | None:
    """What earlier runs tell the run that the current code is part of, or the next one around it that has insights."""
    scope = current_scope()
    for around in scope.outwards() if scope else ():
        if around.run.insights is not None:
            return cast("RunInsights", around.run.insights)
    return None


@dataclass(slots=True)
class _Recalled:
    """What an operator was shown.

    Attributes:
        event: When it last was.
        blamed_since: By key, whether the operator was found at fault after it was shown that.
    """

    event: InsightsRecalled
    blamed_since: dict[str, bool] = field(default_factory=dict[str, bool])


class _Memory:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: OrderedDict[str, list[Entry]] = OrderedDict()

    def load(self, operator: str) -> list[Entry]:
        with self._lock:
            return self._entries.get(operator, [])

    def save(self, experiences: Mapping[str, Experience], failed: Callable[[Exception], object]) -> None:
        with self._lock:
            for operator, experience in experiences.items():
                self._entries[operator] = experience.after(self._entries.get(operator, ()), time.time())
                self._entries.move_to_end(operator)
            while len(self._entries) > MOST_OPERATORS:
                self._entries.popitem(last=False)

    def close(self) -> None:
        pass


class _File:
    """One thread does all that is done with the file, in order: who reads sees what was written before."""

    def __init__(self, path: str | Path) -> None:
        self._file = SqliteFile(path, _INSIGHTS)
        with self._file.connection():  # what is wrong with it shows before anything runs
            pass
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="insights")

    def load(self, operator: str) -> list[Entry]:
        return self._thread.submit(self._load, operator).result()

    def save(self, experiences: Mapping[str, Experience], failed: Callable[[Exception], object]) -> None:
        self._thread.submit(self._save, experiences, failed)

    def close(self) -> None:
        self._thread.submit(self._file.close).result()

    def _load(self, operator: str) -> list[Entry]:
        with self._file.connection() as connection:
            found = connection.execute(
                "SELECT key, text, about, used, helped, seen FROM insights WHERE operator = ? LIMIT ?",
                (operator, MOST_PER_OPERATOR),
            ).fetchall()
        return _best_first(Entry(*row) for row in found)

    def _save(self, experiences: Mapping[str, Experience], failed: Callable[[Exception], object]) -> None:
        try:
            with self._file.transaction() as connection:
                now = time.time()
                for operator, experience in experiences.items():
                    found = connection.execute(
                        "SELECT key, text, about, used, helped, seen FROM insights WHERE operator = ?", (operator,)
                    ).fetchall()
                    before = {Entry(*row) for row in found}
                    after = set(experience.after(before, now))
                    gone = [(operator, entry.key) for entry in before - after]
                    connection.executemany("DELETE FROM insights WHERE operator = ? AND key = ?", gone)
                    new = [(operator, e.key, e.text, e.about, e.used, e.helped, e.seen) for e in after - before]
                    connection.executemany("INSERT INTO insights VALUES (?, ?, ?, ?, ?, ?, ?)", new)
                connection.execute(
                    "DELETE FROM insights WHERE operator IN "
                    "(SELECT operator FROM insights GROUP BY operator ORDER BY max(seen) DESC LIMIT -1 OFFSET ?)",
                    (MOST_OPERATORS,),
                )
        except Exception as error:  # noqa: BLE001 - nobody waits for this thread
            failed(error)


def _best_first(entries: Iterable[Entry]) -> list[Entry]:
    return sorted(entries, key=lambda entry: entry.worth, reverse=True)


def _wording(text: str) -> Sequence[str]:
    """What two lessons have in common that say the same: their words, whatever stands between them."""
    return words(text) or [text]


def _shortened(text: str, most: int) -> str:
    text = " ".join(text.split()).encode(errors="replace").decode()  # half a character has no place in a file
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _without_item(part: str) -> str:
    """The map's id, from an element of a path that stands for one of its items."""
    return part.rpartition("[")[0] if part.endswith("]") else part
