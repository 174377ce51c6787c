"""The studio in a real browser: workflows are run, imported, exported, made by words; and nothing hostile gets through."""

import json
import re

import pytest
from held_model import held_model
from studio_page import AXE, served, tabs
from studios import FIVE

from operad.runtime.testing import CallTools, Say, ScriptedModel

pytestmark = pytest.mark.slow  # a browser each; test_studio_browser.py looks at the page in `make test`

ASKS = """\
workflow: asks
nodes:
  1: {type: start, after: [], variables: []}
  2: {type: human-input, after: 1, question: "Send it?", actions: [["yes", "Send"], ["no", "Leave it"]]}
  3: {type: template-transform, after: {2: 0}, template: "sent", variables: []}
  4: {type: template-transform, after: {2: 1}, template: "left", variables: []}
  5: {type: variable-aggregator, after: [3, 4], variables: [[output, "3"], [output, "4"]]}
  6: {type: end, after: 5, outputs: [[done, [output, "5"]]]}
"""

HOSTILE = '<img src=x onerror="document.title=1"><script>document.title=1</script>'

SHOWS = """\
workflow: shows
nodes:
  1: {type: start, after: [], variables: [[text, string]]}
  2: {type: template-transform, after: 1, template: "{{ text }}", variables: [[text, [text, "1"]]]}
  3: {type: end, after: 2, outputs: [[shown, [output, "2"]]]}
"""


def run(page, **inputs):
    page.press("Control+Enter")
    for name, value in inputs.items():
        page.tab.locator(".run form").get_by_label(name).fill(value)
    page.tab.get_by_role("form", name="Run").get_by_role("button", name="Run", exact=True).click()


def ended(page):
    page.tab.locator(".result .run-mark.is-done").wait_for()


def states(page):
    found = page.tab.locator(".react-flow__node").evaluate_all(
        "all => all.map(node => [node.dataset.id, node.querySelector('.card').dataset.state])"
    )
    return dict(found)


def test_a_run_shows_live_states_its_result_and_what_each_node_read_and_produced(opened):
    page = opened(FIVE)
    run(page, topic="rain")
    ended(page)
    assert states(page) == dict.fromkeys("12345", "done")
    assert page.tab.locator(".result .values").inner_text().split("\n") == ["loud", "About rain!", "quoted", "<rain>"]
    page.node("2").click()
    page.tab.get_by_role("button", name="Close Run").click()
    page.node("2").click()
    page.tab.get_by_role("heading", name="Last run").wait_for()
    assert "About rain" in page.tab.locator(".inspector").inner_text()
    page.node("3").dblclick()
    last = page.tab.locator(".inspector section", has_text="Last run")
    last.get_by_text("Inputs", exact=True).click()
    shown = [each.split("\n") for each in last.locator("details").all_inner_texts()]
    assert shown == [["Inputs", "2.output", "About rain"], ["Outputs", "output", "About rain!"]]


def test_a_question_is_shown_as_markdown_and_answered_on_the_page(opened):
    page = opened(ASKS.replace("Send it?", "**Send** it?"))
    run(page)
    page.tab.locator(".question-text strong", has_text="Send").wait_for()
    assert states(page)["2"] == "asking"
    page.tab.get_by_role("button", name="Leave it").click()
    ended(page)
    assert (states(page)["3"], states(page)["4"]) == ("skipped", "done")
    assert page.tab.locator(".result .values").inner_text().split("\n") == ["done", "left"]


WRITES = """\
workflow: writes
nodes:
  1: {type: start, after: [], variables: []}
  2: {type: llm, after: 1, system: "", user: "Write."}
  3: {type: end, after: 2, outputs: [[said, [text, "2"]]]}
"""


NULL = """\
workflow: nothing
nodes:
  1: {type: start, after: [], variables: [[text, string]]}
  2: {type: if-else, after: 1, cases: [[and, [[[text, "1"], "null"]]]]}
  3: {type: end, after: {2: 0}, outputs: [[said, [text, "1"]]]}
"""


def test_a_condition_that_compares_with_nothing_has_no_field_for_a_value(opened):
    page = opened(NULL)
    page.node("2").click()
    condition = page.tab.locator(".condition")
    condition.wait_for()
    assert condition.get_by_label("Operator of").input_value() == "null"
    assert condition.get_by_label("Value of").count() == 0
    condition.get_by_label("Operator of").select_option("is")
    condition.get_by_label("Value of").wait_for()


