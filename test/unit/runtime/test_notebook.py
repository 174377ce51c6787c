"""What a notebook shows of workflows, runs and messages."""

import sys
from types import SimpleNamespace

import pytest
from fake_operators import chain

from operad.runtime import BuiltinWorkflow, Job, Map, MonoModelReasoner, WorkflowMessage, WorkflowStatus, events
from operad.runtime.observe.notebook import MOST_ROWS, picture, progress_html
from operad.runtime.observe.trace import Trace
from operad.runtime.values.message import MOST_SHOWN, message_html

NOBODY = MonoModelReasoner()
HOSTILE = '<script>alert(1)</script><img src=x onerror="alert(1)">'


class Say:
    def __init__(self, name, text="done", **outputs):
        self.name, self.message = name, WorkflowMessage(scratchpad=text, outputs=outputs)

    def get_id(self):
        return self.name

    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        if self.message.scratchpad == "fail":
            raise ValueError(HOSTILE)
        return self.message


@pytest.fixture
def notebook(monkeypatch):
    """A notebook's kernel; what it shows, in the order of showing."""
    shown = []

    def display(html, display_id):
        assert display_id
        shown.append(html.data)
        return SimpleNamespace(update=lambda html: shown.append(html.data))

    import IPython.display

    monkeypatch.setattr(IPython, "get_ipython", lambda: SimpleNamespace(kernel=object()))
    monkeypatch.setattr(IPython.display, "display", display)
    return shown


async def test_a_run_shows_how_it_gets_on(notebook):
    message = await chain(BuiltinWorkflow, Say("a"), Say("b"), name="two").aexecute(Job(goal="g"), NOBODY)
    assert message.scratchpad == "done"
    assert "<td>a</td><td>waiting</td>" in notebook[0]
    assert "<b>two</b> SUCCESS · 1 round ·" in notebook[-1]
    assert "<td>b</td><td>done</td><td>1</td>" in notebook[-1]


async def test_the_last_state_is_shown_however_fast_it_comes(notebook):
    with pytest.raises(Exception, match="script"):
        await chain(BuiltinWorkflow, Say("a", "fail")).aexecute(Job(goal="g"), NOBODY)
    assert len(notebook) == 2
    assert "<td>a</td><td>failed</td>" in notebook[-1]


async def test_a_run_inside_another_shows_nothing_of_its_own(notebook):
    inner = chain(BuiltinWorkflow, Say("x"), name="inner")

    class Outer(Say):
        async def execute(self, reasoner, job, *args, **kwargs):
            return await inner.aexecute(job, reasoner)

    await chain(BuiltinWorkflow, Outer("outer")).aexecute(Job(goal="g"), NOBODY)
    assert sum("○" in html for html in notebook) == 1


@pytest.mark.parametrize("shell", [None, SimpleNamespace()], ids=["no IPython", "a terminal"])
async def test_elsewhere_nothing_is_shown(monkeypatch, capsys, shell):
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    await chain(BuiltinWorkflow, Say("a")).aexecute(Job(goal="g"), NOBODY)
    assert capsys.readouterr().out == ""


def seen(workflow):
    trace = Trace()
    workflow.add_listener(trace.apply)
    return trace


def test_workflows_inside_stand_below_who_runs_them():
    workflow = chain(
        BuiltinWorkflow, Say("split", items=[1, 2]), Map("each", chain(BuiltinWorkflow, Say("one"), name="body"))
    )
    trace = seen(workflow)
    workflow.execute(Job(goal="g"), NOBODY)
    html = progress_html(trace)
    assert "<td>each</td><td>done 2/2</td><td>1</td>" in html
    assert "<td>&nbsp;&nbsp;&nbsp;&nbsp;one</td><td>done</td><td>2</td>" in html
    assert html.index(">split<") < html.index(">each<") < html.index(";one<")


def test_a_question_is_seen():
    path = {"path": ("a",), "operator_id": "a"}
    trace = Trace.of(
        [
            events.RunStarted(workflow="w", goal="g", operators={"a": ()}),
            events.RoundStarted(operators=("a",)),
            events.OperatorStarted(**path),
            events.Interrupted(interrupt_id="a", question="?", **path),
        ]
    )
    assert "<td>asking</td>" in progress_html(trace)


def test_of_a_large_run_the_first_rows_are_shown():
    trace = Trace.of(
        [events.RunStarted(workflow="w", goal="g", operators={f"o{n}": () for n in range(MOST_ROWS + 1234)})]
    )
    html = progress_html(trace)
    assert html.count("<tr>") == MOST_ROWS + 1
    assert "… and 1,234 more operators" in html


def test_before_the_first_event_nothing_is_shown():
    assert progress_html(Trace()) == ""


def test_what_is_said_is_never_markup():
    path = {"path": (HOSTILE,), "operator_id": HOSTILE}
    message = WorkflowMessage(
        scratchpad=HOSTILE, outputs={HOSTILE: HOSTILE, "n": [HOSTILE]}, lesson=HOSTILE + "\n" + HOSTILE
    )
    trace = Trace.of(
        [
            events.RunStarted(workflow=HOSTILE, goal=HOSTILE, operators={HOSTILE: ()}),
            events.RoundStarted(operators=(HOSTILE,)),
            events.OperatorStarted(**path),
            events.OperatorFinished(seconds=1, message=message, **path),
            events.RunFailed(error=HOSTILE, seconds=1, usage=message.usage),
        ]
    )
    whole = WorkflowMessage(operator_id=HOSTILE, evaluation=HOSTILE, blame=(HOSTILE,), parts=(message,))
    for html in (progress_html(trace), message_html(whole), message_html(message)):
        assert "<script" not in html
        assert "<img" not in html
        assert "&lt;script&gt;" in html


def test_a_message_shows_what_it_bears():
    message = WorkflowMessage(
        scratchpad="said",
        status=WorkflowStatus.EXECUTION_ERROR,
        outputs={"n": 3},
        evaluation="too short",
        lesson="longer",
        blame=("a", "b"),
        score=0.25,
        operator_id="judge",
        parts=(WorkflowMessage(scratchpad="part", operator_id="one"),),
    )
    html = message._repr_html_()
    assert html.startswith("<div><p><b>rejected (EXECUTION_ERROR)</b> · judge</p>")
    for what, text in [
        ("text", "said"),
        ("output n", "3"),
        ("lesson", "longer"),
        ("faults", "at fault: a, b"),
        ("score", "0.25"),
    ]:
        assert f"<tr><th>{what}</th><td>{text}</td></tr>" in html
    assert "<details><summary>one</summary>" in html


def test_a_long_text_is_folded_and_bounded():
    html = message_html(WorkflowMessage(scratchpad="word " * 10_000))
    assert html.count("word") < MOST_SHOWN / 5 + 200
    assert "… and 29,999 more characters" in html or "… and 30,000 more characters" in html


def test_a_workflow_shows_its_picture():
    bundle = chain(BuiltinWorkflow, Say("a"), Say("b"))._repr_mimebundle_()
    assert bundle["text/markdown"].startswith("```mermaid\nflowchart TD\n")
    assert bundle["image/svg+xml"].startswith("<svg")
    assert "BuiltinWorkflow" in bundle["text/plain"]


def test_without_the_extra_its_code_is_shown(monkeypatch):
    monkeypatch.setitem(sys.modules, "mermaid_render", None)
    assert list(picture("flowchart TD\n")) == ["text/markdown"]
