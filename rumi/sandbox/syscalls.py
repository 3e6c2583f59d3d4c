"""The system calls that commands may make: data for the filters of both engines.

The list is based on Docker's default profile for a container without capabilities, so that ordinary programs
run as in any container. It omits calls that no program of the sandbox needs, and that have been used to
escape from sandboxes or can leave something behind:

- io_uring_*, io_setup and related calls: queues that bypass a filter, with many past vulnerabilities
- add_key, keyctl, request_key: no namespace separates keyrings
- shm*, sem*, msg*, mq_*, ipc: their objects, and the memory in them, outlive the command that made them
- ptrace, process_vm_*, process_madvise, process_mrelease, kcmp, pidfd_getfd, get_robust_list, move_pages and
  migrate_pages: access to another process. pidfd_send_signal: it accepts a folder of /proc as a process,
  which no filter can check. `seccomp.rules` restricts calls with a pid: none may name the first process
- bpf, perf_event_open, userfaultfd, fanotify_*, name_to_handle_at, open_by_handle_at, lookup_dcookie
- memfd_secret, modify_ldt, remap_file_pages, quotactl, adjtimex and clock_adjtime
- all sockets except Unix ones: vsock reaches the host; packet, netlink, alg and other families are attack
  surface, and there is no network
- the 32-bit (and x32) calls of a 64-bit machine, whose `socketcall` would also get past the rule above
- fallocate: it can fill a disk in one call, before any watch notices (`seccomp.rules`)
- sendmsg, sendmmsg: they store open files in sockets, where no scan of processes finds them; without a
  network no program needs them. landlock_*: a ruleset holds a deleted file and its disk space
- openat2: its mode is in memory, which a filter cannot read; `seccomp.rules` checks the modes of other calls
- mount, unshare, setns, new namespaces by clone, module, clock and reboot calls: denied as by Docker

TIOCSTI and TIOCLINUX need no rule: no command has a terminal in either engine.
"""

_EVERYWHERE = """
    accept accept4 access alarm bind brk capget capset chdir chown chown32 clock_getres clock_getres_time64
    clock_gettime clock_gettime64 clock_nanosleep clock_nanosleep_time64 close close_range connect
    copy_file_range dup dup2 dup3 epoll_create epoll_create1 epoll_ctl epoll_ctl_old epoll_pwait epoll_pwait2
    epoll_wait epoll_wait_old eventfd eventfd2 execve execveat exit exit_group faccessat faccessat2 fadvise64
    fadvise64_64 fchdir fchown fchown32 fchownat fcntl fcntl64 fdatasync fgetxattr flistxattr flock fork
    fremovexattr fsetxattr fstat fstat64 fstatat64 fstatfs fstatfs64 fsync ftruncate ftruncate64 futex
    futex_requeue futex_time64 futex_wait futex_waitv futex_wake futimesat get_thread_area getcpu getcwd
    getdents getdents64 getegid getegid32 geteuid geteuid32 getgid getgid32 getgroups getgroups32 getitimer
    getpeername getpgid getpgrp getpid getppid getpriority getrandom getresgid getresgid32 getresuid
    getresuid32 getrlimit getrusage getsid getsockname getsockopt gettid gettimeofday getuid getuid32
    getxattr inotify_add_watch inotify_init inotify_init1 inotify_rm_watch ioprio_get lchown lchown32
    lgetxattr link linkat listen listxattr llistxattr _llseek lremovexattr lseek lsetxattr lstat lstat64
    madvise map_shadow_stack membarrier memfd_create mincore mkdir mkdirat mlock mlock2 mlockall mmap mmap2
    mprotect mremap mseal msync munlock munlockall munmap nanosleep newfstatat _newselect pause pipe pipe2
    pkey_alloc pkey_free pkey_mprotect poll ppoll ppoll_time64 prctl pread64 preadv preadv2 pselect6
    pselect6_time64 pwrite64 pwritev pwritev2 read readahead readlink readlinkat readv recv recvfrom recvmmsg
    recvmmsg_time64 recvmsg removexattr rename renameat renameat2 restart_syscall rmdir rseq rt_sigaction
    rt_sigpending rt_sigprocmask rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_sigtimedwait_time64
    sched_get_priority_max sched_get_priority_min sched_getaffinity sched_getattr sched_getparam
    sched_getscheduler sched_rr_get_interval sched_rr_get_interval_time64 sched_yield seccomp select send
    sendfile sendfile64 sendto set_robust_list set_thread_area set_tid_address setfsgid setfsgid32 setfsuid
    setfsuid32 setgid setgid32 setgroups setgroups32 setitimer setregid setregid32 setresgid setresgid32
    setresuid setresuid32 setreuid setreuid32 setrlimit setsid setsockopt setuid setuid32 setxattr shutdown
    sigaltstack signalfd signalfd4 sigprocmask sigreturn socketpair splice stat stat64 statfs statfs64 statx
    symlink symlinkat sync sync_file_range syncfs sysinfo tee time timer_create timer_delete timer_getoverrun
    timer_gettime timer_gettime64 timer_settime timer_settime64 timerfd_create timerfd_gettime
    timerfd_gettime64 timerfd_settime timerfd_settime64 times truncate truncate64 ugetrlimit umask uname
    unlink unlinkat utime utimensat utimensat_time64 utimes vfork vmsplice wait4 waitid waitpid write writev
"""
EVERYWHERE: frozenset[str] = frozenset(_EVERYWHERE.split())
"""Allowed with all arguments."""

BY_MACHINE: dict[str, frozenset[str]] = {
    "x86_64": frozenset({"arch_prctl"}),
    "aarch64": frozenset(),
    "riscv64": frozenset({"riscv_flush_icache", "riscv_hwprobe"}),
    "ppc64le": frozenset({"sync_file_range2", "swapcontext"}),
    "s390x": frozenset({"s390_pci_mmio_read", "s390_pci_mmio_write", "s390_runtime_instr"}),
}
"""Additional allowed calls by machine type, as named by `uname -m`."""

_DENIED = """
    add_key adjtimex bpf clock_adjtime clone3 fallocate fanotify_init fanotify_mark get_robust_list io_cancel
    io_destroy io_getevents io_pgetevents io_setup io_submit io_uring_enter io_uring_register io_uring_setup
    ipc kcmp keyctl landlock_add_rule landlock_create_ruleset landlock_restrict_self lookup_dcookie
    memfd_secret migrate_pages modify_ldt mount move_pages mq_getsetattr mq_notify mq_open mq_timedreceive
    mq_timedsend mq_unlink msgctl msgget msgrcv msgsnd name_to_handle_at open_by_handle_at openat2
    perf_event_open pidfd_getfd pidfd_send_signal process_madvise process_mrelease process_vm_readv
    process_vm_writev ptrace quotactl quotactl_fd reboot remap_file_pages request_key semctl semget semop
    semtimedop sendmmsg sendmsg setns shmat shmctl shmdt shmget socketcall swapon syslog umount2 unshare
    userfaultfd
"""
DENIED_ON_PURPOSE: frozenset[str] = frozenset(_DENIED.split())
"""Calls that the lists above must never contain; a test checks that."""
