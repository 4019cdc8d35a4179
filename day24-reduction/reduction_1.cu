// Day 24: parallel reduction, versions 0 to 4
// Question: why is the obvious sum slow, and what does each repair buy?
//
// Rows:
//   copy (ceiling)          copies the input: what the memory can do
//   v0 atomic global        every thread adds to one word of global memory
//   v0s atomic shared       to one word of shared memory per block first
//   v1 interleaved modulo   a tree in shared memory; working lanes far apart
//   v2 interleaved strided  the same pairs, packed threads: bank conflicts
//   v3 sequential           the stride halves from the top: no conflicts
//   v4 two loads            each thread adds two elements on the way in
//   v3 + atomic             v3, then one global atomic per block: one float
//   v3 + shuffle + atomic   the last 32 values in registers, by shuffles
//   v4 + shuffle + atomic   two loads, shuffles, one atomic per block
//   v4 + two-stage shuffle  every warp shuffles, then the first one again
//   v0 + warp shuffle       a warp adds up by shuffles: one atomic per warp
//
// Not measured: the first launch, copies to the host, zeroing *out for a row
// that adds to it, a second pass over v1 to v4's partial sums (day 25).
//
// Build: nvcc -std=c++17 -O3 -arch=sm_75 -o reduction_1 reduction_1.cu
// Run:   ./reduction_1
// Verified: NVIDIA H200, compute capability 9.0, driver 580.159.04, CUDA 13.0,
//   evidence/day24-reduction/run-h200-sm_75.txt
// Start at "kernels"; below the table of rows you may stop reading.

#include <cuda_profiler_api.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#ifndef LESSON_QUICK    // -DLESSON_QUICK: small inputs, every check; the times
#define LESSON_QUICK 0  // of such a run mean nothing
#endif
constexpr bool kQuick = LESSON_QUICK;
// snippet: cuda-check
#define CUDA_CHECK(...) checkCuda((__VA_ARGS__), #__VA_ARGS__, __LINE__)
inline void checkCuda(cudaError_t error, const char* call, int line) {
  if (error == cudaSuccess) return;
  throw std::runtime_error(__FILE__ ":" + std::to_string(line) + ": " + call +
                           ": " + cudaGetErrorString(error));
}
// end snippet

// ---- what you may change: a value works, or stops the compiler ------------
// snippet: constants
constexpr int kThreadsPerBlock = 256;  // a power of two from 32 to 1024
constexpr std::int64_t kElems = (1 << (kQuick ? 18 : 24)) - 611;

// Not to be changed:
constexpr int kCopyThreads = 256;  // of the copy: small blocks are no ceiling
constexpr int kWarp = 32;          // lanes of a warp
constexpr bool kBlockWorks = kThreadsPerBlock >= kWarp &&
                             kThreadsPerBlock <= 1024 &&
                             (kThreadsPerBlock & (kThreadsPerBlock - 1)) == 0;
static_assert(kBlockWorks,
              "kThreadsPerBlock must be a power of two (for the trees) from "
              "32 (for the shuffles) to 1024 (no GPU runs more)");
static_assert(kElems >= 1 && kElems < (1 << 24),
              "kElems must be from 1 to 2^24 - 1: a float counts no further, "
              "so more ones could not show a lost element");
// end snippet

// ---- kernels --------------------------------------------------------------
// The same for all but the copy. One thread: one element (v4: two). One warp:
// 32 floats in a row, 4 sectors of 32 bytes: `in` starts on a multiple of
// 128 bytes. Launch: kThreadsPerBlock threads per block; *out is 0 before a
// row that adds to it; v1 to v4 leave one partial sum per block.

// snippet: copy-ceiling
// The ceiling: reads and writes every byte once. Needs 16-byte alignment.
// One thread: 16 bytes; the first threads also copy the last n % 4 floats.
// One warp: 512 bytes in a row, 16 sectors per request, all of them used.
__global__ void copyFloats(const float* in, float* out, size_t n) {
  const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n / 4)
    reinterpret_cast<float4*>(out)[i] = reinterpret_cast<const float4*>(in)[i];
  if (i < n % 4) out[n / 4 * 4 + i] = in[n / 4 * 4 + i];
}
// end snippet

// snippet: atomic-global
// v0: the obvious sum.
// One thread: one atomicAdd, in any order (relaxed): enough for a sum. Its
//   result is not used, so it becomes a reduction (RED), which returns none.
// One warp: 32 additions to the same word. The compiler may not add them up
//   first: another order can round to another float.
__global__ void reduceAtomicGlobal(const float* in, float* out, size_t n) {
  const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(out, in[i]);
}
// end snippet

// snippet: atomic-shared
// v0s: what changed: the threads of a block first add to a word of their own,
// in shared memory. Then one atomic per block adds it to *out.
// One thread: a loop: load the word, add, swap if it is still the same.
// One warp: its lanes want the same word; one that is late tries again.
__global__ void reduceAtomicShared(const float* in, float* out, size_t n) {
  __shared__ float sum;
  const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (threadIdx.x == 0) sum = 0.0f;
  __syncthreads();  // nobody adds before the word is 0
  if (i < n) atomicAdd(&sum, in[i]);
  __syncthreads();  // nobody reads it before all have added
  if (threadIdx.x == 0) atomicAdd(out, sum);
}
// end snippet

// snippet: v1-modulo
// v1: what changed: a tree instead of a queue: at each level all pairs are
// added at the same time.
// One thread: works where its number is a multiple of 2 * s. For sm_75 to
//   sm_90 the modulo is an integer division at every level; for sm_100 and
//   newer the compiler sees a power of two, and masks instead.
// One warp: the `if` becomes predicates, not a branch: every warp issues every
//   level. At s = 1, 16 lanes of each warp work, then 8, 4, 2, 1; from s = 32
//   on half of the warps or more have none. No bank conflict.
__global__ void reduceInterleavedModulo(const float* in, float* partials,
                                        size_t n) {
  __shared__ float sums[kThreadsPerBlock];
  const unsigned tid = threadIdx.x;
  const size_t i = size_t(blockIdx.x) * kThreadsPerBlock + tid;
  sums[tid] = i < n ? in[i] : 0.0f;
  __syncthreads();
  for (unsigned s = 1; s < blockDim.x; s *= 2) {
    if (tid % (2 * s) == 0) sums[tid] += sums[tid + s];
    __syncthreads();
  }
  if (tid == 0) partials[blockIdx.x] = sums[0];
}
// end snippet

