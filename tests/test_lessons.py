"""The form of the lesson files."""
import re
from collections import Counter

import conftest
import evidence
import programs
from conftest import judge

HELPER_LINES = 240  # and the prologue
LIMITS = {"24": 950, "25": 1280, "45": 1265, "77": 1695}  # lines; others 900
SHARED = re.compile(r"^#ifndef LESSON_QUICK.*?^// end snippet$|"
                    r"^// ---- helpers:.*?^// ---- end of helpers.*?$",
                    re.M | re.S)
ORDER = ["#include <cuda_runtime.h>", "#ifndef LESSON_QUICK", "__global__",
         "// snippet: row-table", "// ---- helpers:", "// snippet: reference",
         "// snippet: one-check", "int main(int argc, char** argv)"]


def form(lesson):
    text, lines = lesson.text, lesson.text.splitlines()
    most = LIMITS.get(lesson.day, 900)
    places = [re.search("^(?:inline |template .*|static )*" + re.escape(mark),
                        text, re.M) for mark in ORDER]
    starts = [place.start() for place in places if place]
    builds = [evidence.compile_command(lesson, arch)
              for arch in lesson.builds]
    return [f"line {k}: longer than 79 columns" for k, line
            in enumerate(lines, 1) if len(line) > 79] + [
        f"no line that begins with {mark}"
        for mark, place in zip(ORDER, places) if not place] + [
        f"its header has no `// Build: {command}`" for command in builds
        if not re.search(rf"^// (Build:)? +{re.escape(command)}$", text,
                         re.M)] + [why for bad, why in (
            (len(lines) > most, f"{len(lines)} lines, at most {most}: see "
             "LIMITS in tests/test_lessons.py"),
            (starts != sorted(starts), f"not in this order: {ORDER}"),
            (text.partition("__global__")[0].count("\n") >= 139,
             "the first kernel must start before line 140"),
            (re.search(r"\[&\]\(int\b[^{]*\{[^{}]*\b(cudaMemset|fillBytes)",
                       text), "a launch sets memory, which would be timed"),
            (not lines[0].startswith(f"// Day {lesson.day}: "),
             f"the first line is not `// Day {lesson.day}: ...`"),
            (lesson.builds[0] != lesson.arch,
             f"the first Build line is not for sm_{lesson.arch}")) if bad]


def headed(text):
    """The rows that the header names: `//   LABEL  text` below `// Rows:`."""
    part = re.search(r"^// Rows.*\n((?://   .*\n)+)", text, re.M)
    return re.findall(r"^//   (\S.*?)  ", part[1], re.M) if part else []


def test_form(any_lesson):
    judge(any_lesson, form(any_lesson))


def unlike(lessons):
    """The prologue and the helpers: in every lesson the same, and short."""
    first, same = lessons[0].source, SHARED.findall(lessons[0].text)
    if len(same) != 2 or "".join(same).count("\n") + 2 > HELPER_LINES:
        yield f"{first}: no prologue, no helpers, or too long"
    for lesson in lessons:
        if SHARED.findall(lesson.text) != same:
            yield f"{lesson.source} and {first} differ"


def test_helpers():
    assert list(unlike(evidence.lessons())) == []


def listed(lesson):
    """The rows of --list, of the lesson with the row `yours`."""
    program = conftest.built(f"{lesson.name}-yours") or conftest.compiled(
        lesson, lesson.arch, "-DLESSON_YOURS")
    status, said = programs.sh([program, "--list"], 60)
    assert status == 0
    return re.findall(r"^  (\S.*?) {2,}([\w:]+)", said, re.M)


def rows(lesson):
    """The rows of the header are those of the program, in the same order, and
    `yours` builds; each row's kernel is in the file."""
    found, names = listed(lesson), headed(lesson.text)
    labels = [label for label, _ in found]
    tokens = re.findall(r"\w+", re.sub(r'"(?:\\.|[^"\\])*"', "",
                                       evidence.code(lesson.text)))
    return [f"{label}: no kernel {kernel}" for label, kernel in found
            if not {*kernel.split("::")} <= {*tokens}] + [
        why for bad, why in (
            (labels.count("yours") != 1, "no row `yours` with -DLESSON_YOURS"),
            ([one for one in labels if one != "yours"] != names,
             f"the program has the rows {labels}, the header {names}"))
        if bad]


def test_rows(any_lesson):
    judge(any_lesson, rows(any_lesson))


def layout(root):
    """Every lesson is in CMakeLists.txt, alone in its folder, with a page,
    claims and tests."""
    lessons = evidence.lessons(root)
    files = {str(path.relative_to(root)) for path in root.glob("day*/*.cu")}
    folders = Counter(lesson.folder for lesson in lessons)
    return [f"{path} is not in CMakeLists.txt" for path in
            files - {lesson.source for lesson in lessons}] + [
        f"{folder}: two lessons" for folder in folders
        if folders[folder] > 1] + [
        f"no {path}" for lesson in lessons for path in (
            f"{lesson.folder}/README.md", f"research/{lesson.folder}.md",
            f"tests/test_day{lesson.day}.py")
        if not (root / path).exists() and not lesson.draft]


def test_layout():
    wrong = layout(evidence.ROOT)
    assert not wrong, "\n".join(wrong)
