"""What a job may look up, and what earlier runs learned."""

from __future__ import annotations

from typing import Protocol

from operad.runtime.values.message import Value


class Passage(Value):
    """A piece of text with its source.

    Attributes:
        text: What it says.
        source: Where it stands, for people and models to cite.
        score: How well it fits the query; larger is better.
    """

    text: str
    source: str = ""
    score: float = 0.0


class Knowledge(Value):
    """What was found for a job: passages, the best first."""

    passages: tuple[Passage, ...] = ()


class Insight(Value):
    """Something that earlier runs learned about the environment.

    Attributes:
        text: What it says.
        source: Where it comes from.
        about: The job that taught it; it is shown for jobs like that one. Empty: for every job.
        key: What its use is counted under; empty where nobody counts.
    """

    text: str
    source: str = ""
    about: str = ""
    key: str = ""


class KnowledgeBase(Protocol):
    """Anything that finds passages for a query."""

    def retrieve(self, query: str) -> Knowledge:
        """Return the passages that fit `query`, the best first."""
        ...
