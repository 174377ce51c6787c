"""Seccomp: the kernel refuses system calls that reach beyond the process.

Source: Linux, include/uapi/linux/{seccomp,filter,audit}.h and Documentation/userspace-api/seccomp_filter.rst. A list of
permitted calls would break packages with the next version of libc; so this is a list of refused ones, and all calls that
are newer than the list are refused, too.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import sys
from collections.abc import Iterator, Sequence

_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""Column in `_REFUSED`, and the number AUDIT_ARCH_…, by machine."""

_LAST = 462
"""Number of the newest system call that was considered (mseal, Linux 6.10); later ones have no number before it."""

_REFUSED = """
execve 59 221; execveat 322 281; fork 57 -; vfork 58 -; ptrace 101 117; kcmp 312 272; tkill 200 130;
process_vm_readv 310 270; process_vm_writev 311 271; process_madvise 440 440; process_mrelease 448 448;
pidfd_open 434 434; pidfd_getfd 438 438; pidfd_send_signal 424 424; rt_sigqueueinfo 129 138; rt_tgsigqueueinfo 297 240;
sched_setparam 142 118; sched_setscheduler 144 119; sched_setattr 314 274; setpriority 141 140; ioprio_set 251 30;
move_pages 279 239; migrate_pages 256 238;
socket 41 198; connect 42 203; bind 49 200; listen 50 201; accept 43 202; accept4 288 242; sendmsg 46 211;
sendmmsg 307 269; recvmsg 47 212; recvmmsg 299 243;
shmget 29 194; shmat 30 196; shmctl 31 195; msgget 68 186; msgsnd 69 189; msgrcv 70 188; msgctl 71 187; semget 64 190;
semop 65 193; semtimedop 220 192; semctl 66 191; mq_open 240 180; mq_unlink 241 181; memfd_create 319 279;
memfd_secret 447 447;
chmod 90 -; fchmod 91 52; fchmodat 268 53; fchmodat2 452 452; chown 92 -; fchown 93 55; lchown 94 -; fchownat 260 54;
utime 132 -; utimes 235 -; futimesat 261 -; utimensat 280 88; truncate 76 45; setxattr 188 5; lsetxattr 189 6;
fsetxattr 190 7; removexattr 197 14; lremovexattr 198 15; fremovexattr 199 16; mknod 133 -; mknodat 259 33;
inotify_init 253 -; inotify_init1 294 26; inotify_add_watch 254 27; fanotify_init 300 262; fanotify_mark 301 263;
name_to_handle_at 303 264; open_by_handle_at 304 265; sync 162 81; syncfs 306 267; acct 163 89; quotactl 179 60;
quotactl_fd 443 443;
unshare 272 97; setns 308 268; mount 165 40; umount2 166 39; pivot_root 155 41; chroot 161 51; fsopen 430 430;
fsconfig 431 431; fsmount 432 432; fspick 433 433; move_mount 429 429; open_tree 428 428; mount_setattr 442 442;
statmount 457 457; listmount 458 458; swapon 167 224; swapoff 168 225;
add_key 248 217; request_key 249 218; keyctl 250 219; bpf 321 280; perf_event_open 298 241; userfaultfd 323 282;
io_setup 206 0; io_destroy 207 1; io_submit 209 2; io_cancel 210 3; io_getevents 208 4; io_pgetevents 333 292;
splice 275 76; vmsplice 278 75; tee 276 77; kexec_load 246 104; kexec_file_load 320 294; init_module 175 105;
finit_module 313 273; delete_module 176 106; create_module 174 -; reboot 169 142; syslog 103 116; settimeofday 164 170;
clock_settime 227 112; clock_adjtime 305 266; adjtimex 159 171; sethostname 170 161; setdomainname 171 162; iopl 172 -;
ioperm 173 -; modify_ldt 154 -; personality 135 92; vhangup 153 58; nfsservctl 180 42; lookup_dcookie 212 18;
uselib 134 -; _sysctl 156 -; sysfs 139 -; ustat 136 -; lsm_set_self_attr 460 460
"""
"""Refused system calls with their numbers on x86_64 and aarch64 (arch/x86/entry/syscalls/syscall_64.tbl and
include/uapi/asm-generic/unistd.h), by groups: programs and other processes; their scheduling and memory; network; memory
that no limit counts or that other programs share; attributes of files, which Landlock leaves open; mounts; the kernel.
"""

_ABSENT = "clone3 435 435; io_uring_setup 425 425; io_uring_enter 426 426; io_uring_register 427 427"
"""Calls that seem to be absent, so that libc takes the older call: a filter cannot read the flags of `clone3`."""

_ARGUMENTS = (
    "clone 56 220; kill 62 129; tgkill 234 131; prlimit64 302 261; sched_setaffinity 203 122; socketpair 53 199; "
    "sendto 44 206; fcntl 72 25; ioctl 16 29; prctl 157 167"
)
"""Calls that are permitted with some arguments; see `_conditions`."""

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
"""Instructions: load a word, jump if equal / greater or equal / a bit is set, mask, return."""

_ALLOW, _KILL = 0x7FFF0000, 0x80000000
_REFUSE, _NOT_THERE, _NO_TERMINAL = (0x00050000 | number for number in (errno.EPERM, errno.ENOSYS, errno.ENOTTY))

_THREAD, _NAMESPACES = 0x00010000, 0x7E020000
"""Flags of `clone`: CLONE_THREAD, and all CLONE_NEW…."""

_OWNER_COMMANDS = (8, 10, 15)
"""Commands of `fcntl` that send signals to other processes: F_SETOWN, F_SETSIG, F_SETOWN_EX."""

_PARENT_DEATH_SIGNAL = 1
"""Option of `prctl` that would let the process outlive its parent: PR_SET_PDEATHSIG."""

