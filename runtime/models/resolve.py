"""The model that options and environment variables select."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import cast

from operad.runtime.models.addresses import without_login
from operad.runtime.models.model import DEFAULT_MODEL, Model
from operad.runtime.models.names import OPENAI, VENDORS, Located, locate_told
from operad.runtime.values.errors import InputError, did_you_mean

EMBEDDED = "embedded"
"""Name of the model that runs inside this process."""

_NO_MODEL = (
    "no model is configured: set OPENAI_API_KEY, or OPENAI_BASE_URL and OPERAD_MODEL, in the environment; or the key of "
    "another vendor, and a model of it: OPERAD_MODEL=mistral:…; or use --model and --base-url; or write "
    "`model: {name: …, base_url: …}` in the YAML. "
    "The embedded model needs no key, but can only pick from given choices: OPERAD_MODEL=embedded, "
    '--model embedded, `model: embedded`, or MonoModelReasoner("embedded")'
)

_NO_MODEL_IN_PYTHON = (
    "no model is configured: give one, as model=Model(name=…, base_url=…) in Workflow(…) or run(…); or set "
    "OPENAI_API_KEY, or OPENAI_BASE_URL and OPERAD_MODEL, in the environment"
)


class NoModelError(InputError):
    """No model is configured.

    Attributes:
        in_python: Message for callers in Python, who can give a model to a workflow or a run.
    """

    in_python = _NO_MODEL_IN_PYTHON


def is_embedded(name: str) -> bool:
    """Return True if the name denotes a model inside this process: ``embedded``, or the path of a ``.gguf`` file."""
    return name == EMBEDDED or name.endswith(".gguf")


def resolve_model(
    name: str | None = None,
    base_url: str | None = None,
    api_key: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> Model:
    """Return the model that options and environment variables select.

        model = resolve_model("mistral:mistral-large-latest", api_key="…")
        print(model.describe())

    An option takes precedence over its variable. A prefix of the name selects the vendor; other names are those of
    models at `base_url`, or else at the endpoint of the environment, by default OpenAI; see `names.locate`. The name
    ``embedded``, or the path of a ``.gguf`` file, selects a model inside this process, and the variables for endpoint and
    key are ignored.

    The price comes from the user's file of prices, if the model is there.

    Args:
        name: Name of the model; by default the value of ``OPERAD_MODEL``, or else `DEFAULT_MODEL`.
        base_url: URL of the endpoint; by default that of the vendor.
        api_key: API key; by default that of the vendor in the environment. With a `base_url` that is not a vendor's, that
            is ``OPENAI_API_KEY``.
        environ: Environment variables; by default `os.environ`.

    Raises:
        InputError: No model is configured; the key of the vendor is missing; a model inside this process is named
            together with an endpoint; or the file of prices cannot be read.
        InvalidError: The file of prices is invalid.
    """
    from operad.runtime.models.embedded import EmbeddedModel
    from operad.runtime.models.prices import users_price

    environ = os.environ if environ is None else environ
    name = name or environ.get("OPERAD_MODEL")
    if name and is_embedded(name):
        if base_url:
            raise InputError(
                f"model {name!r} runs inside this process, and {without_login(base_url)} is named as its endpoint; "
                "name a model of that endpoint, or leave the endpoint out"
            )
        return cast("Model", EmbeddedModel() if name == EMBEDDED else EmbeddedModel.of(name))
    endpoint = base_url or environ.get(OPENAI.moved_by)
    has_key = bool(api_key or OPENAI.key(environ))
    if not (name or endpoint or has_key):
        raise NoModelError(f"{_NO_MODEL}{_keys_hint(environ)}")
    located = locate_told(name or DEFAULT_MODEL, base_url, api_key or "", environ)
    if located.lacks_key:
        raise _no_key_error(name or DEFAULT_MODEL, located, environ)
    return Model(
        name=name or DEFAULT_MODEL,
        base_url=located.base_url,
        api_key=located.key or None,
        price=users_price(located.name, located.base_url, environ),
    )


def _no_key_error(name: str, located: Located, environ: Mapping[str, str]) -> InputError:
    """Return the error for a model whose vendor needs a key that is not set."""
    vendor = located.vendor or OPENAI
    if vendor is OPENAI and located.name == name:
        return InputError(
            f"model {name!r}{did_you_mean(name, [EMBEDDED])}: no endpoint is configured; set OPENAI_API_KEY, or "
            f"OPENAI_BASE_URL for an endpoint of your own{_keys_hint(environ)}"
        )
    return InputError(f"model {name!r}: {' or '.join(vendor.keys)} is not set; set it to your key of {vendor.prefix}")


def _keys_hint(environ: Mapping[str, str]) -> str:
    """Return a note on the keys of vendors in the environment, which a prefix would select; empty if there are none."""
    found = [each for each in VENDORS if each.needs_key and each is not OPENAI and each.key(environ)]
    if not found:
        return ""
    variable = next(variable for variable in found[0].keys if environ.get(variable))
    return f" ({variable} is set: a model of {found[0].prefix} is named as {found[0].prefix}:NAME)"
