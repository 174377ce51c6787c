"""Processes that are forked from one that has used workflows: children work, and the parent goes on."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SECONDS = 40.0

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")

CHILDREN = """
import faulthandler, os, sys, threading, traceback
from operad import *
from operad import operator

sys.stdout.reconfigure(line_buffering=True, write_through=False)  # a line in one piece: children share the pipe

def forked(*works):
    "Call functions in children, and end with them; a child that hangs ends with its stacks."
    children = []
    for work in works:
        sys.stdout.flush()
        pid = os.fork()
        if not pid:
            faulthandler.dump_traceback_later(20, exit=True)
            try:
                print(work(), flush=True)
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        children.append(pid)
    assert [os.waitpid(pid, 0)[1] for pid in children] == [0] * len(children)
"""
"""Start of a program; its process may have threads at the fork, which Python from 3.12 on warns of."""


@pytest.fixture
def program(forked, tmp_path) -> Callable[..., list[str]]:
    """Return a function that runs a program, and returns the lines that it and its children print, sorted."""

    def lines_of(code: str, *arguments: str) -> list[str]:
        command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", CHILDREN + code, *arguments]
        done = forked.run(command, timeout=SECONDS, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return sorted(done.stdout.splitlines())

    return lines_of


IN_MEMORY = """
flow = Workflow([operator(lambda job: "r" + job.goal, id="r")], name="f")
print(flow.run("0").text)
forked(lambda: flow.run("1").text, lambda: "".join(flow.stream_text("2")))
print(flow.run("3").text)
"""

DURABLE = """
flow = Workflow([operator(lambda job: "r" + job.goal, id="r")], name="f", durable=sys.argv[1])
print(flow.run("0", run_id="a").text)
forked(*[lambda each=each: flow.run(each, run_id="c" + each).text for each in "12"])
print(flow.run("3", run_id="b").text)
"""


def test_a_workflow_in_memory_that_ran_before_a_fork_runs_in_the_children_and_in_the_parent(program):
    assert program(IN_MEMORY) == ["r0", "r1", "r2", "r3"]


def test_a_durable_workflow_in_an_sqlite_file_that_ran_before_a_fork_runs_in_the_children_and_in_the_parent(program):
    assert program(DURABLE, "runs.db") == ["r0", "r1", "r2", "r3"]


@pytest.mark.slow
def test_a_durable_workflow_in_postgresql_that_ran_before_a_fork_runs_in_the_children_and_in_the_parent(
    program, postgresql
):
    assert program(DURABLE, postgresql.new()) == ["r0", "r1", "r2", "r3"]


def test_a_run_that_a_function_forks_from_inside_goes_on(program):
    code = """
inner = Workflow(operator(lambda job: "inner " + job.goal, id="inner"))
def fork(job):
    inner.run("0")
    forked(lambda: inner.run("1").text)
    return inner.run("2").text
print(Workflow(fork).run("q").text)
"""
    assert program(code) == ["inner 1", "inner 2"]


def test_a_run_in_progress_at_a_fork_keeps_its_limits_and_threads_to_the_parent(program):
    code = """
begun, go_on = threading.Event(), threading.Event()
def wait(job):
    begun.set()
    go_on.wait(50)
    return job.goal
flow = Workflow(operator(wait), limits=Limits(concurrency=1))
running = threading.Thread(target=lambda: print(flow.run("parent").text), daemon=True)
running.start()
assert begun.wait(50)
def child():
    go_on.set()
    return flow.run("child").text
forked(child)
go_on.set()
running.join(50)
print(flow.run("later").text)
"""
    assert program(code) == ["child", "later", "parent"]


def test_functions_that_were_given_up_before_a_fork_are_not_counted_in_the_child(program):
    code = """
from operad.runtime.values.function_threads import abandoned_functions
def hang(job):
    threading.Event().wait()
flow = Workflow(operator(hang, policy=Policy(timeout=Timeout(run=0.05), fallback="given up")))
print(flow.run("q").text)
forked(lambda: f"child {len(abandoned_functions())}")
print(f"parent {len(abandoned_functions())}")
"""
    assert program(code) == ["child 0", "given up", "parent 1"]


def test_a_model_that_was_called_before_a_fork_is_called_by_the_children_and_the_parent(program):
    code = """
from operad.testing import Say, ScriptedModel
with ScriptedModel(lambda request: Say(request["messages"][-1]["content"][-1:])) as served:
    flow = Workflow(Operator("Repeat."), model=served.model)
    answers = [flow.run("0").text]
    forked(*[lambda each=each: flow.run(each).status.name for each in "12"])
    answers.append(flow.run("3").text)
    print(len(served.requests), len(answers))
