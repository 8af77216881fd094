#!/usr/bin/env python3
"""onnxruntime against the program: every cfg that is named, folded and not, batches of 1 and 3.

usage: runtime.py DARKNET ANSWER [--device NAME] CFG...
"""
import argparse
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime

# ||a - b|| / ||b||, float32 on both sides, other orders of sums. Features are not damped by a softmax: in ResNet-101
# they differ by 6e-5 (and by 5e-5 between cpu and ref of the program itself), elsewhere by 1e-5.
TOLERANCE, FEATURES = 1e-5, 1e-4

SPREAD = 1e-3  # by which two images differ at least, for a test that could fail


def relative(a, b):
    return float(np.linalg.norm(a.astype(np.float64) - b) / max(np.linalg.norm(b.astype(np.float64)), 1e-30))


def floats(folder, name, rows):
    return np.fromfile(os.path.join(folder, name), np.float32).reshape(rows, -1)


def session(path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def compare(darknet, answer, device, cfg, folder):
    """Yields (what, relative error, tolerance)."""
    models, weights = {}, []
    for rows in (3, 1):
        subprocess.run([answer, cfg, device, str(rows), folder] + weights, check=True)
        weights = [os.path.join(folder, "net.weights")]
        images, outputs = floats(folder, "images", rows), floats(folder, "outputs", rows)
        features = floats(folder, "features", rows)
        for fold in ("1", "0"):
            path = os.path.join(folder, f"fold{fold}.onnx")
            if fold not in models:
                subprocess.run([darknet, "export", cfg, *weights, "-out", path, "-fold",
                                fold, "-features"], check=True, stderr=subprocess.DEVNULL)
                model = onnx.load(path)
                onnx.checker.check_model(model, full_check=True)
                models[fold] = session(path)
            run = models[fold]
            shape = [rows] + run.get_inputs()[0].shape[1:]
            y, h = run.run(None, {"images": images.reshape(shape)})
            yield f"batch {rows}, fold {fold}", relative(y, outputs), TOLERANCE
            yield f"batch {rows}, fold {fold}, features", relative(h, features), FEATURES
        if rows > 1 and relative(features[1], features[0]) < SPREAD:
            yield "the images all look alike to it", float("nan"), SPREAD


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    parser.add_argument("darknet")
    parser.add_argument("answer")
    parser.add_argument("cfg", nargs="+")
    a = parser.parse_args()
    failed = 0
    for cfg in a.cfg:
        with tempfile.TemporaryDirectory() as folder:
            try:
                errors = list(compare(a.darknet, a.answer, a.device, cfg, folder))
            except Exception as error:  # of any of the three programs: the next cfg is still of interest
                errors = [(f"{type(error).__name__}: {error}"[:400], float("nan"), 0)]
        bad = [f"{error:.1e} ({what})" for what, error, bound in errors if not error <= bound]
        worst = [max(x[1] for x in errors if x[2] == bound) for bound in (TOLERANCE, FEATURES) if not bad]
        failed += bool(bad)
        print(f"{'FAIL' if bad else 'ok'}: {os.path.basename(cfg)}:",
              ", ".join(bad) or "outputs {:.1e}, features {:.1e}".format(*worst), flush=True)
    print(f"{len(a.cfg) - failed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
