"""Items of a map in paths."""

import pytest

from operad import Workflow, events, operator
from operad.runtime.values.map_item import MapItem, without_index


def test_an_item_is_read_from_the_text_that_it_writes():
    item = MapItem("each", 12)
    assert str(item) == "each[12]"
    assert MapItem.parse(str(item)) == item


@pytest.mark.parametrize("step", ["each", "each[]", "each[-1]", "each[2:]", "[2]", "a]", "each[2]b"])
def test_other_steps_are_no_items(step: str):
    assert MapItem.parse(step) is None
    assert without_index(step) == step


def test_a_step_without_its_index_is_the_id_of_the_map():
    assert (without_index("each[2]"), without_index("a[1][2]")) == ("each", "a[1]")


def test_events_of_an_operator_whose_id_ends_in_a_bracket_can_be_selected():
    @operator(id="a]")
    def odd() -> str:
        return "done"

    stream = Workflow(odd, engine="builtin").stream("Go.", only=events.OperatorFinished, under="a]")
    assert [event.operator_id for event in stream] == ["a]"]
