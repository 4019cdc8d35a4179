"""cmake/snippets.cmake: what it exports, refuses and leaves alone."""
import hashlib
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CMAKE = os.environ.get("CMAKE", "cmake")


def region(*names, code="int {};"):
    return "".join(f"// snippet: {name}\n{code.replace('{}', name.replace('-', '_'))}"
                   "\n// end snippet\n" for name in names)


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())


def files(folder):
    """{path: bytes} of everything below it, folders and links as well."""
    return {path: path.read_bytes() if path.is_file() else None
            for path in folder.rglob("*")}


class Clone:
    """A copy of the exporter with lessons of its own."""

    def __init__(self, folder, **lessons):
        self.root = folder
        write(folder / "cmake/snippets.cmake",
              (ROOT / "cmake/snippets.cmake").read_text())
        for day, text in lessons.items():
            write(folder / day / "a.cu", text)

    def export(self, out="out", *sources):
        given = [f"-DSOURCES={';'.join(sources)}"] if sources else []
        done = subprocess.run(
            [CMAKE, f"-DOUT={out}", *given, "-P", "cmake/snippets.cmake"],
            cwd=self.root, capture_output=True, text=True)
        return done.returncode, done.stderr

    def good(self, *args):
        code, said = self.export(*args)
        assert code == 0, said
        lines = (self.root / (args or ["out"])[0] / "index.tsv").read_text()
        return {tuple(row.split("\t")[:2]): row.split("\t")
                for row in lines.splitlines()[1:]}

    def refused(self, says, *args):
        before = files(self.root)
        code, said = self.export(*args)
        assert code != 0 and re.search(says, said), said
        assert files(self.root) == before, "something was written"
        return said


@pytest.fixture
def clone(tmp_path):
    return Clone(tmp_path / "clone", day1=region("red", "green"),
                 day2=region("blue"))


# --- Text that trips scripts comes out byte for byte: source, export ---------
EXACT = {
    "semicolons": "a[i] = b[i]; };;\nf = [](int x) { return x; };  // \"a;b\"",
    "brackets": "x = a[\n    b[i]];\n// [ and ] and [[ and ]] and [=[ \ny = [0;",
    "backslashes": "#define SUM(a, b) \\\n  ((a) + \\\n   (b))\np = \"C:\\\\n\\\";  // \\",
    "variables": "// ${X} @X@ $ENV{HOME} @text@ $(x) %P%\n#cmakedefine X",
    "launch": "kernel<<<blocks, n>>>(d);\n  if (a < b && !c) o << \"&amp;\";\n\n    deeper();",
    "utf8": "// Gr\u00f6\u00dfe 5 \u00b5s \u03c0 \u2192 \u65e5\u672c \U0001f600",
    "words": "// a snippet: in words, \"end snippet\" in quotes\nint last;   ",
    "quotes": "a = \"q\\\"\" + 'c' + R\"x(raw )\" \")x\";  // `tick` --8<-- \"f\"",
}


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
    last = 4 + EXACT[name].count("\n") + 1
    assert row[2:7] == ["day1/a.cu", "5", str(last),
                        hashlib.sha256(got).hexdigest(), "n/a"]


# --- Malformed input: the source, the line and the fault of each -------------
ONE, END = "// snippet: one\n", "// end snippet\n"
BAD = {
    "blank": (f"{ONE}\n   \n{END}", {1: "empty"}), "empty": (ONE + END, {1: "empty"}),
    "bom": (b"\xef\xbb\xbf" + (ONE + "a\n" + END).encode(), {1: "byte-order"}),
    "cr": (f"int a;\n{ONE[:-1]}\r\na\r\n{END}", {2: "carriage return"}),
    "cr-lone": (f"{ONE}a;\rb;\n{END}", {2: "carriage return"}),
    "nul": (f"{ONE}a\0;\n{END}", {2: "NUL"}),
    "duplicate": (region("one", "one"), {4: "is the start of the other"}),
    "prefix": (region("v1", "v1-modulo"), {4: "is the start of the other"}),
    "prefix-later": (region("v1-a", "v1"), {1: "is the start of the other"}),
    "nested": (f"{ONE}a\n// snippet: b\nc\n{END}", {3: r"inside 'one' \(line 1\)"}),
    "nested-closed": (f"{ONE}a\n// snippet: b\nc\n{END}{END}",
                      {3: "inside 'one'", 6: "ends nothing"}),
    "stray-end": (f"a\n{END}{region('one')}", {2: "ends nothing"}),
    "unclosed": (f"{ONE}a\n", {1: "never ends"}),
    "none": ("int a;\n", {1: "no snippet"}), "nothing": ("", {1: "no snippet"}),
    "tab": (f"{ONE}\ta\nb\n{END}", {2: "tab"}),
    "tab-inside": (f"{ONE}a;\t// b\n{END}", {2: "tab"}),
    "wide": (f"{ONE}    a\n    {'b' * 80}\n{END}", {3: "80 columns"}),
    "wide-utf8": (f"{ONE}// {chr(252) * 77}\n{END}", {2: "80 columns"}),
    "many": (f"{region('one')}// snippet: Two\na\n{END}// snippet: three\n{END}"
             f"// snippet: four\n\ta\n{END}",
             {4: "bad snippet name", 7: "empty", 10: "tab"})}
