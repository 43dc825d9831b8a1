from tooldispatchd.catalog.catalog import Catalog, build_catalog
from tooldispatchd.catalog.confinedspec import Sandbox
from tooldispatchd.catalog.confinement import Confinement
from tooldispatchd.catalog.enforcement import ConfinedProgram, Enforceable, Enforced, enforce, programs, wrong
from tooldispatchd.catalog.problems import Problem
from tooldispatchd.catalog.specs import Config, McpSpec, ProcessSpec, ProfileSpec, ToolSpec

BEST_EFFORT = 'sandbox = "best-effort", to go without'
SANDBOXED = Confinement(network=False, read=("/a",), write=())


def catalog_of(config: Config) -> Catalog:
    catalog = build_catalog(config)
    assert isinstance(catalog, Catalog), catalog
    return catalog


def programs_of(config: Config) -> list[ConfinedProgram]:
    return list(programs(config, catalog_of(config).profiles, catalog_of(config).servers))


def judged(config: Config, by: Enforceable) -> tuple[list[Problem], list[str]]:
    catalog = catalog_of(config)
    return wrong(config, catalog.profiles, catalog.servers, by)


def test_what_the_machine_has_is_enforced() -> None:
    asked = Confinement(cpu_s=1, memory=2**26, processes=3, user=5)
    assert enforce(asked, Enforceable()) == Enforced(asked)


def none_of(means: str, why: str) -> dict[str, str]:
    """What lacks in a machine without a means."""
    return {f"{means}.{key}": why for key in ("network", "read", "write")}


def test_landlock_comes_before_bubblewrap() -> None:
    assert enforce(SANDBOXED, Enforceable()).means == "landlock"
    assert enforce(SANDBOXED, Enforceable(none_of("landlock", "too old"))).means == "bubblewrap"


def test_a_means_that_can_do_all_comes_before_one_that_can_do_a_part() -> None:
    assert enforce(SANDBOXED, Enforceable({"landlock.network": "no seccomp"})).means == "bubblewrap"
    assert enforce(Confinement(write=()), Enforceable({"landlock.network": "no seccomp"})).means == "landlock"


def test_a_sandbox_without_any_means_lacks_each_of_its_keys() -> None:
    by = Enforceable(none_of("landlock", "too old") | none_of("bubblewrap", "not installed"))
    why = "landlock: too old; bubblewrap: not installed"
    enforced = enforce(SANDBOXED, by)
    assert enforced == Enforced(Confinement(), None, {"network": why, "read": why, "write": why})


def test_a_best_effort_keeps_what_there_is() -> None:
    by = Enforceable({"landlock.write": "too old"} | none_of("bubblewrap", "not installed"))
    enforced = enforce(SANDBOXED, by)
    left = Confinement(network=False, read=("/a",))
    assert enforced == Enforced(left, "landlock", {"write": "landlock: too old; bubblewrap: not installed"})


def test_a_means_that_is_named_is_not_replaced() -> None:
    asked = Confinement(network=False, sandbox="bubblewrap")
    enforced = enforce(asked, Enforceable(none_of("bubblewrap", "not installed")))
    assert enforced.lacking == {"network": "bubblewrap: not installed"}


def test_a_cgroup_stands_in_for_what_the_kernel_does_not_count() -> None:
    asked = Confinement(memory=2**26, processes=3)
    no_counts = {"memory": "x", "processes": "y"}
    assert enforce(asked, Enforceable(no_counts)).lacking == {}
    by = Enforceable({**no_counts, "memory_cgroup": "none", "processes_cgroup": "none"})
    assert enforce(asked, by).lacking == no_counts


def test_processes_of_root_are_counted_by_a_cgroup_alone() -> None:
    by = Enforceable({"processes_cgroup": "none"}, is_root=True)
    assert "give it a user" in enforce(Confinement(processes=3), by).lacking["processes"]
    assert "give it a user" in enforce(Confinement(processes=3, user=0), by).lacking["processes"]
    assert enforce(Confinement(processes=3, user=1000), by).lacking == {}
    assert enforce(Confinement(processes=3), Enforceable(is_root=True)).lacking == {}


def test_who_cannot_change_users_keeps_its_own() -> None:
    enforced = enforce(Confinement(user=5, group=6, cpu_s=1), Enforceable({"user": "not root"}))
    assert enforced == Enforced(Confinement(cpu_s=1), None, {"user": "not root"})
    assert enforce(Confinement(group=6), Enforceable({"user": "not root"})).lacking == {"group": "not root"}


