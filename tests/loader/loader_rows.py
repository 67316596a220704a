"""The ways in which a program can get hold of NCCL, one row each: a real process under the preloaded
libcinch.so, or under the build of it that is called libnccl.so.2. A row says who has to see the call
(Cinch, or nobody) and which copy of NCCL has to get it, once.

    loader_rows.py [--json] [--preload LIBRARIES] BUILD_DIR

Prints "row NAME pass|fail WHAT" for each; with --json one more line, an object with the same. Ends with
status 1 where a row fails. LIBRARIES is what to preload (BUILD_DIR/lib/libcinch.so); what comes before
the last one, a sanitizer's runtime, is kept in front of the drop-in library too.
"""

import argparse
import json
import os
import re
import subprocess
import sys

ROWS = []
CINCH = "libcinch.so"
DROP_IN = "libnccl.so.2"


class Failure(Exception):
    pass


def row(name, what):
    def add(function):
        ROWS.append((name, what, function))
        return function
    return add


class Place:
    """Where the libraries lie, and how to run a program with them."""

    def __init__(self, build, preload):
        self.build = os.path.abspath(build)
        self.cinch = preload.split(":")
        self.drop_in = self.cinch[:-1] + [self.path("lib", "nccl", "libnccl.so.2")]
        self.sanitized = len(self.cinch) > 1

    def path(self, *parts):
        return os.path.join(self.build, *parts)

    def toy(self, *parts):
        return self.path("tests", "loader", *parts)

    def lib(self, name):
        return self.toy("lib" + name + ".so")

    def run(self, command, preload, **env):
        values = dict(os.environ, NCCL_DEBUG="INFO", ASAN_OPTIONS="detect_leaks=0", **env)
        if preload:
            values["LD_PRELOAD"] = ":".join(preload)
        done = subprocess.run(command, env=values, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=60)
        if done.returncode != 0:
            raise Failure(f"status {done.returncode}: {done.stdout}{done.stderr}")
        return done.stderr + done.stdout

    def drive(self, steps, preload, **env):
        return self.run([self.toy("loader_driver"), *steps], preload, **env)

    def python(self, code, preload, **env):
        return self.run([sys.executable, "-c", "import ctypes, sys\n" + code], preload, **env)


def expect(good, what, output):
    if not good:
        raise Failure(f"{what}: {output}")


def expect_call(output, name, copy, caller, times=1):
    """`name` came to `copy` so often, from an object called `caller`; no call was refused."""
    calls = re.findall(rf"^real (\w+) {name} from (.+)$", output, re.M)
    expect(calls == [(copy, caller)] * times, f"{name} to come to {copy} from {caller}", output)
    results = re.findall(r"^result (.+)$", output, re.M)
    expect(results and set(results) == {"0"}, "successful calls", output)


def expect_real(output, place, copy):
    """Cinch said which file it uses."""
    expect(re.search(rf"CINCH/INIT using NCCL \d+ from {re.escape(place.toy(copy))}/libnccl\.so\.2", output),
           f"Cinch to use copy {copy}", output)


def expect_unseen(output):
    expect("CINCH/" not in output, "Cinch to see nothing", output)


# Linked frameworks, as Python and others load them.

def linked(place, flags, framework="loader_fw_rpath"):
    output = place.drive(["open", flags, place.lib(framework), "run", "frameworkReduce"], place.cinch)
    expect_call(output, "AllReduce", "x", CINCH)
    expect_real(output, place, "x")


@row("A", "linked framework, RTLD_LOCAL, lazy")
def a(place):
    linked(place, "l")


@row("A2", "linked framework, RTLD_LOCAL, BIND_NOW")
def a2(place):
    linked(place, "ln", "loader_fw_now")


@row("A3", "linked framework, RTLD_GLOBAL; what NCCL calls itself is forwarded")
def a3(place):
    linked(place, "g")
    output = place.drive(["open", "g", place.lib("loader_fw_rpath"), "run", "frameworkBcast"], place.cinch)
    expect_call(output, "Bcast", "x", CINCH)
    expect_call(output, "Broadcast", "x", CINCH)


