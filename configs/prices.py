"""Option `--prices`: a file with prices of models."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from operad.runtime.models.prices import read_prices


def _use(file: Path | None) -> Path | None:
    """Make all models of this process use the prices of a file, as if ``OPERAD_PRICES`` named it.

    Raises:
        InputError: The file does not exist or cannot be read.
        InvalidError: The file does not hold prices; every issue has its line.
    """
    if file is not None:
        read_prices(file)  # faults are reported before anything runs
        os.environ["OPERAD_PRICES"] = str(file.expanduser().absolute())
    return file


PricesFile = Annotated[
    Path | None,
    typer.Option(
        "--prices",
        metavar="FILE",
        callback=_use,
        help="Price file (YAML). By default the file that OPERAD_PRICES names, or operad/prices.yaml in $XDG_CONFIG_HOME (~/.config); other models have their list prices.",
    ),
]
"""The option takes effect when it is parsed; commands ignore its value."""
