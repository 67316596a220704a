"""exact_test.py BUILD_FOLDER [OPTION or PATTERN ...]: exact_programs.py, where there is PyTorch; else status 77."""
import sys

import torch_environment

import exact_programs


def main():
    build, *arguments = sys.argv[1:]
    options = exact_programs.parse(arguments)
    return exact_programs.run(torch_environment.prepared(build), options)


if __name__ == "__main__":
    sys.exit(main())
