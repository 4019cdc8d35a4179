// Day 45: occupancy is not the goal
// Question: if two launches keep equally many bytes in flight, does it matter
// how many warps hold them?
//
// Every row computes out[i] = a * x[i] + y[i] over the same arrays, 12 bytes
// an element. What differs is who holds the loads: many warps with few loads
// each, or few warps with many.
//
// Rows:
//   tlp1             1 float a thread, as many blocks an SM as fit
//   tlp1-b3          the same kernel, residency dialled down to 3 blocks an SM
//   tlp1-b2          2 blocks an SM
//   tlp1-b1          1 block an SM
//   ilp2             2 floats a thread: 4 loads before the first multiply
//   ilp4             4 floats a thread: 8 loads
//   ilp8             8 floats a thread: 16 loads
//   ilp4-b1          4 floats a thread, 1 block an SM
//   ilp8-b1          8 floats a thread, 1 block an SM
//   ilp8-lb          8 floats a thread, __launch_bounds__ asks for registers
//                    few enough for full occupancy on the card compiled for
//   ilp8-guarded     8 floats a thread, a bounds check on every element
//   ilp8-guarded-b1  the same, 1 block an SM
//   vec1             1 float4 a thread, as many blocks an SM as fit
//   vec1-b2          1 float4 a thread, 2 blocks an SM
//   vec2-b1          2 float4 a thread, 1 block an SM
//   vec2             2 float4 a thread, as many blocks an SM as fit
//
// Not measured: other block sizes, caching hints, asynchronous copies to
// shared memory, kernels that compute enough to hide the memory behind it.
//
// Build: nvcc -std=c++17 -O3 -arch=sm_75 -o occupancy occupancy.cu
// Run:   ./occupancy
// Verified: NVIDIA H200, compute capability 9.0, driver 580.159.04, CUDA 13.0,
//   2026-11-29, evidence/day45-occupancy/run-2026-11-29-nvidia-h200-sm_75.txt

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
#include <tuple>
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

// ---- what a student may edit ----------------------------------------------

constexpr size_t kElems = kQuick ? (1 << 18) + 611 : (1 << 24) + 611;
constexpr int kThreadsPerBlock = 256;
constexpr float kScale = 3.0f;  // the a of a * x + y

#ifdef __CUDACC_DEBUG__
constexpr bool kDebug = true;  // -G: the compiler keeps no loads together
#else
constexpr bool kDebug = false;
#endif

static_assert(kElems >= 1 && kElems <= size_t(1) << 40,
              "kElems: 1 to 2^40; 2^31 and more are written size_t(1) << 31");
static_assert(kThreadsPerBlock % 32 == 0 && kThreadsPerBlock >= 32 &&
                  kThreadsPerBlock <= 1024,
              "a block is 1 to 32 whole warps: the residency model and the "
              "bytes in flight count whole warps");

// Limits of the architecture that the kernels are compiled for, those that
// ptxas goes by: __launch_bounds__ needs them at compile time. Everything else
// in this file asks the driver. An architecture that is not known here gets
// the smallest limits. 750 is compute capability 7.5; the host's pass, which
// compiles no kernel, has none.
#ifdef __CUDA_ARCH__
constexpr int kArch = __CUDA_ARCH__;
#else
constexpr int kArch = 0;
#endif
constexpr bool k2048 =
    kArch == 800 || kArch == 900 || kArch == 1000 || kArch == 1030;
constexpr bool k1536 =
    (kArch >= 860 && kArch < 900) || kArch == 1100 || kArch / 100 == 12;
constexpr int kThreadsPerSm = k2048 ? 2048 : k1536 ? 1536 : 1024;
constexpr bool k16Blocks = kArch >= 860 && kArch < 890;
constexpr int kBlocksPerSm = k16Blocks ? 16 : kThreadsPerSm / 64;

// What ilp8-lb asks for: as many blocks as fill an SM of that architecture.
constexpr int kFull = kThreadsPerSm / kThreadsPerBlock;
constexpr int kMinBlocksPerSm = kFull < kBlocksPerSm ? kFull : kBlocksPerSm;
static_assert(kArch == 0 ||
                  (kMinBlocksPerSm >= 1 && kMinBlocksPerSm <= kFull &&
                   kMinBlocksPerSm <= kBlocksPerSm),
              "an SM of this architecture cannot hold kMinBlocksPerSm blocks: "
              "ptxas would warn and ignore the bound");

