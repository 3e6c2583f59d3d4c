/* What a command can try on the first process of its sandbox, which has its user. Usage: first_process WAY|own.

   A way makes its attempts and prints a line for each: "NAME refused ERRNO" or "NAME accepted". `own` tries the
   same calls on a child of its own, which must go on working. */

#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static long target = 1;

static void told(const char *name, long result) {
    if (result < 0)
        printf("%s refused %d\n", name, errno);
    else
        printf("%s accepted\n", name);
    fflush(stdout);
}

#define TRY(name, number, ...) told(name, syscall(number, __VA_ARGS__))

static void memory(void) {
    char byte = 0;
    struct iovec here = {&byte, 1}, there = {(void *)0x400000, 1};
    TRY("process_vm_readv", SYS_process_vm_readv, target, &here, 1L, &there, 1L, 0L);
    TRY("process_vm_writev", SYS_process_vm_writev, target, &here, 1L, &there, 1L, 0L);
    TRY("attach", SYS_ptrace, PTRACE_ATTACH, target, 0L, 0L);
    TRY("seize", SYS_ptrace, PTRACE_SEIZE, target, 0L, 0L);
    TRY("process_madvise", SYS_process_madvise, 0L, &there, 1L, 4L, 0L);
    TRY("move_pages", SYS_move_pages, target, 0L, 0L, 0L, 0L, 0L);
    TRY("migrate_pages", SYS_migrate_pages, target, 0L, 0L, 0L);
}

static void limits(void) {
    struct rlimit tight = {1, 1}, now;
    for (int kind = 0; kind < 16; kind++)
        TRY("prlimit", SYS_prlimit64, target, (long)kind, &tight, 0L);
    TRY("prlimit with more bits", SYS_prlimit64, target | 1L << 32, (long)RLIMIT_NOFILE, &tight, 0L);
    TRY("prlimit that reads", SYS_prlimit64, target, (long)RLIMIT_NOFILE, 0L, &now);
}

static void scheduling(void) {
    struct sched_param none = {0};
    unsigned long first[16] = {1};
    char attributes[56] = {48, 0, 0, 0, SCHED_IDLE};
    TRY("sched_setscheduler", SYS_sched_setscheduler, target, (long)SCHED_IDLE, &none);
    TRY("sched_setparam", SYS_sched_setparam, target, &none);
    TRY("sched_setattr", SYS_sched_setattr, target, attributes, 0L);
    TRY("sched_setaffinity", SYS_sched_setaffinity, target, sizeof first, first);
}

static void priorities(void) {
    long idle = 3L << 13;
    TRY("setpriority", SYS_setpriority, (long)PRIO_PROCESS, target, 19L);
    TRY("setpriority of its group", SYS_setpriority, (long)PRIO_PGRP, target, 19L);
    TRY("setpriority of all", SYS_setpriority, (long)PRIO_USER, 0L, 19L);
    TRY("setpriority of the user", SYS_setpriority, (long)PRIO_USER, (long)getuid(), 19L);
    TRY("ioprio_set", SYS_ioprio_set, 1L, target, idle);
    TRY("ioprio_set of its group", SYS_ioprio_set, 2L, target, idle);
    TRY("ioprio_set of all", SYS_ioprio_set, 3L, (long)getuid(), idle);
}

static void signals(void) {
    int all[] = {SIGKILL, SIGSTOP, SIGTERM, SIGALRM, SIGCHLD, SIGPIPE, SIGSEGV, 40};
    for (size_t index = 0; index < sizeof all / sizeof *all; index++) {
        siginfo_t about = {.si_signo = all[index], .si_code = SI_QUEUE};
        TRY("kill", SYS_kill, target, (long)all[index]);
        TRY("tkill", SYS_tkill, target, (long)all[index]);
        TRY("tgkill", SYS_tgkill, target, target, (long)all[index]);
        TRY("rt_sigqueueinfo", SYS_rt_sigqueueinfo, target, (long)all[index], &about);
        TRY("rt_tgsigqueueinfo", SYS_rt_tgsigqueueinfo, target, target, (long)all[index], &about);
    }
}

static void handles(void) {
    int folder = open("/proc/1", O_RDONLY | O_DIRECTORY);
    TRY("pidfd_open", SYS_pidfd_open, target, 0L);
    TRY("pidfd_send_signal", SYS_pidfd_send_signal, (long)folder, (long)SIGSTOP, 0L, 0L);
    TRY("pidfd_getfd", SYS_pidfd_getfd, (long)folder, 3L, 0L);
    TRY("process_mrelease", SYS_process_mrelease, (long)folder, 0L);
    TRY("kcmp", SYS_kcmp, target, (long)getpid(), 0L, 0L, 0L);
    TRY("get_robust_list", SYS_get_robust_list, target, 0L, 0L);
}

static void events(void) {
    char attributes[128] = {0};
    TRY("perf_event_open", SYS_perf_event_open, attributes, target, -1L, -1L, 0L);
}

static void groups(void) {
    TRY("setpgid of it", SYS_setpgid, target, 0L);
    TRY("setpgid into its group", SYS_setpgid, 0L, target);
}

static void namespaces(void) {
    const char *names[] = {"pid", "mnt", "user", "net", "ipc", "uts", "cgroup", "time"};
    char path[64];
    for (size_t index = 0; index < sizeof names / sizeof *names; index++) {
        snprintf(path, sizeof path, "/proc/1/ns/%s", names[index]);
        int file = open(path, O_RDONLY);
        told(names[index], file < 0 ? file : syscall(SYS_setns, (long)file, 0L));
    }
    TRY("unshare", SYS_unshare, (long)CLONE_NEWUSER);
    TRY("setns by its folder", SYS_setns, (long)open("/proc/1", O_RDONLY), (long)CLONE_NEWNS);
}

