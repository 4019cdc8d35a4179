// Day 24: parallel reduction, versions 0 to 4
// Question: why is the obvious sum slow, and what does each repair buy?
//
// Rows:
//   copy (ceiling)          copies the input, 16 bytes a thread: what the
//                           memory can do
//   v0 atomic global        every thread adds to one word of global memory
//   v0s atomic shared       a block adds to one word of shared memory, then
//                           one global atomic a block
//   v1 interleaved modulo   a tree in shared memory; thread t works where
//                           t % (2 * s) == 0, a few lanes of every warp
//   v2 interleaved strided  the same tree, the working threads packed into
//                           the first warps: bank conflicts
//   v3 sequential           the stride halves from the top: packed threads
//                           and no bank conflicts
//   v4 two loads            each thread adds two elements on the way in
//   v3 + atomic             v3, then one global atomic a block: one float
//   v3 + shuffle + atomic   the last 32 values in registers, by shuffles
//   v4 + shuffle + atomic   two loads, shuffles, one atomic a block
//
// Not measured: the first launch, copies to the host, and a second pass over
// the partial sums that v1 to v4 leave (day 25).
//
// Build: nvcc -std=c++17 -O3 -arch=sm_75 -o reduction_1 reduction_1.cu
// Run:   ./reduction_1
// Verified: NVIDIA H200, compute capability 9.0, driver 580.159.04, CUDA 13.0,
//   2026-11-29, evidence/day24-reduction/run-2026-11-29-nvidia-h200-sm_75.txt

#include <cuda_profiler_api.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

// ---- helpers: the same text, byte for byte, in every lesson ---------------

