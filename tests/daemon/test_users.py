"""What one user may take of the daemon, and which profiles are whose."""

from contextlib import ExitStack
from pathlib import Path
from typing import Final

from tests.daemon.places.test_doors import abstract, connected, is_served
from tests.daemon.spawned import daemon_on, until
from tests.daemon.test_peers import AS_ROOT, STRANGER, being

TOOLS: Final = """
[tools.echo]
type = "string -> string"
inline = "id"
"""


@AS_ROOT
def test_a_foreign_user_has_only_so_many_channels_and_keeps_nobody_else_out(tmp_path: Path) -> None:
    name = abstract("many")
    config = f"{TOOLS}[limits]\nsessions_per_uid = 2\n"
    with daemon_on(tmp_path, config, "--listen", f"unix:@{name}?uid=any") as daemon, ExitStack() as agents:
        with being(STRANGER, STRANGER, []):
            first = agents.enter_context(connected(f"\0{name}"))
            assert is_served(first)
            assert is_served(agents.enter_context(connected(f"\0{name}")))
            refused = agents.enter_context(connected(f"\0{name}")).hear()
            assert (refused["error"], refused["what"], refused["limit"]) == ("too_many", "sessions_per_uid", 2)
        for _ in range(3):
            assert is_served(agents.enter_context(connected(f"\0{name}")))
        first.close()
        until(lambda: daemon.logged("session closed") == 1)
        with being(STRANGER, STRANGER, []):
            assert is_served(agents.enter_context(connected(f"\0{name}")))


@AS_ROOT
def test_a_profile_of_a_user_is_opened_by_nobody_else_not_even_root(tmp_path: Path) -> None:
    name = abstract("bound")
    config = f'{TOOLS}[agents.theirs]\ntools = ["echo"]\nuid = {STRANGER}\n'
    with daemon_on(tmp_path, config, "--listen", f"unix:@{name}?uid=any"):
        with connected(f"\0{name}") as root:
            assert root.hello("theirs")["error"] == "not_authenticated"
            # Who may read the configuration is told of a name that is not in it.
            assert root.hello("nobody's")["error"] == "unknown_profile"
        with being(STRANGER, STRANGER, []), connected(f"\0{name}") as stranger:
            assert stranger.hello("nobody's")["error"] == "not_authenticated"
            assert stranger.hello("theirs")["__port"] == "ready"


@AS_ROOT
def test_a_profile_of_a_user_is_not_opened_without_hello(tmp_path: Path) -> None:
    name = abstract("silent")
    config = f'{TOOLS}[agents.default]\ntools = ["echo"]\nuid = {STRANGER}\n'
    with (
        daemon_on(tmp_path, config, "--listen", f"unix:@{name}?uid=any"),
        being(STRANGER, STRANGER, []),
        connected(f"\0{name}") as stranger,
    ):
        stranger.call("1", "echo", "hi")
        assert '"not_authenticated"' in stranger.hear()["content"]
        assert stranger.hello("default")["__port"] == "ready"
