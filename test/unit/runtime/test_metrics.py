"""What runs do, counted; as Prometheus reads it."""

import asyncio
import urllib.request

import pytest

pytest.importorskip("prometheus_client")

from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families

from operad.runtime import (
    BuiltinWorkflow,
    Cache,
    InputError,
    Job,
    MonoModelReasoner,
    OperatorError,
    Policy,
    Retry,
    Usage,
    WorkflowMessage,
    WorkflowStatus,
    events,
    interrupt,
)
from operad.runtime.events import emit
from operad.runtime.events.log import Repeat, repeating
from operad.runtime.observe.metrics import MOST_NAMES, OTHER, Metrics, exposition, serve
from operad.runtime.testing import ScriptedModel, ScriptedReasoner

JOB = Job(goal="goal")
USAGE = Usage(calls=1, prompt_tokens=7, completion_tokens=3, cost=0.5)


class Do:
    def __init__(self, op_id, work=None):
        self._id, self._work = op_id, work

    def get_id(self):
        return self._id

    def fingerprint(self):
        return {"id": self._id}

    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        said = self._work() if self._work else self._id
        return await said if asyncio.iscoroutine(said) else said


@pytest.fixture
def metrics():
    return Metrics()


def counted(metrics):
    """Each sample that is not 0, by its name and its labels in order of their names."""
    text, kind = exposition(metrics.registry)
    assert kind.startswith("text/plain")
    return {
        (sample.name.removeprefix("operad_"), *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
        if sample.value and not sample.name.endswith(("_created", "_bucket", "_sum"))
    }


async def run(metrics, *operators, **options):
    workflow = BuiltinWorkflow(name="flow", listeners=[metrics], **options)
    for operator in operators:
        workflow.add_operator(operator)
    return await workflow.aexecute(JOB, ScriptedReasoner([]))


async def test_runs_operators_models_and_tools_are_counted(metrics):
    def work():
        emit(events.ModelAnswered(model="m", usage=USAGE))
        emit(events.ModelFailed(call_id="2", model="m", error="no"))
        emit(events.ToolReturned(call_id="1", tool="look", result="", failed=False, seconds=0.1))
        emit(events.ToolReturned(call_id="2", tool="look", result="", failed=True, seconds=0.1))
        return ""

    await run(metrics, Do("a", work), Do("b"))
    assert counted(metrics) == {
        ("runs_started_total", "flow"): 1,
        ("runs_finished_total", "SUCCESS", "flow"): 1,
        ("operator_seconds_count", "a", "finished", "flow"): 1,
        ("operator_seconds_count", "b", "finished", "flow"): 1,
        ("model_calls_total", "m", "answered"): 1,
        ("model_calls_total", "m", "failed"): 1,
        ("model_tokens_total", "prompt", "m"): 7,
        ("model_tokens_total", "completion", "m"): 3,
        ("model_cost_total", "m"): 0.5,
        ("tool_calls_total", "returned", "look"): 1,
        ("tool_calls_total", "failed", "look"): 1,
        ("tool_seconds_count", "look"): 2,
    }


async def test_how_runs_ended_is_told_apart(metrics):
    def fail():
        raise ValueError

    class Judge(Do):
        async def execute(self, *_, **__):
            return WorkflowMessage(status=WorkflowStatus.EXECUTION_ERROR)

    with pytest.raises(OperatorError):
        await run(metrics, Do("a", fail))
    workflow = BuiltinWorkflow(name="flow", listeners=[metrics])
    workflow.add_operator(Do("a"))
    workflow.set_evaluator(Judge("judge"))
    await workflow.aexecute(JOB, ScriptedReasoner([]))
    seen = counted(metrics)
    assert seen["runs_finished_total", "failed", "flow"] == seen["runs_finished_total", "EXECUTION_ERROR", "flow"] == 1
    assert seen["operator_seconds_count", "a", "failed", "flow"] == 1


async def test_operators_at_work_are_seen_while_they_are(metrics):
    seen = []

    async def look():
        await asyncio.sleep(0)
        seen.append(counted(metrics)["operators_running",])
        return ""

    await run(metrics, Do("a", look), Do("b", look))
    assert seen == [2, 2] or seen == [2, 1]
    assert ("operators_running",) not in counted(metrics)


async def test_attempts_that_failed_are_counted(metrics):
    left = [ValueError(), ValueError()]

    def fail_twice():
        if left:
            raise left.pop()
        return ""

    await run(metrics, Do("a", fail_twice), policy=Policy(retry=Retry(3, first_delay=0.001, on=(ValueError,))))
    assert counted(metrics)["operator_retries_total", "a", "flow"] == 2


async def test_requests_to_models_that_are_sent_again_are_counted(metrics):
    async def be_refused():
        for retry in (1, 2):
            emit(events.ModelRetried(call_id="c", model="m", error="busy", delay=0.0, retry=retry))
        return ""

    await run(metrics, Do("a", be_refused))
    assert counted(metrics)["model_retries_total", "m"] == 2


async def test_open_questions_are_seen_until_they_are_answered(metrics):
    async def ask():
        return str(await interrupt("Which?"))

    workflow = BuiltinWorkflow(listeners=[metrics])
    workflow.add_operator(Do("a", ask))
    stream = workflow.stream(JOB, ScriptedReasoner([]), run_id="R")
    async for event in stream:
        if isinstance(event, events.Interrupted):
            assert counted(metrics)["open_questions",] == 1
            stream.answer({event.interrupt_id: "this"})
    assert ("open_questions",) not in counted(metrics)


async def test_what_was_cached_is_no_operator_at_work(metrics):
    cache = Cache()
    with ScriptedModel([]) as endpoint:
        for _ in range(2):
            workflow = BuiltinWorkflow(name="flow", listeners=[metrics], policy=Policy(cache=cache))
            workflow.add_operator(Do("a"))
            await workflow.aexecute(JOB, MonoModelReasoner(endpoint.model))
    assert counted(metrics)["operator_seconds_count", "a", "finished", "flow"] == 1


async def test_what_is_told_once_more_is_not_counted_again(metrics):
    def work():
        with repeating(Repeat(traced=False)):
            emit(events.ModelAnswered(model="m", usage=USAGE))
        return ""

    await run(metrics, Do("a", work))
    assert not [name for name, *_ in counted(metrics) if name.startswith("model_")]


async def test_names_that_models_make_up_do_not_fill_the_memory(metrics):
    def work():
        for number in range(MOST_NAMES + 100):
            emit(events.ToolReturned(call_id="1", tool=f"t{number}", result="", failed=True, seconds=0.1))
        return ""

    await run(metrics, Do("a", work))
    seen = counted(metrics)
    assert len([name for name, *_ in seen if name == "tool_calls_total"]) == MOST_NAMES + 1
    assert seen["tool_calls_total", "failed", OTHER] == 100


async def test_names_that_no_encoding_can_say_and_long_ones_can_be_told(metrics):
    def work():
        for name in ("\ud800", "t" * 100_000):
            emit(events.ToolReturned(call_id="1", tool=name, result="", failed=True, seconds=0.1))
        return ""

    await run(metrics, Do("a", work))
    assert len(exposition(metrics.registry)[0]) < 20_000
    assert counted(metrics)["tool_calls_total", "failed", "\\ud800"] == 1


def test_the_programs_own_metrics_are_left_alone(metrics):
    assert "operad" not in exposition(REGISTRY)[0].decode()
    assert set(counted(Metrics())) == set()


def test_they_are_served_on_this_machine(metrics):
    metrics.watch("answer", "All.", lambda: 42)
    port, stop = serve(metrics.registry, 0)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        assert b"operad_answer 42.0" in answer.read()
    with pytest.raises(InputError, match=f"127.0.0.1:{port}: .*; choose another host or port"):
        serve(metrics.registry, port)
    stop()
