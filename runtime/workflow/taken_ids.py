"""Ids of a workflow's steps that another step cannot have."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import cast

from operad.runtime.graph.call import Executable


class TakenIds(Collection[str]):
    """Ids of a workflow's steps except `step`; looked up on demand, as a set per step would take quadratic time."""

    def __init__(
        self,
        step: object,
        operators: Mapping[str, object],
        before: Mapping[str, object],
        evaluators: Sequence[tuple[Executable, object]],
    ) -> None:
        self._step, self._operators, self._before, self._evaluators = step, operators, before, evaluators

    def __contains__(self, name: object) -> bool:
        known = self._operators.get(cast("str", name), self._step if name not in self._before else None)
        return known is not self._step or any(
            evaluator.get_id() == name for evaluator, _ in self._evaluators if evaluator is not self._step
        )

    def __iter__(self) -> Iterator[str]:
        evaluators = (evaluator.get_id() for evaluator, _ in self._evaluators)
        return (name for name in dict.fromkeys((*self._operators, *self._before, *evaluators)) if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)
