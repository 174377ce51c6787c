"""Summary of the last repeated round of a run: the rejected result, and which operators ran again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from operad.configs.printable import printable
from operad.runtime import events
from operad.runtime.events import Event
from operad.runtime.values.errors import shorten


class Repetition:
    """Collector of the rounds of a run, without those of nested workflows."""

    def __init__(self) -> None:
        self._operators: Mapping[str, tuple[str, ...]] = {}
        self._evaluators: tuple[str, ...] = ()
        self._rerun: tuple[str, ...] = ()
        self._rejected: events.RoundFinished | None = None
        self._finished: events.RoundFinished | None = None
        self._evaluated_rounds: set[int] = set()
        self._items: dict[tuple[int, str], int] = {}

    def apply(self, event: Event) -> None:
        """Update the rounds with an event."""
        match event:
            case events.Progress() if len(event.path) == 1:
                self._items[event.round, event.operator_id] = event.total
            case events.OperatorFinished() if event.path in [(judge,) for judge in self._evaluators]:
                self._evaluated_rounds.add(event.round)
            case _ if event.path:
                pass
            case events.RunStarted():
                self._operators, self._evaluators = event.operators, event.judges
            case events.RoundFinished():
                self._finished = event
            case events.RoundStarted() if self._finished:
                self._rejected, self._rerun = self._finished, event.operators
            case _:
                pass

    def lines(self) -> Sequence[str]:
        """Return two lines on the last repeated round; empty if no round was repeated."""
        if self._rejected is None or not self._operators:
            return []
        number = self._rejected.round
        reason = self._rejected.evaluation.removesuffix(".")
        return [
            printable(f"In round {number} {self._rejection_text()}: {reason}."),
            printable(f"In round {number + 1} {self._repetition_text(number + 1)}."),
        ]

    def _rejection_text(self) -> str:
        if self._rejected is None or self._rejected.round not in self._evaluated_rounds:
            return "an operator reported a fault"
        if len(self._evaluators) == 1:
            return f"the evaluator ({self._evaluators[0]}) found a fault"
        return "the evaluators found a fault"

    def _repetition_text(self, number: int) -> str:
        reused = [name for name in self._operators if name not in self._rerun]
        ran = _joined([self._with_item_count(name, number) for name in self._rerun])
        if not reused:
            return f"all operators ran again: {ran}"
        return f"only {ran} ran again; {_joined(reused)} {'were' if len(reused) > 1 else 'was'} reused"

    def _with_item_count(self, name: str, number: int) -> str:
        """Return the operator's name, with the number of items if it processed fewer than in round 1."""
        now, before = self._items.get((number, name)), self._items.get((1, name))
        if now is None or before is None or now >= before:
            return name
        return f"{name} (for {now} of {before} items)"


def _joined(names: Sequence[str]) -> str:
    return " and ".join(names) if len(names) < 3 else shorten(list(names))
