"""Output files of `operad generate`, checked before a model is called."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from operad.cli.formats import picture_kind, refuse_unwritable
from operad.configs.flow import is_configuration, read_file
from operad.flows.formats.format import Format
from operad.flows.formats.table import find_format
from operad.runtime.values.errors import InputError

ARCHIVES = ("coze",)
"""Formats whose files are archives."""


def check_targets(
    file: str | None,
    base: str | None,
    picture: str | None,
    wanted: Format,
    known: Mapping[str, Format],
    *,
    as_json: bool,
) -> None:
    """Check that the outputs can be written as requested, and replace no other file.

    Args:
        file: The file of the workflow; None for stdout.
        base: The workflow that is changed, if there is one.
        picture: The file of the picture, if there is one.
        wanted: Format of the workflow.
        known: The formats by name.
        as_json: True if the workflow without a file is a part of JSON.

    Raises:
        InputError: An output cannot be written.
    """
    if as_json and not file and wanted.name in ARCHIVES:
        raise InputError(f"--json cannot contain {wanted.name}, which is an archive; use -o FILE")
    if picture:
        picture_kind(picture, "--picture")
    for path in filter(None, (file, picture)):
        refuse_unwritable(path)
    if file:
        _refuse_overwriting(file, base, known)


def _refuse_overwriting(file: str, base: str | None, known: Mapping[str, Format]) -> None:
    """Raise InputError if the output is a file of experts, or, without --continue, an existing workflow."""
    if not Path(file).expanduser().is_file():
        return
    data = read_file(file)
    if is_configuration(data):
        raise InputError(f"-o {file}: configures experts, and was not changed; name another file")
    if base is None and find_format(data, known) is not None:
        raise InputError(f"-o {file}: holds a workflow; change it with --continue {file}, or name another file")