// A CUDA call that fails throws: which call, where, and what CUDA answered.
// main() prints the message and returns 1; on the way there the destructors
// below give back the device memory.
inline void checkCuda(cudaError_t error, const char* call, const char* file,
                      int line) {
  if (error == cudaSuccess) return;
  throw std::runtime_error(std::string(file) + ":" + std::to_string(line) +
                           ": " + call + ": " + cudaGetErrorName(error) +
                           ": " + cudaGetErrorString(error));
}
#define CUDA_CHECK(...) \
  checkCuda((__VA_ARGS__), #__VA_ARGS__, __FILE__, __LINE__)

// Device memory for n elements, freed when the array leaves its scope.
template <typename T>
struct DeviceArray {
  T* data = nullptr;
  explicit DeviceArray(size_t n) {
    CUDA_CHECK(cudaMalloc(&data, n * sizeof(T)));
  }
  ~DeviceArray() { cudaFree(data); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
};

// Every check of a lesson passes through gate(): it prints and counts what
// failed, and main() returns 1 if anything did. Returns ok.
inline int& failures() {
  static int count = 0;
  return count;
}
inline bool gate(const char* name, bool ok, const char* format, ...) {
  if (ok) return true;
  ++failures();
  va_list args;
  va_start(args, format);
  std::printf("FAILED %s: ", name);
  std::vprintf(format, args);
  std::printf("\n");
  va_end(args);
  return false;
}

// -DLESSON_QUICK: small inputs and one short batch, for compute-sanitizer.
// Every check still runs; the times mean nothing, and the program says so.
#ifdef LESSON_QUICK
constexpr bool kQuick = true;
#else
constexpr bool kQuick = false;
#endif

// What the lessons ask of the card. peakGBs: memory clock x 2 x bus width,
// in 1e9 bytes/s, or 0 where the driver does not tell.
struct Device {
  std::string name;
  int major = 0, minor = 0, sms = 0;
  size_t l2Bytes = 0;
  double peakGBs = 0.0;
};
constexpr int kSkip = 77;  // exit code: this machine cannot run the lesson

// Prints why this machine cannot run the lesson; returns kSkip.
inline int refuse(const char* format, ...) {
  va_list args;
  va_start(args, format);
  std::fprintf(stderr, "SKIPPED: ");
  std::vfprintf(stderr, format, args);
  std::fprintf(stderr, "\n");
  va_end(args);
  return kSkip;
}

inline int deviceAttribute(cudaDeviceAttr attribute) {
  int value = 0;
  CUDA_CHECK(cudaDeviceGetAttribute(&value, attribute, 0));
  return value;
}

// Opens device 0 and proves that `kernel`, any kernel of this file, can run
// on it. needMajor.needMinor: the lowest compute capability of the lesson.
// Returns 0, or kSkip with the reason and the next step printed. Allocates
// nothing.
inline int openDevice(int needMajor, int needMinor, const void* kernel,
                      Device* device) {
  int driver = 0, toolkit = 0, count = 0;
  CUDA_CHECK(cudaDriverGetVersion(&driver));  // 0 where there is no driver
  CUDA_CHECK(cudaRuntimeGetVersion(&toolkit));
  const int dMajor = driver / 1000, dMinor = driver % 100 / 10;
  const int tMajor = toolkit / 1000, tMinor = toolkit % 100 / 10;

  cudaError_t error = cudaGetDeviceCount(&count);
  if (driver == 0) {
    return refuse(
        "no NVIDIA driver found (this program was built with CUDA %d.%d).\n"
        "  Install the driver; in a container, start it with --gpus all; on\n"
        "  a cluster, leave the login node (srun --gpus=1); in WSL, put\n"
        "  /usr/lib/wsl/lib on LD_LIBRARY_PATH.",
        tMajor, tMinor);
  }
  if (error == cudaErrorInsufficientDriver) {
    return refuse(
        "the driver supports CUDA %d.%d; this program was built with CUDA\n"
        "  %d.%d. Update the driver, or rebuild with CUDA %d.%d or older and\n"
        "  -arch=sm_XX (XX: nvidia-smi --query-gpu=compute_cap).",
        dMajor, dMinor, tMajor, tMinor, dMajor, dMinor);
  }
  if (error == cudaErrorNoDevice || (error == cudaSuccess && count == 0)) {
    const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
    return refuse(
        "the driver (CUDA %d.%d) offers no GPU. CUDA_VISIBLE_DEVICES is\n"
        "  %s%s%s: unset it or name a GPU that nvidia-smi lists. On a\n"
        "  cluster, ask for a GPU; in a container, use --gpus all.",
        dMajor, dMinor, visible ? "\"" : "", visible ? visible : "not set",
        visible ? "\"" : "");
  }
  if (error != cudaSuccess) {
    return refuse(
        "the driver (CUDA %d.%d) does not work: %s: %s.\n"
        "  Run nvidia-smi; where it fails too, mend the driver first.",
        dMajor, dMinor, cudaGetErrorName(error), cudaGetErrorString(error));
  }

  device->major = deviceAttribute(cudaDevAttrComputeCapabilityMajor);
  device->minor = deviceAttribute(cudaDevAttrComputeCapabilityMinor);
  cudaDeviceProp properties;
  CUDA_CHECK(cudaGetDeviceProperties(&properties, 0));
  device->name = properties.name;
  if (device->major * 10 + device->minor < needMajor * 10 + needMinor) {
    return refuse(
        "%s has compute capability %d.%d; this lesson needs %d.%d or newer.\n"
        "  Choose another GPU with CUDA_VISIBLE_DEVICES, or another machine.",
        device->name.c_str(), device->major, device->minor, needMajor,
        needMinor);
  }

  cudaFuncAttributes attributes;  // asking for them loads the machine code
  error = cudaFuncGetAttributes(&attributes, kernel);
  if (error == cudaErrorNoKernelImageForDevice ||
      error == cudaErrorInvalidDeviceFunction ||
      error == cudaErrorUnsupportedPtxVersion ||
      error == cudaErrorInvalidPtx || error == cudaErrorJitCompilerNotFound ||
      error == cudaErrorJitCompilationDisabled) {
    return refuse(
        "this program holds no code that can run on %s: %s.\n"
        "  The driver supports CUDA %d.%d, the program was built with CUDA\n"
        "  %d.%d. Rebuild with -arch=sm_%d%d.",
        device->name.c_str(), cudaGetErrorName(error), dMajor, dMinor, tMajor,
        tMinor, device->major, device->minor);
  }
  if (error == cudaErrorMemoryAllocation) {
    return refuse(
        "%s has no memory left for this program to start.\n"
        "  Stop the other programs that nvidia-smi lists, then run again.",
        device->name.c_str());
  }
  if (error == cudaErrorDevicesUnavailable) {
    return refuse(
        "%s is held by another program (exclusive compute mode).\n"
        "  Wait for it to end, or choose another GPU.",
        device->name.c_str());
  }
  CUDA_CHECK(error);

  device->sms = deviceAttribute(cudaDevAttrMultiProcessorCount);
  device->l2Bytes = size_t(deviceAttribute(cudaDevAttrL2CacheSize));
  device->peakGBs = deviceAttribute(cudaDevAttrMemoryClockRate) * 1e3 * 2.0 *
                    deviceAttribute(cudaDevAttrGlobalMemoryBusWidth) / 8 / 1e9;
  std::printf(
      "%s, compute capability %d.%d, %d SMs, L2 %.1f MB\n"
      "driver CUDA %d.%d, toolkit CUDA %d.%d, peak ",
      device->name.c_str(), device->major, device->minor, device->sms,
      double(device->l2Bytes) / 1e6, dMajor, dMinor, tMajor, tMinor);
  if (device->peakGBs > 0.0) {
    std::printf("%.0f GB/s (memory clock x 2 x bus width)\n", device->peakGBs);
  } else {
    std::printf("n/a (the driver does not tell the memory clock)\n");
  }
  if (kQuick) std::printf("LESSON_QUICK: the times below mean nothing.\n");
  return 0;
}

// Returns 0 where `bytes` of device memory are free, or kSkip.
inline int requireMemory(const Device& device, size_t bytes) {
  size_t free = 0, total = 0;
  CUDA_CHECK(cudaMemGetInfo(&free, &total));
  if (bytes <= free) return 0;
  return refuse(
      "this lesson needs %.0f MB of device memory; %s has %.0f MB free.\n"
      "  Stop the other programs that nvidia-smi lists, or make the input\n"
      "  constants at the top of the file smaller.",
      double(bytes) / 1e6, device.name.c_str(), double(free) / 1e6);
}

// How many copies of a buffer of `bytes` successive launches must walk over,
// so that at least four times the L2 passes between two reads of one copy.
inline int copiesBeyondL2(const Device& device, size_t bytes) {
  return 2 + int(4 * device.l2Bytes / (bytes > 0 ? bytes : 1));
}

struct Event {
  cudaEvent_t event = nullptr;
  Event() { CUDA_CHECK(cudaEventCreate(&event)); }
  ~Event() { cudaEventDestroy(event); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
};

// ms: median over the batches of the time a launch, in milliseconds.
// spread: (slowest - fastest batch) / median. launches: how many launches
// were made in all, the warm-up included; never more than kMaxLaunches.
struct Timing {
  double ms = 0.0, spread = 0.0;
  int launches = 0;
};
constexpr int kMaxLaunches = 1 << 15;
constexpr int kBatches = kQuick ? 1 : 9;
constexpr double kBatchMs = kQuick ? 0.0 : 5.0;    // a batch lasts about this
constexpr double kWarmUpMs = kQuick ? 0.0 : 50.0;  // idle clocks rise in it

// Times launch(i), which starts launch i = 0, 1, 2, ... on the default
// stream. i chooses the copy of the input, so that nothing comes from L2.
template <typename Launch>
Timing timeKernel(Launch launch) {
  Event start, stop;
  Timing timing;
  auto batch = [&](int count) {  // milliseconds of `count` launches
    float ms = 0.0f;
    CUDA_CHECK(cudaEventRecord(start.event));
    for (int k = 0; k < count; ++k) launch(timing.launches++);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaEventRecord(stop.event));
    CUDA_CHECK(cudaEventSynchronize(stop.event));
    CUDA_CHECK(cudaEventElapsedTime(&ms, start.event, stop.event));
    return double(ms);
  };
  int count = 1;
  for (double warm = 0.0;;) {
    const double ms = batch(count);
    warm += ms;
    const int left = kMaxLaunches - timing.launches;
    if (warm >= kWarmUpMs || left < (kBatches + 2) * count) break;
    if (ms < kBatchMs && left >= (kBatches + 2) * 2 * count) count *= 2;
  }
  std::vector<double> ms(kBatches);
  for (double& value : ms) value = batch(count) / count;
  std::sort(ms.begin(), ms.end());
  timing.ms = ms[kBatches / 2];
  timing.spread = (ms.back() - ms.front()) / timing.ms;
  return timing;
}
// ---- end of helpers -------------------------------------------------------

// What you may edit: any power of two from 32 to 1024 threads, any number of
// elements from 1 to 2^24 - 1. Anything else stops the compiler.
constexpr int kThreadsPerBlock = 256;
constexpr std::int64_t kElems = (1 << (kQuick ? 18 : 24)) - 611;

// The copy has a block size of its own: in small blocks it is no ceiling.
constexpr int kCopyThreads = 256;

constexpr int kWarp = 32;   // lanes of a warp
constexpr int kBanks = 32;  // banks of shared memory, one word wide
constexpr int log2Of(std::int64_t x) { return x > 1 ? 1 + log2Of(x / 2) : 0; }

static_assert(kThreadsPerBlock == 1 << log2Of(kThreadsPerBlock),
              "the trees halve the block until one value is left: "
              "kThreadsPerBlock must be a power of two");
static_assert(kThreadsPerBlock >= kWarp,
              "the shuffle tail needs all 32 lanes of one warp: "
              "kThreadsPerBlock must be at least 32");
static_assert(kThreadsPerBlock <= 1024,
              "no GPU runs a block of more than 1024 threads");
static_assert(kCopyThreads >= kWarp && kCopyThreads <= 1024 &&
                  kCopyThreads % kWarp == 0,
              "kCopyThreads: a block of the copy is 1 to 32 whole warps");
static_assert(kElems >= 1, "a grid of no blocks cannot be launched");
static_assert(kElems < (1 << 24),
              "a float counts only up to 2^24: above it the sum of kElems "
              "ones could not show a lost or doubled element");

// ---- input: the same function fills the GPU and feeds the CPU reference ---

// kOnes: the sum counts the elements. kPosition: -2, -1, 1 or 2 by a hash of
// the index: wrong addresses give a wrong sum, and every partial sum is a
// small integer, exact in any order. kUniform: uniform in [0, 84), integers
// below 84 * 2^17 times 2^-17.
enum Data { kOnes, kPosition, kUniform };
constexpr std::uint32_t kUniformEnd = 84, kUniformSteps = 1u << 17;
static_assert(kUniformEnd * kUniformSteps <= (1u << 24),
              "every uniform element must be exact in a float");

__host__ __device__ inline float element(Data data, std::uint64_t i) {
  if (data == kOnes) return 1.0f;
  std::uint64_t x = (i + 1) * 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ull;
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ull;
  const std::uint64_t hash = x >> 32;  // 32 bits
  if (data == kPosition) {
    return (hash & 1 ? 1.0f : 2.0f) * (hash & 2 ? 1.0f : -1.0f);
  }
  return float(hash * (kUniformEnd * kUniformSteps) >> 32) / kUniformSteps;
}

__global__ void fillInput(float* out, size_t n, Data data, float sign) {
  const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) out[i] = sign * element(data, i);
}

// ---- the banks of shared memory, counted by the compiler ------------------

// v1, v2 and v3 add up a block in a tree. At each level the working threads
// load sums[k] and sums[k + s]. Word w lies in bank w % 32; where lanes of a
// warp want different words of one bank, they are served one after another.
enum Tree { kModulo, kStrided, kSequential };
struct BankPasses {
  int total = 0;  // for all loads of one block's tree
  int worst = 0;  // for one load of one warp; 1: no conflict
};
constexpr BankPasses bankPasses(Tree tree) {
  BankPasses passes;
  for (int s = 1; s < kThreadsPerBlock; s *= 2) {
    for (int warp = 0; warp < kThreadsPerBlock; warp += kWarp) {
      int lanes[kBanks] = {}, most = 0;  // working lanes a bank
      for (int tid = warp; tid < warp + kWarp; ++tid) {
        const int k = tree == kStrided ? 2 * s * tid : tid;
        const bool works = tree == kModulo    ? tid % (2 * s) == 0
                           : tree == kStrided ? k < kThreadsPerBlock
                                              : tid < s;
        if (works) most = std::max(most, ++lanes[k % kBanks]);
      }
      passes.total += 2 * most;  // sums[k], then sums[k + s] alike
      passes.worst = std::max(passes.worst, most);
    }
  }
  return passes;
}

// ---- kernels --------------------------------------------------------------
// Every launch, where nothing else is said: kThreadsPerBlock threads a block,
// and a thread for each element. `in` starts on a boundary of 128 bytes: the
// 32 floats that a warp loads are 4 whole sectors of 32 bytes.

// Ceiling: reads and writes every byte once.
// One thread: 16 bytes; the first threads also copy the last n % 4 floats.
// One warp: 512 bytes in a row, 16 sectors a request, all of them used.
// Launch: kCopyThreads threads a block, a thread for 4 floats; `out` aligned
//   like `in`.
__global__ void copyFloats(const float* in, float* out, size_t n) {
  const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n / 4) {
    reinterpret_cast<float4*>(out)[i] = reinterpret_cast<const float4*>(in)[i];
  }
  if (i < n % 4) out[n / 4 * 4 + i] = in[n / 4 * 4 + i];
}

