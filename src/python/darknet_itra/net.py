"""A network as an object, with NumPy arrays going in and coming out."""
from __future__ import annotations

import ctypes
import logging
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from ctypes import byref
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, Optional, TypeVar, Union

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _library
from ._library import DarknetError, call, lib, text

PathLike = Union[str, "os.PathLike[str]"]
Image = Union[PathLike, bytes, "NDArray[np.uint8]"]
Images = Union[Image, Sequence[Image], "NDArray[np.uint8]", "NDArray[np.float32]"]
LOG = logging.getLogger("darknet_itra")
_T = TypeVar("_T")
VIEWS = ("letterbox", "center", "whole")


class Stats(NamedTuple):
    """What one step of training has computed."""

    ce: float  # mean cross-entropy of the first mini-batch
    match: float  # of the [itra] sections, before their weight; NaN where it was not computed
    lambda_: float  # its weight in this step
    center: float  # of the [center] sections, before their weight
    rate: float  # learning rate
    iteration: int  # the optimiser step that this mini-batch belongs to, from 1
    updated: bool  # the weights have moved: this was the last of `subdivisions` mini-batches


class Progress(NamedTuple):
    """How far a training has come, after an iteration."""

    iteration: int  # from 1
    seen: int  # images so far
    epoch: float
    ce: float  # of this iteration
    ce_smooth: float  # a running mean
    match: float
    lambda_: float
    rate: float
    images_per_second: float
    eta_seconds: float  # to max_batches; < 0: not known


class Score(NamedTuple):
    """How well a net does on the validation images."""

    iteration: int  # train: completed so far
    epoch: float  # train: trained so far
    top1: float  # 0..1
    topk: float  # 0..1
    ce: float  # mean cross-entropy of the images that could be read
    k: int  # `top` of the .data file
    images: int
    unreadable: int  # among the images; they count as wrong
    best: bool  # train: the best so far


def _tuple(kind: Callable[..., _T], structure: Any) -> _T:
    """A structure of the library as the named tuple with the same fields."""
    values = {name: getattr(structure, name) for name, _ in structure._fields_}
    return kind(*(bool(value) if name in ("updated", "best") else value for name, value in values.items()))


def _log(line: str) -> None:
    """What names a line of a file is about a slip in it; the rest is information, unless it says otherwise."""
    LOG.log(logging.WARNING if re.match(r"warning:|.*:\d+: ", line) else logging.INFO, "%s", line)


def _encode(text: Optional[PathLike]) -> Optional[bytes]:
    if text is None:
        return None
    encoded = os.fsencode(text)
    if b"\0" in encoded:
        raise ValueError(f"{text!r}: embedded null byte")
    return encoded


def read_names(path: PathLike) -> list[str]:
    """The lines of a file: the names of the classes."""
    return [line.strip() for line in Path(path).read_text(encoding="utf-8").splitlines()]


