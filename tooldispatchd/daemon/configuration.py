"""Find a configuration file, read it, and make the catalog of it; all that is wrong with it is said at once.

The way of a file: text → table (tomllib) → its plumb files and other clients' servers put in → planned keys taken out
→ schema checked → environment put in → tokens and PEM files read, users and groups looked up → `Config` → catalog → its
servers' credentials. A table with a mistake is replaced by a harmless one of the same name before the catalog is built,
so that the rest is checked too and nothing is reported that only follows from that mistake. Profiles' tokens leave the
table before it becomes a `Config`; what was read for servers goes to their bindings. Nothing is started here.
"""

import copy
import math
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final, cast

import msgspec

from tooldispatchd.catalog import problems as paths
from tooldispatchd.catalog.catalog import Catalog, build_catalog
from tooldispatchd.catalog.enforcement import wrong
from tooldispatchd.catalog.problems import Problem
from tooldispatchd.catalog.servers import NO_SUCH_SERVER, NO_WAY
from tooldispatchd.catalog.signatures import Signature
from tooldispatchd.catalog.specs import MIB, Config
from tooldispatchd.daemon.config_report import MAX_SHOWN, Finding, find, printable
from tooldispatchd.daemon.credentials import Credentials, take_credentials
from tooldispatchd.daemon.enforcing import enforceable_for
from tooldispatchd.daemon.expansion import expand
from tooldispatchd.daemon.key_patterns import Table
from tooldispatchd.daemon.listen_values import ListenAddress, check_profiles, check_shared, parse_place
from tooldispatchd.daemon.mcp_json import McpJson, take_mcp_json
from tooldispatchd.daemon.planned_keys import take_planned
from tooldispatchd.daemon.plumb_files import PlumbFiles, take_plumb
from tooldispatchd.daemon.schema_check import check_schema
from tooldispatchd.daemon.secret_files import is_anyones
from tooldispatchd.daemon.server_credentials import (
    ServerSecrets,
    exposed_secrets,
    read_server_secrets,
    with_credentials,
)
from tooldispatchd.daemon.server_files import check_server_files
from tooldispatchd.daemon.stand_ins import StandIns
from tooldispatchd.daemon.toml_lines import TomlLines

# A thousand tools with their schemas have room; a larger file is not a configuration.
MAX_FILE_BYTES: Final = 4 * MIB
# Schemas nest in their properties, two levels each; what is deeper would exhaust a recursion somewhere below.
MAX_DEPTH: Final = 64

# Sections without which a catalog can be built, though it may know fewer servers.
_DISPENSABLE: Final = frozenset({"daemon", "limits", "mcp_json"})


class ConfigError(Exception):
    """A configuration that cannot be used. `str()` is the whole report; `findings` are its parts.

    `file` is None where no file was found. No part shows a value that may be a secret.
    """

    def __init__(self, summary: str, file: Path | None = None, findings: tuple[Finding, ...] = ()) -> None:
        super().__init__(summary)
        self.summary = summary
        self.file = file
        self.findings = findings

    def __str__(self) -> str:
        """The report: what cannot be done, then every problem with its place."""
        file = self.file or Path("configuration")
        shown = [finding.text(file) for finding in self.findings[:MAX_SHOWN]]
        more = len(self.findings) - len(shown)
        return "\n".join([self.summary, *shown, *([f"and {more} more"] if more else [])])

    def fields(self) -> list[dict[str, object]]:
        """Every problem for a program; the summary is one where it has no parts."""
        return [finding.fields(self.file) for finding in self.findings or (Finding(printable(self.summary)),)]


def find_configuration(environ: Mapping[str, str]) -> Path:
    """The first file there is of those that stand in for `--config`; a `ConfigError` says where it looked."""
    places = [Path("tooldispatchd.toml"), *_own_places(environ), Path("/etc/tooldispatchd/config.toml")]
    for place in places:
        if place.is_file():
            return place
    looked = "\n".join(f"    {place}" for place in places)
    raise ConfigError(
        f"cannot find a configuration; looked for\n{looked}\n"
        '"tooldispatchd init" writes an example, "--config FILE" names another file'
    )


class Loaded(msgspec.Struct, frozen=True):
    """A catalog, and where each table of it was written: `where` gives `FILE:LINE`."""

    catalog: Catalog
    where: Callable[[paths.Path], str]


def load_catalog(path: Path, environ: Mapping[str, str]) -> Catalog:
    """The catalog of the configuration at `path`; `environ` is what `${VAR}` stands for. Raises `ConfigError`."""
    return load(path, environ).catalog


