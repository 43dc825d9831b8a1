"""A daemon on a seed's own words, and programs in the place of those that the seed would fetch from a network."""

import json
import os
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.daemon.forking import fork_daemon, run_forked
from tests.daemon.spawned import ROOT, Agent, Daemon, ready, without_places

NAMED: Final = ROOT / "tests" / "servers" / "named.py"
AGENT: Final = ROOT / "examples" / "agent.py"


def agent_command(url: str, api: str = "anthropic") -> str:
    """`agent_command` that runs the example against a model's API at `url`."""
    words = ["env", f"AGENT_URL={url}", "AGENT_KEY=a key", f"AGENT_API={api}", "AGENT_MODEL=a model"]
    return f"agent_command = {json.dumps([*words, sys.executable, str(AGENT)])}\n"


def install(directory: Path, name: str, *words: str) -> None:
    """A program of that name in `directory`/bin, which `seeded` puts on the PATH: it runs this Python with `words`.

    What it was started with is in `directory`/NAME.started.
    """
    (directory / "bin").mkdir(exist_ok=True)
    program = directory / "bin" / name
    told = json.dumps(str(directory / f"{name}.started"))
    quoted = " ".join(json.dumps(word) for word in (sys.executable, *words))
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >> {told}\nexec {quoted}\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)


def install_server(directory: Path, name: str, server: str, *tools: str) -> None:
    """An MCP server of that name, which calls itself `server` and has these tools."""
    install(directory, name, str(NAMED), server, *tools)


@contextmanager
def seeded(
    directory: Path, config: str, files: Mapping[str, str] = {}, environ: Mapping[str, str] = {}
) -> Iterator[Daemon]:
    """A daemon with that configuration and the files beside it."""
    for name, text in files.items():
        (directory / name).write_text(text)
    (directory / "config.toml").write_text(config)
    path, log = directory / "dispatch.sock", directory / "log"
    environment = without_places() | {"PATH": f"{directory / 'bin'}:{os.environ['PATH']}"} | dict(environ)
    words = ["serve", "--config", str(directory / "config.toml"), "--listen", f"unix:{path}"]
    with (
        log.open("ab") as stderr,
        fork_daemon(words, stderr.fileno(), env=environment) as process,
        ready(Daemon(process, path, log)) as daemon,
    ):
        yield daemon


@contextmanager
def plumbed(directory: Path, text: str, config: str = "", **environ: str) -> Iterator[Agent]:
    """One agent of a daemon whose tools stand in a plumb file."""
    whole = f'plumb = ["seed.plumb"]\n{config}'
    with seeded(directory, whole, {"seed.plumb": text}, environ) as daemon, daemon.agent() as agent:
        yield agent


def refusal(directory: Path, text: str) -> str:
    """What `check` says to a plumb file."""
    (directory / "seed.plumb").write_text(text)
    return checked(directory, 'plumb = ["seed.plumb"]\n')


def checked(directory: Path, config: str) -> str:
    """What `check` says to a configuration that is wrong."""
    (directory / "config.toml").write_text(config)
    ended = run_forked("check", "--config", str(directory / "config.toml"), env=without_places())
    assert ended.returncode == 2
    return ended.stdout + ended.stderr


def names(ready_line: Mapping[str, Any]) -> list[str]:
    """The tools of `ready`, less those for jobs, which every profile has."""
    return [tool["name"] for tool in ready_line["tools"] if not tool["name"].startswith("job_")]


def value_of(answer: Mapping[str, Any]) -> object:
    """The value of an answer that is no error."""
    assert answer["is_error"] is False, answer
    return json.loads(answer["content"])
