"""The knowledge base of a configuration file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from operad.configs.faults import Faults
from operad.configs.schema import KnowledgeSpec
from operad.runtime.values.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from operad.runtime.knowledge.documents import Documents

_CODE = "knowledgebase"


def open_library(spec: KnowledgeSpec, folder: Path, faults: Faults) -> Documents | None:
    """The knowledge base that a file names; None where it names none, or where that is a fault.

    Args:
        spec: What the file says of it.
        folder: Where the file lies.
        faults: What is wrong with it.
    """
    if not spec.model_fields_set:
        return None
    from operad.runtime.knowledge.documents import Documents  # imported for the files that name documents
    from operad.runtime.knowledge.folders import roots_of
    from operad.runtime.knowledge.passage_index import PassageIndex

    paths = [folder / os.path.expanduser(path) for path in spec.paths]
    index = folder / os.path.expanduser(spec.index) if spec.index else None
    is_there = True
    for number, path in enumerate(paths):
        try:
            roots_of([path])
        except InputError as error:
            faults.report((_CODE, "paths", number), _CODE, str(error))
            is_there = False
    if index and not index.parent.is_dir():
        faults.report((_CODE, "index"), _CODE, f"there is no folder {str(index.parent)!r}")
        is_there = False
    elif index:
        try:
            PassageIndex(index).check()
        except InputError as error:
            faults.report((_CODE, "index"), _CODE, str(error))
            is_there = False
    if not is_there:
        return None
    try:
        return Documents(paths, index=index, passages=spec.passages)
    except (InputError, MissingExtraError) as error:
        faults.report((_CODE, "paths"), _CODE, str(error))
        return None