def test_text_appears_while_a_model_writes(tmp_path, site):
    (tmp_path / "writes.yaml").write_text(WRITES)
    with (
        held_model("It rains ", "today.") as (model, let),
        served(tmp_path, tmp_path / ".histories", model=model) as url,
        tabs(site[2], url, tmp_path) as opened,
    ):
        page = opened()
        page.open("writes.yaml")
        run(page)
        text = page.tab.get_by_role("region", name="Text of LLM")
        text.get_by_text("It rains").wait_for()
        page.node("2").focus()
        page.press("Enter")
        page.tab.locator(".inspector pre", has_text="It rains").wait_for()
        let.set()
        page.press("Control+Enter")
        ended(page)
        assert text.count() == 0
        assert page.tab.locator(".result .values").inner_text().split("\n") == ["said", "It rains today."]


PAY = """\
from operad import RunContext, tool

@tool(approve=True)
def pay(order: int) -> str:
    return f"paid {order}"

@tool
def broken() -> str:
    raise ValueError("503")

@tool
async def form(context: RunContext) -> str:
    fields = {"order": {"type": "integer"}, "rate": {"type": "number"}, "tags": {"type": "array"}, "note": {"type": "string"}}
    schema = {"type": "object", "properties": {**fields, "ok": {"type": "boolean"}}, "required": ["order", "tags", "ok"]}
    return repr(await context.ask("Fill it in.", {**schema, "additionalProperties": False}))

@tool
async def size(context: RunContext) -> str:
    words = {"if": {"type": "string"}, "then": {"enum": ["decline", "cancel"]}}
    fields = {"size": {"type": "string"}, "colour": {"type": "string"}}
    return repr(await context.ask("Which?", {"type": ["object", "string"], "properties": fields, "required": ["size"], **words}))
"""

PAYER = """\
operators: [&payer {name: payer, instruction: Do what the job says., tools: [pay_tools.pay, pay_tools.form, pay_tools.size, pay_tools.broken]}]
experts: [{profile: {name: Payer}, workflow: [[*payer]]}]
"""


@pytest.fixture
def payer(tmp_path, site):
    """Opens a page on which an expert calls a tool that asks a person, and yields it with the requests of the model."""

    def answer(request):
        said = request["messages"][-1]
        if said["role"] == "tool":
            return Say(f"Result: {said['content']}")
        if "break" in said["content"]:
            return CallTools({"broken": {}})
        if "size" in said["content"]:
            return CallTools({"size": {}})
        return CallTools({"form": {}} if "form" in said["content"] else {"pay": {"order": 2**63 + 1}})

    (tmp_path / "pay_tools.py").write_text(PAY)
    (tmp_path / "payer.yaml").write_text(PAYER)
    with (
        ScriptedModel(answer) as endpoint,
        served(tmp_path, tmp_path / ".histories", model=endpoint.model, trust=True) as url,
        tabs(site[2], url, tmp_path) as opened,
    ):
        page = opened(bypass_csp=True)
        page.open("payer.yaml")
        yield page


def test_the_call_of_a_tool_is_allowed_changed_or_refused(payer):
    question = payer.tab.locator(".question")
    arguments, reason = question.get_by_label("Arguments"), question.get_by_label("Reason")
    result = payer.tab.locator(".result .values")

    def ask():
        payer.tab.get_by_role("form", name="Run").get_by_role("button", name="Run", exact=True).click()
        question.wait_for()

    run(payer, Job="Pay.")
    question.wait_for()
    assert json.loads(arguments.input_value()) == {"order": 2**63 + 1}
    arguments.fill('{"order": 1')
    question.get_by_role("button", name="Allow", exact=True).click()
    question.get_by_text("The arguments are not JSON").wait_for()
    assert question.get_by_role("button", name="Always allow in this run").is_disabled()
    if AXE.exists():
        assert payer.faults() == []
    arguments.fill(f'{{"order": {2**63 + 3}}}')
    question.get_by_role("button", name="Allow", exact=True).click()
    ended(payer)
    assert f"paid {2**63 + 3}" in result.inner_text()
    ask()
    question.get_by_role("button", name="Always").click()
    ended(payer)
    assert f"paid {2**63 + 1}" in result.inner_text()
    ask()
    reason.fill("too much")
    question.get_by_role("button", name="Refuse").click()
    ended(payer)
    assert "too much" in result.inner_text()


