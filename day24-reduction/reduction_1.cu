// Day 24: parallel reduction, versions 0 to 4
// Question: why is the obvious sum slow, and what does each repair buy?
//
// Rows:
//   copy (ceiling)            copies the input, 16 bytes per thread: what the
//                             memory can do
//   v0 atomic global          every thread adds to one word of global memory
//   v0s atomic shared         a block adds to one word of shared memory, then
//                             one global atomic per block
//   v1 interleaved modulo     a tree in shared memory; thread t works where
//                             t % (2 * s) == 0: lanes far apart
//   v2 interleaved strided    the same tree, the working threads packed into
//                             the first warps: bank conflicts
//   v3 sequential             the stride halves from the top: packed threads
//                             and no bank conflicts
//   v4 two loads              each thread adds two elements on the way in
//   v3 + atomic               v3, then one global atomic per block: one float
//   v3 + shuffle + atomic     the last 32 values in registers, by shuffles
//   v4 + shuffle + atomic     two loads, shuffles, one atomic per block
//   v0 + warp shuffle         each warp adds up by shuffles: one atomic per
//                             warp, no shared memory, no barrier
//   v4 + two-stage shuffle    the warps shuffle, then the first warp shuffles
//                             their sums: one barrier, one atomic per block
//
// Not measured: the first launch, copies to the host, setting *out to zero
// before a row that adds to it, and a second pass over the partial sums that
// v1 to v4 leave (day 25).
//
// Build: nvcc -std=c++17 -O3 -arch=sm_75 -o reduction_1 reduction_1.cu
// Run:   ./reduction_1
// Verified: UNVERIFIED
// Start reading at "kernels"; below the table of rows you may stop.

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

constexpr int kThreadsPerBlock = 256;  // a power of two from 32 to 1024
constexpr std::int64_t kElems = (1 << (kQuick ? 18 : 24)) - 611;
constexpr int kCopyThreads = 256;  // of the copy: small blocks are no ceiling

constexpr int kWarp = 32;  // lanes of a warp
static_assert((kThreadsPerBlock & (kThreadsPerBlock - 1)) == 0,
              "kThreadsPerBlock must be a power of two: the trees halve the "
              "block until one value is left");
static_assert(kThreadsPerBlock >= kWarp,
              "kThreadsPerBlock must be at least 32: the shuffles need all "
              "lanes of a warp");
static_assert(kThreadsPerBlock <= 1024,
              "kThreadsPerBlock must be at most 1024: no GPU runs more");
static_assert(kCopyThreads >= kWarp && kCopyThreads <= 1024 &&
                  kCopyThreads % kWarp == 0,
              "kCopyThreads must be 1 to 32 whole warps");
static_assert(kElems >= 1, "kElems must be at least 1: nothing to time in 0");
static_assert(kElems < (1 << 24),
              "kElems must be below 2^24: a float counts no further, so the "
              "sum of as many ones could not show a lost element");

// ---- kernels --------------------------------------------------------------
// The same for all, where nothing else is said. One thread: one element. One
// warp: 32 floats in a row, 4 sectors of 32 bytes, as `in` starts on a
// multiple of 128 bytes (any float boundary gives the right sum; only the copy
// needs 16 bytes). Launch: kThreadsPerBlock threads per block; *out is 0
// before a row that adds to it; v1 to v4 leave one partial sum per block.

// snippet: copy-ceiling
// The ceiling: reads and writes every byte once.
// One thread: 16 bytes; the first threads also copy the last n % 4 floats.
// One warp: 512 bytes in a row, 16 sectors per request, all of them used.
// Launch: kCopyThreads threads per block, one thread for 4 floats.
__global__ void copyFloats(const float* in, float* out, size_t n) {
  const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n / 4) {
    reinterpret_cast<float4*>(out)[i] = reinterpret_cast<const float4*>(in)[i];
  }
  if (i < n % 4) out[n / 4 * 4 + i] = in[n / 4 * 4 + i];
}
// end snippet

// snippet: atomic-global
// v0: the obvious sum.
// One thread: loads a float and adds it to *out. atomicAdd leaves the order
//   of the additions open (relaxed), which is enough for a sum. Nobody uses
//   its answer, so it becomes a reduction (RED), which returns none.
// One warp: 32 additions to the same word. The compiler may not add them up
//   first: another order can round to another float.
__global__ void reduceAtomicGlobal(const float* in, float* out, size_t n) {
  const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(out, in[i]);
}
// end snippet

// snippet: atomic-shared
// v0s: what changed: the threads of a block meet at a word of their own, in
// shared memory. One atomic per block goes on to *out.
// One thread: loads a float and adds it to the block's word. This atomicAdd
//   becomes a loop: load the word, add, swap if the word is still the same.
// One warp: its 32 lanes want the same word; who comes too late goes round
//   the loop again.
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
// v1: what changed: a tree instead of a queue at one word. At each of its
// log2(kThreadsPerBlock) levels all pairs are added at the same time.
// One thread: loads a float into shared memory. At stride s it works where
//   its number is a multiple of 2 * s. Compiled for sm_75 to sm_90 the modulo
//   is an integer division at every level; for sm_100 and newer the compiler
//   sees that 2 * s is a power of two, and masks instead.
// One warp: the `if` becomes predicates, not a branch: every warp issues every
//   level. At s = 1 16 lanes of each warp work, then 8, 4, 2, 1; from s = 32
//   on most warps have none. No bank conflict.
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
// One thread: at stride s it works where word 2 * s * tid is in the block.
// One warp: its lanes load words 2 * s apart, up to kThreadsPerBlock / 32 of
//   them in one bank. Fewer warps, more passes each: in all as many as v1. But
//   v1 has one per load, spread over all warps; here one load can take
//   several, and the other warps wait for it at the barrier.
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
// One thread: at stride s it works where tid < s.
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
// v4: what changed: each thread adds two elements before the tree begins. In
// v3 half of the threads load a float and never add; here each one adds.
// Half as many blocks, trees and barriers for the same n.
// One thread: two loads, both under way before the first addition.
// Launch: one block per 2 * kThreadsPerBlock floats.
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
// v3 + atomic: what changed from v3: the last line. One launch leaves the
// sum itself.
// One thread: as v3; thread 0 of each block adds to *out (RED).
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
// One thread: the last five levels are five shuffles: no shared memory, and
//   not the five barriers at which the other warps waited with nothing to do.
// One warp: all 32 lanes take part in each shuffle, as its mask says.

