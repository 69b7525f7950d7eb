/* SPDX-License-Identifier: MIT */
/* Reads this process's figures from /proc and getrusage. What cannot be read is -1, never 0: a
 * missing series is seen, a wrong one is believed. */
#include "gateway/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* The text of a small /proc file, NUL-terminated; empty if it cannot be read. */
static void read_text(const char *path, char *to, size_t bytes)
{
    ssize_t got = -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        got = read(fd, to, bytes - 1);
        close(fd);
    }
    to[got > 0 ? got : 0] = '\0';
}

static int64_t count_fds(void)
{
    /* Linux 6.2 and later say it here at once; before, the size is 0. */
    struct stat st;
    if (stat("/proc/self/fd", &st) == 0 && st.st_size > 0)
        return st.st_size;
    DIR *dir = opendir("/proc/self/fd");
    if (!dir)
        return -1;
    int64_t count = -1; /* the directory's own */
    for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir))
        if (entry->d_name[0] != '.')
            count++;
    closedir(dir);
    return count;
}

static int64_t read_threads(void)
{
    char text[1024];
    read_text("/proc/self/stat", text, sizeof text);
    /* Field 20; the second one, the name in parentheses, may hold anything. */
    const char *at = strrchr(text, ')');
    for (int field = 2; at && field < 20; field++) {
        at = strchr(at + 1, ' ');
    }
    long long threads = -1;
    if (at)
        (void)sscanf(at, "%lld", &threads);
    return threads;
}

static int64_t read_resident(void)
{
    char text[256];
    read_text("/proc/self/statm", text, sizeof text);
    long long pages = -1;
    (void)sscanf(text, "%*s %lld", &pages);
    return pages < 0 ? -1 : pages * sysconf(_SC_PAGESIZE);
}

void prazo_process_read(struct prazo_process *ret_process)
{
    struct rusage usage;
    struct rlimit limit;
    memset(&usage, 0, sizeof usage);
    (void)getrusage(RUSAGE_SELF, &usage);
    ret_process->cpu_us = (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * INT64_C(1000000) +
                          usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
    ret_process->max_fds = getrlimit(RLIMIT_NOFILE, &limit) == 0 ? (int64_t)limit.rlim_cur : -1;
    ret_process->open_fds = count_fds();
    ret_process->resident_bytes = read_resident();
    ret_process->threads = read_threads();
}
