"""Measure the size of the documentation's pages, and the time to their first paint, in Chromium.

    make docs && python test/benchmark/bench_site.py

This process serves the site with compression. Each page is opened five times in a new context without a cache; the median
counts. The exit status is 1 if a page sends a request to another host.
"""

from __future__ import annotations

import argparse
import gzip
import shutil
import statistics
import sys
import threading
from contextlib import suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[2]
PAGES = ("index.html", "get_started.html", "public_api.html", "api.html", "performance.html")
TIMES = 5


class Site(SimpleHTTPRequestHandler):
    """Server of files, which compresses text."""

    def log_message(self, format: str, *args: object) -> None: ...

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        if not path.is_file():
            self.send_error(404)
            return
        body, kind = path.read_bytes(), self.guess_type(path)
        self.send_response(200)
        if kind.startswith("text/") or path.suffix in (".js", ".json", ".svg"):
            body = gzip.compress(body)
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with suppress(ConnectionError):  # the page was left
            self.wfile.write(body)


def measure(browser: Browser, base: str, page: str) -> tuple[float, int, list[str]]:
    """Return the milliseconds to the first contentful paint, the bytes transferred, and the requests to other hosts."""
    context = browser.new_context()
    tab = context.new_page()
    requests: list[str] = []
    tab.on("request", lambda request: requests.append(request.url))
    tab.goto(f"{base}/{page}", wait_until="networkidle")
    painted: float = tab.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    weight: int = tab.evaluate(
        "[...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]"
        ".reduce((sum, each) => sum + each.encodedBodySize, 0)"
    )
    context.close()
    return painted, weight, [url for url in requests if not url.startswith((base, "data:", "blob:"))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--site", type=Path, default=ROOT / "build/docs", help="the built site")
    args = parser.parse_args()
    if not (args.site / "index.html").is_file():
        sys.exit(f"{args.site} holds no site; make docs builds it")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Site, directory=str(args.site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_port}"
    table = Table("page", "first paint, ms", "size, kB", title="Pages of the documentation, without a cache")
    elsewhere: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for page in PAGES:
            found = [measure(browser, base, page) for _ in range(TIMES)]
            elsewhere += [url for *_, others in found for url in others]
            table.add_row(page, f"{statistics.median(each[0] for each in found):.0f}", f"{found[0][1] / 1000:.0f}")
        browser.close()
    server.shutdown()
    Console().print(table)
    if elsewhere:
        sys.exit(f"asked other hosts: {', '.join(sorted(set(elsewhere)))}")


if __name__ == "__main__":
    main()
