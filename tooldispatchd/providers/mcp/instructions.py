"""What servers advise their users, for `ready` (MCP, "Initialization": `instructions`)."""

from collections.abc import Iterable
from typing import Final

# Goes into every session's `ready`, and from there into a system prompt: all servers' advice together.
MAX_INSTRUCTIONS_BYTES: Final = 64 * 1024


def instructions_text(pairs: Iterable[tuple[str, str]]) -> str:
    """What servers advise, as one text for `ready`: (prefix, text) each under a heading, "" where nobody said anything.

    Control characters but newlines and tabs are left out. All together are at most `MAX_INSTRUCTIONS_BYTES` in UTF-8;
    each server has an equal share of that, so that none drowns the others.
    """
    said = [(prefix, text) for prefix, text in pairs if text.strip()]
    parts = [_part(prefix, text, MAX_INSTRUCTIONS_BYTES // len(said)) for prefix, text in said]
    return _cut("\n\n".join(parts), MAX_INSTRUCTIONS_BYTES)


def _part(prefix: str, text: str, max_bytes: int) -> str:
    # The blank line between two parts is in each part's share.
    kept = "".join(each for each in text[:max_bytes] if each.isprintable() or each in "\n\t")
    return _cut(f"# {prefix or 'Tools without a prefix'}\n{kept.strip()}", max_bytes - 2)


def _cut(text: str, max_bytes: int) -> str:
    encoded = text.encode()
    return text if len(encoded) <= max_bytes else encoded[: max(max_bytes, 0)].decode(errors="ignore")
