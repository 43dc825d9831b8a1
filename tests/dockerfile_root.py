"""A root directory of its own in the place of a container, and a Dockerfile's steps followed in it.

The base image is played by a copy of this machine's Python over this machine's /usr, which is read only; everything
else in the root is the image's own. Each command runs in namespaces of its own (mounts, processes, network, names),
whose end is the end of every mount and process in them. No network: packages come from a directory of wheels.
"""

import os
import shlex
import shutil
import signal
import site
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Final

import pip
import pytest

from tests.daemon.spawned import ROOT, children_of, until
from tests.dockerfile_text import (
    Health,
    Stage,
    Step,
    copied,
    exec_form,
    expand,
    flags,
    health,
    is_expanded,
    is_sent,
)

WHEELS: Final = "/wheels"
CONFIG: Final = "/etc/tooldispatchd/config.toml"
# What of a machine's /etc an image of a distribution has too, and programs read. No users: the image has its own.
ETC: Final = ("ld.so.cache", "login.defs", "nsswitch.conf", "localtime")
USERS: Final = {
    "passwd": "root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    "group": "root:x:0:\nnogroup:x:65534:\n",
    "shadow": "root:*:1::::::\n",
    "gshadow": "root:*::\n",
}
DEVICES: Final = ("null", "zero", "full", "random", "urandom")
SYSTEM_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# A step of a build that takes so long hangs.
STEP_S: Final = 120.0
UNSHARE: Final = ("unshare", "--mount", "--pid", "--net", "--uts", "--ipc", "--fork", "--kill-child")
# Large, and used by no program that runs here.
_LEFT_OUT: Final = shutil.ignore_patterns("site-packages", "test", "tests", "idlelib", "turtledemo", "config-*")


class StepError(Exception):
    """A step of the Dockerfile failed; `said` is what it wrote."""

    def __init__(self, step: Step, said: str) -> None:
        super().__init__(f"{step.keyword} {step.text}\n{said}")
        self.said = said


def check_that_roots_can_be_made() -> None:
    """Fail the test, with the reason, on a machine where this user cannot have a root directory of its own."""
    done = subprocess.run([*UNSHARE, "true"], capture_output=True, text=True, check=False)
    if os.geteuid() != 0 or done.returncode != 0:
        pytest.fail(f"cannot follow the Dockerfile: this takes root and namespaces (unshare: {done.stderr.strip()})")


class Image:
    """A root directory, and what its Dockerfile says of running it."""

    def __init__(self, directory: Path) -> None:
        self.tree = directory / "tree"
        self._mount = directory / "mount"
        self._mount.mkdir(parents=True)
        self.variables = {"PATH": _make_base(self.tree)}
        self.workdir = PurePosixPath("/")
        self.user = "0:0"
        self.stop_signal = signal.SIGTERM
        self.volumes: tuple[str, ...] = ()
        self.entrypoint: tuple[str, ...] = ()
        self.command: tuple[str, ...] = ()
        self.health: Health | None = None

    def inside(self, path: PurePosixPath | str) -> Path:
        """Where a path of the image lies on this machine; `/usr` is not the image's own, but for `/usr/local`."""
        absolute = self.workdir / path
        assert not absolute.is_relative_to("/usr") or absolute.is_relative_to("/usr/local")
        return self.tree / absolute.relative_to("/")

    def words(self, argv: Sequence[str], binds: Mapping[Path, str], variables: Mapping[str, str]) -> list[str]:
        """The command line that runs `argv` in the root, as the image's user; `binds` are mounted in it, writable."""
        uid_gid = self.user if ":" in self.user else f"{self.user}:{self.user}"
        script = "\n".join(["set -e", *self._mounts(binds)])
        assignments = [f"{name}={value}" for name, value in {**self.variables, **variables}.items()]
        enter = ["chroot", f"--userspec={uid_gid}", f"--groups={uid_gid.partition(':')[2]}", str(self._mount)]
        start = ["sh", "-c", f'cd {shlex.quote(str(self.workdir))} && exec "$@"', "sh", *argv]
        script += "\nexec " + shlex.join([*enter, "env", "-i", *assignments, *start])
        return [*UNSHARE, "sh", "-c", script]

    def _mounts(self, binds: Mapping[Path, str]) -> Iterator[str]:
        mount = shlex.quote(str(self._mount))
        yield f"mount --bind {shlex.quote(str(self.tree))} {mount}"
        for name in ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"):
            # Where these are links into /usr, so they are in the tree.
            if Path("/", name).is_dir() and not Path("/", name).is_symlink():
                yield f"mount --bind /{name} {mount}/{name}"
                yield f"mount -o remount,bind,ro {mount}/{name}"
        yield f"mount --bind {shlex.quote(str(self.tree / 'usr' / 'local'))} {mount}/usr/local"
        yield f"mount -t proc proc {mount}/proc"
        for device in DEVICES:
            yield f"mount --bind /dev/{device} {mount}/dev/{device}"
        for outside, where in binds.items():
            yield f"mount --bind {shlex.quote(str(outside))} {mount}{shlex.quote(where)}"


