"""The places that every program may read: the system's own directories and files.

Without them no dynamically linked program starts. None holds a secret on a system that is set up as usual: of `/etc`
only what libraries read is here, never the whole. Places that a machine lacks are passed over.
"""

from typing import Final

SYSTEM: Final = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    # Systems whose programs stand in stores of their own.
    "/nix/store",
    "/gnu/store",
)
"""Programs and libraries. Not the place of add-on packages: it holds what a site has put there, with its settings."""

SETTINGS: Final = tuple(
    f"/etc/{name}"
    for name in (
        *("alternatives", "ca-certificates", "debian_version", "fonts", "gai.conf", "gitconfig", "group"),
        *("host.conf", "hosts", "lsb-release"),
        *("inputrc", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "ld.so.preload", "locale.alias"),
        *("locale.conf", "localtime", "login.defs", "machine-id", "magic", "mime.types", "networks"),
        *("nsswitch.conf", "os-release", "passwd", "pki/ca-trust", "pki/tls/cert.pem", "pki/tls/certs"),
        *("pki/tls/openssl.cnf", "protocols", "resolv.conf", "rpc", "services", "shells", "ssl/cert.pem"),
        *("ssl/certs", "ssl/openssl.cnf", "terminfo", "timezone", "xattr.conf"),
    )
)
"""Places in `/etc` that libraries read. Of `ssl` and `pki` only what is public: private keys stand beside it."""

RUNTIMES: Final = ("java*", "jvm*", "python3*", "perl", "R", "node", "maven")
"""Patterns of the directories of `/etc` in which runtimes keep settings of their own."""

KERNEL: Final = (
    *("/proc/cpuinfo", "/proc/filesystems", "/proc/loadavg", "/proc/meminfo", "/proc/stat", "/proc/uptime"),
    *("/proc/version", "/proc/sys/fs/file-max", "/proc/sys/kernel/cap_last_cap"),
    *("/proc/sys/kernel/ngroups_max", "/proc/sys/kernel/osrelease", "/proc/sys/kernel/pid_max"),
    *("/proc/sys/kernel/random", "/proc/sys/kernel/threads-max", "/proc/sys/net/core/somaxconn"),
    *("/proc/sys/vm/max_map_count", "/proc/sys/vm/overcommit_memory", "/sys/devices/system/cpu"),
    *("/sys/devices/system/node", "/sys/kernel/mm/hugepages", "/sys/kernel/mm/transparent_hugepage"),
)
"""Files by which runtimes ask the kernel when they size their pools and heaps; of no process and no user."""

DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
"""Devices that a program may also write to, since nothing comes of it."""
