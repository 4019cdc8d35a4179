// Day 45: occupancy is not the goal
// Question: if two launches keep the same number of bytes in flight, does it
// matter how many warps hold them?
// Every row computes out[i] = a * x[i] + y[i] over the same arrays, 12 bytes
// per element. What differs is who holds the loads: many warps with few loads
// each, or few warps with many. -bN: no more than N blocks at once on an SM.
//
// Rows:
//   copy (ceiling)   as many bytes, half of them read and half written
//   cudaMemcpyAsync  the same, by the driver
//   tlp1             1 float per thread, as many blocks per SM as fit
//   tlp1-control     tlp1 with the shared memory and L1 of the -bN rows
//   tlp1-b3          tlp1 with 3 blocks per SM
//   tlp1-b2          2 blocks
//   tlp1-b1          1 block
//   ilp2             2 floats per thread: 4 loads in flight
//   ilp4             4 floats: 8 loads
//   ilp8             8 floats: 16 loads
//   ilp4-b1          4 floats per thread, 1 block per SM
//   ilp8-b1          8 floats, 1 block
//   ilp8-lb          ilp8 with registers limited for full occupancy
//   ilp8-guarded     ilp8 with a bounds check on every element
//   ilp8-guarded-b1  the same, 1 block per SM
//   vec1             1 float4 per thread
//   vec1-b2          1 float4, 2 blocks per SM
//   vec2-b1          2 float4, 1 block
//   vec2             2 float4
//   suggested        tlp1 in blocks of the size that the driver suggests
//   vec1-cs          vec1 with streaming loads and stores
//   vec1-cs-dl       vec1-cs as a dependent launch (sm_90 or newer)
//   vec4-b2          4 streaming float4 per thread, 2 blocks per SM
//   vec8-b2          8 streaming float4, 2 blocks
//   async-b1         copies into a ring, 1 block per SM (sm_80 or newer)
//   library          cub::DeviceTransform
// -DLESSON_YOURS adds `yours`, the kernel that you write.
// Not measured: other block sizes, except that of `suggested`; bulk copies
// (TMA), except those of `library` in a build for sm_90; kernels that compute
// enough to hide their memory accesses.
//
// Build: nvcc -std=c++17 -O3 -arch=sm_75 -o occupancy occupancy.cu
//        nvcc -std=c++17 -O3 -arch=sm_90 -o occupancy occupancy.cu
// Run:   ./occupancy
// Verified: NVIDIA H200, compute capability 9.0, driver 580.159.04, CUDA 13.0,
//   evidence/day45-occupancy/run-h200-sm_75.txt,
//   evidence/day45-occupancy/run-h200-sm_90.txt
// Start reading at "kernels"; below the table of rows you may stop.

#include <cuda_profiler_api.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>
#if __CUDA_ARCH__ >= 800  // device code only: hosts warn of what they lack
#include <cuda_pipeline.h>
#endif
#if !defined(LESSON_NO_CUB) && __has_include(<cub/device/device_transform.cuh>)
#include <cub/device/device_transform.cuh>
#include <cuda/std/tuple>
#else
#define CUB_VERSION 0  // no row `library`
#endif

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

// ---- what you may change --------------------------------------------------

// snippet: constants
constexpr size_t kElems = (size_t(1) << (kQuick ? 18 : 24)) + 611;
constexpr int kThreadsPerBlock = 256;
constexpr float kScale = 3.0f;  // the a of a * x + y

// What an SM of the architecture compiled for holds (900: 9.0; 0: the host's
// pass); of an unknown one, the least. Only __launch_bounds__ needs it.
#ifdef __CUDA_ARCH__
constexpr int kArch = __CUDA_ARCH__;
#else
constexpr int kArch = 0;
#endif
constexpr int kThreadsPerSm =
    kArch == 800 || kArch == 900 || kArch == 1000 || kArch == 1030 ? 2048
    : (kArch >= 860 && kArch < 900) || kArch == 1100 || kArch / 100 == 12
        ? 1536
        : 1024;
constexpr int kBlocksPerSm =
    kArch >= 860 && kArch < 890 ? 16 : kThreadsPerSm / 64;
constexpr int kFull = kThreadsPerSm / kThreadsPerBlock;
constexpr int kMinBlocksPerSm =  // what ilp8-lb asks for
    kFull < kBlocksPerSm ? kFull : kBlocksPerSm;
constexpr int kRoomyBlocks = kFull < 2 ? 1 : 2;  // streaming; leave it

static_assert(kElems >= 1 << 16 && kElems <= size_t(1) << 40,
              "kElems: 2^16 to 2^40 (fewer need thousands of copies to pass "
              "the L2); write 2^31 and more as size_t(1) << 31");
static_assert(kThreadsPerBlock % 32 == 0 && kThreadsPerBlock >= 32 &&
                  kThreadsPerBlock <= 1024,
              "kThreadsPerBlock: whole warps, so 32, 64, 96, ... 1024");
static_assert(kMinBlocksPerSm >= 1, "kMinBlocksPerSm: at least 1");
static_assert(!kArch || kMinBlocksPerSm <= std::min(kFull, kBlocksPerSm),
              "kMinBlocksPerSm: more than an SM of this architecture holds; "
              "ptxas would ignore the bound");
// end snippet

// ---- kernels --------------------------------------------------------------
// All take any n, in one-dimensional blocks and grids.

// snippet: copy-kernel
// The yardstick: one float4 per thread, copied. Launch: count float4 or more.
__global__ void copy16(float4* __restrict__ to,
                       const float4* __restrict__ from, size_t count) {
  const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) __stcs(to + i, __ldcs(from + i));
}
// end snippet

// snippet: ilp-body
// The body of every float row: kItems elements per thread, `stride` apart.
// One thread: 2 * kItems loads in flight together, then multiplies and stores.
//   The loads are written first, and the compiler keeps them first. It may
//   put them first even in a single loop where __restrict__ promises that no
//   store to out changes x or y; with neither, each store waits in between.
// One warp: 32 neighbouring floats per request, 4 sectors of 32 bytes.
template <int kItems>
__device__ inline void scaleAddTile(float* out, const float* x, const float* y,
                                    float a, size_t i, size_t stride) {
  float xs[kItems], ys[kItems];  // unrolled: registers, not memory
#pragma unroll
  for (int k = 0; k < kItems; ++k) {
    xs[k] = x[i + k * stride];
    ys[k] = y[i + k * stride];
  }
#pragma unroll
  for (int k = 0; k < kItems; ++k) {
    out[i + k * stride] = fmaf(a, xs[k], ys[k]);
  }
}
// end snippet

