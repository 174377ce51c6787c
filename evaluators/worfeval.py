"""WorFEval: similarity of a predicted workflow to a gold one.

From "Benchmarking Agentic Workflow Generation" (WorFBench), section 3 on WorFEval: the node chain tells whether the
right tasks are listed in a right order, the graph whether they depend on each other as they should.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

from operad.evaluators.common_subgraph import common_subgraph
from operad.evaluators.matching import MAX_PAIRS, OptimalPairs, Pair, best_matching, optimal_pairs
from operad.evaluators.node_chain import longest_chain
from operad.evaluators.plan import Plan, Workflow, gold_plan, predicted_plan
from operad.evaluators.similarity import Similarity, exact, numpy, table_of
from operad.evaluators.worfeval_official import as_read, official_chain, official_graph
from operad.runtime.values.errors import InputError

Mode = Literal["paper", "full", "official"]
MODES: tuple[Mode, ...] = ("paper", "full", "official")

THRESHOLD = 0.6
"""The least similarity of two nodes that may stand for each other: the paper's beta."""

MAX_NODES = 5_000
"""Nodes of a workflow that are compared at most; those beyond are counted, and match nothing."""


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
"""The score of an empty prediction."""


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

    Scores of `paper` and `full` depend on neither the numbers of nodes nor the order of the gold ones; the node chain
    depends on the order in which the prediction lists its nodes, the graph does not. Edges to nodes that are not there
    do not count; the nodes of a cycle have no order among them.

    Args:
        predicted: A workflow of any format, or an answer with one in WorFBench's form. Where nothing can be read, or
            without nodes, the score is 0.
        gold: The same; it must have nodes.
        similarity: Similarity of texts.
        threshold: Least similarity of two nodes that may be matched, above 0 and up to 1.
        mode: ``paper`` matches first, with the highest sum of similarities, and looks for the common subgraph among the
            pairs of all such matchings; ``full`` looks for it among all pairs from the threshold on; ``official`` is
            the metric of the paper's program (`worfeval_official`).
        seconds: Time limit of the searches for the chain and for the subgraph; the best results so far count.

    Raises:
        InputError: The threshold or the mode is none, the gold workflow has no nodes, or the similarity gives no table.
        InvalidError: The gold text is not a workflow.
        MissingExtraError: The extra ``evaluate`` is not installed.
    """
    check_settings(threshold, mode)
    return score_plans(predicted_plan(predicted), gold_plan(gold), similarity, threshold, mode=mode, seconds=seconds)


def check_settings(threshold: float, mode: str) -> None:
    """See that there is such a mode, and such a threshold.

    Raises:
        InputError: There is not.
    """
    if not 0 < threshold <= 1:
        raise InputError(f"threshold must be above 0 and at most 1, not {threshold}")
    if mode not in MODES:
        raise InputError(f"mode must be one of {', '.join(MODES)}, not {mode!r}")


def score_plans(
    predicted: Plan, gold: Plan, similarity: Similarity, threshold: float, *, mode: Mode, seconds: float
) -> Score:
    """As `score`, of what has been read."""
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
        return Score(PRF.of(chain, *with_marks), PRF.of(graph, *with_marks), _named(matched, predicted, gold), True)
    best = _few(table, optimal_pairs(table))
    chain = longest_chain(best.pairs, gold.edges, seconds=seconds)
    allowed = best if mode == "paper" else _all_pairs(table, best)
    common = common_subgraph(allowed.pairs, gold.edges, predicted.edges, seconds=seconds)
    return Score(
        PRF.of(len(chain.pairs), *sizes),
        PRF.of(len(common.pairs), *sizes),
        _named(_completed(common.pairs, table), predicted, gold),
        chain.optimal and common.optimal and best.complete and allowed.complete and max(sizes) <= MAX_NODES,
    )


def _few(table: Any, found: OptimalPairs) -> OptimalPairs:
    """Return the found pairs; one matching if they are too many to be searched."""
    return found if len(found.pairs) <= MAX_PAIRS else OptimalPairs(best_matching(table), False)


def _all_pairs(table: Any, best: OptimalPairs) -> OptimalPairs:
    """All pairs that are allowed; the best ones where there are too many."""
    np = numpy()
    if np.count_nonzero(table) > MAX_PAIRS:
        return best._replace(complete=False)
    rows, columns = np.nonzero(table)
    return OptimalPairs(tuple(zip(rows.tolist(), columns.tolist(), strict=True)), True)


def _completed(common: tuple[Pair, ...], table: Any) -> tuple[Pair, ...]:
    """The pairs of the common subgraph, and the best matching of the nodes that are left."""
    rest = table.copy()
    for gold, predicted in common:
        rest[gold, :] = 0
        rest[:, predicted] = 0
    return tuple(sorted([*common, *best_matching(rest)]))


def _named(pairs: Iterable[Pair], predicted: Plan, gold: Plan) -> tuple[tuple[str, str], ...]:
    return tuple((gold.ids[a], predicted.ids[b]) for a, b in pairs)
