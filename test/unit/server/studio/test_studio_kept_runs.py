"""Runs of a studio outlive it: they are listed, looked at, continued, cancelled and deleted later."""

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import httpx
import pytest
from held_model import held_model
from local_http import NO_AUTHORITIES
from studio_page import served
from studios import FIVE, Client

from operad.runtime.durable.tables import Retention
from operad.runtime.testing import Say, ScriptedModel

ASKS = """\
workflow: asks
nodes:
  1: {type: start, after: [], variables: {topic: string}}
  2: {type: template-transform, after: 1, template: "On {{ topic }}", variables: [[topic, [topic, "1"]]]}
  3: {type: human-input, after: 2, question: "Send it?", actions: [["yes", "Send"], ["no", "Leave it"]]}
  4: {type: end, after: {3: 0}, outputs: [[sent, [output, "2"]]]}
"""

WRITES = """\
workflow: writes
nodes:
  1: {type: start, variables: {topic: string}}
  2: {type: template-transform, after: 1, template: "About {{ topic }}", variables: [[topic, [topic, "1"]]]}
  3: {type: llm, after: 2, system: "", user: "{{#2.output#}}"}
  4: {type: end, after: 3, outputs: {said: 3.text}}
"""


@pytest.fixture
def opened(tmp_path):
    """Opens a studio of the same folder, with the same state, until the end of a context."""
    folder = tmp_path / "folder"
    folder.mkdir()
    for name, text in (("five", FIVE), ("asks", ASKS), ("writes", WRITES)):
        (folder / f"{name}.yaml").write_text(text)

    @contextmanager
    def opened(**named):
        with (
            httpx.Client(timeout=60, trust_env=False, verify=NO_AUTHORITIES) as http,
            served(folder, tmp_path / "state", **named) as url,
        ):
            yield Client(url, folder, http)

    return opened


def runs(studio, name="five.yaml"):
    return studio.get(f"data/runs?path={name}").json()["runs"]


def last_of(studio, run):
    """The last message about a run, with the outputs of all nodes."""
    outputs, last = {}, {}
    for last in studio.messages(f"data/runs/{run}/changes"):
        outputs |= last["outputs"]
    return last | {"outputs": outputs}


def state_of(studio, run):
    return next(studio.messages(f"data/runs/{run}/changes"))["state"]


def asked(studio, run):
    return next(each for each in studio.messages(f"data/runs/{run}/changes") if each["questions"])["questions"][0]


def test_a_run_is_listed_and_looked_at_after_the_studio_was_restarted(opened):
    with opened() as studio:
        studio.run(inputs={"topic": "rain"})
    with opened() as studio:
        [run] = runs(studio)
        assert (run["state"], run["inputs"], run["only"], run["from"]) == ("done", "topic: rain", "", "")
        told = last_of(studio, run["id"])
        assert (told["ended"], told["state"], told["outputs"]["2"]) == (True, "done", {"output": "About rain"})
        assert told["result"] == {"loud": "About rain!", "quoted": "<rain>"}
        page = next(each for each in studio.messages(f"runs/{run['id']}/data/changes") if each["workflow"])
        assert page["workflow"] == "five"
        assert runs(studio, "asks.yaml") == []


NOTES = """\
operators:
  - &title {name: title, instruction: Write a title.}
  - &note {name: note, instruction: Write a note.}
  - &join {name: join, instruction: Put both together.}
  - &judge {name: judge, instruction: The title has four words.}
experts:
  - {profile: {name: Notes}, workflow: [[*title, *join], [*note, *join]], evaluator: *judge, max_rounds: 2}
"""


def test_a_run_that_is_looked_at_names_the_nodes_that_were_changed_since(opened):
    def changed(studio):
        return next(studio.messages(f"data/runs/{runs(studio)[0]['id']}/changes"))["changed"]

    with opened() as studio:
        studio.run(inputs={"topic": "rain"})
        assert changed(studio) == []
        studio.apply(
            studio.open(),
            {"op": "set", "node": "3", "path": "template", "value": "Hi {{ said }}"},
            {"op": "disconnect", "source": "4", "target": "5"},
        )
    with opened() as studio:
        assert changed(studio) == ["3", "5"]
        (studio.folder / "five.yaml").unlink()
        assert changed(studio) == ["3", "5"], "the studio keeps the content of a file that is gone"


