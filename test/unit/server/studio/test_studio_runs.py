"""Runs that are started in the studio."""

from pathlib import Path

import pytest
from held_model import held_model

from operad.operators.services import Services
from operad.server.studio.files.folder import Folder
from operad.server.studio.runs.uploads import Uploads


def test_a_run_gives_the_outputs_of_each_node_and_the_result(studio):
    outputs, last = studio.run(inputs={"topic": "rain"})
    assert outputs["2"] == {"output": "About rain"}
    assert outputs["3"] == {"output": "About rain!"}
    assert last["result"] == {"loud": "About rain!", "quoted": "<rain>"}
    assert (last["ended"], last["error"], last["questions"]) == (True, None, [])


WRITES = """\
workflow: writes
nodes:
  1: {type: start, variables: {topic: string}}
  2: {type: llm, after: 1, system: "", user: "{{#1.topic#}}"}
  3: {type: end, after: 2, outputs: {said: 2.text}}
"""


def test_text_is_told_while_a_model_writes(serve):
    with held_model("It rains ", "today.") as (model, let):
        studio = serve(model=model)
        (studio.folder / "writes.yaml").write_text(WRITES)
        run = studio.told("run", {"path": "writes.yaml", "inputs": {"topic": "rain"}})["run"]
        messages = studio.messages(f"data/runs/{run}/changes")
        assert next(each for each in messages if each["writing"])["writing"] == {"2": "It rains "}
        let.set()
        *_, last = messages
    assert (last["writing"], last["result"]) == ({}, {"said": "It rains today."})


