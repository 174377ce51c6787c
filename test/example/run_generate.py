"""A workflow made from words, and changed in a conversation: only what a change concerns is written anew.

    python test/example/run_generate.py

`PLANS` stands in for a model; with OPENAI_API_KEY set, that model answers instead. The same from the command
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


def node(id, type, after, does, **params):
    return {"id": id, "type": type, "does": does, "after": list(after), "params": params}


PLANS = [
    [
        node("1", "start", [], "takes the name", variables=[{"name": "name", "type": "string"}]),
        # a slip, which a rule mends
        node("2", "llm", ["1"], "greets", system="", user="Greet {{#1.nam#}} warmly, in one sentence."),
        node("3", "end", ["2"], "outputs the greeting", outputs=[{"name": "greeting", "value": "2.text"}]),
    ],
    [
        node("4", "llm", ["2"], "translates", system="", user="Translate into French: {{#2.text#}}"),
        node(
            "3",
            "end",
            ["4"],
            "outputs both",
            outputs=[{"name": "greeting", "value": "2.text"}, {"name": "french", "value": "4.text"}],
        ),
    ],
]


def answer(request):
    """Return the scripted plan of the current round."""
    asked = str(request["messages"][-1]["content"])
    return Say(json.dumps({"nodes": PLANS[1 if SECOND in asked else 0]}))


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