def _verdict(status, *blamed):
    fault = {"wrong": "Nine words", "right": "Four words", "lesson": "At most four words.", "sure": True}
    faults = [{"operator": operator, **fault} for operator in blamed]
    return json.dumps({"status": status, "evaluation": "Nine words.", "faults": faults, "unsure": [], "score": 5})


def test_rounds_of_an_expert_are_the_same_after_a_restart(opened):
    left = {
        "Write a title": ["Nine words", "Four words"],
        "Write a note": ["Short."],
        "Put both": ["Nine words: Short.", "Four words: Short."],
        "The title has four": [_verdict("EXECUTION_ERROR", "title"), _verdict("SUCCESS")],
    }

    def answer(request):
        asked = json.dumps(request["messages"])
        return Say(next(said.pop(0) for key, said in reversed(left.items()) if key in asked and said))

    parts = ("outputs", "before", "rounds", "judges", "questions", "reused", "result", "error", "state", "ended")
    with ScriptedModel(answer) as endpoint:
        with opened(model=endpoint.model) as studio:
            (studio.folder / "notes.yaml").write_text(NOTES)
            run = studio.told("run", {"path": "notes.yaml", "inputs": {"job": "Notes on rain"}})["run"]
            last_of(studio, run)
            told = studio.get(f"data/runs/{run}").json()
            assert (told["state"], [each["status"] for each in told["rounds"]]) == (
                "done",
                ["EXECUTION_ERROR", "SUCCESS"],
            )
        with opened(model=endpoint.model) as studio:
            again = studio.get(f"data/runs/{run}").json()
            assert {part: again[part] for part in parts} == {part: told[part] for part in parts}
            assert [each["inputs"] for each in runs(studio, "notes.yaml")] == ["job: Notes on rain"]
            assert again["row"]["usage"]["calls"] == told["row"]["usage"]["calls"] == 7


def test_nodes_use_the_values_of_the_last_run_after_a_restart(opened):
    with opened() as studio:
        studio.run(inputs={"topic": "rain"})
        studio.apply(studio.open(), {"op": "set", "node": "2", "path": "template", "value": "On {{ topic }}"})
        studio.run(only="2")
    with opened() as studio:
        assert studio.get("data/last/2?path=five.yaml").json()["outputs"] == {"output": "On rain"}
        studio.apply(studio.open(), {"op": "set", "node": "4", "path": "template", "value": "({{ topic }})"})
        _, last = studio.run(**{"from": "5"})
        assert (last["reused"], last["result"]) == (["1", "2"], {"loud": "On rain!", "quoted": "(rain)"})
        assert [(run["only"], run["from"]) for run in runs(studio)] == [("", "5"), ("2", ""), ("", "")]


def test_a_run_that_was_interrupted_is_said_to_be_and_goes_on(opened):
    with held_model("It rains ", "today.") as (model, let):
        with opened(model=model) as studio:
            run = studio.told("run", {"path": "writes.yaml", "inputs": {"topic": "rain"}})["run"]
            assert next(each for each in studio.messages(f"data/runs/{run}/changes") if each["writing"])
        let.set()
        with opened(model=model) as studio:
            assert [(each["id"], each["state"]) for each in runs(studio, "writes.yaml")] == [(run, "interrupted")]
            told = last_of(studio, run)
            assert (told["ended"], told["state"], told["error"]) == (True, "interrupted", None)
            assert told["outputs"]["2"] == {"output": "About rain"}
            assert "no process drives this run" in told["note"]
            studio.told(f"runs/{run}/resume", {})
            told = last_of(studio, run)
            assert (told["state"], told["result"]) == ("done", {"said": "It rains today."})
            spans = studio.get(f"data/runs/{run}").json()["spans"]
            assert [each["name"] for each in spans if each["state"] == "kept"] == ["1", "2"]
            assert studio.refused(f"runs/{run}/resume", {}, 400)["error"] == "the run is done, and cannot go on"


