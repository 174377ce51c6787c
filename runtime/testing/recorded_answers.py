"""Reasoner with the answers of a recorded run."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from operad.runtime.models.model import Model
from operad.runtime.reasoning.reasoner import SoleReasoner
from operad.runtime.testing.scripted_model import ScriptedModel


class RecordedReasoner(SoleReasoner):
    """Reasoner that all operators use, also nodes with settings of their own."""

    def with_model(self, model: Model) -> RecordedReasoner:
        """Return the same reasoner: its answers are recorded."""
        return self


@asynccontextmanager
async def recorded_answers(script: Sequence[Mapping[str, Any]]) -> AsyncGenerator[RecordedReasoner]:
    """Yield a reasoner that answers from the script of a case.

    Raises:
        LeftoverStepsError: At the end: answers are left, as the workflow asks less often than it did then.
        UnexpectedStepError: At the end: the workflow asked more often.
    """
    async with ScriptedModel(script) as endpoint:
        yield RecordedReasoner(endpoint.model)
