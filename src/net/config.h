/* The [net] section: what a net is trained on, and how. */
#ifndef NET_CONFIG_H
#define NET_CONFIG_H
#include "backend/backend.h"
#include "core/options.h"

enum policy {
    POLICY_CONSTANT,
    POLICY_STEP,
    POLICY_STEPS,
    POLICY_EXP,
    POLICY_POLY,
    POLICY_SIGMOID,
    POLICY_RANDOM,
    POLICY_SGDR
};

enum start { START_DARKNET, START_PYTORCH }; /* init= */

/* The [net] section. Names are the cfg's. */
struct net_config {
    int batch, subdivisions, width, height, channels, inputs;
    double learning_rate, momentum, decay;
    int adam;
    double B1, B2, eps, ema_alpha;
    int policy;
    int burn_in, step, max_batches, sgdr_cycle;
    double power, scale, gamma, learning_rate_min, sgdr_mult;
    struct list steps, scales;
    int max_crop, min_crop;
    double max_ratio, min_ratio;
    double angle, aspect, saturation, exposure, hue;
    int flip, pad_crop;
    int letter_box, blur;
    int mixup, cutmix, mosaic; /* mixup: once read, what all three ask for: enum mix, of data/mix.h */
    struct list mean, std;
    int init;
    int precision;
    int sync_bn;
    double bn_momentum, label_smooth_eps, valid_every;
    int patience;
};
extern const struct key net_config_keys[];

/* A cfg from a file, with overrides "section.key=value" (NULL-terminated) and another precision=; NULL: none.
 */
int net_read_cfg(struct cfg **, const char *path, const char *const *set, const char *precision,
                 struct err *);

/* Fills the config from the first section of a cfg and checks it. Unknown keys are noted. E_CFG also where
 * the device lacks the precision. */
int config_read(struct net_config *, struct cfg *, const struct backend *, const struct notes *,
                struct err *);

/* Notes settings that work but that nobody who trains is likely to intend. */
void config_note_training(const struct net_config *, const char *path, const struct notes *);

/* Is the input an image, with height and width, or just a list of numbers (inputs=)? */
static inline int config_is_image(const struct net_config *c) { return c->height && c->width && c->channels; }
/* The shape of `rows` rows of input. */
static inline struct shape config_shape(const struct net_config *c, int rows)
{
    return config_is_image(c) ? (struct shape){ rows, c->channels, c->height, c->width }
                              : (struct shape){ rows, c->inputs, 1, 1 };
}

#endif