def load(path: Path, environ: Mapping[str, str]) -> Loaded:
    """As `load_catalog`, with the places of what is in it."""
    source = _read(path)
    table = _parse(path, source)
    lines = cache(lambda: TomlLines(source))
    plumb = take_plumb(table, path, environ, lambda place: f"{path}:{lines().line_of(place)}")
    servers = take_mcp_json(table, path, environ, lambda place: _written(place, plumb, McpJson(), path, lines))
    if _depth(table) > MAX_DEPTH:
        raise _unreadable(path, Finding(f"what its plumb files say is nested more than {MAX_DEPTH} deep", key="plumb"))
    checked = copy.deepcopy(table)
    stand_ins = StandIns(plumb.lacking)
    stand_ins.put(checked, ())
    found = _check(checked, environ, path.absolute().parent)
    problems = [problem for problem in (*servers.problems, *found.problems) if problem.path not in plumb.lacking]
    stand_ins.put(checked, problems)
    knows_servers = servers.read and all(problem.path[:1] != ("mcp_json",) for problem in problems)
    if not knows_servers:
        checked.pop("mcp_json", None)
    directory = path.absolute().parent
    catalog = (
        _build(checked, problems, found.credentials, directory=directory, environ=environ) if plumb.read else problems
    )
    if not isinstance(catalog, Catalog):
        own = set(map(_key_of, problems))
        catalog = [each for each in catalog if _key_of(each) in own or not stand_ins.is_follow_up(each, table)]
        # A file that could not be read may declare any server.
        catalog = [each for each in catalog if knows_servers or each.why not in {NO_SUCH_SERVER, NO_WAY}]
    if isinstance(catalog, Catalog) and not (plumb.mistakes or servers.mistakes):
        exposed = exposed_secrets(table, lambda place: _file_of(place, plumb, servers, path))
        finished = _finished(catalog, found, (*servers.warnings, *exposed))
        return Loaded(finished, lambda place: _written(place, plumb, servers, path, lines))
    findings = find([] if isinstance(catalog, Catalog) else catalog, table, source, plumb, servers)
    count = "1 problem" if len(findings) == 1 else f"{len(findings)} problems"
    raise ConfigError(f"cannot use {path}: {count}", path, findings)


class _Found(msgspec.Struct, frozen=True):
    """What a table holds besides what becomes its `Config`."""

    problems: list[Problem]
    credentials: Credentials
    secrets: ServerSecrets


def _finished(catalog: Catalog, found: _Found, warnings: Iterable[str]) -> Catalog:
    """The catalog with what its servers are shown, and with all that is to be said of it."""
    said = (*catalog.warnings, *found.credentials.warnings, *found.secrets.warnings, *warnings)
    return msgspec.structs.replace(catalog, servers=with_credentials(catalog.servers, found.secrets), warnings=said)


def _written(place: paths.Path, plumb: PlumbFiles, servers: McpJson, path: Path, lines: Callable[[], TomlLines]) -> str:
    """Where the table at `place` was written: in another client's file, a plumb file, or the configuration itself."""
    foreign = servers.place_of(place)
    found = plumb.place_of(place)
    if foreign is not None:
        return f"{foreign[0]}:{foreign[1]}"
    return f"{path}:{lines().line_of(place)}" if found is None else f"{found.file}:{found.line}"


def _file_of(place: paths.Path, plumb: PlumbFiles, servers: McpJson, path: Path) -> Path:
    """The file in which what stands at `place` was written."""
    foreign = servers.place_of(place)
    found = plumb.place_of(place)
    shown = foreign[0] if foreign is not None else None if found is None else found.file
    # As reports name it, which is as it was read unless a variable stands in its name.
    return path if shown is None else Path(shown)


def _own_places(environ: Mapping[str, str]) -> Iterator[Path]:
    """Where the user's own file stands; a service may have no home at all."""
    home = environ.get("XDG_CONFIG_HOME", "")
    # The specification of base directories has a relative one ignored.
    if home.startswith("/"):
        yield Path(home) / "tooldispatchd" / "config.toml"
    elif environ.get("HOME"):
        yield Path(environ["HOME"]) / ".config" / "tooldispatchd" / "config.toml"


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
        anyones = is_anyones(str(path))
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(f"cannot read {path}: {why}", path) from error
    if anyones is not None:
        raise ConfigError(f"cannot use {path}: {anyones}", path)
    if len(content) > MAX_FILE_BYTES:
        raise ConfigError(f"cannot use {path}: it is over {MAX_FILE_BYTES // MIB} MiB", path)
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        # The cause would carry the whole file along, with every token in it.
        raise _unreadable(path, Finding("not UTF-8", line)) from None


def _parse(path: Path, source: str) -> Table:
    try:
        table = tomllib.loads(source)
    except RecursionError as error:
        raise _unreadable(path, Finding("arrays and tables are nested too deep")) from error
    except ValueError as error:
        raise _unreadable(path, _syntax_finding(str(error), source)) from error
    if _depth(table) > MAX_DEPTH:
        raise _unreadable(path, Finding(f"arrays and tables are nested more than {MAX_DEPTH} deep"))
    return table


def _unreadable(path: Path, finding: Finding) -> ConfigError:
    return ConfigError(f"cannot read {path}: 1 problem", path, (finding,))


