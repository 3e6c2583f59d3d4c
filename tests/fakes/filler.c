/* What fills a disk behind a count of folders. Static, so that it runs in a sandbox that has no libraries
   of this machine. `filler HOW [MEGABYTES]`; the numbers go to standard output, errors are exit code 1. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sched.h>
#include <unistd.h>

#define MB (1024L * 1024L)
static char block[MB];

static int fail(const char *what) { perror(what); return 1; }

/* A file that never had a name for long, of one megabyte. */
static int unnamed(void) {
    int fd = open("unnamed", O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (fd < 0) return -1;
    unlink("unnamed");
    if (write(fd, block, MB) != MB) { close(fd); return -1; }
    return fd;
}

static int park(int socket, int fd) {
    char data = 'x', control[CMSG_SPACE(sizeof fd)];
    struct iovec part = {&data, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS, header->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    return sendmsg(socket, &message, 0) == 1 ? 0 : -1;
}

static int fallocates(long megabytes) {
    int fd = open("large", O_RDWR | O_CREAT, 0600);
    if (fallocate(fd, 0, 0, megabytes * MB)) return fail("fallocate");
    return 0;
}

static int reserves(long megabytes) {
    struct { short type, whence; long long start, length; int sysid; unsigned pid; int pad[4]; } request = {0};
    int fd = open("large", O_RDWR | O_CREAT, 0600);
    request.length = megabytes * MB;
    if (ioctl(fd, _IOW('X', 42, request), &request)) return fail("ioctl");
    return 0;
}

static int opened(long megabytes) {
    for (long i = 0; i < megabytes; i++)
        if (unnamed() < 0) return fail("opened");
    return 0;
}

/* In few files, since the number of open ones is bounded, as is the length of each. */
static int nameless(long megabytes) {
    int fd = -1;
    for (long i = 0; i < megabytes; i++)
        if (i % 32 ? write(fd, block, MB) != MB : (fd = unnamed()) < 0) return fail("nameless");
    return 0;
}

static int mapped(long megabytes) {
    for (long i = 0; i < megabytes; i++) {
        int fd = unnamed();
        if (fd < 0) return fail("mapped");
        if (mmap(0, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED) return fail("mmap");
        close(fd);
    }
    return 0;
}

static int in_flight(long megabytes) {
    for (long i = 0; i < megabytes; i++) {
        int fd = unnamed(), pair[2];
        if (fd < 0 || socketpair(AF_UNIX, SOCK_DGRAM, 0, pair)) return fail("in flight");
        if (park(pair[0], fd)) return fail("sendmsg");
        close(fd), close(pair[0]);
    }
    return 0;
}

/* In a process that may not be looked into. */
static int private(long megabytes) {
    prctl(PR_SET_DUMPABLE, 0);
    return nameless(megabytes);
}

/* In a thread with open files of its own, after the first one of its process has ended. */
static long thread_megabytes;
static int in_thread(void *nothing) { (void)nothing; nameless(thread_megabytes); for (;;) pause(); return 0; }
static int threaded(long megabytes) {
    thread_megabytes = megabytes;
    char *stack = mmap(0, MB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (clone(in_thread, stack + MB, CLONE_VM | CLONE_SIGHAND | CLONE_THREAD, 0) < 0) return fail("clone");
    syscall(SYS_exit, 0);
    return 1;
}

/* Files in a folder that only its owner's open files lead into. */
static int shut(long megabytes) {
    int fds[64];
    mkdir("shut", 0700);
    for (int i = 0; i < 64; i++) {
        char name[32];
        sprintf(name, "shut/f%d", i);
        fds[i] = open(name, O_RDWR | O_CREAT, 0600);
    }
    chmod("shut", 0400);
    for (long i = 0; i < megabytes; i++)
        if (write(fds[i % 64], block, MB) != MB) return fail("shut");
    return 0;
}

static void said(const char *what, long result) {
    printf("%s: %s\n", what, result < 0 ? strerror(errno) : "Success");
}

/* Every call that can give a file of the workspace a set-id bit. */
static int sets_ids(long nothing) {
    (void)nothing;
    int fd = open("plain", O_RDWR | O_CREAT, 0755);
    struct { unsigned long long flags, mode, resolve; } how = {O_RDWR | O_CREAT, 04755, 0};
    said("chmod", chmod("plain", 04755));
    said("chmod without", chmod("plain", 0711));
    said("fchmod", fchmod(fd, 02755));
    said("fchmodat", syscall(SYS_fchmodat, AT_FDCWD, "plain", 04755));
    said("fchmodat2", syscall(452, AT_FDCWD, "plain", 04755, 0));
    said("open", syscall(SYS_open, "opened", O_RDWR | O_CREAT, 04755));
    said("openat", syscall(SYS_openat, AT_FDCWD, "opened", O_RDWR | O_CREAT, 04755));
    said("unnamed", syscall(SYS_openat, AT_FDCWD, ".", O_RDWR | O_TMPFILE, 04755));
    said("creat", syscall(SYS_creat, "opened", 04755));
    said("mknod", syscall(SYS_mknod, "made", S_IFREG | 04755, 0));
    said("openat2", syscall(437, AT_FDCWD, "opened", &how, sizeof how));
    fflush(stdout);
    exit(0);
}

static int many(long thousands) {
    char name[32];
    for (long i = 0; i < thousands * 1000; i++) {
        sprintf(name, "f%ld", i);
        int fd = open(name, O_WRONLY | O_CREAT, 0600);
        if (fd < 0) return fail("many");
        close(fd);
    }
    return 0;
}

int main(int count, char **words) {
    static const struct { const char *name; int (*run)(long); } ways[] = {
        {"fallocates", fallocates}, {"reserves", reserves}, {"nameless", nameless}, {"opened", opened},
        {"mapped", mapped}, {"in_flight", in_flight}, {"private", private}, {"threaded", threaded},
        {"shut", shut}, {"sets_ids", sets_ids}, {"many", many},
    };
    memset(block, 'x', MB);
    for (unsigned i = 0; count > 2 && i < sizeof ways / sizeof *ways; i++)
        if (!strcmp(ways[i].name, words[1])) {
            int code = ways[i].run(atol(words[2]));
            printf("done %s\n", words[1]), fflush(stdout);
            if (!code) pause(); /* what it holds stays, until it is ended */
            return code;
        }
    return 2;
}
