/* A disk that fails as told: preloaded into a process, it lets calls on files fail.
 *
 * The file named by DISK_FAULTS says which, a line each: CALL GLOB ACTION [NTH [TIMES]]. CALL is write, read, sync, truncate,
 * open, link, rename or unlink; GLOB matches the whole path. ACTION is an errno, `short` (half of the bytes are written, and
 * that is what the call says), or `kill` (the process dies before the call). It begins with the NTH such call since these lines
 * were written, and ends after so many TIMES; without them it is every call. While the file is not there nothing fails.
 * DISK_FAULTS.fired gets a line for each call that failed.
 *
 * With DISK_SYNCED, a folder, that folder holds what a power cut would leave of DISK_FOLDER: of every file what was synced. What
 * a sync failed on is lost to the disk until it is written again, as on Linux. SQLite's index (-shm) and locks are left out. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define LINES 16
#define SHORT -1

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void name_of(int fd, char name[4096]) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    long length = readlink(link, name, 4095);
    name[length > 0 ? length : 0] = 0;
}

/* What is to become of this call: 0 for nothing, an errno, or SHORT. */
static int fault(const char *call, int fd, const char *path) {
    static char said[1024];
    static long counts[LINES];
    const char *control = getenv("DISK_FAULTS");
    if (!control) return 0;
    int saved = errno, found = 0;
    char text[1024], name[4096];
    int file = (int)syscall(SYS_openat, AT_FDCWD, control, O_RDONLY | O_CLOEXEC);
    if (file >= 0) {
        long size = syscall(SYS_read, file, text, sizeof text - 1);
        syscall(SYS_close, file);
        text[size > 0 ? size : 0] = 0;
        if (path) snprintf(name, sizeof name, "%s", path);
        else name_of(fd, name);
        pthread_mutex_lock(&lock);
        if (strcmp(said, text)) {
            strcpy(said, text);
            memset(counts, 0, sizeof counts);
        }
        char *rest = text, *line;
        for (int n = 0; n < LINES && (line = strsep(&rest, "\n")); n++) {
            char op[16], glob[256], action[16];
            long nth = 1, times = 0;
            if (sscanf(line, "%15s %255s %15s %ld %ld", op, glob, action, &nth, &times) < 3) continue;
            if (strcmp(op, call) || fnmatch(glob, name, 0)) continue;
            long count = ++counts[n];
            if (found || count < nth || (times && count >= nth + times)) continue;
            found = !strcmp(action, "short") ? SHORT : !strcmp(action, "kill") ? SIGKILL : atoi(action);
            char fired[4200], told[4400];
            snprintf(fired, sizeof fired, "%s.fired", control);
            int length = snprintf(told, sizeof told, "%s %s %s\n", call, name, action);
            int log = (int)syscall(SYS_openat, AT_FDCWD, fired, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
            syscall(SYS_write, log, told, length);
            syscall(SYS_close, log);
            if (!strcmp(action, "kill")) kill(getpid(), SIGKILL);
        }
        pthread_mutex_unlock(&lock);
    }
    errno = found > 0 ? found : saved;
    return found;
}

/* Bytes that were written and not synced, by inode, in whole pages. */
static struct range { ino_t file; off_t from, to; } ranges[1 << 16];
static int used;
#define END ((off_t)1 << 60)

/* Where the synced bytes of this file are; whether they are kept. */
static int synced_path(const char *name, char path[8192]) {
    const char *folder = getenv("DISK_FOLDER"), *synced = getenv("DISK_SYNCED");
    if (!folder || !synced || strncmp(name, folder, strlen(folder)) || name[strlen(folder)] != '/') return 0;
    if (!fnmatch("*-shm", name, 0) || !fnmatch("*.lock", name, 0)) return 0;
    snprintf(path, 8192, "%s%s", synced, name + strlen(folder));
    return 1;
}

static void written(int fd, off_t from, off_t to) {
    struct stat stat;
    if (!getenv("DISK_SYNCED")) return;
    int saved = errno;
    if (!fstat(fd, &stat) && S_ISREG(stat.st_mode) && to > from) {
        from &= ~4095L, to = (to + 4095) & ~4095L;
        pthread_mutex_lock(&lock);
        struct range *last = &ranges[used - 1];
        if (used && last->file == stat.st_ino && last->from <= to && from <= last->to) {
            if (from < last->from) last->from = from;
            if (to > last->to) last->to = to;
        } else if (used < 1 << 16) {
            ranges[used++] = (struct range){stat.st_ino, from, to};
        } else {
            abort();
        }
        pthread_mutex_unlock(&lock);
    }
    errno = saved;
}

/* The ranges of the file are on the disk now, or lost to it. */
static void settled(int fd, int kept) {
    char name[4096], path[8192], bytes[4096];
    struct stat stat;
    if (!getenv("DISK_SYNCED")) return;
    int saved = errno;
    name_of(fd, name);
    if (synced_path(name, path) && !fstat(fd, &stat) && S_ISREG(stat.st_mode)) {
        pthread_mutex_lock(&lock);
        /* Not this descriptor, which may be for writing only. */
        int from = (int)syscall(SYS_openat, AT_FDCWD, name, O_RDONLY | O_CLOEXEC);
        int to = kept ? (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) : -1;
        int left = 0;
        for (int n = 0; n < used; n++) {
            if (ranges[n].file != stat.st_ino) {
                ranges[left++] = ranges[n];
                continue;
            }
            for (off_t at = ranges[n].from; kept && at < ranges[n].to && at < stat.st_size;) {
                long size = syscall(SYS_pread64, from, bytes, sizeof bytes, at);
                if (size <= 0 || syscall(SYS_pwrite64, to, bytes, size, at) != size) break;
                at += size;
            }
        }
        used = left;
        if (kept) syscall(SYS_ftruncate, to, stat.st_size);
        if (to >= 0) syscall(SYS_close, to);
        if (from >= 0) syscall(SYS_close, from);
        pthread_mutex_unlock(&lock);
    }
    errno = saved;
}

static size_t part(int found, size_t count) { return found == SHORT && count > 1 ? count / 2 : count; }

ssize_t write(int fd, const void *bytes, size_t count) {
    int found = fault("write", fd, NULL);
    if (found > 0) return -1;
    ssize_t done = NEXT(write)(fd, bytes, part(found, count));
    off_t end = done > 0 && getenv("DISK_SYNCED") ? lseek(fd, 0, SEEK_CUR) : 0;
    if (end > 0) written(fd, end - done, end);
    return done;
}
ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t at) {
    int found = fault("write", fd, NULL);
    if (found > 0) return -1;
    ssize_t done = NEXT(pwrite64)(fd, bytes, part(found, count), at);
    if (done > 0) written(fd, at, at + done);
    return done;
}
ssize_t pwrite(int fd, const void *bytes, size_t count, off_t at) { return pwrite64(fd, bytes, count, at); }
ssize_t read(int fd, void *bytes, size_t count) { return fault("read", fd, NULL) ? -1 : NEXT(read)(fd, bytes, count); }
ssize_t pread(int fd, void *bytes, size_t count, off_t at) { return fault("read", fd, NULL) ? -1 : NEXT(pread)(fd, bytes, count, at); }
ssize_t pread64(int fd, void *bytes, size_t count, off64_t at) { return fault("read", fd, NULL) ? -1 : NEXT(pread64)(fd, bytes, count, at); }

