"""An operator: it builds the task, with the tools that its toolkit recommends; the reasoner does it.

    python test/example/run_operator.py

Runs on the embedded model, which picks from given choices. With OPENAI_API_KEY and OPERAD_MODEL set, it runs on
that model, which may look things up as well.
"""

import asyncio
import json
import os

from operad.operators import Operator, OperatorConfig
from operad.runtime import Action, Example, Job, MonoModelReasoner, Tool, Toolkit

ENTRY = (
    "liblantern: Fix a use after free when a stream is closed twice. Silver Fern Bug #418, reported by Marit Solberg."
)


def first_release(person: str) -> str:
    """Look up the first release that a person helped with.

    Args:
        person: The full name.
    """
    return {"Marit Solberg": "1.9.0"}.get(person, f"{person} is not known")


async def main() -> None:
    read = Action(name="read", description="Read the entry word by word.")
    look_up = Action(name="look up", description="Look up a person.", tools=(Tool.of(first_release),))
    toolkit = Toolkit()
    toolkit.add_chain([read, look_up])

    operator = Operator(
        OperatorConfig(
            instruction="Extract the person who reported the bug, as JSON.",
            actions=[read],
            hops=1,  # what is one step from `read` is recommended, too
            examples=[Example(input="Fix Blue Sky. Reported by Ada Brook.", output='{"person": "Ada Brook"}')],
            output_schema=json.dumps({"properties": {"person": {"enum": ["Silver Fern", "Marit Solberg"]}}}),
        ),
        toolkit=toolkit,
    )
    recommended = toolkit.recommend(operator.config.actions, hops=operator.config.hops)
    print("recommended tools:", [tool.name for tool in recommended.tools])

    reasoner = MonoModelReasoner(os.environ.get("OPERAD_MODEL", "embedded"))
    message = await operator.execute(reasoner, Job(goal=ENTRY))
    print("asked:", reasoner.describe())
    print("answer:", message.outputs)


if __name__ == "__main__":
    asyncio.run(main())
