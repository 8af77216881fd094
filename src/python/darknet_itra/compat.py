"""The classifier calls of pjreddie's darknet.py, by its names and with its types; see include/darknet_compat.h.

    import darknet_itra.compat as dn

    net = dn.load_net(b"net.cfg", b"net.weights", 0)
    meta = dn.load_meta(b"net.data")
    for name, probability in dn.classify(net, meta, dn.load_image(b"cat.jpg", 0, 0))[:5]:
        print(name.decode(), probability)

Paths may also be str. What fails there by ending the program is a RuntimeError here.
"""
from __future__ import annotations

import os
from ctypes import POINTER, Structure, c_char_p, c_float, c_int, c_void_p

from ._library import lib


class IMAGE(Structure):
    """data: c planes of h rows of w values in [0, 1]."""

    _fields_ = [("w", c_int), ("h", c_int), ("c", c_int), ("data", POINTER(c_float))]


class METADATA(Structure):
    """names: bytes, one for each of the classes."""

    _fields_ = [("classes", c_int), ("names", POINTER(c_char_p))]


class _Path(c_char_p):
    @classmethod
    def from_param(cls, path):
        return None if path is None else c_char_p(os.fsencode(path))


def _made(result, function, _):
    made = result.data if isinstance(result, IMAGE) else result.names if isinstance(result, METADATA) else result
    if not made:
        raise RuntimeError(f"{function.__name__} failed: standard error says why")
    return result


def _declare(name, result, *arguments):
    function = lib[name]  # an object of its own: others may declare it otherwise
    function.argtypes, function.restype = arguments, result
    if result not in (None, c_int):
        function.errcheck = _made
    return function


load_net = load_network = _declare("load_network", c_void_p, _Path, _Path, c_int)
free_net = free_network = _declare("free_network", None, c_void_p)
network_width = _declare("network_width", c_int, c_void_p)
network_height = _declare("network_height", c_int, c_void_p)
set_batch_network = _declare("set_batch_network", None, c_void_p, c_int)
predict = network_predict = _declare("network_predict", POINTER(c_float), c_void_p, POINTER(c_float))
predict_image = network_predict_image = _declare("network_predict_image", POINTER(c_float), c_void_p, IMAGE)
load_meta = get_metadata = _declare("get_metadata", METADATA, _Path)
load_image = load_image_color = _declare("load_image_color", IMAGE, _Path, c_int, c_int)
make_image = _declare("make_image", IMAGE, c_int, c_int, c_int)
resize_image = _declare("resize_image", IMAGE, IMAGE, c_int, c_int)
letterbox_image = _declare("letterbox_image", IMAGE, IMAGE, c_int, c_int)
rgbgr_image = _declare("rgbgr_image", None, IMAGE)
free_image = _declare("free_image", None, IMAGE)
free_ptrs = _declare("free_ptrs", None, POINTER(c_void_p), c_int)
set_gpu = _declare("cuda_set_device", None, c_int)
reset_rnn = _declare("reset_rnn", None, c_void_p)


def c_array(ctype, values):
    """The values as an array of C."""
    return (ctype * len(values))(*values)


def classify(net, meta, im):
    """Pairs (name, probability) of an image, the most probable first."""
    prob = predict_image(net, im)
    return sorted(((meta.names[i], prob[i]) for i in range(meta.classes)), key=lambda pair: -pair[1])
