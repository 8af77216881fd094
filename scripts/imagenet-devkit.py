#!/usr/bin/env python3
"""Reads the development kit of ILSVRC2012: imagenet-devkit.py KIT TRUTH WORDS

Writes TRUTH (file and synset of each validation image) and WORDS (synset and what it means). The kit numbers the
classes in an order of its own, which data/meta.mat tells: a MATLAB 5 file, of whose format this reads what that file uses
(struct and char arrays, numbers; elements may be compressed).
"""
import struct
import sys
import zlib
from pathlib import Path

INT8, UINT8, INT16, UINT16, INT32, UINT32, SINGLE, DOUBLE, MATRIX, COMPRESSED, UTF8 = 1, 2, 3, 4, 5, 6, 7, 9, 14, 15, 16
FORMAT = {INT8: "b", UINT8: "B", INT16: "h", UINT16: "H", INT32: "i", UINT32: "I", SINGLE: "f", DOUBLE: "d", UTF8: "B"}
STRUCT, CHAR = 2, 4  # classes of arrays


def elements(data):
    """(type, bytes) of the elements one after another in data; each starts at a multiple of 8."""
    at = 0
    while at + 8 <= len(data):
        kind, size = struct.unpack_from("<II", data, at)
        if kind >> 16:  # a small one: up to 4 bytes beside its type and size
            kind, size, start, end = kind & 0xFFFF, kind >> 16, at + 4, at + 8
        else:
            start = at + 8
            end = start + size + (0 if kind == COMPRESSED else -size % 8)
        if start + size > len(data):
            raise ValueError("it ends early")
        yield kind, data[start:start + size]
        at = end


def numbers(element):
    kind, data = element
    return struct.unpack(f"<{len(data) // struct.calcsize(FORMAT[kind])}{FORMAT[kind]}", data)


def value(matrix):
    """A list of dicts for a struct array, text for chars, a list of numbers for the rest (other classes: None)."""
    if not matrix:
        return None
    flags, _, _, *parts = elements(matrix)
    kind = numbers(flags)[0] & 0xFF
    if kind == STRUCT:
        width, names = numbers(parts[0])[0], parts[1][1]
        keys = [names[i:i + width].split(b"\0")[0].decode() for i in range(0, len(names), width)]
        fields = [part[1] for part in parts[2:]]
        return [dict(zip(keys, map(value, fields[i:i + len(keys)]))) for i in range(0, len(fields), len(keys))]
    if kind == CHAR:
        return bytes(numbers(parts[0])).decode("utf-8") if parts[0][0] == UTF8 else "".join(map(chr, numbers(parts[0])))
    return list(numbers(parts[0])) if parts and parts[0][0] in FORMAT else None


def synsets(path):
    """{number: (synset, words)} of the classes without sub-classes: those that images have."""
    data = path.read_bytes()
    if data[124:128] != b"\x00\x01IM":
        raise ValueError("not a MATLAB 5 file")
    for kind, body in elements(data[128:]):
        if kind == COMPRESSED:
            kind, body = next(elements(zlib.decompress(body)))
        table = value(body) if kind == MATRIX else None
        if table and isinstance(table[0], dict) and "WNID" in table[0]:
            return {int(row["ILSVRC2012_ID"][0]): (row["WNID"], row["words"]) for row in table if row["num_children"] == [0]}
    raise ValueError("no table of synsets in it")


def main(kit, truth, words):
    path = kit / "data" / "meta.mat"
    try:
        table = synsets(path)
        path = kit / "data" / "ILSVRC2012_validation_ground_truth.txt"
        classes = [table[int(line)] for line in path.read_text().split()]
    except OSError as e:
        sys.exit(f"{path}: {e.strerror}")
    except (ValueError, KeyError, IndexError, TypeError, struct.error, zlib.error) as e:
        sys.exit(f"{path}: cannot be read: not that of ILSVRC2012? ({e})")
    truth.write_text("".join(f"ILSVRC2012_val_{i:08}.JPEG {synset}\n" for i, (synset, _) in enumerate(classes, 1)))
    words.write_text("".join(f"{synset} {name}\n" for synset, name in table.values()), encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*map(Path, sys.argv[1:]))
