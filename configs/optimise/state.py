"""State of a search, computed from its finished steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError

from operad.configs.optimise.edits import Operation, told
from operad.configs.optimise.tree import Tree, back_up
from operad.configs.optimise.trial import Result, mean
from operad.runtime.values.errors import InputError
from operad.runtime.values.message import NO_USAGE, Usage, Value

FINALISTS = 3
"""Number of candidates, besides the first, are tried on all tasks where steps are on samples."""


class Step(Value):
    """A step of the search, as a line of its file.

    Attributes:
        line: Kind of the line.
        parent: Number of the changed candidate; None for the first, which is the unchanged expert.
        operations: Operations applied to it.
        reasoning: Reason, in the model's words.
        yaml: Resulting configuration; empty if no proposal was valid.
        refused: Reason for which no proposal was valid.
        results: Results of the tasks, by their ids.
        usage: Usage of the step.
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
    """A candidate was tried on tasks that its step had left out, as a line of the file.

    Attributes:
        line: Kind of the line.
        candidate: Its number.
        results: Results of these tasks, by their ids.
        usage: Usage of the trial.
    """

    line: Literal["ranking"] = "ranking"
    candidate: int
    results: dict[str, Result]
    usage: Usage


class Unfinished(Value):
    """A step or a ranking was begun and not finished: only what it cost is left of it."""

    line: Literal["unfinished"] = "unfinished"
    usage: Usage


Line = Step | Ranking | Unfinished
_LINE: TypeAdapter[Line] = TypeAdapter(Annotated[Line, Field(discriminator="line")])


@dataclass(frozen=True, slots=True)
class Candidate:
    """A workflow that was tried.

    Attributes:
        number: Its number: its place in the tree.
        step: The step that created it.
        score: Mean score of that step, from 0 to 1.
        results: All its results, those of a ranking included, by the tasks' ids.
    """

    number: int
    step: Step
    score: float
    results: Mapping[str, Result]

    @property
    def change(self) -> str:
        """Summary of the change."""
        return ", ".join(map(told, self.step.operations)) or "the expert as it is"

    @property
    def final(self) -> float:
        """Its mean score on all tasks that it was tried on."""
        return mean(self.results)


@dataclass(frozen=True, slots=True)
class State:
    """State of a search.

    Attributes:
        candidates: Candidates by number.
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
        """The state after what a line says.

        Raises:
            InputError: That cannot come after this.
        """
        usage = self.usage + line.usage
        if isinstance(line, Unfinished):
            return replace(self, usage=usage)
        if isinstance(line, Ranking):
            if line.candidate not in range(len(self.candidates)):
                raise InputError(f"there is no candidate {line.candidate}")
            of = self.candidates[line.candidate]
            ranked = replace(of, results={**of.results, **line.results})
            others = self.candidates[of.number + 1 :]
            return replace(self, candidates=(*self.candidates[: of.number], ranked, *others), usage=usage)
        return replace(self._grown(line), steps=self.steps + 1, usage=usage)

    def _grown(self, step: Step) -> State:
        if (step.parent is None) is not (self.tree is None):
            raise InputError("the first step, and no other, has no parent")
        if step.parent is not None and step.parent not in range(len(self.candidates)):
            raise InputError(f"there is no candidate {step.parent}")
        if step.refused and self.tree is not None and step.parent is not None:
            return replace(self, tree=back_up(self.tree, step.parent, made=False), refused=(*self.refused, step))
        if not (step.yaml and step.results):
            raise InputError("it has no results")
        score = mean(step.results)
        tree = Tree.of(score) if self.tree is None or step.parent is None else self.tree.grown(step.parent, score)
        candidate = Candidate(len(self.candidates), step, score, step.results)
        return replace(self, tree=tree, candidates=(*self.candidates, candidate))

    def ranked(self, tasks: int) -> list[Candidate]:
        """The candidates, the best first, of equal ones the older; there are so many tasks.

        Once the finalists were tried on all tasks, they and others that were come first; until then, steps decide.
        """
        if any(len(each.results) < tasks for each in self.finalists()):
            return sorted(self.candidates, key=lambda each: (-each.score, each.number))
        return sorted(self.candidates, key=lambda each: (len(each.results) < tasks, -each.final, each.number))

    def finalists(self) -> list[Candidate]:
        """Return the candidates for a trial on all tasks: the first, and the best of the others by their steps."""
        best = sorted(self.candidates[1:], key=lambda each: (-each.score, each.number))
        return [*self.candidates[:1], *best[:FINALISTS]]


def replayed(lines: Sequence[Mapping[str, Any]], name: str) -> State:
    """The state that the lines of a file lead to; its head is not among them.

    Raises:
        InputError: A line cannot be used; it is named.
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
