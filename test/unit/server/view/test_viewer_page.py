"""The page in a real browser: what it draws, what it answers to, and that nobody can make it do anything else."""

import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest
from studio_page import AXE, faults_of

from operad import Fault, WorkflowStatus
from operad.runtime import events
from operad.runtime.observe.trace import Trace
from operad.runtime.values.message import WorkflowMessage
from operad.server.view.page import page, report
from operad.server.view.picture import details, picture

BENCHMARK = Path(__file__).parents[3] / "benchmark"


@pytest.fixture(scope="module")
def runs():
    """Recorded runs, each made once."""
    patch = pytest.MonkeyPatch()
    patch.syspath_prepend(BENCHMARK)
    sample_runs, made = import_module("sample_runs"), {}

    def events(name, *arguments):
        key = (name, *arguments)
        if key not in made:
            with ThreadPoolExecutor(1) as elsewhere:  # the browser's event loop runs in this thread
                made[key] = elsewhere.submit(getattr(sample_runs, name), *arguments).result()
        return made[key]

    yield events
    patch.undo()


@pytest.fixture
def opened(browser, tmp_path):
    """Opens a page; at the end it has asked nobody outside, shown no dialog and had no error."""
    contexts, outside, faults = [], [], []

    def opened(source, *, allowed="file:", shown=".card", **options):
        context = browser.new_context(**{"viewport": {"width": 1400, "height": 900}, **options})
        contexts.append(context)
        address = source
        if source.startswith("<"):
            path = tmp_path / "run.html"
            path.write_text(source, encoding="utf-8")
            address = path.as_uri()

        def routed(route):
            if route.request.url.startswith((allowed, "data:")):
                route.continue_()
            else:
                outside.append(route.request.url)
                route.abort()

        def heard(said):
            broken = re.search(
                r"net::ERR_(CONNECTION|SOCKET_NOT|INCOMPLETE)|status of 422", said.text
            )  # by a test, on purpose
            gone = "status of 404" in said.text and "/data/" in said.location["url"]  # likewise
            if said.type in ("error", "warning") and not (broken or gone):
                faults.append(said.text)

        context.route("**/*", routed)
        tab = context.new_page()
        tab.on("pageerror", lambda error: faults.append(str(error)))
        tab.on("console", heard)
        tab.on("dialog", lambda dialog: (faults.append(dialog.message), dialog.dismiss()))
        tab.goto(address)
        tab.wait_for_selector(shown)
        return tab

    yield opened
    for context in contexts:
        context.close()
    assert (outside, faults) == ([], [])


@pytest.fixture
def brief(opened, runs):
    return opened(report(Trace.of(runs("brief"))))


def card(tab, name):
    return tab.locator(".card").filter(has=tab.locator(".name", has_text=name)).first


def settled(tab):
    """Wait until what was asked for is drawn: the page draws before a frame, and its panel a tenth of a second later."""
    tab.wait_for_timeout(150)
    tab.evaluate(
        "() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(drawn))))"
    )


def labels(tab):
    """The cards' names, and their kinds or states, without what the names are followed by."""
    settled(tab)
    said = [label.split(", ") for label in tab.locator(".card").evaluate_all("all => all.map(e => e.ariaLabel)")]
    return [[name, next(word for word in words if not re.match(r"\d|asks ·|pauses ·", word))] for name, *words in said]


def section(tab, title):
    return tab.locator("#panel .section").filter(has=tab.locator(f"summary:text-is('{title}')"))


def until(tab, condition):
    """Wait until it holds; by asking again, as the page's policy lets no text become code."""
    for _ in range(200):
        if tab.evaluate(condition):
            return
        tab.wait_for_timeout(50)
    raise AssertionError(f"never came true: {condition}")


def to(tab, share):
    tab.locator("#slider").fill(str(share))
    settled(tab)


# What is drawn


def test_the_graph_shows_every_operator_with_its_state(brief):
    assert sorted(labels(brief)) == sorted([
        ["plan", "reused from an earlier round"],
        ["complaint desk", "skipped"],
        ["search the web", "reused from an earlier round"],
        ["countries", "map"],
        ["prices", "reused from an earlier round"],
        ["legal review", "workflow"],
        ["outline", "reused from an earlier round"],
        ["approve", "reused from an earlier round"],
        ["chart", "reused from an earlier round"],
        ["write", "done"],
        ["translate", "done"],
        ["answer", "done"],
        ["editor", "evaluator"],
    ])  # fmt: skip
    assert brief.locator("#state").inner_text().strip() == "done"
    assert brief.locator("#totals").inner_text().startswith("Round 1")
    assert "20 model calls" in brief.locator("#totals").inner_text()


@pytest.mark.slow
def test_operators_stand_below_what_they_wait_for(brief):
    top = {
        name: card(brief, name).bounding_box()["y"] for name in ("plan", "search the web", "outline", "write", "editor")
    }
    assert sorted(top, key=lambda name: top[name]) == ["plan", "search the web", "outline", "write", "editor"]


@pytest.mark.slow
def test_the_critical_path_is_marked_in_words_and_drawn_through_its_operators_alone(brief):
    critical = brief.locator(".card.critical").evaluate_all("all => all.map(e => e.ariaLabel)")
    assert all(label.endswith("on the critical path") for label in critical)
    assert {label.split(",")[0] for label in critical} >= {"plan", "prices", "approve", "write", "translate", "answer"}
    assert brief.locator("#panel .critical-path li").first.inner_text().startswith("plan")
    # of both edges to `answer`, it is drawn through `translate`, for which it waited
    assert brief.evaluate("document.querySelectorAll('.lines path.critical').length") == 6
    brief.locator("#slider").fill("100")
    until(brief, "document.querySelectorAll('.lines path.critical').length === 1")


@pytest.mark.slow
def test_the_operator_that_the_last_verdict_blamed_is_marked(brief):
    assert brief.locator(".card.blamed .name").all_inner_texts() == ["write"]
    assert card(brief, "write").locator(".how").inner_text() == "1.25 s · blamed"
    to(brief, 700)
    assert brief.locator(".card.blamed").count() == 0


@pytest.mark.slow
def test_edges_and_cards_say_their_names_in_full(brief):
    names = brief.locator(".port").all_inner_texts()
    assert sorted(names) == ["complaint", "market", "market", "market"]
    cut = """() => [...document.querySelectorAll('.card .name, .card .how')]
        .filter(each => each.scrollWidth > each.clientWidth || each.scrollHeight > each.clientHeight + 1).map(each => each.textContent)"""
    assert brief.evaluate(cut) == []
    assert card(brief, "prices").locator(".how").inner_text() == "5.70 s · 3 attempts"


