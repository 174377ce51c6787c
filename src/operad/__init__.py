"""Build, run, evaluate and optimize LLM workflows.

Every name below is imported when it is first used, so that `import operad` itself takes almost no time. The packages
`operad.runtime`, `operad.operators` and `operad.evaluators` hold these names, too, and more of them.
"""

TYPE_CHECKING = False  # as of typing, which takes a while to import: until then, nothing handles Ctrl-C
if TYPE_CHECKING:
    from operad.configs import load_workflow
    from operad.evaluators import Evaluator
    from operad.operators import Operator, OperatorConfig
    from operad.runtime import (
        Action,
        Budget,
        Cache,
        Documents,
        DualModelReasoner,
        Example,
        Expert,
        Fault,
        FaultError,
        FileDescriptor,
        InputError,
        Insights,
        InvalidError,
        ItemError,
        Job,
        Leader,
        Limits,
        Map,
        Model,
        MonoModelReasoner,
        OperadError,
        OperatorError,
        PausedError,
        Policy,
        Question,
        Reasoner,
        Result,
        Retry,
        RunContext,
        RunHandle,
        Take,
        Task,
        Timeout,
        Tool,
        Toolkit,
        Workflow,
        WorkflowMessage,
        WorkflowStatus,
        events,
        interrupt,
        operator,
    )
    from operad.runtime.observe.tracing import OpenTelemetryListener
    from operad.runtime.tools.tool import tool

__all__ = [
    "Action",
    "Budget",
    "Cache",
    "Documents",
    "DualModelReasoner",
    "Evaluator",
    "Example",
    "Expert",
    "Fault",
    "FaultError",
    "FileDescriptor",
    "InputError",
    "Insights",
    "InvalidError",
    "ItemError",
    "Job",
    "Leader",
    "Limits",
    "Map",
    "Model",
    "MonoModelReasoner",
    "OpenTelemetryListener",
    "OperadError",
    "Operator",
    "OperatorConfig",
    "OperatorError",
    "PausedError",
    "Policy",
    "Question",
    "Reasoner",
    "Result",
    "Retry",
    "RunContext",
    "RunHandle",
    "Take",
    "Task",
    "Timeout",
    "Tool",
    "Toolkit",
    "Workflow",
    "WorkflowMessage",
    "WorkflowStatus",
    "events",
    "interrupt",
    "load_workflow",
    "operator",
    "tool",
]

_ELSEWHERE = {
    "Evaluator": "operad.evaluators",
    "OpenTelemetryListener": "operad.runtime.observe.tracing",
    "Operator": "operad.operators",
    "OperatorConfig": "operad.operators",
    "load_workflow": "operad.configs",
    "tool": "operad.runtime.tools.tool",  # whose name the module takes in operad.runtime
}
"""The module of each public name that does not come from `operad.runtime`."""


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    package = import_module(_ELSEWHERE.get(name, "operad.runtime"))
    value = globals()[name] = getattr(package, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
