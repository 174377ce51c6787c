"""The studio in a real browser: files with faults, a server that ends, and the accessibility of what they show."""

from urllib.parse import urlsplit

import pytest
from studio_page import AXE, served, tabs
from studios import EXPERTS, FIVE

from operad.server.studio.files.folder import Folder
from operad.server.studio.server import Studio
from operad.server.view.server import PageServer

pytestmark = pytest.mark.slow  # a browser each; test_studio_browser.py looks at the page in `make test`

FORTY = "workflow: forty\nnodes:\n  1: {type: start, after: [], variables: []}\n" + "".join(
    f'  {number}: {{type: template-transform, after: 1, template: "{{{{ x }}}}", variables: []}}\n'
    for number in range(2, 41)
)
UNKNOWN = FIVE.replace("3: {type: template-transform", "3: {type: telepathy")


@pytest.fixture
def page(tmp_path, browser):
    """Opens the studio of a folder with faulty files in a tab."""
    folder = tmp_path / "folder"
    folder.mkdir()
    for name, text in {
        "bad": "workflow: x\nnodes: {1: {typ: start}}\n",
        "forty": FORTY,
        "unknown": UNKNOWN,
        "facts": EXPERTS,
    }.items():
        (folder / f"{name}.yaml").write_text(text)
    with served(folder, tmp_path / "histories") as url, tabs(browser, url, folder) as opened:
        yield opened


def test_a_file_that_cannot_be_read_is_told_on_the_page(page):
    page = page()
    row = page.tab.locator(".file-list button", has_text="bad.yaml")
    row.wait_for()
    assert row.is_disabled()
    page.tab.goto("about:blank")
    page.tab.goto(f"{page.url}#file=bad.yaml")
    page.tab.locator(".toast.error", has_text="bad.yaml").wait_for()
    page.tab.locator(".file-list button", has_text="forty.yaml").wait_for()


def test_forty_issues_are_listed_each_with_its_node(page):
    page = page()
    page.open("forty.yaml")
    page.tab.get_by_role("button", name="40 issues").click()
    assert page.tab.locator(".issues li").count() == 40
    page.tab.locator(".issues li button.link").last.click()
    assert page.tab.locator(".react-flow__node.selected").get_attribute("data-id") == "40"


def test_a_node_of_an_unknown_type_is_shown_with_its_name_and_removed(page):
    page = page()
    page.open("unknown.yaml")
    page.node("3").click()
    page.tab.get_by_text('There is no node type "telepathy" here').wait_for()
    page.press("Delete")
    page.until_nodes(4)


def test_a_server_that_ends_is_told_and_nothing_that_was_saved_is_lost(tmp_path, browser):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "five.yaml").write_text(FIVE)
    with tabs_of_two(tmp_path, browser, folder) as (page, end, again):
        page.open("five.yaml")
        page.node("4").click()
        page.press("Delete")
        page.until_nodes(4)
        end()
        page.tab.get_by_text("Not connected").wait_for()
        page.node("3").focus()
        page.press("Delete")
        page.tab.locator(
            ".toast.error", has_text="the server cannot be reached; your last change was not saved"
        ).wait_for()
        assert page.tab.locator(".react-flow__node").count() == 4
        page = again()
        page.open("five.yaml")
        assert list(page.nodes()) == ["1", "2", "3", "5"]
        page.node("1").focus()
        page.press("Control+z")
        page.until_nodes(5)


def test_a_tab_of_a_studio_that_was_restarted_says_so(tmp_path, browser):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "five.yaml").write_text(FIVE)
    with browser.new_context() as context:
        tab = context.new_page()
        with served(folder, tmp_path / "histories") as url:
            tab.goto(f"{url}#file=five.yaml")
            tab.get_by_text("Saved").wait_for()
        with PageServer(Studio(Folder(folder), tmp_path / "histories"), urlsplit(url).port or 0):
            tab.get_by_role("alert").filter(has_text="the server was restarted").wait_for()


def tabs_of_two(tmp_path, browser, folder):
    """A tab of a studio, a function that ends its server, and one that opens a tab of the next server."""
    from contextlib import ExitStack, contextmanager

    @contextmanager
    def both():
        with ExitStack() as all_, ExitStack() as first:
            url = first.enter_context(served(folder, tmp_path / "histories"))
            opened = all_.enter_context(tabs(browser, url, folder))

            def again():
                next_url = all_.enter_context(served(folder, tmp_path / "histories"))
                return all_.enter_context(tabs(browser, next_url, folder))()

            yield opened(), first.close, again

    return both()


def test_axe_finds_no_serious_fault_in_experts_and_issues(page):
    if not AXE.exists():
        pytest.skip("axe-core is missing: cd server/studio/web && npm ci")
    page = page(bypass_csp=True)
    page.open("forty.yaml")
    page.press("i")
    page.tab.wait_for_selector(".issues li")
    assert page.faults() == []
    page.tab.get_by_label("All files").click()
    page.open("facts.yaml")
    page.node("Fact checker").click(position={"x": 40, "y": 20})
    assert page.faults() == []
    page.node("facts").click()
    page.editor("Instruction").wait_for()
    for key in ("/", "F2"):
        page.node("facts").focus()
        page.press(key)
        page.tab.wait_for_selector("dialog input:focus")
        assert page.faults() == []
        page.press("Escape")
