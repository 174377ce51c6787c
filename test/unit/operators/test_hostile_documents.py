"""Documents of a few kilobytes that would take minutes or gigabytes: the process of the reader ends at its limits."""

import gzip
import io
import re
import struct
import zipfile
import zlib
from importlib.util import find_spec

import pytest

from operad.operators.media.documents import read_document
from operad.runtime import FileDescriptor, InputError
from operad.runtime.knowledge.extract import extract
from operad.runtime.knowledge.reader_process import ReadingLimits

# looked for, not imported: readers are other processes
pytestmark = pytest.mark.skipif(None in map(find_spec, ("markitdown", "pypdfium2")), reason="needs the extra documents")

LIMITS = ReadingLimits(seconds=1, memory_bytes=200 * 2**20)


def stream(content, entries=""):
    return f"<< /Length {len(content)} {entries} >> stream\n".encode() + content + b"\nendstream"


def pdf(objects):
    """A PDF of objects, as bytes or texts, by number; object 1 is the catalog."""
    written, places = b"%PDF-1.4\n", {}
    for number, content in objects.items():
        places[number] = len(written)
        content = content if isinstance(content, bytes) else content.encode()
        written += b"%d 0 obj\n" % number + content + b"\nendobj\n"
    table = b"".join(b"%d 1\n%010d 00000 n \n" % (number, place) for number, place in places.items())
    end = b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % (max(objects) + 1, len(written))
    return written + b"xref\n0 1\n0000000000 65535 f \n" + table + end


def page(content, resources="", **more):
    """A PDF of one page."""
    return pdf(
        {
            1: "<< /Type /Catalog /Pages 2 0 R >>",
            2: "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
            3: "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 4 0 R /Resources << "
            f"/Font << /F1 5 0 R >> {resources} >> >>",
            4: content,
            5: "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
            **{int(name[1:]): each for name, each in more.items()},
        }
    )


def doubling(entries, levels=30):
    """Objects, each of which draws the next one twice."""
    objects = {}
    for level in range(levels):
        drawn = b"/X Do /X Do" if level < levels - 1 else b"BT /F1 12 Tf 10 10 Td (a) Tj ET"
        resources = f"/Resources << /Font << /F1 5 0 R >> /XObject << /X {7 + level} 0 R >> >>"
        objects[f"o{6 + level}"] = stream(drawn, f"{entries} /BBox [0 0 600 800] {resources}")
    return objects


def deflated(content, entries=""):
    return stream(zlib.compress(content, 9), f"/Filter /FlateDecode {entries}")


def twice_deflated(size):
    return stream(zlib.compress(zlib.compress(bytes(size), 9), 9), "/Filter [/FlateDecode /FlateDecode]")


def object_stream():
    content = b"".join(b"%d %d " % (100 + n, n) for n in range(200_000)) + b"0 " * 200_000
    return page(stream(b"BT /F1 12 Tf (a) Tj ET"), o6=deflated(content, "/Type /ObjStm /N 200000 /First 2288895"))


def chain():
    """A PDF whose tables of objects refer to each other in a circle."""
    data = page(stream(b"BT /F1 12 Tf (a) Tj ET"))
    place = data.rindex(b"xref\n0 1")
    return data.replace(b"/Root 1 0 R", b"/Root 1 0 R /Prev %d" % place)


IMAGE = "/Type /XObject /Subtype /Image /Width 60000 /Height 60000 /ColorSpace /DeviceRGB /BitsPerComponent 8"
TEXT = b"BT /F1 12 Tf (a) Tj ET "