// snippet: v2-strided
// v2: what changed: thread t takes the t-th pair. The threads that work are
// neighbours, whole warps have nothing to load, and no level divides.
// One warp: loads words 2 * s apart, up to kThreadsPerBlock / 32 of them in
//   one bank. Fewer warps, more passes each: in all as many as v1. But in v1
//   a load is one pass; here one can take several, while other warps wait.
__global__ void reduceInterleavedStrided(const float* in, float* partials,
                                         size_t n) {
  __shared__ float sums[kThreadsPerBlock];
  const unsigned tid = threadIdx.x;
  const size_t i = size_t(blockIdx.x) * kThreadsPerBlock + tid;
  sums[tid] = i < n ? in[i] : 0.0f;
  __syncthreads();
  for (unsigned s = 1; s < blockDim.x; s *= 2) {
    const unsigned k = 2 * s * tid;
    if (k < blockDim.x) sums[k] += sums[k + s];
    __syncthreads();
  }
  if (tid == 0) partials[blockIdx.x] = sums[0];
}
// end snippet

// snippet: v3-sequential
// v3: what changed: other pairs. The stride starts at half the block and
// halves; thread t adds word t + s to word t.
// One warp: loads 32 words in a row: no bank conflict. Down to s = 32 it works
//   with all its lanes or with none.
__global__ void reduceSequential(const float* in, float* partials, size_t n) {
  __shared__ float sums[kThreadsPerBlock];
  const unsigned tid = threadIdx.x;
  const size_t i = size_t(blockIdx.x) * kThreadsPerBlock + tid;
  sums[tid] = i < n ? in[i] : 0.0f;
  __syncthreads();
  for (unsigned s = blockDim.x / 2; s > 0; s /= 2) {
    if (tid < s) sums[tid] += sums[tid + s];
    __syncthreads();
  }
  if (tid == 0) partials[blockIdx.x] = sums[0];
}
// end snippet

// snippet: v4-two-loads
// v4: what changed: each thread adds two elements before the tree begins; in
// v3 half of them never add. Half as many blocks, trees and barriers.
// One thread: two loads, both under way before the first addition.
__global__ void reduceSequentialTwoLoads(const float* in, float* partials,
                                         size_t n) {
  __shared__ float sums[kThreadsPerBlock];
  const unsigned tid = threadIdx.x;
  const size_t i = size_t(blockIdx.x) * (2 * kThreadsPerBlock) + tid;
  const size_t j = i + kThreadsPerBlock;
  sums[tid] = (i < n ? in[i] : 0.0f) + (j < n ? in[j] : 0.0f);
  __syncthreads();
  for (unsigned s = blockDim.x / 2; s > 0; s /= 2) {
    if (tid < s) sums[tid] += sums[tid + s];
    __syncthreads();
  }
  if (tid == 0) partials[blockIdx.x] = sums[0];
}
// end snippet

// snippet: atomic-finish
// v3 + atomic: what changed from v3: the last line. Thread 0 of each block
// adds to *out, so one launch leaves the sum itself.
__global__ void reduceSequentialAtomic(const float* in, float* out, size_t n) {
  __shared__ float sums[kThreadsPerBlock];
  const unsigned tid = threadIdx.x;
  const size_t i = size_t(blockIdx.x) * kThreadsPerBlock + tid;
  sums[tid] = i < n ? in[i] : 0.0f;
  __syncthreads();
  for (unsigned s = blockDim.x / 2; s > 0; s /= 2) {
    if (tid < s) sums[tid] += sums[tid + s];
    __syncthreads();
  }
  if (tid == 0) atomicAdd(out, sums[0]);
}
// end snippet

// snippet: shuffle-tail
// v3 + shuffle + atomic: what changed from v3 + atomic: the loop stops at 32
// values, and one warp adds these up in registers.
// One thread: five shuffles for the last five levels: no shared memory, no
//   barrier at which the other warps wait with nothing to do.
// One warp: all 32 lanes take part in each shuffle, as its mask says.
__device__ float sumWarp(float value) {  // lane 0 gets the sum
  for (unsigned offset = kWarp / 2; offset > 0; offset /= 2)
    value += __shfl_down_sync(0xffffffffu, value, offset);
  return value;
}

__device__ void addBlock(float* sums, unsigned tid, float* out) {
  __syncthreads();
  for (unsigned s = blockDim.x / 2; s >= kWarp; s /= 2) {
    if (tid < s) sums[tid] += sums[tid + s];
    __syncthreads();
  }
  if (tid < kWarp) {
    const float sum = sumWarp(sums[tid]);
    if (tid == 0) atomicAdd(out, sum);
  }
}

__global__ void reduceShuffleAtomic(const float* in, float* out, size_t n) {
  __shared__ float sums[kThreadsPerBlock];
  const unsigned tid = threadIdx.x;
  const size_t i = size_t(blockIdx.x) * kThreadsPerBlock + tid;
  sums[tid] = i < n ? in[i] : 0.0f;
  addBlock(sums, tid, out);
}
// end snippet

// snippet: final-atomic
// v4 + shuffle + atomic: what changed from v3 + shuffle + atomic: the two
// loads of v4, so half as many blocks and atomics.
__global__ void reduceFinalAtomic(const float* in, float* out, size_t n) {
  __shared__ float sums[kThreadsPerBlock];
  const unsigned tid = threadIdx.x;
  const size_t i = size_t(blockIdx.x) * (2 * kThreadsPerBlock) + tid;
  const size_t j = i + kThreadsPerBlock;
  sums[tid] = (i < n ? in[i] : 0.0f) + (j < n ? in[j] : 0.0f);
  addBlock(sums, tid, out);
}
// end snippet

