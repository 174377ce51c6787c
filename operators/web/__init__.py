"""Web: fetching, searching, and endpoints for images and speech."""
