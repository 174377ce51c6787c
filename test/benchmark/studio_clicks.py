"""Workflows and an expert made in the studio by mouse, with every click counted.

A click, a choice in a list and a drag count one each; typing counts nothing. A workflow counts as made when it has no
issues, and has run with the result that it is for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Mouse:
    """Mouse and keyboard of a person in the studio.

    Attributes:
        tab: Browser tab, of Playwright.
        clicks: Clicks so far.
    """

    tab: Any
    clicks: int = field(default=0)

    def click(self, where: Any, *, double: bool = False) -> None:
        """Click an element."""
        self.clicks += 1
        where.dblclick() if double else where.click()

    def choose(self, label: str, option: str) -> None:
        """Choose an option of a list."""
        self.clicks += 1
        self.tab.get_by_label(label, exact=True).select_option(label=option)

    def press(self, name: str) -> None:
        """Click the button with a name."""
        self.click(self.tab.get_by_role("button", name=name, exact=True))

    def write(self, text: str) -> None:
        """Type where the focus is."""
        self.tab.keyboard.type(text)

    def fill(self, label: str, text: str) -> None:
        """Click a field, and replace its text."""
        self.click(self.tab.get_by_label(label, exact=True))
        self.tab.keyboard.press("Control+a")
        self.write(text)

    def node(self, node_id: str) -> None:
        """Click a card."""
        self.click(self.tab.locator(f'.react-flow__node[data-id="{node_id}"] .card-head').first)

    def add(self, node_type: str) -> None:
        """Click a type in the palette, which adds it after the selected node."""
        before = self.tab.locator(".react-flow__node").count()
        self.click(self.tab.locator(f'.palette-item[data-type="{node_type}"]'))
        self.tab.wait_for_function(f"() => document.querySelectorAll('.react-flow__node').length > {before}")
        self.settle()

    def describe(self, name: str, instruction: str) -> None:
        """Type a name and an instruction into the dialog, whose first field has the focus."""
        self.tab.wait_for_function("() => document.activeElement?.closest('dialog')")
        if not self.tab.evaluate("document.activeElement.matches('[data-field]')"):
            self.tab.keyboard.press("Tab")  # from the kinds to the name
        self.tab.keyboard.press("Control+a")
        self.write(name)
        self.tab.keyboard.press("Tab")
        self.write(instruction)

    def settle(self) -> None:
        """Wait until all changes are saved."""
        self.tab.wait_for_function("() => document.querySelector('.status')?.textContent === 'Saved'")

    def begin(self, kind: str) -> None:
        """Make a new file."""
        self.click(self.tab.locator(".way", has_text=kind))
        self.tab.wait_for_selector('.canvas[aria-busy="false"] .react-flow__node')

    def run(self) -> str:
        """Click *Run* of the form, and return the result as text."""
        self.click(self.tab.locator(".run button[type=submit]"))
        self.tab.locator(".result .run-mark.is-done").wait_for()
        return self.tab.locator(".result").inner_text()

    def open_run(self) -> None:
        """Click *Run* of the page, which shows the form."""
        self.settle()
        self.click(self.tab.get_by_role("banner").get_by_role("button", name="Run"))
        self.tab.wait_for_function("() => document.activeElement?.closest('.run form')")


def sorter(mouse: Mouse) -> str:
    """Make a workflow that sorts messages into three kinds, each answered by a prompt of its own."""
    mouse.begin("Empty workflow")
    mouse.press("Add variable")
    mouse.write("message")
    mouse.add("question-classifier")
    mouse.fill("class 1", "Refund")
    mouse.fill("class 2", "Delivery")
    mouse.press("Add class")
    mouse.write("Other")
    mouse.settle()
    for kind in ("refund", "delivery", "other"):
        mouse.node("2")
        mouse.add("llm")
        mouse.click(mouse.tab.locator('.cm-content[aria-label="System"]'))
        mouse.write(f"Answer messages about: {kind}.")
        mouse.settle()
        mouse.add("answer")
    mouse.open_run()
    mouse.write("Where is my parcel?")
    return mouse.run()


def iteration(mouse: Mouse) -> str:
    """Make a workflow that summarises each letter of a list, and gives all summaries."""
    mouse.begin("Empty workflow")
    mouse.press("Add variable")
    mouse.write("letters")
    mouse.choose("Type of variable 1", "array[string]")
    mouse.add("iteration")
    mouse.node("2-1")
    mouse.add("llm")
    mouse.click(mouse.tab.locator('.cm-content[aria-label="System"]'))
    mouse.write("Summarise the letter in a sentence.")
    mouse.settle()
    mouse.node("2")
    mouse.add("end")
    mouse.open_run()
    mouse.write("A letter.")
    mouse.click(mouse.tab.get_by_label("letters 2"))
    mouse.write("Another one.")
    return mouse.run()


def error_path(mouse: Mouse) -> str:
    """Make a workflow that fetches a page, and says what was wrong if it cannot."""
    mouse.begin("Empty workflow")
    mouse.press("Add variable")
    mouse.write("page")
    mouse.add("request")
    mouse.click(mouse.tab.locator('.cm-content[aria-label="Url"]'))
    mouse.write("http://127.0.0.1:9/{{#1.page#}}")
    mouse.choose("If it fails", "the error branch is taken")
    mouse.settle()
    mouse.add("answer")
    mouse.node("2")
    mouse.add("answer")
    mouse.open_run()
    mouse.write("prices")
    return mouse.run()


def expert(mouse: Mouse) -> str:
    """Make an expert of three operators, whose result an evaluator judges."""
    mouse.begin("Empty expert")
    mouse.click(mouse.tab.get_by_role("banner").get_by_role("button", name="Add an operator"))
    for name, instruction in (("check", "Check each claim."), ("reply", "Write a reply.")):
        mouse.describe(name, instruction)
        mouse.press("Add and next")
        mouse.tab.locator(f'.react-flow__node[data-id="{name}"]').wait_for()
    mouse.click(mouse.tab.get_by_label("Evaluator"))
    mouse.describe("polite", "The reply is polite.")
    mouse.press("Add")
    mouse.tab.locator('.react-flow__node[data-id="polite"]').wait_for()
    mouse.open_run()
    mouse.write("The moon has air.")
    return mouse.run()


@dataclass(frozen=True)
class Way:
    """A workflow, how it is made, and what is expected.

    Attributes:
        most: Aim: maximum number of clicks.
        answers: Answers of the model in its run.
        result: Text that the result has.
    """

    make: Callable[[Mouse], str]
    most: int
    answers: Sequence[str]
    result: str


VERDICT = '{"evaluation": "Right.", "status": "SUCCESS", "unsure": [], "score": 9, "faults": []}'

WAYS: Mapping[str, Way] = {
    "sorter": Way(sorter, 20, ['{"port": "Delivery"}', "It is on its way."], "It is on its way."),
    "iteration": Way(iteration, 18, ["First.", "Second."], "Second."),
    "expert": Way(expert, 9, ["Air.", "It has none.", "Dear reader", VERDICT], "Dear reader"),
    "error path": Way(error_path, 18, [], "may not be fetched"),
}
