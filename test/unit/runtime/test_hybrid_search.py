"""Hybrid search: passages are found by words and by meaning, and embedded once for each model."""

import json
import logging
import re
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
from pydantic import SecretStr

from operad.operators import Operator, OperatorConfig
from operad.runtime import BuiltinWorkflow, Documents, EmbeddingModel, Job, events
from operad.runtime.knowledge import documents, embeddings, passage_index
from operad.runtime.knowledge.passage_index import PassageIndex
from operad.runtime.testing import ScriptedReasoner
from operad.runtime.values.errors import InputError, MissingExtraError, ModelError
from operad.runtime.values.pip import pip_install

MEANINGS = (("money", "refund", "paid"), ("cat", "kitten", "purr"), ("post", "parcel", "ship"))


class Meanings:
    """Embeddings whose numbers say which of some subjects a text is about."""

    def __init__(self, identity="meanings", more=0):
        self.identity = identity
        self.asked: list[str] = []
        self._more = [0.0] * more

    def embed(self, texts: Sequence[str]):
        self.asked += texts
        about = [[float(any(word in text.lower() for word in words)) for words in MEANINGS] for text in texts]
        return [[*vector, 0.1, *self._more] for vector in about]


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "terms.md").write_text(
        "# Terms\n\n## Refunds\n\nRefunds arrive soon.\n\n## Delivery\n\nBy parcel service.\n"
    )
    (folder / "pets.md").write_text("A kitten sleeps a lot.\n")
    return folder


def found(library, query):
    return [passage.source for passage in library.retrieve(query).passages]


TERMS, DELIVERY, PETS = "docs/terms.md:5 Terms > Refunds", "docs/terms.md:9 Terms > Delivery", "docs/pets.md:1"


def test_what_shares_no_word_with_the_query_is_found_by_its_meaning(folder):
    query = "When do I get my money back?"
    assert found(Documents(folder), query) == []
    assert found(Documents(folder, embeddings=Meanings(), passages=1), query) == [TERMS]


def test_the_score_of_a_passage_is_bm25_and_4_for_each_standard_deviation_of_its_cosine_above_the_mean(folder):
    [by_words] = Documents(folder).retrieve("a kitten").passages
    passages = Documents(folder, embeddings=Meanings()).retrieve("a kitten").passages
    assert [passage.source for passage in passages] == [PETS, TERMS, DELIVERY]
    # Of the cosines one is 1 and two are alike, so they are √2, -√½ and -√½ standard deviations from their mean.
    expected = [by_words.score + 4 * 2**0.5, -4 * 0.5**0.5, -4 * 0.5**0.5]
    assert [passage.score for passage in passages] == pytest.approx(expected, rel=1e-5)


def test_words_decide_between_passages_with_the_same_meaning(folder):
    (folder / "more.md").write_text("A kitten called Minka.\n")
    assert found(Documents(folder, embeddings=Meanings(), passages=1), "Minka, the cat") == ["docs/more.md:1"]
    assert found(Documents(folder, embeddings=Meanings(), passages=1), "the cat that sleeps") == [PETS]


def test_vectors_that_differ_by_rounding_alone_leave_the_order_to_the_words(folder):
    class Alike:
        identity = "alike"

        def embed(self, texts):
            return [[1.0, 5e-4 if text.endswith("service.") else 0.0] for text in texts]

    assert found(Documents(folder, embeddings=Alike(), passages=1), "parcel") == [DELIVERY]


def test_a_passage_is_embedded_once_with_what_it_stands_under(folder, tmp_path):
    first, second = Meanings(), Meanings()
    for model in (first, second):
        library = Documents(folder, index=tmp_path / "index.sqlite", embeddings=model)
        library.retrieve("money")
        library.retrieve("money")
        library.close()
    assert sorted(first.asked) == [
        "A kitten sleeps a lot.",
        "Terms > Delivery\nBy parcel service.",
        "Terms > Refunds\nRefunds arrive soon.",
        "money",
        "money",
    ]
    assert second.asked == ["money", "money"]


def test_of_a_changed_file_the_passages_that_changed_are_embedded(folder):
    model = Meanings()
    library = Documents(folder, embeddings=model, passages=1)
    library.retrieve("money")
    model.asked.clear()
    (folder / "terms.md").write_text(
        "# Terms\n\n## Refunds\n\nRefunds arrive soon.\n\n## Delivery\n\nWe ship on Mondays.\n"
    )
    assert found(library, "by post") == [DELIVERY]
    assert model.asked == ["Terms > Delivery\nWe ship on Mondays.", "by post"]


def test_a_removed_file_is_not_found_any_more(folder):
    library = Documents(folder, embeddings=Meanings())
    assert PETS in found(library, "cat")
    (folder / "pets.md").unlink()
    assert PETS not in found(library, "cat")


def test_another_model_embeds_all_passages_anew_and_says_so(folder, tmp_path, caplog):
    index = tmp_path / "index.sqlite"
    Documents(folder, index=index, embeddings=Meanings("small")).retrieve("money")
    assert caplog.messages == []
    other = Meanings("large", more=2)
    assert found(Documents(folder, index=index, embeddings=other, passages=1), "money") == [TERMS]
    assert caplog.messages == ["the passages were embedded with small, and are embedded anew with large"]
    assert len(other.asked) == 4


