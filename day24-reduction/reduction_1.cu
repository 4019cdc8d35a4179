// Day 24: parallel reduction, versions 0 to 4
// Question: why is the obvious sum slow, and what does each repair buy?
//
// Rows:
//   copy (ceiling)          copies the input, 16 bytes a thread: what the
//                           memory can do
//   v0 atomic global        every thread adds to one word of global memory
//   v0s atomic shared       a block adds to one word of shared memory, then
//                           one global atomic a block
//   v1 interleaved modulo   a tree in shared memory: thread t works where
//                           t % (2 * s) == 0, few lanes of every warp
//   v2 interleaved strided  the same tree, the working threads packed into
//                           the first warps: bank conflicts
//   v3 sequential           the stride halves from the top: packed threads
//                           and no bank conflicts
//   v4 two loads            each thread adds two elements on the way in
//   v3 + atomic             v3, then one global atomic a block: one float
//   v3 + shuffle + atomic   the last 32 values in registers, by shuffles
//   v4 + shuffle + atomic   two loads, shuffles, one atomic a block
//
// Not measured: the first launch, copies to the host, and what a second
// pass over the partial sums of v1 to v4 would cost (day 25).
//
// Build: nvcc -std=c++17 -O3 -arch=sm_75 -o reduction_1 reduction_1.cu
// Run:   ./reduction_1
// Verified: UNVERIFIED

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
constexpr int kElems = (1 << (kQuick ? 18 : 24)) - 611;

constexpr int kWarp = 32;   // lanes of a warp
constexpr int kBanks = 32;  // banks of shared memory, 4 bytes wide each

constexpr bool isPowerOfTwo(int x) { return x > 0 && (x & (x - 1)) == 0; }
constexpr int log2Of(size_t x) { return x > 1 ? 1 + log2Of(x / 2) : 0; }

static_assert(isPowerOfTwo(kThreadsPerBlock),
              "the trees halve the block until one value is left: "
              "kThreadsPerBlock must be a power of two");
static_assert(kThreadsPerBlock >= kWarp,
              "the shuffle tail needs all 32 lanes of one warp: "
              "kThreadsPerBlock must be at least 32");
static_assert(kThreadsPerBlock <= 1024,
              "no GPU runs a block of more than 1024 threads");
static_assert(kElems >= 1, "a grid of no blocks cannot be launched");
static_assert(kElems < (1 << 24),
              "a float counts exactly only up to 2^24: beyond it the sum of "
              "kElems ones could not show a lost or doubled element");

// ---- input: the same function fills the GPU and feeds the CPU reference ---

// kOnes: the sum counts the elements. kPosition: -2, -1, 1 or 2 by a hash of
// the index, so that wrong addresses give a wrong sum, while every partial
// sum is a small integer, exact in any order. kUniform: uniform in [0, 84).
enum class Data { kOnes, kPosition, kUniform };

// A uniform element is an integer below 84 * 2^17, times 2^-17. A double
// holds every sum of fewer than 2^29 of them exactly.
constexpr std::uint32_t kUniformEnd = 84;
constexpr int kUniformBits = 17;
static_assert((kUniformEnd << kUniformBits) <= (1u << 24),
              "every uniform element must be exact in a float");

__host__ __device__ inline float element(Data data, std::uint64_t i) {
  if (data == Data::kOnes) return 1.0f;
  std::uint64_t x = (i + 1) * 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ull;
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ull;
  const std::uint64_t hash = x >> 32;  // 32 bits
  if (data == Data::kPosition) {
    const float size = hash & 1 ? 1.0f : 2.0f;
    return hash & 2 ? size : -size;
  }
  const std::uint64_t end = kUniformEnd << kUniformBits;
  return float(hash * end >> 32) / float(1 << kUniformBits);
}

__global__ void fillInput(float* out, size_t n, Data data) {
  const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) out[i] = element(data, i);
}

// ---- shared-memory banks, counted ------------------------------------------

// v1, v2 and v3 build the same tree over a block with other threads. At each
// level a working thread loads sums[k] and sums[k + s]. Word w lies in bank
// w % 32; lanes of one warp that want different words of one bank are served
// one pass after another.
enum class Tree { kModulo, kStrided, kSequential };

