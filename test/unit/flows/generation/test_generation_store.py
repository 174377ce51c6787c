"""A folder of workflows with the words that they were made from: the likest is an example, all else is passed over."""

import os
from dataclasses import replace

import pytest

from operad.configs.generation import Designer
from operad.flows.formats.table import FORMATS
from operad.flows.formats.table import read as read_file
from operad.flows.generation import store
from operad.flows.generation.store import nearest_example
from operad.flows.node_graph import NodeGraph, NodeSpec
from operad.runtime.testing import ScriptedModel
from operad.runtime.values.errors import InputError

PAPER = "Sum a paper file up in a language."
DESK = "Decide whether a question is a complaint, and answer it."


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with workflows, whose names stand for the words that they were made from."""
    words = {"paper": (PAPER,), "desk": (DESK, "Greet the customer."), "mute": ()}

    def read(data, name):
        found, graph = read_file(data, name)
        return found, replace(graph, instructions=words.get(name, ()))

    monkeypatch.setattr(store, "read", read)
    graph = NodeGraph([NodeSpec("1", "start", {"variables": [["x", "string"]]}), NodeSpec("2", "end", {"outputs": []})])
    for name in words:
        (tmp_path / f"{name}.json").write_bytes(FORMATS["chat2workflow"].dump(graph))
    (tmp_path / "notes.txt").write_text("No workflow.")
    (tmp_path / "broken.json").write_text('{"nodes_info": [')
    (tmp_path / "comfy.json").write_text('{"1": {"class_type": "KSampler", "inputs": {}}}')
    (tmp_path / ".hidden").write_text("x")
    (tmp_path / "within").mkdir()
    return tmp_path


def test_the_example_is_the_one_that_was_made_from_the_likest_words(folder):
    found = nearest_example(folder, "Sum up a paper in a language that the user names.")
    assert found is not None
    assert found.instructions == PAPER
    assert [spec.type for spec in found.graph.nodes] == ["start", "end"]
    desk = nearest_example(folder, "Is a question a complaint? Answer the customer.")
    assert desk is not None
    assert desk.instructions == f"{DESK}\nGreet the customer."


def test_where_none_is_like_it_there_is_no_example(folder):
    assert nearest_example(folder, "Draw zebras.") is None


def test_a_folder_that_is_none_is_refused(folder):
    for wrong in (folder / "nowhere", folder / "notes.txt"):
        with pytest.raises(InputError, match="there is no such folder of workflows"):
            nearest_example(wrong, PAPER)


def test_files_that_are_too_large_or_cannot_be_read_are_passed_over(folder, monkeypatch):
    monkeypatch.setattr(store, "MAX_BYTES", 10)
    assert nearest_example(folder, PAPER) is None
    monkeypatch.undo()
    os.mkfifo(folder / "pipe.json")
    (folder / "gone.json").symlink_to(folder / "nowhere.json")
    assert nearest_example(folder, PAPER) is None, "files that keep no words are no examples"


def test_the_example_is_shown_to_whom_plans(folder, stages, conversation):
    model = stages(conversation("paper")[0])
    with ScriptedModel(model) as scripted:
        design = Designer(scripted.model, store=folder).design(conversation("paper")[0]["says"])
    assert design.accepted
    assert PAPER in dict(model.asked)["plan"]
