"""Runs that survive: kept in a database while they go on, here or on many machines."""

from operad.runtime.durable.ledger import Ledger
from operad.runtime.durable.served import Served
from operad.runtime.durable.worker import Worker
from operad.runtime.workflow import DurableWorkflow

__all__ = ["DurableWorkflow", "Ledger", "Served", "Worker"]