struct BankPasses {
  int total = 0;  // of all loads of one block's tree
  int worst = 0;  // of one load of one warp; 1: no bank conflict
};

constexpr BankPasses bankPasses(Tree tree) {
  BankPasses passes;
  for (int s = 1; s < kThreadsPerBlock; s *= 2) {
    for (int warp = 0; warp < kThreadsPerBlock; warp += kWarp) {
      int lanes[kBanks] = {}, most = 0;  // working lanes a bank
      for (int tid = warp; tid < warp + kWarp; ++tid) {
        bool works = tid < s;
        int k = tid;
        if (tree == Tree::kModulo) works = tid % (2 * s) == 0;
        if (tree == Tree::kStrided) {
          k = 2 * s * tid;
          works = k < kThreadsPerBlock;
        }
        if (works) most = std::max(most, ++lanes[k % kBanks]);
      }
      passes.total += 2 * most;  // sums[k] and sums[k + s]: the same pattern
      passes.worst = std::max(passes.worst, most);
    }
  }
  return passes;
}

// ---- kernels --------------------------------------------------------------
// Every launch: kThreadsPerBlock threads a block, a power of two from 32 to
// 1024, and blocks enough that each element has its thread. `in` starts on a
// boundary of 128 bytes, so that a warp's 32 floats in a row are 4 sectors.

// Ceiling: the fastest plain way to read and write all bytes.
// One thread: 16 bytes; the first threads of the grid also copy the last
//   n % 4 floats.
// One warp: 512 bytes in a row, 16 sectors a request, every byte used.
// Launch: a block per 4 * kThreadsPerBlock floats; `in` and `out` on
//   boundaries of 16 bytes.
__global__ void copyFloats(const float* in, float* out, size_t n) {
  const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n / 4) {
    reinterpret_cast<float4*>(out)[i] = reinterpret_cast<const float4*>(in)[i];
  }
  if (i < n % 4) out[n / 4 * 4 + i] = in[n / 4 * 4 + i];
}

// v0: the obvious sum.
// One thread: loads a float and adds it to *out. atomicAdd leaves the order
//   of the additions open (relaxed), and a sum needs none. Nobody uses the
//   value it returns, so it compiles to a reduction (RED): no answer comes
//   back.
// One warp: 4 sectors for its load, then 32 additions to one word. The
//   compiler may not add them up first: float addition is not associative.
// Launch: *out is 0.
// snippet: atomic-global
__global__ void reduceAtomicGlobal(const float* in, float* out, size_t n) {
  const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(out, in[i]);
}
// end snippet

// v0s: what changed: the threads of a block meet in a word of their own, in
// shared memory. Only kElems / kThreadsPerBlock additions reach *out, and the
// words of different blocks do not wait for one another.
// One thread: loads a float and adds it to the block's word. Shared memory
//   has no float addition: it compiles to a loop of load, add and
//   compare-and-swap, again and again until no other lane came between.
// One warp: 4 sectors; 32 lanes want one word, and each round one lane gets
//   through.
// Launch: *out is 0.
// snippet: atomic-shared
__global__ void reduceAtomicShared(const float* in, float* out, size_t n) {
  __shared__ float sum;
  const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (threadIdx.x == 0) sum = 0.0f;
  __syncthreads();  // nobody adds before the word is 0
  if (i < n) atomicAdd(&sum, in[i]);
  __syncthreads();  // nobody reads before all have added
  if (threadIdx.x == 0) atomicAdd(out, sum);
}
// end snippet

