"""What runs: messages, workflows and their engines, reasoners, tools, events."""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from operad.runtime import events
    from operad.runtime.agent import Agent, Expert, Profile
    from operad.runtime.cache import Cache
    from operad.runtime.documents import Documents
    from operad.runtime.errors import (
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
    from operad.runtime.file import FileDescriptor
    from operad.runtime.file_store import FileStore
    from operad.runtime.function import FunctionOperator, Take, operator
    from operad.runtime.graph import Executable, WorkflowGraph
    from operad.runtime.handle import RunHandle
    from operad.runtime.insights import Insights, KeptInsight
    from operad.runtime.interrupts import interrupt
    from operad.runtime.job_graph import JobGraph
    from operad.runtime.keeper import idempotency_key
    from operad.runtime.knowledge import Insight, Knowledge, KnowledgeBase, Passage
    from operad.runtime.leader import Leader
    from operad.runtime.limits import Limits
    from operad.runtime.map import ItemError, Map
    from operad.runtime.message import Contribution, Job, SubJob, Usage, WorkflowMessage, WorkflowStatus
    from operad.runtime.model import Model, Price, resolve_model
    from operad.runtime.policy import Budget, Policy, Retry, Timeout
    from operad.runtime.questions import Question
    from operad.runtime.reasoner import DualModelReasoner, MonoModelReasoner, Reasoner
    from operad.runtime.result import Result
    from operad.runtime.run_context import RunContext
    from operad.runtime.task import Example, Task
    from operad.runtime.tool import Tool, ToolGroup
    from operad.runtime.toolkit import Action, Toolkit
    from operad.runtime.trails import trail
    from operad.runtime.workflow import BuiltinWorkflow, DbgptWorkflow, DurableWorkflow, Port, Workflow

__all__ = [
    "Action",
    "Agent",
    "AnswerError",
    "Budget",
    "BudgetError",
    "BuiltinWorkflow",
    "Cache",
    "Contribution",
    "DbgptWorkflow",
    "Documents",
    "DualModelReasoner",
    "DurableWorkflow",
    "Example",
    "Executable",
    "Expert",
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
    "KeptInsight",
    "Knowledge",
    "KnowledgeBase",
    "Leader",
    "Limits",
    "Map",
    "MissingExtraError",
    "Model",
    "ModelError",
    "MonoModelReasoner",
    "OperadError",
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
    "Result",
    "Retry",
    "RunContext",
    "RunHandle",
    "RunningLoopError",
    "SkippedError",
    "SubJob",
    "Take",
    "Task",
    "Timeout",
    "Tool",
    "ToolError",
    "ToolGroup",
    "Toolkit",
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
    "trail",
]

_HOMES = {
    name: module
    for module, names in {
        "agent": "Agent Expert Profile",
        "cache": "Cache",
        "documents": "Documents",
        "errors": "AnswerError BudgetError FaultError InputError InvalidError Issue JobError MissingExtraError ModelError "
        "OperadError OperatorError OperatorTimeoutError PausedError PortError RunningLoopError SkippedError ToolError",
        "file": "FileDescriptor",
        "file_store": "FileStore",
        "function": "FunctionOperator Take operator",
        "graph": "Executable WorkflowGraph",
        "handle": "RunHandle",
        "insights": "Insights KeptInsight",
        "interrupts": "interrupt",
        "job_graph": "JobGraph",
        "keeper": "idempotency_key",
        "knowledge": "Insight Knowledge KnowledgeBase Passage",
        "leader": "Leader",
        "limits": "Limits",
        "map": "ItemError Map",
        "message": "Contribution Job SubJob Usage WorkflowMessage WorkflowStatus",
        "model": "Model Price resolve_model",
        "policy": "Budget Policy Retry Timeout",
        "questions": "Question",
        "reasoner": "DualModelReasoner MonoModelReasoner Reasoner",
        "result": "Result",
        "run_context": "RunContext",
        "task": "Example Task",
        "tool": "Tool ToolGroup",
        "toolkit": "Action Toolkit",
        "trails": "trail",
        "workflow": "BuiltinWorkflow DbgptWorkflow DurableWorkflow Port Workflow",
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
