/* Standard output as a file that may fail, like any other. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "cli/cli.h"

void output_open(void)
{
    int fd;
    do fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= 2);
    if (fd > 2) close(fd);
    struct sigaction ignore;
    memset(&ignore, 0, sizeof ignore);
    sigemptyset(&ignore.sa_mask);
    ignore.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &ignore, NULL);
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ); /* whole lines also into a pipe or a file */
}

/* A stream remembers that a write failed but not why. A lost line may as well be a blank one. */
static int cause(void) { return write(STDOUT_FILENO, "\n", 1) < 0 ? errno : EIO; }

int output_check(struct err *e)
{
    if (!fflush(stdout) && !ferror(stdout)) return OK;
    return fail(e, E_FILE, "standard output: %s", strerror(cause()));
}
