"""Rules of webhooks that experts and start nodes share."""

from __future__ import annotations

MAX_WAIT = 300
"""Maximum number of seconds for which a webhook waits for the result."""

HOW_TO_NAME_IT = (
    "write the name of a secret, with letters, digits and _, such as HOOK_SECRET; operad secrets set NAME stores it"
)
