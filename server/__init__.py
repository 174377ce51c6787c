"""HTTP: the run page and the API, behind one guard."""