@pytest.mark.slow
def test_the_items_of_a_map_are_listed_once_with_what_they_were_given(brief):
    card(brief, "countries").click()
    rows = section(brief, "Items").locator("tbody tr")
    rows.nth(3).wait_for()
    assert rows.count() == 4
    assert [rows.nth(at).locator("td").first.inner_text() for at in range(3)] == ["Germany", "France", "Poland"]
    assert rows.first.locator("dl.fields").inner_text().split("\n") == ["sold", "356000", "change", "-46%"]
    assert section(brief, "Output").count() == 0
    rows.nth(1).get_by_role("button", name="Item 2").click()
    brief.wait_for_selector("#panel h2:has-text('countries[1]')")
    assert "France" in section(brief, "Input").inner_text()


@pytest.mark.slow
def test_markdown_is_formatted_and_can_be_read_as_text(brief):
    output = section(brief, "Output")
    output.wait_for()
    assert output.get_by_role("heading").inner_text() == "Figures"
    assert output.locator("table th").all_inner_texts() == ["country", "sold in 2024", "change"]
    assert output.locator("ol li").first.inner_text() == "Sales recovered in the second half."
    assert [output.locator(tag).inner_text() for tag in ("strong", "em", "code")] == ["−46%", "recovered", "9,800 €"]
    assert output.locator("a").evaluate("link => [link.href, link.target, link.rel]") == [
        "https://www.ehpa.org/market-data", "_blank", "noopener noreferrer"]  # fmt: skip
    assert "![a chart](https://example.org/chart.png)" in output.inner_text()  # never fetched
    output.get_by_role("button", name="As text").click()
    assert "| Germany | 193,000 | **−46%** |" in output.inner_text()


@pytest.mark.slow
def test_a_workflow_and_a_map_unfold_and_fold(brief):
    brief.get_by_role("button", name="Unfold legal review").click()
    assert {"sources", "claims", "counsel"} <= {label[0] for label in labels(brief)}
    brief.get_by_role("button", name="Unfold countries").click()
    brief.wait_for_selector(".items:has-text('item 1 of 4')")
    brief.get_by_role("button", name="Next item").click()
    brief.wait_for_selector(".items:has-text('item 2 of 4')")
    card(brief, "extract").click()
    brief.wait_for_selector("#panel .where:has-text('countries[1]')")
    assert brief.locator("#panel .where").inner_text().split() == ["run", "/", "countries[1]", "/", "operator"]
    brief.get_by_role("button", name="Fold legal review").click()
    assert "sources" not in {label[0] for label in labels(brief)}


def test_a_panel_shows_all_that_an_operator_was_told_and_said(brief):
    card(brief, "write").click()
    brief.wait_for_selector("#panel h2:has-text('write')")
    assert "grew by 12% in 2024" in section(brief, "Output").inner_text()
    assert "the figure its source in brackets" in section(brief, "Lesson it was given").inner_text()
    assert "Every sentence needs a figure" in section(brief, "Instruction").inner_text()
    assert "1 model call" in brief.locator("#panel .facts").inner_text()
    assert "system" in section(brief, "Messages").inner_text()
    section(brief, "Task").locator("summary").first.click()
    assert "workflow messages" in section(brief, "Task").inner_text()
    brief.locator("#panel .chip").first.click()
    until(brief, "document.querySelector('#panel .facts').textContent.includes('round 1')")
    assert "The market for heat pumps grew." in section(brief, "Output").inner_text()


@pytest.mark.slow
def test_tools_attempts_and_questions_are_shown(brief):
    card(brief, "search the web").click()
    brief.wait_for_selector("#panel h2:has-text('search the web')")
    [call] = section(brief, "Tools").locator("tbody tr").all()
    assert call.locator("dl.fields").inner_text().split("\n") == ["query", "heat pumps sold in Europe, 2024"]
    assert "2.6 million heat pumps were sold" in call.locator("td").last.inner_text()
    assert "result of search, see Tools" in section(brief, "Messages").inner_text()
    assert "2.6 million heat pumps" not in section(brief, "Messages").inner_text()
    assert '{"query"' not in brief.locator("#panel").text_content()
    card(brief, "prices").click()
    brief.wait_for_selector("#panel h2:has-text('prices')")
    assert section(brief, "Attempts").inner_text().count("503 Service Unavailable") == 2
    card(brief, "approve").click()
    brief.wait_for_selector("#panel .question")
    assert "answered after 4.00 s" in brief.locator("#panel .question").inner_text()


@pytest.mark.slow
def test_an_error_is_told_with_where_it_came_from(opened, runs):
    tab = opened(report(Trace.of(runs("failing"))))
    assert labels(tab) == [
        ["load ledger", "done"],
        ["fetch rates", "stopped"],
        ["check entries", "failed"],
        ["report", "did not run"],
    ]
    assert "check entries" in tab.locator("#alert").inner_text()
    section(tab, "Error").get_by_role("button", name="check entries").click()
    tab.wait_for_selector("#panel h2:has-text('check entries')")
    assert "it is cut off; send the file again" in section(tab, "Error").inner_text()


@pytest.mark.slow
def test_a_run_that_was_cut_off_says_so(opened, runs):
    tab = opened(report(Trace.of(runs("brief")[:100])))
    assert "unfinished" in tab.locator("#state").inner_text()
    assert "The file ends before the run does" in tab.locator("#alert").inner_text()


@pytest.mark.slow
def test_the_rounds_stand_side_by_side_with_what_the_lesson_changed(brief):
    brief.get_by_role("tab", name="Rounds").click()
    brief.wait_for_selector("#rounds table")
    assert brief.locator("#rounds th[scope=col]").all_inner_texts() == ["Round 1", "Round 2"]
    rows = dict(
        zip(
            brief.locator("#rounds th[scope=row]").all_inner_texts(),
            brief.locator("#rounds tr").all_inner_texts()[1:],
            strict=True,
        )
    )
    assert "rejected (execution error)" in rows["Verdict"]
    assert "accepted" in rows["Verdict"]
    assert "write" in rows["At fault"]
    assert re.fullmatch(r"Cost\t0\.\d+ USD\t0\.\d+ USD", rows["Cost"])
    assert not {"Kept, input unchanged", "Not verified", "Runs again, too"} & rows.keys()
    write = brief.locator("#rounds .change").first
    assert "Give each sentence its figure" in write.inner_text()
    assert "by 12% in 2024 [1], to 2.6 million [2]" in "".join(write.locator("ins").all_inner_texts())
    assert write.locator("del").all_inner_texts() != []


