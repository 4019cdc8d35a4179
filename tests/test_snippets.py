"""cmake/snippets.cmake: what it exports, refuses and leaves alone."""
import hashlib
import os
import re
import shutil
import time
from concurrent.futures import ThreadPoolExecutor

import evidence
import pytest
from conftest import committed
from programs import sh


def region(*names, code="int {};"):
    return "".join(
        f"// snippet: {name}\n{code.replace('{}', name.replace('-', '_'))}\n"
        "// end snippet\n" for name in names)


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())


def files(folder):
    """{path: bytes} of everything below it, folders and links as well."""
    return {path: path.read_bytes() if path.is_file() else None
            for path in folder.rglob("*")}


class Clone:
    """A copy of the exporter with lessons of its own."""

    def __init__(self, root, **lessons):
        self.root = root
        (root / "cmake").mkdir(parents=True)
        shutil.copy(evidence.ROOT / "cmake/snippets.cmake", root / "cmake")
        for day, text in lessons.items():
            write(root / day / "a.cu", text)

    def export(self, out="out", *sources):
        given = [f"-DSOURCES={';'.join(sources)}"] * bool(sources)
        return sh([os.environ.get("CMAKE", "cmake"), f"-DOUT={out}", *given,
                   "-P", "cmake/snippets.cmake"], cwd=self.root)

    def good(self, out="out", *sources):
        """{(lesson, name): cells} of the index that it writes."""
        status, said = self.export(out, *sources)
        assert status == 0, said
        _, *lines = (self.root / out / "index.tsv").read_text().splitlines()
        return {tuple(row[:2]): row for row in (
            line.split("\t") for line in lines)}

    def refused(self, says, *args):
        before = files(self.root)
        status, said = self.export(*args)
        assert status != 0 and re.search(says, said), said
        assert files(self.root) == before, "something was written"
        return said


@pytest.fixture
def clone(tmp_path):
    return Clone(tmp_path / "clone", day1=region("red", "green"),
                 day2=region("blue"))


# --- Text that trips scripts comes out byte for byte -------------------------
EXACT = {
    "semicolons": "a[i] = b[i]; };;\nf = [](int x) { return x; };  // \"a;b\"",
    "brackets": "x = a[\n    b[i]];\n// [ and ], [[ and ]] and [=[ \ny = [0;",
    "backslashes": "#define SUM(a, b) \\\n  ((a) + \\\n   (b))\n"
                   'p = "C:\\\\n\\";  // \\',
    "variables": "// ${X} @X@ $ENV{HOME} @text@ $(x) %P%\n#cmakedefine X",
    "launch": "kernel<<<blocks, n>>>(d);\n"
              '  if (a < b && !c) o << "&amp;";\n\n    deeper();',
    "utf8": "// Größe 5 µs π → 日本 \U0001f600",
    "words": "// a snippet: in words, \"end snippet\" in quotes\nint last;   ",
    "quotes": 'a = "q\\"" + \'c\' + R"x(raw )" ")x";  // `tick` --8<-- "f"'}


@pytest.mark.parametrize("indent", ["", "    "])
@pytest.mark.parametrize("name", EXACT)
def test_exact(tmp_path, name, indent):
    code = "".join(indent + line + "\n" if line else "  \n"
                   for line in EXACT[name].split("\n"))
    clone = Clone(tmp_path, day1=f"\t// {name}\n{indent}// snippet: {name}\n\n"
                  f"  \n{code}\n\n{indent}// end snippet")  # no last newline
    row = clone.good()["day1", name]
    got = (tmp_path / "out/day1" / f"{name}.cu").read_bytes()
    assert got == (EXACT[name] + "\n").encode()
    assert row[2:7] == ["day1/a.cu", "5", str(5 + EXACT[name].count("\n")),
                        hashlib.sha256(got).hexdigest(), "n/a"]


