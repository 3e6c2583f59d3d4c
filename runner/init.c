/* The first process of a sandbox, in both engines. It starts commands for Rumi and ends them; no command can reach it.

   Usage: init once [NICE], in bubblewrap: it runs the one command that arrives at descriptor 3, as words that each end
   with a NUL byte (their number first, a full stop last), and ends with its exit code. Then the kernel ends what the
   command left behind. NICE is the weight of the command's session; the command does not wait until it is set.

   Usage: init SOCKET [LEASE], in a container that lasts: it connects to a SOCK_SEQPACKET socket of the host, once,
   before any command runs. The host checks that the peer is this process and removes the socket. Requests come over
   that connection, with descriptors beside them; each is answered by lines on the pipe that comes last:

   run N   words (a file: each word ends with a NUL byte), stdin, stdout, stderr, reply
         N is the number of the command; up to SLOTS commands run at the same time.
         "begun 1"; "errno N" if the program could not be started; "exit N" when the command has ended, which
         ends what it left behind; "clean 1" when nothing of it is left
   end N   reply
         ends command N; "clean 1" when nothing of it is left
   kill  reply
         "clean 1" when no other process is left
   beat TIME
         a heartbeat of the lease: everything ends at that time, in nanoseconds of CLOCK_BOOTTIME

   With a LEASE (its length in nanoseconds) a command runs only after a heartbeat, and at the time that the
   last one has named, at most a LEASE after it came, this process kills all others and ends, by a timer of
   the kernel. A heartbeat that was sent late names a time that is over. A command that was running gets
   "lease 1". A second timer, which needs no descriptor, does the same a moment later.

   The proof is the kernel's: kill(-1) fails with ESRCH if the process namespace has no other process, zombies
   included. While other commands run, it is a look into /proc: every process belongs to one of these commands,
   as a descendant of its first process or as a member of its session. All others are killed, so that a daemon that
   has left both lasts no longer than the next command. When the connection ends, this process ends, and with it the
   kernel ends all others.

   Commands have the same user as this process. They cannot signal it (the kernel delivers no signal without a
   handler to the first process), nor trace it, read its memory or write its files in /proc (it is not dumpable).
   The filter of system calls refuses every call on its number, and on groups of processes that contain it. If its
   limits or priorities change nevertheless, it ends at its next wake, and so does it if it cannot wait for its
   connection and its timer. Without arguments it prints its version. */

#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
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

#define VERSION "rumi-init 4"
#define DESCRIPTORS 5
#define LIMITS 16     /* RLIM_NLIMITS, which not every libc names */
#define SECOND 1000000000LL
#define PAUSE_MS 1    /* between two attempts to kill what is still being created */
#define SECOND_LINE (SECOND / 10) /* how much later than the first timer the second one ends everything */
#define REAPED_AT_ONCE 64
#define SLOTS 16
#define SEEN 4096     /* processes that a look into /proc can count; a sandbox has far fewer */
#define WORDS 3       /* the descriptor from which the one command comes in bubblewrap */
#define WORDS_BYTES (1 << 21)

static int host;                           /* the connection */
static int kill_reply = -1;

/* A command, from its start until nothing of it is left. */
static struct slot {
    long number;
    int used, ended;                       /* ended: its first process has ended, or it is to be killed */
    int reply, end_reply;                  /* -1 if there is none */
    pid_t pid;                             /* 0 if its first process has been reaped */
} slots[SLOTS];
static long long lease;                    /* its length in nanoseconds, 0 without one */
static int term, beaten;                   /* the timer of its end; a heartbeat has come */
static int second_line;                    /* the timer that sends SIGALRM */
static long long end;                      /* the time at which everything ends; nanoseconds of CLOCK_BOOTTIME */

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
    int found = ENOENT; /* a file that may not be executed counts if there is no other */
    while (path && *path && *words[0]) {
        char file[4096];
        size_t length = strcspn(path, ":");
        if (length && length + strlen(words[0]) + 2 <= sizeof file) {
            snprintf(file, sizeof file, "%.*s/%s", (int)length, path, words[0]);
            execve(file, words, environ);
            if (errno == EACCES)
                found = EACCES;
            else if (errno != ENOENT && errno != ENOTDIR)
                return errno;
        }
        path += length + (path[length] == ':');
    }
    return found;
}

