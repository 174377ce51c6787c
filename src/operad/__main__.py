"""The command as a module: ``python -m operad``."""

from operad.cli.entry import main

if __name__ == "__main__":
    main()
