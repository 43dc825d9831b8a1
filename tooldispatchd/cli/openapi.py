"""`tooldispatchd openapi`: the tools that a document of OpenAPI makes; and what a URL gives, fetched and kept."""

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import msgspec

from tooldispatchd.catalog.openapi.adapter import AdaptedApi, ApiSource, adapt
from tooldispatchd.catalog.openapispec import OpenApiSpec
from tooldispatchd.catalog.rest.declared import NO_CREDENTIALS, ApiCredentials
from tooldispatchd.catalog.restspecs import RestMethod
from tooldispatchd.config.api_documents import UnusableApiError, as_json, is_url, read_source
from tooldispatchd.config.config_report import Finding, printable
from tooldispatchd.config.configuration import ConfigError, find_configuration, read_openapi
from tooldispatchd.config.kept_documents import (
    MAX_DOCUMENT_BYTES,
    KeptDocument,
    KeptDocumentError,
    KeptDocuments,
    digest_of,
)
from tooldispatchd.tomltext import toml_of

EPILOG = """\
SPEC is the name of a table [openapi.NAME] of the configuration, else a file, in JSON or YAML, or a URL. Of a file or a
URL every operation is shown that can be a tool, and which credentials some need.

What --update fetches is kept in $STATE_DIRECTORY/openapi, else $XDG_STATE_HOME/tooldispatchd/openapi, else
~/.local/state/tooldispatchd/openapi, for the user who runs this; a daemon that starts reads it there, and asks nobody.
The credentials of the table go along where the URL has the origin of its base_url. For a service:
  sudo -u tooldispatchd env STATE_DIRECTORY=/var/lib/tooldispatchd tooldispatchd openapi NAME --update

exit codes: 0 done; 1 it cannot be fetched or kept; 2 usage, configuration, or a document that cannot be used
"""
_NARROWING = ("operations", "tags", "paths")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.add_argument("spec", metavar="SPEC", help="what to show: a name, a file or a URL")
    parser.add_argument("--config", type=Path, metavar="FILE", help="the configuration; by default the one of serve")
    parser.add_argument("--update", action="store_true", help="fetch what the table of that name says, and keep it")
    parser.add_argument("--toml", action="store_true", help="print tables of [rest] and [tools] to start from instead")
    beside = parser.add_argument_group(
        "beside a file or a URL", "as the keys of [openapi.NAME]; patterns may be repeated"
    )
    beside.add_argument("--name", metavar="NAME", default="api", help="what to call the API; by default api")
    beside.add_argument("--base-url", metavar="URL", help="where it is, if the document does not say that")
    for key in _NARROWING:
        beside.add_argument(f"--{key}", metavar="PATTERN", action="append", help=f"only these {key}")
    methods = beside.add_argument("--methods", metavar="METHOD", action="append", help="only these methods")
    methods.type, methods.choices = str.upper, get_args(RestMethod)


def run(arguments: argparse.Namespace) -> int:
    """Show, write out or fetch; the exit code."""
    spec: str = arguments.spec
    try:
        if arguments.update:
            return _update(spec, arguments)
        if is_url(spec) or Path(spec).is_file():
            return _show_document(spec, arguments)
        own, _ = read_openapi(arguments.config or find_configuration(os.environ), os.environ, spec)
        return _show(spec, adapt(read_source(own.spec, spec, os.environ), spec, own), arguments)
    except ConfigError as error:
        print(error, file=sys.stderr)
    except UnusableApiError as error:
        _say(f"cannot read the document: {error.why}{f'; {error.allowed} fetches it' if error.allowed else ''}")
    except _FetchFailedError as error:
        _say(str(error))
        return 1
    return 2


class _FetchFailedError(Exception):
    """A document could not be fetched or kept."""


