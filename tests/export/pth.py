#!/usr/bin/env python3
"""Variants of what torch.save writes, made without PyTorch of the tensors of a .safetensors file, and files that are damaged
in one way each.

usage: pth.py FILE.safetensors FOLDER     writes FOLDER/NAME.pth, prints NAME<TAB>WORDS OF THE MESSAGE (empty: it is good)
"""
import io
import json
import pickle
import struct
import sys
import types
import zipfile
from collections import OrderedDict

torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")
sys.modules.update({"torch": torch, "torch._utils": utils})
SIZES = {"FloatStorage": 4, "DoubleStorage": 8, "LongStorage": 8, "StrangeStorage": 4}


def known(module, name):
    """A name that pickles as one of PyTorch's."""
    thing = type(name, (), {"__module__": module.__name__, "__qualname__": name})
    setattr(module, name, thing)
    return thing


TYPES = {name: known(torch, name) for name in SIZES}
TENSOR, PARAMETER, LAYER = known(utils, "_rebuild_tensor_v2"), known(utils, "_rebuild_parameter"), known(torch, "Layer")


class Storage:
    def __init__(self, key, numbers, kind="FloatStorage", count=None):
        self.key, self.bytes, self.kind = key, numbers, kind
        self.count = len(numbers) // SIZES[kind] if count is None else count
        self.tag = "storage"


class Call:
    """Pickles as a call of `what`."""

    def __init__(self, what, *arguments):
        self.what, self.arguments = what, arguments

    def __reduce__(self):
        return self.what, self.arguments


def rows(shape):
    stride, n = [], 1
    for d in reversed(shape):
        stride.insert(0, n)
        n *= d
    return tuple(stride)


def tensor(storage, shape, offset=0, stride=None):
    return Call(TENSOR, storage, offset, tuple(shape), rows(shape) if stride is None else stride, False, OrderedDict())


class Pickler(pickle.Pickler):
    def __init__(self, file, protocol=2):
        super().__init__(file, protocol)
        self.storages = {}

    def persistent_id(self, obj):
        if not isinstance(obj, Storage):
            return None
        self.storages[obj.key] = obj
        return (obj.tag, TYPES[obj.kind], obj.key, "cuda:0", obj.count)


def dump(obj, protocol=2):
    file = io.BytesIO()
    p = Pickler(file, protocol)
    p.dump(obj)
    return file.getvalue(), p.storages


def as_zip(obj, protocol=2, pickled=None, compression=zipfile.ZIP_STORED, lost=(), comment=b"", cut=0, limit=None):
    text, storages = dump(obj, protocol)
    file = io.BytesIO()
    usual, zipfile.ZIP64_LIMIT = zipfile.ZIP64_LIMIT, limit or zipfile.ZIP64_LIMIT
    with zipfile.ZipFile(file, "w", compression) as z:
        members = {"data.pkl": text if pickled is None else pickled, "byteorder": b"little", "version": b"3\n"}
        members.update({f"data/{k}": s.bytes[:len(s.bytes) - cut] for k, s in storages.items()})
        for name, data in members.items():
            if name not in lost:
                z.writestr(f"archive/{name}", data)
        z.comment = comment
    zipfile.ZIP64_LIMIT = usual
    return file.getvalue()


MARK, PROTOCOL = pickle.dumps(0x1950a86a20f9469cfc6c, 2), pickle.dumps(1001, 2)


def as_old(obj, count=None, keys=None):
    text, storages = dump(obj)
    out = MARK + PROTOCOL + pickle.dumps({"little_endian": True, "type_sizes": {"int": 4}}, 2) + text
    out += pickle.dumps(sorted(storages) if keys is None else keys, 2)
    for key in sorted(storages):
        s = storages[key]
        out += struct.pack("<q", s.count if count is None else count) + s.bytes
    return out


def channels_last(shape, numbers):
    """The same tensor, whose numbers are in another order."""
    v = [numbers[i:i + 4] for i in range(0, len(numbers), 4)]
    if len(shape) != 4:
        return numbers, rows(shape)
    n, c, h, w = shape
    moved = b"".join(v[((i * c + k) * h + y) * w + x] for i in range(n) for y in range(h) for x in range(w) for k in range(c))
    return moved, (c * h * w, 1, w * c, c)


