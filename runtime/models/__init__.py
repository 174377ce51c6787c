"""Model clients: an OpenAI-compatible endpoint, the embedded model, prices."""
