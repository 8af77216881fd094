"""The package as Python users see it, beside the program: net.py FOLDER, with what package.sh has made there."""
import copy
import csv
import ctypes
import logging
import os
import pickle
import pydoc
import signal
import subprocess
import sys
import threading
import unittest
from pathlib import Path

import numpy as np

from darknet_itra import Code, DarknetError, Net, _library, read_names

DARKNET = os.environ["DARKNET"]
CFG, WEIGHTS, NAMES = "mini.cfg", "mini.weights", ["ant", "bee", "cow"]
PATHS = ["wide.ppm", "tall.ppm", "img/0_ant.ppm", "img/1_bee.ppm", "img/2_cow.ppm"]


def darknet(*arguments):
    return subprocess.run([DARKNET, "classifier", *arguments], check=True, capture_output=True, text=True).stdout


def read_ppm(path):
    _, size, _, pixels = Path(path).read_bytes().split(b"\n", 3)
    width, height = map(int, size.split())
    return np.frombuffer(pixels, np.uint8).reshape(height, width, 3)


def mini(**options):
    return Net(CFG, WEIGHTS, **options)


class Predicting(unittest.TestCase):
    def setUp(self):
        self.net = mini()
        self.prob = self.net.predict(PATHS)

    def test_paths_are_what_the_program_says(self):
        for path, row in zip(PATHS, self.prob):
            said = [line.split(",") for line in darknet("predict", "mini.data", CFG, WEIGHTS, path, "-csv", "-t", "3").split()[1:]]
            ours = [[name, f"{p:.6f}"] for name, p in self.net.top(row, 3, "names.list")]
            self.assertEqual([line[-2:] for line in said], ours)

    def test_images_of_every_kind(self):
        pixels = [read_ppm(path) for path in PATHS]
        for images in (Path(PATHS[0]), Path(PATHS[0]).read_bytes(), pixels[0], pixels[0][None], self.net.prepare(PATHS[0])[0]):
            np.testing.assert_array_equal(self.net.predict(images), self.net.predict([PATHS[0]]))
        mixed = [pixels[0], Path(PATHS[1]), Path(PATHS[2]).read_bytes(), *PATHS[3:]]
        for images in (pixels, mixed, tuple(PATHS), self.net.prepare(PATHS), iter(PATHS)):
            np.testing.assert_array_equal(self.net.predict(images), self.prob)
        np.testing.assert_array_equal(self.net.predict(np.stack(pixels[2:])), self.net.predict(PATHS[2:]))
        alpha = np.concatenate([pixels[0], np.full((*pixels[0].shape[:2], 1), 9, np.uint8)], axis=2)
        np.testing.assert_array_equal(self.net.predict(alpha), self.net.predict(PATHS[0]))
        self.assertEqual(self.net.predict([]).shape, (0, 3))
        self.assertEqual(self.net.predict(self.net.prepare(PATHS)[:0]).shape, (0, 3))
        self.assertEqual((self.prob.shape, self.prob.dtype), ((5, 3), np.float32))
        np.testing.assert_allclose(self.prob.sum(axis=1), 1, atol=1e-6)

    def test_arrays_in_any_order_of_memory(self):
        x = self.net.prepare(PATHS)
        self.assertIs(self.net.prepare(x), x)  # as it is
        self.assertTrue(np.shares_memory(self.net.prepare(x[0]), x))
        np.testing.assert_array_equal(self.net.predict(np.asfortranarray(x)), self.prob)
        np.testing.assert_array_equal(self.net.predict(np.repeat(x, 2, axis=3)[..., ::2]), self.prob)
        np.testing.assert_array_equal(self.net.predict(x[::-1])[::-1], self.prob)
        pixels = read_ppm(PATHS[0])
        np.testing.assert_array_equal(self.net.predict(pixels[:, ::-1]), self.net.predict(pixels[:, ::-1].copy()))

    def test_numbers_without_bounds(self):
        for name, value in (("0.convolutional.scale", 1e30), ("6.connected.weights", 3e38)):
            self.net.weights[name] = np.full_like(self.net.weights[name], value)
        with self.assertRaisesRegex(DarknetError, "images 0 to 2: image 0: a probability is not a number") as raised:
            self.net.predict(PATHS)
        self.assertEqual(raised.exception.code, Code.NUMBER)

    def test_options(self):
        views = [mini(view=view).prepare(PATHS[0]) for view in ("letterbox", "center", "whole")]
        self.assertFalse(np.array_equal(views[0], views[1]) or np.array_equal(views[1], views[2]))
        for rows in (1, 4):
            np.testing.assert_allclose(mini(rows=rows).predict(PATHS), self.prob, atol=1e-6)
        warm = mini(set=["softmax.temperature=4"]).predict(PATHS)
        np.testing.assert_array_equal(warm, mini(set="softmax.temperature=4").predict(PATHS))
        self.assertTrue((warm.max(axis=1) < self.prob.max(axis=1)).all())
        np.testing.assert_allclose(mini(device="ref").predict(PATHS), self.prob, atol=1e-5)
        with mini(threads=1, precision="fp32", deterministic=True, orient=True) as net:
            np.testing.assert_allclose(net.predict(PATHS), self.prob, atol=1e-6)
        random = [Net(CFG, seed=seed).weights["5.connected.weights"] for seed in (1, 2)]
        self.assertFalse(np.array_equal(*random))

    def test_features(self):
        darknet("features", "mini.data", CFG, WEIGHTS, "-out", "features.npy")
        features = self.net.features(Path("valid.list").read_text().split())
        np.testing.assert_allclose(features, np.load("features.npy"), atol=1e-5)
        self.assertEqual(self.net.features(PATHS, layer=0).shape, (5, 8 * 8 * 8))
        prob = self.net.features(PATHS, layer=self.net.layers - 1)
        np.testing.assert_allclose(prob, self.prob, atol=1e-6)

    def test_top(self):
        row = [.25, .5, .125, .125]
        self.assertEqual(self.net.top(row, 3), [(1, .5), (0, .25), (2, .125)])
        self.assertEqual(self.net.top(row, 1, ["a", "b", "c", "d"]), [("b", .5)])
        self.assertEqual((len(self.net.top(row, 9)), self.net.top(row, 0)), (4, []))
        self.assertEqual(read_names("names.list"), NAMES)
        for bad in ((self.prob, 1), (row, 1, NAMES)):
            self.assertRaisesRegex(ValueError, "^top: ", self.net.top, *bad)

    def test_shapes(self):
        net = self.net
        self.assertEqual((net.classes, net.input_shape, net.mini_batch, net.layers, net.rows), (3, (3, 8, 8), 3, 8, (0, 0)))
        self.assertEqual(repr(net), "<Net mini.cfg: 3 x 8 x 8 to 3 classes>")


