"""Repair of workflows that models write, without a model: small named rules, of which none makes a workflow worse.

    from operad.flows.repair import repair

    mended = repair(response, ["Summarise a paper file (variable paper) … output it (variable summary)."])
    mended.text, mended.repairs, mended.lessons

Nothing but the response and the instructions is read.
"""

from operad.flows.repair.contract import Contract, EndOutputs, Stated, read_contract
from operad.flows.repair.engine import ALIGNED, FORMAT, PAPER, PROFILES, RULES, Repaired, Rule, repair, repair_graph
from operad.flows.repair.state import Repair, Standing

__all__ = [
    "ALIGNED",
    "FORMAT",
    "PAPER",
    "PROFILES",
    "RULES",
    "Contract",
    "EndOutputs",
    "Repair",
    "Repaired",
    "Rule",
    "Standing",
    "Stated",
    "read_contract",
    "repair",
    "repair_graph",
]
