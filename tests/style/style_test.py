"""Runs pre-commit on all files of the repository, with a pre-commit that is installed once, in ~/.cache/cinch. Skipped
where there is no repository, or where it cannot be had."""

import os
import shutil
import subprocess
import sys

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
VERSION = "4.7.0"
SKIPPED = 77
INSTALL_SECONDS = 100  # each of three commands: a package index that does not answer must not fail the test
CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "cinch")
FOLDER = os.path.join(CACHE, f"pre-commit-{VERSION}-python{sys.version_info.major}.{sys.version_info.minor}")
ENVIRONMENT = dict(os.environ, PRE_COMMIT_HOME=os.path.join(CACHE, "pre-commit"), PIP_RETRIES="1")


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIPPED)


def require(*command):
    """Runs a command without which there is nothing to check."""
    try:
        done = subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, timeout=INSTALL_SECONDS, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    except (OSError, subprocess.TimeoutExpired) as reason:
        skip(str(reason))
    if done.returncode != 0:
        skip(f"{' '.join(command)}: {done.stdout.strip()[-300:]}")


def install():
    """The path of pre-commit, whose hooks are installed."""
    program = os.path.join(FOLDER, "bin", "pre-commit")
    if not os.path.exists(program):
        shutil.rmtree(FOLDER, ignore_errors=True)
        require(sys.executable, "-m", "venv", FOLDER)
        require(os.path.join(FOLDER, "bin", "pip"), "install", "--quiet", f"pre-commit=={VERSION}")
    require(program, "install-hooks")
    return program


def main():
    require("git", "ls-files", "--error-unmatch", ".pre-commit-config.yaml")
    program = install()
    command = [program, "run", "--all-files", "--show-diff-on-failure"]
    return subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
