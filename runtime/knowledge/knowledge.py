"""Values of knowledge: passages for a job, and insights of earlier runs."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any, Protocol

from operad.runtime.events import KnowledgeRetrieved, emit
from operad.runtime.values.errors import InputError
from operad.runtime.values.message import Job
from operad.runtime.values.value import Value


class Passage(Value):
    """Passage of a text, with its source.

        [passage] = Documents("docs").retrieve("When does my refund arrive?").passages
        print(passage.source, isinstance(passage, Passage))

    Attributes:
        text: Text of the passage.
        source: File and place of the passage, for citations.
        score: Relevance for the query; larger is better.
    """

    text: str
    source: str = ""
    score: float = 0.0


class Knowledge(Value):
    """Passages found for a query, best first.

    Example:
        Knowledge(passages=(Passage(text="Refunds arrive within seven days.", source="refunds.md:3"),))
    """

    passages: tuple[Passage, ...] = ()


NO_KNOWLEDGE = Knowledge()
"""Knowledge without passages."""


def passages_for(job: Job, base: KnowledgeBase) -> Knowledge:
    """Return the passages of a knowledge base for a job's goal and context.

    In a conversation, a message may refer to the one before it ("And for letters?"). So two queries are made, without and
    with the user's previous message, and their passages are taken alternately.
    """
    query = f"{job.goal}\n{job.context}".strip()
    previous = next((turn.text for turn in reversed(job.turns) if turn.role == "user"), "")
    found = base.retrieve(query)
    return interleaved(found, base.retrieve(f"{previous}\n{query}")) if previous.strip() else found


def interleaved(first: Knowledge, second: Knowledge) -> Knowledge:
    """Return the passages of two results alternately, without repetitions, as many as the longer result has.

    A passage in both results gets the higher score.
    """
    best: dict[tuple[str, str], Passage] = {}
    for pair in zip_longest(first.passages, second.passages):
        for passage in filter(None, pair):
            key = (passage.source, passage.text)
            best[key] = max(best.get(key, passage), passage, key=lambda each: each.score)
    size = max(len(first.passages), len(second.passages))
    return Knowledge(passages=tuple(best.values())[:size])


class Insight(Value):
    """Insight of earlier runs about the environment.

        Insight(text="Name the year of every event.", about="List the moon landings.")

    Attributes:
        text: Text of the insight.
        source: Its source.
        about: Text of the job that it was learned from; operators receive it for similar jobs. Empty for all jobs.
        key: Key under which its uses are counted; empty if they are not counted.
    """

    text: str
    source: str = ""
    about: str = ""
    key: str = ""


class KnowledgeBase(Protocol):
    """Protocol of knowledge bases, which find passages for a query.

    Example:
        class Glossary:  # a KnowledgeBase
            def retrieve(self, query: str) -> Knowledge:
                return Knowledge(passages=(Passage(text="DAG: directed acyclic graph", source="glossary"),))

        explain = Operator("Explain the term.", knowledge_base=Glossary())
        base: KnowledgeBase = Glossary()
    """

    def retrieve(self, query: str) -> Knowledge:
        """Return the passages that fit a query, best first."""
        ...


def report_retrieved(found: Any, operator_id: str) -> Knowledge:
    """Emit an event with the passages that an operator found, and return them.

    Raises:
        InputError: The knowledge base, which may be of a user's class, gave something else.
    """
    if not isinstance(found, Knowledge):
        raise InputError(f"operator {operator_id!r}: its knowledge base gave {type(found).__name__}, not Knowledge")
    emit(
        KnowledgeRetrieved(
            sources=tuple(each.source for each in found.passages),
            scores=tuple(each.score for each in found.passages),
            texts=tuple(each.text for each in found.passages),
        )
    )
    return found
