"""Web search: the interface of search providers, and the providers SerpApi, SearXNG, Tavily and DuckDuckGo."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import unescape
from typing import Any, ClassVar, Protocol, cast
from urllib.parse import parse_qs, urlencode, urlsplit

from pydantic import ConfigDict, Field

from operad.operators.web.fetch import Fetched, Guard, fetch
from operad.runtime.models.addresses import one_line, without_key
from operad.runtime.values.errors import FetchError
from operad.runtime.values.secret import ApiKey, key_text
from operad.runtime.values.value import Value


@dataclass(frozen=True, slots=True)
class SearchResult:
    """A page that a search found.

    Attributes:
        content: Excerpt, mostly one or two sentences.
        date: Date of the page, as the provider writes it.
    """

    title: str
    url: str
    content: str
    site_name: str = ""
    date: str = ""


class SearchProvider(Protocol):
    """Protocol of search providers."""

    async def search(self, query: str, *, limit: int = 10) -> list[SearchResult]:
        """Return the results, best first.

        Args:
            limit: Maximum number of results.

        Raises:
            FetchError: The provider cannot be reached, or refuses the search.
        """
        ...


class SerpApi(Value):
    """Google search by SerpApi, or a server with the same API.

    Attributes:
        api_key: API key. Never shown.
        base_url: URL of the API; may be on this machine.
        timeout: Maximum duration of a search, in seconds.
    """

    model_config = ConfigDict(hide_input_in_errors=True)  # the key, and a URL with a password

    api_key: ApiKey
    base_url: str = "https://serpapi.com/search.json"
    timeout: float = Field(default=30.0, gt=0)

    _indifferent: ClassVar[frozenset[str]] = frozenset({"api_key", "timeout"})

    async def search(self, query: str, *, limit: int = 10) -> list[SearchResult]:
        """Return Google's results; an empty list if there are none.

        Raises:
            FetchError: SerpApi cannot be reached, refuses the search (key, quota), or does not speak its protocol.
        """
        key = key_text(self.api_key)
        answer = await fetch(
            self.base_url,
            params={"engine": "google", "q": query, "num": str(limit), "api_key": key},
            guard=Guard(allowed_hosts=(urlsplit(self.base_url).netloc,), timeout=self.timeout),
        )
        body = self._json_object(answer)
        if (error := body.get("error")) and not _is_without_results(body):
            raise self._refusal(answer.status, one_line(without_key(str(error), key)))
        if answer.status >= 400:
            raise self._refusal(answer.status, "no reason is given")
        organic_results = body.get("organic_results")
        results = [
            _serp_result(cast("dict[str, Any]", item)) for item in _list(organic_results) if isinstance(item, dict)
        ]
        return [result for result in results if result.url][:limit]

    def _json_object(self, answer: Fetched) -> dict[str, Any]:
        """Return the JSON object of an answer; an empty one for an error without JSON."""
        try:
            body = json.loads(answer.body)
        except (ValueError, RecursionError):
            body = None
        if isinstance(body, dict):
            return cast("dict[str, Any]", body)
        if answer.status >= 400:
            return {}
        raise FetchError(f"{self.base_url} does not speak SerpApi's protocol: its answer is not a JSON object")

    def _refusal(self, status: int, reason: str) -> FetchError:
        remedy = {401: "; check the key", 429: "; wait, or check the remaining quota"}.get(status, "")
        # Status 429 stands for too many searches at once, and for a used up quota.
        transient = status >= 500 or (status == 429 and "run out" not in reason)
        return FetchError(f"{self.base_url} refuses the search ({status}): {reason}{remedy}", transient=transient)


def as_outputs(results: list[SearchResult]) -> dict[str, list[dict[str, str]]]:
    """Return the ``json`` output of a search node: the results twice, under Google's names and under common names."""
    return {
        "organic_results": [
            {"title": result.title, "link": result.url, "snippet": result.content} for result in results
        ],
        "search_results": [
            {
                "title": result.title,
                "url": result.url,
                "content": result.content,
                "site_name": result.site_name,
                "date": result.date,
            }
            for result in results
        ],
    }


def _is_without_results(body: dict[str, Any]) -> bool:
    """Return True if the error only reports that there are no results; its status is 200."""
    return "hasn't returned any results" in str(body["error"])


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _serp_result(item: dict[str, Any]) -> SearchResult:
    def text(name: str) -> str:
        value = item.get(name)
        return value.strip() if isinstance(value, str) else ""

    return SearchResult(text("title"), text("link"), text("snippet"), text("source"), text("date"))


_LONGEST = 500
"""Maximum length of a provider's message in an error, in characters."""