# --- Malformed input: the source, the line and the fault of each -------------
ONE, END = "// snippet: one\n", "// end snippet\n"
NEAR = """// Snippet: one|//snippet: one|// snippet : one|// snippet:  one
// snippet: one |// snippet one|// snippet:|// snippet: one two
\t// snippet: one|/* snippet: one */|int b;  // snippet: one|/// snippet: one
// begin snippet: one"""
NEAR_END = """// End snippet|// end snippets|// endsnippet|} // end snippet
// end snippet one|// end of snippet|// snippet end"""
BAD = {
    "blank": (f"{ONE}\n   \n{END}", {1: "empty"}),
    "empty": (ONE + END, {1: "empty"}),
    "bom": (f"\ufeff{ONE}a\n{END}", {1: "^byte-order"}),
    "cr": (f"int a;\n{ONE[:-1]}\r\na\r\n{END}", {2: "^carriage return"}),
    "cr-lone": (f"{ONE}a;\rb;\n{END}", {2: "^carriage return"}),
    "nul": (f"{ONE}a\0;\n{END}", {2: "^NUL"}),
    "duplicate": (region("one", "one"), {4: "twice"}),
    "prefix": (region("v1", "v1-modulo"), {4: "is the start of the other"}),
    "prefix-later": (region("v1-a", "v1"), {1: "is the start of the other"}),
    "nested": (f"{ONE}a\n// snippet: b\nc\n{END}{END}",
               {3: r"inside 'one' \(line 1\)", 6: "ends nothing"}),
    "stray-end": (f"a\n{END}{region('one')}", {2: "ends nothing"}),
    "unclosed": (f"{ONE}a\n", {1: "never ends"}),
    "none": ("int a;\n", {1: "no snippet"}),
    "nothing": ("", {1: "no snippet"}),
    "tab": (f"{ONE}\ta\nb\n{END}", {2: "tab; use"}),
    "tab-inside": (f"{ONE}a;\t// b\n{END}", {2: "tab"}),
    "wide": (f"{ONE}    a\n    {'b' * 80}\n{END}", {3: "80 columns"}),
    "wide-utf8": (f"{ONE}// {'ü' * 77}\n{END}", {2: "80 columns"}),
    "many": (f"{region('one')}// snippet: Two\na\n{END}// snippet: three\n"
             f"{END}// snippet: four\n\ta\n{END}",
             {4: "bad snippet name", 7: "empty", 10: "tab"}),
    **{f"not-utf8-{bad.hex()}": (b"// snippet: one\n// " + bad + b"\n",
                                 {2: "^bytes|or invalid"})
       for bad in (b"\xe4", b"\xc0\xaf", b"\xe0\x80\xaf", b"\xed\xa0\x80",
                   b"\xe2\x82", b"\xf4\x90\x80\x80")},
    **{f"unseen-{ord(bad):x}": (f"{ONE}a;  // {bad}b\n{END}",
                                {2: "^(control, bidi|byte-order)"})
       for bad in "\x1b\x7f\x85\u200f\u2028\u202e\u2066\ufeff"},
    **{f"name-{bad[:9]}": (f"// snippet: {bad}\na\n{END}",
                           {1: "bad snippet name"})
       for bad in ("Reduce", "warp_reduce", "7-load", "../escape", "a;b", "a]",
                   "-a", "über", "n" * 300)},
    **{f"near-{bad}": (f"{bad}\na\n{END}", {1: "almost", 3: "ends nothing"})
       for bad in re.split(r"[|\n]", NEAR)},
    **{f"near-{bad}": (f"{ONE}a\n{bad}\n", {3: "almost", 1: "never ends"})
       for bad in re.split(r"[|\n]", NEAR_END)}}


@pytest.mark.parametrize("name", BAD)
def test_malformed(clone, name):
    text, faults = BAD[name]
    write(clone.root / "one/b.cu", text)
    said = clone.refused("nothing was written", "out", "day2/a.cu", "one/b.cu")
    found = {int(line): why for line, why in re.findall(
        r"^one/b\.cu:(\d+): (.*)", said, re.M)}
    assert found.keys() == faults.keys(), said
    assert all(re.search(faults[line], found[line]) for line in faults), said


def test_widest_and_longest(clone):
    write(clone.root / "one/b.cu", f"{ONE}    // {'µ' * 76}\n{END}"
          f"// snippet: {'n' * 79}\na\n{END}")
    clone.good("out", "one/b.cu")


