"""Compare the tokens of `operad generate` with those of a plain prompt for a Dify file, for the same requests.

    python test/benchmark/bench_generate_tokens.py [--json] [--review]

The answers are those of `generate_requests.json`, written by hand from the prompts alone; no endpoint is asked. A token
is four characters. The count of Operad includes all messages, answer schemas and answers of all calls. The plain prompt
has two sentences and the request, and is answered by the same workflow as a Dify file, as Operad writes it; for a change,
it includes the file before. The result of a plain prompt is not checked. A change is also compared with a new generation:
a first draft for both requests, answered by all nodes of the changed workflow. The exit status is 1 if a
design is not accepted, or an aim is missed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from operad.configs.generation import NOTHING, Design, Designer
from operad.flows.formats.shapes import fields_of
from operad.flows.generation.drafting import drafted
from operad.flows.node_graph import NodeGraph
from operad.integrations.dify.format import DIFY
from operad.operators.nodes import NODE_TYPES
from operad.runtime.testing import Say, ScriptedModel

CHARACTERS_A_TOKEN = 4
SMALL = 8
"""Maximum number of nodes of a small workflow."""

FIRST_AIM, CHANGE_AIM = 1.3, 0.35
"""Maximum tokens of first drafts, relative to plain prompts, and of a change, relative to a new generation (median)."""

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
        if "findings" not in form["properties"] and not self._left:
            return Say('{"nodes": []}')  # not counted, as a change leaves out names that its requests had before
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
    told = {
        "request": name,
        "change": base is not None,
        "calls": model.calls,
        "tokens": ours,
        "plain": theirs,
        "nodes": len(design.graph.nodes),
    }
    if base:
        request = f"{' '.join(base.graph.instructions)} {said['request']}"
        anew = {"request": request, "answers": [whole_plan(design.graph)]}
        new = measured(name, anew, None, review=review)[0]["tokens"]
        told |= {"new": new, "of_new": ours / new}
    return {**told, "ratio": round(ours / theirs, 2), "accepted": design.accepted, "notes": design.notes}, design


def whole_plan(graph: NodeGraph) -> dict[str, Any]:
    """Return the plan of a workflow as a model writes it when it makes all nodes anew."""
    starts = {node_type.body_starts_with for node_type in NODE_TYPES.values()} - {""}
    return {
        "reasoning": "As asked.",
        "nodes": [
            {
                "id": spec.id,
                "type": spec.type,
                **({"inside": spec.parent} if spec.parent else {}),
                "after": [
                    edge.source + (f":{edge.port}" if edge.port else "")
                    for edge in graph.edges
                    if edge.target == spec.id and graph.by_id[edge.source].type not in starts
                ],
                "params": drafted(NODE_TYPES[spec.type], fields_of(spec.params)),
            }
            for spec in graph.nodes
            if spec.type not in starts
        ],
    }


def results(*, review: bool) -> list[dict[str, Any]]:
    """Return the results of all requests, each with its change."""
    listed: list[dict[str, Any]] = []
    for each in json.loads(REQUESTS.read_text(encoding="utf-8")):
        row, design = measured(each["name"], each, None, review=review)
        listed.append(row)
        if "change" in each:
            listed.append(measured(each["name"], each["change"], design, review=review)[0])
    return listed


def ratios(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, float, float]]:
    """Return what is measured, the ratio, and its aim."""
    first = [each for each in rows if not each["change"]]
    drafts = sum(each["tokens"] for each in first) / sum(each["plain"] for each in first)
    small = [each for each in first if each["nodes"] <= SMALL]
    small_drafts = sum(each["tokens"] for each in small) / sum(each["plain"] for each in small)
    changes = median(each["of_new"] for each in rows if each["change"])
    return [
        ("first drafts, in tokens of a plain prompt", drafts, FIRST_AIM),
        (f"first drafts of at most {SMALL} nodes, in tokens of a plain prompt", small_drafts, FIRST_AIM),
        ("changes, in tokens of a new generation (median)", changes, CHANGE_AIM),
    ]


def missed(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what misses its aim."""
    return [what for what, ratio, aim in ratios(rows) if ratio > aim]


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
        print(f"{'request':44}{'calls':>6}{'tokens':>8}{'plain':>8}{'ratio':>7}{'of new':>8}  accepted")
        for each in rows:
            name = f"  {'change' if each['change'] else each['request']}"
            figures = f"{each['calls']:6}{each['tokens']:8,}{each['plain']:8,}{each['ratio']:7.2f}"
            of_new = f"{each['of_new']:.2f}" if each["change"] else ""
            print(f"{name:44}{figures}{of_new:>8}  {each['accepted']}")
        for what, ratio, aim in ratios(rows):
            print(f"{what}: {ratio:.2f} (aim {aim})")
    return 1 if missed(rows) or not all(each["accepted"] for each in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
