"""Runs in the studio's page: a reload, another tab and a restart find them again; they are shown, compared and deleted."""

import random
import time

import pytest
from held_model import held_model
from studio_page import AXE, served, tabs
from studios import FIVE

pytestmark = pytest.mark.slow  # a browser each; test_studio_kept_runs.py asks the server in `make test`

ASKS = """\
workflow: asks
nodes:
  1: {type: start, after: [], variables: {topic: string}}
  2: {type: llm, after: 1, system: "", user: "{{#1.topic#}}"}
  3: {type: human-input, after: 2, question: "Send it?", actions: [["yes", "Send"], ["no", "Leave it"]]}
  4: {type: end, after: {3: 0}, outputs: {sent: 2.text}}
"""

WAITS = """\
workflow: waits
nodes:
  1: {type: start, after: [], variables: {topic: string}}
  2: {type: human-input, after: 1, question: "Go on?", actions: [["yes", "Yes"]]}
  3: {type: end, after: {2: 0}, outputs: {topic: 1.topic}}
"""


@pytest.fixture
def studio(tmp_path, site):
    """Opens a page of a studio of the same folder, with the same state, until the end of a context."""
    folder = tmp_path / "folder"
    folder.mkdir()
    for name, text in (("five", FIVE), ("asks", ASKS), ("waits", WAITS)):
        (folder / f"{name}.yaml").write_text(text)

    class Opened:
        def __init__(self, **named):
            self._served = served(folder, tmp_path / "state", **named)

        def __enter__(self):
            url = self._served.__enter__()
            self._tabs = tabs(site[2], url, folder)
            return self._tabs.__enter__()

        def __exit__(self, *error):
            self._tabs.__exit__(*error)
            self._served.__exit__(*error)

    return Opened


def opened(tab, name, **options):
    page = tab(**options)
    page.open(name)
    return page


def run(page, **inputs):
    if not page.tab.get_by_role("form", name="Run").count():
        page.press("Control+Enter")
    for name, value in inputs.items():
        page.tab.locator(".run form").get_by_label(name).fill(value)
    page.tab.get_by_role("form", name="Run").get_by_role("button", name="Run", exact=True).click()


def reload(page):
    page.tab.reload()
    page.drawn()


def mark(page, state):
    page.tab.locator(f".result .run-mark.is-{state}").wait_for()


def rows(page):
    return page.tab.get_by_role("region", name="Runs of this file").get_by_role("listitem")


def states(page):
    return dict(
        page.tab.locator(".react-flow__node").evaluate_all(
            "all => all.map(node => [node.dataset.id, node.querySelector('.card').dataset.state])"
        )
    )


def test_reloads_at_moments_of_a_run_lose_nothing(studio):
    print("seed", seed := time.time_ns())  # to repeat a failure
    moments = random.Random(seed)  # noqa: S311

    def reload_somewhen(page):
        page.tab.wait_for_timeout(moments.uniform(0, 300))
        reload(page)

    with held_model("It rains ", "today.") as (model, let), studio(model=model) as tab:
        page = opened(tab, "asks.yaml")
        run(page, topic="rain")
        mark(page, "running")
        for _ in range(2):
            reload_somewhen(page)
            page.tab.get_by_role("region", name="Text of LLM").get_by_text("It rains").wait_for()
            mark(page, "running")
            assert states(page)["1"] == "done"
            assert page.tab.locator(".run form").get_by_label("topic").input_value() == "rain"
            assert page.tab.get_by_role("button", name="Cancel", exact=True).is_enabled()
        let.set()
        for _ in range(2):
            reload_somewhen(page)
            page.tab.locator(".question-text", has_text="Send it?").wait_for()
            assert (states(page)["2"], states(page)["3"]) == ("done", "asking")
        page.tab.get_by_role("button", name="Send", exact=True).click()
        for _ in range(2):
            reload_somewhen(page)
            mark(page, "done")
            assert page.tab.locator(".result .values").inner_text().split("\n") == ["sent", "It rains today."]
            assert states(page) == dict.fromkeys("1234", "done")
        assert rows(page).count() == 1


def test_another_tab_shows_a_run_in_progress_and_answers_it(studio):
    with studio() as tab:
        page = opened(tab, "waits.yaml")
        run(page, topic="rain")
        mark(page, "asking")
        other = opened(tab, "waits.yaml")
        other.tab.locator(".question-text", has_text="Go on?").wait_for()
        other.tab.get_by_role("button", name="Yes").click()
        for each in (page, other):
            mark(each, "done")
            assert each.tab.locator(".result .values").inner_text().split("\n") == ["topic", "rain"]
            rows(each).locator(".run-mark.is-done").wait_for()


