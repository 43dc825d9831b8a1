"""The house rules that no checker knows: sizes, words that must not be there, and documents that leave nothing out."""

import ast
import re
import subprocess
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Final

import msgspec
import pytest

from tooldispatchd.catalog.agentspec import AGENT_KEYS
from tooldispatchd.catalog.confinement import KEYS
from tooldispatchd.catalog.policyspec import POLICY_KEYS
from tooldispatchd.catalog.restspecs import RestApiSpec
from tooldispatchd.catalog.specs import Config
from tooldispatchd.toolbox.sets import SETS

ROOT: Final = Path(__file__).parent.parent
MAX_LINES: Final = 600
# The five guards, each with the files in which it stands.
GUARDS: Final = {
    "a call": {
        "tooldispatchd/agent/session/session.py",
        "tooldispatchd/agent/calls/atonce.py",
        "tooldispatchd/agent/calls/inflight.py",
    },
    "a session's task": {"tooldispatchd/agent/session/tasktree.py"},
    "a connection's owner": {"tooldispatchd/agent/session/tasktree.py"},
    # And what is due, which belongs to one call or one channel, and the one channel that cannot be in the epoll set.
    "one channel": {
        # A connection by which metrics are read.
        "tooldispatchd/daemon/scraping.py",
        "tooldispatchd/front/front.py",
        "tooldispatchd/front/timer.py",
        "tooldispatchd/daemon/daemon.py",
        # What an administrator asked for on it.
        "tooldispatchd/daemon/adminside.py",
    },
    "a reload": {"tooldispatchd/daemon/reload/reloading.py"},
}
# In the process that serves MCP clients over HTTP: one client's connection, and one client's session.
WEB_GUARDS: Final = {"tooldispatchd/mcpface/web/serving.py", "tooldispatchd/mcpface/web/sessions.py"}
# In processes of their own a tool's code may raise anything.
FOREIGN_CODE: Final = {
    "tooldispatchd/forked/python/calling.py",
    "tooldispatchd/forked/python/functions.py",
    "tooldispatchd/forked/sandbox/launch.py",
    "tooldispatchd/forked/python/signature.py",
    "tooldispatchd/forked/python/warm.py",
    "tooldispatchd/toolbox/evaluating.py",
}
# Each is put together here, so that this file does not hold what it forbids.
FORBIDDEN: Final = {
    "a package registry": re.compile(
        "|".join((r"pypi\." + "org", r"python" + r"hosted\.org", r"npm" + r"js\.(org|com)"))
    ),
    "a place of one machine": re.compile("(?<![A-Za-z0-9_.$}/-])/" + r"(work|root|opt)(?![A-Za-z0-9_-])"),
    "an index of packages": re.compile(
        r"^--(extra-)?index" + r"-url|^--find" + "-links|^--trusted" + "-host", re.MULTILINE
    ),
}


@cache
def tracked() -> tuple[Path, ...]:
    """Every text file of the project: tracked, or new and not ignored."""
    words = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    # A checkout may belong to another user than the one who tests it.
    done = subprocess.run([*words[:1], "-c", "safe.directory=*", *words[1:]], cwd=ROOT, capture_output=True, check=True)
    return tuple(ROOT / name for name in done.stdout.decode().split("\0") if name and (ROOT / name).is_file())


# The keys of a toolbox that one set alone reads.
OPTIONS: Final = {key for tool_set in SETS.values() for key in tool_set.options}

# The keys of a described API that are those of any; of OpenAPI's own the base may be left out.
REST_KEYS: Final = {field.encode_name for field in msgspec.structs.fields(RestApiSpec)} - {"base_url"}

# Longer than others, with the reason.
LONG: Final = {"protocol/conformance/run.py": "others copy it, and one file is what they can copy"}

# Defined more than once, with the reason.
HOMONYMS: Final = {
    "Agent": "the twin clients, blocking and for trio, offer the same names",
    "Callbacks": "the twin clients",
    "Client": "the twin clients",
    "Call": "the client's public name for what it asks for, in another process than the daemon's calls",
}


def modules() -> list[Path]:
    """Every Python file."""
    return [path for path in tracked() if path.suffix == ".py"]


def name(path: Path) -> str:
    """A file as it is named from the top of the project."""
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_file_names_what_only_one_machine_has(what: str) -> None:
    found = [
        name(path) for path in tracked() if FORBIDDEN[what].search(path.read_text(encoding="utf-8", errors="replace"))
    ]
    assert found == []


def test_no_module_is_long() -> None:
    lengths = {name(path): path.read_text(encoding="utf-8").count("\n") for path in modules() if name(path) not in LONG}
    assert {path: lines for path, lines in lengths.items() if lines > MAX_LINES} == {}


def test_modules_of_one_layer_have_names_of_their_own() -> None:
    package = [Path(name(path)) for path in modules() if name(path).startswith("tooldispatchd/")]
    found = Counter((path.parts[1], path.stem) for path in package if not path.stem.startswith("__"))
    assert [module for module, count in found.items() if count > 1] == []


