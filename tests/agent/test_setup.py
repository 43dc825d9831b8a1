"""What a profile bounds it bounds for agents below its own too."""

import msgspec

from tests.agent.fakes import open_runtime
from tooldispatchd.agent.programs.confining import enforced_for, program_of_agent, program_of_tool
from tooldispatchd.agent.setup import ProfileKeys
from tooldispatchd.agent.tools.declaredplans import compile_lifted, compile_plans
from tooldispatchd.catalog.catalog import Catalog, build_catalog
from tooldispatchd.catalog.confinement import Confinement
from tooldispatchd.catalog.enforcement import programs
from tooldispatchd.catalog.profiles import Profile
from tooldispatchd.catalog.specs import Config, ProcessSpec, ProfileSpec, ToolSpec

CONFIG = Config(
    tools={"free": ToolSpec(command=("true",)), "ask": ToolSpec(process="one"), "ask2": ToolSpec(process="two")},
    processes={
        "one": ProcessSpec(kind="agent", type="!json -> !json", command=("true",), tools=("ask2",), nice=3),
        "two": ProcessSpec(kind="agent", type="!json -> !json", command=("true",), tools=("free",)),
    },
    agents={"open": ProfileSpec(tools=("ask",)), "shut": ProfileSpec(tools=("ask",), network=False)},
)


def catalog() -> Catalog:
    built = build_catalog(CONFIG)
    assert isinstance(built, Catalog), built
    return built


def test_a_profile_without_bounds_leaves_those_below_it_as_they_are() -> None:
    profiles = {"a": Profile("a", (), ()), "b": Profile("b", ("t",), ())}
    keys = ProfileKeys(profiles)
    assert keys.key_below("b", profiles["a"]) == "b"
    assert keys.profile("b") is profiles["b"]


def test_the_same_bounds_have_the_same_key() -> None:
    profiles = {
        "a": Profile("a", (), (), confinement=Confinement(nice=1)),
        "b": Profile("b", ("t",), (), confinement=Confinement(cpu_s=2)),
    }
    keys = ProfileKeys(profiles)
    key = keys.key_below("b", profiles["a"])
    assert key == keys.key_below("b", profiles["a"]) == keys.key_of(keys.profile(key))
    assert keys.profile(key) == Profile("b", ("t",), (), confinement=Confinement(cpu_s=2, nice=1))


def test_a_part_of_a_profile_has_the_key_of_the_whole() -> None:
    profiles = {"a": Profile("a", ("t", "u"), ())}
    assert ProfileKeys(profiles).key_of(Profile("a", ("t",), ())) == "a"


async def test_what_an_agent_below_calls_keeps_to_the_bounds_of_who_came_in() -> None:
    built = catalog()
    async with open_runtime(built) as runtime:
        for name, is_free in (("open", True), ("shut", False)):
            one = program_of_agent(runtime.setup, "one", built.profiles[name]).profile
            assert one is not None
            two = program_of_agent(runtime.setup, "two", runtime.setup.profile_keys.profile(one)).profile
            assert two is not None
            below = runtime.setup.profile_keys.profile(two)
            enforced = enforced_for(runtime.setup, built.tools["free"].spec, below)
            assert (below.name, enforced.confinement.network) == ("two", is_free)
            # The bounds of the agents' own programs are theirs alone.
            assert enforced.confinement.nice is None
            program = program_of_tool(runtime.setup, built.tools["free"], below)
            assert (program.policy is None) == is_free


async def test_plans_are_made_once_for_each_bounds() -> None:
    built = catalog()
    async with open_runtime(built) as runtime:
        key = runtime.setup.profile_keys.key_below("two", built.profiles["shut"])
        assert runtime.plans(key, compile_plans) is runtime.plans(key, compile_plans)
        assert runtime.plans(key, compile_plans) is not runtime.plans("two", compile_plans)
        assert set(runtime.plans(key, compile_plans)) == set(runtime.plans("two", compile_plans))
        assert compile_lifted(runtime, f"lifted:{key}") == {}


def test_what_cannot_be_enforced_of_agents_below_is_looked_at_too() -> None:
    asked = {(program.name, program.asked) for program in programs(CONFIG, catalog().profiles, {})}
    assert ("free", Confinement(network=False)) in asked
    assert ("ask", msgspec.structs.replace(Confinement(network=False), nice=3)) in asked
    # Of what nothing is asked there is nothing to look at.
    assert ("free", Confinement()) not in asked
