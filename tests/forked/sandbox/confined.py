"""Runs a few lines of Python in a process that is shut in, and says what they printed."""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import tooldispatchd
from tooldispatchd.children.abilities import Abilities, Means, read_abilities
from tooldispatchd.forked.policy import Policy

ROOT = str(Path(tooldispatchd.__file__).parent.parent)

START = """
import os, sys
sys.path.insert(0, sys.argv[1])
from tooldispatchd.forked import libc
from tooldispatchd.forked.sandbox import confine, landlock, namespaces, seccomp
from tooldispatchd.forked.policy import Policy
"""
CONFINE = """
policy = Policy.from_json(sys.argv[2])
confine.become(policy)
confine.prepare(policy)
confine.confine(policy, program=None, scratch=sys.argv[3] or None, leaf=None)
"""


def as_another(policy: Policy) -> Policy:
    """The policy with a user whose processes the kernel counts, which it does not for root."""
    return policy._replace(uid=54_321, gid=54_321) if os.getuid() == 0 else policy


def run_python(code: str, *words: str) -> str:
    """What `code` prints, in an interpreter that knows nothing but the package's own programs."""
    argv = [sys.executable, "-I", "-S", "-B", "-c", START + code, ROOT, *words]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def run_confined(policy: Policy, code: str, *, scratch: Path | None = None, before: str = "") -> str:
    """What `code` prints once it is shut in; `before` is run before that."""
    return run_python(before + CONFINE + code, policy.to_json(), str(scratch or ""))


@cache
def abilities() -> Abilities:
    """What this machine can do; tried once."""
    return read_abilities()


def need(*keys: str) -> None:
    """Skip the test where the machine cannot do one of these."""
    for key in keys:
        if (why := getattr(abilities(), key)) is not None:
            pytest.skip(f"{key}: {why}")


def lack_of(means: Means, *keys: str) -> str | None:
    """Why this means cannot enforce one of these; None where it can enforce all."""
    return next((why for key in keys if (why := getattr(means, key)) is not None), None)


def need_means(name: str, *keys: str) -> None:
    """Skip the test where this means cannot enforce all of these."""
    if (why := lack_of(getattr(abilities(), name), *keys)) is not None:
        pytest.skip(f"{name}: {why}")
