"""Files in the studio: opened, changed step by step, changed by others, and never lost."""

import json
import threading
from pathlib import Path

import pytest
import yaml
from studios import FIVE

from operad.operators.nodes.models import LLM
from operad.server.studio.files.history import History
from operad.server.studio.files.open_file import OpenFile

SET = {"op": "set", "node": "3", "path": "template"}


def titles(document):
    return [(each["number"], each["title"], each["kind"], each["before"]) for each in document["steps"]]


def test_a_file_opens_with_its_nodes_edges_and_inputs(studio):
    document = studio.open()
    assert (document["format"], document["version"], document["disk"], document["readonly"]) == (
        "operad",
        1,
        "same",
        None,
    )
    two = document["nodes"][1]
    assert (two["id"], two["type"], two["title"], two["summary"]) == (
        "2", "template-transform", "Template transform", "About {{ topic }}",
    )  # fmt: skip
    assert two["outputs"] == [{"name": "output", "type": "string"}]
    assert document["edges"][0] == {"source": "1", "port": 0, "target": "2"}
    assert [each["name"] for each in document["inputs"]] == ["topic"]
    assert document["issues"] == []


def test_each_change_is_written_at_once_and_undone_and_done_again(studio):
    one = studio.apply(studio.open(), {**SET, "value": "{{ said }}?"})
    assert "'{{ said }}?'" in (studio.folder / "five.yaml").read_text()
    two = studio.apply(
        one, {"op": "add_node", "id": "6", "type": "llm"}, {"op": "connect", "source": "1", "target": "6"}
    )
    assert titles(two) == [
        (1, "opened", "open", 0),
        (2, "Set template of Template transform #3", "edit", 1),
        (3, "Add llm 6, and 1 more", "edit", 2),
    ]
    back = studio.told("undo", {"path": "five.yaml", "version": two["version"]})
    back = studio.told("undo", {"path": "five.yaml", "version": back["version"]})
    assert (studio.folder / "five.yaml").read_text() == FIVE
    assert (back["undo"], back["redo"], back["step"]) == (False, True, 1)
    again = studio.told("redo", {"path": "five.yaml", "version": back["version"]})
    assert (again["step"], again["undo"], again["redo"]) == (2, True, True)


@pytest.mark.slow
def test_fifty_changes_are_undone_one_by_one(studio):
    document = studio.open()
    for number in range(50):
        document = studio.apply(document, {**SET, "value": f"{{{{ said }}}} {number}"})
    for _ in range(50):
        document = studio.told("undo", {"path": "five.yaml", "version": document["version"]})
    assert (studio.folder / "five.yaml").read_text() == FIVE
    assert document["undo"] is False


def test_a_change_after_going_back_keeps_the_other_branch(studio):
    one = studio.apply(studio.open(), {**SET, "value": "A {{ said }}"})
    back = studio.told("undo", {"path": "five.yaml", "version": one["version"]})
    other = studio.apply(back, {**SET, "value": "B {{ said }}"})
    assert [(each["number"], each["before"]) for each in other["steps"]] == [(1, 0), (2, 1), (3, 1)]
    there = studio.told("goto", {"path": "five.yaml", "version": other["version"], "step": 2})
    assert there["nodes"][2]["params"]["template"] == "A {{ said }}"


def test_two_steps_are_compared(studio):
    document = studio.apply(studio.open(), {**SET, "value": "{{ said }}?"}, {"op": "remove_node", "node": "4"})
    changes = studio.told("compare", {"path": "five.yaml", "from": 1, "to": document["step"]})
    assert changes["removed"] == ["4"]
    assert changes["changed"] == [
        {"node": "3", "fields": [{"field": "template", "before": "{{ said }}!", "after": "{{ said }}?"}]}
    ]
    assert changes["edges_removed"] == [["1", 0, "4"], ["4", 0, "5"]]


def test_two_tabs_do_not_overwrite_each_other(studio):
    mine = theirs = studio.open()
    studio.apply(mine, {**SET, "value": "mine {{ said }}"})
    told = studio.refused(
        "apply", {"path": "five.yaml", "version": theirs["version"], "operations": [{**SET, "value": "theirs"}]}, 409
    )
    assert told["error"] == "five.yaml was changed meanwhile: this is version 2, not 1"
    assert told["document"]["nodes"][2]["params"]["template"] == "mine {{ said }}"


