"""Runtime: messages, workflows and their engines, reasoners, tools, events."""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from operad.runtime import events
    from operad.runtime.agents.agent import Agent, Expert, Profile
    from operad.runtime.agents.job_graph import JobGraph
    from operad.runtime.agents.leader import Leader
    from operad.runtime.durable.file_store import FileStore
    from operad.runtime.durable.ledger import DurableWorkflow
    from operad.runtime.durable.memory import Memory, Remembered
    from operad.runtime.events.interrupts import interrupt
    from operad.runtime.events.journal import idempotency_key
    from operad.runtime.events.run_context import MissingDepsError, RunContext
    from operad.runtime.graph.call import OperatorCall, RunOptions, StreamOptions
    from operad.runtime.graph.chat2graph import Executable
    from operad.runtime.graph.edges import Port, Take
    from operad.runtime.graph.graph import WorkflowGraph
    from operad.runtime.graph.operator import BaseOperator
    from operad.runtime.knowledge.documents import Documents
    from operad.runtime.knowledge.insights import Insights, KeptInsight
    from operad.runtime.knowledge.knowledge import Insight, Knowledge, KnowledgeBase, Passage
    from operad.runtime.models.embedding import EmbeddingModel
    from operad.runtime.models.minilm import MiniLM
    from operad.runtime.models.model import Model
    from operad.runtime.models.resolve import resolve_model
    from operad.runtime.models.turn import Price
    from operad.runtime.policies.cache import Cache
    from operad.runtime.policies.limits import Limits
    from operad.runtime.policies.policy import Budget, Policy, Retry, Timeout
    from operad.runtime.reasoning.reasoner import DualModelReasoner, MonoModelReasoner, Reasoner
    from operad.runtime.reasoning.task import Example, Task
    from operad.runtime.tools.tool import Tool, ToolGroup
    from operad.runtime.tools.toolkit import Action, Toolkit
    from operad.runtime.values.errors import (
        AnswerError,
        BudgetError,
        FaultError,
        InputError,
        InvalidError,
        Issue,
        JobError,
        MissingExtraError,
        ModelError,
        OperadError,
        OperatorError,
        OperatorTimeoutError,
        PausedError,
        PortError,
        RunningLoopError,
        SkippedError,
        ToolError,
    )
    from operad.runtime.values.fault import Fault
    from operad.runtime.values.file import FileDescriptor
    from operad.runtime.values.message import Job, SubJob, Turn, Usage, WorkflowMessage, WorkflowStatus
    from operad.runtime.values.questions import Question
    from operad.runtime.values.step_record import StepRecord, ToolUse
    from operad.runtime.workflow.chat import Chat
    from operad.runtime.workflow.chat_store import ChatStore, KeptChat
    from operad.runtime.workflow.evaluate import EvaluationOptions
    from operad.runtime.workflow.function import FunctionOperator, operator
    from operad.runtime.workflow.map import ItemError, Map
    from operad.runtime.workflow.records import transcript
    from operad.runtime.workflow.result import Result
    from operad.runtime.workflow.runs import RunHandle
    from operad.runtime.workflow.workflow import BuiltinWorkflow, DbgptWorkflow, Workflow