@row("A-program", "linked program")
def a_program(place):
    output = place.run([place.toy("loader_linked")], place.cinch)
    expect_call(output, "AllReduce", "x", CINCH)


@row("A-path", "linked program, found through PATH")
def a_path(place):
    output = place.run(["loader_linked"], place.cinch, PATH=place.toy())
    expect_call(output, "AllReduce", "x", CINCH)


@row("A-other", "functions that Cinch leaves alone go straight to NCCL")
def a_other(place):
    output = place.drive(["open", "l", place.lib("loader_fw_rpath"), "run", "frameworkCount"], place.cinch)
    expect_call(output, "CommCount", "x", "libloader_fw_rpath.so")
    expect_unseen(output)


@row("B", "linked framework, RTLD_DEEPBIND: out of reach of a preload, and unharmed")
def b(place):
    output = place.drive(["open", "ld", place.lib("loader_fw_rpath"), "run", "frameworkReduce"], place.cinch)
    expect_call(output, "AllReduce", "x", "libloader_fw_rpath.so")
    expect_unseen(output)


# dlopen and dlsym.

@row("C", "dlopen of the bare name, then dlsym")
def c(place):
    output = place.drive(["open", "l", "libnccl.so.2", "fetch"], place.cinch, LD_LIBRARY_PATH=place.toy("x"))
    expect_call(output, "AllReduce", "x", CINCH)
    expect_real(output, place, "x")


@row("D", "dlopen of an absolute path, then dlsym")
def d(place):
    output = place.drive(["open", "l", place.toy("x", "libnccl.so.2"), "fetch"], place.cinch)
    expect_call(output, "AllReduce", "x", CINCH)
    expect_real(output, place, "x")


@row("H", "the dlsym hook leaves other names and messages alone")
def h(place):
    output = place.drive(["open", "l", place.toy("x", "libnccl.so.2"), "lack", "ncclLacking", "lack", "lacking"],
                         place.cinch)
    expect(output == "result 0\nresult 0\n", "the messages of the real look-up", output)


@row("H-default", "RTLD_DEFAULT finds Cinch in front of a global NCCL")
def h_default(place):
    output = place.drive(["open", "g", place.toy("x", "libnccl.so.2"), "fetch-default"], place.cinch)
    expect_call(output, "AllReduce", "x", CINCH)


CTYPES = """
library = ctypes.CDLL(sys.argv[1] if len(sys.argv) > 1 else NAME)
p = ctypes.c_void_p
print("result", library.ncclAllReduce(p(0x1110), p(0x2220), ctypes.c_size_t(33), 4, 2, p(0x4440), p(0x5550)), flush=True)
"""


def ctypes_call(name):
    return CTYPES.replace("NAME", repr(name))


@row("J", "Python's ctypes, bare name (vLLM)")
def j(place):
    output = place.python(ctypes_call("libnccl.so.2"), place.cinch, LD_LIBRARY_PATH=place.toy("x"))
    expect_call(output, "AllReduce", "x", CINCH)
    expect_real(output, place, "x")


@row("J-path", "Python's ctypes, absolute path")
def j_path(place):
    output = place.python(ctypes_call(place.toy("x", "libnccl.so.2")), place.cinch)
    expect_call(output, "AllReduce", "x", CINCH)
    expect_real(output, place, "x")


JAX = """
ctypes.CDLL(NAME)
stub = ctypes.CDLL(STUB)
print("result", stub.stubReduce(), flush=True)
"""


def jax(place):
    return JAX.replace("NAME", repr(place.toy("x", "libnccl.so.2"))).replace("STUB", repr(place.lib("loader_stub")))


@row("J-jax", "an absolute path first, then stubs that open the bare name (JAX)")
def j_jax(place):
    output = place.python(jax(place), place.cinch)
    expect_call(output, "AllReduce", "x", CINCH)
    expect_real(output, place, "x")


