"""Digest of the pages' sources, stored in the studio's bundle so that a test detects outdated bundles; and their sizes.

python3 digest.py
"""

import gzip
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

WEB = Path(__file__).resolve().parent
STUDIO = WEB.parent / "bundle"
KEPT = STUDIO / "SOURCES"

PAGES = {
    "run page and report": WEB.parents[1] / "view" / "bundle" / "run.html",
    "list of runs": WEB.parents[1] / "view" / "bundle" / "runs.html",
    "report of an evaluation": WEB.parents[1] / "view" / "bundle" / "evaluation.html",
    "chat": WEB.parents[1] / "api" / "bundle" / "chat.html",
    "inbox": WEB.parents[1] / "api" / "bundle" / "inbox.html",
}

BUDGET = {
    "studio, first": 260,
    "studio, all": 900,
    "run page and report": 90,
    "list of runs": 14,
    "report of an evaluation": 8,
    "chat": 60,
    "inbox": 14,
}
"""Maximum size of each page, compressed, in thousands of bytes."""

_EXCLUDED = {"node_modules", "__pycache__", "digest.py"}


def sources() -> Iterator[Path]:
    """Yield the files that the bundles are built from, in order."""
    for path in sorted(WEB.rglob("*"), key=lambda each: each.relative_to(WEB).as_posix()):
        parts = path.relative_to(WEB).parts
        if path.is_file() and not _EXCLUDED.intersection(parts) and not parts[-1].startswith("."):
            yield path


def digest() -> str:
    """Return the digest of the sources: their names and contents."""
    hasher = hashlib.sha256()
    for path in sources():
        name, content = path.relative_to(WEB).as_posix().encode(), path.read_bytes()
        hasher.update(f"{len(name)} {len(content)}\n".encode() + name + content)
    return hasher.hexdigest()


def sizes() -> dict[str, float]:
    """Return the size of each page, compressed, in thousands of bytes: of the studio, what it loads first, and all."""
    first = ["index.html", *re.findall(r'="\./(assets/[^"]+)"', (STUDIO / "index.html").read_text(encoding="utf-8"))]
    groups = {
        "studio, first": [STUDIO / name for name in first],
        "studio, all": [STUDIO / "index.html", *(STUDIO / "assets").iterdir()],
        **{name: [path] for name, path in PAGES.items()},
    }
    return {name: sum(len(gzip.compress(each.read_bytes())) for each in group) / 1000 for name, group in groups.items()}


if __name__ == "__main__":
    KEPT.write_text(f"{digest()}\n", encoding="utf-8")
    for name, size in sizes().items():
        print(f"{name}: {size:.1f} kB compressed, of {BUDGET[name]} kB at most")
