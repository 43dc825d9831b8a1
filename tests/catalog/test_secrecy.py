"""Which values of a configuration may be shown, by the types of their fields."""

from collections.abc import Iterator

import pytest
from msgspec import inspect

from tooldispatchd.catalog.problems import Path
from tooldispatchd.catalog.secrecy import is_secret, is_shown, is_shown_as
from tooldispatchd.catalog.specs import Config, McpSpec, OAuthSpec, ProcessSpec, ToolSpec


@pytest.mark.parametrize(
    "path",
    [
        ("mcp", "a", "token"),
        ("mcp", "a", "url"),
        ("mcp", "a", "args", 0),
        ("tools", "a", "command", 1),
        ("tools", "a", "mcp", "headers", "A"),
        ("processes", "a", "mcp", 0, "env", "A"),
        ("processes", "a", "options", "a", 0, "b"),
        ("mcp", "a", "oauth", "client_id"),
    ],
)
def test_what_may_hold_a_secret_is_one_wherever_its_table_stands(path: Path) -> None:
    assert is_secret(Config, path)
    assert not is_shown(Config, path)


@pytest.mark.parametrize(
    "path", [("tokn",), ("mcp", "a", "tokn"), ("mcp", "a", "cwd", "b"), ("mcp",), ("mcp", "a", "env")]
)
def test_what_no_field_holds_is_not_shown(path: Path) -> None:
    assert not is_shown_as(Config, path, "hunter2")


def test_a_variables_name_is_shown_and_what_stands_in_its_place_is_not() -> None:
    path = ("agents", "a", "token_env")
    assert is_shown_as(Config, path, "GITHUB_TOKEN")
    assert not is_shown_as(Config, path, "hunter2")
    assert not is_shown(Config, path)


def test_a_server_is_shown_by_its_name_alone() -> None:
    assert is_shown_as(Config, ("tools", "a", "mcp"), "docs")
    assert not is_shown_as(Config, ("tools", "a", "mcp"), "https://host/?key=hunter2")
    assert not is_shown_as(Config, ("processes", "a", "mcp", 0), 3)


def test_a_table_shows_the_names_of_its_secrets_and_none_of_them() -> None:
    server = McpSpec(
        url="https://hunter2@host",
        token="hunter2",
        headers={"X-Key": "hunter2"},
        env={"KEY": "hunter2"},
        args=("hunter2",),
        oauth=OAuthSpec(client_id="hunter2"),
    )
    tool = ToolSpec(mcp=server, command=("hunter2",))
    process = ProcessSpec(kind="agent", options={"key": "hunter2"}, prompt="hunter2", mcp=(server,))
    shown = repr(Config(mcp={"a": server}, tools={"t": tool}, processes={"p": process}))
    assert "hunter2" not in shown
    assert "X-Key" in shown


def _shown_texts(kind: inspect.Type, path: tuple[str, ...]) -> Iterator[str]:
    """Each field of any text that is shown."""
    match kind:
        case inspect.Metadata() if "shown_if" not in (kind.extra or {}):
            yield from _shown_texts(kind.type, path)
        case inspect.UnionType():
            for each in kind.types:
                yield from _shown_texts(each, path)
        case inspect.StructType():
            for field in kind.fields:
                yield from _shown_texts(field.type, (kind.cls.__name__, field.name))
        case inspect.DictType():
            yield from _shown_texts(kind.value_type, path)
        case inspect.VarTupleType():
            yield from _shown_texts(kind.item_type, path)
        case inspect.StrType():
            yield ".".join(path)


AGENTS = {"ProfileSpec", "ProcessSpec"}
OF_AGENTS = (
    *("approver", "deny", "queue", "openapi", "toolboxes", "workspace", "workspaces", "roots", "uid", "gid"),
    *("allow", "order"),
)


