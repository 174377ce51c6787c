"""Answers to ComfyFlow's prompt: the selected classes, and the workflow, each between tags.

    <selected_nodes>["LoadImage", "SaveImage"]</selected_nodes>
    <designed_workflow>
    IMAGE_1, MASK_1 = LoadImage(image='a.png')
    SaveImage(images=IMAGE_1, filename_prefix='b')
    </designed_workflow>

The prompt (appendix C of the paper) says ``designed_workflow``, the reward (appendix D) ``workflow``: both are read. So
are fences of code within tags, an answer with a fence and no tags, and a file that is nothing but a workflow.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Sequence
from textwrap import dedent
from typing import NamedTuple, cast

from operad.flows.formats.comfyui import COMFYUI_CODE

MAX_SELECTION = 2**18
"""The longest list of selected classes that is read, in characters: thousands of names."""

_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[^\n`]*$", re.MULTILINE)
_WORKFLOW = re.compile(r"<(/?)(designed_workflow|workflow)>")
_SELECTED = re.compile(r"<(/?)(selected_nodes)>")
_THOUGHT = "</think>"


class Answer(NamedTuple):
    """An answer, taken apart.

    Attributes:
        workflow: The text of the workflow, in the lines in which it stands in the answer.
        selected: The classes that were selected; None where no list of names stands between its tags.
        is_tagged: True if the workflow stands between its tags, the closing one among them.
    """

    workflow: str
    selected: Sequence[str] | None = None
    is_tagged: bool = False


def read_answer(text: str) -> Answer:
    """Take an answer apart. Of several parts with a tag, the last that is closed counts: models think aloud.

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
    """Return True if a text is a workflow and nothing else, whatever its own texts say."""
    if text.lstrip("\ufeff \t\r\n").startswith("{"):
        return True
    return ("<" in text or "`" in text) and COMFYUI_CODE.is_it(text.encode("utf-8", "replace"))


def _tagged(text: str, tag: re.Pattern[str], start: int) -> tuple[slice, bool] | None:
    """Return the text between the last tags, and True if they are closed; else, the text after the last opening tag."""
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
    """Return the content of the last fence in a part, closed or cut off; the whole part if there is none."""
    fences = list(_FENCE.finditer(text[part]))
    if not fences:
        return part
    last = (len(fences) - 1) // 2 * 2
    end = part.start + fences[last + 1].start() if last + 1 < len(fences) else part.stop
    return slice(part.start + fences[last].end(), end)


def _names(written: str) -> Sequence[str] | None:
    """The names of a list as Python writes it; None where it is something else."""
    part = written[_unfenced(written, slice(0, len(written)))].strip()
    if len(part) > MAX_SELECTION:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes that Python does not know
            value = ast.literal_eval(part)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None
    if not isinstance(value, list) or not all(isinstance(each, str) for each in cast("list[object]", value)):
        return None
    return tuple(cast("list[str]", value))
