"""The `operad` command: one file per command."""
