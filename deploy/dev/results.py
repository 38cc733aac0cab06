"""Counts what the tests of some presets did, one by one: results.py PRESET...

Reads build/PRESET/results: GoogleTest's XML for each program, and ctest's own report for the rest (unittest programs
are counted from what they printed, anything else counts as one test). A program that failed without a failed test
counts as one failure. The last line is "N passed, M failed"; the exit status is 0 only if something ran and nothing
failed.
"""
import collections
import dataclasses
import pathlib
import re
import sys
import xml.etree.ElementTree as tree


@dataclasses.dataclass
class Count:
    programs: int = 0
    passed: int = 0
    seconds: float = 0.0
    failed: list = dataclasses.field(default_factory=list)   # names
    skipped: list = dataclasses.field(default_factory=list)  # (name, reason)


def googletest(report, program, count):
    """Adds the tests of one GoogleTest report."""
    for case in tree.parse(report).getroot().iter('testcase'):
        name = f"{program}: {case.get('classname')}.{case.get('name')}"
        skip = case.find('skipped')
        if case.find('failure') is not None:
            count.failed.append(name)
        elif skip is not None:
            place_and_reason = (skip.get('message') or skip.text or '').strip()
            count.skipped.append((name, re.sub(r'^\S+:\d+\s+', '', place_and_reason)))
        elif case.get('status') == 'run':
            count.passed += 1


def unittest(output, program, count):
    """Adds the tests of a unittest run from what it printed; False when it is no such output."""
    ran = re.search(r'^Ran (\d+) tests? in', output, re.MULTILINE)
    if ran is None:
        return False
    failed = re.findall(r'^(?:FAIL|ERROR): (.+)$', output, re.MULTILINE)
    skips = re.findall(r"^(.+?) \.\.\. skipped ['\"](.*)['\"]$", output, re.MULTILINE)
    total = re.search(r'^(?:OK|FAILED) \(.*?skipped=(\d+)', output, re.MULTILINE)
    unnamed = max(0, (int(total.group(1)) if total else 0) - len(skips))
    count.failed += [f'{program}: {name}' for name in failed]
    count.skipped += [(f'{program}: {name}', reason) for name, reason in skips]
    count.skipped += [(f'{program}: a Python test', 'run it with -v to see why')] * unnamed
    count.passed += max(0, int(ran.group(1)) - len(failed) - len(skips) - unnamed)
    return True


def program(entry, results, count):
    """Adds one ctest entry."""
    name, outcome = entry.get('name'), entry.get('status')
    output = entry.findtext('system-out') or ''
    count.programs += 1
    failures = len(count.failed)
    report = results / f'{name}.xml'
    if report.exists():
        googletest(report, name, count)
    elif not unittest(output, name, count):
        if outcome == 'run':
            count.passed += 1
        elif outcome in ('notrun', 'disabled'):
            skip = entry.find('skipped')
            count.skipped.append((name, skip.get('message', '') if skip is not None else outcome))
    if outcome == 'fail' and len(count.failed) == failures:
        count.failed.append(f'{name}: the program did not end well')


def read(preset):
    count = Count()
    results = pathlib.Path('build') / preset / 'results'
    report = results / 'ctest.junit'
    if report.exists():
        for entry in tree.parse(report).getroot().iter('testcase'):
            program(entry, results, count)
            count.seconds += float(entry.get('time') or 0)
    else:
        count.failed.append('ctest left no report')
    return count


def main(presets):
    counts = {preset: read(preset) for preset in presets}
    print(f"{'preset':<14}{'programs':>9}{'passed':>9}{'failed':>8}{'skipped':>9}{'seconds':>9}")
    for preset, count in counts.items():
        print(f'{preset:<14}{count.programs:>9}{count.passed:>9}{len(count.failed):>8}{len(count.skipped):>9}'
              f'{count.seconds:>9.1f}')
    reasons = collections.Counter(reason for count in counts.values() for _, reason in count.skipped)
    for reason, times in reasons.most_common():
        print(f"skipped {times}: {' '.join(reason.split()) or 'no reason given'}")
    for preset, count in counts.items():
        for name in count.failed:
            print(f'FAILED in {preset}: {name}')
    passed = sum(count.passed for count in counts.values())
    failed = sum(len(count.failed) for count in counts.values())
    print(f'{passed} passed, {failed} failed', flush=True)
    return 0 if passed and not failed else 1


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