/* Cut a text into its words, each of which ends with a NUL byte; return NULL if there are none. */
static char **split(char *text, size_t size) {
    if (size < 1 || text[size - 1])
        return NULL;
    size_t count = 0;
    for (size_t at = 0; at < size; at++)
        count += !text[at];
    char **words = calloc(count + 1, sizeof *words);
    for (size_t at = 0, word = 0; words && word < count; at += strlen(text + at) + 1)
        words[word++] = text + at;
    return words;
}

/* In the child: return the words of a file, NULL if there are none. */
static char **words_of(int file) {
    struct stat status;
    if (fstat(file, &status) || status.st_size < 1)
        return NULL;
    char *text = mmap(NULL, status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    return text == MAP_FAILED ? NULL : split(text, status.st_size);
}

/* In the child: become the leader of a session, with the signals that every program expects. */
static void lead(void) {
    sigset_t none;
    sigemptyset(&none);
    setsid();
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static struct slot *slot_of(long number) {
    for (int at = 0; at < SLOTS; at++)
        if (slots[at].used && slots[at].number == number)
            return &slots[at];
    return NULL;
}

static struct slot *free_slot(void) {
    for (int at = 0; at < SLOTS; at++)
        if (!slots[at].used)
            return &slots[at];
    return NULL;
}

static void start(struct slot *slot, long number, const int *fds) {
    *slot = (struct slot){number, 1, 0, fds[4], -1, 0};
    say(slot->reply, "begun", 1);
    slot->pid = fork();
    if (slot->pid < 0) {
        say(slot->reply, "errno", errno);
        slot->pid = 0;
        slot->ended = 1;
        say(slot->reply, "exit", 126);
        return;
    }
    if (slot->pid)
        return;
    char **words = words_of(fds[0]);
    lead();
    for (int stream = 0; stream < 3; stream++)
        dup2(fds[1 + stream], stream); /* all other descriptors close when the program starts */
    int why = words ? become(words) : EINVAL;
    say(fds[4], "errno", why);
    _exit(why == ENOENT ? 127 : 126);
}

/* A process, as /proc shows it. */
struct seen {
    pid_t pid, parent, session;
};

static size_t look_around(struct seen *seen) {
    size_t count = 0;
    DIR *folder = opendir("/proc");
    if (!folder)
        _exit(1); /* without the proof, everything ends */
    for (struct dirent *entry; (entry = readdir(folder));) {
        char name[64], text[512];
        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        snprintf(name, sizeof name, "/proc/%.20s/stat", entry->d_name);
        int file = open(name, O_RDONLY | O_CLOEXEC);
        ssize_t length = file < 0 ? -1 : read(file, text, sizeof text - 1);
        if (file >= 0)
            close(file);
        if (length <= 0)
            continue; /* it has ended */
        text[length] = 0;
        char *rest = strrchr(text, ')'); /* the name before it may hold anything */
        int parent, group, session;
        if (!rest || sscanf(rest + 1, " %*c %d %d %d", &parent, &group, &session) != 3)
            continue;
        if (count == SEEN)
            _exit(1);
        seen[count++] = (struct seen){atoi(entry->d_name), parent, session};
    }
    closedir(folder);
    return count;
}

static int leads_a_running_command(pid_t pid) {
    for (int at = 0; at < SLOTS; at++)
        if (slots[at].used && !slots[at].ended && slots[at].pid == pid)
            return 1;
    return 0;
}

/* Return 1 if the process belongs to a command that runs on. */
static int is_kept(const struct seen *seen, size_t count, struct seen process) {
    for (size_t steps = 0; steps <= count; steps++) {
        if (process.pid == 1 || leads_a_running_command(process.pid) || leads_a_running_command(process.session))
            return 1;
        size_t at = 0;
        while (at < count && seen[at].pid != process.parent)
            at++;
        if (at == count || seen[at].pid == 1)
            return 0;
        process = seen[at];
    }
    return 0;
}

/* Kill every process that belongs to no running command; return 1 if there was none. */
static int kill_strays(void) {
    static struct seen seen[SEEN];
    size_t count = look_around(seen);
    int none = 1;
    for (size_t at = 0; at < count; at++)
        if (!is_kept(seen, count, seen[at])) {
            none = 0;
            kill(seen[at].pid, SIGKILL);
        }
    return none;
}

/* Kill what has to end; tell those who wait when nothing of it is left. Return 1 if something is left. */
static int end_what_has_to(void) {
    int ending = kill_reply >= 0, running = 0;
    for (int at = 0; at < SLOTS; at++) {
        if (kill_reply >= 0)
            slots[at].ended = 1;
        ending |= slots[at].used && slots[at].ended;
        running |= slots[at].used && !slots[at].ended;
    }
    if (!ending)
        return 0;
    if (running ? !kill_strays() : !(kill(-1, SIGKILL) && errno == ESRCH))
        return 1;
    for (int at = 0; at < SLOTS; at++)
        if (slots[at].used && slots[at].ended && !slots[at].pid) {
            prove(&slots[at].reply);
            prove(&slots[at].end_reply);
            slots[at].used = 0;
        }
    prove(&kill_reply);
    return 0;
}

/* In the child: read the words that come to a sandbox that was made in advance; NULL if they did not all come. */
static char **words_from_pipe(void) {
    char *text = malloc(WORDS_BYTES);
    size_t size = 0;
    for (ssize_t got; text && size < WORDS_BYTES; size += got) {
        got = read(WORDS, text + size, WORDS_BYTES - size);
        if (got < 0 && errno == EINTR)
            got = 0;
        else if (got <= 0)
            break;
    }
    char **words = text ? split(text, size) : NULL;
    size_t count = 0;
    while (words && words[count])
        count++;
    if (count < 3 || strtoul(words[0], NULL, 10) != count || strcmp(words[count - 1], "."))
        return NULL;
    words[count - 1] = NULL;
    return words + 1;
}

/* In the child: weigh this session against others. The kernel accepts one change in 0.1 s, of all users together;
   the command does not wait for that. */
static void weigh(const char *nice) {
    struct pollfd words = {WORDS, POLLIN, 0};
    prctl(PR_SET_DUMPABLE, 1); /* else the file belongs to root */
    for (int attempt = 0; attempt < 30; attempt++) {
        int file = open("/proc/self/autogroup", O_WRONLY | O_CLOEXEC);
        if (file < 0)
            return;
        ssize_t written = write(file, nice, strlen(nice));
        close(file);
        if (written > 0 || errno != EAGAIN || poll(&words, 1, 100) > 0)
            return;
    }
}

static void close_from(int first) {
    if (syscall(SYS_close_range, first, ~0U, 0))
        for (int fd = first; fd < 1024; fd++)
            close(fd);
}

/* Run one command in a sandbox of its own, and end with its exit code. */
static void once(const char *nice) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pid_t child = fork();
    if (child < 0) {
        dprintf(2, "the sandbox has no room for another process\n");
        _exit(126);
    }
    if (!child) {
        lead();
        if (nice)
            weigh(nice);
        char **words = words_from_pipe();
        if (!words)
            _exit(125);
        close_from(WORDS);
        int why = become(words);
        const char *what = why == ENOENT ? "not found in the sandbox" : why == EACCES ? "cannot be executed"
                         : why == EISDIR ? "is a directory" : strerror(why);
        dprintf(2, "%s: %s\n", words[0], what);
        _exit(why == ENOENT ? 127 : 126);
    }
    for (int fd = 0; fd <= WORDS; fd++)
        close(fd);
    for (int status;;) {
        pid_t pid = wait(&status);
        if (pid == child)
            _exit(WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
        if (pid < 0 && errno != EINTR)
            _exit(1);
    }
}

/* Reap processes that have ended; the orphans of commands are children of this process. Return 1 if there may be
   more: a command that leaves orphans without end must not keep this process from its timer and its connection. */
static int reap(void) {
    int status;
    for (int count = 0; count < REAPED_AT_ONCE; count++) {
        pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid <= 0)
            return 0;
        for (int at = 0; at < SLOTS; at++)
            if (slots[at].used && slots[at].pid == pid) {
                slots[at].pid = 0;
                slots[at].ended = 1;
                say(slots[at].reply, "exit", WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
            }
    }
    return 1;
}

static long long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return now.tv_sec * SECOND + now.tv_nsec;
}

static struct itimerspec at_ns(long long time) {
    return (struct itimerspec){{0, 0}, {time / SECOND, time % SECOND}};
}

/* Let everything end at that time, in nanoseconds of CLOCK_BOOTTIME; at most a lease from now. */
static void set_term(long long until) {
    long long latest = now_ns() + lease;
    end = until > latest ? latest : until < 1 ? 1 : until;
    struct itimerspec first = at_ns(end), second = at_ns(end + SECOND_LINE);
    if (timerfd_settime(term, TFD_TIMER_ABSTIME, &first, NULL)
        || syscall(SYS_timer_settime, second_line, TIMER_ABSTIME, &second, NULL))
        _exit(1);
}

/* The lease is over: end every other process at once, and then this one, with which the kernel ends the rest. */
static void end_with_lease(void) {
    kill(-1, SIGKILL);
    for (int at = 0; at < SLOTS; at++)
        if (slots[at].used && write(slots[at].reply, "lease 1\n", 8) < 0)
            _exit(1);
    _exit(0);
}

/* The same, wherever this process is. A signal that somebody sends for the timer's changes nothing. */
static void at_second_line(int number) {
    (void)number;
    if (lease && now_ns() >= end)
        end_with_lease();
}

/* End if a command has changed how this process runs: it must not miss the end of its connection or of its lease,
   and the next command would inherit it. */
static void require_same(const struct condition *usual) {
    struct condition now;
    look(&now);
    if (memcmp(&now, usual, sizeof now))
        _exit(1);
}

/* Read one request. A damaged one, or the end of the connection, ends everything. */
static void serve(void) {
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
    if (length <= 0 || (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
        _exit(1);
    if (lease && !strncmp(request, "beat ", 5) && count == 0) {
        beaten = 1;
        set_term(atoll(request + 5));
    } else if (!strcmp(request, "kill") && count == 1) {
        kill_reply = fds[0];
    } else if (!strncmp(request, "end ", 4) && count == 1) {
        struct slot *slot = slot_of(atol(request + 4));
        if (slot && slot->end_reply < 0) {
            slot->ended = 1;
            slot->end_reply = fds[0];
        } else { /* it is over */
            prove(&fds[0]);
        }
    } else if (!strncmp(request, "run ", 4) && count == DESCRIPTORS && (beaten || !lease) && free_slot()) {
        start(free_slot(), atol(request + 4), fds);
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
    if (!strcmp(argv[1], "once"))
        once(argc > 2 ? argv[2] : NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGALRM, at_second_line);
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
    struct sigevent alarm = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
    lease = argc > 2 ? atoll(argv[2]) : 0;
    if (signals < 0 || term < 0 || lease < 0 || syscall(SYS_timer_create, CLOCK_BOOTTIME, &alarm, &second_line))
        return 1;
    if (lease)
        set_term(SECOND * 1000000000); /* that is, a lease from now */
    struct condition usual;
    look(&usual);
    for (int more = 0;;) {
        int ending = end_what_has_to();
        /* While processes are being ended, no request is read; the end of the connection is still seen. */
        struct pollfd polled[3] = {{host, ending ? 0 : POLLIN, 0}, {signals, POLLIN, 0}, {term, POLLIN, 0}};
        if (poll(polled, 3, more ? 0 : ending ? PAUSE_MS : -1) < 0) {
            if (errno == EINTR)
                continue;
            _exit(1);
        }
        if (polled[2].revents || (lease && now_ns() >= end))
            end_with_lease();
        require_same(&usual);
        if (more || polled[1].revents) {
            struct signalfd_siginfo about;
            if (read(signals, &about, sizeof about) < 0 && errno != EAGAIN && errno != EINTR)
                _exit(1);
            more = reap();
        }
        if (polled[0].revents & (POLLHUP | POLLERR | POLLNVAL))
            _exit(0);
        if (polled[0].revents & POLLIN)
            serve();
    }
}
