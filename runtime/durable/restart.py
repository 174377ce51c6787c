"""Point from which a copy of a run continues, and its record."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from operad.runtime.durable.tables import StoredRun


class Restart(NamedTuple):
    """Point from which a copy of a run continues, and its changes.

    Attributes:
        operator: Path of the operator that runs again, or whose output is changed.
        round: First round of the outermost workflow to repeat.
        outputs: Outputs that replace those of operators, by path.
        inputs: Inputs of the job that replace its own, by name.
        by: Name of the person who changes them; empty if it is not known.
    """

    operator: str
    round: int = 1
    outputs: Mapping[str, Any] = {}
    inputs: Mapping[str, Any] = {}
    by: str = ""

    def record(self, run_id: str) -> str:
        """Return what is stored with the copy, as JSON: the names of what was changed, not the values."""
        changed = {"outputs": sorted(self.outputs), "inputs": sorted(self.inputs)}
        return json.dumps({"run": run_id, "operator": self.operator, "round": self.round, "by": self.by, **changed})


def origin_text(kept: StoredRun) -> str:
    """Return the sentence that says of which run a run is a copy, what was changed, and by whom; empty for no copy."""
    try:
        origin: Any = json.loads(kept.origin or "null")
        if origin is None:
            return ""
        changed = [f"the output of {path}" for path in origin["outputs"]] + [
            f"the input {name}" for name in origin["inputs"]
        ]
        by = f" by {origin['by']}" if origin["by"] else ""
        text = f"a copy of {origin['run']} from {origin['operator']} on{'' if changed else by}"
        return f"{text}; changed{by}: {', '.join(changed)}" if changed else text
    except (ValueError, KeyError, TypeError):  # another program wrote it
        return ""