class Weights(unittest.TestCase):
    def test_by_name(self):
        net = mini()
        shapes = {name: values.shape for name, values in net.weights.items()}
        self.assertEqual(list(shapes)[:5], [f"0.convolutional.{part}" for part in ("bias", "scale", "mean", "variance", "weights")])
        self.assertEqual(shapes["0.convolutional.weights"], (8, 3, 3, 3))
        self.assertEqual(shapes["5.connected.weights"], (12, 8))
        self.assertEqual(len(net.weights), len(shapes))
        file = np.fromfile(WEIGHTS, np.float32)[5:]  # the same numbers in the same order
        np.testing.assert_array_equal(np.concatenate([values.ravel() for values in net.weights.values()]), file)

    def test_assignment(self):
        net, other = mini(), Net(CFG)
        prob = net.predict(PATHS)
        other.weights.update(net.weights)
        np.testing.assert_array_equal(other.predict(PATHS), prob)
        net.weights["6.connected.bias"] = [0, 100, 0]
        self.assertTrue((net.predict(PATHS)[:, 1] > .99).all())
        net.weights["5.connected.weights"] = net.weights["5.connected.weights"].T.copy().T  # not contiguous
        np.testing.assert_array_equal(net.weights["5.connected.weights"], other.weights["5.connected.weights"])
        net.seen = 7
        net.save("set.weights")
        other.load("set.weights")
        np.testing.assert_array_equal(other.weights["6.connected.bias"], np.float32([0, 100, 0]))
        self.assertEqual(other.seen, 7)

    def test_refused(self):
        weights = mini().weights
        for name in ("0.convolutional.weight", "", 3, None):
            self.assertRaises(KeyError, lambda: weights[name])
            self.assertNotIn(name, weights)
        for value in (np.zeros((8, 3, 3)), np.zeros(216), 1):
            with self.assertRaisesRegex(ValueError, r"0.convolutional.weights: shape .*: expected \(8, 3, 3, 3\)"):
                weights["0.convolutional.weights"] = value
        with self.assertRaises(DarknetError) as raised:
            weights["0.convolutional.bias"] = np.full(8, np.nan)
        self.assertEqual(raised.exception.code, Code.NUMBER)
        with self.assertRaises((AttributeError, TypeError)):
            del weights["0.convolutional.bias"]


