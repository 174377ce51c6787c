"""The studio in a real browser: its start page, minimap, drafts and exports, and one history for canvas, chat and command."""

import json
import subprocess
import sys

import pytest
from studio_page import browser_of, served, tabs
from studios import EXPERTS, FIVE

from operad.flows.formats.table import FORMATS, read
from operad.runtime.testing import ScriptedModel

pytestmark = pytest.mark.slow  # a browser each; test_studio_browser.py looks at the page in `make test`

COMFY = {"1": {"class_type": "Load", "inputs": {}}, "2": {"class_type": "Save", "inputs": {"images": ["1", 0]}}}
"""A workflow of ComfyUI."""


@pytest.fixture(scope="module")
def browser(chromium):
    with browser_of(chromium) as browser:
        yield browser


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
    """A tab of a studio whose model answers two sentences; and the sentences."""
    folder = tmp_path / "folder"
    folder.mkdir()
    rounds = conversation("paper")[:2]
    with (
        ScriptedModel(stages(*rounds)) as endpoint,
        served(folder, tmp_path / "histories", model=endpoint.model) as url,
        tabs(browser, url, folder) as opened,
    ):
        yield opened(), [each["says"] for each in rounds]


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


def test_what_a_node_read_and_produced_is_in_its_form(page):
    page = page(five__yaml=FIVE)
    page.tab.reload()
    page.open("five.yaml")
    page.press("Control+Enter")
    page.tab.locator(".run form").get_by_label("topic").fill("rain")
    page.tab.get_by_role("form", name="Run").get_by_role("button", name="Run", exact=True).click()
    page.tab.locator(".result .run-mark.is-done").wait_for()
    page.node("3").dblclick()
    last = page.tab.locator(".inspector section", has_text="Last run")
    last.get_by_text("Inputs", exact=True).click()
    shown = last.locator("details")
    assert [each.split("\n") for each in shown.all_inner_texts()] == [
        ["Inputs", "2.output", "About rain"], ["Outputs", "output", "About rain!"],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("choice", "suffix", "begins"),
    [("Picture (SVG)", ".svg", "<svg"), ("Python that builds it", ".py", '"""'), ("Dify", ".yml", "app:")],
)
def test_a_workflow_is_saved_as(page, choice, suffix, begins):
    page = page(five__yaml=FIVE)
    page.tab.reload()
    page.open("five.yaml")
    page.tab.get_by_title("Export").click()
    page.tab.get_by_text(choice, exact=True).click()
    with page.tab.expect_download() as saved:
        page.tab.get_by_role("button", name="Save").click()
    assert saved.value.suggested_filename.endswith(suffix)
    assert saved.value.path().read_text(encoding="utf-8").startswith(begins)


def test_a_draft_shows_its_stages_and_fits_the_canvas(chatting):
    page, [first, second] = chatting
    page.tab.get_by_label("New from a sentence").fill(first)
    page.press("Enter")
    page.tab.get_by_text("Proposed by the chat").wait_for()
    page.tab.get_by_placeholder("What else? It changes the draft.").fill(second)
    page.press("Enter")
    page.until(lambda: page.tab.locator(".card.mark-added").count() == 4)
    assert page.node("1").locator(".card.mark-changed").count() == 1
    said = page.tab.locator(".chat").inner_text()
    for each in ("Planning the nodes", "A draft of 4 nodes", "Checking", "Mended: ", "A draft of 5 nodes"):
        assert each in said
    canvas = page.tab.locator(".canvas").bounding_box()

    def inside():
        boxes = [page.node(str(number)).bounding_box() for number in range(1, 6)]
        return all(
            canvas["x"] <= box["x"] and box["x"] + box["width"] <= canvas["x"] + canvas["width"] for box in boxes
        )

    page.until(inside)


def test_canvas_chat_and_command_share_one_history(chatting):
    page, [first, _] = chatting
    page.tab.get_by_label("New from a sentence").fill(first)
    page.press("Enter")
    page.tab.locator(".banner").get_by_role("button", name="Accept").click()
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
