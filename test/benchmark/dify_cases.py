"""Test workflows in Dify's format, at least one for each feature; `conformance_dify.py` runs them in both engines."""

from __future__ import annotations

from dify_cases_answers import answers, failures
from dify_cases_containers import iterations, loops
from dify_cases_models import models, questions
from dify_cases_requests import requests
from dify_cases_values import aggregators, assignments, conditions, lists
from dify_cases_whole import apps, files, refused
from dify_files import Case


def cases() -> list[Case]:
    """All cases."""
    made = (
        models,
        questions,
        answers,
        failures,
        requests,
        assignments,
        aggregators,
        lists,
        conditions,
        iterations,
        loops,
        files,
        apps,
        refused,
    )
    return [each for group in made for each in group()]
