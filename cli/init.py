"""`operad init`: an expert to begin with, in YAML and in Python."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from operad.runtime.values.errors import InputError

YAML = "expert.yaml"
PYTHON = "expert.py"
JOB = "My parcel has not arrived."

_EXPERT = """\
# An expert that answers a customer's message. Check this file with: operad check expert.yaml
app:
  name: Support
  desc: Answer a customer's message.

# The model. Without this section, the environment names it: OPENAI_API_KEY, or OPENAI_BASE_URL and OPERAD_MODEL.
# model:
#   name: gpt-5.6-luna
#   base_url: https://api.openai.com/v1

operators: # each one asks the model; &topic is its name
  - &topic
    instruction: What is the customer's message about?
    output: {topic: delivery | refund | praise}

  - &reply
    instruction: Answer the customer in two sentences. Say what happens next, and when.

  - &judge
    instruction: The reply fits the message and its topic, is polite, and says what happens next, and when.

experts:
  - profile:
      name: Support
      desc: Answers a customer's message about a delivery, a refund, or with praise.
    workflow:
      - [*topic, *reply] # reply starts when topic has finished, and reads its answer
    evaluator: *judge # checks the result; only the operators at fault run again, with its lesson
    max_rounds: 3
"""

_PROGRAM = '''\
"""Run the expert of expert.yaml from Python.

python expert.py                          a script answers in place of a model: no key, no network
python expert.py "Where is my parcel?"    the model that the environment names
"""

import json
import sys
from pathlib import Path

from operad import events, load_workflow
from operad.testing import Say, ScriptedModel

TOO_SHORT = {
    "evaluation": "The reply does not say when the parcel comes.",
    "status": "EXECUTION_ERROR",
    "lesson": "Say on which day the parcel comes.",
    "blame": ["reply"],
    "score": 4,
}
GOOD = {
    "evaluation": "The reply says what happens next, and when.",
    "status": "SUCCESS",
    "lesson": "",
    "blame": [],
    "score": 9,
}
SCRIPT = [
    Say(json.dumps({"topic": "delivery"})),
    Say("Sorry about that! Your parcel is on its way."),
    Say(json.dumps(TOO_SHORT)),  # round 1: only `reply` is at fault, so only `reply` runs again
    Say("Sorry about that! Your parcel comes on Tuesday."),
    Say(json.dumps(GOOD)),
]


def answer(message, model=None):
    flow = load_workflow(Path(__file__).with_name("expert.yaml"), model=model)
    for event in flow.stream(message):
        if isinstance(event, events.RoundFinished):
            verdict = "accepted" if event.accepted else "rejected"
            print(f"round {event.round}  {verdict}: {event.evaluation}")
        elif isinstance(event, events.RunFinished):
            print(event.message.text)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        answer(sys.argv[1])
    else:
        with ScriptedModel(SCRIPT) as scripted:
            answer("My parcel has not arrived.", scripted.model)
'''


def init(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="The folder to write to; created if it does not exist.")
    ] = Path(),
) -> None:
    """Write a small expert to begin with: expert.yaml, and expert.py, which runs it from Python.

    An existing file is never overwritten. The next commands to type are printed. Exit status: 0, or 2 if a file
    is in the way or cannot be written.
    """
    target = folder
    if target.exists() and not target.is_dir():
        raise InputError(f"{folder}: is a file; name a folder: operad init FOLDER")
    files = {target / YAML: _EXPERT, target / PYTHON: _PROGRAM}
    if in_the_way := [str(path) for path in files if path.exists() or path.is_symlink()]:
        raise InputError(
            f"{' and '.join(in_the_way)}: already there, so nothing was written; name another folder: operad init FOLDER"
        )
    try:
        target.mkdir(parents=True, exist_ok=True)
        for path, text in files.items():
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
    except (OSError, RuntimeError) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(f"{getattr(error, 'filename', None) or folder}: cannot be written: {why}") from error
    print("\n".join([*(f"wrote {path}" for path in files), "", *_next(target)]))


def _next(folder: Path) -> list[str]:
    """Return lines with the next commands to type, and what they do."""
    yaml, python = shlex.quote(str(folder / YAML)), shlex.quote(str(folder / PYTHON))
    return [
        "Run it without a model (a script gives the answers):",
        f"  python {python}",
        "Run it with a model (set OPENAI_API_KEY, or OPENAI_BASE_URL and OPERAD_MODEL):",
        f'  operad run {yaml} --job "{JOB}"',
        "List the issues of the file, and draw it:",
        f"  operad check {yaml}",
        f"  operad show {yaml}",
    ]
