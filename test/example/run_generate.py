"""A workflow made from words, and changed in a conversation: only what a change concerns is written anew.

    python test/example/run_generate.py

`PLANS` and `BUILDS` stand in for a model; with OPENAI_API_KEY set, that model answers instead. The same from the command
line, where it is a conversation without words:

    operad generate -o greet.yaml
"""

import json
import os
from contextlib import nullcontext

from operad.configs.generation import Designer
from operad.flows.node_graph import flowchart
from operad.testing import Say, ScriptedModel

FIRST = "The user gives a name (variable name). Write a greeting, and output it (variable greeting)."
SECOND = "Also translate the greeting into French, and output that as well (variable french)."


def node(id, type, after, does, change="add", gives=()):
    return {
        "id": id, "type": type, "change": change, "does": does, "inside": "",
        "after": list(after),
        "gives": [{"name": name, "type": kind} for name, kind in gives],
    }  # fmt: skip


PLANS = [
    [
        node("1", "start", [], "takes the name", gives=[("name", "string")]),
        node("2", "llm", ["1"], "greets"),
        node("3", "end", ["2"], "outputs the greeting"),
    ],
    [node("4", "llm", ["2"], "translates"), node("3", "end", ["4"], "outputs both", "update")],
]
BUILDS = [
    {
        "2": {"system": "", "user": "Greet {{#1.nam#}} warmly, in one sentence."},  # a slip, which a rule mends
        "3": {"outputs": [{"name": "greeting", "value": "2.text"}]},
    },
    {
        "4": {"system": "", "user": "Translate into French: {{#2.text#}}"},
        "3": {"outputs": [{"name": "greeting", "value": "2.text"}, {"name": "french", "value": "4.text"}]},
    },
]
CONTENT = {"evaluation": "as asked", "findings": []}


def answer(request):
    """Return the scripted answer of a stage in the current round: a plan, parameters of nodes, or a verdict."""
    asked = str(request["messages"][-1]["content"])
    form = request["response_format"]["json_schema"]["schema"]["properties"]
    number = 1 if SECOND in asked else 0
    if form.get("nodes", {}).get("type") == "array":
        said = {"reasoning": "One node for each thing.", "nodes": PLANS[number], "drop": []}
    else:
        said = {"reasoning": "As planned.", "nodes": BUILDS[number]} if "nodes" in form else CONTENT
    return Say(json.dumps(said))


def show(words, design):
    print("asked:", words)
    print("plan: " + "\n      ".join(design.plan))
    print(design.changes)
    for repair in design.repairs:
        print("mended", repair)
    print("accepted" if design.accepted else "\n".join(design.findings))
    print()


def main():
    real = os.environ.get("OPENAI_API_KEY") or os.environ.get("OPENAI_BASE_URL")
    with nullcontext() if real else ScriptedModel(answer) as scripted:
        designer = Designer(scripted.model if scripted else None)
        first = designer.design(FIRST)
        show(FIRST, first)
        second = designer.design(SECOND, first.graph)
        show(SECOND, second)
    kept = [spec.id for spec in second.graph.nodes if any(spec is each for each in first.graph.nodes)]
    print("the very same as before:", ", ".join(kept))
    print(flowchart(second.graph, second.changes.status))
    undone = second.base
    print("undone:", ", ".join(spec.id for spec in undone.nodes), "are there")


if __name__ == "__main__":
    main()
