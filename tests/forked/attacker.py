"""A program that tries to get out of where it is shut in, and says how each attempt ended.

It runs with the standard library alone. Its one argument is JSON, of what there is to attack; it prints a JSON object:
for each attempt `refused ERRNO`, or what was got.
"""

# It attacks by the system's own calls, not by what Path makes of them.
# ruff: noqa: PTH101, PTH102, PTH104, PTH106, PTH108, PTH115, PTH118, PTH120, PTH123, PTH208, PTH211

import ctypes
import encodings.idna  # noqa: F401  # which addresses need, and which is not to be had later
import errno
import fcntl
import json
import mmap
import os
import pwd
import resource
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

FIELD: dict[str, Any] = {}
LIBC = ctypes.CDLL(None, use_errno=True)
FAR = "refused "


def attack(field: dict[str, Any]) -> dict[str, str]:
    FIELD.update(field)
    attempts = {name: value for name, value in globals().items() if name.startswith(("try_", "may_"))}
    return {name: outcome(attempt) for name, attempt in attempts.items()}


def outcome(attempt: Callable[[], object]) -> str:
    try:
        return f"got {attempt()!r}"[:200]
    except OSError as error:
        return FAR + errno.errorcode.get(error.errno or 0, str(error))


def call(name: str, *arguments: object) -> int:
    """The system call of that name; raises OSError."""
    number = FIELD["calls"][name]
    if number is None:
        raise OSError(errno.ENOSYS, name)
    words = [ctypes.c_long(word) if isinstance(word, int) else ctypes.c_char_p(word) for word in arguments]  # type: ignore[arg-type]
    result: int = LIBC.syscall(ctypes.c_long(number), *words)
    if result < 0:
        raise OSError(ctypes.get_errno(), name)
    return result


def read(path: str) -> str:
    with open(path, "rb") as file:
        return file.read(50).decode(errors="replace")


def secret() -> str:
    return str(FIELD["secret"])


def mine(name: str) -> str:
    return os.path.join(FIELD["write"], name)


# What it may do.


def may_read_readable() -> str:
    return read(FIELD["readable"])


def may_write_and_change_its_own() -> None:
    path = mine("own")
    with open(path, "w") as file:
        file.write("mine")
    os.chmod(path, 0o700)
    os.utime(path, (1, 1))
    os.mkdir(mine("directory"))
    os.rename(path, mine("directory/own"))
    os.truncate(mine("directory/own"), 1)
    os.unlink(mine("directory/own"))
    os.rmdir(mine("directory"))


def may_use_its_scratch() -> None:
    with open(os.path.join(FIELD["scratch"], "file"), "w") as file:
        file.write("x" * 100_000)


def may_run_programs() -> str:
    return subprocess.run(["/bin/sh", "-c", "echo $(echo ran)"], capture_output=True, text=True, check=True).stdout


def may_have_a_pair_of_sockets() -> bytes:
    one, other = socket.socketpair()
    one.sendall(b"x")
    return other.recv(1)


def may_start_threads() -> bool:
    thread = threading.Thread(target=time.sleep, args=(0,))
    thread.start()
    thread.join()
    return True


def may_stand_back() -> int:
    return os.nice(1)


def may_discard() -> None:
    with open("/dev/null", "w") as file:
        file.write("x")


def may_look_at_itself() -> str:
    return read("/proc/self/status")


# Reading.


def try_read_shadow() -> str:
    return read("/etc/shadow")


def try_read_secret() -> str:
    return read(secret())


def try_read_secret_by_link() -> str:
    os.symlink(secret(), mine("link"))
    return read(mine("link"))


def try_read_secret_by_parents() -> str:
    return read(os.path.join(FIELD["write"], "..", "secret"))


def try_read_secret_by_own_root() -> str:
    return read("/proc/self/" + "root" + secret())


def try_read_secret_by_hard_link() -> str:
    os.link(secret(), mine("hard"))
    return read(mine("hard"))


def try_move_secret_in() -> str:
    os.rename(secret(), mine("moved"))
    return read(mine("moved"))


def try_list_outside() -> list[str]:
    return [name for name in os.listdir(os.path.dirname(secret())) if name == "secret"] or refuse()