def _syntax_finding(message: str, source: str) -> Finding:
    """tomllib says the place in its message only (it has attributes since Python 3.14)."""
    why, _, place = message.partition(" (at ")
    numbers = re.findall(r"\d+", place)
    if len(numbers) == 2:
        why = printable(f"not TOML: {why} (column {numbers[1]})")
        return Finding(why, int(numbers[0]), column=int(numbers[1]))
    return Finding(printable(f"not TOML: {why} (at the end)"), source.rstrip("\n").count("\n") + 1)


def _depth(table: Table) -> int:
    """How deep tables and arrays are nested; dotted keys nest deeper than any recursion reaches."""
    depth, level = 0, [cast("object", table)]
    while level and depth <= MAX_DEPTH:
        depth += 1
        level = [inner for holder in level for inner in _inner(holder) if isinstance(inner, (dict, list))]
    return depth


def _inner(holder: object) -> Iterable[object]:
    if isinstance(holder, dict):
        return cast("Table", holder).values()
    return cast("list[object]", holder) if isinstance(holder, list) else ()


def _check(table: Table, environ: Mapping[str, str], directory: Path) -> _Found:
    """Every problem of `table` itself, and what it had of credentials; its profiles' tokens leave it."""
    problems = take_planned(table)
    no_json = list(_without_json_form(table))
    excused = {problem.path for problem in no_json}
    problems += no_json
    problems += [problem for problem in check_schema(table) if problem.path not in excused]
    problems += expand(table, environ, directory)
    wrong = frozenset(problem.path for problem in problems)
    credentials = take_credentials(table, environ, wrong=wrong)
    secrets = read_server_secrets(table, environ, wrong=wrong)
    files = check_server_files(table, wrong=wrong)
    return _Found([*problems, *credentials.problems, *secrets.problems, *files], credentials, secrets)


def _key_of(problem: Problem) -> tuple[paths.Path, str]:
    return problem.path, problem.why


def _without_json_form(holder: object, path: paths.Path = ()) -> Iterator[Problem]:
    """Each value that a configuration cannot have; it is replaced, in place, by one of the nearest kind."""
    items: Iterable[tuple[str | int, object]] = ()
    if isinstance(holder, dict):
        items = list(cast("Table", holder).items())
    elif isinstance(holder, list):
        items = list(enumerate(cast("list[object]", holder)))
    for key, value in items:
        if isinstance(value, (dict, list)):
            yield from _without_json_form(value, (*path, key))
        elif isinstance(value, float) and not math.isfinite(value):
            yield Problem((*path, key), "not a finite number", value=value)
            cast("dict[str | int, object]", holder)[key] = 0.0
        elif not isinstance(value, (str, int, float)):
            why = "null has no meaning here" if value is None else "a date or time has no meaning here"
            yield Problem((*path, key), why, value=value)
            cast("dict[str | int, object]", holder)[key] = str(value)


def _build(
    table: Table, problems: list[Problem], credentials: Credentials, *, directory: Path, environ: Mapping[str, str]
) -> Catalog | list[Problem]:
    # A whole section that is missing, misspelt or of the wrong kind would make every name in it unknown.
    if any(len(problem.path) <= 1 and problem.path[0] not in _DISPENSABLE for problem in problems):
        return problems
    try:
        config = msgspec.convert(table, Config)
    except msgspec.ValidationError as error:
        return problems or [_conversion_problem(str(error))]
    signatures: Mapping[str, Signature] = {}
    if any(spec.python is not None for spec in config.tools.values()):
        # Few configurations have such tools.
        from tooldispatchd.daemon.python_tools import as_called, read_signatures  # noqa: PLC0415  # as above

        # A table that is wrong has been replaced, and would be read as what it is not.
        bad = {problem.path[:2] for problem in problems}
        sound = {name: spec for name, spec in config.tools.items() if ("tools", name) not in bad}
        python = read_signatures(as_called(config, sound), directory, environ)
        signatures, problems = python.signatures, [*problems, *python.problems]
    catalog = build_catalog(config, credentials.tokens, signatures)
    if not isinstance(catalog, Catalog):
        return [*problems, *catalog]
    enforceable = enforceable_for(catalog)
    lacking, warnings = wrong(config, catalog.profiles, catalog.servers, enforceable)
    found = [*problems, *_place_problems(catalog), *lacking]
    said = (*catalog.warnings, *warnings)
    return found or msgspec.structs.replace(catalog, enforceable=enforceable, warnings=said)


def _place_problems(catalog: Catalog) -> Iterator[Problem]:
    """What is wrong with the places to listen beside the profiles and beside one another."""
    listen = catalog.config.daemon.listen
    for index, value in enumerate(listen):
        problem = check_profiles(value, catalog.profiles, ("daemon", "listen", index))
        if problem is not None:
            yield problem
    shared = check_shared(place for place in map(parse_place, listen) if isinstance(place, ListenAddress))
    if shared is not None:
        yield msgspec.structs.replace(shared, path=("daemon", "listen"))


def _conversion_problem(message: str) -> Problem:
    """What the schema admits and the Structs do not: `3.0` where a whole number stands."""
    why, _, place = message.partition(" - at `$")
    return Problem(tuple(re.findall(r"\.([a-z_]+)", place)), why.replace("`", '"'))