// snippet: two-stage-shuffle
// v4 + two-stage shuffle: what changed from v4 + shuffle + atomic: no tree in
// shared memory. Every warp shuffles, and the first warp shuffles their sums.
// One thread: two loads, five shuffles, one barrier; in warp 0 five more.
__global__ void reduceTwoStageShuffle(const float* in, float* out, size_t n) {
  constexpr unsigned kWarps = kThreadsPerBlock / kWarp;
  __shared__ float sums[kWarps];
  const unsigned tid = threadIdx.x;
  const size_t i = size_t(blockIdx.x) * (2 * kThreadsPerBlock) + tid;
  const size_t j = i + kThreadsPerBlock;
  const float sum = sumWarp((i < n ? in[i] : 0.0f) + (j < n ? in[j] : 0.0f));
  if (tid % kWarp == 0) sums[tid / kWarp] = sum;
  __syncthreads();
  if (tid < kWarp) {
    const float total = sumWarp(tid < kWarps ? sums[tid] : 0.0f);
    if (tid == 0) atomicAdd(out, total);
  }
}
// end snippet

// snippet: warp-then-atomic
// v0 + warp shuffle: what changed from v0: the 32 values of a warp are added
// first, which the compiler may not do for floats by itself.
// One thread: five shuffles, beyond the end too: the mask names all lanes.
// One warp: one atomic (RED). No shared memory, no barrier.
__global__ void reduceWarpAtomic(const float* in, float* out, size_t n) {
  const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  const float sum = sumWarp(i < n ? in[i] : 0.0f);
  if (threadIdx.x % kWarp == 0) atomicAdd(out, sum);
}
// end snippet

#ifdef LESSON_YOURS
// snippet: yours
// Your turn: rewrite kernel and launch. *d_out is 0 before, the sum of the n
// floats after: for any n, 0 too (launch at least one block), and for a d_in
// that starts at any float. Right, but slow: one thread adds 64 neighbours.
__global__ void reduceYours(const float* in, float* out, size_t n) {
  const size_t i = 64 * (size_t(blockIdx.x) * blockDim.x + threadIdx.x);
  float sum = 0.0f;
  for (size_t k = i; k < n && k < i + 64; ++k) sum += in[k];
  atomicAdd(out, sum);
}
void launchYours(const float* d_in, float* d_out, size_t n) {
  reduceYours<<<unsigned(n / (64 * 256) + 1), 256>>>(d_in, d_out, n);
}
// end snippet
#endif

