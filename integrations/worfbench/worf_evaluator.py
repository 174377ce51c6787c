"""WorFEval as an evaluator: differences from the gold workflow become the lesson."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from operad.evaluators.score_evaluator import Assessment, ScoreEvaluator
from operad.integrations.worfbench.plan import Plan, Workflow, gold_plan, predicted_plan
from operad.integrations.worfbench.similarity import Similarity, exact, named_similarity
from operad.integrations.worfbench.worfeval import THRESHOLD, Mode, Score, check_settings, score_plans
from operad.operators import OperatorConfig
from operad.runtime.values.file import FileDescriptor
from operad.runtime.values.message import Job
from operad.runtime.values.text import shortened

_MAX_QUOTED = 200
"""Maximum number of characters of a task in a finding."""

_MOST_NEIGHBOURS = 3

_UNREADABLE = (
    'no workflow could be read: write "Node:", then each task on a line of its own, as "1: what is done", '
    'then "Edge: (START,1) (1,2) (2,END)"'
)


class WorFEvaluator(ScoreEvaluator):
    """Compares a workflow with a gold one by `operad.integrations.worfbench.worfeval.score`.

    The score is the lower of both F1 values. The findings reveal tasks of the gold workflow, so this evaluator is for
    benchmarks and training in which the gold workflow may be revealed.

    Args:
        config: Configuration; by default an evaluator with the id ``worfeval``.
        gold: The gold workflow: a text in WorFBench's form, a graph, or, in one line, the name of a file with the text.
        similarity: Similarity of texts; in YAML, ``exact`` or ``embeddings``.
        mode: Scoring mode: ``paper``, ``full`` or ``official``.
        beta: Minimum similarity of two nodes that may be matched.
        threshold: Minimum score for SUCCESS, from 0 to 1.
        seconds: Time limit of each of the two searches.

    Raises:
        InputError: A threshold is out of its range, the file or similarity does not exist, or the gold workflow has no
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
        """Measure the workflow in a text."""
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
    """Return a score as JSON."""
    return {"node": found.node._asdict(), "graph": found.graph._asdict(), "optimal": found.optimal}


def findings(predicted: Plan, gold: Plan, found: Score) -> Iterator[str]:
    """Yield the changes that turn a prediction into the gold workflow: steps first, then their order, then edges."""
    yield from _step_findings(predicted, gold, dict(found.matched))
    yield from _dependency_findings(predicted, gold, dict(found.matched))


def _step_findings(predicted: Plan, gold: Plan, step: Mapping[str, str]) -> Iterator[str]:
    """Yield findings about missing and superfluous steps; `step` maps gold nodes to the predicted ones."""
    before: dict[str, list[str]] = {}
    after: dict[str, list[str]] = {}
    for source, target in sorted((gold.ids[a], gold.ids[b]) for a, b in gold.edges):
        if source in step:
            before.setdefault(target, []).append(step[source])
        if target in step:
            after.setdefault(source, []).append(step[target])
    matched_steps = set(step.values())
    superfluous = {
        node: text for node, text in zip(predicted.ids, predicted.texts, strict=True) if node not in matched_steps
    }
    for node, text in zip(gold.ids, gold.texts, strict=True):
        if node in step:
            continue
        if same := next((other for other, said in superfluous.items() if said.casefold() == text.casefold()), None):
            yield f"write step {same} as {_quoted(text)}, not as {_quoted(superfluous.pop(same))}"
        else:
            sides = (("after", before.get(node)), ("before", after.get(node)))
            places = [f", {side} step {' and '.join(steps[:_MOST_NEIGHBOURS])}" for side, steps in sides if steps]
            yield f"no step says {_quoted(text)}: add it{''.join(places)}"
    for node, text in superfluous.items():
        yield f"step {node} ({_quoted(text)}) is not needed: leave it out"


def _dependency_findings(predicted: Plan, gold: Plan, step: Mapping[str, str]) -> Iterator[str]:
    """Yield findings about the order of steps and about edges; `step` maps gold nodes to the predicted ones."""
    index = {node: number for number, node in enumerate(predicted.ids)}
    matched_indexes = {index[node] for node in step.values()}
    matched_index = {number: index[step[node]] for number, node in enumerate(gold.ids) if node in step}
    wanted = {(matched_index[a], matched_index[b]) for a, b in gold.edges if a in matched_index and b in matched_index}
    drawn = {(a, b) for a, b in predicted.edges if a in matched_indexes and b in matched_indexes}
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
    return repr(shortened(text, _MAX_QUOTED))
