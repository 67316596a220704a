"""Packages from the index that pip is configured for, kept under one cache folder, so that each is
downloaded once. What cannot be had raises Unavailable with the reason."""

import contextlib
import glob
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile


class Unavailable(Exception):
    pass


def run(command, what):
    env = dict(os.environ, PIP_DISABLE_PIP_VERSION_CHECK="1", PIP_NO_INPUT="1", PIP_RETRIES="1")
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    if done.returncode != 0:
        lines = (done.stderr + done.stdout).strip().splitlines() or ["no message"]
        raise Unavailable(f"{what}: {lines[-1]}")


def environment(cache, name, *requirements, dependencies=True):
    """The site-packages folder of a virtual environment that holds these packages."""
    home = os.path.join(cache, name)
    complete = os.path.join(home, "complete")
    if not os.path.exists(complete):
        shutil.rmtree(home, ignore_errors=True)
        run([sys.executable, "-m", "venv", home], "cannot make a virtual environment")
        if requirements:
            install = [python_of(home), "-m", "pip", "install", "--quiet", "--no-cache-dir"]
            install += [] if dependencies else ["--no-deps"]
            run([*install, *requirements], f"cannot install {' '.join(requirements)}")
        open(complete, "w").close()
    return glob.glob(os.path.join(home, "lib", "python3*", "site-packages"))[0]


def python_of(home):
    return os.path.join(home, "bin", "python")


def wheel(cache, package, version):
    """The path of a package's wheel, without what it depends on."""
    pattern = os.path.join(cache, f"{package.replace('-', '_')}-{version}-*.whl")
    if not glob.glob(pattern):
        environment(cache, "pip")
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            download = [python_of(os.path.join(cache, "pip")), "-m", "pip", "download", "--quiet"]
            download += ["--no-cache-dir", "--no-deps", "--only-binary", ":all:", "--dest", folder]
            run([*download, f"{package}=={version}"], f"cannot download {package} {version}")
            for name in os.listdir(folder):
                os.replace(os.path.join(folder, name), os.path.join(cache, name))
    return glob.glob(pattern)[0]


@contextlib.contextmanager
def unpacked(cache, wheel_path, wanted):
    """A folder with the members of a wheel whose names `wanted` accepts; gone afterwards."""
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        with zipfile.ZipFile(wheel_path) as archive:
            archive.extractall(folder, filter(wanted, archive.namelist()))
        yield folder
