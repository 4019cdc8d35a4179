"""The claims of research/dayNN-*.md and the checks of the lessons name each
other: no claim without its check, no check that no claim names."""
import ast
import re

import evidence
from conftest import judge
from evidence import code

HEAD = "| id | claim | kind | check | source |"
FIXTURES = {"machine code": {"kernels", "kernel", "every_kernel"},
            "profile": {"profile", "timed"}, "figures": {"run"}}
STRING = r'"((?:\\.|[^"\\])*)"'


def gates(text, wrong):
    """The names of the gates of a lesson; each can fail."""
    found = set()
    for name, ok in re.findall(r"\bgate\(\s*([^,]*),\s*([^,]*)", code(text)):
        if literal := re.fullmatch(r'"([a-z][a-z0-9-]*)"', name.strip()):
            found.add(literal[1])
            if ok.strip() == "true":
                wrong.append(f"the gate {literal[1]} cannot fail")
        elif name != "const char* name":
            wrong.append(f"gate({name}, ...): its name must be a literal in "
                         "lower case")
    return found


def asserts(text, wrong):
    """The messages of the static_asserts of a lesson."""
    found = []
    for part in code(text).split("static_assert(")[1:]:
        message = re.match(r'[^;"]*,\s*((?:"(?:\\.|[^"\\])*"\s*)+)\)', part)
        if message:
            found.append("".join(re.findall(STRING, message[1])))
        else:
            wrong.append("a static_assert without a message: "
                         + part.split(";")[0])
    return found


def checks(path, wrong):
    """{name: kind} of the tests of a lesson."""
    found = {}
    tree = ast.parse(path.read_text() if path.exists() else "")
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef) or \
                not node.name.startswith("test_"):
            continue
        names = {argument.arg for argument in node.args.args}
        kinds = [kind for kind, fixtures in FIXTURES.items()
                 if names & fixtures]
        if len(kinds) != 1:
            wrong.append(f"{node.name}: takes fixtures of {len(kinds)} kinds")
        if node.name in found:
            wrong.append(f"{node.name}: twice")
        found[node.name] = kinds[0] if kinds else None
    return found


def kernels(lesson, path, wrong):
    """Each kernel is named by a test, or by `# No row: NAME ...`."""
    text = path.read_text() if path.exists() else ""
    no_row = " ".join(re.findall(r"^# No row:(.*)", text, re.M)).split()
    named = set(re.findall(r"\w+", re.sub(r"#.*", "", text)))
    source = code(lesson.text)
    found = re.findall(r"__global__\s+void\s+(?:__\w+__\([^{;]*?\)\s*)?"
                       r"(\w+)\(", source)
    if len(found) != source.count("__global__"):
        wrong.append(f"{source.count('__global__')} times __global__, but "
                     f"{len(found)} kernels as `__global__ void NAME(`")
    wrong += [f"{path.name}: no test names the kernel {name}"
              for name in dict.fromkeys(found)
              if name not in no_row and name not in named]
    wrong += [f"{path.name}: No row: {name}: no such kernel"
              for name in no_row if name not in found]


def rows(text, wrong):
    """The cells of the claims."""
    in_table, found = False, []
    for line in text.splitlines():
        if not line.startswith("|"):
            in_table = False
        elif line == HEAD:
            in_table = True
        elif in_table and not re.fullmatch(r"[-| :]+", line):
            cells = [cell.strip() for cell in line.split("|")[1:-1]]
            if len(cells) == 5:
                found.append(cells)
            else:
                wrong.append(f"not five cells: {line}")
        elif not in_table and re.match(r"\| *(d\d+-|id *\|)", line):
            wrong.append(f"a claim outside a table headed {HEAD}: {line}")
    return found


def disagreements(lesson):
    wrong, seen, named = [], [], set()
    table = lesson.root / "research" / f"{lesson.folder}.md"
    path = lesson.root / "tests" / f"test_day{lesson.day}.py"
    claims = rows(table.read_text() if table.exists() else "", wrong)
    if not claims:
        wrong.append(f"no claim; head the table {HEAD}")
    have = {("run", name) for name in gates(lesson.text, wrong)}
    have |= {(kind, name) for name, kind in checks(path, wrong).items()}
    messages = asserts(lesson.text, wrong)
    have |= {("compiler", message) for message in messages}
    kernels(lesson, path, wrong)
    for name, claim, kind, check, source in claims:
        if not re.fullmatch(rf"d{lesson.day}-\d+", name):
            wrong.append(f"{name}: not d{lesson.day}- and a number")
        if name in seen:
            wrong.append(f"{name}: twice")
        seen.append(name)
        if not claim or not source:
            wrong.append(f"{name}: no claim, or no source; write -")
        if kind == "source":
            if check != "-" or source == "-":
                wrong.append(f"{name}: of kind source: no check but a source")
            continue
        if kind == "compiler":
            start = re.fullmatch('"(.+)"', check)
            meant = {message for message in messages
                     if start and message.startswith(start[1])}
        elif kind in ("run", *FIXTURES):
            meant = set(re.findall("`([^`]+)`", check))
            if re.sub("`[^`]+`", "", check).strip(", "):
                wrong.append(f"{name}: not names in backquotes: {check}")
        else:
            wrong.append(f"{name}: unknown kind {kind}")
            continue
        if not meant:
            wrong.append(f"{name}: no check as {kind} names it: {check}")
        wrong += [f"{name}: no {kind} check is called {one}"
                  for one in meant if (kind, one) not in have]
        named |= {(kind, one) for one in meant}
    wrong += [f"no claim names the {kind} check {name}"
              for kind, name in sorted(have - named, key=str)]
    sources = sum(kind == "source" for _, _, kind, _, _ in claims)
    if 10 * sources > len(claims):
        wrong.append(f"{sources} of {len(claims)} claims rest on a source "
                     "alone; at most one in ten may")
    return wrong


def test_claims(any_lesson):
    judge(any_lesson, disagreements(any_lesson))


def unmet(root, table):
    """What FAILURES.md names that does not exist."""
    texts = {kind: "\n".join(path.read_text() for glob in globs
                             for path in root.glob(glob))
             for kind, globs in {"test": ["tests/test_*.py"],
                                 "gate": ["day*/*.cu"],
                                 "says": ["day*/*.cu", "cmake/*.cmake"]
                                 }.items()}
    texts["says"] = re.sub(r'"\s*"', "", texts["says"])
    form = {"test": "def {}(", "gate": r'gate("{}"', "says": "{}"}
    for cell in re.findall(r"\| ([^|]*) \|$", table, re.M)[1:]:
        found = re.findall(r'(test|gate|says) [`"]([^`"]+)[`"]', cell)
        links = re.findall(r"\]\(([^)#]+)#?([^)]*)\)", cell)
        if len(found) + len(links) != 1 + cell.count(", "):
            yield f"{cell}: not tests, gates, words and headings"
        for kind, name in found:
            if form[kind].format(name) not in texts[kind]:
                yield f"{kind} {name}: there is none"
        for path, anchor in links:
            path = root / "research" / path
            heads = re.findall("^#+ (.*)", path.read_text()
                               if path.exists() else "", re.M)
            if not heads or anchor and anchor not in [
                    re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-")
                    for head in heads]:
                yield f"{path.name}#{anchor}: there is none"


def test_failures():
    table = (evidence.ROOT / "research" / "FAILURES.md").read_text()
    assert list(unmet(evidence.ROOT, table)) == []