def repaired(quote="total 174.30"):
    """A run of which round 1 has a fault in an item of a map, and one inside a workflow, and round 2 keeps an operator."""
    stamps = iter(range(1, 100))

    def of(kind, path=(), round=1, **fields):
        return kind(
            run_id="r", path=path, operator_id=path[-1] if path else "", round=round, time=next(stamps), **fields
        )

    def ran(name, said, round=1, **fields):
        message = WorkflowMessage(scratchpad=said, **fields)
        path = tuple(name.split("/"))
        return [
            of(events.OperatorStarted, path, round),
            of(events.OperatorFinished, path, round, seconds=1.0, message=message),
        ]

    inner = {"workflow": "draft", "operators": {"body": ()}}
    faults = (
        Fault(operator="sums", item=1, wrong=quote, right="total 149.40", lesson="Six pieces."),
        Fault(operator="draft/body", wrong="1968", sure=False),
    )
    verdict = {
        "status": WorkflowStatus.EXECUTION_ERROR, "evaluation": "A sum is wrong.", "lesson": "Six pieces.", "faults": faults,
        "blame": ("sums[1]", "draft/body"), "unsure": ("The rate of 2025.",),
        "repairs": {"sums[1]": "", "facts": "an operator after it was blamed twice"},
    }  # fmt: skip
    parts = [WorkflowMessage(scratchpad=text) for text in ("total 20", quote)]
    mended = [parts[0], WorkflowMessage(scratchpad="total 149.40")]
    return [
        of(events.RunStarted, workflow="bill", goal="Add up.", operators={"facts": (), "sums": ("facts",), "draft": ("facts",), "end": ("draft",)}),
        of(events.RoundStarted, operators=("facts", "sums", "draft", "end")),
        *ran("facts", "six pieces"), *ran("sums", f"total 20\n{quote}", parts=parts),
        of(events.OperatorStarted, ("draft",)), of(events.WorkflowEntered, ("draft",), **inner),
        of(events.RoundStarted, ("draft",), operators=("body",)), *ran("draft/body", "1968"),
        of(events.OperatorFinished, ("draft",), seconds=1.0, message=WorkflowMessage(scratchpad="1968")),
        *ran("end", "bye"),
        of(events.RoundFinished, **verdict),
        of(events.RoundStarted, round=2, operators=("facts", "sums", "draft", "end")),
        *ran("sums", "total 20\ntotal 149.40", 2, parts=mended),
        of(events.OperatorKept, ("end",), 2),
        of(events.RoundFinished, round=2, status=WorkflowStatus.SUCCESS, evaluation="Right.", lesson="", blame=()),
        of(events.RunFinished, round=2, message=WorkflowMessage(scratchpad="done"), seconds=1.0, rounds=2),
    ]  # fmt: skip


@pytest.mark.slow
def test_faults_have_the_quotes_and_what_is_blamed_runs_again_or_is_kept_is_told_with_the_reason(opened):
    tab = opened(report(Trace.of(repaired())))
    assert sorted(tab.locator(".card.blamed .name").all_inner_texts()) == ["draft", "sums"]
    assert "is-reused" in card(tab, "end").get_attribute("class").split()
    tab.get_by_role("tab", name="Rounds").click()
    tab.wait_for_selector("#rounds table")
    rows = {row.split("\t")[0]: row for row in tab.locator("#rounds tr").all_inner_texts()}
    assert "sums[1]\nwrong: total 174.30\nright: total 149.40\nSix pieces." in rows["At fault"]
    assert "draft/body suspected\nwrong: 1968" in rows["At fault"]
    assert "The rate of 2025." in rows["Not verified"]
    assert "facts, because an operator after it was blamed twice" in rows["Runs again, too"]
    assert rows["Kept, input unchanged"].endswith("end")
    assert "Lesson" not in rows
    first = tab.locator("#rounds .change").first.inner_text()
    assert first.startswith("sums round 1 → 2")
    assert "fault it was told" in first.lower()


@pytest.mark.slow
def test_a_quote_of_a_fault_is_text_and_bounded(opened):
    tab = opened(report(Trace.of(repaired("<img src=x onerror=alert(1)>\u202e" + "x" * 100_000))))
    tab.get_by_role("tab", name="Rounds").click()
    tab.wait_for_selector("#rounds .fault")
    told = tab.locator("#rounds .fault").first.inner_text()
    assert told.startswith("sums[1]\nwrong: <img src=x onerror=alert(1)>[U+202E]xxx")
    assert len(told) < 3_000


@pytest.mark.slow
def test_the_timeline_unfolds_to_attempts_pauses_and_calls(brief):
    rows = brief.locator("#timeline .row")
    names = rows.locator(".name").all_inner_texts()
    assert names[:3] == ["market brief", "Round 1", "plan"]
    prices = rows.filter(has_text="prices").first
    assert prices.locator(".bar.pause").count() == 2
    prices.locator(".fold").click()
    assert "pause before the next attempt" in rows.locator(".name").all_inner_texts()
    assert rows.filter(has_text="approve").first.locator(".bar.asked").count() == 1


LONG = "Kundenanfragen nach Sprache sortieren"


def weather(name=LONG):
    """A run of a workflow of nodes, whose goal is its name; a tool call of an inner operator fails."""
    stamps = iter(range(1, 100))

    def of(kind, *path, **fields):
        return kind(run_id="r", path=path, operator_id=path[-1] if path else "", round=1, time=next(stamps), **fields)

    def ran(*path, calls=()):
        message = WorkflowMessage(scratchpad="said")
        return [
            of(events.OperatorStarted, *path),
            *calls,
            of(events.OperatorFinished, *path, seconds=1.0, message=message),
        ]

    def calls(*path):
        return [
            of(events.ToolCalled, *path, tool="forecast", arguments={"city": "Oslo"}, call_id="1"),
            of(events.ToolReturned, *path, tool="forecast", result="503", failed=True, call_id="1", seconds=1.0),
        ]

    inside = {"workflow": "inner", "operators": {"ask": ()}}
    return [
        of(events.RunStarted, workflow="weather", goal="weather", inputs={"city": "Oslo", "days": 2**63 + 1}, operators={"start": (), name: ("start",), "read": (name,)}),
        of(events.RoundStarted, operators=("start", name, "read")),
        *ran("start"), *ran(name, calls=calls(name)),
        of(events.OperatorStarted, "read"), of(events.WorkflowEntered, "read", **inside), of(events.RoundStarted, "read", operators=("ask",)),
        *ran("read", "ask", calls=calls("read", "ask")),
        of(events.OperatorFinished, "read", seconds=1.0, message=WorkflowMessage(scratchpad="said")),
        of(events.RunFinished, seconds=30.0, rounds=1, message=WorkflowMessage(scratchpad="done")),
    ]  # fmt: skip


