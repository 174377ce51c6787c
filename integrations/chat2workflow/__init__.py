"""Chat2Workflow: pass rate and resolve rate of the workflows that models write."""

from operad.operators.integration import Integration

INTEGRATION = Integration(
    name="chat2workflow",
    commands={
        "pass": "operad.integrations.chat2workflow.commands.pass_rate:pass_rate",
        "resolve": "operad.integrations.chat2workflow.commands.resolve:resolve",
    },
)
