"""A skill (SEP-2640) with a file in a directory below it, as the suite looks for one."""

import hashlib
from typing import Final

from tests.servers.conforming.channel import Message, RefusedError, Request

ROOT: Final = "skill://greeting"
FRONTMATTER: Final = {"name": "greeting", "description": "Greet a person by name."}
HEAD: Final = "".join(f"{name}: {value}\n" for name, value in FRONTMATTER.items())
TEXTS: Final = {
    f"{ROOT}/SKILL.md": f"---\n{HEAD}---\n\nSay a word of `references/words.md`, then the name.\n",
    f"{ROOT}/references/words.md": "Hello, good day\n",
}
FILES: Final[dict[str, Message]] = {uri: {"mimeType": "text/markdown", "text": text} for uri, text in TEXTS.items()}
LISTED: Final[list[Message]] = [
    {"uri": f"{ROOT}/SKILL.md", "mimeType": "text/markdown", **FRONTMATTER},
    {"uri": f"{ROOT}/references/words.md", "mimeType": "text/markdown", "name": "words.md"},
]
DIRECTORY: Final = {"uri": f"{ROOT}/references", "mimeType": "inode/directory", "name": "references"}
DIRECTORIES: Final = {ROOT: [LISTED[0], DIRECTORY], DIRECTORY["uri"]: [LISTED[1]]}
SKILL: Final[Message] = {
    "uri": f"{ROOT}/SKILL.md",
    "frontmatter": FRONTMATTER,
    "resources": [
        {"uri": uri, "digest": f"sha256:{hashlib.sha256(text.encode()).hexdigest()}", "size": len(text.encode())}
        for uri, text in TEXTS.items()
    ],
}


def skills(request: Request) -> Message:
    return {"skills": [SKILL]}


def skill(request: Request) -> Message:
    if request.params["uri"] != SKILL["uri"]:
        raise RefusedError(-32602, "no such skill")
    return {"skill": SKILL}


def directory(request: Request) -> Message:
    found = DIRECTORIES.get(request.params["uri"])
    if found is None:
        raise RefusedError(-32602, "no directory")
    return {"resources": found}
