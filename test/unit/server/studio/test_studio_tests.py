"""Tests that are made of runs in the studio, and evaluations of the versions of a file on them."""

import json
import time

import pytest
from studios import EXPERTS, LETTER, VERDICT

from operad.configs.workflow_file import load_workflow
from operad.runtime.testing import Say, ScriptedModel


def served(serve, endpoint, name="letter.yaml", text=LETTER):
    client = serve(model=endpoint.model)
    (client.folder / name).write_text(text)
    return client


def evaluated(client, name, answers="recorded", **fields):
    """Run the tests of a file to their end, and return the table."""
    document = client.open(name)
    client.told("tests/run", {"path": name, "version": document["version"], "answers": answers, **fields})
    for _ in range(600):
        table = client.get("data/tests", params={"path": name}).json()
        if not table["running"]:
            return table
        time.sleep(0.05)
    raise AssertionError("never ended")


def made(client, run, **fields):
    return client.told(f"runs/{run}/test", {"name": "ada", "holds": "equals", **fields})


def test_a_test_of_a_run_holds_its_inputs_answers_and_output_and_needs_no_model(serve):
    with ScriptedModel([Say("Dear Ada")]) as endpoint:
        client = served(serve, endpoint)
        _, last = client.run("letter.yaml", inputs={"name": "Ada"})
        offer = client.get(f"data/runs/{last['run_id']}/test").json()
        assert (offer["name"], offer["file"], offer["answers"], offer["holds"]) == (
            "name: Ada", "letter.cases.jsonl", 1, "equals",
        )  # fmt: skip
        assert [place["of"] for place in offer["places"]][:2] == ["", "1.name"]
        made(client, last["run_id"])
        table = evaluated(client, "letter.yaml")
    [case] = [json.loads(line) for line in (client.folder / "letter.cases.jsonl").read_text().splitlines()]
    assert case["inputs"] == {"name": "Ada"}
    assert case["expected"] == {"letter": "Dear Ada!"}
    assert [each["text"] for each in case["script"]] == ["Dear Ada"]
    [version] = table["versions"]
    assert (version["passed"], version["runs"], version["current"], version["answers"]) == (1, 1, True, "recorded")
    flow = load_workflow(client.folder / "letter.yaml")
    flow.evaluate(client.folder / "letter.cases.jsonl", scripted=True).assert_passed()


@pytest.mark.parametrize(
    ("holds", "kept"),
    [
        ({"holds": "contains", "text": "Ada"}, {"checks": [{"contains": "Ada"}]}),
        ({"holds": "equals", "of": "2.text"}, {"checks": [{"of": "2.text", "equals": "Dear Ada"}]}),
        ({"holds": "contains", "of": "3.output", "text": "!"}, {"checks": [{"of": "3.output", "contains": "!"}]}),
        ({"holds": "accepted"}, {}),
    ],
)
def test_a_person_chooses_what_must_hold(serve, holds, kept):
    with ScriptedModel([Say("Dear Ada")]) as endpoint:
        client = served(serve, endpoint)
        run = client.run("letter.yaml", inputs={"name": "Ada"})[1]["run_id"]
        made(client, run, **holds)
        table = evaluated(client, "letter.yaml")
    case = json.loads((client.folder / "letter.cases.jsonl").read_text())
    assert {key: case[key] for key in ("checks", "expected") if key in case} == kept
    assert table["versions"][0]["passed"] == 1


def test_versions_are_compared_case_by_case_and_by_operator(serve):
    with ScriptedModel([Say("Dear Ada"), Say("Dear Bob")]) as endpoint:
        client = served(serve, endpoint)
        for name in ("Ada", "Bob"):
            made(client, client.run("letter.yaml", inputs={"name": name})[1]["run_id"], name=name)
        evaluated(client, "letter.yaml")
        document = client.open("letter.yaml")
        client.apply(document, {"op": "set", "node": "3", "path": "template", "value": "{{ body }}?"})
        table = evaluated(client, "letter.yaml", names=["Bob"])
    after, before = table["versions"]
    assert [sorted(each["results"]) for each in (before, after)] == [["Ada", "Bob"], ["Bob"]]
    assert "got {'letter': 'Dear Bob?'}" in after["results"]["Bob"]["problems"][0]
    compared = client.get(
        "data/tests/compare", params={"path": "letter.yaml", "before": before["key"], "after": after["key"]}
    ).json()
    assert compared["worse"] == ["Bob"]
    bob = next(each for each in compared["cases"] if each["name"] == "Bob")
    assert ["Dear Bob!" in bob["results"][0]["output"], "Dear Bob?" in bob["results"][1]["output"]] == [True, True]
    assert [each["name"] for each in compared["operators"]] == ["1", "2", "3", "4"]


