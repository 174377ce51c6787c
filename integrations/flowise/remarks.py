"""Differences between the behaviour of a file here and in Flowise: those of the fields, and those found by reading."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from operad.flows.formats.fields import Behaviour, Owner, Remark, Table, is_set, remarks_on, table, unless
from operad.flows.formats.shapes import fields_of
from operad.flows.node_graph import NodeGraph, NodeSpec
from operad.integrations.flowise import kinds
from operad.integrations.flowise.draft import Draft, with_secrets
from operad.integrations.flowise.flow_file import FlowFile, faults
from operad.integrations.flowise.read import read_flow
from operad.integrations.flowise.write import NAME
from operad.runtime.values.errors import InvalidError

_WEBHOOK = "parts of the request are inputs of the run, such as webhook.body.name"
_OVERRIDE = "the model chooses by Operad's own prompt"
_BUILT_IN = "the model has no tools of its vendor; name tools under Tools"
_KNOWLEDGE = "the agent looks nothing up; add a retriever before it, or a tool that searches"


def _fields(kind: str, **more: Mapping[str, Behaviour]) -> Table:
    """Return the declarations of the fields of one kind: those of its dialog are honoured, unless `more` says otherwise."""
    names = [str(field["name"]) for field in kinds.fields_of_kind(kind)]
    loads = [f"{field['name']}Config" for field in kinds.fields_of_kind(kind) if field.get("loadConfig")]
    declared = {name for each in more.values() for name in each}
    honoured = [name for name in (*names, *loads) if name not in declared]
    return table(honoured=" ".join(honoured), no_effect="credential", lossy=more.get("lossy"), note=more.get("note"))


FIELDS: Mapping[str, Table] = {
    kind: _fields(kind) for kind in kinds.KINDS
} | {
    kinds.START: _fields(
        kinds.START,
        note={
            "formTitle": "is not shown", "formDescription": "is not shown", "webhookBodyParams": _WEBHOOK,
            "webhookQueryParams": _WEBHOOK, "webhookHeaderParams": _WEBHOOK,
        },
        lossy={"callbackUrl": "no result is sent there"},
    )
    | table(
        no_effect="webhookMethod webhookContentType webhookURL webhookSecret webhookSignatureHeader webhookSignatureType "
        "callbackSecret"
    ),
    kinds.AGENT: _fields(
        kinds.AGENT,
        lossy={
            "agentStructuredOutput": "the agent answers in words; let an llm node after it give the fields",
            "agentToolsBuiltInOpenAI": _BUILT_IN,
            "agentToolsBuiltInGemini": _BUILT_IN,
            "agentToolsBuiltInAnthropic": _BUILT_IN,
            "agentKnowledgeDocumentStores": _KNOWLEDGE,
            "agentKnowledgeVSEmbeddings": _KNOWLEDGE,
        },
    ),
    kinds.ITERATION: _fields(
        kinds.ITERATION, lossy={"iterationOutputStructure": ("the results are one text", unless("aggregatedText"))}
    ),
    kinds.CLASSIFIER: _fields(kinds.CLASSIFIER, lossy={"conditionAgentOverrideSystemPrompt": _OVERRIDE})
    | table(no_effect="conditionAgentSystemPrompt"),
}  # fmt: skip
"""Fields of the dialog of each kind."""


def draft_of(graph: NodeGraph) -> tuple[FlowFile, Draft] | None:
    """Return the file that a workflow was read from, and its nodes; None for any other workflow."""
    root = fields_of(graph.extra.get(NAME)).get("file")
    if not isinstance(root, dict) or list(faults(root)):
        return None
    file = FlowFile(fields_of(root))
    try:
        return file, with_secrets(read_flow(file))[0]
    except InvalidError:
        return None


def same(one: NodeSpec | None, other: NodeSpec | None) -> bool:
    """Return True if two nodes are of one type with the same parameters."""
    return one is not None and other is not None and (one.type, one.params) == (other.type, other.params)


def remarks_of(graph: NodeGraph) -> Iterator[Remark]:
    """Yield the remarks on a workflow that was read from a file of Flowise, for nodes that are still as they were."""
    if (found := draft_of(graph)) is None:
        return
    file, draft = found
    for node in file.nodes.values():
        ids = draft.groups.get(node.id, [])
        if ids and not any(same(graph.by_id.get(each), draft.specs.get(each)) for each in ids):
            continue
        yield from (remark for remark in draft.remarks if remark.node == node.id)
        if node.kind in FIELDS:
            given = {name: each for name, each in node.inputs.items() if is_set(each)}
            yield from remarks_on(given, FIELDS[node.kind], Owner(node.id, node.label))
