/* The names of pjreddie's Darknet (darknet.h of 2018, Debian's libdarknet) for programs that classify images:
 * with this header and -ldarknet-itra in the place of darknet.h and -ldarknet they compile, and get its
 * numbers.
 *
 * It is a layer over darknet.h, and deliberately different in this:
 *  - What fails prints one line on stderr and returns NULL (0), or an image or metadata without contents, as
 *    each function says; so does a network that is NULL. Nothing else is printed, and nothing exits.
 *  - `network` has the members below only. Detection, recurrent nets, training and drawing are not here:
 * train with `darknet classifier train`, or dn_train and dn_step of darknet.h. (A few names of theirs are,
 * since darknet.py asks for them: they do nothing and say so.)
 *  - Keys that only our cfgs have hold here too: mean and std of [net] are applied to the input.
 *  - The last row of a resized image is the image's own; rounding loses it there at some sizes.
 *  - Different networks may be used in different threads.
 *
 * All memory is malloc's, as there: what has no free_... function of its own is for free(). */
#ifndef DARKNET_COMPAT_H
#define DARKNET_COMPAT_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined __GNUC__
#pragma GCC visibility push(default)
#endif

/* ---- images ---- */

/* c planes of h rows of w values, as a rule in [0, 1]; RGB. */
typedef struct {
    int w;
    int h;
    int c;
    float *data;
} image;

image make_image(int w, int h, int c); /* of zeros; without contents if memory is short */
image copy_image(image m);
image float_to_image(int w, int h, int c, float *data); /* over data, which stays the caller's */
void free_image(image m);

/* A file with c planes, 1 (luma) or 3 (also for c = 0), resized to w x h unless one of those is 0. Turned
 * upright, as its EXIF data says. Without contents if it cannot be read. */
image load_image(char *filename, int w, int h, int c);
image load_image_color(char *filename, int w, int h);

/* New images. Bilinear, the corners staying corners. */
image resize_image(image m, int w, int h);
image letterbox_image(image m, int w, int h);            /* fitted inside, the rest .5 */
image crop_image(image m, int dx, int dy, int w, int h); /* beyond the edge its pixels go on */
image center_crop_image(image m, int w, int h);          /* the central square, resized */
/* The shorter or the longer side becomes this long. The image itself, not a copy, if it is so long already.
 */
image resize_min(image m, int min);
image resize_max(image m, int max);

/* In place. */
void fill_image(image m, float s);
void flip_image(image m);      /* left and right change places */
void rgbgr_image(image m);     /* the first and the third of three planes change places */
void constrain_image(image m); /* to [0, 1] */

/* ---- networks ---- */

typedef struct tree tree; /* hierarchies of classes are refused when a cfg is read */

typedef struct network {
    int n;         /* layers */
    int batch;     /* images of network_predict: batch / subdivisions of the cfg, until set_batch_network */
    size_t *seen;  /* images of training so far; save_weights writes it */
    float *output; /* of the last network_predict: batch x outputs */
    int inputs, outputs, truths; /* numbers of an image, and of what is said of it */
    int h, w, c;                 /* of an image */
    tree *hierarchy;             /* NULL */
    void *handle;                /* private */
} network;

/* A cfg, and its weights unless they are NULL or "". clear: counts `seen` from 0. NULL if either cannot be
 * read. */
network *load_network(char *cfg, char *weights, int clear);
network *parse_network_cfg(char *filename); /* with random weights */
void load_weights(network *net, char *filename);
void save_weights(network *net, char *filename);
void free_network(network *net); /* accepts NULL */

void set_batch_network(network *net, int b);
int network_width(network *net);
int network_height(network *net);

/* net->output, which the next call overwrites: class probabilities of net->batch images, which follow one
 * another. NULL if it fails. */
float *network_predict(network *net, float *input);
/* Those of one image of any size, by letterbox_image. Sets the batch to 1. Of more planes than the network
 * takes the first count, as in Darknet: of a colour image red, where the network takes gray ones (load_image
 * with c = 1 reads those). */
float *network_predict_image(network *net, image im);

/* index gets the k largest, the largest first; of equal ones the first. */
void top_predictions(network *net, int k, int *index); /* of the first image of net->output */
void top_k(float *a, int n, int k, int *index);
int max_index(float *a, int n); /* -1 where n is 0 */

/* ---- data files and lists ---- */

typedef struct {
    int classes;
    char **names;
} metadata;

typedef struct node {
    void *val;
    struct node *next;
    struct node *prev;
} node;

typedef struct list {
    int size;
    node *front;
    node *back;
} list;

/* `classes` of a .data file (2 if it has none), and the lines of its `names`, else of its `labels`. Without
 * contents if one of the files cannot be read or the list is shorter than `classes`. */
metadata get_metadata(char *file);
/* The lines of a file, and behind them a NULL. NULL if it cannot be read. */
char **get_labels(char *filename);
list *get_paths(char *filename); /* the same as a list */

/* The lines key = value of a file, blanks trimmed, without comments (#, ;). NULL if it cannot be read. Texts
 * are the list's; free_data_cfg, which is ours, frees both. */
list *read_data_cfg(char *filename);
char *option_find_str(list *l, char *key, char *def);
int option_find_int(list *l, char *key, int def);
int option_find_int_quiet(list *l, char *key, int def);
float option_find_float(list *l, char *key, float def);
void free_data_cfg(list *l);

void **list_to_array(list *l);      /* of what the list holds; for free() */
void free_list(list *l);            /* not what it holds */
void free_ptrs(void **ptrs, int n); /* these n, and the array */

/* ---- command lines ---- */

/* Is the word there; the value behind it. Both are taken out of argv, which must have room for a NULL behind
 * its end. */
int find_arg(int argc, char *argv[], char *arg);
int find_int_arg(int argc, char **argv, char *arg, int def);
float find_float_arg(int argc, char **argv, char *arg, float def);
char *find_char_arg(int argc, char **argv, char *arg, char *def);
char *basecfg(char *cfgfile);     /* its name without folders, up to the first dot; for free() */
double what_time_is_it_now(void); /* seconds */

/* ---- what darknet.py asks for ---- */

typedef struct detection detection;
void cuda_set_device(int n);  /* nothing: the default device is used */
void reset_rnn(network *net); /* nothing: recurrent nets are refused when a cfg is read */
/* Say that there is no detection here; NULL. */
detection *get_network_boxes(network *net, int w, int h, float thresh, float hier, int *map, int relative,
                             int *num);
detection *make_network_boxes(network *net, float thresh, int *num);
void free_detections(detection *dets, int n);
void do_nms_obj(detection *dets, int total, int classes, float thresh);
void do_nms_sort(detection *dets, int total, int classes, float thresh);
void hierarchy_predictions(float *predictions, int n, tree *hier, int only_leaves, int stride);

#if defined __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
