"""Flowise: the files of its AgentFlow v2."""

from operad.operators.integration import Integration

INTEGRATION = Integration(
    name="flowise",
    formats={"flowise": "operad.integrations.flowise.format:FLOWISE"},
    advice={
        "smartAgentAgentflow": "use an Agent node, whose tools the services name; plans, files and skills of a Smart Agent are not read"
    },
    writing="operad.integrations.flowise.writing:WRITING",
)