PDFS = {
    "forms in forms": lambda: page(
        stream(b"/X Do"), "/XObject << /X 6 0 R >>", **doubling("/Type /XObject /Subtype /Form")
    ),
    "patterns in patterns": lambda: page(
        stream(b"/Pattern cs /X scn 0 0 600 800 re f /P Do"),
        "/Pattern << /X 6 0 R >> /XObject << /P 6 0 R >>",
        **doubling("/Subtype /Form /PatternType 1 /PaintType 1 /TilingType 1 /XStep 1 /YStep 1"),
    ),
    "a form in itself": lambda: page(
        stream(b"/X Do"),
        "/XObject << /X 6 0 R >>",
        o6=stream(b"/X Do /X Do", "/Subtype /Form /BBox [0 0 9 9] /Resources << /XObject << /X 6 0 R >> >>"),
    ),
    "content of gigabytes": lambda: page(twice_deflated(2**29)),
    "millions of letters": lambda: page(deflated(TEXT * 2**20)),
    "nested brackets": lambda: page(stream(b"[" * 10**6)),
    "saved states": lambda: page(deflated(b"q " * 10**7)),
    "an object stream": lambda: object_stream(),
    "a circle of tables": lambda: chain(),
    "a circle of pages": lambda: pdf(
        {
            1: "<< /Type /Catalog /Pages 2 0 R >>",
            2: "<< /Type /Pages /Kids [2 0 R 2 0 R] /Count 1000000000 >>",
        }
    ),
    "pages by the billion": lambda: pdf(
        {
            1: "<< /Type /Catalog /Pages 2 0 R >>",
            2: "<< /Type /Pages /Kids [] /Count 2000000000 >>",
        }
    ),
    "columns of a predictor": lambda: page(
        deflated(bytes(2**20), "/DecodeParms << /Predictor 15 /Columns 2147483647 /Colors 32 /BitsPerComponent 16 >>")
    ),
    "LZW": lambda: page(stream(b"\x80\x0b\x60\x50\x22\x0c\x0c\x85\x01" * 2**18, "/Filter /LZWDecode")),
    "filters by the thousand": lambda: page(stream(zlib.compress(b""), f"/Filter [{'/FlateDecode ' * 5_000}]")),
    "a huge picture": lambda: page(
        stream(b"/X Do " * 1_000), "/XObject << /X 6 0 R >>", o6=deflated(bytes(2**24), IMAGE)
    ),
    "JBIG2": lambda: page(
        stream(b"/X Do"),
        "/XObject << /X 6 0 R >>",
        o6=stream(struct.pack(">LBBLLLLLBH", 0, 48, 1, 19, 2**31, 2**31, 0, 0, 0, 0), f"{IMAGE} /Filter /JBIG2Decode"),
    ),
    "a font of characters": lambda: page(
        stream(TEXT), o5="<< /Type /Font /Subtype /Type0 /Encoding /Identity-H /DescendantFonts [5 0 R] >>"
    ),
    "a deep array": lambda: page(stream(TEXT), f"/A {'[' * 100_000}"),
}

HTML = {
    "a tag of eight megabytes": lambda: b"<" + b"a" * 2**23 + b">",
    "a tag of a million attributes": lambda: b"<p " + b"".join(b"a%d=1 " % n for n in range(10**6)) + b">figs",
    "an attribute of eight megabytes": lambda: b"<a href='" + b"a&" * 2**22 + b"'>figs</a>",
    "options": lambda: b"<select>" + b"<option>a" * 200_000,
    "tags in tags": lambda: b"<div>" * 200_000,
    "lists in lists": lambda: b"<ul><li>" * 20_000,
    "tables in tables": lambda: b"<table><tr><td>" * 20_000,
    "quotes in quotes": lambda: b"<blockquote>" * 3_000 + b"figs\n" * 3_000,
    "emphasis": lambda: b"<b><i>" * 100_000 + b"figs",
    "a cell across a billion columns": lambda: b"<table><tr><td colspan=1000000000>figs</td></tr></table>",
    "entities": lambda: b"&amp" * 2**21,
    "lines": lambda: b"<br>" * 10**6,
    "paragraphs": lambda: b"<p>" * 1_000_001,
    "a declaration": lambda: b"<!" + b"[" * 2**20,
    "half a declaration": lambda: b"<![CDATA[" * 2**18,
}


def zipped(files):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return packed.getvalue()


WORDS = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
LINKS = "http://schemas.openxmlformats.org/package/2006/relationships"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def links(kind, target):
    return f'<Relationships xmlns="{LINKS}"><Relationship Id="r" Type="{OFFICE}/{kind}" Target="{target}"/></Relationships>'


def docx(body):
    text = f'<w:document xmlns:w="{WORDS}"><w:body>{body}</w:body></w:document>'
    return zipped({"_rels/.rels": links("officeDocument", "word/document.xml"), "word/document.xml": text})


def run(text):
    return f"<w:r><w:t>{text}</w:t></w:r>"


def changed(data, part, change):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    files[part] = change(files.get(part, b""))
    return zipped(files)


def xlsx(part, content):
    openpyxl = pytest.importorskip("openpyxl")
    book = io.BytesIO()
    workbook = openpyxl.Workbook()
    workbook.active.append(["figs"])
    workbook.save(book)
    return changed(book.getvalue(), part, lambda _: content)


SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"


def sheet(rows):
    return f'<worksheet xmlns="{SHEET}">{rows}</worksheet>'