@pytest.mark.slow
def test_a_workflow_of_nodes_has_its_inputs_in_place_of_its_name_as_goal(opened):
    tab = opened(report(Trace.of(weather())))
    assert tab.locator("#goal").inner_text() == f"city: Oslo · days: {2**63 + 1}"
    assert section(tab, "Inputs").locator("dl").inner_text().split("\n") == ["city", "Oslo", "days", str(2**63 + 1)]
    assert section(tab, "Goal").count() == 0
    assert tab.locator("#panel .actions").count() == 0, "a report has no links to a studio"


@pytest.mark.slow
def test_failed_calls_of_tools_are_told_on_card_and_row_also_of_what_is_folded(opened):
    tab = opened(report(Trace.of(weather())))
    assert tab.locator(".card.broke .name").all_inner_texts() == [LONG, "read"]
    assert card(tab, "read").locator(".how").inner_text().endswith("· 1 failed call")
    failures = tab.locator("#timeline .row:has(.failures)")
    assert failures.locator(".name").all_inner_texts() == [LONG, "read"]
    assert "1 failed call" in failures.first.get_attribute("aria-label").split(", ")
    assert failures.first.locator(".bar.broke").count() == 1
    to(tab, 0)
    assert tab.locator(".card.broke, .failures").count() == 0


@pytest.mark.parametrize(("width", "name"), [(1280, LONG), (900, "sort the requests")])
@pytest.mark.slow
def test_names_of_usual_length_are_not_cut_off(opened, width, name):
    tab = opened(report(Trace.of(weather(name))), viewport={"width": width, "height": 850})
    cut = """() => [...document.querySelectorAll('.card .name, .card .how, .row .name, #workflow, #panel button.link, #panel h2')]
        .filter(each => each.scrollWidth > each.clientWidth + 1 && getComputedStyle(each).display !== 'inline').map(each => each.textContent)"""
    assert tab.evaluate(cut) == []


@pytest.mark.slow
def test_the_studio_has_links_to_a_node_and_to_what_it_can_do_with_the_run(opened, live):
    happened = weather()
    server = live(happened[:-1])
    tab = opened(f"{server.address}#node={LONG}", allowed=server.host)
    tab.wait_for_selector(f"#panel h2:has-text('{LONG}')")
    links = tab.locator("#panel .actions a")
    assert links.all_inner_texts() == ["Open this node"]
    server.feed(happened[-1:])
    until(tab, "document.querySelector('#state').textContent.includes('done')")
    card(tab, "read").click()
    tab.wait_for_selector("#panel h2:has-text('read')")
    assert links.evaluate_all("all => all.map((each) => [each.textContent, each.getAttribute('href')])") == [
        ["Open this node", "../../#file=a%26b.yaml&run=r&node=read"],
        ["Re-run from here…", "../../#file=a%26b.yaml&run=r&node=read&then=rerun"],
    ]
    tab.keyboard.press("Escape")
    tab.wait_for_selector("#panel h2:has-text('weather')")
    assert links.all_inner_texts() == ["Open in the studio", "Make a test…"]


# What it answers to


def test_the_slider_replays_the_run(brief):
    to(brief, 0)
    assert dict(labels(brief))["plan"] == "running"
    assert dict(labels(brief))["write"] == "waiting"
    assert "model call" not in brief.locator("#panel .facts").inner_text()
    to(brief, 130)
    assert "waits to try again" in card(brief, "prices").get_attribute("aria-label").split(", ")
    to(brief, 450)
    assert dict(labels(brief))["approve"] == "waits for an answer"
    assert brief.locator("#state").inner_text().strip() == "waits for an answer"
    card(brief, "approve").click()
    brief.wait_for_selector("#panel .question :text('not answered at this time')")
    assert section(brief, "Output").count() == 0
    brief.get_by_role("button", name="To the end").click()
    assert dict(labels(brief))["write"] == "done"
    card(brief, "write").click()
    brief.wait_for_selector("#panel .facts :text('model call')")


@pytest.mark.slow
def test_playing_comes_to_the_end(brief):
    brief.locator("#speed").select_option("100")
    brief.locator("#play").click()
    until(brief, "document.querySelector('#play').ariaLabel === 'Play' && document.querySelector('#now').hidden")
    assert dict(labels(brief))["answer"] == "done"


def test_search_finds_names_and_what_was_said(brief):
    brief.keyboard.press("/")
    brief.keyboard.type("503 service")
    brief.wait_for_selector("#found .hit")
    assert "prices" in brief.locator("#found").inner_text()
    assert "dim" in card(brief, "write").get_attribute("class")
    assert "dim" not in card(brief, "prices").get_attribute("class")
    brief.keyboard.press("Enter")
    brief.wait_for_selector("#panel h2:has-text('prices')")
    brief.keyboard.press("Escape")
    assert brief.locator(".card.dim").count() == 0
    brief.keyboard.press("/")
    brief.keyboard.type("356000")
    brief.wait_for_selector("#found .snippet")
    snippets = brief.locator("#found .snippet").all_inner_texts()
    assert {each[:34] for each in snippets} == {'{"sold": 356000, "change": "-46%"}'}  # no usage, no seconds
    brief.keyboard.press("Escape")
    brief.keyboard.press("/")
    brief.keyboard.type("nobody said this")
    brief.wait_for_selector("#found :text('0 places found')")


@pytest.mark.slow
def test_search_finds_large_numbers(opened, runs):
    events = [*runs("brief")]
    called = next(at for at, event in enumerate(events) if type(event).__name__ == "ToolCalled")
    events[called] = msgspec.structs.replace(events[called], arguments={"order": 2**63 + 1})
    tab = opened(report(Trace.of(events)))
    tab.locator("#search").fill(str(2**63 + 1))
    tab.wait_for_selector("#found .snippet")
    assert str(2**63 + 1) in tab.locator("#found .snippet").first.inner_text()


