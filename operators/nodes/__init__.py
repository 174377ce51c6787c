"""Built-in node types."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

from operad.operators.node import NodeOperator


class _NodeTypes(Mapping[str, type[NodeOperator[Any]]]):
    """Node types by name. Classes are imported on first access, because a workflow uses few of them.

    Args:
        homes: ``module:class`` of each type, by name; modules are those of this package.
    """

    def __init__(self, homes: Mapping[str, str]) -> None:
        self._homes = homes

    def __getitem__(self, name: str) -> type[NodeOperator[Any]]:
        module, _, node_type = self._homes[name].partition(":")
        return getattr(import_module(f"{__name__}.{module}"), node_type)

    def __contains__(self, name: object) -> bool:
        return name in self._homes

    def __iter__(self) -> Iterator[str]:
        return iter(self._homes)

    def __len__(self) -> int:
        return len(self._homes)


_CHAT2WORKFLOW = {
    "start": "flow:Start",
    "end": "flow:End",
    "llm": "models:LLM",
    "question-classifier": "models:QuestionClassifier",
    "code": "values:Code",
    "document-extractor": "files:DocumentExtractor",
    "http-request": "http:HttpRequest",
    "if-else": "flow:IfElse",
    "list-operator": "lists:ListOperator",
    "parameter-extractor": "extractor:ParameterExtractor",
    "template-transform": "values:TemplateTransform",
    "variable-aggregator": "values:VariableAggregator",
    "iteration": "containers:Iteration",
    "iteration-start": "containers:IterationStart",
    "tts": "files:TextToSpeech",
    "text2image": "files:TextToImage",
    "mermaid-converter": "files:MermaidConverter",
    "markdown-exporter": "files:MarkdownExporter",
    "google-search": "sources:GoogleSearch",
    "echarts": "files:ECharts",
}
_OTHERS = {
    "answer": "flow:Answer",
    "conversation": "values:Conversation",
    "assigner": "values:Assigner",
    "loop": "containers:Loop",
    "loop-start": "containers:LoopStart",
    "loop-end": "containers:LoopEnd",
    "knowledge-retrieval": "sources:KnowledgeRetrieval",
    "agent": "agents:Agent",
    "human-input": "agents:HumanInput",
    "request": "http:Request",
    "tool": "sources:ToolNode",
    "sub-workflow": "containers:SubWorkflow",
    "comfyui": "comfyui:ComfyUINode",
}

CHAT2WORKFLOW_TYPES: Mapping[str, type[NodeOperator[Any]]] = _NodeTypes(_CHAT2WORKFLOW)
"""The twenty node types of Chat2Workflow (section 2.4), by name."""

NODE_TYPES: Mapping[str, type[NodeOperator[Any]]] = _NodeTypes({**_CHAT2WORKFLOW, **_OTHERS})
"""All node types that come with operad, by name."""
