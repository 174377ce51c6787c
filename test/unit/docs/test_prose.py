"""The check of wording that `make check` runs: docs/make/prose.py."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[3] / "docs" / "make" / "prose.py"


@pytest.fixture(scope="module")
def prose() -> ModuleType:
    spec = spec_from_file_location("prose", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def wordings(prose: ModuleType, source: str) -> list[tuple[int, str]]:
    return [(each.line, each.wording) for each in prose.findings_in(source)]


def test_docstring_that_starts_with_a_question_word_is_found(prose: ModuleType):
    source = '"""What it does."""\nLIMIT = 3\n"""How many."""\ndef f():\n    """Whether, or not."""\n'
    assert wordings(prose, source) == [
        (1, "docstring starts with 'What'"),
        (3, "docstring starts with 'How'"),
        (5, "docstring starts with 'Whether,'"),
    ]


def test_only_the_first_word_of_a_docstring_counts(prose: ModuleType):
    assert wordings(prose, '"""Return the node.\n\nWhat follows is text.\n"""\nx = "What is it?"\n') == []


@pytest.mark.parametrize(
    ("text", "wording"),
    [
        ("waits for nobody here", "'nobody'"),
        ("a file of a kind", "'of a kind'"),
        ("blames an operator who is there", "'who is there'"),
        ("'x' is no node type", "'is no …'"),
        ("they are no numbers", "'is no …'"),
    ],
)
@pytest.mark.parametrize("written", ['"""{}"""\n', "# {}\n", 'print(f"{{3}} {}")\n'])
def test_riddles_are_found_in_docstrings_comments_and_messages(
    prose: ModuleType, text: str, wording: str, written: str
):
    assert wordings(prose, written.format(text)) == [(1, wording)]


@pytest.mark.parametrize(
    "text", ["there is no file", "there are no nodes", "it is no longer used", "it is no more than 3"]
)
def test_plain_english_passes(prose: ModuleType, text: str):
    assert wordings(prose, f'"""Return {text}."""\n') == []


def test_page_with_a_title_or_a_sentence_that_starts_with_a_question_word_is_found(prose: ModuleType):
    page = """# What it does

Whether it runs
What goes on in a line is not looked at.

- **Who** waits

| key | What it means |

```python
# What is code is not looked at
```

    Nobody, in an example

A file `nobody` is no file.
"""
    assert [(each.line, each.wording) for each in prose.findings_in_page(page)] == [
        (1, "sentence starts with 'What'"),
        (3, "sentence starts with 'Whether'"),
        (6, "sentence starts with 'Who**'"),
        (8, "sentence starts with 'What'"),
        (16, "'is no …'"),
    ]