__all__ = [
    "Action",
    "Agent",
    "AnswerError",
    "BaseOperator",
    "Budget",
    "BudgetError",
    "BuiltinWorkflow",
    "Cache",
    "Chat",
    "ChatStore",
    "DbgptWorkflow",
    "Documents",
    "DualModelReasoner",
    "DurableWorkflow",
    "EmbeddingModel",
    "EvaluationOptions",
    "Example",
    "Executable",
    "Expert",
    "Fault",
    "FaultError",
    "FileDescriptor",
    "FileStore",
    "FunctionOperator",
    "InputError",
    "Insight",
    "Insights",
    "InvalidError",
    "Issue",
    "ItemError",
    "Job",
    "JobError",
    "JobGraph",
    "KeptChat",
    "KeptInsight",
    "Knowledge",
    "KnowledgeBase",
    "Leader",
    "Limits",
    "Map",
    "Memory",
    "MiniLM",
    "MissingDepsError",
    "MissingExtraError",
    "Model",
    "ModelError",
    "MonoModelReasoner",
    "OperadError",
    "OperatorCall",
    "OperatorError",
    "OperatorTimeoutError",
    "Passage",
    "PausedError",
    "Policy",
    "Port",
    "PortError",
    "Price",
    "Profile",
    "Question",
    "Reasoner",
    "Remembered",
    "Result",
    "Retry",
    "RunContext",
    "RunHandle",
    "RunOptions",
    "RunningLoopError",
    "SkippedError",
    "StepRecord",
    "StreamOptions",
    "SubJob",
    "Take",
    "Task",
    "Timeout",
    "Tool",
    "ToolError",
    "ToolGroup",
    "ToolUse",
    "Toolkit",
    "Turn",
    "Usage",
    "Workflow",
    "WorkflowGraph",
    "WorkflowMessage",
    "WorkflowStatus",
    "events",
    "idempotency_key",
    "interrupt",
    "operator",
    "resolve_model",
    "transcript",
]

_HOMES = {
    name: module
    for module, names in {
        "agents.agent": "Agent Expert Profile",
        "policies.cache": "Cache",
        "knowledge.documents": "Documents",
        "values.errors": "AnswerError BudgetError FaultError InputError InvalidError Issue JobError "
        "MissingExtraError ModelError OperadError OperatorError OperatorTimeoutError PausedError PortError RunningLoopError SkippedError ToolError",
        "values.file": "FileDescriptor",
        "durable.file_store": "FileStore",
        "workflow.chat": "Chat",
        "workflow.chat_store": "ChatStore KeptChat",
        "workflow.function": "FunctionOperator Take operator",
        "graph.call": "OperatorCall RunOptions StreamOptions",
        "graph.chat2graph": "Executable",
        "graph.edges": "Port",
        "graph.graph": "WorkflowGraph",
        "graph.operator": "BaseOperator",
        "workflow.evaluate": "EvaluationOptions",
        "workflow.runs": "RunHandle",
        "knowledge.insights": "Insights KeptInsight",
        "events.interrupts": "interrupt",
        "agents.job_graph": "JobGraph",
        "events.journal": "idempotency_key",
        "knowledge.knowledge": "Insight Knowledge KnowledgeBase Passage",
        "agents.leader": "Leader",
        "policies.limits": "Limits",
        "workflow.map": "ItemError Map",
        "values.fault": "Fault",
        "values.step_record": "StepRecord ToolUse",
        "values.message": "Job SubJob Turn Usage WorkflowMessage WorkflowStatus",
        "models.embedding": "EmbeddingModel",
        "models.minilm": "MiniLM",
        "models.model": "Model",
        "models.turn": "Price",
        "models.resolve": "resolve_model",
        "policies.policy": "Budget Policy Retry Timeout",
        "values.questions": "Question",
        "reasoning.reasoner": "DualModelReasoner MonoModelReasoner Reasoner",
        "workflow.result": "Result",
        "events.run_context": "MissingDepsError RunContext",
        "reasoning.task": "Example Task",
        "tools.tool": "Tool ToolGroup",
        "tools.toolkit": "Action Toolkit",
        "workflow.records": "transcript",
        "durable.ledger": "DurableWorkflow",
        "durable.memory": "Memory Remembered",
        "workflow.workflow": "BuiltinWorkflow DbgptWorkflow Workflow",
    }.items()
    for name in names.split()
}
"""The module of each public name. A module is imported when one of its names is used: commands that need little start fast."""


def __getattr__(name: str) -> object:
    if name == "events":
        return importlib.import_module(f"{__name__}.events")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
