"""Makes a wheel of a toolkit that "make dist" has written. Nothing is needed but Python: no network, no setuptools.

    python3 python/backend.py wheel --toolkit dist --out dist
    pip install ./python                     # takes the toolkit in ROPEWAY_DIST, or else in dist of the repository

The wheel has the package acl with the libraries inside, in acl/lib64, where it looks first, the command ropeway, the
pytest plugin, and the extension for Jupyter. Its tag says what the libraries need, as they themselves say: the processor,
the oldest glibc, and Python from 3.9 on.
"""

import argparse
import ast
import base64
import hashlib
import os
import re
import struct
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
DIST = os.path.join(HERE, "..", "dist")
LIBRARIES = ("libascendcl.so", "libropeway_core.so", "libropeway_check.so")
PLUGIN = "ropeway_pytest"
JUPYTER = "ropeway_jupyter"
EXTENSION = "_fast.abi3.so"
COMMAND = "bin/ropeway"  # acl has bin and lib64, as a toolkit has, so the command finds the libraries
# What installers put into the environment's bin: it finds the package without importing it, and becomes the command.
SCRIPT = f"""#!python
import importlib.util
import os
import sys

package = os.path.dirname(importlib.util.find_spec("acl").origin)
os.execv(os.path.join(package, *"{COMMAND}".split("/")), ["ropeway", *sys.argv[1:]])
"""
PROCESSORS = {62: "x86_64", 183: "aarch64"}  # by the number in an ELF header


class UnsupportedOperation(Exception):
    """What installers expect where a backend has no source distribution."""


# What installers call (PEP 517)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Writes the wheel and returns its file name."""
    return write_wheel(os.environ.get("ROPEWAY_DIST") or DIST, wheel_directory)


def build_sdist(sdist_directory, config_settings=None):
    raise UnsupportedOperation("ropeway has no source distribution: the libraries are built from a clone, by 'make dist'")


# The wheel


def write_wheel(toolkit, directory):
    """Writes the wheel of a toolkit into a directory, and returns the file's name. The same toolkit makes the same bytes."""
    about = project()
    files = package(toolkit)
    tag = tag_of(files)
    stem = f"{about['name']}-{about['version']}"
    info = f"{stem}.dist-info"
    files[f"{stem}.data/scripts/ropeway"] = SCRIPT.encode()
    files[f"{info}/LICENSE"] = read(HERE, "..", "LICENSE")
    files[f"{info}/METADATA"] = metadata(about).encode()
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: ropeway backend\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    files[f"{info}/entry_points.txt"] = f"[pytest11]\nropeway = {PLUGIN}\n".encode()
    files[f"{info}/RECORD"] = record(files, f"{info}/RECORD").encode()

    name = f"{stem}-{tag}.whl"
    os.makedirs(directory, exist_ok=True)
    unfinished = os.path.join(directory, f".{name}.{os.getpid()}")
    try:
        with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as wheel:
            for path, content in files.items():
                entry = zipfile.ZipInfo(path)  # dated 1980, so that no clock gets into the file
                entry.external_attr = (0o100755 if path.endswith((".so", "/ropeway")) else 0o100644) << 16
                wheel.writestr(entry, content, zipfile.ZIP_DEFLATED)
        os.replace(unfinished, os.path.join(directory, name))
    finally:
        if os.path.exists(unfinished):
            os.remove(unfinished)
    return name


