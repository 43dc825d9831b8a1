import os
import socket
import stat
import subprocess
from pathlib import Path

import pytest

from tests.daemon.spawned import SERVE, Daemon, daemon_on
from tooldispatchd.daemon.places.listeners import MAX_PATH_BYTES, ListenError, listen_unix

ECHO = '[tools.echo]\ntype = "string -> string"\ninline = "id"\n'


def serve(directory: Path, *places: str) -> subprocess.CompletedProcess[str]:
    """A daemon that cannot start, to its end."""
    file = directory / "config.toml"
    file.write_text(ECHO)
    words = [word for place in places for word in ("--listen", place)]
    return subprocess.run(
        [*SERVE, "--config", str(file), *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )


def answers(daemon: Daemon) -> bool:
    with daemon.agent() as agent:
        return bool(agent.ask("echo", "hi")["content"] == '"hi"')


def entries(directory: Path) -> list[str]:
    return sorted(entry.name for entry in directory.iterdir())


# --- a path and what stands there ---


def test_the_socket_appears_with_its_mode_and_the_lock_beside_it(tmp_path: Path, nothing_left: None) -> None:
    listener = listen_unix(tmp_path / "s")
    assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == 0o660
    assert entries(tmp_path) == ["s", "s.lock"]
    listener.socket.close()
    listener.release()
    assert entries(tmp_path) == []


def test_another_mode_may_be_asked_for(tmp_path: Path) -> None:
    listener = listen_unix(tmp_path / "s", mode=0o600)
    assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == 0o600
    listener.socket.close()
    listener.release()


def test_to_release_twice_is_to_release_once(tmp_path: Path) -> None:
    first = listen_unix(tmp_path / "s")
    first.socket.close()
    first.release()
    second = listen_unix(tmp_path / "s")
    first.release()
    assert entries(tmp_path) == ["s", "s.lock"]
    second.socket.close()
    second.release()


def test_a_socket_that_nobody_listens_on_is_replaced(tmp_path: Path, nothing_left: None) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "s"))
    listener = listen_unix(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as agent:
        agent.connect(str(tmp_path / "s"))
    listener.socket.close()
    listener.release()


def test_a_socket_of_another_program_that_lives_is_left_alone(tmp_path: Path, nothing_left: None) -> None:
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(tmp_path / "s"))
        other.listen()
        with pytest.raises(ListenError, match="another program is listening there"):
            listen_unix(tmp_path / "s")
    assert entries(tmp_path) == ["s"]


def test_a_path_that_is_listened_on_is_an_error(tmp_path: Path, nothing_left: None) -> None:
    listener = listen_unix(tmp_path / "s")
    with pytest.raises(ListenError, match="another daemon is listening there"):
        listen_unix(tmp_path / "s")
    assert entries(tmp_path) == ["s", "s.lock"]
    listener.socket.close()
    listener.release()


@pytest.mark.parametrize("kind", ["file", "directory", "link"])
def test_what_is_no_socket_is_left_alone(tmp_path: Path, nothing_left: None, kind: str) -> None:
    path = tmp_path / "s"
    if kind == "file":
        path.touch()
    elif kind == "directory":
        path.mkdir()
    else:
        path.symlink_to("elsewhere")
    with pytest.raises(ListenError, match="something that is no socket stands there"):
        listen_unix(path)
    assert entries(tmp_path) == ["s"]


def test_a_socket_of_another_user_is_left_alone(tmp_path: Path, nothing_left: None) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "s"))
    os.chown(tmp_path / "s", 1, 1)
    with pytest.raises(ListenError, match="another user's socket stands there"):
        listen_unix(tmp_path / "s")
    assert entries(tmp_path) == ["s"]


def test_a_directory_that_anyone_may_write_is_refused(tmp_path: Path, nothing_left: None) -> None:
    place = tmp_path / "open"
    place.mkdir()
    place.chmod(0o777)
    with pytest.raises(ListenError, match="may be written by anyone"):
        listen_unix(place / "s")
    assert entries(place) == []


def test_a_sticky_directory_that_anyone_may_write_is_taken(tmp_path: Path) -> None:
    place = tmp_path / "sticky"
    place.mkdir()
    place.chmod(0o1777)
    listener = listen_unix(place / "s")
    listener.socket.close()
    listener.release()
    assert entries(place) == []


@pytest.mark.parametrize(("mode", "directory"), [(0o600, 0o700), (0o660, 0o710), (0o666, 0o711)])
def test_a_missing_directory_is_made_for_whom_the_socket_is(tmp_path: Path, mode: int, directory: int) -> None:
    listener = listen_unix(tmp_path / "new" / "s", mode=mode, environ={"XDG_RUNTIME_DIR": str(tmp_path)})
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == directory
    assert stat.S_IMODE((tmp_path / "new" / "s").stat().st_mode) == mode
    listener.socket.close()
    listener.release()


@pytest.mark.parametrize("kind", [socket.SOCK_SEQPACKET, socket.SOCK_DGRAM])
def test_a_live_socket_of_another_type_is_not_replaced(tmp_path: Path, kind: socket.SocketKind) -> None:
    with socket.socket(socket.AF_UNIX, kind) as other:
        other.bind(str(tmp_path / "s"))
        if kind is socket.SOCK_SEQPACKET:
            other.listen()
        with pytest.raises(ListenError, match="another program is listening there"):
            listen_unix(tmp_path / "s")


