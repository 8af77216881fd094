"""include/darknet.h in ctypes: its structures and functions, and its errors as exceptions."""
from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, Structure, byref, c_char, c_char_p, c_double, c_float, c_int, c_int64, c_size_t, c_uint64, c_void_p
from enum import IntEnum
from pathlib import Path
from typing import Any

VERSION = "0.1.0"  # of the header
SONAME = "libdarknet-itra.so.0"


class Code(IntEnum):
    """What kind of error a DarknetError is."""

    ARG = -1  # bad argument
    CFG = -2  # bad configuration
    FILE = -3  # a file cannot be read or written
    FORMAT = -4  # bad file contents
    MEM = -5  # not enough memory
    DEVICE = -6  # device failure, or no such device
    NUMBER = -7  # a number is not finite


class DarknetError(Exception):
    """What the library cannot do. `code` says what kind of error it is, str() in one line what was found and expected."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(code, message)
        self.code = Code(code)

    def __str__(self) -> str:
        return str(self.args[1])


# ---- structures, each named as there without dn_ ----


class Error(Structure):
    _fields_ = [("code", c_int), ("msg", c_char * 480)]


SAY = ctypes.CFUNCTYPE(None, c_void_p, c_char_p)


class Options(Structure):
    _fields_ = [("device", c_char_p), ("threads", c_int), ("train", c_int), ("rows", c_int), ("seed", c_uint64),
                ("precision", c_char_p), ("deterministic", c_int), ("view", c_int), ("orient", c_int),
                ("set", POINTER(c_char_p)), ("say", SAY), ("say_ctx", c_void_p)]


class Param(Structure):
    _fields_ = [("name", c_char * 96), ("layer", c_int), ("rank", c_int), ("shape", c_int64 * 4), ("count", c_size_t)]


class Batch(Structure):
    _fields_ = [("images", c_void_p), ("label", c_void_p), ("n", c_int)]


class Stats(Structure):
    _fields_ = [("ce", c_double), ("match", c_double), ("lambda", c_double), ("center", c_double), ("rate", c_double),
                ("iteration", c_uint64), ("updated", c_int)]


class Progress(Structure):
    _fields_ = [("iteration", c_uint64), ("seen", c_uint64), ("epoch", c_double), ("ce", c_double), ("ce_smooth", c_double),
                ("match", c_double), ("lambda", c_double), ("rate", c_double), ("images_per_second", c_double),
                ("eta_seconds", c_double)]


class Score(Structure):
    _fields_ = [("iteration", c_uint64), ("epoch", c_double), ("top1", c_double), ("topk", c_double), ("ce", c_double),
                ("k", c_int), ("images", c_int), ("unreadable", c_int), ("best", c_int)]


ON_ITERATION = ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(Progress))
ON_VALIDATION = ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(Score))


class Training(Structure):
    _fields_ = [("name", c_char_p), ("backup", c_char_p), ("resume", c_char_p), ("workers", c_int), ("ctx", c_void_p),
                ("iteration", ON_ITERATION), ("validation", ON_VALIDATION)]


ON_IMAGE = ctypes.CFUNCTYPE(c_int, c_void_p, c_int, POINTER(c_float))


class Validation(Structure):
    _fields_ = [("workers", c_int), ("ctx", c_void_p), ("image", ON_IMAGE)]


# ---- functions ----


def _load() -> ctypes.CDLL:
    """The library that DARKNET_ITRA_LIBRARY names, else the one beside this file, else the system's."""
    beside = Path(__file__).with_name(SONAME)
    name = os.environ.get("DARKNET_ITRA_LIBRARY") or (str(beside) if beside.exists() else SONAME)
    try:
        library = ctypes.CDLL(name)
        library.dn_version.restype = c_char_p
        version = library.dn_version().decode()
    except (OSError, AttributeError) as error:
        raise ImportError(f"{error}: expected libdarknet-itra, made by pip install or make install, or named by "
                          "DARKNET_ITRA_LIBRARY") from None
    if version != VERSION:
        raise ImportError(f"{name}: version {version}: expected {VERSION}")
    return library


lib = _load()
__version__ = VERSION

_NET, _ERROR = c_void_p, POINTER(Error)
_FUNCTIONS: list[tuple[Any, ...]] = [
    (lib.dn_open, c_int, POINTER(_NET), c_char_p, POINTER(Options), _ERROR),
    (lib.dn_close, None, _NET),
    (lib.dn_classes, c_int, _NET),
    (lib.dn_input, c_int, _NET, POINTER(c_int), POINTER(c_int), POINTER(c_int)),
    (lib.dn_mini_batch, c_int, _NET),
    (lib.dn_seen, c_uint64, _NET),
    (lib.dn_set_seen, c_int, _NET, c_uint64, _ERROR),
    (lib.dn_load, c_int, _NET, c_char_p, _ERROR),
    (lib.dn_save, c_int, _NET, c_char_p, _ERROR),
    (lib.dn_prepare_file, c_int, _NET, c_char_p, c_void_p, _ERROR),
    (lib.dn_prepare_memory, c_int, _NET, c_char_p, c_size_t, c_void_p, _ERROR),
    (lib.dn_prepare_pixels, c_int, _NET, c_void_p, c_int, c_int, c_int, c_void_p, _ERROR),
    (lib.dn_params, c_int, _NET, _ERROR),
    (lib.dn_param_info, c_int, _NET, c_int, POINTER(Param), _ERROR),
    (lib.dn_find_param, c_int, _NET, c_char_p, _ERROR),
    (lib.dn_get_param, c_int, _NET, c_int, c_void_p, _ERROR),
    (lib.dn_set_param, c_int, _NET, c_int, c_void_p, _ERROR),
    (lib.dn_predict, c_int, _NET, c_void_p, c_int, c_void_p, _ERROR),
    (lib.dn_top, None, c_void_p, c_int, c_int, c_void_p),
    (lib.dn_layers, c_int, _NET),
    (lib.dn_feature_layer, c_int, _NET),
    (lib.dn_feature_size, c_int, _NET, c_int),
    (lib.dn_features, c_int, _NET, c_int, c_void_p, c_int, c_void_p, c_void_p, _ERROR),
    (lib.dn_rows, c_int, _NET, POINTER(c_int)),
    (lib.dn_step, c_int, _NET, POINTER(Batch), POINTER(Stats), _ERROR),
    (lib.dn_train, c_int, _NET, c_char_p, POINTER(Training), _ERROR),
    (lib.dn_validate, c_int, _NET, c_char_p, POINTER(Validation), POINTER(Score), _ERROR),
]
for _function, _result, *_arguments in _FUNCTIONS:
    _function.restype, _function.argtypes = _result, _arguments


def text(encoded: bytes) -> str:
    """What the library says; file names in it may be of any encoding."""
    return encoded.decode(errors="backslashreplace")


def call(function: Any, *arguments: Any) -> int:
    """Calls a function whose last argument is a dn_error."""
    error = Error()
    result: int = function(*arguments, byref(error))
    if result < 0:
        raise DarknetError(result, text(error.msg))
    return result
