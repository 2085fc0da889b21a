# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of the image: what is kept of the Debian packages, the agent's bundle, and Python's byte code for both."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from debian import RELEASE, RELEASE_NUMBER, Package, PackageError, native
from oci import File, permitted

PYTHON = "python3.13"
USER = 65525  # neither a user of Debian or systemd, nor the "nonroot" (65532) of other images
ENTRY = "usr/local/bin/kubenode"
AGENT = "opt/kubenode"
PACKAGES = (f"{PYTHON}-minimal", f"lib{PYTHON}-stdlib", "iptables", "ipset", "kmod")
# Dependencies of parts of these packages that the image leaves out, or of their installation.
LEFT_OUT = {
    "debconf": "questions of an installation",
    "libdb5.3t64": "dbm",
    "libncursesw6": "curses",
    "libreadline8t64": "readline",
    "libtinfo6": "curses and readline",
    "libuuid1": "uuid in C",
    "media-types": "mimetypes",
    "openssl-provider-legacy": "ciphers that TLS 1.2 and 1.3 do not have",
    "readline-common": "readline",
    "tzdata": "zoneinfo: the agent writes UTC",
}
_CAP_NET_ADMIN, _CAP_NET_RAW = 12, 13
_LINKS = {"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "usr/bin/python3": PYTHON}
_TOOLS = [f"{program}{verb}" for program in ("iptables", "ip6tables") for verb in ("", "-save", "-restore")]
# Files that are kept of usr/share, and others that are not kept.
_SHARED = re.compile(r"usr/share/doc/[^/]+(/copyright)?$")
_DROPPED = re.compile(
    r"usr/share/|usr/sbin/(arptables|ebtables|nfnl_osf|\w+-apply|xtables-monitor|.*-translate)"
    r"|usr/lib/[^/]+/(gconv|engines-3|ossl-modules|audit)/|usr/lib/(binfmt\.d|udev|systemd|locale)/|etc/(?!modprobe|depmod|protocols|services|ethertypes|rpc)"
    r"|usr/lib/python3\.13/(__phello__|_pyrepl|asyncio|curses|dbm|ensurepip|idlelib|lib2to3|pydoc_data|sqlite3/__main__"
    r"|test|tkinter|turtledemo|unittest|venv|wsgiref|xmlrpc|zoneinfo|config-[^/]+)(/|\.py|$)"
    r"|usr/lib/python3\.13/(_aix_support|_android_support|_apple_support|_ios_support|_osx_support|_sysconfigdata_\S+"
    r"|antigravity|doctest|sitecustomize|ftplib|imaplib|mailbox|pdb|poplib|pydoc|smtplib|this|turtle|wave|webbrowser|zipapp)\.py"
    r"|usr/lib/python3\.13/lib-dynload/(_asyncio|_codecs_\w+|_ctypes_test|_curses\w*|_dbm|_multibytecodec|_test\w*"
    r"|_uuid|_xxtestfuzz|_zoneinfo|readline|xx\w+)\."
    r"|usr/lib/python3\.13/encodings/(big5\w*|cp9[345]\w*|euc_\w+|gb\w+|hz|iso2022_\w+|johab|shift_jis\w*)\.py"
)
_COMPILE = """
import py_compile, sys
unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
for line in sys.stdin.read().splitlines():
    py_compile.compile(sys.argv[1] + line, sys.argv[1] + line + "c", "/" + line, True, 0, unchecked, 0)
"""


def base(packages: Iterable[Package]) -> dict[str, File]:
    """Return the files of the first layer."""
    files = {name: File(link=target) for name, target in _LINKS.items()}
    for package in packages:
        for info, data in package.members:
            name = info.name.removeprefix("./").rstrip("/")
            if info.isdir() or (_DROPPED.match(name) and not _SHARED.match(name)):
                continue
            files[name] = File(link=info.linkname) if info.issym() else File(data, info.mode & 0o755)
        # where scanners for vulnerabilities look for the packages of images without dpkg
        files[f"var/lib/dpkg/status.d/{package.pin.name}"] = File(package.control.encode())
    if any(name.startswith("usr/lib64/") for name in files):  # amd64 only
        files["lib64"] = File(link="usr/lib64")
    for tool in _TOOLS:  # dpkg's alternatives
        files[f"usr/sbin/{tool}"] = File(link="xtables-nft-multi")
    program = files[f"usr/bin/{PYTHON}"]
    files[f"usr/bin/{PYTHON}"] = program._replace(capabilities=permitted(_CAP_NET_ADMIN, _CAP_NET_RAW))
    users = f"root:x:0:0:root:/root:/sbin/nologin\nkubenode:x:{USER}:{USER}:kubenode-agent:/tmp:/sbin/nologin\n"
    files["etc/passwd"] = File(users.encode())
    files["etc/group"] = File(f"root:x:0:\nkubenode:x:{USER}:\n".encode())
    files["etc/os-release"] = File(
        f'PRETTY_NAME="kubenode-agent on Debian packages"\nID=debian\nVERSION_ID="{RELEASE_NUMBER}"\n'
        f"VERSION_CODENAME={RELEASE}\n".encode()
    )
    for name in ("tmp", "run", "proc", "sys", "dev", "etc/kubenode", "root"):
        files[name] = File(mode=0o40755 if name != "tmp" else 0o41777)
    return files


def agent(bundle: Mapping[str, bytes]) -> dict[str, File]:
    """Return the files of the second layer: the bundle as it is on every node, and the command of the image."""
    files = {
        f"{AGENT}/{name}": File(data, 0o755 if name.startswith("bin/") else 0o644) for name, data in bundle.items()
    }
    files[ENTRY] = File(Path(__file__).with_name("kubenode").read_bytes(), 0o755)
    return files


def byte_code(native_base: Mapping[str, File], agent_files: Mapping[str, File]) -> dict[str, File]:
    """Return the byte code of all Python files, by the name of the file, made by the image's own Python.

    It never compares the source's time (PEP 552: unchecked): nothing in an image changes. It does not depend on the
    architecture.

    Raises:
        PackageError: the image's Python fails.
    """
    files = {**native_base, **agent_files}
    sources = sorted(name for name in files if name.endswith(".py"))
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        for name, file in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if file.link:
                path.symlink_to(file.link)
            elif file.mode & 0o40000:
                path.mkdir(exist_ok=True)
            else:
                path.write_bytes(file.data)
        os.chmod(root / f"usr/bin/{PYTHON}", 0o755)
        # the image's loader: this machine's C library may be older
        loader = next(root.glob("usr/lib/*/ld-linux-*.so.*"))
        os.chmod(loader, 0o755)
        words = [str(loader), "--library-path", str(loader.parent), str(root / f"usr/bin/{PYTHON}"), "-IS", "-c"]
        done = subprocess.run(
            [*words, _COMPILE, f"{root}/"],
            input="\n".join(sources),
            env={"PYTHONHOME": f"{root}/usr", "LC_ALL": "C.UTF-8"},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise PackageError(f"{PYTHON} {native()} cannot compile its files: {done.stderr.strip()[-500:]}")
        return {name: File((root / f"{name}c").read_bytes()) for name in sources}


def with_byte_code(files: Mapping[str, File], compiled: Mapping[str, File]) -> dict[str, File]:
    """Return files, and beside each Python file its byte code."""
    return {**files, **{_cached(name): compiled[name] for name in files if name in compiled}}


def as_byte_code(files: Mapping[str, File], compiled: Mapping[str, File]) -> dict[str, File]:
    """Return files with byte code in place of each Python file: the image's Python needs no source."""
    return {f"{name}c" if name in compiled else name: compiled.get(name, file) for name, file in files.items()}


def _cached(name: str) -> str:
    directory, _slash, file = name.rpartition("/")
    return f"{directory}/__pycache__/{file[:-3]}.cpython-{PYTHON.removeprefix('python').replace('.', '')}.pyc"
