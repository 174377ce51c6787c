"""Repair that aligns a workflow with the inputs and outputs that Chat2Workflow's instructions state, as read by patterns.

The patterns are made for the sentences of that benchmark, and read others wrongly; so they are not part of Operad. They show
how far repair without a model gets there: the column ``aligned`` of `bench_repair.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from aligned import inputs, outputs
from aligned.contract import Contract, read_contract
from operad.flows.repair import FORMAT, Repaired, Standing, repair
from operad.flows.repair.engine import MEANING_RULES, TIDY_RULES
from operad.flows.repair.names import corrections, unreadable
from operad.flows.repair.state import Proposal, State, standing_of

__all__ = ["RULES", "align", "read_contract"]


def variables(contract: Contract, state: State) -> Iterator[Proposal]:
    """Correct references to missing variables, except stated inputs, which `inputs.input_names` declares later."""
    starts = {node.id for node in state.graph.nodes if node.type == "start"}
    for reading in unreadable(state):
        if reading.selector.node not in starts or reading.selector.variable not in contract.input_names:
            yield from corrections(state, reading)


RULES = {
    "variables": variables,
    "input-names": inputs.input_names,
    "documents": inputs.documents,
    "end-missing": outputs.end_missing,
    "output-names": outputs.output_names,
    "one-end": outputs.one_end,
    "output-missing": outputs.output_missing,
    "ends-by-branch": outputs.ends_by_branch,
    "output-extra": outputs.output_extra,
}
"""Rules that read a contract, by name; the engine tries them after those on the meaning."""


def align(response: str, instructions: Sequence[str], without: str = "") -> Repaired:
    """Repair a response by all rules, those that read the instructions included.

    Args:
        response: The response.
        instructions: The instructions of all rounds so far, the latest last.
        without: Name of a rule to leave out.
    """
    contract = read_contract(instructions)

    def measure(state: State) -> Standing:
        standing = standing_of(state)
        # twice: the extractor that a repair adds may be of a type that is not selected yet
        raw = 2 * sum(1 for _ in contract.raw_documents(state.graph))
        return standing._replace(
            mismatches=contract.mismatches(state.graph), notation_issues=standing.notation_issues + raw
        )

    graph = {**MEANING_RULES, **{name: partial(rule, contract) for name, rule in RULES.items()}, **TIDY_RULES}
    tables = (
        {name: rule for name, rule in table.items() if name != without} for table in (FORMAT.text, FORMAT.shape, graph)
    )
    return repair(response, FORMAT._make(tables), measure)
