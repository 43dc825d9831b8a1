#!/usr/bin/env bash
# PyYAML 6.0.4: the loader in C has a bound of 1,000 levels, and tells it as a syntax error ("exceeded maximum nesting depth")
# from the scanner, before the parser has given an event; the loader in Python has none, and 6.0.3 had none in either. The same
# document is read by `SafeLoader` and refused by `CSafeLoader`, and a caller who counts levels by events never sees them.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
for version in 6.0.3 6.0.4; do
    "$dir/venv/bin/pip" install --quiet "pyyaml==$version"
    "$dir/venv/bin/python" - <<'PY'
import yaml


def read(loader: type, levels: int) -> str:
    given = 0
    try:
        for _ in yaml.parse("[" * levels + "]" * levels, Loader=loader):
            given += 1
    except yaml.MarkedYAMLError as error:
        return f"{error.problem} after {given} events"
    return f"{given} events"


for loader in (yaml.CSafeLoader, yaml.SafeLoader):
    print(yaml.__version__, loader.__name__, read(loader, 900), "|", read(loader, 1100))
PY
done >"$dir/seen"
diff - "$dir/seen" <<'OUT'
6.0.3 CSafeLoader 1804 events | 2204 events
6.0.3 SafeLoader 1804 events | 2204 events
6.0.4 CSafeLoader 1804 events | exceeded maximum nesting depth after 1 events
6.0.4 SafeLoader 1804 events | 2204 events
OUT
echo "as found: a depth of 1,000 in the loader in C since 6.0.4"
