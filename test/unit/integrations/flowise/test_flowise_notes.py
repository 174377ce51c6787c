"""Sticky notes of Flowise."""

import json
from pathlib import Path

from operad.flows.edit import apply, read_operations
from operad.flows.formats.table import FORMATS
from operad.flows.node_graph import StickyNote

FLOWISE = FORMATS["flowise"]
FILE = Path(__file__).parents[2] / "data" / "flowise_cases" / "notes.json"
NOTE = "stickyNoteAgentflow_0"


def changed(*operations):
    graph = FLOWISE.load(FILE.read_bytes())
    return json.loads(FLOWISE.dump(apply(graph, read_operations(list(operations))).graph))["nodes"]


def test_notes_are_read_and_an_unchanged_file_stays_as_it_is():
    graph = FLOWISE.load(FILE.read_bytes())
    assert graph.sticky_notes == (StickyNote(NOTE, "Says hello", "yellow", (29.5, 43.25), (210, 123)),)
    assert json.loads(FLOWISE.dump(graph)) == json.loads(FILE.read_bytes())
    assert not any("sticky" in issue.message for issue in FLOWISE.losses(graph))


def test_notes_are_changed_added_and_removed():
    nodes = changed(
        {"op": "set_note", "id": NOTE, "text": "Bye", "at": [30, 50]}, {"op": "set_note", "id": "9", "text": "New"}
    )
    by_id = {each["id"]: each for each in nodes}
    assert by_id[NOTE]["data"]["inputs"] == {"note": "Bye"}
    assert by_id[NOTE]["position"] == by_id[NOTE]["positionAbsolute"] == {"x": 30, "y": 50}
    assert by_id["9"]["type"] == "stickyNote"
    assert NOTE not in {each["id"] for each in changed({"op": "remove_note", "id": NOTE})}
