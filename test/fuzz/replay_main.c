/* SPDX-License-Identifier: MIT */
/* Runs a fuzz target over its stored corpus without a fuzzer, as an ordinary test.
 * Arguments are files or directories (not recursive). Every input lies in a block of exactly its
 * own size, so that the address sanitizer sees the first byte read beyond it; each is also given
 * cut short at every length up to PREFIX_MAX, because a stream parser meets every cut in the field.
 * Fails when there is no input at all: an empty corpus tests nothing. */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Long enough for any head in the corpus; longer inputs are bodies, where cuts are all alike. */
#define PREFIX_MAX 2048u
#define INPUT_BYTES_MAX (1024u * 1024u)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned inputs_run;

static void run_bytes(const uint8_t *data, size_t size)
{
    uint8_t *exact = malloc(size ? size : 1);
    if (!exact) {
        fprintf(stderr, "replay: out of memory\n");
        exit(2);
    }
    memcpy(exact, data, size);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
}

static void run_file(const char *path)
{
    static uint8_t data[INPUT_BYTES_MAX];
    FILE *file = fopen(path, "rb");
    if (!file) {
        fprintf(stderr, "replay: %s: %s\n", path, strerror(errno));
        exit(2);
    }
    size_t size = fread(data, 1, sizeof data, file);
    fclose(file);
    /* Before it runs, so that the last line before a crash names the input. */
    printf("replay: %s (%zu bytes)\n", path, size);
    fflush(stdout);
    run_bytes(data, size);
    for (size_t len = 0; len < size && len <= PREFIX_MAX; len++)
        run_bytes(data, len);
    inputs_run++;
}

static void run_directory(const char *path)
{
    struct dirent **names = NULL;
    int count = scandir(path, &names, NULL, alphasort);
    if (count < 0) {
        fprintf(stderr, "replay: %s: %s\n", path, strerror(errno));
        exit(2);
    }
    for (int i = 0; i < count; i++) {
        char file[4096];
        snprintf(file, sizeof file, "%s/%s", path, names[i]->d_name);
        if (names[i]->d_name[0] != '.')
            run_file(file);
        free(names[i]);
    }
    free(names);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        struct stat st;
        if (stat(argv[i], &st) == 0 && S_ISDIR(st.st_mode))
            run_directory(argv[i]);
        else
            run_file(argv[i]);
    }
    if (inputs_run == 0) {
        fprintf(stderr, "replay: no input; put at least one file into the corpus\n");
        return 1;
    }
    printf("replay: %u inputs\n", inputs_run);
    return 0;
}
