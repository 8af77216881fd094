/* prepare: from class folders to what train takes. */
#include <stdio.h>
#include <string.h>
#include "cli/cli.h"
#include "data/folder.h"

static const char next_cfg[] = "cfg/cifar10-resnet18.cfg";

/* Quoted for a shell where that is needed. */
static void print_word(const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=.,/:@%";
    if (!word[strspn(word, plain)]) {
        printf("%s", word);
        return;
    }
    putchar('\'');
    for (; *word; word++)
        if (*word == '\'')
            printf("'\\''");
        else
            putchar(*word);
    putchar('\'');
}

static void print_table(const struct folder *f)
{
    int total[2] = { 0, 0 };
    table_name("class");
    printf(" %8s %8s\n", "train", "valid");
    for (int k = 0; k < f->classes; k++) {
        table_name(f->name[k]);
        printf(" %8d %8d\n", f->count[0][k], f->count[1][k]);
        for (int set = 0; set < 2; set++) total[set] += f->count[set][k];
    }
    table_name("all");
    printf(" %8d %8d\n", total[0], total[1]);
}

static void print_skipped(const struct folder *f)
{
    static const char *const what[SKIPPED] = {
        [SKIPPED_LITTER] = "hidden",
        [SKIPPED_LOOSE] = "images outside class folders",
        [SKIPPED_BROKEN] = "broken links",
        [SKIPPED_LOOPS] = "links to a folder that holds them",
        [SKIPPED_EMPTY] = "empty folders",
        [SKIPPED_SPECIAL] = "pipes, sockets or devices",
        [SKIPPED_FOREIGN] = "WebP and TIFF images for builds with OPENCV=1",
        [SKIPPED_OTHER] = "not named like images",
    };
    const char *between = "left out: ";
    for (int i = 0; i < SKIPPED; i++) {
        if (!f->skipped[i]) continue;
        printf("%s%s (%d)", between, what[i], f->skipped[i]);
        between = ", ";
    }
    if (f->first_other) {
        printf(", first ");
        print_word(f->first_other);
    }
    if (*between == ',') putchar('\n'); /* something was printed */
}

/* The cfg is for 50,000 images. A rate of .5 diverges with very few, and 50,000 iterations take days. */
static void print_few(const struct folder *f)
{
    enum { ENOUGH = 5000, BATCH = 16, EPOCHS = 50 };
    long images = 0;
    for (int k = 0; k < f->classes; k++) images += f->count[0][k];
    if (images < ENOUGH)
        printf(" -set net.batch=%d -set net.learning_rate=.02 -set net.max_batches=%ld", BATCH,
               (images * EPOCHS + BATCH - 1) / BATCH);
}

static void print_next(const struct folder *f, const char *program, const char *prefix)
{
    static const char *const written[] = { ".data", ".train.list", ".valid.list", ".labels.txt",
                                           ".names.txt" };
    printf("written: %s", prefix);
    for (size_t i = 0; i < sizeof written / sizeof *written; i++) printf("%s%s", i ? ", " : "", written[i]);
    printf("\nnext: ");
    print_word(program);
    printf(" classifier train %s", *prefix == '-' ? "./" : ""); /* so that it is not taken for a flag */
    print_word(prefix);
    printf(".data %s -set connected.output=%d", next_cfg, f->classes);
    print_few(f);
    putchar('\n');
}

int cli_prepare(const struct cli *c, struct err *e)
{
    struct console console = { 0 };
    struct notes notes = console_notes(&console);
    struct folder *f;
    TRY(folder_read(&f, c->arg[0], c->valid, c->seed, &notes, e));
    const char *prefix = c->out ? c->out : strrchr(f->dir, '/') + 1;
    int rc = *prefix ? folder_write(f, prefix, c->force, e)
                     : fail(e, E_ARG, "prepare %.60s: give the files a name with -out", c->arg[0]);
    if (!rc) {
        printf("%s: %d images in %d classes\n", f->root, f->n, f->classes);
        print_table(f);
        print_skipped(f);
        print_next(f, c->program, prefix);
    }
    folder_free(f);
    return rc;
}
