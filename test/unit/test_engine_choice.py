"""Which engine runs a workflow, with dbgpt and in a process that cannot import it."""

import subprocess
import sys
from pathlib import Path

import pytest
from amounts import sample

from operad.runtime import BuiltinWorkflow, DbgptWorkflow, Job, Workflow, WorkflowMessage, events
from operad.runtime.testing import ScriptedReasoner

JOB = Job(goal="goal")
NOBODY = ScriptedReasoner([])

HIDDEN = """
import sys
sys.modules[{package!r}] = None  # as if it were not installed
from operad.runtime import *
from operad.runtime.testing import ScriptedReasoner
from operad.configs.loader import load

class Shout:
    def get_id(self):
        return "shout"

    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        return WorkflowMessage(scratchpad=job.goal.upper())

def run(workflow):
    workflow.add_operator(Shout())
    workflow.add_listener(lambda event: print(event.engine) if isinstance(event, events.RunStarted) else None)
    return workflow.execute(Job(goal="goal"), ScriptedReasoner([])).scratchpad
"""


class Shout:
    def get_id(self) -> str:
        return "shout"

    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        return WorkflowMessage(scratchpad=job.goal.upper())


def without(package: str, script: str, folder: Path) -> list[str]:
    """The lines that a script prints where a package is not installed."""
    code = HIDDEN.format(package=package) + script
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("kind", "engine"), [(Workflow, "dbgpt"), (DbgptWorkflow, "dbgpt"), (BuiltinWorkflow, "builtin")]
)
def test_the_engine_is_in_the_repr_and_in_the_events(kind, engine):
    started = []
    workflow = kind(name="w", listeners=[started.append])
    assert repr(workflow) == f"<{kind.__name__} 'w': 0 operators, engine {engine}>"
    workflow.add_operator(Shout())
    assert repr(workflow) == f"<{kind.__name__} 'w': 1 operator, engine {engine}>"
    assert workflow.execute(JOB, NOBODY).scratchpad == "GOAL"
    assert [event.engine for event in started if isinstance(event, events.RunStarted)] == [engine]


def test_a_workflow_inside_another_says_its_own_engine():
    entered = []
    inner, outer = BuiltinWorkflow(name="inner"), Workflow(name="outer", listeners=[entered.append])
    inner.add_operator(Shout())
    outer.add_operator(inner)
    outer.execute(JOB, NOBODY)
    kinds = (events.RunStarted, events.WorkflowEntered)
    assert [(e.workflow, e.engine) for e in entered if isinstance(e, kinds)] == [
        ("outer", "dbgpt"),
        ("inner", "builtin"),
    ]


def test_to_know_the_engine_dbgpt_is_not_imported(tmp_path):
    script = "import sys; from operad.runtime import Workflow; print(Workflow(), 'dbgpt' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "<Workflow 'workflow': 0 operators, engine dbgpt> False\n"


@pytest.mark.parametrize(
    ("package", "why"),
    sample(
        [
            ("dbgpt", "No module named 'dbgpt.core'; 'dbgpt' is not a package"),
            ("cloudpickle", "import of cloudpickle halted; None in sys.modules"),
        ],
        2,
    ),
)
def test_without_dbgpt_the_built_in_engine_runs_workflows(package, why, tmp_path):
    script = """
print(Workflow())
print(run(Workflow()))
try:
    run(DbgptWorkflow(name="w"))
except MissingExtraError as error:
    print(error)
"""
    assert without(package, script, tmp_path) == [
        "<Workflow 'workflow': 0 operators, engine builtin>",
        "builtin",
        "GOAL",
        f"workflow 'w': the AWEL engine needs dbgpt ({why}): "
        "pip install --no-deps 'dbgpt>=0.8.2,<0.9' cloudpickle cachetools; "
        "Workflow and BuiltinWorkflow run without it",
    ]


def test_without_dbgpt_a_file_runs_on_the_built_in_engine_unless_it_asks_for_dbgpt(tmp_path):
    file = """\
operators:
  - &greet {instruction: Greet.}
experts:
  - profile: {name: Greeter, desc: Greets.}
    workflow: [[*greet]]
"""
    (tmp_path / "greeter.yaml").write_text(file)
    (tmp_path / "awel.yaml").write_text(file + "plugin: {workflow_platform: DBGPT}\n")
    script = """
print(load("greeter.yaml").expert().workflow)
try:
    load("awel.yaml")
except InvalidError as error:
    print(*error.issues)
"""
    assert without("dbgpt", script, tmp_path) == [
        "<Workflow 'Greeter': 1 operator, engine builtin>",
        "[platform] awel.yaml:6 plugin.workflow_platform: DBGPT needs dbgpt: "
        "pip install --no-deps 'dbgpt>=0.8.2,<0.9' cloudpickle cachetools; "
        "without a platform, the built-in engine runs the workflows",
    ]


def test_an_event_kept_by_an_earlier_version_names_no_engine():
    kept = {"event": "RunStarted", "workflow": "w", "goal": "g", "operators": {"a": []}}
    assert events.read_event(kept) == events.RunStarted(workflow="w", goal="g", operators={"a": ()}, engine="")
