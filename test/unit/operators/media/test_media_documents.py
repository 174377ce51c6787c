import base64
import io
import re
import zipfile
from email.message import EmailMessage
from importlib import import_module

import pytest

from operad.operators.media import documents
from operad.operators.media.documents import read_document
from operad.operators.media.markdown import export_markdown
from operad.runtime import FileDescriptor, InputError, MissingExtraError
from operad.runtime.knowledge import extract, folders, readers
from operad.runtime.values.pip import pip_install

REPORT = "# Report\n\nSales **rose**.\n\n## Prices\n\n| fruit | price |\n|---|---|\n| figs | 2 |\n"
CHINESE = "退款在七天之内到账。请先下载安装包，再运行安装程序。"
TRADITIONAL = "退款在七天之內到帳。請先下載安裝檔，再執行安裝程式。"
JAPANESE = "このデータベースには索引がある。名前と年齢を入力してください。"


@pytest.fixture
def read(tmp_path):
    """Reads a file of that name and content."""

    def of(name, content, **bounds):
        file = tmp_path / name
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_document(FileDescriptor.of(file), **bounds)

    return of


def xlsx(**sheets):
    openpyxl = import_module("openpyxl")
    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, rows in sheets.items():
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(row)
    packed = io.BytesIO()
    book.save(packed)
    return packed.getvalue()


def typeset(source):
    return import_module("typst").compile(source.encode())


# Text


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.json", "a.xml", "a.yaml", "a.py", "LICENSE", "a.unknown"])
def test_text_is_given_as_it_is(read, name):
    assert read(name, '\ufeff{"figs": "安装"}\r\n  two\n') == '{"figs": "安装"}\n  two'


def test_an_empty_file_is_empty_text(read):
    assert read("a.txt", "") == ""
    assert read("a.csv", "") == ""


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        (CHINESE, "gbk"),
        (CHINESE + "㐀𠀀", "gb18030"),
        (TRADITIONAL, "big5"),
        (JAPANESE, "shift_jis"),
        (JAPANESE, "euc_jp"),
        ("안녕하세요 세계. 이름과 나이를 입력하세요.", "euc_kr"),
        ("Привет, мир. Это отчёт о продажах за год.", "cp1251"),
        ("Café déjà vu, naïve façade, crème brûlée", "latin-1"),
        ("name;größe\nmüller;1,80 m\nweiß;2", "latin-1"),
        ("Příliš žluťoučký kůň úpěl ďábelské ódy", "cp1250"),
        ("It costs “5 €” – or more", "cp1252"),
        (CHINESE, "utf-16"),
        (CHINESE, "utf-32"),
        (CHINESE, "utf-8-sig"),
    ],
)
def test_text_in_other_encodings_is_read_right(read, text, encoding):
    assert read("a.txt", text.encode(encoding)) == text


def test_tables_and_pages_in_other_encodings_are_read_right(read):
    assert read("a.csv", "姓名,年龄\n张三,20\n李四,30\n".encode("gbk")).splitlines()[2] == "| 张三 | 20 |"
    page = f'<html><head><meta charset="gbk"></head><body><p>{CHINESE}</p></body></html>'
    assert read("a.html", page.encode("gbk")) == CHINESE


# Tables


def test_a_csv_file_is_a_markdown_table(read):
    assert read("a.csv", 'name;note\nfigs;"a|b"\n') == "| name | note |\n|---|---|\n| figs | a\\|b |"
    assert read("a.tsv", "a\tb\n1\t2\n") == "| a | b |\n|---|---|\n| 1 | 2 |"


def test_a_broken_csv_file_is_read_as_text(read):
    assert read("a.csv", 'a,b\n"open') == 'a,b\n"open'


def test_a_workbook_of_one_sheet_is_its_table(read):
    rows = [["fruit", "price"], ["figs", 2.0], ["a|b", 2.5], [], [None, "x\ny"]]
    table = "| fruit | price |\n|---|---|\n| figs | 2 |\n| a\\|b | 2.5 |\n|  | x y |"
    assert read("a.xlsx", xlsx(Prices=rows, Empty=[])) == table


def test_of_several_sheets_each_has_a_heading(read):
    text = read("a.xlsx", xlsx(Prices=[["figs"]], 数据=[["列"], [1]]))
    assert text == "## Prices\n\n| figs |\n|---|\n\n## 数据\n\n| 列 |\n|---|\n| 1 |"


# Documents


async def test_a_word_document_is_markdown(read):
    text = read("a.docx", await export_markdown(REPORT, "docx"))
    assert text.startswith("# Report\n\nSales **rose**.\n\n## Prices")
    assert "| figs | 2 |" in text


async def test_slides_are_read_in_order(read):
    text = read("a.pptx", await export_markdown("## One\n\nfigs\n\n## 二\n\n日期\n", "pptx"))
    assert [line for line in text.splitlines() if line] == ["# One", "figs", "# 二", "日期"]


def test_a_pdf_is_its_pages(read):
    assert read("a.pdf", typeset("First page.\n#pagebreak()\nSecond page.")) == "First page.\n\nSecond page."


