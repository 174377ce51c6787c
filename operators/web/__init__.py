"""The web: fetching, searching, and endpoints that draw and speak."""
