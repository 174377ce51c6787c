"""FastAPI with server-sent events: the answer streams to the browser while the model writes it.

pip install fastapi uvicorn
OPENAI_API_KEY=… uvicorn fastapi_sse:app --app-dir test/example
curl -N "http://localhost:8000/ask?question=Why+is+the+sky+blue"
"""

import json
from collections.abc import AsyncIterator

from fastapi import FastAPI
from fastapi.responses import StreamingResponse

from operad import OperadError, Operator, Workflow, events

app = FastAPI()
answer = Operator("Answer in three sentences.", id="answer")
check = Operator("Correct what is wrong in the answer. Write the corrected answer alone.", id="check")
flow = Workflow(answer >> check)


def sent(kind: str, **data: object) -> str:
    return f"event: {kind}\ndata: {json.dumps(data)}\n\n"


@app.get("/ask")
async def ask(question: str) -> StreamingResponse:
    async def stream() -> AsyncIterator[str]:
        try:
            async for event in flow.stream(question):  # closing it, as a browser that leaves does, cancels the run
                match event:
                    case events.TokenStreamed():
                        yield sent("token", operator=event.operator_id, text=event.text)
                    case events.OperatorFinished():
                        yield sent("finished", operator=event.operator_id)
                    case events.RunFinished():
                        yield sent("answer", text=event.message.text, tokens=event.message.usage.tokens)
                    case _:
                        pass
        except OperadError as error:
            yield sent("error", message=str(error))

    return StreamingResponse(stream(), media_type="text/event-stream")
