"""Private functions of dbos that Operad uses, and a check of their signatures."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import reduce
from importlib import import_module
from importlib.metadata import version
from typing import Any

from operad.runtime.values.errors import InputError

DETAILS: Mapping[str, Sequence[str]] = {
    "_dbos:_get_dbos_instance": [],
    "_dbos:_get_or_create_dbos_registry": [],
    "_dbos:DBOSRegistry._register_internal_queue": ["self", "name", "limits"],
    "_queue:queue_worker_thread": ["stop_event", "dbos", "queue"],
    "_sys_db:SystemDatabase._is_latest_version": ["self", "app_version", "c"],
    "_sys_db:SystemDatabase._now_ms_sql": ["self"],
    "_sys_db:SystemDatabase.reenqueue_for_recovery": ["self", "workflow_id", "executor_ids", "recovery_queue_name"],
    "_sys_db:SystemDatabase.run_migrations": ["self"],
    "_sys_db:SystemDatabase.verify_migrations": ["self"],
}
"""Names of the parameters of each function, by module and name of the function."""


def check_details() -> None:
    """Check that the installed dbos has the functions in `DETAILS`.

    Raises:
        InputError: A function is missing, or takes other parameters.
    """
    for place, expected in DETAILS.items():
        found = _parameters(place)
        if found != expected:
            problem = (
                "is missing" if found is None else f"takes ({', '.join(found)}) instead of ({', '.join(expected)})"
            )
            raise InputError(
                f"dbos {version('dbos')} cannot be used for durable runs: dbos.{place.replace(':', '.')} {problem}; "
                "install a version that the extra `durable` allows: pip install 'operad[durable]'"
            )


def _parameters(place: str) -> Sequence[str] | None:
    """Return the names of a function's parameters; None if the function does not exist."""
    module, _, name = place.partition(":")
    try:
        found: Any = reduce(getattr, name.split("."), import_module(f"dbos.{module}"))
    except (ImportError, AttributeError):
        return None
    return [*inspect.signature(found).parameters]