// Called by all 32 lanes of a warp; lane 0 gets the sum of their values.
__device__ float sumWarp(float value) {
  for (unsigned offset = kWarp / 2; offset > 0; offset /= 2) {
    value += __shfl_down_sync(0xffffffffu, value, offset);
  }
  return value;
}

__global__ void reduceShuffleAtomic(const float* in, float* out, size_t n) {
  __shared__ float sums[kThreadsPerBlock];
  const unsigned tid = threadIdx.x;
  const size_t i = size_t(blockIdx.x) * kThreadsPerBlock + tid;
  sums[tid] = i < n ? in[i] : 0.0f;
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
// end snippet

// snippet: final-atomic
// v4 + shuffle + atomic: what changed from v3 + shuffle + atomic: the two
// loads of v4, so half as many blocks and half as many atomics.
// One thread, one warp: v4 on the way in, the shuffle tail on the way out.
// Launch: one block per 2 * kThreadsPerBlock floats.
__global__ void reduceFinalAtomic(const float* in, float* out, size_t n) {
  __shared__ float sums[kThreadsPerBlock];
  const unsigned tid = threadIdx.x;
  const size_t i = size_t(blockIdx.x) * (2 * kThreadsPerBlock) + tid;
  const size_t j = i + kThreadsPerBlock;
  sums[tid] = (i < n ? in[i] : 0.0f) + (j < n ? in[j] : 0.0f);
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
// end snippet

// snippet: warp-then-atomic
// v0 + warp shuffle: what changed from v0: the 32 values of a warp are added
// first, which the compiler may not do for floats by itself.
// One thread: a load and five shuffles. One behind the end adds 0 and stays:
//   a shuffle needs all lanes that its mask names.
// One warp: one atomic (RED) of lane 0. No shared memory, no barrier: a warp
//   waits for no other.
__global__ void reduceWarpAtomic(const float* in, float* out, size_t n) {
  const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  const float sum = sumWarp(i < n ? in[i] : 0.0f);
  if (threadIdx.x % kWarp == 0) atomicAdd(out, sum);
}
// end snippet

// snippet: two-stage-shuffle
// v4 + two-stage shuffle: what changed from v4 + shuffle + atomic: no tree in
// shared memory. Every warp shuffles; one word per warp goes through shared
// memory to the first warp, which shuffles these.
// One thread: two loads, five shuffles, one barrier; in warp 0 five more.
// One warp: lane 0 stores one word.
// Launch: one block per 2 * kThreadsPerBlock floats.
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

#ifdef LESSON_YOURS
// snippet: yours
// Your turn: rewrite kernel and launch. *d_out is 0 before the launch, and
// must be the sum of the n floats after it. This version is right, but slow:
// one thread adds 64 neighbours, so the lanes of a warp load far apart.
__global__ void reduceYours(const float* in, float* out, size_t n) {
  const size_t i = 64 * (size_t(blockIdx.x) * blockDim.x + threadIdx.x);
  float sum = 0.0f;
  for (size_t k = i; k < n && k < i + 64; ++k) sum += in[k];
  atomicAdd(out, sum);
}
void launchYours(const float* d_in, float* d_out, size_t n) {
  const unsigned blocks = unsigned(n / (64 * 256) + 1);
  reduceYours<<<blocks, 256>>>(d_in, d_out, n);
}
// end snippet
#endif

// ---- the table of rows: who came to read the kernels may stop below it ----

// snippet: row-table
enum Leaves { kCopy, kPartials, kTotal };
constexpr const char* kLeaves[] = {"n floats", "partials", "one float"};

struct Row {
  const char *label, *name;  // name: of the kernel
  void (*kernel)(const float* in, float* out, size_t n);
  Leaves leaves;
  int perBlock;  // elements per block
  int perSum;    // elements per partial sum, or per atomic on *out
};

#define ROW(label, kernel, ...) \
  { label, #kernel, kernel, __VA_ARGS__ }
constexpr int kT = kThreadsPerBlock;
constexpr Row kRows[] = {
    ROW("copy (ceiling)", copyFloats, kCopy, 4 * kCopyThreads, 1),
    ROW("v0 atomic global", reduceAtomicGlobal, kTotal, kT, 1),
    ROW("v0s atomic shared", reduceAtomicShared, kTotal, kT, kT),
    ROW("v1 interleaved modulo", reduceInterleavedModulo, kPartials, kT, kT),
    ROW("v2 interleaved strided", reduceInterleavedStrided, kPartials, kT, kT),
    ROW("v3 sequential", reduceSequential, kPartials, kT, kT),
    ROW("v4 two loads", reduceSequentialTwoLoads, kPartials, 2 * kT, 2 * kT),
    ROW("v3 + atomic", reduceSequentialAtomic, kTotal, kT, kT),
    ROW("v3 + shuffle + atomic", reduceShuffleAtomic, kTotal, kT, kT),
    ROW("v4 + shuffle + atomic", reduceFinalAtomic, kTotal, 2 * kT, 2 * kT),
    ROW("v0 + warp shuffle", reduceWarpAtomic, kTotal, kT, kWarp),
    ROW("v4 + two-stage shuffle", reduceTwoStageShuffle, kTotal, 2 * kT,
        2 * kT),
#ifdef LESSON_YOURS
    ROW("yours", reduceYours, kTotal, 0, 0),
#endif
};
// end snippet
constexpr int kRowCount = int(sizeof(kRows) / sizeof(kRows[0]));
constexpr int kCopyRow = 0, kFirst = 1, kLast = 6;  // the ladder: v0 to v4
static_assert(kRows[kCopyRow].kernel == copyFloats &&
                  kRows[kFirst].kernel == reduceAtomicGlobal &&
                  kRows[kLast].kernel == reduceSequentialTwoLoads,
              "kRows: the text below the table walks from v0 to v4");

inline size_t ceilDiv(size_t a, size_t b) { return (a + b - 1) / b; }

// snippet: launch-row
inline void launchRow(const Row& row, const float* d_in, float* d_out,
                      size_t n) {
#ifdef LESSON_YOURS
  if (row.kernel == reduceYours) return launchYours(d_in, d_out, n);
#endif
  const size_t blocks = ceilDiv(n, size_t(row.perBlock));  // of nothing: one
  const int threads = row.leaves == kCopy ? kCopyThreads : kThreadsPerBlock;
  row.kernel<<<std::max(1u, unsigned(blocks)), threads>>>(d_in, d_out, n);
}
// end snippet

// ---- helpers: the same text, byte for byte, in every lesson ---------------
template <typename... Args>
std::string text(const char* format, Args... args) {  // printf into a string
  char out[2048];
  std::snprintf(out, sizeof(out), format, args...);
  return out;
}

// Every check is a gate: it prints and counts what failed. Returns ok.
inline int failures = 0;
inline bool gate(const char* name, bool ok, const std::string& why) {
  if (!ok) std::printf("FAILED %s: %s\n", name, why.c_str());
  failures += !ok;
  return ok;
}

struct Skip : std::runtime_error {  // why this machine cannot run it
  using std::runtime_error::runtime_error;
};

template <typename T>
struct DeviceArray {  // n elements of device memory, freed with the array
  T* data = nullptr;
  explicit DeviceArray(size_t n) {
    CUDA_CHECK(cudaMalloc(&data, n * sizeof(T)));
  }
  ~DeviceArray() { cudaFree(data); }
  DeviceArray& operator=(DeviceArray&&) = delete;  // nor copied, nor moved
};

struct Device : cudaDeviceProp {
  double peakGBs = 0.0;  // memory clock x 2 x bus width; 0: unknown
};

// Device 0, if it can run `kernel`, any kernel of this file; else throws Skip.
// need: the lowest compute capability of the lesson, 75 for 7.5.
inline Device openDevice(int need, const void* kernel) {
  Device device;
  cudaFuncAttributes loaded;  // asking for them loads the machine code
  int driver = 0, toolkit = 0, kHz = 0;
  CUDA_CHECK(cudaDriverGetVersion(&driver));  // 0 where there is none
  CUDA_CHECK(cudaRuntimeGetVersion(&toolkit));
  cudaError_t error = cudaGetDeviceProperties(&device, 0);
  const int found = device.major * 10 + device.minor;
  const std::string versions =
      text("driver CUDA %d.%d, toolkit CUDA %d.%d", driver / 1000,
           driver % 100 / 10, toolkit / 1000, toolkit % 100 / 10);
  auto refuse = [&](bool refused, const std::string& why) {
    const std::string name = cudaGetErrorName(error);
    if (refused) throw Skip(why + "\n  (" + name + ", " + versions + ")");
  };
  refuse(driver == 0,
         "no NVIDIA driver found. Install it, or use --gpus all (container),\n"
         "  srun --gpus=1 (cluster), LD_LIBRARY_PATH=/usr/lib/wsl/lib (WSL).");
  refuse(error == cudaErrorInsufficientDriver,
         "the driver is too old. Update it, or use an older toolkit.");
  refuse(error == cudaErrorNoDevice,
         "the driver offers no GPU. Check CUDA_VISIBLE_DEVICES; ask for one.");
  refuse(error != cudaSuccess,
         "the driver does not work. Run nvidia-smi; repair the driver first.");
  refuse(found < need,
         text("%s has compute capability %.1f; use a GPU with %.1f or newer.",
              device.name, found / 10.0, need / 10.0));
  error = cudaFuncGetAttributes(&loaded, kernel);
  refuse(error == cudaErrorMemoryAllocation ||
             error == cudaErrorDevicesUnavailable,
         "the GPU is full or taken. Stop the programs that nvidia-smi lists.");
  refuse(error != cudaSuccess,
         text("this program has no code for %s. Rebuild with -arch=sm_%d.",
              device.name, found));
  CUDA_CHECK(cudaDeviceGetAttribute(&kHz, cudaDevAttrMemoryClockRate, 0));
  device.peakGBs = kHz * 2e3 * device.memoryBusWidth / 8 / 1e9;
  std::printf("%s, compute capability %.1f, %d SMs, L2 %.1f MB\n%s, ",
              device.name, found / 10.0, device.multiProcessorCount,
              device.l2CacheSize / 1e6, versions.c_str());
  std::printf("peak %.0f GB/s (memory clock x 2 x bus width; 0: unknown)\n%s",
              device.peakGBs, kQuick ? "LESSON_QUICK: no time counts.\n" : "");
  return device;
}

// How many copies of a buffer of `bytes` successive launches must walk over,
// so that at least four times the L2 passes between two reads of one copy.
inline int copiesBeyondL2(const Device& device, size_t bytes) {
  return 2 + int(4 * size_t(device.l2CacheSize) / std::max<size_t>(bytes, 1));
}

// snippet: time-kernel
struct Timing {
  double ms = 0.0;      // per launch: the median of the batches
  double spread = 0.0;  // (slowest - fastest batch) / median
  int launches = 0;     // in all, the warm-up included
};
constexpr int kMaxLaunches = 1 << 15, kBatches = kQuick ? 1 : 9;
constexpr double kBatchMs = kQuick ? 1.0 : 5.0;    // a batch lasts about this
constexpr double kWarmUpMs = kQuick ? 0.0 : 50.0;  // idle clocks rise in it

// Times launch(i), which starts launch i = 0, 1, 2, ... in `stream`; i chooses
// the copy of the input, so that nothing has to come from L2.
template <typename Launch>
Timing timeKernel(Launch launch, cudaStream_t stream = nullptr) {
  using Clock = std::chrono::steady_clock;
  using Ms = std::chrono::duration<double, std::milli>;
  Timing timing;
  std::vector<double> ms, host;  // per launch, of each batch, by either clock
  cudaEvent_t start, stop;
  CUDA_CHECK(cudaEventCreate(&start));
  CUDA_CHECK(cudaEventCreate(&stop));
  auto batch = [&](int count) {  // milliseconds of `count` launches
    float elapsed = 0.0f;
    const int before = timing.launches;
    const Clock::time_point from = Clock::now();
    CUDA_CHECK(cudaEventRecord(start, stream));
    for (int k = 0; k < count; ++k) launch(timing.launches++);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaEventRecord(stop, stream));
    CUDA_CHECK(cudaEventSynchronize(stop));
    const double all = Ms(Clock::now() - from).count();
    CUDA_CHECK(cudaEventElapsedTime(&elapsed, start, stop));
    ms.push_back(double(elapsed) / count);
    host.push_back(all / (timing.launches - before));
    return all;
  };
  int count = 1;  // leaves launches for the timed batches, and one more
  for (double warm = 0.0, last = 0.0; warm < kWarmUpMs || last < kBatchMs;) {
    warm += last = batch(count);
    const int next = last < kBatchMs ? 2 * count : count;
    if (timing.launches + (kBatches + 1) * next > kMaxLaunches) break;
    count = next;
  }
  ms.clear(), host.clear();
  for (int k = 0; k < kBatches; ++k) batch(count);
  std::sort(ms.begin(), ms.end());
  std::sort(host.begin(), host.end());
  timing.ms = ms[kBatches / 2];
  timing.spread = (ms.back() - ms.front()) / timing.ms;
  const double most = 1.01 * host[kBatches / 2];  // a short batch shows little
  gate("clock",
       most * count < 1.0 || (timing.ms < most && timing.ms > most / 2),
       text("%g ms per launch, by the host %g", timing.ms, most));
  CUDA_CHECK(cudaEventDestroy(start));
  CUDA_CHECK(cudaEventDestroy(stop));
  return timing;
}
// end snippet

inline std::string percent(double part, double whole) {
  return whole > 0.0 ? text("%.1f", 100 * part / whole) : "n/a";
}
// Time of the row above over this row's; "~" where the spread hides it.
inline std::string timesAbove(const Timing& above, const Timing& row) {
  if (above.ms == 0.0 || row.ms == 0.0) return "n/a";
  const double noise = std::max(above.spread, row.spread);
  const bool hidden = std::abs(above.ms / row.ms - 1.0) <= noise;
  return text("%s%.2f", hidden ? "~" : "", above.ms / row.ms);
}

using Labels = std::vector<std::string>;
inline Labels wantedRows, printedRows;
inline bool has(const Labels& rows, const std::string& label) {
  return std::count(rows.begin(), rows.end(), label) > 0;
}

struct Table {  // the columns of every lesson, then its own, `heading`
  double peakGBs, copyGBs = 0.0;  // 0: n/a
  Table(const Device& device, const char* heading) : peakGBs(device.peakGBs) {
    std::printf("%-38s%10s%9s%9s%9s%9s%s\n", "row", "ms", "spread", "GB/s",
                "% copy", "% peak", heading);
  }
  void line(const std::string& label, const std::string& rest) const {
    std::printf("%-38s  %s\n", label.c_str(), rest.c_str());
    printedRows.push_back(label);
  }
  // bytes: what one launch has to read and write. Returns GB/s. A row without
  // a time is line(label, "WRONG, not timed"), or another reason.
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

// Runs the rows {label, kernel} that the command line names, or all. Returns
// 0: every check passed; 1: one failed, or output was lost; 2: wrong command
// line; 77: this machine cannot run the lesson.
using Rows = std::vector<std::pair<std::string, std::string>>;
template <typename Lesson>
int runLesson(int argc, char** argv, const char* duration, const Rows& rows,
              Lesson lesson) {
  std::string list = text("Usage: %s [ROW...]\n", argv[0]) +
                     "ROW: a label, its first word, or its beginning.\n"
                     "All rows take " +
                     duration + ":\n";
  auto end = [](int code) {  // output that was lost is a failure
    if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return code;
    std::fprintf(stderr, "FAILED: the output could not be written.\n");
    return 1;
  };
  for (const auto& [label, kernel] : rows) {
    list += text("  %-38s  %s\n", label.c_str(), kernel.c_str());
    if (argc == 1) wantedRows.push_back(label);
  }
  for (int k = 1; k < argc; ++k) {
    const std::string word = argv[k];
    const size_t before = wantedRows.size();
    for (int how = 0; how < 3 && wantedRows.size() == before; ++how) {
      for (const auto& [label, kernel] : rows) {
        const size_t length[] = {label.size(), label.find(' '), word.size()};
        if (label.substr(0, std::max<size_t>(length[how], 1)) == word)
          wantedRows.push_back(label);
      }
    }
    const bool asked = word == "--help" || word == "--list";
    if (asked) std::printf("%s", list.c_str());
    if (asked) return end(0);
    if (wantedRows.size() > before) continue;
    std::fprintf(stderr, "No row '%s'. %s", word.c_str(), list.c_str());
    return 2;
  }
  int code = 0;
  try {
    lesson();
    for (const std::string& label : wantedRows)
      gate("rows-printed", has(printedRows, label), label);
  } catch (const std::exception& error) {
    const bool full = cudaGetLastError() == cudaErrorMemoryAllocation;
    code = full || dynamic_cast<const Skip*>(&error) ? 77 : 1;
    if (code == 1) gate("cuda-call", false, error.what());
    std::fflush(stdout);
    if (code == 77) std::fprintf(stderr, "SKIPPED: %s\n", error.what());
    if (full)
      std::fprintf(stderr,
                   "  Stop other programs, or make the constants smaller.\n");
  }
  if (failures > 0) std::printf("\n%d checks FAILED.\n", failures), code = 1;
  if (code == 0) std::printf("\nAll checks passed.\n");
  return end(code);
}
// ---- end of helpers -------------------------------------------------------

// ---- input: the same function fills the GPU and feeds the CPU reference ---

// snippet: input
// kOnes: the sum counts the elements. kPosition: by a hash of the index, 1 or
// 2 sixty-fourths, in one element of 2^14 an odd number of up to 8191 of them,
// with either sign: a wrong address, an element cut to an integer or a partial
// sum rounded to 16 bits gives a wrong sum. Copy c of the input is c / 64
// higher at the start of each run of kThreadsPerBlock floats, so no block can
// take one copy for another. kUniform: [0, 84), in steps of 2^-17.
enum Data { kOnes, kPosition, kUniform };
constexpr float kUnit = 1.0f / 64;
constexpr std::uint32_t kUniformEnd = 84, kUniformSteps = 1u << 17;
static_assert(kUniformEnd * kUniformSteps <= (1u << 24),
              "kUniformEnd: every uniform element must be exact in a float");

__host__ __device__ inline float element(Data data, std::uint64_t i,
                                         int copy = 0) {
  if (data == kOnes) return 1.0f;
  std::uint64_t x = (i + 1) * 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ull;
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ull;
  const std::uint64_t hash = x >> 32;  // 32 bits
  if (data == kUniform) {
    return float(hash * (kUniformEnd * kUniformSteps) >> 32) / kUniformSteps;
  }
  const bool large = hash >> 18 == 0;
  int units = large ? int(hash >> 1 & 0xfff) * 2 + 1 : int(hash >> 1 & 1) + 1;
  if (hash & 1) units = -units;
  if (i % kThreadsPerBlock == 0) units += copy;
  return float(units) * kUnit;
}

__global__ void fillInput(float* out, size_t n, Data data, int copy) {
  const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) out[i] = element(data, i, copy);
}
// end snippet

inline void fill(float* d_out, size_t n, Data data, int copy = 0) {
  fillInput<<<unsigned(n / 256 + 1), 256>>>(d_out, n, data, copy);
  CUDA_CHECK(cudaGetLastError());
}

// ---- the banks of shared memory, counted by the compiler ------------------

// At each level of a tree the working threads load sums[k] and sums[k + s].
// Word w lies in bank w % 32; where lanes of a warp want different words of
// one bank, they are served one after another.
enum Tree { kModulo, kStrided, kSequential };
struct Passes {
  int all = 0, worst = 0;  // of a block's loads; of one load of one warp
};
constexpr Passes bankPasses(Tree tree) {
  Passes passes;
  for (int s = 1; s < kT; s *= 2) {
    for (int warp = 0; warp < kT; warp += kWarp) {
      int lanes[32] = {}, most = 0;  // working lanes per bank
      for (int tid = warp; tid < warp + kWarp; ++tid) {
        const int k = tree == kStrided ? 2 * s * tid : tid;
        if (tree == kModulo ? k % (2 * s) == 0
                            : k < (tree == kStrided ? kT : s))
          most = std::max(most, ++lanes[k % 32]);
      }
      passes.all += 2 * most;  // sums[k], then sums[k + s] alike
      passes.worst = std::max(passes.worst, most);
    }
  }
  return passes;
}
constexpr Passes kPasses[] = {bankPasses(kModulo), bankPasses(kStrided),
                              bankPasses(kSequential)};
static_assert(kPasses[kModulo].worst == 1, "v1: no load has a bank conflict");
static_assert(kPasses[kStrided].worst == kT / kWarp,
              "v2: as many lanes meet in one bank as the block has warps");
static_assert(kPasses[kStrided].all == kPasses[kModulo].all,
              "v2: its conflicts cost as many passes as its packing saves");
static_assert(kPasses[kSequential].worst == 1,
              "v3: no load has a bank conflict");

// ---- CPU reference --------------------------------------------------------

// Floats that one launch over n elements leaves.
inline size_t wordsOf(const Row& row, size_t n) {
  if (row.leaves == kCopy) return n;
  return row.leaves == kTotal ? 1
                              : ceilDiv(std::max<size_t>(n, 1), row.perSum);
}

// snippet: reference
// In double: the sum of each run of kT elements, and all positive and all
// negative elements.
struct Reference {
  Data data;
  size_t n;
  std::vector<double> runs;
  double plus = 0.0, minus = 0.0;
  Reference(Data of, size_t length)
      : data(of), n(length), runs(ceilDiv(n, kT) + 1) {
    for (size_t i = 0; i < n; ++i) {
      const double x = double(element(data, i));
      runs[i / kT] += x;
      (x > 0.0 ? plus : minus) += x;
    }
  }
  // What a row leaves in word w of a launch over copy `copy` of the input.
  double want(const Row& row, size_t w, size_t copy) const {
    const double mark = double(copy) * double(kUnit);
    if (row.leaves == kCopy) return double(element(data, w, int(copy)));
    if (row.leaves == kTotal) return plus + minus + mark * runs.size();
    const size_t each = size_t(row.perSum / kT);
    double sum = 0.0;
    for (size_t r = w * each; r < std::min(w * each + each, runs.size());
         ++r) {
      sum += runs[r] + mark;
    }
    return sum;
  }
};
// end snippet

// ---- checks ---------------------------------------------------------------

struct Result {
  bool right = false;  // wanted, and every check so far
  Timing timing;       // ms is 0 where there is none
  double gbs = 0.0;
};
inline Result results[kRowCount];

// Outputs start as poison, a NaN that no kernel here writes, and kGuard words
// behind them are watched. As many behind each input hold 3.4e38, above any
// sum here: a kernel that reads or copies too far shows it.
constexpr std::uint32_t kPoison = 0xffffffffu;
constexpr int kPoisonByte = 0xff, kBehindInputByte = 0x7f;
constexpr size_t kGuard = 4096, kN = size_t(kElems);
constexpr size_t kStride =  // of the copies
    (std::max<size_t>(kN, 4 * kT) / kGuard + 2) * kGuard;

// Launch i reads copy i of the input. It writes copy i of the output (copy),
// the first words (partials), or adds to word i (one float).
struct Bench {
  const size_t copies, outWords;
  DeviceArray<float> in, out;
  explicit Bench(const Device& device)
      : copies(size_t(copiesBeyondL2(device, kN * sizeof(float)))),
        outWords(std::max(copies * kStride, kMaxLaunches + kGuard)),
        in(copies * kStride),
        out(outWords) {}
  float* source(size_t i) const { return in.data + i % copies * kStride; }
  float* target(const Row& row, size_t i) const {
    if (row.leaves == kPartials) return out.data;
    return out.data + (row.leaves == kTotal ? i : i % copies * kStride);
  }
  // Poison; the words that up to `launches` launches add to become 0.
  void prepare(const Row& row, size_t launches) const {
    const size_t zeros = row.leaves == kTotal ? launches : 0;
    CUDA_CHECK(cudaMemset(out.data, kPoisonByte, outWords * sizeof(float)));
    CUDA_CHECK(cudaMemset(out.data, 0, zeros * sizeof(float)));
  }

  // snippet: one-check
  // What `done` launches have left after prepare(row, launches) must be the
  // reference, bit for bit, and the kGuard words behind it still poison.
  bool check(const Row& row, const Reference& right, const std::string& when,
             size_t done, size_t launches) const {
    const bool adds = row.leaves == kTotal;
    const size_t words = adds ? launches : wordsOf(row, right.n);
    std::vector<float> got(words + kGuard);
    CUDA_CHECK(cudaMemcpy(got.data(), target(row, adds ? 0 : done - 1),
                          got.size() * sizeof(float), cudaMemcpyDeviceToHost));
    size_t wrong = 0, first = 0, beyond = 0;
    for (size_t w = words; w-- > 0;) {
      const double want =
          adds && w >= done
              ? 0.0
              : right.want(row, w, (adds ? w : done - 1) % copies);
      if (double(got[w]) == want) continue;  // NaN equals nothing
      ++wrong;
      first = w;
    }
    for (size_t w = words; w < got.size(); ++w) {
      beyond += std::memcmp(&got[w], &kPoison, sizeof(kPoison)) != 0;
    }
    const std::string what = row.label + (", " + when);
    gate("output-exact", wrong == 0,
         text("%s: %zu of %zu words wrong; word %zu is %.9g", what.c_str(),
              wrong, words, first, double(got[first])));
    gate("output-bounds", beyond == 0,
         text("%s: %zu words behind its last written", what.c_str(), beyond));
    return wrong + beyond == 0;
  }
  // end snippet

  // One launch of each row that is right so far.
  void tryRows(const Reference& right, size_t shift, const std::string& when,
               bool profile) const {
    for (int r = 0; r < kRowCount; ++r) {
      const Row& row = kRows[r];
      if (!results[r].right || (row.leaves == kCopy && shift > 0)) continue;
      prepare(row, 1);
      if (profile) CUDA_CHECK(cudaProfilerStart());
      launchRow(row, in.data + shift, out.data, right.n);
      CUDA_CHECK(cudaGetLastError());
      CUDA_CHECK(cudaDeviceSynchronize());
      if (profile) CUDA_CHECK(cudaProfilerStop());
      results[r].right = check(row, right, when, 1, 1);
    }
  }
};

// Before any clock: every length at which a guard changes its mind, from every
// float boundary, then the whole input. A profiler records the last launches.
inline void tryAll(const Bench& bench, const Reference& position) {
  const double most =
      position.plus + position.runs.size() * bench.copies * double(kUnit);
  const double limit = double(kUnit) * (1 << 24);  // exact in any order below
  gate("position-data-exact", most < limit && -position.minus < limit,
       text("parts %g and %g, limit %g", most, position.minus, limit));
  const int lengths[] = {
      0,          1,          2,          3,      kWarp - 1,  kWarp,
      kWarp + 1,  kT - 1,     kT,         kT + 1, 2 * kT - 1, 2 * kT,
      2 * kT + 1, 4 * kT - 2, 4 * kT - 1, 4 * kT, 4 * kT + 1};
  const size_t bytes = bench.copies * kStride * sizeof(float);
  for (const Data data : {kOnes, kPosition}) {
    for (const int n : lengths) {
      const Reference right(data, size_t(n));
      for (size_t shift = 0; shift < 4; ++shift) {
        CUDA_CHECK(cudaMemset(bench.in.data, kBehindInputByte,
                              (n + kGuard) * sizeof(float)));
        fill(bench.in.data + shift, right.n, data);
        bench.tryRows(right, shift, text("n = %d + %zu", n, shift), false);
      }
    }
    CUDA_CHECK(cudaMemset(bench.in.data, kBehindInputByte, bytes));
    for (size_t c = 0; c < bench.copies; ++c) {
      fill(bench.source(c), kN, data, int(c));
    }
    if (data == kOnes) bench.tryRows(Reference(kOnes, kN), 0, "ones", false);
  }
  bench.tryRows(position, 0, "position data", true);
}

// Zeros, but for both ends: an index of 32 bits misses the far one. Without
// v0, which takes longer over so many than all the others together.
inline void tryBeyond32Bits() {
  constexpr size_t n = (size_t(1) << 32) + kT + 3;
  size_t free = 0, total = 0;
  CUDA_CHECK(cudaMemGetInfo(&free, &total));
  if (kQuick || free < 9 * n) {
    std::printf("\nIndexes beyond 2^32: not tried, %s.\n",
                kQuick ? "LESSON_QUICK" : "for want of 39 GB of memory");
    return;
  }
  DeviceArray<float> in(n), out(n);
  const float near = 1.0f, far = 2.0f;
  CUDA_CHECK(cudaMemset(in.data, 0, n * sizeof(float)));
  CUDA_CHECK(cudaMemcpy(in.data, &near, 4, cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaMemcpy(in.data + n - 1, &far, 4, cudaMemcpyHostToDevice));
  for (int r = 0; r < kRowCount; ++r) {
    const Row& row = kRows[r];
    if (!results[r].right || r == kFirst) continue;
    const bool adds = row.leaves == kTotal;
    const size_t last = wordsOf(row, n) - 1;
    float got[2];
    CUDA_CHECK(cudaMemset(out.data, adds ? 0 : kPoisonByte, 4 * last + 4));
    launchRow(row, in.data, out.data, n);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaMemcpy(got, out.data, 4, cudaMemcpyDeviceToHost));
    CUDA_CHECK(
        cudaMemcpy(got + 1, out.data + last, 4, cudaMemcpyDeviceToHost));
    results[r].right =
        gate("index-64-bit",
             got[0] == near + adds * far && got[1] == far + adds * near,
             text("%s: %g, %g", row.label, double(got[0]), double(got[1])));
  }
  std::printf("\nIndexes beyond 2^32: tried over %zu floats, but for v0.\n",
              n);
}

// ---- measuring and printing -----------------------------------------------

// Atomics on *out by one launch. v0's guard leaves out the threads behind the
// end; where a warp or a block adds, the last one adds what it has.
inline double atomicsOf(const Row& row) {
  if (row.perSum == 1) return double(kElems);
  return double(ceilDiv(kN, size_t(row.perBlock))) * row.perBlock / row.perSum;
}

// What the table says, worked out from it.
inline void printVerdicts(const Result& memcpy) {
  const double share =
      memcpy.gbs > 0.0 ? results[kCopyRow].gbs / memcpy.gbs : 0.0;
  std::printf("\ncudaMemcpyAsync, as many bytes: %s.\n",
              share == 0.0 ? "n/a (the copy row has no time)"
                           : text("%.4f ms, %.1f GB/s; the copy row reaches "
                                  "%.1f %% of it",
                                  memcpy.timing.ms, memcpy.gbs, 100 * share)
                                 .c_str());
  gate("copy-is-a-ceiling",
       kQuick || share == 0.0 || (share > 0.8 && share < 1.25),
       text("it moves %.2f of what cudaMemcpyAsync does", share));
  std::string slow, missing;
  for (int r = kFirst + 1; r <= kLast; ++r) {
    const Timing &above = results[r - 1].timing, &now = results[r].timing;
    const double least = 1.0 + std::max(above.spread, now.spread);
    if (above.ms == 0.0 || now.ms == 0.0) missing = "n/a (a row has no time)";
    if (above.ms <= least * now.ms) slow += text(" %.2s", kRows[r].label);
  }
  if (!slow.empty()) slow = "no, not" + slow;
  std::printf(
      "v0 to v4, each faster than the row above by more than the "
      "spread: %s.\n",
      !missing.empty() ? missing.c_str()
      : slow.empty()   ? "yes"
                       : slow.c_str());
  const double ns = 1e6 * results[kFirst].timing.ms / kElems;
  if (ns == 0.0) std::printf("Time per atomic: n/a (v0 has no time).\n");
  if (ns == 0.0) return;
  std::printf(
      "\nAt v0's pace, %.3f ns per atomic on *out\n"
      "%-38s%10s%12s%10s%9s\n",
      ns, "row", "atomics", "they take", "ms", "% of ms");
  for (int r = kFirst; r < kRowCount; ++r) {
    const double ms = results[r].timing.ms;
    if (kRows[r].leaves != kTotal || kRows[r].perSum == 0 || ms == 0.0) {
      continue;
    }
    const double atomics = atomicsOf(kRows[r]), take = 1e-6 * ns * atomics;
    std::printf("%-38s%10.0f%12.4f%10.4f%9s\n", kRows[r].label, atomics, take,
                ms, percent(take, ms).c_str());
  }
}

inline void runTable(const Device& device) {
  const Bench bench(device);
  const Reference position(kPosition, kN);
  tryAll(bench, position);
  tryBeyond32Bits();
  std::printf(
      "\n%zu floats, %d threads per block (the copy %d), %zu copies of the "
      "input; GB/s: every float read or left behind, once\n",
      kN, kT, kCopyThreads, bench.copies);
  Table table(device, "  x above  launches     leaves");
  auto measure = [&](const Row& row, Result* result, auto launch) {
    bench.prepare(row, kMaxLaunches);
    const Timing timing = timeKernel(launch);
    result->right = bench.check(row, position, "after timing",
                                size_t(timing.launches), kMaxLaunches);
    if (result->right) result->timing = timing;
    return double(kN + wordsOf(row, kN)) * sizeof(float);  // have to move
  };
  for (int r = 0; r < kRowCount; ++r) {
    const Row& row = kRows[r];
    Result& now = results[r];
    double bytes = 0.0;
    if (now.right) {
      bytes = measure(row, &now, [&](int i) {
        launchRow(row, bench.source(i), bench.target(row, i), kN);
      });
    }
    if (now.right) {
      const std::string above =
          r > kFirst ? timesAbove(results[r - 1].timing, now.timing) : "-";
      now.gbs = table.print(row.label, now.timing, bytes,
                            text("%9s%10d%11s", above.c_str(),
                                 now.timing.launches, kLeaves[row.leaves]));
    } else if (has(wantedRows, row.label)) {
      table.line(row.label, bytes > 0.0 ? "WRONG, timed" : "WRONG, not timed");
    }
  }
  Result memcpy;
  if (results[kCopyRow].gbs > 0.0) {
    const double bytes = measure(kRows[kCopyRow], &memcpy, [&](int i) {
      CUDA_CHECK(cudaMemcpyAsync(bench.target(kRows[kCopyRow], i),
                                 bench.source(i), kN * sizeof(float),
                                 cudaMemcpyDeviceToDevice));
    });
    memcpy.gbs = bytes / memcpy.timing.ms / 1e6;
  }
  printVerdicts(memcpy);
}

// ---- accuracy -------------------------------------------------------------

constexpr size_t kAccuracyElems = kQuick ? 1000000 : 100000000;
static_assert(kAccuracyElems < (1u << 29),
              "kAccuracyElems must be below 2^29: the double reference is "
              "exact, as so many multiples of 2^-17 below 84 fit its 53 bits");

// A running float sum of elements below 84 that comes to this power of two
// stays there: the next float is 256 away, and less than half is rounded off.
constexpr double kStall = 128.0 * (1 << 24);
static_assert(2 * kUniformEnd < kStall / (1 << 23),
              "kStall: an element is less than half the step of the floats");

struct CpuSums {
  size_t n;
  double exact = 0.0;
  float sequential = 0.0f, pairwise = 0.0f;
};
inline int log2Of(size_t x) { return x > 1 ? 1 + log2Of(x / 2) : 0; }

// Pairwise: levels[b] keeps the sum of 2^b elements until the next 2^b are
// summed. No element goes through more than 1 + log2(n) additions.
inline CpuSums cpuSums(size_t n) {
  CpuSums sums = {n};
  float levels[32] = {};
  for (size_t i = 0; i < n; ++i) {
    float pair = element(kUniform, i);
    sums.exact += double(pair);
    sums.sequential += pair;
    int b = 0;
    for (; i >> b & 1; ++b) pair += levels[b];
    levels[b] = pair;
  }
  for (int b = 0; b < 32; ++b) {
    if (n >> b & 1) sums.pairwise += levels[b];
  }
  return sums;
}

// A bound is printed where it is a gate. Tree: no element goes through more
// than `chain` additions, so the error is at most k / (1 - k), k = chain *
// 2^-24. All n one by one: at most kStall, where the sum is above it. Chain 0:
// the bound would be too wide to find an error.
inline void printSum(const char* label, double sum, const CpuSums& cpu,
                     size_t chain, const char* addedBy) {
  const double k = double(chain) / (1 << 24), error = sum / cpu.exact - 1;
  const bool tree = chain > 0 && chain < cpu.n;
  const bool stalls = chain == cpu.n && cpu.exact > kStall;
  const std::string allowed = tree     ? text("+-%.1e", k / (1 - k))
                              : stalls ? "at most 2^31"
                                       : "-";
  std::printf("%-38s%15.2f%12.1e%14s%16s\n", label, sum, error,
              allowed.c_str(), addedBy);
  gate("accuracy-bounds",
       tree     ? std::abs(error) <= k / (1 - k)
       : stalls ? sum <= kStall
                : sum > 0.0,
       label);
}

inline void printSumsHeading(const char* where, const CpuSums& cpu) {
  std::printf(
      "\nAccuracy on the %s: %zu floats, uniform in [0, %u); exact "
      "sum %.2f\n%-38s%15s%12s%14s%16s\n",
      where, cpu.n, kUniformEnd, cpu.exact, "row", "sum", "rel. error",
      "allowed", "partials added");
}

// Needs no GPU.
inline CpuSums printCpuRows() {
  std::printf(
      "\nPasses through the banks by the loads of one block's tree\n"
      "%-38s%10s%20s\n",
      "row", "passes", "most in one load");
  for (const Tree tree : {kModulo, kStrided, kSequential}) {
    std::printf("%-38s%10d%20d\n", kRows[kFirst + 2 + tree].label,
                kPasses[tree].all, kPasses[tree].worst);
  }
  const CpuSums cpu = cpuSums(kAccuracyElems);
  printSumsHeading("CPU", cpu);
  printSum("CPU sequential float", cpu.sequential, cpu, cpu.n, "-");
  printSum("CPU pairwise float", cpu.pairwise, cpu, 1 + log2Of(cpu.n), "-");
  std::printf(
      "\nA running float sum of these elements stays at %.0f, if it "
      "comes so far: the\nnext float is %.0f away, and less than half "
      "of that is rounded off.\n\n",
      kStall, kStall / (1 << 23));
  return cpu;
}

inline void runAccuracy(CpuSums cpu) {
  size_t n = cpu.n, free = 0, total = 0;
  CUDA_CHECK(cudaMemGetInfo(&free, &total));
  while (n > 1 && 5 * n * sizeof(float) / 4 > free) n /= 2;
  if (n < cpu.n) cpu = cpuSums(n);
  DeviceArray<float> in(n), out(ceilDiv(n, kT));
  fill(in.data, n, kUniform);
  printSumsHeading("GPU", cpu);
  for (int r = kFirst; r < kRowCount; ++r) {
    const Row& row = kRows[r];
    if (!results[r].right) continue;
    std::vector<float> words(wordsOf(row, n));
    const bool adds = row.leaves == kTotal;
    const size_t bytes = words.size() * sizeof(float);
    CUDA_CHECK(cudaMemset(out.data, adds ? 0 : kPoisonByte, bytes));
    launchRow(row, in.data, out.data, n);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(
        cudaMemcpy(words.data(), out.data, bytes, cudaMemcpyDeviceToHost));
    double sum = 0.0;
    for (const float word : words) sum += double(word);
    const size_t chain = adds ? (row.perSum == 1 ? n : 0) : log2Of(row.perSum);
    printSum(row.label, sum, cpu, chain, adds ? "atomics" : "CPU, in double");
  }
}

inline void lesson() {
  for (int r = 0; r < kRowCount; ++r) {
    results[r].right = has(wantedRows, kRows[r].label);
  }
  const CpuSums cpu = printCpuRows();
  const void* kernel = reinterpret_cast<const void*>(copyFloats);
  runTable(openDevice(75, kernel));
  runAccuracy(cpu);
}

int main(int argc, char** argv) {
  std::vector<std::pair<std::string, std::string>> rows;
  for (const Row& row : kRows) rows.emplace_back(row.label, row.name);
  return runLesson(argc, argv, "about 5 s on an NVIDIA H200", rows, lesson);
}