def test_a_failed_call_of_a_tool_is_told_on_the_card(payer):
    run(payer, Job="Let it break.")
    ended(payer)
    assert payer.node("payer").locator(".card-mark").all_inner_texts() == ["1 failed call"]
    assert payer.node("payer").locator(".card").get_attribute("data-state") == "done"


def test_numbers_lists_and_fields_that_are_left_out_are_answered_exactly(payer):
    question = payer.tab.locator(".question")
    run(payer, Job="Fill the form.")
    question.get_by_label("Tags").fill("[a]")
    question.get_by_label("Order").fill("0012345678901234567890")
    question.get_by_label("Order").press("Enter")  # chooses none of the buttons
    assert question.get_by_text("That is not JSON").count() == 0
    question.get_by_role("button", name="Yes").click()
    question.get_by_text("That is not JSON").wait_for()
    question.get_by_label("Tags").fill("[12345678901234567890]")
    question.get_by_role("button", name="Yes").click()
    ended(payer)
    shown = payer.tab.locator(".result .values").inner_text()
    assert "{'order': 12345678901234567890, 'tags': [12345678901234567890], 'ok': True}" in shown


def test_a_form_that_may_be_declined_has_fields_and_a_button_for_each_word(payer):
    question = payer.tab.locator(".question")
    result = payer.tab.locator(".result .values")
    run(payer, Job="Ask for the size.")
    question.get_by_label("Size").fill("M")
    question.get_by_role("button", name="Answer").click()
    ended(payer)
    assert "{'size': 'M'}" in result.inner_text()
    payer.tab.get_by_role("form", name="Run").get_by_role("button", name="Run", exact=True).click()
    question.get_by_role("button", name="decline").click()
    ended(payer)
    assert "'decline'" in result.inner_text()


LARGE = 2**64 - 59
SEED = f"""\
workflow: seed
nodes:
  1: {{type: start, variables: {{}}}}
  2:
    type: comfyui
    after: 1
    server: http://127.0.0.1:8188
    workflow: {{'1': {{class_type: Sample, inputs: {{seed: {LARGE}, by: 1.5, to: a}}}}}}
"""

NUMBER = """\
workflow: number
nodes:
  1: {type: start, variables: {n: number}}
  2: {type: end, after: 1, outputs: {n: 1.n}}
"""


def test_large_numbers_of_an_input_and_a_result_stay_exact(opened):
    page = opened(NUMBER)
    run(page, n=str(LARGE))
    ended(page)
    assert page.tab.locator(".result .values").inner_text().split() == ["n", str(LARGE)]


def test_large_numbers_stay_exact_in_a_form_and_in_the_file(opened):
    page = opened(SEED)
    page.node("2").dblclick()
    field = page.tab.get_by_label("Workflow, as JSON")
    assert json.loads(field.input_value())["1"]["inputs"]["seed"] == LARGE
    field.fill(field.input_value().replace('"a"', '"b"'))
    field.blur()
    page.until(lambda: "to: b" in page.file.read_text())
    assert f"seed: {LARGE}" in page.file.read_text()


def test_the_run_page_names_nodes_as_the_canvas_does(opened):
    page = opened(ASKS)
    run(page)
    page.tab.locator(".question-text", has_text="Send it?").wait_for()
    with page.tab.context.expect_page() as opened:
        page.tab.get_by_role("link", name="Timeline").click()
    timeline = opened.value
    timeline.locator("#alert b", has_text="Human input").wait_for()
    timeline.locator("#panel h2", has_text="Human input").wait_for()
    cards = [*timeline.locator(".card .name").all_inner_texts()]
    assert sorted(cards) == [
        "End", "Human input", "Result", "Start", "Template transform #3", "Template transform #4", "Variable aggregator",
    ]  # fmt: skip
    rows = timeline.get_by_role("treeitem").locator(".name").all_inner_texts()
    assert {"Start", "Human input"} <= set(rows)


