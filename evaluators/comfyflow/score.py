"""ComfyFlow's scores of one workflow (section 3.3 of the paper)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from operad.evaluators.comfyflow.judging import Judged, graph_of_gold, judge
from operad.flows.formats.comfyui import Definitions
from operad.flows.node_graph import NodeGraph
from operad.runtime.values.errors import Issue

Difficulty = Literal["easy", "medium", "hard"]

DIFFICULTIES: Sequence[Difficulty] = ("easy", "medium", "hard")

SECONDS = 10.0
"""Default time limit of the search for each F1 of a workflow, in seconds; the best result so far counts."""

MOST_ISSUES = 100
"""Number of issues of a workflow that are kept as JSON."""


@dataclass(frozen=True, slots=True)
class ComfyScore:
    """The scores of a workflow. An invalid format is a fault by every metric, and its F1 are 0.

    Attributes:
        format: Format validity: it can be read, has nodes, each with an id of its own, and every class exists.
        connected: Unique connectivity: no cycle, and one weakly connected part.
        terminal: Invalid terminal node: a node without successors declares outputs.
        terminal_but_outputs: The same, but for nodes that are outputs themselves (``output_node``).
        undefined: Undefined variable: one is used before it is assigned; in JSON, a link leads from or to a node that
            is not there.
        illegal: Illegal parameter: a name that is neither required nor optional.
        missing: Missing parameter: a required name is absent.
        sound: Beyond the paper: ComfyUI's own check finds nothing, of types, slots, values and outputs among others;
            but for files that the server lacks.
        nodes: Number of nodes that would run; 0 where it cannot be read.
        difficulty: By the nodes of the gold, or else its own; None where there are neither.
        node_f1: F1 of the longest chain of nodes, from 0 to 1; None without a gold.
        graph_f1: F1 of the largest common induced subgraph, from 0 to 1; None without a gold.
        optimal: True if it is proven that both F1 are the largest; else they are what was found in time.
        issues: Its faults, the gravest first, each with the id of its node.
    """

    format: bool
    connected: bool
    terminal: bool
    terminal_but_outputs: bool
    undefined: bool
    illegal: bool
    missing: bool
    sound: bool
    nodes: int
    difficulty: Difficulty | None
    node_f1: float | None = None
    graph_f1: float | None = None
    optimal: bool = True
    issues: Sequence[Issue] = ()

    @property
    def passes(self) -> bool:
        """Hallucination pass, as in the paper: none of the faults, any terminal node with outputs among them."""
        return self.passes_but_outputs and not self.terminal

    @property
    def passes_but_outputs(self) -> bool:
        """The same, where a terminal node that is an output itself may declare outputs."""
        faults = (self.terminal_but_outputs, self.undefined, self.illegal, self.missing)
        return self.format and self.connected and not any(faults)


def score(
    content: str | bytes, definitions: Definitions, gold: str | bytes | None = None, *, seconds: float = SECONDS
) -> ComfyScore:
    """Return the scores of a workflow. No content makes this raise: an unreadable text has no valid format.

    Node and graph F1 are WorFEval's in its mode ``full``, with classes that must be equal and without START and END:
    a class that stands in both may be matched with any node of that class, and the best of all matchings counts.

    Args:
        content: A workflow in any of ComfyUI's forms, or a model's whole answer with one.
        definitions: The classes of the server.
        gold: The workflow that was asked for, in any form.
        seconds: Time limit of the search for each F1.

    Raises:
        InputError: There are no definitions.
        InvalidError: The gold cannot be read, or has no nodes.
        MissingExtraError: There is a gold, and the extra ``evaluate`` is not installed.
    """
    wanted = None if gold is None else graph_of_gold(gold, definitions)
    return score_judged(judge(content, definitions), wanted, seconds)


def score_judged(found: Judged, gold: NodeGraph | None, seconds: float) -> ComfyScore:
    """The scores of a workflow that was judged."""
    is_valid = not found.fails("format")
    counted = len((gold or found.graph).nodes)
    node_f1, graph_f1, optimal = (None, None, True) if gold is None else (0.0, 0.0, True)
    if gold is not None and is_valid:
        node_f1, graph_f1, optimal = _f1(found.graph, gold, seconds)
    return ComfyScore(
        format=is_valid,
        connected=not found.fails("connected"),
        terminal=found.fails("terminal"),
        terminal_but_outputs=found.fails("terminal_but_outputs"),
        undefined=found.fails("undefined"),
        illegal=found.fails("illegal"),
        missing=found.fails("missing"),
        sound=not found.fails("sound"),
        nodes=len(found.graph.nodes),
        difficulty=difficulty(counted) if counted else None,
        node_f1=node_f1,
        graph_f1=graph_f1,
        optimal=optimal,
        issues=found.issues,
    )


def difficulty(nodes: int) -> Difficulty:
    """Return the difficulty of a workflow with so many nodes: easy up to 10, medium up to 25, or hard."""
    return "easy" if nodes <= 10 else "medium" if nodes <= 25 else "hard"


def as_json(found: ComfyScore) -> dict[str, Any]:
    """The scores of a workflow as JSON holds them, with both variants of the pass; of many issues the first."""
    issues = [asdict(issue) for issue in found.issues[:MOST_ISSUES]]
    if len(found.issues) > MOST_ISSUES:
        issues.append(asdict(Issue("more", f"and {len(found.issues) - MOST_ISSUES} more issues")))
    passes = {"passes": found.passes, "passes_but_outputs": found.passes_but_outputs}
    return {**asdict(replace(found, issues=())), **passes, "issues": issues}


def _f1(predicted: NodeGraph, gold: NodeGraph, seconds: float) -> tuple[float, float, bool]:
    from operad.evaluators.similarity import exact
    from operad.evaluators.worfeval import score

    found = score(predicted, gold, similarity=exact, mode="full", seconds=seconds)
    return found.node.f1, found.graph.f1, found.optimal
