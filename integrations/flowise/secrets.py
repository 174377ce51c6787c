"""Keys that are written in the requests of a file, which become named secrets."""

from __future__ import annotations

from operad.flows.secrets import with_named_keys
from operad.integrations.flowise.draft import Draft
from operad.runtime.values.keys_in_text import KeyNames


def with_secrets(draft: Draft) -> tuple[Draft, dict[str, str]]:
    """Return the nodes with the keys of requests as secrets, and the values of these secrets by name."""
    names = KeyNames()
    requests = [spec for spec in draft.specs.values() if spec.type == "request"]
    draft.specs |= {spec.id: spec for spec in with_named_keys(requests, names)}
    return draft, names.values
