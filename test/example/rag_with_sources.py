"""Retrieval with sources: the answer rests on passages of documents, and names them.

OPENAI_API_KEY=… python test/example/rag_with_sources.py "When do I get my money back?"
"""

import sys
from pathlib import Path

from pydantic import BaseModel, Field

from operad import Documents, FaultError, Operator, Workflow, operator


class Answer(BaseModel):
    text: str
    sources: list[str] = Field(
        description="Those of the passages that the text rests on, such as 'refunds.md:3 Refunds'."
    )


library = Documents(Path(__file__).parent / "data" / "handbook")
answer = Operator("Answer from the passages alone.", id="answer", output=Answer, knowledge_base=library)


@operator
def cite(answer: Answer) -> str:
    """Check that the sources exist; a FaultError has 'answer' run again with this lesson."""
    files = {path.name for path in (Path(__file__).parent / "data" / "handbook").iterdir()}
    for source in answer.sources:
        if Path(source.partition(":")[0]).name not in files:
            raise FaultError(f"there is no source {source!r}", blame=["answer"])
    return "\n".join([answer.text, *(f"[{number}] {source}" for number, source in enumerate(answer.sources, 1))])


flow = Workflow(answer >> cite, max_rounds=3)

if __name__ == "__main__":
    print(flow.run(" ".join(sys.argv[1:]) or "When do I get my money back?").text)