_IOCTLS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
"""Permitted `ioctl`: TCGETS and TIOCGWINSZ (is it a terminal?), FIONREAD, FIONBIO, FIONCLEX, FIOCLEX."""

_Instruction = tuple[int, int, int, int]
"""Operation, the two distances of a jump (if true, if false), and the constant."""


class _Filter(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint16), ("jt", ctypes.c_uint8), ("jf", ctypes.c_uint8), ("k", ctypes.c_uint32))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("filters", ctypes.POINTER(_Filter)))


def is_supported() -> bool:
    """Return True if this kernel has filters, and this module knows the numbers of its system calls."""
    if sys.platform != "linux" or sys.maxsize < 2**32 or platform.machine() not in _ARCHITECTURES:
        return False
    get_seccomp = 21  # PR_GET_SECCOMP
    return int(ctypes.CDLL(None, use_errno=True).prctl(get_seccomp, *(ctypes.c_ulong(0),) * 4)) >= 0


def restrict_calls() -> None:
    """Refuse this thread, and all threads that it starts, the system calls that reach beyond the process.

    The process must have `PR_SET_NO_NEW_PRIVS`.

    Raises:
        OSError: The kernel refused; the process is not restricted.
    """
    instructions = list(_program(platform.machine(), os.getpid()))
    filters = (_Filter * len(instructions))(*(_Filter(*each) for each in instructions))
    program = _Program(len(instructions), filters)
    set_seccomp, mode_filter = 22, 2  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
    zero = ctypes.c_ulong(0)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(set_seccomp, ctypes.c_ulong(mode_filter), ctypes.byref(program), zero, zero) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"seccomp refused the barrier: {os.strerror(number)}")


def _program(machine: str, process: int) -> Iterator[_Instruction]:
    """Yield the filter: a program on `struct seccomp_data`, of the call's number, architecture, and arguments."""
    column, architecture = _ARCHITECTURES[machine]
    yield (_LOAD, 0, 0, 4)
    yield (_EQUAL, 1, 0, architecture)
    yield (_RETURN, 0, 0, _KILL)  # calls of 32-bit programs have other numbers
    yield (_LOAD, 0, 0, 0)
    yield (_AT_LEAST, 0, 1, _LAST + 1)  # newer calls, and those of the x32 interface
    yield (_RETURN, 0, 0, _NOT_THERE)
    for table, answer in ((_REFUSED, _REFUSE), (_ABSENT, _NOT_THERE)):
        for number in _numbers(table, column).values():
            yield (_EQUAL, 0, 1, number)
            yield (_RETURN, 0, 0, answer)
    conditions = _conditions(process)
    for name, number in _numbers(_ARGUMENTS, column).items():
        yield (_EQUAL, 0, len(conditions[name]), number)
        yield from conditions[name]
    yield (_RETURN, 0, 0, _ALLOW)


def _numbers(table: str, column: int) -> dict[str, int]:
    rows = [row.split() for row in table.split(";")]
    return {row[0]: int(row[1 + column]) for row in rows if row[1 + column] != "-"}


def _conditions(process: int) -> dict[str, Sequence[_Instruction]]:
    """Return the instructions for calls whose arguments decide, each of which ends with a return."""
    is_own = _permits(0, [process])
    stream = [
        (_LOAD, 0, 0, _word(0)),
        (_EQUAL, 1, 0, 1),  # AF_UNIX
        (_RETURN, 0, 0, _REFUSE),
        (_LOAD, 0, 0, _word(1)),
        (_AND, 0, 0, 0xF),  # without SOCK_CLOEXEC and SOCK_NONBLOCK
        (_EQUAL, 0, 1, 1),  # SOCK_STREAM, unlike SOCK_DGRAM, sends to no other address
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _REFUSE),
    ]
    thread = [
        (_LOAD, 0, 0, _word(0)),
        (_ANY_BIT, 2, 0, _NAMESPACES),
        (_ANY_BIT, 0, 1, _THREAD),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _REFUSE),
    ]
    connected = [
        (_LOAD, 0, 0, _word(4)),
        (_EQUAL, 0, 3, 0),
        (_LOAD, 0, 0, _word(4) + 4),
        (_EQUAL, 0, 1, 0),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _REFUSE),
    ]
    owner = [(_LOAD, 0, 0, _word(1)), *_one_of(_OWNER_COMMANDS, _REFUSE), (_RETURN, 0, 0, _ALLOW)]
    bound = [(_LOAD, 0, 0, _word(0)), *_one_of([_PARENT_DEATH_SIGNAL], _REFUSE), (_RETURN, 0, 0, _ALLOW)]
    device = [(_LOAD, 0, 0, _word(1)), *_one_of(_IOCTLS, _ALLOW), (_RETURN, 0, 0, _NO_TERMINAL)]
    return {
        "clone": thread,
        "kill": is_own,
        "tgkill": is_own,
        "prlimit64": _permits(0, [0, process]),
        "sched_setaffinity": _permits(0, [0, process]),
        "socketpair": stream,
        "sendto": connected,
        "fcntl": owner,
        "ioctl": device,
        "prctl": bound,
    }


def _permits(argument: int, values: Sequence[int]) -> list[_Instruction]:
    return [(_LOAD, 0, 0, _word(argument)), *_one_of(values, _ALLOW), (_RETURN, 0, 0, _REFUSE)]


def _one_of(values: Sequence[int], answer: int) -> Iterator[_Instruction]:
    for value in values:
        yield (_EQUAL, 0, 1, value)
        yield (_RETURN, 0, 0, answer)


def _word(argument: int) -> int:
    """Return the place of an argument's lower 32 bits, which are all that the kernel reads of an `int`."""
    return 16 + 8 * argument
