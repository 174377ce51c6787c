"""Common parts of several workflows of `dify_cases.py`."""

from __future__ import annotations

TURNS = [("user", "Hello"), ("assistant", "Hi."), ("user", "Who?"), ("assistant", "Ada.")]
ASKED = {"sys.query": "And now?"}
MEMORY = {"window": {"enabled": False, "size": 10}, "query_prompt_template": "{{#sys.query#}}"}
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}}},
    "required": ["name", "tags"],
    "additionalProperties": False,
}
BOOM = "raise ValueError('boom')"
RETRY = {"retry_enabled": True, "max_retries": 3, "retry_interval": 1}
NAMED = [{"key": "out", "type": "string", "value": "instead"}]
VALUES = {"error_strategy": "default-value", "default_value": NAMED}
BRANCH = {"error_strategy": "fail-branch"}
API = {"base": "ECHO"}
