"""Response in Chat2Workflow's format: selected node types, a design principle and a workflow, each between tags."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from operad.runtime.values.errors import InvalidError, Issue

MOST_CHARACTERS = 200_000
"""Maximum length of a workflow in characters, to limit the time. Recorded workflows have at most 12,000."""

TAGS = ("node_selection", "design_principle", "workflow")


@dataclass(frozen=True, slots=True)
class Response:
    """Response of a model to an instruction.

    Attributes:
        node_selection: Selected node types, as written; None without the tag.
        design_principle: Design principle, as written; None without the tag.
        workflow: JSON of the workflow, as written; None without the tag.
    """

    node_selection: str | None
    design_principle: str | None
    workflow: str | None

    @staticmethod
    def of(text: str) -> Response:
        """Return the parts of a response.

        Args:
            text: The whole answer of the model; text outside of the tags, such as a code fence, is ignored.
        """
        return Response(*(_between(text, tag) for tag in TAGS))

    @property
    def parts(self) -> Mapping[str, str | None]:
        """Texts between the tags, by tag."""
        return dict(zip(TAGS, (self.node_selection, self.design_principle, self.workflow), strict=True))

    @property
    def text(self) -> str:
        """The whole response, with the tags of the parts that it has."""
        present = [(tag, part) for tag, part in self.parts.items() if part is not None]
        return "\n\n".join(f"<{tag}>\n{part.strip()}\n</{tag}>" for tag, part in present)

    def json(self) -> Any:
        """Return the value of the workflow's JSON; as usual in Python, the last of duplicate keys counts.

        Raises:
            InvalidError: A tag is missing, or the text is not JSON or too long.
        """
        missing = [tag for tag, part in self.parts.items() if part is None]
        if missing or self.workflow is None:
            raise InvalidError(
                "response", [Issue("no-tag", f"<{tag}>…</{tag}> is missing; write it") for tag in missing]
            )
        if issues := too_long(self.workflow):
            raise InvalidError("response", issues)
        try:
            return json.loads(without_fence(self.workflow))
        except json.JSONDecodeError as error:
            issue = Issue(
                "format", f"is not JSON: {error.msg}", f"<workflow>, line {error.lineno}, column {error.colno}"
            )
            raise InvalidError("response", [issue]) from error
        except (ValueError, RecursionError) as error:
            issue = Issue("format", f"is not readable as JSON: {error}", "<workflow>")
            raise InvalidError("response", [issue]) from error


def too_long(workflow: str) -> list[Issue]:
    """Return an issue if a workflow is longer than `MOST_CHARACTERS`; else an empty list."""
    if len(workflow) <= MOST_CHARACTERS:
        return []
    return [Issue("size", f"has {len(workflow):,} characters; the maximum is {MOST_CHARACTERS:,}", "<workflow>")]


def without_fence(text: str) -> str:
    """Return a text without the code fence around it, if it has one."""
    inside = text.strip()
    if not (inside.startswith("```") and inside.endswith("```")):
        return text
    _, _, after = inside.partition("\n")
    return after.removesuffix("```")


def _between(text: str, tag: str) -> str | None:
    """Return the text between the first tags with a name; None if one is missing."""
    _, opened, after = text.partition(f"<{tag}>")
    inside, closed, _ = after.partition(f"</{tag}>")
    return inside if opened and closed else None
