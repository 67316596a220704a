"""Debian packages whose files a test needs, while their installation would change this machine."""

import os
import subprocess


class NoPackage(Exception):
    """Why there is none."""


def unpack(package, folder):
    """Fetches it with apt, and unpacks it into the folder, which has no other package."""
    # The name of the user says that a folder which only root can write is fine.
    fetched = subprocess.run(
        ["apt-get", "-q", "-o", "APT::Sandbox::User=root", "-o", "Acquire::Retries=3", "download", package],
        cwd=folder, capture_output=True, text=True, check=False)
    packages = [name for name in os.listdir(folder) if name.endswith(".deb")]
    if not packages:
        raise NoPackage(f"apt-get download failed: {fetched.stderr.strip()[-300:]}")
    subprocess.run(["dpkg-deb", "-x", packages[0], "."], cwd=folder, check=True)
