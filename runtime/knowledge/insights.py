"""Insights: what earlier runs taught an operator, kept while it helps.

A lesson that an evaluator gives is kept for the operators that it blames, with the job that taught
it. Later runs of such an operator on similar jobs are shown it from the start. Each time it is
shown counts, and whether it helped; what helps too rarely is shown no more until it has earned it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path
from typing import cast

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
from operad.runtime.knowledge.knowledge import Insight
from operad.runtime.knowledge.similarity import similarity
from operad.runtime.policies.cache import cache_key
from operad.runtime.values.errors import InputError, did_you_mean, shorten
from operad.runtime.values.message import Job, WorkflowStatus, new_id
from operad.runtime.values.sqlite_file import FileKind, SqliteFile
from operad.runtime.values.words import words

_logger = logging.getLogger(__name__)

SIMILAR = 0.3
"""How alike two jobs are at least, by `similarity`, for what one taught to concern the other.

Measured, not guessed: see `test/benchmark/bench_insights.py --similarity`.
"""

MOST_SHOWN = 3
"""How many insights with a job of their own an operator is shown at most."""

ENOUGH_USES = 3
"""How often an insight was used before it may be found useless."""

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
    version=2,
    tables=(
        "CREATE TABLE IF NOT EXISTS insights (operator TEXT NOT NULL, key TEXT NOT NULL, label TEXT NOT NULL, "
        "text TEXT NOT NULL, about TEXT NOT NULL, used INTEGER NOT NULL, helped INTEGER NOT NULL, seen REAL NOT NULL, "
        "PRIMARY KEY (operator, key)) WITHOUT ROWID",
    ),
    private=True,  # what jobs are about is nobody else's business
)
_ROWS = (
    "SELECT CAST(ifnull(operator, '') AS TEXT), CAST(ifnull(key, '') AS TEXT), CAST(ifnull(label, '') AS TEXT), "
    "CAST(ifnull(text, '') AS TEXT), CAST(ifnull(about, '') AS TEXT), CAST(ifnull(used, 0) AS INTEGER), "
    "CAST(ifnull(helped, 0) AS INTEGER), CAST(ifnull(seen, 0) AS REAL) FROM insights "
)
"""Whatever somebody wrote into the file, these are texts and numbers."""


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
class KeptInsight:
    """An insight as it is kept.

    Attributes:
        operator: The fingerprint of the operator that it is for.
        key: Its identity among those of its operator: operators that were taught the same by the same job share it.
        label: The operator's id when it learned this, for people.
        text: What it says.
        about: The job that taught it.
        used: How often it was shown, or given as a lesson.
        helped: In how many of these cases all went well then.
        seen: When it was last shown or given, in seconds since the epoch.
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
        """What it is ranked by: how likely it helps, then how lately it was seen."""
        return (self.helped + 1) / (self.used + 2), self.seen

    @property
    def useless(self) -> bool:
        """Whether it was used often enough and helped in fewer than two thirds: then it is not shown.

        Two thirds, not half: given again as a lesson it mostly helps the next try, and would else
        be shown to every other job, whatever comes of it.
        """
        return self.used >= ENOUGH_USES and 3 * self.helped < 2 * self.used

    def counted(self, used: int, helped: int, now: float) -> KeptInsight:
        """The same after more uses."""
        return replace(self, used=self.used + used, helped=self.helped + helped, seen=now)


@dataclass(slots=True)
class Experience:
    """What a run found out about the insights of one operator.

    Attributes:
        shown: By key, how often it was shown, and how often it helped.
        lessons: New ones, each with what the job was about, and whether all went well then.
        label: The operator's id in the run.
    """

    shown: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    lessons: dict[tuple[str, str], bool] = field(default_factory=dict[tuple[str, str], bool])
    label: str = ""

    def after(self, operator: str, kept: Iterable[KeptInsight], now: float) -> list[KeptInsight]:
        """What is kept of an operator's entries and of new lessons, the best first, at a time in seconds.

        A lesson that is there already, from a similar job, is counted up; but not where it was
        shown in this run and so has its count. Above `MOST_PER_OPERATOR` useless ones go first, then
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
        """What is kept for the operator with this fingerprint and not useless, the best first.

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
        """What `Insights.recall` says; nothing once the store failed."""
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
        for (_, operator), recalled in self._recalled[()].items():
            if operator in found:
                found[operator].label = recalled.event.operator_id
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
    """One thread does all that is done with the file, in order: who reads sees what was written before."""

    def __init__(self, path: str | Path) -> None:
        self._file = SqliteFile(path, _INSIGHTS)
        with self._file.connection():  # what is wrong with it shows before anything runs
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
            connection.execute("PRAGMA secure_delete = ON")  # what is forgotten is not left in the file's free pages
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
        except Exception as error:  # noqa: BLE001 - nobody waits for this thread
            failed(error)


def _best_first(entries: Iterable[KeptInsight]) -> list[KeptInsight]:
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
