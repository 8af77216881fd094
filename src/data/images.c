#include "images.h"
#include <limits.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>
#include "data/decoder.h"

static int ends_in(const char *name, const char *const *known, size_t n)
{
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < n; i++)
        if (!strcasecmp(dot + 1, known[i])) return 1;
    return 0;
}

static int is_foreign(const char *name)
{
    static const char *const known[] = { "webp", "tif", "tiff" }; /* by OpenCV */
    return ends_in(name, known, sizeof known / sizeof *known);
}

int image_named(const char *name)
{
    static const char *const known[] = { "jpg", "jpeg", "jpe", "jfif", "png", "bmp",
                                         "gif", "tga",  "psd", "ppm",  "pgm", "pnm" };
    return ends_in(name, known, sizeof known / sizeof *known) || (decoder_has_opencv() && is_foreign(name));
}

int image_needs_opencv(const char *name) { return !decoder_has_opencv() && is_foreign(name); }

int image_litter(const char *name)
{
    static const char *const known[] = { "__MACOSX",     "Thumbs.db",  "desktop.ini",
                                         "$RECYCLE.BIN", "lost+found", "System Volume Information" };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcasecmp(name, known[i])) return 1;
    return *name == '.';
}

/* ---- those of a list ---- */

static int is_file(const char *path) { return !access(path, F_OK); }

/* Whether the first n bytes of a line are the path of a file. */
static int begins_with_file(const char *line, size_t n)
{
    char path[PATH_MAX];
    if (!n || n >= sizeof path) return 0;
    memcpy(path, line, n);
    path[n] = 0;
    return is_file(path) || image_named(path);
}

/* What is wrong with a line that is not the path of a file; NULL: nothing that can be told. */
static const char *dialect(const char *line)
{
    static const char digits[] = "0123456789";
    const char *comma = strpbrk(line, ",;"), *blank = strpbrk(line, " \t");
    if (*line == '"' || *line == '\'') return "is in quotes: write the paths without them";
    if (comma && begins_with_file(line, (size_t)(comma - line)))
        return "is a line of CSV: write one path a line, without labels (labels= tells them from the paths)";
    if (blank && blank == line + strspn(line, digits) && begins_with_file(blank + 1, strlen(blank + 1)))
        return "begins with a number: write one path a line, without labels (labels= tells them from the "
               "paths)";
    for (; blank; blank = strpbrk(blank + 1, " \t"))
        if (blank[1 + strspn(blank + 1, digits)] == 0 && begins_with_file(line, (size_t)(blank - line)))
            return "ends in a number: write one path a line, without labels (labels= tells them from the "
                   "paths)";
    if (strchr(line, '\\')) return "has backslashes: write the paths with /";
    if (!strncmp(line, "http://", 7) || !strncmp(line, "https://", 8) || !strncmp(line, "file:", 5))
        return "is an address: write the paths of files";
    return NULL;
}

int images_check(const char *list, char *const *path, int n, struct err *e)
{
    enum { TRIED = 100 };
    int tried = n < TRIED ? n : TRIED;
    for (int i = 0; i < tried; i++)
        if (is_file(path[i])) return OK;
    const char *wrong = dialect(path[0]);
    if (wrong) return fail_at(e, E_FORMAT, list, 0, "'%.150s' %s", path[0], wrong);
    return fail_at(
        e, E_FORMAT, list, 0,
        "none of its first %d images is there, '%.150s' to begin with: paths go from the folder that "
        "darknet is started in, or from / on",
        tried, path[0]);
}
