"""Attempts of a program that is shut in to get privileges, other processes and the network. Stdlib only."""

# ruff: noqa: PTH101  # by the system call itself

import ctypes
import fcntl
import mmap
import os
import resource
import signal
import socket
import subprocess

from tests.forked.sandbox.target import FIELD, call, mine, refuse

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