"""
    assert program(code) == ["4 2", "SUCCESS", "SUCCESS"]


def printed(code):
    """Lines that a new interpreter prints: it drops its modules at its end, which a forked one does not."""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * SECONDS, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return sorted(done.stdout.splitlines())


@pytest.mark.slow
def test_the_embedded_model_that_was_called_before_a_fork_is_called_by_a_child_which_ends():
    """Threads of the library stay with the parent; a child that waited for them would never end."""
    pytest.importorskip("xllamacpp")
    code = """
import asyncio, faulthandler, os, sys
from operad.runtime.models.embedded import EmbeddedModel
from operad.runtime.models.messages import Message
def ask():
    return asyncio.run(EmbeddedModel(max_tokens=3).complete([Message.user("Name a fruit.")])).text
known = ask()
child = os.fork()
if not child:
    faulthandler.dump_traceback_later(40, exit=True)
    print("child", ask() == known)
    sys.exit(7)
print("parent", ask() == known, os.waitpid(child, 0)[1] >> 8)
"""
    assert printed(code) == ["child True", "parent True 7"]


def test_what_is_left_to_the_parent_is_not_deleted_when_a_child_ends():
    code = """
import os
from operad.runtime.values.forks import after_fork, leave_to_parent
class Pool:
    def __del__(self, write=os.write, pid=os.getpid, parent=os.getpid()):
        write(1, b"deleted in the parent\\n" if pid() == parent else b"deleted in the child\\n")
pool = Pool()
@after_fork
def renew():
    global pool
    leave_to_parent(pool)
    del pool
child = os.fork()
if child:
    print("the child ended", os.waitpid(child, 0)[1], flush=True)
"""
    assert printed(code) == ["deleted in the parent", "the child ended 0"]


def test_a_cache_file_that_was_read_before_a_fork_serves_the_children_and_the_parent(program):
    code = """
def once(job):
    print("called for", job.goal, flush=True)
    return job.goal
flow = Workflow(operator(once, policy=Policy(cache=Cache("kept.sqlite"))))
flow.run("a")
forked(lambda: flow.run("a").text, lambda: flow.run("b").text)
print(flow.run("b").text)
"""
    assert program(code) == ["a", "b", "b", "called for a", "called for b"]


def test_insights_in_a_file_that_were_used_before_a_fork_serve_the_children_and_the_parent(program):
    code = """
import sqlite3
from operad.testing import ScriptedReasoner
insights = Insights("insights.sqlite")
insights.entries()
other = sqlite3.connect("insights.sqlite", check_same_thread=False)
def check(result: str):
    if "careful" not in result:
        raise FaultError("careless", lesson="Be careful.", blame=["query"])
def flow():
    return Workflow(Operator("Write.", id="query"), evaluator=check, insights=insights, max_rounds=2)
def answer(task):
    return "careful" if task.lesson or task.insights else "quick"
def rounds():
    reasoner = ScriptedReasoner(answer)
    flow().run("Revenue per month, as SQL.", reasoner)
    return len(reasoner.tasks)
other.execute("BEGIN IMMEDIATE")  # the insights of the first run are not written yet when the process forks
threading.Timer(0.5, other.rollback).start()
print(rounds())
forked(rounds, rounds)
print(rounds())
"""
    assert program(code) == ["1", "1", "1", "2"]


def test_a_fork_waits_for_the_transaction_of_an_sqlite_file_and_warns_of_one_that_lasts(program):
    code = """
import logging
from operad.runtime.durable import database
database.FORK_SECONDS = 0.1
from operad.runtime.durable.database import guard_forks
from sqlalchemy import create_engine, text
logging.basicConfig(stream=sys.stdout, format="%(message)s")
engine = create_engine("sqlite:///plain.db")
guard_forks(engine)
with engine.begin() as connection:
    connection.execute(text("create table t (x)"))
forked(lambda: "free")
with engine.begin() as connection:
    connection.execute(text("insert into t values (1)"))
    forked(lambda: "busy")
"""
    lines = program(code)
    assert lines[0] == "busy"
    assert lines[1] == "free"
    assert lines[2].startswith("plain.db: this process forks in the middle of a transaction")


def test_the_tables_of_the_parent_are_whole_after_the_children_ended(program, tmp_path: Path):
    code = """
flow = Workflow([operator(lambda job: "r" + job.goal, id="r")], name="f", durable="runs.db")
flow.run("0", run_id="a")
forked(*[lambda each=each: flow.run(str(each), run_id=f"c{each}").text for each in range(4)])
from sqlalchemy import create_engine, text
with create_engine("sqlite:///runs.db").begin() as connection:
    print(connection.execute(text("pragma integrity_check")).scalar())
"""
    assert program(code) == ["ok", "r0", "r1", "r2", "r3"]