// v1: what changed: a tree instead of a queue. log2(kThreadsPerBlock) levels,
// in each of which pairs are added at the same time; nobody waits for a word.
// One thread: loads a float into shared memory; at stride s it adds its
//   neighbour s words away where its number is a multiple of 2 * s. The
//   compiler does not know that 2 * s is a power of two: the modulo is an
//   integer division, some 20 instructions, at every level in every thread.
// One warp: 4 sectors. The lanes that work are scattered: at s = 1 every
//   second lane of every warp, at s = 16 one lane of every warp, yet every
//   warp goes to shared memory at each of these levels. No bank conflict.
// Launch: one partial sum a block; the sums are left to somebody else.
// snippet: v1-modulo
__global__ void reduceInterleavedModulo(const float* in, float* partials,
                                        size_t n) {
  __shared__ float sums[kThreadsPerBlock];
  const unsigned tid = threadIdx.x;
  const size_t i = size_t(blockIdx.x) * blockDim.x + tid;
  sums[tid] = i < n ? in[i] : 0.0f;
  __syncthreads();
  for (unsigned s = 1; s < blockDim.x; s *= 2) {
    if (tid % (2 * s) == 0) sums[tid] += sums[tid + s];
    __syncthreads();
  }
  if (tid == 0) partials[blockIdx.x] = sums[0];
}
// end snippet
static_assert(bankPasses(Tree::kModulo).worst == 1,
              "v1: the words of a warp lie within 32 in a row: no conflict");

