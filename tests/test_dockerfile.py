"""The Dockerfile's steps work, and its image serves as it says: followed in a root directory, without an engine.

What that leaves unproven: that the real base image has the programs that this machine's /usr has (useradd, install,
sed, sha256sum; all of them are essential packages of its distribution), and what only an engine does: its own parser,
layers, limits, and the init of `--init`.
"""

import importlib.metadata
import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.daemon.spawned import PATIENCE_S, ROOT, Agent, until
from tests.dockerfile_root import CONFIG, Build, Container, Image, StepError, check_that_roots_can_be_made, container
from tests.dockerfile_text import exec_form, is_sent, read_dockerfile

DOCKERFILE: Final = ROOT / "Dockerfile"
LOCK: Final = ROOT / "requirements.lock"
ENVIRONMENT: Final = "/usr/local/lib/tooldispatchd"
PROFILES: Final = """\
[tools.echo]
inline = "id"
type = "string -> string"
[tools.whoami]
command = ["id", "-u"]
type = "unit -> int"
"""


def locked() -> dict[str, str]:
    """The lock's blocks by the names of their packages."""
    blocks = re.findall(r"^(?:\S.*\n)(?: +.*\n)+", LOCK.read_text() + "\n", re.MULTILINE)
    return {canonicalize_name(block.partition("==")[0]): block for block in blocks}


def needed(requirements: list[str]) -> set[str]:
    """The packages that these need, they and all below them, as they are installed here."""
    found: set[str] = set()
    waiting = [Requirement(text) for text in requirements]
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if name in found or (requirement.marker is not None and not requirement.marker.evaluate({"extra": ""})):
            continue
        found.add(name)
        waiting += [Requirement(text) for text in importlib.metadata.requires(name) or []]
    return found


def project() -> tuple[list[str], list[str]]:
    """What the daemon needs to run, and what building it needs."""
    table = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return table["project"]["dependencies"], table["build-system"]["requires"]


def forge_wheel(wheels: Path, name: str, version: str) -> Path:
    """A package of that name that nobody has released, as a registry that was broken into could offer it."""
    wheel = wheels / f"{name}-{version}-py3-none-any.whl"
    folder = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"{folder}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        archive.writestr(f"{folder}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{folder}/RECORD", "")
    return wheel


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A directory with a short path, since sockets lie in it; removed with the roots in it."""
    check_that_roots_can_be_made()
    directory = Path(tempfile.mkdtemp(prefix="image-"))
    yield directory
    shutil.rmtree(directory)


@pytest.fixture(scope="module")
def wheels(place: Path) -> Path:
    """What a registry offers to the build: what is locked, and a newer release that is not."""
    directory = place / "wheels"
    runtime, tools = project()
    wanted = place / "wanted.txt"
    wanted.write_text("".join(locked()[name] for name in needed(runtime + tools)))
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    only = ["--only-binary=:all:", "--no-deps", "--require-hashes"]
    subprocess.run([*pip, *only, "--requirement", str(wanted), "--dest", str(directory)], check=True)
    forge_wheel(directory, "trio", "99.0")
    return directory


@pytest.fixture(scope="module")
def build(place: Path, wheels: Path) -> Build:
    """Every step of every stage, followed."""
    followed = Build(place, wheels)
    for stage in read_dockerfile(DOCKERFILE.read_text()):
        followed.stage(stage)
    return followed


@pytest.fixture(scope="module")
def image(build: Build) -> Image:
    return list(build.images.values())[-1]


@pytest.fixture
def directory(place: Path) -> Iterator[Path]:
    new = Path(tempfile.mkdtemp(dir=place))
    yield new
    shutil.rmtree(new)


@pytest.fixture
def running(image: Image, directory: Path, nothing_left: None) -> Iterator[Container]:
    """The image's own command, ready; its end is everything's end."""
    config = directory / "config.toml"
    config.write_text(PROFILES)
    with container(image, directory, config) as started:
        until(lambda: '"daemon ready"' in started.log.read_text())
        yield started


def is_healthy(started: Container) -> bool:
    check = started.image.health
    assert check is not None
    return started.execute(check.argv, check.timeout_s) == 0


def installed(image: Image) -> dict[str, str]:
    """The packages in the image's environment, with their versions."""
    (packages,) = image.inside(ENVIRONMENT).glob("lib/python*/site-packages")
    return {
        canonicalize_name(found.metadata["Name"]): found.version
        for found in importlib.metadata.distributions(path=[str(packages)])
    }


def test_the_image_holds_what_the_daemon_needs_and_nothing_else(image: Image) -> None:
    assert set(installed(image)) == needed(project()[0]) | {"tooldispatchd"}


def test_the_image_holds_the_versions_that_are_locked(image: Image) -> None:
    versions = {name: block.partition("==")[2].split()[0] for name, block in locked().items()}
    chosen = {name: version for name, version in installed(image).items() if name != "tooldispatchd"}
    assert chosen == {name: versions[name] for name in chosen}


def test_a_wheel_that_the_lock_does_not_know_stops_the_build(place: Path, wheels: Path, directory: Path) -> None:
    broken = directory / "wheels"
    shutil.copytree(wheels, broken)
    (real,) = broken.glob("trio-0*.whl")
    real.unlink()
    version = locked()["trio"].partition("==")[2].split()[0]
    forged = forge_wheel(broken, "trio", version)
    stage = read_dockerfile(DOCKERFILE.read_text())[0]
    with pytest.raises(StepError) as failed:
        Build(directory / "roots", broken).stage(stage)
    assert failed.value.said == f"cannot install runtime/{forged.name}: its hash is not in requirements.lock\n"


