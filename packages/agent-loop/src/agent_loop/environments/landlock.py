"""A program confined by the Linux kernel itself: Landlock for files, seccomp for sockets, no capabilities.

Run as a script, with Python's isolated mode, it confines itself and becomes the program:

    python -I -S landlock.py '{"read": ["/usr"], "write": ["/work"], "network": false}' /bin/sh -c 'echo hi'

It must need nothing but the standard library, and end with exit code 126 rather than run the program unconfined. See
https://docs.kernel.org/userspace-api/landlock.html and seccomp(2).
"""

import ctypes
import json
import os
import platform
import signal
import struct
import sys
from collections.abc import Iterable, Sequence

# Version 3 (Linux 6.2) is the first that knows about truncating files.
LEAST_VERSION = 3

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF, _IO_URING_SETUP = 444, 445, 446, 425
# Of each architecture: its number in the audit system, and those of the system calls `socket` and `add_key`, which
# `request_key` and `keyctl` follow.
_ARCHITECTURES = {"x86_64": (0xC000003E, 41, 248), "aarch64": (0xC00000B7, 198, 217)}
_X32_BIT = 0x40000000
# Of all that programs of these machines may be written for: its number, and that of `add_key`.
_KEYRINGS = (
    (0xC000003E, 248),
    (0xC000003E, _X32_BIT | 248),
    (0x40000003, 286),
    (0xC00000B7, 217),
    (0x40000028, 309),
)

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIRECTORY = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_CHARACTER_DEVICE, _MAKE_BLOCK_DEVICE = 1 << 6, 1 << 11
_TRUNCATE, _CONTROL_DEVICE = 1 << 14, 1 << 15
_READ = _EXECUTE | _READ_FILE | _READ_DIRECTORY
# What may be granted for a path that is no directory.
_FILE_RIGHTS = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _CONTROL_DEVICE
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts")

_SET_SECCOMP, _FILTER = 22, 2
_DROP_BOUNDING_CAPABILITY, _SET_NO_NEW_PRIVILEGES = 24, 38
_CAPABILITY_VERSION = 0x20080522
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _DENY, _KILL = 0x7FFF0000, 0x00050000 | 13, 0x80000000
_UNIX_FAMILY = 1


