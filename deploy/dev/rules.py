"""The tree's own rules, which no compiler knows: unfinished work, and where third-party headers are used.

Prints one line for each fault and exits 1 if there was one. Run from the top of the tree.
"""
import pathlib
import re
import subprocess
import sys

UNFINISHED = re.compile(r'\b(TO' r'DO|FIX' r'ME|XX' r'X)\b')
INCLUDE = re.compile(r'^\s*#\s*include\s+<([^>]+)>', re.MULTILINE)

# Third-party headers that stay in a few folders.
KEPT_IN = {
    re.compile(r'^zmq(_addon)?\.h(pp)?$'): ('daemon/live/', 'daemon/net/', 'daemon/request/payload_store.', 'client/', 'tests/'),
    re.compile(r'^boost/asio'): ('daemon/shard/', 'daemon/service/', 'daemon/shm/', 'client/cli/admin_http', 'tests/'),
    re.compile(r'^(cuda|cufft|cooperative_groups|cub/|thrust/)'): ('kernels/', 'daemon/device/', 'tests/', 'deploy/examples/'),
}


def tracked():
    """The files that git knows or would know."""
    command = ['git', 'ls-files', '-z', '--cached', '--others', '--exclude-standard']
    names = subprocess.run(command, check=True, capture_output=True).stdout.decode().split('\0')
    return sorted(path for path in map(pathlib.Path, filter(None, names)) if path.is_file())


def faults_of_text(path, text):
    for number, line in enumerate(text.splitlines(), 1):
        if UNFINISHED.search(line):
            yield f'line {number}: unfinished work: do it, or open an issue'
    if path.suffix in {'.hpp', '.cuh'} and not re.match(r'(\s*//.*\n)*\s*#pragma once\n', text):
        yield 'a header begins with #pragma once'


def faults_of_includes(path, text):
    name = path.as_posix()
    for theirs in INCLUDE.findall(text):
        for header, folders in KEPT_IN.items():
            if header.match(theirs) and not name.startswith(folders):
                yield f'includes <{theirs}>, which stays in {", ".join(folders)}'


def main():
    found = 0
    for path in tracked():
        try:
            text = path.read_text(encoding='utf-8')
        except UnicodeDecodeError:
            continue
        faults = list(faults_of_text(path, text))
        if path.suffix in {'.cpp', '.hpp', '.cu', '.cuh'}:
            faults += faults_of_includes(path, text)
        for fault in faults:
            print(f'{path}: {fault}')
        found += len(faults)
    print(f'rules: {found} faults' if found else 'rules: kept by every file')
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
