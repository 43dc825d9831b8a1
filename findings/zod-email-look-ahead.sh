#!/usr/bin/env bash
# zod 4.3.6: the JSON Schema of `z.email()` has, beside `format: email`, a pattern with two look-aheads, which engines in
# linear time do not take (4.6.7 writes one without). A pattern of the author's is passed on as JavaScript reads it without the
# flag `u`: `[\w-\.]` is a class there and a broken range to Python's `re`. The flag `i` is dropped without a word, so that the
# schema refuses what the program takes. MCP servers on the TypeScript SDK send these patterns as they are.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-fund --no-audit zod@4.3.6 newer@npm:zod@4.6.7 >/dev/null
seen=$(node -e '
const { z } = require("zod");
const newer = require("newer").z;
console.log(JSON.stringify(z.toJSONSchema(z.email())));
console.log(newer.toJSONSchema(newer.email()).pattern);
console.log(z.toJSONSchema(z.string().regex(/^[\w-\.]+$/)).pattern);
console.log(z.toJSONSchema(z.string().regex(/^a+$/i)).pattern);'
python3 -c 'import re
try: re.compile(r"^[\w-\.]+$")
except re.error as error: print(error)')
diff - <(echo "$seen") <<'OUT'
{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"string","format":"email","pattern":"^(?!\\.)(?!.*\\.\\.)([A-Za-z0-9_'+\\-\\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\\-]*\\.)+[A-Za-z]{2,}$"}
^(?:[A-Za-z0-9_'+\-]+\.)*[A-Za-z0-9_'+\-]*[A-Za-z0-9_+-]@(?:[A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$
^[\w-\.]+$
^a+$
bad character range \w-\. at position 2
OUT
echo "as found: look-ahead beside the format, a class that others refuse, and the flag i dropped"
