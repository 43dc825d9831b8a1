import pytest

from tooldispatchd.catalog.catalog import Catalog, build_catalog
from tooldispatchd.catalog.policy import policy_of
from tooldispatchd.catalog.policyspec import RuleSpec
from tooldispatchd.catalog.rules import Approving, CallRule
from tooldispatchd.catalog.specs import Config, McpSpec, ProfileSpec, ToolSpec


def tool(**keys: object) -> ToolSpec:
    return ToolSpec(type="{path: string} -> string", map="path", **keys)  # type: ignore[arg-type]  # its own keys


@pytest.mark.parametrize(
    ("config", "where", "why"),
    [
        (Config(tools={"t": tool(when="input.pth == ''")}), "when", 'column 6: nothing is named "input.pth"'),
        (Config(tools={"t": tool(when="path == ''")}), "when", 'column 1: nothing is named "path"'),
        (
            Config(tools={"t": tool(when=(RuleSpec(rule="1"),))}),
            "rule",
            "column 1: the expression makes int",
        ),
        (Config(tools={"t": tool(approve="often")}), "approve", 'column 1: nothing is named "often"'),
        (Config(mcp={"s": McpSpec(command="x", when="tol")}), "when", 'column 1: nothing is named "tol"'),
        (Config(agents={"a": ProfileSpec(when="input ==")}), "when", "column 9:"),
        (Config(agents={"a": ProfileSpec(approver="a")}), "approver", "no such profile has approver = true"),
    ],
)
def test_a_wrong_rule_is_told_with_its_place_when_it_is_loaded(config: Config, where: str, why: str) -> None:
    problems = build_catalog(config)
    assert not isinstance(problems, Catalog)
    assert [(problem.path[-1], problem.why.startswith(why)) for problem in problems] == [(where, True)]


def test_all_tables_of_a_call_have_their_rules_and_their_questions() -> None:
    profile = ProfileSpec(tools=("t",), when="agent != 'x'", approve="destructive")
    config = Config(tools={"t": tool(when=(RuleSpec(rule="true", reason="r"),))}, agents={"p": profile})
    policy = policy_of(config, profile, tool="t")
    assert policy.rules == (
        CallRule(("tools", "t"), "true", "r"),
        CallRule(("agents", "p"), "agent != 'x'", "only where agent != 'x'"),
    )
    assert policy.approvings == (Approving(("agents", "p"), "p asks about what may destroy"),)
    assert policy_of(config, profile, tool="t", says_harmless=True).approvings == ()
