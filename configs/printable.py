"""Text that a terminal only shows."""


def printable(text: str) -> str:
    """Return the text on one line, with control characters escaped."""
    text = " ".join(text.splitlines())
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text)
