"""HTML page of runs: for a server, or as a report with a run inside. It sends no requests to other hosts."""

from __future__ import annotations

import html
import re
from functools import cache
from importlib.resources import files

from operad.runtime.observe.trace import Trace
from operad.runtime.values.valid_json import to_json
from operad.server.page_headers import source_hash
from operad.server.view.picture import details, picture

_SCRIPTS = (
    "dom", "markdown", "run", "source", "layout", "graph", "timeline", "answer", "tools", "operator", "diff", "rounds", "search",
    "replay", "main",
)  # fmt: skip
_LIST = ("dom", "runs")
_LIVE, _REPORT = "'self'", "'none'"


def page(title: str) -> str:
    """Return the page that requests ``data/picture``, ``data/changes`` and so on from its server, below its path.

    Args:
        title: Title of the window until the run's name is known.
    """
    return _page(title, connect=_LIVE)


def runs_page(title: str, runs: object) -> str:
    """Return the list of runs, which requests ``data/runs`` below its path.

    Args:
        runs: The runs, as ``data/runs`` answers.
    """
    return _page(title, _json(runs), connect=_LIVE, file="runs.html", scripts=_LIST)


def report(trace: Trace) -> str:
    """Return the page with a run inside, as a self-contained file."""
    return _page(trace.workflow or "run", _json(picture(trace)), _json(details(trace)), connect=_REPORT)


def _page(
    title: str,
    picture: str = "",
    details: str = "",
    *,
    connect: str,
    file: str = "page.html",
    scripts: tuple[str, ...] = _SCRIPTS,
) -> str:
    look, script = style(), _script(scripts)
    policy = (
        f"default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; connect-src {connect};"
        f" style-src {source_hash(look)}; script-src {source_hash(script)}"
    )
    return fill(
        file,
        policy=policy,
        title=html.escape(title[:200]),
        style=look,
        script=script,
        picture=picture,
        details=details,
    )


def fill(file: str, **parts: str) -> str:
    """Return a page with parts in place of their names in double braces."""
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _file(file))


def _json(value: object) -> str:
    """Return JSON that can be embedded in a script element, without characters that could end it."""
    return re.sub("[<>&]", lambda found: f"\\u{ord(found[0]):04x}", to_json(value))


@cache
def style() -> str:
    """Return the style of the pages."""
    return _file("page.css")


@cache
def _script(names: tuple[str, ...]) -> str:
    """Return scripts joined into one, in a scope of their own."""
    texts = "\n".join(_file(f"{name}.js") for name in names)
    return f'(() => {{\n"use strict";\n{texts}}})();'


def _file(name: str) -> str:
    return (files("operad.server.view") / "page" / name).read_text(encoding="utf-8")
