"""Repair of workflows that models write, without a model: small named rules, of which none makes a workflow worse.

    from operad.flows.repair import repair

    mended = repair(response)
    mended.text, mended.repairs, mended.lessons

Nothing but the response is read.
"""

from operad.flows.repair.engine import FORMAT, PAPER, Repaired, Rules, repair, repair_graph
from operad.flows.repair.state import Repair, Standing

__all__ = ["FORMAT", "PAPER", "Repair", "Repaired", "Rules", "Standing", "repair", "repair_graph"]
