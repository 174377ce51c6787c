"""Names of models: the vendors that prefixes name, and the addresses and keys that the environment pairs with them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Literal
from urllib.parse import urlsplit

from operad.runtime.models.addresses import without_login
from operad.runtime.values.errors import InputError, did_you_mean

Protocol = Literal["chat-completions", "responses", "native"]
"""Protocol of a vendor; `native` if a package of the vendor's extra speaks it."""


@dataclass(frozen=True, slots=True)
class Vendor:
    """A vendor of models, or a program that serves them.

    Attributes:
        prefix: Its name before the colon, as in ``mistral:mistral-large-latest``.
        base_url: Its published address for OpenAI's protocol, with ``*`` for a part that each customer has. A native
            protocol has an address of its own, which its package knows.
        keys: Environment variables of its key; the first that is set counts.
        extra: Extra of Operad that a native protocol needs.
        needs_key: False if it also answers without a key.
        moved_by: Environment variable with another address of it; empty if there is none.
        path: Path that follows the address in `moved_by`, unless that has one.
        prices: Its id in genai-prices; empty if its models have no list price.
        aliases: Further prefixes.
    """

    prefix: str
    base_url: str
    keys: tuple[str, ...] = ()
    protocol: Protocol = "chat-completions"
    extra: str = ""
    needs_key: bool = True
    moved_by: str = ""
    path: str = ""
    prices: str = ""
    aliases: tuple[str, ...] = ()

    @property
    def system(self) -> str:
        """Name of the vendor for `Origin.system`."""
        return self.prefix

    def address(self, environ: Mapping[str, str]) -> str:
        """Return its address: that in the environment, or else the published one."""
        moved = environ.get(self.moved_by, "") if self.moved_by else ""
        if not moved:
            return self.base_url
        moved = moved if "://" in moved else f"http://{moved}"
        return moved if not self.path or urlsplit(moved).path.strip("/") else moved.rstrip("/") + self.path

    def key(self, environ: Mapping[str, str]) -> str:
        """Return its key in the environment; empty if there is none."""
        return next((key for name in self.keys if (key := environ.get(name, ""))), "")


def _vendor(prefix: str, base_url: str, keys: str, prices: str = "", **others: str) -> Vendor:
    """Return a vendor of the chat-completions protocol."""
    aliases = tuple(others.pop("aliases", "").split())
    return Vendor(prefix, base_url, tuple(keys.split()), prices=prices, aliases=aliases, **others)  # pyright: ignore[reportArgumentType]


def _native(prefix: str, base_url: str, keys: str, prices: str, moved_by: str = "") -> Vendor:
    """Return a vendor whose own protocol a package speaks, with the extra that is called like it."""
    return Vendor(prefix, base_url, tuple(keys.split()), "native", prefix, moved_by=moved_by, prices=prices)


def _server(prefix: str, port: int, keys: str, moved_by: str) -> Vendor:
    """Return a program that serves models of the user."""
    base_url = f"http://localhost:{port}/v1"
    return Vendor(prefix, base_url, tuple(keys.split()), needs_key=False, moved_by=moved_by, path="/v1")


OPENAI = Vendor(
    "openai", "https://api.openai.com/v1", ("OPENAI_API_KEY",), "responses", moved_by="OPENAI_BASE_URL", prices="openai"
)

VENDORS = (
    OPENAI,
    Vendor(
        "azure",
        "https://*.openai.azure.com/openai/v1",
        ("AZURE_OPENAI_API_KEY",),
        "responses",
        moved_by="AZURE_OPENAI_ENDPOINT",
        path="/openai/v1",
        prices="azure",
    ),
    _native("anthropic", "https://api.anthropic.com/v1", "ANTHROPIC_API_KEY", "anthropic", "ANTHROPIC_BASE_URL"),
    _native(
        "google",
        "https://generativelanguage.googleapis.com/v1beta/openai",
        "GOOGLE_API_KEY GEMINI_API_KEY",
        "google",
        "GOOGLE_GEMINI_BASE_URL",
    ),
    Vendor("google-cloud", "gcp:vertex", (), "native", "google", needs_key=False, prices="google"),
    Vendor("bedrock", "aws:bedrock", ("AWS_BEARER_TOKEN_BEDROCK",), "native", "bedrock", needs_key=False, prices="aws"),
    _native("mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY", "mistral"),
    _vendor("deepseek", "https://api.deepseek.com", "DEEPSEEK_API_KEY", "deepseek"),
    _vendor("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY", "groq"),
    _vendor("xai", "https://api.x.ai/v1", "XAI_API_KEY", "x-ai"),
    _vendor("openrouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY", "openrouter"),
    _vendor("together", "https://api.together.xyz/v1", "TOGETHER_API_KEY", "together"),
    _vendor("fireworks", "https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY", "fireworks"),
    _vendor("cerebras", "https://api.cerebras.ai/v1", "CEREBRAS_API_KEY", "cerebras"),
    _vendor(
        "moonshot", "https://api.moonshot.ai/v1", "MOONSHOT_API_KEY MOONSHOTAI_API_KEY", "moonshotai", aliases="kimi"
    ),
    _vendor("zai", "https://api.z.ai/api/paas/v4", "ZAI_API_KEY", "zai"),
    _vendor("zhipu", "https://open.bigmodel.cn/api/paas/v4", "ZHIPUAI_API_KEY", "zhipuai"),
    _vendor(
        "alibaba",
        "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
        "DASHSCOPE_API_KEY ALIBABA_API_KEY",
        aliases="dashscope",
        moved_by="DASHSCOPE_BASE_URL",
    ),
    _vendor("nvidia", "https://integrate.api.nvidia.com/v1", "NVIDIA_API_KEY"),
    _vendor("perplexity", "https://api.perplexity.ai", "PERPLEXITY_API_KEY", "perplexity"),
    _vendor("huggingface", "https://router.huggingface.co/v1", "HF_TOKEN"),
    _server("ollama", 11434, "OLLAMA_API_KEY", "OLLAMA_BASE_URL"),
    _server("lmstudio", 1234, "", ""),
    _server("vllm", 8000, "VLLM_API_KEY", "VLLM_BASE_URL"),
    _server("llamacpp", 8080, "LLAMA_API_KEY", ""),
)
"""All vendors; a further one of the chat-completions protocol is one row."""

