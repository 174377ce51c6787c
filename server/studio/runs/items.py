"""Values of the nodes inside containers, item by item and pass by pass."""

from __future__ import annotations

from typing import Any

from operad.runtime.events import Event, OperatorFailed, OperatorFinished, WorkflowEntered
from operad.runtime.values.map_item import MapItem, without_index

MOST_ITEMS = 200
"""Maximum number of items of a node whose values are stored."""


class Items:
    """Outputs and errors of nodes inside containers, by the numbers of the items, such as ``2``, or ``2.0`` if nested."""

    def __init__(self) -> None:
        self._given: dict[tuple[str, str], Any] = {}
        self._results: dict[str, dict[str, dict[str, Any] | str]] = {}

    def apply(self, event: Event) -> None:
        """Store what an event says of a node inside a container, or of the item that a container gives."""
        found = [item for step in event.path if (item := MapItem.parse(step))]
        if not found:
            return
        label, node = ".".join(str(item.index) for item in found), without_index(event.path[-1])
        if isinstance(event, WorkflowEntered) and event.item is not None:
            if len(self._given) < MOST_ITEMS * MOST_ITEMS:
                self._given[node, label] = event.item
        elif isinstance(event, OperatorFinished | OperatorFailed):
            results = self._results.setdefault(node, {})
            if label in results or len(results) < MOST_ITEMS:
                if isinstance(event, OperatorFailed):
                    results[label] = event.error
                else:
                    results[label] = event.message.outputs or {"text": event.message.scratchpad}

    def is_full(self, node: str) -> bool:
        """Return True if a node may have run for more items than are stored."""
        return len(self._results.get(node, ())) >= MOST_ITEMS

    def labels(self, node: str) -> list[str]:
        """Return the items in which a node ran, in their order."""
        return sorted(self._results.get(node, ()), key=lambda label: [int(part) for part in label.split(".")])

    def given(self, container: str, label: str) -> Any:
        """Return the item that a container gave; None for none."""
        return self._given.get((container, label))

    def result(self, node: str, label: str) -> dict[str, Any] | str | None:
        """Return the outputs of a node for an item, or its error as a text; None if it did not run."""
        return self._results.get(node, {}).get(label)