for bad in (b"\xe4", b"\xc0\xaf", b"\xed\xa0\x80", b"\xe2\x82", b"\xf4\x90\x80\x80"):
    BAD[f"not-utf8-{bad.hex()}"] = (b"// snippet: one\n// " + bad + b"\n// end snippet\n",
                                    {2: "UTF-8"})
for bad in "\x1b\x7f\x85\u200f\u2028\u202e\u2066\ufeff":
    BAD[f"unseen-{ord(bad):x}"] = (f"{ONE}a;  // {bad}b\n{END}", {2: "control or bidi"})
for bad in ("Reduce", "warp_reduce", "7-load", "../escape", "a;b", "a]", "-a",
            "\u00fcber", "n" * 300):
    BAD[f"name-{bad[:9]}"] = (f"// snippet: {bad}\na\n{END}", {1: "bad snippet name"})
for near in ("// Snippet: one", "//snippet: one", "// snippet : one", "// snippet:  one",
             "// snippet: one ", "// snippet one", "// snippet:", "// snippet: one two",
             "\t// snippet: one", "/* snippet: one */", "int b;  // snippet: one",
             "/// snippet: one", "// begin snippet: one"):
    BAD[f"near-{near}"] = (f"{near}\na\n{END}", {1: "almost", 3: "ends nothing"})
for near in ("// End snippet", "// end snippets", "// endsnippet", "} // end snippet",
             "// end snippet one", "// end of snippet", "// snippet end"):
    BAD[f"near-{near}"] = (f"{ONE}a\n{near}\n", {3: "almost", 1: "never ends"})


@pytest.mark.parametrize("name", BAD)
def test_malformed(clone, name):
    text, faults = BAD[name]
    write(clone.root / "one/b.cu", text)
    said = clone.refused("nothing was written", "out", "day2/a.cu", "one/b.cu")
    found = dict(re.findall(r"^one/b\.cu:(\d+): (.*)", said, re.M))
    assert {int(line) for line in found} == faults.keys(), said
    for line, says in faults.items():
        assert re.search(says, found[str(line)]), said


def test_widest_and_longest(clone):
    write(clone.root / "one/b.cu", f"{ONE}    // {chr(181) * 76}\n{END}"
          f"// snippet: {'n' * 79}\na\n{END}")
    clone.good("out", "one/b.cu")


# --- Arguments, and what is in OUT -------------------------------------------
def test_arguments(clone):
    clone.refused(r"(?s)OUT is missing.*-D stands before\s+-P", "")
    clone.refused("one/c.cu:1: no such file", "out", "one/c.cu", "day1/a.cu")
    clone.refused("semicolon", "out", "day1/a.cu,day2/a.cu")
    clone.refused("day1:1: no such file, or a folder", "out", "day1")
    write(clone.root / "taken", "")
    clone.refused("taken", "taken")
    clone.refused("", "taken/deep")


@pytest.mark.parametrize("name", ["a;b", "a[b", "a]b", "a\tb", "a\nb", "a\x1bb"])
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
    assert clone.good("out", "../other/c.cu")["other", "one"][2] == "../other/c.cu"


