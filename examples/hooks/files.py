"""The tool that the example protects."""

from pathlib import Path


def write(path: str, text: str) -> int:
    """Write a text into a file, and say how many characters it has."""
    return Path(path).write_text(text, encoding="utf-8")
