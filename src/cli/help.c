/* help and version: printed from the tables that the program itself works with. */
#include <stdio.h>
#include <string.h>
#include "backend/ops/sum.h"
#include "cli/cli.h"
#include "core/text.h"
#include "darknet.h"
#include "data/decoder.h"
#include "group/group.h"

static void print_keys(const struct key *keys)
{
    char line[400];
    for (const struct key *k = keys; k && k->name; k++) {
        options_describe(k, line, sizeof line);
        printf("  %s\n", line);
    }
}

static void print_layer(const struct layer_ops *ops)
{
    printf("[%s]", ops->name);
    if (ops->alias) printf(" or [%s]", ops->alias);
    printf(": %s\n", ops->help);
    print_keys(ops->keys);
}

static void print_layers(void)
{
    for (int i = 0; layer_at(i); i++) {
        print_layer(layer_at(i));
        putchar('\n');
    }
    puts("Every layer:");
    print_keys(layer_common_keys);
}

static void print_data_keys(void)
{
    const char *key, *help;
    puts("The data file: lines of key = value, each key once");
    for (int i = 0; (key = data_file_key(i, &help)); i++) printf("  %s: %s\n", key, help);
}

static void print_commands(void)
{
    puts("usage: darknet COMMAND ...   (each takes --help)\n");
    for (const struct command *c = commands; c->name; c++)
        printf("  darknet %s\n      %s\n", c->usage, c->help);
    puts("\nSections of a cfg (darknet help SECTION lists the keys of one, darknet help layers those of "
         "all):");
    printf("  net");
    for (int i = 0; layer_at(i); i++) printf(" %s", layer_at(i)->name);
    puts("\n\nKeys of a data file: darknet help data");
}

static int help_section(const char *name, struct err *e)
{
    size_t n = strlen(name);
    char bare[64]; /* [route] and route are the same */
    if (n > 2 && n < sizeof bare && name[0] == '[' && name[n - 1] == ']') {
        snprintf(bare, sizeof bare, "%.*s", (int)n - 2, name + 1);
        name = bare;
    }
    const struct layer_ops *ops = layer_find(name);
    if (cfg_is_net(name)) {
        puts("[net] or [network]: the first section: input, batch, optimiser, augmentation");
        print_keys(net_config_keys);
    } else if (ops) {
        print_layer(ops);
    } else {
        return fail(e, E_ARG, "help: no command and no section is called '%.60s'%s (darknet help lists them)",
                    name, text_hint("", layer_nearest(name), "").text);
    }
    return OK;
}

static const struct command *command_named(const char *name)
{
    for (const struct command *c = commands; c->name; c++)
        if (c->help && !strcmp(c->name, name)) return c;
    return NULL;
}

/* The group of a command may stand before it. */
int cli_help(const struct cli *c, struct err *e)
{
    const char *word = c->narg ? c->arg[c->narg - 1] : NULL;
    int group = c->narg && !strcmp(c->arg[0], "classifier");
    const struct command *cmd = word ? command_named(word) : NULL;
    if (c->narg > 1 && !group) return fail(e, E_ARG, "help: unexpected argument '%.60s'", word);
    if (!word || (group && c->narg == 1))
        print_commands();
    else if (cmd)
        cli_help_command(cmd);
    else if (!strcmp(word, "layers"))
        print_layers();
    else if (!strcmp(word, "data"))
        print_data_keys();
    else
        return help_section(word, e);
    return OK;
}

void cli_help_command(const struct command *cmd)
{
    if (cmd->id == CMD_HELP) {
        print_commands();
    } else {
        printf("usage: darknet %s\n\n%s\n\n", cmd->usage, cmd->help);
        args_describe(cmd);
    }
}

int cli_version(const struct cli *c, struct err *e)
{
    (void)c, (void)e;
    printf("darknet %s\n", DN_VERSION);
    for (int i = 0; backend_at(i); i++)
        printf("device %s%s: %s\n", backend_at(i)->name, i ? "" : " (default)", backend_at(i)->version());
    for (int i = 0; decoder_at(i); i++)
        printf("images %s: %s\n", decoder_at(i)->name, decoder_at(i)->version());
    if (group_version()) printf("processes: %s\n", group_version());
    for (int i = 0; backend_at(i); i++) {
        const struct sum_ops *sum = backend_at(i)->sum;
        if (sum && sum->version) printf("processes on %s: %s\n", backend_at(i)->name, sum->version());
    }
    return OK;
}