# --- Arguments, and what is in OUT -------------------------------------------
def test_arguments(clone):
    (clone.root.parent / "link").symlink_to(clone.root)
    (clone.root / "day1/.#a.cu").symlink_to("an editor's")
    write(clone.root / "taken", "")
    for says, *args in (
            (r"(?s)OUT is missing.*-D stands before\s+-P", ""),
            ("one/c.cu:1: no such file", "out", "one/c.cu", "day1/a.cu"),
            ("semicolon", "out", "day1/a.cu,day2/a.cu"),
            ("day1:1: no such file, or a folder", "out", "day1"),
            ("not a folder", "taken"), ("read-only", "taken/deep"),
            ("read-only", "/proc/snippets"), ("would overwrite", "."),
            ("would overwrite", ".."), ("would overwrite", clone.root),
            ("would overwrite", clone.root.parent / "link"),
            ("would overwrite", "day1", "day1/a.cu")):
        clone.refused(says, *args)


@pytest.mark.parametrize("name", ["a;b", "a[b", "a]b", "a\tb", "a\nb",
                                  "a\x1bb"])
def test_names_that_cmake_cannot_handle(tmp_path, clone, name):
    clone.refused("", name)
    clone.refused("", f"{name}/out")
    Clone(tmp_path / name, day1=region("red")).refused("")
    write(clone.root / name / "b.cu", region("one"))
    clone.refused("", "out", f"{name}/b.cu")


def test_a_space_twice_named_and_from_outside(clone):
    rows = clone.good("an out", "day1/a.cu", "day2/../day1/a.cu", "day2/a.cu")
    assert len(rows) == 3
    write(clone.root.parent / "other/c.cu", region("one"))
    assert clone.good("out", "../other/c.cu")["other", "one"][2] == \
        "../other/c.cu"


@pytest.mark.parametrize("what, name", [
    ("file", "day2/blue.cu"), ("folder", "day2/blue.cu"),
    ("nowhere", "day2/blue.cu"), ("day1", "day2"), ("file", "day2"),
    ("file", "index.tsv")])
def test_foreign(clone, what, name):
    """What no export wrote: a file, a folder, or a link to somewhere."""
    path = clone.root / "out" / name
    path.parent.mkdir(parents=True)
    if what == "folder":
        path.mkdir()
    elif what == "file":
        path.write_text("mine\n")
    else:
        path.symlink_to(clone.root / what)
    clone.refused("not from an export")


def test_what_is_gone_goes_and_the_rest_stays(clone):
    clone.good()
    write(clone.root / "out/day1/mine.cu", "mine\n")
    write(clone.root / "out/day1/.snippets-new/red.cu", "interrupted")
    red = clone.root / "out/day1/red.cu"
    old = red.stat().st_mtime_ns
    time.sleep(0.02)
    write(clone.root / "day1/a.cu", region("red", "yellow"))
    shutil.move(clone.root / "day2", clone.root / "day3")
    assert clone.good().keys() == {
        ("day1", "red"), ("day1", "yellow"), ("day3", "blue")}
    assert {f"{path.parent.name}/{path.name}"
            for path in clone.root.glob("out/*/*")} == {
        "day1/red.cu", "day1/yellow.cu", "day3/blue.cu", "day1/mine.cu"}
    assert red.stat().st_mtime_ns == old, "an unchanged snippet was rewritten"


def test_a_full_disk(clone, monkeypatch):
    """A limit on the size of a file stands for it: nothing is changed."""
    clone.good()
    write(clone.root / "day1/a.cu", region(
        "red", "new", code="int {};\n" * 999))
    write(clone.root / "limited", "#!/bin/sh\ntrap '' XFSZ\nulimit -f 8\n"
          f"exec '{shutil.which(os.environ.get('CMAKE', 'cmake'))}' \"$@\"\n")
    (clone.root / "limited").chmod(0o755)
    monkeypatch.setenv("CMAKE", str(clone.root / "limited"))
    clone.refused("could not be written whole")


def test_an_index_that_leads_elsewhere(clone):
    clone.good()
    index = clone.root / "out/index.tsv"
    index.write_text(index.read_text().replace("day2\tblue\tday2",
                                               "..\tmine\tday9"))
    write(clone.root / "mine.cu", "mine\n")
    clone.refused("not from an export")  # blue.cu is in no index any more
    (clone.root / "out/day2/blue.cu").unlink()
    clone.good()
    assert (clone.root / "mine.cu").exists()


