"""Runs that survive: kept in a database while they go on, here or on many machines."""

from operad.runtime.durable.ledger import Ledger
from operad.runtime.workflow import DurableWorkflow

__all__ = ["DurableWorkflow", "Ledger"]
