// Day 25: parallel reduction, versions 5 to 10
// Question: a sum is bound by memory. How close to the card's streaming rate
//   can it get, what brings it there, and is the library better?
//
// Rows:
//   copy (ceiling)       16-byte copy, one float4 a thread: reads and writes
//   v4 two loads         day 24's last tree; its grid follows from n
//   v4c cascaded         the same tree behind a grid-stride loop, fixed grid
//   v5 shuffle tail      the tree stops at 64 values; one warp shuffles
//   v6 template          the block size is a template argument: no tree loop
//   v7 float4            16-byte loads; 0 to 3 floats left over at each end
//   v8 two launches      v7, then one block of v6 folds the partials
//   v8a atomic finish    v7, each block adds its partial atomically
//   v9 last block        v7, the block that finishes last folds the partials
//   v10 loads in flight  v9, several loads a thread before the first add, and
//                        a grid that is a whole number of waves
//   library              cub::DeviceReduce::Sum
//
// Not measured: transfers between host and device, the first launch, the
//   allocation of scratch memory (the library's included).
//
// Build: nvcc -std=c++17 -O3 -arch=sm_75 -o reduction_2 reduction_2.cu
//        -DLESSON_NO_CUB leaves the library row out and compiles faster,
//        -DLESSON_QUICK makes the inputs small, for compute-sanitizer.
// Run:   ./reduction_2
// Verified: UNVERIFIED

#include <cuda_profiler_api.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>
#ifndef LESSON_NO_CUB
#include <cub/device/device_reduce.cuh>
#endif

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

// ---- what a student edits -------------------------------------------------

constexpr std::int64_t kElems = kQuick ? 1 << 20 : 1 << 26;
constexpr int kThreadsPerBlock = 256;
constexpr int kBlocks = 1024;  // the fixed grid of v4c to v9
constexpr int kLoads = 4;      // v10: 16-byte loads a thread before an add

// The second table: n = 2^kGrowthFirst, every factor kGrowthStep of two up,
// to 2^kGrowthLast or as far as the memory of the card goes.
constexpr int kGrowthFirst = 16;
constexpr int kGrowthLast = kQuick ? 18 : 28;
constexpr int kGrowthStep = 2;
constexpr int kRounds = kQuick ? 1 : 3;  // the rows alternate, this often

// ---- what the compiler checks ---------------------------------------------

constexpr std::int64_t kExact = 1 << 24;  // floats hold every integer to here
constexpr std::int64_t kSpan = std::int64_t(kBlocks) * kThreadsPerBlock * 4;
// The check with ones runs over this many: above 2^24 a float counts in steps
// of 2, 4, ..., so each block's share must be a multiple of such a step.
constexpr std::int64_t kOnes =
    kElems <= kExact ? kElems : kElems - kElems % kSpan;

static_assert(kElems >= 1, "kElems: the tables divide by the bytes read");
static_assert((kThreadsPerBlock & (kThreadsPerBlock - 1)) == 0,
              "kThreadsPerBlock: a tree that halves needs a power of two");
static_assert(kThreadsPerBlock >= 64,
              "kThreadsPerBlock: the tail folds 64 values, two warps' worth");
static_assert(kThreadsPerBlock <= 1024,
              "kThreadsPerBlock: no GPU runs more than 1024 threads a block");
static_assert(kBlocks >= 1, "kBlocks: a grid has at least one block");
static_assert(kElems / kBlocks + 4 * kThreadsPerBlock < kExact,
              "kElems / kBlocks: a block's sum of ones must stay below 2^24");
static_assert(kOnes > 0,
              "kElems: above 2^24 it must fill the fixed grid once (kSpan)");
static_assert(kElems / (2 * kThreadsPerBlock) < (std::int64_t(1) << 31) - 1,
              "kElems: v4 launches a block for every 2 * kThreadsPerBlock");
static_assert(kLoads >= 1 && kLoads <= 16 && kLoads * kThreadsPerBlock <= 4096,
              "kLoads: each takes 4 registers of a thread; at most 16 loads a "
              "thread and 4096 a block, a quarter of an SM's registers");
static_assert(kGrowthFirst >= 2 && kGrowthFirst <= kGrowthLast &&
                  kGrowthLast <= 40 && kGrowthStep >= 1,
              "kGrowth...: sizes ascend, from one float4 up");
static_assert(sizeof(float4) == 16, "float4: one 16-byte access");

// ---- kernels, in the order of the ladder ----------------------------------
// Common to all: x holds n floats; every index is 64 bits wide before it is
// multiplied, so n may exceed 2^31. "Partials": one float a block.

// The ceiling.
// One thread: one 16-byte load, one 16-byte store.
// One warp: 512 bytes in a row, 16 sectors, both ways.
// Launch: n / 4 + n % 4 threads or more; both pointers on a boundary of 16
//   bytes (launchCopy refuses others).
__global__ void copyFloats(const float* x, std::int64_t n, float* y) {
  const std::int64_t i = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  const std::int64_t vectors = n / 4;
  if (i < vectors) {
    reinterpret_cast<float4*>(y)[i] = reinterpret_cast<const float4*>(x)[i];
  } else if (i < vectors + n % 4) {
    y[3 * vectors + i] = x[3 * vectors + i];  // = 4 * vectors + (i - vectors)
  }
}

