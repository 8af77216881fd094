#!/usr/bin/python3
"""Makes the JPEG files beside it (python3-pil): one small picture in each of the forms that decoders treat apart."""
import math
import os
import random

from PIL import Image

WIDTH, HEIGHT = 61, 45  # neither a multiple of the blocks of 8 or 16


def picture():
    random.seed(1)
    image = Image.new("RGB", (WIDTH, HEIGHT))
    for y in range(HEIGHT):
        for x in range(WIDTH):
            light = 128 + 50 * math.sin(x * .11) * math.cos(y * .07 + 1) + 20 * math.sin(x * .5 + y * .3)
            light += random.gauss(0, 4)
            inside = (x - 40) ** 2 + (y - 18) ** 2 < 144
            image.putpixel((x, y), tuple(int(light) + add for add in ((60, -40, -50) if inside else (0, 5, 20))))
    return image


def stripes(width):
    image = Image.new("RGB", (width, 5))
    for x in range(width):
        for y in range(5):
            image.putpixel((x, y), ((250, 10, 10), (10, 10, 250), (20, 240, 20))[(x + y) % 3])
    return image


def main():
    os.chdir(os.path.dirname(os.path.abspath(__file__)))
    image, turned = picture(), Image.Exif()
    turned[0x0112] = 6  # orientation: to be turned by 90 degrees, which no decoder here does
    image.save("444.jpg", quality=85, subsampling=0)
    image.save("422.jpg", quality=85, subsampling=1)
    image.save("420.jpg", quality=85, subsampling=2)
    image.save("progressive.jpg", quality=85, subsampling=2, progressive=True)
    image.save("turned.jpg", quality=85, subsampling=2, exif=turned)
    for width in range(1, 8):
        stripes(width).save(f"422-{width}.jpg", quality=60, subsampling=1)
        stripes(width).save(f"420-{width}.jpg", quality=60, subsampling=2)
    image.convert("L").save("gray.jpg", quality=85)
    image.convert("CMYK").save("cmyk.jpg", quality=85)


main()
