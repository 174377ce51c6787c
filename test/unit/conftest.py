import os
from pathlib import Path

import pytest

from operad.runtime import BuiltinWorkflow, Job, OperatorError, events
from operad.runtime.testing import ScriptedReasoner

SHARED = Path(__file__).parents[3] / "shared" / "data"


@pytest.fixture
def shared_data():
    """Real data that is not part of this repository: a machine without it skips, CI fails."""
    if not SHARED.is_dir():
        if os.environ.get("CI"):
            pytest.fail(f"{SHARED} is missing")
        pytest.skip(f"{SHARED} is not on this machine")
    return SHARED


class _Code:
    """Code as an operator."""

    def __init__(self, operator_id, work):
        self._id = operator_id
        self._work = work
        self.result = None

    def get_id(self):
        return self._id

    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        self.result = await self._work()
        return ""


@pytest.fixture
def in_a_run():
    """Runs code as an operator of a real workflow: ``result, heard = await in_a_run(work)``.

    `work` is awaited in the operator; what it raises is raised here. `heard` holds the events that
    it emitted, without those by which the workflow says that it runs.
    """
    own = (events.OperatorStarted, events.OperatorFinished)

    async def in_a_run(work, operator_id="op", run_id="run"):
        heard = []
        code, workflow = _Code(operator_id, work), BuiltinWorkflow(listeners=[heard.append])
        workflow.add_operator(code)
        try:
            await workflow.aexecute(Job(goal="goal"), ScriptedReasoner([]), run_id=run_id)
        except OperatorError as error:
            raise (error.__cause__ or error) from None
        return code.result, [event for event in heard if event.operator_id and not isinstance(event, own)]

    return in_a_run