def test_other_tabs_are_told_of_a_change(studio):
    document = studio.open()
    heard = []
    follower = threading.Thread(target=lambda: heard.append(next(studio.messages("data/changes"))))
    follower.start()
    while not heard:
        document = studio.apply(document, {**SET, "value": f"{document['version']} {{{{ said }}}}"})
        follower.join(0.05)
    assert heard[0]["path"] == "five.yaml"
    assert heard[0]["disk"] == "same"


def test_a_change_by_another_program_is_a_step(studio):
    studio.open()
    (studio.folder / "five.yaml").write_text(FIVE.replace("About", "On"))
    document = studio.open()
    assert titles(document)[-1] == (2, "changed outside", "outside", 1)
    assert document["nodes"][1]["params"]["template"] == "On {{ topic }}"
    studio.told("undo", {"path": "five.yaml", "version": document["version"]})
    assert (studio.folder / "five.yaml").read_text() == FIVE


def test_a_file_that_another_program_broke_is_left_alone_until_it_is_restored(studio):
    document = studio.open()
    (studio.folder / "five.yaml").write_text("nodes: [")
    told = studio.refused(
        "apply", {"path": "five.yaml", "version": document["version"], "operations": [{**SET, "value": "x"}]}, 409
    )
    assert told["error"].endswith("nothing was written. Correct the file, or restore the studio's version")
    broken = studio.open()
    assert (broken["disk"], len(broken["nodes"]), bool(broken["fault"])) == ("changed", 5, True)
    assert (studio.folder / "five.yaml").read_text() == "nodes: ["
    mended = studio.told("restore", {"path": "five.yaml"})
    assert (mended["disk"], (studio.folder / "five.yaml").read_text()) == ("same", FIVE)


def test_a_deleted_file_is_told_and_can_be_restored(studio):
    document = studio.open()
    (studio.folder / "five.yaml").unlink()
    gone = studio.open()
    assert (gone["disk"], gone["fault"], len(gone["nodes"])) == ("gone", "the file was deleted or moved", 5)
    said = {"path": "five.yaml", "version": document["version"], "operations": [{**SET, "value": "x"}]}
    assert "was deleted or moved; nothing was written" in studio.refused("apply", said, 409)["error"]
    assert studio.told("restore", {"path": "five.yaml"})["disk"] == "same"
    assert (studio.folder / "five.yaml").read_text() == FIVE


def test_steps_outlive_the_server(studio, serve):
    studio.apply(studio.open(), {**SET, "value": "{{ said }}?"})
    document = serve().open()
    assert [each["number"] for each in document["steps"]] == [1, 2]
    serve().told("undo", {"path": "five.yaml", "version": document["version"]})
    assert (studio.folder / "five.yaml").read_text() == FIVE


def test_a_step_that_was_kept_but_not_written_is_not_lost(tmp_path):
    path = tmp_path / "five.yaml"
    path.write_text(FIVE)
    file = OpenFile(path, "five.yaml", tmp_path / "histories")
    file.history.add("Set template of 3", "edit", FIVE.replace("About", "On").encode(), at=0.0)
    again = OpenFile(path, "five.yaml", tmp_path / "histories")  # the process ended before the file was written
    assert (again.history.current, again.content.data.decode()) == (1, FIVE)
    again.redo(again.version)
    assert path.read_text() == FIVE.replace("About", "On")


def test_a_history_that_was_cut_off_or_changed_does_not_keep_a_file_from_opening(studio, serve, tmp_path):
    studio.apply(studio.open(), {**SET, "value": "{{ said }}?"})
    [lines] = (tmp_path / "histories").glob("*/steps.jsonl")
    with lines.open("a") as stream:
        stream.write('[1]\n{"number": 9}\n{"current": "x"}\nnot json\n{"number": 3, "title": "cut o')
    document = serve().open()
    assert [each["number"] for each in document["steps"]] == [1, 2]
    for blob in lines.parent.iterdir():
        if blob != lines:
            blob.write_bytes(b"changed")
    told = serve().refused("goto", {"path": "five.yaml", "version": 1, "step": 1}, 400)
    assert told["error"].startswith("step 1: its content was changed in ")