// snippet: one-guard-a-tile
// tlp1, ilp2, ilp4, ilp8: one bounds check for all elements of a block, its
// tile.
// One thread: a full tile runs the body, without a check in it; only a partial
//   one takes the slow loop. One warp: the check is the whole block's.
// Launch: at least n / kItems threads.
template <int kItems>
__device__ inline void scaleAddBlock(float* out, const float* x,
                                     const float* y, float a, size_t n) {
  const size_t stride = size_t(gridDim.x) * blockDim.x;
  const size_t first = size_t(blockIdx.x) * blockDim.x;
  const size_t i = first + threadIdx.x;
  if (first + (kItems - 1) * stride + blockDim.x <= n) {
    scaleAddTile<kItems>(out, x, y, a, i, stride);
  } else {
#pragma unroll 1
    for (size_t j = i; j < n; j += stride) out[j] = fmaf(a, x[j], y[j]);
  }
}

template <int kItems>
__global__ void scaleAdd(float* __restrict__ out, const float* __restrict__ x,
                         const float* __restrict__ y, float a, size_t n) {
  scaleAddBlock<kItems>(out, x, y, a, n);
}
// end snippet

// snippet: bounded-kernel
// ilp8-lb: the register budget changed. The bound tells ptxas the block size
// and the blocks that an SM must hold, and so how many registers a thread may
// have. Too few cost local memory (spills) or loads that no longer come first;
// for sm_75 and sm_90 scaleAdd<8> uses no more without the bound.
// One thread, one warp: as above. Launch: kThreadsPerBlock threads per block.
template <int kItems>
__global__ void __launch_bounds__(kThreadsPerBlock, kMinBlocksPerSm)
    scaleAddBounded(float* __restrict__ out, const float* __restrict__ x,
                    const float* __restrict__ y, float a, size_t n) {
  scaleAddBlock<kItems>(out, x, y, a, n);
}
// For the host: what the code that really runs asked for.
__device__ int boundAsked = kMinBlocksPerSm;
// end snippet

// snippet: guarded-kernel
// ilp8-guarded: a bounds check on every element, the habit of most kernels.
// One thread: each load has a condition of its own. For most architectures the
//   compiler of CUDA 13.0 then puts the first multiply before the last loads,
//   so that fewer than 2 * kItems loads are in flight.
// One warp, launch: as scaleAdd.
template <int kItems>
__global__ void scaleAddGuarded(float* __restrict__ out,
                                const float* __restrict__ x,
                                const float* __restrict__ y, float a,
                                size_t n) {
  const size_t stride = size_t(gridDim.x) * blockDim.x;
  const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  float xs[kItems], ys[kItems];
#pragma unroll
  for (int k = 0; k < kItems; ++k) {
    if (i + k * stride < n) {
      xs[k] = x[i + k * stride];
      ys[k] = y[i + k * stride];
    }
  }
#pragma unroll
  for (int k = 0; k < kItems; ++k) {
    if (i + k * stride < n) out[i + k * stride] = fmaf(a, xs[k], ys[k]);
  }
}
// end snippet

// snippet: vec-kernel
// vec1, vec2: the width of a load changed from scaleAdd, 16 bytes for 4.
// One thread: 2 * kItems loads of a float4, one check per tile. The slow loop
//   also takes the last n % 4 elements, whose float4 is not whole.
// One warp: 512 neighbouring bytes per request, 16 sectors.
// Launch: at least n / (4 * kItems) threads, arrays aligned to 16 bytes.
__device__ inline float4 scaleAdd4(float a, float4 x, float4 y) {
  return make_float4(fmaf(a, x.x, y.x), fmaf(a, x.y, y.y), fmaf(a, x.z, y.z),
                     fmaf(a, x.w, y.w));
}

template <int kItems>
__global__ void scaleAddVec(float* __restrict__ out,
                            const float* __restrict__ x,
                            const float* __restrict__ y, float a, size_t n) {
  const float4* x4 = reinterpret_cast<const float4*>(x);
  const float4* y4 = reinterpret_cast<const float4*>(y);
  float4* out4 = reinterpret_cast<float4*>(out);
  const size_t stride = size_t(gridDim.x) * blockDim.x;
  const size_t first = size_t(blockIdx.x) * blockDim.x;
  const size_t i = first + threadIdx.x;
  if (4 * (first + (kItems - 1) * stride + blockDim.x) <= n) {
    float4 xs[kItems], ys[kItems];
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
      xs[k] = x4[i + k * stride];
      ys[k] = y4[i + k * stride];
    }
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
      out4[i + k * stride] = scaleAdd4(a, xs[k], ys[k]);
    }
  } else {
#pragma unroll 1
    for (size_t v = i; 4 * v < n; v += stride) {
#pragma unroll 1
      for (size_t j = 4 * v; j < n && j < 4 * v + 4; ++j) {
        out[j] = fmaf(a, x[j], y[j]);
      }
    }
  }
}
// end snippet

// snippet: streaming-kernel
// vec1-cs, vec4-b2, vec8-b2: three things changed from scaleAddVec. Loads and
// stores say that the line will not be needed again (__ldcs, __stcs: evict
// first). A block's float4 are neighbours, a thread's blockDim.x apart. A
// launch bound allows 128 registers per thread (at 256): room for 16 loads.
// One thread, one warp, launch: as scaleAddVec.
template <int kItems>
__device__ inline void streamBlock(float* out, const float* x, const float* y,
                                   float a, size_t n) {
  const float4* x4 = reinterpret_cast<const float4*>(x);
  const float4* y4 = reinterpret_cast<const float4*>(y);
  float4* out4 = reinterpret_cast<float4*>(out);
  const size_t first = size_t(blockIdx.x) * blockDim.x * kItems;
  const size_t end = first + size_t(blockDim.x) * kItems;
  if (4 * end <= n) {
    const size_t i = first + threadIdx.x;
    float4 xs[kItems], ys[kItems];
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
      xs[k] = __ldcs(x4 + i + k * blockDim.x);
      ys[k] = __ldcs(y4 + i + k * blockDim.x);
    }
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
      __stcs(out4 + i + k * blockDim.x, scaleAdd4(a, xs[k], ys[k]));
    }
  } else {
    const size_t last = 4 * end < n ? 4 * end : n;
#pragma unroll 1
    for (size_t j = 4 * first + threadIdx.x; j < last; j += blockDim.x) {
      out[j] = fmaf(a, x[j], y[j]);
    }
  }
}

