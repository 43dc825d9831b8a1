"""What a profile denies of a server whose tools are known only once it has started."""

from pathlib import Path

from tests.daemon.spawned import daemon_on, server

DENYING = '[agents.default]\nmcp = ["docs"]\ndeny = ["docs__echo", "docs:ecko"]\n'


def test_a_denied_tool_cannot_be_called_and_a_slip_is_told_when_the_list_is_known(tmp_path: Path) -> None:
    with daemon_on(tmp_path, server("docs", "echo") + DENYING) as daemon, daemon.agent() as agent:
        ready = agent.hello("default")
        names = [tool["name"] for tool in ready["tools"]]
        assert [name for name in names if "echo" in name] == []
        assert ready["warnings"] == ["server docs has no tool docs:ecko, which the profile denies"]
        for spelling in ("docs:echo", "docs__echo", "docs_echo"):
            assert agent.ask(spelling, {})["is_error"]
        assert daemon.logged("denial fits no tool") == 1


def test_a_pattern_of_a_profile_and_a_server_s_own_spelling_take_its_tools_away(tmp_path: Path) -> None:
    servers = server("own", "echo", 'deny = ["own__echo"]') + server("docs", "echo")
    denying = '[agents.default]\nmcp = ["own", "docs"]\ndeny = ["docs_e*"]\n'
    with daemon_on(tmp_path, servers + denying) as daemon, daemon.agent() as agent:
        ready = agent.hello("default")
        assert [tool["name"] for tool in ready["tools"] if "echo" in tool["name"]] == []
        assert ready["warnings"] == []
        for spelling in ("docs:echo", "docs__echo", "own:echo", "own_echo"):
            assert agent.ask(spelling, {})["is_error"]
