"""ComfyFlow's scores of one workflow (section 3.3 of the paper), rates over many, and the reward of an answer.

Rates are means of the scores (tables 2 and 5); the reward is for training (appendix D).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from statistics import fmean
from typing import Any, Literal

from operad.flows.node_graph import NodeGraph
from operad.integrations.comfyui.comfyflow.judging import Judged, graph_of_gold, judge
from operad.integrations.comfyui.formats import Definitions
from operad.runtime.values.errors import Issue

Difficulty = Literal["easy", "medium", "hard"]

DIFFICULTIES: Sequence[Difficulty] = ("easy", "medium", "hard")

SECONDS = 10.0
"""Default time limit of the search for each F1 of a workflow, in seconds; the best result so far counts."""

MOST_ISSUES = 100
"""Maximum number of issues of a workflow in JSON."""


@dataclass(frozen=True, slots=True)
class ComfyScore:
    """Scores of a workflow. An invalid format is a fault by every metric, with F1 values of 0.

    Attributes:
        format: Format validity: the workflow can be read, has nodes with unique ids, and all classes exist.
        connected: Unique connectivity: no cycle, and one weakly connected component.
        terminal: Invalid terminal node: a node without successors declares outputs.
        terminal_but_outputs: Invalid terminal node that is not an output node (``output_node``).
        undefined: Undefined variable: a variable is used before it is assigned; in JSON, a link leads from or to a
            missing node.
        illegal: Illegal parameter: a name that is neither required nor optional.
        missing: Missing parameter: a required name is absent.
        sound: Beyond the paper: ComfyUI's own check finds no issue, of types, slots, values and outputs among others,
            except files that the server lacks.
        nodes: Number of nodes that would run; 0 if the workflow cannot be read.
        difficulty: Difficulty by the number of nodes of the gold workflow, or without one of this workflow; None if
            there are no nodes.
        node_f1: F1 of the longest chain of nodes, from 0 to 1; None without a gold workflow.
        graph_f1: F1 of the largest common induced subgraph, from 0 to 1; None without a gold workflow.
        optimal: True if it is proven that both F1 values are the largest; otherwise they are the best found in time.
        issues: Faults of the workflow, the gravest first, each with the id of its node.
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
        """Hallucination pass, as in the paper: no faults, where every terminal node with outputs is a fault."""
        return self.passes_but_outputs and not self.terminal

    @property
    def passes_but_outputs(self) -> bool:
        """Hallucination pass in which terminal nodes that are output nodes may declare outputs."""
        faults = (self.terminal_but_outputs, self.undefined, self.illegal, self.missing)
        return self.format and self.connected and not any(faults)


def score(
    content: str | bytes, definitions: Definitions, gold: str | bytes | None = None, *, seconds: float = SECONDS
) -> ComfyScore:
    """Return the scores of a workflow. Unreadable content raises no error, but has no valid format.

    Node and graph F1 are those of WorFEval in its mode ``full``, with classes that must be equal and without START and
    END: a node may be matched with any node of the same class, and the best of all matchings counts.

    Args:
        content: A workflow in any of ComfyUI's forms, or a model's whole answer with one.
        definitions: The classes of the server.
        gold: The gold workflow, in any form.
        seconds: Time limit of the search for each F1.

    Raises:
        InputError: There are no definitions.
        InvalidError: The gold workflow cannot be read, or has no nodes.
        MissingExtraError: There is a gold workflow, and the extra ``evaluate`` is not installed.
    """
    wanted = None if gold is None else graph_of_gold(gold, definitions)
    return score_judged(judge(content, definitions), wanted, seconds)


def score_judged(found: Judged, gold: NodeGraph | None, seconds: float) -> ComfyScore:
    """Return the scores of a judged workflow."""
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
    """Return the difficulty of a workflow by its number of nodes: easy up to 10, medium up to 25, else hard."""
    return "easy" if nodes <= 10 else "medium" if nodes <= 25 else "hard"


def as_json(found: ComfyScore) -> dict[str, Any]:
    """Return the scores of a workflow as JSON, with both variants of the pass, and the first `MOST_ISSUES` issues."""
    issues = [asdict(issue) for issue in found.issues[:MOST_ISSUES]]
    if len(found.issues) > MOST_ISSUES:
        issues.append(asdict(Issue("more", f"and {len(found.issues) - MOST_ISSUES} more issues")))
    passes = {"passes": found.passes, "passes_but_outputs": found.passes_but_outputs}
    return {**asdict(replace(found, issues=())), **passes, "issues": issues}


