"""WorFBench: its workflows, and WorFEval, which scores a workflow against a gold one."""

from operad.operators.integration import Integration

INTEGRATION = Integration(
    name="worfbench",
    formats={"worfbench": "operad.integrations.worfbench.plan:WORFBENCH"},
    commands={"worf": "operad.integrations.worfbench.command:worf"},
)
