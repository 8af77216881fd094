#include "canvas.h"
#include <math.h>
#include <string.h>
#include "core/mem.h"
#include "data/image.h"

int canvas_open(struct canvas *c, int w, int h, struct err *e)
{
    *c = (struct canvas){ w, h, mem_alloc((size_t)w * (size_t)h, 3) };
    if (!c->rgb) return fail(e, E_MEM, "not enough memory to draw %d x %d pixels", w, h);
    memset(c->rgb, 0xff, (size_t)w * (size_t)h * 3);
    return OK;
}

int canvas_write(const struct canvas *c, const char *path, struct err *e)
{
    return image_write_png(path, c->rgb, c->w, c->h, e);
}

void canvas_close(struct canvas *c) { mem_free(c->rgb); }

void canvas_dot(struct canvas *c, int x, int y, unsigned color)
{
    if (x < 0 || x >= c->w || y < 0 || y >= c->h) return;
    uint8_t *p = c->rgb + 3 * ((size_t)y * (size_t)c->w + (size_t)x);
    p[0] = (uint8_t)(color >> 16), p[1] = (uint8_t)(color >> 8), p[2] = (uint8_t)color;
}

void canvas_fill(struct canvas *c, int x, int y, int w, int h, unsigned color)
{
    for (int i = 0; i < h; i++)
        for (int k = 0; k < w; k++) canvas_dot(c, x + k, y + i, color);
}

void canvas_line(struct canvas *c, double x0, double y0, double x1, double y1, unsigned color)
{
    const double dx = x1 - x0, dy = y1 - y0, steps = ceil(fmax(fmax(fabs(dx), fabs(dy)), 1));
    for (double i = 0; i <= steps; i++)
        canvas_fill(c, (int)(x0 + dx * i / steps), (int)(y0 + dy * i / steps), 2, 2, color);
}

enum { GLYPH_W = 5, GLYPH_H = 7, ZOOM = 2, ADVANCE = (GLYPH_W + 1) * ZOOM };
_Static_assert(CANVAS_TEXT == GLYPH_H * ZOOM, "the height of a line of text");

/* What axes and legends need: rows from the top, the leftmost pixel in bit 4. */
static const struct glyph {
    char c;
    uint8_t row[GLYPH_H];
} glyphs[] = {
    { '0', { 14, 17, 19, 21, 25, 17, 14 } }, { '1', { 4, 12, 4, 4, 4, 4, 14 } },
    { '2', { 14, 17, 1, 2, 4, 8, 31 } },     { '3', { 31, 2, 4, 2, 1, 17, 14 } },
    { '4', { 2, 6, 10, 18, 31, 2, 2 } },     { '5', { 31, 16, 30, 1, 1, 17, 14 } },
    { '6', { 6, 8, 16, 30, 17, 17, 14 } },   { '7', { 31, 1, 2, 4, 8, 8, 8 } },
    { '8', { 14, 17, 17, 14, 17, 17, 14 } }, { '9', { 14, 17, 17, 15, 1, 2, 12 } },
    { '.', { 0, 0, 0, 0, 0, 12, 12 } },      { '-', { 0, 0, 0, 31, 0, 0, 0 } },
    { '+', { 0, 4, 4, 31, 4, 4, 0 } },       { '%', { 24, 25, 2, 4, 8, 19, 3 } },
    { 'a', { 0, 0, 14, 1, 15, 17, 15 } },    { 'e', { 0, 0, 14, 17, 31, 16, 14 } },
    { 'i', { 4, 0, 12, 4, 4, 4, 14 } },      { 'l', { 12, 4, 4, 4, 4, 4, 14 } },
    { 'n', { 0, 0, 22, 25, 17, 17, 17 } },   { 'o', { 0, 0, 14, 17, 17, 17, 14 } },
    { 'p', { 0, 0, 30, 17, 30, 16, 16 } },   { 'r', { 0, 0, 22, 25, 16, 16, 16 } },
    { 's', { 0, 0, 14, 16, 14, 1, 30 } },    { 'w', { 0, 0, 17, 17, 21, 21, 10 } },
    { 'u', { 0, 0, 17, 17, 17, 19, 13 } },   { 'h', { 16, 16, 22, 25, 17, 17, 17 } },
    { 't', { 8, 8, 28, 8, 8, 9, 6 } },
};

int canvas_width(const char *text) { return (int)strlen(text) * ADVANCE; }

void canvas_text(struct canvas *c, int x, int y, const char *text, unsigned color)
{
    for (; *text; text++, x += ADVANCE)
        for (size_t g = 0; g < sizeof glyphs / sizeof *glyphs; g++)
            for (int i = 0; glyphs[g].c == *text && i < GLYPH_H * GLYPH_W; i++)
                if (glyphs[g].row[i / GLYPH_W] >> (GLYPH_W - 1 - i % GLYPH_W) & 1)
                    canvas_fill(c, x + i % GLYPH_W * ZOOM, y + i / GLYPH_W * ZOOM, ZOOM, ZOOM, color);
}
