#!/usr/bin/env bash
# zod 4.3.6: the JSON Schema of an intersection of two objects, as output (the default), is `allOf` of two schemas that each have
# `additionalProperties: false`: each refuses the keys of the other, so the very value that zod returns does not fit, nor does any
# other. As input (`io: "input"`) the objects are open, and it fits. A server that declares such an output schema and keeps to its
# own type is refused by every client that checks results.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-fund --no-audit zod@4.3.6 ajv@8.20.0 >/dev/null
node -e '
const { z } = require("zod");
const Ajv = require("ajv/dist/2020").default;
const both = z.intersection(z.object({ a: z.string() }), z.object({ b: z.string() }));
const value = both.parse({ a: "x", b: "y" });
console.log(JSON.stringify(value));
for (const io of ["output", "input"]) {
  const schema = z.toJSONSchema(both, { io });
  const check = new Ajv().compile(schema);
  console.log(io, JSON.stringify(schema.allOf), check(value), check({ a: "x" }), check({ b: "y" }), check({}));
}' >seen
diff - seen <<'OUT'
{"a":"x","b":"y"}
output [{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false},{"type":"object","properties":{"b":{"type":"string"}},"required":["b"],"additionalProperties":false}] false false false false
input [{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]},{"type":"object","properties":{"b":{"type":"string"}},"required":["b"]}] true false false false
OUT
echo "as found: the schema of the output fits no value, that of the input does"
