"""Pinned values: messages that nodes give in every run of a studio, without running, until they are unpinned.

They are kept in the user's folder for program state, so that values stay out of the folder of the workflow.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import mkdtemp
from threading import RLock
from typing import Any, NamedTuple

from operad.flows.check import CONVERSATION, Checker
from operad.flows.formats.shapes import fields_of, list_of, texts_of
from operad.flows.node_graph import NodeGraph, NodeSpec, names_of
from operad.operators.nodes import NODE_TYPES
from operad.operators.nodes.flow import read_value
from operad.operators.variables import VariableType, plain
from operad.runtime.durable.database_names import state_folder
from operad.runtime.values.errors import InputError, did_you_mean
from operad.runtime.values.file import FileDescriptor, write_whole
from operad.runtime.values.message import WorkflowMessage
from operad.server.studio.files.history import digest_of
from operad.server.studio.runs.uploads import Uploads
from operad.server.studio.unfinished import Outputs, outputs_of

MAX_BYTES = 16 * 2**20
"""Maximum size of the pinned values of a workflow, without their files."""

NOT_PINNED = frozenset({"start", "iteration-start", "loop-start", "loop-end", CONVERSATION})
"""Types of nodes that cannot be pinned: their values are the inputs of a run, or they give none."""


class PinnedValues(NamedTuple):
    """Pinned values of a workflow as it is now.

    Attributes:
        messages: The messages that are given, by node.
        faults: Reasons why others are not given, by node.
        dropped: Names of nodes that were removed, whose values were dropped.
    """

    messages: Mapping[str, WorkflowMessage]
    faults: Mapping[str, str]
    dropped: Sequence[str]


def given_outputs(given: Mapping[str, Any], declared: Outputs, uploads: Uploads) -> dict[str, Any]:
    """Return outputs that a browser gives, read as the types that their node declares.

    Args:
        given: Values by name; a file is ``{"name", "base64"}``, or the name of a file in the folder.

    Raises:
        InputError: An output is unknown or of another type; all are named.
    """
    found, faults = dict[str, Any](), list[str]()
    for name, value in given.items():
        kind = declared.get(name)
        try:
            if kind is None:
                faults.append(f"there is no output {name!r}{did_you_mean(name, declared)}")
            elif kind.is_file:
                paths = [uploads.path(each, name) for each in list_of(value if isinstance(value, list) else [value])]
                files = [FileDescriptor.of(path) for path in paths]
                found[name] = files if kind is VariableType.ARRAY_FILE else files[0]
            else:
                found[name] = read_value(value, kind)
        except InputError as error:
            faults.append(f"{name}: {error}")
    if faults:
        raise InputError("; ".join(faults))
    return found


def pinnable(graph: NodeGraph, node: str) -> NodeSpec:
    """Return a node that can be pinned.

    Raises:
        InputError: It does not exist, or cannot be pinned.
    """
    spec = graph.by_id.get(node)
    if spec is None:
        raise InputError(f"there is no node {node!r}{did_you_mean(node, graph.by_id)}")
    if spec.type not in NODE_TYPES or spec.type in NOT_PINNED:
        raise InputError(f"{names_of(graph)[node]} cannot be pinned; its values are those that a run is given")
    return spec


class Pins:
    """Pinned values of all files of a user.

    Args:
        root: Folder of the studio's data; by default in the user's folder for program state.
    """

    def __init__(self, root: Path | None = None) -> None:
        self._root = (root or state_folder() / "studio") / "pins"
        self._lock = RLock()

    def of(self, file: Path, graph: NodeGraph) -> PinnedValues:
        """Return the pinned values of a workflow; those of removed nodes are dropped."""
        with self._lock:
            stored = self._stored(file)
            dropped = [node for node in stored if node not in graph.by_id]
            for node in dropped:
                self.put(file, node, None)
        messages, faults = dict[str, WorkflowMessage](), dict[str, str]()
        checker = Checker(graph, NODE_TYPES) if stored else None
        for node, fields in stored.items():
            if checker is None or node in dropped:
                continue
            try:
                declared = outputs_of(checker, graph.by_id[node])
                messages[node] = _message(node, fields, declared, self._folder(file))
            except InputError as error:
                faults[node] = f"The pinned value is not used: {error}."
        return PinnedValues(messages, faults, [str(fields_of(stored[node]).get("name") or node) for node in dropped])

    def pin(self, file: Path, graph: NodeGraph, node: str, message: WorkflowMessage) -> None:
        """Keep the message of a node.

        Raises:
            InputError: The node cannot be pinned, or not with this message.
        """
        spec, name = pinnable(graph, node), names_of(graph)[node]
        if NODE_TYPES[spec.type].ports_text and message.ports is None:
            raise InputError(f"{name} chooses where a run goes on; run it once, and pin what it chose")
        declared = outputs_of(Checker(graph, NODE_TYPES), spec)
        with self._lock:
            folder = self._folder(file)
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            files = {
                key: [_copied(each, folder) for each in (list_of(value) if isinstance(value, list) else [value])]
                for key, value in message.outputs.items()
                if key in declared and declared[key].is_file and value
            }
            others = {key: plain(value) for key, value in message.outputs.items() if key not in files}
            fields = {
                "name": name,
                "outputs": others,
                "files": files,
                "text": message.scratchpad,
                "ports": message.ports,
            }
            try:
                data = json.dumps(fields | {"answer": message.answer})
            except TypeError as error:
                raise InputError(
                    f"the value of {name} holds a file inside of another value, which is not kept"
                ) from error
            self.put(file, node, json.loads(data))

    def put(self, file: Path, node: str, fields: Mapping[str, Any] | None) -> None:
        """Store a pinned value, or remove it, and the files that no value names any more.

        Raises:
            InputError: The values are too large, or cannot be written.
        """
        with self._lock:
            folder, stored = (
                self._folder(file),
                {key: value for key, value in self._stored(file).items() if key != node},
            )
            if fields is not None:
                stored[node] = fields
            data = json.dumps(stored).encode()
            if len(data) > MAX_BYTES:
                raise InputError(
                    f"the pinned values of a workflow have at most {MAX_BYTES >> 20} MB; unpin others first"
                )
            if stored or folder.is_dir():
                write_whole(str(folder / "pins.json"), data)
                named = {
                    name
                    for each in stored.values()
                    for names in fields_of(each.get("files")).values()
                    for name in names
                }
                for held in folder.iterdir():
                    if held.is_dir() and not any(name.startswith(f"{held.name}/") for name in named):
                        shutil.rmtree(held, ignore_errors=True)

    def _folder(self, file: Path) -> Path:
        return self._root / digest_of(str(file).encode("utf-8", "replace"))[:32]

    def _stored(self, file: Path) -> dict[str, Mapping[str, Any]]:
        try:
            return fields_of(json.loads((self._folder(file) / "pins.json").read_bytes()))
        except (OSError, ValueError, RecursionError):
            return {}


def _copied(file: Any, folder: Path) -> str:
    """Return the name of the copy of a file, in a folder of its own: runs delete their files."""
    if not isinstance(file, FileDescriptor):
        raise InputError("an output that is a file has another value")
    held = Path(mkdtemp(dir=folder)) / file.path.name
    try:
        shutil.copyfile(file.path, held)
    except OSError as error:
        raise InputError(f"{file.name}: cannot be kept: {error.strerror or error}") from error
    return f"{held.parent.name}/{held.name}"


def _message(node: str, fields: Mapping[str, Any], declared: Outputs, folder: Path) -> WorkflowMessage:
    """Return the message of a pinned value.

    Raises:
        InputError: An output no longer exists, or is of another type now.
    """
    files, outputs = fields_of(fields.get("files")), fields_of(fields.get("outputs"))
    gone = [name for name in (*outputs, *files) if name not in declared]
    if gone:
        raise InputError(f"the node has no output {gone[0]!r} now{did_you_mean(gone[0], declared)}")
    read = dict[str, Any]()
    for name, value in outputs.items():
        try:
            read[name] = None if value is None else read_value(value, declared[name])
        except InputError as error:
            raise InputError(f"{name}: {error}") from error
    for name, paths in files.items():
        if not declared[name].is_file:
            raise InputError(f"{name} is {declared[name].value} now, and was a file")
        found = [FileDescriptor.of(folder / path) for path in texts_of(paths)]
        read[name] = found if declared[name] is VariableType.ARRAY_FILE else found[0]
    ports, answer = fields.get("ports"), fields.get("answer")
    return WorkflowMessage(
        str(fields.get("text") or ""),
        outputs=read,
        answer=answer if isinstance(answer, str) else None,
        ports=None if ports is None else tuple(texts_of(ports)),
        operator_id=node,
    )
