/* The table of commands. Errors are printed here and nowhere else. */
#include <stdio.h>
#include <string.h>
#include "cli/cli.h"
#include "core/text.h"

const struct command commands[] = {
    { "classifier", "train", CMD_TRAIN, 2, 3, "classifier train DATA CFG [WEIGHTS] [FLAGS]",
      "train, validate and save into the backup folder", cli_train },
    { "classifier", "valid", CMD_VALID, 3, 3, "classifier valid DATA CFG WEIGHTS [FLAGS]",
      "accuracy, cross-entropy and a table of classes over the validation images", cli_valid },
    { "classifier", "validcrop", CMD_VALID, 3, 3, "classifier validcrop DATA CFG WEIGHTS [FLAGS]",
      "as valid, but the net sees the whole of each image", cli_valid },
    { "classifier", "valid10", CMD_VALID, 3, 3, "classifier valid10 DATA CFG WEIGHTS [FLAGS]",
      "as valid, with the mean of ten crops of each image", cli_valid },
    { "classifier", "predict", CMD_PREDICT, 3, -1, "classifier predict DATA CFG WEIGHTS IMAGE... [FLAGS]",
      "the most probable classes of images", cli_predict },
    { NULL, "classify", CMD_CLASSIFY, 2, -1, "classify CFG WEIGHTS IMAGE... [FLAGS]",
      "classifier predict with cfg/imagenet1k.data and the 5 most probable classes", cli_classify },
    { "classifier", "label", CMD_LABEL, 3, -1, "classifier label DATA CFG WEIGHTS [IMAGE...] [FLAGS]",
      "the name of the most probable class of each image (those of test=)", cli_predict },
    { "classifier", "test", CMD_LABEL, 3, -1, "classifier test DATA CFG WEIGHTS [IMAGE...] [FLAGS]",
      "the probabilities of all classes for each image (those of test=)", cli_predict },
    { "classifier", "csv", CMD_LABEL, 3, -1, "classifier csv DATA CFG WEIGHTS [IMAGE...] [FLAGS]",
      "the numbers of the most probable classes of each image (those of test=)", cli_predict },
    { "classifier", "demo", CMD_DEMO, 3, 4, "classifier demo DATA CFG WEIGHTS [VIDEO] [FLAGS]",
      "the most probable classes of each frame of a video file, an address or a camera (build with OPENCV=1), "
      "or of numbered images (frame_%04d.png); as text: no display is needed",
      cli_demo },
    { "classifier", "features", CMD_FEATURES, 3, 3,
      "classifier features DATA CFG WEIGHTS -out FILE.npy [FLAGS]",
      "the features that the classifier sees, of every validation image, as NumPy arrays", cli_features },
    { "classifier", "prepare", CMD_PREPARE, 1, 1, "classifier prepare DIR [FLAGS]",
      "write a .data file and lists for images in a folder per class: DIR/cat/1.jpg, or already split: "
      "DIR/train/cat/1.jpg, DIR/valid/cat/2.jpg",
      cli_prepare },
    { NULL, "ops", CMD_NET, 1, 1, "ops CFG [FLAGS]",
      "shapes, parameters, operations and memory of every layer", cli_ops },
    { NULL, "speed", CMD_NET, 1, 2, "speed CFG [N] [FLAGS]", "time N evaluations of one image (1000)",
      cli_speed },
    { NULL, "partial", CMD_WEIGHTS, 4, 4, "partial CFG WEIGHTS OUT N", "copy the weights of the first N layers",
      cli_partial },
    { NULL, "average", CMD_WEIGHTS, 3, -1, "average CFG OUT WEIGHTS...", "the mean of several weights",
      cli_average },
    { NULL, "denormalize", CMD_WEIGHTS, 3, 3, "denormalize CFG WEIGHTS OUT",
      "fold batch normalisation into weights and biases, for a cfg without it", cli_surgery },
    { NULL, "normalize", CMD_WEIGHTS, 3, 3, "normalize CFG WEIGHTS OUT",
      "add batch normalisation that changes nothing, for a cfg with it in every layer", cli_surgery },
    { NULL, "reset", CMD_WEIGHTS, 3, 3, "reset CFG WEIGHTS OUT",
      "fold batch normalisation and keep one that changes nothing", cli_surgery },
    { NULL, "rescale", CMD_WEIGHTS, 3, 3, "rescale CFG WEIGHTS OUT",
      "make weights for images of -1..1 into weights for 0..1", cli_surgery },
    { NULL, "rgbgr", CMD_WEIGHTS, 3, 3, "rgbgr CFG WEIGHTS OUT", "exchange red and blue in the first convolution",
      cli_surgery },
    { NULL, "statistics", CMD_WEIGHTS, 2, 2, "statistics CFG WEIGHTS",
      "mean square, mean and variance of every parameter", cli_statistics },
    { NULL, "export", CMD_EXPORT, 2, 2, "export CFG WEIGHTS -out FILE.onnx|FILE.safetensors [FLAGS]",
      "the net as ONNX (opset 17, any number of rows; its metadata say what images must be like), or its "
      "weights by name (0.convolutional.weights) as safetensors",
      cli_export },
    { NULL, "import", CMD_IMPORT, 2, 2, "import FILE.safetensors|FILE.pth CFG -out FILE.weights",
      "weights by name, of export or of torchvision's ResNet, VGG or MobileNetV2, for a cfg of the same layers; "
      "of PyTorch's own files a state dict, alone or as the state_dict or model of a training",
      cli_import },
    { NULL, "visualize", CMD_WEIGHTS, 2, 3, "visualize CFG WEIGHTS [OUT.png]",
      "draw the filters of the first convolution", cli_visualize },
    { NULL, "imtest", CMD_IMTEST, 1, 2, "imtest IMAGE [CFG] [FLAGS]",
      "draw what the augmentation of a cfg makes of an image", cli_imtest },
    { NULL, "strip", CMD_STRIP, 1, 2, "strip CFG [OUT]",
      "the cfg without training-only sections, for other Darknets (to stdout, or OUT)", cli_strip },
    { NULL, "version", CMD_VERSION, 0, 0, "version", "versions of the program and its libraries",
      cli_version },
    { NULL, "help", CMD_HELP, 0, 2, "help [COMMAND | layers | SECTION | data]",
      "commands, the flags of one, the keys of cfg sections, or those of data files", cli_help },
    { NULL, NULL, 0, 0, 0, NULL, NULL, NULL },
};