@pytest.mark.slow
def test_all_can_be_done_by_keyboard(brief):
    card(brief, "plan").focus()
    brief.keyboard.press("ArrowDown")
    focused = "document.activeElement.ariaLabel"
    assert brief.evaluate(focused).split(",")[0] in {"countries", "prices", "search the web"}
    brief.keyboard.press("ArrowUp")
    assert brief.evaluate(focused).startswith("plan,")
    brief.keyboard.press("Enter")
    brief.wait_for_selector("#panel h2:has-text('plan')")
    until(brief, "document.activeElement.id === 'panel'")
    brief.keyboard.press("Escape")
    assert brief.evaluate(focused).startswith("plan,")
    card(brief, "legal review").focus()
    brief.keyboard.press("u")
    assert "sources" in {label[0] for label in labels(brief)}
    brief.keyboard.press("4")
    assert brief.locator("#rounds").is_visible()
    brief.keyboard.press("1")
    brief.keyboard.press(",")
    brief.wait_for_selector("#now:visible")
    brief.locator("#timeline .rows").focus()
    for key in ("Home", "ArrowDown", "ArrowLeft", "ArrowDown", "Enter"):
        brief.keyboard.press(key)
    brief.wait_for_selector("#panel h2:has-text('Round 2')")
    brief.keyboard.press("?")
    assert brief.locator("dialog[open]").is_visible()


# For everybody


CONTRAST = """() => {
  const parse = (colour) => (colour.match(/[\\d.]+/g) ?? [0, 0, 0, 0]).map(Number);
  const over = (top, below) => { const a = top[3] ?? 1; return [0, 1, 2].map((i) => top[i] * a + below[i] * (1 - a)); };
  const light = (rgb) => { const [r, g, b] = rgb.map((c) => { c /= 255; return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
  const behind = (element) => {
    const layers = [];
    for (let each = element; each; each = each.parentElement) layers.push(parse(getComputedStyle(each).backgroundColor));
    return layers.reverse().reduce((below, layer) => over(layer.length > 3 ? layer : [...layer, 1], below), [255, 255, 255]);
  };
  const poor = [];
  for (const element of document.querySelectorAll("body *")) {
    if (!element.checkVisibility?.({ opacityProperty: true }) || element.closest("noscript, script")) continue;
    const style = getComputedStyle(element);
    const text = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    const mark = element.matches("svg.icon, .bar");
    if (!text && !mark) continue;
    if (element.closest(":disabled")) continue;
    const colour = element.matches(".bar") ? parse(style.backgroundColor) : parse(style.color);
    if (element.matches(".call, .pause, .asked")) continue;
    const back = behind(element.matches(".bar") ? element.parentElement : element);
    const found = ratio(over(colour.length > 3 ? colour : [...colour, 1], back), back);
    if (found < (text ? 4.5 : 3)) poor.push(`${element.tagName}.${element.className.baseVal ?? element.className} ${element.textContent.slice(0, 20)} ${found.toFixed(2)}`);
  }
  return poor;
}"""


def hard_to_read(tab):
    """Return what cannot be told from what is behind it, in dark and in light colours, and serious findings of axe-core."""
    found = []
    for scheme in ("dark", "light"):
        tab.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        found += tab.evaluate(CONTRAST)
    return found + (faults_of(tab) if AXE.exists() else [])


@pytest.mark.slow
def test_every_text_and_mark_can_be_told_from_what_is_behind_it_and_axe_finds_no_serious_fault(opened, runs):
    tab = opened(report(Trace.of(runs("brief"))), bypass_csp=True)
    section(tab, "Output").wait_for()
    for where in (0, 130, 450, 700, 1000):
        to(tab, where)
        assert hard_to_read(tab) == []
    for name in ("write", "prices", "approve", "search the web", "countries"):
        card(tab, name).click()
        tab.wait_for_selector(f"#panel h2:has-text('{name}')")
        assert hard_to_read(tab) == []
    tab.get_by_role("tab", name="Rounds").click()
    tab.wait_for_selector("#rounds ins")
    assert hard_to_read(tab) == []
    tab.get_by_role("button", name="Keys and marks").click()
    assert hard_to_read(tab) == []
    assert hard_to_read(opened(report(Trace.of(runs("failing"))), bypass_csp=True)) == []
    phone = opened(report(Trace.of(weather())), bypass_csp=True, viewport={"width": 390, "height": 844})
    assert hard_to_read(phone) == []
    phone.get_by_role("tab", name="Details").click()
    section(phone, "Inputs").wait_for()
    assert hard_to_read(phone) == []


@pytest.mark.slow
def test_the_theme_can_be_changed(brief):
    back = "getComputedStyle(document.body).backgroundColor"
    before = brief.evaluate(back)
    brief.get_by_role("button", name="Light or dark").click()
    assert brief.evaluate(back) != before
    assert brief.evaluate(CONTRAST) == []


@pytest.mark.slow
def test_a_phone_shows_one_thing_at_a_time_and_never_scrolls_sideways(opened, runs):
    tab = opened(report(Trace.of(runs("brief"))), viewport={"width": 390, "height": 844})
    fits = "document.documentElement.scrollWidth <= 390 && document.body.scrollWidth <= 390"
    assert tab.evaluate(fits)
    assert card(tab, "editor").is_visible()
    for name in ("Timeline", "Rounds", "Details"):
        tab.get_by_role("tab", name=name).click()
        tab.wait_for_timeout(50)
        assert tab.evaluate(fits), name
        assert tab.locator("#graph").is_hidden()
    tab.get_by_role("tab", name="Graph").click()
    card(tab, "write").click()
    tab.wait_for_selector("#panel h2:has-text('write')")
    assert tab.evaluate("document.querySelector('#panel').scrollWidth <= 390")
    assert opened(report(Trace.of(runs("brief")[:100])), viewport={"width": 390, "height": 844}).evaluate(fits)


# Hostile runs


@pytest.mark.slow
def test_what_models_and_names_say_is_text_whatever_it_says(opened, runs):
    events = runs("hostile")
    for width in (1400, 390):
        tab = opened(report(Trace.of(events)), viewport={"width": width, "height": 844})
        known = "document.querySelectorAll('img, iframe, object, embed, a, script:not([type]):not(:nth-of-type(1)), svg:not(.icon):not(.lines)').length"
        for at in range(tab.locator(".card").count()):
            tab.locator(".card").nth(at).evaluate("card => card.click()")
            tab.wait_for_timeout(80)
            tab.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
            assert tab.evaluate("document.querySelectorAll('img, iframe, object, embed, a, form[action]').length") == 0
            tab.evaluate("document.querySelectorAll('.more').forEach(each => each.click())")
        if width == 1400:
            tab.get_by_role("tab", name="Rounds").click()
            tab.wait_for_selector("#rounds table")
        assert tab.evaluate(known) <= 1
        assert tab.evaluate("document.querySelectorAll('script').length") == 3
        assert "alert(1)" in tab.locator("#rounds" if width == 1400 else "#panel").text_content()
        assert "\u202e" not in tab.evaluate("document.body.innerText")
        assert tab.evaluate("document.documentElement.scrollWidth") <= width


