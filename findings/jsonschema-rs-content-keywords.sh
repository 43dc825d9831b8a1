#!/usr/bin/env bash
# jsonschema-rs 0.60.3 asserts `contentEncoding` and `contentMediaType` under draft-06 and draft-07, where the standard calls
# them annotations; `validate_formats=False` does not turn that off. Under draft-04, 2019-09 and 2020-12 they assert nothing.
# The TypeScript SDK of MCP declares draft-07, so a tool whose text is plain and whose schema says base64 would be refused.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet jsonschema-rs==0.60.3
seen=$("$dir/venv/bin/python" - <<'PY'
import jsonschema_rs

DRAFTS = {
    "04": "http://json-schema.org/draft-04/schema#",
    "06": "http://json-schema.org/draft-06/schema#",
    "07": "http://json-schema.org/draft-07/schema#",
    "2019-09": "https://json-schema.org/draft/2019-09/schema",
    "2020-12": "https://json-schema.org/draft/2020-12/schema",
}
for name, uri in DRAFTS.items():
    for keyword, word, value in (("contentEncoding", "base64", "no base64!"), ("contentMediaType", "application/json", "{")):
        check = jsonschema_rs.validator_for({"$schema": uri, keyword: word}, validate_formats=False)
        print(name, keyword, check.is_valid(value))
PY
)
diff - <(echo "$seen") <<'OUT'
04 contentEncoding True
04 contentMediaType True
06 contentEncoding False
06 contentMediaType False
07 contentEncoding False
07 contentMediaType False
2019-09 contentEncoding True
2019-09 contentMediaType True
2020-12 contentEncoding True
2020-12 contentMediaType True
OUT
echo "as found: asserted under draft-06 and draft-07 alone"
