"""Triggers of an expert, which start runs without a person: its schedule and its webhook."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from pydantic import JsonValue

from operad.configs.schema import ConfigSpec, ScheduleSpec, TriggersSpec, WebhookSpec
from operad.operators.nodes.flow import StartParams, Trigger, WebhookInput
from operad.operators.secrets import find_secret
from operad.runtime.values.errors import InputError
from operad.runtime.values.secret import missing_text
from operad.server.http.keys import SHORTEST_KEY


@dataclass(frozen=True, slots=True)
class Starter:
    """A schedule or a webhook of an expert.

    Attributes:
        trigger: Its times, or the request that it takes.
        goal: Goal of the runs.
        inputs: Inputs of the runs, besides those of a request.
    """

    trigger: Trigger
    goal: str = ""
    inputs: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])


Starters = tuple[Starter | None, Starter | None]
"""The schedule and the webhook of an expert."""


def starters_of_nodes(start: StartParams | None) -> Starters:
    """Return the starters of a workflow of typed nodes; an event of a plugin is none."""
    trigger = start and start.trigger
    starter = Starter(trigger) if trigger else None
    kind = trigger.kind if trigger else ""
    return (starter if kind == "schedule" else None), (starter if kind == "webhook" else None)


def starters_of_expert(spec: ConfigSpec, name: str) -> Starters:
    """Return the starters of an expert, or the leader, of a file."""
    parts = [*([spec.leader] if spec.leader else []), *spec.experts]
    found = next((each for each in parts if each.profile.name == name), TriggersSpec())
    described = next((each.profile.desc for each in parts if each.profile.name == name), "")
    goal = spec.app.desc or described or name
    return (
        _schedule(found.schedule, goal) if found.schedule else None,
        _webhook(found.webhook, goal) if found.webhook else None,
    )


def _schedule(spec: ScheduleSpec, goal: str) -> Starter:
    return Starter(Trigger("schedule", cron=spec.cron, timezone=spec.timezone), spec.job or goal, spec.inputs)


def _webhook(spec: WebhookSpec, goal: str) -> Starter:
    inputs: list[WebhookInput] = []
    for name, place in spec.inputs.items():
        part, _, path = place.partition(".")
        inputs.append(WebhookInput(name, cast("Any", part), path))
    trigger = Trigger("webhook", "post", inputs=inputs, status=202, secret=spec.secret, wait=spec.wait)
    return Starter(trigger, spec.job or goal)


def check_secret_of(starter: Starter, owner: str) -> None:
    """Check that the secret of a webhook has a value that can be used.

    Args:
        owner: The file, for the error.

    Raises:
        InputError: It has none, or a short one; the error does not contain it.
    """
    if not (name := starter.trigger.secret):
        return
    value = find_secret(name)
    if not value:
        raise InputError(f"{owner}: webhook: {missing_text([name])}")
    if len(value) < SHORTEST_KEY:
        raise InputError(
            f"{owner}: webhook: the secret {name} has fewer than {SHORTEST_KEY} characters, and could be guessed; make one: "
            "python -c 'import secrets; print(secrets.token_urlsafe())'"
        )
