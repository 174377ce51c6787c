"""Files of experts made and changed by sentences: the messages of a designer's run, and the new text."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any

from operad.configs.expert_generation import ExpertDesign, ExpertDesigner, expert_offer
from operad.operators.services import Services
from operad.runtime import events
from operad.runtime.models.model import Model
from operad.runtime.values.errors import OperadError, describe
from operad.server.studio.files.new_files import is_new_expert
from operad.server.studio.files.open_file import OpenFile


async def design_expert(
    file: OpenFile, data: bytes, words: str, model: Model | None, services: Services
) -> AsyncGenerator[dict[str, Any] | bytes]:
    """Write or change a file of experts, and yield messages; at the end the new file, if there is one.

    Args:
        data: The file, or the draft that is changed.
    """
    base = "" if is_new_expert(data) else data.decode("utf-8-sig")
    design: ExpertDesign | None = None
    try:
        designer = ExpertDesigner(model, offer=await expert_offer(services), file=str(file.path))
        job = await designer.job(words, base)
        async with aclosing(designer.expert.stream(job)) as stream:
            async for event in stream:
                for text in _stages(event):
                    yield {"kind": "stage", "text": text}
                if isinstance(event, events.RunFinished) and not event.path:
                    design = designer.result(event.message, base)
    except OperadError as error:
        yield {"kind": "error", "text": describe(error)}
        return
    if design is None or not design.text:
        said = [*design.findings, *design.left_out] if design else []
        yield {"kind": "error", "text": "; ".join(said) or "the model returned no expert; rephrase the instruction"}
        return
    for message in _remarks(design):
        yield message
    yield design.text.encode()


def _stages(event: events.Event) -> Iterator[str]:
    if isinstance(event, events.OperatorStarted) and len(event.path) == 1:
        yield f"Writing the expert{f', round {event.round}' if event.round > 1 else ''}"
    elif isinstance(event, events.ModelRetried):
        yield f"the model's endpoint: {event.error[:200]}; asked again"


def _remarks(design: ExpertDesign) -> Iterator[dict[str, Any]]:
    yield from ({"kind": "note", "text": f"Corrected: {each}"} for each in design.corrected)
    yield from ({"kind": "note", "text": each} for each in design.notes)
    yield from ({"kind": "note", "text": f"Neither input nor output: {each}"} for each in design.neither)
    yield from ({"kind": "note", "text": f"No longer an input or output: {each}"} for each in design.gone)
    yield from ({"kind": "check", "text": f"Left out: {each}", "ok": False} for each in design.left_out)
    yield from ({"kind": "check", "text": f"Left to mend: {each}", "ok": False} for each in design.findings)
