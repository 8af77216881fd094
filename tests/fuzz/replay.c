/* The corpus, every crash that was ever found included, through the fuzz targets: needs no fuzzer.
 * Usage: replay [FOLDER]; the folder has one of its own for each target. */
#include "fuzz.h"
#include <dirent.h>
#include "test.h"
#include "core/file.h"
#include "core/mem.h"

static const char *corpus = "tests/fuzz/corpus";

static void replay(const char *target, int (*run)(const uint8_t *, size_t))
{
    char folder[300], path[700];
    int n = 0;
    snprintf(folder, sizeof folder, "%s/%s", corpus, target);
    DIR *d = opendir(folder);
    if (!d)
        print_error("%s: no such folder: run this from the top of the tree, or name the corpus\n", folder);
    assert_non_null(d);
    for (const struct dirent *x; (x = readdir(d));) {
        struct err e = { 0 };
        char *bytes;
        size_t size;
        if (x->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", folder, x->d_name);
        ok(file_load(path, 1 << 20, &bytes, &size, &e), &e);
        print_message("%s\n", path); /* the last one is the culprit */
        run((const uint8_t *)bytes, size);
        mem_free(bytes);
        n++;
    }
    closedir(d);
    assert_true(n > 0);
}

static void cfg_texts(void **state)
{
    (void)state;
    replay("cfg", fuzz_cfg);
}

static void weights_files(void **state)
{
    (void)state;
    replay("weights", fuzz_weights);
}

static void data_texts(void **state)
{
    (void)state;
    replay("data", fuzz_data);
}

static void image_files(void **state)
{
    (void)state;
    replay("image", fuzz_image);
}

static void packed_files(void **state)
{
    (void)state;
    replay("packed", fuzz_packed);
}

static void state_dict_files(void **state)
{
    (void)state;
    replay("state_dict", fuzz_state_dict);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cfg_texts),   cmocka_unit_test(weights_files), cmocka_unit_test(data_texts),
        cmocka_unit_test(image_files), cmocka_unit_test(packed_files),  cmocka_unit_test(state_dict_files),
    };
    if (argc > 1) corpus = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
