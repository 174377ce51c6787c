"""The page that shows a run: live, from a file of events, or as a report."""
