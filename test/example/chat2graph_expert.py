"""An expert in Chat2Graph's YAML, run from Python.

    OPENAI_API_KEY=… python test/example/chat2graph_expert.py

The same in the terminal: operad run test/example/chat2graph_expert.yaml --job "Is this so? The moon has air."
"""

from pathlib import Path

from operad import load_workflow

FILE = Path(__file__).with_suffix(".yaml")


def main() -> None:
    flow = load_workflow(FILE, expert="Fact checker", trust=True)  # trust: the file names code, chat2graph_tools.py
    result = flow.run("Is this so? The moon has air.")
    print("claims:", result["facts"]["claims"])
    print(result.text)
    print(f"{result.status.value}, rounds: {result.rounds}; {result.evaluation}")


if __name__ == "__main__":
    main()
