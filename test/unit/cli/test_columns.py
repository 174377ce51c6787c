"""Tables in a pipe."""

from operad.cli.columns import print_table


def test_columns_with_wide_characters_are_aligned(capsys):
    print_table(("id", "workflow", "state"), [("一", "写诗", "done"), ("r2", "Poems", "failed")])
    assert capsys.readouterr().out == (
        "id  workflow  state\n"
        "一  写诗      done\n"
        "r2  Poems     failed\n"
    )  # fmt: skip
