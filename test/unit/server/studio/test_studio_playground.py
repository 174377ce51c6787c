"""Trials of prompts and models on the last input of a node."""

import pytest
from studios import EXPERTS, LETTER, VERDICT

from operad.runtime.testing import Say, ScriptedModel


@pytest.fixture
def ran(serve):
    """Runs a file once: a client, and the requests of the model."""

    def ran(endpoint, name, text, /, **inputs):
        client = serve(model=endpoint.model)
        (client.folder / name).write_text(text)
        assert client.run(name, inputs=inputs)[1]["error"] is None
        return client

    return ran


def tried(client, name, node, values, models=("",)):
    return client.told("try", {"path": name, "node": node, "values": values, "models": list(models)})["tried"]


def test_a_prompt_is_tried_on_the_last_input_and_nothing_is_written(ran):
    with ScriptedModel([Say("Dear Ada"), Say("Hello Ada")]) as endpoint:
        client = ran(endpoint, "letter.yaml", LETTER, name="Ada")
        offer = client.get("data/try", params={"path": "letter.yaml", "node": "2"}).json()
        assert {each["name"]: each["value"] for each in offer["fields"]} == {
            "system": "Write a letter.",
            "user": "To {{#1.name#}}",
        }
        assert (offer["ran"], offer["read"]) == (True, {"1.name": "Ada"})
        [found] = tried(client, "letter.yaml", "2", {"system": "Say hello."})
        request = endpoint.requests[-1]
    assert (found["output"]["text"], found["error"]) == ("Hello Ada", "")
    assert (found["usage"]["calls"], found["usage"]["tokens"] > 0) == (1, True)
    assert [each["content"] for each in request["messages"]] == ["Say hello.", "To Ada"]
    assert (client.folder / "letter.yaml").read_text() == LETTER
    assert client.get("data/last/2", params={"path": "letter.yaml"}).json()["outputs"]["text"] == "Dear Ada"


def test_two_models_are_asked_beside_each_other_and_one_that_fails_says_why(ran):
    with ScriptedModel([Say("Dear Ada"), Say("Hello Ada")]) as endpoint:
        client = ran(endpoint, "letter.yaml", LETTER, name="Ada")
        one, other = tried(client, "letter.yaml", "2", {}, ["", "nobody:nothing"])
    assert (one["output"]["text"], one["error"]) == ("Hello Ada", "")
    assert other["output"] is None
    assert other["error"]


def test_operators_and_evaluators_of_experts_are_tried_with_the_job(ran):
    answers = ['{"claims": ["Air."]}', "It has none.", VERDICT, "None.", VERDICT]
    with ScriptedModel([Say(each) for each in answers]) as endpoint:
        client = ran(endpoint, "facts.yaml", EXPERTS, job="The moon has air.")
        offer = client.get("data/try", params={"path": "facts.yaml", "node": "check"}).json()
        assert (offer["job"], offer["read"]) == ("The moon has air.", {"facts": {"claims": ["Air."]}})
        [found] = tried(client, "facts.yaml", "check", {"instruction": "Be brief."})
        assert "Be brief." in str(endpoint.requests[-1])
        assert "The moon has air." in str(endpoint.requests[-1])
        [judged] = tried(client, "facts.yaml", "judge", {"instruction": "It is brief."})
        assert "It is brief." in str(endpoint.requests[-1])
    assert found["output"] == {"text": "None."}
    assert (judged["error"], "Right." in str(judged["output"])) == ("", True)
    assert (client.folder / "facts.yaml").read_text() == EXPERTS


def test_trials_that_cannot_be_made_are_refused_with_the_reason(ran, serve):
    client = serve()
    (client.folder / "letter.yaml").write_text(LETTER)
    body = {"path": "letter.yaml", "node": "2", "values": {}, "models": [""]}
    assert "systm" in client.refused("try", body | {"values": {"systm": "x"}}, 400)["error"]
    assert "22" in client.refused("try", body | {"node": "22"}, 400)["error"]
    client.refused("try", body | {"node": "3"}, 400)
    client.refused("try", body | {"models": []}, 400)
    client.refused("try", body | {"values": {"system": 3}}, 400)
    assert "last run" in client.told("try", body)["tried"][0]["error"]
