import json
from importlib import import_module
from pathlib import Path

import pytest

from operad.runtime import events
from operad.runtime.observe.critical_path import critical_path
from operad.runtime.observe.trace import Trace
from operad.runtime.values.message import Usage, WorkflowMessage
from operad.server.view.picture import details, picture


@pytest.fixture
def brief(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[3] / "benchmark")
    return import_module("sample_runs").brief()


def merged(pictures):
    """What a page knows after these."""
    spans, graphs = {}, {}
    for each in pictures:
        if each["reset"]:
            spans, graphs = {}, {}
        graphs = graphs if each["graphs"] is None else each["graphs"]
        spans |= {span["id"]: span for span in each["spans"]}
    return spans, graphs


def test_what_has_changed_adds_up_to_the_whole(brief):
    trace, version, pictures = Trace(), 0, []
    for at, event in enumerate(brief):
        trace.apply(event)
        if at % 7 == 0 or at == len(brief) - 1:
            pictures.append(json.loads(json.dumps(picture(trace, version))))
            version = pictures[-1]["version"]
    assert merged(pictures) == merged([json.loads(json.dumps(picture(trace)))])
    assert merged(pictures)[0].keys() == set(range(len(trace.spans)))
    assert sum(each["graphs"] is not None for each in pictures) < 5


@pytest.mark.parametrize("since", [100, 10_000])
def test_who_knows_another_run_begins_anew(brief, since):
    trace = Trace.of(brief[:200])
    for event in brief[:20]:
        trace.apply(event)
    told = picture(trace, since)
    assert told["reset"]
    assert len(told["spans"]) == len(trace.spans)
    assert told["graphs"]
    assert not picture(trace, told["version"])["reset"]


GIVEN = ["Germany", "France", "Poland", "日本 (for comparison)"]


def test_edges_have_the_names_of_their_ports(brief):
    ports = picture(Trace.of(brief))["graphs"][""]["ports"]
    assert ports == {name: {"plan": [port]} for name, port in (
        ("search the web", "market"), ("countries", "market"), ("prices", "market"), ("complaint desk", "complaint"),
    )}  # fmt: skip


def test_a_question_is_short_in_the_outline(brief):
    asked = [span["question"] for span in picture(Trace.of(brief))["spans"] if "question" in span]
    assert asked == ["Publish figures of a competitor?"]


def test_the_details_of_one_span_are_those_of_what_it_did_itself(brief):
    trace = Trace.of(brief)
    [web] = [span for span in trace.spans if span.name == "search the web"]
    assert {trace.spans[number].kind for number in details(trace, web.id)} == {"operator", "model", "tool"}
    [countries] = [span for span in trace.spans if span.path == ("countries",)]
    told = details(trace, countries.id)
    assert [trace.spans[number].name for number in told] == ["countries", *(f"countries[{at}]" for at in range(4))]
    assert [each["item"] for each in told.values() if "item" in each] == GIVEN
    assert details(trace, 10_000) == details(trace, -1) == {}
    assert details(trace).keys() > details(trace, web.id).keys()


def test_an_error_is_short_in_the_outline_and_whole_in_the_details():
    trace = Trace.of([
        events.RunStarted(workflow="w", goal="", operators={}),
        events.RunFailed(error="x" * 1000, seconds=1, usage=Usage()),
    ])  # fmt: skip
    assert picture(trace)["spans"][0]["error"] == "x" * 300
    assert details(trace)[0]["error"] == "x" * 1000


def test_who_was_stopped_is_not_on_the_critical_path_of_a_run_that_failed():
    run = {"run_id": "r", "round": 1}
    trace = Trace.of([
        events.RunStarted(workflow="w", goal="", operators={"a": (), "b": ("a",), "slow": ()}, time=0),
        events.RoundStarted(operators=("a", "b", "slow"), time=0, **run),
        *(events.OperatorStarted(path=(name,), operator_id=name, time=0, **run) for name in ("a", "slow")),
        events.OperatorFinished(path=("a",), operator_id="a", seconds=1, message=WorkflowMessage(), time=1, **run),
        events.OperatorStarted(path=("b",), operator_id="b", time=1, **run),
        events.OperatorFailed(path=("b",), operator_id="b", seconds=1, usage=Usage(), error="no", time=2, **run),
        events.OperatorCancelled(path=("slow",), operator_id="slow", seconds=2, usage=Usage(), time=2.1, **run),
        events.RunFailed(error="no", seconds=2, usage=Usage(), time=2.1),
    ])  # fmt: skip
    assert {trace.spans[number].name for number in critical_path(trace)} == {"a", "b"}


def test_an_operator_that_begins_twice_and_never_ends_leaves_nothing_open():
    trace = Trace()
    trace.apply(events.RunStarted(workflow="w", goal="", operators={"a": ()}))
    for _ in range(3):
        trace.apply(events.RoundStarted(operators=("a",), round=1))
        trace.apply(events.OperatorStarted(path=("a",), operator_id="a", round=1))
        trace.apply(events.OperatorStarted(path=("a", "b"), operator_id="b", round=1))
        trace.apply(events.ModelAsked(path=("a", "b"), call_id="1", model="m", messages=()))
    trace.apply(events.OperatorFinished(path=("a",), operator_id="a", seconds=1, message=WorkflowMessage()))
    trace.apply(events.RunFailed(error="no", seconds=1, usage=Usage()))
    assert [span.end is not None for span in trace.spans] == [True] * len(trace.spans)