def _f1(predicted: NodeGraph, gold: NodeGraph, seconds: float) -> tuple[float, float, bool]:
    """Return the node F1, the graph F1, and whether both are proven to be the largest."""
    from operad.integrations.worfbench.similarity import exact
    from operad.integrations.worfbench.worfeval import score

    found = score(predicted, gold, similarity=exact, mode="full", seconds=seconds)
    return found.node.f1, found.graph.f1, found.optimal


@dataclass(frozen=True, slots=True)
class Rates:
    """Shares of workflows, from 0 to 1; None if there are no workflows to count.

    Attributes:
        count: Number of workflows.
        format: Workflows of valid format.
        node_f1: Mean node F1 of workflows with a gold workflow.
        graph_f1: Mean graph F1 of workflows with a gold workflow.
        passes: Workflows without any of the paper's faults.
        passes_but_outputs: Workflows without faults, if terminal nodes that are output nodes may declare outputs.
        connected: Workflows with a single connected component and without a cycle.
        terminal: Workflows with an invalid terminal node.
        terminal_but_outputs: Workflows with an invalid terminal node that is not an output node.
        undefined: Workflows with an undefined variable.
        illegal: Workflows with an illegal parameter.
        missing: Workflows with a missing parameter.
        sound: Workflows without any finding of ComfyUI's own check.
    """

    count: int
    format: float | None
    node_f1: float | None
    graph_f1: float | None
    passes: float | None
    passes_but_outputs: float | None
    connected: float | None
    terminal: float | None
    terminal_but_outputs: float | None
    undefined: float | None
    illegal: float | None
    missing: float | None
    sound: float | None


def rates(scores: Sequence[ComfyScore]) -> Rates:
    """Return the rates of scored workflows; every workflow has the same weight (macro average)."""
    names = [each.name for each in fields(Rates) if each.name != "count"]
    return Rates(len(scores), **{name: _mean(getattr(score, name) for score in scores) for name in names})


def by_difficulty(scores: Sequence[ComfyScore]) -> Mapping[Difficulty, Rates]:
    """Return the rates of the easy, medium and hard workflows; workflows without a difficulty are left out."""
    return {level: rates([score for score in scores if score.difficulty == level]) for level in DIFFICULTIES}


def _mean(values: Iterable[float | None]) -> float | None:
    counted = [value for value in values if value is not None]
    return fmean(counted) if counted else None


@dataclass(frozen=True, slots=True)
class Reward:
    """Reward with its parts; each part except `correct` is 0 if its condition holds, and -1 otherwise.

    Attributes:
        format: The selected classes and the workflow are between their tags and can be read.
        dag: The workflow is a directed acyclic graph.
        node: The selected classes are all candidates, and equal the classes of the workflow.
        param: No parameter is illegal or missing.
        correct: Share of the gold workflow's classes that were selected, less 1: from -1 to 0.
    """

    format: int
    dag: int
    node: int
    param: int
    correct: float

    @property
    def final(self) -> float:
        """-1 if any of the other parts is -1; otherwise (3 + correct) / 3, from 2/3 to 1."""
        if -1 in (self.format, self.dag, self.node, self.param):
            return -1.0
        return (3 + self.correct) / 3


def reward(answer: str | bytes, gold: str | bytes, candidates: Collection[str], definitions: Definitions) -> Reward:
    """Return the reward of an answer.

    Duplicate classes count once, as in the paper. A workflow is not a DAG if it cannot be read, has a cycle, or uses a
    missing node (in code, an undefined variable); several components, or an early end, do not matter. An unreadable
    workflow counts as having illegal parameters.

    Args:
        answer: The whole answer of the model.
        gold: The gold workflow, in any form.
        candidates: Classes that were offered to the model.
        definitions: The classes of the server.

    Raises:
        InputError: There are no definitions.
        InvalidError: The gold workflow cannot be read, or has no nodes.
    """
    wanted = {spec.type for spec in graph_of_gold(gold, definitions).nodes}
    found = judge(answer, definitions)
    selected = None if found.selected is None else set(found.selected)
    used = {spec.type for spec in found.graph.nodes}
    return Reward(
        format=_zero_if(selected is not None and found.is_tagged),
        dag=_zero_if(found.is_dag),
        node=_zero_if(selected is not None and selected == used and selected <= set(candidates)),
        param=_zero_if(not found.fails("illegal") and not found.fails("missing")),
        correct=-len(wanted - (selected or set())) / len(wanted),
    )


def _zero_if(holds: bool) -> int:
    return 0 if holds else -1
