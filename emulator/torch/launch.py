"""Runs a PyTorch training script on several ranks, with no GPU: PyTorch's own torchrun, on the emulator.

By default all ranks are processes of one host. --hosts makes several hosts, each with a torchrun of its own,
whose traffic crosses a network: only that is what Cinch compresses. As root each host is a network namespace,
which --link slows down; such hosts reach one another and nothing else, so what a script downloads has to be
here before. Otherwise they share this machine's network.
"""
import argparse
import os
import shutil
import socket
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.append(os.path.join(ROOT, "bench"))

import environment  # noqa: E402
import report  # noqa: E402
import supervise  # noqa: E402
from errors import Unusable  # noqa: E402
from lab import network, rate  # noqa: E402


def parse(arguments):
    parser = argparse.ArgumentParser(prog="emulator/torch/run", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", "--ranks", type=int, required=True, help="processes in all; each has one emulated GPU")
    parser.add_argument("--hosts", type=int, default=1, help="hosts with as many ranks each (default 1)")
    parser.add_argument("--link", metavar="RATE", help="of every host's link: 100mbit, 1gbit, ...; needs root")
    parser.add_argument("--shared-network", action="store_true", help="hosts share this machine's network, as root, too")
    parser.add_argument("--cinch", action="store_true", help="with Cinch, which reports at the end what it did")
    parser.add_argument("-m", "--module", action="store_true", help="SCRIPT is the name of a module, as for python -m")
    parser.add_argument("--python", metavar="PATH", help="of an environment of your own, with PyTorch for CUDA 13")
    parser.add_argument("--build", metavar="FOLDER", help="a build folder of Cinch, used as it is (default: build/, "
                        "which is brought up to date)")
    parser.add_argument("--check-arguments", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("script", metavar="SCRIPT")
    parser.add_argument("arguments", metavar="...", nargs=argparse.REMAINDER, help="for the script")
    options = parser.parse_args(arguments)
    check(parser, options)
    return options


# As emulator/environment.h has it.
MOST_DEVICES = 64


def check(parser, options):
    if options.ranks < 1:
        parser.error(f"-n {options.ranks}: at least one rank is needed")
    if options.hosts < 1 or options.ranks % options.hosts:
        parser.error(f"--hosts {options.hosts}: each host has as many ranks as any other, and {options.ranks} (-n) "
                     f"cannot be divided by {options.hosts}")
    if options.hosts > 250:
        parser.error(f"--hosts {options.hosts}: at most 250 have an address each")
    if not options.module and not os.path.isfile(options.script):
        parser.error(f"{options.script}: there is no such file; give the training script, then its arguments")
    if options.python and not os.access(options.python, os.X_OK):
        parser.error(f"--python {options.python}: there is no such program")
    devices = os.environ.get("CINCH_EMULATOR_DEVICES")
    if devices and not (devices.isascii() and devices.isdigit() and 1 <= int(devices) <= MOST_DEVICES):
        parser.error(f"CINCH_EMULATOR_DEVICES={devices}: a process can see 1 to {MOST_DEVICES} devices; without the "
                     "variable it sees one for each rank of its host")
    options.link_bits = None
    if options.link:
        try:
            options.link_bits = rate.bits_per_second(options.link)
        except ValueError as error:
            parser.error(f"--link: {error}")
        if options.hosts == 1:
            parser.error(f"--link {options.link}: one host has no link to another; add --hosts 2")
        if options.shared_network or os.geteuid() != 0:
            parser.error(f"--link {options.link}: a link of its own for each host needs network namespaces: start "
                         "this as root and without --shared-network")


def open_network(options):
    """Namespaces where they can be had, else this machine's network. A context."""
    if options.hosts == 1:
        return network.Loopback(1, "one host")
    if options.shared_network or os.geteuid() != 0:
        reason = "--shared-network" if options.shared_network else "namespaces need root"
        return network.Loopback(options.hosts, reason)
    opened = network.open_network(options.hosts, options.link, options.link_bits)
    if options.link and isinstance(opened, network.Loopback):
        raise Unusable(f"--link {options.link}: {opened.reason}. Leave --link out to have all hosts share this "
                       "machine's network")
    return opened


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def torchrun(options, prepared, host, address, port, scratch):
    """The command of one host."""
    command = [prepared.python, "-m", "torch.distributed.run", "--nnodes", str(options.hosts), "--node-rank", str(host),
               "--nproc-per-node", str(options.ranks // options.hosts), "--master-addr", address, "--master-port",
               str(port), "--log-dir", os.path.join(scratch, f"host{host}")]
    return command + (["-m"] if options.module else []) + [options.script, *options.arguments]


def host_variables(options, prepared, host, opened, scratch):
    variables = os.environ | prepared.variables(options.cinch)
    # In a namespace the machine's name leads nowhere: libraries that look it up are told the interface.
    variables |= {"NCCL_HOSTID": f"host{host}", "GLOO_SOCKET_IFNAME": opened.interface,
                  "TP_SOCKET_IFNAME": opened.interface}
    variables.setdefault("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", str(int(supervise.STOP_SECONDS) - 2))
    if options.cinch and "CINCH_STATS" not in os.environ:
        variables["CINCH_STATS"] = os.path.join(scratch, "reports", "%p")
    return variables


def run_job(options, prepared, scratch):
    """Runs in the keeper; returns the status of torchrun."""
    try:
        with open_network(options) as opened:
            hosts = range(options.hosts)
            if options.hosts > 1:
                environment.say(f"{options.hosts} hosts of {options.ranks // options.hosts} ranks: {opened.describe()}")
            port = free_port()
            os.mkdir(os.path.join(scratch, "reports"))
            commands = [opened.command(host, torchrun(options, prepared, host, opened.host_address(0), port, scratch))
                        for host in hosts]
            environments = [host_variables(options, prepared, host, opened, scratch) for host in hosts]
            try:
                return supervise.run_hosts(commands, environments)
            finally:
                if options.cinch:
                    show_report(options, prepared, opened, scratch)
    except (Unusable, network.NetworkError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def show_report(options, prepared, opened, scratch):
    if "CINCH_STATS" in os.environ:
        environment.say(f"Cinch's reports are where CINCH_STATS says: {os.environ['CINCH_STATS']}")
        return
    setting = f"{options.ranks} ranks, {options.hosts} host{'s' if options.hosts > 1 else ''}"
    if options.hosts > 1:
        setting += f", {options.link} links" if options.link else ", links not slowed down"
    print(report.summary(os.path.join(scratch, "reports"), setting, os.path.join(prepared.build, "bin", "cinch")))


def main():
    options = parse(sys.argv[1:])
    if options.check_arguments:
        return 0
    try:
        with supervise.interruptible():
            prepared = environment.prepare(options.python, options.build)
    except Unusable as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except supervise.Interrupted as interrupted:
        print(f"== {interrupted}: nothing was started", file=sys.stderr)
        return interrupted.status
    scratch = tempfile.mkdtemp(prefix="cinch-torch-")

    def clean_up():
        shutil.rmtree(scratch, ignore_errors=True)
        if os.geteuid() == 0:
            network.remove_leftovers()

    return supervise.supervised(lambda: run_job(options, prepared, scratch), clean_up)


if __name__ == "__main__":
    sys.exit(main())
