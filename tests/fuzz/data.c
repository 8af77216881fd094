/* Text of a .data file, or of a list of image paths with the rule that finds their class. The first byte
 * chooses. */
#include "fuzz.h"
#include "data/dataset.h"
#include "data/label.h"

static void hear_data_note(void *ctx, const char *line) { *(size_t *)ctx += strlen(line); }

/* The lists that the text names are not opened: they could be any file or device of this machine. */
static int names_files(const uint8_t *bytes, size_t n)
{
    return memmem(bytes, n, "names", 5) || memmem(bytes, n, "labels", 6);
}

static int read_list(const char *path, struct err *e)
{
    static char *const labels[] = { (char *)"cat", (char *)"dog", (char *)"at", (char *)"cat_dog" };
    char **line;
    int n;
    TRY(list_read(&line, &n, path, e));
    for (int i = 0; i < n; i++) {
        int k = label_of(line[i], labels, 4);
        assert(k >= -2 - 3 && k < 4);
    }
    list_free(line);
    return OK;
}

int fuzz_data(const uint8_t *bytes, size_t n)
{
    struct fuzz_file f;
    struct err e = { 0 };
    size_t heard = 0;
    const struct notes notes = { hear_data_note, &heard };
    int rc, list = n && bytes[0] & 1;
    if (n < 1 || n > 1 << 14 || (!list && names_files(bytes, n)) || fuzz_file_open(&f, bytes + 1, n - 1))
        return -1;
    if (list) {
        rc = read_list(f.path, &e);
    } else {
        struct data_file *d;
        rc = data_file_read(&d, f.path, &notes, &e);
        assert(rc || (d->classes >= 1 && d->top >= 1 && d->top <= d->classes && d->backup && *d->backup));
        data_file_free(d);
    }
    fuzz_check(rc, &e);
    close(f.fd);
    return 0;
}
