"""Built-in node types."""

from collections.abc import Iterator, Mapping
from typing import Any

from operad.operators.integration import integrations, named
from operad.operators.node import NodeOperator


class _NodeTypes(Mapping[str, type[NodeOperator[Any]]]):
    """Node types by name. Classes are imported on first access, because a workflow uses few of them.

    Args:
        homes: ``module:class`` of each type, by name; modules are those of this package.
        integrated: True to add the types of integrations, which are looked up only for names that `homes` lacks.
    """

    def __init__(self, homes: Mapping[str, str], *, integrated: bool = False) -> None:
        self._homes = homes
        self._integrated = integrated

    def _others(self) -> dict[str, str]:
        if not self._integrated:
            return {}
        return {name: home for each in integrations() for name, home in each.node_types.items()}

    def __getitem__(self, name: str) -> type[NodeOperator[Any]]:
        home = self._homes.get(name)
        return named(f"{__name__}.{home}" if home else self._others()[name])

    def __contains__(self, name: object) -> bool:
        return name in self._homes or name in self._others()

    def __iter__(self) -> Iterator[str]:
        return iter({**self._homes, **self._others()})

    def __len__(self) -> int:
        return len(self._homes) + len(self._others())


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
}

CHAT2WORKFLOW_TYPES: Mapping[str, type[NodeOperator[Any]]] = _NodeTypes(_CHAT2WORKFLOW)
"""The twenty node types of Chat2Workflow (section 2.4), by name."""

NODE_TYPES: Mapping[str, type[NodeOperator[Any]]] = _NodeTypes({**_CHAT2WORKFLOW, **_OTHERS}, integrated=True)
"""All node types by name: those that come with operad, and those of other installed integrations."""
