#!/usr/bin/env python3
"""Reads an ONNX file with nothing but the wire format, checks that it is one, and tells what is in it.

usage: structure.py FILE.onnx
"""
import collections
import struct
import sys


def varint(b, at):
    value = shift = 0
    while True:
        byte = b[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7


def fields(b):
    """{number: [values]}; bytes of what has a length."""
    at, found = 0, collections.defaultdict(list)
    while at < len(b):
        tag, at = varint(b, at)
        kind = tag & 7
        if kind == 0:
            value, at = varint(b, at)
        elif kind == 2:
            n, at = varint(b, at)
            value, at = bytes(b[at:at + n]), at + n
            assert len(value) == n, "a field ends behind its message"
        elif kind == 5:
            value, at = struct.unpack_from("<f", b, at)[0], at + 4
        else:
            raise AssertionError(f"wire type {kind}")
        found[tag >> 3].append(value)
    return found


def text(values):
    assert len(values) == 1, values
    return values[0].decode()


def value_shape(b):
    value = fields(b)
    tensor = fields(fields(value[2][0])[1][0])
    assert tensor[1] == [1], "not float32"
    dims = [fields(d) for d in fields(tensor[2][0])[1]]
    return text(value[1]), "x".join(text(d[2]) if d[2] else str(d[1][0]) for d in dims)


def main(path):
    with open(path, "rb") as f:
        model = fields(f.read())
    graph = fields(model[7][0])
    opset = fields(model[8][0])
    print(f"ir {model[1][0]} opset {opset[2][0]} producer {text(model[2])}")
    print("doc", text(model[6]))
    for entry in map(fields, model[14]):
        print("metadata", text(entry[1]), repr(text(entry[2])))
    known = set()
    for tensor in map(fields, graph[5]):
        name, count = text(tensor[8]), 1
        for d in tensor[1]:
            count *= d
        assert name not in known, f"{name} twice"
        assert len(tensor[9][0]) == count * {1: 4, 7: 8}[tensor[2][0]], f"{name}: bytes do not fit the shape"
        known.add(name)
        print("constant", name, "x".join(map(str, tensor[1])))
    for b in graph[11]:
        name, shape = value_shape(b)
        known.add(name)
        print("input", name, shape)
    count = collections.Counter()
    for node in map(fields, graph[1]):
        for name in map(bytes.decode, node[1]):
            assert not name or name in known, f"{name} is used before it is made"
        assert text(node[2]) not in known, f"{text(node[2])} is made twice"
        known.add(text(node[2]))
        count[text(node[4])] += 1
    for name, n in sorted(count.items()):
        print("nodes", n, name)
    for b in graph[12]:
        name, shape = value_shape(b)
        assert name in known, f"output {name} is not made"
        print("output", name, shape)


if __name__ == "__main__":
    main(sys.argv[1])
