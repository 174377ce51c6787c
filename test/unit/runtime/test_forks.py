"""Workflows that were used before a fork: the children work, and the parent goes on."""

import sys

import pytest

pytestmark = pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="this system does not fork")

PREPARE = """
import os, sys, threading, warnings
from operad import Cache, Insights, Job, Limits, Operator, PausedError, Policy, RunContext, Workflow, operator
warnings.simplefilter("ignore")

def repeat(job: Job) -> str:
    return "r" + job.goal

def in_child(work):
    pid = os.fork()
    if not pid:
        try:
            print(work(), flush=True)
        except BaseException as error:
            print(type(error).__name__, error, flush=True)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0

def check(work):
    print(work(0), flush=True)
    in_child(lambda: work(1))
    in_child(lambda: work(2))
    print(work(3), flush=True)
"""


@pytest.fixture
def lines(forked, tmp_path):
    """Function that runs code in a process of its own, which forks, and returns the lines it prints."""

    def run(code: str, *arguments: str) -> list[str]:
        done = forked.run([sys.executable, "-c", PREPARE + code, *arguments], cwd=tmp_path, timeout=100)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.splitlines()

    return run


USES = {
    "in memory": "flow = Workflow(operator(repeat))",
    "with limits": "flow = Workflow(operator(repeat), limits=Limits(concurrency=1, requests_per_minute=1000))",
    "with a cache": "flow = Workflow(operator(repeat, policy=Policy(cache=Cache())))",
    "with a cache in a file": "flow = Workflow(operator(repeat, policy=Policy(cache=Cache('cache.db'))))",
    "with insights": "flow = Workflow(operator(repeat), insights=Insights('insights.db'))",
    "durable": "flow = Workflow(operator(repeat), durable='runs.db')",
}


@pytest.mark.parametrize("flow", USES.values(), ids=USES)
def test_a_workflow_works_in_children_and_in_their_parent(lines, flow):
    assert lines(f"{flow}\ncheck(lambda number: flow.run(str(number)).text)") == ["r0", "r1", "r2", "r3"]


def test_a_durable_workflow_on_postgresql_works_in_children_and_in_their_parent(lines, postgresql):
    code = """
flow = Workflow(operator(repeat), durable=sys.argv[1])

def work(name):
    return "".join(flow.run(str(number), run_id=f"{name}-{number}").text for number in range(20))

expected = work("before")
children = []
for name in "abc":  # at the same time as the parent
    pid = os.fork()
    if not pid:
        os._exit(0 if work(name) == expected else 1)
    children.append(pid)
print(work("parent") == expected, [os.waitpid(pid, 0)[1] for pid in children])
"""
    assert lines(code, postgresql.new()) == ["True [0, 0, 0]"]


def test_children_of_a_process_that_writes_into_the_file_work_and_so_does_the_process(lines):
    code = """
flow = Workflow(operator(repeat), durable="runs.db")
flow.run("first")  # imports what it needs: a fork in the middle of an import harms any Python
stop, ended = threading.Event(), []

def work(name):
    number = 0
    while not stop.is_set():
        number += 1
        flow.run("x", run_id=f"{name}-{number}")
    ended.append(number)

threads = [threading.Thread(target=work, args=(name,)) for name in "abc"]
for thread in threads:
    thread.start()
for child in range(5):
    in_child(lambda: "".join(flow.run(str(number), run_id=f"child-{child}-{number}").text for number in range(3)))
stop.set()
for thread in threads:
    thread.join()
print(len(ended))
"""
    assert lines(code) == ["r0r1r2"] * 5 + ["3"]


def test_a_model_that_was_asked_before_is_asked_by_children(lines):
    code = """
from operad.testing import Say, ScriptedModel
with ScriptedModel(lambda _: Say("yes")) as scripted:
    flow = Workflow(Operator("Answer."), model=scripted.model)
    check(lambda number: flow.run(str(number)).text)
"""
    assert lines(code) == ["yes"] * 4


def test_a_place_that_the_parent_holds_is_free_in_a_child(lines):
    code = """
begun, free = threading.Event(), threading.Event()

def hold(job: Job) -> str:
    begun.set()
    free.wait(60)
    return "held"

flow = Workflow(operator(hold), limits=Limits(concurrency=1))
thread = threading.Thread(target=lambda: print(flow.run("go").text, flush=True))
thread.start()
begun.wait(60)
in_child(lambda: free.set() or flow.run("go").text + " in the child")
free.set()
thread.join()
"""
    assert lines(code) == ["held in the child", "held"]


def test_a_paused_run_belongs_to_the_process_that_paused_it(lines):
    code = """
async def ask(job: Job, context: RunContext) -> str:
    return await context.ask("Go on?")

for durable in (None, "runs.db"):
    flow = Workflow(operator(ask), durable=durable, name="flow")
    try:
        flow.run("go", run_id="r")
    except PausedError:
        pass
    in_child(lambda: flow.resume("r", "yes").text)
    print(flow.resume("r", "yes").text, flush=True)
"""
    of_memory, first, of_file, second = lines(code)
    assert of_memory.startswith("InputError workflow 'flow': no run with the id 'r' is in progress")
    assert of_file.startswith("InputError workflow 'flow': run 'r' is in progress in another process")
    assert (first, second) == ("yes", "yes")


def test_a_function_of_a_workflow_may_fork(lines):
    code = """
import multiprocessing
inner = Workflow(operator(repeat))

def work(number):
    return inner.run(str(number)).text

def outer(job: Job) -> str:
    with multiprocessing.get_context("fork").Pool(2) as pool:
        return " ".join(pool.map(work, range(3)))

print(Workflow(operator(outer)).run("go").text)
"""
    assert lines(code) == ["r0 r1 r2"]


def test_a_process_may_fork_in_its_event_loop(lines):
    code = """
import asyncio
flow = Workflow(operator(repeat), durable="runs.db")

async def main():
    print((await flow.arun("0")).text, flush=True)
    in_child(lambda: flow.run("1").text)
    print((await flow.arun("2")).text, flush=True)

asyncio.run(main())
"""
    assert lines(code) == ["r0", "r1", "r2"]
