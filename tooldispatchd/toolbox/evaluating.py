"""The program that the tool `python` starts: runs code as `__main__` of a fresh interpreter, as a prompt does.

It runs as a script (`python -I -u evaluating.py FD`). Its input is a JSON object with `code`, and with `state` where
variables live on: their pickle as the last run left it, or null. Where the code runs to its end, the next state is
written to FD, as JSON: `state`, and `dropped`, the reasons by the names of what cannot be kept. Without a state it
needs the standard library alone.
"""

import ast
import base64
import io
import json
import linecache
import os
import sys
import traceback
import types
import zlib
from bisect import bisect_left

# The name of the code in tracebacks.
FILE = "<code>"
# Of the 64 KiB that a state may have, as it is written there.
MAX_STATE = 48 * 1024
# What may become so small when it is compressed, and how much of a pickle is looked at.
MAX_PICKLE = 4 * 1024 * 1024


def main(reply: int) -> None:
    """Run what stands in the input."""
    asked = json.loads(sys.stdin.buffer.read())
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    kept = Kept() if "state" in asked else None
    # As for `python -c`; behind all that this program itself imports, of which a file there may have the name.
    sys.path.insert(0, os.getcwd())  # noqa: PTH109  # in the form in which Python has it
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    sys.argv[:] = ["-c"]
    sys.excepthook = show
    if kept is not None and asked["state"] is not None:
        kept.restore(asked["state"], module.__dict__)
    evaluate(asked["code"], module.__dict__)
    if kept is not None:
        said = json.dumps(kept.save(module.__dict__)).encode()
        os.pwrite(reply, said, 0)


def evaluate(code: str, namespace: dict[str, object]) -> None:
    """Run the code, and print the value of its last expression, if that is how it ends and there is one."""
    linecache.cache[FILE] = len(code), None, code.splitlines(keepends=True), FILE
    # Not by `ast.parse`, whose frame would stand in the traceback of what cannot be parsed.
    tree = compile(code, FILE, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
    assert isinstance(tree, ast.Module)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, FILE, "exec", dont_inherit=True), namespace)  # noqa: S102  # to run code is what it is for
    if isinstance(last, ast.Expr):
        expression = compile(ast.Expression(last.value), FILE, "eval", dont_inherit=True)
        value = eval(expression, namespace)  # noqa: S307  # as above
        if value is not None:
            print(repr(value))  # noqa: T201  # as above


def show(kind: type[BaseException], error: BaseException, tb: types.TracebackType | None) -> None:
    """Print the traceback of what the code did not catch, without the frames of this program."""
    while tb is not None and tb.tb_frame.f_code.co_filename == __file__:
        tb = tb.tb_next
    traceback.print_exception(kind, error, tb)


class OversizeError(Exception):
    """A pickle has more than MAX_PICKLE bytes."""


class BoundedFile(io.BytesIO):
    """A file that takes MAX_PICKLE bytes: a pickle of a large value must not need as much memory again."""

    def write(self, data: object, /) -> int:
        written = super().write(data)  # type: ignore[arg-type]  # the buffers that a pickler gives
        if self.tell() > MAX_PICKLE:
            raise OversizeError
        return written


class Kept:
    """Pickles what the code leaves in its namespace; functions and classes of `__main__` by what they are.

    All in one pickle, so that what two variables share they share again. Functions are bound to the namespace itself,
    in which they look up each other.
    """

    def __init__(self) -> None:
        import cloudpickle  # noqa: PLC0415  # only what lives on needs it

        table = dict(cloudpickle.Pickler.dispatch_table)
        # By this an open file would come back as a text in memory.
        table.pop(io.TextIOWrapper, None)

        namespace_of_functions: dict[str, object] = {}

        class Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # it has no types
            dispatch_table = table

            def __init__(self, file: io.BytesIO, namespace: dict[str, object]) -> None:
                super().__init__(file)
                self.globals_ref[id(namespace)] = namespace_of_functions

            def persistent_id(self, value: object) -> str | None:
                return "namespace" if value is namespace_of_functions else None

        self._pickler = Pickler

    def restore(self, state: str, namespace: dict[str, object]) -> None:
        """Fill the namespace with what the last run left; where that fails, it is empty, and that is said."""
        import pickle  # noqa: PLC0415  # as above

        class Unpickler(pickle.Unpickler):
            def persistent_load(self, pid: object) -> object:  # noqa: ARG002  # there is one such value
                return namespace

        fresh = dict(namespace)
        try:
            found = Unpickler(io.BytesIO(zlib.decompress(base64.b85decode(state)))).load()
        except Exception as error:  # noqa: BLE001  # the code's own classes may raise anything
            namespace.clear()
            namespace.update(fresh)
            why = f"{type(error).__name__}: {error}"
            print(f"The variables of earlier calls cannot be restored; this one began without them: {why}")  # noqa: T201  # the answer
            return
        namespace.update(found)

    def save(self, namespace: dict[str, object]) -> dict[str, object]:
        """The state to be written: as much as fits, small values first."""
        sizes, dropped = {}, {}
        values = {name: value for name, value in namespace.items() if not name.startswith("__")}
        for name, value in values.items():
            try:
                sizes[name] = len(self._pickle({name: value}, namespace))
            except Exception as error:  # noqa: BLE001  # as above
                dropped[name] = "too large" if isinstance(error, OversizeError) else "cannot be pickled"
        names = sorted(sizes, key=sizes.__getitem__)

        def state_of(count: int) -> str | None:
            return self._state({name: values[name] for name in names[:count]}, namespace)

        # The largest number of them that fits: a few looks, however many there are.
        count = bisect_left(range(1, len(names) + 1), 1, key=lambda count: state_of(count) is None)
        dropped |= dict.fromkeys(names[count:], "too large")
        return {"state": state_of(count), "dropped": dropped}

    def _state(self, values: dict[str, object], namespace: dict[str, object]) -> str | None:
        try:
            state = base64.b85encode(zlib.compress(self._pickle(values, namespace))).decode()
        except OversizeError:
            return None
        return state if len(state) <= MAX_STATE else None

    def _pickle(self, values: dict[str, object], namespace: dict[str, object]) -> bytes:
        file = BoundedFile()
        self._pickler(file, namespace).dump(values)
        return file.getvalue()


if __name__ == "__main__":
    main(int(sys.argv[1]))
