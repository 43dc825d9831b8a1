#!/usr/bin/env bash
# jsonschema-rs 0.60.3 takes a `pattern` under one draft and refuses the same one under another: `(?i)abc`, `(?P<y>a)` and `^}$`
# compile under 2019-09 and 2020-12, and are "not a regex" under draft-04, -06 and -07, with the same engine. So the `$schema` of a
# schema alone decides whether its pattern can be used.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet jsonschema-rs==0.60.3
seen=$("$dir/venv/bin/python" - <<'PY'
import jsonschema_rs

DRAFTS = (
    "http://json-schema.org/draft-04/schema#",
    "http://json-schema.org/draft-06/schema#",
    "http://json-schema.org/draft-07/schema#",
    "https://json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft/2020-12/schema",
)


def is_taken(uri: str, pattern: str) -> str:
    try:
        jsonschema_rs.validator_for({"$schema": uri, "pattern": pattern})
    except jsonschema_rs.ValidationError:
        return "-"
    return "+"


for pattern in ("(?i)abc", "(?P<y>a)", "^}$", "^[a-z]+$"):
    print(pattern, *(is_taken(uri, pattern) for uri in DRAFTS))
PY
)
diff - <(echo "$seen") <<'OUT'
(?i)abc - - - + +
(?P<y>a) - - - + +
^}$ - - - + +
^[a-z]+$ + + + + +
OUT
echo "as found: refused under draft-04, -06 and -07 alone"