HOSTILE_MARKDOWN = """# Title <img src=x onerror=alert(1)>

[a](javascript:alert(2)) [b](data:text/html,x) [c](https://example.org/"onclick=alert(3)) ![d](https://example.org/x.png)

| <b>x</b> | y |
|---|---|
| `<script>alert(4)</script>` | \u202egnp.exe |

<details ontoggle=alert(5) open>
"""


def test_markdown_has_no_power_and_takes_no_time(opened):
    long = [
        "**a" * 6000,
        "`" * 9000,
        "[" * 9000,
        "> " * 9000,
        "- " * 9000,
        "|" * 9000 + "\n" + "|-" * 9000,
        "_*" * 9000,
        "1. x\n" * 5000,
    ]
    run = {"run_id": "r", "round": 1}
    happened: list[events.Event] = [
        events.RunStarted(run_id="r", workflow="w", goal=HOSTILE_MARKDOWN, operators={"o": ()})
    ]
    happened.append(events.RunFinished(**run, seconds=1, rounds=1, message=WorkflowMessage(
        scratchpad=HOSTILE_MARKDOWN, outputs={f"n{number}": f"# x\n{text}" for number, text in enumerate(long)})))  # fmt: skip
    tab = opened(report(Trace.of(happened)))
    section(tab, "Output").wait_for()
    assert tab.evaluate("document.querySelectorAll('#panel :is(img, b, script, details:not(.section))').length") == 0
    links = tab.locator("#panel a").evaluate_all("all => all.map((each) => [each.href, each.onclick])")
    assert links == [["https://example.org/%22onclick=alert(3)", None]] * 2, "of the goal and of the output"
    assert section(tab, "Output").locator("th").first.inner_text() == "<b>x</b>"
    assert "[a](javascript:alert(2))" in section(tab, "Output").inner_text()
    assert "\u202e" not in tab.evaluate("document.body.innerText")


@pytest.mark.slow
def test_a_long_text_is_folded(opened, runs):
    tab = opened(report(Trace.of(runs("hostile"))))
    tab.locator(".card").nth(2).click()
    tab.wait_for_selector("#panel .chip")
    tab.locator("#panel .chip").first.click()
    until(tab, "document.querySelector('#panel .facts').textContent.includes('round 1')")
    output = section(tab, "Output")
    assert len(output.inner_text()) < 3000
    output.get_by_role("button", name="(32,034 characters)").click()
    assert len(output.inner_text()) < 21_000
    output.get_by_role("button", name="(32,034 characters)").click()
    assert output.inner_text().endswith("</script><script>alert(2)</script>")


@pytest.mark.slow
def test_a_report_holds_what_any_text_can_hold(opened, runs):
    text = "".join(map(chr, [*range(0x20), 0x2028, 0x2029, 0xD800, 0xFFFE, 0x1F600])) + "]]></script><!--<script>"
    trace = Trace.of(runs("failing"))
    trace.goal = text
    held = json.loads(report(trace).split('id="picture-data">')[1].split("</script>")[0])
    assert held["goal"] == text
    trace.goal = text.replace("\ud800", "")
    opened(report(trace))


# Large runs


@pytest.mark.slow
def test_three_hundred_operators_fit_the_width(opened, runs):
    tab = opened(report(Trace.of(runs("large", 300))))
    assert tab.locator(".card").count() == 300
    pane = tab.locator("#graph")
    assert pane.evaluate("pane => pane.scrollWidth <= pane.clientWidth + 1")
    assert tab.locator("#timeline .row").count() < 60
    assert card(tab, "step 0").locator(".name").evaluate("e => e.scrollWidth <= e.clientWidth")


@pytest.mark.slow
def test_thousands_of_spans_are_scrolled_through(opened, runs):
    tab = opened(report(Trace.of(runs("many_spans", 4000))))
    tab.locator("#timeline .row").nth(1).locator(".fold").click()
    assert tab.locator("#timeline .row").count() < 60
    tab.locator("#timeline .rows").focus()
    tab.keyboard.press("End")
    assert tab.locator("#timeline .row .name").last.inner_text() == "item 1000"


@pytest.mark.slow
def test_a_graph_that_is_no_graph_is_drawn_all_the_same(opened, runs):
    trace = Trace.of(runs("failing"))
    told = picture(trace)
    told["graphs"][""]["before"] = {
        "a": ["b"],
        "b": ["a", "c"],
        "c": ["c", "nobody"],
        "__proto__": ["a"],
        "constructor": [],
    }
    held = json.dumps(told).replace("<", "\\u003c")
    whole = report(trace)
    begin = whole.index('id="picture-data">') + len('id="picture-data">')
    tab = opened(whole[:begin] + held + whole[whole.index("</script>", begin) :])
    assert {"a", "b", "c", "constructor"} <= {label[0] for label in labels(tab)}
    card(tab, "constructor").click()
    tab.wait_for_selector("#panel h2:has-text('constructor')")
    tab.keyboard.press("/")
    tab.keyboard.type("ledger")
    tab.wait_for_selector("#found .hit")


@pytest.mark.slow
def test_a_part_of_the_time_is_shown_larger(brief):
    brief.locator("#timeline .rows").focus()
    last = brief.locator("#timeline .tick").last.inner_text()
    brief.keyboard.press("+")
    brief.keyboard.press("+")
    assert brief.locator("#timeline .tick").last.inner_text() != last
    brief.keyboard.press("f")
    assert brief.locator("#timeline .tick").last.inner_text() == last


# Live


_BESIDE = {"note": "", "can": ["answer", "cancel"], "studio": "../../#file=a%26b.yaml&run=r"}