// Floats of an array with the poison behind it.
constexpr size_t kPitch = (kElems + 63) / 64 * 64 + 1024;
static_assert(kPitch % 64 == 0,
              "every array starts on 256 bytes: float4 must be aligned, and "
              "a warp's load must start on a sector of 32 bytes");

// x and y are whole numbers of two prime periods, so that a * x + y is exact
// in float and that no two elements closer than 4093 * 8191 share x and y: a
// right value from the wrong place is found.
constexpr int kPeriodX = 4093, kPeriodY = 8191;
__host__ __device__ inline float valueAt(size_t i, int period) {
  return float(int(i % size_t(period)) - period / 2);
}
static_assert(kScale > 0.0f && kScale == float(int(kScale)) &&
                  kScale * kPeriodX + kPeriodY < 16777216.0f,
              "a * x + y must depend on x and be a whole number below 2^24, "
              "which float holds exactly");

// ---- kernels --------------------------------------------------------------

// The body of every float row: kItems elements a thread, one grid apart.
// One thread: 2 * kItems loads, none of which waits for another, then the
//   multiplies, then the stores. All the loads are in flight together.
// One warp: 32 neighbouring floats a request, 4 sectors of 32 bytes.
// Launch: element i + (kItems - 1) * stride exists.
// snippet: ilp-body
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

// Where the bounds check stands can decide whether the body above keeps its
// loads together (scaleAddGuarded shows the other place). So there is one
// check for the kItems * blockDim.x elements of a block, the tile.
// One thread: a full tile runs the body with no check in it; only the last
//   kItems blocks of a grid can have a partial tile, and take the slow loop.
// One warp: the check is the same for the whole block: no divergence.
// Launch: a one-dimensional grid of at least n / kItems threads.
// snippet: one-guard-a-tile
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

// What changed: the register budget. The bound tells ptxas the block size and
// how many blocks an SM must hold, and so how many registers a thread may
// have. A budget that is too small is paid for with local memory (spills) or
// with loads that no longer come first. This one is not: for sm_75 and sm_90
// scaleAdd<8> takes no more registers without it.
// One thread, one warp: as above. Launch: kThreadsPerBlock threads a block.
// snippet: bounded-kernel
template <int kItems>
__global__ void __launch_bounds__(kThreadsPerBlock, kMinBlocksPerSm)
    scaleAddBounded(float* __restrict__ out, const float* __restrict__ x,
                    const float* __restrict__ y, float a, size_t n) {
  scaleAddBlock<kItems>(out, x, y, a, n);
}
// end snippet

// For the host: the architecture that the kernel which really runs was
// compiled for, and what its bound asks for. Read with cudaMemcpyFromSymbol.
__device__ int boundedFor[2] = {kArch, kMinBlocksPerSm};

// What changed: a bounds check on every element, the habit of most kernels.
// One thread: each load is predicated. For sm_75 and sm_90 the compiler then
//   puts the first multiply before the last loads, so that fewer than
//   2 * kItems loads are in flight.
// One warp, launch: as scaleAdd.
// snippet: guarded-kernel
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

// What changed from scaleAdd: the width of a load, 16 bytes instead of 4.
// One thread: 2 * kItems loads of a float4, the same one check a tile. The
//   slow loop also takes the last n % 4 elements: then the last float4 is not
//   whole, so the last tile is never full.
// One warp: 512 neighbouring bytes a request, 16 sectors.
// Launch: at least n / (4 * kItems) threads, arrays aligned to 16 bytes.
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
      out4[i + k * stride] =
          make_float4(fmaf(a, xs[k].x, ys[k].x), fmaf(a, xs[k].y, ys[k].y),
                      fmaf(a, xs[k].z, ys[k].z), fmaf(a, xs[k].w, ys[k].w));
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

// The ceiling: one float4 a thread, copied. Launch: count float4 or more.
__global__ void copy16(float4* __restrict__ to,
                       const float4* __restrict__ from, size_t count) {
  const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) to[i] = from[i];
}

// Latency: each load gives the address of the next, so that one load is in
// flight on the whole card. Launch: one thread.
// snippet: pointer-chase
constexpr int kWordsPerLine = 32;  // one link a line of 128 bytes
__global__ void pointerChase(const unsigned* links, unsigned line, int hops,
                             unsigned* end) {
  for (int k = 0; k < hops; ++k) line = links[size_t(line) * kWordsPerLine];
  *end = line;
}
// end snippet

