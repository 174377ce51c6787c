"""Two tabs of the studio that edit one text, in a real browser."""

import pytest

from operad.flows.formats.operad import OPERAD

pytestmark = pytest.mark.slow

TEXT = """workflow: greet
nodes:
  1: {type: start, variables: {name: string}}
  2: {type: llm, after: 1, system: '', user: Greet.}
  3: {type: end, after: 2, outputs: {text: 2.text}}
"""


@pytest.fixture
def two(site, page, request):
    """Two tabs with the prompt of one node, which the second one has begun to edit; a function that reads the file."""
    path = site[1] / f"{request.node.name[:40]}.yaml"
    path.write_text(TEXT)
    first, second = page(), page()
    for tab in (first, second):
        tab.open(path.name)
        tab.node("2").click()
        tab.editor("User").wait_for()
    second.editor("User").click()
    second.tab.keyboard.press("Control+End")
    second.tab.keyboard.type(" Second")
    first.editor("User").click()
    first.tab.keyboard.press("Control+End")
    first.tab.keyboard.type(" First")
    return first, second, lambda: OPERAD.load(path).by_id["2"].params["user"]


def conflicted(two):
    """Return the tab that is told of the conflict, its own text and that of the other one."""
    first, second, user = two
    tabs = (first, second)
    first.until(lambda: any(tab.tab.locator(".conflict").count() for tab in tabs))
    [tab] = [tab for tab in tabs if tab.tab.locator(".conflict").count()]
    own, other = ("Greet. First", "Greet. Second") if tab is first else ("Greet. Second", "Greet. First")
    assert user() == other
    assert tab.editor("User").inner_text().strip() == own  # what was typed is still there
    assert other in tab.tab.locator(".conflict").inner_text()
    return tab, own, other


def test_the_second_tab_is_told_may_keep_its_text_and_typing_on_is_no_conflict(two):
    tab, own, _ = conflicted(two)
    tab.tab.get_by_role("button", name="Keep mine").click()
    tab.until(lambda: two[2]() == own)
    tab.until(lambda: not tab.tab.locator(".conflict").count())
    tab.editor("User").click()
    tab.tab.keyboard.press("Control+End")
    for word in ("one", "two", "three", "four"):  # while answers are on their way
        tab.tab.keyboard.type(f" {word}")
        tab.tab.wait_for_timeout(500)
    tab.until(lambda: two[2]().endswith("one two three four"))
    assert not tab.tab.locator(".conflict").count()


def test_the_second_tab_may_take_the_text_of_the_other_one_and_edit_it(two):
    tab, _, other = conflicted(two)
    tab.tab.get_by_role("button", name="Take theirs").click()
    tab.until(lambda: tab.editor("User").inner_text().strip() == other)
    tab.editor("User").click()
    tab.tab.keyboard.press("Control+End")
    tab.tab.keyboard.type(" Both")
    tab.until(lambda: two[2]() == f"{other} Both")
    assert not tab.tab.locator(".conflict").count()


def test_a_tab_that_leaves_without_a_choice_loses_neither_text(two):
    tab, own, other = conflicted(two)
    tab.node("3").click()
    tab.until(lambda: two[2]() == own)
    tab.press("Control+z")
    tab.until(lambda: two[2]() == other)