// ---- the table of rows: below it you may stop reading ---------------------
// snippet: row-table
enum Leaves { kCopy, kParts, kTotal };
constexpr const char* kLeaves[] = {"n floats", "partials", "one float"};
struct Row {
  const char *label, *name;  // of the row, of its kernel
  void (*kernel)(const float* in, float* out, size_t n);
  Leaves leaves;
  int from, perBlock, adds;  // the row that it changes (0: none); elements
};                           // and atomics on *out per block
#define ROW(label, kernel, ...) \
  { label, #kernel, kernel, __VA_ARGS__ }
constexpr int kT = kThreadsPerBlock;
constexpr Row kRows[] = {
    ROW("copy (ceiling)", copyFloats, kCopy, 0, 4 * kCopyThreads, 0),
    ROW("v0 atomic global", reduceAtomicGlobal, kTotal, 0, kT, kT),
    ROW("v0s atomic shared", reduceAtomicShared, kTotal, 1, kT, 1),
    ROW("v1 interleaved modulo", reduceInterleavedModulo, kParts, 2, kT, 0),
    ROW("v2 interleaved strided", reduceInterleavedStrided, kParts, 3, kT, 0),
    ROW("v3 sequential", reduceSequential, kParts, 4, kT, 0),
    ROW("v4 two loads", reduceSequentialTwoLoads, kParts, 5, 2 * kT, 0),
    ROW("v3 + atomic", reduceSequentialAtomic, kTotal, 5, kT, 1),
    ROW("v3 + shuffle + atomic", reduceShuffleAtomic, kTotal, 7, kT, 1),
    ROW("v4 + shuffle + atomic", reduceFinalAtomic, kTotal, 8, 2 * kT, 1),
    ROW("v4 + two-stage shuffle", reduceTwoStageShuffle, kTotal, 9, 2 * kT, 1),
    ROW("v0 + warp shuffle", reduceWarpAtomic, kTotal, 1, kT, kT / kWarp),
#ifdef LESSON_YOURS
    ROW("yours", reduceYours, kTotal, 0, 1, 0),
#endif
};
constexpr int kRowCount = int(sizeof(kRows) / sizeof(kRows[0]));
constexpr int kV0 = 1, kV1 = 3;  // row 0 is the copy
static_assert(kRows[kV0].kernel == reduceAtomicGlobal &&
                  kRows[kV1].kernel == reduceInterleavedModulo,
              "kRows: the texts below name rows by these numbers");
// end snippet

// snippet: launch-row
inline size_t blocksOf(const Row& row, size_t n) {  // of nothing: one
  return n == 0 ? 1 : (n - 1) / size_t(row.perBlock) + 1;
}
inline void launchRow(const Row& row, const float* d_in, float* d_out,
                      size_t n) {
#ifdef LESSON_YOURS
  if (row.kernel == reduceYours) return launchYours(d_in, d_out, n);
#endif
  const int threads = row.leaves == kCopy ? kCopyThreads : kThreadsPerBlock;
  row.kernel<<<unsigned(blocksOf(row, n)), threads>>>(d_in, d_out, n);
}
// end snippet

// ---- helpers: the same text, byte for byte, in every lesson ---------------
// snippet: open-device
template <typename... Args>
std::string text(const char* format, Args... args) {  // printf into a string
  char out[2048];
  std::snprintf(out, sizeof(out), format, args...);
  return out;
}
inline int failures = 0;  // every check is a gate, which counts its failures
inline bool gate(const char* name, bool ok, const std::string& why) {
  if (!ok) std::printf("FAILED %s: %s\n", name, why.c_str());
  failures += !ok;
  return ok;
}
using Skip = std::range_error;  // says why this machine cannot run the lesson
template <typename T>
struct DeviceArray {  // n elements of device memory, freed with the array
  T* data = nullptr;
  DeviceArray(size_t n) { CUDA_CHECK(cudaMalloc(&data, n * sizeof(T))); }
  ~DeviceArray() { cudaFree(data); }
  DeviceArray& operator=(DeviceArray&&) = delete;  // nor copied, nor moved
};
struct Device : cudaDeviceProp {
  double peakGBs = 0.0;  // memory clock x 2 x bus width; 0: unknown
};
// Device 0, if it can run `kernel`, any kernel of this file; else throws Skip.
// need: the lowest compute capability of the lesson, 75 for 7.5.
inline Device openDevice(int need, const void* kernel) {
  Device device{};
  cudaFuncAttributes loaded;  // asking for them loads the machine code
  int driver = 0, kHz = 0;
  CUDA_CHECK(cudaDriverGetVersion(&driver));  // 0 where there is none
  cudaError_t error = cudaGetDeviceProperties(&device, 0);
  if (error == cudaSuccess) error = cudaFuncGetAttributes(&loaded, kernel);
  const int found = device.major * 10 + device.minor;  // 0: no properties
  const std::string versions = text(
      "driver CUDA %d.%d, toolkit CUDA %d.%d", driver / 1000,
      driver % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
  const std::pair<bool, std::string> refusals[] = {
      {driver == 0,
       "no NVIDIA driver found. Install it; or --gpus all (container), srun\n"
       "  --gpus=1 (cluster), LD_LIBRARY_PATH=/usr/lib/wsl/lib (WSL)"},
      {error == cudaErrorInsufficientDriver,
       "the driver is too old. Update it, or use an older toolkit"},
      {error == cudaErrorNoDevice, "no GPU found. Check CUDA_VISIBLE_DEVICES"},
      {found == 0, "the driver does not work. Run nvidia-smi, repair it"},
      {found < need,
       text("%s is sm_%d. Use sm_%d or newer", device.name, found, need)},
      {error == cudaErrorMemoryAllocation, "the GPU's memory is full"},
      {error == cudaErrorDevicesUnavailable, "the GPU is taken. Wait for it"},
      {error != cudaSuccess,
       text("no code for %s. Rebuild with -arch=sm_%d", device.name, found)}};
  for (const auto& [refused, why] : refusals)
    if (refused)
      throw Skip(why + " (" + cudaGetErrorName(error) + ")\n  " + versions);
  CUDA_CHECK(cudaDeviceGetAttribute(&kHz, cudaDevAttrMemoryClockRate, 0));
  if (device.integrated) kHz = 0;  // there it may be the clock of the GPU
  device.peakGBs = kHz * 2e3 * device.memoryBusWidth / 8 / 1e9;
  std::printf("%s, compute capability %.1f, %d SMs, L2 %.1f MB\n%s, ",
              device.name, found / 10.0, device.multiProcessorCount,
              device.l2CacheSize / 1e6, versions.c_str());
  std::printf("peak %.0f GB/s (memory clock x 2 x bus width; 0: unknown)\n%s",
              device.peakGBs, kQuick ? "LESSON_QUICK: no time counts.\n" : "");
  return device;
}
// Copies to walk over, so that 4 x L2 passes between two reads of the same.
inline int copiesBeyondL2(const Device& device, size_t bytes) {
  return 2 + int(4 * size_t(device.l2CacheSize) / std::max<size_t>(bytes, 1));
}
// end snippet

// snippet: time-kernel
struct Timing {
  double ms = 0.0;      // per launch: the median of the batches
  double spread = 0.0;  // (slowest - fastest batch) / median
  int launches = 0;     // in all, the warm-up included
};
constexpr int kMaxLaunches = 1 << 15, kBatches = kQuick ? 3 : 9;
constexpr double kBatchMs = kQuick ? 1 : 5, kWarmUpMs = kQuick ? 5 : 50;
// Times launch(i), which starts launch i = 0, 1, 2, ... in `stream`; i chooses
// the copy of the input, so that nothing has to come from L2.
template <typename Launch>
Timing timeKernel(Launch launch, cudaStream_t stream = nullptr,
                  double batchMs = kBatchMs) {  // about
  using namespace std::chrono;
  Timing timing;
  cudaEvent_t start, stop;
  for (cudaEvent_t* e : {&start, &stop}) CUDA_CHECK(cudaEventCreate(e));
  double ms[kBatches] = {}, most[kBatches] = {}, least[kBatches] = {};
  auto batch = [&](int count, int k) {  // returns the batch's milliseconds
    float elapsed = 0.0f;
    const int before = timing.launches;
    const auto from = steady_clock::now();
    auto begun = from;  // on the GPU, where other programs may come first
    CUDA_CHECK(cudaEventRecord(start, stream));
    for (int i = 0; i < count; ++i) {
      launch(timing.launches++);
      if (i == 0) CUDA_CHECK(cudaEventSynchronize(start));
      if (i == 0) begun = steady_clock::now();
    }
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaEventRecord(stop, stream));
    CUDA_CHECK(cudaDeviceSynchronize());  // whatever the stream
    const auto end = steady_clock::now();
    CUDA_CHECK(cudaEventElapsedTime(&elapsed, start, stop));
    const double started = timing.launches - before;
    ms[k] = double(elapsed) / count;  // by the host: least to most
    most[k] = duration<double, std::milli>(end - from).count() / started;
    least[k] = duration<double, std::milli>(end - begun).count() / started;
    return least[k] * started;
  };
  int count = 1;  // leaves launches for the timed batches, and one more
  const double warmUpMs = std::min(kWarmUpMs, 10 * batchMs);  // clocks rise
  for (double warm = 0.0, took = 0.0; warm < warmUpMs || took < batchMs;) {
    warm += took = batch(count, 0);
    const int next = took < batchMs ? 2 * count : count;
    if (timing.launches + (kBatches + 1) * next > kMaxLaunches) break;
    count = next;
  }
  for (int k = 0; k < kBatches; ++k) batch(count, k);
  for (double* all : {ms, most, least}) std::sort(all, all + kBatches);
  timing.ms = ms[kBatches / 2];
  timing.spread = (ms[kBatches - 1] - ms[0]) / timing.ms;
  gate("clock",  // a batch of less than half a millisecond shows little
       least[0] * count < 0.5 || (timing.ms < 1.01 * most[kBatches / 2] &&
                                  timing.ms > 0.7 * least[0]),
       text("%g ms per launch, by the host %g to %g", timing.ms, least[0],
            most[kBatches / 2]));
  for (cudaEvent_t e : {start, stop}) CUDA_CHECK(cudaEventDestroy(e));
  return timing;
}
// end snippet

// snippet: print-rows
inline std::string percent(double part, double whole) {
  return whole > 0.0 ? text("%.1f", 100 * part / whole) : "n/a";
}
// Time of the row above over this row's; "~" where the spread hides it.
inline std::string timesAbove(const Timing& above, const Timing& row) {
  if (above.ms == 0.0 || row.ms == 0.0) return "n/a";
  const double times = above.ms / row.ms;
  const bool clear = std::abs(times - 1) > std::max(above.spread, row.spread);
  return text(clear ? "%.2f" : "~%.2f", times);
}
using Labels = std::vector<std::string>;
inline Labels wantedRows, printedRows;
inline bool has(const Labels& rows, const std::string& label) {
  return std::count(rows.begin(), rows.end(), label) > 0;
}
struct Table {  // the columns of every lesson, then its own, `heading`
  double peakGBs, copyGBs = 0.0;  // 0: n/a
  Table(const Device& device, const char* heading) : peakGBs(device.peakGBs) {
    std::printf("%-40s%10s%9s%9s%9s%9s%s\n", "row", "ms", "spread", "GB/s",
                "% copy", "% peak", heading);
  }
  void line(const std::string& label, const std::string& rest) const {
    std::printf("%-40s  %s\n", label.c_str(), rest.c_str());
    printedRows.push_back(label);
  }
  // bytes: what one launch has to read and write. Returns GB/s.
  double print(const std::string& label, const Timing& timing, double bytes,
               const std::string& own) {
    const double gbs = bytes / timing.ms / 1e6;
    if (label == "copy (ceiling)") copyGBs = gbs;
    line(label, text("%8.4f%8.1f%%%9.1f%9s%9s%s", timing.ms,
                     100 * timing.spread, gbs, percent(gbs, copyGBs).c_str(),
                     percent(gbs, peakGBs).c_str(), own.c_str()));
    gate("rate", peakGBs == 0.0 || gbs < 1.02 * peakGBs, label);
    return gbs;
  }
};
// end snippet

// snippet: run-lesson
// Runs the rows {label, kernel} that the command line names, or all. Returns 0
// (passed), 1 (failed, or output was lost), 2 (no such row) or 77 (skipped).
using Rows = std::vector<std::pair<std::string, std::string>>;
inline int runLesson(int argc, char** argv, const char* duration,
                     const Rows& rows, void (*lesson)()) {
  std::string list =
      text("Usage: %s [ROW...]; all rows take %s.\n", argv[0], duration) +
      "ROW: a label, its first word, or its beginning:\n";
  for (const auto& [label, kernel] : rows)
    list += text("  %-40s  %s\n", label.c_str(), kernel.c_str());
  auto want = [&](const std::string& start) {  // "\n" ends every label
    const size_t before = wantedRows.size();
    for (const auto& [label, kernel] : rows)
      if ((label + "\n").rfind(start, 0) == 0) wantedRows.push_back(label);
    return wantedRows.size() > before;
  };
  auto end = [](int code, const std::string& last) {  // 1: output was lost
    std::printf("%s", last.c_str());
    if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return code;
    std::fprintf(stderr, "FAILED: the output could not be written.\n");
    return 1;
  };
  if (argc == 1) want("");
  for (int k = 1; k < argc; ++k) {
    const std::string word = argv[k];
    if (word == "--help" || word == "--list") return end(0, list);
    if (!word.empty() && (want(word + "\n") || want(word + " ") || want(word)))
      continue;
    std::fprintf(stderr, "No row '%s'. %s", word.c_str(), list.c_str());
    return 2;
  }
  bool skipped = false;
  try {
    lesson();
    for (const std::string& label : wantedRows)
      gate("rows-printed", has(printedRows, label), label);
  } catch (const std::exception& error) {
    const bool full = cudaGetLastError() == cudaErrorMemoryAllocation;
    skipped = full || dynamic_cast<const Skip*>(&error);
    gate("cuda-call", skipped, error.what());
    std::fflush(stdout);
    if (skipped) std::fprintf(stderr, "SKIPPED: %s\n", error.what());
    if (full) std::fprintf(stderr, "  Free memory, or lower the constants.\n");
  }
  if (failures > 0) return end(1, text("\n%d checks FAILED.\n", failures));
  return skipped ? end(77, "") : end(0, "\nAll checks passed.\n");
}
// end snippet
// ---- end of helpers -------------------------------------------------------

// ---- input, and the CPU reference -----------------------------------------
// snippet: input
// kOnes: the sum counts the elements. kPosition: 64ths by a hash of
// the index, mostly +-1 or +-2, in one of 2^14 elements an odd number below
// 4096: a wrong address, an element cut to an integer, a sum rounded to 16
// bits show. Copy c has c % kMarks more at the start of each run of kT floats:
// no block takes one for its neighbour. kUniform: [0, 84), steps of 2^-17.
enum Data { kOnes, kPosition, kUniform };
constexpr double kUnit = 1.0 / 64;
constexpr size_t kMarks = 8;  // more could make a sum inexact
constexpr std::uint32_t kUniformEnd = 84, kUniformSteps = 1u << 17;
static_assert(kUniformEnd * kUniformSteps <= (1u << 24),
              "kUniformEnd: every uniform element must be exact in a float");

__host__ __device__ inline float element(Data data, std::uint64_t i,
                                         size_t copy = 0) {
  if (data == kOnes) return 1.0f;
  std::uint64_t x = (i + 1) * 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ull;
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ull;
  const std::uint64_t hash = x >> 32;  // 32 bits
  if (data == kUniform)
    return float(hash * (kUniformEnd * kUniformSteps) >> 32) / kUniformSteps;
  const bool large = hash >> 18 == 0;
  int units = large ? int(hash & 0xffe) + 1 : (hash & 6) == 0 ? 2 : 1;
  if (hash & 1) units = -units;
  if (i % kT == 0) units += int(copy % kMarks);
  return float(units) * float(kUnit);
}

__global__ void fillInput(float* out, size_t n, Data data, size_t copy) {
  const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) out[i] = element(data, i, copy);
}
// end snippet

