"""Changelogs read: releases, entries, and the words in an entry that may name somebody or something."""

import textwrap

import pytest
from changelog import (
    MAX_ENTRY,
    MAX_NAMES,
    component_candidates,
    name_candidates,
    read_release,
    releases,
    sentences,
    split_release,
)


def text(block):
    return textwrap.dedent(block).lstrip("\n")


STYLES = {
    "GNU NEWS": (
        """
        Lantern NEWS -- history of user-visible changes.
        Copyright and so on.

        * Version 2.4.0 (released 2026-03-14)

        ** liblantern: Fix a use after free when
           a stream is closed twice. Reported by Ada Brook.

        ** lanternctl: New option.

        * Version 2.3.1 (released 2025-11-02)

        ** liblantern: Old.
        """,
        ["Version 2.4.0 (released 2026-03-14)", "Version 2.3.1 (released 2025-11-02)"],
        [
            "liblantern: Fix a use after free when a stream is closed twice. Reported by Ada Brook.",
            "lanternctl: New option.",
        ],
    ),
    "stars with continuation lines": (
        """
        Changes in 1.2

        * Fix a bug
          over two lines.
        * Another thing (Tom Reed).
          - with a sub item

        Changes in 1.1

        * Old.
        """,
        ["Changes in 1.2", "Changes in 1.1"],
        ["Fix a bug over two lines.", "Another thing (Tom Reed). - with a sub item"],
    ),
    "a version, a date, rules under headings, labels": (
        """
        1.2.3 (2022-04-15)
        ==================

        Bug fixes:

        - One thing,
          continued.
        - Two.

          Its second paragraph.

        New features:
        - Three.

        1.2.2 (2022-01-01)
        ==================
        - Old.
        """,
        ["1.2.3 (2022-04-15)", "1.2.2 (2022-01-01)"],
        ["One thing, continued.", "Two. Its second paragraph.", "Three."],
    ),
    "Keep a Changelog": (
        """
        # Changelog

        ## [Unreleased]

        ## [1.2.3] - 2024-01-02
        ### Added
        - New flag.
        ### Fixed
        - A crash.

        ## [1.2.2] - 2023-12-01
        - Old.
        """,
        ["[Unreleased]", "[1.2.3] - 2024-01-02", "[1.2.2] - 2023-12-01"],
        ["New flag.", "A crash."],
    ),
    "what is not released yet": (
        """
        [Unreleased]

        * Not out yet.

        [1.0] - 2020-01-01

        * Out.
        """,
        ["[Unreleased]", "[1.0] - 2020-01-01"],
        ["Not out yet."],
    ),
    "numbered": (
        """
        Version 1.2

        1. First thing.
        2. Second
           thing.
        (3) Third.

        Version 1.1

        1. Old.
        """,
        ["Version 1.2", "Version 1.1"],
        ["First thing.", "Second thing.", "Third."],
    ),
    "paragraphs": (
        """
        foo 1.2 released

        The first paragraph
        goes on here.

        The second paragraph.

        foo 1.1 released

        Old.
        """,
        ["foo 1.2 released", "foo 1.1 released"],
        ["The first paragraph goes on here.", "The second paragraph."],
    ),
    "underlined sections, and labels that are items": (
        """
        Version 1.2
        -----------

        Features
        ~~~~~~~~

        * Add x.

        Bug fixes
        ~~~~~~~~~

        * Fix y.
        * Build:
          - Fix cmake.
          - Fix make.
        """,
        ["Version 1.2"],
        ["Add x.", "Fix y.", "Fix cmake.", "Fix make."],
    ),
    "no heading at all": ("* One.\n* Two.\n", [""], ["One.", "Two."]),
    "Windows line ends": ("Version 1.2\r\n\r\n* One\r\n  more.\r\n* Two.\r\n", ["Version 1.2"], ["One more.", "Two."]),
    "headings without entries": ("Version 2.0\n\nBug fixes:\n\nVersion 1.9\n\nFeatures:\n", ["Version 2.0", "Version 1.9"], []),
    "nothing": ("", [], []),
    "mere blanks": (" \n\n\t\n", [], []),
}  # fmt: skip


@pytest.mark.parametrize("style", STYLES)
def test_releases_and_the_entries_of_the_newest_are_found_in_every_style(style):
    block, headings, entries = STYLES[style]
    found = text(block)
    assert [heading for heading, _ in releases(found)] == headings
    assert read_release(found)[1] == entries