def test_an_extra_is_built_in_by_its_name(wheels: Path, directory: Path) -> None:
    stage = read_dockerfile(DOCKERFILE.read_text())[0]
    with pytest.raises(StepError) as failed:
        Build(directory / "roots", wheels, arguments={"EXTRAS": "oauth"}).stage(stage)
    # The registry here offers what the daemon needs and nothing else.
    assert "pyjwt>=" in failed.value.said


def test_the_lock_knows_every_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert needed([package for packages in extras.values() for package in packages]) <= set(locked())


def test_the_build_sees_nothing_of_the_checkout_but_what_it_is_made_of(build: Build) -> None:
    context = build.images["build"].inside("/build")
    made = {"constraints.txt", "runtime.txt", "tools.txt", "runtime", "tools", "tools-venv"}
    copied = {path.name for path in context.iterdir()} - made
    assert copied == {
        "pyproject.toml",
        "requirements.lock",
        "README.md",
        "LICENSE",
        "tooldispatchd",
        "protocol",
        "share",
        "systemd",
    }
    assert list((context / "tooldispatchd").rglob("__pycache__")) == []


@pytest.mark.parametrize("name", [".git/config", ".env", "tests/conftest.py", "tooldispatchd/__pycache__/x.pyc"])
def test_what_is_no_part_of_the_daemon_is_never_sent_to_an_engine(name: str) -> None:
    ignored = (ROOT / ".dockerignore").read_text()
    assert not is_sent(PurePosixPath(name), ignored)


def test_the_daemon_runs_as_a_user_of_its_own_without_any_rights(running: Container) -> None:
    status = Path(f"/proc/{running.pid}/status").read_text()
    assert re.findall(r"^(?:Uid|Gid):\t(.*)$", status, re.MULTILINE) == ["\t".join(["10001"] * 4)] * 2
    assert re.findall(r"^CapEff:\t(\w+)$", status, re.MULTILINE) == ["0" * 16]


def test_the_daemon_serves_on_the_socket_in_the_volume(running: Container) -> None:
    path = running.volume / "dispatch.sock"
    assert (path.stat().st_mode & 0o777, path.stat().st_uid, path.stat().st_gid) == (0o660, 10001, 10001)
    with socket.socket(socket.AF_UNIX) as channel:
        channel.connect(str(path))
        agent = Agent(channel)
        assert agent.ask("echo", "hello")["content"] == '"hello"'
        assert json.loads(agent.ask("whoami", None)["content"]) == 10001
        agent.close()


def test_a_daemon_that_answers_is_healthy(running: Container) -> None:
    assert is_healthy(running)


def test_a_health_check_opens_no_session(running: Container) -> None:
    assert is_healthy(running)
    assert '"session opened"' not in running.log.read_text()


def test_a_daemon_that_hangs_is_not_healthy(running: Container) -> None:
    running.signal(signal.SIGSTOP)
    assert not is_healthy(running)


def test_a_daemon_that_is_dead_is_not_healthy(image: Image, running: Container, directory: Path) -> None:
    running.signal(signal.SIGKILL)
    running.wait(PATIENCE_S)
    # Its socket is still there. Something else is process 1, for there to be a place to look from.
    assert (running.volume / "dispatch.sock").is_socket()
    with container(image, directory, None, ["sleep", "60"]) as empty:
        until(lambda: Path(f"/proc/{empty.pid}/comm").read_text() == "sleep\n")
        assert not is_healthy(empty)


def test_the_stop_signal_ends_the_daemon_as_process_1_with_exit_code_0(running: Container) -> None:
    running.signal(running.image.stop_signal)
    assert running.wait(PATIENCE_S) == 0
    assert list(running.volume.iterdir()) == []


def test_without_a_configuration_the_container_ends_and_says_why(image: Image, directory: Path) -> None:
    image.inside(CONFIG).unlink(missing_ok=True)
    with container(image, directory, None) as started:
        assert started.wait(PATIENCE_S) == 2
        assert CONFIG in started.log.read_text()


def test_other_commands_of_the_program_run_in_the_image(image: Image, directory: Path) -> None:
    config = directory / "config.toml"
    config.write_text("[tools.echo]\ninline = 'no such way'\n")
    with container(image, directory, config, [*image.entrypoint, "check", "--config", CONFIG]) as started:
        assert started.wait(PATIENCE_S) == 2
        assert "no such way" in started.log.read_text()


def test_no_stage_starts_from_an_image_of_a_certain_host() -> None:
    images = [stage.image for stage in read_dockerfile(DOCKERFILE.read_text())]
    assert [image for image in images if "/" in image] == []


def test_an_instruction_that_the_tests_cannot_follow_is_an_error() -> None:
    with pytest.raises(ValueError, match="cannot follow ADD here"):
        read_dockerfile("FROM python\nADD . .\n")


def test_the_shells_form_of_an_entrypoint_is_an_error() -> None:
    # It would make the shell process 1, which passes no signal on.
    with pytest.raises(json.JSONDecodeError):
        exec_form("tooldispatchd serve")
