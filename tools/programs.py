"""Compiles, runs and profiles programs, many at a time."""
import contextlib
import csv
import io
import os
import queue
import signal
import subprocess
import tempfile
import threading
from concurrent.futures import Future
from pathlib import Path

NVCC = os.environ.get("NVCC", "nvcc")
NCU = os.environ.get("NCU", "ncu")
SANITIZER = os.environ.get("SANITIZER", "compute-sanitizer")
FLAGS = ("-std=c++17", "-O3")

LAUNCH = """
    gpu__time_duration.sum launch__block_size launch__grid_size
    launch__cluster_size launch__shared_mem_per_block_dynamic
    launch__shared_mem_per_block_static dram__bytes_read.sum
    dram__bytes_write.sum""".split()
METRICS = LAUNCH + """
    launch__registers_per_thread launch__occupancy_limit_blocks
    launch__occupancy_limit_registers launch__occupancy_limit_shared_mem
    launch__occupancy_limit_warps sm__maximum_warps_per_active_cycle_pct
    sm__warps_active.avg.pct_of_peak_sustained_active
    lts__t_sectors_op_write.sum
    l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio
    l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_st.ratio
    l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum
    l1tex__t_requests_pipe_lsu_mem_global_op_red.sum
    l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum
    l1tex__t_requests_pipe_lsu_mem_local_op_ld.sum
    l1tex__t_requests_pipe_lsu_mem_local_op_st.sum
    l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum
    l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum
    l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum
    smsp__inst_executed.sum smsp__thread_inst_executed_per_inst_executed.ratio
    smsp__thread_inst_executed_pred_on_per_inst_executed.ratio
    smsp__sass_average_branch_targets_threads_uniform.pct""".split()


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
        try:
            status = process.wait(timeout)
        except subprocess.TimeoutExpired:
            status = 124
        with contextlib.suppress(ProcessLookupError):  # and its children
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        out.seek(0)
        return status, out.read().decode(errors="replace")


def nvcc(out, source, arch, *flags):
    """(status, messages) of compiling for one architecture, a *.cubin to
    machine code alone. What lies there from an earlier call is kept."""
    log = Path(f"{out}.log")
    if log.exists():
        status, _, said = log.read_text().partition("\n")
        return int(status), said
    status, said = sh([NVCC, *FLAGS, f"-arch=sm_{arch}", *flags,
                       *(["-cubin"] if Path(out).suffix == ".cubin" else []),
                       "-o", out, source])
    log.write_text(f"{status}\n{said}")
    return status, said


class Once:
    """Calls function(*key) once for each key; others wait for its answer."""

    def __init__(self, function):
        self.function, self.futures = function, {}
        self.lock = threading.Lock()

    def __call__(self, *key):
        with self.lock:
            new = key not in self.futures
            future = self.futures.setdefault(key, Future())
        if new:
            try:
                future.set_result(self.function(*key))
            except BaseException as error:
                future.set_exception(error)
        return future.result()


class Gpus:
    """So many programs at a time on each of some GPUs."""

    def __init__(self, ids=("0",), each=4):
        self.slots = queue.Queue()
        for gpu in list(ids) * each:
            self.slots.put(gpu)
        self.counters = {gpu: threading.Lock() for gpu in ids}

    @contextlib.contextmanager
    def one(self, counters=False):
        """The environment of a program; its GPU's counters serve one."""
        gpu = self.slots.get()
        try:
            with self.counters[gpu] if counters else contextlib.nullcontext():
                yield visible(gpu)
        finally:
            self.slots.put(gpu)


def visible(gpu):
    """The environment in which nvidia-smi's number `gpu` is the only GPU."""
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": gpu}


def profile(program, work, env, metrics=METRICS, options=(), arguments=(),
            timeout=600, statuses=(0,)):
    """(whether all went well, the launches as CSV, or what went wrong)."""
    report = Path(work) / (Path(program).name + ".ncu-rep")
    status, said = sh([NCU, "--clock-control", "none", "--profile-from-start",
                       "off", *options, "--metrics", ",".join(metrics),
                       "--force-overwrite", "-o", report.with_suffix(""),
                       program, *arguments], timeout, env)
    if status not in statuses or not report.exists():
        return False, f"{said}\nncu ended with status {status}"
    status, said = sh([NCU, "--import", report, "--csv", "--page", "raw",
                       "--print-units", "base"], timeout)
    at = said.find('"ID"')  # a warning may come before it
    if status != 0 or at < 0:
        return False, f"{said}\nncu --import ended with status {status}"
    return True, columns(said[at:], metrics)


def columns(text, metrics):
    """The CSV of ncu with the columns asked for; it adds hundreds."""
    rows = list(csv.reader(io.StringIO(text)))
    names = ["ID", "Kernel Name", "Block Size", "Grid Size", "CC", *metrics]
    keep = [rows[0].index(name) for name in names if name in rows[0]]
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(
        [row[k] for k in keep] for row in rows if len(row) == len(rows[0]))
    return out.getvalue()
