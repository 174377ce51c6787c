"""AWEL DAGs of our own, run by AWEL's own runner, by ours, and as an operator of a workflow."""

# pyright: basic
import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("dbgpt")

from operad import OperadError, Workflow
from operad.runtime.graph.awel import AwelRunner
from operad.runtime.workflow.awel import AwelOperator

from dbgpt.core.awel import DefaultWorkflowRunner  # isort: skip

DATA = Path(__file__).parents[1] / "data" / "awel_cases"
OUTCOMES = json.loads((DATA / "outcomes.json").read_text(encoding="utf-8"))
SAME = [name for name, outcome in OUTCOMES.items() if "result" in outcome]
DIFFERS = [name for name, outcome in OUTCOMES.items() if "differs" in outcome]
REFUSED = [name for name, outcome in OUTCOMES.items() if "refused" in outcome]

RUNNER = DefaultWorkflowRunner()


def end_of(name: str) -> Any:
    """The end node of a DAG, built anew."""
    spec = importlib.util.spec_from_file_location(f"awel_case_{name}", DATA / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.build()


def error_of(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


async def run(name: str, runner: Any) -> Any:
    """The output of a DAG that is called with a word, or its error."""
    try:
        context = await runner.execute_workflow(end_of(name), {"data": "fig"})
    except (Exception, RecursionError) as error:  # noqa: BLE001 - compared
        return error_of(error)
    output = context.current_task_context.task_output.output
    return output if isinstance(output, str | int | list) else str(output)


async def within_a_workflow(name: str) -> Any:
    """The output of a workflow whose only operator is the DAG."""
    try:
        return (await Workflow(AwelOperator(end_of(name))).arun("fig")).output
    except OperadError as error:
        return error_of(error.__cause__ or error)


@pytest.mark.parametrize("name", SAME)
async def test_a_dag_runs_as_in_awels_own_runner(name: str) -> None:
    expected = OUTCOMES[name]["result"]
    assert await run(name, RUNNER) == expected
    assert await run(name, AwelRunner()) == expected
    assert await within_a_workflow(name) == expected


@pytest.mark.parametrize("name", DIFFERS)
async def test_a_dag_that_runs_otherwise_does_so_as_documented(name: str) -> None:
    outcome = OUTCOMES[name]
    assert (await run(name, RUNNER), await run(name, AwelRunner())) == (outcome["there"], outcome["here"])


@pytest.mark.parametrize("name", REFUSED)
async def test_a_refusal_names_the_nodes_and_what_to_do(name: str) -> None:
    outcome = OUTCOMES[name]
    assert str(await run(name, RUNNER)).startswith(outcome["there"])
    assert outcome["refused"] in await run(name, AwelRunner())
