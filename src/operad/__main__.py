"""The command as a module: ``python -m operad``."""

from operad.cli.entry import main

main()
