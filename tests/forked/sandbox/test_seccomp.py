"""The filters as the kernel would run them; that the kernel takes them is tried by the attacks."""

import errno
import struct
from typing import Final

import pytest

from tests.forked.sandbox.confined import need, run_python
from tooldispatchd.forked.sandbox import seccomp

ALLOW: Final = 0x7FFF0000
KILL: Final = 0x80000000
MACHINES = list(seccomp.MACHINES)


def judge(code: bytes, number: int, *arguments: int, audit: int) -> int:
    """The verdict of a filter over one call, by the rules of classic BPF (linux/filter.h)."""
    call = struct.pack("=iIQ6Q", number, audit, 0, *[*arguments, 0, 0, 0, 0, 0, 0][:6])
    steps = list(struct.iter_unpack("=HBBI", code))
    at = accumulator = 0
    while True:
        operation, if_true, if_false, value = steps[at]
        at += 1
        match operation:
            case 0x20:
                (accumulator,) = struct.unpack_from("=I", call, value)
            case 0x54:
                accumulator &= value
            case 0x06:
                return int(value)
            case 0x15:
                at += if_true if accumulator == value else if_false
            case 0x35:
                at += if_true if accumulator >= value else if_false
            case 0x45:
                at += if_true if accumulator & value else if_false
            case _:
                raise AssertionError(f"no such operation: {operation:#x}")


def verdict(name: str, number: int, *arguments: int, network: bool = True, attributes: bool = True) -> int:
    code = seccomp.build(network=network, attributes=attributes, machine=name)
    return judge(code, number, *arguments, audit=seccomp.MACHINES[name].audit)


def refused(number: int) -> int:
    return 0x00050000 | number


@pytest.mark.parametrize("name", MACHINES)
def test_each_refused_call_fails_for_lack_of_privilege(name: str) -> None:
    column = seccomp.MACHINES[name].column
    numbers = [both[column] for both in seccomp.REFUSED.values()]

    assert {verdict(name, number) for number in numbers if number is not None} == {refused(errno.EPERM)}


@pytest.mark.parametrize("name", MACHINES)
def test_each_missing_call_fails_as_in_an_old_kernel(name: str) -> None:
    column = seccomp.MACHINES[name].column
    numbers = [both[column] for both in seccomp.MISSING.values()]

    assert {verdict(name, number) for number in numbers if number is not None} == {refused(errno.ENOSYS)}


@pytest.mark.parametrize("name", MACHINES)
def test_every_other_call_is_allowed(name: str) -> None:
    column = seccomp.MACHINES[name].column
    named = {both[column] for table in (seccomp.REFUSED, seccomp.MISSING) for both in table.values()}

    # With arguments that are all 0, for the others too.
    assert {verdict(name, number) for number in range(500) if number not in named} == {ALLOW}


@pytest.mark.parametrize("name", MACHINES)
def test_a_call_of_another_architecture_is_killed(name: str) -> None:
    code = seccomp.build(network=True, attributes=True, machine=name)

    assert judge(code, 0, audit=0x40000003) == KILL


def test_calls_of_x32_are_answered_as_by_a_kernel_without_it() -> None:
    assert verdict("x86_64", 0x40000000 | 1) == refused(errno.ENOSYS)
    assert verdict("x86_64", -1) == refused(errno.ENOSYS)


@pytest.mark.parametrize("flag", [0x20000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000])
def test_clone_makes_no_namespace(flag: int) -> None:
    assert verdict("x86_64", 56, flag | 17) == refused(errno.EPERM)


def test_clone_makes_processes_and_threads() -> None:
    assert verdict("x86_64", 56, 17) == ALLOW
    assert verdict("x86_64", 56, 0x003D0F00) == ALLOW


@pytest.mark.parametrize("command", [0x5412, 0x541C, 0x5423])
def test_nothing_is_typed_into_a_terminal(command: int) -> None:
    assert verdict("x86_64", 16, 0, command) == refused(errno.EPERM)
    # The kernel looks at the low half alone.
    assert verdict("x86_64", 16, 0, 1 << 32 | command) == refused(errno.EPERM)
    assert verdict("x86_64", 16, 0, 0x5401) == ALLOW


@pytest.mark.parametrize("name", MACHINES)
def test_without_a_network_sockets_are_refused_as_by_permission(name: str) -> None:
    column = seccomp.MACHINES[name].column
    numbers = [both[column] for both in seccomp.UNREACHABLE.values()]

    verdicts = {verdict(name, number, network=False) for number in numbers if number is not None}

    assert verdicts == {refused(errno.EACCES)}


