"""Hooks as functions of Python: each is given a call, and answers what is to become of it."""

import re
from pathlib import PurePath
from typing import Any

Answer = dict[str, Any] | None

SECRETS = re.compile(
    r"gh[pousr]_[A-Za-z0-9]{36,}"  # GitHub
    r"|sk-[A-Za-z0-9_-]{20,}"  # model providers
    r"|AKIA[0-9A-Z]{16}"  # AWS
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    re.DOTALL,
)


def protect_git(call: dict[str, Any]) -> Answer:
    """Refuse to write below .git, however the path is written; a link that leads there is the sandbox's business."""
    parts: list[str] = []
    for part in PurePath(call["input"]["path"]).parts:
        if part == "..":
            parts = parts[:-1]
        else:
            parts.append(part.casefold())
    return {"refuse": "what is in .git is written by git alone"} if ".git" in parts else None


def hide_secrets(call: dict[str, Any]) -> Answer:
    """Mask what looks like a secret, at any depth; an output without any stays as it is."""
    hidden = _hidden(call["output"])
    return None if hidden == call["output"] else {"output": hidden}


def _hidden(value: object) -> object:
    if isinstance(value, str):
        return SECRETS.sub("[hidden]", value)
    if isinstance(value, list):
        return [_hidden(each) for each in value]
    if isinstance(value, dict):
        return {_hidden(key): _hidden(each) for key, each in value.items()}
    return value
