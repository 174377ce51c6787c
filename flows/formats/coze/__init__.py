"""The archive of Coze: ``Workflow-<name>-draft.zip`` with ``MANIFEST.yml`` and ``workflow/<name>-draft.yaml``.

What an archive looks like is from Coze's own page on it, from Chat2Workflow's converter and from archives that others
have published; the bytes are those of Go's ``archive/zip``, without dates, which Coze was seen to take.

Out and back, ``load(dump(graph))`` is the graph in this normal form:

- references in texts are ``{{#id.variable#}}``, and the logic of an if-else case is null for up to one condition;
- nodes inside another stand right behind it, what begins inside of it first; edges inside a node come after those
  outside;
- Coze has one end: several become one behind a variable_merge with a group for each output, and come back as several,
  last in the list; edges to them come back in the order of the archive;
- a question-classifier's last class is the way where none fits, too (Coze's port default).

What Coze has no place for (our ids, parameters that it has no field for, which ends there were) stands behind ``operad``
in a node's description, which may be ignored. It holds as long as the node is not edited there. The workflow's own
description keeps its name and the instructions that it was made from in the same way. What an archive says
beyond our parameters is kept in ``extra`` and written back; where the parameters were changed, beneath them.
`losses` says what Coze will not do.
"""

from __future__ import annotations

from pathlib import Path

from operad.flows.formats.coze.archive import MAX_ARCHIVE, MAX_FILES, packed, unpacked
from operad.flows.formats.coze.losses import losses_of
from operad.flows.formats.coze.notes import NAME
from operad.flows.formats.coze.read import Reader
from operad.flows.formats.coze.write import Writer
from operad.flows.formats.format import Format, content_of
from operad.flows.node_graph import NodeGraph
from operad.runtime.values.errors import Issue


def load(source: str | bytes | Path, name: str = "workflow") -> NodeGraph:
    """Read a workflow.

    Args:
        source: The archive, or its path. Nothing of it is written to a disk.
        name: What to call the workflow where it does not say.

    Raises:
        InvalidError: It is not such an archive; every issue is listed, those of a file in it with their lines.
    """
    return Reader(unpacked(content_of(source), name), name).graph


def dump(graph: NodeGraph) -> bytes:
    """Write a workflow. The same one gives the same bytes."""
    writer = Writer(graph)
    return packed(writer.name, writer.flow, writer.about, writer.others)


def is_it(data: bytes) -> bool:
    """Return whether a file is an archive with a ``MANIFEST.yml``."""
    return data[:4] == b"PK\x03\x04" and b"MANIFEST.yml" in data[:MAX_ARCHIVE]


def losses(graph: NodeGraph) -> list[Issue]:
    """Return the parts that Coze does not run, or has no place for; most of them come back from descriptions."""
    return list(losses_of(graph))


COZE = Format(NAME, ".coze.zip", is_it, load, dump, losses)
"""The archive of Coze."""

__all__ = ["COZE", "MAX_ARCHIVE", "MAX_FILES", "dump", "is_it", "load", "losses"]
