"""Sticky notes in the studio, in a real browser."""

import pytest

from operad.flows.formats.operad import OPERAD

pytestmark = pytest.mark.slow

TEXT = """workflow: greet
nodes:
  1: {type: start, variables: {name: string}}
  2: {type: end, after: 1, outputs: {name: 1.name}}
"""


class Opened:
    """Opens a workflow of its own in the studio, and reads its file."""

    def __init__(self, path, page):
        self.path, self._page = path, page

    def __call__(self, **options):
        tab = self._page(**options)
        tab.open(self.path.name)
        return tab

    def graph(self):
        return OPERAD.load(self.path)


@pytest.fixture
def opened(site, page, request):
    name = f"{request.node.name[:40]}.yaml"
    (site[1] / name).write_text(TEXT)

    return Opened(site[1] / name, page)


def written(page, text):
    """Add a note with a text by keyboard."""
    page.press("n")
    page.tab.locator(".note textarea").fill(text)
    page.tab.locator(".note textarea").press("Escape")
    page.saved()


def test_a_note_is_written_in_place_coloured_moved_copied_undone_and_removed(opened):
    page = opened()
    written(page, "# Mind\n\nthe **hours**")
    assert page.tab.locator(".note strong").inner_text() == "hours"
    assert [note.text for note in opened.graph().sticky_notes] == ["# Mind\n\nthe **hours**"]
    page.tab.locator(".note-tools [title=blue]").click()
    page.until(lambda: opened.graph().sticky_notes[0].color == "blue")
    before = opened.graph().sticky_notes[0].at
    page.node("#note/1").focus()
    page.press("Alt+ArrowRight")
    page.until(lambda: opened.graph().sticky_notes[0].at == (before[0] + 16, before[1]))
    page.press("Control+d")
    page.until(lambda: [note.text for note in opened.graph().sticky_notes] == ["# Mind\n\nthe **hours**"] * 2)
    page.tab.locator('.selected[data-id="#note/2"]').wait_for()
    page.press("Delete")
    page.until(lambda: [note.id for note in opened.graph().sticky_notes] == ["1"])
    for _ in range(6):
        page.press("Control+z")
        page.saved()
    page.until(lambda: opened.path.read_text() == TEXT)


def test_a_note_is_dragged_and_resized_by_mouse(opened):
    page = opened()
    written(page, "Short")
    before = opened.graph().sticky_notes[0]
    box = page.tab.locator(".note").bounding_box()
    page.tab.mouse.move(box["x"] + 20, box["y"] + 20)
    page.tab.mouse.down()
    page.tab.mouse.move(box["x"] + 60, box["y"] + 50, steps=4)
    page.tab.mouse.up()
    page.until(lambda: opened.graph().sticky_notes[0].at != before.at)
    moved = opened.graph().sticky_notes[0]
    assert moved.at[0] > before.at[0]
    assert moved.at[1] > before.at[1]
    assert moved.size == before.size
    corner = page.tab.locator(".react-flow__resize-control.handle.bottom.right")
    corner.hover()  # waits until the note is drawn anew, with its corners
    box = corner.bounding_box()
    page.tab.mouse.down()
    page.tab.mouse.move(box["x"] + 60, box["y"] + 40, steps=4)
    page.tab.mouse.up()
    page.until(lambda: opened.graph().sticky_notes[0].size != before.size)
    larger = opened.graph().sticky_notes[0].size
    assert larger[0] > before.size[0]
    assert larger[1] > before.size[1]
