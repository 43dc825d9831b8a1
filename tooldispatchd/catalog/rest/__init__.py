"""The wing of HTTP APIs: what `rest` of a tool says, compiled once into the request that each call is. Pure.

The rest of the package imports `declared` alone, which loads the other modules with the first such tool.

| module | holds |
|---|---|
| `declared` | a tool's request, an API and its credentials, as values; and how both are compiled |
| `apis` | which keys of `[rest.NAME]` go together, where each API is, and what is secret of it |
| `requests` | one request: its template, and the request that it becomes with an input |
| `requestchecks` | what may be wrong with one |
| `placeholders` | `${parameters.NAME}` in a text, and what a schema says of the parameters |
| `styles` | values as text: percent-encoding by place, and the styles of lists and records |
| `bodies` | the kinds of bodies |
"""
