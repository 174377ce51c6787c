"""The node types that come with operad."""

from collections.abc import Mapping
from typing import Any

from operad.operators.node import NodeOperator
from operad.operators.nodes.containers import Iteration, IterationStart, Loop, LoopEnd, LoopStart, SubWorkflow
from operad.operators.nodes.files import (
    DocumentExtractor,
    ECharts,
    MarkdownExporter,
    MermaidConverter,
    TextToImage,
    TextToSpeech,
)
from operad.operators.nodes.flow import Answer, End, IfElse, Start
from operad.operators.nodes.models import LLM, ParameterExtractor, QuestionClassifier
from operad.operators.nodes.sources import GoogleSearch, HttpRequest, KnowledgeRetrieval, ToolNode
from operad.operators.nodes.values import (
    Assigner,
    Code,
    Conversation,
    ListOperator,
    TemplateTransform,
    VariableAggregator,
)

CHAT2WORKFLOW_TYPES: Mapping[str, type[NodeOperator[Any]]] = {
    node_type.type: node_type
    for node_type in (
        Start,
        End,
        LLM,
        QuestionClassifier,
        Code,
        DocumentExtractor,
        HttpRequest,
        IfElse,
        ListOperator,
        ParameterExtractor,
        TemplateTransform,
        VariableAggregator,
        Iteration,
        IterationStart,
        TextToSpeech,
        TextToImage,
        MermaidConverter,
        MarkdownExporter,
        GoogleSearch,
        ECharts,
    )
}
"""The twenty types of Chat2Workflow (section 2.4), by name."""

NODE_TYPES: Mapping[str, type[NodeOperator[Any]]] = {
    **CHAT2WORKFLOW_TYPES,
    **{
        node_type.type: node_type
        for node_type in (
            Answer,
            Conversation,
            Assigner,
            Loop,
            LoopStart,
            LoopEnd,
            KnowledgeRetrieval,
            ToolNode,
            SubWorkflow,
        )
    },
}
"""All node types that come with operad, by name."""
