"""What is asked about a call before its input is read, once its tool has answered, and about its updates.

    before ─▶ (go on, refused, another input, another tool)  ─▶ the input is read, and all that comes after it
    after  ◀─ (stays, refused, another output)               ◀─ its outcome
    update ◀─ (goes to the agent, another one, dropped)      ◀─ an update

Each question is a call within the call, of a tool that nobody is offered: it runs as that kind of tool runs, with its
limit and its place among programs. What fails, and what answers in another shape than it may, refuses the call unless
the hook's table says otherwise; the agent is told which hook it was and never what went wrong within it.
"""

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import msgspec
import trio
from msgspec import UNSET, Raw

from tooldispatchd.agent.calls.agentcall import AgentCall
from tooldispatchd.agent.calls.call import Call, Plan
from tooldispatchd.agent.calls.checking import Reader
from tooldispatchd.agent.calls.innercall import InnerCall
from tooldispatchd.agent.calls.step import Step
from tooldispatchd.agent.log import Log
from tooldispatchd.calls.hooks import (
    HookAnswer,
    HookAnswerError,
    HookedCall,
    read_hook_answer,
    refused,
    told_call,
    told_output,
    with_output,
    with_update,
)
from tooldispatchd.calls.outcome import Outcome, Update
from tooldispatchd.calls.refusals import Refusals, is_logged
from tooldispatchd.calls.stages import StepOrder, Waits
from tooldispatchd.catalog.globs import NameList
from tooldispatchd.catalog.hookspec import HookKind, HookSpec, tool_of, tools_of
from tooldispatchd.catalog.schemas import ACCEPT
from tooldispatchd.wire.faults import Fault

# Updates of one call that wait for their hooks. More than come in a moment; what comes beyond is dropped.
MAX_UPDATES: Final = 64
_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode
# Before its check an input is any JSON, and a missing one an empty record.
_ANY: Final = Reader(ACCEPT, missing={}, wrapped=False)


class HookCall(InnerCall, eq=False, kw_only=True):
    """A question to a hook."""

    @property
    def wants_updates(self) -> bool:
        return False

    def update(self, update: Update) -> None:
        """A hook's own updates are nobody's."""


class Hook:
    """One thing that a hook's table runs."""

    __slots__ = ("_failures", "_kind", "_log", "_name", "_spec", "_tool", "names")

    def __init__(self, name: str, kind: HookKind, spec: HookSpec, log: Log) -> None:
        self._name = name
        self._kind = kind
        self._spec = spec
        self._tool = tool_of(name, kind)
        self._log = log.bind(hook=name)
        self._failures = Refusals()
        self.names = NameList(spec.names)

    def told(self, call: Call) -> HookedCall:
        """The call as far as each kind of hook is told of it."""
        assert call.plan is not None
        context = call.context
        return HookedCall(
            self._name, self._kind, call.id, call.plan.name, _told_input(call), context.profile, context.agent
        )

    async def ask(self, call: Call, told: HookedCall) -> HookAnswer | None:
        """Its answer; raises `HookAnswerError` where there is none that it may give."""
        plan = call.context.session.lifted(self._tool)
        if isinstance(plan, Fault):
            raise HookAnswerError(plan.code)
        line = told_call(told, as_argument=plan.kind == "python")
        asked = HookCall.of(call, plan, line)
        # What it says when it is ended early is not for the agent.
        asked.grace = None
        outcome = await asked.result()
        if isinstance(outcome, Fault):
            self._log.debug("hook said", message=outcome.detail)
            raise HookAnswerError(outcome.code)
        return read_hook_answer(outcome, self._kind)

    def failed(self, call: Call, error: HookAnswerError) -> Fault | None:
        """What becomes of a call whose hook gave no answer: it is refused, or goes on."""
        count = self._failures.note(call.context.account.uid, trio.current_time())
        if is_logged(count):
            self._log.warning("hook failed", tool=call.name, id=call.id, why=str(error), lately=count)
        return None if self._spec.on_failure == "allow" else self.refused(call, "its hook failed")

    def refused(self, call: Call, reason: str) -> Fault:
        """The call is refused."""
        return refused(call.name, reason, hook=self._name)


class BeforeStep(Step):
    """A hook that is asked before the input is checked."""

    __slots__ = ("_hook",)

    def __init__(self, hook: Hook) -> None:
        super().__init__(StepOrder.BEFORE_HOOK)
        self._hook = hook

    def take(self, call: Call) -> Fault | Waits | None:
        return call.aside(partial(self._ask, call))

    async def _ask(self, call: Call) -> Fault | None:
        hook = self._hook
        fault = await encode_anew(call)
        if fault is not None:
            return fault
        try:
            answer = await hook.ask(call, hook.told(call))
            return None if answer is None else self._follow(call, answer)
        except HookAnswerError as error:
            return hook.failed(call, error)

    def _follow(self, call: Call, answer: HookAnswer) -> Fault | None:
        if isinstance(answer.refuse, str):
            return self._hook.refused(call, answer.refuse)
        assert call.plan is not None
        name = answer.name if isinstance(answer.name, str) and answer.name != call.plan.name else None
        if name is not None and not self._hook.names.admits(name):
            raise HookAnswerError("it names a tool that its table does not let it name")
        if name is not None and not isinstance(call, AgentCall):
            raise HookAnswerError("a stage keeps its tool")
        if isinstance(answer.input, Raw):
            call.input = answer.input.copy()
        return call.rename(name) if name is not None and isinstance(call, AgentCall) else None


