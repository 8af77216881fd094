"""stock.py LIBRARY CFG WEIGHTS DATA IMAGE...

A script for pjreddie's libdarknet: prints what it makes of images, a number a line. LIBRARY "compat": darknet_itra.compat.
"""
import sys
from ctypes import CDLL, POINTER, RTLD_GLOBAL, Structure, c_char_p, c_float, c_int, c_void_p


class IMAGE(Structure):
    _fields_ = [("w", c_int), ("h", c_int), ("c", c_int), ("data", POINTER(c_float))]


class METADATA(Structure):
    _fields_ = [("classes", c_int), ("names", POINTER(c_char_p))]


FUNCTIONS = {
    "load_net": ("load_network", c_void_p, c_char_p, c_char_p, c_int),
    "load_meta": ("get_metadata", METADATA, c_char_p),
    "load_image": ("load_image_color", IMAGE, c_char_p, c_int, c_int),
    "letterbox_image": ("letterbox_image", IMAGE, IMAGE, c_int, c_int),
    "make_image": ("make_image", IMAGE, c_int, c_int, c_int),
    "rgbgr_image": ("rgbgr_image", None, IMAGE),
    "free_image": ("free_image", None, IMAGE),
    "predict": ("network_predict", POINTER(c_float), c_void_p, POINTER(c_float)),
    "predict_image": ("network_predict_image", POINTER(c_float), c_void_p, IMAGE),
    "set_batch_network": ("set_batch_network", None, c_void_p, c_int),
    "network_width": ("network_width", c_int, c_void_p),
    "network_height": ("network_height", c_int, c_void_p),
    "reset_rnn": ("reset_rnn", None, c_void_p),
}


class Stock:
    def __init__(self, library):
        lib = CDLL(library, RTLD_GLOBAL)
        for name, (stock_name, result, *arguments) in FUNCTIONS.items():
            function = getattr(lib, stock_name)
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)

    def c_array(self, ctype, values):
        return (ctype * len(values))(*values)

    def classify(self, net, meta, im):
        out = self.predict_image(net, im)
        return sorted([(meta.names[i], out[i]) for i in range(meta.classes)], key=lambda pair: -pair[1])


def say(*words):
    print("script:", *words, flush=True)


def main(library, cfg, weights, data, *images):
    if library == "compat":
        import darknet_itra.compat as dn
    else:
        dn = Stock(library)
    net = dn.load_net(cfg.encode(), weights.encode(), 0)
    meta = dn.load_meta(data.encode())
    width, height = dn.network_width(net), dn.network_height(net)
    say("classes", meta.classes, "size", width, height)
    dn.set_batch_network(net, 1)
    dn.reset_rnn(net)
    for path in images:
        im = dn.load_image(path.encode(), 0, 0)
        say(path, im.w, im.h, im.c)
        blank, boxed = dn.make_image(5, 4, 3), dn.letterbox_image(im, width, height)
        for image in (im, blank):
            for name, p in dn.classify(net, meta, image):
                say(name.decode(), p)
        dn.rgbgr_image(boxed)
        array = dn.c_array(c_float, [k % 10 / 10 for k in range(3 * width * height)])
        for values in (boxed.data, array):
            for p in dn.predict(net, values)[:meta.classes]:
                say(p)
        for image in (boxed, blank, im):
            dn.free_image(image)


main(*sys.argv[1:])
