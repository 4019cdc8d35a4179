"""Compiles, runs and profiles programs, many at a time."""
import contextlib
import csv
import io
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import tempfile
import threading
from concurrent.futures import Future
from pathlib import Path

from evidence import sha256

NVCC = os.environ.get("NVCC", "nvcc")
NCU = os.environ.get("NCU", "ncu")
SANITIZER = os.environ.get("SANITIZER", "compute-sanitizer")
NCU_OPTIONS = ["--clock-control", "none", "--profile-from-start", "off"]
COUNTERS = threading.Lock()  # the profiler serves one program at a time
RUNNING = set()
LAUNCH = """gpu__time_duration.sum dram__bytes_read.sum dram__bytes_write.sum
    launch__block_size launch__grid_size launch__cluster_size
    launch__shared_mem_per_block_dynamic
    launch__shared_mem_per_block_static""".split()
METRICS = LAUNCH + """
    launch__registers_per_thread launch__occupancy_limit_blocks
    launch__occupancy_limit_warps sm__maximum_warps_per_active_cycle_pct
    sm__warps_active.avg.pct_of_peak_sustained_active
    l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio
    l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum
    l1tex__t_requests_pipe_lsu_mem_global_op_red.sum
    l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum
    l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum
    smsp__thread_inst_executed_per_inst_executed.ratio""".split()


def sh(command, timeout=600, env=None, cwd=None):
    """(exit status, what it printed); 124 where it had to be stopped, 127
    where there is no such program."""
    with tempfile.TemporaryFile() as out:
        try:
            process = subprocess.Popen(
                [str(word) for word in command], stdout=out,
                stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, cwd=cwd,
                env={**os.environ, **(env or {})}, start_new_session=True)
        except OSError as error:
            return 127, str(error)
        RUNNING.add(process)
        try:
            status = process.wait(timeout)
        except subprocess.TimeoutExpired:
            status = 124
        RUNNING.discard(process)
        with contextlib.suppress(ProcessLookupError):  # and its children
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        out.seek(0)
        return status, out.read().decode(errors="replace")


def stop(*_):
    """Ends this program and all that it runs; for signal.signal."""
    for process in list(RUNNING):
        os.killpg(process.pid, signal.SIGKILL)
    os._exit(1)


def line(text, pattern):
    """The first line that matches, or else the last, 200 letters at most."""
    lines = [one for one in text.splitlines() if one.strip()] or [""]
    found = [one for one in lines if re.search(pattern, one)]
    return (found or lines[-1:])[0].strip()[:200]


def toolkit():
    """The version of nvcc, or nothing."""
    found = re.search(r"V(\d+\.\d+\.\d+)", sh([NVCC, "--version"])[1])
    return found[1] if found else ""


def build(work, name, text, arch, *flags):
    """(status, messages, program) of compiling a text alone in a folder, with
    -cubin to machine code. What an earlier call made is kept."""
    folder = Path(work) / sha256(f"{NVCC}{text}{arch}{flags}")[:20]
    out = f"{name}.sm_{arch}.cubin" if "-cubin" in flags else name
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        new = Path(tempfile.mkdtemp(dir=folder.parent))
        (new / f"{name}.cu").write_text(text)
        status, said = sh([NVCC, "-std=c++17", "-O3", f"-arch=sm_{arch}",
                           *flags, "-o", out, f"{name}.cu"], cwd=new)
        (new / "log").write_text(f"{status}\n{said}")
        try:
            new.rename(folder)
        except OSError:  # another process was faster
            shutil.rmtree(new)
    status, _, said = (folder / "log").read_text().partition("\n")
    return int(status), said, folder / out


class Kept:
    """Answers for a next call, in a file each."""

    def __init__(self, folder):
        self.folder = Path(folder)

    def get(self, key):
        path = self.folder / sha256(repr(key))
        return json.loads(path.read_text()) if path.exists() else None

    def put(self, key, answer):
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / sha256(repr(key))
        new = path.with_suffix(f".{threading.get_ident()}")
        new.write_text(json.dumps(answer))
        new.replace(path)
        return answer


class Once:
    """Calls function(*key) once for each key; others wait for its answer."""

    def __init__(self, function):
        self.function, self.lock = function, threading.Lock()
        self.futures = {}

    def __call__(self, *key):
        with self.lock:
            new = key not in self.futures
            future = self.futures.setdefault(key, Future())
        if new:
            try:
                future.set_result(self.function(*key))
            except Exception as error:
                future.set_exception(error)
        return future.result()


def on_gpu(gpu):
    """The environment in which nvidia-smi's number `gpu` is the only one."""
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": gpu}


class Gpus(queue.Queue):
    """Places for `each` programs on each of some GPUs."""

    def __init__(self, ids=("0",), each=4):
        super().__init__()
        self.ids = list(ids)
        for gpu in self.ids * each:
            self.put(gpu)

    @contextlib.contextmanager
    def one(self):
        gpu = self.get()
        try:
            yield on_gpu(gpu)
        finally:
            self.put(gpu)


def profile(program, env, metrics=METRICS, options=(), arguments=()):
    """(whether all went well, the launches as CSV or what went wrong). The
    program itself may end with 0 or 1."""
    report = f"{program}.ncu-rep"
    with COUNTERS:
        status, said = sh([NCU, *NCU_OPTIONS, *options, "--metrics",
                           ",".join(metrics), "--force-overwrite", "-o",
                           program, program, *arguments], 400, env)
    if status in (0, 1) and Path(report).exists():
        status, said = sh([NCU, "--import", report, "--csv", "--page", "raw",
                           "--print-units", "base"])
        at = said.find('"ID"')  # a warning may come before it
        if status == 0 and at >= 0:
            return True, columns(said[at:], metrics)
    return False, f"{said}\nncu ended with status {status}"


def columns(text, metrics):
    """The CSV of ncu with the columns asked for; it adds hundreds."""
    rows = list(csv.reader(io.StringIO(text)))
    names = ["ID", "Kernel Name", "Block Size", "Grid Size", "CC", *metrics]
    keep = [rows[0].index(name) for name in names if name in rows[0]]
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(
        [row[k] for k in keep] for row in rows if len(row) == len(rows[0]))
    return out.getvalue()
