"""Web search: the interface of search providers, and the provider SerpApi."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, cast
from urllib.parse import urlsplit

from pydantic import ConfigDict, Field

from operad.operators.web.fetch import Fetched, Guard, fetch
from operad.runtime.models.addresses import one_line, without_key
from operad.runtime.values.api_key import ApiKey, key_text
from operad.runtime.values.errors import FetchError
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
        results = [_result(cast("dict[str, Any]", item)) for item in _list(organic_results) if isinstance(item, dict)]
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


def _result(item: dict[str, Any]) -> SearchResult:
    def text(name: str) -> str:
        value = item.get(name)
        return value.strip() if isinstance(value, str) else ""

    return SearchResult(text("title"), text("link"), text("snippet"), text("source"), text("date"))
