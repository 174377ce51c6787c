"""HTTP: the page of a run, and the API."""
