"""Hints about names that an instruction seems to state and a workflow lacks; hints change nothing."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from difflib import get_close_matches

from operad.flows.node_graph import NodeGraph
from operad.flows.repair.contract import MORE, Contract, declared, ends_of, read_contract

_REMOVES = re.compile(
    r"\b(?:remov\w*|delet\w*|drop\w*|without|omit\w*|leave out|no|not|never|longer|instead|rather|replac\w*|renam\w*|call(?:ed|s)?|only|just|merg\w*|"
    r"combin\w*|join\w*|into|as one|single|skip\w*|swap\w*|switch\w*|chang\w*|becomes?|turn\w*|part of|mov\w*|always|now)\b|n['’]t\b"
    r"|去掉|去除|删|移|不|取消|换|改|只|仅|并入|合|代替|替|无需|省略|固定|一律",
    re.IGNORECASE,
)  # fmt: skip
"""Words of an instruction that may remove or rename an input or output."""


def hints(contract: Contract, graph: NodeGraph) -> list[str]:
    """Return a finding for each name of the contract that the workflow lacks, with the possible corrections.

    Names that only the workflow has yield no finding: the contract may have missed them.

    Args:
        contract: The names that the instructions seem to state.
        graph: The workflow.
    """
    return [finding for _, finding in _hints(contract, graph)]


def hints_on(rounds: Sequence[str], graph: NodeGraph, base: NodeGraph) -> list[str]:
    """Return the findings on a workflow that was generated, or changed, for the last of several instructions.

    For a change, a finding is a name that its own instruction states and that neither workflow has. If the instruction
    only adds, names of earlier rounds that the change removed are findings, too.

    Args:
        rounds: The instructions, the latest last.
        graph: The workflow.
        base: The workflow before the change; without nodes if the workflow is new.
    """
    if not base.nodes:
        return hints(read_contract(rounds), graph)
    latest = rounds[-1]
    earlier_hints = {key for key, _ in _hints(read_contract(rounds[:-1]), base)}
    if MORE.search(latest) and not _REMOVES.search(latest):
        return [finding for key, finding in _hints(read_contract(rounds), graph) if key not in earlier_hints]
    latest_contract = read_contract([latest])
    missing_before = {key for key, _ in _hints(latest_contract, base)} - earlier_hints
    return [finding for key, finding in _hints(latest_contract, graph) if key in missing_before]


def _hints(contract: Contract, graph: NodeGraph) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield each missing name, as a pair of ``input`` or ``output`` and the name, with its finding."""
    starts = [node for node in graph.nodes if node.type == "start"]
    ends = [node for node in graph.nodes if node.type == "end"]
    inputs = [name for node in starts for name in declared(node.params, "variables")]
    outputs = [name for names in ends_of(graph) for name in sorted(names)]
    stated_outputs = [name for end in contract.outputs for name in sorted(end.needed)]
    for kind, problem, nodes, given, stated in (
        ("input", "no start node declares", starts, inputs, contract.input_names),
        ("output", "no end node gives", ends, outputs, stated_outputs),
    ):
        for name in dict.fromkeys(stated if nodes else ()):
            if name not in given and name not in outputs:  # a request may name an output in the words of an input
                unstated = [other for other in dict.fromkeys(given) if other not in stated]
                yield (kind, name), f"[{kind}] {nodes[0].id}: {_message(name, problem, unstated)}"


def _message(name: str, problem: str, names: Collection[str]) -> str:
    near = get_close_matches(name, names, n=1, cutoff=0.6)
    advice = f"rename {near[0]!r}, or add it" if near else "add it"
    return f"{problem} {name!r}, which the request seems to name; {advice}, or contest this"
