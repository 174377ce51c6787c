"""Random workflows for properties: graphs with ports, joins, choices and blame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from hypothesis import strategies as st

from operad.runtime.graph.schedule import Join, Taken

NO_PORTS = frozenset[str]()
PORT_SETS = [NO_PORTS, frozenset("a"), frozenset("b"), frozenset("ab")]
CHOICES: list[Taken] = [None, ("a",), ("b",), ("a", "b"), (), ("a",), ("b",), ("other",)]
JOINS: list[Join] = ["all_done", "all", "any", "all_done"]
BYTES = 5
"""Number of bytes that a random node is made of."""


@dataclass(frozen=True)
class RandomNode:
    """Node, with its behaviour in a run.

    Attributes:
        before: The nodes before it, each with the ports that the edge leaves from.
        join: Its join.
        choices: The ports that it chooses, in the first round and in later ones.
        pauses: The number of times that it suspends.
        blamed: Whether the first and the second verdict blame it.
    """

    before: Mapping[int, frozenset[str]]
    join: Join
    choices: tuple[Taken, Taken]
    pauses: int
    blamed: tuple[bool, bool]


Graph = Sequence[RandomNode]


def _node(number: int, code: bytes) -> RandomNode:
    bits = int.from_bytes(code, "big")

    def take(count: int) -> int:
        nonlocal bits
        taken = bits & ((1 << count) - 1)
        bits >>= count
        return taken

    before: dict[int, frozenset[str]] = {}
    for _ in range(3):
        distance, ports = take(3), PORT_SETS[take(2)]
        if 0 < distance <= number:
            before[number - distance] = ports
    join, choices, pauses = JOINS[take(2)], (CHOICES[take(3)], CHOICES[take(3)]), take(3)
    return RandomNode(before, join, choices, pauses, (take(2) == 0b11, take(2) == 0b11))


def graphs(most: int = 12) -> st.SearchStrategy[Graph]:
    codes = st.integers(1, most).flatmap(lambda size: st.binary(min_size=BYTES * size, max_size=BYTES * size))
    return codes.map(lambda code: [_node(n, code[n * BYTES : (n + 1) * BYTES]) for n in range(len(code) // BYTES)])


orders = st.integers(0, 2**16 - 1).map(Random)


def sane(graph: Graph) -> Graph:
    """Return the graph with valid choices only: ports that edges leave from."""

    def possible(number: int, choice: Taken) -> Taken:
        ways = NO_PORTS.union(*(node.before.get(number, NO_PORTS) for node in graph))
        return choice if choice is None or not ways else tuple(port for port in choice if port in ways)

    return [
        replace(node, choices=(possible(n, node.choices[0]), possible(n, node.choices[1])))
        for n, node in enumerate(graph)
    ]
