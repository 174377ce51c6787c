"""Runs of a part of an expert: an operator alone, from an operator on, an evaluator again."""

import pytest
from studios import EXPERTS

from operad.runtime.testing import Say, ScriptedModel


def verdict(status, operator="check"):
    faults = "" if status == "SUCCESS" else f'{{"wrong": "none", "right": "air", "operator": "{operator}", "sure": true, "lesson": "Say air."}}'  # fmt: skip
    return f'{{"evaluation": "Judged.", "status": "{status}", "unsure": [], "score": 5, "faults": [{faults}]}}'


WHOLE = ('{"claims": ["Air."]}', "It has none.", verdict("SUCCESS"))


@pytest.fixture
def ran(serve):
    """Runs the experts once, then a part with further answers: the client, the outputs, the last message, the requests."""
    clients = []

    def ran(*answers, change=None, **part):
        with ScriptedModel([Say(each) for each in (*WHOLE, *answers)]) as endpoint:
            client = serve(model=endpoint.model)
            clients.append(client)
            (client.folder / "facts.yaml").write_text(EXPERTS)
            client.run("facts.yaml", inputs={"job": "The moon has air."})
            if change:
                client.apply(client.open("facts.yaml"), change)
            outputs, last = client.run("facts.yaml", **part)
            return client, outputs, last, endpoint.requests[3:]

    return ran


def test_an_operator_runs_alone_with_the_job_and_the_messages_of_the_last_run(ran):
    client, outputs, last, [request] = ran("None at all.", only="check")
    assert last["error"] is None
    assert outputs["check"] == {"text": "None at all."}
    assert "The moon has air." in str(request)
    assert "Air." in str(request)
    assert last["reused"] == ["facts"]
    told = client.get("data/last/check", params={"path": "facts.yaml"}).json()
    assert told["inputs"] == {"facts": {"claims": ["Air."]}}
    assert told["current"]


def test_a_run_from_an_operator_reuses_what_is_before_it_and_is_judged(ran):
    _, _outputs, last, requests = ran("None.", verdict("SUCCESS"), **{"from": "check"})
    assert len(requests) == 2
    assert last["reused"] == ["facts"]
    assert last["state"] == "done"
    assert "Claims" in str(requests[1]) or "List what the text claims." in str(requests[1])


def test_an_operator_that_was_reused_runs_again_when_it_is_blamed(ran):
    answers = (
        "None.",
        verdict("EXECUTION_ERROR", "facts"),
        '{"claims": ["The moon has air."]}',
        "It has.",
        verdict("SUCCESS"),
    )
    _, outputs, last, requests = ran(*answers, **{"from": "check"})
    assert len(requests) == 5
    assert last["error"] is None
    assert outputs["facts"] == {"claims": ["The moon has air."]}


def test_an_operator_that_was_changed_since_runs_again(ran):
    change = {"op": "set", "node": "facts", "path": "instruction", "value": "List all claims."}
    _client, _, last, requests = ran(
        '{"claims": ["Air."]}', "None.", verdict("SUCCESS"), change=change, **{"from": "check"}
    )
    assert len(requests) == 3
    assert last["reused"] == []


def test_an_evaluator_alone_judges_the_last_result_again(ran):
    change = {"op": "set", "node": "judge", "path": "instruction", "value": "Every claim is named."}
    _, _, last, [request] = ran(verdict("EXECUTION_ERROR"), change=change, only="judge")
    assert "Every claim is named." in str(request)
    assert "It has none." in str(request)
    assert last["reused"] == ["check", "facts"]
    assert last["rounds"][-1]["status"] == "EXECUTION_ERROR"


def test_the_operators_that_were_changed_since_are_marked_when_a_run_is_shown_again(serve):
    with ScriptedModel([Say(each) for each in WHOLE]) as endpoint:
        client = serve(model=endpoint.model)
        (client.folder / "facts.yaml").write_text(EXPERTS)
        run = client.run("facts.yaml", inputs={"job": "The moon has air."})[1]["run_id"]
        client.apply(
            client.open("facts.yaml"), {"op": "set", "node": "check", "path": "instruction", "value": "Check."}
        )
        first = next(client.messages(f"data/runs/{run}/changes"))
    assert first["changed"] == ["check"]


def test_parts_that_cannot_run_are_refused_with_the_reason(serve):
    client = serve()
    (client.folder / "facts.yaml").write_text(EXPERTS)
    assert "no run" in client.refused("run", {"path": "facts.yaml", "only": "check"}, 400)["error"]
    assert "chekc" in client.refused("run", {"path": "facts.yaml", "from": "chekc"}, 400)["error"]
    (client.folder / "team.yaml").write_text(EXPERTS + "leader: {profile: {name: Boss}}\n")
    assert "leader" in client.refused("run", {"path": "team.yaml", "only": "check"}, 400)["error"]
