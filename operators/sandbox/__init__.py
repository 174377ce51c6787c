"""Foreign code and templates, run where they can do no harm."""
