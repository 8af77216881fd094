/* A picture to draw on: pixels of red, green and blue, (0, 0) in the upper left corner, white at first.
 * Colours are 0xRRGGBB. Drawing outside it has no effect. */
#ifndef CLI_CANVAS_H
#define CLI_CANVAS_H
#include <stddef.h>
#include <stdint.h>
#include "core/err.h"

struct canvas {
    int w, h;
    uint8_t *rgb;
};
int canvas_open(struct canvas *, int w, int h, struct err *);
int canvas_write(const struct canvas *, const char *path, struct err *); /* as PNG */
void canvas_close(struct canvas *);

void canvas_dot(struct canvas *, int x, int y, unsigned color);
void canvas_fill(struct canvas *, int x, int y, int w, int h, unsigned color);
void canvas_line(struct canvas *, double x0, double y0, double x1, double y1, unsigned color);

enum { CANVAS_TEXT = 14 }; /* height of a line of text, pixels */
/* Digits and the letters of "answer", "iteration", "loss", "top-1", "truth"; others are blank. */
void canvas_text(struct canvas *, int x, int y, const char *text, unsigned color);
int canvas_width(const char *text);

#endif
