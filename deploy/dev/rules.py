"""The tree's own rules, which no compiler knows: unfinished work, and who may include whom.

Prints one line for each fault and exits 1 if there was one. Run from the top of the tree.
"""
import pathlib
import re
import subprocess
import sys

UNFINISHED = re.compile(r'\b(TO' r'DO|FIX' r'ME|XX' r'X)\b')
INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)
GENERATED = {'penstock_version.hpp'}

# Which folders of ours a folder may include from, beside itself. The longest prefix counts.
REACH = {
    'proto/': (),
    'kernels/': (),
    'daemon/': ('proto/', 'kernels/', 'daemon/'),
    'client/': ('proto/', 'client/', 'penstock/'),
    'client/cpp/include/': ('penstock/',),
    'tests/': ('proto/', 'kernels/', 'daemon/', 'client/', 'penstock/', 'tests/'),
}
# The stages of a frame's path meet in ring, batch and completion; only the shard knows them all.
STAGES = ('daemon/ingress/', 'daemon/batcher/', 'daemon/wheel/', 'daemon/egress/')
# Of two folders that meet, the one that knows nothing of the other.
NEVER = {'daemon/request/': ('daemon/ring/',)}
# Third-party headers that stay in a few folders.
KEPT_IN = {
    re.compile(r'^zmq(_addon)?\.h(pp)?$'): ('daemon/security/', 'daemon/socket/', 'daemon/ingress/', 'daemon/egress/',
                                         'client/', 'tests/'),
    re.compile(r'^boost/asio'): ('daemon/shard/', 'daemon/admin/', 'daemon/shared_memory/', 'client/cli/admin_http',
                                 'tests/'),
    re.compile(r'^(cuda|cufft|cooperative_groups|cub/|thrust/)'): ('kernels/', 'daemon/device/', 'tests/'),
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
    home = max((prefix for prefix in REACH if name.startswith(prefix)), key=len, default=None)
    if home is None:
        return
    allowed = (home, *REACH[home])
    for ours, theirs in INCLUDE.findall(text):
        if ours and ours not in GENERATED and '/' in ours and not ours.startswith(allowed):
            yield f'includes {ours}: {home} may not'
        for stage in STAGES:
            if name.startswith(STAGES) and ours.startswith(stage) and not name.startswith(stage):
                yield f'includes {ours}: stages of the path do not know one another'
        if ours and any(name.startswith(lower) and ours.startswith(upper) for lower, upper in NEVER.items()):
            yield f'includes {ours}, which includes it'
        for header, folders in KEPT_IN.items():
            if theirs and header.match(theirs) and not name.startswith(folders):
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
