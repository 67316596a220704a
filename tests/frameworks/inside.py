"""inside.py BUILD_FOLDER [NAME=VALUE ...] SCRIPT [ARGUMENT ...]: a script of this folder on the emulator.

For scripts that are programs of their own with one process of PyTorch: operators.py, torch_on_emulator.py,
distributed_tests.py. CINCH=1 among the variables puts Cinch under it. Status 77 where there is no PyTorch.
"""
import os
import sys

import torch_environment

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    arguments = sys.argv[2:]
    settings = {}
    while "=" in arguments[0]:
        name, _, value = arguments.pop(0).partition("=")
        settings[name] = value
    prepared = torch_environment.prepared(sys.argv[1])
    environ = os.environ | prepared.variables(cinch=settings.pop("CINCH", "") == "1") | settings
    script = os.path.join(HERE, arguments[0])
    os.execve(prepared.python, [prepared.python, "-B", script, *arguments[1:]], environ)


if __name__ == "__main__":
    main()