def _update(name: str, arguments: argparse.Namespace) -> int:
    """Fetch the document of a table of the configuration, and keep it."""
    own, credentials = read_openapi(arguments.config or find_configuration(os.environ), os.environ, name)
    if not is_url(own.spec):
        _say(f"openapi.{name} names a file, which is read at each start: nothing is fetched")
        return 2
    kept = KeptDocuments(os.environ)
    before = kept.read(own.spec)
    content = _fetched(own.spec, own, credentials)
    document = KeptDocument(as_json(content), digest_of(content))
    try:
        path = kept.write(own.spec, document)
    except KeptDocumentError as error:
        raise _FetchFailedError(f"cannot keep the document of openapi.{name}: {error}") from None
    new = "new" if before is None else "unchanged" if before.digest == document.digest else "changed"
    _say(f"openapi.{name}: {new}, {len(content)} bytes, sha256 {document.digest}; kept in {path}")
    return _show(name, adapt(ApiSource(document.text, url=own.spec), name, own), arguments)


def _show_document(spec: str, arguments: argparse.Namespace) -> int:
    """What a document makes by itself."""
    keys = ("base_url", "methods", *_NARROWING)
    asked = {key: given for key in keys if (given := getattr(arguments, key)) is not None}
    own = msgspec.convert({"spec": spec, **asked}, OpenApiSpec)
    if is_url(spec):
        source = ApiSource(as_json(_fetched(spec, own)), url=spec)
    else:
        source = read_source(spec, arguments.name, os.environ)
    return _show(arguments.name, adapt(source, arguments.name, own, is_tried=True), arguments)


def _fetched(url: str, spec: OpenApiSpec, credentials: ApiCredentials = NO_CREDENTIALS) -> bytes:
    import trio

    from tooldispatchd.agent.tools.apidocuments import FetchError, fetch_document

    try:
        return trio.run(fetch_document, url, spec, credentials, MAX_DOCUMENT_BYTES)
    except FetchError as error:
        raise _FetchFailedError(f"cannot fetch the document: {error}") from None


def _show(name: str, adapted: AdaptedApi, arguments: argparse.Namespace) -> int:
    """Print what was made, or its tables; what is wrong with it on stderr."""
    for problem in adapted.problems:
        key = ".".join(map(str, ("openapi", name, *problem.path)))
        told = Finding(problem.why, key=key, allowed=problem.allowed, nearest=problem.nearest)
        print(told.text(Path(arguments.spec)), file=sys.stderr)
    if not adapted.tools and adapted.problems:
        return 2
    lines = _tables(name, adapted) if arguments.toml else _listing(adapted)
    for line in lines:
        print(printable(line))
    return 2 if adapted.problems else 0


def _listing(adapted: AdaptedApi) -> Iterator[str]:
    yield f"{adapted.title or 'an API'}, at {adapted.api['base_url'] or 'no known place'}: {len(adapted.tools)} tools"
    width = max(map(len, adapted.tools), default=0)
    yield from (f"{name:{width}}  {operation}" for name, operation in adapted.operations.items())
    for need, count in adapted.needs.items():
        yield f"needed by {count}: {need}"
    yield from (f"left out: {each.operation}: {each.why}" for each in adapted.left_out)
    for name, notes in adapted.notes.items():
        yield from (f"left out of {adapted.operations[name]}: {note}" for note in notes)


def _tables(name: str, adapted: AdaptedApi) -> Iterator[str]:
    yield from toml_of(adapted.api, "rest", name).splitlines()
    for need in adapted.needs:
        yield f"# {need.keys}"
    for tool in adapted.tools:
        yield ""
        table = adapted.table_of(tool)
        inner = {key: value for key, value in table.items() if key in {"rest", "input_schema"}}
        yield from toml_of({key: value for key, value in table.items() if key not in inner}, "tools", tool).splitlines()
        for key, value in inner.items():
            assert isinstance(value, dict)
            yield from toml_of(value, "tools", tool, key).splitlines()


def _say(text: str) -> None:
    print(f"tooldispatchd: {printable(text)}", file=sys.stderr)