def pptx(shapes):
    pptx = pytest.importorskip("pptx")
    show, packed = pptx.Presentation(), io.BytesIO()
    show.slides.add_slide(show.slide_layouts[6])
    show.save(packed)
    return changed(
        packed.getvalue(), "ppt/slides/slide1.xml", lambda old: old.replace(b"</p:spTree>", shapes + b"</p:spTree>")
    )


def epub(page):
    container = '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles><rootfile full-path="a.opf"/></rootfiles></container>'
    book = (
        '<package xmlns="http://www.idpf.org/2007/opf"><manifest><item id="a" href="a.html" media-type="text/html"/>'
        "</manifest><spine>" + '<itemref idref="a"/>' * 1_000 + "</spine></package>"
    )
    return zipped({"META-INF/container.xml": container, "a.opf": book, "a.html": page})


GROUP = b'<p:grpSp><p:nvGrpSpPr><p:cNvPr id="1" name="a"/><p:cNvGrpSpPr/><p:nvPr/></p:nvGrpSpPr><p:grpSpPr/>'

PACKED = {
    "a long paragraph.docx": lambda: docx(f"<w:p>{run('a') * 500_000}</w:p>"),
    "paragraphs.docx": lambda: docx("<w:p/>" * 1_000_001),
    "tables in tables.docx": lambda: docx("<w:tbl><w:tr><w:tc>" * 5_000),
    "text of megabytes.docx": lambda: docx(f"<w:p>{run('*' * 2**24)}</w:p>"),
    "zip in zip.docx": lambda: zipped({"word/document.xml": zipped({"word/document.xml": zipped({"a": bytes(2**24)})})}),
    "shared texts.xlsx": lambda: xlsx("xl/sharedStrings.xml", f'<sst xmlns="{SHEET}">{"<si><t>a</t></si>" * 10**6}</sst>'),
    "a dimension.xlsx": lambda: xlsx("xl/worksheets/sheet1.xml", sheet('<dimension ref="A1:XFD1048576"/><sheetData><row r="1048576"/></sheetData>')),
    "cells.xlsx": lambda: xlsx("xl/worksheets/sheet1.xml", sheet(f'<sheetData><row>{"<c><v>1</v></c>" * 10**6}</row></sheetData>')),
    "merged cells.xlsx": lambda: xlsx("xl/worksheets/sheet1.xml", sheet('<sheetData/><mergeCells>' + '<mergeCell ref="A1:XFD1048576"/>' * 10**5 + "</mergeCells>")),
    "styles.xlsx": lambda: xlsx("xl/styles.xml", f'<styleSheet xmlns="{SHEET}"><cellXfs>{"<xf/>" * 10**6}</cellXfs></styleSheet>'),
    "groups in groups.pptx": lambda: pptx(GROUP * 200 + b"</p:grpSp>" * 200),
    "shapes.pptx": lambda: pptx(b'<p:sp><p:nvSpPr><p:cNvPr id="1" name="a"/><p:cNvSpPr/><p:nvPr/></p:nvSpPr><p:spPr/></p:sp>' * 20_000),
    "a page again and again.epub": lambda: epub(b"<p>figs" * 20_000),
    "a tag.epub": lambda: epub(b"<" + b"a" * 2**22 + b">"),
}  # fmt: skip


def parts_in_parts(depth):
    mail = b""
    for level in range(depth):
        mail += b"Content-Type: multipart/mixed; boundary=%d\n\n--%d\n" % (level, level)
    return mail + b"Content-Type: text/plain\n\nfigs"


MAILS = {
    "parts in parts": lambda: parts_in_parts(5_000),
    "parts": lambda: b"Content-Type: multipart/mixed; boundary=a\n\n" + b"--a\n\nfigs\n" * 200_000,
    "lines of a boundary": lambda: b"Content-Type: multipart/mixed; boundary=a\n\n" + b"--a" * 2**21,
    "headers by the million": lambda: b"".join(b"X-%d: a\n" % n for n in range(10**6)) + b"\nfigs",
    "a header of megabytes": lambda: b"Subject: " + b"=?utf-8?q?a?= " * 2**19 + b"\n\nfigs",
    "addresses": lambda: b"To: " + b"a <a@b.c>, " * 2**19 + b"\n\nfigs",
    "HTML": lambda: b"Content-Type: text/html\n\n<" + b"a" * 2**23 + b">",
    "messages in messages": lambda: b"Content-Type: message/rfc822\n\n" * 5_000 + b"figs",
}

TABLES = {
    "a field of megabytes": lambda: b"a,b\n" + b"x" * 2**24 + b",1\n",
    "columns by the million": lambda: b"," * 2**23 + b"\n1",
    "a quote that never ends": lambda: b'a,b\n"' + b'x""' * 2**21,
    "rows": lambda: b"a\n" * 2**23,
}

