"""Other platforms, a package each, found through entry points (`operad.operators.integration`)."""