// The links make a ring. Each leads 33 lines on: upwards, as the rows walk,
// but never to a neighbour. The number of lines is a power of two, so that an
// odd step visits each of them once.
constexpr unsigned kChaseStep = 33;
static_assert(kChaseStep % 2 == 1, "an even step misses half of the lines");
__global__ void fillLinks(unsigned* links, unsigned lines) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= lines) return;
  links[size_t(i) * kWordsPerLine] = (i + kChaseStep) & (lines - 1);
}

__global__ void fillValues(float* to, int period, size_t n) {
  const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) to[i] = valueAt(i, period);
}

// ---- the rows -------------------------------------------------------------

using Kernel = void (*)(float*, const float*, const float*, float, size_t);

// items: loads of x a thread. width: floats a load. wanted: blocks an SM, 0
// for as many as fit. together: the 2 * items loads of a thread all come
// before its first multiply.
struct Row {
  const char* label;
  Kernel kernel;
  int items, width, wanted;
  bool together;
};
const Row kRows[] = {
    {"tlp1", scaleAdd<1>, 1, 1, 0, true},
    {"tlp1-b3", scaleAdd<1>, 1, 1, 3, true},
    {"tlp1-b2", scaleAdd<1>, 1, 1, 2, true},
    {"tlp1-b1", scaleAdd<1>, 1, 1, 1, true},
    {"ilp2", scaleAdd<2>, 2, 1, 0, true},
    {"ilp4", scaleAdd<4>, 4, 1, 0, true},
    {"ilp8", scaleAdd<8>, 8, 1, 0, true},
    {"ilp4-b1", scaleAdd<4>, 4, 1, 1, true},
    {"ilp8-b1", scaleAdd<8>, 8, 1, 1, true},
    {"ilp8-lb", scaleAddBounded<8>, 8, 1, 0, true},
    {"ilp8-guarded", scaleAddGuarded<8>, 8, 1, 0, false},
    {"ilp8-guarded-b1", scaleAddGuarded<8>, 8, 1, 1, false},
    {"vec1", scaleAddVec<1>, 1, 4, 0, true},
    {"vec1-b2", scaleAddVec<1>, 1, 4, 2, true},
    {"vec2-b1", scaleAddVec<2>, 2, 4, 1, true},
    {"vec2", scaleAddVec<2>, 2, 4, 0, true},
};

// What is known of a row, and what was measured. blocks: resident on an SM,
// the driver's answer. shared: dynamic bytes a block. inFlight: bytes of loads
// in flight on an SM; atMost: it can be fewer. note: why the row was not
// timed, or empty.
struct Result {
  const Row* row = nullptr;
  int threads = 0, blocks = 0, shared = 0;
  size_t inFlight = 0;
  bool atMost = false;
  std::string note;
  cudaFuncAttributes attributes{};
  double occupancy = 0.0, gbs = 0.0;
  Timing timing;
};

// ---- residency ------------------------------------------------------------

// Limits of one SM and of one block, bytes for shared memory, and how many
// SMs there are: the device's attributes.
struct SmLimits {
  int warps = deviceAttribute(cudaDevAttrMaxThreadsPerMultiProcessor) / 32;
  int blocks = deviceAttribute(cudaDevAttrMaxBlocksPerMultiprocessor);
  int registers = deviceAttribute(cudaDevAttrMaxRegistersPerMultiprocessor);
  int shared = deviceAttribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor);
  int reserved = deviceAttribute(cudaDevAttrReservedSharedMemoryPerBlock);
  int optIn = deviceAttribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  int sms = deviceAttribute(cudaDevAttrMultiProcessorCount);
};

// The dial: dynamic shared memory that a block reserves and never touches,
// the largest amount with which `blocks` of them fit on an SM. The driver adds
// its own bytes to each block and rounds up, in steps of 256 bytes at most.
// snippet: smem-dial
constexpr int kSharedStep = 256;
inline int sharedForBlocks(const SmLimits& sm, int blocks) {
  const int each = sm.shared / blocks / kSharedStep * kSharedStep;
  return std::max(0, std::min(each - sm.reserved, sm.optIn));
}