// Floats that one launch over n elements leaves.
inline size_t wordsOf(const Row& row, size_t n) {
  if (row.leaves == kCopy) return n;
  return row.leaves == kTotal ? 1 : blocksOf(row, n);
}

// snippet: reference
// Sums in double: of each run of kT elements, of all of either sign.
struct Reference {
  Data data;
  size_t n;
  std::vector<double> runs;
  double plus = 0.0, minus = 0.0;
  Reference(Data of, size_t length)
      : data(of), n(length), runs((n + kT - 1) / kT) {
    for (size_t i = 0; i < n; ++i) {
      const double x = double(element(data, i));
      runs[i / kT] += x;
      (x > 0.0 ? plus : minus) += x;
    }
  }
  // What a row leaves in word w of a launch over copy `copy` of the input.
  double want(const Row& row, size_t w, size_t copy) const {
    const double mark = copy % kMarks * kUnit;
    if (row.leaves == kCopy) return double(element(data, w, copy));
    if (row.leaves == kTotal) return plus + minus + mark * runs.size();
    double sum = 0.0;
    const size_t each = size_t(row.perBlock / kT);  // runs per block
    for (size_t r = w * each; r < w * each + each && r < runs.size(); ++r)
      sum += runs[r] + mark;
    return sum;
  }
};
// end snippet