def test_out_must_not_hold_sources(clone):
    (clone.root.parent / "link").symlink_to(clone.root)
    for out in (".", "..", str(clone.root), str(clone.root.parent / "link")):
        clone.refused("would overwrite", out)
    write(clone.root / "three/blue.cu", region("blue"))
    clone.refused("would overwrite", "three", "three/blue.cu")
    (clone.root / "out").mkdir()
    (clone.root / "out/day2").symlink_to(clone.root / "day1")
    clone.refused("not from an export")


@pytest.mark.parametrize("what", ["file", "folder", "link", "parent", "index"])
def test_foreign(clone, what):
    path = clone.root / "out" / {"parent": "day2", "index": "index.tsv"}.get(
        what, "day2/blue.cu")
    path.parent.mkdir(parents=True)
    if what == "folder":
        path.mkdir()
    elif what == "link":
        path.symlink_to(clone.root / "nowhere")
    else:
        path.write_text("mine\n")
    clone.refused("not from an export")


def test_what_is_gone_goes_and_the_rest_stays(clone):
    clone.good()
    write(clone.root / "out/day1/mine.cu", "mine\n")
    old = {path: path.stat().st_mtime_ns for path in clone.root.glob("out/*/*")}
    time.sleep(0.02)
    write(clone.root / "day1/a.cu", region("red", "yellow"))
    shutil.move(clone.root / "day2", clone.root / "day3")
    rows = clone.good()
    assert rows.keys() == {("day1", "red"), ("day1", "yellow"), ("day3", "blue")}
    assert {path.name for path in clone.root.glob("out/*/*")} == {
        "red.cu", "yellow.cu", "blue.cu", "mine.cu"}
    assert not (clone.root / "out/day2/blue.cu").exists()
    red = clone.root / "out/day1/red.cu"
    assert red.stat().st_mtime_ns == old[red], "an unchanged snippet was rewritten"


def test_an_index_that_leads_elsewhere(clone):
    clone.good()
    index = clone.root / "out/index.tsv"
    index.write_text(index.read_text().replace("day2\tblue\tday2", "..\tmine\tday9"))
    write(clone.root / "mine.cu", "mine\n")
    clone.refused("not from an export")  # blue.cu is in no index any more
    (clone.root / "out/day2/blue.cu").unlink()
    clone.good()
    assert (clone.root / "mine.cu").exists()


def test_two_sources_of_one_folder(clone):
    write(clone.root / "day1/b.cu", region("white"))
    clone.good("out", "day1/a.cu")
    rows = clone.good("out", "day1/b.cu")
    assert rows.keys() == {("day1", "red"), ("day1", "green"), ("day1", "white")}
    assert len(list(clone.root.glob("out/day1/*.cu"))) == 3
    write(clone.root / "day1/b.cu", region("red"))
    clone.refused("start of the other", "out", "day1/b.cu")


def test_fifty_thousand_lines(tmp_path):
    clone = Clone(tmp_path, day1="".join(
        region(f"r{k:04}", code="int {};\n" * 40) + "// [;\n" * 8
        for k in range(1000)))
    start = time.monotonic()
    assert len(clone.good()) == 1000
    assert time.monotonic() - start < 20  # about a second on an idle core


def test_commit(clone):
    def git(*args):
        return subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=b",
                               *args], cwd=clone.root, check=True, text=True,
                              capture_output=True).stdout.strip()
    if not shutil.which("git"):
        pytest.skip("no git")
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "x", "--no-gpg-sign")
    assert {row[6] for row in clone.good().values()} == {git("rev-parse", "HEAD")}
    write(clone.root / "day4/a.cu", region("new"))
    rows = clone.good()
    assert rows["day4", "new"][6] == "n/a" != rows["day1", "red"][6]
    write(clone.root / "day1/a.cu", region("red", "other"))
    assert {row[6] for row in clone.good().values()} == {"n/a"}


def test_needs(tmp_path):
    rows = Clone(tmp_path, day1=region("limits", code="constexpr int kN = 4;")
                 + region("helper", code="inline int twice(int x) { return x * kN; }")
                 + region("kernel", code="__global__ void __launch_bounds__(kN)\n"
                          "    f(float* x) { x[0] = twice(1); }  // see {}")
                 + region("launch", code="f<<<1, kN>>>(d_x);  // twice")).good()
    assert {name: row[7] for (_, name), row in rows.items()} == {
        "limits": "-", "helper": "limits", "kernel": "limits helper",
        "launch": "kernel limits"}