def test_the_newest_release_is_the_first_that_has_entries():
    assert read_release(text(STYLES["Keep a Changelog"][0])) == ("[1.2.3] - 2024-01-02", ["New flag.", "A crash."])
    assert read_release("Version 2.0\n\nBug fixes:\n") == ("", [])
    assert read_release("") == ("", [])


def test_a_release_ends_where_the_next_begins_and_nothing_is_lost():
    [(_, first), (_, second)] = releases("preface\n\nVersion 2\n\nVersion 2.0\n\n* a\n\nVersion 1.0\n* b\n")
    assert (first, second) == ("\n* a\n", "* b")


@pytest.mark.parametrize(
    "heading",
    [
        "Version 1.2",
        "1.2.3",
        "v1.2.3",
        "foo 1.2",
        "foo-1.2.3",
        "Release 1.2 (2022-04-15)",
        "Changes in version 1.2:",
        "Overview of changes in GnuTLS 3.7.3",
        "What's new in Foo 2.0?",
        "2022-04-15: Version 1.2",
        "Noteworthy changes in release 1.2 (2022-04-15) [stable]",
        "Version 1.2rc1, 11-December-2022",
        "# 1.2.3 / 2022-04-15",
        "= 1.2.3 =",
    ],
)
def test_a_heading_of_a_release_is_recognised(heading):
    [(found, body)] = releases(f"{heading}\n\n* An entry.\n")
    assert (found, body) == (heading.lstrip("#= "), "\n* An entry.")


@pytest.mark.parametrize(
    "line",
    [
        "Version 1.2 of the protocol is now supported by the parser.",
        "- 1.2.3",
        "  Version 1.2",
        "* 1.2.3 is required now",
        "The library needs version 1.2 now.",
        "foo bar baz qux 1.2",
        "1.2 " + "x" * 200,
        "",
    ],
)
def test_what_merely_mentions_a_version_is_no_heading(line):
    assert [heading for heading, _ in releases(f"\n{line}\n\n* An entry.\n")] == [""]


@pytest.mark.parametrize("label", ["Bug fixes:", "### Thanks", "Bug fixes", "Thanks\n------"])
def test_labels_of_sections_are_no_entries(label):
    assert split_release(f"{label}\n\n* An entry.\n\n{label}\n\nA paragraph is an entry.\n") == [
        "An entry.",
        "A paragraph is an entry.",
    ]


@pytest.mark.parametrize(
    ("body", "entries"),
    [
        ("* Fix typo\n* Add x\n", ["Fix typo", "Add x"]),
        ("- Fix typo\n\nBug fixes\n\n- Add x", ["Fix typo", "Add x"]),
        ("** Bug fixes\n\n  cp works.\n\n  mv works.\n\n** Others\n\n  rm works.\n", ["cp works.", "mv works.", "rm works."]),
        ("* Changes\n\n** cp works\n** mv works\n", ["cp works", "mv works"]),
        ("* Build:\n* Fix make\n", ["Fix make"]),
        ("* Build\n  - Fix make\n", ["Build - Fix make"]),
    ],
)  # fmt: skip
def test_a_short_item_is_an_entry_unless_others_stand_under_it(body, entries):
    assert split_release(body) == entries


def test_an_entry_is_one_line_with_single_blanks_and_bounded():
    assert split_release("*   a \t b.\n\n    c   d\n") == ["a b. c d"]
    assert split_release(f"* {'x' * 30_000}\n") == ["x" * MAX_ENTRY]