@row("H6", "another preload that asks for RTLD_NEXT, before and behind Cinch")
def h6(place):
    for preload in (place.cinch + [place.lib("loader_preload")],
                    place.cinch[:-1] + [place.lib("loader_preload"), place.cinch[-1]]):
        output = place.drive(["parent", "open", "l", place.toy("x", "libnccl.so.2"), "fetch"], preload)
        expect(re.search(rf"^result {os.getpid()}$", output, re.M), "the real getppid", output)
        expect_call(output.replace(f"result {os.getpid()}\n", ""), "AllReduce", "x", CINCH)


# Two copies of NCCL in one process.

@row("two-linked", "two copies, each with a framework linked to it: each gets its own")
def two_linked(place):
    output = place.drive(["open", "l", place.lib("loader_fw_rpath"), "run", "frameworkReduce",
                          "open", "l", place.lib("loader_fw_other"), "run", "frameworkReduce"], place.cinch)
    calls = re.findall(r"^real (\w+) AllReduce from (.+)$", output, re.M)
    expect(calls == [("x", CINCH), ("y", CINCH)], "each its own copy", output)


@row("two-mixed", "one copy is linked, another is fetched with dlsym")
def two_mixed(place):
    output = place.drive(["open", "l", place.lib("loader_fw_rpath"), "run", "frameworkReduce",
                          "open", "l", place.toy("y", "libnccl.so.2.18.6"), "fetch"], place.cinch)
    calls = re.findall(r"^real (\w+) AllReduce from (.+)$", output, re.M)
    expect(calls == [("x", CINCH), ("y", CINCH)], "each its own copy", output)


@row("two-fetched", "two copies are fetched with dlsym: Cinch takes the first and leaves the second alone")
def two_fetched(place):
    output = place.drive(["open", "l", place.toy("x", "libnccl.so.2"), "fetch",
                          "open", "l", place.toy("y", "libnccl.so.2.18.6"), "fetch"], place.cinch)
    calls = re.findall(r"^real (\w+) AllReduce from (.+)$", output, re.M)
    expect(calls == [("x", CINCH), ("y", "loader_driver")], "each its own copy", output)


@row("two-raced", "threads fetch from two copies at once: every call comes to its own")
def two_raced(place):
    for _ in range(5):
        output = place.drive(["race", place.toy("x", "libnccl.so.2"), place.toy("y", "libnccl.so.2.18.6")],
                             place.cinch)
        calls = re.findall(r"^real (\w+) AllReduce from (.+)$", output, re.M)
        expect(sorted(copy for copy, _ in calls) == ["x"] * 4 + ["y"] * 4, "four calls of each copy", output)
        expect(sorted(caller for _, caller in calls) == [CINCH] * 4 + ["loader_driver"] * 4,
               "one copy to be reached through Cinch", output)
        expect(set(re.findall(r"^result (.+)$", output, re.M)) == {"0"}, "successful calls", output)


@row("two-closed", "a copy is looked at and closed, another is used: it gets the calls, through Cinch")
def two_closed(place):
    output = place.drive(["open", "l", place.toy("x", "libnccl.so.2"), "look", "close",
                          "open", "l", place.toy("y", "libnccl.so.2.18.6"), "fetch"], place.cinch)
    expect_call(output, "AllReduce", "y", CINCH)


@row("off", "CINCH_MODE=off: every way leads to the same NCCL")
def off(place):
    for preload, caller in ((place.cinch, CINCH), (place.drop_in, DROP_IN)):
        output = place.drive(["open", "l", place.lib("loader_fw_rpath"), "run", "frameworkReduce"], preload,
                             CINCH_MODE="off")
        expect_call(output, "AllReduce", "x", caller)
    output = place.drive(["open", "l", place.toy("x", "libnccl.so.2"), "fetch"], place.cinch, CINCH_MODE="off")
    expect_call(output, "AllReduce", "x", CINCH)


# NCCL that is linked statically.

def held(place, framework, preload):
    return place.drive(["open", "l", place.lib(framework), "run", "frameworkReduce"], preload)


