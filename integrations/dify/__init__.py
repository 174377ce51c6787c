"""Dify: its workflow files."""

from operad.operators.integration import Integration

_TRIGGER = "begin with a start node, or with one trigger, and let no edge lead to it"
_SOURCE = "begin with a start node whose inputs are the files"
_INDEX = "index the documents beside the workflow: `knowledge` of the services names their folder"

INTEGRATION = Integration(
    name="dify",
    writing="operad.operators.variables:DIFY",
    formats={"dify": "operad.integrations.dify.format:DIFY"},
    advice={
        "dify-agent": "add an agent node with the instruction and the tools of the agent, which is kept in Dify and not in the file",
        "datasource": _SOURCE,
        "datasource-empty": _SOURCE,
        "knowledge-index": _INDEX,
        "trigger-plugin": _TRIGGER,
        "trigger-schedule": _TRIGGER,
        "trigger-webhook": _TRIGGER,
    },
)
