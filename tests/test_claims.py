"""The claims of research/dayNN-*.md and the checks of the lessons name each
other: no claim without its check, no check that no claim names."""
import ast
import re

import evidence
from conftest import anchors, judge
from evidence import code

HEAD = "| id | claim | kind | check | source |"
FIXTURES = {"machine code": {"kernels", "kernel", "every_kernel"},
            "profile": {"profile", "timed"}, "figures": {"run"}}
STRING = r'"((?:\\.|[^"\\])*)"'
CHECK = {"source": "-", "compiler": '"(.+)"', **dict.fromkeys(
    ("run", *FIXTURES), "`[^`]+`(, *`[^`]+`)*")}  # how each kind names its own


def gates(text, wrong):
    """The names of the gates of a lesson; each can fail."""
    for name, ok in re.findall(r"\bgate\(\s*([^,]*),\s*([^,]*)", code(text)):
        if name == "const char* name":
            continue  # its definition
        if not re.fullmatch(r'"[a-z][a-z0-9-]*"\s*', name):
            wrong.append(f"gate({name}, ...): its name must be a literal in "
                         "lower case")
        if ok.strip() == "true":
            wrong.append(f"gate({name}, true): it cannot fail")
        yield "run", name.strip('" ')


def asserts(text, wrong):
    """The messages of the static_asserts of a lesson."""
    for part in code(text).split("static_assert(")[1:]:
        message = re.match(r'[^;"]*,\s*((?:"(?:\\.|[^"\\])*"\s*)+)\)', part)
        if message:
            yield "compiler", "".join(re.findall(STRING, message[1]))
        else:
            wrong.append("a static_assert without a message: "
                         + part.split(";")[0])


def checks(text, wrong):
    """The tests of a lesson, each of one kind."""
    for node in ast.walk(ast.parse(text)):
        name = getattr(node, "name", None) or ""
        if isinstance(node, ast.FunctionDef) and name.startswith("test_"):
            names = {argument.arg for argument in node.args.args}
            kinds = [kind for kind, fixtures in FIXTURES.items()
                     if names & fixtures]
            if len(kinds) != 1:
                wrong.append(f"{name}: takes fixtures of {len(kinds)} kinds")
            if text.count(f"def {name}(") > 1:
                wrong.append(f"{name}: twice")
            yield (*kinds, None)[0], name


def kernels(source, tests):
    """Each kernel is named by a test, or by `# No row: NAME ...`."""
    no_row = " ".join(re.findall(r"^# No row:(.*)", tests, re.M)).split()
    named = set(re.findall(r"\w+", re.sub(r"#.*", "", tests)))
    found = evidence.KERNEL.findall(source)
    if len(found) != source.count("__global__"):
        yield (f"{source.count('__global__')} times __global__, but "
               f"{len(found)} kernels as `__global__ void NAME(`")
    for name in {*found} - {*no_row} - named:
        yield f"no test names the kernel {name}: tests/test_dayNN.py"
    for name in {*no_row} - {*found}:
        yield f"No row: {name}: no such kernel"


def rows(text, wrong):
    """The cells of the claims."""
    found = re.findall(rf"^{re.escape(HEAD)}\n[-| :]+\n((?:\|.*\n)*)", text,
                       re.M)
    lines = "".join(found).splitlines()
    wrong += [f"a claim outside a table headed {HEAD}: {line}" for line in
              re.findall(r"^\| *(?:d\d+-|id *\|).*", text, re.M)
              if line not in (HEAD, *lines)]
    for line in lines:
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if len(cells) == 5:
            yield cells
        else:
            wrong.append(f"not five cells: {line}")


def disagreements(lesson):
    ledger, tests = (path.read_text() if path.exists() else "" for path in (
        lesson.root / f"research/{lesson.folder}.md",
        lesson.root / f"tests/test_day{lesson.day}.py"))
    wrong, named = list(kernels(code(lesson.text), tests)), set()
    have = {*gates(lesson.text, wrong), *asserts(lesson.text, wrong),
            *checks(tests, wrong)}
    claims = list(rows(ledger, wrong))
    names, _, kinds, _, _ = zip(*claims) if claims else 5 * [()]
    if not claims:
        wrong.append(f"no claim; head the table {HEAD}, in "
                     f"research/{lesson.folder}.md")
    for name, claim, kind, check, source in claims:
        wrong += [f"{name}: {why}" for bad, why in (
            (not re.fullmatch(rf"d{lesson.day}-\d+", name),
             f"not d{lesson.day}- and a number"),
            (names.count(name) > 1, "twice"),
            (not claim or not source, "no claim, or no source; write -"),
            ((kind, source) == ("source", "-"), "no source"),
            (not re.fullmatch(CHECK.get(kind, "(?!)"), check),
             f"{check}: not how a check of kind {kind} is named")) if bad]
        meant = set(re.findall("`([^`]+)`", check))
        if kind == "compiler":
            meant = {text for of, text in have if of == kind
                     and text.startswith(check[1:-1])} or {check}
        meant = {(kind, one) for one in meant}
        wrong += [f"{name}: no {kind} check is called {one}"
                  for _, one in meant - have]
        named |= meant
    wrong += [f"no claim names the {kind} check {name}"
              for kind, name in sorted(have - named, key=str)]
    if 10 * kinds.count("source") > len(claims):
        wrong.append(f"{kinds.count('source')} of {len(claims)} claims rest "
                     "on a source alone; at most one in ten may")
    return wrong


def test_claims(any_lesson):
    judge(any_lesson, disagreements(any_lesson))


def unmet(root):
    """What FAILURES.md names that does not exist."""
    table = (root / "research/FAILURES.md").read_text()
    tests, lessons, lists = ("\n".join(
        path.read_text() for path in root.glob(glob))
        for glob in ("tests/test_*.py", "day*/*.cu", "cmake/*.cmake"))
    places = {"test": ("def {}(", tests), "gate": ('gate("{}"', lessons),
              "says": ("{}", re.sub(r'"\s*"', "", lessons + lists))}
    for cell in re.findall(r"\| ([^|]*) \|$", table, re.M)[1:]:
        found = re.findall(r'(test|gate|says) [`"]([^`"]+)[`"]', cell)
        links = re.findall(r"\]\(([^)#]+)#?([^)]*)\)", cell)
        if len(found) + len(links) != 1 + cell.count(", "):
            yield f"{cell}: not tests, gates, words and headings"
        for kind, name in found:
            form, text = places[kind]
            if form.format(name) not in text:
                yield f"{kind} {name}: there is none"
        for path, anchor in links:
            path = root / "research" / path
            heads = anchors(path) if path.exists() else ()
            if not heads or anchor and anchor not in heads:
                yield f"{path.name}#{anchor}: there is none"


def test_failures():
    assert list(unmet(evidence.ROOT)) == []
