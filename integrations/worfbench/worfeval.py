"""WorFEval: similarity of a predicted workflow to a gold one.

From "Benchmarking Agentic Workflow Generation" (WorFBench), section 3 on WorFEval: the node chain measures whether the
right tasks are listed in a right order, the graph whether their dependencies are right.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

from operad.integrations.worfbench.common_subgraph import common_subgraph
from operad.integrations.worfbench.matching import MAX_PAIRS, OptimalPairs, Pair, best_matching, optimal_pairs
from operad.integrations.worfbench.node_chain import longest_chain
from operad.integrations.worfbench.plan import Plan, Workflow, gold_plan, predicted_plan
from operad.integrations.worfbench.similarity import Similarity, exact, numpy, table_of
from operad.integrations.worfbench.worfeval_official import as_read, official_chain, official_graph
from operad.runtime.values.errors import InputError, did_you_mean

Mode = Literal["paper", "full", "official"]
MODES: tuple[Mode, ...] = ("paper", "full", "official")

THRESHOLD = 0.6
"""Minimum similarity of two nodes that may be matched: the paper's beta."""

MAX_NODES = 5_000
"""Maximum number of nodes of a workflow to compare; further nodes are counted, but not matched."""


class PRF(NamedTuple):
    """Precision, recall, and their harmonic mean, from 0 to 1."""

    precision: float
    recall: float
    f1: float

    @classmethod
    def of(cls, size: int, predicted: int, gold: int) -> PRF:
        """Return precision, recall and F1 for `size` matched nodes."""
        if not size:
            return cls(0.0, 0.0, 0.0)
        return cls(size / predicted, size / gold, 2 * size / (predicted + gold))


class Score(NamedTuple):
    """Score of a predicted workflow against a gold one.

    Attributes:
        node: Figures of the longest chain of matched nodes.
        graph: Figures of the largest common subgraph.
        matched: Pairs (gold, predicted) of matched ids. The pairs of the common subgraph are among them.
        optimal: True if it is proven that no chain is longer and no common subgraph larger.
    """

    node: PRF
    graph: PRF
    matched: tuple[tuple[str, str], ...]
    optimal: bool


NOTHING = Score(PRF(0.0, 0.0, 0.0), PRF(0.0, 0.0, 0.0), (), True)
"""Score of an empty prediction."""


def score(
    predicted: Workflow,
    gold: Workflow,
    *,
    similarity: Similarity = exact,
    threshold: float = THRESHOLD,
    mode: Mode = "paper",
    seconds: float = 10.0,
) -> Score:
    """Score a predicted workflow against a gold one.

    Scores of `paper` and `full` depend neither on the numbers of nodes nor on the order of gold nodes. The node chain
    depends on the order in which the prediction lists its nodes; the graph does not. Edges to missing nodes are
    ignored; the nodes of a cycle have no order among each other.

    Args:
        predicted: A workflow of any format, or an answer with one in WorFBench's form. If it cannot be read or has no
            nodes, the score is 0.
        gold: The gold workflow, in the same forms; it must have nodes.
        similarity: Similarity of texts.
        threshold: Minimum similarity of two nodes that may be matched, above 0 and up to 1.
        mode: ``paper`` first matches nodes with the highest sum of similarities, and searches the common subgraph among
            the pairs of all such matchings; ``full`` searches it among all pairs that reach the threshold; ``official``
            is the metric of the paper's program (`worfeval_official`).
        seconds: Time limit of the searches for the chain and for the subgraph; the best results so far count.

    Raises:
        InputError: The threshold or the mode is not valid, the gold workflow has no nodes, or the similarity returns no
            table.
        InvalidError: The gold text is not a workflow.
        MissingExtraError: The extra ``evaluate`` is not installed.
    """
    check_settings(threshold, mode)
    return score_plans(predicted_plan(predicted), gold_plan(gold), similarity, threshold, mode=mode, seconds=seconds)


def check_settings(threshold: float, mode: str) -> None:
    """Check the threshold and the mode.

    Raises:
        InputError: The threshold or the mode is not valid.
    """
    if not isinstance(threshold, int | float) or not 0 < threshold <= 1:  # pyright: ignore[reportUnnecessaryIsInstance] - in YAML, anything
        raise InputError(f"threshold must be a number above 0 and at most 1, not {threshold!r}")
    if mode not in MODES:
        raise InputError(f"mode must be one of {', '.join(MODES)}, not {mode!r}{did_you_mean(str(mode), MODES)}")


def score_plans(
    predicted: Plan, gold: Plan, similarity: Similarity, threshold: float, *, mode: Mode, seconds: float
) -> Score:
    """Return the `score` of two plans."""
    if mode == "official":
        predicted, gold = as_read(predicted), as_read(gold, once=True)
    if not (predicted.ids and gold.ids):
        return NOTHING
    table = table_of(similarity, gold.texts[:MAX_NODES], predicted.texts[:MAX_NODES], threshold)
    sizes = (len(predicted.ids), len(gold.ids))
    if mode == "official":
        matched = best_matching(table)
        chain, graph = official_chain(predicted, gold, matched), official_graph(predicted, gold, matched)
        with_marks = (sizes[0] + len(predicted.marks), sizes[1] + len(gold.marks))
        return Score(
            PRF.of(chain, *with_marks), PRF.of(graph, *with_marks), _ids_of_pairs(matched, predicted, gold), True
        )
    best = _limited(table, optimal_pairs(table))
    chain = longest_chain(best.pairs, gold.edges, seconds=seconds)
    allowed = best if mode == "paper" else _all_pairs(table, best)
    common = common_subgraph(allowed.pairs, gold.edges, predicted.edges, seconds=seconds)
    return Score(
        PRF.of(len(chain.pairs), *sizes),
        PRF.of(len(common.pairs), *sizes),
        _ids_of_pairs(_with_other_matches(common.pairs, table), predicted, gold),
        chain.optimal and common.optimal and best.complete and allowed.complete and max(sizes) <= MAX_NODES,
    )


def _limited(table: Any, found: OptimalPairs) -> OptimalPairs:
    """Return the optimal pairs; if there are too many to search, those of one matching."""
    return found if len(found.pairs) <= MAX_PAIRS else OptimalPairs(best_matching(table), False)


def _all_pairs(table: Any, best: OptimalPairs) -> OptimalPairs:
    """Return all pairs that reach the threshold; if there are too many, the optimal pairs."""
    np = numpy()
    if np.count_nonzero(table) > MAX_PAIRS:
        return best._replace(complete=False)
    rows, columns = np.nonzero(table)
    return OptimalPairs(tuple(zip(rows.tolist(), columns.tolist(), strict=True)), True)


def _with_other_matches(common: tuple[Pair, ...], table: Any) -> tuple[Pair, ...]:
    """Return the pairs of the common subgraph, and the best matching of the other nodes."""
    rest = table.copy()
    for gold, predicted in common:
        rest[gold, :] = 0
        rest[:, predicted] = 0
    return tuple(sorted([*common, *best_matching(rest)]))


def _ids_of_pairs(pairs: Iterable[Pair], predicted: Plan, gold: Plan) -> tuple[tuple[str, str], ...]:
    """Return the ids of matched nodes from their indexes."""
    return tuple((gold.ids[a], predicted.ids[b]) for a, b in pairs)
