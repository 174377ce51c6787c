"""Private functions and attributes of dbos that Operad uses, and a check that they exist."""

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
    "_serialization:DefaultSerializer.serialize": ["self", "data"],
    "_sys_db:SystemDatabase._is_latest_version": ["self", "app_version", "c"],
    "_sys_db:SystemDatabase._now_ms_sql": ["self"],
    "_sys_db:SystemDatabase.await_workflow_result": ["self", "workflow_id", "polling_interval", "fail_if_missing"],
    "_sys_db:SystemDatabase.reenqueue_for_recovery": ["self", "workflow_id", "executor_ids", "recovery_queue_name"],
    "_sys_db:SystemDatabase.run_migrations": ["self"],
    "_sys_db:SystemDatabase.verify_migrations": ["self"],
}
"""Names of the parameters of each function, by module and name of the function."""

ATTRIBUTES: Sequence[str] = (
    "_client:DBOSClient._sys_db",
    "_dbos:DBOS._background_jobs_stop_event",
    "_dbos:DBOS._sys_db",
    "_dbos:DBOS.background_thread_stop_events",
    "_dbos:DBOSRegistry.internal_queue_map",
    "_dbos:_dbos_global_instance",
    "_serialization:DefaultSerializer.deserialize",  # its signature is that of `refuse_pickles` after the first check
)
"""Attributes of modules, or of instances of classes."""


def check_details() -> None:
    """Check that the installed dbos has the functions in `DETAILS` and the attributes in `ATTRIBUTES`.

    Raises:
        InputError: A function or an attribute is missing, or a function takes other parameters.
    """
    for place, expected in DETAILS.items():
        found = _parameters(place)
        if found != expected:
            raise _mismatch(
                place,
                "is missing" if found is None else f"takes ({', '.join(found)}) instead of ({', '.join(expected)})",
            )
    for place in ATTRIBUTES:
        if not _has_attribute(place):
            raise _mismatch(place, "is missing")


def _mismatch(place: str, problem: str) -> InputError:
    return InputError(
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


def _has_attribute(place: str) -> bool:
    """Return True if a module or class has an attribute, or the constructor of the class uses its name."""
    module, _, name = place.partition(":")
    owner_name, _, attribute = name.rpartition(".")
    try:
        owner: Any = import_module(f"dbos.{module}")
        owner = getattr(owner, owner_name) if owner_name else owner
    except (ImportError, AttributeError):
        return False
    if attribute in vars(owner):
        return True
    # There is no instance yet whose attributes could be looked at.
    code = getattr(inspect.unwrap(owner.__init__), "__code__", None) if owner_name else None
    return code is not None and attribute in code.co_names
