"""The command that installs an extra of Operad."""

from __future__ import annotations

import json
import shlex
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


@cache
def pip_install(extra: str) -> str:
    """Return the command that installs an extra, from the place that this Operad was installed from.

    That is the package index, or a clone or an archive on this machine, which pip records (``direct_url.json``, PEP 610):

        pip_install("serve")  # pip install 'operad[serve]', or: pip install '/home/ada/operad[serve]'
    """
    from importlib.metadata import PackageNotFoundError, distribution  # imported late: commands start faster
    from urllib.request import url2pathname

    command, source = "pip install", "operad"
    recorded: dict[str, Any] = {}
    try:
        installed = distribution("operad")
        recorded = json.loads(installed.read_text("direct_url.json") or "{}")
        if (installed.read_text("INSTALLER") or "").strip() == "uv":
            command = "uv pip install"  # environments made by uv are without pip
    except PackageNotFoundError:  # run from its sources
        pass
    url = urlsplit(str(recorded.get("url", "")))
    if url.scheme == "file" and Path(path := url2pathname(url.path)).exists():
        source = path
        if recorded.get("dir_info", {}).get("editable"):
            command += " -e"
    return f"{command} {shlex.quote(f'{source}[{extra}]')}"
