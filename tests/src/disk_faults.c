/* A disk that fails as told: preloaded into a process, it lets calls on files fail whose names end in given ways.
 * The file named by DISK_FAULTS says which, a line each: `write SUFFIX ERRNO`, `sync SUFFIX ERRNO`, `read SUFFIX ERRNO`.
 * While it is not there nothing fails. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static int fault(const char *call, int fd) {
    const char *control = getenv("DISK_FAULTS");
    if (!control) return 0;
    int saved = errno, found = 0;
    char text[1024], name[4096], link[64];
    int file = (int)syscall(SYS_openat, AT_FDCWD, control, O_RDONLY | O_CLOEXEC);
    if (file >= 0) {
        long size = syscall(SYS_read, file, text, sizeof text - 1);
        syscall(SYS_close, file);
        text[size > 0 ? size : 0] = 0;
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        long length = readlink(link, name, sizeof name - 1);
        name[length > 0 ? length : 0] = 0;
        char *rest = text, *line;
        while (!found && (line = strsep(&rest, "\n"))) {
            char op[16], suffix[256];
            int number;
            if (sscanf(line, "%15s %255s %d", op, suffix, &number) != 3 || strcmp(op, call)) continue;
            size_t all = strlen(name), end = strlen(suffix);
            if (all >= end && !strcmp(name + all - end, suffix)) found = number;
        }
    }
    errno = found ? found : saved;
    return found;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int fd, const void *bytes, size_t count) { return fault("write", fd) ? -1 : NEXT(write)(fd, bytes, count); }
ssize_t pwrite(int fd, const void *bytes, size_t count, off_t at) { return fault("write", fd) ? -1 : NEXT(pwrite)(fd, bytes, count, at); }
ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t at) { return fault("write", fd) ? -1 : NEXT(pwrite64)(fd, bytes, count, at); }
ssize_t read(int fd, void *bytes, size_t count) { return fault("read", fd) ? -1 : NEXT(read)(fd, bytes, count); }
ssize_t pread(int fd, void *bytes, size_t count, off_t at) { return fault("read", fd) ? -1 : NEXT(pread)(fd, bytes, count, at); }
ssize_t pread64(int fd, void *bytes, size_t count, off64_t at) { return fault("read", fd) ? -1 : NEXT(pread64)(fd, bytes, count, at); }
int fsync(int fd) { return fault("sync", fd) ? -1 : NEXT(fsync)(fd); }
int fdatasync(int fd) { return fault("sync", fd) ? -1 : NEXT(fdatasync)(fd); }
int ftruncate(int fd, off_t size) { return fault("write", fd) ? -1 : NEXT(ftruncate)(fd, size); }
int ftruncate64(int fd, off64_t size) { return fault("write", fd) ? -1 : NEXT(ftruncate64)(fd, size); }
