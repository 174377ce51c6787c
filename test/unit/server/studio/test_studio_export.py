"""Exports, and fixes of issues."""

import sys

import pytest

from operad.flows.formats.table import FORMATS, read


def test_formats_are_listed_and_losses_told_before_the_file(studio):
    names = [each["name"] for each in studio.get("data/export?path=five.yaml").json()["formats"]]
    assert {"operad", "dify", "coze", "chat2workflow", "python", "svg"} <= set(names)
    assert not any(name.startswith("comfyui") for name in names)
    made = studio.get("data/export?path=five.yaml&format=dify").json()
    found, graph = read(made["text"].encode(), "five")
    assert (found.name, len(graph.nodes), made["losses"]) == ("dify", 5, [])


def test_an_export_tells_which_model_it_names_for_a_node_that_names_none(studio):
    node = {"op": "add_node", "id": "6", "type": "llm", "params": {"system": "", "user": "Hi"}}
    document = studio.apply(studio.open(), node, {**node, "id": "7", "title": "Draft"})
    made = studio.get("data/export?path=five.yaml&format=dify").json()
    assert [each["where"] for each in made["models"]] == ["LLM (6)", "Draft (7)"]
    named = made["models"][0]["what"].partition("the model ")[2].partition(" of ")[0]
    assert f"name: {named}" in made["text"]
    studio.apply(document, *({"op": "set", "node": each, "path": "model_name", "value": "ours"} for each in "67"))
    assert studio.get("data/export?path=five.yaml&format=dify").json()["models"] == []


def test_the_own_format_is_the_file_as_it_is(studio):
    made = studio.get("data/export?path=five.yaml&format=operad").json()
    assert (made["name"], made["text"]) == (
        f"five{FORMATS['operad'].suffix}",
        (studio.folder / "five.yaml").read_text(),
    )


def test_an_archive_comes_as_base64(studio):
    made = studio.get("data/export?path=five.yaml&format=coze").json()
    assert set(made) == {"losses", "models", "name", "base64"}


def test_what_a_format_cannot_hold_is_listed(studio):
    studio.apply(studio.open(), {"op": "add_node", "id": "6", "type": "loop-end"})
    losses = studio.get("data/export?path=five.yaml&format=chat2workflow").json()["losses"]
    assert [each["where"] for each in losses] == ["Loop end (6)"]
    assert losses[0]["what"].startswith("Chat2Workflow has no")


def test_the_python_that_builds_it_runs(studio, tmp_path, forked):
    made = studio.get("data/export?path=five.yaml&format=python").json()
    assert made["name"] == "five.py"
    ran = tmp_path / "ran.py"
    ran.write_text(made["text"].replace("MonoModelReasoner())", "None)").replace("'…'", "'rain'"))
    told = forked.run([sys.executable, ran])
    assert (told.stdout, told.stderr) == ("{'loud': 'About rain!', 'quoted': '<rain>'}\n", "")


def test_an_unknown_format_is_refused_with_near_names(studio):
    told = studio.get("data/export?path=five.yaml&format=diffy")
    assert (told.status_code, told.json()["error"].partition(";")[0]) == (
        400,
        "there is no format 'diffy' (did you mean 'dify'?)",
    )


@pytest.fixture
def broken(studio):
    """A document whose node 3 reads a name that is misspelt."""
    return studio.apply(
        studio.open(), {"op": "set", "node": "3", "path": "variables", "value": [["said", ["outputt", "2"]]]}
    )


def test_an_issue_with_one_proposal_is_fixed_by_it(studio, broken):
    told = studio.get("data/fixes?path=five.yaml").json()
    assert told["version"] == broken["version"]
    assert told["fixes"] == ['change variables.said of 3 from "2.outputt" to "2.output"']
    mended = studio.told("fix", {"path": "five.yaml", "version": broken["version"], "issue": 0})
    assert mended["issues"] == []
    assert mended["steps"][-1]["title"] == f"Fix: {told['fixes'][0]}"
    assert mended["undo"] is True


@pytest.mark.parametrize(
    ("operations", "what"),
    [
        (
            [
                {"op": "set", "node": "2", "path": "variables", "value": []},
                {"op": "set", "node": "2", "path": "template", "value": "On {{ x }}"},
            ],
            'change template of 2 from "On {{ x }}" to "On "',
        ),
        ([{"op": "disconnect", "source": "2", "target": "3"}], "connect 2 to 3"),
    ],
)
def test_a_fix_says_what_it_changes(studio, operations, what):
    studio.apply(studio.open(), *operations)
    assert what in studio.get("data/fixes?path=five.yaml").json()["fixes"]


def test_an_issue_without_a_proposal_is_left_alone(studio):
    document = studio.apply(studio.open(), {"op": "add_node", "id": "6", "type": "llm"})
    assert set(studio.get("data/fixes?path=five.yaml").json()["fixes"]) == {None}
    told = studio.refused("fix", {"path": "five.yaml", "version": document["version"], "issue": 0}, 400)
    assert told["error"] == "no rule has exactly one proposal for this issue; edit the node by hand"
