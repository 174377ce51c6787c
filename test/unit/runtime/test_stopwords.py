import pytest

from operad.runtime.knowledge.passage_index import stopwords
from operad.runtime.values.words import words


@pytest.mark.parametrize(
    "text",
    [
        "How do I, and what should we? Don't they? Could you please tell me which of those it's about?",
        "Wie kann ich das, und warum müssen wir es? Bitte erkläre mir, welche es sind.",
        "Qu'est-ce que je dois faire, et pourquoi ? Pouvez-vous m'expliquer s'il vous plaît ?",
        "¿Qué tengo que hacer y por qué? ¿Cómo puedo? Necesito saber cuál es, gracias.",
        "请问，如何，为什么，怎么样？",
    ],
)
def test_what_only_asks_consists_of_stopwords(text):
    assert set(words(text)) - stopwords() == set()


@pytest.mark.parametrize(
    "text", ["AI", "bin", "car", "comment", "MAIN", "tag", "todo", "US", "war", "git", "C", "说明", "问题"]
)
def test_what_names_something_elsewhere_is_none(text):
    assert not stopwords() & set(words(text))
