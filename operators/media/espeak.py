"""Program for speech synthesis: text on stdin, a WAV file on stdout. `speech` runs it as a child process.

espeak-ng is licensed under the GPL-3, so it is loaded in this process only. The program imports nothing of this
package.
"""

from __future__ import annotations

import ctypes
import io
import json
import sys
import wave
from collections.abc import Iterator
from difflib import get_close_matches
from importlib import import_module
from typing import Any

_SYNCHRONOUS = 2
_CHARACTERS = 1
_UTF8 = 1

_SynthCallback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)


class _Voice(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("languages", ctypes.c_void_p), ("identifier", ctypes.c_char_p))


def main() -> None:
    """Read ``{"text", "voice"}`` as JSON, and write the file; on an error, exit with a message."""
    request = json.load(sys.stdin.buffer)
    loader: Any = import_module("espeakng_loader")
    library = ctypes.CDLL(loader.get_library_path())
    rate: int = library.espeak_Initialize(_SYNCHRONOUS, 0, loader.get_data_path().encode(), 0)
    if rate <= 0:
        sys.exit(f"espeak-ng cannot start (code {rate}); reinstall espeakng-loader")
    _select_voice(library, request["voice"])
    samples = bytearray()

    @_SynthCallback
    def collect(piece: int | None, count: int, events: int | None) -> int:
        if piece and count > 0:
            samples.extend(ctypes.string_at(piece, 2 * count))
        return 0

    library.espeak_SetSynthCallback(collect)
    text = request["text"].encode()
    failed = library.espeak_Synth(text, ctypes.c_size_t(len(text) + 1), 0, _CHARACTERS, 0, _UTF8, None, None)
    if failed or library.espeak_Synchronize() or not any(samples):
        sys.exit("the speech is silent; is the text in a language that the voice speaks?")
    sys.stdout.buffer.write(_wav(bytes(samples), rate))


def _select_voice(library: ctypes.CDLL, voice: str) -> None:
    """Select a voice, which must be a listed one, because espeak-ng also accepts paths."""
    known = _voices(library)
    name, plus, variant = voice.partition("+")
    is_known = name in known and (variant.isalnum() or not plus)
    if not is_known or all(
        library.espeak_SetVoiceByName(f"{file}{plus}{variant}".encode()) for file in (name, known[name])
    ):
        near = get_close_matches(name, known, n=1)
        sys.exit(
            f"there is no voice {voice[:100]!r}{f' (did you mean {near[0]!r}?)' if near else ''}; "
            f"there are {len(known)}, among them en-us, en-gb, cmn, yue, ja, ko, de, fr, es, it, pt, ru, ar and hi"
        )


def _voices(library: ctypes.CDLL) -> dict[str, str]:
    """Return the languages of all voices, each with the file name of its first voice."""
    library.espeak_ListVoices.restype = ctypes.POINTER(ctypes.POINTER(_Voice))
    known: dict[str, str] = {}
    for voice in library.espeak_ListVoices(None):
        if not voice:
            break
        file = voice.contents.identifier.decode().rpartition("/")[2]
        for language in _languages(voice.contents.languages):
            known.setdefault(language, file)
    return known


def _languages(address: int) -> Iterator[str]:
    """Yield the languages in a list of espeak-ng at an address."""
    while ctypes.string_at(address, 1) != b"\0":  # each has a byte for its rank, and a zero-terminated name
        language = ctypes.string_at(address + 1)
        yield language.decode()
        address += len(language) + 2


def _wav(samples: bytes, rate: int) -> bytes:
    written = io.BytesIO()
    with wave.open(written, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples)
    return written.getvalue()


if __name__ == "__main__":
    main()
