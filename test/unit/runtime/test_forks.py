"""Workflows that were used before a fork work in the children, and go on in the parent.

Each program runs in a process of its own, because the test process has threads.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")]

BEGIN = """
import faulthandler, os, sys, threading, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # since 3.12, of forks in processes with threads
from operad import *
from operad.testing import Say, ScriptedModel
sys.stdout.reconfigure(line_buffering=True)

def in_children(number, work):
    for index in range(number):
        if os.fork() == 0:
            faulthandler.dump_traceback_later(20, exit=True)  # not before the fork, which its thread would not survive
            try:
                print("child", work(index))
            except BaseException as error:
                print("child failed:", repr(error)[:300])
            os._exit(0)
    for _ in range(number):
        os.wait()
"""


def lines_of(program: str, folder: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + program], cwd=folder, capture_output=True, text=True, timeout=90, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return sorted(done.stdout.splitlines())


DURABLE = """
flow = Workflow(operator(lambda job: "r" + job.goal, id="r"), durable={database!r}, name="f")
print("before", flow.run("0", run_id="p").text)
in_children(3, lambda index: flow.run(str(index), run_id=f"c{{index}}").text)
print("parent", flow.run("9", run_id="after").text)
print("again", flow.run("0", run_id="p").text)
os._exit(0)
"""


def test_a_durable_workflow_in_sqlite_works_in_children_and_goes_on_in_the_parent(tmp_path: Path):
    lines = lines_of(DURABLE.format(database="runs.db"), tmp_path)
    assert lines == ["again r0", "before r0", "child r0", "child r1", "child r2", "parent r9"]


def test_a_durable_workflow_in_postgresql_works_in_children_and_goes_on_in_the_parent(postgresql: Any, tmp_path: Path):
    lines = lines_of(DURABLE.format(database=postgresql.new()), tmp_path)
    assert lines == ["again r0", "before r0", "child r0", "child r1", "child r2", "parent r9"]


def test_a_workflow_in_memory_with_a_model_a_cache_and_limits_works_in_children(tmp_path: Path):
    program = """
with ScriptedModel(lambda request: Say("said")) as endpoint:
    model = endpoint.model.model_copy(update={"limits": Limits(concurrency=2)})
    def end(ask: str, job: Job) -> str:
        return ask + job.goal
    ask = Operator("Say it.", id="ask", policy=Policy(cache=Cache("cache.db")))
    flow = Workflow(ask >> operator(end), model=model)
    print("before", flow.run("0").text)
    in_children(2, lambda index: flow.run(str(index)).text)
    print("parent", flow.run("9").text)
os._exit(0)
"""
    assert lines_of(program, tmp_path) == ["before said0", "child said0", "child said1", "parent said9"]


def test_a_fork_in_the_middle_of_runs_leaves_them_to_the_parent(tmp_path: Path):
    program = """
begun, go = threading.Event(), threading.Event()
def waits(job: Job) -> str:
    begun.set()
    go.wait(20)
    return "waited"
slow = Workflow(operator(waits, id="w"), durable="runs.db", name="slow")
quick = Workflow(operator(lambda job: "quick", id="q"), durable="runs.db", name="quick")
said = []
thread = threading.Thread(target=lambda: said.append(slow.run("x", run_id="slow").text))
thread.start()
begun.wait(20)
in_children(2, lambda index: quick.run("x", run_id=f"c{index}").text)
go.set()
thread.join(20)
print("parent", *said)
os._exit(0)
"""
    assert lines_of(program, tmp_path) == ["child quick", "child quick", "parent waited"]


def test_sync_functions_and_tools_run_in_children(tmp_path: Path):
    program = """
inner = Workflow(operator(lambda job: job.goal, id="i"), name="inner")
def step(index):
    return operator(lambda job: inner.run(str(index)).text, id=f"n{index}")
outer = Workflow([step(index) for index in range(70)], name="outer")
print("before", len(outer.run("x").output))
in_children(2, lambda _: len(outer.run("x").output))
print("parent", len(outer.run("x").output))
os._exit(0)
"""
    assert lines_of(program, tmp_path) == ["before 70", "child 70", "child 70", "parent 70"]


def test_children_and_parent_use_postgresql_at_the_same_time(postgresql: Any, tmp_path: Path):
    program = f"""
flow = Workflow(operator(lambda job: "r" + job.goal, id="r"), durable={postgresql.new()!r}, name="f")
def work(name):
    return "".join(flow.run(str(number), run_id=f"{{name}}{{number}}").text for number in range(20))
expected, children = work("before"), []
for name in "abc":
    pid = os.fork()
    if not pid:
        os._exit(0 if work(name) == expected else 1)
    children.append(pid)
print(work("parent") == expected, [os.waitpid(pid, 0)[1] for pid in children])
os._exit(0)
"""
    assert lines_of(program, tmp_path) == ["True [0, 0, 0]"]


def test_insights_in_a_file_work_in_children(tmp_path: Path):
    program = """
flow = Workflow(operator(lambda job: job.goal, id="r"), insights=Insights("insights.db"))
print("before", flow.run("0").text)
def work(index):
    flow.run(str(index))
    flow.insights.close()  # waits until the file is written
    return index
in_children(2, work)
print("parent", work(9))
os._exit(0)
"""
    assert lines_of(program, tmp_path) == ["before 0", "child 0", "child 1", "parent 9"]


def test_a_paused_run_belongs_to_the_process_that_paused_it(tmp_path: Path):
    program = """
async def ask(job: Job, context: RunContext) -> str:
    return await context.ask("Go on?")
for kept in (None, "runs.db"):
    flow = Workflow(operator(ask), durable=kept, name="flow")
    try:
        flow.run("go", run_id="r")
    except PausedError:
        in_children(1, lambda _: flow.resume("r", "yes").text)
    print("parent", flow.resume("r", "yes").text)
os._exit(0)
"""
    in_file, in_memory, *others = lines_of(program, tmp_path)
    assert "run 'r' is in progress in another process" in in_file + in_memory
    assert "no run with the id 'r' is in progress" in in_file + in_memory
    assert others == ["parent yes", "parent yes"]


def test_a_process_may_fork_in_its_event_loop_and_in_a_function_of_a_run(tmp_path: Path):
    program = """
import asyncio, multiprocessing
flow = Workflow(operator(lambda job: "r" + job.goal, id="r"), durable="runs.db", name="f")
async def main():
    await flow.arun("0")
    in_children(1, lambda _: flow.run("1").text)
    print("parent", (await flow.arun("2")).text)
def one(number):
    return flow.run(str(number)).text
def forks(job: Job) -> str:
    with multiprocessing.get_context("fork").Pool(2) as pool:
        return " ".join(pool.map(one, range(3)))
asyncio.run(main())
print(Workflow(operator(forks)).run("go").text)
os._exit(0)
"""
    assert lines_of(program, tmp_path) == ["child r1", "parent r2", "r0 r1 r2"]
