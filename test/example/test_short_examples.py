"""The examples that people copy: each does what it says, on a model that answers from a script, and on a real one."""

import importlib.util
import json
import os
import runpy
import sys
from pathlib import Path

import pytest

from operad.testing import CallTools, Say, ScriptedModel

HERE = Path(__file__).parent
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "OPERAD_"))}
CONFIGURED = bool(os.environ.get("OPENAI_BASE_URL") or os.environ.get("OPENAI_API_KEY"))


def is_asked(request, words):
    """Return whether the instruction contains these words."""
    return words in str(request["messages"][0]["content"])


def asked(request):
    return str(request["messages"][-1]["content"])


def facts_are_checked(request):
    if is_asked(request, "List what the text claims."):
        return Say('{"claims": ["The moon has air."]}')
    if is_asked(request, "Every sentence of the answer"):
        return Say('{"evaluation": "All was looked up.", "status": "SUCCESS", "lesson": "", "blame": [], "score": 9}')
    if request["messages"][-1]["role"] == "tool":
        return Say("It has hardly any.")
    return CallTools([("search", {"claim": "The moon has air."})])


def orders_are_refunded(request):
    if request["messages"][-1]["role"] == "tool":
        return Say("Your order A2 is refunded.")
    return CallTools([("refund", {"order": "A2"})])


def billing_answers(request):
    if is_asked(request, "Choose who is to answer"):
        return Say('{"port": "billing"}')
    if is_asked(request, "as an accountant"):
        return (
            Say("Charged twice.")
            if request["messages"][-1]["role"] == "tool"
            else CallTools([("invoices", {"customer": "you"})])
        )
    return Say("We are sorry. You get 20 EUR back.")


def files_are_summarized(request):
    if is_asked(request, "Summarize this file"):
        return Say("delivery.md: two days." if "Parcels are sent" in asked(request) else "refunds.md: seven days.")
    return Say("Parcels take two days, refunds seven.")


def a_source_is_made_up_at_first(request):
    source = "refunds.md:3 Refunds" if "there is no source 'terms.md:1'" in asked(request) else "terms.md:1"
    return Say(json.dumps({"text": "Within seven days.", "sources": [source]}))


def trips_are_booked(request):
    if is_asked(request, "The text names the city"):
        if "180 euros" in asked(request):
            return Say('{"evaluation": "The price is there.", "status": "SUCCESS", "lesson": "", "blame": []}')
        return Say(
            '{"evaluation": "There is no price.", "status": "EXECUTION_ERROR", "lesson": "Add the price.", "blame": ["agent"]}'
        )
    match sum(message["role"] == "tool" for message in request["messages"]):
        case 0:
            return CallTools([("price", {"city": "Rome"})])
        case 1:
            return CallTools([("book", {"city": "Rome", "nights": 2})])
        case _:
            text = "Rome, two nights" + (", 180 euros." if "Add the price." in asked(request) else ".")
            return Say(json.dumps({"city": "Rome", "nights": 2, "text": text}))


SCRIPTS = {
    "assistant.py": trips_are_booked,
    "structured_output.py": lambda _: Say('{"topic": "delivery", "urgency": 5, "summary": "The parcel is late."}'),
    "rag_with_sources.py": a_source_is_made_up_at_first,
    "tool_approval.py": orders_are_refunded,
    "hand_off.py": billing_answers,
    "map_reduce.py": files_are_summarized,
    "chat2graph_expert.py": facts_are_checked,
    "awel_operators.py": lambda request: Say(""),
    "awel_dag.py": lambda request: Say(f"Thank you: {asked(request)}"),
}

EXPECTED = {f"{path.stem}.py": path.read_text(encoding="utf-8") for path in sorted((HERE / "output").glob("*.txt"))}
"""Output of each example, which the documentation shows on its page."""

NEEDS = {
    "awel_dag.py": "dbgpt",
    "awel_operators.py": "dbgpt",
    "durable_approval.py": "sqlalchemy",
    "fastapi_sse.py": "fastapi",
}
EVERY = [*EXPECTED, "durable_approval.py", "fastapi_login.py", "fastapi_sse.py"]


@pytest.fixture(autouse=True)
def has_what_it_needs(request):
    name = getattr(request.node, "callspec", None) and request.node.callspec.params.get("name")
    if name in NEEDS and importlib.util.find_spec(NEEDS[name]) is None:
        pytest.skip(f"{NEEDS[name]} is not installed")


@pytest.fixture
def run(forked, tmp_path):
    """Run an example in an empty folder on an endpoint; what it prints."""

    def run(name, *arguments, answers="", **environment):
        command = [sys.executable, HERE / name, *arguments]
        done = forked.run(command, cwd=tmp_path, env={**ENVIRONMENT, **environment}, input=answers)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def endpoint(scripted):
    return {"OPENAI_BASE_URL": scripted.base_url, "OPENAI_API_KEY": "any", "OPERAD_MODEL": "any"}


@pytest.mark.parametrize("name", EXPECTED)
def test_an_example_prints_what_a_script_makes_of_it(name, run):
    with ScriptedModel(SCRIPTS[name]) as scripted:
        assert run(name, answers="yes\n", **endpoint(scripted)) == EXPECTED[name]


def test_a_durable_job_waits_for_a_person_in_no_process(run):
    pytest.importorskip("sqlalchemy")
    with ScriptedModel([Say("Thank you, Nils.")]) as scripted:
        assert run("durable_approval.py", "start", **endpoint(scripted)).startswith(
            "Send this? Thank you, Nils.\nwaits; go on with: python "
        )
        assert run("durable_approval.py", "yes", **endpoint(scripted)) == "sent, with the key letter-to-nils:send\n"
    assert len(scripted.requests) == 1


def test_an_answer_streams_to_the_browser(monkeypatch):
    pytest.importorskip("fastapi")
    from starlette.testclient import TestClient

    with ScriptedModel([Say("It scatters red light."), Say("It scatters blue light.")]) as scripted:
        for name, value in endpoint(scripted).items():
            monkeypatch.setenv(name, value)
        app = runpy.run_path(str(HERE / "fastapi_sse.py"))["app"]
        said = TestClient(app).get("/ask", params={"question": "Why is the sky blue?"})
    kinds = [line.removeprefix("event: ") for line in said.text.splitlines() if line.startswith("event: ")]
    assert said.headers["content-type"].startswith("text/event-stream")
    assert kinds == [*["token"] * 4, "finished", *["token"] * 4, "finished", "answer"]
    assert json.loads(said.text.splitlines()[-2].removeprefix("data: "))["text"] == "It scatters blue light."


@pytest.mark.slow
@pytest.mark.skipif(not CONFIGURED, reason="no model is configured: OPENAI_API_KEY or OPENAI_BASE_URL")
@pytest.mark.parametrize("name", EXPECTED)
def test_an_example_runs_on_the_model_of_the_environment(name, run):
    model = {name: value for name, value in os.environ.items() if name.startswith(("OPENAI_", "OPERAD_"))}
    assert run(name, answers="yes\n" * 9, **model)


@pytest.mark.parametrize("name", EVERY)
def test_an_example_has_less_than_60_lines_and_stands_on_the_page(name):
    assert len((HERE / name).read_text(encoding="utf-8").splitlines()) < 60
    assert f"(../test/example/{name})" in (HERE.parents[1] / "docs" / "examples.md").read_text(encoding="utf-8")
