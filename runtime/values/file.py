"""Files: those of jobs, described by reference and read late and within limits, and files written as a whole.

Models take images and PDF documents as they are; these are recognised by their first bytes.
"""

from __future__ import annotations

import hashlib
import mimetypes
import os
import tempfile
from contextlib import suppress
from pathlib import Path

from pydantic import BaseModel, ConfigDict, JsonValue

from operad.runtime.values.base_errors import InputError
from operad.runtime.values.near_names import near_name

MAX_TEXT_BYTES = 16 * 2**20
"""Maximum size of a text that is read into memory, in bytes."""

_MIME_TYPES = {".webp": "image/webp"}
"""Types missing from Python's own table before 3.13."""

_SUFFIXES = {
    "audio/flac": ".flac",
    "audio/ogg": ".ogg",
    "audio/pcm": ".pcm",
    "audio/wav": ".wav",
    "audio/wave": ".wav",
    "audio/x-wav": ".wav",
    "image/webp": ".webp",
}
"""Suffixes that Python's own table lacks or changes between versions."""


_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
"""Byte order marks of UTF-16."""


def suffix_of(mime_type: str) -> str:
    """Return the suffix of file names for a type, with the dot; ``.bin`` for an unknown type."""
    return _SUFFIXES.get(mime_type) or mimetypes.guess_extension(mime_type) or ".bin"


class FileDescriptor(BaseModel):
    """A file by reference.

        letter = FileDescriptor.of("letter.txt")
        result = flow.run(Job("Answer this letter.", files=[letter]))

    Attributes:
        path: Location of the file.
        name: Its name without folders.
        size: Its size in bytes.
        mime_type: Type guessed from the name; ``application/octet-stream`` if unknown.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: Path
    name: str
    size: int
    mime_type: str

    @classmethod
    def of(cls, path: str | Path) -> FileDescriptor:
        """Describe an existing regular file.

        Raises:
            InputError: The file does not exist, or is not a regular file.
        """
        try:
            return cls._of(Path(path).expanduser())
        except (OSError, RuntimeError, ValueError) as error:  # no permission; no such user's home; a zero byte
            raise InputError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error

    @classmethod
    def _of(cls, path: Path) -> FileDescriptor:
        if not path.is_file():
            if path.is_dir():
                raise InputError(f"{path}: is a folder; name the files in it")
            if path.exists():
                raise InputError(f"{path}: is not a regular file; write its output into one")
            if path.is_symlink():
                raise InputError(f"{path}: is a link to {os.readlink(path)!r}, which does not exist")
            raise InputError(f"{path}: no such file{_near_file(path)}")
        mime_type = mimetypes.guess_type(path.name)[0] or _MIME_TYPES.get(
            path.suffix.lower(), "application/octet-stream"
        )
        return cls(path=path.resolve(), name=path.name, size=path.stat().st_size, mime_type=mime_type)

    def fingerprint(self) -> dict[str, JsonValue]:
        """Return values that are equal for equal files: name, type and a hash of the content, not the location.

        Raises:
            InputError: The file cannot be read.
        """
        digest = hashlib.sha256()
        try:
            with self.path.open("rb") as stream:
                while block := stream.read(2**20):
                    digest.update(block)
        except OSError as error:
            raise InputError(f"{self.path}: cannot be read: {error.strerror or error}") from error
        return {"name": self.name, "mime_type": self.mime_type, "sha256": digest.hexdigest()}

    def read_bytes(self, max_bytes: int) -> bytes:
        """Return the content of the file. At most one byte more than `max_bytes` is read.

        Raises:
            InputError: The file is larger than `max_bytes` or cannot be read.
        """
        return read_bytes(self.path, max_bytes)

    def read_text(self, max_bytes: int = MAX_TEXT_BYTES) -> str:
        """Return the file's text, read as UTF-8.

        Raises:
            InputError: The file is larger than `max_bytes`, unreadable, binary, or in another encoding.
        """
        if self.size > max_bytes:
            raise InputError(
                f"{self.path}: {self.size:,} bytes are more than the maximum of {max_bytes:,} for a text; "
                "cut out the relevant part"
            )
        data = self.read_bytes(max_bytes)
        if data.startswith(b"\x1f\x8b"):
            raise InputError(f"{self.path}: is compressed; unpack it, for example with: gunzip -k")
        if data.startswith(_UTF_16):
            raise InputError(f"{self.path}: is UTF-16 text; {conversion(data)}")
        if b"\0" in data:
            raise InputError(f"{self.path}: is binary (it holds a zero byte); a text file is needed")
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise InputError(
                f"{self.path}:{line}: is not UTF-8 text (byte {data[error.start]:#04x} at offset {error.start}); "
                f"{conversion(data)}"
            ) from error


def conversion(data: bytes) -> str:
    """Return the advice how to convert text that is not UTF-8."""
    if data.startswith(b"%PDF-"):
        return "it is a PDF, and a text file is needed"
    if b"\0" in data and not data.startswith(_UTF_16):
        return "it is binary, and a text file is needed"
    encoding = "UTF-16" if data.startswith(_UTF_16) else "LATIN1"
    return f"convert it, for example with: iconv -f {encoding} -t UTF-8"


def read_bytes(path: Path, max_bytes: int) -> bytes:
    """Return the content of a file. At most one byte more than `max_bytes` is read.

    Raises:
        InputError: The file is larger than `max_bytes` or cannot be read.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(max_bytes + 1)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    if len(data) > max_bytes:
        raise InputError(f"{path}: larger than the maximum of {max_bytes:,} bytes")
    return data


