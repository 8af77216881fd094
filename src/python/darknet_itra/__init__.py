"""Darknet-compatible image classifiers: networks described by .cfg files, weights in .weights files.

    from darknet_itra import Net

    with Net("net.cfg", "net.weights") as net:
        for row in net.predict(["cat.jpg", "dog.jpg"]):
            print(net.top(row, 3, names="net.names"))

`darknet_itra.compat` has the names of pjreddie's darknet.py.
"""
from ._library import Code, DarknetError, __version__
from .net import Net, Progress, Score, Stats, read_names

__all__ = ["Code", "DarknetError", "Net", "Progress", "Score", "Stats", "read_names"]