NAMES = [
    ("Reported by Ada Brook.", ["Ada Brook"]),
    ("Ada Brook and Tom Reed", ["Ada Brook", "Tom Reed"]),
    ("Ada Brook, Tom Reed, Ada Brook", ["Ada Brook", "Tom Reed"]),
    # initials
    ("Thanks to J. R. R. Tolkien and E. Nesbit.", ["J. R. R. Tolkien", "E. Nesbit"]),
    ("Ada J. Brook, Tom M.K. Reed", ["Ada J. Brook", "Tom M.K. Reed"]),
    ("J. X.", []),
    ("A bug of Plan B. Fixed", []),
    # particles stand inside a name only
    ("Juan de la Fuente, Piet van Houten", ["Juan de la Fuente", "Piet van Houten"]),
    ("van Gogh", []),
    ("Ludwig van", []),
    ("Ada Brook de", ["Ada Brook"]),
    # hyphens, apostrophes, possessives
    ("Jean-Luc Obi-Lund, Dong-hee Kim", ["Jean-Luc Obi-Lund", "Dong-hee Kim"]),
    ("Sinead O'Neil, Kim O’Hara", ["Sinead O'Neil", "Kim O’Hara"]),
    ("Jeanne d'Arc helped", ["Jeanne d'Arc"]),
    ("Ada Brook's patch, Tom Reed’s test", ["Ada Brook", "Tom Reed"]),
    # scripts
    ("Lucía Ferrán, Łukasz Żak, Åsa Öberg", ["Lucía Ferrán", "Łukasz Żak", "Åsa Öberg"]),
    ("Юрий Гагарин", ["Юрий Гагарин"]),
    ("王 李明", []),
    # addresses
    ("Ada Brook <Ada.Brook@Foo.Example>", ["Ada Brook"]),
    ("see https://Foo.Example/Ada Brook", []),
    ("mail Ada.Brook@Foo.Example Now", []),
    # the calendar, words that open a sentence, abbreviations, identifiers
    ("In March Ada Brook fixed it", ["Ada Brook"]),
    ("April Smith", []),
    ("Monday March", []),
    ("The New Option", []),
    ("See Ada Brook", ["Ada Brook"]),
    ("Fix Ada Brook", ["Ada Brook"]),
    ("GNU TLS HTTP", []),
    ("Ada BROOK", []),
    ("Blue2 Sky", []),
    ("Some_Thing Else", []),
    ("iPhone Pro", []),
    ("McCoy Tyner", ["McCoy Tyner"]),
    # how long, how far apart
    ("Ada", []),
    ("Aa Bb", []),
    ("Ada Bea Cyd Dan Eve", ["Ada Bea Cyd Dan Eve"]),
    ("Ada Bea Cyd Dan Eve Fay", []),
    ("Ada  Brook", []),
    ("Ada\u00a0Brook", []),
    ("Ada. Brook", []),
    ("", []),
]


@pytest.mark.parametrize(("entry", "names"), NAMES, ids=[entry or "nothing" for entry, _ in NAMES])
def test_names_are_told_from_other_capitalised_words(entry, names):
    assert name_candidates(entry) == names


def test_the_first_names_of_a_long_list_are_taken():
    people = [f"Ada B{chr(97 + n)}ook" for n in range(26)]
    assert name_candidates(", ".join(people)) == people[:MAX_NAMES]
    assert MAX_NAMES == 24


COMPONENTS = [
    ("libfoo: fix.", ["libfoo"]),
    ("[Gui] Fix x.", ["Gui"]),
    ("libfoo: lib_bar: Fix libbaz.", ["libfoo", "lib_bar"]),
    ("libfoo: libfoo: Fix.", ["libfoo"]),
    # an issue's number is no label
    ("bpo-123: Fix json.loads", ["json.loads"]),
    ("gh-99: [Core] Fix it", ["Core"]),
    ("CVE-2022-1234: fix parser", ["fix", "parser"]),
    # without a label: what looks like an identifier, then plain words, of the first sentence
    ("Fix :func:`os.path` and json.dump in Parser", ["os.path", "json.dump", "Parser"]),
    ("Fix the my_func of things. Other words.", ["my_func", "things"]),
    ("a crash of the parser when reading", ["crash", "parser", "reading"]),
    ("See https://foo.example/parsing for parsing", ["parsing"]),
    ("foo:bar baz", ["foo", "bar", "baz"]),
    # never empty where the entry is not
    ("Fix a", ["Fix"]),
    ("...", ["..."]),
    ("#12 !", ["#12"]),
    ("", []),
]


@pytest.mark.parametrize(("entry", "components"), COMPONENTS, ids=[entry or "nothing" for entry, _ in COMPONENTS])
def test_the_words_that_may_name_a_component_come_likeliest_first(entry, components):
    assert component_candidates(entry) == components


def test_no_more_components_than_asked_for():
    entry = "aaa bbb ccc ddd eee fff ggg hhh iii jjj"
    assert component_candidates(entry) == entry.split()[:8]
    assert component_candidates(entry, limit=2) == ["aaa", "bbb"]
    assert component_candidates("aaa: bbb: ccc: ddd: eee", limit=2) == ["aaa", "bbb"]


@pytest.mark.parametrize(
    ("entry", "parts"),
    [
        ("Fix it. Reported by Ada.", ["Fix it.", "Reported by Ada."]),
        ("Fix f(). (Ada Brook)", ["Fix f().", "(Ada Brook)"]),
        ("Fix e.g. this", ["Fix e.g. this"]),
        ("By J. Brook", ["By J. Brook"]),
        ("", [""]),
    ],
)
def test_an_entry_has_sentences(entry, parts):
    assert sentences(entry) == parts
