"""The studio in a real browser: workflows are drawn, edited, and seen."""

import pytest
from studio_page import AXE

EXPERTS = """\
app: {name: Facts, desc: Check a text.}
operators:
  - &list
    instruction: List the claims.
  - &check
    instruction: Check each claim.
experts:
  - profile: {name: Checker, desc: Checks claims.}
    workflow:
      - [*list, *check]
"""


def new(page):
    page.tab.get_by_text("Empty workflow").click()
    page.drawn()


@pytest.mark.slow
def test_a_workflow_of_five_nodes_is_drawn_by_mouse(page):
    page = page()
    new(page)
    for at, node_type in enumerate(["llm", "code", "template-transform", "end"]):
        page.drag_node(node_type, 180 + at % 2 * 420, 120 + at // 2 * 420)
    assert list(page.nodes().values()) == ["start", "llm", "code", "template-transform", "end"]
    for source, target in [("1", "2"), ("1", "3"), ("2", "4"), ("3", "4"), ("4", "5")]:
        page.drag_edge(source, target)
    assert page.edges() == [("1", 0, "2"), ("1", 0, "3"), ("2", 0, "4"), ("3", 0, "4"), ("4", 0, "5")]


@pytest.mark.slow
def test_a_workflow_of_five_nodes_is_drawn_by_keyboard_alone(page):
    page = page()
    page.tab.get_by_role("button", name="Empty workflow").focus()
    page.press("Enter")
    page.drawn()
    page.press("ArrowRight")  # to the start, the only node
    page.add("question classifier")
    page.add("template")
    page.press("ArrowLeft", "ArrowLeft")
    page.add("llm")
    page.add("end")
    page.press("ArrowLeft")
    assert page.tab.locator(".react-flow__node:focus").get_attribute("data-id") == "4"
    page.press("c")
    page.tab.wait_for_selector("dialog [role=option]")
    page.tab.keyboard.type("template")
    page.press("Enter")
    page.until(lambda: ("4", 0, "3") in page.edges())
    types = {"1": "start", "2": "question-classifier", "3": "template-transform", "4": "llm", "5": "end"}
    assert page.nodes() == types
    assert page.edges() == [("1", 0, "2"), ("1", 0, "4"), ("2", 0, "3"), ("4", 0, "3"), ("4", 0, "5")]


@pytest.mark.slow
def test_enter_opens_the_form_and_escape_goes_back_to_the_canvas(page, five):
    page = page()
    page.open(five)
    page.node("2").click()
    page.press("Enter")
    page.until(lambda: page.tab.evaluate("() => document.activeElement.closest('.inspector [data-first]') !== null"))
    page.press("Escape")
    assert page.tab.locator(".react-flow__node:focus").get_attribute("data-id") == "2"


@pytest.mark.slow
def test_a_prompt_is_written_and_run_by_keyboard_alone(page, five):
    page = page()
    page.open(five)
    page.node("4").focus()
    page.press("Enter")
    page.until(lambda: page.tab.evaluate("() => document.activeElement.closest('.inspector [data-first]') !== null"))
    page.editor("Template").wait_for()
    page.press("Tab", "Tab", "Tab", "Tab")
    page.tab.locator(".cm-editor.cm-focused").wait_for()
    page.tab.keyboard.type("said: ")
    page.press("Escape")
    page.until(lambda: page.params("4")["template"].startswith("said: "))
    page.press("Control+Enter")
    page.until(lambda: page.tab.evaluate("() => document.activeElement.closest('.run form') !== null"))
    page.tab.keyboard.type("rain")
    page.press("Control+Enter")
    page.tab.locator(".result .run-mark.is-done").wait_for()
    assert "said: <rain>" in page.tab.locator(".result .values").inner_text()


@pytest.mark.slow
def test_a_wrong_edge_is_refused_with_the_reason(page, five):
    page = page()
    page.open(five)
    before = page.edges()
    page.drag_edge("3", "2")
    assert "2" in page.toast()
    assert page.toast().startswith("Not connected: ")
    assert page.edges() == before
    page.tab.get_by_label("All files").click()
    page.tab.locator(".start").wait_for()
    assert page.tab.locator(".toast").count() == 0  # what is said of a file is not said of the next


@pytest.mark.slow
def test_operations_in_quick_succession_are_undone_and_done_again(page, five):
    """Of fifty changes, test_studio_files.py asks the server."""
    page = page()
    page.open(five)
    page.node("2").click()
    page.press(*["Control+d"] * 5)
    page.until_nodes(10)
    for number in range(6, 11):
        page.node(str(number)).focus()
        page.press("Delete")
    page.until_nodes(5)
    page.press(*["Control+z"] * 10)
    page.until(lambda: page.tab.get_by_label("Undo").is_disabled())
    assert list(page.nodes()) == ["1", "2", "3", "4", "5"]
    page.press(*["Control+Shift+z"] * 5)
    page.until_nodes(10)
    page.press(*["Control+Shift+z"] * 5)
    page.until(lambda: page.tab.get_by_label("Redo").is_disabled())
    page.until_nodes(5)
    assert len(page.document()["steps"]) == 11


def test_the_form_changes_a_parameter_and_shows_its_issue(page, five):
    page = page()
    page.open(five)
    page.node("2").click()
    editor = page.editor("Template")
    editor.click()
    page.press("Control+a")
    page.tab.keyboard.insert_text("Of {{ missing }}")
    page.until(lambda: page.node("2").locator(".card-issues").count() == 1)
    assert page.params("2")["template"] == "Of {{ missing }}"
    page.tab.get_by_role("button", name="1 issue").click()
    assert "missing" in page.tab.locator(".issues").inner_text()


@pytest.mark.slow
def test_a_variable_is_completed_while_it_is_typed(page, five):
    page = page()
    page.open(five)
    page.node("3").click()
    page.add("llm")
    page.editor("User").click()
    page.press("Control+a")  # what it reads by itself
    page.tab.keyboard.type("Sum up {{out")
    page.tab.get_by_role("option", name="output · Template transform #3").wait_for()
    assert (
        page.tab.get_by_role("option", name="output · Template transform #4").count() == 0
    )  # nothing leads from there
    page.tab.get_by_role("option", name="output · Template transform #3").click()
    page.until(lambda: page.params("6").get("user") == "Sum up {{#3.output#}}")


@pytest.mark.slow
def test_a_renamed_variable_is_followed_by_what_reads_it(page, five):
    page = page()
    page.open(five)
    page.node("1").click()
    page.tab.get_by_label("Name of variable 1").fill("subject")
    page.until(lambda: page.params("2")["variables"] == [["topic", ["subject", "1"]]])
    assert page.document()["issues"] == []


@pytest.mark.slow
def test_nodes_are_copied_with_what_they_read_of_each_other(page, five):
    page = page()
    page.open(five)
    page.node("2").click()
    page.node("3").click(modifiers=["Shift"])
    page.press("Control+d")
    page.until_nodes(7)
    copied = {each["id"]: each for each in page.document()["nodes"]}
    assert copied["7"]["params"]["variables"] == [["said", ["output", "6"]]]
    assert ("6", 0, "7") in page.edges()


@pytest.mark.slow
def test_nodes_are_pasted_from_the_clipboard_of_another_tab(page, five, site):
    page = page()
    page.open(five)
    page.node("2").click()
    text = page.tab.evaluate(
        """() => {
          const clipboardData = new DataTransfer();
          document.dispatchEvent(new ClipboardEvent("copy", { clipboardData, bubbles: true, cancelable: true }));
          return clipboardData.getData("text/plain");
        }"""
    )
    page.tab.evaluate(
        """(text) => {
          const clipboardData = new DataTransfer();
          clipboardData.setData("text/plain", text);
          document.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
        }""",
        text,
    )
    page.until_nodes(6)
    assert page.params("6") == page.params("2")


@pytest.mark.slow
def test_an_edge_dropped_on_the_canvas_adds_a_node_there(page, five):
    page = page()
    page.open(five)
    handle = page.node("4").locator(".react-flow__handle-right").bounding_box()
    mouse = page.tab.mouse
    mouse.move(handle["x"] + 4, handle["y"] + 4)
    mouse.down()
    mouse.move(handle["x"] + 60, handle["y"] + 200, steps=4)
    mouse.up()
    page.tab.wait_for_selector("dialog [role=combobox]")
    page.tab.keyboard.type("code")
    page.press("Enter")
    page.until_nodes(6)
    assert ("4", 0, "6") in page.edges()


@pytest.mark.slow
def test_a_node_is_put_into_the_selected_edge(page, five):
    page = page()
    page.open(five)
    source = page.node("2").locator(".react-flow__handle-right").bounding_box()
    target = page.node("3").locator(".react-flow__handle-left").bounding_box()
    page.tab.mouse.click((source["x"] + target["x"] + 9) / 2, (source["y"] + target["y"] + 9) / 2)
    page.tab.get_by_role("button", name="Insert a node here").click()
    page.tab.keyboard.type("llm")
    page.press("Enter")
    page.until_nodes(6)
    assert {("2", 0, "6"), ("6", 0, "3")} <= set(page.edges())
    assert ("2", 0, "3") not in page.edges()


@pytest.mark.slow
def test_selected_nodes_are_aligned_and_stay_so_after_a_reload(page, five):
    page = page()
    page.open(five)
    page.node("2").click()
    page.node("4").click(modifiers=["Shift"])
    page.tab.get_by_role("toolbar").get_by_role("button", name="Align top").click()
    page.settled()
    page.tab.reload()
    page.drawn()
    assert page.node("2").bounding_box()["y"] == page.node("4").bounding_box()["y"]


WORDS = """\
workflow: words
nodes:
  1: {type: start, after: [], variables: [[words, "array[string]"]]}
  2: {type: template-transform, after: 1, template: "{{ w }}!", variables: [[w, [words, "1"]]]}
  3: {type: template-transform, after: 2, template: "<{{ w }}>", variables: [[w, [output, "2"]]]}
  4: {type: end, after: 3, outputs: [[all, [output, "3"]]]}
"""


@pytest.mark.slow
def test_nodes_are_grouped_into_a_container_and_only_what_belongs_there_is_offered(page, site):
    """Grouping is one step; what came after the nodes reads the container."""
    (site[1] / "words.yaml").write_text(WORDS)
    page = page()
    page.open("words.yaml")
    page.node("2").click()
    page.node("3").click(modifiers=["Shift"])
    page.tab.get_by_role("button", name="Group as iteration").click()
    page.until_nodes(6)
    assert page.nodes() == {
        "1": "start", "4": "end", "5": "iteration", "5-1": "iteration-start", "5-2": "template-transform", "5-3": "template-transform",
    }  # fmt: skip
    assert page.edges() == [("1", 0, "5"), ("5", 0, "4"), ("5-1", 0, "5-2"), ("5-2", 0, "5-3")]
    assert page.params("5") == {"iterator_selector": ["words", "1"], "output_selector": ["output", "5-3"]}
    assert page.params("5-2")["variables"] == [["w", ["item", "5"]]]
    assert page.params("5-3")["variables"] == [["w", ["output", "5-2"]]]
    container, after = page.node("5").bounding_box(), page.node("4").bounding_box()
    assert container["x"] + container["width"] < after["x"]
    assert page.params("4")["outputs"] == [["all", ["output", "5"]]]
    page.node("5-2").click()
    page.press("/")
    page.tab.wait_for_selector("dialog [role=option]")
    offered = page.tab.locator("dialog [role=option]").all_inner_texts()
    titles = {each.split("\n")[0] for each in offered}
    assert {"Template transform", "Loop"} <= titles
    assert {"Start", "End", "Loop end", "Conversation"}.isdisjoint(titles)
    page.press("Escape")
    page.node("5-2").focus()
    page.press("Control+z")
    page.until_nodes(4)
    assert page.edges() == [("1", 0, "2"), ("2", 0, "3"), ("3", 0, "4")]
    page.node("1").click()
    page.node("2").click(modifiers=["Shift"])
    page.tab.get_by_role("button", name="Group as loop").click()
    page.tab.locator(".toast", has_text="Start cannot be inside of a container.").wait_for()


@pytest.mark.slow
def test_the_instruction_of_an_expert_is_changed_in_its_form(page, site):
    file = site[1] / "experts.yaml"
    file.write_text(EXPERTS)
    page = page()
    page.open("experts.yaml")
    page.node("list").click()
    page.editor("Instruction").click()
    page.press("Control+a")
    page.tab.keyboard.insert_text("List the doubts.")
    page.until(lambda: page.params("list")["instruction"] == "List the doubts.")
    changed = EXPERTS.replace("List the claims.", "List the doubts.")
    page.until(lambda: file.read_text() == changed)


@pytest.mark.slow
def test_axe_finds_no_serious_fault(page, five):
    if not AXE.exists():
        pytest.skip("axe-core is missing: cd server/studio/web && npm ci")
    page = page(bypass_csp=True)
    assert page.faults() == []
    page.open(five)
    page.node("2").click()
    page.editor("Template").wait_for()
    assert page.faults() == []
    for key, shown in [("i", ".all-well"), ("h", ".history"), ("m", ".chat"), ("Control+Enter", ".run")]:
        page.node("3").focus()
        page.press(key)
        page.tab.wait_for_selector(shown)
        assert page.faults() == []
    for key, shown in [("/", "[role=option]"), ("c", "[role=option]"), ("?", ".keys")]:
        page.node("3").focus()
        page.press(key)
        page.tab.wait_for_selector(f"dialog {shown}")
        assert page.faults() == []
        page.press("Escape")
    page.tab.get_by_title("Export").click()
    page.tab.wait_for_selector("dialog .all-well, dialog .losses")
    assert page.faults() == []


@pytest.mark.slow
def test_colours_follow_the_system_until_chosen(page):
    page = page(color_scheme="dark")
    background = "() => getComputedStyle(document.body).backgroundColor"
    assert page.tab.evaluate(background) == "rgb(21, 23, 26)"
    page.tab.get_by_label("Colours: as the system").click()
    assert page.tab.evaluate(background) == "rgb(246, 246, 244)"
    page.tab.reload()
    page.tab.wait_for_selector(".start")
    assert page.tab.evaluate(background) == "rgb(246, 246, 244)"


@pytest.mark.slow
def test_a_phone_shows_the_graph_and_the_form_without_scrolling_sideways(page, five):
    page = page(viewport={"width": 390, "height": 780})
    page.open(five)
    page.node("2").click()
    page.tab.wait_for_selector(".inspector")
    assert page.tab.evaluate("() => document.documentElement.scrollWidth") == 390
    side, top = page.tab.locator(".side").bounding_box(), page.tab.locator(".top").bounding_box()
    assert (side["x"], side["width"], top["width"]) == (0, 390, 390)
    assert page.tab.get_by_role("button", name="Run", exact=True).is_visible()


CLERK = """\
operators:
  - &triage {instruction: "A refund, or a complaint?", ports: [refund, complaint]}
  # looks into the books
  - &check
    instruction: Check the order.
  - &soothe {instruction: Soothe the customer.}
experts:
  - profile: {name: Clerk}
    workflow:
      - [{operator: *triage, port: refund}, *check] # money
      - [{operator: *triage, port: complaint}, *soothe]
"""


@pytest.mark.slow
def test_operators_of_experts_are_added_connected_and_removed_on_the_canvas(page, site):
    """By mouse and by keyboard; each change is a step that can be undone, and the file keeps all else."""
    file = site[1] / "clerk.yaml"
    file.write_text(CLERK)
    page = page()
    page.open("clerk.yaml")
    page.node("check").click()
    page.press("/")
    page.tab.locator("dialog").get_by_label("Name").fill("reply")
    page.tab.locator("dialog").get_by_label("Instruction").fill("Write the reply.")
    page.tab.get_by_role("button", name="Add", exact=True).click()
    page.until_nodes(5)
    page.tab.wait_for_selector('.react-flow__node[data-id="reply"]:focus')
    added = CLERK.replace("customer.}\n", "customer.}\n  - {name: reply, instruction: Write the reply.}\n").replace(
        "refund}, *check]", "refund}, *check, reply]"
    )
    assert file.read_text() == added
    page.drag_edge("soothe", "reply")
    page.until(lambda: ("soothe", 0, "reply") in page.edges())
    joined = added.replace("complaint}, *soothe]", "complaint}, *soothe, reply]")
    assert file.read_text() == joined
    page.node("Clerk").click(position={"x": 30, "y": 20})
    page.tab.get_by_role("group", name="chain 2").get_by_label("operator 1", exact=True).select_option(
        label="triage.refund"
    )
    page.until(lambda: ("triage", 0, "soothe") in page.edges())
    assert file.read_text() == joined.replace("port: complaint}", "port: refund}")
    page.node("check").focus()
    page.press("Delete")
    page.until_nodes(4)
    assert page.edges() == [("soothe", 0, "reply"), ("triage", 0, "reply"), ("triage", 0, "soothe")]
    assert "Check the order" not in file.read_text()
    for _ in range(4):
        page.press("Control+z")
    page.until(lambda: page.tab.get_by_label("Undo").is_disabled())
    page.saved()
    assert file.read_text() == CLERK