int fsync(int fd) {
    int done = fault("sync", fd, NULL) ? -1 : NEXT(fsync)(fd);
    settled(fd, !done);
    return done;
}
int fdatasync(int fd) {
    int done = fault("sync", fd, NULL) ? -1 : NEXT(fdatasync)(fd);
    settled(fd, !done);
    return done;
}
int ftruncate64(int fd, off64_t size) {
    int done = fault("truncate", fd, NULL) ? -1 : NEXT(ftruncate64)(fd, size);
    if (!done) written(fd, 0, END);
    return done;
}
int ftruncate(int fd, off_t size) { return ftruncate64(fd, size); }

static mode_t mode_of(int flags, va_list rest) { return flags & (O_CREAT | __O_TMPFILE) ? va_arg(rest, mode_t) : 0; }
#define OPEN(name, ...)                                             \
    va_list rest;                                                   \
    va_start(rest, flags);                                          \
    mode_t mode = mode_of(flags, rest);                             \
    va_end(rest);                                                   \
    return fault("open", -1, path) ? -1 : NEXT(name)(__VA_ARGS__, mode)
int open(const char *path, int flags, ...) { OPEN(open, path, flags); }
int open64(const char *path, int flags, ...) { OPEN(open64, path, flags); }
int openat64(int at, const char *path, int flags, ...) { OPEN(openat64, at, path, flags); }

/* Names are on the disk as soon as the file is. */
static void renamed(const char *from, const char *to, int (*call)(const char *, const char *)) {
    char source[8192], target[8192];
    if (synced_path(from, source) && synced_path(to, target)) call(source, target);
}
int rename(const char *from, const char *to) {
    if (fault("rename", -1, to)) return -1;
    int done = NEXT(rename)(from, to);
    if (!done) renamed(from, to, NEXT(rename));
    return done;
}
int linkat(int at, const char *from, int there, const char *to, int flags) {
    if (fault("link", -1, to)) return -1;
    int done = NEXT(linkat)(at, from, there, to, flags);
    if (!done) renamed(from, to, link);
    return done;
}
int unlink(const char *name) {
    char path[8192];
    if (fault("unlink", -1, name)) return -1;
    int done = NEXT(unlink)(name);
    if (!done && synced_path(name, path)) NEXT(unlink)(path);
    return done;
}
