/* Interruption: a signal asks a command to end in good order. */
#include <signal.h>
#include <stddef.h>
#include "cli/cli.h"

/* A signal handler can reach nothing but a global. */
volatile sig_atomic_t stop_signal;

static void remember(int number) { stop_signal = number; }

void stop_on_signals(void)
{
    /* The last three come from schedulers before they kill, and from a limit on CPU time. */
    static const int number[] = { SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU };
    struct sigaction before, a = { .sa_handler = remember, .sa_flags = SA_RESTART | (int)SA_RESETHAND };
    sigemptyset(&a.sa_mask);
    for (size_t i = 0; i < sizeof number / sizeof *number; i++)
        if (!sigaction(number[i], NULL, &before) && before.sa_handler != SIG_IGN)
            sigaction(number[i], &a, NULL);
}