// More than 48 KiB a block needs the opt-in, before the query and before the
// launch. The carveout asks for all the shared memory that an SM can have, and
// so for the least L1 cache; but no row has a byte to read twice.
inline void setDial(Kernel kernel, int shared) {
  CUDA_CHECK(cudaFuncSetAttribute(
      kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
  CUDA_CHECK(cudaFuncSetAttribute(
      kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
      shared > 0 ? cudaSharedmemCarveoutMaxShared
                 : cudaSharedmemCarveoutDefault));
}
// end snippet

// snippet: occupancy-query
inline int residentBlocks(Kernel kernel, int threads, int shared) {
  int blocks = 0;
  setDial(kernel, shared);
  CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
      &blocks, kernel, threads, size_t(shared)));
  return blocks;
}
// end snippet

// The same by hand: blocks that each resource allows (-1: no limit), and the
// least of them. An SM has four parts, each with a quarter of the registers; a
// warp lives in one part and takes its registers in steps of 256.
struct Model {
  int byWarps, byCap, byShared, byRegisters, least;
};
inline Model modelResidency(const SmLimits& sm, const Result& result) {
  const int warps = result.threads / 32;
  const int perWarp = (result.attributes.numRegs * 32 + 255) / 256 * 256;
  const int shared =
      int(result.attributes.sharedSizeBytes) + result.shared + sm.reserved;
  const int perBlock = (shared + kSharedStep - 1) / kSharedStep * kSharedStep;
  Model m = {sm.warps / warps, sm.blocks, -1,
             4 * (sm.registers / 4 / perWarp) / warps, 0};
  m.least = std::min({m.byWarps, m.byCap, m.byRegisters});
  if (perBlock > 0) {
    m.byShared = sm.shared / perBlock;
    m.least = std::min(m.least, m.byShared);
  }
  return m;
}

// Fills in what the driver says of a row, and whether it can be timed.
inline Result askDriver(const Row& row, const SmLimits& sm, int threads) {
  Result result;
  result.row = &row;
  result.threads = threads;
  CUDA_CHECK(cudaFuncGetAttributes(&result.attributes, row.kernel));
  result.blocks = residentBlocks(row.kernel, threads, 0);
  if (result.blocks == 0) {
    result.note = "does not fit: no block of " + std::to_string(threads) +
                  " threads runs here";
  } else if (row.wanted > result.blocks) {
    result.note = "not possible here: an SM of this card holds " +
                  std::to_string(result.blocks) + " of its blocks";
  } else if (row.wanted > 0) {
    result.shared = sharedForBlocks(sm, row.wanted);
    result.blocks = residentBlocks(row.kernel, threads, result.shared);
    if (!gate("dial-residency", result.blocks == row.wanted,
              "%s: %d blocks an SM wanted, the driver says %d", row.label,
              row.wanted, result.blocks)) {
      result.note = "the dial missed its target";
    }
  }
  result.occupancy = double(result.blocks) * threads / (32.0 * sm.warps);
  const int elements = threads * row.items * row.width;  // of a block
  result.inFlight = size_t(result.blocks) * elements * 2 * sizeof(float);
  // All 2 * items loads at once: only where the kernel is written so, where a
  // thread has registers for the values and their addresses, in an optimized
  // build, and where the grid fills the card.
  const int registers = 2 * row.items * (row.width + 1);
  result.atMost = !row.together || result.attributes.numRegs < registers ||
                  kDebug || size_t(result.blocks) * sm.sms * elements > kElems;
  return result;
}

// ---- launching and checking -----------------------------------------------

// The data of pass p: x, y and out, one after the other.
struct Passes {
  DeviceArray<float> data;
  int count;
  explicit Passes(int passes)
      : data(size_t(passes) * 3 * kPitch), count(passes) {}
  size_t bytes() const { return size_t(count) * 3 * kPitch * sizeof(float); }
  float* x(int p) const { return data.data + size_t(p % count) * 3 * kPitch; }
  float* y(int p) const { return x(p) + kPitch; }
  float* out(int p) const { return y(p) + kPitch; }
};

inline unsigned blocksFor(size_t work, size_t perBlock) {
  return unsigned((work + perBlock - 1) / perBlock);
}

inline void fill(float* to, int period, size_t n) {
  fillValues<<<blocksFor(n, 256), 256>>>(to, period, n);
  CUDA_CHECK(cudaGetLastError());
}
inline void launchRow(const Result& result, const Passes& passes, int pass) {
  const Row& row = *result.row;
  const unsigned grid =
      blocksFor(kElems, size_t(result.threads) * row.items * row.width);
  row.kernel<<<grid, result.threads, result.shared>>>(
      passes.out(pass), passes.x(pass), passes.y(pass), kScale, kElems);
}

