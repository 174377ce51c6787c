"""Knowledge base and insights of a configuration file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from operad.configs.endpoints import endpoint_of
from operad.configs.faults import Faults
from operad.configs.imports import Modules
from operad.configs.schema import EmbeddingsSpec, KnowledgeSpec
from operad.runtime.knowledge.insights import Insights
from operad.runtime.models.resolve import EMBEDDED
from operad.runtime.values.document import Path_
from operad.runtime.values.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from operad.runtime.knowledge.documents import Documents
    from operad.runtime.knowledge.embeddings import Embeddings

_CODE = "knowledgebase"


def open_insights(said: bool | str | None, folder: Path, faults: Faults, modules: Modules) -> Insights | None:
    """Return the insights of the file that `env.insights` names; None without a file that may be opened."""
    setting = ("env", "insights")
    if not said:
        return None
    if said == ":memory:":
        faults.report(setting, "insights", "are kept in a file: name one, or leave `insights` out")
        return None
    file = f"{faults.stem}.insights.sqlite" if said is True else Path(said).expanduser()
    if not modules.opens(folder / file):
        return None
    try:
        return Insights(folder / file)
    except InputError as error:
        faults.report(setting, "insights", str(error))
        return None


def open_library(
    spec: KnowledgeSpec, folder: Path, faults: Faults, modules: Modules, at: Path_ = (_CODE,)
) -> Documents | None:
    """Return the knowledge base that a file names; None if it names none that may be opened, or after reporting a fault.

    Args:
        spec: Section of the file.
        folder: Folder of the file.
        faults: Collected faults.
        modules: What may be opened.
        at: Path of the section in the file.
    """
    if not spec.model_fields_set:
        return None
    from operad.runtime.knowledge.documents import Documents  # not at import: only knowledge bases need it
    from operad.runtime.knowledge.folders import roots_of
    from operad.runtime.knowledge.passage_index import PassageIndex

    paths = [folder / os.path.expanduser(path) for path in spec.paths]
    index = folder / os.path.expanduser(spec.index) if spec.index else None
    embeddings = _embeddings(spec.embeddings, faults, (*at, "embeddings")) if spec.embeddings is not None else None
    is_usable = embeddings is not None or spec.embeddings is None
    if not all(map(modules.opens, [*paths, *([index] if index else [])])):
        return None
    for number, path in enumerate(paths):
        try:
            roots_of([path])
        except InputError as error:
            faults.report((*at, "paths", number), _CODE, str(error))
            is_usable = False
    if index and not index.parent.is_dir():
        faults.report((*at, "index"), _CODE, f"there is no folder {str(index.parent)!r}")
        is_usable = False
    elif index:
        try:
            PassageIndex(index).check()
        except InputError as error:
            faults.report((*at, "index"), _CODE, str(error))
            is_usable = False
    if not is_usable:
        return None
    try:
        return Documents(paths, index=index, passages=spec.passages, embeddings=embeddings)
    except (InputError, MissingExtraError) as error:
        faults.report((*at, "paths"), _CODE, str(error))
        return None


def _embeddings(spec: EmbeddingsSpec, faults: Faults, path: Path_) -> Embeddings | None:
    """Return the embedding model that a file names; None after reporting a fault."""
    from operad.runtime.models.embedding import EmbeddingModel  # not at import: only knowledge bases need it
    from operad.runtime.models.minilm import MiniLM

    if spec.name != EMBEDDED:
        arguments = endpoint_of(spec, faults, path)
        return EmbeddingModel(**arguments) if arguments else None
    if spec.base_url is not None:
        faults.report((*path, "base_url"), _CODE, "the embedded model runs inside this process: it has no endpoint")
        return None
    try:
        return MiniLM()
    except MissingExtraError as error:
        faults.report(path, _CODE, str(error))
        return None
