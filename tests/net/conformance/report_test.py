"""What a run with CINCH_STATS leaves behind, and what it says of its connections: two processes over the plugin.

usage: report_test.py NET_CONFORMANCE PLUGIN
"""
import glob
import json
import os
import subprocess
import sys
import tempfile

CONNECTIONS = 3
FLOWS = 2


def run(harness, plugin, folder):
    environment = dict(os.environ, NCCL_SOCKET_IFNAME="lo", CINCH_STATS=f"{folder}/%p", CINCH_NET_FLOWS=str(FLOWS))
    command = [harness, "--bench", "stream", "--bytes", "300000", "--connections", str(CONNECTIONS), "--seconds", "0.5",
               "--warmup", "0", "--verbose", plugin]
    done = subprocess.run(command, env=environment, check=True, timeout=60, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.stdout.splitlines()


def check(condition, what):
    if not condition:
        sys.exit(f"FAIL: {what}")


def check_lines(lines):
    """One line for each connection, at either end."""
    for direction in "to", "from":
        said = [line for line in lines if f"connection {direction} " in line]
        check(len(said) == CONNECTIONS, f"{len(said)} lines of connections {direction} a peer, not {CONNECTIONS}: {said}")
        for line in said:
            check(f"over {FLOWS} flows of lo, sampled checksums, no key" in line, line)


def check_reports(reports, n_messages):
    sender, receiver = sorted(reports, key=lambda report: report["totals"]["received_bytes"])
    for report in reports:
        check(report["device"] == "lo" and report["strangers"] == 0, report)
        check(len(report["peers"]) == 1 and len(report["peers"][0]["flows"]) == FLOWS, report)
    sent, received = sender["totals"]["sent_bytes"], receiver["totals"]["received_bytes"]
    check(received >= 300000 * n_messages, f"{received} bytes are fewer than those of {n_messages} messages")
    # The last words of a connection may not be read any more.
    check(0 <= sent - received <= 4096, f"{sent} bytes were sent and {received} received")
    check(sender["totals"]["chunks"] >= n_messages, sender["totals"])
    for flow in sender["peers"][0]["flows"]:
        mirror = [it for it in receiver["peers"][0]["flows"] if it["remote"] == flow["local"]]
        check(len(mirror) == 1 and mirror[0]["local"] == flow["remote"], f"no other end of {flow}")
        check(flow["openings"] == 1 and flow["open"] == (flow["round_trip_us"] > 0), flow)


def main():
    harness, plugin = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        lines = run(harness, plugin, folder)
        paths = sorted(glob.glob(f"{folder}/*.net.json"))
        check(len(paths) == 2 and len(os.listdir(folder)) == 4, f"left behind: {os.listdir(folder)}")
        for path in paths:
            with open(path.replace(".json", ".txt"), encoding="utf-8") as file:
                check(file.read().startswith("Cinch network report\n\ndevice lo: 0 strangers\n"), path)
        check_lines(lines)
        result = json.loads(next(line for line in lines if line.startswith('{"bench"')))
        reports = []
        for path in paths:
            with open(path, encoding="utf-8") as file:
                reports.append(json.load(file))
        check_reports(reports, result["messages"])
    print(f"{result['messages']} messages, and the reports agree")


if __name__ == "__main__":
    main()