def main():
    raw = open(sys.argv[1], "rb").read()
    length = struct.unpack("<Q", raw[:8])[0]
    header, data = json.loads(raw[8:8 + length]), raw[8 + length:]
    header.pop("__metadata__", None)
    parts = {k: (t["shape"], data[slice(*t["data_offsets"])]) for k, t in header.items()}
    plain = OrderedDict((k, tensor(Storage(str(i), b), shape)) for i, (k, (shape, b)) in enumerate(parts.items()))
    last = OrderedDict()
    for i, (k, (shape, b)) in enumerate(parts.items()):
        moved, stride = channels_last(shape, b)
        last[k] = tensor(Storage(str(i), moved), shape, 0, stride)
    whole = Storage("all", data)
    shared = OrderedDict((k, tensor(whole, t["shape"], t["data_offsets"][0] // 4)) for k, t in header.items())
    training = {"epoch": 3, "arch": "resnet", "lr": .1, "best": None, "optimizer": {"state": {0: [tensor(whole, [2])]}},
                "state_dict": OrderedDict(("module." + k, v) for k, v in plain.items())}
    first, (shape, numbers) = next(iter(parts.items()))
    text, _ = dump(plain)

    def with_first(value):
        return OrderedDict([(first, value)] + list(plain.items())[1:])

    def storage(**keys):
        return with_first(tensor(Storage("0", numbers, **keys), shape))

    tagged = Storage("0", numbers)
    tagged.tag = "module"
    long = b"\x80\2" + b"N" * 10 + b"."
    good = {
        "new": as_zip(plain), "old": as_old(plain), "channels-last": as_zip(last), "old-channels-last": as_old(last),
        "shared": as_zip(shared), "training": as_zip(training), "old-training": as_old({"model": dict(training["state_dict"])}),
        "parameters": as_zip(OrderedDict((k, Call(PARAMETER, v, True, OrderedDict())) for k, v in plain.items())),
        "protocol-3": as_zip(plain, 3), "plain-dict": as_zip(dict(plain)), "comment": as_zip(plain, comment=b"PK\5\6" * 9),
        "large": as_zip(plain, limit=10),
    }
    one = as_zip(plain)
    end = one.rindex(b"PK\5\6")
    bad = {
        "empty-zip": ("end is missing", b"PK\3\4"), "cut-zip": ("end is missing", one[:-30]),
        "cut-directory": ("directory is cut", one[:end - 60] + one[end:]),
        "no-directory": ("directory is cut", one[:end + 16] + struct.pack("<I", len(one)) + one[end + 20:]),
        "moved": ("directory is cut", b"PK\3\4...." + one),
        "compressed": ("compressed", as_zip(plain, compression=zipfile.ZIP_DEFLATED)),
        "no-pickle": ("no data.pkl", as_zip(plain, lost=("data.pkl",))),
        "no-storage": ("not in its storage", as_zip(plain, lost=("data/0",))),
        "short-storage": ("not as long as it should be", as_zip(plain, cut=4)),
        "cut-pickle": ("ends too early", as_zip(plain, pickled=text[:-9])),
        "empty-pickle": ("ends too early", as_zip(plain, pickled=b"")),
        "no-operation": ("no operation", as_zip(plain, pickled=b"\x80\2\xff.")),
        "protocol-4": ("expected protocol 2", as_zip(plain, 4)),
        "nothing": ("takes more than", as_zip(plain, pickled=b"\x80\2.")),
        "no-mark": ("a mark is missing", as_zip(plain, pickled=b"\x80\2NNt.")),
        "no-dictionary": ("not of a list or a dictionary", as_zip(plain, pickled=b"\x80\2)NNs.")),
        "no-value": ("a key without a value", as_zip(plain, pickled=b"\x80\2}(NNNu.")),
        "no-tuple": ("not told by a tuple", as_zip(plain, pickled=b"\x80\2NQ.")),
        "memory": ("not remembered", as_zip(plain, pickled=b"\x80\2h\1.")),
        "large-memory": ("too large", as_zip(plain, pickled=b"\x80\2Nr\xff\xff\xff\xff.")),
        "none": ("holds no state dict", as_zip(plain, pickled=long)), "list": ("holds no state dict", as_zip([1, 2])),
        "module": ("holds no state dict", as_zip(Call(LAYER))), "no-tensors": ("holds no state dict", as_zip({"model": {"a": 1}})),
        "number-name": ("a tensor has no name", as_zip(dict(plain) | {7: plain[first]})),
        "control": ("control characters", as_zip(dict(plain) | {"a\nb": plain[first]})),
        "strange-type": ("type that is not known", as_zip(storage(kind="StrangeStorage"))),
        "no-kind": ("not storages", as_zip(with_first(tensor(tagged, shape)))),
        "doubles": ("of type F64, expected F32", as_zip(with_first(tensor(Storage("0", bytes(2 * len(numbers)), "DoubleStorage"),
                                                                         shape)))),
        "too-many": ("larger than the file", as_zip(storage(count=1 << 60))),
        "two-ways": ("in two ways", as_zip(dict(plain) | {"b": tensor(Storage("0", numbers, count=1), [1])})),
        "no-such": ("a tensor has no storage", as_zip(with_first(tensor(None, shape)))),
        "offset": ("not in its storage", as_zip(with_first(tensor(Storage("0", numbers), shape, 1)))),
        "negative-offset": ("has no storage", as_zip(with_first(tensor(Storage("0", numbers), shape, -1)))),
        "stride": ("not in its storage", as_zip(with_first(tensor(Storage("0", numbers), shape, 0, (1 << 62,) * len(shape))))),
        "strides": ("no proper dimensions", as_zip(with_first(tensor(Storage("0", numbers), shape, 0, rows([1] + shape))))),
        "huge": ("no proper dimensions", as_zip(with_first(tensor(Storage("0", numbers), [1 << 40] * 4)))),
        "many-dimensions": ("no proper dimensions", as_zip(with_first(tensor(Storage("0", numbers), [1] * 9)))),
        "another-shape": ("expected", as_zip(with_first(tensor(Storage("0", numbers), [1])))),
        "left-over": ("left over", as_zip(dict(plain) | {"zzz.weight": plain[first]})),
        "old-cut": ("ends too early", as_old(plain)[:-4]), "old-mark": ("ends too early", MARK),
        "old-count": ("not as long as it should be", as_old(plain, count=5)),
        "old-keys": ("of which it does not tell", as_old(plain, keys=["elsewhere"])),
        "old-lost": ("not in its storage", as_old(plain, keys=[])),
    }
    for name, file in good.items():
        bad[name] = ("", file)
    for name, (words, file) in bad.items():
        open(f"{sys.argv[2]}/{name}.pth", "wb").write(file)
        print(f"{name}\t{words}")


if __name__ == "__main__":
    main()