static void files_below(const char *folder, int depth) {
    DIR *opened = opendir(folder);
    if (!opened)
        return;
    for (struct dirent *entry; (entry = readdir(opened));) {
        char path[PATH_MAX];
        if (entry->d_name[0] == '.' || snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) >= PATH_MAX)
            continue;
        int file = open(path, O_WRONLY | O_NOFOLLOW | O_NONBLOCK);
        if (file >= 0 || (errno != EISDIR && errno != ELOOP))
            told(path, file);
        if (file >= 0)
            close(file);
        if (entry->d_type == DT_DIR && depth > 0)
            files_below(path, depth - 1);
    }
    closedir(opened);
}

static void files(void) {
    const char *writes[] = {"mem", "oom_score_adj", "oom_adj", "coredump_filter", "timerslack_ns", "clear_refs",
                            "autogroup", "comm", "attr/current", "uid_map", "gid_map", "setgroups", "loginuid"};
    char path[64];
    for (size_t index = 0; index < sizeof writes / sizeof *writes; index++) {
        snprintf(path, sizeof path, "/proc/1/%s", writes[index]);
        int file = open(path, O_WRONLY);
        told(path, file < 0 ? file : write(file, "1\n", 2));
    }
}

static void descriptors(void) {
    const char *reads[] = {"fd", "fd/0", "fd/3", "fdinfo/3", "map_files", "environ", "root", "cwd", "exe"};
    char path[64];
    for (size_t index = 0; index < sizeof reads / sizeof *reads; index++) {
        snprintf(path, sizeof path, "/proc/1/%s", reads[index]);
        int file = open(path, O_RDONLY);
        told(path, file < 0 && errno == ENOENT ? (errno = EACCES, -1) : file);
    }
}

/* Which kernels accept, because it is about a file of one's own: the signals that it brings have no effect. */
static void owners(void) {
    int all[] = {SIGKILL, SIGSTOP, SIGALRM, SIGCHLD, SIGIO}, ends[2];
    if (pipe(ends))
        return;
    for (size_t index = 0; index < sizeof all / sizeof *all; index++) {
        fcntl(ends[0], F_SETFL, O_ASYNC | O_NONBLOCK);
        fcntl(ends[0], F_SETSIG, all[index]);
        fcntl(ends[0], F_SETOWN, (int)target);
        for (int count = 0; count < 2000; count++) {
            char byte = 0;
            if (write(ends[1], &byte, 1) < 0 || read(ends[0], &byte, 1) < 0)
                return;
        }
    }
}

/* Orphans without end, for a while, which the first process has to reap. */
static void orphans(void) {
    for (int count = 0; count < 2000; count++) {
        pid_t child = fork();
        if (!child) {
            if (!fork())
                _exit(0);
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
}

static const struct {
    const char *name;
    void (*try)(void);
} WAYS[] = {
    {"memory", memory}, {"limits", limits}, {"scheduling", scheduling}, {"priorities", priorities},
    {"signals", signals}, {"handles", handles}, {"events", events}, {"groups", groups},
    {"namespaces", namespaces}, {"files", files}, {"descriptors", descriptors}, {"owners", owners},
    {"orphans", orphans},
};

static void own(void) {
    struct rlimit some = {64, 64};
    struct sched_param none = {0};
    unsigned long every[16];
    target = fork();
    if (!target)
        for (;;)
            pause();
    long size = syscall(SYS_sched_getaffinity, target, sizeof every, every);
    TRY("prlimit", SYS_prlimit64, target, (long)RLIMIT_NOFILE, &some, 0L);
    TRY("prlimit of oneself", SYS_prlimit64, 0L, (long)RLIMIT_NOFILE, &some, 0L);
    TRY("sched_setaffinity", SYS_sched_setaffinity, target, size, every);
    TRY("sched_setscheduler", SYS_sched_setscheduler, target, (long)SCHED_BATCH, &none);
    TRY("setpriority", SYS_setpriority, (long)PRIO_PROCESS, target, 5L);
    TRY("setpriority of oneself", SYS_setpriority, (long)PRIO_PROCESS, 0L, 5L);
    TRY("setpriority of one's group", SYS_setpriority, (long)PRIO_PGRP, 0L, 6L);
    TRY("ioprio_set", SYS_ioprio_set, 1L, target, 3L << 13);
    TRY("setpgid", SYS_setpgid, target, target);
    TRY("pidfd_open", SYS_pidfd_open, target, 0L);
    TRY("tgkill", SYS_tgkill, target, target, (long)SIGCONT);
    TRY("kill of its group", SYS_kill, -target, (long)SIGTERM);
    told("waitpid", waitpid(target, NULL, 0));
    TRY("kill of all", SYS_kill, -1L, 0L);
}

int main(int argc, char **argv) {
    if (argc < 2)
        return 2;
    if (!strcmp(argv[1], "own"))
        own();
    if (!strcmp(argv[1], "cgroups"))
        files_below("/sys/fs/cgroup", 2);
    for (size_t index = 0; index < sizeof WAYS / sizeof *WAYS; index++)
        if (!strcmp(argv[1], WAYS[index].name) || !strcmp(argv[1], "all"))
            WAYS[index].try();
    return 0;
}
