#!/usr/bin/env bash
# msgspec 0.22.0: the path in the error of a typed decode names the fields of a Struct and the indices of a list, but `[...]` for
# any key of a dict, by `json.decode` and by `convert` alike. So in a table by name, such as the tools of a configuration, the
# error does not say which entry is wrong; whoever reports it has to look for the key himself.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet msgspec==0.22.0
"$dir/venv/bin/python" - >"$dir/seen" <<'PY'
import msgspec


class Server(msgspec.Struct):
    port: int


def told(document: bytes, kind: object) -> None:
    for read in (lambda: msgspec.json.decode(document, type=kind), lambda: msgspec.convert(msgspec.json.decode(document), kind)):
        try:
            read()
        except msgspec.ValidationError as error:
            print(error)


told(b'[{"port": 1}, {"port": "x"}]', list[Server])
told(b'{"first": {"port": 1}, "second": {"port": "x"}}', dict[str, Server])
told(b'{"first": {"second": "x"}}', dict[str, dict[str, int]])
PY
diff - "$dir/seen" <<'OUT'
Expected `int`, got `str` - at `$[1].port`
Expected `int`, got `str` - at `$[1].port`
Expected `int`, got `str` - at `$[...].port`
Expected `int`, got `str` - at `$[...].port`
Expected `int`, got `str` - at `$[...][...]`
Expected `int`, got `str` - at `$[...][...]`
OUT
echo "as found: an index is named, the key of a dict is not"
