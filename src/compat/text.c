/* Lists, data files and command lines of darknet_compat.h; and complaints. */
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <time.h>
#include "compat/compat.h"

void complain(const char *fmt, ...)
{
    char line[600];
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    fprintf(stderr, "darknet: %s\n", line);
}

void *take(size_t count, size_t size)
{
    void *p = calloc(count ? count : 1, size ? size : 1); /* NULL where the product overflows */
    if (!p) complain("not enough memory for %zu x %zu bytes", count, size);
    return p;
}

static char *copy(const char *text)
{
    char *to = take(strlen(text) + 1, 1);
    return to ? strcpy(to, text) : NULL;
}

/* ---- lists ---- */

/* Takes val over; -1 if memory is short. */
static int append(list *l, void *val)
{
    node *n = take(1, sizeof *n);
    if (!n) return -1;
    *n = (node){ .val = val, .prev = l->back };
    *(l->back ? &l->back->next : &l->front) = n;
    l->back = n;
    l->size++;
    return 0;
}

void **list_to_array(list *l)
{
    void **a = take((size_t)l->size + 1, sizeof *a);
    int i = 0;
    for (node *n = l->front; a && n; n = n->next) a[i++] = n->val;
    return a;
}

void free_list(list *l)
{
    for (node *next, *n = l ? l->front : NULL; n; n = next) {
        next = n->next;
        free(n);
    }
    free(l);
}

void free_ptrs(void **ptrs, int n)
{
    for (int i = 0; ptrs && i < n; i++) free(ptrs[i]);
    free(ptrs);
}

static void free_list_and_values(list *l)
{
    for (node *n = l ? l->front : NULL; n; n = n->next) free(n->val);
    free_list(l);
}

/* ---- lines of files ---- */

static char *trim(char *text)
{
    size_t n = strlen(text);
    while (n && strchr(" \t\r\n", text[n - 1])) text[--n] = 0;
    return text + strspn(text, " \t");
}

/* The next line, trimmed, in *line, which has room for *room characters and grows. 0: there are no more. */
static int next_line(FILE *f, char **line, size_t *room, char **text)
{
    if (getline(line, room, f) < 0) return 0;
    *text = trim(*line);
    return 1;
}

/* What `take_line` makes of each line, as a list; it returns NULL if memory is short. */
static list *read_lines(const char *path, void *(*take_line)(char *))
{
    FILE *f = path ? fopen(path, "r") : NULL;
    list *l = f ? take(1, sizeof *l) : NULL;
    char *line = NULL, *text;
    size_t room = 0;
    if (!f) complain("%s: %s", path ? path : "(no file)", path ? strerror(errno) : "a name is missing");
    while (l && next_line(f, &line, &room, &text)) {
        void *val = take_line(text);
        if (val && !append(l, val)) continue;
        free(val);
        free_list_and_values(l);
        l = NULL;
    }
    if (l && ferror(f)) {
        complain("%s: %s", path, strerror(errno));
        free_list_and_values(l);
        l = NULL;
    }
    free(line);
    if (f) fclose(f);
    return l;
}

static void *take_text(char *text) { return copy(text); }
list *get_paths(char *filename) { return read_lines(filename, take_text); }

char **get_labels(char *filename)
{
    list *l = get_paths(filename);
    char **labels = l ? (char **)list_to_array(l) : NULL;
    if (l && !labels)
        free_list_and_values(l);
    else
        free_list(l);
    return labels;
}

/* ---- data files ---- */

/* Key and value in one block, each with a 0 behind it; of a comment, the key is empty. */
static void *take_option(char *text)
{
    char *equals = strchr(text, '=');
    if (*text == '#' || *text == ';' || !equals) text[0] = 0, equals = NULL;
    if (equals) *equals = 0;
    const char *value = equals ? trim(equals + 1) : "", *key = trim(text);
    const size_t n = strlen(key) + 1;
    char *option = take(n + strlen(value) + 1, 1);
    if (!option) return NULL;
    strcpy(option, key);
    strcpy(option + n, value);
    return option;
}

list *read_data_cfg(char *filename) { return read_lines(filename, take_option); }
void free_data_cfg(list *l) { free_list_and_values(l); }

char *option_find_str(list *l, char *key, char *def)
{
    for (node *n = l ? l->front : NULL; n; n = n->next)
        if (*(char *)n->val && !strcmp(n->val, key)) return (char *)n->val + strlen(key) + 1;
    return def;
}

int option_find_int_quiet(list *l, char *key, int def)
{
    const char *v = option_find_str(l, key, NULL);
    return v ? atoi(v) : def;
}

int option_find_int(list *l, char *key, int def) { return option_find_int_quiet(l, key, def); }

float option_find_float(list *l, char *key, float def)
{
    const char *v = option_find_str(l, key, NULL);
    return v ? strtof(v, NULL) : def;
}

metadata get_metadata(char *file)
{
    metadata m = { 0 };
    list *options = read_data_cfg(file);
    if (!options) return m;
    char *path = option_find_str(options, "names", option_find_str(options, "labels", NULL));
    m.classes = option_find_int(options, "classes", 2);
    m.names = path ? get_labels(path) : NULL;
    if (!path) complain("%s: has neither names= nor labels=", file);
    int n = 0;
    while (m.names && m.names[n]) n++;
    if (m.names && n < m.classes) {
        complain("%s: has %d lines, expected %d (classes= of %s)", path, n, m.classes, file);
        free_ptrs((void **)m.names, n);
        m.names = NULL;
    }
    if (!m.names) m.classes = 0;
    free_data_cfg(options);
    return m;
}

/* ---- command lines ---- */

static int position(int argc, char **argv, const char *arg)
{
    for (int i = 0; i < argc && argv[i]; i++)
        if (!strcmp(argv[i], arg)) return i;
    return -1;
}

/* So many words from the one at i on; NULLs take their place at the end. */
static void remove_words(int argc, char **argv, int i, int words)
{
    for (; i < argc; i++) argv[i] = i + words < argc ? argv[i + words] : NULL;
}

int find_arg(int argc, char *argv[], char *arg)
{
    int i = position(argc, argv, arg);
    if (i >= 0) remove_words(argc, argv, i, 1);
    return i >= 0;
}

char *find_char_arg(int argc, char **argv, char *arg, char *def)
{
    int i = position(argc, argv, arg);
    if (i < 0 || i + 1 >= argc || !argv[i + 1]) return def;
    char *value = argv[i + 1];
    remove_words(argc, argv, i, 2);
    return value;
}

int find_int_arg(int argc, char **argv, char *arg, int def)
{
    const char *v = find_char_arg(argc, argv, arg, NULL);
    return v ? atoi(v) : def;
}

float find_float_arg(int argc, char **argv, char *arg, float def)
{
    const char *v = find_char_arg(argc, argv, arg, NULL);
    return v ? strtof(v, NULL) : def;
}

char *basecfg(char *cfgfile)
{
    const char *slash = strrchr(cfgfile, '/');
    char *base = copy(slash ? slash + 1 : cfgfile);
    if (base) base[strcspn(base, ".")] = 0;
    return base;
}

double what_time_is_it_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}
