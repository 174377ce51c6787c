"""`operad docs`."""

import pytest

from operad.cli.docs import PAGES


def test_a_page_is_printed_as_it_is(operad):
    status, out, _ = operad("docs", "durable")
    assert (status, out) == (0, (PAGES / "durable.md").read_text("utf-8"))


@pytest.mark.parametrize("topic", ["docs/reference/yaml.md", "Reference/YAML", "reference/yaml"])
def test_a_page_may_be_named_as_in_links(operad, topic):
    status, out, _ = operad("docs", topic)
    assert (status, out) == (0, (PAGES / "reference" / "yaml.md").read_text("utf-8"))


def test_all_pages_are_listed_with_their_titles(operad):
    status, out, _ = operad("docs")
    pages = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert status == 0
    assert pages["cache"] == "Caching"
    assert len(pages) == len(list(PAGES.rglob("*.md")))


def test_a_word_lists_the_sections_about_it(operad):
    status, out, _ = operad("docs", "embedded model")
    assert (status, out) == (0, "models: The embedded model\n")


def test_a_word_that_no_heading_has_lists_the_sections_that_contain_it(operad):
    status, out, _ = operad("docs", "own_runs")
    assert status == 0
    assert {"embed: Users", "serve: Keys"} <= set(out.splitlines())


def test_a_topic_of_no_page_names_the_nearest_page(operad):
    status, out, err = operad("docs", "durabel")
    assert (status, out) == (2, "")
    assert "did you mean 'durable'?" in err