def test_after_a_restart_an_interrupted_run_is_named_so_and_continued(studio):
    with held_model("It rains ", "today.") as (model, let):
        with studio(model=model) as tab:
            page = opened(tab, "asks.yaml")
            run(page, topic="rain")
            page.tab.get_by_role("region", name="Text of LLM").wait_for()
        let.set()
        with studio(model=model) as tab:
            page = opened(tab, "asks.yaml")
            mark(page, "interrupted")
            page.tab.locator(".result .notice", has_text="has ended before the run").wait_for()
            page.tab.get_by_role("form", name="Run").get_by_role("button", name="Continue").click()
            page.tab.locator(".question-text", has_text="Send it?").wait_for()
        with studio(model=model) as tab:
            page = opened(tab, "asks.yaml")
            page.tab.get_by_role("button", name="Send", exact=True).click()
            mark(page, "done")
            assert page.tab.locator(".result .values").inner_text().split("\n") == ["sent", "It rains today."]


def test_too_many_runs_are_named_and_cancelled_where_they_are_named(studio):
    with studio() as tab:
        page = opened(tab, "waits.yaml")
        for number in range(8):
            page.tab.evaluate(
                """async (topic) => {
                  const body = JSON.stringify({ path: "waits.yaml", inputs: { topic } });
                  await fetch("data/run", { method: "POST", headers: { "content-type": "application/json" }, body });
                }""",
                f"day {number}",
            )
        page.tab.get_by_role("button", name="All files").click()
        page.open("five.yaml")
        run(page, topic="rain")
        busy = page.tab.get_by_role("alert", name="Runs in progress")
        busy.get_by_text("waits.yaml · topic: day 3").wait_for()
        if AXE.exists():
            assert page.faults() == []
        busy.get_by_role("listitem").filter(has_text="day 3").get_by_role("button", name="Cancel").click()
        page.until(lambda: busy.get_by_role("listitem").count() == 7)
        run(page)
        mark(page, "done")
        assert busy.count() == 0


def test_runs_are_listed_shown_again_compared_and_deleted(studio):
    with studio() as tab:
        page = opened(tab, "five.yaml")
        for topic in ("rain", "snow"):
            run(page, topic=topic)
            page.tab.locator(".result .values", has_text=f"About {topic}!").wait_for()
            mark(page, "done")
        page.until(lambda: rows(page).count() == 2)
        assert [text.split("\n")[2] for text in rows(page).locator(".step").all_inner_texts()] == [
            "topic: snow",
            "topic: rain",
        ]
        rows(page).filter(has_text="rain").locator(".step").click()
        page.tab.locator(".result .values", has_text="About rain!").wait_for()
        page.node("3").click()
        page.tab.get_by_role("button", name="Close Run").click()
        page.node("3").dblclick()
        page.tab.locator(".inspector", has_text="About rain!").wait_for()
        page.press("Escape")
        page.press("Control+Enter")
        rows(page).filter(has_text="rain").get_by_role("button", name="Compare").click()
        rows(page).filter(has_text="snow").get_by_role("button", name="Compare with the run").click()
        compared = page.tab.get_by_role("dialog", name="Two runs compared")
        result = compared.get_by_role("row").filter(has_text="Result")
        result.get_by_text("About rain!").wait_for()
        assert result.get_by_text("About snow!").count() == 1
        assert compared.locator("tr.differs").count() == 6
        words = compared.locator("tr.difference").first
        assert (words.locator("del").first.inner_text(), words.locator("ins").first.inner_text()) == ("rain", "snow")
        if AXE.exists():
            assert page.faults() == []
        compared.get_by_role("button", name="Close").click()
        rows(page).filter(has_text="rain").get_by_role("button", name="Delete").click()
        page.until(lambda: rows(page).count() == 1)
        assert page.tab.locator(".result").count() == 0
        reload(page)
        page.press("Control+Enter")
        page.until(lambda: rows(page).count() == 1)


def test_a_cancelled_run_leaves_its_values_out_of_runs_of_a_node(studio):
    with studio() as tab:
        page = opened(tab, "waits.yaml")
        run(page, topic="rain")
        page.tab.get_by_role("button", name="Yes").click()
        mark(page, "done")
        run(page, topic="snow")
        mark(page, "asking")
        page.tab.get_by_role("form", name="Run").get_by_role("button", name="Cancel").click()
        mark(page, "cancelled")
        page.node("3").click()
        page.tab.get_by_role("button", name="Run “End” alone").click()
        mark(page, "done")
        assert page.tab.locator(".result .values").inner_text().split("\n") == ["topic", "rain"]