static int in_group(const struct command *c, const char *group)
{
    return group ? c->group && !strcmp(c->group, group) : !c->group;
}

/* Commands of other Darknets, each with what to use here, if there is such a thing. */
static const struct {
    const char *name, *instead;
} elsewhere[] = {
    { "imagenet", "darknet classifier train, valid or predict with cfg/imagenet1k.data" },
    { "cifar", "darknet classifier train data/cifar10.data CFG" },
    { "oneoff", "darknet partial CFG WEIGHTS OUT N, or classifier train -finetune" },
    { "oneoff2", "darknet partial CFG WEIGHTS OUT N, or classifier train -finetune" },
    { "mkimg", "darknet visualize CFG WEIGHTS" },
    { "validfull", "darknet classifier valid ... -set net.width=320 -set net.height=320" },
    { "validmulti", "darknet classifier valid10, or valid ... -set net.width=320 -set net.height=320" },
    { "try", "darknet classifier predict -center" },
    { "fout", "darknet classifier test ... -list FILE" },
    { "print", "darknet statistics CFG WEIGHTS" },
    { "reset_normalize", "darknet reset CFG WEIGHTS OUT" },
    { "gun", NULL },
    { "threat", NULL },
    { "detector", NULL },
    { "detect", NULL },
    { "yolo", NULL },
    { "coco", NULL },
    { "voxel", NULL },
    { "super", NULL },
    { "segmenter", NULL },
    { "isegmenter", NULL },
    { "regressor", NULL },
    { "rnn", NULL },
    { "char", NULL },
    { "vid", NULL },
    { "go", NULL },
    { "dice", NULL },
    { "writing", NULL },
    { "captcha", NULL },
    { "compare", NULL },
    { "composite", NULL },
    { "nightmare", NULL },
    { "lsd", NULL },
    { "art", NULL },
    { "tag", NULL },
    { "3d", NULL },
    { "test", NULL },
};

