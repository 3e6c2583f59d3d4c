/* The first process of a chat's container. It starts commands for Rumi and ends them; no command can reach it.

   Usage: init SOCKET [LEASE]. It connects to a SOCK_SEQPACKET socket of the host, once, before any command runs. The
   host checks that the peer is this process and removes the socket. Requests come over that connection, with
   descriptors beside them; each is answered by lines on the pipe that comes last:

   run   words (a file: each word ends with a NUL byte), stdin, stdout, stderr, reply
         "begun 1"; "errno N" if the program could not be started; "exit N" when the command has ended, which
         ends what it left behind; "clean 1" when no other process is left
   kill  reply
         "clean 1" when no other process is left
   beat TIME
         a heartbeat of the lease: everything ends at that time, in nanoseconds of CLOCK_BOOTTIME

   With a LEASE (its length in nanoseconds) a command runs only after a heartbeat, and at the time that the
   last one has named, at most a LEASE after it came, this process kills all others and ends, by a timer of
   the kernel. A heartbeat that was sent late names a time that is over. A command that was running gets
   "lease 1".

   The proof is the kernel's: kill(-1) fails with ESRCH if the process namespace has no other process, zombies
   included. When the connection ends, this process ends, and with it the kernel ends all others.

   Commands have the same user as this process. They cannot signal it (the kernel delivers no signal without a
   handler to the first process), nor trace it, read its memory or open its descriptors (it is not dumpable).
   They can change its limits and priorities, which the next command would inherit: then it ends, and Rumi makes
   a new container. Without arguments it prints its version. */

#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define VERSION "rumi-init 2"
#define DESCRIPTORS 5
#define LIMITS 16     /* RLIM_NLIMITS, which not every libc names */
#define SECOND 1000000000LL
#define PAUSE_MS 1    /* between two attempts to kill what is still being created */

static int host;                           /* the connection */
static int command_reply = -1, kill_reply = -1;
static pid_t command;                      /* 0 if none runs */
static long long lease;                    /* its length in nanoseconds, 0 without one */
static int term, beaten;                   /* the timer of its end; a heartbeat has come */

/* What a command of the same user can change in this process from outside. */
struct condition {
    struct rlimit limits[LIMITS];
    int nice, policy, io_priority;
    cpu_set_t processors;
};

static void look(struct condition *seen) {
    memset(seen, 0, sizeof *seen);
    for (int kind = 0; kind < LIMITS; kind++)
        getrlimit(kind, &seen->limits[kind]);
    seen->nice = getpriority(PRIO_PROCESS, 0);
    seen->policy = sched_getscheduler(0);
    seen->io_priority = (int)syscall(SYS_ioprio_get, 1, 0);
    sched_getaffinity(0, sizeof seen->processors, &seen->processors);
}

static void say(int reply, const char *what, int number) {
    char line[32];
    int length = snprintf(line, sizeof line, "%s %d\n", what, number);
    while (write(reply, line, length) < 0 && errno == EINTR)
        ;
}

static void prove(int *reply) {
    if (*reply < 0)
        return;
    say(*reply, "clean", 1);
    close(*reply);
    *reply = -1;
}

/* In the child: look for the program as a shell does, become it, or return errno. */
static int become(char **words) {
    const char *path = getenv("PATH");
    if (strchr(words[0], '/')) {
        struct stat status;
        execve(words[0], words, environ);
        int why = errno;
        return why == EACCES && stat(words[0], &status) == 0 && S_ISDIR(status.st_mode) ? EISDIR : why;
    }
    while (path && *path && *words[0]) {
        char file[4096];
        size_t length = strcspn(path, ":");
        if (length && length + strlen(words[0]) + 2 <= sizeof file) {
            snprintf(file, sizeof file, "%.*s/%s", (int)length, path, words[0]);
            execve(file, words, environ);
            if (errno != ENOENT && errno != ENOTDIR && errno != EACCES)
                return errno;
        }
        path += length + (path[length] == ':');
    }
    return ENOENT;
}