def _make_base(tree: Path) -> str:
    """Make a tree that stands in for a slim image with Python; its PATH."""
    for name in ("etc", "run", "var/lib", "proc", "dev", "home", "usr/local/bin", WHEELS.strip("/")):
        (tree / name).mkdir(parents=True)
    (tree / "tmp").mkdir()
    (tree / "tmp").chmod(0o1777)
    for path in map(Path, ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")):
        if path.is_symlink():
            (tree / path.name).symlink_to(path.readlink())
        elif path.is_dir():
            (tree / path.name).mkdir()
    for device in DEVICES:
        (tree / "dev" / device).touch()
    for name in filter(lambda name: Path("/etc", name).is_file(), ETC):
        shutil.copy(Path("/etc", name), tree / "etc" / name)
    for name, lines in USERS.items():
        (tree / "etc" / name).write_text(lines)
    # What a machine that builds has for its packages: here, a directory of wheels.
    (tree / "etc" / "pip.conf").write_text("[global]\nno-index = true\nfind-links = " + WHEELS + "\n")
    return _copy_python(tree)


def _copy_python(tree: Path) -> str:
    """Put the Python that runs the tests into the tree, where it lies on the machine, with pip; the image's PATH."""
    prefix = Path(sys.base_prefix)
    program = Path(sys.executable).resolve()
    version = f"python{sysconfig.get_python_version()}"
    if prefix == Path("/usr"):
        (tree / "usr" / "local" / "bin" / "python3").symlink_to(prefix / "bin" / version)
    else:
        inside = tree / prefix.relative_to("/")
        (inside / "bin").mkdir(parents=True, exist_ok=True)
        shutil.copy(prefix / "bin" / version if (prefix / "bin" / version).exists() else program, inside / "bin")
        (inside / "bin" / "python3").symlink_to(version)
        shutil.copytree(prefix / "lib" / version, inside / "lib" / version, symlinks=True, ignore=_LEFT_OUT)
        for library in (prefix / "lib").glob("libpython*.so*"):
            shutil.copy(library, inside / "lib", follow_symlinks=False)
    packages = site.getsitepackages([str(prefix)])[0]
    shutil.copytree(Path(pip.__file__).parent, tree / packages.strip("/") / "pip")
    return f"{prefix}/bin:{SYSTEM_PATH}" if prefix != Path("/usr") else SYSTEM_PATH


class Build:
    """The stages of a Dockerfile, built one after the other; the last is the image."""

    def __init__(
        self, directory: Path, wheels: Path, context: Path = ROOT, *, arguments: Mapping[str, str] = {}
    ) -> None:
        self._directory = directory
        self._arguments = arguments
        self._wheels = wheels
        self._context = context
        self.images: dict[str, Image] = {}

    def stage(self, stage: Stage) -> Image:
        """Follow every step of a stage; raises `StepError` with the first that fails."""
        image = self.images[stage.name] = Image(self._directory / stage.name)
        for step in stage.steps:
            text = expand(step.text, image.variables) if is_expanded(step) else step.text
            self._follow(image, Step(step.keyword, text))
        return image

    def _follow(self, image: Image, step: Step) -> None:
        match step.keyword:
            case "RUN":
                self._run(image, step)
            case "COPY":
                self._copy(image, step)
            case "ARG":
                # An engine leaves it out of the image that runs; here no stage that runs has one.
                name, _, value = step.text.partition("=")
                image.variables[name] = self._arguments.get(name, value)
            case "ENV":
                name, _, value = step.text.partition("=")
                image.variables[name] = value
            case "WORKDIR":
                image.workdir /= step.text
                image.inside(image.workdir).mkdir(parents=True, exist_ok=True)
            case "USER":
                image.user = step.text
            case "STOPSIGNAL":
                image.stop_signal = signal.Signals[step.text]
            case "VOLUME":
                image.volumes = (*image.volumes, step.text)
            case "HEALTHCHECK":
                image.health = health(step.text)
            case "ENTRYPOINT":
                image.entrypoint = exec_form(step.text)
            case "CMD":
                image.command = exec_form(step.text)

    def _run(self, image: Image, step: Step) -> None:
        assert not flags(step.text)[0]
        words = image.words(["/bin/sh", "-c", step.text], {self._wheels: WHEELS}, {"HOME": "/"})
        done = subprocess.run(words, capture_output=True, text=True, timeout=STEP_S, check=False)
        if done.returncode != 0:
            raise StepError(step, done.stdout + done.stderr)

    def _copy(self, image: Image, step: Step) -> None:
        stage, sources, destination = copied(step.text)
        target = image.inside(destination)
        for source in sources:
            origin = self._context / source if stage is None else self.images[stage].inside(source)
            if not origin.is_dir():
                into = target / origin.name if destination.endswith("/") else target
                assert stage is not None or is_sent(PurePosixPath(source), self._ignored())
                into.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(origin, into)
            elif stage is None:
                self._copy_context(origin, target)
            else:
                shutil.copytree(origin, target, symlinks=True, dirs_exist_ok=True)

    def _copy_context(self, origin: Path, target: Path) -> None:
        ignored = self._ignored()
        for path in sorted(origin.rglob("*")):
            if path.is_file() and is_sent(PurePosixPath(path.relative_to(self._context)), ignored):
                into = target / path.relative_to(origin)
                into.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, into)

    def _ignored(self) -> str:
        return (self._context / ".dockerignore").read_text()