def test_what_is_no_socket_is_not_removed_for_the_name_that_is_bound_first(tmp_path: Path) -> None:
    (tmp_path / "s.new").write_text("somebody's")
    with pytest.raises(ListenError, match="something that is no socket stands at"):
        listen_unix(tmp_path / "s")
    assert (tmp_path / "s.new").read_text() == "somebody's"


@pytest.mark.parametrize("path", ["no/s", "no/such/s"])
def test_a_directory_elsewhere_is_not_made_and_is_named(tmp_path: Path, path: str) -> None:
    place = tmp_path / path
    with pytest.raises(ListenError) as caught:
        listen_unix(place, environ={"RUNTIME_DIRECTORY": f"{tmp_path}/other:{tmp_path}/more", "XDG_RUNTIME_DIR": ""})
    why = f"there is no directory {place.parent}; one is made only right under /run, $XDG_RUNTIME_DIR"
    assert str(caught.value) == f"cannot listen on unix:{place}: {why} and $RUNTIME_DIRECTORY"
    assert entries(tmp_path) == []


def test_of_several_runtime_directories_each_will_do(tmp_path: Path) -> None:
    environ = {"RUNTIME_DIRECTORY": f"{tmp_path}/other:{tmp_path}"}
    listener = listen_unix(tmp_path / "new" / "s", environ=environ)
    assert (tmp_path / "new").is_dir()
    listener.socket.close()
    listener.release()


def test_a_daemon_that_is_told_of_a_directory_that_is_not_there_does_not_start(tmp_path: Path) -> None:
    ended = serve(tmp_path, f"unix:{tmp_path}/nodir/x.sock")
    assert ended.returncode == 3
    assert f"there is no directory {tmp_path}/nodir" in ended.stderr


def test_a_path_that_is_too_long_is_refused(tmp_path: Path, nothing_left: None) -> None:
    room = MAX_PATH_BYTES - len(".new") - len(f"{tmp_path}/")
    with pytest.raises(ListenError, match="the path is longer than 103 bytes"):
        listen_unix(tmp_path / ("s" * (room + 1)))
    assert entries(tmp_path) == []


def test_the_longest_path_is_taken(tmp_path: Path) -> None:
    room = MAX_PATH_BYTES - len(".new") - len(f"{tmp_path}/")
    listener = listen_unix(tmp_path / ("s" * room))
    listener.socket.close()
    listener.release()


def test_a_path_that_was_replaced_is_left_alone_at_the_end(tmp_path: Path) -> None:
    listener = listen_unix(tmp_path / "s")
    (tmp_path / "theirs").touch()
    (tmp_path / "theirs").rename(tmp_path / "s")
    listener.socket.close()
    listener.release()
    assert entries(tmp_path) == ["s"]


# --- daemons ---


def test_the_socket_of_a_killed_daemon_is_replaced(tmp_path: Path) -> None:
    with daemon_on(tmp_path, ECHO) as killed:
        killed.process.kill()
        killed.process.wait()
    killed.log.unlink()
    assert entries(tmp_path) == ["config.toml", "dispatch.sock", "dispatch.sock.lock"]
    with daemon_on(tmp_path, ECHO) as daemon:
        assert answers(daemon)


def test_the_socket_of_a_living_daemon_is_an_error_and_unharmed(tmp_path: Path) -> None:
    with daemon_on(tmp_path, ECHO) as daemon:
        second = serve(tmp_path, f"unix:{daemon.path}")
        assert second.returncode == 3
        assert (
            second.stderr == f"tooldispatchd: cannot listen on unix:{daemon.path}: another daemon is listening there\n"
        )
        assert answers(daemon)


def test_a_daemon_takes_its_socket_and_its_lock_with_it(tmp_path: Path) -> None:
    with daemon_on(tmp_path, ECHO) as daemon:
        assert stat.S_IMODE(daemon.path.stat().st_mode) == 0o660
    assert daemon.process.returncode == 0
    assert entries(tmp_path) == ["config.toml", "log"]


def test_a_daemon_leaves_what_replaced_its_socket(tmp_path: Path) -> None:
    with daemon_on(tmp_path, ECHO) as daemon, socket.socket(socket.AF_UNIX) as other:
        daemon.path.unlink()
        other.bind(str(daemon.path))
    assert daemon.process.returncode == 0
    assert daemon.path.is_socket()


def test_a_daemon_that_gets_one_of_its_places_only_gives_that_one_back(tmp_path: Path) -> None:
    (tmp_path / "taken").touch()
    ended = serve(tmp_path, f"unix:{tmp_path}/free", f"unix:{tmp_path}/taken")
    assert ended.returncode == 3
    assert (
        ended.stderr
        == f"tooldispatchd: cannot listen on unix:{tmp_path}/taken: something that is no socket stands there\n"
    )
    assert entries(tmp_path) == ["config.toml", "taken"]


def test_a_daemon_listens_on_several_places(tmp_path: Path) -> None:
    with daemon_on(tmp_path, ECHO, "--listen", f"unix:{tmp_path}/other") as daemon:
        assert answers(daemon)
        assert answers(Daemon(daemon.process, tmp_path / "other", daemon.log))
