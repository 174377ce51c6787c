"""Measure the time of reading ordinary documents: in this process, and in the limited process of a reader.

    python test/benchmark/bench_documents.py [--turns 30]

The documents have the text of ten pages. Each turn reads a document both ways, one after the other; the table shows the
medians, and the median of the differences. The first document starts the process and imports its parser, in a new Python;
without the process, the parser is imported, too. The last line is a knowledge base of a thousand small text files.
"""

from __future__ import annotations

import argparse
import io
import multiprocessing
import tempfile
import zipfile
from collections.abc import Callable
from email.message import EmailMessage
from importlib import import_module
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from page import end, markdown, worsened, write_into
from rich.console import Console
from rich.table import Table

from operad import Documents, FileDescriptor
from operad.operators.media.documents import MAX_DOCUMENT_CHARS, read_document, text_of

PAGES = 10
LINES = [f"Line {number}: figs are ripe when they droop, and dates when they wrinkle." for number in range(40)]
WORDS = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
LINKS = "http://schemas.openxmlformats.org/package/2006/relationships"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"


def pdf() -> bytes:
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(PAGES))
    drawn = "BT /F1 12 Tf 20 780 Td 14 TL " + " ".join(f"({line}) Tj T*" for line in LINES) + " ET"
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {PAGES} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number in range(PAGES):
        objects += [
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents {5 + 2 * number} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>",
            f"<< /Length {len(drawn)} >>\nstream\n{drawn}\nendstream",
        ]
    written, table = "%PDF-1.4\n", ""
    for number, content in enumerate(objects, 1):
        table += f"{len(written):010} 00000 n \n"
        written += f"{number} 0 obj\n{content}\nendobj\n"
    size = len(objects) + 1
    return (
        f"{written}xref\n0 {size}\n0000000000 65535 f \n{table}"
        f"trailer << /Size {size} /Root 1 0 R >>\nstartxref\n{len(written)}\n%%EOF\n"
    ).encode()


def docx() -> bytes:
    body = "".join(f"<w:p><w:r><w:t>{line}</w:t></w:r></w:p>" for line in LINES * PAGES)
    link = f'<Relationships xmlns="{LINKS}"><Relationship Id="r" Type="{OFFICE}" Target="word/document.xml"/></Relationships>'
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("_rels/.rels", link)
        archive.writestr("word/document.xml", f'<w:document xmlns:w="{WORDS}"><w:body>{body}</w:body></w:document>')
    return packed.getvalue()


def html() -> bytes:
    return ("<html><body>" + "".join(f"<p>{line}</p>" for line in LINES * PAGES) + "</body></html>").encode()


def xlsx() -> bytes:
    openpyxl: Any = import_module("openpyxl")
    book, packed = openpyxl.Workbook(), io.BytesIO()
    for number, line in enumerate(LINES * PAGES):
        book.active.append([number, line])
    book.save(packed)
    return packed.getvalue()


def email() -> bytes:
    message = EmailMessage()
    message["Subject"] = "Figs"
    message.set_content("\n".join(LINES * PAGES))
    return message.as_bytes()


DOCUMENTS: dict[str, Callable[[], bytes]] = {".pdf": pdf, ".docx": docx, ".html": html, ".xlsx": xlsx, ".eml": email}


def seconds(function: Callable[[], object]) -> float:
    began = perf_counter()
    function()
    return perf_counter() - began


def _ways(suffix: str, turns: int) -> tuple[list[float], list[float]]:
    """Return the times of reading a document in this process, and in a limited one, in seconds."""
    data = DOCUMENTS[suffix]()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"a{suffix}")
        path.write_bytes(data)
        file = FileDescriptor.of(path)
        ways = (lambda: text_of(data, suffix, MAX_DOCUMENT_CHARS)), (lambda: read_document(file))
        assert ways[0]() == ways[1]()
        times: tuple[list[float], list[float]] = [], []
        for _ in range(turns):
            for taken, way in zip(times, ways, strict=True):
                taken.append(seconds(way))
        return times


def first_time(suffix: str, limited: bool) -> float:
    """Return the seconds of the first document in a new process."""
    data = DOCUMENTS[suffix]()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"a{suffix}")
        path.write_bytes(data)
        file = FileDescriptor.of(path)
        return seconds(lambda: read_document(file) if limited else text_of(data, suffix, MAX_DOCUMENT_CHARS))


def in_new_process(function: Callable[..., float], *arguments: object) -> float:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)


def folder_seconds() -> float:
    """Return the time in which a thousand small text files are read and indexed, in seconds."""
    with tempfile.TemporaryDirectory() as folder:
        for number in range(1_000):
            Path(folder, f"{number}.md").write_text(f"# Note {number}\n\n{LINES[number % len(LINES)]}\n")
        library = Documents(folder)
        taken = seconds(lambda: library.retrieve("figs"))
        library.close()
        return taken


def table_of(turns: int) -> Table:
    title = "milliseconds per document"
    table = Table(
        "document", "in this process", "in a reader", "difference", "first, in this", "first, in a reader", title=title
    )
    for suffix in DOCUMENTS:
        here, there = _ways(suffix, turns)
        differences = [after - before for before, after in zip(here, there, strict=True)]
        firsts = [min(in_new_process(first_time, suffix, limited) for _ in range(2)) for limited in (False, True)]
        table.add_row(
            suffix,
            *(f"{1_000 * each:.1f}" for each in (median(here), median(there), median(differences))),
            *(f"{1_000 * each:.0f}" for each in firsts),
        )
    taken = min(folder_seconds() for _ in range(2))
    table.add_row("1,000 text files", f"{1_000 * taken:.0f}", "–", "–", "–", "–")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=30)
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the table between the marks of this file")
    args = parser.parse_args()
    table = table_of(args.turns)
    Console(width=140).print(table)
    if args.page:
        text = markdown([table], "python test/benchmark/bench_documents.py")
        worse = worsened(args.page, text, "documents", [*DOCUMENTS])
        write_into(args.page, text, "documents")
        end(worse)


if __name__ == "__main__":
    main()
