"""Runs pre-commit on all files of the repository, with a pre-commit that is installed once, in ~/.cache/cinch. Skipped
where there is no repository, or where it cannot be had."""

import os
import subprocess
import sys

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
VERSION = "4.7.0"
SKIPPED = 77
CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "cinch")
FOLDER = os.path.join(CACHE, f"pre-commit-{VERSION}-python{sys.version_info.major}.{sys.version_info.minor}")


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIPPED)


def install():
    """The path of pre-commit."""
    program = os.path.join(FOLDER, "bin", "pre-commit")
    if os.path.exists(program):
        return program
    pip = [os.path.join(FOLDER, "bin", "pip"), "install", "--quiet", "--disable-pip-version-check"]
    for command in ([sys.executable, "-m", "venv", FOLDER], [*pip, f"pre-commit=={VERSION}"]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            skip(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()[-300:]}")
    return program


def main():
    if not os.path.exists(os.path.join(ROOT, ".git")):
        skip("this is no git repository")
    program = install()
    environment = dict(os.environ, PRE_COMMIT_HOME=os.path.join(CACHE, "pre-commit"))
    done = subprocess.run([program, "install-hooks"], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        skip(f"its hooks cannot be installed: {done.stdout.strip()[-300:]}")
    return subprocess.run([program, "run", "--all-files", "--show-diff-on-failure"], cwd=ROOT, env=environment,
                          check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