def test_a_test_that_needs_more_answers_than_were_recorded_fails_with_the_reason(serve):
    with ScriptedModel([Say("Dear Ada")]) as endpoint:
        client = served(serve, endpoint)
        made(client, client.run("letter.yaml", inputs={"name": "Ada"})[1]["run_id"])
        (client.folder / "letter.yaml").write_text(
            LETTER.replace("after: 2, template", "after: 5, template")
            + "  5: {type: llm, after: 2, system: Shorten it., user: '{{#2.text#}}'}\n"
        )
        table = evaluated(client, "letter.yaml")
    [problem] = table["versions"][0]["results"]["ada"]["problems"]
    assert "more than" in problem


def test_tests_of_an_expert_play_the_verdicts_too(serve):
    answers = ['{"claims": ["Air."]}', "It has none.", VERDICT]
    with ScriptedModel([Say(each) for each in answers]) as endpoint:
        client = served(serve, endpoint, "facts.yaml", EXPERTS)
        run = client.run("facts.yaml", inputs={"job": "The moon has air."})[1]["run_id"]
        offer = client.get(f"data/runs/{run}/test").json()
        assert (offer["judged"], offer["accepted"], offer["holds"], offer["answers"]) == (True, True, "accepted", 3)
        made(client, run, holds="accepted")
        table = evaluated(client, "facts.yaml")
    version = table["versions"][0]
    assert version["results"]["ada"]["passed"]
    assert version["passed"] == 1
    assert [each["name"] for each in version["operators"]] == ["facts", "check", "judge"]


def test_secrets_are_not_written(serve, monkeypatch):
    monkeypatch.setenv("MAIL_API_KEY", "hidden-hidden-hidden")
    with ScriptedModel([Say("Dear Ada, hidden-hidden-hidden")]) as endpoint:
        client = served(serve, endpoint)
        run = client.run("letter.yaml", inputs={"name": "Ada sk-proj-0123456789abcdef0123456789abcdef"})[1]["run_id"]
        made(client, run, holds="equals", of="2.text")
    written = (client.folder / "letter.cases.jsonl").read_text()
    assert "hidden-hidden" not in written
    assert "sk-proj-0123" not in written


def test_bad_requests_and_bad_files_of_cases_are_told(serve):
    with ScriptedModel([Say("Dear Ada"), Say("Dear Ada")]) as endpoint:
        client = served(serve, endpoint)
        run = client.run("letter.yaml", inputs={"name": "Ada"})[1]["run_id"]
        part = client.run("letter.yaml", only="2")[1]["run_id"]
        assert "part" in client.get(f"data/runs/{part}/test").json()["error"]
        body = {"name": "ada", "holds": "equals"}
        assert "3.output" in client.refused(f"runs/{run}/test", body | {"of": "3.outputt"}, 400)["error"]
        assert "text" in client.refused(f"runs/{run}/test", body | {"holds": "contains", "text": " "}, 400)["error"]
        client.refused(f"runs/{run}/test", body | {"name": " "}, 400)
        client.refused(f"runs/{run}/test", body | {"holds": "near"}, 400)
        made(client, run)
        assert "already" in client.refused(f"runs/{run}/test", body, 400)["error"]
    version = client.open("letter.yaml")["version"]
    go = {"path": "letter.yaml", "version": version, "answers": "recorded"}
    client.refused("tests/run", go | {"names": ["bob"]}, 400)
    client.refused("tests/run", go | {"answers": "guessed"}, 400)
    client.refused("tests/remove", {"path": "letter.yaml", "name": "bob"}, 400)
    assert client.told("tests/remove", {"path": "letter.yaml", "name": "ada"})["cases"] == []
    (client.folder / "letter.cases.jsonl").write_text('{"name": "a"}\n{"nam')
    table = client.get("data/tests", params={"path": "letter.yaml"}).json()
    assert table["cases"] == []
    assert "letter.cases.jsonl" in table["fault"]
    client.refused("tests/run", go, 422)


def test_files_of_a_run_are_copied_beside_the_workflow(serve):
    client = serve()
    (client.folder / "five.yaml").write_text(
        "workflow: five\nnodes:\n  1: {type: start, after: [], variables: [[paper, file]]}\n"
        "  2: {type: document-extractor, after: 1, variable_selector: [paper, '1']}\n"
        "  3: {type: end, after: 2, outputs: [[said, [text, '2']]]}\n"
    )
    run = client.run(inputs={"paper": client.upload("figs.txt", b"Figs are fruits.")})[1]
    assert run["error"] is None
    made(client, run["run_id"])
    case = json.loads((client.folder / "five.cases.jsonl").read_text())
    [name] = case["files"]
    assert (client.folder / name).read_bytes() == b"Figs are fruits."
    assert evaluated(client, "five.yaml")["versions"][0]["passed"] == 1
