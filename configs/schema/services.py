"""Knowledge and services of typed nodes in a configuration file."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from operad.configs.schema.base import Count, Seconds, Spec, named
from operad.configs.schema.models import EmbeddingsSpec, MakerSpec, ModelRef
from operad.configs.schema.tools import AnyTool


class KnowledgeSpec(Spec):
    """Knowledge base of the operators: folders and files, whose passages that fit a job go into the tasks."""

    paths: list[Annotated[str, Field(min_length=1)]] = Field(
        default=[], description="Folders, with all that is in them, and files; seen from this file's folder."
    )
    index: str | None = Field(
        default=None,
        min_length=1,
        description="An SQLite file that keeps the index, seen from this file's folder; by default, in memory.",
    )
    passages: int = Field(default=5, ge=1, le=100, description="How many passages a task gets at most.")
    embeddings: (
        Annotated[EmbeddingsSpec, BeforeValidator(named, json_schema_input_type=str | EmbeddingsSpec)] | None
    ) = Field(
        default=None,
        description="A model that embeds passages and queries, for hybrid search; by default, full text alone.",
    )


class SearchSpec(Spec):
    """Search engine for the web."""

    type: Literal["serpapi", "searxng", "tavily", "duckduckgo"] = Field(
        default="serpapi", description="The provider; duckduckgo needs no key."
    )
    api_key_env: str | None = Field(
        default=None,
        description="The environment variable that holds the key; by default SERPAPI_API_KEY or TAVILY_API_KEY.",
    )
    base_url: str | None = Field(default=None, pattern="^https?://", description="The address; searxng needs one.")


class ImagesSpec(MakerSpec):
    """A model that draws."""

    size: str | None = Field(default=None, description="Width and height in pixels, as 1024x1024.")


class SpeechSpec(MakerSpec):
    """A model that reads aloud."""

    voice: str | None = Field(default=None, description="Who speaks, as the endpoint names them.")
    format: Literal["mp3", "opus", "aac", "flac", "wav", "pcm"] | None = Field(
        default=None, description="Of the sound."
    )


class HttpSpec(Spec):
    """Addresses that nodes may fetch, and limits of requests."""

    allowed_hosts: list[Annotated[str, Field(min_length=1)]] = Field(
        default=[], description="host or host:port; these may be reached wherever they are, others at public addresses."
    )
    timeout: Seconds | None = Field(default=None, description="Seconds for all of it.")
    max_bytes: Count | None = Field(default=None, description="The largest body, in bytes.")


class CodeSpec(Spec):
    """Limits of code nodes."""

    seconds: Seconds | None = Field(default=None, description="Seconds of computing.")
    memory_bytes: Count | None = Field(default=None, description="Bytes of memory.")
    packages: list[Annotated[str, Field(pattern=r"^[A-Za-z_]\w*$")]] = Field(
        default=[],
        description="Python packages that code may import, such as pandas; such code runs in a limited process, "
        "which is not a sandbox: use it only for code that you trust.",
    )


class ServicesSpec(Spec):
    """Services of typed nodes: a section of a configuration, or a file of its own. Unset values come from the environment."""

    search: SearchSpec | None = None
    images: ImagesSpec | None = None
    speech: SpeechSpec | None = Field(default=None, description="Without it, a simple voice of this machine.")
    http: HttpSpec = HttpSpec()
    code: CodeSpec = CodeSpec()
    folder: str | None = Field(
        default=None, min_length=1, description="Where nodes write files, seen from this file's folder; or a fresh one."
    )
    workflows: dict[str, Annotated[str, Field(min_length=1)]] = Field(
        default={},
        description="Workflow files that sub-workflow nodes may run, by name, seen from this file's folder; each may "
        "run those before it.",
    )
    tools: list[AnyTool] = Field(default=[], description="Tools that nodes call by their names.")
    models: dict[str, ModelRef] = Field(
        default={},
        description="Models by the names that nodes use (`model_name`, the model of a Dify node); other nodes ask the "
        "model of the run.",
    )
    knowledge: dict[str, KnowledgeSpec] = Field(
        default={}, description="Knowledge bases, by the names that knowledge-retrieval nodes call them."
    )
    lossy: bool = Field(
        default=False,
        description="Run `workflows` that were imported, though their results may be others than where they come from.",
    )
