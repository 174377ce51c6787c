"""The studio: draw a workflow, change it by words, run it, in the browser."""