// v4, where day 24 ended, at this size. Every block pays for its start, its
// tree and its barriers after only two loads a thread.
// One thread: two loads, one word of shared memory.
// One warp: 4 sectors a load; whole warps drop out of the tree until 32
//   values are left.
// Launch: a block for every 2 * blockDim.x elements; blockDim.x a power of
//   two, at most kThreadsPerBlock.
__device__ __forceinline__ float treeSum(float sum) {  // in thread 0
  __shared__ float values[kThreadsPerBlock];
  const unsigned tid = threadIdx.x;
  values[tid] = sum;
  __syncthreads();
  for (unsigned stride = blockDim.x / 2; stride > 0; stride /= 2) {
    if (tid < stride) values[tid] += values[tid + stride];
    __syncthreads();
  }
  return values[0];
}

__global__ void reduceSequentialTwoLoads(const float* x, std::int64_t n,
                                         float* partials) {
  const std::int64_t i =
      std::int64_t(blockIdx.x) * (2 * blockDim.x) + threadIdx.x;
  float sum = i < n ? x[i] : 0.0f;
  if (i + blockDim.x < n) sum += x[i + blockDim.x];
  sum = treeSum(sum);
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

// v4c changes the way in: a fixed grid walks over the input, so a tree is paid
// for once a block, however large n is.
// One thread: n / (threads of the grid) loads, summed in a register.
// One warp: as v4.
// Launch: any grid, of blocks as in v4.
__device__ __forceinline__ float sumStrided(const float* x, std::int64_t n) {
  const std::int64_t step = std::int64_t(gridDim.x) * blockDim.x;
  float sum = 0.0f;
  for (std::int64_t i = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
       i < n; i += step) {
    sum += x[i];
  }
  return sum;
}

__global__ void reduceCascaded(const float* x, std::int64_t n,
                               float* partials) {
  const float sum = treeSum(sumStrided(x, n));
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

constexpr unsigned kFullMask = 0xffffffffu;

// snippet: warp-reduce
// Sum over the 32 lanes of a warp, valid in lane 0. All 32 must call it: the
// mask names them, and _sync waits for them, for since compute capability 7.0
// the lanes of a warp need not move together.
__device__ __forceinline__ float warpReduceSum(float sum) {
  for (int offset = 16; offset > 0; offset /= 2) {
    sum += __shfl_down_sync(kFullMask, sum, offset);
  }
  return sum;
}
// end snippet

// v5 changes the end of the tree: one warp does the last six levels without a
// barrier. Old slides do so on `volatile` shared memory; that is undefined
// since the lanes of a warp may drift apart.
// One thread: as v4c.
// One warp: the first folds two values a lane and shuffles five times.
// Launch: as v4c; at least 64 threads a block.
__global__ void reduceShuffleTail(const float* x, std::int64_t n,
                                  float* partials) {
  __shared__ float values[kThreadsPerBlock];
  const unsigned tid = threadIdx.x;
  float sum = sumStrided(x, n);
  // snippet: v5-tail
  values[tid] = sum;
  __syncthreads();
  for (unsigned stride = blockDim.x / 2; stride > 32; stride /= 2) {
    if (tid < stride) values[tid] += values[tid + stride];
    __syncthreads();
  }
  if (tid < 32) {  // 64 values are left: two for each lane of the first warp
    sum = warpReduceSum(values[tid] + values[tid + 32]);
    if (tid == 0) partials[blockIdx.x] = sum;
  }
  // end snippet
}

// v6 changes what the compiler knows: the block size is a template argument,
// so the tree has no loop, only its levels.
// One thread, one warp: as v5.
// Launch: any grid, of exactly kThreads threads a block.
// snippet: v6-template
template <int kThreads>
__device__ __forceinline__ float blockReduceSum(float sum) {  // in thread 0
  __shared__ float values[kThreads];
  const int tid = int(threadIdx.x);
  values[tid] = sum;
  __syncthreads();
#pragma unroll
  for (int stride = kThreads / 2; stride > 32; stride /= 2) {
    if (tid < stride) values[tid] += values[tid + stride];
    __syncthreads();
  }
  return tid < 32 ? warpReduceSum(values[tid] + values[tid + 32]) : 0.0f;
}

template <int kThreads>
__global__ void reduceUnrolled(const float* x, std::int64_t n,
                               float* partials) {
  const float sum = blockReduceSum<kThreads>(sumStrided(x, n));
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}
// end snippet

// v7 changes the loads: 16 bytes each, a quarter as many. The floats before
// the first 16-byte boundary and after the last, 0 to 3, are left to block 0.
// One thread: n / (4 * threads of the grid) loads. How many of them it has
//   under way is left to the compiler.
// One warp: 512 bytes in a row, 16 sectors a load.
// Launch: as v6; x on any boundary of 4 bytes.
// snippet: v7-load
struct Vectors {       // n floats from x = head + 4 * count + tail
  const float4* body;  // on a 16-byte boundary
  std::int64_t count;  // float4s
  int head, tail;      // floats, 0 to 3 each
};

__device__ __forceinline__ Vectors splitVectors(const float* x,
                                                std::int64_t n) {
  const int past = int(reinterpret_cast<std::uintptr_t>(x) / 4 % 4);
  std::int64_t head = (4 - past) % 4;
  if (head > n) head = n;
  return {reinterpret_cast<const float4*>(x + head), (n - head) / 4, int(head),
          int((n - head) % 4)};
}

// The floats that no float4 covers, one a thread of one block.
__device__ __forceinline__ float sumLeftOver(const float* x, std::int64_t n,
                                             const Vectors& v) {
  float sum = 0.0f;
  if (int(threadIdx.x) < v.head) sum += x[threadIdx.x];
  if (int(threadIdx.x) < v.tail) sum += x[n - v.tail + threadIdx.x];
  return sum;
}

__device__ __forceinline__ float sumOf(float4 v) {
  return (v.x + v.y) + (v.z + v.w);
}

template <int kThreads>
__device__ __forceinline__ float sumVectors(const float* x, std::int64_t n) {
  const Vectors v = splitVectors(x, n);
  const std::int64_t step = std::int64_t(gridDim.x) * kThreads;
  float sum = blockIdx.x == 0 ? sumLeftOver(x, n, v) : 0.0f;
  for (std::int64_t i = std::int64_t(blockIdx.x) * kThreads + threadIdx.x;
       i < v.count; i += step) {
    sum += sumOf(v.body[i]);
  }
  return sum;
}
// end snippet

template <int kThreads>
__global__ void reduceVectorized(const float* x, std::int64_t n,
                                 float* partials) {
  const float sum = blockReduceSum<kThreads>(sumVectors<kThreads>(x, n));
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

// v8 (launchTwoLaunches, below the kernels) folds v7's partials with one
// block of v6: a second launch, whose start and end everybody waits for.

// v8a changes who folds: every block adds its partial to the result, in the
// order in which blocks finish, so rounding may differ from run to run.
// One thread: thread 0 of a block issues one atomic add.
// One warp: as v7.
// Launch: as v7; *result is 0.
// snippet: atomic-finish
template <int kThreads>
__global__ void reduceVectorizedAtomic(const float* x, std::int64_t n,
                                       float* result) {
  const float sum = blockReduceSum<kThreads>(sumVectors<kThreads>(x, n));
  if (threadIdx.x == 0) atomicAdd(result, sum);
}
// end snippet

// v9 changes who folds again: each block leaves its partial and takes a
// ticket; the one with the last ticket folds all partials in a fixed order,
// so the same input gives the same bits.
// One thread: thread 0 of a block stores, fences and takes the ticket.
// One warp: the first of the last block reads 32 partials at a time.
// Launch: as v7; *tickets is 0, and each launch leaves it so for the next.
// snippet: v9-last-block
// For the first warp of every block, with the block's sum in lane 0.
__device__ __forceinline__ void finishInLastBlock(float sum, float* partials,
                                                  unsigned* tickets,
                                                  float* result) {
  unsigned ticket = 0;
  if (threadIdx.x == 0) {
    partials[blockIdx.x] = sum;
    __threadfence();  // whoever sees the ticket also sees the partial
    ticket = atomicInc(tickets, gridDim.x - 1);  // the last one wraps to 0
  }
  ticket = __shfl_sync(kFullMask, ticket, 0);
  if (ticket != gridDim.x - 1) return;
  __threadfence();  // no partial is read before the ticket
  __syncwarp();
  sum = 0.0f;
  for (unsigned i = threadIdx.x; i < gridDim.x; i += 32) {
    sum += __ldcg(partials + i);  // from L2: another SM wrote it
  }
  sum = warpReduceSum(sum);
  if (threadIdx.x == 0) *result = sum;
}

template <int kThreads>
__global__ void reduceLastBlock(const float* x, std::int64_t n,
                                float* partials, unsigned* tickets,
                                float* result) {
  const float sum = blockReduceSum<kThreads>(sumVectors<kThreads>(x, n));
  if (threadIdx.x < 32) finishInLastBlock(sum, partials, tickets, result);
}
// end snippet

// v10 changes how much is under way: independent loads, all issued before the
// first add, on every SM to the end. One guard covers a whole tile; with a
// guard on each load the compiler would not keep the loads together. __ldcs:
// each word is read once, so evict it first.
// One thread: kPerThread loads of 16 bytes in flight.
// One warp: kPerThread * 512 bytes in flight.
// Launch: as v9; as many blocks as are resident at once, or fewer where n is
//   small (launchInFlight). A fraction of a wave would leave SMs idle.
// snippet: v10-in-flight
template <int kThreads, int kPerThread>
__global__ void reduceInFlight(const float* x, std::int64_t n, float* partials,
                               unsigned* tickets, float* result) {
  constexpr int kTile = kThreads * kPerThread;  // float4s
  const Vectors v = splitVectors(x, n);
  const std::int64_t tiles = v.count / kTile;
  float sum = 0.0f;
#pragma unroll 1
  for (std::int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const float4* from = v.body + tile * kTile + threadIdx.x;
    float4 values[kPerThread];
#pragma unroll
    for (int k = 0; k < kPerThread; ++k) {
      values[k] = __ldcs(from + k * kThreads);
    }
#pragma unroll
    for (int k = 0; k < kPerThread; ++k) sum += sumOf(values[k]);
  }
  // Less than a tile is left: the last block, which has the fewest tiles.
  if (blockIdx.x == gridDim.x - 1) {
#pragma unroll 1
    for (std::int64_t i = tiles * kTile + threadIdx.x; i < v.count;
         i += kThreads) {
      sum += sumOf(v.body[i]);
    }
    sum += sumLeftOver(x, n, v);
  }
  sum = blockReduceSum<kThreads>(sum);
  if (threadIdx.x < 32) finishInLastBlock(sum, partials, tickets, result);
}
// end snippet

// ---- input and CPU reference ----------------------------------------------

// Ones: one element dropped or read twice moves the sum by exactly one.
// Position data: -2, -1, 1 or 2 by a hash of the index, so that the right
// count from the wrong addresses fails too. A sum of m of these, chosen
// without looking at them, strays from 0 by about 1.6 * sqrt(m): below 2^24
// by far for every m here, so each partial sum is an exact integer, whatever
// the order. Fractions: rounded in every addition, so the order shows.
enum class Pattern { ones, position, fractions };

__host__ __device__ inline float valueAt(Pattern pattern, std::int64_t i) {
  if (pattern == Pattern::ones) return 1.0f;
  std::uint32_t h = std::uint32_t(i) * 0x9e3779b1u +
                    std::uint32_t(std::uint64_t(i) >> 32) * 0x632be5abu;
  h = (h ^ (h >> 15)) * 0x2545f491u;
  h = (h ^ (h >> 13)) * 0xd1342543u;
  if (pattern == Pattern::fractions) return float(h >> 8) / float(kExact);
  const int v = int(h >> 30) - 2;  // -2, -1, 0, 1
  return float(v + (v >= 0));
}

// Fills copy blockIdx.y, n floats; the rest of its stride keeps its NaNs.
__global__ void fillInput(float* x, std::int64_t n, std::int64_t stride,
                          Pattern pattern) {
  const std::int64_t step = std::int64_t(gridDim.x) * blockDim.x;
  for (std::int64_t i = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
       i < n; i += step) {
    x[blockIdx.y * stride + i] = valueAt(pattern, i);
  }
}

// Counts the i < n with x[i] != y[i]; NaN differs from everything.
__global__ void countDifferences(const float* x, const float* y,
                                 std::int64_t n, unsigned long long* count) {
  const std::int64_t step = std::int64_t(gridDim.x) * blockDim.x;
  for (std::int64_t i = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
       i < n; i += step) {
    if (!(x[i] == y[i])) atomicAdd(count, 1ull);
  }
}

// The reference: elements first to last - 1 of a pattern, added in double.
double sumCpu(Pattern pattern, std::int64_t first, std::int64_t last) {
  double sums[4] = {};  // four chains, or the adder's latency would show
  std::int64_t i = first;
  for (; i + 4 <= last; i += 4) {
    for (int k = 0; k < 4; ++k) sums[k] += valueAt(pattern, i + k);
  }
  for (; i < last; ++i) sums[0] += valueAt(pattern, i);
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// Total of n position values. Goes on from the largest n asked for so far.
double positionTotal(std::int64_t n) {
  static std::int64_t known = 0;
  static double total = 0.0;
  if (n < known) return sumCpu(Pattern::position, 0, n);
  total += sumCpu(Pattern::position, known, n);
  known = n;
  gate("position-data", total != 0.0 && std::abs(total) < kExact / 16,
       "the total of %lld values is %.1f", static_cast<long long>(n), total);
  return total;
}

// ---- launches: how each row is started ------------------------------------

struct Work {           // what a row may use beside its input and output
  float* partials;      // one a block of the fixed grid or of the wave
  unsigned* tickets;    // one counter, 0 between launches
  void* libraryTemp;    // the library's scratch memory
  size_t libraryBytes;  // and its size
  int wave;             // blocks of v10 that are resident at once
  int partialCount;     // room in partials
};

constexpr std::int64_t divideUp(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

// Each starts its row over x[0, n) and returns how many floats it leaves in
// out. Nothing is allocated and nothing waits.
using Launch = std::int64_t (*)(const Work&, const float* x, std::int64_t n,
                                float* out);

unsigned gridOf(std::int64_t blocks) {
  return unsigned(std::max<std::int64_t>(blocks, 1));
}

std::int64_t launchCopy(const Work&, const float* x, std::int64_t n,
                        float* out) {
  if ((reinterpret_cast<std::uintptr_t>(x) |
       reinterpret_cast<std::uintptr_t>(out)) %
          sizeof(float4) !=
      0) {
    throw std::invalid_argument("copyFloats needs 16-byte aligned pointers");
  }
  copyFloats<<<gridOf(divideUp(n / 4 + n % 4, kThreadsPerBlock)),
               kThreadsPerBlock>>>(x, n, out);
  return n;
}

std::int64_t launchTwoLoads(const Work&, const float* x, std::int64_t n,
                            float* out) {
  const unsigned grid = gridOf(divideUp(n, 2 * kThreadsPerBlock));
  reduceSequentialTwoLoads<<<grid, kThreadsPerBlock>>>(x, n, out);
  return grid;
}

template <void (*kKernel)(const float*, std::int64_t, float*)>
std::int64_t launchFixedGrid(const Work&, const float* x, std::int64_t n,
                             float* out) {
  kKernel<<<kBlocks, kThreadsPerBlock>>>(x, n, out);
  return kBlocks;
}

// snippet: v8-two-passes
std::int64_t launchTwoLaunches(const Work& work, const float* x,
                               std::int64_t n, float* out) {
  constexpr int kThreads = kThreadsPerBlock;
  reduceVectorized<kThreads><<<kBlocks, kThreads>>>(x, n, work.partials);
  reduceUnrolled<kThreads><<<1, kThreads>>>(work.partials, kBlocks, out);
  return 1;
}
// end snippet

std::int64_t launchAtomic(const Work&, const float* x, std::int64_t n,
                          float* out) {
  reduceVectorizedAtomic<kThreadsPerBlock>
      <<<kBlocks, kThreadsPerBlock>>>(x, n, out);
  return 1;
}

std::int64_t launchLastBlock(const Work& work, const float* x, std::int64_t n,
                             float* out) {
  reduceLastBlock<kThreadsPerBlock>
      <<<kBlocks, kThreadsPerBlock>>>(x, n, work.partials, work.tickets, out);
  return 1;
}

std::int64_t launchInFlight(const Work& work, const float* x, std::int64_t n,
                            float* out) {
  constexpr int kThreads = kThreadsPerBlock;
  const unsigned grid = gridOf(
      std::min<std::int64_t>(work.wave, divideUp(n / 4, kThreads * kLoads)));
  reduceInFlight<kThreads, kLoads>
      <<<grid, kThreads>>>(x, n, work.partials, work.tickets, out);
  return 1;
}

#ifdef LESSON_NO_CUB
size_t libraryBytes(std::int64_t) { return 0; }
#else
// The scratch memory that the library wants for n floats.
size_t libraryBytes(std::int64_t n) {
  size_t bytes = 0;
  CUDA_CHECK(cub::DeviceReduce::Sum(nullptr, bytes,
                                    static_cast<const float*>(nullptr),
                                    static_cast<float*>(nullptr), n));
  return bytes;
}

std::int64_t launchLibrary(const Work& work, const float* x, std::int64_t n,
                           float* out) {
  // snippet: library-call
  size_t bytes = work.libraryBytes;
  CUDA_CHECK(cub::DeviceReduce::Sum(work.libraryTemp, bytes, x, out, n));
  // end snippet
  return 1;
}
#endif

// ---- the table of rows ----------------------------------------------------

// What a row leaves in out. `added`: one float, added to what out holds. Only
// `total` rows promise the same bits in every launch, and stand in the second
// table.
enum class Leaves { copy, partials, total, added };

struct Row {
  const char* label;
  Leaves leaves;
  Launch launch;
  int resetByte() const { return leaves == Leaves::added ? 0 : 0xff; }
  bool oneFloat() const { return leaves >= Leaves::total; }
};

constexpr Row kRows[] = {
    {"copy (ceiling)", Leaves::copy, launchCopy},
    {"v4 two loads", Leaves::partials, launchTwoLoads},
    {"v4c cascaded", Leaves::partials, launchFixedGrid<reduceCascaded>},
    {"v5 shuffle tail", Leaves::partials, launchFixedGrid<reduceShuffleTail>},
    {"v6 template", Leaves::partials,
     launchFixedGrid<reduceUnrolled<kThreadsPerBlock>>},
    {"v7 float4", Leaves::partials,
     launchFixedGrid<reduceVectorized<kThreadsPerBlock>>},
    {"v8 two launches", Leaves::total, launchTwoLaunches},
    {"v8a atomic finish", Leaves::added, launchAtomic},
    {"v9 last block", Leaves::total, launchLastBlock},
    {"v10 loads in flight", Leaves::total, launchInFlight},
#ifndef LESSON_NO_CUB
    {"library", Leaves::total, launchLibrary},
#endif
};
constexpr int kRowCount = int(std::size(kRows));

// ---- checks ---------------------------------------------------------------

constexpr std::int64_t kPad = 1024;  // floats of poison behind a buffer
constexpr std::int64_t kHuge = (std::int64_t(1) << 31) + 5;
constexpr size_t kSpareBytes = size_t(64) << 20;  // left to the driver

size_t bytesOf(std::int64_t floats) { return size_t(floats) * sizeof(float); }

// Copies of an input of n floats, `stride` apart, NaN between them.
struct Input {
  const float* data;
  std::int64_t n, stride;
  int copies;
  const float* copy(int i) const { return data + (i % copies) * stride; }
};

std::int64_t strideOf(std::int64_t n) {
  return divideUp(n, kPad) * kPad + kPad;
}

std::int64_t inputFloats(const Device& device, std::int64_t n) {
  return strideOf(n) * copiesBeyondL2(device, bytesOf(n));
}

// Floats of output: n, or one a block, or one a launch. The last kPad of
// them belong to nobody and must stay as they were.
std::int64_t outFloats(const Row& row, std::int64_t n) {
  if (row.leaves == Leaves::copy) return n + kPad;
  if (row.oneFloat()) return kMaxLaunches + kPad;
  return kPad +
         std::max<std::int64_t>(kBlocks, divideUp(n, 2 * kThreadsPerBlock));
}

Input fill(float* x, std::int64_t n, int copies, Pattern pattern) {
  const Input input = {x, n, strideOf(n), copies};
  CUDA_CHECK(cudaMemset(x, 0xff, bytesOf(copies * input.stride)));  // NaN
  fillInput<<<dim3(kBlocks, unsigned(copies)), kThreadsPerBlock>>>(
      x, n, input.stride, pattern);
  CUDA_CHECK(cudaGetLastError());
  return input;
}

std::vector<float> readBack(const float* d_x, std::int64_t n) {
  std::vector<float> h_x(static_cast<size_t>(n));
  CUDA_CHECK(cudaMemcpy(h_x.data(), d_x, bytesOf(n), cudaMemcpyDeviceToHost));
  return h_x;
}

// Whether out[first, last) is still as cudaMemset left it.
bool untouched(const float* out, std::int64_t first, std::int64_t last,
               int resetByte) {
  const std::vector<float> words = readBack(out + first, last - first);
  const std::vector<unsigned char> reset(
      bytesOf(last - first), static_cast<unsigned char>(resetByte));
  return std::memcmp(words.data(), reset.data(), reset.size()) == 0;
}

// The sum of what a row left in out[0, left). For the copy: `want` where
// every element equals its source, NaN otherwise.
double totalOf(const Row& row, const float* x, const float* out,
               std::int64_t left, double want) {
  double total = 0.0;
  if (row.leaves == Leaves::copy) {
    DeviceArray<unsigned long long> d_count(1);
    unsigned long long count = 0;
    CUDA_CHECK(cudaMemset(d_count.data, 0, sizeof(count)));
    countDifferences<<<kBlocks, kThreadsPerBlock>>>(x, out, left,
                                                    d_count.data);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaMemcpy(&count, d_count.data, sizeof(count),
                          cudaMemcpyDeviceToHost));
    total = count == 0 ? want : std::nan("");
  } else {
    for (float value : readBack(out, left)) total += value;
  }
  return total;
}

// Runs a row once, untimed, over x[0, n) on poisoned memory. Returns whether
// it left `want` in out and nothing behind.
bool runsRight(const Row& row, const Work& work, const float* x,
               std::int64_t n, float* out, double want) {
  const std::int64_t room = outFloats(row, n);
  CUDA_CHECK(cudaMemset(out, row.resetByte(), bytesOf(room)));
  CUDA_CHECK(cudaMemset(work.partials, 0xff, bytesOf(work.partialCount)));
  const std::int64_t left = row.launch(work, x, n, out);
  CUDA_CHECK(cudaGetLastError());
  CUDA_CHECK(cudaDeviceSynchronize());
  const double got = totalOf(row, x, out, left, want);
  const bool right = gate("total", got == want, "%s, n = %lld: %.1f, not %.1f",
                          row.label, static_cast<long long>(n), got, want);
  return gate("nothing-behind", untouched(out, left, room, row.resetByte()),
              "%s, n = %lld wrote behind its output", row.label,
              static_cast<long long>(n)) &&
         right;
}

// Times a row; checks what the timed launches left. Where a row leaves one
// float, launch i leaves it in out[i].
Timing timeRow(const Row& row, const Work& work, const Input& input,
               float* out, double want) {
  const bool one = row.oneFloat();
  const std::int64_t room = outFloats(row, input.n);
  CUDA_CHECK(cudaMemset(out, row.resetByte(), bytesOf(room)));
  std::int64_t left = 0;
  const Timing timing = timeKernel([&](int i) {
    left = row.launch(work, input.copy(i), input.n, one ? out + i : out);
  });
  int wrong = 0;
  if (one) {
    left = timing.launches;
    for (float total : readBack(out, left)) wrong += !(total == want);
  } else {
    wrong = !(totalOf(row, input.data, out, left, want) == want);
  }
  gate("timed-total", wrong == 0, "%s: %d totals are wrong", row.label, wrong);
  gate("nothing-behind", untouched(out, left, room, row.resetByte()),
       "%s wrote behind its output while it was timed", row.label);
  return timing;
}

// A rate as a share of a ceiling, 7 columns wide; n/a where there is none.
std::string percent(double rate, double ceiling) {
  char text[16];
  std::snprintf(text, sizeof(text), "%6.1f%%", 100 * rate / ceiling);
  return ceiling > 0.0 ? text : "    n/a";
}

// ---- first table: the ladder ----------------------------------------------

void printLadder(const Device& device, const Work& work, float* pool,
                 float* out) {
  const double bytes = double(bytesOf(kElems));
  const int copies = copiesBeyondL2(device, bytesOf(kElems));
  bool right[kRowCount];
  Input input = fill(pool, kOnes, 1, Pattern::ones);
  for (int r = 0; r < kRowCount; ++r) {
    right[r] = runsRight(kRows[r], work, input.data, kOnes, out, kOnes);
  }
  input = fill(pool, kElems, copies, Pattern::position);
  const double want = positionTotal(kElems);
  CUDA_CHECK(cudaProfilerStart());  // a profiler records these launches
  for (int r = 0; r < kRowCount; ++r) {
    right[r] &= runsRight(kRows[r], work, input.data, kElems, out, want);
  }
  CUDA_CHECK(cudaProfilerStop());

  std::printf(
      "\n%lld floats (%.0f MB), %d copies in turn; %d threads a block;\n"
      "v4c to v9 have %d blocks, v10 up to %d\n\n"
      "%-20s %9s %7s %7s %7s %7s  leaves\n",
      static_cast<long long>(kElems), bytes / 1e6, copies, kThreadsPerBlock,
      kBlocks, work.wave, "row", "ms", "spread", "GB/s", "% copy", "% peak");
  int printed = 0;
  double copyRate = 0.0, bestRate = 0.0;
  std::string noGain;  // rows that the one above beats, or noise hides
  Timing above;
  for (int r = 0; r < kRowCount; ++r) {
    if (!right[r]) continue;  // a wrong row has no time
    const Row& row = kRows[r];
    const bool isCopy = row.leaves == Leaves::copy;
    const Timing timing = timeRow(row, work, input, out, want);
    const double rate = (isCopy ? 2 : 1) * bytes / (timing.ms * 1e6);
    if (isCopy) copyRate = rate;
    bestRate = std::max(bestRate, rate);
    const double noise = std::max(timing.spread, above.spread);
    if (row.label[0] == 'v' && above.ms > 0.0 &&
        !(timing.ms < above.ms * (1 - noise))) {
      noGain += std::string(noGain.empty() ? " " : ", ") + row.label;
    }
    if (!isCopy) above = timing;
    const char* const leaves[] = {"n floats", "partials", "one float",
                                  "one float"};
    std::printf("%-20s %9.4f %6.1f%% %7.0f %s %s  %s\n", row.label, timing.ms,
                100 * timing.spread, rate, percent(rate, copyRate).c_str(),
                percent(rate, device.peakGBs).c_str(),
                leaves[int(row.leaves)]);
    ++printed;
  }
  gate("rows-printed", printed == kRowCount, "%d of %d", printed, kRowCount);
#ifdef LESSON_NO_CUB
  std::printf("LESSON_NO_CUB: built without the library row.\n");
#endif

  const Timing driver = timeKernel([&](int i) {
    CUDA_CHECK(cudaMemcpyAsync(out, input.copy(i), bytesOf(kElems),
                               cudaMemcpyDeviceToDevice));
  });
  const double driverRate = 2 * bytes / (driver.ms * 1e6);
  std::printf(
      "\nGB/s counts 4n bytes read, and for the copy 4n written as well.\n"
      "cudaMemcpyAsync of the same bytes: %.4f ms, %.0f GB/s; the copy row\n"
      "reaches %.2f of it.\n",
      driver.ms, driverRate, copyRate / driverRate);
  if (bestRate > copyRate) {
    std::printf(
        "Rows above 100 %% of copy only read; half of the copy's bytes are\n"
        "writes. Their ceiling is the peak.\n");
  }
  std::printf("Not faster than the row above by more than the spread:%s.\n",
              noGain.empty() ? " none" : noGain.c_str());
}

// The same fractions many times: does a row always leave the same bits?
void printRepeats(const Work& work, float* pool, float* out) {
  constexpr int kRepeats = 100;
  const Input input = fill(pool, kElems, 1, Pattern::fractions);
  std::printf("\nDifferent totals in %d launches over the same fractions:\n",
              kRepeats);
  for (const Row& row : kRows) {
    if (!row.oneFloat()) continue;
    CUDA_CHECK(cudaMemset(out, row.resetByte(), bytesOf(kRepeats)));
    for (int i = 0; i < kRepeats; ++i) {
      row.launch(work, input.data, kElems, out + i);
    }
    CUDA_CHECK(cudaGetLastError());
    std::vector<float> totals = readBack(out, kRepeats);
    std::sort(totals.begin(), totals.end());
    const int distinct =
        int(std::unique(totals.begin(), totals.end()) - totals.begin());
    std::printf("%-20s %d\n", row.label, distinct);
    gate("same-bits", row.leaves == Leaves::added || distinct == 1,
         "%s left %d different totals", row.label, distinct);
  }
}

// ---- second table: how it grows -------------------------------------------

void printGrowth(const Device& device, const Work& work, float* pool,
                 float* out, int last) {
  std::printf("\nHow it grows: ms and GB/s, median of %d alternating rounds\n",
              kRounds);
  std::printf("%-5s", "n");
  for (const Row& row : kRows) {
    const int width = int(std::strcspn(row.label, " "));
    if (row.leaves != Leaves::total) continue;
    std::printf(" %9.*s   GB/s", width, row.label);
  }
  std::printf("  spread library/v10\n");
  std::vector<double> v10Ms, v10Rate;  // one a line of the table
  for (int e = kGrowthFirst; e <= last; e += kGrowthStep) {
    const std::int64_t n = std::int64_t(1) << e;
    const double bytes = double(bytesOf(n));
    const Input input =
        fill(pool, n, copiesBeyondL2(device, bytesOf(n)), Pattern::position);
    const double want = positionTotal(n);
    for (const Row& row : kRows) {
      if (row.leaves == Leaves::total &&
          !runsRight(row, work, input.data, n, out, want)) {
        return;
      }
    }
    std::vector<double> ms[kRowCount];
    for (int round = 0; round < kRounds; ++round) {
      for (int r = 0; r < kRowCount; ++r) {
        if (kRows[r].leaves != Leaves::total) continue;
        ms[r].push_back(timeRow(kRows[r], work, input, out, want).ms);
      }
    }
    std::printf("2^%d%s", e, bytesOf(n) <= device.l2Bytes ? "*" : " ");
    double spread = 0.0, median = 0.0;
    for (int r = 0; r < kRowCount; ++r) {
      if (kRows[r].leaves != Leaves::total) continue;
      std::sort(ms[r].begin(), ms[r].end());
      median = ms[r][kRounds / 2];
      spread = std::max(spread, (ms[r].back() - ms[r].front()) / median);
      std::printf(" %9.4f %6.0f", median, bytes / (median * 1e6));
      if (kRows[r].launch == launchInFlight) v10Ms.push_back(median);
    }
    std::printf(" %6.1f%%", 100 * spread);
#ifndef LESSON_NO_CUB
    std::printf(" %11.2f", median / v10Ms.back());  // the last row's
#endif
    std::printf("\n");
    v10Rate.push_back(bytes / (v10Ms.back() * 1e6));
  }
  // The knee: from where the launch sets the time to where memory does.
  size_t launch = 0, memory = v10Ms.size() - 1;
  const double best = *std::max_element(v10Rate.begin(), v10Rate.end());
  while (launch < memory && v10Ms[launch + 1] < 2 * v10Ms[0]) ++launch;
  while (memory > 0 && v10Rate[memory - 1] >= 0.8 * best) --memory;
  std::printf(
      "* n floats fit in L2; the copies in turn keep them out of it.\n"
      "v10: up to 2^%d the launch sets the time (less than twice that of\n"
      "2^%d), from 2^%d on memory does (at least 80 %% of its best rate).\n",
      kGrowthFirst + int(launch) * kGrowthStep, kGrowthFirst,
      kGrowthFirst + int(memory) * kGrowthStep);
}

// ---- third part: awkward inputs, checked and not timed --------------------

void checkAwkward(const Work& work) {
  constexpr std::int64_t kMi = 1 << 20;
  const std::int64_t lengths[] = {
      0, 1, 2, 3, 31, 32, 33, 1023, 1025, kMi - 1, kMi + 1, kMi + 2, kMi + 3};
  DeviceArray<float> x(size_t(strideOf(kMi + 3) + 1));
  DeviceArray<float> out(size_t(kMi + 3 + kMaxLaunches + kPad));
  int runs = 0, right = 0, refused = 0;
  for (const std::int64_t n : lengths) {
    for (const Pattern pattern : {Pattern::ones, Pattern::position}) {
      for (int offset = 0; offset < 2; ++offset) {  // floats past the base
        CUDA_CHECK(cudaMemset(x.data, 0xff, sizeof(float)));
        const Input input = fill(x.data + offset, n, 1, pattern);
        const double want = sumCpu(pattern, 0, n);
        for (const Row& row : kRows) {
          ++runs;
          try {
            right += runsRight(row, work, input.data, n, out.data, want);
          } catch (const std::invalid_argument&) {
            refused += offset == 1 && row.leaves == Leaves::copy;
          }
        }
      }
    }
  }
  const int misaligned = 2 * int(std::size(lengths));
  gate("awkward-inputs", right == runs - misaligned, "%d right of %d", right,
       runs - misaligned);
  gate("misaligned-copy-refused", refused == misaligned, "%d refused of %d",
       refused, misaligned);
  std::printf(
      "\nAwkward inputs, not timed: %d lengths from 0 to 2^20 + 3, ones and\n"
      "position data, an aligned base and one 4 bytes past it: %d runs, %d\n"
      "right, %d refused by name (the copy, misaligned).\n",
      int(std::size(lengths)), runs, right, refused);
}

// More elements than a 32-bit index reaches, where the memory is there.
void checkHuge(const Work& work) {
  size_t free = 0, total = 0;
  CUDA_CHECK(cudaMemGetInfo(&free, &total));
  const size_t need = bytesOf(strideOf(kHuge) + outFloats(kRows[0], kHuge));
  if (kQuick || need + kSpareBytes > free) {
    std::printf("n = 2^31 + 5 left out: %s (needs %.1f GB, %.1f GB free).\n",
                kQuick ? "LESSON_QUICK" : "not enough memory",
                double(need) / 1e9, double(free) / 1e9);
    return;
  }
  DeviceArray<float> x(size_t(strideOf(kHuge)));
  DeviceArray<float> out(size_t(outFloats(kRows[0], kHuge)));
  const Input input = fill(x.data, kHuge, 1, Pattern::position);
  const double want = positionTotal(kHuge);
  int right = 0;
  for (const Row& row : kRows) {
    right += runsRight(row, work, input.data, kHuge, out.data, want);
  }
  gate("index-64-bit", right == kRowCount, "%d rows of %d are right", right,
       kRowCount);
  std::printf("n = 2^31 + 5: %d of %d rows are right.\n", right, kRowCount);
}

int main() try {
  Device device;
  int code =
      openDevice(7, 5, reinterpret_cast<const void*>(&copyFloats), &device);
  if (code != 0) return code;

  Work work = {};
  int perSm = 0;
  CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
      &perSm, reduceInFlight<kThreadsPerBlock, kLoads>, kThreadsPerBlock, 0));
  gate("wave", perSm > 0, "no block of v10 fits on an SM");
  work.wave = std::max(perSm, 1) * device.sms;
  work.partialCount = std::max(kBlocks, work.wave);
  for (const std::int64_t n : {kElems, kHuge}) {
    work.libraryBytes = std::max(work.libraryBytes, libraryBytes(n));
  }

  // One pool holds every input in turn: that of the first table, and those
  // of the second as far as the memory goes.
  std::int64_t outRoom = 0;
  for (const Row& row : kRows) {
    outRoom = std::max(outRoom, outFloats(row, kElems));
  }
  const size_t other =
      bytesOf(outRoom + work.partialCount) + work.libraryBytes + kSpareBytes;
  const auto poolFloats = [&](int e) {
    return std::max(inputFloats(device, kElems),
                    inputFloats(device, std::int64_t(1) << e));
  };
  size_t free = 0, total = 0;
  CUDA_CHECK(cudaMemGetInfo(&free, &total));
  int last = kGrowthLast;
  while (last - kGrowthStep >= kGrowthFirst &&
         bytesOf(poolFloats(last)) + other > free) {
    last -= kGrowthStep;
  }
  code = requireMemory(device, bytesOf(poolFloats(last)) + other);
  if (code != 0) return code;

  DeviceArray<float> partials(size_t(work.partialCount));
  DeviceArray<unsigned> tickets(1);
  DeviceArray<char> libraryTemp(std::max<size_t>(work.libraryBytes, 1));
  work.partials = partials.data;
  work.tickets = tickets.data;
  work.libraryTemp = libraryTemp.data;
  CUDA_CHECK(cudaMemset(work.tickets, 0, sizeof(unsigned)));
  {
    DeviceArray<float> pool(size_t(poolFloats(last)));
    DeviceArray<float> out(static_cast<size_t>(outRoom));
    printLadder(device, work, pool.data, out.data);
    printRepeats(work, pool.data, out.data);
    printGrowth(device, work, pool.data, out.data, last);
    if (last < kGrowthLast) {
      std::printf("Larger n left out: only %.1f GB were free.\n",
                  double(free) / 1e9);
    }
  }  // gives the memory back before the largest n
  checkAwkward(work);
  checkHuge(work);

  unsigned ticketsLeft = 1;
  CUDA_CHECK(cudaMemcpy(&ticketsLeft, work.tickets, sizeof(ticketsLeft),
                        cudaMemcpyDeviceToHost));
  gate("tickets-reset", ticketsLeft == 0, "%u tickets are left", ticketsLeft);
  if (failures() == 0) {
    std::printf("\nAll checks passed.\n");
  } else {
    std::printf("\n%d checks failed.\n", failures());
  }
  return failures() ? 1 : 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "FAILED: %s\n", e.what());
  return 1;
}