// v0: the obvious sum.
// One thread: loads a float and adds it to *out. atomicAdd leaves the order
//   of the additions open (relaxed), which is enough for a sum. Nobody wants
//   its answer, so it becomes a reduction (RED), which returns none.
// One warp: 4 sectors, then 32 additions to the same word. The compiler may
//   not add them up first: another order can round to another float.
// Launch: *out is 0.
// snippet: atomic-global
__global__ void reduceAtomicGlobal(const float* in, float* out, size_t n) {
  const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(out, in[i]);
}
// end snippet

// v0s: what changed: the threads of a block meet at a word of their own, in
// shared memory. One atomic a block goes on to *out.
// One thread: loads a float and adds it to the block's word. This atomicAdd
//   becomes a loop: load the word, add, swap if the word is still the same.
// One warp: 4 sectors; its 32 lanes want the same word, and a lane that
//   comes too late goes round again.
// Launch: *out is 0.
// snippet: atomic-shared
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

// v1: what changed: a tree instead of a queue at one word. At each of its
// log2(kThreadsPerBlock) levels all pairs are added at the same time.
// One thread: loads a float into shared memory. At stride s it works where
//   its number is a multiple of 2 * s. Compiled for sm_75 to sm_90 the modulo
//   is an integer division at every level; for sm_100 and newer the compiler
//   sees that 2 * s is a power of two, and masks instead.
// One warp: 4 sectors. The `if` becomes predicates, not a branch: every warp
//   issues every level. The lanes that work are far apart: up to s = 16 some
//   lane of every warp works, so every warp goes to shared memory, for fewer
//   and fewer lanes. No bank conflict.
// Launch: one partial sum a block is left.
// snippet: v1-modulo
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
static_assert(bankPasses(kModulo).worst == 1,
              "v1: the words of a warp lie in 32 in a row: no conflict");