def test_each_text_that_is_shown_was_judged_to_hold_no_secret() -> None:
    confined = {"read", "write", "user", "group", "memory", "file_size", "output_bytes"}
    specs = {"McpSpec", "ToolSpec", "ProcessSpec", "ProfileSpec", "ToolboxSpec", "HookSpec"}
    apis = {"RestApiSpec", "OpenApiSpec"}
    policed = {"McpSpec", "ToolSpec", "ToolboxSpec"} | apis
    assert set(_shown_texts(inspect.type_info(Config), ())) == {
        *(f"{spec}.{key}" for spec in specs for key in confined),
        *(f"{spec}.{key}" for spec in policed for key in ("queue", "exclusive", "breaker")),
        *(f"{spec}.{key}" for spec in policed - apis | AGENTS for key in ("when", "approve")),
        *("RuleSpec.rule", "RuleSpec.reason"),
        *(f"{spec}.{key}" for spec in AGENTS for key in OF_AGENTS),
        *("HookSpec.tools", "HookSpec.names", "HookSpec.cwd", "HookSpec.venv"),
        *("AuditSpec.keep", "AuditSpec.max_bytes"),
        *("McpSpec.cache", "ToolSpec.cache", "ToolboxSpec.cache"),
        *("RestApiSpec.tags", "RestApiSpec.cache", "OpenApiSpec.cache"),
        *("McpSpec.tags", "ToolSpec.tags", "ToolboxSpec.tags"),
        *("QueueSpec.rate", "McpSpec.read_only", "McpSpec.idempotent"),
        *("Config.types", "Config.plumb", "Config.mcp_json", "DaemonSpec.listen"),
        *("ToolboxSpec.tools", "ToolboxSpec.deny", "ToolboxSpec.prefix", "ToolboxSpec.workspace"),
        *("OpenApiSpec.operations", "OpenApiSpec.tags", "OpenApiSpec.paths", "OpenApiSpec.deny", "OpenApiSpec.prefix"),
        *("ToolboxSpec.hosts", "ToolboxSpec.deny_hosts", "ToolboxSpec.shared"),
        *("McpSpec.cwd", "McpSpec.tools", "McpSpec.allow", "McpSpec.deny", "McpSpec.prefix"),
        *(
            "ToolSpec.type",
            "ToolSpec.title",
            "ToolSpec.description",
            "ToolSpec.hint",
            "ToolSpec.doc",
            "ToolSpec.process",
        ),
        *("ToolSpec.mcp", "ToolSpec.name", "ToolSpec.map", "ToolSpec.cwd", "ToolSpec.python", "ToolSpec.venv"),
        "ToolSpec.max_rss",
        *("ProcessSpec.type", "ProcessSpec.description", "ProcessSpec.map", "ProcessSpec.filter", "ProcessSpec.chain"),
        *("ProcessSpec.cwd", "ProcessSpec.model", "ProcessSpec.tools", "ProcessSpec.mcp"),
        *("ToolSpec.aliases", "ToolSpec.state", "ToolSpec.output_mode", "ProcessSpec.output_mode"),
        *("HttpAuthSpec.issuer", "HttpAuthSpec.jwks", "HttpAuthSpec.audience", "HttpAuthSpec.scopes"),
        *("ProfileSpec.tools", "ProfileSpec.mcp"),
        *("RestSpec.api", "RestSpec.styles", "RestSpec.content_type", "RestSpec.pick", "RestSpec.map"),
        *("RestKeySpec.header", "RestKeySpec.query", "RestKeySpec.cookie"),
        *("RestPagesSpec.cursor", "RestPagesSpec.query", "AnnotationsSpec.title"),
        *(
            f"{spec}.{key}"
            for spec in ("RestStreamSpec", "ForeignStreamSpec")
            for key in ("line_prefix", "discriminator_field", "token_value", "token_field", "done_value")
        ),
        *("RestStreamSpec.answer_field", "ForeignStreamSpec.answer_field"),
        *(f"ForeignRestSpec.{key}" for key in ("description", "query_param_names", "queue", "cache")),
    }
