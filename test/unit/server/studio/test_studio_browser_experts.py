"""The studio in a real browser: evaluators and their criteria in the form of an expert, new experts, and the leader."""

import pytest
from studio_page import AXE

pytestmark = pytest.mark.slow  # a browser each; test_studio_browser.py looks at the page in `make test`

TEAM = """\
operators:
  - &write {instruction: Write about it.}
  - &polite {instruction: No insults.}
experts:
  - profile: {name: Writer}
    workflow:
      - [*write]
    evaluator: {instruction: Two sentences.} # in place
    max_rounds: 2
"""


def show(page, expert):
    """Show the form of an expert."""
    page.node(expert).dblclick(position={"x": 40, "y": 20})
    page.tab.locator(".inspector h2", has_text=expert).wait_for()


def test_the_form_of_an_expert_has_its_evaluators_their_criteria_and_its_rounds(opened):
    page = opened(TEAM)
    file = page.file
    show(page, "Writer")
    page.tab.get_by_role("region", name="Criteria").get_by_role("textbox").click()
    page.press("Control+a")
    page.tab.keyboard.insert_text("One sentence.")
    page.until(lambda: file.read_text() == TEAM.replace("Two sentences.", "One sentence."))
    page.tab.get_by_label("Max rounds").fill("3")
    page.until(lambda: "max_rounds: 3\n" in file.read_text())
    page.tab.get_by_role("button", name="Add evaluator").click()
    page.until(lambda: "evaluator: [{instruction: One sentence.}, polite] # in place" in file.read_text())
    page.until(lambda: page.tab.locator('.react-flow__node[data-id="polite"]').count() == 1)
    page.tab.get_by_role("button", name="Remove evaluator 1").click()
    page.until(lambda: "evaluator: [polite] # in place" in file.read_text())
    for _ in range(4):
        page.node("write").focus()
        page.press("Control+z")
        page.saved()
    page.until(lambda: file.read_text() == TEAM)


def test_an_expert_and_a_leader_are_added_and_removed(opened):
    page = opened(TEAM)
    file = page.file
    page.tab.get_by_label("Add an operator").first.click()
    dialog = page.tab.locator("dialog")
    dialog.get_by_label("Expert").check()
    dialog.get_by_label("Name").fill("Checker")
    dialog.get_by_label("Description").fill("Checks facts.")
    dialog.get_by_label("First operator").fill("check")
    dialog.get_by_label("Instruction").fill("Check each claim.")
    dialog.get_by_role("button", name="Add", exact=True).click()
    page.until(lambda: page.nodes().get("check") == "operator")
    made = "  - profile: {name: Checker, desc: Checks facts.}\n    workflow: [[{name: check, instruction: Check each claim.}]]\n"
    assert file.read_text() == TEAM + made
    page.tab.get_by_label("Add an operator").first.click()
    dialog.get_by_label("Leader").check()
    dialog.get_by_role("button", name="Add", exact=True).click()
    page.until(lambda: page.nodes().get("leader") == "leader")
    assert {("leader", 0, "Writer"), ("leader", 0, "Checker")} <= set(page.edges())
    page.until(lambda: page.tab.locator(".react-flow__edge").count() == 3)  # two of the leader, one to the evaluator
    assert file.read_text() == TEAM + made + "leader: {profile: {name: Leader}}\n"
    leader, expert = page.node("leader").bounding_box(), page.node("Writer").bounding_box()
    assert leader["x"] + leader["width"] < expert["x"]
    page.node("leader").dblclick(delay=80)
    page.tab.get_by_label("Max depth").fill("2")
    page.until(lambda: "max_depth: 2" in file.read_text())
    page.node("leader").focus()
    page.press("Delete")
    page.until(lambda: "leader" not in page.nodes())
    page.node("Checker").focus()
    page.press("Delete")
    page.until(lambda: file.read_text() == TEAM)
    page.node("Writer").focus()
    page.press("Delete")
    page.tab.locator(".toast", has_text="a file has at least one expert").wait_for()


def test_axe_finds_no_serious_fault_in_the_forms_of_experts(opened):
    if not AXE.exists():
        pytest.skip("axe-core is missing: cd server/studio/web && npm ci")
    page = opened(TEAM, bypass_csp=True)
    show(page, "Writer")
    page.tab.get_by_role("region", name="Criteria").get_by_role("textbox").wait_for()
    assert page.faults() == []
    page.node("Writer").focus()
    page.press("/")
    page.tab.locator("dialog").get_by_label("Expert").first.check()
    assert page.faults() == []
