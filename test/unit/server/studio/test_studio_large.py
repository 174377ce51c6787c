"""Large workflows: a change is kept in the history at once, and written to the file a moment later."""

import time

import pytest
from pydantic import JsonValue

from operad.flows.edit import read_operations
from operad.server.studio.files.open_file import OpenFile

LARGE = "# mine\nworkflow: large\nnodes:\n  1: {type: start, after: [], variables: [[topic, string]]}\n" + "".join(
    f'  {number}: {{type: template-transform, after: {number - 1}, template: "{number}", variables: []}} # {number}\n'
    for number in range(2, 61)
)


def change(text, node="3") -> dict[str, JsonValue]:
    return {"op": "set", "node": node, "path": "template", "value": text}


@pytest.fixture
def large(tmp_path):
    """Opens a file of sixty nodes."""
    path = tmp_path / "large.yaml"
    path.write_text(LARGE)
    return lambda: OpenFile(path, "large.yaml", tmp_path / "histories")


def written(text):
    return LARGE.replace('template: "3"', f"template: {text}")


def test_changes_reach_the_file_with_its_comments_once_it_is_flushed(large):
    file = large()
    for text in ("a", "b"):
        file.apply(file.version, read_operations({"operations": [change(text)]}))
    assert (file.dirty, file.path.read_text()) == (True, LARGE)
    file.flush()
    assert (file.dirty, file.path.read_text()) == (False, written("b"))
    file.undo(file.version)
    assert file.path.read_text() == written("a")
    file.undo(file.version)
    assert file.path.read_text() == LARGE


def test_changes_that_were_not_written_when_the_process_ended_are_written_when_the_file_is_opened(large):
    file = large()
    for text in ("a", "b"):
        file.apply(file.version, read_operations({"operations": [change(text)]}))
    again = large()
    assert again.path.read_text() == written("b")
    assert [(each.number, each.draft) for each in again.history.steps] == [(1, False), (2, True), (3, False)]
    again.undo(again.version)
    assert again.content.graph.by_id["3"].params["template"] == "a"


def test_changes_that_were_not_written_stay_in_the_history_when_another_program_writes_first(large):
    file = large()
    file.apply(file.version, read_operations({"operations": [change("a")]}))
    file.path.write_text(LARGE.replace("workflow: large", "workflow: theirs"))
    file.flush()
    assert "theirs" in file.path.read_text()
    file.refresh()
    assert (file.content.graph.name, file.history.step.kind) == ("theirs", "outside")
    file.undo(file.version)
    assert file.content.graph.by_id["3"].params["template"] == "a"
    assert file.path.read_text() == written("a")


def test_the_server_writes_a_large_file_soon(serve):
    studio = serve()
    path = studio.folder / "large.yaml"
    path.write_text(LARGE)
    document = studio.open("large.yaml")
    for text in ("a", "b", "c"):
        document = studio.apply(document, change(text))
    until = time.monotonic() + 30
    while path.read_text() != written("c"):
        assert time.monotonic() < until, path.read_text()
        time.sleep(0.02)
    assert studio.get("data/export?path=large.yaml&format=operad").json()["text"] == written("c")


def test_a_file_that_was_deleted_is_restored_with_changes_that_were_not_written(large):
    file = large()
    file.apply(file.version, read_operations({"operations": [change("a")]}))
    file.path.unlink()
    file.refresh()
    assert file.disk == "gone"
    file.restore()
    assert (file.disk, file.path.read_text()) == ("same", written("a"))