PREFIXES: Mapping[str, Vendor] = {name: each for each in VENDORS for name in (each.prefix, *each.aliases)}
"""The vendors by their prefixes."""

_OTHER_NAMES: Mapping[str, str] = {
    "gemini": "google",
    "google-gla": "google",
    "google-vertex": "google-cloud",
    "vertex": "google-cloud",
    "vertexai": "google-cloud",
    "vertex-ai": "google-cloud",
    "claude": "anthropic",
    "gpt": "openai",
    "openai-chat": "openai",
    "openai-responses": "openai",
    "grok": "xai",
    "aws": "bedrock",
    "amazon": "bedrock",
    "qwen": "alibaba",
    "glm": "zai",
    "bigmodel": "zhipu",
    "hf": "huggingface",
    "llama.cpp": "llamacpp",
}
"""Prefixes by other names of vendors, as people and other libraries write them, for suggestions."""

_OWN_COLONS = ("ft",)
"""Beginnings of OpenAI's own names that hold colons: fine-tuned models."""

_TAG = re.compile(r"latest|instruct|text|v?\d+(\.\d+)?[bmk]?([-_][\w.-]*)?")
"""Tag of a local model, such as that of ``mistral:7b``, whose name is also a vendor's prefix."""


@dataclass(frozen=True, slots=True)
class Located:
    """A model with its endpoint.

    Attributes:
        name: Name at the endpoint, without prefix.
        base_url: Address.
        key: Key; empty if none is sent.
        vendor: The vendor that the prefix or the address names; None for other endpoints.
        lacks_key: True if the vendor answers no call, because there is no key for it.
    """

    name: str
    base_url: str
    key: str = field(default="", repr=False)
    vendor: Vendor | None = None
    protocol: Protocol = "chat-completions"
    lacks_key: bool = False

    @property
    def provider(self) -> str:
        """Name of the vendor; of other endpoints, the host."""
        return self.vendor.prefix if self.vendor else urlsplit(self.base_url).hostname or self.base_url


def locate(name: str, base_url: str | None, key: str, environ: Mapping[str, str]) -> Located:
    """Return where a model is.

    A prefix of `PREFIXES` names the vendor. Any other name is sent as it is: to `base_url`, or else to the endpoint that
    the environment names for OpenAI's protocol, by default OpenAI's own. Without an endpoint, an unknown prefix is an
    error, because it was meant to name a vendor. ``mistral:7b``, a tag of a local model, counts as a name if there is an
    endpoint.

    A key of the environment is used only at the address that the environment pairs it with: the address in the variable
    of the vendor, or else the vendor's published one.

    Args:
        name: The model's name, with or without prefix.
        base_url: Address; None for that of the vendor or of the environment.
        key: Key; empty for that of the environment.
        environ: Environment variables.

    Raises:
        InputError: The prefix is unknown, or the environment does not say where the vendor's endpoint is.
    """
    prefix, _, rest = name.partition(":")
    endpoint = base_url or environ.get(OPENAI.moved_by)
    named = named_vendor(name, endpoint)
    if prefix in PREFIXES and name == f"{prefix}:":
        raise InputError(f"model {name!r}: the name of the model is missing after the prefix; write {name}NAME")
    if ":" in name and not named and not endpoint and prefix not in _OWN_COLONS:
        raise _unknown_prefix_error(name, prefix)
    address = base_url or (named or OPENAI).address(environ)
    if "*" in address:
        raise InputError(
            f"model {name!r}: set {(named or OPENAI).moved_by} to the address of your resource, or give base_url"
        )
    published = vendor_at(address)
    vendor = named or published
    if vendor is None:
        return Located(name, address, key or _paired_key(OPENAI, address, environ))
    key = key or _paired_key(vendor, address, environ) or _paired_key(OPENAI, address, environ)
    is_published = vendor is published or address == vendor.base_url
    # Another endpoint under a vendor's name, such as a gateway, and an endpoint that is given by address alone, such as
    # that of Anthropic for OpenAI's protocol, speak chat completions.
    speaks = vendor.protocol if (named if vendor.protocol == "native" else is_published) else "chat-completions"
    lacks_key = vendor.needs_key and is_published and not key and "@" not in address
    return Located(rest if named else name, address, key, vendor, speaks, lacks_key)


