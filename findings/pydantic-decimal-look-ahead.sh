#!/usr/bin/env bash
# pydantic 2.12.5: the JSON Schema of a `Decimal` has, in its string alternative, a pattern with look-ahead that pydantic itself
# refuses as `Field(pattern=…)` ("look-around … is not supported"). 2.14.4 writes none. A server on FastMCP or the Python SDK
# sends it to every client, and who checks arguments by an engine in linear time has to leave that keyword out.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
for version in 2.12.5 2.14.4; do
    "$dir/venv/bin/pip" install --quiet "pydantic==$version"
    "$dir/venv/bin/python" - <<'PY'
from decimal import Decimal

import pydantic
from pydantic_core import SchemaError

text = pydantic.TypeAdapter(Decimal).json_schema()["anyOf"][1]
print(pydantic.VERSION, text)
if "pattern" in text:
    try:
        pydantic.create_model("M", x=(str, pydantic.Field(pattern=text["pattern"])))
    except SchemaError as error:
        print("look-around" in str(error))
PY
done >"$dir/seen"
diff - "$dir/seen" <<'OUT'
2.12.5 {'pattern': '^(?!^[-+.]*$)[+-]?0*\\d*\\.?\\d*$', 'type': 'string'}
True
2.14.4 {'type': 'string'}
OUT
echo "as found: 2.12.5 writes a pattern that it does not take, 2.14.4 writes none"