def test_a_page_of_html_is_markdown_without_its_scripts(read):
    page = "<html><body><script>let x</script><h1>Hi</h1><p>a <b>b</b></p></body></html>"
    assert read("a.html", page) == "# Hi\n\na **b**"


def test_a_book_is_read(read, tmp_path):
    import_module("pypandoc").convert_text(REPORT, "epub", format="gfm", outputfile=str(tmp_path / "made.epub"))
    assert "Sales **rose**." in read("a.epub", (tmp_path / "made.epub").read_bytes())


@pytest.mark.parametrize("kind", ["plain", "html"])
def test_a_mail_is_read(read, kind):
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "ann@example.org", "bob@example.org", "退款"
    mail.set_content("Figs." if kind == "plain" else "<p>Figs.</p>", subtype=kind)
    mail.add_attachment(b"x", maintype="image", subtype="png", filename="fig.png")
    assert read("a.eml", mail.as_bytes()) == (
        "From: ann@example.org\nTo: bob@example.org\nSubject: 退款\nAttached: fig.png\n\nFigs."
    )


@pytest.mark.parametrize("charset", ["punycode", "no-such-charset"])
def test_a_mail_in_an_encoding_that_is_unknown_or_slow_is_read_as_utf_8(read, charset):
    text = f"Content-Type: text/plain; charset={charset}\n\nCafé"
    assert read("a.eml", text.encode() + b"-z" * 200_000).startswith("Café-z")


def test_a_mail_with_long_headers_that_nothing_reads_is_read(read):
    traces = "X-Microsoft-Exchange-Diagnostics: " + "(,;" * 100_000 + "\n" + f"Received: {'by a; ' * 1_000}\n" * 20
    assert read("a.eml", f"{traces}Subject: Figs\n\nRipe.".encode()) == "Subject: Figs\n\nRipe."


def test_a_mail_to_many_recipients_is_read_with_all_of_them(read):
    mail = EmailMessage()
    people = [f"ann{number}@example.org" for number in range(1_000)]
    mail["To"], mail["Subject"] = ", ".join(people), "退款" * 200
    mail.set_content("Figs.")
    assert read("a.eml", mail.as_bytes()) == f"To: {', '.join(people)}\nSubject: {'退款' * 200}\n\nFigs."


def test_a_header_of_a_mail_may_mix_encoded_words_and_text_in_utf_8(read):
    mail = "From: Müller 写 =?utf-8?q?J=C3=BCrgen?= <a@example.org>\n\nFigs."
    assert read("a.eml", mail.encode()) == "From: Müller 写 Jürgen <a@example.org>\n\nFigs."


@pytest.mark.parametrize(
    ("header", "begin", "end"),
    [
        ("From: " + "," * 300_000, "From: ,,,", ",, … (the first 100,000 of 300,000 characters)\n\nFigs."),
        (
            "From: ab\n" + " b\n" * 99_999 + " b",
            "From: ab b b",
            " b … (the first 100,000 of 300,002 characters)\n\nFigs.",
        ),
        ("\n".join([f"To: {'(' * 5_000}"] * 60), "To: ((((", "((\n\nFigs."),
        ("To: =?utf-8?b?A?= x", "To: =?utf-8?b?A?= x", "x\n\nFigs."),
        ("To: " + "=?a?q?x" * 14_000, "To: =?a?q?x=?a", "?q?x\n\nFigs."),
        ("To: " + "=?a?q?x" * 14_000 + "\v?=", "To: x=?a", "?q?x\n\nFigs."),
    ],
)
def test_a_hostile_header_of_a_mail_is_read_up_to_a_maximum(read, header, begin, end):
    text = read("a.eml", f"{header}\n\nFigs.".encode())
    assert (text[: len(begin)], text[-len(end) :]) == (begin, end)


# What cannot be read


def test_headers_of_a_mail_that_take_minutes_are_refused(read):
    header = "Content-Type: text/plain" + ";" * 300_000
    with pytest.raises(InputError, match="has headers of more than the maximum of about 16,000 characters"):
        read("a.eml", f"{header}\n\nFigs.".encode())


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0", "is a PNG picture, not text"),
        (b"\xff\xd8\xff\xe0\0", "is a JPEG picture, not text"),
        (b"PK\x03\x04\0\0", "is a ZIP archive or an Office document, not text"),
        (b"RIFF\0\0\0\0WAVE\0", "is a WAV recording, not text"),
        (b"\0\0\0\x20ftypisom\0", "is an MP4 video or recording, or a HEIC picture, not text"),
        (b"\x1f\x8b\x08", "is a gzip archive, not text"),
        (b"%PDF-1.7\n", "is a PDF document, not text"),
        (b"{\\rtf1 hi}", "is an RTF document, not text"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\0", "is an Office document of an old format or an encrypted one, not text"),
        (b"\0\1\2\3", "is binary; supported are: text, .csv, .docx, .eml,"),
        (b"\x01\x02\xfe\xff\x03", "is binary"),
    ],
)
def test_a_binary_file_is_refused_with_what_it_is(read, tmp_path, content, what):
    for name in ("a.txt", "a.csv", "a", "a.html"):
        with pytest.raises(InputError) as raised:
            read(name, content)
        assert str(raised.value).startswith(f"{tmp_path / name}: {what}")