class AfterStep(Step):
    """A hook that is asked what the tool answered, or how it failed; not about what never came to the tool."""

    __slots__ = ("_hook",)

    def __init__(self, hook: Hook) -> None:
        super().__init__(StepOrder.AFTER_HOOK)
        self._hook = hook

    def give(self, call: Call, outcome: Outcome) -> Outcome | Waits | None:
        is_hit = call.lookup is not None and call.lookup.age_s is not None
        if isinstance(outcome, Fault) and call.ran_at is None and not is_hit:
            return None
        return call.aside(partial(self._ask, call, outcome), given=outcome)

    async def _ask(self, call: Call, outcome: Outcome) -> Outcome | None:
        hook, plan = self._hook, call.plan
        assert plan is not None
        try:
            told = hook.told(call)
            told.output = told_output(outcome, gives_json=plan.gives_json)
            told.is_error = isinstance(outcome, Fault) or outcome.is_error
            told.fault = outcome.code.value if isinstance(outcome, Fault) else UNSET
            answer = await hook.ask(call, told)
            if answer is not None and isinstance(answer.refuse, str):
                return hook.refused(call, answer.refuse)
            if answer is None or not isinstance(answer.output, Raw):
                return None
            return with_output(outcome, answer.output, call.wanted.kind, gives_json=plan.gives_json)
        except HookAnswerError as error:
            return hook.failed(call, error)


class HookedUpdates:
    """The updates of one call on their way through hooks, in their order; what the call's end overtakes is lost."""

    __slots__ = ("_call", "_hooks", "_is_asking", "_pass_on", "_scope", "_waiting")

    def __init__(self, hooks: tuple[Hook, ...], call: Call, pass_on: Callable[[Update], None]) -> None:
        self._hooks = hooks
        self._call = call
        self._pass_on = pass_on
        self._waiting: deque[Update] = deque()
        self._is_asking = False
        # Of the task that asks; there is another one for what comes when that has ended.
        self._scope: trio.CancelScope | None = None

    def take(self, update: Update) -> None:
        """Have the hooks asked about an update, which goes on then."""
        if len(self._waiting) >= MAX_UPDATES:
            return
        self._waiting.append(update)
        if not self._is_asking:
            self._is_asking = True
            self._call.spawn(self._ask_all)

    def close(self) -> None:
        """The call has ended."""
        self._waiting.clear()
        if self._scope is not None:
            self._scope.cancel()

    async def _ask_all(self) -> None:
        with trio.CancelScope() as self._scope:
            while self._waiting:
                update: Update | None = self._waiting.popleft()
                for hook in self._hooks:
                    update = None if update is None else await self._ask(hook, update)
                if update is not None and self._call.is_running:
                    self._pass_on(update)
                    self._call.flush()
            self._is_asking = False

    async def _ask(self, hook: Hook, update: Update) -> Update | None:
        call = self._call
        try:
            told = hook.told(call)
            told.update = update
            answer = await hook.ask(call, told)
            if answer is None:
                return update
            return with_update(answer.output) if isinstance(answer.output, Raw) else None
        except HookAnswerError as error:
            return None if hook.failed(call, error) is not None else update


def json_input(call: Call) -> Raw:
    """The input of a call as JSON, whether it was checked or not."""
    if isinstance(call.input, Raw):
        return call.input
    assert call.plan is not None
    return Raw(bytes(_ANY.encode(call.line.decode()) if call.plan.read.as_text else call.line))


def _told_input(call: Call) -> Raw:
    """The same for a hook, which is told a value as the tool gets it, also before it is unwrapped."""
    raw = json_input(call)
    assert call.plan is not None
    if call.input is None or not call.plan.read.wrapped:
        return raw
    try:
        members = _members(raw)
    except msgspec.DecodeError:
        return raw
    return members["input"] if members.keys() == {"input"} else raw


async def encode_anew(call: Call) -> Fault | None:
    """Encode an input that was not read: every reader sees the same of a key that stands there twice."""
    raw, context = call.input, call.context
    if raw is None:
        return None
    assert call.plan is not None
    # A hook knows properties by their own names.
    read = _ANY.naming(call.plan.read.named)
    if read.is_light(raw):
        line: bytes | bytearray | Fault = read.line(raw, [])
    else:
        assert isinstance(raw, Raw)
        line = await context.checking.read(read, raw, [], turns=context.turns)
    if isinstance(line, Fault):
        return line
    call.input = Raw(bytes(line))
    return None


class Hooks:
    """All hooks of the daemon, in the order of the file."""

    __slots__ = ("_asked", "_own")

    def __init__(self, hooks: Mapping[str, HookSpec], log: Log) -> None:
        self._own = frozenset(tools_of(hooks))
        self._asked = [(NameList(spec.tools), *_steps_of(name, spec, log)) for name, spec in hooks.items()]

    def __bool__(self) -> bool:
        return bool(self._asked)

    def add_to(self, plan: Plan) -> None:
        """Have the hooks on the plan's tool asked about its calls; none is about what hooks run."""
        if plan.name in self._own:
            return
        asked = [(steps, updates) for names, steps, updates in self._asked if names.admits(plan.name)]
        if not asked:
            return
        plan.now = None
        plan.add(*(step for steps, _ in asked for step in steps))
        updates = tuple(hook for _, updates in asked for hook in updates)
        if updates:
            plan.filter_updates = partial(HookedUpdates, updates)


def _steps_of(name: str, spec: HookSpec, log: Log) -> tuple[tuple[Step, ...], tuple[Hook, ...]]:
    hooks = {kind: Hook(name, kind, spec, log) for kind in HookKind if spec.runs(kind) is not None}
    before, after, update = (hooks.get(kind) for kind in HookKind)
    steps = (None if before is None else BeforeStep(before), None if after is None else AfterStep(after))
    return tuple(step for step in steps if step is not None), () if update is None else (update,)