CASES = {
    **{f"{name}.pdf": data for name, data in PDFS.items()},
    **{f"{name}.html": data for name, data in HTML.items()},
    **PACKED,
    **{f"{name}.eml": data for name, data in MAILS.items()},
    **{f"{name}.csv": data for name, data in TABLES.items()},
}
"""Functions that make the documents: together they take seconds and a hundred megabytes."""


SLOW = {
    *("patterns in patterns.pdf", "a form in itself.pdf", "an object stream.pdf", "millions of letters.pdf"),
    *("a tag of eight megabytes.html", "an attribute of eight megabytes.html", "tags in tags.html", "entities.html"),
    *("lists in lists.html", "tables in tables.html", "emphasis.html", "lines.html", "paragraphs.html"),
    *("half a declaration.html", "paragraphs.docx", "tables in tables.docx", "text of megabytes.docx", "cells.xlsx"),
    *("merged cells.xlsx", "styles.xlsx", "a page again and again.epub", "parts.eml", "headers by the million.eml"),
    *("a field of megabytes.csv", "a quote that never ends.csv", "rows.csv"),
    *("content of gigabytes.pdf", "forms in forms.pdf", "a long paragraph.docx", "options.html"),
    *("a tag of a million attributes.html", "parts in parts.eml"),
}
"""Neighbours of other cases, which take a second of computing time."""

REFUSALS = (
    r"takes more than the maximum of (1 s of computing time|209,715,200 bytes of memory) to read; save it anew|"
    r"made its reader fail( \(SIG\w+\))?: it is broken, or takes more|nests its elements too deep to be read|"
    r"cannot be read as a \.\w+ file: |holds no text, for its 1 page|has more than the maximum of 10,000,000 characters"
)


@pytest.fixture
def outcome(tmp_path):
    """The text of a document, or the reason why it is not read."""

    def of(name, data):
        file = tmp_path / name.replace(" ", "-")
        file.write_bytes(data)
        try:
            return read_document(FileDescriptor.of(file), limits=LIMITS)
        except InputError as error:
            message = str(error)
            assert message.startswith(f"{file}: ")
            assert re.match(REFUSALS, message.removeprefix(f"{file}: ")), message
            return message

    return of


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in CASES]
)
def test_a_hostile_document_is_read_or_refused_within_the_limits_of_its_reader(outcome, name):
    outcome(name, CASES[name]())
    assert extract(b"<p>figs</p>", "a.html")[0].text == "figs"  # the next document is read


@pytest.mark.parametrize("name", ["forms in forms.pdf", "a long paragraph.docx", "options.html"])
def test_a_hostile_document_of_a_knowledge_base_is_refused_within_the_limits_of_its_reader(name):
    with pytest.raises(InputError, match=r"takes more than the maximum of|made its reader fail"):
        extract(CASES[name](), name, LIMITS)


def png(width, height):
    """A PNG picture of black pixels."""

    def chunk(kind, content):
        return struct.pack(">L", len(content)) + kind + content + struct.pack(">L", zlib.crc32(kind + content))

    header = struct.pack(">LLBBBBB", width, height, 1, 0, 0, 0, 0)
    pixels = zlib.compress(bytes(2**20), 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.png", png(2**31 - 1, 2**31 - 1), "is a PNG picture, not text; is its name right"),
        ("a.gif", b"GIF89a" + struct.pack("<HHBBB", 65535, 65535, 0, 0, 0) + bytes(99), "is a GIF picture, not text"),
        (
            "a.tiff",
            b"II*\0" + struct.pack("<LHHHLL", 8, 1, 256, 4, 1, 2**32 - 1) + bytes(99),
            "is binary; supported are",
        ),
        ("a.svgz", gzip.compress(b"<svg>" + bytes(2**20)), "is a gzip archive, not text"),
        ("a.zip", zipped({"a.zip": zipped({"a": bytes(2**20)})}), "is a ZIP archive or an Office document, not text"),
    ],
)
def test_pictures_and_archives_are_refused_by_their_first_bytes_and_not_unpacked(tmp_path, name, data, message):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError, match=message):
        read_document(FileDescriptor.of(tmp_path / name))


def test_a_vector_graphic_is_read_as_its_text(tmp_path):
    laughs = '<!DOCTYPE svg [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]><svg width="1000000000"><text>&b;</text></svg>'
    (tmp_path / "a.svg").write_text(laughs)
    assert read_document(FileDescriptor.of(tmp_path / "a.svg")) == laughs