def test_a_document_of_an_old_format_is_to_be_saved_in_the_new_one(read):
    with pytest.raises(InputError, match=r"a\.xls: is of an old format that is not read; save it as \.xlsx"):
        read("a.xls", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\0")


def test_a_scan_is_an_error_that_says_so(read):
    with pytest.raises(InputError, match=r"a\.pdf: holds no text, for its 2 pages are pictures .* \(OCR\)"):
        read("a.pdf", typeset("#rect()\n#pagebreak()\n#rect()"))


def test_what_is_encrypted_is_said(read):
    whole = typeset("Secret.")
    locked = (
        "<< /Filter /Standard /V 1 /R 2 /P -4 /O <" + "0" * 64 + "> /U <" + "0" * 64 + "> >>\nendobj\n"
        "trailer << /Root 1 0 R /Encrypt 9 0 R /ID [<00> <00>] >>\n%%EOF\n"
    )
    pages = (
        "1 0 obj\n<< /Type /Catalog /Pages 2 0 R >>\nendobj\n2 0 obj\n<< /Type /Pages /Kids [] /Count 0 >>\nendobj\n"
    )
    assert read("a.pdf", whole) == "Secret."
    with pytest.raises(InputError, match=r"a\.pdf: is encrypted with a password"):
        read("a.pdf", f"%PDF-1.4\n{pages}9 0 obj\n{locked}")
    for name in ("a.docx", "a.xlsx", "a.pptx"):
        with pytest.raises(InputError, match=f"{name}: is encrypted with a password"):
            read(name, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le"))


@pytest.mark.parametrize("name", ["a.docx", "a.xlsx", "a.pptx", "a.pdf", "a.epub"])
def test_a_broken_document_is_an_error_with_its_name(read, name):
    for content in (b"", b"PK\x03\x04garbage", b"%PDF-1.7 garbage"):
        with pytest.raises(InputError, match=rf"{name}: cannot be read as a \{name[1:]} file"):
            read(name, content)


def test_a_file_that_is_gone_is_an_error(tmp_path):
    gone = FileDescriptor(path=tmp_path / "gone.txt", name="gone.txt", size=1, mime_type="text/plain")
    with pytest.raises(InputError, match=r"gone\.txt: cannot be read: No such file"):
        read_document(gone)


# Bounds


def test_a_file_that_is_too_large_is_refused_unread(tmp_path):
    large = FileDescriptor(path=tmp_path / "gone.pdf", name="gone.pdf", size=200_000_000, mime_type="application/pdf")
    with pytest.raises(InputError, match=r"200,000,000 bytes are more than the maximum of 67,108,864"):
        read_document(large)


def test_a_file_that_grew_is_refused(read, monkeypatch):
    monkeypatch.setattr(folders, "MAX_FILE_BYTES", 100)
    monkeypatch.setattr(documents, "MAX_FILE_BYTES", 100)
    with pytest.raises(InputError, match=r"a\.txt: 101 bytes are more than the maximum of 100"):
        read("a.txt", "x" * 101)


def test_what_unpacks_to_too_much_is_refused(monkeypatch):
    monkeypatch.setattr(readers, "MAX_UNPACKED_BYTES", 1000)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("word/document.xml", b"0" * 1001)
    for suffix in (".docx", ".xlsx", ".pptx", ".epub"):
        with pytest.raises(InputError, match="unpacks to 1,001 bytes, more than the maximum of 1,000"):
            documents.text_of(packed.getvalue(), suffix, 10**6)


def test_more_characters_than_may_be_are_refused(read):
    assert read("a.txt", "x" * 10, max_chars=10) == "x" * 10
    for name, content in {
        "a.txt": b"x" * 11,
        "a.xlsx": xlsx(S=[["figs"]] * 9),
        "a.pdf": typeset("Eleven letters"),
    }.items():
        with pytest.raises(InputError, match=f"{name}: has more than the maximum of 10 characters; split it"):
            read(name, content, max_chars=10)


def test_without_the_extra_it_says_what_to_install(read, monkeypatch):
    monkeypatch.setattr(extract, "find_spec", lambda package: None)
    for name in ("a.docx", "a.pdf", "a.html", "a.epub"):
        with pytest.raises(MissingExtraError, match=re.escape(pip_install("documents"))):
            read(name, b"any")
    assert read("a.txt", "figs") == "figs"


def test_a_picture_in_a_document_does_not_come_as_text(read):
    dot = base64.b64encode(b"\x89PNG" + b"\0" * 5000).decode()
    text = read("a.html", f'<p>figs</p><img alt="dot" src="data:image/png;base64,{dot}">')
    assert len(text) < 200
