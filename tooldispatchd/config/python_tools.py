"""Read the signatures of `python` tools when a configuration is loaded, each in the interpreter that it will run in.

Tools of one interpreter and environment are read together. What a module does when it is imported it does here too, as
the tool's user.
"""

import os
import shutil
import sys
from collections.abc import Collection, Mapping
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec

from tooldispatchd.catalog.problems import Problem
from tooldispatchd.catalog.signatures import Signature
from tooldispatchd.catalog.speckinds import WORKSPACE
from tooldispatchd.catalog.specs import Config, ToolSpec
from tooldispatchd.children.inheritance import PASSED_ON
from tooldispatchd.children.owners import RunAs, owner_of
from tooldispatchd.config.signature_reader import ImportEnvironment, ReaderAnswer, ask_all
from tooldispatchd.config.stamps import note

# Files of code: each is looked at when one of them changes, which takes the loop some microseconds.
MAX_FOLLOWED: Final = 1_000


class PythonTools(msgspec.Struct, frozen=True):
    """The signature of each `python` tool that could be read, by the tool's name, and why the others could not."""

    signatures: dict[str, Signature]
    problems: tuple[Problem, ...]
    warnings: tuple[str, ...] = ()


class _CannotError(Exception):
    """A tool's interpreter or owner is not there; `key` names it."""

    def __init__(self, key: str, why: str) -> None:
        super().__init__(why)
        self.key = key
        self.why = why


def as_called(config: Config) -> dict[str, ToolSpec]:
    """The tools as their profiles run them: where one names a user, a function's module is not imported as another."""
    whole = dict(config.tools)
    for profile in config.agents.values():
        for name in profile.tools:
            spec = whole.get(name)
            if spec is not None and spec.python is not None and profile.user is not None:
                whole[name] = msgspec.structs.replace(spec, user=profile.user, group=profile.group)
    return whole


def read_signatures(tools: Mapping[str, ToolSpec], directory: Path, environ: Mapping[str, str]) -> PythonTools:
    """Read every `python` tool of a configuration in `directory`; `environ` is the daemon's environment.

    Users and groups that are still names are left alone: nothing is imported as anybody else in their place. Takes
    at most 20 s for each four environments.
    """
    problems: list[Problem] = []
    wanted: dict[ImportEnvironment, dict[str, list[str]]] = {}
    for name, spec in tools.items():
        if spec.python is None or isinstance(spec.user, str) or isinstance(spec.group, str):
            continue
        try:
            environment = _environment(spec, directory, environ)
        except _CannotError as error:
            problems.append(Problem(("tools", name, error.key), error.why, value=getattr(spec, error.key)))
        else:
            wanted.setdefault(environment, {}).setdefault(spec.python, []).append(name)
    signatures: dict[str, Signature] = {}
    answers = ask_all({key: tuple(functions) for key, functions in wanted.items()})
    warnings = _follow(answers.values())
    parents = _parents(answers)
    for environment, answer in answers.items():
        for function, found in answer.found.items():
            for name in wanted[environment][function]:
                if isinstance(found, Signature):
                    signatures[name] = msgspec.structs.replace(found, parent=parents[_shared(environment)])
                else:
                    # A key that is not stated cannot be blamed.
                    key = found.key if getattr(tools[name], found.key) is not None else "python"
                    value = getattr(tools[name], key)
                    problems.append(Problem(("tools", name, key), found.why, value=value, nearest=found.nearest))
    return PythonTools(signatures, tuple(problems), warnings)


def _follow(answers: Collection[ReaderAnswer]) -> tuple[str, ...]:
    """Note the files of all code for a watch; warn where there are too many."""
    files = {path: stamp for answer in answers for path, stamp in answer.code.files.items()}
    for path, stamp in islice(files.items(), MAX_FOLLOWED):
        note(Path(path), stamp)
    if len(files) <= MAX_FOLLOWED and not any(answer.code.is_cut for answer in answers):
        return ()
    return (f"of the Python modules of its tools {MAX_FOLLOWED} are followed, and there are more",)


def _parents(answers: Mapping[ImportEnvironment, ReaderAnswer]) -> dict[ImportEnvironment, str]:
    """Digest all code of each warm parent."""
    digests: dict[ImportEnvironment, set[str]] = {}
    for environment, answer in answers.items():
        digests.setdefault(_shared(environment), set()).update(answer.code.digests.values())
    return {key: sha256(" ".join(sorted(found)).encode()).hexdigest() for key, found in digests.items()}


def _shared(environment: ImportEnvironment) -> ImportEnvironment:
    """Reduce an environment to the part by which its functions share a warm parent."""
    return msgspec.structs.replace(environment, resident=False)


def interpreter_of(venv: str | None, directory: Path) -> str:
    """The Python that `venv` means, a virtual environment or the program itself; raises ValueError with a sentence."""
    if venv is None:
        return sys.executable
    path = directory / venv
    program = path / "bin" / "python" if path.is_dir() else path
    if shutil.which(program) is not None:
        # Not where a link leads to: that a Python is one of a virtual environment it knows by its own place.
        return str(program)
    if program.exists():
        raise ValueError(f"{program} is no program that can be run")
    if path.is_dir():
        raise ValueError(f"this directory is no virtual environment: there is no {program}")
    raise ValueError(f"there is no virtual environment and no interpreter {path}")


def _environment(spec: ToolSpec, directory: Path, environ: Mapping[str, str]) -> ImportEnvironment:
    try:
        interpreter = interpreter_of(spec.venv, directory)
    except ValueError as error:
        raise _CannotError("venv", str(error)) from error
    assert not isinstance(spec.user, str)
    assert not isinstance(spec.group, str)
    if os.geteuid() == 0 or (spec.user is None and spec.group is None):
        owner = owner_of(spec.user, spec.group)
    elif spec.sandbox == "best-effort":
        # As its calls will.
        owner = RunAs()
    else:
        raise _CannotError(
            "group" if spec.user is None else "user", "only a daemon that is root can run a tool as somebody"
        )
    # Of a session's own directory nothing is known yet, and no module lies there.
    cwd = None if spec.cwd == WORKSPACE else spec.cwd
    variables = {name: environ[name] for name in PASSED_ON if name in environ} | spec.env
    return ImportEnvironment(
        interpreter=interpreter,
        place=cwd or str(directory),
        cwd=cwd,
        variables=tuple(sorted(variables.items())),
        uid=owner.uid,
        gid=owner.gid,
        groups=owner.groups,
        # Threads are a resident tool's own business, and would be everybody's in a process that is shared.
        resident=spec.resident,
    )
