/* The command line: commands, their flags, and what they share. Commands print results to stdout and return
 * an error; only main prints errors. */
#ifndef CLI_CLI_H
#define CLI_CLI_H
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include "core/err.h"
#include "data/augment.h"
#include "data/dataset.h"
#include "net/net.h"

/* Bits, so that a flag can say which commands take it. */
enum {
    CMD_TRAIN = 1,
    CMD_VALID = 2,
    CMD_PREDICT = 4,
    CMD_NET = 8, /* ops, speed */
    CMD_IMTEST = 16,
    CMD_STRIP = 32,
    CMD_VERSION = 64,
    CMD_HELP = 128,
    CMD_FEATURES = 256,
    CMD_PREPARE = 512,
    CMD_CLASSIFY = 1024,
    CMD_DEMO = 2048,
    CMD_LABEL = 4096,   /* the forms of predict that print lines of their own */
    CMD_WEIGHTS = 8192, /* all that read weights and compute nothing */
    CMD_EXPORT = 1 << 14,
    CMD_IMPORT = 1 << 15
};

/* A command line, taken apart. */
struct cli {
    const struct command *command;
    const char *program; /* as it was called */
    int help;
    int threads, workers; /* 0: one per core */
    uint64_t seed;
    const char *device;    /* as given, or what -i and -nogpu mean; NULL: the first one built in */
    const char *precision; /* NULL: as the cfg says */
    int gpu;               /* 1 + what -i or -gpus gives; 0: neither */
    const char *gpus;      /* -gpus, where it names several, one for each process; or NULL */
    int nogpu, deterministic, eager, clear, finetune, verbose, letterbox, center;
    char gpu_device[24];
    int top;          /* 0: as the data file says */
    int layer, limit; /* -1: the classifier's input; 0: all images */
    int camera;       /* -1: not given */
    const char *resume, *metrics, *chart, *confusion, *errors, *list, *out, *names;
    int fold, features;
    double valid; /* share of the images that validate; 0: not given */
    int force;
    const char **set; /* section.key=value, NULL-terminated */
    int nset;
    int csv;
    const char **ignored; /* flags of other Darknets that have no effect here, without their - */
    int nignored;
    const char **arg; /* what is not a flag, in order */
    int narg;
};

struct command {
    const char *group, *name; /* group: "classifier" or NULL */
    unsigned id;
    int min, max; /* arguments; max -1: any number */
    const char *usage, *help;
    int (*run)(const struct cli *, struct err *); /* OK, an error, or an exit status > 0 */
};
extern const struct command commands[]; /* ends with a NULL name */

/* How many words a flag takes, with its value; 0 for a word that is no flag. */
int args_words(const char *word);
/* Flags may stand anywhere among the arguments. args_free also after a failure. */
int args_parse(struct cli *, int argc, char **argv, const struct command *, struct err *);
void args_free(struct cli *);
/* How many flags name this file (NULL: none) to be written. */
int args_write(const struct cli *, const char *path);
int args_same_file(const char *, const char *); /* by their names, which may be NULL */
void args_describe(const struct command *);     /* prints the flags that it takes */

int cli_train(const struct cli *, struct err *);
int cli_valid(const struct cli *, struct err *);
int cli_predict(const struct cli *, struct err *);
int cli_classify(const struct cli *, struct err *);
int cli_demo(const struct cli *, struct err *);
int cli_features(const struct cli *, struct err *);
int cli_prepare(const struct cli *, struct err *);
int cli_ops(const struct cli *, struct err *);
int cli_speed(const struct cli *, struct err *);
int cli_partial(const struct cli *, struct err *);
int cli_average(const struct cli *, struct err *);
int cli_surgery(const struct cli *, struct err *);
int cli_export(const struct cli *, struct err *);
int cli_import(const struct cli *, struct err *);
int cli_statistics(const struct cli *, struct err *);
int cli_visualize(const struct cli *, struct err *);
int cli_imtest(const struct cli *, struct err *);
int cli_strip(const struct cli *, struct err *);
int cli_version(const struct cli *, struct err *);
int cli_help(const struct cli *, struct err *);
void cli_help_command(const struct command *);

/* Call it first. Standard streams that are closed become /dev/null, so that no file opened later takes their
 * place, and standard output one that cannot be written to; writing to a closed pipe, or beyond a limit on
 * the size of files, fails instead of raising a signal.
 */
void output_open(void);
void output_optional(void);          /* of a command that is not run for what it prints: it may be closed */
int output_check(struct err *);      /* an error once something could not be written to stdout */
void csv_text(FILE *, const char *); /* a field of CSV, in quotes where it needs them */
void table_name(const char *);       /* the first column of a table of classes */

/* After stop_on_signals, the first signal is remembered here, for the command to end in good order; a second
 * one ends the program at once. Signals that were ignored from the start (nohup) stay ignored. */
extern volatile sig_atomic_t stop_signal;
void stop_on_signals(void);

/* On a terminal a progress line may be open, which other output must end first. */
struct console {
    int tty; /* stdout is a terminal */
    int line_open;
    double shown; /* when the line was printed last */
};
/* Whether a progress line is due: on a terminal, .1 seconds after the one before. Then the caller prints it
 * and calls console_end. */
int console_begin(struct console *);
void print_eta(double seconds); /* at the end of such a line */
void console_end(void);
/* The same for images that go through a net since `start`, of wall_clock. */
void console_images(struct console *, double done, int all, double start);
void console_clear(struct console *);
struct notes console_notes(struct console *); /* lines on stderr */

/* What the commands that work on a net open, all of which session_close closes. */
struct session {
    const struct cli *cli;
    struct console console;
    struct notes notes;
    struct group *group; /* of processes that do it together; set before session_open, or NULL */
    struct backend *be;
    struct net *net;
    struct data_file *data;  /* NULL without a data file */
    struct augment augment;  /* what the cfg asks for; with a data file only */
    struct program *program; /* NULL until opened */
    struct step_programs training;
    struct program *first;         /* what it shares its parameters with, or NULL */
    struct dataset *train, *valid; /* NULL until opened */
};
/* data may be NULL; else the net must take images and have as many outputs as the data file has classes.
 * session_close also after a failure. */
int session_open(struct session *, const struct cli *, const char *data, const char *cfg, struct err *);
void session_close(struct session *);
/* Runs a command that processes started together share, connected in s->group, and closes the session, which
 * run(ctx) opens. On a failure of all, rank 0 returns it. */
int session_share(struct session *, int (*run)(void *ctx, const struct cli *, struct err *), void *ctx,
                  const struct cli *, struct err *);
/* Opens a program for the inference of one image and loads these weights: program_refresh before it runs. */
int session_load(struct session *, const char *weights, struct err *);
/* Opens `train` or `valid`, and looks whether the images of a list are there. */
int session_open_set(struct session *, enum split, struct err *);
/* Opens a program with the weights that the third argument names, and the validation images to run through
 * it. */
int session_load_valid(struct session *, int features, struct err *);
int session_workers(const struct session *); /* loader threads */
int session_top(const struct session *);     /* k of top-k */

static inline double mib(size_t bytes) { return (double)bytes / (1 << 20); }

#endif
