"""A workflow of typed nodes: letters are read, sorted and answered, each by itself, and a report is made.

    python test/example/run_nodes.py

`test/example/data/letters.json` is the workflow, in Chat2Workflow's form. `KNOWS` stands in for a model; with
OPENAI_API_KEY set, that model answers instead. The same from the command line:

    operad run test/example/data/letters.json --file LETTER --input shop="Figs & Sons"
"""

import asyncio
import os
import tempfile
from contextlib import nullcontext
from pathlib import Path

from operad.flows.assemble import assemble
from operad.flows.formats.chat2workflow import load
from operad.operators.nodes import NODE_TYPES
from operad.operators.services import Services
from operad.runtime import Job, MonoModelReasoner, events
from operad.testing import Say, ScriptedModel

HERE = Path(__file__).parent
LETTERS = {"marit.txt": "Half of the figs were broken.", "nils.txt": "Do you sell olives, too?"}
KNOWS = {"broken": "We are sorry about the figs. Here are new ones.", "olives": "We do. They are from Crete."}


def answer(request):
    """The class that fits, or the sentence that does."""
    asked = str(request["messages"][-1]["content"])
    if "response_format" in request:
        return Say('{"port": "A complaint"}' if "broken" in asked else '{"port": "A question"}')
    return Say(next(said for word, said in KNOWS.items() if word in asked))


async def main(folder):
    graph = load((HERE / "data" / "letters.json").read_text(encoding="utf-8"), "letters")
    letters = []
    for name, text in LETTERS.items():
        (folder / name).write_text(text, encoding="utf-8")
        letters.append(str(folder / name))
    workflow = assemble(graph, NODE_TYPES, services=Services(folder=folder / "made"))
    job = Job(goal="Answer the letters.", inputs={"letters": letters, "shop": "Figs & Sons"})
    real = os.environ.get("OPENAI_API_KEY") or os.environ.get("OPENAI_BASE_URL")
    with nullcontext() if real else ScriptedModel(answer) as scripted:
        reasoner = MonoModelReasoner(scripted.model if scripted else None)
        async for event in workflow.stream(job, reasoner, only=[events.OperatorFinished, events.RunFinished]):
            if isinstance(event, events.OperatorFinished) and event.operator_id == "2-3":
                print("/".join(event.path), "takes the way of:", event.message.outputs["class_name"])
            elif isinstance(event, events.RunFinished):
                outputs = event.message.outputs
                print(outputs["report"])
                print("made:", ", ".join(file.name for file in outputs.get("files", [])) or "nothing")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder)))
