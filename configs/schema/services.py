"""Knowledge and services of typed nodes in a configuration file."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from operad.configs.schema.base import Count, Seconds, Spec, named
from operad.configs.schema.models import EmbeddingsSpec, MakerSpec, ModelRef
from operad.configs.schema.tools import AnyTool


class KnowledgeSpec(Spec):
    """Knowledge base of the operators: folders and files, whose relevant passages are added to the tasks."""

    paths: list[Annotated[str, Field(min_length=1)]] = Field(
        default=[], description="Folders, including subfolders, and files; relative to this file."
    )
    index: str | None = Field(
        default=None,
        min_length=1,
        description="SQLite file of the index, relative to this file; by default in memory.",
    )
    passages: int = Field(default=5, ge=1, le=100, description="Maximum number of passages for a task.")
    embeddings: (
        Annotated[EmbeddingsSpec, BeforeValidator(named, json_schema_input_type=str | EmbeddingsSpec)] | None
    ) = Field(
        default=None,
        description="Embedding model for hybrid search; by default, full-text search only.",
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
    """Model that generates images."""

    size: str | None = Field(default=None, description="Width and height in pixels, such as 1024x1024.")


class SpeechSpec(MakerSpec):
    """Model that reads text aloud."""

    voice: str | None = Field(default=None, description="Name of the voice at the endpoint.")
    format: Literal["mp3", "opus", "aac", "flac", "wav", "pcm"] | None = Field(
        default=None, description="Audio format."
    )


class HttpSpec(Spec):
    """Addresses that nodes may reach, and limits of requests."""

    allowed_hosts: list[Annotated[str, Field(min_length=1)]] = Field(
        default=[],
        description="Hosts, as host or host:port, that may be reached at private addresses; all others only at public ones.",
    )
    timeout: Seconds | None = Field(default=None, description="Maximum seconds of a request.")
    max_bytes: Count | None = Field(default=None, description="Maximum size of a response, in bytes.")


class CodeSpec(Spec):
    """Limits of code nodes."""

    seconds: Seconds | None = Field(default=None, description="Maximum seconds of computing.")
    memory_bytes: Count | None = Field(default=None, description="Maximum memory in bytes.")
    packages: list[Annotated[str, Field(pattern=r"^[A-Za-z_]\w*$")]] = Field(
        default=[],
        description="Python packages that code may import, such as pandas. Such code runs in a limited process, which "
        "the kernel confines on Linux alone; naming packages needs trust.",
    )


class ServicesSpec(Spec):
    """Services of typed nodes: a section of a configuration, or a file of its own. Unset values come from the environment."""

    search: SearchSpec | None = None
    images: ImagesSpec | None = None
    speech: SpeechSpec | None = Field(
        default=None, description="Model that reads text aloud; without it, a simple local voice."
    )
    http: HttpSpec = HttpSpec()
    code: CodeSpec = CodeSpec()
    folder: str | None = Field(
        default=None,
        min_length=1,
        description="Folder for files that nodes write, relative to this file; by default a new temporary one.",
    )
    workflows: dict[str, Annotated[str, Field(min_length=1)]] = Field(
        default={},
        description="Workflow files for sub-workflow nodes, by name, relative to this file; each may run those before it.",
    )
    tools: list[AnyTool] = Field(default=[], description="Tools that nodes call by their names.")
    models: dict[str, ModelRef] = Field(
        default={},
        description="Models by the names that nodes use (`model_name`, the model of a Dify node); other nodes ask the "
        "model of the run.",
    )
    knowledge: dict[str, KnowledgeSpec] = Field(
        default={}, description="Knowledge bases for knowledge-retrieval nodes, by name."
    )
    lossy: bool = Field(
        default=False,
        description="true: run imported `workflows` although their results may differ from those on their platform.",
    )
