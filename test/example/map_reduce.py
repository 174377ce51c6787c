"""Map-reduce over files: each file is summarized on its own, all at once, and one report is made of the summaries.

OPENAI_API_KEY=… python test/example/map_reduce.py docs
"""

import sys
from pathlib import Path

from operad import Job, Map, Operator, Workflow, operator


@operator
def read(job: Job) -> dict[str, list[str]]:
    """Read the text files of the folder that the job names."""
    files = sorted(Path(str(job.inputs["folder"])).rglob("*.md"))
    return {"texts": [f"{file.name}:\n{file.read_text(encoding='utf-8')[:20_000]}" for file in files]}


summarize = Operator("Summarize this file in one sentence. Begin with its name.", id="summarize", retry=3)
summaries = Map("summaries", summarize, over="texts", concurrency=8, on_error="skip")
report = Operator("Write a report of one paragraph from these summaries.", id="report")

flow = Workflow(read >> summaries >> report)

if __name__ == "__main__":
    folder = sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent / "data" / "handbook"
    result = flow.run({"folder": str(folder)})
    print(*result["summaries"], "", result.text, sep="\n")
