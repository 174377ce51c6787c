"""A durable job with a human in the loop: it waits for an answer in a file, not in a process.

    OPENAI_API_KEY=… python test/example/durable_approval.py start
    python test/example/durable_approval.py yes

The process ends while the job waits. Operators that had finished do not run again, even after `kill -9`.
"""

import sys

from operad import Operator, PausedError, RunContext, Workflow, operator

RUN_ID = "letter-to-nils"

draft = Operator("Write the letter, in two sentences.", id="draft", retry=3)


@operator
async def send(draft: str, context: RunContext) -> str:
    """Send the letter, if a person agrees. The key is the same at each try, so a mail server sends it once."""
    if await context.ask(f"Send this? {draft}", bool):
        return f"sent, with the key {context.idempotency_key}"
    return "not sent"


flow = Workflow(draft >> send, name="letter", durable="sqlite:///letters.db")


def main(word: str) -> None:
    try:
        if word == "start":
            print(flow.run("Thank Nils Berg for the samples.", run_id=RUN_ID).text)
        else:
            print(flow.resume(RUN_ID, word == "yes").text)
    except PausedError as paused:
        for question in paused.questions:
            print(question.text)
        print(f"waits; go on with: python {sys.argv[0]} yes")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "start")
