"""Hints: names that an instruction seems to state and a workflow lacks. Nothing is changed because of a hint."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from difflib import get_close_matches

from operad.flows.node_graph import NodeGraph
from operad.flows.repair.contract import MORE, Contract, declared, ends_of, read_contract

_TAKES_AWAY = re.compile(
    r"\b(?:remov\w*|delet\w*|drop\w*|without|omit\w*|leave out|no|not|never|longer|instead|rather|replac\w*|renam\w*|call(?:ed|s)?|only|just|merg\w*|"
    r"combin\w*|join\w*|into|as one|single|skip\w*|swap\w*|switch\w*|chang\w*|becomes?|turn\w*|part of|mov\w*|always|now)\b|n['’]t\b"
    r"|去掉|去除|删|移|不|取消|换|改|只|仅|并入|合|代替|替|无需|省略|固定|一律",
    re.IGNORECASE,
)  # fmt: skip
"""Words of a request by which an input or output may go."""


def hints(contract: Contract, graph: NodeGraph) -> list[str]:
    """Return a finding for each name of the contract that the workflow lacks, with both ways out.

    Names that only the workflow has yield no finding: the contract may have missed them.

    Args:
        contract: The names that the instructions seem to state.
        graph: The workflow.
    """
    return [finding for _, finding in _hints(contract, graph)]


def hints_on(rounds: Sequence[str], graph: NodeGraph, base: NodeGraph) -> list[str]:
    """Return the findings on a workflow that was made, or changed, for the last of some rounds of instructions.

    Of a change, names yield a finding that its own words state, and that the workflow before lacked as well. What a
    change takes away yields one only where its words add something, and say nothing by which anything may go.

    Args:
        rounds: The instructions, the latest last.
        graph: The workflow.
        base: The workflow before; without nodes where there was none.
    """
    if not base.nodes:
        return hints(read_contract(rounds), graph)
    latest = rounds[-1]
    before = {place for place, _ in _hints(read_contract(rounds[:-1]), base)}
    if MORE.search(latest) and not _TAKES_AWAY.search(latest):
        return [finding for place, finding in _hints(read_contract(rounds), graph) if place not in before]
    own = read_contract([latest])
    lacked = {place for place, _ in _hints(own, base)} - before
    return [finding for place, finding in _hints(own, graph) if place in lacked]


def _hints(contract: Contract, graph: NodeGraph) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield a side and a name that are missing there, with the finding."""
    starts = [node for node in graph.nodes if node.type == "start"]
    ends = [node for node in graph.nodes if node.type == "end"]
    given = list(dict.fromkeys(name for node in starts for name in declared(node.params, "variables")))
    out = list(dict.fromkeys(name for names in ends_of(graph) for name in sorted(names)))
    asked_in = contract.input_names if starts else []
    asked_out = list(dict.fromkeys(name for each in contract.outputs for name in sorted(each.needed))) if ends else []
    for name in asked_in:
        if name not in given:
            spare = [each for each in given if each not in asked_in]
            yield ("input", name), f"[input] {starts[0].id}: {_lacks(name, 'no start node declares', spare)}"
    for name in asked_out:
        if name not in out:
            spare = [each for each in out if each not in asked_out]
            yield ("output", name), f"[output] {ends[0].id}: {_lacks(name, 'no end node gives', spare)}"


def _lacks(name: str, what: str, there: Collection[str]) -> str:
    near = get_close_matches(name, there, n=1, cutoff=0.6)
    way = f"rename {near[0]!r}, or add it" if near else "add it"
    return f"{what} {name!r}, which the request seems to name; {way}, or contest this"
