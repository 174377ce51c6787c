"""Compare the tokens of `operad generate` with those of a plain prompt for a Dify file, for the same requests.

    python test/benchmark/bench_generate_tokens.py [--json] [--review]

The answers are those of `generate_requests.json`, written by hand from the prompts alone; no endpoint is asked. A token
is four characters. The count of Operad includes all messages, answer schemas and answers of all calls. The plain prompt
has two sentences and the request, and is answered by the same workflow as a Dify file, as Operad writes it; for a change,
it includes the file before. The result of a plain prompt is not checked. The exit status is 1 if a design is not accepted.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from operad.configs.generation import NOTHING, Design, Designer
from operad.flows.node_graph import NodeGraph
from operad.integrations.dify.format import DIFY
from operad.runtime.testing import Say, ScriptedModel

CHARACTERS_A_TOKEN = 4
FIRST_AIM, CHANGE_AIM = 1.3, 0.33
"""Maximum tokens of a first draft and of a change, relative to the plain prompt."""

REQUESTS = Path(__file__).resolve().with_name("generate_requests.json")
PLAIN = "Write a workflow for Dify that does the following. Answer with the YAML file alone.\n\n{request}"
CHANGE = "Change this Dify workflow as follows. Answer with the whole YAML file alone.\n\n{request}\n\n{file}"
CONTENT = {"evaluation": "As asked.", "findings": []}


class Model:
    """Scripted model that answers from a list, accepts reviews, and counts calls."""

    def __init__(self, answers: Sequence[Mapping[str, Any]]) -> None:
        self._left = list(answers)
        self.calls = self.characters = 0

    def __call__(self, request: Mapping[str, Any]) -> Say:
        """The next answer."""
        form = request["response_format"]["json_schema"]["schema"]
        answer = CONTENT if "findings" in form["properties"] else self._left.pop(0)
        said = compact(answer)
        self.calls += 1
        self.characters += (
            sum(len(str(each["content"])) for each in request["messages"]) + len(compact(form)) + len(said)
        )
        return Say(said)


def compact(value: Any) -> str:
    """Return a value as JSON without spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def dify(graph: NodeGraph) -> str:
    """Return a workflow as a Dify file, without Operad's own data in it."""
    return DIFY.dump(replace(graph, instructions=(), notes=())).decode()


def measured(name: str, said: Mapping[str, Any], base: Design | None, *, review: bool) -> tuple[dict[str, Any], Design]:
    """Return the calls and tokens of a request, and the tokens of a plain prompt."""
    model = Model(said["answers"])
    with ScriptedModel(model) as scripted:
        design = Designer(scripted.model, review=review).design(said["request"], base.graph if base else NOTHING)
    asked = CHANGE.format(request=said["request"], file=dify(base.graph)) if base else PLAIN.format(**said)
    plain = len(asked) + len(dify(design.graph))
    ours, theirs = model.characters // CHARACTERS_A_TOKEN, plain // CHARACTERS_A_TOKEN
    told = {"request": name, "change": base is not None, "calls": model.calls, "tokens": ours, "plain": theirs}
    return {**told, "ratio": round(ours / theirs, 2), "accepted": design.accepted, "notes": design.notes}, design


def results(*, review: bool) -> list[dict[str, Any]]:
    """Return the results of all requests, each with its change."""
    listed: list[dict[str, Any]] = []
    for each in json.loads(REQUESTS.read_text(encoding="utf-8")):
        row, design = measured(each["name"], each, None, review=review)
        listed.append(row)
        if "change" in each:
            listed.append(measured(each["name"], each["change"], design, review=review)[0])
    return listed


def main() -> int:
    """Print the table, or the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--review", action="store_true", help="with a review of each workflow")
    options = parser.parse_args()
    rows = results(review=options.review)
    if options.json:
        print(json.dumps(rows, ensure_ascii=False, indent=1))
    else:
        print(f"{'request':44}{'calls':>6}{'tokens':>8}{'plain':>8}{'ratio':>7}  accepted")
        for each in rows:
            name = f"  {'change' if each['change'] else each['request']}"
            print(
                f"{name:44}{each['calls']:6}{each['tokens']:8,}{each['plain']:8,}{each['ratio']:7.2f}  {each['accepted']}"
            )
        for what, change, aim in (("first drafts", False, FIRST_AIM), ("changes", True, CHANGE_AIM)):
            chosen = [each for each in rows if each["change"] is change]
            ours, plain = sum(each["tokens"] for each in chosen), sum(each["plain"] for each in chosen)
            print(f"{what}: {ours / plain:.2f} times the tokens of a plain prompt (aim {aim})")
    return 0 if all(each["accepted"] for each in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