def test_every_module_says_what_it_holds() -> None:
    # The names of tests say what they show.
    written = [path for path in modules() if not name(path).startswith("tests/")]
    silent = [name(path) for path in written if not re.match(r'(#.*\n)*r?"""\S', path.read_text(encoding="utf-8"))]
    assert silent == []


def test_only_the_guards_catch_every_exception() -> None:
    package = {name(path): path.read_text() for path in modules() if name(path).startswith("tooldispatchd/")}
    # Only a few have it at all, and to parse all of them takes seconds.
    likely = {path: text for path, text in package.items() if re.search(r"except:|\b(Base)?Exception\b", text)}
    catching = {path for path, text in likely.items() if any(map(is_catch_all, ast.walk(ast.parse(text))))}
    guards = {path for paths in GUARDS.values() for path in paths}
    assert catching - FOREIGN_CODE - WEB_GUARDS == guards


def is_catch_all(node: ast.AST) -> bool:
    """Whether this swallows what may be anything; a clean-up that raises again at its end does not."""
    if not isinstance(node, ast.ExceptHandler):
        return False
    caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
    names = {kind.id for kind in caught if isinstance(kind, ast.Name)}
    if "Exception" in names:
        return True
    return (node.type is None or "BaseException" in names) and not isinstance(node.body[-1], ast.Raise)


def settings() -> list[str]:
    """Every setting as `table.key`; a table of tables stands once (`tools.*.map`)."""
    return list(_settings(Config, ""))


def _settings(spec: type[msgspec.Struct], prefix: str) -> list[str]:
    found = []
    for field in msgspec.structs.fields(spec):
        name = f"{prefix}{field.encode_name}"
        kind = msgspec.inspect.type_info(field.type)
        if isinstance(kind, msgspec.inspect.DictType) and isinstance(kind.value_type, msgspec.inspect.StructType):
            found += _settings(kind.value_type.cls, f"{name}.*.")
        elif isinstance(kind, msgspec.inspect.StructType):
            found += _settings(kind.cls, f"{name}.")
        else:
            found.append(name)
    return found


def test_the_readme_shows_every_table_and_where_all_settings_are() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    tables = {setting.partition(".")[0] for setting in settings()}
    # A key at the top of the file has no table.
    shown = {table for table in tables if re.search(rf"\[{table}[\].]|`{table}`|`{table} = ", readme)}
    assert tables - shown == set()
    assert "tooldispatchd init" in readme


@pytest.mark.parametrize("setting", settings())
def test_every_setting_is_in_the_example(setting: str) -> None:
    example = (ROOT / "tooldispatchd" / "cli" / "example.toml").read_text(encoding="utf-8")
    table, _, key = setting.rpartition(".")
    header = re.escape(f"[{table}]").replace(r"\*", r"[\w.-]+")
    if not table:
        header = r"\A#.*"
    if table == "openapi.*" and key in REST_KEYS:
        # How an API is reached is shown with [rest.NAME], and this table says so.
        return
    if (table == "toolbox.*" and key in OPTIONS) or table == "openapi.*":
        assert re.search(rf"^#  .*\b{key}\b", example, re.MULTILINE)
        return
    if table == "processes.*" and key in AGENT_KEYS:
        # What an agent may call is shown with a profile, and this table says so.
        header = re.escape("[agents.") + r"[\w.-]+\]"
    is_bound = table in {"mcp.*", "processes.*", "agents.*", "toolbox.*", "hooks.*"} and key in KEYS
    if is_bound or (table in {"mcp.*", "toolbox.*"} and key in POLICY_KEYS):
        # What bounds programs, and how calls wait, is shown with a tool, and these say so.
        header = re.escape("[tools.") + r"[\w.-]+\]"
    written = r"\[types\]\n\w+ = " if setting == "types" else rf"^{header}\n(?:(?!\[).*\n)*?(?:# )?{key} = "
    assert re.search(written, example, re.MULTILINE)


def test_what_is_installed_is_locked_with_hashes() -> None:
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    packages = re.findall(r"^([a-z0-9._-]+)==\S+(?: ; [^\\]+)? \\\n    --hash=sha256:", lock, re.MULTILINE)
    assert packages == re.findall(r"^([a-z0-9._-]+)", lock, re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = project["project"]["dependencies"] + [
        name for group in project["dependency-groups"].values() for name in group
    ]
    assert {re.split(r"[<>=\[ ]", name)[0] for name in wanted} <= set(packages)


def test_a_public_class_name_is_defined_once_in_the_package() -> None:
    homes: dict[str, list[str]] = {}
    for path in modules():
        if path.is_relative_to(ROOT / "tooldispatchd"):
            for public in re.findall(r"^class ([^\W_]\w*)", path.read_text(), re.MULTILINE):
                homes.setdefault(public, []).append(name(path))
    twice = {public: found for public, found in homes.items() if len(found) > 1 and public not in HOMONYMS}
    assert not twice
    assert not [public for public in HOMONYMS if len(homes.get(public, ())) < 2]
