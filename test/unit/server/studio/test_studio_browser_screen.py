"""The studio in a real browser: its start page, minimap, drafts and exports, and one history for canvas, chat and command."""

import json
import subprocess
import sys

import pytest
from studio_page import served, tabs
from studios import EXPERTS, FIVE

from operad.flows.formats.table import FORMATS, read
from operad.runtime.testing import ScriptedModel

pytestmark = pytest.mark.slow  # a browser each; test_studio_browser.py looks at the page in `make test`

COMFY = {"1": {"class_type": "Load", "inputs": {}}, "2": {"class_type": "Save", "inputs": {"images": ["1", 0]}}}
"""A workflow of ComfyUI."""


@pytest.fixture
def page(tmp_path, browser):
    """Opens the studio of a folder with given files in a tab."""
    folder = tmp_path / "folder"
    folder.mkdir()
    with served(folder, tmp_path / "histories") as url, tabs(browser, url, folder) as opened:

        def page(**files):
            for name, data in files.items():
                (folder / name.replace("__", ".")).write_bytes(data if isinstance(data, bytes) else data.encode())
            return opened(accept_downloads=True)

        yield page


@pytest.fixture
def chatting(tmp_path, browser, stages, conversation):
    """A tab of a studio whose model answers a sentence; and the sentence."""
    folder = tmp_path / "folder"
    folder.mkdir()
    first = conversation("paper")[0]
    with (
        ScriptedModel(stages(first)) as endpoint,
        served(folder, tmp_path / "histories", model=endpoint.model) as url,
        tabs(browser, url, folder) as opened,
    ):
        yield opened(), first["says"]


def edit(page, *operations):
    """Change the open file by the command."""
    file = page.folder / page.document()["path"]
    given = [word for each in operations for word in ("--op", each)]
    code = "from operad.cli.main import main; main()"
    subprocess.run([sys.executable, "-c", code, "edit", str(file), *given], check=True, capture_output=True)


def test_the_start_page_opens_each_kind_of_file(page):
    graph = read(FIVE.encode(), "five")[1]
    dumped = {name: FORMATS[name].dump(graph) for name in ("dify", "coze", "chat2workflow")}
    page = page(
        five__yaml=FIVE, dify__yml=dumped["dify"], coze__zip=dumped["coze"], chat__json=dumped["chat2workflow"],
        comfy__json=json.dumps(COMFY), facts__yaml=EXPERTS,
    )  # fmt: skip
    page.tab.reload()
    opened = {}
    for name in ("five.yaml", "dify.yml", "coze.zip", "chat.json", "comfy.json", "facts.yaml"):
        page.open(name)
        document = page.document()
        opened[name] = (document["format"], len(document["nodes"]), document["readonly"] is None)
        page.tab.get_by_label("All files").click()
    assert opened == {
        "five.yaml": ("operad", 5, True), "dify.yml": ("dify", 5, True), "coze.zip": ("coze", 5, True),
        "chat.json": ("chat2workflow", 5, True), "comfy.json": ("comfyui-api", 2, False), "facts.yaml": ("experts", 4, True),
    }  # fmt: skip


def test_an_example_is_opened_and_run(page):
    page = page()
    page.tab.get_by_role("region", name="Examples").get_by_role("button", name="Greet by the hour").click()
    page.drawn()
    assert page.document()["issues"] == []
    page.press("Control+Enter")
    for field in page.tab.locator(".run form textarea, .run form input[type=number]").all():
        field.fill("9")
    page.tab.get_by_role("form", name="Run").get_by_role("button", name="Run", exact=True).click()
    page.tab.locator(".result .run-mark.is-done").wait_for()


def test_the_minimap_has_each_node_and_marks_those_with_issues(page):
    page = page(five__yaml=FIVE.replace('[said, [output, "2"]]', '[said, [outputt, "2"]]'))
    page.tab.reload()
    page.open("five.yaml")
    marks = page.tab.locator(".react-flow__minimap-node")
    assert marks.count() == 5
    colours = marks.evaluate_all("all => all.map((each) => getComputedStyle(each).fill)")
    assert len(set(colours)) == 2
    assert sorted(colours.count(each) for each in set(colours)) == [1, 4]


def test_a_workflow_is_saved_as_a_picture_as_code_and_for_another_platform(page):
    page = page(five__yaml=FIVE)
    page.tab.reload()
    page.open("five.yaml")
    page.tab.get_by_title("Export").click()
    for choice, suffix, begins in [
        ("Picture (SVG)", ".svg", b"<svg"),
        ("Picture (PNG)", ".png", b"\x89PNG\r\n\x1a\n"),
        ("Python that builds it", ".py", b'"""'),
        ("Dify", ".yml", b"app:"),
    ]:
        page.tab.get_by_text(choice, exact=True).click()
        with page.tab.expect_download() as saved:
            page.tab.get_by_role("button", name="Save").click()
        assert saved.value.suggested_filename.endswith(suffix)
        assert saved.value.path().read_bytes().startswith(begins)


def test_canvas_chat_and_command_share_one_history(chatting):
    page, sentence = chatting
    page.tab.get_by_label("New from a sentence").fill(sentence)
    page.press("Enter")
    page.tab.get_by_text("Proposed by the chat").wait_for()
    assert page.tab.locator(".card.mark-added").count() == 3
    assert len(page.document()["nodes"]) == 1
    page.tab.locator(".banner").get_by_role("button", name="Accept").click()
    page.tab.locator(".banner").wait_for(state="detached")
    page.until_nodes(4)
    page.node("4").click()
    page.press("Delete")
    page.until_nodes(3)
    edit(page, 'set 3 system "Be brief."')
    page.until(lambda: page.params("3")["system"] == "Be brief.")
    file = page.folder / page.document()["path"]
    whole = file.read_text()
    page.press("h")
    steps = page.tab.locator(".history li")
    assert [each.split("\n")[0] for each in steps.all_inner_texts()][:2] == ["changed outside", "Remove End"]
    assert [each["kind"] for each in page.document()["steps"]] == ["open", "chat", "edit", "outside"]
    for count in [3, 4, 1]:
        page.node("1").focus()
        page.press("Control+z")
        page.until_nodes(count)
    page.until(lambda: page.tab.get_by_label("Undo").is_disabled())
    for count in [4, 3, 3]:
        page.node("1").focus()
        page.press("Control+Shift+z")
        page.until_nodes(count)
    page.until(lambda: page.tab.get_by_label("Redo").is_disabled())
    page.until(lambda: file.read_text() == whole)


def test_a_form_says_which_item_is_at_fault_and_what_its_fields_are(page):
    page = page(five__yaml=FIVE)
    page.tab.reload()
    page.open("five.yaml")
    page.node("3").click()
    page.add("parameter extractor")
    page.tab.get_by_role("button", name="Add parameter").click()
    page.tab.get_by_label("Name of parameter 2").fill("")
    inspector = page.tab.locator(".inspector")
    inspector.get_by_text("Parameter 2: is empty", exact=True).wait_for()
    fields = inspector.get_by_role("group", name="parameter 2").locator("input")
    assert fields.evaluate_all("all => all.map((each) => each.placeholder)") == ["Description", "Name"]
