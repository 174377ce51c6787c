"""A chat with memory: it is kept in a file, and what was said first is known after it was summarized.

    python test/example/chat_with_memory.py

`answer` stands in for a model: it serves the real client. With OPENAI_API_KEY set, that endpoint is asked.
"""

import os
import re
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory

from operad import Operator, Workflow
from operad.testing import Say, ScriptedModel

MESSAGES = [
    "My name is Ada, and I bake for 12 cafés in Utrecht. Keep the number of my mill in mind: KM-2081.",
    "How long does a sourdough starter keep in the fridge?",
    "And how do I wake it up again?",
    "Which flour is best for it?",
    "Who am I, and what was the number of my mill?",
]


def answer(request):
    """Stand in for a model, which knows only its prompt."""
    messages = [message["content"] for message in request["messages"]]
    known = "\n".join(messages)
    name, mill = re.findall("(?:name is|called) ([A-Z]\\w+)", known)[0], re.findall("KM-\\d+", known)[0]
    if "You keep the memory of" in known:
        return Say(f"The user is called {name}; the number of the mill is {mill}.")
    if messages[-1].startswith("Who am I"):
        return Say(f"You are {name}, and your mill has the number {mill}.")
    return Say("That depends. " + "A starter wants flour, water, warmth and patience. " * 40)


def main():
    with TemporaryDirectory() as folder:
        store = Path(folder) / "chats.db"
        model = nullcontext() if "OPENAI_API_KEY" in os.environ else ScriptedModel(answer)
        with model as scripted:
            flow = Workflow(Operator("You advise bakers. Answer briefly."), model=scripted and scripted.model)
            for message in MESSAGES:  # each time as in another process: all there is comes from the file
                result = flow.chat("ada", store=store, memory=2_000).send(message)
                print(f"> {message}\n{result.text[:100]}  ({result.usage.calls} model calls)")
            print(f"kept: {len(flow.chat('ada', store=store).turns)} turns")


if __name__ == "__main__":
    main()
