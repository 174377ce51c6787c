"""Durable runs: the progress of a run is kept in a database, so that any process can resume it."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from operad.runtime.durable.ledger import DurableWorkflow, Ledger
    from operad.runtime.durable.shared_agents import Served
    from operad.runtime.durable.worker import Worker

__all__ = ["DurableWorkflow", "Ledger", "Served", "Worker"]

_HOMES = {
    "DurableWorkflow": "operad.runtime.durable.ledger",
    "Ledger": "operad.runtime.durable.ledger",
    "Served": "operad.runtime.durable.shared_agents",
    "Worker": "operad.runtime.durable.worker",
}
"""Module of each public name, imported on first use to keep the start-up of commands short."""


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value