template <int kItems>
__global__ void __launch_bounds__(kThreadsPerBlock, kRoomyBlocks)
    scaleAddStream(float* __restrict__ out, const float* __restrict__ x,
                   const float* __restrict__ y, float a, size_t n) {
  streamBlock<kItems>(out, x, y, a, n);
}
// end snippet

// snippet: dependent-kernel
// vec1-cs-dl: the start changed. As a dependent launch it may start once every
// block of the launch before has ended (none triggers it earlier). What those
// wrote need not be flushed yet: its start and that flush overlap.
// One thread: waits for the flush, and only then touches memory. One warp: as
//   above.
// Launch: with programmatic stream serialization, compute capability 9.0.
template <int kItems>
__global__ void __launch_bounds__(kThreadsPerBlock, kRoomyBlocks)
    scaleAddDependent(float* __restrict__ out, const float* __restrict__ x,
                      const float* __restrict__ y, float a, size_t n) {
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
  streamBlock<kItems>(out, x, y, a, n);
}
// end snippet

// snippet: async-kernel
// async-b1: what holds the loads changed. Bytes in flight need no register:
// they go straight to shared memory, into a ring of kDepth stages, each a
// float4 of x and of y per thread.
// One thread: starts kDepth stages; then, round after round, waits for the
//   oldest, uses it, and starts the next in its place. It reads only what it
//   brought itself: no barrier. One warp: 512 neighbouring bytes per request.
// Launch: as many blocks as are resident, 32 * kDepth bytes of shared memory
//   per thread, arrays aligned to 16 bytes; 8.0 and newer.
template <int kDepth>
__global__ void __launch_bounds__(kThreadsPerBlock)
    scaleAddAsync(float* __restrict__ out, const float* __restrict__ x,
                  const float* __restrict__ y, float a, size_t n) {
#if __CUDA_ARCH__ >= 800
  extern __shared__ float4 ring[];
  const float4* x4 = reinterpret_cast<const float4*>(x);
  const float4* y4 = reinterpret_cast<const float4*>(y);
  float4* out4 = reinterpret_cast<float4*>(out);
  const size_t count = n / 4, stride = size_t(gridDim.x) * blockDim.x;
  auto start = [&](int stage, size_t i) {
    float4* to = ring + 2 * stage * blockDim.x + threadIdx.x;
    if (i < count) {
      __pipeline_memcpy_async(to, x4 + i, sizeof(float4));
      __pipeline_memcpy_async(to + blockDim.x, y4 + i, sizeof(float4));
    }
    __pipeline_commit();  // an empty one past the end counts, too
  };
  size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  for (int k = 0; k < kDepth; ++k) start(k, i + k * stride);
  for (int stage = 0; i < count; i += stride, stage = (stage + 1) % kDepth) {
    __pipeline_wait_prior(kDepth - 1);  // for all but the kDepth - 1 youngest
    const float4* xy = ring + 2 * stage * blockDim.x + threadIdx.x;
    __stcs(out4 + i, scaleAdd4(a, xy[0], xy[blockDim.x]));
    start(stage, i + kDepth * stride);
  }
  const size_t last = 4 * count + threadIdx.x;
  if (blockIdx.x == 0 && last < n) out[last] = fmaf(a, x[last], y[last]);
#endif
}
// end snippet

// snippet: pointer-chase
// Latency: each load gives the address of the next, so that one load is in
// flight on the whole card. Launch: one thread.
constexpr int kWordsPerLine = 32;  // one link per line of 128 bytes
__global__ void pointerChase(const unsigned* links, unsigned line, int hops,
                             unsigned* end) {
  for (int k = 0; k < hops; ++k) line = links[size_t(line) * kWordsPerLine];
  *end = line;
}
// end snippet

// ---- the rows -------------------------------------------------------------