// v2: what changed: thread t takes the t-th pair. The threads that work are
// neighbours, whole warps have nothing to load, and no level divides.
// One thread: at stride s it works where word 2 * s * tid is in the block.
// One warp: 4 sectors. Its lanes load words 2 * s apart, up to
//   kThreadsPerBlock / 32 of them in one bank. Fewer warps, more passes each:
//   in all as many passes as v1. But v1 has one a load, spread over all
//   warps; here a load of one warp can take several, and the other warps
//   wait for it at the barrier.
// Launch: one partial sum a block is left.
// snippet: v2-strided
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
static_assert(bankPasses(kStrided).worst == kThreadsPerBlock / kWarp,
              "v2: as many lanes meet in one bank as the block has warps");
static_assert(bankPasses(kStrided).total == bankPasses(kModulo).total,
              "v2: its conflicts cost as many passes as its packing saves");

// v3: what changed: other pairs. The stride starts at half the block and
// halves; thread t adds word t + s to word t.
// One thread: at stride s it works where tid < s.
// One warp: 4 sectors. Its lanes load 32 words in a row: no bank conflict.
//   Down to s = 32 a warp works with all its lanes or with none.
// Launch: one partial sum a block is left.
// snippet: v3-sequential
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
static_assert(bankPasses(kSequential).worst == 1,
              "v3: the words of a warp lie in a row: no conflict");