class _Answers(BaseHTTPRequestHandler):
    """The contract of a server, in small."""

    @property
    def live(self) -> Any:
        return self.server

    def log_message(self, format, *args):
        pass

    def do_GET(self):
        url, live = urlsplit(self.path), self.live
        asked = {name: int(values[0]) for name, values in parse_qs(url.query).items()}
        live.asked.append(self.path)
        if live.gone:
            self.reply(json.dumps({"error": live.gone}), status=404)
            return
        match url.path:
            case "/token/":
                self.reply(page("a run"), "text/html; charset=utf-8")
            case "/token/data/picture":
                self.reply(json.dumps({**picture(live.trace, asked.get("since", 0)), **_BESIDE}))
            case "/token/data/details":
                self.reply(json.dumps(details(live.trace, asked.get("span"))))
            case "/token/data/changes":
                self.stream(asked["since"])
            case _:
                self.send_error(404)

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.live.posted.append((self.path, body))
        if self.live.refuses:
            self.reply(json.dumps({"error": self.live.refuses}), status=422)
        else:
            self.reply("{}")

    def reply(self, text, kind="application/json", status=200):
        data = text.encode()
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def stream(self, since):
        live = self.live
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        broken = live.broken
        while not live.closed and live.broken == broken:
            with live.changed:
                if live.trace.version == since:
                    live.changed.wait(0.1)
                    continue
                told = json.dumps({**picture(live.trace, since), **_BESIDE})
                since = live.trace.version
            self.wfile.write(f"data: {told}\n\n".encode())
            self.wfile.flush()


class _Live(ThreadingHTTPServer):
    """Serves a trace that a test feeds."""

    daemon_threads = True

    def __init__(self, events):
        super().__init__(("127.0.0.1", 0), _Answers)
        self.trace, self.posted, self.asked, self.refuses, self.gone = Trace(), [], [], "", ""
        self.changed, self.closed, self.broken = threading.Condition(), False, 0
        self.feed(events)
        threading.Thread(target=self.serve_forever, daemon=True).start()
        self.host = f"http://127.0.0.1:{self.server_port}/"
        self.address = f"{self.host}token/"

    def feed(self, events):
        with self.changed:
            for event in events:
                self.trace.apply(event)
            self.changed.notify_all()

    def close(self):
        self.closed = True
        self.shutdown()
        self.server_close()


@pytest.fixture
def live():
    made = []

    def live(events):
        made.append(_Live(events))
        return made[-1]

    yield live
    for each in made:
        each.close()


@pytest.mark.slow
def test_a_live_run_grows_before_the_eyes(opened, live, runs):
    events = runs("brief")
    server = live([])
    tab = opened(server.address, allowed=server.host, shown="#connection:text('waiting for the run')")
    server.feed(events[:20])
    until(tab, "document.querySelector('#state').textContent.includes('running')")
    assert dict(labels(tab))["write"] == "waiting"
    server.feed(events[20:])
    until(tab, "document.querySelector('#state').textContent.includes('done')")
    assert dict(labels(tab))["write"] == "done"
    assert tab.locator("#cancel").is_hidden()


def test_a_question_is_answered_and_a_run_cancelled_from_the_page(opened, live, runs):
    events = runs("brief")
    asked = next(at for at, event in enumerate(events) if type(event).__name__ == "Interrupted")
    server = live(events[: asked + 1])
    tab = opened(server.address, allowed=server.host)
    tab.wait_for_selector("#panel form.answer")  # who asks is shown at once, as the reader has chosen nothing
    assert tab.locator(".card.selected .name").inner_text() == "approve"
    assert tab.locator("#alert").inner_text().split() == "approve asks: Publish figures of a competitor? Answer".split()
    tab.keyboard.press("Escape")
    tab.wait_for_selector("#panel h2:has-text('market brief')")
    tab.get_by_role("alert").get_by_role("button", name="Answer").click()
    tab.wait_for_selector("#panel form.answer")
    assert tab.locator("#panel form.answer select").input_value() == "", "no answer is chosen beforehand"
    tab.locator("#panel form.answer select").select_option("false")
    tab.locator("#panel form.answer textarea").fill("They are not ours.")
    server.refuses = "'approve' is not open"
    tab.locator("#panel form.answer").get_by_role("button", name="Answer").click()
    tab.wait_for_selector("#panel .question :text-is(\"'approve' is not open\")")
    server.refuses, server.posted = "", []
    tab.locator("#panel form.answer").get_by_role("button", name="Answer").click()
    tab.wait_for_selector("#panel .question :text-is('sent')")
    tab.get_by_role("button", name="Cancel run").click()
    assert server.posted == [
        ("/token/data/answer", {"interrupt_id": "approve", "value": {"approve": False, "why": "They are not ours."}})
    ]
    tab.get_by_role("button", name="Really cancel?").click()
    tab.wait_for_selector("#cancel:disabled")
    assert server.posted[1:] == [("/token/data/cancel", {})]
    server.feed(events[asked + 1 :])
    until(tab, "document.querySelector('#state').textContent.includes('done')")
    assert tab.locator("#alert").is_hidden()
    server.feed(runs("failing")[:5])
    until(tab, "document.querySelector('#workflow').textContent === 'accounts'")
    assert tab.get_by_role("button", name="Cancel run").is_enabled()


class _Asking:
    """A page of a run that asks.

    Attributes:
        server: What serves it.
        rest: The events after the question.
        form: The form of the answer.
    """

    def __init__(self, server, rest, tab):
        self.server, self.rest, self.tab = server, rest, tab
        self.form = tab.locator("#panel form.answer")
        self.form.wait_for()

    def sent(self, button="Answer"):
        """Press a button, and return the answer that was sent."""
        self.form.get_by_role("button", name=button).click()
        self.tab.wait_for_selector("#panel .question :text-is('sent')")
        return self.server.posted[0][1]["value"]


@pytest.fixture
def asking(opened, live, runs):
    """Opens the page of a run that asks for an answer of a schema."""

    def asking(schema=None):
        events = [*runs("brief")]
        asked = next(at for at, event in enumerate(events) if type(event).__name__ == "Interrupted")
        if schema:
            events[asked] = msgspec.structs.replace(events[asked], schema=schema)
        server = live(events[: asked + 1])
        return _Asking(server, events[asked + 1 :], opened(server.address, allowed=server.host))

    return asking


