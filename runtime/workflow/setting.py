"""Settings: attributes of a workflow whose assignment takes effect at the next run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from operad.runtime.workflow.definition import Definition


class Setting:
    """Descriptor of an attribute of a workflow; an assignment has the workflow built again at its next run.

    Without `__get__`, the attribute is read from the instance as fast as any other.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __set__(self, workflow: Definition[Any], value: object) -> None:
        with workflow._lock:  # pyright: ignore[reportPrivateUsage]
            vars(workflow)[self._name] = value
            workflow._built = None  # pyright: ignore[reportPrivateUsage]


def setting() -> Any:
    """Return a `Setting`, with a type that permits the annotation of its values.

    Example:
        max_rounds: int = setting()
    """
    return Setting()
