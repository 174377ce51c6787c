"""The studio: draw workflows, change them by instructions and run them, in the browser."""