// v4: what changed: each thread adds two elements before the tree begins. In
// v3 half of the threads load a float and never add; here each one adds.
// Half as many blocks, trees and barriers for the same n.
// One thread: two loads, both under way before the first addition.
// One warp: 4 sectors for each of its two loads; then as v3.
// Launch: a block per 2 * kThreadsPerBlock floats; one partial sum each.
// snippet: v4-two-loads
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

// v3 + atomic: what changed from v3: the last line. One launch leaves the
// sum itself.
// One thread, one warp: as v3; thread 0 of each block adds to *out (RED).
// Launch: *out is 0.
// snippet: atomic-finish
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

// v3 + shuffle + atomic: what changed from v3 + atomic: the loop stops at 32
// values, and one warp adds these up in registers.
// One thread: the last five levels are five shuffles: no shared memory, and
//   not the five barriers at which the other warps waited with nothing to do.
// One warp: 4 sectors. All 32 lanes of warp 0 take part in each shuffle, as
//   its mask says; so too in a block of 32 threads.
// Launch: *out is 0.
// snippet: shuffle-tail
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

// v4 + shuffle + atomic: what changed from v3 + shuffle + atomic: the two
// loads of v4, so half as many blocks and half as many atomics.
// One thread, one warp: v4 on the way in, the shuffle tail on the way out.
// Launch: a block per 2 * kThreadsPerBlock floats; *out is 0.
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

// ---- the table of rows ----------------------------------------------------

enum Leaves { kCopy, kPartials, kTotal };
constexpr const char* kLeaves[] = {"n floats", "partials", "one float"};

struct Row {
  const char* label;
  void (*kernel)(const float* in, float* out, size_t n);
  Leaves leaves;
  int perBlock;  // elements a block takes
  int perSum;    // elements in one partial sum, or in one atomic on *out
  int chain;     // most additions that an element goes through until then
};

constexpr int kT = kThreadsPerBlock;
constexpr int kLog = log2Of(kT);  // levels of a block's tree

// clang-format off
constexpr Row kRows[] = {
    {"copy (ceiling)", copyFloats, kCopy, 4 * kCopyThreads, 1, 0},
    {"v0 atomic global", reduceAtomicGlobal, kTotal, kT, 1, 0},
    {"v0s atomic shared", reduceAtomicShared, kTotal, kT, kT, kT},
    {"v1 interleaved modulo", reduceInterleavedModulo,
     kPartials, kT, kT, kLog},
    {"v2 interleaved strided", reduceInterleavedStrided,
     kPartials, kT, kT, kLog},
    {"v3 sequential", reduceSequential, kPartials, kT, kT, kLog},
    {"v4 two loads", reduceSequentialTwoLoads,
     kPartials, 2 * kT, 2 * kT, 1 + kLog},
    {"v3 + atomic", reduceSequentialAtomic, kTotal, kT, kT, kLog},
    {"v3 + shuffle + atomic", reduceShuffleAtomic, kTotal, kT, kT, kLog},
    {"v4 + shuffle + atomic", reduceFinalAtomic,
     kTotal, 2 * kT, 2 * kT, 1 + kLog},
};
// clang-format on
constexpr int kRowCount = int(sizeof(kRows) / sizeof(kRows[0]));
constexpr int kCopyRow = 0, kFirstVersion = 1, kLastVersion = 6;
static_assert(kRows[kFirstVersion].kernel == reduceAtomicGlobal &&
                  kRows[kLastVersion].kernel == reduceSequentialTwoLoads,
              "the text below the table walks the ladder from v0 to v4");

inline size_t ceilDiv(size_t a, size_t b) { return (a + b - 1) / b; }

// Partial sums, or atomics on *out, of one launch over n elements.
inline size_t sumsOf(const Row& row, size_t n) {
  return ceilDiv(n, size_t(row.perSum));
}

// Floats that one launch leaves.
inline size_t wordsOf(const Row& row, size_t n) {
  return row.leaves == kCopy ? n : row.leaves == kTotal ? 1 : sumsOf(row, n);
}

inline void launchRow(const Row& row, const float* d_in, float* d_out,
                      size_t n) {
  const unsigned blocks = unsigned(ceilDiv(n, size_t(row.perBlock)));
  const int threads = row.leaves == kCopy ? kCopyThreads : kThreadsPerBlock;
  row.kernel<<<blocks, threads>>>(d_in, d_out, n);
}

inline void fill(float* d_out, size_t n, Data data, float sign = 1.0f) {
  fillInput<<<unsigned(ceilDiv(n, 256)), 256>>>(d_out, n, data, sign);
  CUDA_CHECK(cudaGetLastError());
}

// ---- CPU reference --------------------------------------------------------

