"""Archive of Coze: a zip with a manifest and YAML files, which is unpacked in memory only."""

from __future__ import annotations

import io
import lzma
import posixpath
import struct
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import yaml

from operad.flows.formats.kept_text import keep_text
from operad.flows.formats.shapes import Fields, fields_of
from operad.flows.formats.yaml_text import TextDumper
from operad.runtime.values.document import MAX_BYTES, Document, parse_document
from operad.runtime.values.errors import InputError, InvalidError, Issue, describe

MAX_ARCHIVE = 16 * 2**20
"""Maximum size of an archive, in bytes."""

MAX_FILES = 200
"""Maximum number of files in an archive."""

_BAD_ZIP = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, OSError),
    *(RuntimeError, MemoryError, OverflowError, RecursionError),
    *(KeyError, TypeError, ValueError, AttributeError, IndexError, StopIteration),
)
"""Errors that `zipfile` raises for broken archives."""


class Archive(NamedTuple):
    """Content of an archive.

    Attributes:
        flow: The file of the workflow.
        about: The manifest; empty if there is none.
        others: The files of other workflows in the archive, by path.
    """

    flow: Document
    about: Fields
    others: Mapping[str, str]


def unpacked(data: bytes, name: str) -> Archive:
    """Return the content of an archive.

    Args:
        data: The archive.
        name: The name of the archive, for errors.

    Raises:
        InvalidError: The data is not such an archive; every issue is listed, issues of a file in it with their lines.
    """
    files = _read_files(data, name)
    documents = {path: _parsed(text, path) for path, text in files.items()}
    manifest = next((path for path in files if posixpath.basename(path) == "MANIFEST.yml"), None)
    about = documents[manifest].data if manifest else {}
    workflow_name = fields_of(about.get("main")).get("name")
    flows = [path for path in files if posixpath.basename(posixpath.dirname(path)) == "workflow"]
    named = [path for path in flows if posixpath.basename(path) == f"{workflow_name}-draft.yaml"]
    if len(named or flows) != 1:
        message = f"there are {', '.join(flows)}" if flows else "there is none"
        raise InvalidError(name, [Issue("format", f"must have one workflow/<name>-draft.yaml; {message}")])
    flow = (named or flows)[0]
    return Archive(documents[flow], about, {path: files[path] for path in flows if path != flow})


def _read_files(data: bytes, name: str) -> dict[str, str]:
    """Return the YAML files of an archive as texts, by path."""
    issues: list[Issue] = []
    texts: dict[str, str] = {}
    if len(data) > MAX_ARCHIVE:
        raise InvalidError(name, [Issue("size", f"has {len(data):,} bytes; the maximum is {MAX_ARCHIVE:,}")])
    count = data.count(b"PK\1\2")  # entries of the directory; reading a long one is expensive by itself
    if count > MAX_FILES:
        raise InvalidError(name, [Issue("size", f"has {count:,} files; the maximum is {MAX_FILES}")])
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            files = archive.infolist()
            issues += (Issue("path", "leads out of the archive", each.filename) for each in files if _leads_out(each))
            methods = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # zipfile cannot limit the unpacked size of others
            unsupported = [each for each in files if each.compress_type not in methods]
            issues += (
                Issue("format", "is not packed by deflate, as Coze packs files", each.filename) for each in unsupported
            )
            total = 0
            for file in files:
                if issues or file.is_dir() or not file.filename.endswith((".yml", ".yaml")):
                    continue
                with archive.open(file) as opened:
                    content = opened.read(MAX_BYTES + 1)
                total += len(content)
                if len(content) > MAX_BYTES or total > MAX_ARCHIVE:
                    issues.append(Issue("size", f"is larger than {MAX_BYTES:,} bytes, unpacked", file.filename))
                else:
                    texts[file.filename] = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        issues.append(Issue("format", f"a file in it is not text in UTF-8: {error.reason}"))
    except _BAD_ZIP as error:
        issues.append(Issue("format", f"is not a zip archive that can be read: {describe(error)}"))
    if issues:
        raise InvalidError(name, issues)
    return texts


def _leads_out(file: zipfile.ZipInfo) -> bool:
    path = file.filename
    return path.startswith("/") or "\\" in path or ":" in path.split("/")[0] or ".." in path.split("/")


def _parsed(text: str, path: str) -> Document:
    try:
        return parse_document(text, path)
    except InputError as error:
        raise InvalidError(path, [Issue("format", "is empty", path)]) from error


def packed(name: str, flow: Fields, about: Fields, others: Mapping[str, str]) -> bytes:
    """Return an archive, written front to back and without dates, as Go does; the same content gives the same bytes.

    Args:
        name: The name of the workflow, in the form that Coze accepts.
        flow: The file of the workflow.
        about: The manifest.
        others: The files of other workflows in the archive, by path.
    """
    folder = f"Workflow-{name}-draft"
    return _zipped(
        {
            f"{folder}/MANIFEST.yml": _yaml(about),
            f"{folder}/workflow/{name}-draft.yaml": _yaml(flow),
            **{f"{folder}/workflow/{posixpath.basename(path)}": text.encode() for path, text in others.items()},
        }
    )


def keep_texts(old: bytes, was: bytes, new: bytes) -> bytes:
    """Return a changed archive, in whose files unchanged values keep the text that they had; other files stay.

    Args:
        old: The archive as it was read.
        was: That archive as Operad writes it.
        new: The changed archive as Operad writes it; it is returned if its files are not those of the old one.

    Raises:
        InvalidError: An archive is not valid.
    """
    files, before, after = (_read_files(each, "") for each in (old, was, new))
    before, after = ({posixpath.basename(path): text for path, text in each.items()} for each in (before, after))
    names = {posixpath.basename(path): path for path in files}
    if not before.keys() == after.keys() == names.keys():
        return new
    kept = {path: _kept(files[path], before[name], after[name]) for name, path in names.items()}
    return _zipped({path: kept[path] for path in files})


def _kept(*texts: str) -> bytes:
    old, was, new = (text.encode("utf-8") for text in texts)
    return keep_text(old, was, new, lambda data: parse_document(data.decode(), "").data)


def _zipped(files: Mapping[str, bytes]) -> bytes:
    stream = _Stream()
    with zipfile.ZipFile(cast("Any", stream), "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in files.items():
            info = zipfile.ZipInfo(path, (1980, 0, 0, 0, 0, 0))  # no date at all
            info.compress_type, info.create_system = zipfile.ZIP_DEFLATED, 0
            archive.writestr(info, content)
            info.external_attr = 0
    return bytes(stream.content)


class _Stream(io.RawIOBase):
    """Stream that cannot seek, so that `zipfile` writes the sizes of a file after it."""

    def __init__(self) -> None:
        super().__init__()
        self.content = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        self.content += bytes(data)
        return len(data)


class _Dumper(TextDumper):
    """Dumper that indents lists, as Coze does."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        return super().increase_indent(flow, False)


def _yaml(value: Any) -> bytes:
    made: Any = yaml.dump(value, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=10**9, line_break="\n")
    return cast("str", made).encode("utf-8", errors="replace")
