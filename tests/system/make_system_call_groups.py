"""Writes system_call_groups.py: what the groups of systemd's SystemCallFilter= hold, and the numbers of x86-64's calls.

    python3 tests/system/make_system_call_groups.py > tests/system/system_call_groups.py

It wants systemd-analyze and Linux's header of numbers (Debian: systemd, linux-libc-dev). What it writes lies in the
tree because the machines that the sandbox is tried on may have neither.
"""

import pathlib
import re
import subprocess
import textwrap

HEADER = pathlib.Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")

HEAD = '''"""What the groups of SystemCallFilter= hold, and the numbers of x86-64's system calls.

Made by make_system_call_groups.py with systemd {version}; change nothing here. Calls that x86-64 does not have are left
out.
"""

SYSTEMD = "{version}"

GROUPS = {{name: members.split() for name, members in {{
'''
NUMBERS = 'NUMBERS = {name: int(number) for name, number in (pair.split("=") for pair in """'


def analyze(*words):
    return subprocess.run(["systemd-analyze", *words], check=True, capture_output=True, text=True).stdout


def version():
    return analyze("--version").split()[1]


def groups():
    """Each group's members, a group in a group as "@name"."""
    found, members = {}, []
    for line in analyze("syscall-filter").splitlines():
        if line.startswith("@"):
            members = found.setdefault(line.strip(), [])
        elif line.startswith(" ") and not line.strip().startswith("#"):
            members.append(line.strip())
    return found


def numbers():
    """By name."""
    return {name: int(number) for name, number in re.findall(r"^#define __NR_(\w+) (\d+)$", HEADER.read_text(), re.M)}


def reachable(name, all_groups):
    """The group's name and those of the groups in it."""
    inner = [member for member in all_groups[name] if member.startswith("@")]
    return {name}.union(*(reachable(each, all_groups) for each in inner))


def block(words):
    return textwrap.fill(" ".join(words), 116, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False)


def module():
    """The text of system_call_groups.py."""
    numbered, listed = numbers(), groups()
    wanted = {"@system-service", "@privileged", "@chown", "@clock", "@module"}
    kept = sorted(set().union(*(reachable(name, listed) for name in wanted)))
    lines = HEAD.format(version=version()).splitlines()
    for name in kept:
        members = [member for member in listed[name] if member.startswith("@") or member in numbered]
        lines.append(f'    "{name}": """\n{block(members)}\n    """,')
    pairs = block(f"{name}={number}" for name, number in numbered.items())
    lines += ["}.items()}", "", NUMBERS, pairs, '""".split())}']
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(module(), end="")
