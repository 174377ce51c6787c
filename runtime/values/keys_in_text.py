"""Keys in texts that people write, and names of secrets for them.

A request such as "Ask https://api.weather.example with the key 8f3c…" contains the key. A key is recognized by the form
that its vendor gives it, or by a label before it and a form that words do not have; the sentence is not read further.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from operad.runtime.values.secret import Secret, holds_key, secret_name


class NamedKeys(NamedTuple):
    """Text with names of secrets in place of its keys.

    Attributes:
        names: The names, each once.
    """

    text: str
    names: tuple[str, ...] = ()


class KeyNames:
    """Names of secrets for keys: the same name for equal keys, another one for each other key.

    Args:
        taken: Names of other secrets.

    Attributes:
        values: The keys by their names.
    """

    def __init__(self, taken: Collection[str] = ()) -> None:
        self._taken = taken
        self.values: dict[str, str] = {}

    def name(self, key: str, host: str, label: str) -> str:
        """Return the name for a key, such as ``WEATHER_KEY`` for the host ``api.weather.example``.

        Args:
            host: Host that it is sent to, or name of its vendor; empty if unknown.
            label: Text with the word for the key, such as ``access token``.
        """
        if known := next((name for name, value in self.values.items() if value == key), ""):
            return known
        kind = next((kind for kind, words in _KINDS.items() if words.search(label)), "KEY")
        return self.name_at(key, _holder(host) or "API", kind)

    def name_at(self, key: str, *place: str) -> str:
        """Return the name for a key that stands in a place, such as ``SEND_X_API_KEY``; see `secret_name`."""
        name, number = secret_name(*place), 1
        while name in self._taken or self.values.get(name, key) != key:
            number += 1
            name = secret_name(*place, str(number))
        self.values[name] = key
        return name


def name_keys(text: str, host: str = "", names: KeyNames | None = None) -> NamedKeys:
    """Return a text with references to secrets in place of its keys.

        request = name_keys("Ask https://api.weather.example/v1; the key is 8f3c21b7d94e.")
        print(request.text)  # Ask https://api.weather.example/v1; the key is {{secret.WEATHER_KEY}}.

    Keys are: tokens in the form of a vendor, such as ``ghp_…``; JSON Web Tokens; private keys; the password before the
    host of a URL; and words of letters and digits after ``Bearer``, or after a label, such as ``api_key=`` or ``the
    password is``. Hashes, UUIDs and file names without such a label are not keys.

    Args:
        text: The text; labels are recognized in English, German, French, Spanish and Chinese.
        host: Host that the keys are sent to; by default the host in the text that is nearest to a key.
    """
    names = KeyNames() if names is None else names
    found: dict[str, None] = {}

    def reference(match: re.Match[str], vendor: str = "", label: str = "") -> str:
        whole, start, end = match.string, match.start("key"), match.end("key")
        name = names.name(match["key"], vendor or host or _nearest_host(whole, start), label)
        found[name] = None
        return f"{whole[match.start() : start]}{Secret(name).in_text}{whole[end : match.end()]}"

    def after_scheme(match: re.Match[str]) -> str:
        return reference(match, label=match[0]) if _is_random(match["key"], 8) else match[0]

    text = _PASSWORD_IN_URL.sub(lambda match: reference(match, label="password"), text)
    for vendor, form in _ISSUED.items():
        if any(part in text for part in _PARTS[vendor]):
            text = form.sub(partial(reference, vendor=vendor), text)
    if "sk-" in text:
        text = _SK.sub(lambda match: reference(match) if _is_random(match["key"], 12) else match[0], text)
    text = _AFTER_SCHEME.sub(after_scheme, text)
    parts: list[str] = []
    end = 0
    for match in _after_labels(text):
        parts += [text[end : match.start()], reference(match, label=match["label"]) if _is_key(match) else match[0]]
        end = match.end()
    return NamedKeys("".join([*parts, text[end:]]), tuple(found))


def _after_labels(text: str) -> Iterator[re.Match[str]]:
    """Yield the matches of `_AFTER_LABEL` in a text, as `finditer` does, but look only before words of labels."""
    lower = text.lower()
    if len(lower) != len(text):  # a letter such as İ
        yield from _AFTER_LABEL.finditer(text)
        return
    begin = 0
    for place in sorted({found.start() for word in _LABEL_WORDS for found in re.finditer(word, lower)}):
        for start in range(max(begin, place - _LONGEST_BEFORE), place + 1):
            begin = start + 1
            if match := _AFTER_LABEL.match(text, start):
                yield match
                begin = match.end()
                break


_PASSWORD_IN_URL = re.compile(r"(?<=://)[^\s/?#@:{}<>]*:(?P<key>[^\s/?#@{}<>]+)(?=@)")

_ISSUED = {
    vendor: re.compile(rf"(?P<key>{form})", re.ASCII)
    for vendor, form in {
        "": r"-----BEGIN [A-Z ]*PRIVATE KEY-----.{1,9000}?-----END [A-Z ]*PRIVATE KEY-----"
        r"|(?<![\w.-])eyJ[\w-]{8,}\.eyJ[\w-]{4,}\.[\w-]{8,}",
        "ANTHROPIC": r"(?<![\w-])sk-ant-[\w-]{10,}",
        "AWS": r"(?<!\w)(?:AKIA|ASIA)[A-Z0-9]{16}(?!\w)",
        "DISCORD": r"(?<=/api/webhooks/)\d{8,}/[\w-]{20,}",
        "GITHUB": r"(?<!\w)(?:gh[pousr]_\w{20,}|github_pat_\w{20,})",
        "GITLAB": r"(?<!\w)glpat-[\w-]{16,}",
        "GOOGLE": r"(?<!\w)AIza[\w-]{30,}",
        "HUGGING_FACE": r"(?<!\w)hf_[A-Za-z0-9]{20,}",
        "SENDGRID": r"(?<!\w)SG\.[\w-]{16,}\.[\w-]{16,}",
        "SLACK": r"(?<![\w-])(?:xox[a-z]|xapp)-[\w-]{10,}|(?<=hooks\.slack\.com/services/)[\w/]{20,}",
        "STRIPE": r"(?<!\w)(?:[rs]k_(?:live|test)|whsec)_\w{10,}",
        "TELEGRAM": r"(?<=api\.telegram\.org/bot)\d{6,}:[\w-]{20,}|(?<![\w:])\d{8,10}:AA[\w-]{30,}",
    }.items()
}  # fmt: skip
_PARTS: Mapping[str, Sequence[str]] = {
    "": ("PRIVATE KEY-----", "eyJ"),
    "ANTHROPIC": ("sk-ant-",),
    "AWS": ("AKIA", "ASIA"),
    "DISCORD": ("/api/webhooks/",),
    "GITHUB": ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
    "GITLAB": ("glpat-",),
    "GOOGLE": ("AIza",),
    "HUGGING_FACE": ("hf_",),
    "SENDGRID": ("SG.",),
    "SLACK": ("xox", "xapp-", "hooks.slack.com/services/"),
    "STRIPE": ("k_live_", "k_test_", "whsec_"),
    "TELEGRAM": ("api.telegram.org/bot", ":AA"),
}
"""Parts of the keys of a vendor, or of what is before them, one of which each has: a text is searched for them first."""

_ISSUED[""] = re.compile(_ISSUED[""].pattern, re.ASCII | re.DOTALL)
"""Forms of keys, by vendor; the first are those of no vendor."""

_SK = re.compile(r"(?<![\w-])(?P<key>sk-[\w-]{9,})", re.ASCII)
"""Form of many vendors, which a name such as ``sk-learn-tutorial`` shares."""

_AFTER_SCHEME = re.compile(r"(?i)\b(?:bearer|basic|apikey)[ \t]+(?P<key>[\w.+/~-]{8,}=*)", re.ASCII)

_LONGEST_BEFORE = 41
_LABEL = (
    rf"(?:(?<![^\W_])[a-z][\w-]{{0,{_LONGEST_BEFORE - 1}}}?|(?<![a-z0-9]))"
    r"(?:keys?|token|secret|appid|passwor[dt]|passwd|pwd|passphrase|credentials?|authorization"
    r"|kennwort|schlüssel|clé|clave|contraseña|mot de passe|jeton|密[钥鑰码碼]|令牌|口令)"
)
_LABEL_WORDS = (
    *"key token secret appid passwor passwd pwd passphrase credential authorization kennwort schlüssel clé".split(),
    *("clave", "contraseña", "mot de passe", "jeton", "密", "令牌", "口令"),
)
"""Words of labels, or their beginnings, in small letters."""

_LINK = r"(?:[:=：＝]|(?<!\w)(?:is|ist|lautet|es|est)(?!\w)|是|为|為)"
_MARKS = r"[\"'`“”‘’„«»（(\[*_]{0,3}"
_AFTER_LABEL = re.compile(
    rf"(?i)(?P<label>{_LABEL})(?![a-z0-9])[\"'`”’»*_)]{{0,3}}(?:\s{{0,3}}(?P<link>{_LINK})?"
    rf"|(?P<between>(?:[ \t]+(?!(?:is|ist|lautet|es|est)\s)[^\s;!?：。，；]{{1,60}}(?<![.:=])){{1,6}}?)\s{{0,3}}{_LINK})"
    rf"\s{{0,3}}{_MARKS}(?P<key>(?=[a-z]{{12}}|[a-z_]{{0,40}}[^a-z_\s])[A-Za-z0-9_$][A-Za-z0-9_.+/=~!@#$%^*:-]{{5,2000}}(?<![.:!]))"
)
"""Label, then a word, or a link such as ``=`` or ``is``, which other words may precede."""

_KINDS = {
    "PASSWORD": re.compile(r"(?i)passwor[dt]|passwd|pwd|passphrase|kennwort|contraseña|mot de passe|密[码碼]|口令"),
    "TOKEN": re.compile(r"(?i)token|bearer|jeton|令牌"),
    "SECRET": re.compile(r"(?i)secret"),
}


def _is_key(match: re.Match[str]) -> bool:
    """Return whether the word after a label is a key."""
    label, link, key = match["label"], match["link"], match["key"]
    if not _is_label(label, match.string[: match.start()][-40:]) or _PLACEHOLDER.search(key):
        return False
    if match["between"]:  # the label is further away
        return _is_random(key, 12) and not _HASH.fullmatch(key)
    if link and _KINDS["PASSWORD"].search(label) and not _PATH.search(key):
        return re.search(r"[^A-Za-z_]", key) is not None
    return _is_random(key, 8 if link else 12)


def _is_label(label: str, before: str) -> bool:
    """Return whether a word is the label of a key, and not, say, a monkey, the key of a table or the token of a page."""
    if not re.search(r"(?i)(key|keys|token)$", label):
        return True
    word = re.search(r"([A-Za-z]+)[ _-]$", before)
    one = label.removesuffix("s")
    is_word = holds_key(one, of_body=True) or re.search(r"(?:^|[^A-Za-z]|[a-z](?=K))[Kk](?:ey|EY)$", one)
    return bool(is_word) and holds_key(f"{word[1]} {one}" if word else one)


_HASH = re.compile(r"(?i)[0-9a-f]{40}|[0-9a-f]{64}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""Hash of a commit or a file, or a UUID."""

