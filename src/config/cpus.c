/* SPDX-License-Identifier: MIT */
/* How many threads `threads: auto` means: what the scheduler would let run at the same time. In a
 * container the machine's CPUs say nothing; the cgroup's quota does (v2: cpu.max, v1:
 * cpu.cfs_quota_us), and every ancestor's quota binds too. Whatever cannot be read does not bind.
 */
#include "config/load.h"

#include <inttypes.h>
#include <sched.h>

/* More threads than this gain nothing for a proxy of this kind, and every thread costs buffers;
 * whoever knows better writes a number. */
#define THREADS_AUTO_MAX 4

static int affinity_count(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) < 0)
        return THREADS_AUTO_MAX; /* more than 1024 CPUs */
    return CPU_COUNT(&set);
}

static bool read_line(const char *path, char *to, int bytes)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    bool is_read = fgets(to, bytes, file) != NULL;
    fclose(file);
    return is_read;
}

static int rounded_up(int64_t quota, int64_t period, int most)
{
    if (quota <= 0 || period <= 0)
        return most;
    int64_t cpus = quota / period + (quota % period != 0);
    return cpus < most ? (int)cpus : most;
}

/* dir: the cgroup's directory, cut back to each ancestor down to the mount point. */
static int quota_v2(char *dir, size_t mount_len, int most)
{
    char file[4200], line[64];
    for (;;) {
        int64_t quota, period;
        snprintf(file, sizeof(file), "%s/cpu.max", dir);
        if (read_line(file, line, sizeof(line)) &&
            sscanf(line, "%" SCNd64 " %" SCNd64, &quota, &period) == 2)
            most = rounded_up(quota, period, most);
        char *slash = strrchr(dir, '/');
        if (!slash || (size_t)(slash - dir) < mount_len)
            return most;
        *slash = '\0';
    }
}

static int quota_v1(char *dir, size_t mount_len, int most)
{
    char file[4200], quota_line[64], period_line[64];
    for (;;) {
        int64_t quota, period;
        snprintf(file, sizeof(file), "%s/cpu.cfs_quota_us", dir);
        bool is_read = read_line(file, quota_line, sizeof(quota_line));
        snprintf(file, sizeof(file), "%s/cpu.cfs_period_us", dir);
        if (is_read && read_line(file, period_line, sizeof(period_line)) &&
            sscanf(quota_line, "%" SCNd64, &quota) == 1 &&
            sscanf(period_line, "%" SCNd64, &period) == 1)
            most = rounded_up(quota, period, most);
        char *slash = strrchr(dir, '/');
        if (!slash || (size_t)(slash - dir) < mount_len)
            return most;
        *slash = '\0';
    }
}

/* One line of /proc/self/cgroup: "0::/path" (v2) or "4:cpu,cpuacct:/path" (v1). */
static int quota_of_line(char *line, int most)
{
    line[strcspn(line, "\n")] = '\0';
    char *controllers = strchr(line, ':');
    char *path = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!path)
        return most;
    *path++ = '\0';
    controllers++;
    bool is_v1 = false;
    struct prazo_str rest = prazo_str_z(controllers), item;
    while (prazo_str_next_item(&rest, &item))
        is_v1 |= prazo_str_eq(item, PRAZO_STR("cpu"));
    const char *mount = is_v1 ? "/sys/fs/cgroup/cpu" : "/sys/fs/cgroup";
    if (!is_v1 && *controllers)
        return most;
    char dir[4096];
    snprintf(dir, sizeof(dir), "%s%s", mount, strcmp(path, "/") == 0 ? "" : path);
    return is_v1 ? quota_v1(dir, strlen(mount), most) : quota_v2(dir, strlen(mount), most);
}

int prazo__threads_auto(void)
{
    int most = affinity_count();
    FILE *file = fopen("/proc/self/cgroup", "re");
    if (file) {
        char line[4096];
        while (fgets(line, sizeof(line), file))
            most = quota_of_line(line, most);
        fclose(file);
    }
    if (most > THREADS_AUTO_MAX)
        most = THREADS_AUTO_MAX;
    return most < 1 ? 1 : most;
}
