"""Node kinds of AgentFlow v2 and the fields of their dialogs, which exported nodes repeat.

In the table, ``name:type`` is a field; ``*`` after the type marks one whose variables Flowise fills in, ``!`` one with a
configuration of its own, ``=a|b`` the choices, and ``(…)`` the fields of the items of a list.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from operad.flows.formats.shapes import Fields

SUFFIX = "Agentflow"
STICKY_NOTE = "stickyNoteAgentflow"
START, LLM, AGENT, CONDITION = "startAgentflow", "llmAgentflow", "agentAgentflow", "conditionAgentflow"
CLASSIFIER, HUMAN, LOOP, ITERATION = (
    "conditionAgentAgentflow",
    "humanInputAgentflow",
    "loopAgentflow",
    "iterationAgentflow",
)
HTTP, TOOL, RETRIEVER, FUNCTION = "httpAgentflow", "toolAgentflow", "retrieverAgentflow", "customFunctionAgentflow"
EXECUTE, REPLY = "executeFlowAgentflow", "directReplyAgentflow"

DECISIONS = (CONDITION, CLASSIFIER, HUMAN)
"""Kinds whose edges leave from numbered outputs."""


class Kind(NamedTuple):
    """Kind of node.

    Attributes:
        label: The label of new nodes.
        version: The version of the kind whose fields are listed.
        color: The colour of the node and its edges.
        fields: The fields of the dialog, as in the module's table.
    """

    label: str
    version: float
    color: str
    fields: str


_STATE = "UpdateState:array*(key:asyncOptions value:string*)"
_MESSAGES = "Messages:array*(role:options=system|assistant|developer|user content:string*)"
_MEMORY = (
    "{0}EnableMemory:boolean {0}MemoryType:options=allMessages|windowSize|conversationSummary|conversationSummaryBuffer "
    "{0}MemoryWindowSize:number {0}MemoryMaxTokenLimit:number {0}UserMessage:string* "
    "{0}ReturnResponseAs:options=userMessage|assistantMessage "
    "{0}StructuredOutput:array*(key:string type:options=string|stringArray|number|boolean|enum|jsonArray "
    "enumValues:string jsonSchema:code description:string) {0}" + _STATE
)
_PAIRS = ":array*(key:string value:string*)"

KINDS: Mapping[str, Kind] = {
    START: Kind("Start", 1.2, "#7EE787", "startInputType:options=chatInput|formInput|webhookTrigger formTitle:string "
        "formDescription:string formInputTypes:array(type:options=string|number|boolean|options label:string name:string "
        "addOptions:array(option:string)) startEphemeralMemory:boolean startState:array(key:string value:string) "
        "startPersistState:boolean"),
    LLM: Kind("LLM", 1.1, "#64B5F6", f"llmModel:asyncOptions! llm{_MESSAGES} {_MEMORY.format('llm')}"),
    AGENT: Kind("Agent", 3.2, "#4DD0E1", f"agentModel:asyncOptions! agent{_MESSAGES} "
        "agentTools:array(agentSelectedTool:asyncOptions! agentSelectedToolRequiresHumanInput:boolean) "
        "agentKnowledgeDocumentStores:array(documentStore:asyncOptions docStoreDescription:string "
        f"returnSourceDocuments:boolean) {_MEMORY.format('agent')}"),
    CONDITION: Kind("Condition", 1, "#FFB938", "conditions:array*(type:options=string|number|boolean value1:string* "
        "operation:options=contains|endsWith|equal|notContains|notEqual|regex|startsWith|isEmpty|notEmpty|smaller|"
        "smallerEqual|larger|largerEqual value2:string*)"),
    CLASSIFIER: Kind("Condition Agent", 1.1, "#ff8fab", "conditionAgentModel:asyncOptions! "
        "conditionAgentInstructions:string* conditionAgentInput:string* conditionAgentScenarios:array(scenario:string) "
        "conditionAgentOverrideSystemPrompt:boolean conditionAgentSystemPrompt:string*"),
    HUMAN: Kind("Human Input", 1, "#6E6EFD", "humanInputDescriptionType:options=fixed|dynamic "
        "humanInputDescription:string* humanInputModel:asyncOptions! humanInputModelPrompt:string* "
        "humanInputEnableFeedback:boolean"),
    LOOP: Kind("Loop", 1.2, "#FFA07A", f"loopBackToNode:asyncOptions maxLoopCount:number fallbackMessage:string* "
        f"loop{_STATE}"),
    ITERATION: Kind("Iteration", 1, "#9C89B8", "iterationInput:string* "
        "iterationOutputStructure:options=aggregatedText|jsonArray"),
    HTTP: Kind("HTTP", 1.1, "#FF7F7F", f"method:options=GET|POST|PUT|DELETE|PATCH url:string* headers{_PAIRS} "
        f"queryParams{_PAIRS} bodyType:options=json|raw|formData|xWwwFormUrlencoded body:string* "
        "responseType:options=json|text|arraybuffer|base64"),
    TOOL: Kind("Tool", 1.2, "#d4a373", "toolAgentflowSelectedTool:asyncOptions! "
        f"toolInputArgs:array*(inputArgName:asyncOptions inputArgValue:string*) tool{_STATE}"),
    RETRIEVER: Kind("Retriever", 1.1, "#b8bedd", "retrieverKnowledgeDocumentStores:array(documentStore:asyncOptions) "
        f"retrieverQuery:string* outputFormat:options=text|textWithMetadata retriever{_STATE}"),
    FUNCTION: Kind("Custom Function", 1, "#E4B7FF", "customFunctionInputVariables:array*(variableName:string "
        f"variableValue:string*) customFunctionJavascriptFunction:code customFunction{_STATE}"),
    EXECUTE: Kind("Execute Flow", 1.2, "#a3b18a", "executeFlowSelectedFlow:asyncOptions executeFlowInput:string* "
        "executeFlowOverrideConfig:json* executeFlowBaseURL:string "
        f"executeFlowReturnResponseAs:options=userMessage|assistantMessage executeFlow{_STATE}"),
    REPLY: Kind("Direct Reply", 1, "#4DDBBB", "directReplyMessage:string*"),
}  # fmt: skip
"""Kinds of the nodes that run, by their names in files."""

WITHOUT_OUTPUT = (LOOP, REPLY)
"""Kinds without an edge to other nodes."""

_FIELD = re.compile(r"(?P<name>\w+):(?P<type>\w+)(?P<star>\*?)(?P<load>!?)(?:=(?P<of>[\w|]+))?(?P<open>\(?)|\)")


def fields_of_kind(kind: str) -> list[Fields]:
    """Return the fields that exported nodes of that kind list under ``inputParams``."""
    top: list[Fields] = []
    levels = [top]
    for found in _FIELD.finditer(KINDS[kind].fields):
        if found[0] == ")":
            levels.pop()
            continue
        words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", found["name"])
        field: Fields = {"label": words[:1].upper() + words[1:], "name": found["name"], "type": found["type"]}
        field |= {"acceptVariable": True} if found["star"] else {}
        field |= {"loadConfig": True} if found["load"] else {}
        field |= {"options": [{"label": each, "name": each} for each in found["of"].split("|")]} if found["of"] else {}
        levels[-1].append(field)
        if found["open"]:
            inner: list[Fields] = []
            field["array"] = inner
            levels.append(inner)
    return top


def accepting(kind: str) -> Sequence[str]:
    """Return the names of the fields whose variables Flowise fills in."""
    return [field["name"] for field in fields_of_kind(kind) if field.get("acceptVariable")] if kind in KINDS else []