def locate_told(name: str, base_url: str | None, key: str, environ: Mapping[str, str]) -> Located:
    """Return where a model is whose address was given by a command or a trusted file; see `locate`.

    Who names an address there means it for the key of the environment: an address that is not a vendor's gets
    ``OPENAI_API_KEY``. In Python, an address is written with its key, or without one.

    Raises:
        InputError: As for `locate`.
    """
    located = locate(name, base_url, key, environ)
    if located.key or not base_url or (located.vendor and located.vendor is not OPENAI and located.vendor.needs_key):
        return located
    key = OPENAI.key(environ)
    return replace(located, key=key, lacks_key=located.lacks_key and not key)


def named_vendor(name: str, endpoint: str | None) -> Vendor | None:
    """Return the vendor that the prefix of a name selects; None if it has none, or is sent as it is to an endpoint."""
    prefix, _, rest = name.partition(":")
    return PREFIXES.get(prefix) if rest and not (endpoint and _TAG.fullmatch(rest)) else None


def vendor_at(base_url: str) -> Vendor | None:
    """Return the vendor whose published address has this scheme, host and port; None for all others."""
    if origin := _origin(base_url):
        return next((each for each in VENDORS if fnmatchcase(origin, _origin(each.base_url))), None)
    return None


def is_paired(vendor: Vendor, base_url: str, environ: Mapping[str, str]) -> bool:
    """Return True if the environment pairs the key of a vendor with an address."""
    address = vendor.address(environ)
    if _origin(base_url) != _origin(address) or not _origin(address):
        return base_url == address
    return not environ.get(vendor.moved_by) or _path(base_url) == _path(address)


def _paired_key(vendor: Vendor, base_url: str, environ: Mapping[str, str]) -> str:
    """Return the key of a vendor, if the environment pairs it with this address; empty otherwise."""
    return vendor.key(environ) if is_paired(vendor, base_url, environ) else ""


def key_fault(located: Located, message: str, environ: Mapping[str, str]) -> str:
    """Return the problem of a call that an endpoint refused for its key (401), with its message, and what to do."""
    vendor = located.vendor or OPENAI
    if located.key or "@" in located.base_url:
        keys, of_endpoint = " or ".join(vendor.keys), "the key of this endpoint"
        if vendor is OPENAI or is_paired(vendor, located.base_url, environ):
            way = f"{keys}, or {of_endpoint}" if keys else of_endpoint
        else:
            way = f"{of_endpoint}; {keys} is for {without_login(vendor.address(environ))}" if keys else of_endpoint
        return f"refuses the API key (401): {message}; set {way}"
    vendor = vendor if vendor.keys and vendor.moved_by else OPENAI
    address, key = vendor.address(environ), vendor.keys[0]
    is_kept = bool(vendor.key(environ)) and located.base_url != address
    why = f"none was sent (401): {key} is for {without_login(address)}" if is_kept else "none is set (401)"
    return (
        f"requires an API key, but {why}; give the model its api_key (`api_key_env` in a file), or set {vendor.moved_by} "
        f"to this address and {key} to its key; the endpoint says: {message}"
    )


def meant_prefix(prefix: str) -> str:
    """Return ``" (did you mean 'x'?)"`` for the prefix that another name of a vendor means, or an empty string."""
    name = prefix.lower().replace("_", "-")
    return did_you_mean(_OTHER_NAMES.get(name, name), PREFIXES)


def _unknown_prefix_error(name: str, prefix: str) -> InputError:
    return InputError(
        f"model {name!r}: no vendor has the prefix {prefix!r}{meant_prefix(prefix)}; known: "
        f"{', '.join(each.prefix for each in VENDORS)}; if the colon belongs to the name of a model at your own server, "
        f"name the server ('ollama:{name}'), or set base_url or OPENAI_BASE_URL"
    )


def _origin(url: str) -> str:
    """Return scheme, host and port of a URL in one form; empty if it has none."""
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:  # the first call reports the invalid URL
        return ""
    return f"{parts.scheme}://{parts.hostname}:{port}" if parts.hostname else ""


def _path(url: str) -> str:
    return urlsplit(url).path.rstrip("/")