def try_list_root() -> str:
    return read(f"{pwd.getpwuid(0).pw_dir}/.bashrc")


def refuse() -> Any:
    raise OSError(errno.ENOENT, "nothing there")


def try_read_environment_of_victim() -> str:
    return of_victim("environ")


def try_read_command_line_of_victim() -> str:
    return of_victim("cmdline")


def of_victim(name: str) -> str:
    # In a namespace of its own a process may have the victim's number.
    text = read(f"/proc/{FIELD['victim']}/{name}")
    return text if "victim" in text else refuse()


def try_list_descriptors_of_victim() -> list[str]:
    return [os.readlink(f"/proc/{FIELD['victim']}/fd/0")]


def try_directory_of_victim() -> list[str]:
    return os.listdir(f"/proc/{FIELD['victim']}/cwd/victims")


def try_root_of_victim() -> str:
    return read(f"/proc/{FIELD['victim']}/" + "root" + secret())


def try_environment_of_daemon() -> str:
    text = read(f"/proc/{FIELD['daemon']}/environ")
    return text if FIELD["daemon"] != 1 else refuse()


def try_handle() -> int:
    return call("open_by_handle_at", -100, struct.pack("=II8x", 8, 1), os.O_RDONLY)


# Changing.


def try_write_secret() -> None:
    with open(secret(), "a") as file:
        file.write("changed")


def try_truncate_secret() -> None:
    os.truncate(secret(), 0)


def try_chmod_secret() -> None:
    os.chmod(secret(), 0o777)


def try_chmod_secret_by_descriptor() -> None:
    os.fchmod(os.open(FIELD["readable"], os.O_RDONLY), 0o777)


def try_chown_secret() -> None:
    os.chown(secret(), os.getuid(), os.getgid())


def try_date_secret() -> None:
    os.utime(secret(), (1, 1))


def try_attribute_of_secret() -> None:
    os.setxattr(secret(), "user.changed", b"1")


def try_remove_secret() -> None:
    os.unlink(secret())


def try_replace_secret() -> None:
    with open(mine("mine"), "w") as file:
        file.write("changed")
    os.rename(mine("mine"), secret())


def try_make_outside() -> None:
    os.mkdir(os.path.join(FIELD["outside"], "made"))


def try_link_outside() -> None:
    with open(mine("target"), "w") as file:
        file.write("changed")
    os.link(mine("target"), os.path.join(FIELD["outside"], "linked"))


def try_name_outside() -> None:
    os.symlink("/", os.path.join(FIELD["outside"], "named"))


def try_write_readable() -> None:
    with open(FIELD["readable"], "w") as file:
        file.write("changed")


def try_device() -> None:
    os.mknod(mine("disk"), 0o600 | 0o060000, os.makedev(8, 0))


def try_character_device() -> None:
    os.mknod(mine("memory"), 0o600 | 0o020000, os.makedev(1, 1))


def try_setting() -> None:
    open_to_write("/proc/sys/kernel/core_pattern")


def try_sysrq() -> None:
    open_to_write("/proc/sysrq-trigger")


def try_memory_of_victim() -> None:
    os.close(os.open(f"/proc/{FIELD['victim']}/mem", os.O_RDWR))


def try_disk() -> None:
    open_to_write(FIELD["disk"])


def open_to_write(path: str) -> None:
    """And no more: where it succeeds, the machine is not to suffer from it."""
    os.close(os.open(path, os.O_WRONLY))


def try_cgroup() -> None:
    os.mkdir("/sys/fs/cgroup/attacked")


# Privileges.


def try_mount() -> int:
    return call("mount", b"none", os.fsencode(FIELD["write"]), b"tmpfs", 0, 0)


def try_unmount() -> int:
    return call("umount2", os.fsencode(FIELD["write"]), 2)


def try_tree() -> int:
    return call("open_tree", -100, b"/", 1)


def try_chroot() -> None:
    os.chroot(FIELD["write"])


def try_new_user_namespace() -> int:
    return call("unshare", 0x10000000)


def try_new_mount_namespace() -> int:
    return call("unshare", 0x00020000)


