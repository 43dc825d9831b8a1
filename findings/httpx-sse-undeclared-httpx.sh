#!/usr/bin/env bash
# httpx-sse 0.4.3 declares no dependency, and its first import is httpx: installed alone, it cannot be imported. It works where
# something else brings httpx; a package that depends on httpx-sse has to declare httpx as well.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet httpx-sse==0.4.3
"$dir/venv/bin/python" - >"$dir/seen" <<'PY'
from importlib import metadata

print(metadata.requires("httpx-sse"))
try:
    import httpx_sse
except ModuleNotFoundError as error:
    print(error)
PY
diff - "$dir/seen" <<'OUT'
None
No module named 'httpx'
OUT
echo "as found: httpx is imported and not declared"
