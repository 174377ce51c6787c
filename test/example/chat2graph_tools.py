"""A tool of chat2graph_expert.yaml."""


def search(claim: str) -> str:
    """Look a claim up."""
    return "The moon has no atmosphere to speak of."