def test_an_interrupted_run_of_a_workflow_that_was_changed_since_does_not_go_on(opened):
    with held_model("It rains ", "today.") as (model, let):
        with opened(model=model) as studio:
            run = studio.told("run", {"path": "writes.yaml", "inputs": {"topic": "rain"}})["run"]
            assert next(each for each in studio.messages(f"data/runs/{run}/changes") if each["writing"])
        let.set()
        with opened(model=model) as studio:
            studio.apply(
                studio.open("writes.yaml"), {"op": "set", "node": "2", "path": "template", "value": "On {{ topic }}"}
            )
            told = studio.refused(f"runs/{run}/resume", {}, 400)["error"]
            assert "changed since: 2 " in told
            assert "go back to step 1 in the history" in told
            assert state_of(studio, run) == "interrupted"
            studio.told(f"runs/{run}/delete", {})
            assert runs(studio, "writes.yaml") == []


def test_a_question_outlives_the_studio_and_is_answered_later(opened):
    with opened() as studio:
        run = studio.told("run", {"path": "asks.yaml", "inputs": {"topic": "rain"}})["run"]
        asked(studio, run)
    with opened() as studio:
        assert [each["state"] for each in runs(studio, "asks.yaml")] == ["asking"]
        question = asked(studio, run)
        assert (question["node"], question["text"]) == ("3", "Send it?")
        wrong = {"interrupt_id": question["id"], "value": {"action": "maybe"}}
        assert studio.post(f"data/runs/{run}/answer", wrong).status_code == 422
        studio.told(f"runs/{run}/answer", {"interrupt_id": question["id"], "value": {"action": "yes"}})
        told = last_of(studio, run)
        assert (told["state"], told["result"], told["questions"]) == ("done", {"sent": "On rain"}, [])


def test_a_run_that_waits_since_an_earlier_studio_is_cancelled(opened):
    with opened() as studio:
        run = studio.told("run", {"path": "asks.yaml", "inputs": {"topic": "rain"}})["run"]
        asked(studio, run)
    with opened() as studio:
        studio.told(f"runs/{run}/cancel", {})
        assert [each["state"] for each in runs(studio, "asks.yaml")] == ["cancelled"]
        assert (last_of(studio, run)["state"], last_of(studio, run)["error"]) == ("cancelled", "cancelled")


def test_pages_do_not_take_the_end_of_the_studio_for_the_end_of_a_run(opened):
    with ThreadPoolExecutor() as threads:
        with opened() as studio:
            run = studio.told("run", {"path": "asks.yaml", "inputs": {"topic": "rain"}})["run"]
            asked(studio, run)
            canvas, page = [
                threads.submit(list, studio.messages(path))
                for path in (f"data/runs/{run}/changes", f"runs/{run}/data/changes")
            ]
            asked(studio, run)
            next(each for each in studio.messages(f"runs/{run}/data/changes") if each["spans"])
        assert [each["state"] for each in canvas.result()][-1] == "asking"
        assert {each["ended"] for each in page.result()} == {False}


def test_another_studio_of_the_folder_shows_a_run_in_progress(opened):
    with opened() as studio, opened() as other:
        run = studio.told("run", {"path": "asks.yaml", "inputs": {"topic": "rain"}})["run"]
        asked(studio, run)
        question = asked(other, run)
        assert [each["state"] for each in runs(other, "asks.yaml")] == ["asking"]
        other.told(f"runs/{run}/answer", {"interrupt_id": question["id"], "value": {"action": "yes"}})
        assert last_of(studio, run)["result"] == last_of(other, run)["result"] == {"sent": "On rain"}


@pytest.mark.parametrize("restarted", [False, True])
def test_a_cancelled_run_and_one_that_failed_at_its_beginning_are_not_the_last(opened, restarted):
    with ExitStack() as stack:
        studio = stack.enter_context(opened())
        run = studio.told("run", {"path": "asks.yaml", "inputs": {"topic": "rain"}})["run"]
        question = asked(studio, run)
        studio.told(f"runs/{run}/answer", {"interrupt_id": question["id"], "value": {"action": "yes"}})
        last_of(studio, run)
        cancelled = studio.told("run", {"path": "asks.yaml", "inputs": {"topic": "snow"}})["run"]
        asked(studio, cancelled)
        studio.told(f"runs/{cancelled}/cancel", {})
        assert last_of(studio, cancelled)["state"] == "cancelled"
        studio.apply(studio.open("asks.yaml"), {"op": "set", "node": "2", "path": "template", "value": "{{ 1 // 0 }}"})
        assert studio.run("asks.yaml", inputs={"topic": "hail"})[1]["state"] == "failed"
        studio.apply(
            studio.open("asks.yaml"), {"op": "set", "node": "2", "path": "template", "value": "On {{ topic }}"}
        )
        if restarted:
            stack.close()
            studio = stack.enter_context(opened())
        assert studio.get("data/last/2?path=asks.yaml").json()["outputs"] == {"output": "On rain"}
        assert studio.run("asks.yaml", only="2")[0]["2"] == {"output": "On rain"}


