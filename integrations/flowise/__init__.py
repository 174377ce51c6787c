"""Flowise: the files of its AgentFlow v2."""

from operad.operators.integration import Integration

INTEGRATION = Integration(
    name="flowise",
    formats={"flowise": "operad.integrations.flowise.format:FLOWISE"},
    writing="operad.integrations.flowise.writing:WRITING",
)