// items: loads of x per thread, or stages of a ring. width: floats per load.
using Kernel = void (*)(float*, const float*, const float*, float, size_t);
enum Kind { kCopy, kDriver, kLibrary, kPlain, kGuarded, kOverlap, kRing };
struct Row {
  std::string label, kernelName;
  Kernel kernel;
  int items, width;
  Kind kind;
};
#define NAMED(label, kernel, items, width, kind) \
  Row { label, #kernel, kernel<items>, items, width, kind }
#define ROW(family, items, rest, kernel, width, kind) \
  NAMED(#family #items rest, kernel, items, width, kind)

#ifdef LESSON_YOURS
// snippet: yours
// Your turn: the same array, faster. This version is right, and slow: a
// thread's elements are neighbours, so that those of a warp are not.
template <int kItems>
__global__ void yours(float* __restrict__ out, const float* __restrict__ x,
                      const float* __restrict__ y, float a, size_t n) {
  const size_t thread = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  for (size_t k = 0, i = thread * kItems; k < kItems && i < n; ++k, ++i) {
    out[i] = fmaf(a, x[i], y[i]);
  }
}
// Launch: kThreadsPerBlock threads per block, each with 4 items of 1 float
// (of 4: arrays start on 16 bytes); kPlain where all loads come first.
const Row kYours = NAMED("yours", yours, 4, 1, kGuarded);
// end snippet
#endif

// snippet: row-table
const std::vector<Row> kRows = {
    Row{"copy (ceiling)", "copy16", nullptr, 0, 0, kCopy},
    Row{"cudaMemcpyAsync", "cudaMemcpyAsync", nullptr, 0, 0, kDriver},
    ROW(tlp, 1, "", scaleAdd, 1, kPlain),
    ROW(tlp, 1, "-control", scaleAdd, 1, kPlain),
    ROW(tlp, 1, "-b3", scaleAdd, 1, kPlain),
    ROW(tlp, 1, "-b2", scaleAdd, 1, kPlain),
    ROW(tlp, 1, "-b1", scaleAdd, 1, kPlain),
    ROW(ilp, 2, "", scaleAdd, 1, kPlain),
    ROW(ilp, 4, "", scaleAdd, 1, kPlain),
    ROW(ilp, 8, "", scaleAdd, 1, kPlain),
    ROW(ilp, 4, "-b1", scaleAdd, 1, kPlain),
    ROW(ilp, 8, "-b1", scaleAdd, 1, kPlain),
    ROW(ilp, 8, "-lb", scaleAddBounded, 1, kPlain),
    ROW(ilp, 8, "-guarded", scaleAddGuarded, 1, kGuarded),
    ROW(ilp, 8, "-guarded-b1", scaleAddGuarded, 1, kGuarded),
    ROW(vec, 1, "", scaleAddVec, 4, kPlain),
    ROW(vec, 1, "-b2", scaleAddVec, 4, kPlain),
    ROW(vec, 2, "-b1", scaleAddVec, 4, kPlain),
    ROW(vec, 2, "", scaleAddVec, 4, kPlain),
    NAMED("suggested", scaleAdd, 1, 1, kPlain),
    ROW(vec, 1, "-cs", scaleAddStream, 4, kPlain),
    ROW(vec, 1, "-cs-dl", scaleAddDependent, 4, kOverlap),
    ROW(vec, 4, "-b2", scaleAddStream, 4, kPlain),
    ROW(vec, 8, "-b2", scaleAddStream, 4, kPlain),
    NAMED("async-b1", scaleAddAsync, 8, 4, kRing),
    Row{"library", "cub::DeviceTransform", nullptr, 0, 0, kLibrary},
#ifdef LESSON_YOURS
    kYours,
#endif
};
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

// ---- input and reference --------------------------------------------------

// snippet: input
// x and y are multiples of 2^-8 with two prime periods, so that a * x + y is
// exact in float, needs its fraction bits, and occurs once in 4093 * 8191
// positions: a right value from the wrong place is found. Copy p of an array
// starts p * kShift positions on, so that each element shows its copy, too.
constexpr int kPeriodX = 4093, kPeriodY = 8191, kSteps = 256, kShift = 1009;
__host__ __device__ inline float valueAt(size_t position, int period) {
  return float(int(position % size_t(period)) - period / 2) / kSteps;
}
static_assert(kScale > 0.0f && kScale == float(int(kScale)) &&
                  kScale * kPeriodX + kPeriodY < 16777216.0f,
              "kScale: a whole number above 0, so small that a * x + y stays "
              "below 2^24 steps, which float holds exactly");
__global__ void fillValues(float* to, int period, size_t position, size_t n) {
  const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) to[i] = valueAt(position + i, period);
}
// end snippet

// snippet: reference
std::vector<float> reference(size_t position, size_t count) {
  std::vector<float> want(count);  // on the CPU, in double
  for (size_t i = 0; i < count; ++i) {
    want[i] = float(double(kScale) * valueAt(position + i, kPeriodX) +
                    valueAt(position + i, kPeriodY));
  }
  return want;
}
// end snippet

unsigned blocksFor(size_t work, size_t perBlock) {
  return unsigned(std::max<size_t>(1, (work + perBlock - 1) / perBlock));
}

// What successive launches walk over: copies of x, y and out, n floats and
// poison behind them, a little apart. An array starts on 256 bytes: float4 is
// aligned, and a warp's load starts on a sector of 32 bytes.
constexpr size_t kPadding = 1024, kApart = 4096;
const unsigned kPoison = ~0u;  // what cudaMemset(..., 0xFF, ...) leaves
static_assert(kPadding % 128 == 0 && kApart % 128 == 0,
              "kPadding: a multiple of 128 floats, and so is kApart");
struct Passes {
  size_t n, pitch = (n + 127) / 128 * 128 + kPadding;
  size_t all = 3 * pitch + kApart;  // from copy to copy
  int count;
  DeviceArray<float> data;
  Passes(size_t elements, int copies)
      : n(elements), count(copies), data(all * copies) {
    fill();
  }
  void fill() const {
    poison(0);
    for (int p = 0; p < count; ++p) {
      const unsigned blocks = blocksFor(n, 256);
      fillValues<<<blocks, 256>>>(x(p), kPeriodX, p * kShift, n);
      fillValues<<<blocks, 256>>>(y(p), kPeriodY, p * kShift, n);
    }
    CUDA_CHECK(cudaGetLastError());
  }
  float* x(int p) const { return data.data + all * (p % count); }
  float* y(int p) const { return x(p) + pitch; }
  float* out(int p) const { return y(p) + pitch; }
  // The yardsticks copy the first half of a copy to the second.
  size_t copied() const { return (3 * n / 2 + 3) / 4 * 4; }  // whole float4
  float* half(int p) const { return x(p) + 3 * pitch / 2; }
  void poison(size_t first) const {  // the words of each copy from `first` on
    for (int p = 0; p < count; ++p)
      CUDA_CHECK(cudaMemset(x(p) + first, 0xFF, (3 * pitch - first) * 4));
  }
};

// How many of `count` words are wrong: those of [from, to) must be as in want,
// all others still poison.
size_t wrongWords(const float* d_got, size_t count, size_t from, size_t to,
                  const float* want) {
  static std::vector<unsigned> got;
  size_t wrong = 0;
  got.resize(std::max(got.size(), count));
  CUDA_CHECK(cudaMemcpy(got.data(), d_got, count * 4, cudaMemcpyDefault));
  for (size_t i = 0; i < count; ++i) {
    unsigned right = kPoison;
    if (i >= from && i < to) std::memcpy(&right, want + i, 4);
    wrong += got[i] != right;
  }
  return wrong;
}

// ---- residency ------------------------------------------------------------

// A row on this card. config: what the driver is asked about and what is
// launched, but for the grid. note: why the row is not timed, or empty.
struct Plan : Row {
  explicit Plan(const Row& row) : Row(row) {}
  bool isCopy() const { return kind == kCopy || kind == kDriver; }
  cudaLaunchConfig_t config = {};
  cudaFuncAttributes attributes = {};
  int carveout = cudaSharedmemCarveoutDefault;  // shared memory, % of an SM's
  int threads = 0, blocks = 0;                  // per block; resident per SM
  unsigned places = 0;                          // blocks resident on all SMs
  size_t inFlight = 0;                          // bytes of loads on an SM
  bool atMost = false;                          // they can be fewer
  double occupancy = 0.0, gbs = 0.0;
  std::string note;
  Timing timing;
};

// snippet: occupancy-query
// How many blocks of a plan an SM holds. The attributes stay set: a launch of
// the same plan has the opt-in that more than 48 KiB need, and the carveout.
int residentBlocks(const Plan& plan) {
  const int shared = int(plan.config.dynamicSmemBytes);
  int blocks = 0;
  CUDA_CHECK(cudaFuncSetAttribute(
      plan.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
  CUDA_CHECK(cudaFuncSetAttribute(
      plan.kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
      plan.carveout));
  CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
      &blocks, plan.kernel, plan.threads, shared));
  return blocks;
}
// end snippet

// snippet: smem-dial
// The dial on residency: dynamic shared memory that a block reserves and never
// touches, the least with which no more than `blocks` of them fit. The
// carveout says how much of the storage of L1 is shared memory. It is a hint:
// a launch that gets more holds more blocks than the driver said. So all
// dialled rows ask for 100 %: no launch can get more, and they differ in
// nothing but the number of blocks.
constexpr int kDialled = cudaSharedmemCarveoutMaxShared;
constexpr size_t kSharedStep = 256;
size_t sharedForBlocks(Plan plan, int blocks, size_t most) {
  size_t& shared = plan.config.dynamicSmemBytes;
  while (residentBlocks(plan) > blocks && shared + kSharedStep <= most)
    shared += kSharedStep;
  return shared;
}
// end snippet

Plan makePlan(const Row& row, const Device& device) {
  Plan plan(row);
  auto skip = [&](const std::string& why) {
    plan.note = "skipped: " + why;
    return plan;
  };
  if (row.kind == kLibrary && CUB_VERSION == 0)
    return skip("no cub::DeviceTransform; CUDA 12.9 or newer has it");
  if (!row.kernel) return plan;
  CUDA_CHECK(cudaFuncGetAttributes(&plan.attributes, row.kernel));
  const int built = plan.attributes.ptxVersion;
  const int needs = row.kind == kRing ? 80 : row.kind == kOverlap ? 90 : 75;
  if (device.major * 10 + device.minor < needs)
    return skip(text("needs compute capability %.1f", needs / 10.0));
  if (built < needs) {
    return skip(text("built for %d.%d; build with -arch=sm_%d or newer",
                     built / 10, built % 10, needs));
  }
  int grid = 0;
  int& threads = plan.threads;
  threads = kThreadsPerBlock;
  if (row.label == "suggested")
    CUDA_CHECK(
        cudaOccupancyMaxPotentialBlockSize(&grid, &threads, row.kernel));
  plan.config.blockDim = dim3(threads);
  size_t& shared = plan.config.dynamicSmemBytes;
  shared = row.kind == kRing ? 32 * row.items * threads : 0;
  const size_t most = device.sharedMemPerBlockOptin;
  if (shared > most) return skip(text("its ring needs %zu bytes", shared));
  const size_t at = row.label.rfind("-b");  // -bN: N blocks
  const int wanted =
      at == row.label.npos ? 0 : std::atoi(row.label.c_str() + at + 2);
  const bool control = row.label == "tlp1-control";
  if (wanted > 0 || control) plan.carveout = kDialled;
  const int fit = plan.blocks = residentBlocks(plan);
  if (fit < std::max(wanted, 1))
    return skip(text("an SM of this card holds %d of its blocks", fit));
  if (wanted > 0) shared = sharedForBlocks(plan, wanted, most);
  if (control)  // the most that costs no block
    shared = sharedForBlocks(plan, fit - 1, most) - kSharedStep;
  plan.blocks = residentBlocks(plan);
  if (!gate("dial-residency", plan.blocks == (wanted > 0 ? wanted : fit),
            text("%s: the driver says %d", row.label.c_str(), plan.blocks)))
    plan.note = "WRONG, not timed";
  const int elements = threads * row.items * row.width;  // of a block
  plan.places = plan.blocks * device.multiProcessorCount;
  plan.occupancy =
      double(plan.blocks) * threads / device.maxThreadsPerMultiProcessor;
  plan.inFlight = size_t(plan.blocks) * elements * 2 * sizeof(float);
  // Fewer at once where an element has a check of its own, where a thread
  // lacks registers for them, in a small grid, and in a debug build (-G).
#ifdef __CUDACC_DEBUG__
  plan.atMost = true;
#endif
  const int registers = (2 * row.width + 1) * row.items;
  plan.atMost |= row.kind == kGuarded ||
                 size_t(plan.places) * elements > kElems ||
                 (row.kind != kRing && plan.attributes.numRegs <= registers);
  return plan;
}

// ---- launching and checking -----------------------------------------------

// snippet: one-launch
#if CUB_VERSION
struct ScaleAdd {
  __device__ float operator()(float x, float y) const {
    return fmaf(kScale, x, y);
  }
};
#endif

// On copy p, from any element on; a ring has as many blocks as are resident.
void launchPlan(const Plan& plan, const Passes& passes, int p, size_t n,
                size_t from = 0) {
  float* out = passes.out(p) + from;
  const float *x = passes.x(p) + from, *y = passes.y(p) + from;
#if CUB_VERSION
  if (plan.kind == kLibrary) {
    return CUDA_CHECK(cub::DeviceTransform::Transform(
        cuda::std::make_tuple(x, y), out, n, ScaleAdd()));
  }
#endif
  const size_t words = passes.copied();
  if (plan.kind == kDriver) {
    return CUDA_CHECK(cudaMemcpyAsync(passes.half(p), x, words * 4,
                                      cudaMemcpyDeviceToDevice));
  }
  if (plan.kind == kCopy) {
    return copy16<<<blocksFor(words / 4, 256), 256>>>(
        reinterpret_cast<float4*>(passes.half(p)),
        reinterpret_cast<const float4*>(x), words / 4);
  }
  const size_t items = plan.kind == kRing ? 1 : plan.items;
  cudaLaunchAttribute overlap = {};  // with the end of the launch before
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = plan.config;
  config.gridDim = blocksFor(n, plan.threads * items * plan.width);
  if (plan.kind == kRing)
    config.gridDim = std::min(config.gridDim.x, plan.places);
  config.attrs = &overlap;
  config.numAttrs = plan.kind == kOverlap;
  CUDA_CHECK(cudaLaunchKernelEx(&config, plan.kernel, out, x, y, kScale, n));
}
// end snippet

// snippet: one-check
// One launch for n elements, `from` elements behind the start of each array:
// what it wrote at both ends and around 2^31, against the CPU.
size_t wrongAt(const Plan& plan, const Passes& passes, size_t n, size_t from) {
  const size_t end = from + n + kPadding,
               window = std::min(end, size_t(32768));
  size_t wrong = 0;
  CUDA_CHECK(cudaMemset(passes.out(0), 0xFF, end * 4));
  launchPlan(plan, passes, 0, n, from);
  for (size_t at : {size_t(0), size_t(1) << 31, end - window}) {
    if (at + window > end) continue;
    wrong += wrongWords(passes.out(0) + at, window, at ? 0 : from,
                        std::min(window, from + n - at),
                        reference(at, window).data());
  }
  return wrong;
}
// end snippet

// Every length around the ends of warps, blocks and tiles, from 0 to a few
// tiles; float rows also start on each boundary of 4 bytes. A ring gets one
// block, so that it goes round. First a long one: in a full run, where memory
// allows, more than 32 bits can count (and CUB keeps the tile that it chose
// for its first call, however short that was).
void checkLengths(std::vector<Plan>* plans) {
  size_t free = 0, total = 0;
  CUDA_CHECK(cudaMemGetInfo(&free, &total));
  const size_t large = (size_t(1) << 32) + 611;
  const bool fits = !kQuick && free > 15 * large;
  const Passes passes(fits ? large : size_t(1) << 20, 1);
  for (Plan& plan : *plans) {
    if (!plan.note.empty() || plan.isCopy()) continue;
    if (plan.kernel) residentBlocks(plan);  // sets its attributes
    size_t wrong = wrongAt(plan, passes, passes.n, 0);
    const size_t block = plan.threads > 0 ? plan.threads : 256;
    const size_t tile = block * std::max(plan.items * plan.width, 1);
    Plan one = plan;
    one.places = 1;
    for (size_t end :
         {size_t(5), size_t(32), block, 4 * block, tile, 3 * tile})
      for (size_t n = end - 5; n <= end + 5; ++n)
        wrong += wrongAt(one, passes, n, plan.width == 4 ? 0 : n % 4);
    if (!gate("lengths-exact", wrong == 0,
              text("%s: %zu words wrong", plan.label.c_str(), wrong)))
      plan.note = "WRONG, not timed";
  }
  std::printf("Checked: lengths from 0 to a few tiles%s.\n",
              fits ? ", and 2^32 + 611" : " (2^32 + 611 in full runs, 64 GB)");
}

// One launch on poisoned output, checked; the clock; every copy checked.
void measure(Plan* plan, const Passes& passes,
             const std::vector<float>& want) {
  const size_t count = plan->isCopy() ? passes.copied() : passes.n;
  const size_t first =
      plan->isCopy() ? 3 * passes.pitch / 2 : 2 * passes.pitch;
  std::vector<float> source(plan->isCopy() ? count : 0);
  auto right = [&](int launches) {
    size_t wrong = 0;
    for (int p = 0; p < std::min(launches, passes.count); ++p) {
      CUDA_CHECK(cudaMemcpy(source.data(), passes.x(p), source.size() * 4,
                            cudaMemcpyDefault));
      wrong += wrongWords(
          passes.x(p) + first, count + kPadding, 0, count,
          plan->isCopy() ? source.data() : want.data() + size_t(p) * kShift);
    }
    return gate("elements-exact", wrong == 0,
                text("%s: %zu words wrong", plan->label.c_str(), wrong));
  };
  auto launch = [&](int p) { launchPlan(*plan, passes, p, passes.n); };
  if (plan->kernel) residentBlocks(*plan);  // sets its attributes
  passes.poison(first);
  CUDA_CHECK(cudaProfilerStart());  // a profiler records this launch
  launch(0);
  CUDA_CHECK(cudaGetLastError());
  CUDA_CHECK(cudaProfilerStop());
  plan->note = "WRONG, not timed";
  if (!right(1)) return;
  passes.poison(first);
  plan->timing = timeKernel(launch);
  if (right(plan->timing.launches)) plan->note.clear();
}

// ---- latency --------------------------------------------------------------

// snippet: chase-links
// The links make a ring of lines. Each leads 33 lines on: upwards, as the rows
// walk, but never to a neighbour. The number of lines is a power of two, so
// that an odd step visits each of them once.
constexpr unsigned kChaseStep = 33;
static_assert(kChaseStep % 2 == 1,
              "kChaseStep: even ones miss half the lines");
__global__ void fillLinks(unsigned* links, unsigned lines) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= lines) return;
  links[size_t(i) * kWordsPerLine] = (i + kChaseStep) & (lines - 1);
}
// end snippet

