"""Commands `operad evaluate pass` and `operad evaluate resolve`."""