@pytest.mark.slow
def test_the_call_of_a_tool_is_allowed_changed_or_refused(asking):
    given = {"order": "A1", "amount": 400, "id": 2**63 + 1}
    page = asking({"if": {}, "approval": {"tool": "refund", "arguments": given}})
    server, tab, form = page.server, page.tab, page.form
    arguments, reason = form.locator("textarea").nth(0), form.locator("textarea").nth(1)
    shown = arguments.input_value()
    assert json.loads(shown) == given
    schema_shown = tab.locator("#panel .question details").text_content()
    assert json.loads(schema_shown.partition("form of the answer")[2])["approval"]["arguments"] == given
    allow, always, refuse = (
        form.get_by_role("button", name=name) for name in (re.compile("^Allow$"), "Always", "Refuse")
    )

    def press(button):
        """Press a button, and wait until its answer has arrived: answers that are sent at once arrive in any order."""
        before = len(server.posted)
        button.click()
        for _ in range(1000):
            if len(server.posted) > before:
                return
            tab.wait_for_timeout(20)

    arguments.fill('{"order": "A1"')
    allow.click()
    tab.wait_for_selector("#panel .question :text('the arguments are no JSON')")
    assert always.is_disabled()
    assert form.get_by_text("Edited arguments apply to this call only").is_visible()
    arguments.fill(shown)
    press(allow)
    assert not form.get_by_text("Edited arguments apply to this call only").is_visible()
    press(always)
    press(refuse)
    reason.fill("too old")
    press(refuse)
    arguments.fill(shown.replace("400", "100"))
    press(allow)
    answers = [body["value"] for _, body in server.posted]
    assert answers == ["yes", "always", "no", "no: too old", {**given, "amount": 100}]


@pytest.mark.parametrize(
    ("schema", "filled", "answer"),
    [
        (
            {
                "type": "object",
                "properties": {"id": {"type": "integer", "description": "Of the order."}, "rate": {"type": "number"}},
            },
            {"number": ["0012345678901234567890", ".5"]},
            {"id": 12345678901234567890, "rate": 0.5},
        ),
        ({"type": "array"}, {"textarea": ["[12345678901234567890]"]}, [12345678901234567890]),
    ],
)
@pytest.mark.slow
def test_large_numbers_of_an_answer_are_sent_exactly(asking, schema, filled, answer):
    page = asking(schema)
    form = page.form
    assert form.get_by_text("Of the order.").count() == len(schema.get("properties", {})) // 2
    for kind, texts in filled.items():
        for at, text in enumerate(texts):
            form.locator("[type=number]" if kind == "number" else kind).nth(at).fill(text)
    assert page.sent() == answer


@pytest.mark.slow
def test_an_answer_that_is_begun_while_the_panel_is_drawn_again_is_kept(asking):
    tab = asking().tab
    tab.evaluate("""() => {
        const real = window.fetch;
        window.fetch = async (...given) => {
            const reply = await real(...given);
            const field = document.querySelector("#panel form.answer textarea");
            if (String(given[0]).includes("details") && window.drawn === undefined) {
                window.drawn = false;
                field.value = "because";
                field.dispatchEvent(new Event("input", { bubbles: true }));
                setTimeout(() => (window.drawn = true), 300);
            }
            return reply;
        };
    }""")
    until(tab, "window.drawn")
    assert tab.locator("#panel form.answer textarea").input_value() == "because"


@pytest.mark.parametrize(("button", "answer"), [("Answer", {"size": "M"}), ("decline", "decline")])
@pytest.mark.slow
def test_a_form_that_may_be_declined_has_fields_and_a_button_for_each_word(asking, button, answer):
    words = {"if": {"type": "string"}, "then": {"enum": ["decline", "cancel"]}}
    schema = {"type": ["object", "string"], "properties": {"size": {"type": "string"}}, "required": ["size"], **words}
    page = asking(schema)
    page.form.locator("textarea").fill("M")
    assert page.sent(button) == answer


@pytest.mark.slow
def test_a_schema_with_the_word_approval_has_the_form_of_any_schema(asking):
    schema = {"type": "object", "properties": {"why": {"type": "string"}}, "required": ["why"], "approval": True}
    page = asking(schema)
    page.form.locator("textarea").fill("because")
    assert page.sent() == {"why": "because"}


@pytest.mark.slow
def test_an_answer_that_is_begun_or_refused_stays_though_the_run_goes_on(asking):
    page = asking()
    server, tab, form = page.server, page.tab, page.form
    form.locator("select").select_option("false")
    server.refuses = "'why' is missing"
    form.get_by_role("button", name="Answer").click()
    refusal = tab.locator("#panel .question [role=alert]")
    until(tab, "document.querySelector('#panel .question [role=alert]').textContent.includes('missing')")
    tab.evaluate("document.activeElement.blur()")
    tab.wait_for_timeout(2500)  # the panel is drawn anew each second
    assert (form.locator("select").input_value(), refusal.inner_text()) == ("false", "'why' is missing")
    server.feed(page.rest)
    tab.wait_for_selector("#panel .question :text('answered after')")
    assert form.count() == 0


@pytest.mark.slow
def test_what_an_answer_may_leave_out_is_left_out(asking):
    kinds = ({"type": "boolean"}, {"type": "integer"}, {"enum": ["a", "b"]}, {"type": "string"})
    schema = {"type": "object", "properties": {f"{name}{at}": kind for name in "xy" for at, kind in enumerate(kinds)}}
    page = asking({**schema, "required": ["x0", "x1", "x2", "x3"]})
    form = page.form
    form.locator("input").first.fill("7")
    form.locator("select").nth(0).select_option("true")
    form.locator("select").nth(1).select_option('"a"')
    assert page.sent() == {"x0": True, "x1": 7, "x2": "a", "x3": ""}


@pytest.mark.slow
def test_after_the_connection_breaks_it_goes_on_from_where_it_was(opened, live, runs):
    events = runs("brief")
    server = live(events[:20])
    tab = opened(server.address, allowed=server.host)
    until(tab, "document.querySelector('#state').textContent.includes('running')")
    until(tab, "document.querySelector('#connection').textContent === ''")
    server.broken += 1
    server.feed(events[20:])
    until(tab, "document.querySelector('#state').textContent.includes('done')")
    assert [path for path in server.asked if "data/picture?since=20" in path] != []


@pytest.mark.slow
def test_a_page_of_a_server_that_was_restarted_says_so_and_asks_no_more(opened, live, runs):
    server = live(runs("brief")[:20])
    tab = opened(server.address, allowed=server.host)
    until(tab, "document.querySelector('#state').textContent.includes('running')")
    server.gone = "the server was restarted"
    server.broken += 1
    until(tab, "document.querySelector('#connection').textContent === 'the server was restarted'")
    asked = len(server.asked)
    tab.wait_for_timeout(2500)
    assert len(server.asked) == asked


@pytest.mark.slow
def test_another_run_in_the_same_file_takes_the_place_of_the_first(opened, live, runs):
    server = live(runs("brief")[:100])
    tab = opened(server.address, allowed=server.host)
    server.feed(runs("failing"))
    until(tab, "document.querySelector('#workflow').textContent === 'accounts'")
    assert len(labels(tab)) == 4
