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
//   v7 float4            16-byte loads; the 0 to 3 floats left one by one
//   v8 two launches      v7, then one block of v6 folds the partials
//   v8a atomic finish    v7, each block adds its partial atomically
//   v9 last block        v7, the block that finishes last folds the partials
//   v10 loads in flight  v9, several loads a thread before the first add, and
//                        a grid that is a whole number of waves
//   library              cub::DeviceReduce::Sum
//
// Not measured: transfers between host and device, the first launch, the
//   allocation of scratch memory (the library's included), the zero that v8a
//   adds to.
//
// Build: nvcc -std=c++17 -O3 -arch=sm_75 -o reduction_2 reduction_2.cu
//        -DLESSON_NO_CUB leaves the library row out and compiles faster,
//        -DLESSON_QUICK makes the inputs small, for compute-sanitizer.
// Run:   ./reduction_2
// Verified: NVIDIA H200, compute capability 9.0, driver 580.159.04, CUDA 13.0,
//   2026-11-29, evidence/day25-reduction/run-2026-11-29-nvidia-h200-sm_75.txt

#include <cuda_profiler_api.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda/atomic>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>
#ifndef LESSON_NO_CUB
#include <cub/version.cuh>
#if CUB_VERSION < 200100  // before CUDA 12.2: it counts elements in an int
#define LESSON_NO_CUB
#else
#include <cub/device/device_reduce.cuh>
#endif
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

using Index = std::int64_t;  // n may exceed 2^31

constexpr Index kElems = kQuick ? 1048576 : 67108864;  // 2^20, 2^26
constexpr int kThreadsPerBlock = 256;
constexpr int kBlocks = 1024;  // the fixed grid of v4c to v9
constexpr int kLoads = 8;      // v10: 16-byte loads a thread before an add
constexpr int kThreadsInFlight = 512;          // a block of v10
constexpr int kGrowthLast = kQuick ? 18 : 28;  // second table: n to 2^this

constexpr bool blockWorks(int threads) {
  return threads >= 64 && threads <= 1024 && (threads & (threads - 1)) == 0;
}
static_assert(kElems >= 4096,
              "kElems: a smaller input takes more copies to pass the L2 than "
              "a grid has blocks in y");
static_assert(kElems / (2 * kThreadsPerBlock) < (Index(1) << 31) - 1,
              "kElems: v4 launches a block for every 2 * kThreadsPerBlock");
static_assert(blockWorks(kThreadsPerBlock) && blockWorks(kThreadsInFlight),
              "threads a block: a tree that halves needs a power of two, the "
              "tail folds 64 values, and no GPU takes more than 1024");
static_assert(kBlocks >= 1 && kBlocks <= 1 << 20,
              "kBlocks: a grid has at least one block, and kSpareBytes has to "
              "hold a partial of each");
static_assert(kLoads >= 1 && kLoads <= 8,
              "kLoads: each takes 4 of the 64 registers of a thread of v10");
static_assert(sizeof(float4) == 16, "float4: one 16-byte access");

// ---- kernels, in the order of the ladder ----------------------------------
// x holds n floats, on any boundary of 4 bytes. Partials: one float a block.

__device__ __forceinline__ Index gridThreads() {  // threads of the grid
  return Index(gridDim.x) * blockDim.x;
}
__device__ __forceinline__ Index gridThread() {  // the number of this one
  return Index(blockIdx.x) * blockDim.x + threadIdx.x;
}

// How many float4s x[0, n) holds: none where x is not on a 16-byte boundary.
__host__ __device__ inline Index vectorsIn(const float* x, Index n) {
  const auto address = reinterpret_cast<std::uintptr_t>(x);
  return address % sizeof(float4) == 0 ? n / 4 : 0;
}

