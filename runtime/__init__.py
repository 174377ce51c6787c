"""What runs: messages, workflows and their engines, reasoners, tools, events."""

from operad.runtime import events
from operad.runtime.agent import Expert, Profile
from operad.runtime.errors import (
    AnswerError,
    InputError,
    InvalidError,
    Issue,
    MissingExtraError,
    ModelError,
    OperadError,
    OperatorError,
    RunningLoopError,
    ToolError,
)
from operad.runtime.file import FileDescriptor
from operad.runtime.graph import Executable, WorkflowGraph
from operad.runtime.knowledge import Insight, Knowledge, KnowledgeBase, Passage
from operad.runtime.message import Job, SubJob, Usage, WorkflowMessage, WorkflowStatus
from operad.runtime.model import Model, resolve_model
from operad.runtime.reasoner import DualModelReasoner, MonoModelReasoner, Reasoner
from operad.runtime.task import Example, Task
from operad.runtime.tool import Tool, ToolGroup
from operad.runtime.toolkit import Action, Toolkit
from operad.runtime.workflow import BuiltinWorkflow, DbgptWorkflow, Workflow

__all__ = [
    "Action",
    "AnswerError",
    "BuiltinWorkflow",
    "DbgptWorkflow",
    "DualModelReasoner",
    "Example",
    "Executable",
    "Expert",
    "FileDescriptor",
    "InputError",
    "Insight",
    "InvalidError",
    "Issue",
    "Job",
    "Knowledge",
    "KnowledgeBase",
    "MissingExtraError",
    "Model",
    "ModelError",
    "MonoModelReasoner",
    "OperadError",
    "OperatorError",
    "Passage",
    "Profile",
    "Reasoner",
    "RunningLoopError",
    "SubJob",
    "Task",
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
    "resolve_model",
]