// Nanoseconds from a load to the use of its value, with nothing else running
// and every line from DRAM: the ring is four times the L2, other data is
// written after it, and no launch reads a line that another has read.
struct Latency {
  double ns, spread;
};
Latency measureLatency(const Device& device, const Passes& passes) {
  constexpr int kHops = 2048;      // about 1 ms per launch
  constexpr double batchMs = 0.4;  // one launch per batch: lines suffice
  const size_t least = size_t(device.l2CacheSize) / kWordsPerLine;
  size_t lines = size_t(1) << 20;
  while (lines < least) lines *= 2;  // of 4 * kWordsPerLine bytes
  DeviceArray<unsigned> links(lines * kWordsPerLine), ends(kMaxLaunches);
  fillLinks<<<blocksFor(lines, 256), 256>>>(links.data, unsigned(lines));
  CUDA_CHECK(cudaGetLastError());
  passes.poison(2 * passes.pitch);  // out of L2
  auto lineAfter = [&](int launches) {
    return (launches * unsigned(kHops) * kChaseStep) & unsigned(lines - 1);
  };
  const Timing timing = timeKernel(
      [&](int i) {
        pointerChase<<<1, 1>>>(links.data, lineAfter(i), kHops, ends.data + i);
      },
      nullptr, batchMs);
  std::vector<unsigned> got(timing.launches);
  CUDA_CHECK(cudaMemcpy(got.data(), ends.data, got.size() * sizeof(unsigned),
                        cudaMemcpyDefault));
  int wrong = 0;
  for (int i = 0; i < timing.launches; ++i)
    wrong += got[i] != lineAfter(i + 1);
  gate("chase-ends-on-its-line", wrong == 0, text("%d did not", wrong));
  gate("chase-reads-a-line-once",
       size_t(timing.launches) * kHops <= lines && lines >= least,
       text("%d launches, %zu lines", timing.launches, lines));
  return {timing.ms * 1e6 / kHops, timing.spread};
}

