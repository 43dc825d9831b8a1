"""Find a configuration file, read it, and make the catalog of it; its mistakes are told in two phases.

    form      text → table (tomllib) → plumb files and other clients' servers put in → schema → environment put in
    meaning   tokens and PEM files read, users and groups looked up → `Config` → catalog → servers' credentials

All mistakes of form are collected and told together, and only what is well formed goes on to the second phase: so
nothing there meets a value of the wrong kind, and nothing is told that only follows from a mistake of form. Profiles'
tokens leave the table before it becomes a `Config`; what was read for servers goes to their bindings.
"""

import copy
import hashlib
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypeVar, cast

import msgspec

from tooldispatchd.catalog import problems as paths
from tooldispatchd.catalog.auditspec import AuditSpec, is_database
from tooldispatchd.catalog.catalog import Catalog, DescribedApi, build_catalog
from tooldispatchd.catalog.enforcement import Enforceable, wrong
from tooldispatchd.catalog.masker import Masker
from tooldispatchd.catalog.names import nearest
from tooldispatchd.catalog.openapispec import OpenApiSpec
from tooldispatchd.catalog.problems import Problem
from tooldispatchd.catalog.rest.declared import ApiCredentials, RestApi
from tooldispatchd.catalog.signatures import Signature
from tooldispatchd.catalog.speckinds import MIB
from tooldispatchd.catalog.specs import Config
from tooldispatchd.config.config_report import MAX_SHOWN, Finding, Sources, printable, rest_of
from tooldispatchd.config.credentials import (
    REACHED,
    Credentials,
    api_credentials,
    exposed_secrets,
    known_secrets,
    take_credentials,
    with_credentials,
)
from tooldispatchd.config.expansion import expand
from tooldispatchd.config.files import UnusableFileError, read_text
from tooldispatchd.config.http_places import http_problems, http_warnings
from tooldispatchd.config.key_patterns import Table, depth_of, places
from tooldispatchd.config.listen_values import parse_places
from tooldispatchd.config.machine import enforceable_for
from tooldispatchd.config.mcp_json import take_mcp_json
from tooldispatchd.config.plumb_files import take_plumb
from tooldispatchd.config.schema_check import check_form
from tooldispatchd.config.secret_sources import SecretSources
from tooldispatchd.config.standing import standing_configurations
from tooldispatchd.config.tool_makers import make_tools
from tooldispatchd.installation import needs_postgres

# A thousand tools with their schemas have room; a larger file is not a configuration.
MAX_FILE_BYTES: Final = 4 * MIB
# Schemas nest in their properties, two levels each; what is deeper would exhaust a recursion somewhere below.
MAX_DEPTH: Final = 64
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
_T = TypeVar("_T")


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
        return "\n".join([self.summary, *shown, *rest_of(self.findings)])

    def fields(self) -> list[dict[str, object]]:
        """Every problem for a program; the summary is one where it has no parts."""
        return [finding.fields(self.file) for finding in self.findings or (Finding(printable(self.summary)),)]


def find_configuration(environ: Mapping[str, str]) -> Path:
    """The first file there is of those that stand in for `--config`; a `ConfigError` says where it looked."""
    places = [Path("tooldispatchd.toml"), *map(Path, standing_configurations(environ))]
    for place in places:
        if place.is_file():
            return place
    looked = "\n".join(f"    {place}" for place in places)
    raise ConfigError(
        f"cannot find a configuration; looked for\n{looked}\n"
        '"tooldispatchd init" writes an example, "--config FILE" names another file'
    )


class _LeftOutError(Exception):
    """What is wrong costs servers of other clients' files alone: they are left out, each for its reason."""

    def __init__(self, servers: Mapping[str, str]) -> None:
        super().__init__(", ".join(servers))
        self.servers = servers


class Loaded(msgspec.Struct, frozen=True):
    """A catalog, and where each table of it was written: `where` gives `FILE:LINE`.

    `origin` is the path of the table that another one was made of (a toolbox, of its tools), or the same path; `files`
    are those that were read as configuration; `written` is what they say together, before any expansion. `sha256` is
    that of the configuration's own file.
    """

    catalog: Catalog
    where: Callable[[paths.Path], str]
    origin: Callable[[paths.Path], paths.Path]
    files: tuple[Path, ...]
    written: Mapping[str, object]
    sha256: str


def load_catalog(path: Path, environ: Mapping[str, str]) -> Catalog:
    """The catalog of the configuration at `path`; `environ` is what `${VAR}` stands for. Raises `ConfigError`."""
    return load(path, environ).catalog


