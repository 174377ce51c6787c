"""HTML page of runs: for a server, or as a report with a run inside. It sends no requests to other hosts."""

from __future__ import annotations

import html
import re
from functools import cache
from importlib.resources import files

from operad.runtime.observe.trace import Trace
from operad.runtime.values.valid_json import to_json
from operad.server.http.page_headers import source_hash
from operad.server.view.picture import details, picture

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
    return _page(title, _json(runs), connect=_LIVE, name="runs")


def report(trace: Trace) -> str:
    """Return the page with a run inside, as a self-contained file."""
    return _page(trace.workflow or "run", _json(picture(trace)), _json(details(trace)), connect=_REPORT)


def _page(title: str, picture: str = "", details: str = "", *, connect: str, name: str = "run") -> str:
    return fill(name, connect=connect, title=html.escape(title[:200]), picture=picture, details=details)


def fill(name: str, *, connect: str = "'none'", **parts: str) -> str:
    """Return a page of the bundle with parts in place of their names in double braces, and its content security policy.

    Args:
        connect: Source that the page may request.
    """
    text, own = _bundle(name)
    parts["policy"] = (
        f"default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; connect-src {connect}; {own}"
    )
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts.get(found[1], found[0]), text)


def _json(value: object) -> str:
    """Return JSON that can be embedded in a script element, without characters that could end it."""
    return re.sub("[<>&]", lambda found: f"\\u{ord(found[0]):04x}", to_json(value))


@cache
def _bundle(name: str) -> tuple[str, str]:
    """Return a page that `make studio` has built, and its style and script as directives of a policy."""
    text = (files("operad.server.view") / "bundle" / f"{name}.html").read_text(encoding="utf-8")
    [style] = re.findall("<style>(.*?)</style>", text, re.DOTALL)
    script = "".join(re.findall("<script>(.*?)</script>", text, re.DOTALL))
    return text, f"style-src {source_hash(style)}; script-src {source_hash(script)}"
