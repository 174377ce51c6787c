"""Digest of the page's sources, stored in the bundle, so that a test detects an outdated bundle.

python3 digest.py
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path

WEB = Path(__file__).resolve().parent
KEPT = WEB.parent / "bundle" / "SOURCES"

_EXCLUDED = {"node_modules", "__pycache__", "digest.py"}


def sources() -> Iterator[Path]:
    """Yield the files that the bundle is built from, in order."""
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


if __name__ == "__main__":
    KEPT.write_text(f"{digest()}\n", encoding="utf-8")
    print(f"{KEPT}: {digest()}")