class _Provider(Value):
    """A provider that is asked by HTTP.

    Attributes:
        base_url: URL of the provider; may be on this machine.
        timeout: Maximum duration of a search, in seconds.
    """

    model_config = ConfigDict(hide_input_in_errors=True)  # keys, and URLs with passwords

    base_url: str
    timeout: float = Field(default=30.0, gt=0)

    _indifferent: ClassVar[frozenset[str]] = frozenset({"timeout"})

    async def _request(self, path: str, key: str = "", **request: Any) -> Fetched:
        """Return the response of the provider to a request."""
        guard = Guard(allowed_hosts=(urlsplit(self.base_url).netloc,), timeout=self.timeout)
        answer = await fetch(self.base_url.rstrip("/") + path, guard=guard, **request)
        if answer.status >= 400:
            reason = " ".join(answer.text()[:_LONGEST].split())
            remedies = {401: "; check the key", 403: "; does it allow this format?", 429: "; wait, or ask less often"}
            raise FetchError(
                f"{self.base_url} refuses the search ({answer.status}): "
                f"{one_line(without_key(reason, key)) or 'no reason is given'}{remedies.get(answer.status, '')}",
                transient=answer.status == 429 or answer.status >= 500,
            )
        return answer

    def _results(self, answer: Fetched, limit: int) -> list[SearchResult]:
        """Return the results of a JSON answer with a list `results` of objects."""
        try:
            body = json.loads(answer.body)
        except (ValueError, RecursionError) as error:
            raise FetchError(f"{self.base_url} answers no JSON; is this the address of such a provider?") from error
        results_list = cast("Mapping[str, Any]", body).get("results") if isinstance(body, dict) else None
        if not isinstance(results_list, list):
            raise FetchError(f"{self.base_url} answers JSON without a list `results`; is it such a provider?")
        items = [cast("Mapping[str, Any]", each) for each in cast("list[Any]", results_list) if isinstance(each, dict)]
        results = [_result(item) for item in items]
        return [result for result in results if result.url][:limit]


class SearxNG(_Provider):
    """Search provider: a SearXNG server whose settings allow the format json.

    Attributes:
        base_url: URL of the server, such as ``http://localhost:8080``.
        timeout: Maximum duration of a search, in seconds.
    """

    async def search(self, query: str, *, limit: int = 10) -> list[SearchResult]:
        """Search, the best results first.

        Raises:
            FetchError: The server cannot be reached, refuses, or answers no JSON.
        """
        return self._results(await self._request("/search", params={"q": query, "format": "json"}), limit)


class Tavily(_Provider):
    """Search provider: Tavily.

    Attributes:
        api_key: API key. Never shown.
        base_url: URL of the API.
        timeout: Maximum duration of a search, in seconds.
    """

    api_key: ApiKey
    base_url: str = "https://api.tavily.com"

    _indifferent: ClassVar[frozenset[str]] = frozenset({"api_key", "timeout"})

    async def search(self, query: str, *, limit: int = 10) -> list[SearchResult]:
        """Search, the best results first.

        Raises:
            FetchError: Tavily cannot be reached, or refuses.
        """
        key = key_text(self.api_key)
        headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
        body = json.dumps({"query": query, "max_results": limit})
        return self._results(await self._request("/search", key, method="POST", headers=headers, body=body), limit)


class DuckDuckGo(_Provider):
    """Search provider: DuckDuckGo's HTML page, without key. Too many searches from one IP address are refused.

    Attributes:
        timeout: Maximum duration of a search, in seconds.
    """

    base_url: str = "https://html.duckduckgo.com"

    async def search(self, query: str, *, limit: int = 10) -> list[SearchResult]:
        """Search, the best results first.

        Raises:
            FetchError: DuckDuckGo cannot be reached, or asks for a person.
        """
        headers = {"content-type": "application/x-www-form-urlencoded"}
        answer = await self._request("/html/", method="POST", headers=headers, body=urlencode({"q": query}))
        page = answer.text()
        results = list(_page_results(page))
        if not results and (answer.status == 202 or "anomaly" in page):
            raise FetchError(
                f"{self.base_url} asks whether a person searches; wait, or use another provider", transient=True
            )
        return results[:limit]


def _result(item: Mapping[str, Any]) -> SearchResult:
    def text(*names: str) -> str:
        return next((value.strip() for name in names if isinstance(value := item.get(name), str)), "")

    return SearchResult(
        text("title"), text("url"), text("content"), text("engine"), text("publishedDate", "published_date")
    )


_LINK = re.compile(r'<a\b[^>]*\bclass="result__a"[^>]*>')
_HREF = re.compile(r'\bhref="([^"]*)"')
_SNIPPET = re.compile(r'class="result__snippet"[^>]*>')
_TAG = re.compile(r"<[^>]*>")


def _page_results(page: str) -> Iterator[SearchResult]:
    """Yield the results on a page of DuckDuckGo."""
    links = list(_LINK.finditer(page))
    for link, end in zip(links, [*(each.start() for each in links[1:]), len(page)], strict=False):
        href = _HREF.search(link[0])
        url = unescape(href[1]) if href else ""
        target = parse_qs(urlsplit(url).query).get("uddg", [])
        url = target[0] if target else url
        snippet = _SNIPPET.search(page, link.end(), end)
        if url.startswith(("http://", "https://")) and "duckduckgo.com/y.js" not in url:  # others are advertisements
            yield SearchResult(_text(page, link.end(), end), url, _text(page, snippet.end(), end) if snippet else "")


def _text(page: str, start: int, end: int) -> str:
    """Return the text of a link, from its start tag to its end tag."""
    close = page.find("</a>", start, end)
    return " ".join(unescape(_TAG.sub("", page[start : end if close < 0 else close])).split())