def test_files_of_the_folder_are_listed_with_their_formats(studio):
    (studio.folder / "bad.yaml").write_text("workflow: x\nnodes: {1: {typ: start}}\n")
    (studio.folder / "facts.yaml").write_text("operators:\n  - &a {instruction: Say.}\nexperts: []\n")
    (studio.folder / "notes.md").write_text("# nothing\n")
    (studio.folder / ".hidden.yaml").write_text(FIVE)
    (studio.folder / "sub").mkdir()
    (studio.folder / "sub" / "two.json").write_text(json.dumps({"nodes_info": [], "edges": []}))
    listed = {each["path"]: each for each in studio.get("data/files").json()["files"]}
    assert {name: each["format"] for name, each in listed.items()} == {
        "five.yaml": "operad", "bad.yaml": "operad", "facts.yaml": "experts", "sub/two.json": "chat2workflow",
    }  # fmt: skip
    assert listed["five.yaml"]["nodes"] == 5
    assert "typ" in listed["bad.yaml"]["error"]


def test_files_opened_lately_are_listed_with_those_that_are_missing_and_those_of_other_folders(serve, tmp_path):
    def recent(studio):
        return [
            (each["name"], Path(each["place"]).name, each["missing"], each["command"])
            for each in studio.get("data/files").json()["recent"]
        ]

    other = serve(tmp_path / "other place")
    (other.folder / "b.yaml").write_text(FIVE)
    other.open("b.yaml")
    studio = serve()
    for name in ("a.yaml", "c.yaml"):
        (studio.folder / name).write_text(FIVE)
        studio.open(name)
    (studio.folder / "a.yaml").unlink()
    assert recent(studio) == [
        ("c.yaml", "c.yaml", False, None),
        ("a.yaml", "a.yaml", True, None),
        (None, "b.yaml", False, f"operad studio '{other.folder / 'b.yaml'}'"),
    ]
    (studio.folder / "a.yaml").write_text(FIVE)
    studio.open("a.yaml")
    assert recent(studio)[:2] == [("a.yaml", "a.yaml", False, None), ("c.yaml", "c.yaml", False, None)]


@pytest.mark.parametrize("kept", ["", "[", '{"a": 1}', '[1, {"path": 2, "at": 3}, {"path": "a"}]', "[" * 100_000])
def test_a_list_of_files_opened_lately_that_was_changed_is_begun_again(serve, tmp_path, kept):
    (tmp_path / "histories").mkdir()
    (tmp_path / "histories" / "recent.json").write_text(kept)
    studio = serve()
    (studio.folder / "five.yaml").write_text(FIVE)
    assert studio.get("data/files").json()["recent"] == []
    studio.open()
    assert [each["name"] for each in studio.get("data/files").json()["recent"]] == ["five.yaml"]


def test_new_files_take_free_names(studio):
    new = {"new": "empty", "path": "made"}
    assert [studio.told("files", new)["path"] for _ in range(2)] == ["made.yaml", "made-2.yaml"]
    document = studio.open("made.yaml")
    assert ([each["type"] for each in document["nodes"]], document["name"]) == (["start"], "made")


def test_each_example_opens_without_issues(studio):
    for example in studio.get("data/files").json()["examples"]:
        path = studio.told("files", {"new": "example", "name": example["name"]})["path"]
        document = studio.open(path)
        assert document["issues"] == []
        assert document["name"]


def test_a_dropped_file_is_taken_in(studio):
    made = studio.get("data/export?path=five.yaml&format=coze").json()
    path = studio.told("files", {"new": "import", "name": "C:\\x\\mine.zip", "base64": made["base64"]})["path"]
    assert path == "mine.zip"
    document = studio.open(path)
    assert (document["format"], len(document["nodes"])) == ("coze", 5)


@pytest.mark.parametrize("format_", ["dify", "coze", "chat2workflow"])
def test_files_of_other_platforms_are_edited_in_their_format(studio, format_):
    made = studio.get(f"data/export?path=five.yaml&format={format_}").json()
    data = {"base64": made["base64"]} if "base64" in made else studio.upload("x", made["text"].encode())
    path = studio.told("files", {"new": "import", "name": made["name"], "base64": data["base64"]})["path"]
    document = studio.apply(studio.open(path), {**SET, "value": "{{ said }}?"})
    assert (document["format"], document["issues"]) == (format_, [])
    _, last = studio.run(path, inputs={"topic": "rain"})
    assert last["result"]["loud"] == "About rain?"


def test_nodes_of_dify_have_the_titles_and_places_that_they_have_there(studio, request):
    source = request.config.rootpath / "test" / "unit" / "data" / "dify_cases" / "fail-branch-code-fails.yml"
    (studio.folder / "flow.yml").write_bytes(source.read_bytes())
    nodes = studio.open("flow.yml")["nodes"]
    assert [(each["title"], each["position"]) for each in nodes[:3]] == [
        ("start 1", {"x": 0.0, "y": 0.0}),
        ("code 2", {"x": 100.0, "y": 0.0}),
        ("template-transform 3", {"x": 200.0, "y": 0.0}),
    ]