// ---- checks ---------------------------------------------------------------
// Outputs start as poison, a NaN that no kernel here writes, and kGuard words
// behind them are watched. As many behind each input hold 3.4e38, above any
// sum here: a kernel that reads or copies too far shows it.
constexpr int kPoison = -1, kPoisonByte = 0xff, kBehindInputByte = 0x7f;
constexpr size_t kN = size_t(kElems), kGuard = 4096;    // no block takes more
constexpr size_t kStride = (kN / kGuard + 3) * kGuard;  // of the copies
inline bool right[kRowCount];      // wanted, and every check so far
inline Timing timings[kRowCount];  // ms is 0 where there is none

// Launch i reads copy i of the input. It writes copy i of the output (copy),
// the first words (partials), or adds to word i (one float).
struct Bench {
  const size_t copies, outWords;
  DeviceArray<float> in, out;
  explicit Bench(const Device& device)
      : copies(size_t(copiesBeyondL2(device, kStride * 4))),
        outWords(std::max(copies * kStride, kMaxLaunches + kGuard)),
        in(copies * kStride),
        out(outWords) {}
  float* source(size_t i) const { return in.data + i % copies * kStride; }
  float* target(const Row& row, size_t i) const {
    const size_t copy = row.leaves == kCopy ? i % copies * kStride : 0;
    return out.data + (row.leaves == kTotal ? i : copy);
  }
  void fill(Data data, size_t n, size_t shift = 0) const {  // kN: all copies
    CUDA_CHECK(cudaMemset(in.data, kBehindInputByte, copies * kStride * 4));
    for (size_t c = 0; c < (n == kN ? copies : 1); ++c)
      fillInput<<<unsigned(n / 256 + 1), 256>>>(source(c) + shift, n, data, c);
  }
  // Poison; the words that up to `launches` launches add to become 0.
  void prepare(const Row& row, size_t launches) const {
    const size_t zeros = row.leaves == kTotal ? launches : 0;
    CUDA_CHECK(cudaMemset(out.data, kPoisonByte, outWords * 4));
    CUDA_CHECK(cudaMemset(out.data, 0, zeros * 4));
  }
};

// snippet: one-check
// What `done` launches have left after prepare(row, launches) must be the
// reference, bit for bit, and the kGuard words behind it still poison.
inline bool check(const Bench& bench, const Row& row, const Reference& sums,
                  const std::string& when, size_t done, size_t launches) {
  const bool adds = row.leaves == kTotal;
  const size_t words = adds ? launches : wordsOf(row, sums.n);
  std::vector<float> got(words + kGuard);
  CUDA_CHECK(cudaMemcpy(got.data(), bench.target(row, adds ? 0 : done - 1),
                        got.size() * 4, cudaMemcpyDeviceToHost));
  auto want = [&](size_t w) {
    const size_t launch = adds ? w : done - 1;
    return launch < done ? sums.want(row, w, launch % bench.copies) : 0.0;
  };
  size_t w = 0;  // the first wrong word; a NaN is equal to nothing
  while (w < words && double(got[w]) == want(w)) ++w;
  const bool exact = w == words;
  while (exact && w < got.size() && !std::memcmp(&got[w], &kPoison, 4)) ++w;
  return gate("output-exact", w == got.size(),
              text("%s, %s: word %zu of %zu is %.9g, not %.9g", row.label,
                   when.c_str(), w, words, double(got[w % got.size()]),
                   w < words ? want(w) : std::nan("")));
}
// end snippet