def load(
    path: Path, environ: Mapping[str, str], *, runs_commands: bool = True, enforceable: Enforceable | None = None
) -> Loaded:
    """As `load_catalog`, with the places of what is in it.

    Without `runs_commands` no `${command:…}` is run, and something stands in its place. With `enforceable` it is not
    tried what this machine can enforce.
    """
    secrets = SecretSources(environ, path.absolute().parent, runs_commands=runs_commands)
    return _leaving_out(
        lambda left_out: _load(path, environ, secrets=secrets, enforceable=enforceable, left_out=left_out)
    )


def _leaving_out(attempt: Callable[[Mapping[str, str]], _T]) -> _T:
    """Try with all servers, and anew without those that cannot be used."""
    left_out: dict[str, str] = {}
    while True:
        try:
            return attempt(left_out)
        except _LeftOutError as error:
            left_out |= error.servers


def _load(
    path: Path,
    environ: Mapping[str, str],
    *,
    secrets: SecretSources,
    enforceable: Enforceable | None,
    left_out: Mapping[str, str],
) -> Loaded:
    directory = path.absolute().parent
    sources, table, credentials = _well_formed(path, environ, secrets, left_out)
    made = make_tools(table, credentials.secrets, environ)
    sources.made = made.places
    if made.problems:
        _refuse(sources, (*credentials.problems, *made.problems))
    catalog = _build(
        table, credentials.tokens, made.apis, directory=directory, environ=environ, enforceable=enforceable
    )
    _refuse(sources, [*credentials.problems, *_pem_problems(table), *_not_told_yet(catalog, credentials)])
    assert isinstance(catalog, Catalog)
    store = catalog.config.audit.store or ""
    if is_database(store) and find_spec("psycopg") is None:
        _refuse(sources, [Problem(("audit", "store"), needs_postgres())])
    servers = with_credentials(catalog.servers, credentials.secrets)
    for name, reason in left_out.items():
        if sources.servers.servers[name].is_off:
            continue
        servers[name] = msgspec.structs.replace(servers[name], left_out=reason)
    apis = {
        name: msgspec.structs.replace(api, credentials=api_credentials(api, credentials.secrets))
        for name, api in catalog.apis.items()
    }
    requests = (tool.rest for tool in catalog.tools.values() if tool.rest is not None)
    finished = msgspec.structs.replace(
        catalog,
        servers=servers,
        apis=apis,
        masker=Masker({*secrets.known, *known_secrets(table, credentials, servers.values(), apis.values(), requests)}),
        warnings=(
            *catalog.warnings,
            *credentials.warnings,
            *made.warnings,
            *sources.servers.warnings,
            *exposed_secrets(sources.table, sources.file_of, own=sources.path),
        ),
    )
    digest = hashlib.sha256(sources.text.encode()).hexdigest()
    return Loaded(finished, sources.where, sources.origin, sources.files, sources.table, digest)


def _pem_problems(table: Table) -> Iterable[Problem]:
    if not any(True for server in REACHED for key in ("ca", "cert") for _ in places(table, (*server, key))):
        return ()
    from tooldispatchd.config.pem_files import check_pem_files  # noqa: PLC0415  # OpenSSL is loaded with it

    return check_pem_files(table)


def read_openapi(path: Path, environ: Mapping[str, str], name: str) -> tuple[OpenApiSpec, ApiCredentials]:
    """The table of the API that a document describes, and what the daemon shows to it. Raises `ConfigError`.

    Of the document itself nothing is read: it need not be there yet.
    """
    sources, table, credentials = _leaving_out(lambda left_out: _well_formed(path, environ, left_out=left_out))
    apis = cast("dict[str, Table]", table.get("openapi", {}))
    if name not in apis:
        _refuse(sources, [Problem(("openapi",), f"there is no [openapi.{name}]", nearest=nearest(name, apis))])
    _refuse(sources, [problem for problem in credentials.problems if problem.path[:2] == ("openapi", name)])
    spec = msgspec.convert(apis[name], OpenApiSpec)
    return spec, api_credentials(RestApi(name, "", "", spec), credentials.secrets)


def read_audit(path: Path, environ: Mapping[str, str]) -> AuditSpec:
    """The table `[audit]`. Raises `ConfigError` for what is wrong with that; nothing else is looked at, or read."""
    text, written = _read(path)
    table: Table = {"audit": copy.deepcopy(written.get("audit", {}))}
    _refuse(Sources(path, text, written), [*check_form(table), *expand(table, environ, path.absolute().parent)])
    return msgspec.convert(table["audit"], AuditSpec)


def _well_formed(
    path: Path,
    environ: Mapping[str, str],
    secrets: SecretSources | None = None,
    left_out: Mapping[str, str] = _NOTHING,
) -> tuple[Sources, Table, Credentials]:
    """The table that a configuration is once all of its form is right, and what was read of the secrets it names."""
    text, written = _read(path)
    sources = Sources(path, text, written)
    sources.plumb = take_plumb(written, path, environ, sources.where)
    sources.servers = take_mcp_json(written, path, environ, sources.where, left_out)
    if depth_of(written) > MAX_DEPTH:
        raise _unreadable(path, Finding(f"what its plumb files say is nested more than {MAX_DEPTH} deep", key="plumb"))
    table = copy.deepcopy(written)
    problems = check_form(table) + expand(table, environ, path.absolute().parent, secrets)
    # A table in which the notation has found a mistake lacks what stood there.
    _refuse(sources, (problem for problem in problems if problem.path not in sources.plumb.lacking))
    return sources, table, take_credentials(table, environ)