def test_files_that_were_sent_are_deleted_when_the_studio_ends(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    uploads = Uploads(Folder(tmp_path))
    sent = [Path(uploads.path({"name": "../a.txt", "base64": "YQ=="}, "letter")) for _ in range(2)]
    assert ([each.read_text() for each in sent], sent[0].name, sent[0] == sent[1]) == (["a", "a"], "a.txt", False)
    uploads.close()
    assert list(tmp_path.iterdir()) == []


TOOL = """\
workflow: loud
nodes:
  1: {type: start, variables: {word: string}}
  2: {type: tool, after: 1, tool: shout, arguments: {word: "{{#1.word#}}"}}
  3: {type: end, after: 2, outputs: {said: 2.text}}
"""


def test_nodes_use_the_services_that_the_studio_was_started_with(serve):
    def shout(word: str) -> str:
        """Say a word loudly."""
        return f"{word.upper()}!"

    studio = serve(services=lambda: Services(tools=[shout]))
    (studio.folder / "five.yaml").write_text(TOOL)
    assert studio.run(inputs={"word": "rain"})[1]["result"] == {"said": "RAIN!"}
    assert studio.run(only="2")[0]["2"]["text"] == "RAIN!"


def test_a_node_runs_alone_with_the_values_of_the_last_run(studio):
    studio.run(inputs={"topic": "rain"})
    studio.apply(studio.open(), {"op": "set", "node": "3", "path": "template", "value": "{{ said }}?"})
    outputs, last = studio.run(only="3")
    assert outputs["3"] == {"output": "About rain?"}
    assert "4" not in outputs
    assert last["error"] is None


def test_a_run_from_a_node_reuses_the_rest(studio):
    studio.run(inputs={"topic": "rain"})
    studio.apply(studio.open(), {"op": "set", "node": "3", "path": "template", "value": "{{ said }}?"})
    _, last = studio.run(**{"from": "3"})
    assert last["reused"] == ["1", "2", "4"]
    assert last["result"] == {"loud": "About rain?", "quoted": "<rain>"}


def test_a_run_from_a_node_runs_changed_nodes_before_it_again(studio):
    studio.run(inputs={"topic": "rain"})
    studio.apply(studio.open(), {"op": "set", "node": "2", "path": "template", "value": "On {{ topic }}"})
    _, last = studio.run(**{"from": "5"})
    assert last["reused"] == ["1", "4"]
    assert last["result"]["loud"] == "On rain!"


def test_a_node_without_values_of_a_last_run_does_not_run_alone(studio):
    told = studio.refused("run", {"path": "five.yaml", "only": "3"}, 400)
    assert (
        told["error"]
        == "node '3' reads 2, without a value in the last run; run the whole workflow once, or give or pin it"
    )


def test_what_a_node_read_and_gave_in_the_last_run_is_told(studio):
    studio.run(inputs={"topic": "rain"})
    told = studio.get("data/last/3?path=five.yaml").json()
    assert told == {
        "ran": True,
        "current": True,
        "inputs": {"2.output": "About rain"},
        "outputs": {"output": "About rain!"},
        "error": None,
        "items": [],
        "more_items": False,
    }


ASKS = """\
workflow: asks
nodes:
  1: {type: start, variables: []}
  2: {type: human-input, after: 1, question: "Send it?", actions: [["yes", "Send"], ["no", "Leave it"]]}
  3: {type: template-transform, after: {2: 0}, template: "sent", variables: []}
  4: {type: template-transform, after: {2: 1}, template: "left", variables: []}
  5: {type: variable-aggregator, after: [3, 4], variables: [[output, "3"], [output, "4"]]}
  6: {type: end, after: 5, outputs: [[done, [output, "5"]]]}
"""


@pytest.fixture
def asks(studio):
    (studio.folder / "asks.yaml").write_text(ASKS)
    return studio


def asked(studio, run):
    """The first message of a run with a question."""
    return next(each for each in studio.messages(f"data/runs/{run}/changes") if each["questions"])["questions"]


def test_a_question_is_told_with_its_node_and_answered(asks):
    run = asks.told("run", {"path": "asks.yaml"})["run"]
    [question] = asked(asks, run)
    assert (question["node"], question["text"]) == ("2", "Send it?")
    assert question["schema"]["properties"]["action"]["enum"] == ["yes", "no"]
    wrong = {"interrupt_id": question["id"], "value": {"action": "maybe"}}
    assert asks.post(f"data/runs/{run}/answer", wrong).status_code == 422
    asks.told(f"runs/{run}/answer", {"interrupt_id": question["id"], "value": {"action": "no"}})
    messages = list(asks.messages(f"data/runs/{run}/changes"))
    assert (messages[-1]["result"], messages[-1]["questions"]) == ({"done": "left"}, [])
    spans = [each for message in messages for each in message["spans"]]  # each message has those that changed
    assert {each["name"] for each in spans if each["state"] == "skipped"} == {"3"}


def test_a_run_that_waits_is_cancelled(asks):
    run = asks.told("run", {"path": "asks.yaml"})["run"]
    asked(asks, run)
    asks.told(f"runs/{run}/cancel", {})
    last = list(asks.messages(f"data/runs/{run}/changes"))[-1]
    assert (last["ended"], last["result"], bool(last["error"])) == (True, None, True)


def test_answers_are_reused_by_a_run_from_a_node(asks):
    run = asks.told("run", {"path": "asks.yaml"})["run"]
    [question] = asked(asks, run)
    asks.told(f"runs/{run}/answer", {"interrupt_id": question["id"], "value": {"action": "yes"}})
    list(asks.messages(f"data/runs/{run}/changes"))
    asks.apply(asks.open("asks.yaml"), {"op": "set", "node": "3", "path": "template", "value": "really sent"})
    _, last = asks.run("asks.yaml", **{"from": "3"})
    assert (last["result"], last["reused"]) == ({"done": "really sent"}, ["1", "2"])


def test_the_run_page_of_a_run_is_served_by_the_studio(studio):
    run = studio.told("run", {"path": "five.yaml", "inputs": {"topic": "rain"}})["run"]
    list(studio.messages(f"data/runs/{run}/changes"))
    assert studio.get(f"runs/{run}/").headers["content-type"].startswith("text/html")
    told = next(each for each in studio.messages(f"runs/{run}/data/changes") if each["workflow"])
    assert (told["workflow"], told["can"]) == ("five", ["answer", "cancel"])


def test_a_failed_node_is_told_with_its_error(studio):
    code = {
        "code": "def main(topic):\n    return {'n': 1 / 0}",
        "variables": [["topic", ["topic", "1"]]],
        "outputs": [["n", "number"]],
    }
    studio.apply(
        studio.open(),
        {"op": "insert_between", "source": "2", "target": "3", "id": "6", "type": "code", "params": code},
    )
    _, last = studio.run(inputs={"topic": "rain"})
    assert "ZeroDivisionError" in last["error"]
    told = studio.get("data/last/6?path=five.yaml").json()
    assert "ZeroDivisionError" in told["error"]
    assert told["inputs"] == {"1.topic": "rain"}


def test_a_run_without_a_model_says_what_to_set(serve, nothing_configured):
    studio = serve()
    path = studio.told("files", {"new": "example", "name": "letters"})["path"]
    told = studio.refused("run", {"path": path, "inputs": {"letter": "Hi."}}, 400)
    assert "OPENAI_API_KEY" in told["error"]


EACH = """\
workflow: each
nodes:
  1: {type: start, after: [], variables: [[words, "array[string]"]]}
  2:
    type: iteration
    after: 1
    iterator_selector: [words, "1"]
    output_selector: [output, 2-3]
    nodes:
      2-1: {type: iteration-start}
      2-2: {type: template-transform, after: 2-1, template: "{{ w }}!", variables: [[w, [item, "2"]]]}
      2-3: {type: template-transform, after: 2-2, template: "<{{ w }}>", variables: [[w, [output, 2-2]]]}
  3: {type: end, after: 2, outputs: [[all, [output, "2"]]]}
"""


def test_a_node_inside_a_container_runs_alone_with_what_the_last_pass_gave_it(serve):
    studio = serve()
    (studio.folder / "each.yaml").write_text(EACH)
    told = studio.refused("run", {"path": "each.yaml", "only": "2-3"}, 400)
    assert "reads 2-2, without a value in the last run" in told["error"]
    outputs, _ = studio.run("each.yaml", inputs={"words": ["a", "b"]})
    assert outputs["2"] == {"output": ["<a!>", "<b!>"]}
    document = studio.open("each.yaml")
    studio.apply(document, {"op": "set", "node": "2-2", "path": "template", "value": "{{ w }}?"})
    outputs, _ = studio.run("each.yaml", only="2-2")
    assert outputs["2-2"] == {"output": "b?"}
    outputs, _ = studio.run("each.yaml", only="2-3")
    assert outputs["2-3"] == {"output": "<b?>"}
    told = studio.refused("run", {"path": "each.yaml", "from": "2-2"}, 400)
    assert told["error"] == "node '2-2' runs inside '2'; begin at '2', or run the node alone"


def test_a_node_that_reads_an_item_does_not_run_alone_before_there_was_one(serve):
    studio = serve()
    (studio.folder / "each.yaml").write_text(EACH)
    told = studio.refused("run", {"path": "each.yaml", "only": "2-2"}, 400)
    assert told["error"] == (
        "node '2-2' reads 'item' of the iteration '2', without a value in the last run; run the whole workflow once, "
        "or give it"
    )


LOOP = """\
workflow: loop
nodes:
  1: {type: start, after: [], variables: [[word, string]]}
  2:
    type: loop
    after: 1
    loop_count: 3
    variables: [[text, string, [word, "1"]]]
    nodes:
      2-1: {type: loop-start}
      2-2: {type: template-transform, after: 2-1, template: "{{ t }}{{ i }}", variables: [[t, [text, "2"]], [i, [index, "2"]]]}
      2-3: {type: assigner, after: 2-2, assignments: [[[text, "2"], set, [output, 2-2]]]}
      2-4: {type: template-transform, after: 2-3, template: "<{{ w }}>", variables: [[w, [word, "1"]]]}
  3: {type: end, after: 2, outputs: [[all, [text, "2"]]]}
"""


def test_a_node_that_reads_a_variable_of_a_loop_is_not_run_alone_but_the_loop_is(serve):
    studio = serve()
    (studio.folder / "loop.yaml").write_text(LOOP)
    _, last = studio.run("loop.yaml", inputs={"word": "a"})
    assert last["result"] == {"all": "a012"}
    told = studio.refused("run", {"path": "loop.yaml", "only": "2-2"}, 400)
    assert told["error"] == (
        "node '2-2' reads 'text', 'index' of the loop '2', which changes from pass to pass and is not kept; "
        "run '2' alone instead"
    )
    outputs, _ = studio.run("loop.yaml", only="2")
    assert outputs["2"] == {"text": "a012", "rounds": 3}
    outputs, _ = studio.run("loop.yaml", only="2-4")
    assert outputs["2-4"] == {"output": "<a>"}
