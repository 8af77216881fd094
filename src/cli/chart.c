#include "chart.h"
#include <math.h>
#include <stdio.h>
#include "core/array.h"
#include "cli/canvas.h"
#include "core/mem.h"

enum { WIDTH = 960, HEIGHT = 540, LEFT = 80, RIGHT = 80, TOP = 30, BOTTOM = 50, TICKS = 5 };
enum { BLACK = 0, GRID = 0xdddddd, BLUE = 0x1f5fbf, RED = 0xd03020 };

int curve_add(struct curve *c, double x, double y, struct err *e)
{
    if (array_grow(&c->point, c->n, sizeof *c->point)) return fail(e, E_MEM, "no memory for the chart");
    c->point[c->n++] = (struct chart_point){ x, y };
    return OK;
}

void chart_free(struct chart *c)
{
    mem_free(c->loss.point);
    mem_free(c->accuracy.point);
}

/* ---- axes ---- */

/* The smallest of 1, 2, 2.5, 5 times a power of ten that is not below v, so that the labels at its fifths are
 * short. */
static double nice(double v)
{
    static const double steps[] = { 1, 2, 2.5, 5, 10 };
    if (!(v > 0)) return 1;
    const double ten = pow(10, floor(log10(v)));
    size_t i = 0;
    while (i < 4 && steps[i] * ten < v) i++;
    return steps[i] * ten;
}

static double at_x(double share) { return LEFT + share * (WIDTH - LEFT - RIGHT); }
static double at_y(double share) { return TOP + (1 - share) * (HEIGHT - TOP - BOTTOM); }

static void draw_axes(struct canvas *c, double last, double loss)
{
    char s[32];
    for (int i = 0; i <= TICKS; i++) {
        const double share = (double)i / TICKS;
        const int x = (int)at_x(share), y = (int)at_y(share);
        canvas_line(c, at_x(0), y, at_x(1), y, GRID);
        canvas_line(c, x, at_y(0), x, at_y(1), GRID);
        snprintf(s, sizeof s, "%.4g", loss * share);
        canvas_text(c, LEFT - 8 - canvas_width(s), y - CANVAS_TEXT / 2, s, BLUE);
        snprintf(s, sizeof s, "%g%%", 100 * share);
        canvas_text(c, WIDTH - RIGHT + 10, y - CANVAS_TEXT / 2, s, RED);
        snprintf(s, sizeof s, "%.0f", last * share);
        canvas_text(c, x - canvas_width(s) / 2, HEIGHT - BOTTOM + 10, s, BLACK);
    }
    canvas_text(c, LEFT, 6, "loss", BLUE);
    canvas_text(c, WIDTH - RIGHT - canvas_width("top-1"), 6, "top-1", RED);
    canvas_text(c, WIDTH / 2 - canvas_width("iteration") / 2, HEIGHT - 20, "iteration", BLACK);
}

static void draw_curve(struct canvas *to, const struct curve *c, double last, double most, int marked,
                       unsigned ink)
{
    double x0 = 0, y0 = 0;
    for (size_t i = 0; i < c->n; i++) {
        const double x = at_x(c->point[i].x / last), y = at_y(fmin(c->point[i].y / most, 1));
        if (i) canvas_line(to, x0, y0, x, y, ink);
        if (marked) canvas_fill(to, (int)x - 3, (int)y - 3, 7, 7, ink);
        x0 = x, y0 = y;
    }
}

int chart_write(const struct chart *c, const char *path, struct err *e)
{
    double last = 1, loss = 0;
    struct canvas to;
    TRY(canvas_open(&to, WIDTH, HEIGHT, e));
    for (size_t i = 0; i < c->loss.n; i++) loss = fmax(loss, c->loss.point[i].y);
    if (c->loss.n) last = fmax(last, c->loss.point[c->loss.n - 1].x);
    last = TICKS * ceil(last / TICKS); /* whole numbers at the ticks */
    loss = nice(loss);
    draw_axes(&to, last, loss);
    draw_curve(&to, &c->loss, last, loss, 0, BLUE);
    draw_curve(&to, &c->accuracy, last, 1, 1, RED);
    int rc = canvas_write(&to, path, e);
    canvas_close(&to);
    return rc;
}
