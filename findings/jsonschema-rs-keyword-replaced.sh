#!/usr/bin/env bash
# jsonschema-rs 0.60.3: a custom keyword (`keywords={name: class}`) with the name of a built-in one replaces it without a word:
# with a class that checks nothing, `minLength` and `type` hold for every value. A caller who adds a keyword beside the
# standard's has to check by hand that the name is free.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet jsonschema-rs==0.60.3
"$dir/venv/bin/python" - >"$dir/seen" <<'PY'
import jsonschema_rs


class Nothing:
    def __init__(self, parent: dict, value: object, path: list) -> None:
        pass

    def validate(self, instance: object) -> None:
        pass


for schema, value in (({"minLength": 5}, "a"), ({"type": "string"}, 3)):
    (name,) = schema
    bare = jsonschema_rs.validator_for(schema).is_valid(value)
    print(name, bare, jsonschema_rs.validator_for(schema, keywords={name: Nothing}).is_valid(value))
PY
diff - "$dir/seen" <<'OUT'
minLength False True
type False True
OUT
echo "as found: the custom keyword replaces the built-in one"