def test_what_an_imported_file_does_differently_here_is_listed_behind_the_issues(studio, request):
    source = request.config.rootpath / "test" / "unit" / "data" / "dify_cases" / "fail-branch-code-fails.yml"
    root = yaml.safe_load(source.read_text())
    root["workflow"]["graph"]["nodes"][1]["data"]["strange"] = True
    (studio.folder / "flow.yml").write_text(yaml.safe_dump(root))
    told = [each for each in studio.open("flow.yml")["issues"] if "strange" in each["what"]]
    assert [(each["node"], each["severity"]) for each in told] == [
        (studio.open("flow.yml")["nodes"][1]["id"], "warning")
    ]


def test_a_workflow_of_comfyui_is_shown_and_not_changed(studio):
    graph = {
        "1": {"class_type": "LoadImage", "inputs": {}},
        "2": {"class_type": "Save", "inputs": {"images": ["1", 0]}},
    }
    (studio.folder / "comfy.json").write_text(json.dumps(graph))
    document = studio.open("comfy.json")
    assert [node["title"] for node in document["nodes"]] == ["LoadImage", "Save"]
    assert document["readonly"].startswith("nodes of the format comfyui")
    assert document["readonly"].endswith("a node of the type comfyui runs the file on a ComfyUI server")
    said = {"path": "comfy.json", "version": 1, "operations": [{"op": "remove_node", "node": "1"}]}
    assert "are not of Operad's types" in studio.refused("apply", said, 409)["error"]


def test_variables_that_may_be_read_are_told(studio):
    found = studio.told("candidates", {"path": "five.yaml", "node": "3"})["variables"]
    assert [(each["reference"], each["type"]) for each in found] == [("2.output", "string"), ("1.topic", "string")]


def test_inside_a_container_its_own_variables_may_be_read(studio):
    path = studio.told("files", {"new": "example", "name": "translations"})["path"]
    found = studio.told("candidates", {"path": path, "node": "2-2"})["variables"]
    assert [each["reference"] for each in found] == ["2.item", "2.index", "1.text", "1.languages"]


def test_results_and_conditions_of_a_container_may_name_variables_inside_it(studio):
    path = studio.told("files", {"new": "example", "name": "translations"})["path"]
    found = studio.told("candidates", {"path": path, "node": "2"})["variables"]
    reports = [f"2-2.{name}" for name in LLM.reports]
    assert [each["reference"] for each in found] == ["1.text", "1.languages", "2.item", "2.index", "2-2.text", *reports]


def test_edges_that_cannot_be_are_told_with_the_reason(studio):
    targets = studio.told("connectable", {"path": "five.yaml", "source": "3", "port": 0})["targets"]
    assert targets["4"] is None
    assert targets["1"] == "'1' is the start; no edge leads to it"
    assert targets["2"] == "'2' leads to '3' already; this edge would close a cycle"
    assert targets["5"] == "an edge leads from port 0 of '3' to '5' already; leave this out"


def test_the_catalogue_has_all_types_with_hints_for_editors(studio):
    found = {each["type"]: each for each in studio.get("data/catalogue").json()}
    assert (found["llm"]["title"], found["llm"]["family"], found["llm"]["container"]) == ("LLM", "Models", False)
    assert found["llm"]["schema"]["properties"]["user"]["x-editor"] == "prompt"
    assert found["code"]["schema"]["properties"]["code"]["x-editor"] == "code"
    assert (found["iteration"]["container"], found["iteration"]["body_start"]) == (True, "iteration-start")
    operators = found["if-else"]["schema"]["$defs"]["Condition"]["x-operators"]
    assert operators["number"][:3] == ["=", "≠", ">"]
    assert {"exists", "not exists"} <= set(operators["string"])


ASKS = """\
workflow: asks
nodes:
  1: {type: start}
  2: {type: human-input, after: 1, question: "Send it?", actions: [["yes", "Send"]]}
  3: {type: end, after: {2: PORT}, outputs: {said: 2.action}}
"""