def test_the_index_file_says_which_model_its_vectors_are_of(folder, tmp_path):
    import sqlite3

    index = tmp_path / "index.sqlite"
    Documents(folder, index=index, embeddings=Meanings("small")).retrieve("money")
    with sqlite3.connect(index) as connection:
        assert connection.execute("SELECT model, width FROM embedded").fetchall() == [("small", 4)]
        assert connection.execute("SELECT count(*) FROM vectors").fetchall() == [(3,)]
    connection.close()


def test_vectors_of_two_models_are_never_mixed(tmp_path):
    one = PassageIndex(tmp_path / "index.sqlite")
    one.embed_with("small")
    PassageIndex(tmp_path / "index.sqlite").embed_with("large")
    with pytest.raises(InputError, match=r"embedded with large by now, not with small; .* an index file each"):
        one.add_vectors("small", {})
    with pytest.raises(InputError, match="embedded with large by now"):
        one.nearest("small", [1.0], [], 5)


def test_vectors_that_another_process_added_are_searched(folder, tmp_path):
    index, other = tmp_path / "index.sqlite", folder.parent / "more"
    library = Documents(folder, index=index, embeddings=Meanings())
    library.retrieve("money")
    other.mkdir()
    (other / "cats.md").write_text("Purring.\n")
    both = Documents([folder, other], index=index, embeddings=Meanings())
    assert "more/cats.md:1" in found(both, "cat")
    assert "more/cats.md:1" not in found(library, "cat")


async def test_a_first_embedding_tells_how_far_it_is(folder, monkeypatch):
    monkeypatch.setattr(documents, "EMBEDDED_AT_ONCE", 2)
    heard = []
    workflow = BuiltinWorkflow(listeners=[heard.append])
    library = Documents(folder, embeddings=Meanings())
    workflow.add_operator(Operator(OperatorConfig(instruction="Answer."), knowledge_base=library))
    await workflow.aexecute(Job(goal="money?"), ScriptedReasoner(["Soon."]))
    told = [(event.model, event.done, event.total) for event in heard if isinstance(event, events.PassagesEmbedded)]
    assert told == [("meanings", 2, 3), ("meanings", 3, 3)]


def test_a_log_tells_how_far_it_is_outside_of_runs(folder, caplog):
    with caplog.at_level(logging.INFO, "operad"):
        Documents(folder, embeddings=Meanings()).retrieve("money")
    assert caplog.messages == ["embedded 3 of 3 passages with meanings"]


def test_an_embedding_that_takes_too_long_goes_on_at_the_next_call(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "EMBEDDED_AT_ONCE", 2)
    monkeypatch.setattr(documents, "EMBEDDING_SECONDS", 10.0)
    seconds = iter([0, 0, 11, 20, 20])
    # the clock of this module alone: other threads read theirs
    monkeypatch.setattr(documents, "time", SimpleNamespace(monotonic=lambda: next(seconds), time_ns=time.time_ns))
    model = Meanings()
    library = Documents(folder, embeddings=model)
    with pytest.raises(
        InputError, match=r"2 of 3 passages were embedded with meanings in 10 s; they are kept .* go on"
    ):
        library.retrieve("money")
    assert TERMS in found(library, "money")
    assert len(model.asked) == 4


def test_vectors_that_take_too_much_memory_are_refused(folder, monkeypatch):
    monkeypatch.setattr(documents, "MAX_VECTOR_BYTES", 48)
    library = Documents(folder, embeddings=Meanings())
    library.retrieve("money")
    (folder / "more.md").write_text("Cats purr.\n")
    with pytest.raises(InputError, match="4 passages with vectors of 4 numbers take 64 bytes, more than 48"):
        library.retrieve("money")


def test_vectors_that_another_process_took_out_are_made_again(folder, tmp_path):
    index, model = tmp_path / "index.sqlite", Meanings("small")
    library = Documents(folder, index=index, embeddings=model, passages=1)
    library.retrieve("money")
    Documents(folder, index=index, embeddings=Meanings("large")).retrieve("money")
    model.asked.clear()
    assert found(library, "money") == [TERMS]
    assert len(model.asked) == 4


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([], r"shape \(0,\) for 3 texts"),
        ([[1.0]], r"shape \(1, 1\) for 3 texts"),
        ([[], [], []], r"shape \(3, 0\) for 3 texts"),
        ([[1.0], [1.0], [1.0, 2.0]], "no vectors of one width"),
        ([["a"], ["b"], ["c"]], "no vectors of one width"),
        ([[1.0], [2.0], [float("nan")]], "a number that is not finite"),
        ([[0.0] * 16_385] * 3, "at most 16,384 numbers"),
    ],
)
def test_what_is_no_vector_for_each_text_is_refused(folder, given, told):
    class Odd:
        identity = "odd"

        def embed(self, texts):
            return given

    with pytest.raises(InputError, match=f"odd: gives .*{told}"):
        Documents(folder, embeddings=Odd()).retrieve("money")


