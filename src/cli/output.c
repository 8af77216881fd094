/* Standard output: a file that may fail, like any other, or a terminal with a progress line. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "cli/cli.h"
#include "core/clock.h"

void output_open(void)
{
    int fd;
    do {
        fd = open("/dev/null", O_RDWR);
        if (fd != STDOUT_FILENO) continue;
        close(fd);
        fd = open("/dev/null", O_RDONLY); /* writing there fails */
    } while (fd >= 0 && fd <= 2);
    if (fd > 2) close(fd);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ); /* whole lines also into a pipe or a file */
}

void output_optional(void)
{
    int fd = (fcntl(STDOUT_FILENO, F_GETFL) & O_ACCMODE) == O_RDONLY ? open("/dev/null", O_WRONLY) : -1;
    if (fd >= 0) dup2(fd, STDOUT_FILENO);
    if (fd > 2) close(fd);
}

int output_check(struct err *e)
{
    if (!fflush(stdout) && !ferror(stdout)) return OK;
    /* A stream remembers that a write failed but not why. A lost line may as well be a blank one. */
    int cause = write(STDOUT_FILENO, "\n", 1) < 0 ? errno : EIO;
    return fail(e, E_FILE, "standard output: %s", strerror(cause));
}

void csv_text(FILE *to, const char *text)
{
    int quote = strpbrk(text, ",\"\r\n") != NULL;
    if (quote) putc('"', to);
    for (; *text; text++) {
        if (*text == '"') putc('"', to);
        putc(*text, to);
    }
    if (quote) putc('"', to);
}

void table_name(const char *name)
{
    int width = 24;
    for (const char *s = name; *s; s++) width += (*s & 0xc0) == 0x80; /* printf counts bytes */
    printf("%-*s", width, name);
}

int console_begin(struct console *c)
{
    const double clock = wall_clock();
    if (!c->tty || (c->line_open && clock - c->shown < .1)) return 0;
    c->shown = clock;
    c->line_open = 1;
    putchar('\r');
    return 1;
}

void console_end(void)
{
    fputs("\033[K", stdout);
    fflush(stdout);
}

void print_eta(double seconds)
{
    const long s = (long)(seconds + .5);
    printf(", ETA %ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
}

void console_images(struct console *c, double done, int all, double start)
{
    const double seconds = wall_clock() - start;
    if (!(done > 0) || !console_begin(c)) return;
    printf("%d/%d images", (int)done, all);
    print_eta(seconds * (all - done) / done);
    console_end();
}

void console_clear(struct console *c)
{
    if (!c->line_open) return;
    c->line_open = 0;
    putchar('\r');
    console_end();
}

static void say(void *ctx, const char *line)
{
    console_clear(ctx);
    fprintf(stderr, "%s\n", line);
}

struct notes console_notes(struct console *c) { return (struct notes){ say, c }; }
