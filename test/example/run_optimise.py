"""A workflow that becomes better by itself: a model proposes changes, tasks score them, the best is kept as YAML.

    python test/example/run_optimise.py

The clerk answers letters to a mill. Six letters say what a good answer holds; the clerk as it was written knows none of
it. Both the clerk's model and the one that proposes changes are played by a server on this machine: proposals are good
and bad ones, some cannot be used at all. What comes out is printed; the tree of all that was tried lies beside it.
"""

import json
import tempfile
from itertools import cycle
from pathlib import Path

from operad.configs import load
from operad.configs.optimise import optimise
from operad.runtime import Job, MonoModelReasoner
from operad.testing import Say, ScriptedModel

CLERK = """\
plugin: {workflow_platform: BUILTIN}
operators:
  - &read {instruction: Read the letter.}
  - &answer {instruction: Answer it.}
experts:
  - profile: {name: Clerk, desc: Answers letters to a mill.}
    workflow: [[*read, *answer]]
    max_rounds: 1
"""
TASKS = [
    {"id": f"letter-{number}", "job": f"{who} asks for {what}.", "verify": {"contains": ["Dear", "grams", "checked"]}}
    for number, (who, what) in enumerate(
        [("Ada", "flour"), ("Ben", "bran"), ("Cleo", "rye"), ("Dirk", "oats"), ("Edda", "spelt"), ("Finn", "maize")], 1
    )
]


def reword(text):
    return {"op": "set_instruction", "operator": "answer", "instruction": text}


def check(after):
    return {"op": "add_operator", "name": "check", "instruction": "Check the sums.", "after": after, "before": ""}


IDEAS = [
    ("Shorter is better.", [reword("Answer in one word.")]),
    ("Nobody is greeted.", [reword("Answer it. Begin with Dear.")]),
    ("There is a clerk called Anwser.", [{"op": "remove_operator", "operator": "anwser"}]),
    ("Weights lack their unit.", [reword("Answer it. Begin with Dear. Give weights in grams.")]),
    ("Somebody should check what was read.", [check("read")]),
    ("Reading is a waste of time.", [{"op": "remove_operator", "operator": "read"}]),
]


ideas = cycle(IDEAS)


def played(request):
    """Stand in for the models: propose ideas in order, and answer as the instructions state."""
    system, user = request["messages"][0]["content"], request["messages"][-1]["content"]
    if system.startswith("You improve"):
        reasoning, operations = next(ideas)
        return Say(json.dumps({"reasoning": reasoning, "operations": operations}))
    said = [word for word in ("Dear", "grams") if word in system]
    if system.startswith("Check") or "checked" in user:
        said.append("checked")
    return Say(" ".join(said) or "Yes.")


def main():
    with tempfile.TemporaryDirectory() as name, ScriptedModel(played) as endpoint:
        folder = Path(name)
        (folder / "clerk.yaml").write_text(CLERK, encoding="utf-8")
        (folder / "tasks.jsonl").write_text("\n".join(map(json.dumps, TASKS)), encoding="utf-8")
        reasoner = MonoModelReasoner(endpoint.model)
        found = optimise(folder / "clerk.yaml", folder / "tasks.jsonl", rounds=12, reasoner=reasoner, tell=print)
        best = load(found.folder / "best.yaml").expert()
        print(f"\nbest.yaml answers: {best.workflow.execute(Job(goal='Gus asks for malt.'), reasoner).scratchpad}")
    print(f"{found.stopped}: {found.baseline.final:.2f} became {found.best.final:.2f} by: {found.best.change}")


if __name__ == "__main__":
    main()
