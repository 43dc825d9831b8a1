"""What `tree` draws: agents, the calls that they make, and the agents that serve these. Pure.

    bob  session 2, default, uid 1000, 1 min
    ├── research  running for 12 s
    │   └── research  session 3, helper, uid 1000, 12 s
    │       ├── fetch  waiting for 3 s: queue
    │       └── grep  2 ok, the last 5 s ago, 1.2 s at most
    └── echo  1 timeout, the last 2 min ago, 10 s at most

Calls that have ended stand together where their tool and outcome are the same.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from rich.text import Text
from rich.tree import Tree

from tooldispatchd.cli.dialogue import printable
from tooldispatchd.cli.screens import Seen, agent_name, span

_STYLES: Final = {"running": "green", "waiting": "yellow", "stopping": "yellow", "ok": "dim"}
_FAILED: Final = "red"
# Agents that call agents; the daemon allows fewer, and a tree of more is no tree.
MAX_DEPTH: Final = 64


def tree_screen(seen: Seen, now: float) -> list[Tree | Text]:
    """A tree for each agent that no other one called; `seen` are the values of `sessions` and `calls` in one."""
    forest = _Forest(seen, now)
    trees: list[Tree | Text] = list(forest.trees())
    if not trees:
        return [_text("no agent is connected, and none has called a tool in the last ten minutes", "dim")]
    left_out = seen.get("left_out")
    return [*trees, _text(f"and {left_out} more", "dim")] if left_out else trees


class _Forest:
    """The sessions by number, those too that are known only by calls that have ended."""

    def __init__(self, seen: Seen, now: float) -> None:
        self._now = now
        self._sessions = {each["number"]: each for each in seen.get("sessions", [])}
        self._calls = _by_session(seen.get("calls", []))
        self._ended = _by_session(seen.get("ended", []))
        for number, calls in self._ended.items():
            self._sessions.setdefault(number, {**calls[-1], "number": number, "state": "closed"})
        self._served = {call["child"] for calls in self._calls.values() for call in calls if "child" in call}
        self._below: dict[int | None, list[int]] = defaultdict(list)
        for number, session in self._sessions.items():
            parent = session.get("parent")
            if parent is not None and parent not in self._sessions:
                # It has ended itself, and so has what it had called.
                parent = session.get("root") if session.get("root") in self._sessions else None
            self._below[None if parent == number else parent].append(number)

    def trees(self) -> Iterator[Tree]:
        for number in sorted(self._below[None]):
            tree = Tree(self._session(number), guide_style="dim")
            self._grow(tree, number, MAX_DEPTH)
            yield tree

    def _grow(self, tree: Tree, number: int, depth: int) -> None:
        if not depth:
            return
        for call in self._calls[number]:
            below, child = tree.add(self._call(call)), call.get("child")
            if isinstance(child, int) and child in self._sessions:
                self._grow(below.add(self._session(child)), child, depth - 1)
        for alike in _alike(self._ended[number]):
            tree.add(self._group(alike))
        for child in sorted(set(self._below[number]) - self._served):
            self._grow(tree.add(self._session(child)), child, depth - 1)

    def _session(self, number: int) -> Text:
        session = self._sessions[number]
        about = [f"session {number}", session["profile"]]
        if session["state"] == "closed":
            about.append("closed")
        else:
            about += [f"uid {session['uid']}", span(self._now - session["opened_at"])]
        return _row(agent_name(session), ", ".join(about), "bold", "dim" if len(about) == 3 else "")

    def _call(self, call: Seen) -> Text:
        state, age = call["state"], span(call["age_s"])
        said = f"{state} for {age}" + (f": {call['stage']}" if "stage" in call else "")
        also = [call[name] for name in ("job", "doing") if name in call]
        return _row(call["tool"], ", ".join([said, *also]), "", _STYLES.get(state, ""))

    def _group(self, calls: Sequence[Seen]) -> Text:
        outcome, last = calls[0]["outcome"], max(call["ended_at"] for call in calls)
        longest = max(call["took_s"] for call in calls)
        said = f"{len(calls)} {outcome}, the last {span(self._now - last)} ago, {span(longest)} at most"
        return _row(calls[0]["tool"], said, "", _STYLES.get(outcome, _FAILED))


def _by_session(calls: Iterable[Seen]) -> dict[int, list[Seen]]:
    found: dict[int, list[Seen]] = defaultdict(list)
    for call in calls:
        found[call["session"]].append(call)
    return found


def _alike(calls: Sequence[Seen]) -> Iterable[list[Seen]]:
    """Calls of one tool with one outcome, in the order in which the first of them ended."""
    found: dict[tuple[Any, Any], list[Seen]] = defaultdict(list)
    for call in calls:
        found[call["tool"], call["outcome"]].append(call)
    return found.values()


def _row(name: str, said: str, name_style: str, style: str) -> Text:
    row = _text(name, name_style)
    row.append(f"  {printable(said)}", style)
    return row


def _text(text: str, style: str = "") -> Text:
    return Text(printable(text), style, no_wrap=True, overflow="ellipsis")