def package(toolkit):
    """The files of the package by their paths in the wheel."""
    packages = os.path.join(toolkit, "python", "site-packages")
    acl = os.path.join(packages, "acl")
    needed = [os.path.join(toolkit, "lib64", name) for name in LIBRARIES]
    needed.append(os.path.join(toolkit, COMMAND))
    needed += [os.path.join(acl, name) for name in ("__init__.py", EXTENSION)]
    for path in needed:
        if not os.path.isfile(path):
            path = os.path.normpath(path)
            raise SystemExit(f"no {path}: write the toolkit with 'make dist' first, or say where it is (ROPEWAY_DIST)")
    files = {f"{name}.py": read(packages, f"{name}.py") for name in (PLUGIN, JUPYTER)}
    for name in sorted(os.listdir(acl)):
        if name.endswith((".py", ".pyi")) or name in ("py.typed", EXTENSION):
            files[f"acl/{name}"] = read(acl, name)
    for name in LIBRARIES:
        files[f"acl/lib64/{name}"] = read(toolkit, "lib64", name)
    files[f"acl/{COMMAND}"] = read(toolkit, COMMAND)
    return files


def tag_of(files):
    """Python, ABI and platform."""
    binaries = [content for path, content in files.items() if path.endswith(".so")]
    numbers = {struct.unpack_from("<H", content, 18)[0] for content in binaries if content[:4] == b"\x7fELF"}
    if len(numbers) != 1 or not numbers <= set(PROCESSORS):
        raise SystemExit("the libraries of the toolkit are not all for x86-64, or all for arm64")
    processor = PROCESSORS[numbers.pop()]
    # The versions of glibc's symbols that a library uses stand in its string table.
    versions = [int(version) for content in binaries for version in re.findall(rb"GLIBC_2\.(\d+)", content)]
    return f"cp39-abi3-{f'manylinux_2_{max(versions)}' if versions else 'linux'}_{processor}"


def project():
    """The table [project] of pyproject.toml, and the version."""
    text = read(HERE, "pyproject.toml").decode()
    lines = text.partition("[project]\n")[2].partition("\n[")[0].splitlines()
    about = {key: ast.literal_eval(value) for key, value in (line.split(" = ", 1) for line in lines if line)}
    return {**about, "version": read(HERE, "..", "VERSION").decode().strip()}


def owner(citation):
    """The fields that CITATION.cff has of the owner. What is not filled in is left out."""
    fields = []
    for name, form, value in (
        ("Author", r"^  - name: (.*)$", r"\1"),
        ("Maintainer-email", r"^contact: \[{name: (.*), email: (.*)}\]$", r"\1 <\2>"),
        ("Project-URL", r"^url: (.*)$", r"Homepage, \1"),
        ("Project-URL", r"^repository-code: (.*)$", r"Repository, \1"),
    ):
        match = re.search(form, citation, re.MULTILINE)
        if match:
            fields.append((name, match.expand(value)))
    return fields


def metadata(about):
    fields = [
        ("Metadata-Version", "2.1"),
        ("Name", about["name"]),
        ("Version", about["version"]),
        ("Summary", about["description"]),
        *owner(read(HERE, "..", "CITATION.cff").decode()),
        ("License", about["license"]),
        ("Keywords", ",".join(about["keywords"])),
        *[("Classifier", classifier) for classifier in about["classifiers"]],
        ("Requires-Python", about["requires-python"]),
        ("Description-Content-Type", "text/markdown"),
    ]
    return "".join(f"{name}: {value}\n" for name, value in fields) + "\n" + read(HERE, about["readme"]).decode()


def record(files, itself):
    """The list of all files with their hashes and sizes; its own is not among them."""
    lines = []
    for path, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(content)}\n")
    return "".join(lines) + f"{itself},,\n"


def read(*path):
    with open(os.path.join(*path), "rb") as file:
        return file.read()


def main():
    parser = argparse.ArgumentParser(prog="backend.py", description="Makes a wheel of a toolkit.")
    wheel = parser.add_subparsers(dest="command", required=True).add_parser("wheel", help="write the wheel and print its path")
    wheel.add_argument("--toolkit", default=DIST, help="what 'make dist' wrote (dist of the repository)")
    wheel.add_argument("--out", default=".", help="where to write it (the current directory)")
    arguments = parser.parse_args()
    print(os.path.join(arguments.out, write_wheel(arguments.toolkit, arguments.out)))


if __name__ == "__main__":
    main()
