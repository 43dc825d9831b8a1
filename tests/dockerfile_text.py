"""What a Dockerfile and a .dockerignore say, for the tests that follow their steps without an engine.

Only the forms that this project uses are known; any other is an error, so that no step is left out unseen.
"""

import json
import re
import shlex
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Final

import msgspec

# Where the variables of ENV and ARG are put in; RUN leaves that to its shell, the exec forms do without.
_EXPANDED: Final = {"ENV", "COPY", "WORKDIR", "USER", "VOLUME", "STOPSIGNAL"}
_KNOWN: Final = _EXPANDED | {"ARG", "RUN", "HEALTHCHECK", "ENTRYPOINT", "CMD"}


class Step(msgspec.Struct, frozen=True):
    """One instruction: its keyword, and its text as it stands, on one line."""

    keyword: str
    text: str


class Stage(msgspec.Struct, frozen=True):
    """One `FROM`: the image that it starts from, its name (its number where it has none), and its steps."""

    image: str
    name: str
    steps: tuple[Step, ...]


class Health(msgspec.Struct, frozen=True):
    """A health check: its words, and the seconds that it may take."""

    argv: tuple[str, ...]
    timeout_s: float


def read_dockerfile(text: str) -> list[Stage]:
    """The stages, in their order; raises ValueError for what is not known here."""
    arguments: dict[str, str] = {}
    stages: list[Stage] = []
    for step in _steps(text):
        if step.keyword == "ARG" and not stages:
            name, _, value = step.text.partition("=")
            arguments[name] = value
        elif step.keyword == "FROM":
            image, _, name = expand(step.text, arguments).partition(" AS ")
            stages.append(Stage(image, name or str(len(stages)), ()))
        elif step.keyword in _KNOWN and stages:
            stages[-1] = msgspec.structs.replace(stages[-1], steps=(*stages[-1].steps, step))
        else:
            raise ValueError(f"cannot follow {step.keyword} here: {step.text}")
    return stages


def _steps(text: str) -> list[Step]:
    # Lines of comment may stand within an instruction, and are taken out first.
    lines = "\n".join(line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#"))
    joined = re.sub(r"\\\n", " ", lines).splitlines()
    return [Step(keyword, rest.strip()) for keyword, _, rest in (line.partition(" ") for line in joined)]


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Put in `$NAME` and `${NAME}`; raises ValueError for one that is not set."""

    def value(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        if name not in variables:
            raise ValueError(f"cannot expand ${name}: it is not set")
        return variables[name]

    return re.sub(r"\$(?:(\w+)|\{(\w+)\})", value, text)


def is_expanded(step: Step) -> bool:
    """Whether variables are put into the step's text before it is read."""
    return step.keyword in _EXPANDED


def exec_form(text: str) -> tuple[str, ...]:
    """The words of a JSON list; raises ValueError for the shell's form, which would put a shell in front."""
    return msgspec.convert(json.loads(text), tuple[str, ...])


def flags(text: str) -> tuple[dict[str, str], str]:
    """The leading `--name=value` of an instruction, and what follows them."""
    found: dict[str, str] = {}
    while match := re.match(r"--([\w-]+)=(\S+)\s+", text):
        found[match[1]] = match[2]
        text = text[match.end() :]
    return found, text


def health(text: str) -> Health:
    """What a HEALTHCHECK asks for; raises ValueError where it is not a CMD in its exec form."""
    options, command = flags(text)
    keyword, _, words = command.partition(" ")
    if keyword != "CMD":
        raise ValueError(f"cannot follow a health check by {keyword}")
    return Health(exec_form(words), float(options["timeout"].removesuffix("s")))


def copied(text: str) -> tuple[str | None, list[str], str]:
    """The stage that a COPY takes from (None is the context), what it takes, and where it puts it."""
    options, rest = flags(text)
    if set(options) - {"from"}:
        raise ValueError(f"cannot follow COPY with {options}")
    *sources, destination = shlex.split(rest)
    return options.get("from"), sources, destination


def is_sent(path: PurePosixPath, ignored: str) -> bool:
    """Whether a file of the checkout is part of the build's context, by the text of a .dockerignore.

    As an engine does it: the last line that matches the path, or a directory above it, decides.
    """
    above = [path, *path.parents][:-1]
    sent = True
    for line in ignored.splitlines():
        pattern = line.strip().removeprefix("!")
        if not pattern or pattern.startswith("#"):
            continue
        expression = _expression(pattern)
        if any(expression.fullmatch(part.as_posix()) for part in above):
            sent = line.strip().startswith("!")
    return sent


def _expression(pattern: str) -> re.Pattern[str]:
    parts = re.split(r"(\*\*/|\*|\?)", pattern)
    meaning = {"**/": "(?:.*/)?", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(meaning.get(part) or re.escape(part) for part in parts))