// ---- tables ---------------------------------------------------------------

void printResidency(const std::vector<Plan>& plans, const Device& device) {
  std::printf(
      "\nTable 1: how many blocks an SM holds, and why\n%-15s%9s%7s%7s%6s%7s"
      "%8s%10s%8s%11s%9s%8s\n",
      "row", "threads", "items", "width", "regs", "local", "shared",
      "by warps", "by cap", "by shared", "by regs", "driver");
  auto roundUp = [](size_t bytes) { return int(bytes + 255) / 256 * 256; };
  std::string notes;
  for (const Plan& plan : plans) {
    if (plan.blocks == 0) continue;
    // By hand: an SM has four parts, each with a quarter of the registers; a
    // warp lives in one of them and takes its registers in steps of 256.
    const cudaFuncAttributes& is = plan.attributes;
    const int byWarps = device.maxThreadsPerMultiProcessor / plan.threads;
    const int byCap = device.maxBlocksPerMultiProcessor;
    const int quarter = device.regsPerMultiprocessor / 4;
    const int byRegs =
        4 * (quarter / roundUp(is.numRegs * 32)) / (plan.threads / 32);
    const int used =
        roundUp(plan.config.dynamicSmemBytes + is.sharedSizeBytes +
                device.reservedSharedMemPerBlock);
    constexpr int kNoLimit = 1 << 20;
    const int byShared =
        used > 0 ? int(device.sharedMemPerMultiprocessor) / used : kNoLimit;
    const bool same =
        plan.blocks == std::min({byWarps, byCap, byRegs, byShared});
    std::printf("%-15s%9d%7d%7d%6d%7zu%8zu%10d%8d%11s%9d%8s\n",
                plan.label.c_str(), plan.threads, plan.items, plan.width,
                is.numRegs, is.localSizeBytes, plan.config.dynamicSmemBytes,
                byWarps, byCap,
                byShared == kNoLimit ? "-" : text("%d", byShared).c_str(),
                byRegs, text("%s%d", same ? "" : "! ", plan.blocks).c_str());
    if (!same) notes += "\n!: the driver knows more than the model.";
    if (plan.kernel != scaleAddBounded<8>) continue;
    int asked = 0;
    CUDA_CHECK(cudaMemcpyFromSymbol(&asked, boundAsked, sizeof(asked)));
    notes += text("\n%s: compiled for %d.%d, asked for %d blocks.",
                  plan.label.c_str(), is.ptxVersion / 10, is.ptxVersion % 10,
                  asked);
    gate("bound-is-met",
         is.maxThreadsPerBlock == kThreadsPerBlock &&
             plan.blocks >= std::min({asked, byWarps, byCap}),
         plan.label);
  }
  std::printf(
      "\nwidth: floats per load. local: bytes of local memory per thread.\n"
      "shared: dynamic bytes per block; the driver adds %zu. by ...: blocks\n"
      "that a resource allows; driver: its own answer, which decides.%s\n\n",
      device.reservedSharedMemPerBlock, notes.c_str());
}

