"""State of a search, computed from its finished steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError

from operad.configs.optimise.edits import Operation, told
from operad.configs.optimise.tree import Tree, back_up
from operad.configs.optimise.trial import Result, value
from operad.runtime.values.errors import InputError
from operad.runtime.values.message import NO_USAGE, Usage
from operad.runtime.values.value import Value

FINALISTS = 3
"""Number of candidates, besides the first, that are tried on all tasks if steps use samples."""


class Step(Value):
    """A step of the search, as a line of its file.

    Attributes:
        parent: Number of the changed candidate; None for the first, which is the unchanged expert.
        operations: Operations applied to it.
        reasoning: The model's reason for the change.
        yaml: Resulting configuration; empty if no proposal was valid.
        refused: Reason why no proposal was valid; empty if one was.
        results: Results of the tasks, by their ids.
    """

    line: Literal["step"] = "step"
    parent: int | None
    operations: tuple[Annotated[Operation, Field(discriminator="op")], ...] = ()
    reasoning: str = ""
    yaml: str = ""
    refused: str = ""
    results: dict[str, Result] = Field(default_factory=dict)
    usage: Usage


class Ranking(Value):
    """Line of the file for a trial of a candidate on the tasks that its step left out."""

    line: Literal["ranking"] = "ranking"
    candidate: int
    results: dict[str, Result]
    usage: Usage


class Unfinished(Value):
    """Line of the file for a step or ranking that was not finished; only its usage is kept."""

    line: Literal["unfinished"] = "unfinished"
    usage: Usage


Line = Step | Ranking | Unfinished
_LINE: TypeAdapter[Line] = TypeAdapter(Annotated[Line, Field(discriminator="line")])


@dataclass(frozen=True, slots=True)
class Candidate:
    """A workflow that was tried.

    Attributes:
        number: Number of the candidate, its place in the tree.
        step: The step that created it.
        score: Value of that step, from 0 to 1.
        results: Results by task ids, including those of a ranking.
        reference: Results of the unchanged expert, by task ids.
    """

    number: int
    step: Step
    score: float
    results: Mapping[str, Result]
    reference: Mapping[str, Result]

    @property
    def change(self) -> str:
        """Summary of the change."""
        return ", ".join(map(told, self.step.operations)) or "the expert as it is"

    @property
    def final(self) -> float:
        """Value over all tasks on which the candidate was tried."""
        return value(self.results, self.reference)


@dataclass(frozen=True, slots=True)
class State:
    """State of a search.

    Attributes:
        refused: Steps without a valid proposal.
        tree: The candidates as a tree; None before the first.
        steps: Number of finished steps, the first included.
        usage: Total usage.
    """

    candidates: tuple[Candidate, ...] = ()
    refused: tuple[Step, ...] = ()
    tree: Tree | None = None
    steps: int = 0
    usage: Usage = field(default=NO_USAGE)

    def after(self, line: Line) -> State:
        """Return the state after a line of the file.

        Raises:
            InputError: The line cannot follow this state.
        """
        usage = self.usage + line.usage
        if isinstance(line, Unfinished):
            return replace(self, usage=usage)
        if isinstance(line, Ranking):
            if line.candidate not in range(len(self.candidates)):
                raise InputError(f"there is no candidate {line.candidate}")
            candidate = self.candidates[line.candidate]
            results = {**candidate.results, **line.results}
            first = results if candidate.number == 0 else self.candidates[0].results
            ranked = replace(candidate, results=results, reference=first)
            others = self.candidates[candidate.number + 1 :]
            return replace(self, candidates=(*self.candidates[: candidate.number], ranked, *others), usage=usage)
        return replace(self._after_step(line), steps=self.steps + 1, usage=usage)

    def _after_step(self, step: Step) -> State:
        if (step.parent is None) is not (self.tree is None):
            raise InputError("the first step, and no other, has no parent")
        if step.parent is not None and step.parent not in range(len(self.candidates)):
            raise InputError(f"there is no candidate {step.parent}")
        if step.refused and self.tree is not None and step.parent is not None:
            return replace(self, tree=back_up(self.tree, step.parent, made=False), refused=(*self.refused, step))
        if not (step.yaml and step.results):
            raise InputError("it has no results")
        reference = self.candidates[0].results if self.candidates else step.results
        score = value(step.results, reference)
        tree = Tree.of(score) if self.tree is None or step.parent is None else self.tree.grown(step.parent, score)
        candidate = Candidate(len(self.candidates), step, score, step.results, reference)
        return replace(self, tree=tree, candidates=(*self.candidates, candidate))

    def ranked(self, tasks: int) -> list[Candidate]:
        """Return the candidates, the best first and, of equal ones, the older first; `tasks` is the number of tasks.

        Once the finalists were tried on all tasks, candidates tried on all of them come first; until then, step scores
        decide.
        """
        if any(len(candidate.results) < tasks for candidate in self.finalists()):
            return sorted(self.candidates, key=lambda candidate: (-candidate.score, candidate.number))
        return sorted(
            self.candidates, key=lambda candidate: (len(candidate.results) < tasks, -candidate.final, candidate.number)
        )

    def finalists(self) -> list[Candidate]:
        """Return the candidates for a trial on all tasks: the first, and the best of the others by their steps."""
        best = sorted(self.candidates[1:], key=lambda candidate: (-candidate.score, candidate.number))
        return [*self.candidates[:1], *best[:FINALISTS]]


def replayed(lines: Sequence[Mapping[str, Any]], name: str) -> State:
    """Return the state after all lines of a file, which do not include its head.

    Raises:
        InputError: A line cannot be used; the message names it.
    """
    state = State()
    for number, line in enumerate(lines, 2):
        try:
            state = state.after(_LINE.validate_python(line, strict=False))
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            raise InputError(f"{name}:{number}: this line cannot be used: {place}: {first['msg']}") from error
        except InputError as error:
            raise InputError(f"{name}:{number}: this line cannot be used: {error}") from error
    return state