def test_the_programs_of_a_profile_keep_to_both_tables() -> None:
    config = Config(
        tools={"t": ToolSpec(command=("x",), cpu_s=5), "i": ToolSpec(inline="id")},
        agents={"a": ProfileSpec(tools=("t", "i"), cpu_s=3, network=False), "b": ProfileSpec(tools=("t",))},
    )
    first, second = programs_of(config)
    assert first.asked == Confinement(cpu_s=3, network=False)
    assert first.place_of("cpu_s") == ("tools", "t", "cpu_s")
    assert first.place_of("network") == ("agents", "a", "network")
    assert second.asked == Confinement(cpu_s=5)


def test_the_programs_of_chains_are_among_them() -> None:
    config = Config(
        tools={"whole": ToolSpec(process="chain"), "t": ToolSpec(command=("x",), nice=1, expose=False)},
        processes={
            "chain": ProcessSpec(kind="plumb", chain=("inner", "lift(t)")),
            "inner": ProcessSpec(kind="plumb", chain=("agent",)),
            "agent": ProcessSpec(kind="agent", command=("y",), type="!json -> !json", files=9),
        },
    )
    assert [program.asked for program in programs_of(config)] == [Confinement(files=9), Confinement(nice=1)]


def test_what_is_lacking_is_a_problem_where_it_was_asked_for() -> None:
    config = Config(tools={"t": ToolSpec(command=("x",))}, agents={"a": ProfileSpec(tools=("t",), memory="64M")})
    by = Enforceable({"memory": "no such limit", "memory_cgroup": "none"})
    problems, warnings = judged(config, by)
    why = "cannot be enforced on this machine: no such limit"
    assert problems == [Problem(("agents", "a", "memory"), why, allowed=BEST_EFFORT)]
    assert warnings == []


def test_what_a_best_effort_lacks_is_a_warning() -> None:
    config = Config(tools={"t": ToolSpec(command=("x",), user=5, sandbox="best-effort")})
    problems, warnings = judged(config, Enforceable({"user": "not root"}))
    assert problems == []
    assert warnings == ["tools.t.user is not enforced on this machine: not root"]


def test_a_write_that_nobody_wrote_is_lacking_where_reading_was_restricted() -> None:
    config = Config(tools={"t": ToolSpec(command=("x",), read=("/a",))})
    by = Enforceable({"landlock.write": "too old"} | none_of("bubblewrap", "not installed"))
    problems, warnings = judged(config, by)
    why = "cannot be enforced on this machine: landlock: too old; bubblewrap: not installed"
    assert problems == [Problem(("tools", "t", "read"), why, allowed=BEST_EFFORT)]
    assert warnings == []


def test_a_best_effort_is_that_of_the_table_that_says_so() -> None:
    by = Enforceable(none_of("landlock", "too old") | none_of("bubblewrap", "not installed"))
    each: list[tuple[Sandbox | None, Sandbox | None]] = [
        ("best-effort", None),
        (None, "best-effort"),
        ("best-effort", "required"),
    ]
    for tool, profile in each:
        config = Config(
            tools={"t": ToolSpec(command=("x",), network=False, sandbox=tool)},
            agents={"a": ProfileSpec(tools=("t",), network=False, sandbox=profile)},
        )
        problems, warnings = judged(config, by)
        assert [problem.path for problem in problems] == [("tools", "t", "network")]
        assert warnings == []


def test_what_one_table_alone_asks_for_is_as_optional_as_it_says() -> None:
    config = Config(
        tools={"t": ToolSpec(command=("x",), network=False, sandbox="best-effort")},
        agents={"a": ProfileSpec(tools=("t",), cpu_s=3)},
    )
    problems, warnings = wrong(
        config,
        catalog_of(config).profiles,
        catalog_of(config).servers,
        Enforceable(none_of("landlock", "x") | none_of("bubblewrap", "y")),
    )
    assert problems == []
    assert len(warnings) == 1


def test_a_servers_program_keeps_to_its_own_table_and_to_its_agents_profile() -> None:
    config = Config(
        mcp={
            "own": McpSpec(command="x", files=50),
            "shared": McpSpec(command="x", files=60, shared=True),
            "off": McpSpec(command="x", files=70, enabled=False),
            "far": McpSpec(url="https://docs.example/"),
            "needed": McpSpec(command="y"),
        },
        tools={"t": ToolSpec(mcp="needed"), "u": ToolSpec(mcp=McpSpec(command="z", nice=3))},
        agents={"a": ProfileSpec(tools=("t", "u"), mcp=("own", "shared", "off", "far"), network=False)},
    )
    assert {program.name: program.asked for program in programs_of(config)} == {
        "own": Confinement(files=50, network=False),
        "shared": Confinement(files=60),
        "needed": Confinement(network=False),
        "z": Confinement(nice=3, network=False),
    }
    lacking = {"nice": "no", "files": "no"}
    assert [problem.path for problem in judged(config, Enforceable(lacking))[0]] == [
        ("mcp", "own", "files"),
        ("mcp", "shared", "files"),
        ("tools", "u", "mcp", "nice"),
    ]
