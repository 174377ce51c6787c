"""WorFEval as an evaluator: differences from the gold workflow become the lesson."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from operad.evaluators.plan import Plan, Workflow, gold_plan, predicted_plan
from operad.evaluators.score_evaluator import Assessment, ScoreEvaluator
from operad.evaluators.similarity import Similarity, exact, named_similarity
from operad.evaluators.worfeval import THRESHOLD, Mode, Score, check_settings, score_plans
from operad.operators import OperatorConfig
from operad.runtime.values.file import FileDescriptor
from operad.runtime.values.message import Job

_LONGEST = 200
"""Characters of a task that a finding tells."""

_MOST_NEIGHBOURS = 3

_UNREADABLE = (
    'no workflow could be read: write "Node:", then each task on a line of its own, as "1: what is done", '
    'then "Edge: (START,1) (1,2) (2,END)"'
)


class WorFEvaluator(ScoreEvaluator):
    """Measures a workflow by a gold one, as `operad.evaluators.worfeval.score` does.

    Its score is the lower one of the two F1. Its findings tell tasks of the gold workflow: it is for benchmarks and for
    training, where the gold one may be told.

    Args:
        config: Configuration; by default an evaluator with the id ``worfeval``.
        gold: The gold workflow: a text in WorFBench's form, a graph, or, in one line, the name of a file with the text.
        similarity: Similarity of texts; in YAML, ``exact`` or ``embeddings``.
        mode: Scoring mode: ``paper``, ``full`` or ``official``.
        beta: Least similarity of two nodes that may be matched.
        threshold: The least score that is SUCCESS, from 0 to 1.
        seconds: Time limit of each of the two searches.

    Raises:
        InputError: A threshold is out of its range, there is no such file or similarity, or the gold workflow has no
            nodes.
        InvalidError: The gold text is not a workflow.
    """

    def __init__(
        self,
        config: OperatorConfig | None = None,
        *,
        gold: Workflow,
        similarity: Similarity | str = exact,
        mode: Mode = "paper",
        beta: float = THRESHOLD,
        threshold: float = 0.8,
        seconds: float = 10.0,
        **others: Any,
    ) -> None:
        check_settings(beta, mode)
        known = config or OperatorConfig(instruction="The workflow is the gold one.", id="worfeval")
        super().__init__(known, threshold=threshold, **others)
        if isinstance(gold, str) and gold.strip() and "\n" not in gold.strip():
            gold = FileDescriptor.of(gold.strip()).read_text()
        self._gold = gold_plan(gold)
        self._similarity = named_similarity(similarity) if isinstance(similarity, str) else similarity
        self._alike_from = beta
        self._mode: Mode = mode
        self._seconds = seconds

    def assess(self, text: str, job: Job) -> Assessment:
        """Measure the workflow that a text holds."""
        predicted = predicted_plan(text)
        found = score_plans(
            predicted, self._gold, self._similarity, self._alike_from, mode=self._mode, seconds=self._seconds
        )
        return Assessment(
            min(found.node.f1, found.graph.f1),
            list(findings(predicted, self._gold, found)) if predicted.ids else [_UNREADABLE],
            figures(found),
        )


def figures(found: Score) -> dict[str, Any]:
    """A score as JSON holds it."""
    return {"node": found.node._asdict(), "graph": found.graph._asdict(), "optimal": found.optimal}


def findings(predicted: Plan, gold: Plan, found: Score) -> Iterator[str]:
    """Yield the changes that turn a prediction into the gold workflow: steps first, then their order, then edges."""
    yield from _steps(predicted, gold, dict(found.matched))
    yield from _dependencies(predicted, gold, dict(found.matched))


def _steps(predicted: Plan, gold: Plan, step: Mapping[str, str]) -> Iterator[str]:
    before: dict[str, list[str]] = {}
    after: dict[str, list[str]] = {}
    for one, other in sorted((gold.ids[a], gold.ids[b]) for a, b in gold.edges):
        if one in step:
            before.setdefault(other, []).append(step[one])
        if other in step:
            after.setdefault(one, []).append(step[other])
    for node, text in zip(gold.ids, gold.texts, strict=True):
        if node not in step:
            sides = (("after", before.get(node)), ("before", after.get(node)))
            where = [f", {side} step {' and '.join(steps[:_MOST_NEIGHBOURS])}" for side, steps in sides if steps]
            yield f"no step says {_quoted(text)}: add it{''.join(where)}"
    meant = set(step.values())
    for node, text in zip(predicted.ids, predicted.texts, strict=True):
        if node not in meant:
            yield f"step {node} ({_quoted(text)}) is not needed: leave it out"


def _dependencies(predicted: Plan, gold: Plan, step: Mapping[str, str]) -> Iterator[str]:
    place = {node: number for number, node in enumerate(predicted.ids)}
    meant = {place[node] for node in step.values()}
    at = {number: place[step[node]] for number, node in enumerate(gold.ids) if node in step}
    wanted = {(at[a], at[b]) for a, b in gold.edges if a in at and b in at}
    drawn = {(a, b) for a, b in predicted.edges if a in meant and b in meant}
    ids = predicted.ids
    for a, b in sorted(wanted):
        if b < a:
            yield f"step {ids[b]} is listed before step {ids[a]}, which it needs: list it after that"
    for a, b in sorted(wanted - drawn):
        instead = f"write ({ids[a]},{ids[b]}) for ({ids[b]},{ids[a]})"
        yield f"step {ids[b]} must come after step {ids[a]}: {instead if (b, a) in drawn else f'add ({ids[a]},{ids[b]})'}"
    for a, b in sorted(drawn - wanted):
        if (b, a) not in wanted:
            yield f"step {ids[b]} does not depend on step {ids[a]}: leave out ({ids[a]},{ids[b]})"


def _quoted(text: str) -> str:
    return repr(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…")