def test_the_run_page_leads_to_a_node_of_the_studio_and_the_studio_back_to_its_row(opened):
    page = opened(FIVE)
    run(page, topic="rain")
    ended(page)
    with page.tab.context.expect_page() as opened:
        page.tab.get_by_role("link", name="Timeline").click()
    tab = opened.value
    tab.locator(".card", has_text="Template transform #3").click()
    tab.get_by_role("link", name="Re-run from here…").click()
    tab.locator('.react-flow__node.selected[data-id="3"]').wait_for()
    tab.locator(".run").get_by_role("button", name="Run from here").wait_for()
    tab.locator(".result .values", has_text="About rain!").wait_for()
    assert tab.evaluate("location.hash") == page.tab.evaluate("location.hash")
    tab.go_back()
    tab.locator(".card", has_text="Template transform #3").click()
    tab.get_by_role("link", name="Open this node").click()
    tab.locator(".inspector h2", has_text="Template transform").wait_for()
    with tab.context.expect_page() as again:
        tab.get_by_role("link", name="In the timeline").click()
    again.value.locator("#panel h2", has_text="Template transform #3").wait_for()


def test_names_of_ports_leave_names_of_cards_free_on_a_phone(opened):
    page = opened(ASKS, viewport={"width": 390, "height": 780})
    page.tab.get_by_role("button", name="Run", exact=True).click()
    page.tab.get_by_role("form", name="Run").get_by_role("button", name="Run", exact=True).click()
    with page.tab.context.expect_page() as opened:
        page.tab.get_by_role("link", name="Timeline").click()
    timeline = opened.value
    timeline.locator(".card .name", has_text="Template transform #4").wait_for()
    assert timeline.locator(".port").all_inner_texts() == ["yes", "no"]
    covered = timeline.evaluate(
        """() => {
          const boxes = (what) => [...document.querySelectorAll(what)].map((each) => each.getBoundingClientRect());
          return boxes(".port").some((port) => boxes(".card .name").some((name) =>
            port.left < name.right && name.left < port.right && port.top < name.bottom && name.top < port.bottom));
        }"""
    )
    assert not covered


def test_a_node_runs_alone_and_a_run_begins_at_a_node(opened):
    page = opened(FIVE)
    run(page, topic="rain")
    ended(page)
    page.node("3").click()
    page.tab.get_by_role("button", name="Run “Template transform #3” alone").click()
    page.tab.get_by_text("Template transform #3 alone", exact=True).wait_for()
    ended(page)
    assert states(page)["3"] == "done"
    assert "4" not in {node for node, state in states(page).items() if state == "done"}
    page.tab.get_by_role("button", name="Run from here").click()
    page.tab.get_by_text("from Template transform #3", exact=True).wait_for()
    ended(page)
    assert "About rain!" in page.tab.locator(".result .values").inner_text()


def test_a_node_that_fails_shows_its_error(opened):
    failing = FIVE.replace('template: "About {{ topic }}"', 'template: "{{ 1 // 0 }}"')
    page = opened(failing)
    run(page, topic="rain")
    page.tab.locator(".result .run-mark.is-failed").wait_for()
    assert states(page)["2"] == "failed"
    assert "division" in page.tab.locator(".result").inner_text()


def test_markdown_is_shown_without_html_or_pictures_of_others(opened):
    page = opened(SHOWS)
    run(
        page,
        text=f"# Title\n\n- one\n- **two** {HOSTILE}\n\n![spy](http://example.com/spy.png) [go](javascript:alert(1))",
    )
    ended(page)
    shown = page.tab.locator(".markdown")
    shown.wait_for()
    assert shown.get_by_role("heading").inner_text() == "Title"
    assert shown.locator("img, script, [onerror], a").count() == 0
    assert HOSTILE in shown.inner_text()
    assert page.tab.title().endswith("Operad studio")


def test_hostile_names_are_text(opened):
    hostile = json.dumps(HOSTILE + "\u202e" + "x" * 3000)
    text = FIVE.replace("workflow: five", f"workflow: {hostile}").replace('"About {{ topic }}"', hostile)
    page = opened(text)
    assert page.tab.locator("img, .card script").count() == 0
    page.node("2").click()
    page.editor("Template").wait_for()
    page.press("Control+Enter")
    page.tab.get_by_label("Export").or_(page.tab.get_by_title("Export")).first.click()
    page.tab.get_by_text("Picture (SVG)").click()
    with page.tab.expect_download() as saved:
        page.tab.get_by_role("button", name="Save").click()
    drawn = saved.value.path().read_text(encoding="utf-8")
    assert "<script" not in drawn
    assert "onerror=" not in drawn.replace("onerror=&#34;", "")
    assert page.tab.title().endswith("Operad studio")