// The ceiling.
// One thread: one 16-byte load and store; behind the last float4, 4 bytes.
// One warp: 512 bytes in a row, 16 sectors, both ways.
// Launch: a thread for each float4 and for each float left; y as aligned as x.
__global__ void copyFloats(const float* x, Index n, float* y) {
  const Index i = gridThread(), vectors = vectorsIn(x, n);
  if (i < vectors) {
    reinterpret_cast<float4*>(y)[i] = reinterpret_cast<const float4*>(x)[i];
  } else if (i + 3 * vectors < n) {  // before it: 4 * vectors floats
    y[i + 3 * vectors] = x[i + 3 * vectors];
  }
}

// v4, where day 24 ended, at this size. Every block pays for its start, its
// tree and its barriers after only two loads a thread.
// One thread: two loads, one word of shared memory.
// One warp: 4 sectors a load; whole warps drop out of the tree until 32
//   values are left.
// Launch: a block for every 2 * blockDim.x elements.
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

__global__ void reduceSequentialTwoLoads(const float* x, Index n,
                                         float* partials) {
  const Index i = Index(blockIdx.x) * (2 * blockDim.x) + threadIdx.x;
  float sum = i < n ? x[i] : 0.0f;
  if (i + blockDim.x < n) sum += x[i + blockDim.x];
  sum = treeSum(sum);
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

// v4c changes the way in: a fixed grid walks over the input, so a tree is paid
// for once a block, however large n is.
// One thread: n / gridThreads() loads, summed in a register.
// One warp: as v4. Launch: any grid.
__device__ __forceinline__ float sumStrided(const float* x, Index n) {
  float sum = 0.0f;
  for (Index i = gridThread(); i < n; i += gridThreads()) sum += x[i];
  return sum;
}

__global__ void reduceCascaded(const float* x, Index n, float* partials) {
  const float sum = treeSum(sumStrided(x, n));
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

// snippet: warp-reduce
constexpr unsigned kFullMask = 0xffffffffu;  // all 32 lanes take part

// Sum over the lanes of a warp, in lane 0. _sync waits for the lanes of the
// mask: since compute capability 7.0 they need not move together.
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
// Launch: any grid; at least 64 threads a block.
__global__ void reduceShuffleTail(const float* x, Index n, float* partials) {
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
// One thread, one warp: as v5. Launch: any grid, kThreads threads a block.
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
__global__ void reduceUnrolled(const float* x, Index n, float* partials) {
  const float sum = blockReduceSum<kThreads>(sumStrided(x, n));
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}
// end snippet

// v7 changes the loads: 16 bytes each, a quarter as many.
// One thread: n / (4 * gridThreads()) loads. How many of them it has under
//   way is left to the compiler.
// One warp: 512 bytes in a row, 16 sectors a load. Launch: as v6.
// snippet: v7-load
__device__ __forceinline__ float sumOf(float4 v) {
  return (v.x + v.y) + (v.z + v.w);
}

__device__ __forceinline__ float sumVectors(const float* x, Index n) {
  const float4* body = reinterpret_cast<const float4*>(x);
  const Index vectors = vectorsIn(x, n);
  // The floats that no float4 covers: 0 to 3, or all where x is misaligned.
  float sum = sumStrided(x + 4 * vectors, n - 4 * vectors);
  for (Index i = gridThread(); i < vectors; i += gridThreads()) {
    sum += sumOf(body[i]);
  }
  return sum;
}
// end snippet

template <int kThreads>
__global__ void reduceVectorized(const float* x, Index n, float* partials) {
  const float sum = blockReduceSum<kThreads>(sumVectors(x, n));
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

// v8 (launchTwoLaunches, below the kernels) folds v7's partials with one
// block of v6: a second launch, which starts when the first has ended.

// v8a changes who folds: every block adds its partial to the result, in the
// order in which blocks finish, so rounding may differ from run to run.
// One thread: thread 0 of a block issues one atomic add.
// One warp: as v7. Launch: as v7; *result is 0.
// snippet: atomic-finish
template <int kThreads>
__global__ void reduceVectorizedAtomic(const float* x, Index n,
                                       float* result) {
  const float sum = blockReduceSum<kThreads>(sumVectors(x, n));
  if (threadIdx.x == 0) atomicAdd(result, sum);
}
// end snippet

// v9 changes who folds again: each block leaves its partial and takes a
// ticket; the one with the last ticket folds all partials. Which lane adds
// which partial, and when, does not depend on who is last: the same input
// gives the same bits.
// One thread: thread 0 of a block stores the partial and takes the ticket.
// One warp: the first of the last block has 512 partials in flight.
// Launch: as v7; *tickets is 0, and each launch leaves it so for the next.
// snippet: v9-last-block
// For the first warp of every block, with the block's sum in lane 0.
__device__ __forceinline__ void finishInLastBlock(float sum, float* partials,
                                                  unsigned* tickets,
                                                  float* result) {
  unsigned ticket = 0;
  if (threadIdx.x == 0) {
    partials[blockIdx.x] = sum;
    // Release: whoever sees the ticket taken also sees the partial.
    // Acquire: this thread reads no partial before it has the ticket.
    cuda::atomic_ref<unsigned, cuda::thread_scope_device> counter(*tickets);
    ticket = counter.fetch_add(1, cuda::memory_order_acq_rel);
  }
  ticket = __shfl_sync(kFullMask, ticket, 0);
  if (ticket != gridDim.x - 1) return;
  __syncwarp();  // orders what lane 0 acquired before the other lanes' reads
  constexpr int kBatch = 16;  // loads a lane before the first add
  sum = 0.0f;
#pragma unroll 1
  for (unsigned i = threadIdx.x; i < gridDim.x; i += 32 * kBatch) {
    float batch[kBatch];
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {  // from L2: other SMs wrote them
      const unsigned j = i + 32 * k;
      batch[k] = j < gridDim.x ? __ldcg(partials + j) : 0.0f;
    }
#pragma unroll
    for (int k = 0; k < kBatch; ++k) sum += batch[k];
  }
  sum = warpReduceSum(sum);
  if (threadIdx.x == 0) {
    *result = sum;
    *tickets = 0;
  }
}

template <int kThreads>
__global__ void reduceLastBlock(const float* x, Index n, float* partials,
                                unsigned* tickets, float* result) {
  const float sum = blockReduceSum<kThreads>(sumVectors(x, n));
  if (threadIdx.x < 32) finishInLastBlock(sum, partials, tickets, result);
}
// end snippet

// v10 changes how much is under way: independent loads, all issued before the
// first add, from one whole wave of blocks. One guard covers a tile, so none
// stands between the loads. __ldcs: each word is read once, so evict it first.
// __launch_bounds__: 1024 threads an SM leave 64 registers a thread, room for
// the loads. The blocks are larger than v9's: as many threads take fewer
// tickets and leave fewer partials.
// One thread: kPerThread loads of 16 bytes in flight.
// One warp: kPerThread * 512 bytes in flight.
// Launch: as v9; as many blocks as are resident at once, or fewer where n is
//   small (launchInFlight). Only the last round of tiles leaves some idle.
// snippet: v10-in-flight
template <int kThreads, int kPerThread>
__global__ void __launch_bounds__(kThreads, 1024 / kThreads)
    reduceInFlight(const float* x, Index n, float* partials, unsigned* tickets,
                   float* result) {
  constexpr int kTile = kThreads * kPerThread;  // float4s
  const float4* body = reinterpret_cast<const float4*>(x);
  const Index tiles = vectorsIn(x, n) / kTile;
  float sum = 0.0f;
#pragma unroll 1
  for (Index tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    float4 values[kPerThread];
#pragma unroll
    for (int k = 0; k < kPerThread; ++k) {
      values[k] = __ldcs(body + tile * kTile + k * kThreads + threadIdx.x);
    }
#pragma unroll
    for (int k = 0; k < kPerThread; ++k) sum += sumOf(values[k]);
  }
  const Index done = 4 * kTile * tiles;  // floats; 0 where x is misaligned
  sum += sumStrided(x + done, n - done);
  sum = blockReduceSum<kThreads>(sum);
  if (threadIdx.x < 32) finishInLastBlock(sum, partials, tickets, result);
}
// end snippet

__global__ void doNothing() {}  // takes what any launch takes

// ---- input and CPU reference ----------------------------------------------

constexpr Index kExact = 1 << 24;  // floats hold every integer up to here

// Ones: one element dropped or read twice moves the sum by exactly one.
// Position data: -2, -1, 1 or 2 by a hash of the index, so that the right
// count from the wrong addresses fails too. A sum of m of these, chosen
// without looking at them, strays from 0 by about 1.6 * sqrt(m): below 2^24
// by far for every m here, so each partial sum is an exact integer, whatever
// the order.
enum class Pattern { ones, position };

__host__ __device__ inline float valueAt(Pattern pattern, Index i) {
  if (pattern == Pattern::ones) return 1.0f;
  std::uint32_t h = std::uint32_t(i) * 0x9e3779b1u +
                    std::uint32_t(std::uint64_t(i) >> 32) * 0x632be5abu;
  h = (h ^ (h >> 15)) * 0x2545f491u;
  h = (h ^ (h >> 13)) * 0xd1342543u;
  const int v = int(h >> 30) - 2;  // -2, -1, 0, 1
  return float(v + (v >= 0));
}

// The reference: the first n elements of a pattern, added in double.
double sumCpu(Pattern pattern, Index n) {
  double sum = 0.0;
  for (Index i = 0; i < n; ++i) sum += valueAt(pattern, i);
  return sum;
}

// Fills copy blockIdx.y, n floats, every second copy with minus the pattern:
// a launch that reads its neighbour's copy or partials leaves a wrong sum.
__global__ void fillInput(float* x, Index n, Index stride, Pattern pattern) {
  const Index i = gridThread();
  const float sign = blockIdx.y % 2 == 0 ? 1.0f : -1.0f;
  if (i < n) x[blockIdx.y * stride + i] = sign * valueAt(pattern, i);
}

// Counts the i < n with x[i] != y[i]; NaN differs from everything.
__global__ void countDifferences(const float* x, const float* y, Index n,
                                 unsigned* count) {
  const Index i = gridThread();
  if (i < n && !(x[i] == y[i])) atomicAdd(count, 1u);
}

constexpr Index kPad = 1024;  // floats of poison behind a buffer
constexpr Index kHuge = (Index(1) << 31) + 5;
constexpr size_t kSpareBytes = size_t(64) << 20;  // partials, the driver

size_t bytesOf(Index floats) { return size_t(floats) * sizeof(float); }

// Blocks for n elements, so many a block; at least one.
unsigned gridOf(Index n, int perBlock) {
  return unsigned(std::max<Index>((n + perBlock - 1) / perBlock, 1));
}

template <typename T>
std::vector<T> readBack(const T* d_x, Index n) {
  std::vector<T> h_x(static_cast<size_t>(n));
  CUDA_CHECK(cudaMemcpy(h_x.data(), d_x, size_t(n) * sizeof(T),
                        cudaMemcpyDeviceToHost));
  return h_x;
}

// Copies of n floats of a pattern, 3.4e38 behind each (no poison, so that a
// copy of it shows); the first lies `shift` floats past a boundary.
struct Input {
  Index n;
  int copies;
  DeviceArray<float> memory;
  float* first;
  double sum;  // of the first copy
  static Index strideOf(Index n) { return (n / kPad + 2) * kPad; }
  Input(Pattern pattern, Index length, int count, int shift = 0)
      : n(length), copies(count), memory(size_t(strideOf(n) * count)) {
    first = memory.data + shift;
    sum = sumCpu(pattern, n);
    CUDA_CHECK(cudaMemset(memory.data, 0x7f, bytesOf(strideOf(n) * copies)));
    fillInput<<<dim3(gridOf(n, 256), unsigned(copies)), 256>>>(
        first, n, strideOf(n), pattern);
    CUDA_CHECK(cudaGetLastError());
    gate("position-data",
         pattern == Pattern::ones || std::abs(sum) < kExact / 16,
         "the sum of %lld values is %.1f", static_cast<long long>(n), sum);
  }
  const float* copy(int i) const { return first + i % copies * strideOf(n); }
  double want(int i) const { return i % copies % 2 == 0 ? sum : -sum; }
};

// ---- launches: how each row is started ------------------------------------

struct Work {           // what a row may use beside its input and output
  int wave;             // blocks of v10 that are resident at once
  float* partials;      // one a block
  unsigned* tickets;    // one counter, 0 between launches
  void* libraryTemp;    // the library's scratch memory
  size_t libraryBytes;  // and its size
};

// Each starts its row over x[0, n) and returns how many floats it leaves in
// out. Nothing is allocated and nothing waits.
Index launchCopy(const Work&, const float* x, Index n, float* out) {
  const unsigned grid = gridOf(n - 3 * vectorsIn(x, n), kThreadsPerBlock);
  copyFloats<<<grid, kThreadsPerBlock>>>(x, n, out);
  return n;
}

Index launchTwoLoads(const Work&, const float* x, Index n, float* out) {
  const unsigned grid = gridOf(n, 2 * kThreadsPerBlock);
  reduceSequentialTwoLoads<<<grid, kThreadsPerBlock>>>(x, n, out);
  return grid;
}

template <void (*kKernel)(const float*, Index, float*)>
Index launchFixedGrid(const Work&, const float* x, Index n, float* out) {
  kKernel<<<kBlocks, kThreadsPerBlock>>>(x, n, out);
  return kBlocks;
}

// snippet: v8-two-passes
Index launchTwoLaunches(const Work& work, const float* x, Index n,
                        float* out) {
  constexpr int kThreads = kThreadsPerBlock;
  reduceVectorized<kThreads><<<kBlocks, kThreads>>>(x, n, work.partials);
  reduceUnrolled<kThreads><<<1, kThreads>>>(work.partials, kBlocks, out);
  return 1;
}
// end snippet

Index launchAtomic(const Work&, const float* x, Index n, float* out) {
  reduceVectorizedAtomic<kThreadsPerBlock>
      <<<kBlocks, kThreadsPerBlock>>>(x, n, out);
  return 1;
}

Index launchLastBlock(const Work& work, const float* x, Index n, float* out) {
  reduceLastBlock<kThreadsPerBlock>
      <<<kBlocks, kThreadsPerBlock>>>(x, n, work.partials, work.tickets, out);
  return 1;
}

Index launchInFlight(const Work& work, const float* x, Index n, float* out) {
  const unsigned tiles = gridOf(n / 4, kThreadsInFlight * kLoads);
  reduceInFlight<kThreadsInFlight, kLoads>
      <<<std::min(tiles, unsigned(work.wave)), kThreadsInFlight>>>(
          x, n, work.partials, work.tickets, out);
  return 1;
}

#ifndef LESSON_NO_CUB
Index launchLibrary(const Work& work, const float* x, Index n, float* out) {
  // snippet: library-call
  size_t bytes = work.libraryBytes;
  CUDA_CHECK(cub::DeviceReduce::Sum(work.libraryTemp, bytes, x, out, n));
  // end snippet
  return 1;
}
#endif

// ---- the table of rows ----------------------------------------------------

// What a row leaves. added: one float, added to what was there, in an order
// that may change from launch to launch. total rows stand in the second table.
enum class Leaves { copy, partials, total, added };
constexpr const char* kLeft[] = {"n floats", "partials", "one float",
                                 "one float"};

struct Row {
  const char* label;
  Leaves leaves;
  Index (*launch)(const Work&, const float* x, Index n, float* out);
  bool oneFloat() const { return leaves >= Leaves::total; }
  std::uint32_t before() const {  // a word of the output before a launch
    return leaves == Leaves::added ? 0 : 0xffffffffu;
  }
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

// Runs a row on poisoned memory: once, or timed where `timing` is given. A row
// of one float leaves launch i in word i, and each word must be its sum; of
// other rows the last launch is compared. Nothing may be written behind.
bool runsRight(const Row& row, const Work& work, const Input& input,
               Timing* timing = nullptr) {
  const Index room = std::max<Index>({input.n, kMaxLaunches, kBlocks}) + kPad;
  DeviceArray<float> out(static_cast<size_t>(room));
  CUDA_CHECK(cudaMemset(out.data, int(row.before() & 0xff), bytesOf(room)));
  CUDA_CHECK(
      cudaMemset(work.partials, 0xff, bytesOf(std::max(kBlocks, work.wave))));
  Index left = 0;
  const auto launch = [&](int i) {
    left = row.launch(work, input.copy(i), input.n,
                      row.oneFloat() ? out.data + i : out.data);
  };
  if (timing) {
    *timing = timeKernel(launch);
    if (row.oneFloat()) left = timing->launches;
  } else {
    launch(0);
    CUDA_CHECK(cudaGetLastError());
  }

  const int last = timing ? timing->launches - 1 : 0;
  double want = input.want(last), got = want;  // of many sums the wrong one
  if (row.leaves == Leaves::copy) {
    DeviceArray<unsigned> d_count(1);
    CUDA_CHECK(cudaMemset(d_count.data, 0, sizeof(unsigned)));
    countDifferences<<<gridOf(left, 256), 256>>>(input.copy(last), out.data,
                                                 left, d_count.data);
    CUDA_CHECK(cudaGetLastError());
    got += readBack(d_count.data, 1)[0];
  } else if (row.oneFloat()) {
    const std::vector<float> sums = readBack(out.data, left);
    for (int i = 0; i <= last; ++i) {
      if (sums[size_t(i)] == input.want(i)) continue;
      got = sums[size_t(i)];
      want = input.want(i);
    }
  } else {
    got = 0.0;
    for (float partial : readBack(out.data, left)) got += partial;
  }
  const long long n = input.n;
  bool ok = gate("total", got == want, "%s, n = %lld: %.1f, not %.1f",
                 row.label, n, got, want);
  const auto words = reinterpret_cast<const std::uint32_t*>(out.data);
  const std::vector<std::uint32_t> behind = readBack(words + left, kPad);
  ok &= gate("nothing-behind",
             std::count(behind.begin(), behind.end(), row.before()) == kPad,
             "%s, n = %lld wrote behind its output", row.label, n);
  ok &= gate("tickets-reset", readBack(work.tickets, 1)[0] == 0,
             "%s, n = %lld left tickets behind", row.label, n);
  return ok;
}

// ---- first table: the ladder ----------------------------------------------

// A rate as a share of a ceiling, 7 columns wide; n/a where there is none.
std::string percent(double rate, double ceiling) {
  char text[16];
  std::snprintf(text, sizeof(text), "%6.1f%%", 100 * rate / ceiling);
  return ceiling > 0.0 ? text : "    n/a";
}

void printLadder(const Device& device, const Work& work) {
  const Input ones(Pattern::ones, std::min(kElems, kExact - 1), 1);
  const Input input(Pattern::position, kElems,
                    copiesBeyondL2(device, bytesOf(kElems)));
  const double bytes = double(bytesOf(kElems));
  std::printf(
      "\n%lld floats (%.0f MB), %d copies in turn\n"
      "v4 to v9: %d threads a block; v4c to v9: %d blocks\n"
      "v10: %d threads a block, at most %d blocks\n\n"
      "%-20s %9s %7s %7s %7s %7s  leaves\n",
      static_cast<long long>(kElems), bytes / 1e6, input.copies,
      kThreadsPerBlock, kBlocks, kThreadsInFlight, work.wave, "row", "ms",
      "spread", "GB/s", "% copy", "% peak");
  int printed = 0;
  double copyRate = 0.0, bestRate = 0.0;
  std::string noGain;  // rows that the one above beats, or noise hides
  Timing above;
  for (const Row& row : kRows) {
    CUDA_CHECK(cudaProfilerStart());  // a profiler records this run
    bool right = runsRight(row, work, input);
    CUDA_CHECK(cudaProfilerStop());
    right = runsRight(row, work, ones) && right;
    Timing timing;
    if (!right || !runsRight(row, work, input, &timing)) continue;

    const bool isCopy = row.leaves == Leaves::copy;
    const double rate = (isCopy ? 2 : 1) * bytes / (timing.ms * 1e6);
    if (isCopy) copyRate = rate;
    bestRate = std::max(bestRate, rate);
    const double noise = std::max(timing.spread, above.spread);
    if (above.ms > 0.0 && row.label[0] == 'v' &&
        !(timing.ms < above.ms * (1 - noise))) {
      noGain += ' ';
      noGain.append(row.label, std::strcspn(row.label, " "));
    }
    if (!isCopy) above = timing;
    std::printf("%-20s %9.4f %6.1f%% %7.0f %s %s  %s\n", row.label, timing.ms,
                100 * timing.spread, rate, percent(rate, copyRate).c_str(),
                percent(rate, device.peakGBs).c_str(), kLeft[int(row.leaves)]);
    ++printed;
  }
  gate("rows-printed", printed == kRowCount, "%d of %d", printed, kRowCount);
#ifdef LESSON_NO_CUB
  std::printf("LESSON_NO_CUB or CUDA before 12.2: no library row.\n");
#endif

  DeviceArray<float> out(static_cast<size_t>(kElems));
  const Timing driver = timeKernel([&](int i) {
    CUDA_CHECK(cudaMemcpyAsync(out.data, input.copy(i), bytesOf(kElems),
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

// ---- second table: how it grows -------------------------------------------

// Whether an input and an output of n floats fit in the free memory.
bool fits(Index inputFloats, Index n) {
  size_t free = 0, total = 0;
  CUDA_CHECK(cudaMemGetInfo(&free, &total));
  const bool enough = bytesOf(inputFloats + n) + kSpareBytes <= free;
  if (!enough)
    std::printf("n = %.3g left out: not enough free memory.\n", double(n));
  return enough;
}

void printGrowth(const Device& device, const Work& work) {
  constexpr int kRounds = kQuick ? 1 : 3;  // the rows alternate, this often
  const double launchMs = timeKernel([](int) { doNothing<<<1, 1>>>(); }).ms;
  bool bound = true;  // by the launch, at every n so far
  int knee = 0;       // up to n = 2^knee
  std::printf("\nHow it grows: ms and GB/s, median of %d rounds\nn    ",
              kRounds);
  for (const Row& row : kRows) {
    if (row.leaves != Leaves::total) continue;
    std::printf(" %9.*s   GB/s", int(std::strcspn(row.label, " ")), row.label);
  }
  std::printf("  spread library/v10\n");
  for (int e = 16; e <= kGrowthLast; e += 2) {
    const Index n = Index(1) << e;
    const int copies = copiesBeyondL2(device, bytesOf(n));
    if (!fits(copies * Input::strideOf(n), n)) break;
    const Input input(Pattern::position, n, copies);
    std::vector<double> ms[kRowCount];
    for (int round = 0; round <= kRounds; ++round) {  // round 0 only checks
      for (int r = 0; r < kRowCount; ++r) {
        if (kRows[r].leaves != Leaves::total) continue;
        Timing timing;
        if (!runsRight(kRows[r], work, input, round ? &timing : nullptr)) {
          return;
        }
        if (round) ms[r].push_back(timing.ms);
      }
    }
    std::printf("2^%d%s", e, bytesOf(n) <= device.l2Bytes ? "*" : " ");
    double spread = 0.0, median = 0.0, v10 = 0.0;
    for (int r = 0; r < kRowCount; ++r) {
      if (ms[r].empty()) continue;
      std::sort(ms[r].begin(), ms[r].end());
      median = ms[r][kRounds / 2];
      spread = std::max(spread, (ms[r].back() - ms[r].front()) / median);
      if (kRows[r].launch == launchInFlight) v10 = median;
      std::printf(" %9.4f %6.0f", median, double(bytesOf(n)) / (median * 1e6));
    }
    bound = bound && v10 <= 1.25 * launchMs;
    if (bound) knee = e;
    std::printf(" %6.1f%%", 100 * spread);
#ifndef LESSON_NO_CUB
    std::printf(" %11.2f", median / v10);  // the last row's median
#endif
    std::printf("\n");
  }
  std::printf(
      "* n floats fit in L2; the copies in turn keep them out of it.\n"
      "A launch of a kernel that does nothing takes %.4f ms.\n",
      launchMs);
  if (knee > 0) {
    std::printf(
        "The knee: up to 2^%d v10 takes at most a quarter longer. There the\n"
        "table shows what launches cost, more than what additions cost.\n",
        knee);
  }
}

// ---- third part: awkward inputs, checked and not timed --------------------

void checkAwkward(const Work& work) {
  constexpr Index kMi = 1 << 20;
  const Index lengths[] = {0,    1,    2,       3,       31,      32,     33,
                           1023, 1025, kMi - 1, kMi + 1, kMi + 2, kMi + 3};
  int runs = 0, right = 0;
  for (const Index n : lengths) {
    for (int variant = 0; variant < 4; ++variant) {
      const Input input(variant / 2 ? Pattern::ones : Pattern::position, n, 1,
                        variant % 2);
      for (const Row& row : kRows) {
        ++runs;
        right += runsRight(row, work, input);
      }
    }
  }
  gate("awkward-inputs", right == runs, "%d right of %d", right, runs);
  std::printf(
      "\nAwkward inputs, not timed: 0 to 2^20 + 3 floats, ones and position\n"
      "data, from an aligned base and 4 bytes past it: %d of %d runs right.\n",
      right, runs);

  // More elements than an int counts, where the memory is there.
  if (kQuick || !fits(Input::strideOf(kHuge), kHuge)) return;
  const Input huge(Pattern::position, kHuge, 1);
  right = 0;
  for (const Row& row : kRows) right += runsRight(row, work, huge);
  gate("index-64-bit", right == kRowCount, "%d rows of %d", right, kRowCount);
  std::printf("n = 2^31 + 5: %d of %d rows right.\n", right, kRowCount);
}

int main() try {
  Device device;
  int code =
      openDevice(7, 5, reinterpret_cast<const void*>(&copyFloats), &device);
  if (code != 0) return code;
  const int copies = copiesBeyondL2(device, bytesOf(kElems));
  code = requireMemory(
      device, bytesOf(copies * Input::strideOf(kElems) + kElems + kExact) +
                  kSpareBytes);
  if (code != 0) return code;

  int perSm = 0;
  CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
      &perSm, reduceInFlight<kThreadsInFlight, kLoads>, kThreadsInFlight, 0));
  const int wave = perSm * device.sms;
  size_t libraryBytes = 1;
#ifndef LESSON_NO_CUB
  float* const none = nullptr;
  CUDA_CHECK(cub::DeviceReduce::Sum(nullptr, libraryBytes, none, none, kHuge));
#endif
  DeviceArray<float> partials(size_t(std::max(kBlocks, wave)));
  DeviceArray<unsigned> tickets(1);
  DeviceArray<char> libraryTemp(libraryBytes);
  CUDA_CHECK(cudaMemset(tickets.data, 0, sizeof(unsigned)));
  const Work work = {wave, partials.data, tickets.data, libraryTemp.data,
                     libraryBytes};
  printLadder(device, work);
  printGrowth(device, work);
  checkAwkward(work);
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
