"""Format of Coze: the archive ``Workflow-<name>-draft.zip`` with ``MANIFEST.yml`` and ``workflow/<name>-draft.yaml``.

The form of an archive is known from Coze's own documentation, from Chat2Workflow's converter and from archives that
others have published. The bytes are those of Go's ``archive/zip`` without dates, which Coze accepts.

``load(dump(graph))`` is the graph in this normal form:

- references in texts are ``{{#id.variable#}}``, and the logic of an if-else case with at most one condition is null;
- the nodes inside a container follow it, its start node first; edges inside a container come after the edges outside;
- Coze allows one end: several ends become one after a variable_merge with a group for each output, and are read back
  as several, last in the list, with edges in the order of the archive;
- the last class of a question-classifier is also taken if no class fits (Coze's port ``default``).

Data that Coze has no place for (Operad's ids, parameters without a field at Coze, the separate ends) is kept after the
word ``operad`` in the description of the node. It is read as long as the node is not edited in Coze. The description of
the workflow keeps its name, instructions and notes in the same way. Fields of an archive that are not parameters of
Operad are kept in ``extra`` and written back, even if the parameters of the node were changed. `losses` lists the parts
of a workflow that Coze does not run.
"""

from __future__ import annotations

from operad.flows.formats.format import Format
from operad.flows.node_graph import NodeGraph
from operad.integrations.coze.archive import MAX_ARCHIVE, MAX_FILES, packed, unpacked
from operad.integrations.coze.losses import losses_of
from operad.integrations.coze.notes import NAME
from operad.integrations.coze.read import Reader
from operad.integrations.coze.remarks import remarks_of
from operad.integrations.coze.write import Writer


def _read(data: bytes, name: str) -> NodeGraph:
    return Reader(unpacked(data, name), name).graph


def _write(graph: NodeGraph) -> bytes:
    writer = Writer(graph)
    return packed(writer.name, writer.flow, writer.about, writer.others)


def is_it(data: bytes) -> bool:
    """Return True if a file is an archive with a ``MANIFEST.yml``."""
    return data[:4] == b"PK\x03\x04" and b"MANIFEST.yml" in data[:MAX_ARCHIVE]


COZE = Format(NAME, ".coze.zip", is_it, _read, _write, losses_of, remarks=remarks_of)
"""Format of the archives of Coze."""

load, dump, losses = COZE.load, COZE.dump, COZE.losses

__all__ = ["COZE", "MAX_ARCHIVE", "MAX_FILES", "dump", "is_it", "load", "losses"]
