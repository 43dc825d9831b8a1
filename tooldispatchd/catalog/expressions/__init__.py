"""The wing of expressions: what `map` and `filter` say in CEL, compiled and type-checked once, evaluated often.

The rest of the package imports `door` alone, which loads the other modules, and the engine, with the first expression.

| module | holds |
|---|---|
| `door` | `compile_expression`, `compile_predicate`, and what they give and raise |
| `compiler` | one expression from its source to the function that evaluates it |
| `scope` | its variables, their types, and the engine's environment |
| `source` | its text: the names in it, and the engine's errors in our words |
| `tree` | its checked tree, read from the engine's serialisation |
| `made` | CEL's types and ours: the type of its result, and whether that fits the tool's |
| `literals` | its patterns and time zones |
| `bounds` | the largest input that it takes, found when it is loaded, and the look at each input |
| `values` | values on their way into the engine and out of it |
| `engine` | the import of the engine, and the repair of its count of references to None |
"""