def test_a_query_with_vectors_of_another_width_is_refused(folder):
    class Growing(Meanings):
        def embed(self, texts):
            return [[1.0] * (4 if len(texts) > 1 else 5)] * len(texts)

    with pytest.raises(InputError, match="gives a vector of 5 numbers; those of the passages have 4"):
        Documents(folder, embeddings=Growing()).retrieve("money")


def test_an_empty_query_asks_no_model(folder):
    model = Meanings()
    assert found(Documents(folder, embeddings=model), " \n") == []
    assert model.asked == []


def test_of_a_long_query_the_beginning_is_embedded(folder):
    model = Meanings()
    Documents(folder, embeddings=model).retrieve("money " * 10_000)
    assert len(model.asked[-1]) == 4_000


def test_a_model_of_zeros_changes_nothing(folder):
    class Zeros:
        identity = "zeros"

        def embed(self, texts):
            return [[0.0, 0.0]] * len(texts)

    assert found(Documents(folder, embeddings=Zeros()), "refunds")[0] == TERMS


def test_without_numpy_the_extra_is_named_at_once(folder, monkeypatch):
    def missing(name):
        raise ImportError(f"no {name}")

    monkeypatch.setattr(embeddings, "import_module", missing)
    with pytest.raises(MissingExtraError, match=re.escape(pip_install("embeddings"))):
        Documents(folder, embeddings=Meanings())


def test_the_model_is_part_of_the_fingerprint(folder):
    prints = [Documents(folder, embeddings=model).fingerprint() for model in (None, Meanings("a"), Meanings("b"))]
    assert [each.get("embeddings") for each in prints] == [None, "a", "b"]


def test_enough_is_found_where_most_of_an_index_is_of_other_files(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(passage_index, "_AT_ONCE", 1)
    others = tmp_path / "others"
    others.mkdir()
    for number in range(5):
        (others / f"{number}.md").write_text(f"Cat {number}.\n")
    index = tmp_path / "index.sqlite"
    Documents(others, index=index, embeddings=Meanings()).retrieve("cat")
    library = Documents(folder, index=index, embeddings=Meanings(), passages=2)
    assert found(library, "cat")[0] == PETS


# An endpoint

KEY = "sk-test-0123456789abcdef"


def vectors(web, *data):
    return web.reply(
        json.dumps({"object": "list", "data": data, "model": "m"}).encode(), content_type="application/json"
    )


def asked(host, **fields):
    return EmbeddingModel(name="embed", base_url=f"{host}/v1", api_key=SecretStr(KEY), max_retries=0, **fields)


async def test_an_endpoint_gives_a_vector_for_each_text_whatever_their_order(web):
    answer = vectors(web, {"index": 1, "embedding": [0, 1]}, {"index": 0, "embedding": [1, 0]})
    model = asked(await web.serve(answer))
    assert await model.aembed(["a", "b"]) == [[1.0, 0.0], [0.0, 1.0]]
    [request] = web.requests
    assert (request.path, request.headers["authorization"]) == ("/v1/embeddings", f"Bearer {KEY}")
    assert json.loads(request.body) == {"model": "embed", "input": ["a", "b"], "encoding_format": "float"}


def test_an_endpoint_is_known_by_its_name_and_place_without_secrets():
    model = EmbeddingModel(name="embed", base_url="http://me:secret@host/v1?key=1", api_key=SecretStr(KEY))
    assert model.identity == "embed at http://host/v1"


@pytest.mark.parametrize(
    "data",
    [
        [{"index": 0, "embedding": [1, 0]}],
        [{"index": 0, "embedding": [1, 0]}, {"index": 0, "embedding": [1, 0]}],
        [{"index": 0, "embedding": ["a"]}, {"index": 1, "embedding": [1]}],
        [{"index": 0}, {"index": 1}],
        [1, 2],
    ],
    ids=["too few", "one twice", "no number", "no vector", "no object"],
)
async def test_an_answer_without_a_vector_for_each_text_is_an_error(web, data):
    model = asked(await web.serve(vectors(web, *data)))
    with pytest.raises(ModelError, match="does not speak the OpenAI embeddings protocol"):
        await model.aembed(["a", "b"])


async def test_an_endpoint_that_refuses_is_an_error_without_the_key(web):
    model = asked(await web.serve(web.reply(f"bad key {KEY}".encode(), 401)))
    with pytest.raises(ModelError, match=r"refuses the API key \(401\)") as raised:
        await model.aembed(["a"])
    assert KEY not in str(raised.value)


def test_the_local_model_finds_what_is_meant(tmp_path):
    pytest.importorskip("onnxruntime")
    from operad.runtime import MiniLM

    Path(tmp_path, "a.md").write_text("Refunds arrive within seven days.\n")
    Path(tmp_path, "b.md").write_text("Cats purr when they are content.\n")
    library = Documents(tmp_path, embeddings=MiniLM(), passages=1)
    [passage] = library.retrieve("When do I get my money back?").passages
    assert passage.text == "Refunds arrive within seven days."
