from tooldispatchd.catalog.hookspec import HookSpec, hook_problems, idle_hooks


def test_a_name_that_no_tool_can_have_is_told() -> None:
    hooks = {"h": HookSpec(before="m:f", tools=("echo", "ec*", "none", "non*", "git:x", "g*", "hub:x"))}
    said = list(idle_hooks(hooks, ["echo"], ["git"]))
    assert [line.split('"')[1] for line in said] == ["none", "non*", "hub:x"]
    # A server may tell its own prefix, or have its tools offered without one.
    assert list(idle_hooks(hooks, ["echo"], [None])) == []
    assert [line.split('"')[1] for line in idle_hooks(hooks, ["echo"], [""])] == ["git:x", "hub:x"]


def test_a_hook_is_asked_about_something_and_only_before_a_call_it_names_another_tool() -> None:
    hooks = {"idle": HookSpec(), "late": HookSpec(after="m:f", names=("a",)), "fine": HookSpec(update="m:f")}
    assert [problem.path for problem in hook_problems(hooks)] == [("hooks", "idle"), ("hooks", "late", "names")]