// CPU reference, in double.
inline std::vector<float> reference() {
  std::vector<float> want(kElems);
  for (size_t i = 0; i < kElems; ++i) {
    want[i] = float(double(kScale) * double(valueAt(i, kPeriodX)) +
                    double(valueAt(i, kPeriodY)));
  }
  return want;
}

// Compares out of the first `used` passes with the reference; behind its last
// element, the poison must be as it was.
inline bool checkOut(const Result& result, const Passes& passes, int used,
                     const std::vector<float>& want) {
  std::vector<float> got(kPitch);
  size_t wrong = 0, first = 0;
  for (int p = 0; p < std::min(used, passes.count); ++p) {
    CUDA_CHECK(cudaMemcpy(got.data(), passes.out(p), kPitch * sizeof(float),
                          cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < kPitch; ++i) {
      const bool ok = i < kElems
                          ? got[i] == want[i]
                          : !std::memcmp(&got[i], "\xFF\xFF\xFF\xFF", 4);
      if (!ok && wrong++ == 0) first = i;
    }
  }
  return gate("elements-exact", wrong == 0,
              "%s: %.0f words of out are wrong, the first is word %.0f of "
              "%.0f",
              result.row->label, double(wrong), double(first), double(kElems));
}

// Runs a row once on poisoned output, checks it, times it, checks it again.
inline void measure(Result* result, const Passes& passes,
                    const std::vector<float>& want) {
  if (!result->note.empty()) return;
  setDial(result->row->kernel, result->shared);
  auto poison = [&] {
    for (int p = 0; p < passes.count; ++p) {
      CUDA_CHECK(cudaMemset(passes.out(p), 0xFF, kPitch * sizeof(float)));
    }
  };
  poison();
  CUDA_CHECK(cudaProfilerStart());  // a profiler records this launch
  launchRow(*result, passes, 0);
  CUDA_CHECK(cudaGetLastError());
  CUDA_CHECK(cudaProfilerStop());
  result->note = "wrong result";
  if (!checkOut(*result, passes, 1, want)) return;
  poison();
  result->timing = timeKernel([&](int i) { launchRow(*result, passes, i); });
  if (!checkOut(*result, passes, result->timing.launches, want)) return;
  result->note.clear();
  result->gbs = 12.0 * double(kElems) / (result->timing.ms * 1e6);
}

// A copy of as many bytes as a row moves, half of them read and half written,
// by the driver or by copy16. Returns GB/s, or 0 where it did not copy.
inline double measureCopy(const Passes& passes, bool driver) {
  const size_t count = (3 * kElems / 2 + 3) / 4 * 4;  // whole float4
  const size_t half = 3 * kPitch / 2;                 // of a pass, in floats
  CUDA_CHECK(cudaMemset(passes.data.data, 0xFF, passes.bytes()));
  for (int p = 0; p < passes.count; ++p) fill(passes.x(p), kPeriodX, count);
  const Timing timing = timeKernel([&](int i) {
    float *from = passes.x(i), *to = from + half;
    if (driver) {
      CUDA_CHECK(
          cudaMemcpyAsync(to, from, 4 * count, cudaMemcpyDeviceToDevice));
    } else {
      copy16<<<blocksFor(count / 4, 256), 256>>>(
          reinterpret_cast<float4*>(to), reinterpret_cast<float4*>(from),
          count / 4);
    }
  });
  std::vector<float> got(count);
  CUDA_CHECK(cudaMemcpy(got.data(), passes.x(0) + half, 4 * count,
                        cudaMemcpyDeviceToHost));
  size_t wrong = 0;
  for (size_t i = 0; i < count; ++i)
    wrong += !(got[i] == valueAt(i, kPeriodX));
  const char* name = driver ? "cudaMemcpyAsync" : "copy16";
  if (!gate("copy-exact", wrong == 0, "%s: %.0f floats are wrong", name,
            double(wrong))) {
    return 0.0;
  }
  const double gbs = 8.0 * double(count) / (timing.ms * 1e6);
  std::printf("%-16s %8.4f ms %6.1f %% spread %6.0f GB/s\n", name, timing.ms,
              100.0 * timing.spread, gbs);
  return gbs;
}

// Nanoseconds from a load to the use of its value, with nothing else running
// and every line from DRAM: the ring is four times the L2, other data is
// written after it, and no launch reads a line that another has read.
inline double measureLatency(const Device& device, const Passes& passes,
                             size_t lines) {
  constexpr int kHops = kQuick ? 256 : 8192;  // some milliseconds a launch
  DeviceArray<unsigned> links(lines * kWordsPerLine), ends(kMaxLaunches);
  CUDA_CHECK(cudaMemset(ends.data, 0xFF, kMaxLaunches * sizeof(unsigned)));
  fillLinks<<<blocksFor(lines, 256), 256>>>(links.data, unsigned(lines));
  CUDA_CHECK(cudaGetLastError());
  CUDA_CHECK(cudaMemset(passes.data.data, 0xFF, passes.bytes()));  // out of L2

  auto lineAfter = [&](int launches) {
    return (launches * unsigned(kHops) * kChaseStep) & unsigned(lines - 1);
  };
  const Timing timing = timeKernel([&](int i) {
    pointerChase<<<1, 1>>>(links.data, lineAfter(i), kHops, ends.data + i);
  });
  std::vector<unsigned> got(timing.launches);
  CUDA_CHECK(cudaMemcpy(got.data(), ends.data, got.size() * sizeof(unsigned),
                        cudaMemcpyDeviceToHost));
  int wrong = 0;
  for (int i = 0; i < timing.launches; ++i)
    wrong += got[i] != lineAfter(i + 1);
  gate("chase-ends-on-its-line", wrong == 0, "%d of %d launches did not",
       wrong, timing.launches);
  gate("chase-reads-a-line-once",
       size_t(timing.launches) * kHops <= lines &&
           lines * kWordsPerLine * 4 >= 4 * device.l2Bytes,
       "%d launches of %d hops over %.0f lines", timing.launches, kHops,
       double(lines));
  return timing.ms * 1e6 / kHops;
}

// ---- tables ---------------------------------------------------------------

inline std::string percent(double part, double whole) {
  char text[16] = "n/a";
  if (whole > 0.0) {
    std::snprintf(text, sizeof(text), "%.1f", 100.0 * part / whole);
  }
  return text;
}
inline std::string inFlightText(const Result& r) {
  return (r.atMost ? "<=" : "") + std::to_string(r.inFlight);
}

inline void printResidency(const std::vector<Result>& results,
                           const SmLimits& sm) {
  std::printf(
      "\nTable 1: how many blocks of %d threads an SM can hold, and why\n"
      "%-16s %5s %5s %5s %6s %7s | %5s %4s %6s %5s %6s | %6s\n",
      kThreadsPerBlock, "row", "items", "width", "regs", "local", "shared",
      "warps", "cap", "shared", "regs", "least", "driver");
  bool differ = false;
  for (const Result& r : results) {
    const Model m = modelResidency(sm, r);
    std::printf("%-16s %5d %5d %5d %6d ", r.row->label, r.row->items,
                r.row->width, r.attributes.numRegs,
                int(r.attributes.localSizeBytes));
    if (!r.note.empty()) {
      std::printf("  %s\n", r.note.c_str());
      continue;
    }
    std::printf(
        "%7d | %5d %4d %6s %5d %6d | %6d%s\n", r.shared, m.byWarps, m.byCap,
        m.byShared < 0 ? "-" : std::to_string(m.byShared).c_str(),
        m.byRegisters, m.least, r.blocks, m.least == r.blocks ? "" : " !");
    differ = differ || m.least != r.blocks;
  }
  std::printf(
      "width: floats a load. regs, local: registers and bytes of spills a\n"
      "thread. shared: dynamic bytes a block (the driver adds %d to each).\n"
      "Right of the bar, blocks an SM: by each resource, the least of them,\n"
      "and the driver's answer, which decides.%s\n",
      sm.reserved,
      differ ? "\n!: the driver knows more of this card, or of how it is "
               "shared, than the model."
             : "");

  int made[2] = {};
  CUDA_CHECK(cudaMemcpyFromSymbol(made, boundedFor, sizeof(made)));
  const int most = std::min(sm.warps * 32 / kThreadsPerBlock, sm.blocks);
  for (const Result& r : results) {
    if (r.row->kernel != scaleAddBounded<8>) continue;
    std::printf("%s: compiled for %d.%d, asked for %d blocks an SM, got %d.\n",
                r.row->label, made[0] / 100, made[0] / 10 % 10, made[1],
                r.blocks);
    gate("bound-is-met", made[1] > most || r.blocks >= made[1],
         "%s: asked for %d blocks an SM, this card can hold %d, got %d",
         r.row->label, made[1], most, r.blocks);
  }
}

inline void printMeasured(const std::vector<Result>& results,
                          const Device& device, double copyGBs,
                          const Result& best) {
  std::printf(
      "\nTable 2: %.0f elements, %.1f MB a pass (12 bytes an element)\n"
      "%-16s %6s %5s %6s %9s %8s %7s %6s %6s %6s %6s\n",
      double(kElems), 12e-6 * double(kElems), "row", "blocks", "warps",
      "occ %", "in flight", "ms", "spread%", "GB/s", "% copy", "% peak",
      "/ best");
  for (const Result& r : results) {
    if (!r.note.empty()) {
      std::printf("%-16s %s\n", r.row->label, r.note.c_str());
      continue;
    }
    std::printf("%-16s %6d %5d %6.1f %9s %8.4f %7.1f %6.0f %6s %6s %6.3f\n",
                r.row->label, r.blocks, r.blocks * r.threads / 32,
                100.0 * r.occupancy, inFlightText(r).c_str(), r.timing.ms,
                100.0 * r.timing.spread, r.gbs,
                percent(r.gbs, copyGBs).c_str(),
                percent(r.gbs, device.peakGBs).c_str(), r.gbs / best.gbs);
  }
  std::printf(
      "blocks, warps: resident on an SM. in flight: bytes of loads in flight\n"
      "on a full SM = resident threads x loads before the first use x bytes\n"
      "a load; <= where a check on every element, few registers, a debug\n"
      "build or a small grid can make them fewer.\n");
  if (copyGBs > 0.0 && best.gbs > copyGBs) {
    std::printf(
        "Above 100 %% of copy: the bytes are as many, but a copy writes one\n"
        "for each that it reads, and a row one for two.\n");
  }
}

// The timed rows in order of their bytes in flight, and the bytes that
// Little's law asks of this card at the least.
inline void printCurve(std::vector<Result> results, const Device& device,
                       double latencyNs, const Result& best) {
  constexpr int kBar = 48;
  constexpr double kLoads = 8.0 / 12.0;  // of the bytes that a row moves
  const bool known = device.peakGBs > 0.0;
  const char* goal = known ? "the peak" : "the best row";
  const double rate = kLoads * (known ? device.peakGBs : best.gbs);
  const double need = latencyNs * rate / device.sms;
  std::stable_sort(results.begin(), results.end(),
                   [](const Result& a, const Result& b) {
                     return a.inFlight < b.inFlight;
                   });
  std::printf("\nTable 3: one curve\n%-16s %9s %6s %7s %6s\n", "row",
              "in flight", "occ %", "ns", "GB/s");
  bool needed = false;
  for (const Result& r : results) {
    if (!r.note.empty()) continue;
    if (!needed && double(r.inFlight) >= need) {
      std::printf("%-16s %9.0f ---- with fewer, %s is out of reach\n", "",
                  need, goal);
      needed = true;
    }
    const int bar = std::max(1, int(kBar * r.gbs / best.gbs + 0.5));
    std::printf("%-16s %9s %6.1f %7.0f %6.0f %s\n", r.row->label,
                inFlightText(r).c_str(), 100.0 * r.occupancy,
                double(r.inFlight) * device.sms / (r.gbs * kLoads), r.gbs,
                std::string(bar, r.atMost ? '-' : '#').c_str());
  }
  std::printf(
      "ns: bytes in flight on all SMs / bytes loaded a second: what a load\n"
      "takes, more where not all warps wait for loads. Bars of -: at most.\n"
      "Little's law: bytes in flight = latency x rate. A DRAM load takes\n"
      "%.0f ns with nothing else running (pointer chase). %.0f GB/s of\n"
      "loads, 2/3 of %s, need at least %.0f bytes on each of %d SMs.\n",
      latencyNs, rate, goal, need, device.sms);
}

// The pair that answers the question: equal bytes in flight (within 5 %) and
// occupancies as far apart as the rows offer. Of equal pairs, the one with the
// fewest bytes, where the memory has the most to lose, then the one whose low
// row needs the fewest load instructions.
inline void printPair(const std::vector<Result>& results) {
  const Result *high = nullptr, *low = nullptr;
  auto key = [](const Result* a, const Result* b) {
    return std::make_tuple(-a->occupancy / b->occupancy, b->inFlight,
                           b->row->items);
  };
  auto equal = [](const Result& a, const Result& b) {
    const double ratio = double(a.inFlight) / double(b.inFlight);
    return a.note.empty() && b.note.empty() && !a.atMost && !b.atMost &&
           ratio >= 0.95 && ratio <= 1.05;
  };
  for (const Result& a : results) {
    for (const Result& b : results) {
      if (!equal(a, b) || !(a.occupancy > b.occupancy)) continue;
      if (high == nullptr || key(&a, &b) < key(high, low)) high = &a, low = &b;
    }
  }
  if (high == nullptr) {
    std::printf("\nNo two rows differ in occupancy alone here.\n");
    return;
  }
  std::printf("\nThe pair: equal bytes in flight, occupancy %.1f x apart\n",
              high->occupancy / low->occupancy);
  for (const Result* r : {high, low}) {
    std::printf("%-16s %9zu bytes %6.1f %% %8.4f ms %6.0f GB/s\n",
                r->row->label, r->inFlight, 100.0 * r->occupancy, r->timing.ms,
                r->gbs);
  }
  double least = low->gbs, most = low->gbs;
  for (const Result& r : results) {
    if (!equal(r, *low)) continue;
    least = std::min(least, r.gbs);
    most = std::max(most, r.gbs);
  }
  std::printf(
      "Time ratio %.2f. All rows with these bytes: %.0f to %.0f GB/s.\n",
      low->timing.ms / high->timing.ms, least, most);
}

// The block size that the occupancy API suggests for scaleAdd<1>, timed.
inline void printSuggestion(const SmLimits& sm, const Passes& passes,
                            const std::vector<float>& want,
                            const Result& best) {
  int grid = 0, threads = 0;
  CUDA_CHECK(cudaOccupancyMaxPotentialBlockSize(&grid, &threads, scaleAdd<1>));
  const Row row = {"suggested", scaleAdd<1>, 1, 1, 0, true};
  Result r = askDriver(row, sm, threads);
  measure(&r, passes, want);
  if (!r.note.empty()) return;
  std::printf(
      "\ncudaOccupancyMaxPotentialBlockSize suggests %d threads a block for\n"
      "scaleAdd<1>: %d blocks an SM, %.1f %% occupancy, %.0f bytes in\n"
      "flight, %.4f ms, %.0f GB/s. The fastest row, %s, at %.1f %% occupancy: "
      "%.0f.\n",
      threads, r.blocks, 100.0 * r.occupancy, double(r.inFlight), r.timing.ms,
      r.gbs, best.row->label, 100.0 * best.occupancy, best.gbs);
}

int main() try {
  Device device;
  if (int code = openDevice(7, 5, reinterpret_cast<const void*>(scaleAdd<1>),
                            &device)) {
    return code;
  }
  const SmLimits sm;
  const size_t passBytes = 3 * kPitch * sizeof(float);
  const int count = copiesBeyondL2(device, passBytes);
  size_t lines = size_t(1) << 20;  // of the pointer chase
  while (lines * kWordsPerLine * 4 < 4 * device.l2Bytes) lines *= 2;
  if (int code = requireMemory(
          device, count * passBytes + lines * kWordsPerLine * 4 + (8 << 20))) {
    return code;
  }

  std::vector<Result> results;
  for (const Row& row : kRows) {
    results.push_back(askDriver(row, sm, kThreadsPerBlock));
  }
  printResidency(results, sm);

  const Passes passes(count);
  const std::vector<float> want = reference();
  const double latencyNs = measureLatency(device, passes, lines);
  std::printf(
      "\nCeilings: as many bytes copied, half read and half written\n");
  const double memcpyGBs = measureCopy(passes, true);
  const double copyGBs = std::max(memcpyGBs, measureCopy(passes, false));

  CUDA_CHECK(cudaMemset(passes.data.data, 0xFF, passes.bytes()));
  for (int p = 0; p < passes.count; ++p) {
    fill(passes.x(p), kPeriodX, kElems);
    fill(passes.y(p), kPeriodY, kElems);
  }
  const Result* best = nullptr;
  for (Result& r : results) {
    measure(&r, passes, want);
    if (r.note.empty() && (best == nullptr || r.gbs > best->gbs)) best = &r;
  }
  if (best != nullptr) {
    printMeasured(results, device, copyGBs, *best);
    printCurve(results, device, latencyNs, *best);
    printPair(results);
    printSuggestion(sm, passes, want, *best);
  }
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
