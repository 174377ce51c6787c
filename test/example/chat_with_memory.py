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
from operad.runtime.testing import Say, ScriptedModel

MESSAGES = [
    "My name is Ada, and I bake for 12 cafés in Utrecht. Keep the number of my mill in mind: KM-2081.",
    "How long does a sourdough starter keep in the fridge?",
    "And how do I wake it up again?",
    "Which flour is best for it?",
    "Who am I, and what was the number of my mill?",
]


def answer(request):
    """What a model might say: it knows what stands in its prompt, and no more."""
    messages = [message["content"] for message in request["messages"]]
    name, mill = (re.search(pattern, "\n".join(messages)) for pattern in ("(?:name is|called) ([A-Z]\\w+)", "KM-\\d+"))
    if messages[0].startswith("You keep the memory"):
        return Say(f"The user is called {name[1]}; the number of the mill is {mill[0]}.")
    if messages[-1].startswith("Who am I"):
        return Say(f"You are {name[1]}, and your mill has the number {mill[0]}.")
    return Say("That depends. " + "A starter wants flour, water, warmth and patience. " * 40)


def main():
    with TemporaryDirectory() as folder:
        model = nullcontext() if "OPENAI_API_KEY" in os.environ else ScriptedModel(answer)
        with model as scripted:
            flow = Workflow(Operator("You advise bakers. Answer briefly."), model=scripted and scripted.model)
            for message in MESSAGES:  # each time as in another process: all there is comes from the file
                chat = flow.chat("ada", store=Path(folder) / "chats.db", memory=2_000)
                result = chat.send(message)
                print(f"> {message}\n{result.text[:100]}  ({result.usage.calls} model calls)")
        print(f"kept: {len(chat.turns)} turns")


if __name__ == "__main__":
    main()