// Before anything is timed: lengths around every guard, from each float
// boundary, then the whole input. A profiler records the last launches.
inline void tryAll(const Bench& bench, const Reference& position) {
  const double limit = kUnit * (1 << 24);  // below it exact in any order
  const double most =
      position.plus + position.runs.size() * (kMarks - 1) * kUnit;
  gate("position-data-exact", std::max(most, -position.minus) < limit,
       text("%g and %g", most, position.minus));
  auto tryRows = [&](const Reference& sums, size_t shift) {
    for (int r = 0; r < kRowCount; ++r) {
      if (!right[r] || (r == 0 && shift > 0)) continue;
      bench.prepare(kRows[r], 1);
      launchRow(kRows[r], bench.in.data + shift, bench.out.data, sums.n);
      CUDA_CHECK(cudaGetLastError());
      right[r] = check(
          bench, kRows[r], sums,
          text("data %d, n = %zu + %zu", sums.data, sums.n, shift), 1, 1);
    }
  };
  for (const Data data : {kOnes, kPosition}) {
    for (const int n : {0, 1, 2, 3, kWarp - 1, kWarp, kWarp + 1, kT - 1, kT,
                        kT + 1, 2 * kT - 1, 2 * kT, 2 * kT + 1, 4 * kT - 2,
                        4 * kT - 1, 4 * kT + 1}) {
      for (size_t shift = 0; shift < 4; ++shift) {
        bench.fill(data, size_t(n), shift);
        tryRows(Reference(data, size_t(n)), shift);
      }
    }
    bench.fill(data, kN);
    if (data == kPosition) CUDA_CHECK(cudaProfilerStart());
    tryRows(Reference(data, kN), 0);
  }
  CUDA_CHECK(cudaProfilerStop());
}

// ---- measuring and printing -----------------------------------------------
inline void runTable(const Device& device) {
  const Bench bench(device);
  const Reference position(kPosition, kN);
  tryAll(bench, position);
  std::printf("\nThe ladder: %zu floats, %d threads per block, %zu copies\n",
              kN, kT, bench.copies);
  Table table(device, "   x from  launches   atomics  % atomics     leaves");
  auto measure = [&](const Row& row, auto launch) {  // no time if wrong
    bench.prepare(row, kMaxLaunches);
    Timing timing = timeKernel(launch);
    if (!check(bench, row, position, "after timing", timing.launches,
               kMaxLaunches))
      timing.ms = 0.0;
    return timing;
  };
  std::string waiting;
  for (int r = 0; r < kRowCount; ++r) {
    const Row& row = kRows[r];
    if (!has(wantedRows, row.label)) continue;
    auto launch = [&](int i) {
      launchRow(row, bench.source(i), bench.target(row, i), kN);
    };
    if (right[r]) timings[r] = measure(row, launch);
    right[r] = timings[r].ms > 0.0;
    if (!right[r]) table.line(row.label, "WRONG, not timed");
    if (!right[r]) continue;
    // Atomics on *out; v0's guard leaves out the threads beyond the end.
    const size_t atomics = r == kV0 ? kN : blocksOf(row, kN) * row.adds;
    const std::string from =
        row.from ? timesAbove(timings[row.from], timings[r]) : "-";
    const double pace = timings[kV0].ms / kN;  // per atomic; 0: no time of v0
    if (r != kV0 && atomics * pace > 0.8 * timings[r].ms)
      waiting += std::string("\n  ") + row.label;
    const std::string share =
        percent(atomics * pace, (pace > 0.0) * timings[r].ms);
    table.print(row.label, timings[r], 4.0 * (kN + wordsOf(row, kN)),
                text("%9s%10d%10s%11s%11s", from.c_str(), timings[r].launches,
                     row.adds ? text("%zu", atomics).c_str() : "-",
                     row.adds ? share.c_str() : "-", kLeaves[row.leaves]));
  }
  if (timings[0].ms > 0.0) {
    const Timing memcpy = measure(kRows[0], [&](int i) {
      CUDA_CHECK(cudaMemcpyAsync(bench.target(kRows[0], i), bench.source(i),
                                 kN * 4, cudaMemcpyDeviceToDevice));
    });
    table.print("cudaMemcpyAsync", memcpy, 8.0 * kN,
                text("%9s%10d%10s%11s%11s", "-", memcpy.launches, "-", "-",
                     kLeaves[kCopy]));
    // Only times that are not noise, where no other program uses the GPU.
    const Timing& copy = timings[0];
    const bool clear = std::min(memcpy.ms, copy.ms) > 0.02 &&
                       std::max(memcpy.spread, copy.spread) < 0.2;
    const double share = memcpy.ms / copy.ms;
    gate("copy-is-a-ceiling",
         kQuick || !clear || (share > 0.8 && share < 1.25),
         text("%.2f of memcpy", share));
  }
  const std::string ns = text("%.3f", 1e6 * timings[kV0].ms / kN);
  if (waiting.empty()) waiting = " none";
  std::printf(
      "\nGB/s: what is read and left. %% atomics: %s ns each, as v0's.\n"
      "Above 80 %% a row's atomics hide what its block's sum costs:%s\n",
      right[kV0] ? ns.c_str() : "n/a", right[kV0] ? waiting.c_str() : " n/a");
}