def test_two_sources_of_one_folder(clone):
    write(clone.root / "day1/b.cu", region("white"))
    clone.good("out", "day1/a.cu")
    assert clone.good("out", "day1/b.cu").keys() == {
        ("day1", "red"), ("day1", "green"), ("day1", "white")}
    assert len(list(clone.root.glob("out/day1/*.cu"))) == 3
    write(clone.root / "day1/b.cu", region("red"))
    clone.refused("twice", "out", "day1/b.cu")


def test_two_at_once(clone):
    """Exports of other sources into one folder wait for each other."""
    with ThreadPoolExecutor(2) as pool:
        for _ in range(3):
            shutil.rmtree(clone.root / "out", ignore_errors=True)
            assert [status for status, _ in pool.map(
                lambda day: clone.export("out", f"{day}/a.cu"),
                ("day1", "day2"))] == [0, 0]
            index = (clone.root / "out/index.tsv").read_text()
            assert index.count("\n") == 4, index


def test_fifty_thousand_lines(tmp_path):
    clone = Clone(tmp_path, day1="".join(
        region(f"r{k:04}", code="int {};\n" * 40) + "// [;\n" * 8
        for k in range(1000)))
    start = time.monotonic()
    assert len(clone.good()) == 1000
    assert time.monotonic() - start < 20  # about a second on an idle core


def test_commit(clone):
    commit = committed(clone.root)
    assert {row[6] for row in clone.good().values()} == {commit}
    write(clone.root / "day4/a.cu", region("new"))
    rows = clone.good()
    assert rows["day4", "new"][6] == "n/a" != rows["day1", "red"][6]
    sh(["git", "update-index", "--skip-worktree", "day2/a.cu"],
       cwd=clone.root)
    write(clone.root / "day2/a.cu", region("hidden"))
    rows = clone.good()
    assert rows["day2", "hidden"][6] == "n/a" != rows["day1", "red"][6]
    write(clone.root / "day1/a.cu", region("red", "other"))
    assert {row[6] for row in clone.good().values()} == {"n/a"}


DEFINITIONS = {  # region: its code and what it needs
    "limits": ("constexpr int kN = 4;", "-"),
    "helper": ("inline int twice(int x) { return x * kN; }", "limits"),
    "kernel": ("__global__ void __launch_bounds__(kN)\n    f(float* x) "
               "{ x[0] = twice(1); }  // see {}", "limits helper"),
    "launch": ("f<<<1, kN>>>(d_x);  // twice\nreturn once(2);",
               "kernel limits plain"),
    "both": ("__host__ __device__ inline int both(int i) { return i; }", "-"),
    "plain": ("// Yes.\nstd::vector<int> once(const P& p,\n"
              "                      int n = both(1)) {\n}", "both"),
    "enum": ("enum Leaf { kOne };\nenum class Kind { two };", "-"),
    "uses": ("Leaf a;", "enum"), "kinds": ("Kind c = Kind::two;", "enum"),
    "call": ("int x = once(3);\nif (x) {\n}\nelse if (once(4)) {\n}",
             "plain"),
    "void": ("void go() { int x; }  // no x", "-"),
    "tables": ("const float kScale = 2;\n__constant__ float table[16];\n"
               "constexpr int kA = 1, kB = 2;", "-"),
    "special": ("template <>\n__global__ void g<float>(float* p) {}\n"
                "using std::vector;", "-"),
    "own": ("constexpr int kTile = 4;\nint area() { return kTile; }", "-"),
    "user": ("float z(float x) {\n  /* not kN */\n"
             "  return table[0] * kScale * kB;\n}", "tables"),
    "wide": ("constexpr int kTile = 8;", "-")}


def test_needs(tmp_path):
    rows = Clone(tmp_path, day1="".join(
        region(name, code=code.replace("{}", "{ }"))
        for name, (code, _) in DEFINITIONS.items())).good()
    assert {name: row[7] for (_, name), row in rows.items()} == {
        name: needs for name, (_, needs) in DEFINITIONS.items()}