def _near_file(path: Path) -> str:
    """Return a hint with the most similar file name in the same folder, with the same suffix or the same stem."""
    by_stem: dict[str, list[str]] = {}
    for each in sorted(path.parent.iterdir()) if path.parent.is_dir() else ():
        if each.suffix == path.suffix or each.stem == path.stem or {each.suffix, path.suffix} == {".yaml", ".yml"}:
            by_stem.setdefault(each.stem, []).append(each.name)
    stem = near_name(path.stem, by_stem)
    names = by_stem.get(stem, [])
    return f" (did you mean {near_name(path.name, names) or names[0]!r}?)" if names else ""


def write_whole(path: str, data: bytes) -> None:
    """Write a file atomically; a target that is not a regular file is written to directly.

    Control characters are removed if the target is a terminal.

    Raises:
        InputError: The file cannot be written.
    """
    try:
        target = Path(path).expanduser().resolve()
        if target.exists() and not target.is_file():
            target.write_bytes(data)
            return
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask()
        _replace(target, data, mode)
    except (OSError, RuntimeError, ValueError) as error:  # the home of an unknown user; a zero byte
        raise unwritable(path, error) from error


def write_private(path: Path, text: str) -> None:
    """Write a file atomically, which only its owner can read, such as keys and decisions of trust; its folder is made.

    Raises:
        InputError: The file cannot be written.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _replace(path, text.encode(), 0o600)
    except OSError as error:
        raise unwritable(str(path), error) from error


def _replace(target: Path, data: bytes, mode: int) -> None:
    """Replace a file by a new one with these permissions, or raise and leave nothing behind."""
    handle, temporary = tempfile.mkstemp(prefix=f".{target.name[:50]}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        Path(temporary).chmod(mode)
        Path(temporary).replace(target)
    except BaseException:
        with suppress(OSError):
            Path(temporary).unlink()
        raise


def unwritable(path: str, error: Exception) -> InputError:
    """Return the error for a file that cannot be written, with the reason."""
    folder = Path(path).expanduser().parent
    if isinstance(error, FileNotFoundError) and not folder.exists():
        return InputError(f"{path}: there is no folder {str(folder)!r}; make it, or name another file")
    return InputError(f"{path}: cannot be written: {getattr(error, 'strerror', None) or error}")


def _umask() -> int:
    """Return the umask of the process, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""Image types that models accept."""

PDF = "application/pdf"
"""Type of the documents that models accept."""

MAX_IMAGE_BYTES = 10 * 2**20
"""Maximum size of an image or a document for a model, in bytes."""


def image_type(data: bytes) -> str:
    """Return the MIME type of an image, one of `IMAGE_TYPES`, by its first bytes; empty for other data."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    return "image/webp" if data.startswith(b"RIFF") and data[8:12] == b"WEBP" else ""


def media_type_of(data: bytes) -> str:
    """Return the MIME type of an image or a PDF document by its first bytes; empty for other data."""
    return PDF if data.startswith(b"%PDF-") else image_type(data)


def read_for_model(file: FileDescriptor) -> tuple[bytes, str]:
    """Return the image or the PDF document in a file, and its MIME type.

    Raises:
        InputError: The file cannot be read, is larger than `MAX_IMAGE_BYTES`, or is not of a supported type.
    """
    data = file.read_bytes(MAX_IMAGE_BYTES)
    if not (mime_type := media_type_of(data)):
        wanted = (
            "a PDF document" if file.mime_type == PDF else "an image of a supported type; convert it to PNG or JPEG"
        )
        raise InputError(f"{file.path}: is not {wanted}")
    return data, mime_type