// ---- what needs no GPU: the banks of shared memory, counted ---------------
// At each level of a tree the working threads load sums[k] and sums[k + s].
// Word w is in bank w % 32; lanes that want several words of one bank queue.
enum Tree { kModulo, kStrided, kSequential };
constexpr int bankPasses(Tree tree, bool worst) {  // of one load, or of all
  int all = 0, worstLoad = 0;
  for (int s = 1; s < kT; s *= 2) {
    for (int warp = 0; warp < kT; warp += kWarp) {
      int lanes[32] = {}, most = 0;  // working lanes per bank
      for (int tid = warp; tid < warp + kWarp; ++tid) {
        const int k = tree == kStrided ? 2 * s * tid : tid;
        const bool works = tree == kModulo ? k % (2 * s) == 0
                                           : k < (tree == kStrided ? kT : s);
        if (works) most = std::max(most, ++lanes[k % 32]);
      }
      all += 2 * most;  // sums[k + s] as sums[k]
      worstLoad = std::max(worstLoad, most);
    }
  }
  return worst ? worstLoad : all;
}
static_assert(!kBlockWorks ||
                  (bankPasses(kModulo, true) == 1 &&
                   bankPasses(kSequential, true) == 1 &&
                   bankPasses(kStrided, true) == kT / kWarp &&
                   bankPasses(kStrided, false) == bankPasses(kModulo, false)),
              "banks: no load of v1 or v3 has a conflict; in v2 as many lanes "
              "meet in one bank as the block has warps, and these conflicts "
              "cost as many passes as its packing saves");

// ---- accuracy -------------------------------------------------------------
constexpr size_t kAccuracyElems = kQuick ? 1000000 : 100000000;
static_assert(kAccuracyElems < (1u << 29),
              "kAccuracyElems must be below 2^29: so many multiples of 2^-17 "
              "below 84 add up exactly in the 53 bits of a double");
constexpr double kStall = 128.0 * (1 << 24);  // where a running sum stays
static_assert(2 * kUniformEnd < kStall / (1 << 23),
              "kStall: an element is less than half the step of the floats");

inline float pairwise(size_t from, size_t to) {
  if (to - from == 1) return element(kUniform, from);
  const size_t middle = from + (to - from) / 2;
  return pairwise(from, middle) + pairwise(middle, to);
}

struct Accuracy {  // a table of sums over the first n uniform floats
  size_t n;
  double exact = 0.0;
  Accuracy(const char* where, size_t length) : n(length) {
    for (size_t i = 0; i < n; ++i) exact += double(element(kUniform, i));
    std::printf("\nAccuracy on the %s: %zu floats in [0, %u); exact: %.2f\n",
                where, n, kUniformEnd, exact);
    std::printf("%-38s%15s%12s%14s%16s\n", "row", "sum", "rel. error",
                "allowed", "partials added");
  }
  // In a tree no element goes through more than `chain` additions: an error of
  // at most k / (1 - k). All n one by one stall. 0: no bound finds an error.
  void print(const char* label, double sum, size_t chain,
             const char* addedBy) const {
    const double k = double(chain) / (1 << 24), error = sum / exact - 1;
    const bool tree = chain > 0 && chain < n;
    const bool stalls = chain == n && exact > kStall;
    const std::string most = tree ? text("+-%.1e", k / (1 - k)) : "-";
    std::printf("%-38s%15.2f%12.1e%14s%16s\n", label, sum, error,
                stalls ? "at most 2^31" : most.c_str(), addedBy);
    gate("accuracy-bounds",
         tree ? std::abs(error) <= k / (1 - k)
              : sum > 0.0 && (!stalls || sum <= kStall),
         label);
  }
};

inline void runAccuracy() {
  size_t n = kAccuracyElems, free = 0, total = 0;
  CUDA_CHECK(cudaMemGetInfo(&free, &total));
  while (n > 1 && 5 * n > free) n /= 2;
  DeviceArray<float> in(n), out(n / kT + 1);
  fillInput<<<unsigned(n / 256 + 1), 256>>>(in.data, n, kUniform, 0);
  const Accuracy accuracy("GPU", n);
  for (int r = kV0; r < kRowCount; ++r) {
    const Row& row = kRows[r];
    if (!right[r]) continue;  // the table above says so
    const bool adds = row.leaves == kTotal;
    std::vector<float> words(wordsOf(row, n));
    CUDA_CHECK(cudaMemset(out.data, adds ? 0 : kPoisonByte, 4 * words.size()));
    launchRow(row, in.data, out.data, n);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaMemcpy(words.data(), out.data, 4 * words.size(),
                          cudaMemcpyDeviceToHost));
    double sum = 0.0;
    for (const float word : words) sum += double(word);
    const size_t chain = adds ? (r == kV0 ? n : 0) : std::ilogb(row.perBlock);
    accuracy.print(row.label, sum, chain, adds ? "atomics" : "CPU, double");
  }
}

inline void lesson() {
  for (int r = 0; r < kRowCount; ++r)
    right[r] = has(wantedRows, kRows[r].label);
  std::printf("Passes of a block's loads through the banks\n%-38s%10s%20s\n",
              "row", "passes", "most in one load");
  for (const Tree tree : {kModulo, kStrided, kSequential})
    std::printf("%-38s%10d%20d\n", kRows[kV1 + tree].label,
                bankPasses(tree, false), bankPasses(tree, true));
  const Accuracy cpu("CPU", kAccuracyElems);
  float sum = 0.0f;
  for (size_t i = 0; i < cpu.n; ++i) sum += element(kUniform, i);
  cpu.print("CPU sequential float", sum, cpu.n, "-");
  const int levels = 1 + std::ilogb(cpu.n);
  cpu.print("CPU pairwise float", pairwise(0, cpu.n), levels, "-");
  std::printf(
      "\nA running sum of floats below %u stays at %.0f: the next float is\n"
      "%.0f away, and less than half of that is rounded off.\n\n",
      kUniformEnd, kStall, kStall / (1 << 23));
  runTable(openDevice(75, reinterpret_cast<const void*>(copyFloats)));
  runAccuracy();
}

int main(int argc, char** argv) {
  std::vector<std::pair<std::string, std::string>> rows;
  for (const Row& row : kRows) rows.emplace_back(row.label, row.name);
  return runLesson(argc, argv, "about 5 s on an NVIDIA H200", rows, lesson);
}