class Training(unittest.TestCase):
    def test_steps(self):
        rng = np.random.default_rng(1)
        labels = np.arange(3)
        images = (rng.random((3, 3, 8, 8)) * .1 + labels[:, None, None, None] / 3).astype(np.float32)
        with Net(CFG, train=True) as net:
            self.assertEqual(net.rows, (3, 0))
            ce = []
            for i in range(200):
                stats = net.step(images, labels)
                self.assertEqual((stats.iteration, stats.updated), (i // 2 + 1, i % 2 == 1))
                ce.append(stats.ce)
            self.assertLess(np.mean(ce[-20:]), np.mean(ce[:20]) / 2)
            self.assertEqual(net.seen, 600)
            self.assertTrue(np.isnan(stats.match))
        with Net(CFG, train=True) as net:  # pixels are prepared
            alike = Net(CFG, train=True).step(PATHS[2:], labels.astype(np.uint8))
            self.assertEqual(repr(net.step([read_ppm(path) for path in PATHS[2:]], list(labels))), repr(alike))
        with Net("itra.cfg", train=True) as net:
            self.assertEqual(net.rows, (3, 3))
            self.assertFalse(np.isnan(net.step(np.concatenate([images, images]), np.tile(labels, 2)).match))

    def test_run_is_that_of_the_program(self):
        progress = []
        with Net(CFG, train=True) as net:
            scores = net.train("mini.data", progress.append, backup="whole", name="a")
            self.assertEqual(scores[-1], net.validate("mini.data")._replace(iteration=20, epoch=scores[-1].epoch, best=scores[-1].best))
        self.assertEqual(Path("whole/a_final.weights").read_bytes(), Path(WEIGHTS).read_bytes())
        self.assertEqual([p.iteration for p in progress], list(range(1, 21)))
        self.assertEqual((scores[-1].k, scores[-1].images, scores[-1].unreadable), (2, 6, 0))

    def test_callbacks_stop_it(self):
        def fail(_):
            raise LookupError("enough")

        def interrupt(_):
            os.kill(os.getpid(), signal.SIGINT)

        def use(_):
            net.predict(PATHS)

        def use_in_a_thread(_):
            thread = threading.Thread(target=lambda: caught.append(self.assertRaises(RuntimeError, net.predict, PATHS)))
            thread.start()
            thread.join()
            caught.append("went on")
            return True

        caught = []
        for i, (callback, error) in enumerate([(lambda p: p.iteration == 1, None), (fail, LookupError), (interrupt, KeyboardInterrupt),
                                               (use, RuntimeError), (use_in_a_thread, None), (lambda _: np.zeros(2), ValueError)]):
            with self.subTest(i), Net(CFG, train=True) as net:
                if error:
                    self.assertRaises(error, net.train, "mini.data", callback, backup=f"part{i}")
                else:
                    net.train("mini.data", callback, backup=f"part{i}")
                self.assertEqual(net.seen, 6)
                net.train("mini.data", backup=f"part{i}", resume=f"part{i}/mini_last.state")
                self.assertEqual(Path(f"part{i}/mini_final.weights").read_bytes(), Path(WEIGHTS).read_bytes())
        self.assertEqual(len(caught), 2)
        self.assertIs(signal.getsignal(signal.SIGINT), signal.default_int_handler)
        with Net(CFG, train=True) as net:
            net.train("mini.data", None, lambda score: caught.append(score) or True, backup="valid")
            self.assertEqual(caught[-1].iteration * 6, net.seen)
            self.assertLess(net.seen, 120)


    def test_validation_shows_each_image(self):
        def interrupt(*_):
            os.kill(os.getpid(), signal.SIGINT)

        seen = []
        with mini() as net:
            score = net.validate("mini.data", lambda *image: seen.append(image), workers=2)
            self.assertEqual((score, score.images), (net.validate("mini.data"), 6))
            self.assertEqual([label for label, _ in seen], [0, 1, 2] * 2)
            with mini(view="center") as centered:
                said = centered.predict(Path("valid.list").read_text().split())
            np.testing.assert_allclose([row for _, row in seen], said, atol=1e-6)
            self.assertEqual(score.top1, np.mean([row.argmax() == label for label, row in seen]))
            self.assertEqual(net.validate("mini.data", lambda *_: True).images, 3)
            self.assertRaises(KeyboardInterrupt, net.validate, "mini.data", interrupt)
            self.assertRaises(RuntimeError, net.validate, "mini.data", lambda *_: net.predict(PATHS))
            Path("valid.bad").write_text(Path("valid.list").read_text() + f"{os.getcwd()}/img/none_cow.ppm\n")
            Path("bad.data").write_text(Path("mini.data").read_text().replace("valid.list", "valid.bad"))
            self.assertEqual(net.validate("bad.data", lambda label, row: seen.append((label, row))).unreadable, 1)
            self.assertEqual(seen[-1], (2, None))


class Warnings(unittest.TestCase):
    def test_are_logged(self):
        Path("odd.cfg").write_text(Path(CFG).read_text().replace("[net]", "[net]\nlearning_rat=1"))
        with self.assertLogs("darknet_itra", logging.WARNING) as logged:
            Net("odd.cfg").close()
        self.assertIn("odd.cfg:2: unused key 'learning_rat' in [net]; did you mean learning_rate?", logged.output[0])


    def test_information_is_none(self):
        still = {"train": True, "set": "net.learning_rate=0"}
        with self.assertLogs("darknet_itra", logging.INFO) as logged, Net(CFG, **still) as net:
            net.validate("mini.data")
        levels = {line.split(":", 2)[2]: line.split(":")[0] for line in logged.output}
        self.assertEqual(levels.pop("warning: mini.cfg: learning_rate=0: no weight will change"), "WARNING")
        self.assertEqual(set(levels.values()), {"INFO"}, levels)


class Help(unittest.TestCase):
    def test_has_every_attribute(self):
        text = pydoc.plain(pydoc.render_doc(Net))
        for name in Net.__annotations__:
            self.assertRegex(text, rf"\n +\|  +{name}  +\w")


class Errors(unittest.TestCase):
    def refused(self, error, words, function, *arguments, **options):
        with self.subTest(words), self.assertRaisesRegex(error, words) as raised:
            function(*arguments, **options)
        self.assertNotIn("\n", str(raised.exception))
        return raised.exception

    def test_opening(self):
        self.assertEqual(self.refused(DarknetError, "^none.cfg: no such file", Net, "none.cfg").code, Code.FILE)
        self.assertEqual(self.refused(DarknetError, "none.weights", Net, CFG, "none.weights").code, Code.FILE)
        self.assertEqual(self.refused(DarknetError, "names.list", Net, CFG, "names.list").code, Code.FORMAT)
        self.assertEqual(self.refused(DarknetError, "abacus", Net, CFG, device="abacus").code, Code.DEVICE)
        self.assertEqual(self.refused(DarknetError, "bf61", Net, CFG, precision="bf61").code, Code.CFG)
        self.assertEqual(self.refused(DarknetError, "-1 threads", Net, CFG, threads=-1).code, Code.ARG)
        self.assertEqual(self.refused(DarknetError, r"\[itra\]", Net, CFG, set=["itra.lambda=1"]).code, Code.ARG)
        self.refused(DarknetError, "rows=-1", Net, CFG, rows=-1)
        self.refused(ValueError, "view='side': expected one of letterbox", Net, CFG, view="side")
        self.refused(TypeError, "str, bytes or os.PathLike", Net, None)
        self.refused(TypeError, "str, bytes or os.PathLike", Net, 3)
        self.refused(ValueError, "null byte", Net, "mini.cfg\0")
        self.refused(TypeError, "", Net, CFG, threads="2")

    def test_images(self):
        net = mini()
        for function in (net.predict, net.features, net.prepare):
            self.refused(TypeError, "images of float64: expected uint8", function, np.zeros((1, 3, 8, 8)))
            self.refused(TypeError, "images of >f4", function, np.zeros((1, 3, 8, 8), ">f4"))
            self.refused(TypeError, "images of object", function, np.array([None]))
            self.refused(ValueError, "expected N x 3 x 8 x 8", function, np.zeros((1, 3, 8, 9), np.float32))
            self.refused(ValueError, "expected N x 3 x 8 x 8", function, np.zeros((1, 8, 8, 3), np.float32))
            self.refused(ValueError, "expected N x H x W x C", function, np.zeros((8, 8), np.uint8))
            self.refused(DarknetError, "5 channels", function, np.zeros((8, 8, 5), np.uint8))
            self.refused(DarknetError, "without pixels", function, np.zeros((0, 8, 3), np.uint8))
            self.refused(TypeError, "float32 of shape .* in a list", function, [np.zeros((3, 8, 8), np.float32)])
            self.refused(TypeError, "int in a list of images", function, [3])
            self.refused(TypeError, "NoneType", function, None)
            self.refused(DarknetError, "none.png: no such file", function, [PATHS[0], "none.png"])
            self.refused(DarknetError, "the image in memory", function, b"no image")
            self.refused(DarknetError, "is empty", function, b"")
        self.refused(DarknetError, "layer 99: expected 0..7", net.features, PATHS, 99)
        self.refused(DarknetError, "layer -1", net.features, PATHS, -1)
        self.assertEqual(net.predict(PATHS).shape, (5, 3))  # still of use

    def test_training(self):
        net, images = Net(CFG, train=True), np.zeros((3, 3, 8, 8), np.float32)
        self.refused(ValueError, "expected 0..2", net.step, images, [0, 1, 3])
        self.refused(ValueError, "labels from -1", net.step, images, [0, -1, 2])
        self.refused(ValueError, "expected 0..2", net.step, images, [0, 1, 2**32])
        self.refused(ValueError, r"labels of shape \(2,\) for 3 images", net.step, images, [0, 1])
        self.refused(ValueError, r"labels of shape \(3, 1\)", net.step, images, [[0], [1], [2]])
        self.refused(TypeError, "labels of float64", net.step, images, [0., 1., 2.])
        self.refused(DarknetError, "2 images: expected 3", net.step, images[:2], [0, 1])
        self.refused(DarknetError, "0 images: expected 3", net.step, [], np.zeros(0, int))
        bad = self.refused(DarknetError, "not finite", net.step, images * np.float32(np.nan), [0, 1, 2])
        self.assertEqual(bad.code, Code.NUMBER)
        self.assertEqual(net.step(images, [0, 1, 2]).iteration, 1)
        self.refused(DarknetError, "none.data", net.train, "none.data")
        self.refused(DarknetError, "none.data", net.validate, "none.data")
        self.refused(DarknetError, "workers=-1", net.train, "mini.data", workers=-1)
        self.refused(DarknetError, "workers=-1", net.validate, "mini.data", workers=-1)
        self.refused(DarknetError, "none.state", net.train, "mini.data", resume="none.state")
        self.refused(ValueError, "seen=-1", setattr, net, "seen", -1)
        self.refused(DarknetError, "set train", mini().step, images, [0, 1, 2])
        self.refused(DarknetError, "set train", mini().train, "mini.data")

    def test_closed(self):
        net = mini()
        weights = net.weights
        net.close()
        net.close()
        for use in (lambda: net.predict(PATHS), lambda: net.features(PATHS), lambda: net.prepare(PATHS), lambda: net.rows,
                    lambda: net.step(PATHS[:3], [0, 1, 2]), lambda: net.train("mini.data"), lambda: net.validate("mini.data"),
                    lambda: net.load(WEIGHTS), lambda: net.save("a"), lambda: net.seen, lambda: setattr(net, "seen", 1),
                    lambda: list(weights), lambda: weights["0.convolutional.bias"], lambda: weights.update({"a": 1})):
            self.assertRaisesRegex(ValueError, "this net is closed", use)
        with mini() as net:
            pass
        self.assertRaisesRegex(ValueError, "closed", net.predict, PATHS)

    def test_copies(self):
        net = mini()
        for function in (copy.copy, copy.deepcopy, pickle.dumps):
            self.refused(TypeError, "a Net cannot be copied", function, net)
        error = self.refused(DarknetError, "none.cfg", Net, "none.cfg")
        again = pickle.loads(pickle.dumps(error))
        self.assertEqual((again.code, str(again)), (error.code, str(error)))


class Threads(unittest.TestCase):
    def test_a_net_for_each(self):
        said = [None] * 4
        expected = mini(threads=1).predict(PATHS)

        def work(i):
            with mini(threads=1) as net:
                said[i] = [net.predict(PATHS) for _ in range(20)]

        threads = [threading.Thread(target=work, args=(i,)) for i in range(len(said))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        np.testing.assert_array_equal(np.array(said), np.broadcast_to(expected, (4, 20, *expected.shape)))


class Library(unittest.TestCase):
    def test_structures_are_those_of_the_header(self):
        said = dict(line.split(" ", 1) for line in Path("layout.txt").read_text().splitlines())
        ours = {"version": _library.VERSION}
        for name, structure in STRUCTURES.items():
            ours[name] = str(ctypes.sizeof(structure))
            for member, _ in structure._fields_:
                field = getattr(structure, member)
                ours[f"{name}.{member}"] = f"{field.offset} {field.size}"
        self.assertEqual(ours, said)


STRUCTURES = {name.lower(): getattr(_library, name) for name in "Error Options Param Batch Stats Progress Score Training Validation".split()}

if __name__ == "__main__":
    logging.getLogger("darknet_itra").addHandler(logging.NullHandler())
    if sys.argv[1:] == ["layout"]:  # what layout.c prints
        for name, structure in STRUCTURES.items():
            print(f"STRUCT({name});", *(f"MEMBER({name}, {member});" for member, _ in structure._fields_))
        sys.exit()
    result = unittest.main(exit=False).result
    wrong, skipped = len(result.failures) + len(result.errors), len(result.skipped)
    print(f"{result.testsRun - wrong - skipped} passed, {wrong} failed, {skipped} skipped")
    sys.exit(wrong != 0)
