"""What it is like to install and to run Cinch, seen now: packages that are installed where nothing else is,
run a job and are removed; mistakes that are named with what to do; jobs that are killed, and what they leave;
the commands of the documents.

misconfigurations are those of `cinch doctor` and those that only a job's log can name."""

import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, "build")
sys.path.insert(0, os.path.join(ROOT, "tests", "operate"))
PREPARE = """
. tools/setup.sh
set_up_tests
cmake --preset release
cmake --build --preset release
"""
PACKAGES = ("deb", "wheel", "tarball")
KILLS = 50
LEAST_MISTAKES = 20


def say(text):
    print(text, file=sys.stderr, flush=True)


def build():
    subprocess.run(["bash", "-euo", "pipefail", "-c", PREPARE], cwd=ROOT, check=True, stdout=sys.stderr)


def package_passes(kind):
    """A test that is skipped has not passed."""
    command = [sys.executable, "-B", os.path.join(ROOT, "tests", "packages", f"{kind}_test.py"), BUILD]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    say(done.stderr)
    return done.returncode == 0 and "skipped" not in done.stderr


def count(faults):
    """(how many there are, how many are empty)"""
    faults = list(faults)
    for fault in filter(None, faults):
        say(f"== {fault}")
    return len(faults), sum(not fault for fault in faults)


def mistakes():
    """Of each, how it is not named."""
    import job_mistakes
    import misconfigurations

    for row in misconfigurations.rows(BUILD):
        fault = misconfigurations.faults(BUILD, row)
        yield fault and f"{row.title}: {fault}"
    for mistake in job_mistakes.MISTAKES:
        yield job_mistakes.run(mistake, BUILD)


def commands_of_documents():
    import documents

    for name in documents.PAGES:
        yield from documents.run(documents.read(name), BUILD)


def measure():
    build()
    import job
    import promtool

    if promtool.find() is None:
        sys.exit("bench/report: metrics cannot be checked without promtool, of Debian's package prometheus")
    packages = {kind: "pass" if package_passes(kind) else "fail" for kind in PACKAGES}
    planted, named = count(mistakes())
    killed, valid = count(job.kill_jobs(BUILD, KILLS))
    commands, commands_pass = count(commands_of_documents())
    figures = {"packages": packages, "misconfigurations": planted, "named": named, "killed": killed,
               "valid_reports": valid, "doc_commands": commands, "doc_commands_pass": commands_pass}
    passed = set(packages.values()) == {"pass"} and planted >= LEAST_MISTAKES and planted == named
    return figures, passed and killed == valid and commands == commands_pass
