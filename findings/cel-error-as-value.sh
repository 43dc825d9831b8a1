#!/usr/bin/env bash
# cel-expr-python 0.1.3 (cel-cpp): an expression that fails when it is evaluated raises nothing. `eval` returns a Value of the type
# ERROR, and its `value()` is the message as a plain `str`, as an expression that yields that text would give. Only
# `type()` tells them apart. An expression that does not compile raises RuntimeError.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet cel-expr-python==0.1.3
"$dir/venv/bin/python" - >"$dir/seen" <<'PY'
from cel_expr_python import cel

environment = cel.NewEnv(variables={"n": cel.Type.INT})
for text in ("1 / n > 0", "[1][n + 3] == 1", "{'a': true}['b']", "'INVALID_ARGUMENT: divide by zero'", "n == 1"):
    found = environment.compile(text).eval(data={"n": 0})
    print(text, "|", found.type(), type(found.value()).__name__, found.value())
try:
    environment.compile("unknown")
except RuntimeError:
    print("RuntimeError")
PY
diff - "$dir/seen" <<'OUT'
1 / n > 0 | ERROR str INVALID_ARGUMENT: divide by zero
[1][n + 3] == 1 | ERROR str UNKNOWN: Index error: index=3 size=1
{'a': true}['b'] | ERROR str NOT_FOUND: Key not found in map : "b"
'INVALID_ARGUMENT: divide by zero' | STRING str INVALID_ARGUMENT: divide by zero
n == 1 | BOOL bool False
RuntimeError
OUT
echo "as found: an error is a value, whose text is a str"
