/* classifier predict, label, test and csv: what the net says of images. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "cli/answer.h"
#include "core/mem.h"
#include "core/text.h"
#include "data/folder.h"
#include "data/image.h"
#include "data/images.h"

struct prediction;

/* What a command prints for an image, and which view of it the net gets. */
struct form {
    const char *command;
    enum view view;
    void (*print)(struct prediction *, const char *path);
    int of_test; /* if no image is named, takes those of test= */
};

struct prediction {
    struct answer a;
    const struct form *form;
    int alone; /* there is only one image, so its name is not printed */
    int seen, failed;
    int askew; /* so many are not turned */
};

static void print_top(struct prediction *p, const char *path)
{
    if (!p->alone && !p->a.s.cli->csv) printf("%s:\n", path);
    answer_print(&p->a, path, 5, 2);
}

static void print_label(struct prediction *p, const char *path)
{
    char buf[16];
    (void)path;
    puts(class_name(p->a.s.data, p->a.best[0], buf));
}

static void print_probabilities(struct prediction *p, const char *path)
{
    printf("%s", path);
    for (int k = 0; k < p->a.s.net->classes; k++) printf("\t%g", (double)p->a.prob[k]);
    putchar('\n');
}

static void print_indices(struct prediction *p, const char *path)
{
    printf("%s", path);
    for (int i = 0; i < session_top(&p->a.s); i++) printf("\t%d", p->a.best[i]);
    putchar('\n');
}

static const struct form forms[] = { { "predict", VIEW_LETTERBOX, print_top, 0 },
                                     { "classify", VIEW_LETTERBOX, print_top, 0 },
                                     { "label", VIEW_CENTER, print_label, 1 },
                                     { "test", VIEW_WHOLE, print_probabilities, 1 },
                                     { "csv", VIEW_LETTERBOX, print_indices, 1 } };

static int predict_image(struct prediction *p, const char *path, struct err *e)
{
    struct answer *a = &p->a;
    const struct decoding how = { a->s.net->config.channels, 0, a->s.data->orient > 0 };
    struct picture i;
    TRY(image_decode(path, &how, &i, e));
    if (i.flaw) note(&a->s.notes, "%s: %s", path, i.flaw);
    if (i.askew && a->s.data->orient < 0 && !p->askew++) note(&a->s.notes, IMAGE_ASKEW, path);
    int rc = answer_make(a, &i, e);
    mem_free(i.pixels);
    if (!rc) p->form->print(p, path);
    return rc;
}

/* An unreadable image among several is named and skipped; the exit status tells of it. */
static int predict_next(struct prediction *p, const char *path, struct err *e)
{
    int rc = predict_image(p, path, e);
    p->seen++;
    if (!rc) return output_check(e);
    if (p->alone || (rc != E_FILE && rc != E_FORMAT)) return rc;
    note(&p->a.s.notes, "%s", e->msg);
    p->failed++;
    return OK;
}

static int predict_these(struct prediction *p, char *const *path, int n, struct err *e)
{
    int rc = OK;
    for (int i = 0; !rc && i < n; i++) rc = predict_next(p, path[i], e);
    return rc;
}

/* An image, or those of a folder. */
static int predict_argument(struct prediction *p, const char *path, struct err *e)
{
    char **image;
    int n, rc = folder_images(path, &image, &n, e);
    if (n) p->alone = 0;
    if (!rc) rc = n ? predict_these(p, image, n, e) : predict_next(p, path, e);
    folder_images_free(image, n);
    return rc;
}

static int predict_list(struct prediction *p, const char *list, struct err *e)
{
    char **image;
    int n;
    TRY(list_read(&image, &n, list, e));
    int rc = images_check(list, image, n, e);
    if (!rc) rc = predict_these(p, image, n, e);
    list_free(image);
    return rc;
}

/* One a line, each answered when it comes. */
static int predict_stdin(struct prediction *p, struct err *e)
{
    char line[PATH_MAX + 1]; /* a path, the end of its line */
    int rc = OK;
    for (int n = 1; !rc && fgets(line, sizeof line, stdin); n++) {
        if (!strchr(line, '\n') && !feof(stdin))
            return fail(e, E_FORMAT, "standard input: line %d %s: expected the path of an image", n,
                        strlen(line) + 1 < sizeof line ? "has a zero byte" : "is longer than any path");
        const char *path = text_trim(line);
        if (*path) rc = predict_next(p, path, e);
    }
    if (!rc && ferror(stdin)) return fail(e, E_FILE, "standard input: %s", strerror(errno));
    return rc;
}

static int predict_all(struct prediction *p, struct err *e)
{
    const struct cli *c = p->a.s.cli;
    const int given = c->narg - 3, of_test = !given && !c->list && p->form->of_test;
    const char *list = of_test ? p->a.s.data->test : c->list;
    const int from_stdin = list ? !strcmp(list, "-") : !given;
    if (of_test && !list)
        return fail_at(e, E_CFG, p->a.s.data->path, 0,
                       "no `test=`: add the list of images, or name images to %s", c->command->name);
    p->alone = given == 1 && !list;
    if (c->csv) puts("image,rank,class,name,probability");
    for (int i = 0; i < given; i++) TRY(predict_argument(p, c->arg[3 + i], e));
    if (list && !from_stdin) TRY(predict_list(p, list, e));
    if (from_stdin) TRY(predict_stdin(p, e));
    if (!p->seen) return fail(e, E_ARG, "no image given, as an argument or on standard input");
    return p->failed ? fail(e, E_FILE, "%d of %d images could not be read", p->failed, p->seen) : OK;
}

static int predict(struct prediction *p, const struct cli *c, struct err *e)
{
    for (p->form = forms; strcmp(p->form->command, c->command->name);) p->form++;
    if (c->csv && p->form->print != print_top)
        return fail(e, E_ARG, "-csv is for classifier predict: %s has lines of its own", c->command->name);
    if (c->narg <= 3 && !c->list && !p->form->of_test && isatty(STDIN_FILENO))
        return fail(e, E_ARG, "predict: no image given; usage: darknet %s", c->command->usage);
    TRY(answer_open(&p->a, c, p->form->view, e));
    TRY(predict_all(p, e));
    note(&p->a.s.notes, "preprocessing: %s", p->a.preprocessing);
    return OK;
}

int cli_predict(const struct cli *c, struct err *e)
{
    struct prediction p = { 0 };
    int rc = predict(&p, c, e);
    answer_close(&p.a);
    return rc;
}

/* The short form, with the data file and the k that it has always stood for. */
int cli_classify(const struct cli *c, struct err *e)
{
    static const char data[] = "cfg/imagenet1k.data";
    static const char ours[] = "data/imagenet.data"; /* what this project ships in its place */
    struct cli full = *c;
    if (access(data, F_OK))
        return fail(e, E_FILE,
                    "classify reads %s, which is not here: darknet classifier predict %s ... does the same",
                    data, access(ours, F_OK) ? "FILE.data" : ours);
    full.arg = mem_alloc((size_t)c->narg + 1, sizeof *full.arg);
    if (!full.arg) return fail(e, E_MEM, "no memory for the command line");
    full.arg[0] = data;
    memcpy(full.arg + 1, c->arg, (size_t)c->narg * sizeof *full.arg);
    full.narg++;
    if (!full.top) full.top = 5;
    int rc = cli_predict(&full, e);
    mem_free(full.arg);
    return rc;
}