@row("S1", "static NCCL with exported symbols: its own code is the real one")
def s1(place):
    output = held(place, "loader_held_exported", place.cinch)
    expect_call(output, "AllReduce", "held", CINCH)


@row("S-program", "static NCCL in the program itself: `cinch run` says that it is out of reach")
def s_program(place):
    output = place.run([place.toy("loader_static")], place.cinch)
    expect_call(output, "AllReduce", "static", "loader_static")
    expect_unseen(output)
    if place.sanitized:
        return  # `cinch run` preloads the library without the sanitizer's runtime
    for command, env in (([place.toy("loader_static")], {}), (["loader_static"], {"PATH": place.toy()})):
        output = place.run([place.path("bin", "cinch"), "run", "--", *command], None, **env)
        expect_call(output, "AllReduce", "static", "loader_static")
        expect("loader_static has NCCL 2.18.8 linked into it statically" in output, "a note", output)


def hidden(place, framework):
    output = held(place, framework, place.cinch)
    expect_call(output, "AllReduce", "held", f"lib{framework}.so")
    expect_unseen(output)
    # Beside an NCCL that Cinch sees, with NCCL_DEBUG=INFO.
    output = place.drive(["open", "l", place.lib(framework), "open", "l", place.lib("loader_fw_rpath"),
                          "run", "frameworkReduce"], place.cinch)
    expect_call(output, "AllReduce", "x", CINCH)
    expect(re.search(rf"WARN CINCH/INIT .*lib{framework}\.so has NCCL 2\.18\.7 linked into it statically", output),
           "the hidden NCCL to be named", output)


@row("S2", "static NCCL bound by -Bsymbolic-functions: out of reach, unharmed, and named where somebody asks")
def s2(place):
    hidden(place, "loader_held_bound")


@row("S3", "static NCCL hidden by a version script: out of reach, unharmed, and named where somebody asks")
def s3(place):
    hidden(place, "loader_held_hidden")


# The library that is called libnccl.so.2.

@row("E1", "drop-in: linked framework; nobody but Cinch loads the real one")
def e1(place):
    for framework in ("loader_fw_rpath", "loader_fw_runpath", "loader_fw_now"):
        output = place.drive(["open", "l", place.lib(framework), "run", "frameworkReduce", "run", "frameworkCount",
                              "run", "frameworkBcast"], place.drop_in)
        expect_call(output, "AllReduce", "x", DROP_IN)
        expect_call(output, "CommCount", "x", f"lib{framework}.so")
        expect_call(output, "Bcast", "x", DROP_IN)
        expect_real(output, place, "x")


@row("E1-program", "drop-in: linked program")
def e1_program(place):
    output = place.run([place.toy("loader_linked")], place.drop_in)
    expect_call(output, "AllReduce", "x", DROP_IN)


@row("E2", "drop-in: dlopen of the bare name")
def e2(place):
    output = place.drive(["open", "l", "libnccl.so.2", "fetch"], place.drop_in, LD_LIBRARY_PATH=place.toy("x"))
    expect_call(output, "AllReduce", "x", DROP_IN)
    output = place.python(ctypes_call("libnccl.so.2"), place.drop_in, LD_LIBRARY_PATH=place.toy("x"))
    expect_call(output, "AllReduce", "x", DROP_IN)


@row("E3", "drop-in: dlopen of an absolute path is out of reach, and unharmed")
def e3(place):
    output = place.drive(["open", "l", place.toy("x", "libnccl.so.2"), "fetch"], place.drop_in)
    expect_call(output, "AllReduce", "x", "loader_driver")
    expect_unseen(output)


@row("E4", "drop-in: linked framework, RTLD_DEEPBIND")
def e4(place):
    output = place.drive(["open", "ld", place.lib("loader_fw_rpath"), "run", "frameworkReduce"], place.drop_in)
    expect_call(output, "AllReduce", "x", DROP_IN)


@row("E5", "drop-in: an absolute path first, the bare name later (JAX)")
def e5(place):
    output = place.python(jax(place), place.drop_in)
    expect_call(output, "AllReduce", "x", DROP_IN)
    expect_real(output, place, "x")