std::string inFlightText(const Plan& plan) {
  return text("%s%zu", plan.atMost ? "<=" : "", plan.inFlight);
}

// The timed rows in order of their bytes in flight, the fullest SM first; the
// bytes that Little's law asks of this card at the least; and the answer.
void printCurve(const std::vector<Plan>& plans, const Device& device,
                const Latency& alone, double libraryGBs) {
  const double latencyNs = alone.ns;
  const Plan *best = nullptr, *apart = nullptr, *least = nullptr;
  std::vector<const Plan*> rows;
  for (const Plan& plan : plans) {  // apart: its launches do not overlap
    if (plan.gbs == 0.0 || plan.blocks == 0) continue;
    rows.push_back(&plan);
    if (!best || plan.gbs > best->gbs) best = &plan;
    if (plan.kind != kOverlap && (!apart || plan.gbs > apart->gbs))
      apart = &plan;
  }
  if (!apart) return;
  std::stable_sort(rows.begin(), rows.end(), [](const Plan* a, const Plan* b) {
    return a->inFlight < b->inFlight ||
           (a->inFlight == b->inFlight && a->occupancy > b->occupancy);
  });
  const double loads = 8.0 / 12.0;  // of the bytes that a row moves
  const bool known = device.peakGBs > 0.0;
  const char* goal = known ? "the peak" : "the best row";
  const double rate = loads * (known ? device.peakGBs : best->gbs);
  const double need = latencyNs * rate / device.multiProcessorCount;
  std::printf(
      "\nTable 3: one curve, in order of bytes in flight\n"
      "%-15s%11s%8s%9s%9s%8s%7s  bar\n",
      "row", "in flight", "occ %", "ns", "GB/s", "/ best", "pair");
  bool needed = false;
  std::string answer;
  const Plan* last = nullptr;  // of fewer warps than first, the slowest
  auto compare = [&](const Plan* first) {
    if (last)
      answer += text(
          "%zu bytes: %s at %.1f %% occupancy takes %.2f times as long\n"
          "  as %s at %.1f %%.\n",
          last->inFlight, last->label.c_str(), 100 * last->occupancy,
          last->timing.ms / first->timing.ms, first->label.c_str(),
          100 * first->occupancy);
    last = nullptr;
  };
  const Plan* first = nullptr;  // of those with equal bytes in flight
  for (const Plan* plan : rows) {
    if (!needed && double(plan->inFlight) >= need) {
      std::printf("%-15s%11.0f%8s%9.1f%9s%8s%7s  fewer cannot reach %s\n",
                  "Little's law", need, "-", latencyNs, "-", "-", "-", goal);
      needed = true;
    }
    const double ns =
        plan->inFlight * device.multiProcessorCount / (plan->gbs * loads);
    gate("little",
         plan->atMost || kQuick || ns * (1 + alone.spread) >= latencyNs,
         text("%s: %.0f ns per load", plan->label.c_str(), ns));
    if (!first || first->inFlight != plan->inFlight || first->atMost) {
      compare(first);
      first = plan;
    }
    if (!plan->atMost && plan->occupancy < first->occupancy &&
        (!last || plan->timing.ms > last->timing.ms))
      last = plan;
    const double share = plan->gbs / best->gbs;
    const std::string bar(1 + size_t(24 * share), plan->atMost ? '-' : '#');
    const std::string pair =
        plan->atMost ? "-" : text("%.2f", plan->timing.ms / first->timing.ms);
    std::printf("%-15s%11s%8.1f%9.1f%9.1f%8.3f%7s  %s\n", plan->label.c_str(),
                inFlightText(*plan).c_str(), 100 * plan->occupancy, ns,
                plan->gbs, share, pair.c_str(), bar.c_str());
    if (plan->gbs >= 0.9 * apart->gbs &&
        (!least || plan->occupancy < least->occupancy))
      least = plan;
  }
  compare(first);
  std::printf(
      "\nin flight: bytes of loads on a full SM; <= where guards, few regs,\n"
      "a debug build or a small grid can make them fewer. ns: bytes in\n"
      "flight on all SMs / bytes loaded per ns. pair: time over that of the\n"
      "first row with as many bytes. Little's law: bytes in flight = latency\n"
      "x rate. A load alone takes %.1f ns (pointer chase); %.0f GB/s of\n"
      "loads, 2/3 of %s, need at least %.0f bytes on each of %d SMs.\n"
      "\nEqual bytes in flight, fewer warps; of these rows, the slowest:\n%s"
      "\nFastest of these rows: %s, %.1f GB/s, at %.1f %% occupancy.\n",
      latencyNs, rate, goal, need, device.multiProcessorCount,
      answer.empty() ? "n/a\n" : answer.c_str(), best->label.c_str(),
      best->gbs, 100 * best->occupancy);
  if (apart != best)
    std::printf("Without overlapping launches: %s, %.1f GB/s.\n",
                apart->label.c_str(), apart->gbs);
  std::printf(
      "Least occupancy within 10 %% of that: %s, %.1f %%, %.3f of its GB/s.\n"
      "The fastest of these rows has %s of the GB/s of library.\n",
      least->label.c_str(), 100 * least->occupancy, least->gbs / apart->gbs,
      libraryGBs > 0.0 ? text("%.3f", best->gbs / libraryGBs).c_str() : "n/a");
}

