"""Use of insights by a run: lessons shown to its operators, and what became of them."""

from __future__ import annotations

import logging
from collections import defaultdict
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
from operad.runtime.knowledge.insights import (
    LONGEST_LESSON,
    Experience,
    Insights,
    Recalled,
    shortened,
    without_item,
)
from operad.runtime.knowledge.knowledge import Insight
from operad.runtime.values.message import WorkflowStatus

_logger = logging.getLogger(__name__)


class RunInsights:
    """Insights of earlier runs for one run, and its findings for later ones: a listener to its events.

    Errors of the store do not stop the run: the first is logged, and the
    run continues without insights.

    Args:
        store: The insights.

    Attributes:
        store: The insights.
    """

    def __init__(self, store: Insights) -> None:
        self.store = store
        self._failed = False
        self._operators: dict[tuple[str, ...], frozenset[str]] = {}
        self._recalled: defaultdict[tuple[str, ...], dict[tuple[tuple[str, ...], str], Recalled]] = defaultdict(dict)
        self._verdicts: dict[tuple[str, ...], RoundFinished] = {}
        self._lessons: dict[tuple[tuple[str, ...], str, str, str], None] = {}

    def recall(self, operator: str) -> list[Insight]:
        """Return the insights of `Insights.recall`; none after the store failed."""
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
        recalled = self._recalled[()].setdefault((path, event.operator), Recalled(event))
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
            return  # an outage teaches nothing, and its text may be private
        blamed = self._operators.get(around, frozenset()).intersection(event.blame)
        lesson = shortened(event.lesson, LONGEST_LESSON)
        for (path, operator), recalled in self._recalled[around].items():
            if blamed and not blamed & {path[len(around)], without_item(path[len(around)])}:
                continue
            recalled.blamed_since = dict.fromkeys(recalled.blamed_since, True)
            if lesson and (blamed or last is None or recalled.event.seq > last.seq):
                self._lessons[around, operator, recalled.event.about, lesson] = None

    def _experiences(self, *, ended: bool) -> dict[str, Experience]:
        """Return the findings of the run, by operator.

        Args:
            ended: True if it ended with a verdict; otherwise, the success of unblamed operators is unknown.
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
            _logger.warning("the run continues without insights: %s", error)


def current_insights() -> RunInsights | None:
    """Return the insights of the run that the current code belongs to."""
    scope = current_scope()
    return cast("RunInsights | None", scope.run.insights) if scope else None