@pytest.mark.parametrize(("port", "labels"), [("0", ["Send"]), ("1", ["Send", "timeout"])])
def test_a_question_has_a_port_for_a_timeout_only_where_an_edge_leaves_it(studio, port, labels):
    (studio.folder / "asks.yaml").write_text(ASKS.replace("PORT", port))
    assert studio.open("asks.yaml")["nodes"][1]["ports"] == labels


def test_a_list_of_two_texts_is_not_taken_for_a_variable_that_is_read(studio):
    (studio.folder / "two.yaml").write_text(
        "workflow: two\nnodes:\n  1: {type: start, after: [], variables: [[letter, string]]}\n"
        "  2: {type: question-classifier, after: 1, query_selector: [letter, '1'], classes: [billing, technical]}\n"
        "  3: {type: answer, after: [{2: 0}, {2: 1}], answer: ''}\n"
    )
    summaries = {each["id"]: each["summary"] for each in studio.open("two.yaml")["nodes"]}
    assert "technical.billing" not in summaries["2"]


def test_variables_of_an_unfinished_node_can_be_read(studio):
    document = studio.apply(
        studio.open(),
        {"op": "insert_between", "source": "1", "target": "2", "id": "6", "type": "llm"},
        {"op": "insert_between", "source": "6", "target": "2", "id": "7", "type": "code"},
    )
    assert {each["node"] for each in document["issues"]} == {"6", "7"}
    found = studio.told("candidates", {"path": "five.yaml", "node": "2"})["variables"]
    assert [each["reference"] for each in found] == ["6.text", *(f"6.{name}" for name in LLM.reports), "1.topic"]


def test_variables_of_a_node_with_wrong_parameters_are_those_that_can_be_read(studio):
    rows = [["topic", "string"], ["", "string"], ["tone", "string"]]
    document = studio.apply(studio.open(), {"op": "set", "node": "1", "path": "variables", "value": rows})
    assert [each["name"] for each in document["nodes"][0]["outputs"]] == ["topic", "tone"]
    document = studio.apply(document, {"op": "set", "node": "1", "path": "variables", "value": [["", "string"]]})
    assert document["nodes"][0]["outputs"] == []


def test_cards_say_what_a_node_does_or_reads(studio):
    path = studio.told("files", {"new": "example", "name": "letters"})["path"]
    said = {each["id"]: each["summary"] for each in studio.open(path)["nodes"]}
    assert said == {
        "1": "letter",
        "2": "reads letter · Start",
        "3": "Apologise, and offer help: letter · Start",
        "4": "Answer the question: letter · Start",
        "5": "Say thank you: letter · Start",
        "6": "reads text · LLM #3, text · LLM #4, text · LLM #5",
        "7": "answer",
    }


# Named versions


def test_a_version_has_a_name_after_a_restart_and_loses_it(tmp_path):
    file = tmp_path / "f.yaml"
    kept = History(file, tmp_path / "histories")
    kept.add("first", "open", b"1", 1.0)
    kept.add("second", "edit", b"2", 2.0)
    kept.name(1, "as sent to Ann")
    again = History(file, tmp_path / "histories")
    assert [(each.title, each.name) for each in again.steps] == [("first", "as sent to Ann"), ("second", "")]
    assert again.current == 2
    again.name(1, "")
    assert [each.name for each in History(file, tmp_path / "histories").steps] == ["", ""]


def test_a_version_with_a_name_is_kept_when_old_steps_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr("operad.server.studio.files.history.MOST_STEPS", 3)
    file = tmp_path / "f.yaml"
    kept = History(file, tmp_path / "histories")
    for number in range(1, 8):
        kept.add(str(number), "edit", str(number).encode(), float(number))
    kept.name(2, "good")
    for _ in range(2):
        again = History(file, tmp_path / "histories")
        assert [(each.number, each.title) for each in again.steps] == [(1, "2"), (2, "5"), (3, "6"), (4, "7")]
        assert (again.content(1), again.current) == (b"2", 4)


@pytest.mark.parametrize(("step", "name"), [(9, "x"), (1, "x" * 81), ("1", "x"), (1, 5)])
def test_a_name_that_cannot_be_given_is_refused(studio, step, name):
    studio.open()
    studio.refused("name", {"path": "five.yaml", "step": step, "name": name}, 400)
    assert [each["name"] for each in studio.open()["steps"]] == [""]


def test_a_version_is_named_over_http(studio):
    studio.open()
    document = studio.told("name", {"path": "five.yaml", "step": 1, "name": "  as \n it was "})
    assert document["steps"][0]["name"] == "as it was"