// In double: the sum of each run of kT elements, and all positive and all
// negative elements.
struct Reference {
  Data data;
  std::vector<double> blocks;
  double plus = 0.0, minus = 0.0;
  Reference(Data of, size_t n) : data(of), blocks(ceilDiv(n, kT), 0.0) {
    for (size_t i = 0; i < n; ++i) {
      const double x = double(element(data, i));
      blocks[i / kT] += x;
      (x > 0.0 ? plus : minus) += x;
    }
  }
  // The sum of run w where each takes perSum elements, kT or 2 * kT.
  double run(size_t w, int perSum) const {
    if (perSum == kT) return blocks[w];
    return blocks[2 * w] + (2 * w + 1 < blocks.size() ? blocks[2 * w + 1] : 0);
  }
};

// ---- checks, and the main table -------------------------------------------

// Outputs start as poison, a NaN that no kernel here writes, and kGuard words
// behind them are watched. As many behind each input hold 3.4e38, above any
// sum here: whoever reads or copies too far shows it.
constexpr std::uint32_t kPoison = 0xffffffffu;
constexpr int kPoisonByte = 0xff, kBehindInputByte = 0x7f;
constexpr size_t kGuard = 4096;  // no block takes more

struct Result {
  bool right = true;  // every check so far
  Timing timing;
  double gbs = 0.0;
};

inline std::string percent(double part, double of) {
  char text[16] = "n/a";
  if (of > 0.0) std::snprintf(text, sizeof(text), "%.1f%%", 100 * part / of);
  return text;
}

// The times of v0 to v4, each against the one before it: ">" where that one
// took longer by more than either spread, "!" where it did not.
inline void printLadder(const Result* results) {
  bool holds = true;
  std::printf("\nTimes: v0");
  for (int r = kFirstVersion + 1; r <= kLastVersion; ++r) {
    const Timing &before = results[r - 1].timing, &now = results[r].timing;
    const std::string label = kRows[r].label;
    const double factor = before.ms / now.ms;
    const bool faster = results[r - 1].right && results[r].right &&
                        factor > 1.0 + std::max(before.spread, now.spread);
    std::printf(" %s %s (%.2fx)", faster ? ">" : "!",
                label.substr(0, label.find(' ')).c_str(), factor);
    holds = holds && faster;
  }
  std::printf("\nEach step is faster by more than the spread: %s.\n",
              holds ? "yes" : "NO, see !");
}

// What the table says, worked out from it.
inline void printFooter(const Result* results, const Result& memcpyResult) {
  const Result& copy = results[kCopyRow];
  const double msAnAtomic = results[kFirstVersion].timing.ms / kElems;
  std::printf(
      "\ncudaMemcpyAsync, the same bytes: %.4f ms, %.1f GB/s; the copy row is "
      "at %s of that.\n",
      memcpyResult.timing.ms, memcpyResult.gbs,
      percent(copy.gbs, memcpyResult.gbs).c_str());
  for (int r = kCopyRow + 1; r < kRowCount; ++r) {
    if (results[r].gbs <= copy.gbs) continue;
    std::printf("%s beats the copy: it hardly writes.\n", kRows[r].label);
  }
  printLadder(results);
  std::printf("\nv0 takes %.2f ns an atomic. At that pace the atomics of\n",
              1e6 * msAnAtomic);
  for (int r = kFirstVersion + 1; r < kRowCount; ++r) {
    if (kRows[r].leaves != kTotal) continue;
    const size_t atomics = sumsOf(kRows[r], kElems);
    std::printf("  %-22s %7zu take %7.4f ms; the row took %7.4f ms\n",
                kRows[r].label, atomics, double(atomics) * msAnAtomic,
                results[r].timing.ms);
  }
  constexpr BankPasses v1 = bankPasses(kModulo), v2 = bankPasses(kStrided),
                       v3 = bankPasses(kSequential);
  std::printf(
      "\nPasses through the banks (counted): all loads of a block's tree v1 "
      "%d, v2 %d, v3 %d;\nthe worst load of one warp v1 %d, v2 %d, v3 %d.\n",
      v1.total, v2.total, v3.total, v1.worst, v2.worst, v3.worst);
}

