#!/usr/bin/env python3
"""Variants of a .safetensors file: the same numbers in other types, and files that are damaged in one way each.

usage: forge.py FILE.safetensors FOLDER     writes FOLDER/NAME.safetensors, prints NAME<TAB>WORDS OF THE MESSAGE
"""
import json
import struct
import sys


def pack(header, data, length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def convert(header, data, name, size):
    """The tensors in another type of float."""
    new, out = {}, b""
    for key, t in header.items():
        if key == "__metadata__":
            new[key] = t
            continue
        begin, end = t["data_offsets"]
        n = (end - begin) // 4
        v = struct.unpack(f"<{n}f", data[begin:end])
        if name == "F16":
            b = struct.pack(f"<{n}e", *v)
        elif name == "BF16":
            b = b"".join(struct.pack("<f", x)[2:] for x in v)
        else:
            b = struct.pack(f"<{n}d", *v)
        new[key] = {"dtype": name, "shape": t["shape"], "data_offsets": [len(out), len(out) + n * size]}
        out += b
    return pack(new, out)


def damaged(header, data):
    names = [k for k in header if k != "__metadata__"]
    first, second = names[0], names[1]

    def changed(name, **keys):
        h = json.loads(json.dumps(header))
        h[name].update(keys)
        return pack(h, data)

    def without(key):
        h = json.loads(json.dumps(header))
        del h[first][key]
        return pack(h, data)

    text = json.dumps(header).encode()
    yield "seen", "9223372036854775807 images of training", changed("__metadata__", seen="9223372036854775807")
    begin, end = header[first]["data_offsets"]
    yield "empty", "too short", b""
    yield "short", "too short", b"\x08\0\0"
    yield "huge-header", "a header of 9223372036854775807 bytes", pack(header, data, 2 ** 63 - 1)
    yield "long-header", "neither a .safetensors file nor PyTorch's, or incomplete", pack(header, b"", len(text) + 1)
    yield "no-json", "byte 0 of the header: expected an object", pack(b"hello   ", data)
    yield "cut-json", "expected", pack(text[:40], data)
    yield "after-json", "expected nothing more", pack(text + b"{}", data)
    yield "no-tensors", "holds no tensors", pack(b"{}      ", b"")
    yield "control", "without control characters", pack(text.replace(b"dtype", b"dt\x01pe", 1), data)
    yield "escape", "without escapes", pack(text.replace(first.encode(), b"\\u0030" + first[1:].encode(), 1), data)
    yield "twice", f"has two tensors {first}", pack(
        text[:-1] + b', "%s": %s}' % (first.encode(), b'{"dtype":"F32","shape":[0],"data_offsets":[0,0]}'), data)
    yield "key-twice", "once each", pack(text.replace(b'"shape"', b'"dtype": "F32", "shape"', 1), data)
    yield "unknown-key", "expected dtype, shape or data_offsets", pack(text.replace(b'"shape"', b'"size"', 1), data)
    yield "unknown-type", "expected a type", changed(first, dtype="F12")
    yield "no-type", "expected dtype, shape and data_offsets", without("dtype")
    yield "no-place", "expected dtype, shape and data_offsets", without("data_offsets")
    yield "negative", "expected a whole number", changed(first, shape=[-1])
    yield "fraction", "expected", changed(first, shape=[1.5])
    yield "zeros", "expected a whole number", pack(text.replace(b'"shape": [', b'"shape": [00', 1), data)
    yield "large", "expected a smaller number", changed(first, shape=[2 ** 64])
    yield "overflow", "do not hold", changed(first, shape=[2 ** 40, 2 ** 40])
    yield "many-dimensions", "expected fewer numbers", changed(first, shape=[1] * 9)
    yield "one-place", "expected two numbers", changed(first, data_offsets=[begin])
    yield "backwards", "do not hold", changed(first, data_offsets=[end, begin])
    yield "not-its-size", "do not hold", changed(first, data_offsets=[begin, end + 4])
    yield "overlap", "begins at byte", changed(second, data_offsets=[
        begin, begin + header[second]["data_offsets"][1] - header[second]["data_offsets"][0]])
    yield "out-of-range", "bytes of data", pack(header, data[:-4])
    yield "left-over", "bytes of data", pack(header, data + b"\0\0\0\0")
    yield "shape", "expected", changed(first, shape=[1] + header[first]["shape"])
    yield "nan", "number 0 is nan", pack(header, data[:begin] + struct.pack("<f", float("nan")) + data[begin + 4:])
    variance = next(k for k in names if k.endswith("variance"))
    at = header[variance]["data_offsets"][0]
    yield "variance", "number 0 is -1", pack(header, data[:at] + struct.pack("<f", -1) + data[at + 4:])
    renamed = {(k.replace(first, "9.other.weights")): v for k, v in header.items()}
    yield "missing", f"has no tensor {first}", pack(renamed, data)
    more = dict(header, more={"dtype": "F32", "shape": [1], "data_offsets": [len(data), len(data) + 4]})
    yield "more", "more, 1, is left over", pack(more, data + b"\0\0\0\0")
    torch = {f"m{i}.running_mode": v for i, v in enumerate(v for k, v in header.items() if k != "__metadata__")}
    yield "unknown-names", "neither a tensor of this cfg", pack(torch, data)


def main(path, folder):
    with open(path, "rb") as f:
        raw = f.read()
    length = struct.unpack("<Q", raw[:8])[0]
    header, data = json.loads(raw[8:8 + length]), raw[8 + length:]
    for name, size in (("F16", 2), ("BF16", 2), ("F64", 8)):
        with open(f"{folder}/{name}.safetensors", "wb") as f:
            f.write(convert(header, data, name, size))
    for name, words, contents in damaged(header, data):
        with open(f"{folder}/{name}.safetensors", "wb") as f:
            f.write(contents)
        print(f"{name}\t{words}")


if __name__ == "__main__":
    main(*sys.argv[1:])
