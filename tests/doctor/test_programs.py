"""What is said of programs: what runs a script, and whether that is there."""

from pathlib import Path

import pytest

from tooldispatchd.doctor.programs import interpreter_facts, missing_interpreter, missing_script


@pytest.mark.parametrize(
    ("content", "missing"),
    [
        ("#!/bin/sh\n", None),
        ("#! /bin/sh -e\n", None),
        ("#!/no/such/python -I\n", "/no/such/python"),
        ("no script", None),
        ("", None),
    ],
)
def test_the_interpreter_of_a_script_may_be_missing(content: str, missing: str | None, tmp_path: Path) -> None:
    (tmp_path / "script").write_text(content)
    assert missing_interpreter(str(tmp_path / "script")) == missing


@pytest.mark.parametrize(
    ("command", "missing"),
    [
        (["python3", "nosuch.py"], "nosuch.py"),
        (["/usr/bin/python3.11", "there.py"], None),
        (["python3", "-c", "nosuch.py"], None),
        (["cat", "nosuch.py"], None),
        (["bash", "${file}.sh"], None),
    ],
)
def test_the_script_of_an_interpreter_may_be_missing(command: list[str], missing: str | None, tmp_path: Path) -> None:
    (tmp_path / "there.py").touch()
    assert missing_script(command, str(tmp_path)) == missing


async def test_a_script_that_failed_is_told_with_the_version_of_what_runs_it(tmp_path: Path) -> None:
    for name, content in {"node": "#!/bin/sh\necho v12.22.9\n", "server": "#!/usr/bin/env node\n"}.items():
        (tmp_path / name).write_text(content)
        (tmp_path / name).chmod(0o755)
    facts = await interpreter_facts("server", {"PATH": f"{tmp_path}:/usr/bin:/bin"})
    assert facts == {"program": f"{tmp_path}/server", "interpreter": f"{tmp_path}/node v12.22.9"}
