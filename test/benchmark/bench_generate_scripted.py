"""Run the generation loop (plan, mend, judge) with a scripted model, in scenarios of known faults.

    python test/benchmark/bench_generate_scripted.py [--json]

The table shows for each scenario the calls, the tokens estimated from characters, the result, and whether it is as
expected. No endpoint is asked. The exit status is 1 if a result is not as expected.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from operad.configs.generation import NOTHING, Design, Designer
from operad.runtime.testing import Say, ScriptedModel

ASKED = (
    "The user gives a paper file (variable paper) and a language (variable language). Sum the paper up in that language. "
    "Output the summary (variable summary)."
)
TABLE = "I upload notes (variable notes). Give me a table (variable table) of the tasks in them."
IMPOSSIBLE = (
    "Sum up the text (variable text), let my boss approve it and post it to Slack. Return it (variable summary)."
)

Answer = Mapping[str, Any]
KEYS = {"wrong": "mend", "findings": "judge", "nodes": "plan"}
CHARACTERS_A_TOKEN = 4


def node(id: str, type: str, after: Sequence[str], **said: Any) -> dict[str, Any]:
    """Return a node of a plan."""
    return {"id": id, "type": type, "after": list(after), **said}


def plan(*nodes: Answer, **said: Any) -> Answer:
    """Return the answer of the plan stage."""
    return {"reasoning": "", "nodes": list(nodes), **said}


def finding(node_id: str, problem: str) -> Answer:
    """Return a finding of the judge stage."""
    return {"evaluation": "", "findings": [{"node": node_id, "problem": problem, "change": "Correct this."}]}


START = node("1", "start", [], params={"variables": [{"name": "paper", "type": "file"}, {"name": "language", "type": "string"}]})  # fmt: skip
READ = node("2", "document-extractor", ["1"], params={"variable_selector": "1.paper"})
SAY = "Sum up in {{#1.language#}}:\n{{#2.text#}}"
LLM = node("3", "llm", ["2"], params={"system": "", "user": SAY})
END = node("4", "end", ["3"], params={"outputs": [{"name": "summary", "value": "3.text"}]})
RIGHT = plan(START, READ, LLM, END)
EMPTY = plan(START, READ, {**LLM, "params": {"system": "", "user": ""}}, END)
CONTENT: Answer = {"evaluation": "", "findings": []}
SET: Answer = {"nodes": [{"id": "3", "params": {"user": SAY}}]}
LONGER: Answer = {
    "nodes": [{"id": "3", "replace": [{"param": "user", "old": "Sum up", "new": "Sum up in five sentences"}]}]
}
IDLE: Answer = {"nodes": []}
WRONG: Answer = {"nodes": [], "wrong": {"1": "it is there"}}
TASKS = plan(
    node("1", "start", [], params={"variables": [{"name": "notes", "type": "string"}]}),
    node("2", "llm", ["1"], params={"system": "", "user": "List the tasks as a table:\n{{#1.notes#}}"}),
    node("3", "end", ["2"], params={"outputs": [{"name": "table", "value": "2.text"}]}),
)
LIMITED = plan(
    node("1", "start", [], params={"variables": [{"name": "text", "type": "string"}]}),
    node("2", "llm", ["1"], params={"system": "", "user": "Sum up:\n{{#1.text#}}"}),
    node("3", "end", ["2"], params={"outputs": [{"name": "summary", "value": "2.text"}]}),
    notes=["No node waits for an approval: the summary is an output.", "No node posts to Slack."],
)


class Scenario(NamedTuple):
    """Scenario.

    Attributes:
        name: The fault that occurs or might occur.
        answers: The answers of each stage, in order; the last one is repeated.
        calls: The expected stages, in order.
        accepted: Whether the design must be accepted.
        says: Words that must be among the findings, warnings and notes.
        instruction: The instruction.
        change: A second instruction, whose calls count; empty for none.
        edit: The answers to the second instruction.
    """

    name: str
    answers: Mapping[str, Sequence[Answer | str]]
    calls: Sequence[str]
    accepted: bool = True
    says: str = ""
    instruction: str = ASKED
    change: str = ""
    edit: Mapping[str, Sequence[Answer | str]] = {}


FRENCH = plan(
    node("5", "llm", ["3"], change="add", params={"system": "", "user": "Into French:\n{{#3.text#}}"}),
    node("4", "end", ["5"], change="update", params={"outputs": [{"name": "summary", "value": "3.text"}, {"name": "french", "value": "5.text"}]}),
)  # fmt: skip
SMALL = plan(
    node("3", "llm", [], change="update", replace=[{"param": "user", "old": "Sum up", "new": "Sum up in ten words"}])
)
BARE = plan(START, READ, {key: value for key, value in LLM.items() if key != "params"}, END)

SCENARIOS = (
    Scenario("a capable model is right at once", {"plan": [RIGHT]}, ["plan"]),
    Scenario("parameters that are left out are asked for", {"plan": [BARE], "mend": [SET]}, ["plan", "mend"]),
    Scenario("an answer that cannot be read is asked for once more", {"plan": ["no", RIGHT]}, ["plan"] * 2),
    Scenario("the check blames a node: only mend is asked", {"plan": [EMPTY], "mend": [SET]}, ["plan", "mend"]),
    Scenario("the judge blames before a mend", {"plan": [RIGHT], "judge": [finding("3", "The length is open."), CONTENT], "mend": [LONGER]}, ["plan", "judge", "mend", "judge"]),
    Scenario("the judge blames after a mend: nothing paid for is lost", {"plan": [EMPTY], "mend": [SET, LONGER], "judge": [finding("3", "The length is open."), CONTENT]}, ["plan", "mend", "judge", "mend", "judge"]),
    Scenario("the judge blames the whole workflow", {"plan": [RIGHT], "judge": [finding("", "The length is open."), CONTENT], "mend": [LONGER]}, ["plan", "judge", "mend", "judge"]),
    Scenario("the same is found again: the loop ends", {"plan": [RIGHT], "judge": [finding("3", "The length is open.")], "mend": [LONGER]}, ["plan", "judge", "mend", "judge"], accepted=False, says="The length is open."),
    Scenario("mend does nothing: the model is not asked again", {"plan": [RIGHT], "judge": [finding("3", "The length is open.")], "mend": [IDLE]}, ["plan", "judge", "mend"], accepted=False, says="The length is open."),
    Scenario("a contested finding of the judge is a warning", {"plan": [RIGHT], "judge": [finding("4", "summary is missing.")], "mend": [WRONG]}, ["plan", "judge", "mend"], says="it is there"),
    Scenario("a contested name is a warning, and nothing is removed", {"plan": [plan(*RIGHT["nodes"][:3], {**END, "params": {"outputs": [{"name": "digest", "value": "3.text"}]}})], "mend": [WRONG]}, ["plan", "mend", "judge"], says="it is there", instruction=ASKED.replace("(variable summary)", "`summary`")),
    Scenario("“Give me a table (variable table)” is an output", {"plan": [TASKS]}, ["plan"], instruction=TABLE),
    Scenario("an impossible demand is noted", {"plan": [LIMITED]}, ["plan"], says="No node posts to Slack.", instruction=IMPOSSIBLE),
    Scenario("the same fault of a plan ends it", {"plan": [plan(START, READ, READ, LLM, END)]}, ["plan"] * 2, accepted=False, says="planned twice"),
    Scenario("an edit is one call", {"plan": [RIGHT]}, ["plan"], change="Also output it in French (variable french).", edit={"plan": [FRENCH]}),
    Scenario("a small edit of a text is a replacement", {"plan": [RIGHT]}, ["plan"], change="Ten words are enough.", edit={"plan": [SMALL]}),
)  # fmt: skip
"""Scenarios with their expected results."""


class Model:
    """Answers each stage from its list."""

    def __init__(self, answers: Mapping[str, Sequence[Answer | str]]) -> None:
        self._left = {stage: list(said) for stage, said in answers.items()}
        self.calls: list[str] = []
        self.characters = 0

    def __call__(self, request: Mapping[str, Any]) -> Say:
        """The next answer."""
        form = request["response_format"]["json_schema"]["schema"]["properties"]
        stage = next(stage for key, stage in KEYS.items() if key in form)
        left = self._left.get(stage) or [CONTENT]
        answer = left.pop(0) if len(left) > 1 else left[0]
        said = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False, separators=(",", ":"))
        self.calls.append(stage)
        self.characters += (
            sum(len(str(each["content"])) for each in request["messages"]) + len(json.dumps(form)) + len(said)
        )
        return Say(said)


def played(scenario: Scenario) -> dict[str, Any]:
    """Run a scenario and return its result."""
    design, model = _designed(scenario.answers, scenario.instruction)
    if scenario.change:
        design, model = _designed(scenario.edit, scenario.change, design)
    told = [*design.findings, *design.warnings, *design.notes]
    right = (
        model.calls == list(scenario.calls)
        and design.accepted is scenario.accepted
        and any(scenario.says in each for each in told) is bool(scenario.says)
    )
    return {
        "scenario": scenario.name,
        "calls": model.calls,
        "tokens": model.characters // CHARACTERS_A_TOKEN,
        "accepted": design.accepted,
        "told": told,
        "right": right,
    }


def _designed(
    answers: Mapping[str, Sequence[Answer | str]], words: str, base: Design | None = None
) -> tuple[Design, Model]:
    model = Model(answers)
    with ScriptedModel(model) as scripted:
        return Designer(scripted.model, review="judge" in answers).design(words, base.graph if base else NOTHING), model


def main() -> int:
    """Print the table, or the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    results = [played(each) for each in SCENARIOS]
    if options.json:
        print(json.dumps(results, ensure_ascii=False, indent=1))
    else:
        print(f"{'scenario':66}{'calls':>6}{'tokens':>8}  accepted  as it must be")
        for each in results:
            print(
                f"{each['scenario']:66}{len(each['calls']):6}{each['tokens']:8,}  {each['accepted']!s:8}  {each['right']}"
            )
            print(f"    {' → '.join(each['calls'])}" + "".join(f"\n    told: {line}" for line in each["told"]))
    return 0 if all(each["right"] for each in results) else 1


if __name__ == "__main__":
    sys.exit(main())