def test_a_node_shows_the_values_of_the_run_that_is_looked_at(opened):
    with opened() as studio:
        for topic in ("rain", "snow"):
            studio.run(inputs={"topic": topic})
        snow, rain = [run["id"] for run in runs(studio)]
        for run, read in ((rain, "About rain"), (snow, "About snow"), ("", "About snow")):
            assert studio.get(f"data/last/3?path=five.yaml&run={run}").json()["inputs"] == {"2.output": read}


def test_too_many_runs_are_named_and_one_of_them_is_cancelled(opened):
    with opened() as studio:
        started = [studio.told("run", {"path": "asks.yaml", "inputs": {"topic": f"day {n}"}})["run"] for n in range(8)]
        told = studio.refused("run", {"path": "five.yaml", "inputs": {"topic": "rain"}}, 409)
        assert "asks.yaml (topic: day 3)" in told["error"]
        assert [(each["id"], each["file"]) for each in told["busy"]] == [(run, "asks.yaml") for run in started]
        studio.told(f"runs/{started[3]}/cancel", {})
        assert studio.run(inputs={"topic": "rain"})[1]["state"] == "done"
        states = [each["state"] for each in runs(studio, "asks.yaml")]
        assert states == ["asking"] * 7 + ["cancelled"]


def test_old_runs_of_a_file_are_deleted(opened):
    with opened(retention=Retention(max_runs=2)) as studio:
        waits = studio.told("run", {"path": "asks.yaml", "inputs": {"topic": "rain"}})["run"]
        asked(studio, waits)
        for topic in ("rain", "snow", "hail"):
            studio.run(inputs={"topic": topic})
        assert [each["inputs"] for each in runs(studio)] == ["topic: hail", "topic: snow"]
        assert [each["id"] for each in runs(studio, "asks.yaml")] == [waits]
    with opened(retention=Retention(max_age=0)) as studio:
        studio.run(inputs={"topic": "sun"})
        assert [each["inputs"] for each in runs(studio)] == ["topic: sun"]


def test_a_run_in_progress_is_not_deleted_before_it_is_cancelled(opened):
    with opened() as studio:
        run = studio.told("run", {"path": "asks.yaml", "inputs": {"topic": "rain"}})["run"]
        asked(studio, run)
        assert "cancel it first" in studio.refused(f"runs/{run}/delete", {}, 400)["error"]
        studio.told(f"runs/{run}/cancel", {})
        studio.told(f"runs/{run}/delete", {})
        assert runs(studio, "asks.yaml") == []
        assert studio.get(f"data/runs/{run}/changes").status_code == 404


SHOWS = """\
workflow: shows
nodes:
  1: {type: start, variables: {picture: file}}
  2: {type: end, after: 1, outputs: {picture: 1.picture}}
"""


def test_files_of_a_run_are_shown_after_a_restart(opened):
    with opened() as studio:
        (studio.folder / "shows.yaml").write_text(SHOWS)
        studio.run("shows.yaml", inputs={"picture": studio.upload("a.png", b"\x89PNG\r\n\x1a\n")})
    with opened() as studio:
        [run] = runs(studio, "shows.yaml")
        assert run["inputs"] == "picture: a.png"
        file = last_of(studio, run["id"])["outputs"]["1"]["picture"]["file"]
        assert (file["name"], studio.get(file["url"]).content) == ("a.png", b"\x89PNG\r\n\x1a\n")


def test_without_a_database_runs_are_kept_while_the_studio_is_open_and_the_list_says_why(opened, tmp_path):
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "runs.sqlite").write_text("This is not a database, but a text that is long enough.")
    with opened() as studio:
        assert studio.run(inputs={"topic": "rain"})[1]["state"] == "done"
        told = studio.get("data/runs?path=five.yaml").json()
        assert [run["state"] for run in told["runs"]] == ["done"]
        assert told["note"].startswith("Runs are only kept while the studio is open: ")
        assert "file is not a database" in told["note"]
    with opened() as studio:
        assert runs(studio) == []
