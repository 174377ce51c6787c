"""How alike texts are: equal, or near in meaning."""

import math
import re

import pytest

from operad.integrations.worfbench.similarity import Embeddings, exact, table_of
from operad.runtime.values.errors import InputError, MissingExtraError
from operad.runtime.values.pip import pip_install

SENTENCES = ["Boil the water.", "Heat the water until it boils.", "", "Sell the car.", "a \ud800 b", "x " * 1000]


@pytest.fixture(scope="module")
def embeddings():
    return Embeddings()


def test_equal_texts_are_alike_and_others_are_not():
    assert exact(["llm", "code"], ["code", "end", "code"]).tolist() == [[0, 0, 0], [1, 0, 1]]


def test_sentences_of_one_meaning_are_alike(embeddings):
    table = embeddings(SENTENCES, SENTENCES)
    assert table.shape == (6, 6)
    assert table[0, 1] > 0.7
    assert table[0, 3] < 0.5
    assert table.diagonal() == pytest.approx([1] * 6)
    assert 0 <= table.min() <= table.max() <= 1


def test_a_vector_does_not_depend_on_what_is_embedded_with_it(embeddings):
    alone = [embeddings.embed([text])[0].tolist() for text in SENTENCES]
    assert embeddings.embed(SENTENCES).tolist() == alone
    assert embeddings.embed(SENTENCES[::-1] * 2).tolist() == (alone[::-1] * 2)


def test_a_text_is_embedded_once(embeddings, monkeypatch):
    embedded = []
    embed = embeddings.embed
    monkeypatch.setattr(embeddings, "embed", lambda texts: embedded.append(list(texts)) or embed(texts))
    embeddings(["one cat", "one dog", "one cat"], ["one dog", "one bird"])
    embeddings(["one cat"], ["one dog"])
    assert [text for texts in embedded for text in texts] == ["one cat", "one dog", "one bird"]


def test_equal_texts_are_exactly_as_alike_in_every_table(embeddings):
    table = embeddings(["Boil the water."], ["Heat it.", "Heat the water until it boils."] * 9)
    assert len(set(table[0, 1::2].round(12).tolist())) == 1
    assert round(embeddings(SENTENCES, SENTENCES)[0, 1], 12) == round(table[0, 1], 12)


def test_no_texts_give_an_empty_table(embeddings):
    for similarity in (exact, embeddings):
        assert similarity([], ["a"]).shape == (0, 1)
        assert table_of(similarity, ["a"], [], 0.6).shape == (1, 0)


def test_missing_weights_name_the_extra(monkeypatch):
    monkeypatch.setattr("operad.runtime.models.minilm.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=re.escape(pip_install("embeddings"))):
        Embeddings()


def test_what_is_below_the_threshold_or_no_number_is_0_and_what_is_above_1_is_1():
    given = [[0.59, 0.6, math.nan], [-math.inf, math.inf, 1.5]]
    assert table_of(lambda gold, predicted: given, ["a", "b"], ["x", "y", "z"], 0.6).tolist() == [
        [0, 0.6, 0],
        [0, 1, 1],
    ]
    assert given[0][0] == 0.59


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ([[1, 2, 3]], r"shape \(1, 3\), not \(2, 3\): a row per gold text"),
        ([[1, 1], [1, 1], [1, 1]], r"shape \(3, 2\), not \(2, 3\)"),
        ([[1, 1, 1], [1]], "no table of numbers"),
        (None, r"shape \(\), not"),
        ([["a", "b", "c"]] * 2, "no table of numbers"),
    ],
)
def test_a_similarity_that_gives_no_such_table_is_refused(answer, told):
    def mine(gold, predicted):
        return answer

    with pytest.raises(InputError, match=f"the similarity mine gives.*{told}"):
        table_of(mine, ["a", "b"], ["x", "y", "z"], 0.6)


def test_a_similarity_that_raises_is_the_cause():
    def mine(gold, predicted):
        raise ZeroDivisionError("oops")

    with pytest.raises(InputError, match=r"the similarity mine gives no table of numbers: .*oops") as caught:
        table_of(mine, ["a"], ["b"], 0.6)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
