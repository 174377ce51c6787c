"""The motifs that models are shown are right, run, and are chosen by the types that they show."""

import pytest

from operad.evaluators.dry_run import dry_run
from operad.flows.formats.chat2workflow import issues_of
from operad.flows.generation.designer import motifs, nearest
from operad.operators.nodes import CHAT2WORKFLOW_TYPES, NODE_TYPES


@pytest.mark.parametrize("motif", motifs(), ids=lambda motif: motif.name)
async def test_a_motif_is_sound_and_ends(motif):
    assert issues_of(motif.graph, NODE_TYPES) == []
    done = await dry_run(motif.graph)
    assert done.ended, done


def test_every_type_is_shown_by_some_motif():
    shown = {kind for motif in motifs() for kind in motif.kinds}
    assert shown == set(CHAT2WORKFLOW_TYPES)


@pytest.mark.parametrize(
    ("kinds", "name"),
    [
        ({"start", "document-extractor", "llm", "end"}, "document"),
        ({"start", "iteration", "llm", "end"}, "each"),
        ({"start", "question-classifier", "llm", "end"}, "branches"),
        ({"start", "if-else", "end"}, "ends"),
        ({"start", "tts", "end"}, "voice"),
    ],
)
def test_the_nearest_shows_the_planned_types(kinds, name):
    found = nearest(kinds)
    assert found is not None
    assert found.name == name


def test_for_what_goes_without_saying_there_is_none():
    assert nearest({"start", "llm", "end"}) is None
