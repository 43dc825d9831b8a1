#!/usr/bin/env bash
# cel-expr-python 0.1.3 (cel-cpp): `string(n)` of a double has six significant digits at most, so that a date written as a
# number, 20240131, becomes "2.0240131e+07", in eight; and 100000000 becomes "1e+08". JSON has one kind of number: whoever passes
# numbers as doubles gets an identifier back that nobody sent.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet cel-expr-python==0.1.3
seen=$("$dir/venv/bin/python" - <<'PY'
from cel_expr_python import cel

environment = cel.NewEnv(variables={"n": cel.Type.DOUBLE})
text = environment.compile("string(n)")
for number in (123456.0, 1234567.0, 20240131.0, 100000000.0, 3.14159265):
    print(repr(number), text.eval(data={"n": number}).value())
PY
)
diff - <(echo "$seen") <<'OUT'
123456.0 123456
1234567.0 1.234567e+06
20240131.0 2.0240131e+07
100000000.0 1e+08
3.14159265 3.14159265
OUT
echo "as found: a double of seven digits or more before the point is written with an exponent"
