/* replay.c: runs a libFuzzer target over stored inputs without libFuzzer, so that every compiler
 * replays what fuzzing found.
 *
 *   replay_TARGET PATH...      a PATH is one input, or a folder whose files are inputs; a folder
 * that is absent holds none
 *
 * Each input lies in a block of exactly its size, so that AddressSanitizer sees one byte too many.
 */
#include <dirent.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned long replayed;

/* Says why `path` cannot be replayed. */
static int refuse(const char *path, FILE *file)
{
    fprintf(stderr, "replay: %s: %s\n", path, strerror(errno));
    if (file) fclose(file);
    return 1;
}

static int replay_file(const char *path, size_t size)
{
    FILE *file = fopen(path, "rb");
    if (!file) return refuse(path, NULL);
    uint8_t *data = malloc(size ? size : 1);
    if (!data) return refuse(path, file);
    if (fread(data, 1, size, file) != size) {
        free(data);
        return refuse(path, file);
    }
    fclose(file);
    /* The name first: a crash leaves it as the last line. */
    fprintf(stderr, "%s\n", path);
    LLVMFuzzerTestOneInput(data, size);
    free(data);
    replayed++;
    return 0;
}

static int replay(const char *path)
{
    struct stat info;
    if (stat(path, &info)) return errno == ENOENT ? 0 : refuse(path, NULL);
    if (!S_ISDIR(info.st_mode)) return replay_file(path, (size_t)info.st_size);

    struct dirent **entries;
    int count = scandir(path, &entries, NULL, alphasort);
    if (count < 0) return refuse(path, NULL);
    int failed = 0;
    for (int i = 0; i < count; i++) {
        char inner[4096];
        int length = snprintf(inner, sizeof inner, "%s/%s", path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.' && length > 0 && (size_t)length < sizeof inner)
            failed |= replay(inner);
        free(entries[i]);
    }
    free(entries);
    return failed;
}

int main(int count, char **paths)
{
    int failed = 0;
    for (int i = 1; i < count; i++)
        failed |= replay(paths[i]);
    if (!failed && !replayed) {
        printf("no stored input for this target\n");
        return 77;
    }
    printf("%lu inputs replayed\n", replayed);
    return failed;
}