_PLACEHOLDER = re.compile(r"(?i)your|xxxx|\*\*\*|^[$_]|^(.)\1*$")
_PATH = re.compile(r"://|^\.{0,2}/|\.[A-Za-z]{1,5}$|^[\w-]+\.[a-z_]+$")
_WORD_AND_NUMBER = re.compile(r"[A-Za-z]+\d{1,4}|\d{1,4}[A-Za-z]+")


def _is_random(word: str, least: int) -> bool:
    """Return whether a word has the form of a key: a part that mixes letters and digits, or capital and small letters."""
    if len(word) < least or _PATH.search(word):
        return False
    return _HASH.fullmatch(word) is not None or any(map(_is_mixed, re.split(r"[^A-Za-z0-9]+", word)))


def _is_mixed(part: str) -> bool:
    if len(part) < 6 or _WORD_AND_NUMBER.fullmatch(part):
        return False
    if part.isalpha():
        changes = sum(one.islower() != other.islower() for one, other in pairwise(part))
        return len(part) >= 12 and changes > 0.4 * len(part)  # in camel case, they are fewer
    return not part.isdigit() or len(part) >= 16


_HOST = re.compile(r"(?<=://)(?:[^\s/?#@]*@)?([\w.-]+)|(?<![\w./@-])((?:[\w-]+\.){2,}[A-Za-z]{2,})(?!\.?\w)", re.ASCII)


def _nearest_host(text: str, place: int) -> str:
    """Return the host in a text that is nearest to a place; empty if there is none."""
    found = [match for match in _HOST.finditer(text) if "secret." not in match[0]]
    near = min(found, key=lambda match: max(match.start() - place, place - match.end()), default=None)
    return (near[1] or near[2]) if near else ""


def _holder(host: str) -> str:
    """Return the owner's part of a host, such as ``weather`` of ``api.weather.example``; a name without dots as it is."""
    parts = host.split(".")
    if parts[-1].isdigit():  # an address
        return ""
    if len(parts) > 1:
        parts.pop()
    if len(parts) > 1 and parts[-1] in ("ac", "co", "com", "edu", "gov", "net", "org"):
        parts.pop()
    return parts[-1]
