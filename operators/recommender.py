"""Recommender of the actions and tools of an operator."""

from __future__ import annotations

from functools import cached_property
from typing import cast

from operad.operators.config import OperatorConfig
from operad.runtime.tools.tool import Tool, ToolGroup, ToolSource
from operad.runtime.tools.toolkit import Action, Recommendation, Toolkit


class Recommender:
    """Recommender of actions and tools for the tasks of an operator.

    Args:
        config: Configuration of the operator.
        toolkit: Graph that recommends actions and tools; None for the operator's own actions.
    """

    def __init__(self, config: OperatorConfig, toolkit: Toolkit | None) -> None:
        self._config = config
        self._given_toolkit = toolkit

    def recommend(self) -> Recommendation:
        """Return the actions and tools that the toolkit recommends, and the operator's own tools."""
        config = self._config
        if not config.actions:
            return Recommendation(tools=self._own_tools)
        recommendation = self._toolkit.recommend(config.actions, threshold=config.threshold, hops=config.hops)
        if not self._own_tools:
            return recommendation
        return recommendation.model_copy(update={"tools": (*recommendation.tools, *self._own_tools)})

    @cached_property
    def _toolkit(self) -> Toolkit:
        return self._given_toolkit or Toolkit.of(self._config.actions)

    @cached_property
    def _own_tools(self) -> tuple[Tool | ToolSource, ...]:
        """Tools of the operator that belong to no action, with groups replaced by their tools."""
        if not self._config.tools:
            return ()
        holder = Action(name="tools", tools=cast("tuple[Tool | ToolGroup, ...]", self._config.tools))
        return Toolkit.of([holder]).recommend([holder]).tools
