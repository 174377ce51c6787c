"""Operators without a model, for tests of workflows."""

import inspect
from typing import Any


class Do:
    """Operator that returns its id, or calls a function, with the messages if the function takes them."""

    def __init__(self, op_id, work=None):
        self._id = op_id
        self._work = work
        self.calls = 0

    def get_id(self):
        return self._id

    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        self.calls += 1
        if self._work is None:
            return self._say(workflow_messages or ())
        result = self._work(workflow_messages) if inspect.signature(self._work).parameters else self._work()
        return await result if inspect.isawaitable(result) else result

    def _say(self, messages):
        return self._id


class Echo(Do):
    """Operator that returns its id and, in brackets, the texts of its messages; or calls a function."""

    def _say(self, messages):
        return f"{self._id}({' '.join(message.scratchpad for message in messages)})"


def chain(workflow, *operators, **options) -> Any:
    """Return the workflow with these operators one after another, or a new one of that class."""
    workflow = workflow(**options) if isinstance(workflow, type) else workflow
    for before, operator in zip([None, *operators], operators, strict=False):
        workflow.add_operator(operator, [before] if before else [])
    return workflow
