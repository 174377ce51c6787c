"""Answers to ComfyFlow's prompt: the selected classes, and the workflow, each between tags.

    <selected_nodes>["LoadImage", "SaveImage"]</selected_nodes>
    <designed_workflow>
    IMAGE_1, MASK_1 = LoadImage(image='a.png')
    SaveImage(images=IMAGE_1, filename_prefix='b')
    </designed_workflow>

The prompt (appendix C of the paper) names the tag ``designed_workflow``, the reward (appendix D) ``workflow``; both are
read. So are code fences within tags, an answer with a fence and without tags, and a workflow file.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Sequence
from textwrap import dedent
from typing import NamedTuple, cast

from operad.integrations.comfyui.formats import COMFYUI_CODE

MAX_SELECTION = 2**18
"""Maximum number of characters of the list of selected classes: thousands of names."""

_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[^\n`]*$", re.MULTILINE)
_WORKFLOW = re.compile(r"<(/?)(designed_workflow|workflow)>")
_SELECTED = re.compile(r"<(/?)(selected_nodes)>")
_THOUGHT = "</think>"


class Answer(NamedTuple):
    """Parts of an answer.

    Attributes:
        workflow: Text of the workflow, with the line numbers that it has in the answer.
        selected: Selected classes; None if there is no list of names between the tags.
        is_tagged: True if the workflow is between an opening and a closing tag.
    """

    workflow: str
    selected: Sequence[str] | None = None
    is_tagged: bool = False


def read_answer(text: str) -> Answer:
    """Return the parts of an answer. Of parts with the same tag, the last closed one counts, as models think aloud.

    Args:
        text: The answer, or a workflow in any of ComfyUI's forms.
    """
    if _is_bare(text):
        return Answer(text)
    thought = text.rfind(_THOUGHT) + len(_THOUGHT) if _THOUGHT in text else 0
    selection, _ = _tagged(text, _SELECTED, thought) or (None, False)
    selected = _names(text[selection]) if selection else None
    found, is_closed = _tagged(text, _WORKFLOW, thought) or (None, False)
    part = _unfenced(text, found or slice(thought, len(text)))
    is_whole = part == slice(0, len(text))
    workflow = text if is_whole else "\n" * text.count("\n", 0, part.start) + dedent(text[part])
    return Answer(workflow, selected, is_closed and bool(workflow.strip()))


def _is_bare(text: str) -> bool:
    """Return whether a text is a workflow without an answer around it, even if its own texts contain tags or fences."""
    if text.lstrip("\ufeff \t\r\n").startswith("{"):
        return True
    return ("<" in text or "`" in text) and COMFYUI_CODE.is_it(text.encode("utf-8", "replace"))


def _tagged(text: str, tag: re.Pattern[str], start: int) -> tuple[slice, bool] | None:
    """Return the span between the last closed tags and True, or the span after the last opening tag and False."""
    opened: re.Match[str] | None = None
    closed: slice | None = None
    for found in tag.finditer(text, start):
        if not found[1]:
            opened = found
        elif opened is not None and opened[2] == found[2]:
            closed, opened = slice(opened.end(), found.start()), None
    if closed is not None:
        return closed, True
    return (slice(opened.end(), len(text)), False) if opened else None


def _unfenced(text: str, part: slice) -> slice:
    """Return the span of the last fenced block in a span, even if it is cut off; without a fence, the whole span."""
    fences = list(_FENCE.finditer(text[part]))
    if not fences:
        return part
    last = (len(fences) - 1) // 2 * 2
    end = part.start + fences[last + 1].start() if last + 1 < len(fences) else part.stop
    return slice(part.start + fences[last].end(), end)


def _names(written: str) -> Sequence[str] | None:
    """Return the names in a Python list of strings; None if the text is something else."""
    part = written[_unfenced(written, slice(0, len(written)))].strip()
    if len(part) > MAX_SELECTION:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about unknown escapes
            value = ast.literal_eval(part)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None
    if not isinstance(value, list) or not all(isinstance(each, str) for each in cast("list[object]", value)):
        return None
    return tuple(cast("list[str]", value))
