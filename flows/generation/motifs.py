"""Motifs: small example workflows, which show a model how nodes of the planned types are connected."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from operad.flows.formats.chat2workflow import load
from operad.flows.node_graph import NodeGraph

COMMON = frozenset({"start", "end", "llm"})
"""Types of most workflows, which do not count for the choice of a motif."""


@dataclass(frozen=True, slots=True)
class Motif:
    """Small example workflow.

    Attributes:
        name: Name of the motif.
        description: Description in one line.
        text: The workflow in Chat2Workflow's JSON, without whitespace.
    """

    name: str
    description: str
    text: str

    @property
    def graph(self) -> NodeGraph:
        """The workflow."""
        return load(self.text, self.name)

    @property
    def kinds(self) -> frozenset[str]:
        """Types of the nodes."""
        return frozenset(spec.type for spec in self.graph.nodes)


@cache
def motifs() -> tuple[Motif, ...]:
    """Return all motifs."""
    return tuple(_read())


def nearest(kinds: Collection[str]) -> Motif | None:
    """Return the motif with most of the given types and fewest others; None if none has a type outside of `COMMON`."""
    wanted = frozenset(kinds) - COMMON
    ranked = [(len(motif.kinds & wanted), -len(motif.kinds - COMMON - wanted), motif) for motif in motifs()]
    best = max(ranked, key=lambda rank: rank[:2], default=None)
    return best[2] if best is not None and best[0] else None


def _read() -> Iterator[Motif]:
    """Yield the motifs of ``motifs.json``."""
    listed: list[dict[str, Any]] = json.loads(
        (files("operad.flows.generation") / "motifs.json").read_text(encoding="utf-8")
    )
    for item in listed:
        text = json.dumps(item["workflow"], ensure_ascii=False, separators=(",", ":"))
        yield Motif(item["name"], item["says"], text)