DIFY = "test/unit/data/dify_cases/fail-branch-code-fails.yml"


def test_files_are_imported_by_choice_and_by_drop(page, request):
    page = page()
    source = request.config.rootpath / DIFY
    page.tab.locator("input[type=file]").set_input_files(source)
    page.drawn()
    assert page.document()["format"] == "dify"
    assert (page.folder / source.name).read_bytes() == source.read_bytes()
    page.tab.get_by_label("All files").click()
    page.tab.locator(".start").dispatch_event("drop", {"dataTransfer": dropped(page, "dropped.yaml", FIVE)})
    page.drawn()
    assert list(page.nodes()) == ["1", "2", "3", "4", "5"]
    assert (page.folder / "dropped.yaml").read_text() == FIVE


def dropped(page, name, text):
    """What is dragged from the desktop: one file."""
    return page.tab.evaluate_handle(
        """([name, text]) => {
          const files = new DataTransfer();
          files.items.add(new File([text], name));
          return files;
        }""",
        [name, text],
    )


def test_nothing_can_be_chosen_before_the_formats_have_come(opened):
    page, waiting = opened(FIVE), []
    page.tab.route("**/data/export?path=*", lambda route: waiting.append(route))
    page.tab.get_by_title("Export").click()
    page.tab.get_by_text("Looking up formats").wait_for()
    assert page.tab.get_by_role("button", name="Save").is_disabled()
    assert page.tab.get_by_role("radio").count() == 0
    page.until(lambda: waiting)
    waiting[0].continue_()
    page.tab.get_by_text("Picture (SVG)").click()
    assert page.tab.get_by_label("Picture (SVG)").is_checked()


def big(count):
    lines = ["workflow: big", "nodes:", "  1: {type: start, after: [], variables: [[topic, string]]}"]
    for at in range(2, count):
        before = max(1, at - 1 if at % 7 else at - 6)
        lines.append(f'  {at}: {{type: template-transform, after: {before}, template: "{at}", variables: []}}')
    lines.append(f'  {count}: {{type: end, after: {count - 1}, outputs: [[out, [output, "{count - 1}"]]]}}')
    return "\n".join(lines) + "\n"


def test_three_hundred_nodes_are_laid_out_without_overlaps_and_edited(opened):
    page = opened(big(300), viewport={"width": 1400, "height": 900})
    page.until(lambda: page.tab.locator(".react-flow__node").count() == 300)
    overlaps = page.tab.evaluate(
        """() => {
          const boxes = [...document.querySelectorAll(".react-flow__node")].map((each) => each.getBoundingClientRect());
          let found = 0;
          for (const [at, one] of boxes.entries())
            for (const other of boxes.slice(at + 1))
              if (one.left < other.right && other.left < one.right && one.top < other.bottom && other.top < one.bottom) found++;
          return found;
        }"""
    )
    assert overlaps == 0
    page.node("150").focus()
    page.press("Delete")
    page.until(lambda: page.tab.locator(".react-flow__node").count() == 299)
    assert len(page.edges()) == 298


# Chat


@pytest.fixture
def chatting(tmp_path, site, stages, conversation):
    """A tab of a studio with a scripted model, and the instruction that the model answers."""
    folder = tmp_path / "folder"
    folder.mkdir()
    [first, second, *_] = conversation("paper")
    with (
        ScriptedModel(stages(first, second)) as endpoint,
        served(folder, tmp_path / "histories", model=endpoint.model) as url,
        tabs(site[2], url, folder) as opened,
    ):
        yield opened(), first["says"], second["says"]


