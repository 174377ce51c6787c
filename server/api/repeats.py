"""Requests with the id of a run that exists: they have to ask for the same."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

from operad.runtime.values.message import Job
from operad.server.api.experts import Offer
from operad.server.api.served_run import ServedRun
from operad.server.problems import RefusedError


def check_same_request(run: ServedRun, offer: Offer, job: Job) -> None:
    """Check that a request with the id of a run asks for the same.

    Raises:
        RefusedError: The expert or the job differs.
    """
    same = {"expert": run.offer.name == offer.name} | {
        name: getattr(run.job, name) == getattr(job, name) for name in ("goal", "context", "inputs")
    }
    if differing := [name for name, equal in same.items() if not equal]:
        raise RefusedError(
            409,
            f"the run {run.id!r} was begun with another {', '.join(differing)}; give this one an id of its own",
            param="id",
        )


def check_same_answers(run: ServedRun, answers: Mapping[str, JsonValue]) -> None:
    """Check that a request with the id of a run gives the same answers in advance.

    Raises:
        RefusedError: The run was begun without one of them.
    """
    if run.answers is None and (run.task is None or run.ended is not None):  # the run may have these answers
        return
    known, why = run.answers or {}, "was begun without these answers"
    if run.answers is None:
        why = "was resumed after a restart, without answers given in advance"
    if other := [each for each, answer in answers.items() if each not in known or known[each] != answer]:
        raise RefusedError(
            409,
            f"the run {run.id!r} {why}: {', '.join(map(repr, other))}; answer its questions as it asks them: "
            "POST /runs/{id}/answers/{question}",
            param="answers",
        )
