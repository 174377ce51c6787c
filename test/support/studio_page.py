"""Studio in a browser, for tests: opens it, and imitates mouse and keyboard."""

import re
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import unquote

from operad.server.studio.files.folder import Folder
from operad.server.studio.server import Studio
from operad.server.view.server import PageServer

AXE = Path(__file__).parents[2] / "server" / "studio" / "web" / "node_modules" / "axe-core" / "axe.min.js"

SERIOUS = (
    "async () => (await axe.run(document, { resultTypes: ['violations'] })).violations"
    ".filter((each) => ['serious', 'critical'].includes(each.impact))"
    ".map((each) => `${each.id}: ${each.nodes.map((node) => node.target.join(' ')).slice(0, 4).join(', ')}`)"
)
"""Script that returns the serious findings of axe-core."""

_EXPECTED = re.compile(r"status of (400|409|422)|net::ERR_(CONNECTION|INCOMPLETE|ABORTED|NETWORK)")


class Page:
    """Browser tab with the studio.

    Attributes:
        tab: The tab, of Playwright.
        url: The address of the studio.
        folder: The folder of the studio.
    """

    def __init__(self, tab, folder, url):
        self.tab = tab
        self.url = url
        self.folder = folder

    @property
    def file(self):
        """The file that is open."""
        return self.folder / unquote(self.tab.url.partition("#file=")[2].partition("&")[0])

    # The canvas

    def node(self, node_id):
        return self.tab.locator(f'.react-flow__node[data-id="{node_id}"]')

    def nodes(self):
        """Return the types of the nodes by id."""
        return {each["id"]: each["type"] for each in self.document()["nodes"]}

    def params(self, node_id):
        """Return the parameters of a node."""
        return next(each["params"] for each in self.document()["nodes"] if each["id"] == node_id)

    def edges(self):
        """Return the sorted edges: source, port, target."""
        return sorted((each["source"], each["port"], each["target"]) for each in self.document()["edges"])

    def document(self):
        """Return the document of the server, after the page has sent all changes."""
        self.saved()
        return self.tab.evaluate(
            """async () => {
              const path = decodeURIComponent(location.hash.replace("#file=", ""));
              const headers = { "content-type": "application/json" };
              return (await fetch("data/open", { method: "POST", headers, body: JSON.stringify({ path }) })).json();
            }"""
        )

    def saved(self):
        self.tab.wait_for_function("() => document.querySelector('.status')?.textContent === 'Saved'", polling=30)

    def until(self, condition, *, seconds=30):
        """Wait until a function holds."""
        for _ in range(int(seconds / 0.03)):
            if condition():
                return
            self.tab.wait_for_timeout(30)
        raise AssertionError("never came true")

    def until_nodes(self, count):
        self.until(lambda: self.tab.locator(".react-flow__node").count() == count)
        self.saved()

    def open(self, name):
        self.tab.get_by_role("region", name="Files").get_by_role("button").filter(has_text=name).first.click()
        self.drawn()

    def drawn(self):
        """Wait until the graph is laid out."""
        self.tab.wait_for_selector('.canvas[aria-busy="false"] .react-flow__node')
        self.settled()

    def settled(self):
        self.tab.evaluate(
            "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done())))"
        )

    def editor(self, label):
        """Return the text editor of a parameter."""
        return self.tab.locator(f'.cm-content[aria-label="{label}"]')

    # By mouse

    def drag_node(self, node_type, x, y):
        """Drag a type from the palette to a place on the canvas."""
        before = self.tab.locator(".react-flow__node").count()
        self.tab.locator(f'.palette-item[data-type="{node_type}"]').drag_to(
            self.tab.locator(".react-flow__pane"), target_position={"x": x, "y": y}
        )
        self.until_nodes(before + 1)

    def drag_edge(self, source, target, port=0):
        self._drag(self.node(source).locator(f'.react-flow__handle-right[data-handleid="{port}"]'), target)
        self.saved()

    def _drag(self, handle, target):
        begin = handle.bounding_box()
        end = self.node(target).locator(".react-flow__handle-left").bounding_box()
        mouse = self.tab.mouse
        mouse.move(begin["x"] + begin["width"] / 2, begin["y"] + begin["height"] / 2)
        with self.tab.expect_response("**/data/connectable"):
            mouse.down()
            mouse.move(begin["x"] + 40, begin["y"] + 10)
        mouse.move(end["x"] + end["width"] / 2, end["y"] + end["height"] / 2, steps=6)
        self.settled()
        mouse.up()

    # By keyboard

    def press(self, *keys):
        for key in keys:
            self.tab.keyboard.press(key)

    def add(self, words):
        """Add a node after the selected one, by typing its type."""
        before = self.tab.locator(".react-flow__node").count()
        self.press("/")
        self.tab.wait_for_selector("dialog [role=combobox]")
        self.tab.keyboard.type(words)
        self.press("Enter")
        self.until_nodes(before + 1)
        self.tab.wait_for_selector(".react-flow__node:focus")

    # Other

    def toast(self):
        return self.tab.locator(".toast").inner_text()

    def faults(self):
        """Return serious findings of axe-core."""
        return faults_of(self.tab)


def faults_of(tab):
    """Return serious findings of axe-core on a page, in dark and in light colours."""
    tab.evaluate(AXE.read_text(encoding="utf-8"))
    found = []
    for scheme in ("dark", "light"):
        tab.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        found += tab.evaluate(SERIOUS)
    return found


@contextmanager
def served(folder, histories, **named):
    """Serve a studio and yield its address."""
    with PageServer(Studio(Folder(folder), histories, **named)) as server:
        yield server.url


@contextmanager
def browser_of(chromium):
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def tabs(browser, url, folder):
    """Yield a function that opens tabs of a studio; fail at the end if a tab asked another host, showed a dialog or had an error."""
    outside, faults = [], []
    with ExitStack() as stack:

        def opened(**options):
            context = browser.new_context(**{"viewport": {"width": 1400, "height": 900}, **options})
            stack.callback(context.close)

            def routed(route):
                if route.request.url.startswith((url, "data:", "blob:")):
                    route.continue_()
                else:
                    outside.append(route.request.url)
                    route.abort()

            def on_console(message):
                if message.type in ("error", "warning") and not _EXPECTED.search(message.text):
                    faults.append(message.text)

            context.route("**/*", routed)
            tab = context.new_page()
            tab.on("pageerror", lambda error: faults.append(str(error)))
            tab.on("console", on_console)
            tab.on("dialog", lambda dialog: (faults.append(dialog.message), dialog.dismiss()))
            tab.goto(url)
            tab.wait_for_selector(".start")
            return Page(tab, folder, url)

        yield opened
    assert (outside, faults) == ([], []), f"asked others: {outside}; errors: {faults}"