def test_a_second_sentence_changes_the_draft_which_shows_its_stages_and_changes_and_fits_the_canvas(chatting):
    page, first, second = chatting
    page.tab.get_by_label("New from a sentence").fill(first)
    page.press("Enter")
    page.tab.get_by_text("Proposed by the chat").wait_for()
    page.tab.get_by_placeholder("What else? It changes the draft.").fill(second)
    page.press("Enter")
    page.until(lambda: page.tab.locator(".card.mark-added").count() == 4)
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
    changes = page.tab.get_by_role("list", name="Changes").get_by_role("listitem")
    assert [each.split("\n")[0] for each in changes.all_inner_texts()] == ["added"] * 4 + ["changed"]
    assert page.tab.get_by_role("button", name="No issues").is_visible()
    changes.get_by_role("button", name=re.compile("^End")).click()
    page.tab.locator(".inspector h2", has_text="End").wait_for()
    page.tab.locator(".banner").get_by_role("button", name="Accept").click()
    page.until(lambda: len(page.document()["nodes"]) == 5)
    page.node("1").focus()
    page.press("Control+z")
    page.until_nodes(1)


def test_a_change_of_a_draft_is_accepted_or_refused_alone(chatting):
    page, says, _ = chatting
    page.tab.get_by_label("New from a sentence").fill(says)
    page.press("Enter")
    page.tab.get_by_text("Proposed by the chat").wait_for()
    changes = page.tab.get_by_role("list", name="Changes")
    changes.get_by_role("button", name=re.compile("^Refuse: added")).nth(1).click()
    page.until(lambda: page.tab.locator(".card.mark-added").count() == 2)
    changes.get_by_role("button", name=re.compile("^Accept: added")).first.click()
    page.until(lambda: page.tab.locator(".card.mark-added").count() == 1)
    assert len(page.document()["nodes"]) == 2
    assert page.tab.get_by_role("log", name="Chat").get_by_text("Refused: added").count() == 1
    page.tab.locator(".banner").get_by_role("button", name="Undo").click()
    page.until(lambda: page.tab.locator(".banner").count() == 0)
    assert (len(page.document()["nodes"]), len(page.document()["steps"])) == (2, 2)


def test_stop_says_what_was_stopped(tmp_path, site):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "five.yaml").write_text(FIVE)
    with (
        held_model("{", "}") as (model, release),
        served(folder, tmp_path / "histories", model=model) as url,
        tabs(site[2], url, folder) as opened,
    ):
        page = opened()
        page.open("five.yaml")
        page.tab.get_by_role("button", name="Chat").click()
        page.tab.get_by_label("What you need").fill("Rhyme the letter")
        page.press("Enter")
        page.tab.get_by_text("Planning the nodes").wait_for()
        page.tab.get_by_role("button", name="Stop").click()
        page.tab.get_by_text("Stopped at: Planning the nodes. The file is as it was.").wait_for()
        release.set()


def test_a_plan_is_shown_first_answered_and_built(tmp_path, site, stages):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "five.yaml").write_text(FIVE)
    plan = {
        "reasoning": "", "drop": [],
        "nodes": [{"id": "6", "type": "llm", "change": "add", "does": "rhymes", "after": ["2"]}],
        "questions": [{"question": "In which metre?", "default": "any"}],
    }  # fmt: skip
    again = {
        **plan,
        "questions": [],
        "nodes": [{**plan["nodes"][0], "params": {"system": "", "user": "Rhyme {{#2.text#}}"}}],
    }
    model = stages(plan=[plan, again])
    with (
        ScriptedModel(model) as endpoint,
        served(folder, tmp_path / "histories", model=endpoint.model) as url,
        tabs(site[2], url, folder) as opened,
    ):
        page = opened()
        page.open("five.yaml")
        page.press("m")
        page.tab.get_by_label("Plan first").check()
        page.tab.get_by_label("What you need").fill("Also rhyme it.")
        page.press("Enter")
        shown = page.tab.get_by_role("form", name="Plan")
        assert shown.locator("li").first.inner_text() == "6 llm: rhymes; after 2"
        assert page.tab.locator(".card.mark-added").count() == 0
        assert shown.get_by_label("In which metre?").get_attribute("placeholder") == "any"
        shown.get_by_label("In which metre?").fill("Iambic")
        shown.get_by_role("button", name="Build").click()
        page.tab.get_by_text("Proposed by the chat").wait_for()
        assert page.tab.locator(".card.mark-added").count() == 1
        shown.wait_for(state="detached")
    assert model.stages == ["plan", "plan"]
    assert "Also rhyme it.\nIn which metre? Iambic" in model.asked[1][1]