class Container:
    """A command that runs in an image: `pid` is its process 1, as this machine counts."""

    def __init__(self, image: Image, unshared: subprocess.Popen[bytes], volume: Path, log: Path) -> None:
        self.image = image
        self.volume = volume
        self.log = log
        self._unshared = unshared
        until(lambda: bool(children_of(unshared.pid)))
        (self.pid,) = children_of(unshared.pid)
        self._pidfd = os.pidfd_open(self.pid)

    def signal(self, number: signal.Signals) -> None:
        """Signal process 1; nothing happens where it has ended."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, number)

    def close(self) -> None:
        """Kill process 1, and with it all others of its namespace."""
        # Changing the user has undone what --kill-child asked for.
        self.signal(signal.SIGKILL)
        os.close(self._pidfd)

    def wait(self, within_s: float) -> int:
        """The exit code of process 1."""
        return self._unshared.wait(within_s)

    def execute(self, argv: Sequence[str], timeout_s: float) -> int:
        """Run a command beside process 1, as an engine's `exec` does; its exit code, 1 when its time was up."""
        uid, _, gid = self.image.user.partition(":")
        assignments = [f"{name}={value}" for name, value in self.image.variables.items()]
        enter = ["nsenter", f"--target={self.pid}", "--mount", "--pid", "--net", "--ipc", "--uts", "--root", "--wd"]
        words = [*enter, f"--setuid={uid}", f"--setgid={gid}", "--", "env", "-i", *assignments, *argv]
        try:
            return subprocess.run(words, capture_output=True, timeout=timeout_s, check=False).returncode
        except subprocess.TimeoutExpired:
            return 1


@contextmanager
def container(
    image: Image, directory: Path, config: Path | None, argv: Sequence[str] | None = None
) -> Iterator[Container]:
    """Run `argv`, or what the image says, on the volume in `directory`, a new one at first; killed at the end."""
    (where,) = image.volumes
    volume, log = directory / "volume", directory / "log"
    if not volume.exists():
        # A new volume takes over what the image has there.
        inside = image.inside(where)
        volume.mkdir()
        volume.chmod(inside.stat().st_mode & 0o7777)
        os.chown(volume, inside.stat().st_uid, inside.stat().st_gid)
    binds = {volume: where}
    if config is not None:
        image.inside(CONFIG).touch()
        binds[config] = CONFIG
    words = image.words(argv or [*image.entrypoint, *image.command], binds, {})
    with log.open("ab") as written, subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=written) as unshared:
        running = Container(image, unshared, volume, log)
        try:
            yield running
        finally:
            running.close()