class Net:
    """A network: of a cfg, with the weights of a .weights file, or random ones (weights=None).

    device      "cuda", "cuda:1", "cpu", "ref"; None: the first that the library was built with
    threads     compute threads; 0: one per core
    precision   "fp32", "tf32", "bf16"; None: as the cfg says
    set         "section.key=value" each, replacing what the cfg says
    train       True: for step() and train(); takes 3 times the memory
    seed        of initial weights, dropout, policy=random
    rows        images per pass of predict() and features(); 0: batch / subdivisions of the cfg
    view        what the net sees of an image of another size: "letterbox" (all of it, amid gray: as `darknet classifier
                predict`), "center" (the central part) or "whole" (all of it, stretched)
    orient      True: turns images upright, as their EXIF data says
    deterministic   True: the same bits from run to run; on a CPU they always are

    `images` of the methods below are
    - float32, N x C x H x W (or one, C x H x W): prepared, that is of the size of the input, on the scale on which the net
      was trained. C-contiguous arrays go to the library as they are, without a copy; others are copied, pass by pass.
    - uint8, N x H x W x C (or one, H x W x C) of any size, C from 1 (gray) to 4 (RGBA): prepared as `darknet classifier
      predict` does.
    - a path, the bytes of an image file, or a list of these and of uint8 arrays, which may differ in size: prepared likewise.

    What the library refuses raises DarknetError, arrays of the wrong shape or type ValueError or TypeError; the net is as
    before then. Warnings go to the logger "darknet_itra", and so does information, which Python does not show by default.
    Other threads run during calls. One net is for one thread at a time: to use it in two at once is a RuntimeError; different
    nets share nothing.

    A net has these attributes:

    classes        how many it tells apart
    input_shape    channels, height, width
    mini_batch     images: batch / subdivisions of the cfg
    layers         sections of the cfg after [net], numbered from 0
    feature_layer  whose output the classifier sees: what [itra] sits on; -1: the image itself
    """

    classes: int
    input_shape: tuple[int, int, int]
    mini_batch: int
    layers: int
    feature_layer: int

    def __init__(self, cfg: PathLike, weights: Optional[PathLike] = None, device: Optional[str] = None, threads: int = 0,
                 precision: Optional[str] = None, set: Sequence[str] = (), train: bool = False, seed: int = 1, *, rows: int = 0,
                 deterministic: bool = False, view: str = "letterbox", orient: bool = False):
        self._handle = ctypes.c_void_p()
        self._lock = threading.Lock()
        if view not in VIEWS:
            raise ValueError(f"view={view!r}: expected one of {', '.join(VIEWS)}")
        self._say = _library.SAY(lambda _, line: _log(text(line)))
        entries = [_encode(entry) for entry in ([set] if isinstance(set, str) else set)]
        options = _library.Options(device=_encode(device), threads=threads, train=train, rows=rows, seed=seed,
                                   precision=_encode(precision), deterministic=deterministic, view=VIEWS.index(view),
                                   orient=orient, set=(ctypes.c_char_p * (len(entries) + 1))(*entries), say=self._say)
        self._cfg = os.fspath(cfg)
        self._enter(call, lib.dn_open, byref(self._handle), _encode(cfg), byref(options))
        shape = [ctypes.c_int() for _ in range(3)]
        lib.dn_input(self._handle, *map(byref, shape))
        self.input_shape = (shape[0].value, shape[1].value, shape[2].value)
        self.classes = lib.dn_classes(self._handle)
        self.mini_batch = lib.dn_mini_batch(self._handle)
        self.layers = lib.dn_layers(self._handle)
        self.feature_layer = lib.dn_feature_layer(self._handle)
        self._rows = rows or self.mini_batch
        if weights is not None:
            self.load(weights)

    def close(self) -> None:
        """Frees all that the net holds; what uses it afterwards is a ValueError. Closing it again does nothing."""
        self._enter(lib.dn_close, self._handle)
        self._handle = ctypes.c_void_p()

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            lib.dn_close(self._handle)

    def __enter__(self) -> Net:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Net cannot be copied or pickled: save its weights and open it again")

    def __repr__(self) -> str:
        return f"<Net {self._cfg}: {' x '.join(map(str, self.input_shape))} to {self.classes} classes>"

    # ---- calls ----

    def _enter(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """A call of the library that has the net to itself."""
        if not self._lock.acquire(blocking=False):
            raise RuntimeError("this net is in use, by another thread or by the call that calls back: open another one")
        try:
            return function(*arguments)
        finally:
            self._lock.release()

    def _open(self) -> ctypes.c_void_p:
        if not self._handle:
            raise ValueError("this net is closed")
        return self._handle

    def _call(self, function: Any, *arguments: Any) -> int:
        result: int = self._enter(call, function, self._open(), *arguments)
        return result

    # ---- files ----

    def load(self, weights: PathLike) -> None:
        """Reads a .weights file of this cfg, all of it."""
        self._call(lib.dn_load, _encode(weights))

    def save(self, weights: PathLike) -> None:
        """Writes a .weights file: whole, or not at all."""
        self._call(lib.dn_save, _encode(weights))

    @property
    def seen(self) -> int:
        """Images of training so far, by the .weights file and step(); what the learning rate follows."""
        return int(lib.dn_seen(self._open()))

    @seen.setter
    def seen(self, images: int) -> None:
        if not 0 <= images < 1 << 64:
            raise ValueError(f"seen={images}: expected 0 or more")
        self._call(lib.dn_set_seen, images)

    @property
    def weights(self) -> Weights:
        """The parameters by name, as in net.weights["0.convolutional.weights"]."""
        return Weights(self)

    # ---- images ----

    def _sequence(self, images: Images) -> Union[Sequence[Image], NDArray[Any]]:
        """Several images: a list, uint8 of four dimensions, or float32 of the shape of the input."""
        if isinstance(images, (str, bytes, os.PathLike)):
            return [images]
        if not isinstance(images, np.ndarray):
            return list(images)
        if images.dtype == np.uint8:
            if images.ndim in (3, 4):
                return images[None] if images.ndim == 3 else images
            raise ValueError(f"uint8 of shape {images.shape}: expected N x H x W x C or H x W x C (gray: images[..., None])")
        if images.dtype != np.float32:
            raise TypeError(f"images of {images.dtype}: expected uint8 (pixels) or float32 (prepared)")
        if images.shape == self.input_shape:
            return images[None]
        if images.shape[1:] == self.input_shape:
            return images
        raise ValueError(f"float32 of shape {images.shape}: expected N x {' x '.join(map(str, self.input_shape))}")

    def _prepare_one(self, image: Image, to: NDArray[np.float32]) -> None:
        if isinstance(image, bytes):
            self._call(lib.dn_prepare_memory, image, len(image), to.ctypes.data)
        elif isinstance(image, (str, os.PathLike)):
            self._call(lib.dn_prepare_file, _encode(image), to.ctypes.data)
        elif isinstance(image, np.ndarray) and image.dtype == np.uint8 and image.ndim == 3:
            image = np.ascontiguousarray(image)
            self._call(lib.dn_prepare_pixels, image.ctypes.data, *image.shape, to.ctypes.data)
        else:
            found = f"{image.dtype} of shape {image.shape}" if isinstance(image, np.ndarray) else type(image).__name__
            raise TypeError(f"{found} in a list of images: expected paths, bytes of files, or uint8 of shape H x W x C")

    def _prepared(self, images: Union[Sequence[Image], NDArray[Any]]) -> NDArray[np.float32]:
        if isinstance(images, np.ndarray) and images.dtype == np.float32:
            return np.ascontiguousarray(images)
        rows = np.empty((len(images), *self.input_shape), np.float32)
        for image, row in zip(images, rows):
            self._prepare_one(image, row)
        return rows

    def prepare(self, images: Images) -> NDArray[np.float32]:
        """The images as float32, N x C x H x W, as the net sees them."""
        return self._prepared(self._sequence(images))

    def _passes(self, images: Union[Sequence[Image], NDArray[Any]]) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """As many images at once as the net computes, each time after the number of the first. Ctrl-C works in between."""
        for first in range(0, len(images), self._rows):
            yield first, self._prepared(images[first:first + self._rows])

    # ---- what the net says of them ----

    def predict(self, images: Images) -> NDArray[np.float32]:
        """Class probabilities, N x classes."""
        images = self._sequence(images)
        prob = np.empty((len(images), self.classes), np.float32)
        for first, rows in self._passes(images):
            try:
                self._call(lib.dn_predict, rows.ctypes.data, len(rows), prob[first:].ctypes.data)
            except DarknetError as error:  # which counts from the first image of the pass
                raise DarknetError(error.code, f"images {first} to {first + len(rows) - 1}: {error}") from None
        return prob

    def features(self, images: Images, layer: Optional[int] = None) -> NDArray[np.float32]:
        """The output of a layer, by default of feature_layer: N x its numbers (maps: channels, rows, columns)."""
        images = self._sequence(images)
        layer = self.feature_layer if layer is None else layer
        to = np.empty((len(images), lib.dn_feature_size(self._open(), layer)), np.float32)
        for first, rows in self._passes(images):
            self._call(lib.dn_features, layer, rows.ctypes.data, len(rows), to[first:].ctypes.data, None)
        return to

    @staticmethod
    def top(row: ArrayLike, k: int = 5, names: Union[Sequence[str], PathLike, None] = None) -> list[tuple[Union[int, str], float]]:
        """The k most probable classes of one row of predict() with their probabilities, the most probable first; by number, or
        by name where `names`, a list or its file, is given."""
        row = np.ascontiguousarray(row, np.float32)
        if row.ndim != 1:
            raise ValueError(f"top: shape {row.shape}: expected one row of predict()")
        if isinstance(names, (str, os.PathLike)):
            names = read_names(names)
        if names is not None and len(names) < len(row):
            raise ValueError(f"top: {len(names)} names for {len(row)} classes")
        best = np.empty(max(0, min(k, len(row))), np.intc)
        lib.dn_top(row.ctypes.data, len(row), len(best), best.ctypes.data)
        return [(i if names is None else names[i], float(row[i])) for i in best.tolist()]

    # ---- training ----

    @property
    def rows(self) -> tuple[int, int]:
        """Images that the next step() takes, and how many of a second, independent mini-batch must follow them: as many again
        where [itra] asks for it, else 0."""
        second = ctypes.c_int()
        return lib.dn_rows(self._open(), byref(second)), second.value

    def step(self, images: Images, labels: ArrayLike) -> Stats:
        """Trains on one mini-batch: sum(rows) images, and as many class indices. The weights move once all `subdivisions` of
        the cfg are there. Loss or gradients that are not finite are a DarknetError (Code.NUMBER); the weights are then those
        of the last update, and the iteration starts again."""
        images = self.prepare(images)
        labels = np.asarray(labels)
        if labels.shape != (len(images),):
            raise ValueError(f"labels of shape {labels.shape} for {len(images)} images: expected ({len(images)},)")
        if labels.dtype.kind not in "iu":
            raise TypeError(f"labels of {labels.dtype}: expected integers")
        if labels.size and not 0 <= labels.min() <= labels.max() < self.classes:
            raise ValueError(f"labels from {labels.min()} to {labels.max()}: expected 0..{self.classes - 1}")
        labels = np.ascontiguousarray(labels, np.intc)
        stats = _library.Stats()
        batch = _library.Batch(images.ctypes.data, labels.ctypes.data, len(images))
        self._call(lib.dn_step, byref(batch), byref(stats))
        return _tuple(Stats, stats)

    def train(self, data: PathLike, callback: Optional[Callable[[Progress], Optional[bool]]] = None,
              validation: Optional[Callable[[Score], Optional[bool]]] = None, *, name: Optional[str] = None,
              backup: Optional[PathLike] = None, resume: Optional[PathLike] = None, workers: int = 0) -> list[Score]:
        """Trains as `darknet classifier train DATA` does, with its loader, augmentation, validation and files, up to the cfg's
        max_batches or out of its patience. Returns the validations; the net has the weights of the last iteration.

        callback     is called after each iteration (on a GPU several at a time)
        validation   is called after each validation
        name         of the files that are written, as in NAME_last.weights; None: the cfg's
        backup       the folder they are written to; None: `backup` of the .data file
        resume       a NAME_last.state; None: on from the net's present weights and `seen`
        workers      threads that read and augment images; 0: one per core, at most 16

        A callback that returns True, or raises, ends the training after this iteration, saved, so that it can be resumed; so
        does Ctrl-C. The exception is then raised here. Callbacks must not use the net (RuntimeError).
        """
        scores: list[Score] = []
        with _Callbacks() as callbacks:
            on_iteration = callbacks.guard(lambda _, p: callback and callback(_tuple(Progress, p.contents)))

            def on_validation(_: None, structure: Any) -> Optional[bool]:
                scores.append(_tuple(Score, structure.contents))
                return validation and validation(scores[-1])

            options = _library.Training(name=_encode(name), backup=_encode(backup), resume=_encode(resume), workers=workers,
                                        iteration=_library.ON_ITERATION(on_iteration),
                                        validation=_library.ON_VALIDATION(callbacks.guard(on_validation)))
            self._call(lib.dn_train, _encode(data), byref(options))
        return scores

    def validate(self, data: PathLike, callback: Optional[Callable[[int, Optional[NDArray[np.float32]]], Optional[bool]]] = None,
                 *, workers: int = 0) -> Score:
        """How well the net does on the validation images of a .data file, as `darknet classifier valid`.

        callback     is called for each image, in their order, with its class and its row of probabilities (None: it could not
                     be read). If it returns True, the pass ends with this mini-batch, and the score is that of the images
                     so far. It must not use the net.
        """

        def on_image(_: None, label: int, row: Any) -> Optional[bool]:
            return callback and callback(label, np.array(row[:self.classes], np.float32) if row else None)

        score = _library.Score()
        with _Callbacks() as callbacks:
            options = _library.Validation(workers=workers, image=_library.ON_IMAGE(callbacks.guard(on_image)))
            self._call(lib.dn_validate, _encode(data), byref(options), byref(score))
        return _tuple(Score, score)


class _Callbacks:
    """While the library calls back: an exception must not pass through it, so the first stops it and is raised at the end.
    Ctrl-C might raise at the very entry of a callback, where nothing can catch it, so it is noted in place of that."""

    def __init__(self) -> None:
        self._caught: list[BaseException] = []
        self._interrupts = (threading.current_thread() is threading.main_thread()
                            and signal.getsignal(signal.SIGINT) is signal.default_int_handler)

    def guard(self, function: Callable[..., Any]) -> Callable[..., bool]:
        def guarded(*arguments: Any) -> bool:
            try:
                return bool(self._caught or function(*arguments) or self._caught)
            except BaseException as error:
                self._caught.append(error)
                return True

        return guarded

    def __enter__(self) -> _Callbacks:
        if self._interrupts:
            signal.signal(signal.SIGINT, lambda *_: self._caught.append(KeyboardInterrupt()))
        return self

    def __exit__(self, *_: object) -> None:
        if self._interrupts:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if self._caught:
            raise self._caught[0]


class Weights(Mapping[str, "NDArray[np.float32]"]):
    """The parameters of a net by name, in the order of the .weights file: float32, [convolutional] weights as filters x
    channels / groups x size x size, [connected] weights as outputs x inputs, all else of one dimension. What is read is a
    copy; to change a parameter, assign it."""

    def __init__(self, net: Net):
        self._net = net

    def _info(self, i: int) -> _library.Param:
        info = _library.Param()
        self._net._call(lib.dn_param_info, i, byref(info))
        return info

    def _find(self, name: str) -> tuple[int, tuple[int, ...]]:
        try:
            i = self._net._call(lib.dn_find_param, _encode(name))
        except (DarknetError, TypeError):
            raise KeyError(name) from None
        info = self._info(i)
        return i, tuple(info.shape[:info.rank])

    def __len__(self) -> int:
        return self._net._call(lib.dn_params)

    def __iter__(self) -> Iterator[str]:
        return (text(self._info(i).name) for i in range(len(self)))

    def __getitem__(self, name: str) -> NDArray[np.float32]:
        i, shape = self._find(name)
        values = np.empty(shape, np.float32)
        self._net._call(lib.dn_get_param, i, values.ctypes.data)
        return values

    def __setitem__(self, name: str, values: ArrayLike) -> None:
        i, shape = self._find(name)
        values = np.ascontiguousarray(values, np.float32)
        if values.shape != shape:
            raise ValueError(f"{name}: shape {values.shape}: expected {shape}")
        self._net._call(lib.dn_set_param, i, values.ctypes.data)

    def update(self, values: Mapping[str, ArrayLike]) -> None:
        """Assigns each, say of np.load("weights.npz")."""
        for name, value in values.items():
            self[name] = value

    def __repr__(self) -> str:
        return f"<Weights of {self._net!r}: {', '.join(self)}>"
