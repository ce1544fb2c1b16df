/* budget.c: see budget.h. */
#include "base/budget.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#ifdef __APPLE__
#include <mach/mach.h>
#endif

static const char machine[] = "this machine has";
static const char group[] = "this control group may take";

static void lower(rs_memory_bound *bound, uint64_t bytes, const char *who)
{
    if (bytes && bytes < bound->bytes) *bound = (rs_memory_bound){bytes, who, false};
}

/* ---- control groups ---- */

/* The number in a file that holds one; 0 for "max", and where there is no such file. */
static uint64_t number_in(const char *path)
{
    unsigned long long number = 0;
    FILE *file = fopen(path, "re");
    if (!file) return 0;
    if (fscanf(file, "%llu", &number) != 1) number = 0;
    fclose(file);
    return number;
}

/* The limits of a group and of all above it; a container sees itself at the top. */
static void lower_by_group(rs_memory_bound *bound, const char *top, char *group_path,
                           const char *file)
{
    for (;;) {
        char path[4600];
        snprintf(path, sizeof path, "%s%s/%s", top, group_path, file);
        lower(bound, number_in(path), group);
        char *slash = strrchr(group_path, '/');
        if (!slash) return;
        *slash = 0;
    }
}

static bool has_word(const char *list, const char *word)
{
    size_t length = strlen(word);
    for (const char *p = list; *p; p += p[0] == ',') {
        size_t n = strcspn(p, ",");
        if (n == length && memcmp(p, word, n) == 0) return true;
        p += n;
    }
    return false;
}

/* Lines "NUMBER:CONTROLLERS:/PATH" of /proc/self/cgroup; version 2 names no controllers. */
static void lower_by_groups(rs_memory_bound *bound, const char *root)
{
    char line[4352], top[256];
    snprintf(line, sizeof line, "%s/proc/self/cgroup", root);
    FILE *file = fopen(line, "re");
    if (!file) return;
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        char *controllers = strchr(line, ':'), *path;
        if (!controllers || !(path = strchr(++controllers, ':'))) continue;
        *path++ = 0;
        bool second = *controllers == 0;
        if (!second && !has_word(controllers, "memory")) continue;
        snprintf(top, sizeof top, "%.200s/sys/fs/cgroup%s", root, second ? "" : "/memory");
        if (strcmp(path, "/") == 0) *path = 0;
        lower_by_group(bound, top, path, second ? "memory.max" : "memory.limit_in_bytes");
    }
    fclose(file);
}

/* ---- the machine ---- */

static uint64_t available_pages(void)
{
#ifdef __APPLE__
    vm_statistics64_data_t counts;
    mach_msg_type_number_t n = HOST_VM_INFO64_COUNT;
    if (host_statistics64(mach_host_self(), HOST_VM_INFO64, (host_info64_t)&counts, &n) ==
        KERN_SUCCESS)
        return (uint64_t)counts.free_count + counts.inactive_count + counts.purgeable_count;
#endif
    long pages = sysconf(_SC_PHYS_PAGES);
    return pages > 0 ? (uint64_t)pages : 0;
}

static uint64_t available(const char *root)
{
    char line[512];
    unsigned long long kib = 0;
    snprintf(line, sizeof line, "%s/proc/meminfo", root);
    FILE *file = fopen(line, "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1) break;
    if (file) fclose(file);
    long page = sysconf(_SC_PAGESIZE);
    return kib ? kib * 1024 : available_pages() * (uint64_t)(page > 0 ? page : 4096);
}

rs_memory_bound rs_memory_bound_under(const char *root)
{
    rs_memory_bound bound = {UINT64_MAX, machine, false};
    lower(&bound, available(root), machine);
    lower_by_groups(&bound, root);
    return bound;
}

rs_memory_bound rs_memory_bound_of(uint64_t asked)
{
    return asked ? (rs_memory_bound){asked, "--memory gives", true} : rs_memory_bound_under("");
}

/* ---- adding up ---- */

void rs_budget_add(rs_budget *budget, const char *what, double bytes)
{
    size_t i = 0, most = sizeof budget->parts / sizeof *budget->parts;
    while (i < budget->n && strcmp(budget->parts[i].what, what) != 0)
        i++;
    if (i == most) i--; /* the sum stays right */
    if (i == budget->n) {
        budget->parts[i].what = what;
        budget->parts[i].bytes = 0;
        budget->n++;
    }
    budget->parts[i].bytes += bytes;
}

double rs_budget_sum(const rs_budget *budget)
{
    double sum = 0;
    for (size_t i = 0; i < budget->n; i++)
        sum += budget->parts[i].bytes;
    return sum;
}

static const char *sized(char *text, size_t size, double bytes)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB"};
    size_t unit = 0;
    while (unit < 3 && bytes >= 1024) {
        bytes /= 1024;
        unit++;
    }
    snprintf(text, size, "%.*f %s", unit ? 1 : 0, bytes, units[unit]);
    return text;
}

int rs_budget_threads(double bytes, rs_memory_bound bound, int threads)
{
    if (!bound.bytes) bound = rs_memory_bound_of(0);
    double room = (double)bound.bytes / 2;
    if (!(bytes * threads > room)) return threads;
    return bytes > room ? 1 : (int)(room / bytes);
}

rs_status rs_budget_check(const rs_budget *budget, rs_memory_bound bound, const char *where,
                          const char *hint, rs_error *err)
{
    double sum = rs_budget_sum(budget);
    char list[512] = "", total[64], has[64], part[64];
    size_t used = 0;
    if (!bound.bytes) bound = rs_memory_bound_of(0);
    if (!(sum > (double)bound.bytes)) return RS_OK;
    for (size_t i = 0; i < budget->n && used < sizeof list; i++)
        if (budget->parts[i].bytes > sum / 100)
            used += (size_t)snprintf(list + used, sizeof list - used, "%sthe %s need %s",
                                     used ? ", " : "", budget->parts[i].what,
                                     sized(part, sizeof part, budget->parts[i].bytes));
    return rs_fail(err, RS_E_MEMORY_LIMIT, where, hint, "%s%s%s; %s %s", list,
                   budget->n > 1 ? ", together " : "",
                   budget->n > 1 ? sized(total, sizeof total, sum) : "", bound.who,
                   sized(has, sizeof has, (double)bound.bytes));
}
