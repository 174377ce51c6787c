"""Files by reference, read late and within bounds."""

import os

import pytest

from operad.runtime.values.errors import InputError
from operad.runtime.values.file import MAX_TEXT_BYTES, FileDescriptor
from operad.runtime.values.message import Job


@pytest.fixture
def write(tmp_path):
    """Writes bytes to a file and describes it."""

    def write(data, name="notes.txt"):
        (tmp_path / name).write_bytes(data)
        return FileDescriptor.of(tmp_path / name)

    return write


def error_of(act):
    with pytest.raises(InputError) as caught:
        act()
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "mime_type"),
    [("notes.txt", "text/plain"), ("data.json", "application/json"), ("NEWS", "application/octet-stream")],
)
def test_a_file_is_described_by_place_name_size_and_type(write, tmp_path, name, mime_type):
    described = write("Größe".encode(), name)
    assert described == FileDescriptor(path=tmp_path / name, name=name, size=7, mime_type=mime_type)


def test_a_relative_path_keeps_meaning_the_same_file(tmp_path, monkeypatch):
    (tmp_path / "notes.txt").write_text("here")
    monkeypatch.chdir(tmp_path)
    described = FileDescriptor.of("notes.txt")
    monkeypatch.chdir("/")
    assert described.path == tmp_path / "notes.txt"
    assert described.read_text() == "here"


def test_a_tilde_stands_for_the_home_folder(tmp_path, monkeypatch):
    (tmp_path / "notes.txt").write_text("home")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert FileDescriptor.of("~/notes.txt").path == tmp_path / "notes.txt"


def test_a_missing_file_is_an_error_with_the_nearest_name_beside_it(write, tmp_path):
    write(b"", "changes.txt")
    write(b"", "notes.txt")
    missing = tmp_path / "note.txt"
    assert error_of(lambda: FileDescriptor.of(missing)) == f"{missing}: no such file (did you mean 'notes.txt'?)"


def test_a_name_is_near_by_more_than_its_suffix_and_another_suffix_does_not_matter(write, tmp_path):
    for name in ("7.yaml", "flow.yml", "flow.json"):
        write(b"", name)
    assert error_of(lambda: FileDescriptor.of(tmp_path / "nope.yaml")).endswith("nope.yaml: no such file")
    for wanted, near in [("flow.yaml", "flow."), ("flwo.json", "flow.json"), ("flw.yml", "flow.yml")]:
        assert f"(did you mean '{near}" in error_of(lambda wanted=wanted: FileDescriptor.of(tmp_path / wanted))


def test_of_files_with_the_same_stem_the_one_with_the_nearest_suffix_is_suggested(write, tmp_path):
    for name in ("expert.py", "expert.yaml"):
        write(b"", name)
    for wanted, near in [("expert.yml", "expert.yaml"), ("expert.pyi", "expert.py"), ("expert", "expert.py")]:
        assert error_of(lambda wanted=wanted: FileDescriptor.of(tmp_path / wanted)).endswith(
            f"(did you mean '{near}'?)"
        )


@pytest.mark.parametrize("name", ["zzz", "no/such/folder/notes.txt"])
def test_a_missing_file_without_a_near_name_is_just_missing(write, tmp_path, name):
    write(b"")
    assert error_of(lambda: FileDescriptor.of(tmp_path / name)) == f"{tmp_path / name}: no such file"


def test_a_folder_is_no_file(tmp_path):
    assert error_of(lambda: FileDescriptor.of(tmp_path)) == f"{tmp_path}: is a folder; name the files in it"


def test_what_is_neither_file_nor_folder_is_not_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert "pipe: is not a regular file" in error_of(lambda: FileDescriptor.of(tmp_path / "pipe"))


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", ""),
        ("Łukasz\nÅsa\n".encode(), "Łukasz\nÅsa\n"),
        (b"\xef\xbb\xbfwith a mark", "with a mark"),
        (b"one\r\ntwo\r\n", "one\r\ntwo\r\n"),
    ],
)
def test_text_is_read_as_utf_8_without_its_byte_order_mark(write, data, text):
    assert write(data).read_text() == text


def test_a_binary_file_is_no_text(write):
    file = write(b"\x7fELF\0\xff")
    assert error_of(file.read_text) == f"{file.path}: is binary (it holds a zero byte); a text file is needed"


def test_utf_16_text_is_an_error_with_the_remedy(write):
    file = write("Müller".encode("utf-16"))
    assert error_of(file.read_text) == (
        f"{file.path}: is UTF-16 text; convert it, for example with: iconv -f UTF-16 -t UTF-8"
    )


def test_another_encoding_is_an_error_with_line_byte_and_remedy(write):
    file = write("first\nsecond\nMüller\n".encode("latin-1"))
    assert error_of(file.read_text) == (
        f"{file.path}:3: is not UTF-8 text (byte 0xfc at offset 14); "
        "convert it, for example with: iconv -f LATIN1 -t UTF-8"
    )


def test_a_file_of_just_the_bound_is_read_and_one_byte_more_is_not(write):
    file = write(b"x" * 1001)
    assert file.read_text(1001) == "x" * 1001
    assert error_of(lambda: file.read_text(1000)) == (
        f"{file.path}: 1,001 bytes are more than the maximum of 1,000 for a text; cut out the relevant part"
    )


def test_the_bound_is_16_mib_unless_said_otherwise(write):
    file = write(b"")
    os.truncate(file.path, 16 * 2**20 + 1)
    assert MAX_TEXT_BYTES == 16 * 2**20
    assert "16,777,217 bytes are more than the maximum of 16,777,216" in error_of(
        FileDescriptor.of(file.path).read_text
    )


def test_a_file_that_grew_since_it_was_described_is_not_read_beyond_the_bound(write):
    file = write(b"x")
    file.path.write_bytes(b"x" * 11)
    assert error_of(lambda: file.read_text(10)) == f"{file.path}: larger than the maximum of 10 bytes"


def test_a_file_that_has_gone_since_cannot_be_read(write):
    file = write(b"x")
    file.path.unlink()
    assert error_of(file.read_text) == f"{file.path}: cannot be read: No such file or directory"


def test_a_similar_file_of_another_type_is_not_suggested(tmp_path):
    (tmp_path / "noise.py").touch()
    with pytest.raises(InputError, match=r"nope\.yaml: no such file$"):
        FileDescriptor.of(tmp_path / "nope.yaml")
    (tmp_path / "noise.yml").touch()
    with pytest.raises(InputError, match=r"no such file \(did you mean 'noise\.yml'\?\)$"):
        FileDescriptor.of(tmp_path / "nope.yaml")


def test_a_job_takes_paths(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("hello")
    described = FileDescriptor.of(path)
    assert Job("Read.", files=[path, str(path), described]).files == (described,) * 3