void lesson() {
  const Device device = openDevice(75, (const void*)scaleAdd<1>);
  std::vector<Plan> plans;
  for (const Row& row : kRows)
    if (has(wantedRows, row.label)) plans.push_back(makePlan(row, device));
  printResidency(plans, device);
  checkLengths(&plans);

  const Passes passes(kElems, copiesBeyondL2(device, 12 * kElems));
  const Latency alone = measureLatency(device, passes);
  const std::vector<float> want =
      reference(0, kElems + size_t(passes.count) * kShift);
  std::printf("\nTable 2: %zu elements, %.1f MB per launch\n", kElems,
              12e-6 * kElems);
  Table table(device, "  blocks  warps   occ %  in flight");
  double copyGBs = 0.0, driverGBs = 0.0, libraryGBs = 0.0;
  for (Plan& plan : plans) {
    if (plan.note.empty()) measure(&plan, passes, want);
    if (plan.isCopy()) passes.fill();  // it wrote over y
    if (!plan.note.empty()) {
      table.line(plan.label, plan.note);
      continue;
    }
    plan.gbs = table.print(
        plan.label, plan.timing,
        plan.isCopy() ? 8.0 * passes.copied() : 12.0 * kElems,
        plan.blocks == 0
            ? text("%8s%7s%8s%11s", "-", "-", "-", "-")
            : text("%8d%7d%8.1f%11s", plan.blocks,
                   plan.blocks * plan.threads / 32, 100 * plan.occupancy,
                   inFlightText(plan).c_str()));
    if (plan.kind == kCopy) copyGBs = plan.gbs;
    if (plan.kind == kDriver) driverGBs = plan.gbs;
    if (plan.kind == kLibrary) libraryGBs = plan.gbs;
  }
  const double ratio = copyGBs * driverGBs > 0.0 ? copyGBs / driverGBs : 1.0;
  gate("copy-near-memcpy", kQuick || (ratio >= 0.8 && ratio <= 1.25),
       text("%.2f of cudaMemcpyAsync", ratio));
  std::printf(
      "\nblocks, warps: resident on an SM. in flight: see Table 3. A copy\n"
      "writes a byte for each that it reads, a row one for two: a row may\n"
      "exceed the copy, never the peak. Launches of vec1-cs-dl, and of newer\n"
      "libraries (CUB_VERSION here: %d), overlap: the next one comes while\n"
      "the one before is flushed.\n",
      CUB_VERSION);
  printCurve(plans, device, alone, libraryGBs);
}

int main(int argc, char** argv) {
  Rows rows;
  for (const Row& row : kRows) rows.push_back({row.label, row.kernelName});
  return runLesson(argc, argv, "about 10 s on an NVIDIA H200", rows, lesson);
}
