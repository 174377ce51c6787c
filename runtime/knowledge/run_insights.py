"""Insights in a run: lessons for its operators, and records of whether they helped."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable

from operad.runtime.events import (
    Event,
    InsightsRecalled,
    RoundFinished,
    RunFailed,
    RunFinished,
    RunStarted,
    WorkflowEntered,
    emit,
)
from operad.runtime.knowledge.insights import (
    LONGEST_LESSON,
    Experience,
    Insights,
    Recalled,
    about,
    storable_line,
)
from operad.runtime.knowledge.knowledge import Insight
from operad.runtime.values.map_item import without_index
from operad.runtime.values.message import Job, WorkflowStatus

_logger = logging.getLogger(__name__)


class RunInsights:
    """Listener of a run that gives it insights of earlier runs, and stores its results for later runs.

    Errors of the store do not stop the run: the first error is logged, and the run continues without insights.
    """

    def __init__(self, store: Insights) -> None:
        self.store = store
        self._failed = False
        self._operators: dict[tuple[str, ...], frozenset[str]] = {}
        self._recalled: defaultdict[tuple[str, ...], dict[tuple[tuple[str, ...], str], Recalled]] = defaultdict(dict)
        self._verdicts: dict[tuple[str, ...], RoundFinished] = {}
        self._lessons: dict[tuple[tuple[str, ...], str, str, str], None] = {}

    def recall(self, operator: str) -> list[Insight]:
        """Return the insights of `Insights.recall`; an empty list after an error of the store."""
        if self._failed:
            return []
        try:
            return self.store.recall(operator)
        except Exception as error:  # noqa: BLE001 - the run continues without insights
            self._report_failure(error)
            return []

    def report_recalled(self, operator: str, job: Job, insights: Iterable[Insight]) -> None:
        """Emit the event that the current operator, whose insights have the key `operator`, receives insights for a job."""
        learned = [insight for insight in insights if insight.key]
        emit(
            InsightsRecalled(
                operator=operator,
                about=about(job),
                insights=tuple(insight.key for insight in learned),
                texts=tuple(insight.text for insight in learned),
                store=self.store.id,
            )
        )

    def __call__(self, event: Event) -> None:
        """Process an event of the run; at the end of the run, store the results."""
        match event:
            case RunStarted() | WorkflowEntered():
                self._operators[event.path] = frozenset(event.operators)
            case InsightsRecalled() if event.store == self.store.id:
                self._record_recall(event)
            case RoundFinished():
                self._record_verdict(event)
            case RunFinished() | RunFailed():
                if experiences := self._experiences(ended=isinstance(event, RunFinished)):
                    self.store.learn(experiences, self._report_failure)
            case _:
                pass

    def _record_recall(self, event: InsightsRecalled) -> None:
        """Record the insights that an operator received, for the run and for each enclosing workflow."""
        path = event.path
        if event.operator_id not in self._operators.get(path[:-1], ()):
            return  # an evaluator; lessons are for the operators that it judges
        recalled = self._recalled[()].setdefault((path, event.operator), Recalled(event))
        recalled.event = event
        for key in event.insights:
            recalled.blamed_since.setdefault(key, False)
        for depth in range(1, len(path)):
            self._recalled[path[:depth]][path, event.operator] = recalled

    def _record_verdict(self, event: RoundFinished) -> None:
        """Record the operators that a verdict blames, and its lesson; operators inside a blamed one are blamed, too."""
        workflow_path = event.path
        last = self._verdicts.get(workflow_path)
        self._verdicts[workflow_path] = event
        if event.status is not WorkflowStatus.EXECUTION_ERROR or event.by_error:
            return  # the text of an error is not a lesson, and may be private
        blamed = self._operators.get(workflow_path, frozenset()).intersection(event.blame)
        lesson = storable_line(event.lesson, LONGEST_LESSON)
        for (path, operator), recalled in self._recalled[workflow_path].items():
            if blamed and not blamed & {path[len(workflow_path)], without_index(path[len(workflow_path)])}:
                continue
            recalled.blamed_since = dict.fromkeys(recalled.blamed_since, True)
            if lesson and (blamed or last is None or recalled.event.seq > last.seq):
                self._lessons[workflow_path, operator, recalled.event.about, lesson] = None

    def _experiences(self, *, ended: bool) -> dict[str, Experience]:
        """Return the results of the run, by operator.

        Args:
            ended: True if the run ended with a verdict; otherwise, the success of unblamed operators is unknown.
        """
        experiences: defaultdict[str, Experience] = defaultdict(Experience)
        for (path, operator), recalled in self._recalled[()].items():
            verdict = self._verdicts.get(path[:-1]) if ended else None
            for key, blamed in recalled.blamed_since.items():
                if blamed or verdict:
                    helped = not blamed and verdict is not None and verdict.status is WorkflowStatus.SUCCESS
                    used, successes = experiences[operator].shown.get(key, (0, 0))
                    experiences[operator].shown[key] = (used + 1, successes + helped)
        for workflow_path, operator, job, lesson in self._lessons:
            succeeded = ended and self._verdicts[workflow_path].status is WorkflowStatus.SUCCESS
            lessons = experiences[operator].lessons
            lessons[job, lesson] = lessons.get((job, lesson), True) and succeeded
        for (_, operator), recalled in self._recalled[()].items():
            if operator in experiences:
                experiences[operator].label = recalled.event.operator_id
        return dict(experiences)

    def _report_failure(self, error: Exception) -> None:
        if not self._failed:
            self._failed = True
            _logger.warning("the run continues without insights: %s", error)
