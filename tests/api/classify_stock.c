/* classify_stock CFG WEIGHTS DATA IMAGE...
 *
 * Written against the header of pjreddie's Darknet, and compiled twice: with Debian's libdarknet, and, by
 * -DHEADER='"darknet_compat.h"', with ours. Prints numbers, one a line, each with its name. */
#ifndef HEADER
#define HEADER "darknet.h"
#endif
#include HEADER

static void print(const char *what, const float *x, int n)
{
    for (int i = 0; i < n; i++) printf("%s[%d] %.7g\n", what, i, x[i]);
}

static void print_image(const char *what, image m)
{
    printf("%s.w %d\n%s.h %d\n%s.c %d\n", what, m.w, what, m.h, what, m.c);
    print(what, m.data, m.w * m.h * m.c);
}

/* Images of other sizes, as programs make them before they predict. */
static void transform(image im, int w, int h)
{
    image list[] = { resize_image(im, w, h),
                     letterbox_image(im, w, h),
                     center_crop_image(im, w, h),
                     crop_image(im, -2, 1, 9, 6),
                     copy_image(im),
                     make_image(3, 2, 1) };
    static const char *const names[] = { "resize", "letterbox", "center_crop", "crop", "copy", "make" };
    for (int i = 0; i < 6; i++) {
        print_image(names[i], list[i]);
        free_image(list[i]);
    }
    image shorter = resize_min(im, 5), longer = resize_max(im, 11);
    print_image("resize_min", shorter);
    print_image("resize_max", longer);
    if (shorter.data != im.data) free_image(shorter);
    if (longer.data != im.data) free_image(longer);
    image same = resize_min(im, im.w < im.h ? im.w : im.h);
    printf("same %d\n", same.data == im.data);
    image turned = copy_image(im);
    flip_image(turned);
    rgbgr_image(turned);
    print_image("turned", turned);
    free_image(turned);
}

static void classify(network *net, char **names, int top, char *path)
{
    int *index = calloc(top, sizeof(int));
    image im = load_image_color(path, 0, 0);
    image sized = letterbox_image(im, net->w, net->h);
    float *said = network_predict(net, sized.data);
    print("probability", said, net->outputs);
    top_k(said, net->outputs, top, index);
    for (int i = 0; i < top; i++) printf("top %d %s\n", index[i], names[index[i]]);
    top_predictions(net, top, index);
    for (int i = 0; i < top; i++) printf("top_predictions %d\n", index[i]);
    said = network_predict_image(net, im);
    print("network_predict_image", said, net->outputs);
    transform(im, net->w, net->h);
    free_image(sized);
    free_image(im);
    free(index);
}

/* Two images at once. */
static void batch(char *cfg, char *weights, char *path)
{
    network *net = load_network(cfg, weights, 0);
    image im = load_image_color(path, network_width(net), network_height(net));
    float *input = calloc(2 * net->inputs, sizeof(float));
    for (int i = 0; i < net->inputs; i++) {
        input[i] = im.data[i];
        input[net->inputs + i] = 1 - im.data[i];
    }
    print("batch", network_predict(net, input), 2 * net->outputs);
    free(input);
    free_image(im);
    free_network(net);
}

/* A colour image for a net that takes gray ones. */
static void gray(char *cfg, char *path)
{
    network *net = load_network(cfg, NULL, 0);
    image im = load_image_color(path, 0, 0);
    print("gray", network_predict_image(net, im), net->outputs);
    free_image(im);
    free_network(net);
}

int main(int argc, char **argv)
{
    char *gray_cfg = find_char_arg(argc, argv, "-gray", "none");
    char *word = find_char_arg(argc, argv, "-word", "none");
    int number = find_int_arg(argc, argv, "-number", 7), flag = find_arg(argc, argv, "-flag");
    printf("arguments %s %d %d\n", word, number, flag);
    char *cfg = argv[1], *weights = argv[2];
    network *net = load_network(cfg, weights, 0);
    set_batch_network(net, 1);
    printf("n %d\ninputs %d\noutputs %d\nw %d\nh %d\nc %d\nseen %d\nhierarchy %d\n", net->n, net->inputs,
           net->outputs, net->w, net->h, net->c, (int)*net->seen, net->hierarchy != 0);
    metadata meta = get_metadata(argv[3]);
    list *options = read_data_cfg(argv[3]);
    char **names = get_labels(option_find_str(options, "names", "none"));
    list *plist = get_paths(option_find_str(options, "names", "none"));
    char **paths = (char **)list_to_array(plist);
    printf("classes %d\ntop %d\nlines %d\nabsent %s\n", meta.classes, option_find_int(options, "top", 1),
           plist->size, option_find_str(options, "absent", "default"));
    for (int i = 0; i < meta.classes; i++) printf("name %s %s %s\n", meta.names[i], names[i], paths[i]);
    char *base = basecfg(cfg);
    printf("basecfg %s\n", base);
    for (int i = 4; i < argc && argv[i]; i++)
        classify(net, names, option_find_int(options, "top", 1), argv[i]);
    batch(cfg, weights, argv[4]);
    gray(gray_cfg, argv[4]);
    free(base);
    free(paths);
    free_list(plist);
    free_ptrs((void **)meta.names, meta.classes);
    free_ptrs((void **)names, meta.classes);
    free_network(net);
    return what_time_is_it_now() < 1e9;
}
