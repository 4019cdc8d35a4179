"""The machine code of a cubin, kernel by kernel, as cuobjdump prints it."""
import math
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

LINE = re.compile(
    r"/\*([0-9a-f]{4,})\*/ +(?:@(!?U?P[0-9T]+) +)?([^;/\n]+?) *;")
TARGET = re.compile(
    r"(?:BRA|BRX|JMP|JMX|BSSY|SSY|CALL|WARPSYNC)[A-Z.]* .*0x([0-9a-f]+)")
ENDS_BLOCK = re.compile(r"BRA|BRX|JMP|JMX|EXIT|RET|CALL")


@dataclass(frozen=True)
class Instruction:
    address: int
    predicate: str  # "" where it has none
    text: str       # `LDG.E.128 R4, [R2]`

    @property
    def target(self):
        """Where a branch may go to, or -1."""
        found = TARGET.match(self.text)
        return int(found[1], 16) if found else -1


@dataclass(frozen=True)
class Kernel:
    """A kernel, or a part of one. A pattern is a regular expression for the
    beginning of an instruction."""
    name: str
    arguments: tuple  # its integer template arguments
    arch: int         # 75, 90
    code: tuple
    budget: int = 255  # registers that its launch bounds leave a thread

    def find(self, pattern):
        return [i for i in self.code if re.match(pattern, i.text)]

    def count(self, pattern):
        return len(self.find(pattern))

    def counts(self, *patterns):
        """How many instructions begin like each pattern."""
        return [self.count(pattern) for pattern in patterns]

    def order(self, *patterns):
        """Which of them the instructions match, one after another."""
        return [pattern for i in self.code for pattern in patterns
                if re.match(pattern, i.text)]

    def predicated(self, pattern):
        return sum(i.predicate != "" for i in self.find(pattern))

    def upto(self, pattern):
        """The part before the first match, in the order of the addresses."""
        return self.part(0, self.find(pattern)[0].address - 1)

    def after(self, pattern):
        """The part behind the first match."""
        return self.part(self.find(pattern)[0].address + 1, math.inf)

    def part(self, first, last):
        return replace(self, code=tuple(
            i for i in self.code if first <= i.address <= last))

    def before(self, pattern, other):
        """How many come before the first `other`."""
        return self.upto(other).count(pattern)

    @property
    def loops(self):
        """The part of each backward branch; of `L: BRA L` behind EXIT none."""
        return [self.part(branch.target, branch.address)
                for branch in self.find("BRA|JMP")
                if 0 <= branch.target < branch.address]

    def loops_around(self, pattern):
        return sum(loop.count(pattern) > 0 for loop in self.loops)

    def run(self, pattern, until, block=False):
        """The longest sequence, in the order of the addresses, before
        `until`; with `block` of instructions without a predicate in one basic
        block."""
        leaders = {i.target for i in self.code}
        longest = length = 0
        for i in self.code:
            if re.match(until, i.text) or block and (
                    i.address in leaders or ENDS_BLOCK.match(i.text)):
                length = 0
            if re.match(pattern, i.text) and not (block and i.predicate):
                length += 1
                longest = max(longest, length)
        return longest


def tool(name):
    """A program of the toolkit: on PATH, or of the Python package; or None."""
    return shutil.which(name) or shutil.which(name, path=os.pathsep.join(
        str(path) for folder in sys.path
        for path in Path(folder).glob("nvidia/cu*/bin")))


@lru_cache(maxsize=None)
def read(cubin):
    """{name: [a Kernel for each set of template arguments]}, without those of
    libraries."""
    path = os.path.dirname(tool("nvdisasm")), os.environ.get("PATH", "")
    listing, elf = (subprocess.check_output(
        [tool("cuobjdump"), part, cubin], text=True,
        env={**os.environ, "PATH": os.pathsep.join(path)})
        for part in ("-sass", "-elf"))
    budgets = dict(re.findall(
        r"^\.nv\.info\.(\S+)\n(?:(?!\.nv).*\n)*?.*_MAXREG_COUNT\n.*\n"
        r"\s+Value:\s+(\w+)", elf, re.M))
    arch, kernels = int(re.search(r"sm_(\d+)", listing)[1]), {}
    for part in listing.split("Function : ")[1:]:
        mangled = part.split(None, 1)[0]
        if mangled.startswith("_ZN"):
            continue
        found = re.match(r"_Z(\d+)(.*)", mangled)
        length, rest = (int(found[1]), found[2]) if found else (None, mangled)
        arguments = tuple(int(value.replace("n", "-")) for value in re.findall(
            r"L[a-z](n?\d+)E", rest[length or len(rest):]))
        kernels.setdefault(rest[:length], []).append(Kernel(
            rest[:length], arguments, arch, tuple(
                Instruction(int(address, 16), predicate, text)
                for address, predicate, text in LINE.findall(part)),
            int(budgets.get(mangled, "0xff"), 16)))
    return kernels
