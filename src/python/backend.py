"""Makes the wheel of pyproject.toml (PEP 517): the package and, in it, the shared library that `make lib` builds.

Options of make are taken from the environment, as make does: GPU=1 OPENCV=1 pip install .
"""
import base64
import hashlib
import io
import os
import re
import subprocess
import sysconfig
import tarfile
import zipfile
from pathlib import Path

try:
    import tomllib
except ImportError:  # Python < 3.11
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
VERSION = re.search(r'#define DN_VERSION "(.+)"', (ROOT / "include/darknet.h").read_text(encoding="utf-8"))[1]
NAME = f"{PROJECT['name'].replace('-', '_')}-{VERSION}"
TAG = "py3-none-" + re.sub("[-.]", "_", sysconfig.get_platform())


def _metadata():
    lines = ["Metadata-Version: 2.1", f"Name: {PROJECT['name']}", f"Version: {VERSION}",
             f"Summary: {PROJECT['description']}", f"License: {PROJECT['license']['text']}",
             f"Requires-Python: {PROJECT['requires-python']}"]
    lines += [f"Requires-Dist: {package}" for package in PROJECT["dependencies"]]
    lines += ["Description-Content-Type: text/markdown", "", (ROOT / PROJECT["readme"]).read_text(encoding="utf-8")]
    return "\n".join(lines)


def _info():
    """The files of NAME.dist-info, but for the list of all files."""
    wheel = f"Wheel-Version: 1.0\nGenerator: darknet-itra\nRoot-Is-Purelib: false\nTag: {TAG}\n"
    return {"METADATA": _metadata().encode(), "WHEEL": wheel.encode(), "LICENSE": (ROOT / "LICENSE").read_bytes()}


def _library():
    """The path of the shared library, built."""
    try:
        make = subprocess.run(["make", "-s", f"-j{os.cpu_count() or 1}", "lib-path"], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    except FileNotFoundError:
        raise SystemExit("darknet-itra: make is missing: install make and a C compiler") from None
    if make.returncode:
        raise SystemExit("darknet-itra: `make lib` failed, for the reason above")
    return ROOT / make.stdout.split()[-1]


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    folder = Path(metadata_directory, f"{NAME}.dist-info")
    folder.mkdir()
    for name, content in _info().items():
        (folder / name).write_bytes(content)
    return folder.name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    library = _library()
    package = ROOT / "src/python/darknet_itra"
    files = {f"darknet_itra/{path.name}": path.read_bytes() for path in sorted(package.iterdir()) if path.is_file()}
    files[f"darknet_itra/{library.name}"] = library.read_bytes()
    files |= {f"{NAME}.dist-info/{name}": content for name, content in _info().items()}
    record = ""
    wheel = Path(wheel_directory, f"{NAME}-{TAG}.whl")
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record += f"{name},sha256={digest},{len(content)}\n"
            archive.writestr(name, content)
        archive.writestr(f"{NAME}.dist-info/RECORD", record + f"{NAME}.dist-info/RECORD,,\n")
    return wheel.name


def build_sdist(sdist_directory, config_settings=None):
    """What build_wheel reads."""
    archive = Path(sdist_directory, f"{NAME}.tar.gz")
    with tarfile.open(archive, "w:gz") as tar:
        for name in ("LICENSE", "Makefile", "README.md", "include", "pyproject.toml", "src"):
            tar.add(ROOT / name, f"{NAME}/{name}", filter=lambda entry: None if "__pycache__" in entry.name else entry)
        info = tarfile.TarInfo(f"{NAME}/PKG-INFO")
        content = _metadata().encode()
        info.size = len(content)
        tar.addfile(info, io.BytesIO(content))
    return archive.name