def _not_told_yet(catalog: Catalog | list[Problem], credentials: Credentials) -> list[Problem]:
    """Of a token that could not be read, and of a user who is not there, the catalog tells once more."""
    told = {path for problem in credentials.problems for path in (problem.path, problem.path[:2])}
    return [] if isinstance(catalog, Catalog) else [each for each in catalog if each.path not in told]


def _refuse(sources: Sources, problems: Iterable[Problem]) -> None:
    """Raise `ConfigError` where there is anything to tell, or `_LeftOutError` where that costs single servers alone."""
    problems = list(problems)
    if servers := sources.left_out(problems):
        raise _LeftOutError(servers)
    findings = sources.findings(problems)
    if findings:
        count = "1 problem" if len(findings) == 1 else f"{len(findings)} problems"
        raise ConfigError(f"cannot use {sources.path}: {count}", sources.path, findings)


def _read(path: Path) -> tuple[str, Table]:
    """The text of a configuration file, and its table. Raises `ConfigError`."""
    try:
        text = read_text(path, MAX_FILE_BYTES)
        table = tomllib.loads(text)
    except UnusableFileError as error:
        if error.line is not None:
            raise _unreadable(path, Finding(error.why, error.line)) from None
        raise ConfigError(f"cannot {error.verb} {path}: {error.why}", path) from error
    except RecursionError as error:
        raise _unreadable(path, Finding("arrays and tables are nested too deep")) from error
    except ValueError as error:
        # tomllib says the place in its message only (it has attributes since Python 3.14).
        why, _, place = str(error).partition(" (at ")
        numbers = re.findall(r"\d+", place)
        if len(numbers) == 2:
            why = printable(f"not TOML: {why} (column {numbers[1]})")
            finding = Finding(why, int(numbers[0]), column=int(numbers[1]))
        else:
            finding = Finding(printable(f"not TOML: {why} (at the end)"), text.rstrip("\n").count("\n") + 1)
        raise _unreadable(path, finding) from error
    if depth_of(table) > MAX_DEPTH:
        raise _unreadable(path, Finding(f"arrays and tables are nested more than {MAX_DEPTH} deep"))
    return text, table


def _unreadable(path: Path, finding: Finding) -> ConfigError:
    return ConfigError(f"cannot read {path}: 1 problem", path, (finding,))


def _build(
    table: Table,
    tokens: Mapping[str, bytes],
    described: Mapping[str, DescribedApi],
    *,
    directory: Path,
    environ: Mapping[str, str],
    enforceable: Enforceable | None,
) -> Catalog | list[Problem]:
    """The catalog of a table that is well formed, or every mistake in what it means."""
    try:
        config = msgspec.convert(table, Config)
    except msgspec.ValidationError as error:
        # What the schema admits and the Structs do not: `3.0` where a whole number stands.
        why, _, place = str(error).partition(" - at `$")
        return [Problem(tuple(re.findall(r"\.([a-z_]+)", place)), why.replace("`", '"'))]
    problems: list[Problem] = []
    signatures: Mapping[str, Signature] = {}
    told: tuple[str, ...] = ()
    if any(spec.python is not None for spec in config.tools.values()):
        # Few configurations have such tools.
        from tooldispatchd.config.python_tools import as_called, read_signatures  # noqa: PLC0415  # as above

        python = read_signatures(as_called(config), directory, environ)
        signatures, problems, told = python.signatures, list(python.problems), python.warnings
    catalog = build_catalog(config, tokens, signatures, described)
    if not isinstance(catalog, Catalog):
        return [*problems, *catalog]
    enforceable = enforceable or enforceable_for(catalog)
    lacking, warnings = wrong(config, catalog.profiles, catalog.servers, enforceable)
    listening, misplaced = parse_places(config.daemon.listen, catalog.openable)
    if any(place.kind.is_http for place in listening):
        misplaced += [
            msgspec.structs.replace(each, path=(config.daemon.listen.index(str(each.value)),))
            for each in http_problems(listening, catalog)
        ]
        warnings = [*warnings, *(f"daemon.listen: {each}" for each in http_warnings(listening))]
    problems += [msgspec.structs.replace(each, path=("daemon", "listen", *each.path)) for each in misplaced]
    problems += lacking
    said = (*catalog.warnings, *told, *warnings)
    return problems or msgspec.structs.replace(catalog, enforceable=enforceable, warnings=said)
