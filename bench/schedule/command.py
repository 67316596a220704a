"""The command line of the measurements in this folder: the build folder first, figures out as JSON."""

import argparse
import json
import os
import sys


def parser(description):
    found = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    found.add_argument("build")
    return found


def report(measure, *arguments):
    if os.geteuid() != 0:
        sys.exit("network namespaces need root")
    print(json.dumps(measure(*arguments)))