inline int runTable(const Device& device) {
  const size_t n = kElems;
  // Every copy, of the input and of the copy row's output, has a guard.
  const size_t stride = (n / kGuard + 2) * kGuard;  // floats
  const size_t copies =
      kQuick ? 2 : size_t(copiesBeyondL2(device, stride * sizeof(float)));
  const size_t outWords = std::max(copies * stride, kMaxLaunches + kGuard);
  const size_t slack = size_t(16) << 20;  // bytes: cudaMalloc rounds up
  const size_t bytes = (copies * stride + outWords) * sizeof(float);
  if (const int code = requireMemory(device, bytes + slack)) return code;
  DeviceArray<float> in(copies * stride), out(outWords);

  // Launch i reads copy i; it writes copy i or, where it adds, word i. Every
  // second copy of the input is negated: to read the wrong one shows.
  auto signOf = [&](size_t i) { return i % copies % 2 == 0 ? 1.0f : -1.0f; };
  auto source = [&](int i) { return in.data + size_t(i) % copies * stride; };
  auto target = [&](const Row& row, int i) {
    if (row.leaves == kPartials) return out.data;
    if (row.leaves == kTotal) return out.data + i;
    return out.data + size_t(i) % copies * stride;
  };
  // Poison; the words that up to `launches` launches add to become 0.
  auto prepare = [&](const Row& row, size_t launches) {
    const size_t zeros = row.leaves == kTotal ? launches : 0;
    CUDA_CHECK(cudaMemset(out.data, kPoisonByte, outWords * sizeof(float)));
    CUDA_CHECK(cudaMemset(out.data, 0, zeros * sizeof(float)));
  };
  // What `done` launches have left after prepare(row, launches) must be the
  // reference, and the kGuard words behind it still poison.
  auto check = [&](const Row& row, const char* when, const Reference& right,
                   int done, size_t launches) {
    const bool adds = row.leaves == kTotal;
    const size_t words = adds ? launches : wordsOf(row, n);
    auto wanted = [&](size_t w) {
      const double sign = signOf(adds ? w : size_t(done - 1));
      if (row.leaves == kCopy) return sign * double(element(right.data, w));
      if (row.leaves == kPartials) return sign * right.run(w, row.perSum);
      return w < size_t(done) ? sign * (right.plus + right.minus) : 0.0;
    };
    std::vector<float> got(words + kGuard);
    CUDA_CHECK(cudaMemcpy(got.data(), target(row, adds ? 0 : done - 1),
                          got.size() * sizeof(float), cudaMemcpyDeviceToHost));
    size_t wrong = 0, first = 0, beyond = 0;
    for (size_t w = words; w-- > 0;) {
      if (double(got[w]) == wanted(w)) continue;  // NaN equals nothing
      ++wrong;
      first = w;
    }
    for (size_t w = words; w < got.size(); ++w) {
      beyond += std::memcmp(&got[w], &kPoison, sizeof(kPoison)) != 0;
    }
    const bool exact =
        gate("output-exact", wrong == 0,
             "%s, %s: %zu of %zu words wrong; word %zu is %.9g, not %.9g",
             row.label, when, wrong, words, first, double(got[first]),
             wanted(first));
    const bool inside = gate("output-bounds", beyond == 0,
                             "%s, %s: %zu words behind its last were written",
                             row.label, when, beyond);
    return exact && inside;
  };

  // Every row once on either data, before any clock.
  Result results[kRowCount];
  const Reference ones(kOnes, n), position(kPosition, n);
  gate("position-data-exact",
       position.plus < (1 << 24) && -position.minus < (1 << 24),
       "parts %.0f and %.0f; a float counts only up to 2^24", position.plus,
       position.minus);
  for (const Reference* right : {&ones, &position}) {
    CUDA_CHECK(cudaMemset(in.data, kBehindInputByte,
                          copies * stride * sizeof(float)));
    for (size_t c = 0; c < copies; ++c) {
      fill(in.data + c * stride, n, right->data, signOf(c));
    }
    for (int r = 0; r < kRowCount; ++r) {
      prepare(kRows[r], 1);
      // A profiler records this launch, over the position data alone.
      if (right == &position) CUDA_CHECK(cudaProfilerStart());
      launchRow(kRows[r], source(0), target(kRows[r], 0), n);
      CUDA_CHECK(cudaGetLastError());
      CUDA_CHECK(cudaDeviceSynchronize());
      CUDA_CHECK(cudaProfilerStop());
      const char* when = right == &ones ? "ones" : "position data";
      results[r].right &= check(kRows[r], when, *right, 1, 1);
    }
  }

  std::printf(
      "\n%zu floats, %d threads a block (the copy %d); each launch reads the "
      "next of %zu copies.\n"
      "GB/s: every float read and every float left behind, once each.\n\n"
      "%-22s %9s %8s %8s %8s %8s %9s  %s\n",
      n, kThreadsPerBlock, kCopyThreads, copies, "row", "time ms", "spread",
      "GB/s", "of copy", "of peak", "launches", "leaves");
  auto measure = [&](const Row& row, Result* result, auto launch) {
    prepare(row, kMaxLaunches);
    result->timing = timeKernel(launch);
    result->right = check(row, "after timing", position,
                          result->timing.launches, kMaxLaunches);
    const double moved = double(n + wordsOf(row, n)) * sizeof(float);
    result->gbs = moved / result->timing.ms / 1e6;
  };
  for (int r = 0; r < kRowCount; ++r) {
    const Row& row = kRows[r];
    Result& result = results[r];
    if (!result.right) continue;  // a wrong row has no time
    measure(row, &result,
            [&](int i) { launchRow(row, source(i), target(row, i), n); });
    if (!result.right) continue;
    const Result& copy = results[kCopyRow];
    std::printf("%-22s %9.4f %7.1f%% %8.1f %8s %8s %9d  %s\n", row.label,
                result.timing.ms, 100.0 * result.timing.spread, result.gbs,
                percent(result.gbs, copy.right ? copy.gbs : 0.0).c_str(),
                percent(result.gbs, device.peakGBs).c_str(),
                result.timing.launches, kLeaves[row.leaves]);
  }
  Row memcpyRow = kRows[kCopyRow];
  memcpyRow.label = "cudaMemcpyAsync";
  Result memcpyResult;
  measure(memcpyRow, &memcpyResult, [&](int i) {
    CUDA_CHECK(cudaMemcpyAsync(target(memcpyRow, i), source(i),
                               n * sizeof(float), cudaMemcpyDeviceToDevice));
  });
  if (failures() == 0) printFooter(results, memcpyResult);
  return 0;
}