/* In the child: return the words of a file, NULL if there are none. */
static char **words_of(int file) {
    struct stat status;
    if (fstat(file, &status) || status.st_size < 1)
        return NULL;
    char *text = mmap(NULL, status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    if (text == MAP_FAILED || text[status.st_size - 1])
        return NULL;
    size_t count = 0;
    for (off_t at = 0; at < status.st_size; at++)
        count += !text[at];
    char **words = calloc(count + 1, sizeof *words);
    for (size_t at = 0, word = 0; words && word < count; at += strlen(text + at) + 1)
        words[word++] = text + at;
    return words;
}

static void start(const int *fds) {
    command_reply = fds[4];
    say(command_reply, "begun", 1);
    command = fork();
    if (command < 0) {
        say(command_reply, "errno", errno);
        command = 0;
        say(command_reply, "exit", 126);
        return;
    }
    if (command)
        return;
    char **words = words_of(fds[0]);
    sigset_t none;
    sigemptyset(&none);
    setsid();
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (int stream = 0; stream < 3; stream++)
        dup2(fds[1 + stream], stream); /* all other descriptors close when the program starts */
    int why = words ? become(words) : EINVAL;
    say(fds[4], "errno", why);
    _exit(why == ENOENT ? 127 : 126);
}

/* Reap every process that has ended; the orphans of commands are children of this process. */
static void reap(void) {
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        if (pid == command) {
            command = 0;
            say(command_reply, "exit", WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
        }
}

/* Let everything end at that time, in nanoseconds of CLOCK_BOOTTIME; at most a lease from now. */
static void set_term(long long until) {
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    long long latest = now.tv_sec * SECOND + now.tv_nsec + lease;
    until = until > latest ? latest : until < 1 ? 1 : until;
    struct itimerspec at = {{0, 0}, {until / SECOND, until % SECOND}};
    if (timerfd_settime(term, TFD_TIMER_ABSTIME, &at, NULL))
        _exit(1);
}

/* The lease is over: end every other process at once, and then this one, with which the kernel ends the rest. */
static void end_with_lease(void) {
    kill(-1, SIGKILL);
    if (command_reply >= 0)
        say(command_reply, "lease", 1);
    _exit(0);
}

/* Read one request. A damaged one, or the end of the connection, ends everything. */
static void serve(const struct condition *usual) {
    char request[32] = "", control[CMSG_SPACE(DESCRIPTORS * sizeof(int))];
    struct iovec where = {request, sizeof request - 1};
    struct msghdr message = {
        .msg_iov = &where, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t length = recvmsg(host, &message, MSG_CMSG_CLOEXEC);
    if (length < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    int fds[DESCRIPTORS];
    size_t count = 0;
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS) {
        count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        memcpy(fds, CMSG_DATA(head), count * sizeof(int));
    }
    struct condition now;
    look(&now);
    if (length <= 0 || (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) || memcmp(&now, usual, sizeof now))
        _exit(1);
    if (lease && !strncmp(request, "beat ", 5) && count == 0) {
        beaten = 1;
        set_term(atoll(request + 5));
    } else if (!strcmp(request, "kill") && count == 1) {
        kill_reply = fds[0];
    } else if (!strcmp(request, "run") && count == DESCRIPTORS && command_reply < 0 && (beaten || !lease)) {
        start(fds);
        for (size_t index = 0; index < 4; index++)
            close(fds[index]);
    } else {
        _exit(1);
    }
}

int main(int argc, char **argv) {
    if (argc < 2)
        return puts(VERSION) < 0;
    prctl(PR_SET_DUMPABLE, 0);
    signal(SIGPIPE, SIG_IGN);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", argv[1]);
    host = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (host < 0 || connect(host, (struct sockaddr *)&address, sizeof address))
        return 1;
    sigset_t ended;
    sigemptyset(&ended);
    sigaddset(&ended, SIGCHLD);
    sigprocmask(SIG_BLOCK, &ended, NULL);
    int signals = signalfd(-1, &ended, SFD_CLOEXEC | SFD_NONBLOCK);
    term = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    lease = argc > 2 ? atoll(argv[2]) : 0;
    if (term < 0 || lease < 0)
        return 1;
    if (lease)
        set_term(SECOND * 1000000000); /* that is, a lease from now */
    struct condition usual;
    look(&usual);
    for (;;) {
        int ending = kill_reply >= 0 || (command_reply >= 0 && !command);
        if (ending && kill(-1, SIGKILL) && errno == ESRCH) {
            prove(&command_reply);
            prove(&kill_reply);
            ending = 0;
        }
        /* While processes are being ended, no request is read; the end of the connection is still seen. */
        struct pollfd polled[3] = {{host, ending ? 0 : POLLIN, 0}, {signals, POLLIN, 0}, {term, POLLIN, 0}};
        if (poll(polled, 3, ending ? PAUSE_MS : -1) < 0)
            continue;
        if (polled[2].revents)
            end_with_lease();
        if (polled[1].revents) {
            struct signalfd_siginfo about;
            while (read(signals, &about, sizeof about) > 0)
                ;
            reap();
        }
        if (polled[0].revents & (POLLHUP | POLLERR | POLLNVAL))
            _exit(0);
        if (polled[0].revents & POLLIN)
            serve(&usual);
    }
}