class _Libc:
    """System calls that raise OSError."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None, use_errno=True)
        self._library.syscall.restype = ctypes.c_long

    def syscall(self, number: int, *arguments: int | bytes | None) -> int:
        taken = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
        return self._checked(self._library.syscall(ctypes.c_long(number), *taken))

    def prctl(self, option: int, *arguments: int | bytes) -> None:
        taken = [ctypes.c_ulong(one) if isinstance(one, int) else one for one in arguments]
        self._checked(self._library.prctl(option, *taken, *[ctypes.c_ulong(0)] * (4 - len(taken))))

    def capset(self, header: bytes, data: bytes) -> None:
        self._checked(self._library.capset(header, data))

    def _checked(self, result: int) -> int:
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result


def landlock_version() -> int:
    """The version of Landlock that this kernel has, 0 if none, or if the processor is one not known here."""
    if not sys.platform.startswith("linux") or platform.machine() not in _ARCHITECTURES:
        return 0
    try:
        return _Libc().syscall(_CREATE_RULESET, None, 0, 1)
    except OSError:
        return 0


def confine(read: Iterable[str], write: Iterable[str], *, network: bool) -> None:
    """Confine this thread and all that it starts, for ever. Raises OSError.

    Below `read` may be read and run, below `write` everything but making devices. A missing path in `read` is left out.
    """
    libc = _Libc()
    libc.prctl(_SET_NO_NEW_PRIVILEGES, 1)
    _restrict_files(libc, read, write, network)
    _drop_capabilities(libc)
    _restrict_calls(libc, network)


def keyring_filter() -> bytes:
    """A program for seccomp that refuses the calls for keyrings, of which the kernel has none apart for a sandbox."""
    steps = []
    for architecture, first in _KEYRINGS:
        steps += [
            (_LOAD, 0, 0, 4),
            (_EQUAL, 0, 4, architecture),
            (_LOAD, 0, 0, 0),
            (_AT_LEAST, 2, 0, first + 3),
            (_AT_LEAST, 0, 1, first),
            (_RETURN, 0, 0, _DENY),
        ]
    return _pack([*steps, (_RETURN, 0, 0, _ALLOW)])


def _restrict_files(libc: _Libc, read: Iterable[str], write: Iterable[str], network: bool) -> None:
    version = libc.syscall(_CREATE_RULESET, None, 0, 1)
    if version < LEAST_VERSION:
        raise OSError(f"Landlock is of version {version} here, and {LEAST_VERSION} is needed")
    rights = (1 << (16 if version >= 5 else 15)) - 1
    # TCP can be refused since version 4, signals and abstract sockets to others since version 6.
    ports = 0 if network or version < 4 else 0b11
    scopes = 0b11 if version >= 6 else 0
    attributes = struct.pack("QQQ", rights, ports, scopes)[: 24 if version >= 6 else 16 if version >= 4 else 8]
    ruleset = libc.syscall(_CREATE_RULESET, attributes, len(attributes), 0)
    try:
        for path in read:
            _allow(libc, ruleset, path, rights & _READ, missing_ok=True)
        for name in _DEVICES:
            _allow(libc, ruleset, f"/dev/{name}", rights & (_FILE_RIGHTS | _READ) & ~_EXECUTE, missing_ok=True)
        for path in write:
            _allow(libc, ruleset, path, rights & ~(_MAKE_CHARACTER_DEVICE | _MAKE_BLOCK_DEVICE), missing_ok=False)
        libc.syscall(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _allow(libc: _Libc, ruleset: int, path: str, rights: int, *, missing_ok: bool) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        if missing_ok:
            return
        raise
    try:
        if not os.path.isdir(path):
            rights &= _FILE_RIGHTS
        libc.syscall(_ADD_RULE, ruleset, 1, struct.pack("=Qi", rights, descriptor), 0)
    finally:
        os.close(descriptor)


def _drop_capabilities(libc: _Libc) -> None:
    """Being root shall not help; no new privileges means that no program gets them back."""
    try:
        for capability in range(64):
            libc.prctl(_DROP_BOUNDING_CAPABILITY, capability)
    except OSError:
        # The last one is passed, or it is not this user's to drop, who then has none.
        pass
    libc.capset(struct.pack("=Ii", _CAPABILITY_VERSION, 0), bytes(24))


def _restrict_calls(libc: _Libc, network: bool) -> None:
    """No keyrings. No sockets without network, and never those that reach servers here by a path. Pairs stay."""
    architecture, socket, add_key = _ARCHITECTURES[platform.machine()]
    steps = [
        (_LOAD, 0, 0, 4),
        (_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, 0),
        (_AT_LEAST, 7, 0, _X32_BIT),
        (_EQUAL, 6, 0, _IO_URING_SETUP),
        (_AT_LEAST, 1, 0, add_key + 3),
        (_AT_LEAST, 4, 0, add_key),
        (_EQUAL, 0, 2, socket),
        (_LOAD, 0, 0, 16),
        (_EQUAL, 1, 0 if network else 1, _UNIX_FAMILY),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _DENY),
    ]
    program = _pack(steps)
    buffer = ctypes.create_string_buffer(program, len(program))
    libc.prctl(_SET_SECCOMP, _FILTER, struct.pack("@HP", len(steps), ctypes.addressof(buffer)))


def _pack(steps: Sequence[tuple[int, int, int, int]]) -> bytes:
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def main(arguments: Sequence[str]) -> None:
    """Confine this process and become the program."""
    try:
        rules = json.loads(arguments[0])
        confine(rules["read"], rules["write"], network=rules["network"])
        # Python ignores these, and programs inherit that.
        for name in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(name, signal.SIG_DFL)
        os.execv(arguments[1], list(arguments[1:]))
    except (OSError, ValueError, KeyError, IndexError) as error:
        sys.stderr.write(f"sandbox: the command was not run, for it could not be confined: {error}\n")
        os._exit(126)


if __name__ == "__main__":
    main(sys.argv[1:])
