"""Built-in tools: reading and searching the web, Wikipedia, the time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, cast
from urllib.parse import quote
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from operad.operators.services import Services
from operad.operators.web.fetch import Fetched
from operad.operators.web.search import as_outputs
from operad.runtime.models.addresses import one_line
from operad.runtime.tools.tool import Tool
from operad.runtime.values.errors import FetchError, InputError, MissingExtraError, ToolError
from operad.runtime.values.function_threads import in_function_thread

MOST_TEXT = 100_000
"""Maximum length of the text of a page, in characters."""

WIKIPEDIA = "https://{language}.wikipedia.org/w/api.php"
"""URL of the API of an edition of Wikipedia."""


def web_reader(services: Services) -> Tool:
    """Return a tool that reads a web page, if the guard of the services allows it."""

    async def read_page(url: str) -> str:
        """Read a page of the web as Markdown.

        Args:
            url: The address, http or https.
        """
        page = await services.fetch(url, services.guard)
        if page.status >= 400:
            raise FetchError(f"the page answers with status {page.status}", transient=_is_transient(page.status))
        return (await in_function_thread("tool 'web_reader'", _page_text, page))[:MOST_TEXT]

    return Tool.of(read_page, name="web_reader").model_copy(update={"read_only": True})


def web_search(services: Services) -> Tool:
    """Return a tool that searches the web with the search provider of the services."""

    async def search(query: str, limit: int = 10) -> dict[str, Any]:
        """Search the web.

        Args:
            query: What to look for.
            limit: How many results at most.
        """
        if services.search is None:
            raise ToolError("no search provider is set; name one as `search` in the services")
        results = await services.search.search(query, limit=max(1, min(limit, 50)))
        return {"results": as_outputs(results)["search_results"]}

    return Tool.of(search, name="web_search").model_copy(update={"read_only": True})


def wikipedia(services: Services, address: str = WIKIPEDIA) -> Tool:
    """Return a tool that looks articles up in Wikipedia.

    Args:
        services: Services whose guard limits the requests.
        address: URL of the API, with ``{language}`` in place of the edition.
    """

    async def look_up(query: str, language: str = "en") -> str:
        """Look something up in Wikipedia: the beginnings of the articles that fit best.

        Args:
            query: What to look for.
            language: The language of the edition, such as en or de.
        """
        if not (language.isascii() and language.replace("-", "").isalpha() and len(language) <= 20):
            raise ToolError(
                f"{language!r} is not the code of a language; write it as in wikipedia.org addresses, such as en, de or zh"
            )
        query_string = (
            f"?action=query&format=json&formatversion=2&generator=search&gsrsearch={quote(query)}&gsrlimit=3"
            "&prop=extracts|info&exintro=1&explaintext=1&exlimit=3&inprop=url"
        )
        response = await services.fetch(address.format(language=language) + query_string, services.guard)
        if response.status >= 400:
            raise _refusal(response.status, response.text()[:MOST_TEXT])
        try:
            body = json.loads(response.body)
            if refused := body.get("error"):  # the status of an error of the API itself is mostly 200
                raise _refusal(response.status, str(refused.get("info") or refused.get("code")))
            pages = cast("list[Mapping[str, Any]]", body.get("query", {}).get("pages", []))
            ordered = sorted(pages, key=lambda page: page.get("index", 0))
            texts = [f"# {page['title']}\n{page.get('fullurl', '')}\n\n{page.get('extract', '')}" for page in ordered]
        except (ValueError, AttributeError, TypeError, KeyError, RecursionError) as error:
            raise FetchError(f"the answer of Wikipedia could not be read (status {response.status})") from error
        return "\n\n".join(texts)[:MOST_TEXT] or f"no article fits {query!r}"

    return Tool.of(look_up, name="wikipedia").model_copy(update={"read_only": True})


def _refusal(status: int, reason: str) -> FetchError:
    remedy = "; wait, or ask less often" if status == 429 else ""
    return FetchError(
        f"Wikipedia refuses the search ({status}): {one_line(reason) or 'no reason is given'}{remedy}",
        transient=_is_transient(status),
    )


def _is_transient(status: int) -> bool:
    """Return True if the same request may succeed a little later."""
    return status == 429 or status >= 500


def current_time() -> Tool:
    """Return a tool that tells the time."""

    def now(zone: str = "UTC") -> str:
        """Tell the date and time.

        Args:
            zone: The time zone, such as Europe/Berlin.
        """
        if zone.upper() == "UTC":
            return datetime.now(UTC).isoformat(timespec="seconds")
        try:
            return datetime.now(ZoneInfo(zone)).isoformat(timespec="seconds")
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise ToolError(f"unknown time zone {zone!r}; write it as in Europe/Berlin") from error

    return Tool.of(now, name="current_time").model_copy(update={"read_only": True})


def _page_text(page: Fetched) -> str:
    """Return a page as Markdown if it is HTML, otherwise its text."""
    text = page.text()
    if page.content_type not in ("text/html", "application/xhtml+xml"):
        return text
    from operad.operators.media.documents import (
        html_as_markdown,
    )  # imported late, because it imports the readers of documents

    try:
        return html_as_markdown(text)
    except MissingExtraError:  # the HTML itself is readable, too
        return text
    except InputError as error:
        raise FetchError(f"the page {error}") from error
