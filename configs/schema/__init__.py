"""Shape of a configuration file, after Chat2Graph's: one class per part, in `ConfigSpec`.

These declarations validate a file, and are printed as JSON Schema by ``operad schema``, so that editors complete it.
"""

from __future__ import annotations

from operad.configs.schema.base import OTHER_NAMES, Spec, title
from operad.configs.schema.file import KINDS, ConfigSpec, DurableSpec, EnvSpec, ExpertSpec, LeaderSpec, json_schema
from operad.configs.schema.limits import ERRORS, BudgetSpec, CacheSpec, ReplacementSpec, RetrySpec
from operad.configs.schema.models import EmbeddingsSpec, LimitsSpec, MakerSpec, ModelSpec
from operad.configs.schema.operators import (
    FUNCTION,
    NEEDS_NODES,
    NODE,
    OPERATOR,
    SEVERAL,
    CheckSpec,
    FallbackSpec,
    FunctionSpec,
    GuardSpec,
    MapSpec,
    OperatorSpec,
    PolicySpec,
    StepSpec,
    TypedSpec,
    WorkflowLikeSpec,
    WorkflowSpec,
)
from operad.configs.schema.services import (
    CodeSpec,
    HttpSpec,
    ImagesSpec,
    KnowledgeSpec,
    SearchSpec,
    ServicesSpec,
    SpeechSpec,
)
from operad.configs.schema.tools import ActionSpec, LocalToolSpec, McpToolSpec, ReadyToolSpec, ToolSpec, dotted_tool

__all__ = [
    "ERRORS",
    "FUNCTION",
    "KINDS",
    "NEEDS_NODES",
    "NODE",
    "OPERATOR",
    "OTHER_NAMES",
    "SEVERAL",
    "ActionSpec",
    "BudgetSpec",
    "CacheSpec",
    "CheckSpec",
    "CodeSpec",
    "ConfigSpec",
    "DurableSpec",
    "EmbeddingsSpec",
    "EnvSpec",
    "ExpertSpec",
    "FallbackSpec",
    "FunctionSpec",
    "GuardSpec",
    "HttpSpec",
    "ImagesSpec",
    "KnowledgeSpec",
    "LeaderSpec",
    "LimitsSpec",
    "LocalToolSpec",
    "MakerSpec",
    "MapSpec",
    "McpToolSpec",
    "ModelSpec",
    "OperatorSpec",
    "PolicySpec",
    "ReadyToolSpec",
    "ReplacementSpec",
    "RetrySpec",
    "SearchSpec",
    "ServicesSpec",
    "Spec",
    "SpeechSpec",
    "StepSpec",
    "ToolSpec",
    "TypedSpec",
    "WorkflowLikeSpec",
    "WorkflowSpec",
    "dotted_tool",
    "json_schema",
    "title",
]
