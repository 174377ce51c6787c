"""Reading of untrusted YAML with the lines of its values, and writing of YAML."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, cast

import yaml

from operad.flows.formats.json_text import read_text
from operad.runtime.values.document import MAX_BYTES, YamlValues, parse_yaml
from operad.runtime.values.errors import InvalidError


def read_yaml(data: bytes, name: str) -> YamlValues:
    """Return the values of a YAML file, with their lines.

    Args:
        data: The content, in UTF-8.
        name: The name of the file, for errors.

    Raises:
        InvalidError: The file is not UTF-8 or not YAML, too large, nested too deep, or has duplicate keys.
    """
    text = read_text(data, name, MAX_BYTES)
    try:
        return parse_yaml(text, name)
    except InvalidError as error:
        issues = [replace(each, where=_line_and_column(each.where.removeprefix(name))) for each in error.issues]
        raise InvalidError(name, issues) from error


def _line_and_column(place: str) -> str:
    """Return ``line 2, column 5`` for ``:2:5``."""
    return ", ".join(f"{unit} {number}" for unit, number in zip(("line", "column"), place.split(":")[1:], strict=False))


HALF = re.compile("[\ud800-\udfff]")
"""Half of a surrogate pair, which UTF-8 cannot encode."""

ODD_BREAK = re.compile("[\x85\u2028\u2029]")
"""Characters that end a line in YAML, and therefore need double quotes."""


class TextDumper(yaml.SafeDumper):
    """Dumper that writes texts of several lines as blocks, and replaces half characters."""


class PlainDumper(TextDumper):
    """Dumper that writes each value out, without aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        """Return True: no value is written as an alias."""
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    text = HALF.sub("\ufffd", text)
    as_block = "\n" in text and not text.startswith((" ", "\n", "\t"))
    style = '"' if ODD_BREAK.search(text) else "|" if as_block else None
    return cast("Any", dumper).represent_scalar("tag:yaml.org,2002:str", str(text), style=style)


TextDumper.add_multi_representer(str, _represent_text)
TextDumper.add_representer(str, _represent_text)


def write_yaml(value: Any) -> bytes:
    """Return plain values as YAML, in UTF-8: keys in alphabetical order, lists and mappings as blocks."""
    return yaml.dump(value, Dumper=PlainDumper, allow_unicode=True, sort_keys=True, width=1000).encode("utf-8")
