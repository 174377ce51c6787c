"""Program for typesetting: Typst markup on stdin, a PDF or a picture on stdout. `markdown` runs it as a child process.

The program imports nothing of this package, so that it starts fast.
"""

from __future__ import annotations

import json
import sys


def main() -> None:
    """Read ``{"source", "format", "fonts"}`` as JSON and write the file; on an error, exit with a message."""
    import typst

    request = json.load(sys.stdin.buffer)
    try:
        output = typst.compile(
            request["source"].encode(),
            root=".",  # an empty folder
            package_path=".",
            package_cache_path=".",
            font_paths=request["fonts"],
            format=request["format"],
        )
    except typst.TypstError as error:
        sys.exit("; ".join([error.message.removeprefix("assertion failed: "), *error.hints]))
    sys.stdout.buffer.write(output)


if __name__ == "__main__":
    main()