def try_clone_into_namespace() -> int:
    pid = call("clone", 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return pid


def try_clone3() -> int:
    return call("clone3", bytes(64), 64)


def try_join_namespace() -> int:
    return call("setns", os.open("/dev/null", os.O_RDONLY), 0)


def try_keys() -> int:
    return call("keyctl", 0, -3, 1)


def try_page_faults() -> int:
    return call("userfaultfd", 1)


def try_programs_in_kernel() -> int:
    return call("bpf", 0, bytes(64), 64)


def try_events() -> int:
    return call("perf_event_open", bytes(120), 0, -1, -1, 0)


def try_type_into_terminal() -> int:
    fcntl.ioctl(FIELD["terminal"], 0x5412, b"x")
    return 0


def try_set_user() -> str:
    if os.getuid() == 0:
        # It is that user; but none of its privileges are left.
        os.setuid(1)
    else:
        os.setuid(0)
    return "another user"


def try_set_user_id_program() -> str:
    done = subprocess.run([FIELD["setuid"], "-u"], capture_output=True, text=True, check=False)
    return done.stdout if done.stdout.strip() != str(os.getuid()) else refuse()


def try_x32() -> int:
    FIELD["calls"]["x32"] = 0x40000000 | 39
    return call("x32")


def try_i386() -> str:
    if os.uname().machine != "x86_64":
        refuse()
    pid = os.fork()
    if pid == 0:
        # mov eax, 20 (getpid of i386); int 0x80; ret
        code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        code.write(bytes.fromhex("b814000000cd80c3"))
        number = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))()
        os._exit(0 if number > 0 else 1)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return "a number" if status == 0 else refuse()


# Other processes.


def try_trace_victim() -> int:
    return call("ptrace", 0x4206, int(FIELD["victim"]), 0, 0)


def try_trace_parent() -> int:
    return call("ptrace", 0x4206, os.getppid(), 0, 0)


def try_peek_at_victim() -> int:
    return call("process_vm_readv", int(FIELD["victim"]), bytes(16), 1, bytes(16), 1, 0)


def try_descriptor_of_victim() -> int:
    return call("pidfd_getfd", os.pidfd_open(FIELD["victim"]), 0, 0)


def try_kill_victim() -> None:
    os.kill(FIELD["victim"], signal.SIGKILL)


def try_kill_daemon() -> None:
    os.kill(FIELD["daemon"], signal.SIGWINCH)


def try_limit_victim() -> object:
    return resource.prlimit(FIELD["victim"], resource.RLIMIT_NOFILE, (16, 16))


def try_slow_victim() -> None:
    os.setpriority(os.PRIO_PROCESS, FIELD["victim"], 19)


def try_slow_user() -> None:
    os.setpriority(os.PRIO_USER, 0, 19)


def try_idle_victim() -> None:
    os.sched_setscheduler(FIELD["victim"], os.SCHED_IDLE, os.sched_param(0))


def try_shared_memory() -> int:
    return call("shmget", FIELD["key"], 4096, 0)


def try_set_user_id() -> None:
    os.close(os.open(mine("suid"), os.O_CREAT | os.O_RDWR, 0o755))
    os.chmod(mine("suid"), 0o4755)


def try_make_set_user_id() -> None:
    os.close(os.open(mine("made"), os.O_CREAT | os.O_RDWR, 0o4755))


# The network.


def try_tcp() -> None:
    socket.create_connection(("127.0.0.1", FIELD["port"]), 1)


def try_udp() -> None:
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", FIELD["port"]))


def try_raw() -> None:
    socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)


def try_packets() -> None:
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW)


def try_netlink() -> None:
    socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)


def try_machine_socket() -> None:
    socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)


def try_unix_path() -> None:
    socket.socket(socket.AF_UNIX).connect(FIELD["unix"])


def try_unix_abstract() -> None:
    socket.socket(socket.AF_UNIX).connect(FIELD["abstract"])


def try_unix_datagram_of_pair() -> None:
    one, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    one.sendto(b"x", FIELD["datagrams"])


def try_unix_reconnect_pair() -> None:
    one, other = socket.socketpair()
    other.close()
    one.connect(FIELD["unix"])


def try_io_uring() -> int:
    return call("io_uring_setup", 8, bytes(120))


if __name__ == "__main__":
    print(json.dumps(attack(json.loads(sys.argv[1]))))