static int unknown_command(const char *group, const char *given, struct err *e)
{
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
        if (!strcmp(given, elsewhere[i].name))
            return fail(e, E_ARG,
                        "'%s' of other Darknets is not part of this one, which is for classifiers%s%s", given,
                        elsewhere[i].instead ? ": use " : " (see: darknet help)",
                        elsewhere[i].instead ? elsewhere[i].instead : "");
    const char *near = group ? NULL : text_nearer(given, NULL, "classifier");
    for (const struct command *c = commands; c->name; c++)
        if (in_group(c, group)) near = text_nearer(given, near, c->name);
    const char *before = "";
    if (!near && !group) before = "classifier ";
    for (const struct command *c = commands; *before && c->name; c++)
        near = text_nearer(given, near, c->name);
    return fail(e, E_ARG, "unknown command '%s%s%.60s'%s (see: darknet help)", group ? group : "",
                group ? " " : "", given, text_hint(before, near, "").text);
}

/* For a group without a command. */
static int no_command(const char *group, struct err *e)
{
    char known[300] = "";
    size_t n = 0;
    for (const struct command *c = commands; c->name; c++)
        if (in_group(c, group) && n < sizeof known)
            n += (size_t)snprintf(known + n, sizeof known - n, "%s%s", n ? ", " : "", c->name);
    return fail(e, E_ARG, "%s: expected one of %s after it (see: darknet help)", group, known);
}

/* The command that a flag in its place stands for, or NULL. */
static const char *flag_command(const char *word)
{
    if (!strcmp(word, "-h") || !strcmp(word, "-help") || !strcmp(word, "--help")) return "help";
    return !strcmp(word, "--version") || !strcmp(word, "-version") ? "version" : NULL;
}

/* Moves the first word, from argv[at] on, that is neither a flag nor the value of one to argv[at], so that
 * flags may come before it. */
static const char *bring_forward(int argc, char **argv, int at)
{
    int i = at;
    while (i < argc && args_words(argv[i])) i += args_words(argv[i]);
    if (i >= argc) return NULL;
    char *word = argv[i];
    memmove(argv + at + 1, argv + at, (size_t)(i - at) * sizeof *argv);
    return argv[at] = word;
}

/* Finds the command; *used gets the number of words at the start of argv that are not its arguments. */
static int choose(int argc, char **argv, const struct command **cmd, int *used, struct err *e)
{
    const char *group = NULL, *name = argc > 1 ? flag_command(argv[1]) : NULL;
    *used = 2;
    if (!name) name = bring_forward(argc, argv, 1);
    if (name && !strcmp(name, "classifier")) {
        group = name;
        name = bring_forward(argc, argv, (*used)++);
    }
    if (!name && group && argc > 2 && flag_command(argv[2])) {
        name = flag_command(argv[2]);
        group = NULL;
    }
    if (!name && group) return no_command(group, e);
    if (!name) return fail(e, E_ARG, "no command given (see: darknet help)");
    for (*cmd = commands; (*cmd)->name; ++*cmd)
        if (in_group(*cmd, group) && !strcmp((*cmd)->name, name)) return OK;
    return unknown_command(group, name, e);
}

static int run(int argc, char **argv, struct err *e)
{
    const struct command *cmd = NULL;
    struct cli cli;
    int used = 0;
    TRY(choose(argc, argv, &cmd, &used, e));
    int rc = args_parse(&cli, argc - used, argv + used, cmd, e);
    cli.program = argv[0];
    if (!rc && cli.help)
        cli_help_command(cmd);
    else if (!rc)
        rc = cmd->run(&cli, e);
    args_free(&cli);
    return rc;
}

int main(int argc, char **argv)
{
    struct err e = { 0 };
    output_open();
    int rc = run(argc, argv, &e);
    if (rc >= 0 && output_check(&e)) rc = e.code;
    if (rc < 0) fprintf(stderr, "darknet: %s\n", e.code ? e.msg : err_text(rc));
    return rc < 0 ? 1 : rc;
}
