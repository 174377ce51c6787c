"""Experts written and changed by words in the studio, with a scripted model."""

import json

import pytest
from studios import EXPERTS

from operad.runtime.testing import Fail, Say, ScriptedModel

PLAN = {
    "name": "Poet",
    "description": "Writes poems.",
    "operators": [{"name": "poem", "instruction": "Write a poem.", "output": {"poem": "string"}}],
    "workflow": [["poem"]],
    "criteria": ["The poem rhymes."],
}


@pytest.fixture
def chat(serve):
    """Says something about a file with a scripted model: the client, and the messages."""

    def chat(answers, words, text=None):
        with ScriptedModel(answers) as endpoint:
            client = serve(model=endpoint.model)
            if text is None:
                client.told("files", {"new": "experts", "path": "poet.yaml"})
            else:
                (client.folder / "poet.yaml").write_text(text)
            document = client.open("poet.yaml")
            body = {"path": "poet.yaml", "version": document["version"], "text": words}
            answer = client.post("data/chat", body)
        assert answer.status_code == 200, answer.text
        return client, [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]

    return chat


def test_a_new_expert_is_drafted_and_written_when_it_is_accepted(chat):
    client, messages = chat([Say(json.dumps(PLAN))], "An expert that writes poems about the topic (result poem).")
    before = (client.folder / "poet.yaml").read_text()
    draft = next(each for each in messages if each["kind"] == "draft")
    assert {node["id"]: node["type"] for node in draft["document"]["nodes"]}["poem"] == "operator"
    assert "answer" in draft["changes"]["removed"]
    assert client.get("data/chat", params={"path": "poet.yaml"}).json()["changes"] == draft["changes"]
    assert "Write a poem." not in before
    client.refused("chat/part", {"path": "poet.yaml", "accept": True, "node": "poem"}, 400)
    accepted = client.told("chat/accept", {"path": "poet.yaml"})
    assert "instruction: Write a poem." in (client.folder / "poet.yaml").read_text()
    assert accepted["steps"][-1]["kind"] == "chat"
    client.told("chat/undo", {"path": "poet.yaml"})
    assert (client.folder / "poet.yaml").read_text() == before


def test_an_existing_expert_is_changed_and_its_comments_stay(chat):
    change = {"replace": [{"old": "what the text claims", "new": "all claims"}]}
    client, messages = chat([Say(json.dumps(change))], "It lists all claims.", EXPERTS)
    draft = next(each for each in messages if each["kind"] == "draft")
    assert [each["node"] for each in draft["changes"]["changed"]] == ["facts"]
    client.told("chat/accept", {"path": "poet.yaml"})
    assert (client.folder / "poet.yaml").read_text() == EXPERTS.replace("what the text claims", "all claims")


def test_a_team_and_a_model_that_fails_are_told(chat):
    team = EXPERTS + "  - {profile: {name: Other}, workflow: [[*facts]]}\n"
    assert "one expert" in next(each["text"] for each in chat([], "Be polite.", team)[1] if each["kind"] == "error")
    failed = chat([Fail(400, "no such model")], "Be polite.", EXPERTS)[1]
    assert any("no such model" in each["text"] for each in failed if each["kind"] == "error")