def test_without_a_model_the_chat_says_what_to_set(opened):
    page = opened(FIVE)
    page.press("m")
    page.tab.get_by_text("OPENAI_API_KEY").first.wait_for()
    assert page.tab.get_by_label("What you need").is_disabled()


EXPERTS = """\
operators:
  - &points {instruction: List the points.}
  - &note {instruction: Write a note.}
  - &title {instruction: Write a title.}
  - &join {instruction: Put both together.}
  - &judge {instruction: The title has four words.}
  - &strict {instruction: Nothing passes.}
experts:
  - profile: {name: Notes}
    workflow:
      - [*points, *note, *join]
      - [*points, *title, *join]
    evaluator: *judge
    max_rounds: 2
"""


def _verdict(status, *blamed):
    fault = {"wrong": "A title of nine words", "right": "Four words", "lesson": "At most four words.", "sure": True}
    faults = [{"operator": operator, **fault} for operator in blamed]
    return json.dumps({"status": status, "evaluation": "Nine words.", "faults": faults, "unsure": [], "score": 5})


ANSWERS = {"List the points": ["- a\n- b"], "Write a note": ["Short."], "Put both": ["T1 + Short.", "T2 + Short."],
    "Write a title": ["A title of nine words", "Four words"], "The title has four": [_verdict("EXECUTION_ERROR", "title"), _verdict("SUCCESS")],
}  # fmt: skip


def test_a_run_of_experts_shows_blame_on_the_canvas_and_forms_choose_by_name(tmp_path, site):
    """The blamed operator is marked, those after it ran again, the others are reused; then the evaluator is changed."""
    (tmp_path / "notes.yaml").write_text(EXPERTS)
    left = {key: list(said) for key, said in ANSWERS.items()}

    def answer(request):
        asked = json.dumps(request["messages"])
        return Say(next(said.pop(0) for key, said in reversed(left.items()) if key in asked and said))

    with (
        ScriptedModel(answer) as endpoint,
        served(tmp_path, tmp_path / ".histories", model=endpoint.model) as url,
        tabs(site[2], url, tmp_path) as opened,
    ):
        page = opened(bypass_csp=True)
        page.open("notes.yaml")
        run(page, Job="Write it.")
        page.tab.wait_for_selector(".result .run-mark.is-done")
        states = {
            name: page.node(name).locator(".card").get_attribute("data-state")
            for name in ("points", "note", "title", "join", "judge")
        }
        assert states == {"points": "reused", "note": "reused", "title": "done", "join": "done", "judge": "done"}
        assert [page.tab.locator(f".card-mark.{mark}").count() for mark in ("blamed", "again")] == [1, 1]
        assert "is-blamed" in page.node("title").locator(".card").get_attribute("class")
        page.node("title").dblclick()
        lesson = page.tab.locator("section.lesson")
        lesson.wait_for()
        assert "Blamed in round 1: Nine words." in lesson.inner_text()
        assert "At most four words." in lesson.inner_text()
        marked = [lesson.locator(mark).all_inner_texts() for mark in ("del", "ins")]
        assert marked == [["A title of nine words", "A title of nine"], ["Four words", "Four"]], (
            "the fault, and what changed"
        )
        assert "A title of nine words" in lesson.inner_text()
        assert "Four words" in page.tab.locator(".inspector").inner_text()
        page.node("judge").dblclick()
        page.tab.locator(".lesson .fault", has_text="Nine words.").wait_for()
        page.editor("Criteria").wait_for()
        if AXE.exists():
            assert page.faults() == []
        page.node("Notes").dblclick(position={"x": 40, "y": 20})
        page.tab.get_by_label("evaluator 1", exact=True).select_option(label="strict")
        page.until(lambda: "evaluator: strict\n" in (tmp_path / "notes.yaml").read_text())
        page.until(lambda: page.tab.locator('.react-flow__node[data-id="strict"]').count() == 1)
        page.tab.get_by_role("group", name="chain 2").get_by_role("button", name="Remove operator 3").click()
        page.until(
            lambda: "- [*points, *note, *join]\n      - [*points, *title]\n" in (tmp_path / "notes.yaml").read_text()
        )