@row("E-named", "drop-in: CINCH_NCCL_LIB names the real one; its own name is refused")
def e_named(place):
    steps = ["open", "l", place.lib("loader_fw_rpath"), "run", "frameworkReduce"]
    output = place.drive(steps, place.drop_in, CINCH_NCCL_LIB=place.toy("y", "libnccl.so.2.18.6"))
    expect_call(output, "AllReduce", "y", DROP_IN)
    output = place.drive(steps, place.drop_in, CINCH_NCCL_LIB=place.drop_in[-1])
    expect("cannot be used" in output, "a warning", output)
    expect_call(output, "AllReduce", "x", DROP_IN)


@row("E-system", "drop-in: without a trace of the real one, ldconfig's is used; without that the log says so")
def e_system(place):
    known = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True).stdout
    output = place.drive(["open", "l", place.path("lib", "nccl", "libnccl.so.2"), "open", "l",
                          place.lib("loader_lost"), "run", "frameworkVersion"], place.drop_in)
    if "libnccl.so.2 " in known:
        expect("result 0\n" in output and "CINCH/INIT using NCCL" in output, "the system's NCCL", output)
    else:
        expect("result 2\n" in output, "ncclSystemError", output)
        expect("cannot find the NCCL of this program" in output, "a warning", output)


@row("E-lacking", "drop-in: a function that the real NCCL lacks is an error of that call only")
def e_lacking(place):
    output = place.drive(["open", "ln", place.lib("loader_modern"), "run", "frameworkAllocate",
                          "run", "frameworkAllocate"], place.drop_in)
    expect(output.count("result 5\n") == 2, "ncclInvalidUsage", output)
    expect(output.count("has no ncclMemAlloc") == 1, "one warning", output)


@row("R1", "drop-in in LD_LIBRARY_PATH: DT_RPATH wins, so it is not used, and nothing is harmed")
def r1(place):
    output = place.drive(["open", "l", place.lib("loader_fw_rpath"), "run", "frameworkReduce"],
                         place.drop_in[:-1], LD_LIBRARY_PATH=os.path.dirname(place.drop_in[-1]))
    expect_call(output, "AllReduce", "x", "libloader_fw_rpath.so")
    expect_unseen(output)


@row("R2", "drop-in in LD_LIBRARY_PATH: it wins over DT_RUNPATH, and finds the real one there")
def r2(place):
    output = place.drive(["open", "l", place.lib("loader_fw_runpath"), "run", "frameworkReduce"],
                         place.drop_in[:-1], LD_LIBRARY_PATH=os.path.dirname(place.drop_in[-1]))
    expect_call(output, "AllReduce", "x", DROP_IN)
    expect_real(output, place, "x")


# Rows that a sanitizer's runtime forbids.
DEEPBIND = {"B", "E4"}


def run_rows(place):
    results = []
    for name, what, check in ROWS:
        if place.sanitized and name in DEEPBIND:
            continue
        try:
            check(place)
            results.append({"row": name, "passed": True, "what": what})
        except (Failure, subprocess.TimeoutExpired) as failure:
            results.append({"row": name, "passed": False, "what": what, "reason": str(failure)})
        print(f"row {name} {'pass' if results[-1]['passed'] else 'fail'} {what}")
        if not results[-1]["passed"]:
            print(results[-1]["reason"])
    return results


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--preload")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    place = Place(options.build, options.preload or os.path.join(options.build, "lib", CINCH))
    for library in (place.cinch[-1], place.drop_in[-1]):
        if not os.path.isabs(library) or not os.path.exists(library):
            sys.exit(f"{library} is not there: build it, and name it by its absolute path")
    results = run_rows(place)
    passed = sum(result["passed"] for result in results)
    if options.json:
        print(json.dumps({"loader_rows": len(results), "loader_rows_passed": passed, "rows": results}))
    return 0 if passed == len(results) and passed > 25 else 1


if __name__ == "__main__":
    sys.exit(main())