@pytest.mark.parametrize("name", MACHINES)
def test_limits_and_priorities_are_those_of_the_caller_alone(name: str) -> None:
    column = seccomp.MACHINES[name].column
    priorities = [numbers[column] for numbers, _ in seccomp.PRIORITIES.values()]
    verdicts = [verdict(name, numbers[column] or 0, 1) for numbers, _ in seccomp.OF_ITSELF.values()]

    verdicts += [verdict(name, number or 0, 0, 1) for number in priorities]
    verdicts += [verdict(name, number or 0, who, 0) for number, who in zip(priorities, (2, 3), strict=True)]

    assert set(verdicts) == {refused(errno.EPERM)}


@pytest.mark.parametrize("mode", [0o4755, 0o2755])
@pytest.mark.parametrize("name", MACHINES)
def test_no_file_is_made_a_program_with_its_owners_rights(name: str, mode: int) -> None:
    column = seccomp.MACHINES[name].column
    calls = [(numbers[column], index) for numbers, index in seccomp.WITH_MODE.values()]

    verdicts = {verdict(name, number, *[0] * index, mode) for number, index in calls if number is not None}

    assert verdicts == {refused(errno.EPERM)}


@pytest.mark.parametrize(
    ("flags", "mode", "expected"),
    [
        (0o100, 0o644, ALLOW),
        (0o100, 0o4755, refused(errno.EPERM)),
        (0o20200000, 0o4755, refused(errno.EPERM)),
        (0o20200000, 0o2755, refused(errno.EPERM)),
        # No file is made, and what stands there means nothing.
        (0, 0o4755, ALLOW),
        (0o200000, 0o4755, ALLOW),
    ],
)
def test_no_file_is_opened_into_being_with_its_owners_rights(flags: int, mode: int, expected: int) -> None:
    assert verdict("x86_64", 257, 0, 0, flags, mode) == expected
    assert verdict("x86_64", 2, 0, flags, mode) == expected
    assert verdict("aarch64", 56, 0, 0, flags, mode) == expected


@pytest.mark.parametrize(
    ("kind", "expected"),
    [(1, ALLOW), (5, ALLOW), (1 | 0x80800, ALLOW), (2, refused(errno.EACCES)), (3, refused(errno.EACCES))],
    ids=["stream", "seqpacket", "stream with flags", "datagram", "raw"],
)
def test_without_a_network_only_pairs_that_stay_pairs_can_be_had(kind: int, expected: int) -> None:
    assert verdict("x86_64", 53, 1, kind, network=False) == expected


@pytest.mark.parametrize("name", MACHINES)
def test_attributes_can_be_kept_from_change(name: str) -> None:
    column = seccomp.MACHINES[name].column
    numbers = [both[column] for both in seccomp.ATTRIBUTES.values()]

    verdicts = {verdict(name, number, attributes=False) for number in numbers if number is not None}

    assert verdicts == {refused(errno.EPERM)}


@pytest.mark.parametrize(
    ("path", "expected"),
    [(0, ALLOW), (0x1000, refused(errno.EPERM)), (0x1 << 32, refused(errno.EPERM)), (-1 & (1 << 64) - 1, refused(1))],
)
def test_times_are_set_through_descriptors_alone(path: int, expected: int) -> None:
    assert verdict("x86_64", 280, 3, path, attributes=False) == expected


def test_an_architecture_without_tables_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot make a filter of system calls for riscv64: known are x86_64, aarch64"):
        seccomp.build(network=True, attributes=True, machine="riscv64")


def test_threads_start_where_clone3_is_missing() -> None:
    need("seccomp")

    said = run_python("""
import threading
libc.forbid_privileges()
seccomp.install(seccomp.build(network=False, attributes=False))
thread = threading.Thread(target=print, args=("ran",))
thread.start()
thread.join()
""")

    assert said == "ran"


def test_files_keep_their_attributes_where_no_mounts_can_keep_them() -> None:
    need("seccomp")

    said = run_python("""
fd = os.memfd_create("file")
libc.forbid_privileges()
seccomp.install(seccomp.build(network=True, attributes=False))
def tried(action, *words):
    try:
        return action(*words)
    except OSError as error:
        return error.errno
print(tried(os.fchmod, fd, 0o600), tried(os.utime, "/proc/self/fd/0", (1, 1)), tried(os.utime, fd, (1, 1)))
""")

    assert said == "1 1 None"
