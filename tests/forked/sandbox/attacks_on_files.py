"""Attempts of a program that is shut in to read and to change what lies outside. Stdlib only."""

# They attack by the system's own calls, not by what Path makes of them.
# ruff: noqa: PTH101, PTH102, PTH104, PTH108, PTH115, PTH118, PTH120, PTH123, PTH208, PTH211

import os
import pwd
import struct

from tests.forked.sandbox.target import FIELD, call, mine, read, refuse, secret

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
