"""The last repeated round of a run, in plain words: the rejected result, the operators that ran again, and the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from operad.configs.printable import printable
from operad.runtime import events
from operad.runtime.events import Event
from operad.runtime.values.errors import shorten


class Repetition:
    """Follows the rounds of a run; those of workflows inside it are left out."""

    def __init__(self) -> None:
        self._operators: Mapping[str, tuple[str, ...]] = {}
        self._judges: tuple[str, ...] = ()
        self._again: tuple[str, ...] = ()
        self._rejected: events.RoundFinished | None = None
        self._finished: events.RoundFinished | None = None
        self._judged: set[int] = set()
        self._items: dict[tuple[int, str], int] = {}

    def apply(self, event: Event) -> None:
        """Take in one event."""
        match event:
            case events.Progress() if len(event.path) == 1:
                self._items[event.round, event.operator_id] = event.total
            case events.OperatorFinished() if event.path in [(judge,) for judge in self._judges]:
                self._judged.add(event.round)
            case _ if event.path:
                pass
            case events.RunStarted():
                self._operators, self._judges = event.operators, event.judges
            case events.RoundFinished():
                self._finished = event
            case events.RoundStarted() if self._finished:
                self._rejected, self._again = self._finished, event.operators
            case _:
                pass

    def lines(self) -> Sequence[str]:
        """Two lines; none where no round was repeated."""
        if self._rejected is None or not self._operators:
            return []
        number = self._rejected.round
        what = self._rejected.evaluation.removesuffix(".")
        return [
            printable(f"In round {number} {self._who()}: {what}."),
            printable(f"In round {number + 1} {self._what(number + 1)}."),
        ]

    def _who(self) -> str:
        if self._rejected is None or self._rejected.round not in self._judged:
            return "an operator reported a fault"
        if len(self._judges) == 1:
            return f"the evaluator ({self._judges[0]}) found a fault"
        return "the evaluators found a fault"

    def _what(self, number: int) -> str:
        reused = [name for name in self._operators if name not in self._again]
        ran = _listed([self._counted(name, number) for name in self._again])
        if not reused:
            return f"all operators ran again: {ran}"
        return f"only {ran} ran again; {_listed(reused)} {'were' if len(reused) > 1 else 'was'} reused"

    def _counted(self, name: str, number: int) -> str:
        """The operator; one that works through a list, and did less of it than before, with how much."""
        now, before = self._items.get((number, name)), self._items.get((1, name))
        if now is None or before is None or now >= before:
            return name
        return f"{name} (for {now} of {before} items)"


def _listed(names: Sequence[str]) -> str:
    return " and ".join(names) if len(names) < 3 else shorten(list(names))