// v2: what changed: the same pairs, but thread t takes the t-th pair. The
// working threads are neighbours, whole warps have nothing to do, and the
// division is gone.
// One thread: at stride s it works where 2 * s * tid is inside the block.
// One warp: 4 sectors. Its lanes load words 2 * s apart: with 256 threads up
//   to 8 lanes want one bank. Fewer warps with more passes each: all in all
//   exactly as many passes as v1, so what the packing wins the bank
//   conflicts take back.
// Launch: one partial sum a block.
// snippet: v2-strided
__global__ void reduceInterleavedStrided(const float* in, float* partials,
                                         size_t n) {
  __shared__ float sums[kThreadsPerBlock];
  const unsigned tid = threadIdx.x;
  const size_t i = size_t(blockIdx.x) * blockDim.x + tid;
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
static_assert(bankPasses(Tree::kStrided).worst == kThreadsPerBlock / kWarp,
              "v2: as many lanes meet in one bank as the block has warps");
static_assert(bankPasses(Tree::kStrided).total ==
                  bankPasses(Tree::kModulo).total,
              "v2: the conflicts cost what the packed threads save");

// v3: what changed: other pairs. The stride starts at half the block and
// halves; thread t adds word t + s to word t.
// One thread: at stride s it works where tid < s.
// One warp: 4 sectors. Its lanes load 32 words in a row: no bank conflict.
//   A warp works with all its lanes or not at all, down to s = 16; only
//   then has the last warp idle lanes.
// Launch: one partial sum a block.
// snippet: v3-sequential
__global__ void reduceSequential(const float* in, float* partials, size_t n) {
  __shared__ float sums[kThreadsPerBlock];
  const unsigned tid = threadIdx.x;
  const size_t i = size_t(blockIdx.x) * blockDim.x + tid;
  sums[tid] = i < n ? in[i] : 0.0f;
  __syncthreads();
  for (unsigned s = blockDim.x / 2; s > 0; s /= 2) {
    if (tid < s) sums[tid] += sums[tid + s];
    __syncthreads();
  }
  if (tid == 0) partials[blockIdx.x] = sums[0];
}
// end snippet
static_assert(bankPasses(Tree::kSequential).worst == 1,
              "v3: the words of a warp lie in a row: no conflict");
static_assert(bankPasses(Tree::kSequential).total <=
                  bankPasses(Tree::kModulo).total,
              "v3: packed threads without conflicts never cost more passes");

// v4: what changed: each thread adds two elements before the tree begins. In
// v3 half the threads load one float and never add; here every thread adds.
// Half the blocks, so half the trees and half the barriers for the same n.
// One thread: two loads, started before the first addition.
// One warp: 4 sectors for each of its two loads.
// Launch: a block per 2 * kThreadsPerBlock floats; one partial sum a block.
// snippet: v4-two-loads
__global__ void reduceSequentialTwoLoads(const float* in, float* partials,
                                         size_t n) {
  __shared__ float sums[kThreadsPerBlock];
  const unsigned tid = threadIdx.x;
  const size_t i = size_t(blockIdx.x) * (2 * blockDim.x) + tid;
  const size_t j = i + blockDim.x;
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
  const size_t i = size_t(blockIdx.x) * blockDim.x + tid;
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
// values, which one warp adds up in registers.
// One thread: the last five levels are five shuffles, without shared memory
//   and without the five barriers that all the other warps waited at too.
// One warp: 4 sectors. All 32 lanes of warp 0 take part in each shuffle, as
//   its mask says, also in a block of 32 threads.
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
  const size_t i = size_t(blockIdx.x) * blockDim.x + tid;
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
// loads of v4, so half the blocks and half the atomics.
// One thread, one warp: v4 on the way in, the shuffle tail on the way out.
// Launch: a block per 2 * kThreadsPerBlock floats; *out is 0.
__global__ void reduceFinalAtomic(const float* in, float* out, size_t n) {
  __shared__ float sums[kThreadsPerBlock];
  const unsigned tid = threadIdx.x;
  const size_t i = size_t(blockIdx.x) * (2 * blockDim.x) + tid;
  const size_t j = i + blockDim.x;
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

enum class Leaves { kCopy, kPartials, kTotal };

struct Row {
  const char* label;
  void (*kernel)(const float* in, float* out, size_t n);
  Leaves leaves;
  int perBlock;  // elements a block takes
  int perSum;    // elements in one partial sum, or in one atomic on *out
  int chain;     // most additions that one element goes through until then
};

constexpr int kT = kThreadsPerBlock;
constexpr int kTree = log2Of(kT);  // levels of a block's tree

// clang-format off
constexpr Row kRows[] = {
    {"copy (ceiling)", copyFloats, Leaves::kCopy, 4 * kT, 1, 0},
    {"v0 atomic global", reduceAtomicGlobal, Leaves::kTotal, kT, 1, 0},
    {"v0s atomic shared", reduceAtomicShared, Leaves::kTotal, kT, kT, kT},
    {"v1 interleaved modulo", reduceInterleavedModulo, Leaves::kPartials,
     kT, kT, kTree},
    {"v2 interleaved strided", reduceInterleavedStrided, Leaves::kPartials,
     kT, kT, kTree},
    {"v3 sequential", reduceSequential, Leaves::kPartials, kT, kT, kTree},
    {"v4 two loads", reduceSequentialTwoLoads, Leaves::kPartials,
     2 * kT, 2 * kT, 1 + kTree},
    {"v3 + atomic", reduceSequentialAtomic, Leaves::kTotal, kT, kT, kTree},
    {"v3 + shuffle + atomic", reduceShuffleAtomic, Leaves::kTotal,
     kT, kT, kTree},
    {"v4 + shuffle + atomic", reduceFinalAtomic, Leaves::kTotal,
     2 * kT, 2 * kT, 1 + kTree},
};
// clang-format on
constexpr int kRowCount = int(sizeof(kRows) / sizeof(kRows[0]));
constexpr int kCopyRow = 0, kFirstVersion = 1, kLastVersion = 6;  // v0 to v4
static_assert(kRows[kFirstVersion].kernel == reduceAtomicGlobal &&
                  kRows[kLastVersion].kernel == reduceSequentialTwoLoads,
              "the footer walks the ladder from v0 to v4");

inline size_t ceilDiv(size_t a, size_t b) { return (a + b - 1) / b; }

inline size_t sumsOf(const Row& row, size_t n) {
  return ceilDiv(n, size_t(row.perSum));
}

inline void launchRow(const Row& row, const float* d_in, float* d_out,
                      size_t n) {
  row.kernel<<<unsigned(ceilDiv(n, size_t(row.perBlock))), kThreadsPerBlock>>>(
      d_in, d_out, n);
}

inline void fill(float* d_out, size_t n, Data data) {
  fillInput<<<unsigned(ceilDiv(n, 256)), 256>>>(d_out, n, data);
  CUDA_CHECK(cudaGetLastError());
}

// ---- CPU reference --------------------------------------------------------

// In double: the sum of each run of kT and of 2 * kT elements, and of all.
struct Reference {
  std::vector<double> one, two;
  double total = 0.0;
  Reference(Data data, size_t n)
      : one(ceilDiv(n, kT), 0.0), two(ceilDiv(n, 2 * kT), 0.0) {
    for (size_t i = 0; i < n; ++i) one[i / kT] += double(element(data, i));
    for (size_t b = 0; b < one.size(); ++b) two[b / 2] += one[b];
    for (double sum : two) total += sum;
  }
};

// ---- checks ---------------------------------------------------------------

// Outputs start as poison, a NaN that no kernel here writes. So many words
// behind each output are watched, and so many behind each input are NaN.
constexpr std::uint32_t kPoison = 0xffffffffu;
constexpr size_t kGuard = 4 * kThreadsPerBlock;

// Compares `words` words at d_out with wanted(0), wanted(1), ..., and the
// kGuard words behind them with poison.
template <typename Wanted>
bool checkOutput(const char* label, const char* when, const float* d_out,
                 size_t words, Wanted wanted) {
  std::vector<float> got(words + kGuard);
  CUDA_CHECK(cudaMemcpy(got.data(), d_out, got.size() * sizeof(float),
                        cudaMemcpyDeviceToHost));
  size_t wrong = 0, first = 0;
  for (size_t w = words; w-- > 0;) {
    if (double(got[w]) == wanted(w)) continue;  // a NaN is wrong
    ++wrong;
    first = w;
  }
  const bool exact =
      gate("output-exact", wrong == 0,
           "%s, %s: %zu of %zu words wrong; word %zu is %.9g, not %.9g", label,
           when, wrong, words, first, double(got[first]), wanted(first));
  size_t written = 0;
  for (size_t w = words; w < got.size(); ++w) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &got[w], sizeof(bits));
    if (bits != kPoison) ++written;
  }
  const bool inBounds =
      gate("output-bounds", written == 0,
           "%s, %s: %zu words written behind the last, word %zu", label, when,
           written, words - 1);
  return exact && inBounds;
}

// ---- the main table -------------------------------------------------------

// Floats in the buffers; behind every copy of the input and of the copy
// row's output lie at least kGuard more.
struct Sizes {
  size_t stride, copies, outWords;
  explicit Sizes(const Device& device) {
    stride = (kElems / kGuard + 2) * kGuard;
    copies = kQuick ? 2 : copiesBeyondL2(device, stride * sizeof(float));
    outWords = std::max(copies * stride, kMaxLaunches + kGuard);
  }
};

struct Result {
  bool right = true;  // every check so far
  Timing timing;
  double gbs = 0.0;
};

inline const char* nameOf(Leaves leaves) {
  if (leaves == Leaves::kCopy) return "n floats";
  return leaves == Leaves::kPartials ? "partials" : "one float";
}

inline void printRow(const Device& device, const char* label,
                     const Result& result, double copyGBs, Leaves leaves) {
  char ofCopy[16] = "n/a", ofPeak[16] = "n/a";
  if (copyGBs > 0.0) {
    std::snprintf(ofCopy, sizeof(ofCopy), "%.1f%%",
                  100.0 * result.gbs / copyGBs);
  }
  if (device.peakGBs > 0.0) {
    std::snprintf(ofPeak, sizeof(ofPeak), "%.1f%%",
                  100.0 * result.gbs / device.peakGBs);
  }
  std::printf("%-22s %9.4f %7.1f%% %8.1f %8s %8s %9d  %s\n", label,
              result.timing.ms, 100.0 * result.timing.spread, result.gbs,
              ofCopy, ofPeak, result.timing.launches, nameOf(leaves));
}

// What the numbers of the table say, worked out from them.
inline void printFooter(const Result* results, const Result& memcpyResult) {
  const Result& copy = results[kCopyRow];
  if (copy.right && memcpyResult.right) {
    std::printf(
        "cudaMemcpyAsync, the same bytes: %.4f ms, %.1f GB/s. The copy row "
        "has %.1f%% of its GB/s.\n",
        memcpyResult.timing.ms, memcpyResult.gbs,
        100.0 * copy.gbs / memcpyResult.gbs);
  }
  for (int r = kCopyRow + 1; r < kRowCount; ++r) {
    if (copy.right && results[r].right && results[r].gbs > copy.gbs) {
      std::printf(
          "%s beats the copy: it only reads; the copy's reads and writes "
          "take turns.\n",
          kRows[r].label);
    }
  }

  // Each time against the one before. ">": that one was slower by more than
  // either spread; "<": faster by more; "~": neither.
  int last = 0, steps = 0, faster = 0;
  std::printf("\nTimes down the ladder:");
  for (int r = kFirstVersion; r <= kLastVersion; ++r) {
    if (!results[r].right) continue;
    const std::string label = kRows[r].label;
    const std::string name = label.substr(0, label.find(' '));
    if (last == 0) {
      std::printf(" %s", name.c_str());
    } else {
      const Timing &a = results[last].timing, &b = results[r].timing;
      const double factor = a.ms / b.ms;
      const double noise = 1.0 + std::max(a.spread, b.spread);
      const bool down = factor > noise, up = factor * noise < 1.0;
      std::printf(" %s %s (%.2fx)",
                  down ? ">"
                  : up ? "<"
                       : "~",
                  name.c_str(), factor);
      ++steps;
      faster += down;
    }
    last = r;
  }
  std::printf("\n%d of %d steps are faster by more than the spread.\n", faster,
              steps);

  const Result& v0 = results[kFirstVersion];
  if (v0.right) {
    const double msAnAtomic = v0.timing.ms / kElems;
    std::printf(
        "\nv0 does an atomic in %.2f ns. At that pace the atomics on one "
        "word of global memory take:\n",
        1e6 * msAnAtomic);
    for (int r = kFirstVersion + 1; r < kRowCount; ++r) {
      if (!results[r].right || kRows[r].leaves != Leaves::kTotal) continue;
      const size_t atomics = sumsOf(kRows[r], kElems);
      std::printf("  %-22s %8zu atomics %8.4f ms, the whole row %8.4f ms\n",
                  kRows[r].label, atomics, double(atomics) * msAnAtomic,
                  results[r].timing.ms);
    }
  }

  const BankPasses trees[] = {bankPasses(Tree::kModulo),
                              bankPasses(Tree::kStrided),
                              bankPasses(Tree::kSequential)};
  std::printf(
      "\nPasses through the banks for the loads of one block's tree, counted "
      "by the compiler:\n");
  for (int t = 0; t < 3; ++t) {
    std::printf("  v%d %4d, at worst %d for one load of one warp\n", t + 1,
                trees[t].total, trees[t].worst);
  }
}

inline int runTable(const Device& device) {
  const size_t n = kElems;
  const Sizes sizes(device);
  const size_t stride = sizes.stride, copies = sizes.copies;
  const size_t slack = size_t(16) << 20;  // what cudaMalloc rounds up
  const size_t bytes = (copies * stride + sizes.outWords) * sizeof(float);
  if (const int code = requireMemory(device, bytes + slack)) return code;
  DeviceArray<float> in(copies * stride), out(sizes.outWords);

  double plus = 0.0, minus = 0.0;
  for (size_t i = 0; i < n; ++i) {
    const double x = double(element(Data::kPosition, i));
    (x > 0.0 ? plus : minus) += x;
  }
  gate("position-data-exact", plus < (1 << 24) && -minus < (1 << 24),
       "parts %.0f and %.0f; a float is exact only up to 2^24", plus, minus);

  // Poison; the words that `launches` launches add to become 0.
  auto prepare = [&](const Row& row, size_t launches) {
    const size_t zeros = row.leaves == Leaves::kTotal ? launches : 0;
    CUDA_CHECK(cudaMemset(out.data, 0xff, sizes.outWords * sizeof(float)));
    CUDA_CHECK(cudaMemset(out.data, 0, zeros * sizeof(float)));
  };
  // Launch i reads copy i, and writes copy i or, where it adds, word i.
  auto source = [&](int i) { return in.data + size_t(i) % copies * stride; };
  auto target = [&](const Row& row, int i) {
    if (row.leaves == Leaves::kCopy) {
      return out.data + size_t(i) % copies * stride;
    }
    return row.leaves == Leaves::kTotal ? out.data + i : out.data;
  };
  // Checks what `launches` launches have left; prepare(row, zeros) before.
  auto check = [&](const Row& row, const char* when, Data data,
                   const Reference& reference, int launches, size_t zeros) {
    if (row.leaves == Leaves::kCopy) {
      return checkOutput(row.label, when, target(row, launches - 1), n,
                         [&](size_t i) { return double(element(data, i)); });
    }
    if (row.leaves == Leaves::kPartials) {
      const auto& sums = row.perSum == kT ? reference.one : reference.two;
      return checkOutput(row.label, when, out.data, sums.size(),
                         [&](size_t b) { return sums[b]; });
    }
    return checkOutput(row.label, when, out.data, zeros, [&](size_t w) {
      return w < size_t(launches) ? reference.total : 0.0;
    });
  };

  // Every row once on either data, before any clock.
  Result results[kRowCount];
  for (const Data data : {Data::kOnes, Data::kPosition}) {
    const Reference reference(data, n);
    CUDA_CHECK(cudaMemset(in.data, 0xff, copies * stride * sizeof(float)));
    for (size_t c = 0; c < copies; ++c) fill(in.data + c * stride, n, data);
    for (int r = 0; r < kRowCount; ++r) {
      prepare(kRows[r], 1);
      launchRow(kRows[r], source(0), target(kRows[r], 0), n);
      CUDA_CHECK(cudaGetLastError());
      CUDA_CHECK(cudaDeviceSynchronize());
      if (!check(kRows[r], data == Data::kOnes ? "ones" : "position data",
                 data, reference, 1, 1)) {
        results[r].right = false;
      }
    }
  }

  std::printf(
      "\n%zu floats, %d threads a block. Each launch reads the next of %zu "
      "copies.\n"
      "GB/s: every float read and every float left behind, once each.\n\n"
      "%-22s %9s %8s %8s %8s %8s %9s  %s\n",
      n, kThreadsPerBlock, copies, "row", "time ms", "spread", "GB/s",
      "of copy", "of peak", "launches", "leaves");
  const Reference reference(Data::kPosition, n);
  auto measure = [&](const Row& row, Result* result, auto launch) {
    prepare(row, kMaxLaunches);
    result->timing = timeKernel(launch);
    result->right = check(row, "after timing", Data::kPosition, reference,
                          result->timing.launches, kMaxLaunches);
    const size_t left = row.leaves == Leaves::kCopy       ? n
                        : row.leaves == Leaves::kPartials ? sumsOf(row, n)
                                                          : 1;
    result->gbs = double(n + left) * sizeof(float) / result->timing.ms / 1e6;
  };
  for (int r = 0; r < kRowCount; ++r) {
    const Row& row = kRows[r];
    if (!results[r].right) continue;  // a wrong row has no time
    measure(row, &results[r],
            [&](int i) { launchRow(row, source(i), target(row, i), n); });
    if (!results[r].right) continue;
    printRow(device, row.label, results[r],
             results[kCopyRow].right ? results[kCopyRow].gbs : 0.0,
             row.leaves);
  }
  Result memcpyResult;
  measure(kRows[kCopyRow], &memcpyResult, [&](int i) {
    CUDA_CHECK(cudaMemcpyAsync(target(kRows[kCopyRow], i), source(i),
                               n * sizeof(float), cudaMemcpyDeviceToDevice));
  });
  std::printf("\n");
  printFooter(results, memcpyResult);
  return 0;
}

// ---- accuracy -------------------------------------------------------------

constexpr size_t kAccuracyElems = kQuick ? 1000000 : 100000000;
static_assert(kAccuracyElems < (1u << 29),
              "the reference is exact: fewer than 2^29 multiples of 2^-17 "
              "below 84 have a sum that fits the 53 bits of a double");

// A running float sum of elements below 84 that reaches this power of two
// stays there: floats are 256 apart, and less than half of that is lost.
constexpr double kStall = 128.0 * (1 << 24);
static_assert(2 * kUniformEnd <= kStall / (1 << 23),
              "kStall: twice an element is less than the next float's step");

struct Bounds {
  double low, high;
};

// For elements >= 0, none of which goes through more than `chain` float
// additions: |sum - exact| <= exact * k / (1 - k), k = chain * 2^-24.
inline Bounds treeBounds(double exact, size_t chain) {
  const double k = double(chain) / (1 << 24);
  if (k >= 1.0) return {0.0, HUGE_VAL};  // then it says nothing
  return {exact * (1 - k / (1 - k)), exact * (1 + k / (1 - k))};
}

// For n elements added one by one to one running sum, in any order. It ends
// at `end` or above; or below, and then no addition lost more than half the
// step of the floats below `end`, a power of two: end * 2^-25.
inline Bounds runningBounds(double exact, size_t n) {
  Bounds bounds = treeBounds(exact, n);
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

// Pairwise: level b holds the sum of 2^b elements until its neighbour is
// complete; no element goes through more than 1 + log2(n) additions.
inline CpuSums cpuSums(size_t n) {
  CpuSums sums;
  float levels[32] = {};
  for (size_t i = 0; i < n; ++i) {
    const float x = element(Data::kUniform, i);
    sums.exact += double(x);
    sums.sequential += x;
    float pair = x;
    int b = 0;
    for (; i >> b & 1; ++b) pair += levels[b];
    levels[b] = pair;
  }
  for (int b = 0; b < 32; ++b) {
    if (n >> b & 1) sums.pairwise += levels[b];
  }
  return sums;
}

inline void printSum(const char* label, double sum, double exact,
                     Bounds bounds, size_t chain) {
  gate("accuracy-bounds", bounds.low <= sum && sum <= bounds.high,
       "%s: %.9g is not in %.9g to %.9g", label, sum, bounds.low, bounds.high);
  std::printf("%-22s %15.2f %11.2e %11.1e %11.1e %13zu\n", label, sum,
              (sum - exact) / exact, (bounds.low - exact) / exact,
              (bounds.high - exact) / exact, chain);
}

inline void runAccuracy() {
  size_t n = kAccuracyElems, free = 0, total = 0;
  CUDA_CHECK(cudaMemGetInfo(&free, &total));
  auto outWords = [&] { return ceilDiv(n, kT) + kGuard; };
  const size_t slack = size_t(16) << 20;
  while (n > 1 && (n + outWords()) * sizeof(float) + slack > free) n /= 2;
  DeviceArray<float> in(n), out(outWords());
  fill(in.data, n, Data::kUniform);
  const CpuSums cpu = cpuSums(n);

  std::printf(
      "\nAccuracy: %zu floats, uniform in [0, %u); exact sum %.2f.\n"
      "v1 to v4: the partial sums, added on the CPU in double.\n\n"
      "%-22s %15s %11s %11s %11s %13s\n",
      n, kUniformEnd, cpu.exact, "row", "sum", "rel. error", "at least",
      "at most", "longest chain");
  printSum("CPU sequential float", cpu.sequential, cpu.exact,
           runningBounds(cpu.exact, n), n);
  const size_t pairwise = size_t(1 + log2Of(n));
  printSum("CPU pairwise float", cpu.pairwise, cpu.exact,
           treeBounds(cpu.exact, pairwise), pairwise);
  for (const Row& row : kRows) {
    if (row.leaves == Leaves::kCopy) continue;
    const size_t words = row.leaves == Leaves::kTotal ? 1 : sumsOf(row, n);
    CUDA_CHECK(cudaMemset(out.data, 0xff, outWords() * sizeof(float)));
    if (row.leaves == Leaves::kTotal)
      CUDA_CHECK(cudaMemset(out.data, 0, sizeof(float)));
    launchRow(row, in.data, out.data, n);
    CUDA_CHECK(cudaGetLastError());
    std::vector<float> left(words);
    CUDA_CHECK(cudaMemcpy(left.data(), out.data, words * sizeof(float),
                          cudaMemcpyDeviceToHost));
    double sum = 0.0;
    for (const float word : left) sum += double(word);
    const size_t chain = size_t(row.chain) +
                         (row.leaves == Leaves::kTotal ? sumsOf(row, n) : 0);
    printSum(row.label, sum, cpu.exact,
             row.perSum == 1 ? runningBounds(cpu.exact, n)
                             : treeBounds(cpu.exact, chain),
             chain);
  }
  if (cpu.exact > kStall) {
    std::printf(
        "\nNo running float sum of these elements passes %.0f: floats are "
        "%.0f "
        "apart there, and adding\nless than half of that changes nothing. In "
        "a tree no sum is added to a much smaller one.\n",
        kStall, kStall / (1 << 23));
  }
}

int main() try {
  Device device;
  if (const int code = openDevice(
          7, 5, reinterpret_cast<const void*>(copyFloats), &device)) {
    return code;
  }
  if (const int code = runTable(device)) return code;
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