// ---- accuracy -------------------------------------------------------------

constexpr size_t kAccuracyElems = kQuick ? 1000000 : 100000000;
static_assert(kAccuracyElems < (1u << 29),
              "the double reference is exact: the sum of fewer than 2^29 "
              "multiples of 2^-17 below 84 fits its 53 bits");

// A running float sum of elements below 84 that comes to this power of two
// stays there: the next float is 256 away, and less than half is rounded off.
constexpr double kStall = 128.0 * (1 << 24);
static_assert(2 * kUniformEnd < kStall / (1 << 23),
              "kStall: an element is less than half the step of the floats");

struct Bounds {
  double low, high;
};

// Where the float sum of n elements >= 0 lies, if none of them goes through
// more than `chain` additions: |sum - exact| <= exact * k / (1 - k), where
// k = chain * 2^-24. From k = 1 on that says nothing. But where all n go one
// by one into a running sum, it cannot pass kStall; and for each power of two
// `end` it comes to `end`, or it stays below and no addition loses more than
// half the step of the floats there, end * 2^-25.
inline Bounds boundsOf(double exact, size_t n, size_t chain) {
  const double k = double(chain) / (1 << 24);
  Bounds bounds = {0.0, HUGE_VAL};
  if (k < 1.0) bounds.low = exact * (1 - k / (1 - k));
  if (k < 1.0) bounds.high = exact * (1 + k / (1 - k));
  if (chain < n) return bounds;
  bounds.high = std::min(bounds.high, kStall);
  for (double end = 1.0; end <= kStall; end *= 2.0) {
    const double lost = double(n) * end / (1 << 25);
    bounds.low = std::max(bounds.low, std::min(end, exact - lost));
  }
  return bounds;
}

struct CpuSums {
  double exact = 0.0;
  float sequential = 0.0f, pairwise = 0.0f;
};

// Pairwise: levels[b] keeps the sum of 2^b elements until the next 2^b are
// summed. No element goes through more than 1 + log2(n) additions.
inline CpuSums cpuSums(size_t n) {
  CpuSums sums;
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

inline void printSum(const char* label, double sum, double exact, size_t n,
                     size_t chain) {
  const Bounds in = boundsOf(exact, n, chain);
  if (!gate("accuracy-bounds", in.low <= sum && sum <= in.high,
            "%s: %.9g is not in %.9g to %.9g", label, sum, in.low, in.high)) {
    return;
  }
  std::printf("%-22s %14.2f %11.1e %11.1e %11.1e %13zu\n", label, sum,
              (sum - exact) / exact, (in.low - exact) / exact,
              (in.high - exact) / exact, chain);
}

inline void runAccuracy() {
  size_t n = kAccuracyElems, free = 0, total = 0;
  CUDA_CHECK(cudaMemGetInfo(&free, &total));
  while (n > 1 && 5 * n * sizeof(float) / 4 > free) n /= 2;
  DeviceArray<float> in(n), out(ceilDiv(n, kT));
  fill(in.data, n, kUniform);
  const CpuSums cpu = cpuSums(n);
  std::printf(
      "\nAccuracy: %zu floats, uniform in [0, %u); exact sum %.2f.\n"
      "The partial sums of v1 to v4 are added on the CPU, in double.\n\n"
      "%-22s %14s %11s %11s %11s %13s\n",
      n, kUniformEnd, cpu.exact, "row", "sum", "rel. error", "at least",
      "at most", "longest chain");
  printSum("CPU sequential float", cpu.sequential, cpu.exact, n, n);
  printSum("CPU pairwise float", cpu.pairwise, cpu.exact, n,
           size_t(1 + log2Of(std::int64_t(n))));
  for (const Row& row : kRows) {
    if (row.leaves == kCopy) continue;
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
    const size_t chain = size_t(row.chain) + (adds ? sumsOf(row, n) : 0);
    printSum(row.label, sum, cpu.exact, n, chain);
  }
  if (cpu.exact > kStall) {
    std::printf(
        "\nNo running float sum of these elements passes %.0f: the next float "
        "is\n%.0f away, and less than half of that is rounded off.\n",
        kStall, kStall / (1 << 23));
  }
}

int main() try {
  Device device;
  int code =
      openDevice(7, 5, reinterpret_cast<const void*>(copyFloats), &device);
  if (code == 0) code = runTable(device);
  if (code != 0) return code;
  runAccuracy();
  if (failures() > 0) {
    std::printf("\n%d checks FAILED.\n", failures());
    return 1;
  }
  std::printf("\nAll checks passed.\n");
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "FAILED: %s\n", e.what());
  return 1;
}
