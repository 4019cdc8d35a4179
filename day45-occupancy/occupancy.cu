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

// ---- what a student may edit ----------------------------------------------

constexpr size_t kElems = kQuick ? (1 << 18) + 611 : (1 << 24) + 611;
constexpr int kThreadsPerBlock = 256;
constexpr float kScale = 3.0f;  // the a of a * x + y

static_assert(kElems >= 1, "an empty array has nothing to measure");
static_assert(kThreadsPerBlock % 32 == 0 && kThreadsPerBlock >= 32 &&
                  kThreadsPerBlock <= 1024,
              "a block is 1 to 32 whole warps: the residency model and the "
              "bytes in flight count whole warps");

// Limits of the architecture that the kernels are compiled for, as the CUDA
// C++ Programming Guide lists them: __launch_bounds__ needs them at compile
// time. Everything else in this file asks the driver. An architecture that is
// not known here gets the smallest limits, which every newer card can meet.
// The host's pass has no architecture, and compiles no kernel.
#ifdef __CUDA_ARCH__
constexpr int kArch = __CUDA_ARCH__;  // 750 is compute capability 7.5
#else
constexpr int kArch = 0;
#endif
constexpr bool k2048Threads =
    kArch == 800 || kArch == 900 || kArch == 1000 || kArch == 1030;
constexpr bool k1536Threads =
    (kArch >= 860 && kArch < 900) || kArch == 1100 || kArch / 100 == 12;
constexpr int kThreadsPerSm = k2048Threads ? 2048 : k1536Threads ? 1536 : 1024;
constexpr int kBlocksPerSm =
    kArch >= 860 && kArch < 890 ? 16 : kThreadsPerSm / 64;

// What ilp8-lb asks for: as many blocks as fill an SM of that architecture.
constexpr int kMinBlocksPerSm = kThreadsPerSm / kThreadsPerBlock < kBlocksPerSm
                                    ? kThreadsPerSm / kThreadsPerBlock
                                    : kBlocksPerSm;
static_assert(kMinBlocksPerSm >= 1 && kMinBlocksPerSm <= kBlocksPerSm &&
                  kMinBlocksPerSm * kThreadsPerBlock <= kThreadsPerSm,
              "an SM of this architecture cannot hold kMinBlocksPerSm blocks: "
              "ptxas would warn and ignore the bound");

// Elements of an array and the poison after it: never read, never written.
constexpr size_t kPitch = (kElems + 63) / 64 * 64 + 1024;
static_assert(kPitch % 64 == 0,
              "every array starts on 256 bytes: float4 must be aligned, and "
              "a warp's load must start on a sector of 32 bytes");

// x and y are whole numbers of two prime periods, so that a * x + y is exact
// in float and that no two elements closer than 4093 * 8191 share x and y: a
// right value from the wrong place is found.
constexpr int kPeriodX = 4093, kPeriodY = 8191;
__host__ __device__ inline float xAt(size_t i) {
  return float(int(i % kPeriodX) - kPeriodX / 2);
}
__host__ __device__ inline float yAt(size_t i) {
  return float(int(i % kPeriodY) - kPeriodY / 2);
}
static_assert(kScale == float(int(kScale)) && kScale != 0.0f &&
                  (kScale < 0.0f ? -kScale : kScale) * kPeriodX + kPeriodY <
                      16777216.0f,
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
__device__ inline void scaleAddTile(float* __restrict__ out,
                                    const float* __restrict__ x,
                                    const float* __restrict__ y, float a,
                                    size_t i, size_t stride) {
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

// Where the bounds check stands decides whether the body above keeps its
// loads together (scaleAddGuarded shows the other place). So there is one
// check for the kItems * blockDim.x elements of a block, the tile.
// One thread: a full tile runs the body with no check in it; only the last
//   kItems blocks of a grid can have a partial tile, and take the slow loop.
// One warp: the check is the same for the whole block: no divergence.
// Launch: a one-dimensional grid of at least n / kItems threads.
// snippet: one-guard-a-tile
template <int kItems>
__device__ inline void scaleAddBlock(float* __restrict__ out,
                                     const float* __restrict__ x,
                                     const float* __restrict__ y, float a,
                                     size_t n) {
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
// with loads that no longer come first.
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

// A ring through all lines, a power of two, in steps of an odd number: every
// line is visited once before the first is visited again.
__host__ __device__ inline unsigned chaseStep(unsigned lines) {
  return unsigned(lines * 0.618) | 1u;
}
__global__ void fillLinks(unsigned* links, unsigned lines) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= lines) return;
  links[size_t(i) * kWordsPerLine] = (i + chaseStep(lines)) & (lines - 1);
}

// Writes the input of one pass: kElems elements of x and of y.
__global__ void fillInput(float* x, float* y) {
  const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= kElems) return;
  x[i] = xAt(i);
  y[i] = yAt(i);
}

// ---- the rows -------------------------------------------------------------

using Kernel = void (*)(float*, const float*, const float*, float, size_t);

// items: loads of x a thread. width: floats a load. wanted: blocks an SM, 0
// for as many as fit. loadsFirst: all 2 * items loads come before the first
// multiply (false: at most that many).
struct Row {
  const char* label;
  Kernel kernel;
  int items, width, wanted;
  bool loadsFirst;
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
// the driver's answer. shared: dynamic, a block, bytes. inFlight: bytes of
// loads in flight on an SM. note: why the row was not timed, or empty.
struct Result {
  const Row* row = nullptr;
  int threads = kThreadsPerBlock, blocks = 0;
  size_t shared = 0, inFlight = 0;
  cudaFuncAttributes attributes{};
  std::string note;
  Timing timing;
  double occupancy = 0.0, gbs = 0.0;
};

// ---- residency ------------------------------------------------------------

// Limits of one SM, from the device's attributes.
struct SmLimits {
  int warps = deviceAttribute(cudaDevAttrMaxThreadsPerMultiProcessor) / 32;
  int blocks = deviceAttribute(cudaDevAttrMaxBlocksPerMultiprocessor);
  int registers = deviceAttribute(cudaDevAttrMaxRegistersPerMultiprocessor);
  size_t shared =
      size_t(deviceAttribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor));
  size_t reserved =
      size_t(deviceAttribute(cudaDevAttrReservedSharedMemoryPerBlock));
  size_t optIn =
      size_t(deviceAttribute(cudaDevAttrMaxSharedMemoryPerBlockOptin));
};

// The dial: dynamic shared memory that a block reserves and never touches.
// It is the largest amount with which `blocks` blocks still fit on an SM, so
// that one more does not. The driver adds its own bytes to every block and
// rounds up, in steps of 256 bytes at most.
// snippet: smem-dial
constexpr size_t kSharedStep = 256;
inline size_t sharedForBlocks(const SmLimits& sm, int blocks) {
  const size_t each = sm.shared / blocks / kSharedStep * kSharedStep;
  return each <= sm.reserved ? 0 : std::min(each - sm.reserved, sm.optIn);
}

// More than 48 KiB a block needs the opt-in, before the query and before the
// launch. The carveout asks for an SM with as much shared memory as it has.
inline void setDial(Kernel kernel, size_t shared) {
  const void* function = reinterpret_cast<const void*>(kernel);
  CUDA_CHECK(cudaFuncSetAttribute(
      function, cudaFuncAttributeMaxDynamicSharedMemorySize, int(shared)));
  CUDA_CHECK(cudaFuncSetAttribute(
      function, cudaFuncAttributePreferredSharedMemoryCarveout,
      shared > 0 ? int(cudaSharedmemCarveoutMaxShared)
                 : int(cudaSharedmemCarveoutDefault)));
}
// end snippet

// snippet: occupancy-query
inline int residentBlocks(Kernel kernel, int threads, size_t shared) {
  int blocks = 0;
  setDial(kernel, shared);
  CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
      &blocks, reinterpret_cast<const void*>(kernel), threads, shared));
  return blocks;
}
// end snippet

// The same by hand: how many blocks each resource would allow. -1: no limit.
struct Model {
  int byWarps, byCap, byShared, byRegisters;
  int blocks() const {
    int least = std::min({byWarps, byCap, byRegisters});
    return byShared < 0 ? least : std::min(least, byShared);
  }
};
inline Model modelResidency(const SmLimits& sm, const Result& result) {
  // An SM has four parts, each with a quarter of the registers. A warp lives
  // in one of them and takes its registers in steps of 256.
  const int warps = result.threads / 32;
  const int perWarp = (result.attributes.numRegs * 32 + 255) / 256 * 256;
  const size_t shared =
      result.attributes.sharedSizeBytes + result.shared + sm.reserved;
  const size_t perBlock =
      (shared + kSharedStep - 1) / kSharedStep * kSharedStep;
  return {sm.warps / warps, sm.blocks,
          perBlock > 0 ? int(sm.shared / perBlock) : -1,
          4 * (sm.registers / 4 / perWarp) / warps};
}

// Fills in what the driver says of a row, and whether it can be timed.
inline Result askDriver(const Row& row, const SmLimits& sm, int threads) {
  Result result;
  result.row = &row;
  result.threads = threads;
  CUDA_CHECK(cudaFuncGetAttributes(&result.attributes,
                                   reinterpret_cast<const void*>(row.kernel)));
  result.blocks = residentBlocks(row.kernel, threads, 0);
  if (result.blocks == 0) {
    result.note = "does not fit: no block of " + std::to_string(threads) +
                  " threads is resident on this card";
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
  result.inFlight =  // loads of x and of y
      size_t(result.blocks) * threads * 2 * row.items * row.width * 4;
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

inline unsigned gridOf(const Result& result) {
  return blocksFor(
      kElems, size_t(result.threads) * result.row->items * result.row->width);
}

inline void launchRow(const Result& result, const Passes& passes, int pass) {
  result.row->kernel<<<gridOf(result), result.threads, result.shared>>>(
      passes.out(pass), passes.x(pass), passes.y(pass), kScale, kElems);
}

inline void poisonOut(const Passes& passes) {
  for (int p = 0; p < passes.count; ++p) {
    CUDA_CHECK(cudaMemset(passes.out(p), 0xFF, kPitch * sizeof(float)));
  }
}

// CPU reference, in double.
inline std::vector<float> reference() {
  std::vector<float> want(kElems);
  for (size_t i = 0; i < kElems; ++i) {
    want[i] = float(double(kScale) * double(xAt(i)) + double(yAt(i)));
  }
  return want;
}

// Compares every element of out in the first `used` passes with the
// reference, and the poison behind it with what it was.
inline bool checkOut(const Result& result, const Passes& passes, int used,
                     const std::vector<float>& want, const char* when) {
  static std::vector<float> got(kPitch);
  for (int p = 0; p < std::min(used, passes.count); ++p) {
    CUDA_CHECK(cudaMemcpy(got.data(), passes.out(p), kPitch * sizeof(float),
                          cudaMemcpyDeviceToHost));
    size_t wrong = 0, firstWrong = 0, touched = 0;
    for (size_t i = kElems; i-- > 0;) {
      if (!(got[i] == want[i])) ++wrong, firstWrong = i;
    }
    for (size_t i = kElems; i < kPitch; ++i) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, &got[i], sizeof(bits));
      if (bits != 0xFFFFFFFFu) ++touched;
    }
    if (!gate("elements-exact", wrong == 0,
              "%s, %s: %.0f of %.0f elements wrong, the first is out[%.0f] = "
              "%g, not %g",
              result.row->label, when, double(wrong), double(kElems),
              double(firstWrong), double(got[firstWrong]),
              double(want[firstWrong])) ||
        !gate("nothing-written-past-the-end", touched == 0,
              "%s, %s: %.0f words behind out are not poison any more",
              result.row->label, when, double(touched))) {
      return false;
    }
  }
  return true;
}

// Runs a row once on poisoned output, checks it, times it, checks it again.
inline void measure(Result* result, const Passes& passes,
                    const std::vector<float>& want) {
  if (!result->note.empty()) return;
  setDial(result->row->kernel, result->shared);
  poisonOut(passes);
  launchRow(*result, passes, 0);
  CUDA_CHECK(cudaGetLastError());
  CUDA_CHECK(cudaDeviceSynchronize());
  result->note = "wrong result: not timed";
  if (!checkOut(*result, passes, 1, want, "before timing")) return;
  poisonOut(passes);
  result->timing = timeKernel([&](int i) { launchRow(*result, passes, i); });
  result->note = "wrong result in the timed launches";
  if (!checkOut(*result, passes, result->timing.launches, want,
                "after timing")) {
    return;
  }
  result->note.clear();
  result->gbs = 12.0 * double(kElems) / (result->timing.ms * 1e6);
}

// A copy of as many bytes as a row moves: it reads half and writes half.
// Returns GB/s, or 0 where it did not copy.
template <typename Copy>
double measureCopy(const char* name, const Passes& passes, Copy copy) {
  const size_t count = (3 * kElems / 2 + 3) / 4 * 4;  // whole float4
  const size_t half = 3 * kPitch / 2;                 // floats
  std::vector<float> got(count);
  CUDA_CHECK(cudaMemset(passes.data.data, 0xFF, passes.bytes()));
  for (int p = 0; p < passes.count; ++p) {
    fillInput<<<blocksFor(kElems, 256), 256>>>(passes.x(p), passes.y(p));
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(
        cudaMemset(passes.x(p) + half, 0xFF, 3 * kPitch * 4 - half * 4));
  }
  const Timing timing =
      timeKernel([&](int i) { copy(passes.x(i) + half, passes.x(i), count); });
  CUDA_CHECK(cudaMemcpy(got.data(), passes.x(0) + half, count * 4,
                        cudaMemcpyDeviceToHost));
  size_t wrong = 0;
  for (size_t i = 0; i < kElems; ++i) wrong += !(got[i] == xAt(i));
  for (size_t i = kPitch; i < count; ++i) {
    wrong += !(got[i] == yAt(i - kPitch));
  }
  if (!gate("copy-exact", wrong == 0, "%s: %.0f floats are wrong", name,
            double(wrong))) {
    return 0.0;
  }
  const double gbs = 8.0 * double(count) / (timing.ms * 1e6);
  std::printf("%-16s %8.4f ms %6.1f %% spread %8.0f GB/s\n", name, timing.ms,
              100.0 * timing.spread, gbs);
  return gbs;
}

// Nanoseconds from a load to the use of its value, with nothing else running
// and every line from DRAM: the ring is longer than L2, other data is written
// after it, and no launch reads a line that another has read.
inline double measureLatency(const Device& device, const Passes& passes,
                             size_t lines) {
  constexpr int kHops = kQuick ? 256 : 8192;  // about 5 ms a launch
  const unsigned mask = unsigned(lines - 1), step = chaseStep(unsigned(lines));
  DeviceArray<unsigned> links(lines * kWordsPerLine), ends(kMaxLaunches);
  CUDA_CHECK(cudaMemset(ends.data, 0xFF, kMaxLaunches * sizeof(unsigned)));
  fillLinks<<<blocksFor(lines, 256), 256>>>(links.data, unsigned(lines));
  CUDA_CHECK(cudaGetLastError());
  CUDA_CHECK(cudaMemset(passes.data.data, 0xFF, passes.bytes()));  // out of L2

  auto lineAfter = [&](int launches) {
    return unsigned(launches) * unsigned(kHops) * step & mask;
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
       "%d launches of %d hops, %.0f lines of 128 bytes, L2 %.0f bytes",
       timing.launches, kHops, double(lines), double(device.l2Bytes));
  return timing.ms * 1e6 / kHops;
}

// ---- tables ---------------------------------------------------------------

inline const char* percent(double part, double whole) {
  static char text[4][16];
  static int turn = 0;
  char* to = text[turn++ % 4];
  if (whole > 0.0) {
    std::snprintf(to, sizeof(text[0]), "%.1f", 100.0 * part / whole);
  } else {
    std::snprintf(to, sizeof(text[0]), "n/a");
  }
  return to;
}

// "16384", or "<=16384" where not all loads need come first.
inline std::string inFlightText(const Result& r) {
  return (r.row->loadsFirst ? "" : "<=") + std::to_string(r.inFlight);
}

inline void printCeilings(const std::vector<Result>& results,
                          const SmLimits& sm) {
  std::printf(
      "\nTable 1: how many blocks of %d threads an SM can hold, and why\n"
      "%-16s %5s %5s %5s %6s %7s | %5s %4s %6s %5s %6s | %6s\n",
      kThreadsPerBlock, "row", "items", "width", "regs", "local", "shared",
      "warps", "cap", "shared", "regs", "least", "driver");
  bool differ = false;
  for (const Result& r : results) {
    const Model model = modelResidency(sm, r);
    const std::string byShared =
        model.byShared < 0 ? "-" : std::to_string(model.byShared);
    std::printf("%-16s %5d %5d %5d %6d ", r.row->label, r.row->items,
                r.row->width, r.attributes.numRegs,
                int(r.attributes.localSizeBytes));
    if (!r.note.empty()) {
      std::printf("  %s\n", r.note.c_str());
      continue;
    }
    std::printf("%7d | %5d %4d %6s %5d %6d | %6d%s\n", int(r.shared),
                model.byWarps, model.byCap, byShared.c_str(),
                model.byRegisters, model.blocks(), r.blocks,
                model.blocks() == r.blocks ? "" : " !");
    differ = differ || model.blocks() != r.blocks;
  }
  std::printf(
      "width: floats a load. regs: registers a thread. local: bytes of "
      "spills\n"
      "a thread. shared: dynamic bytes a block (the driver adds %d of its "
      "own).\n"
      "Right of the bar, blocks an SM: by each resource, the least of them,\n"
      "and the driver's answer, which decides.\n",
      int(sm.reserved));
  if (differ) {
    std::printf(
        "!: the model takes registers in steps of 256 a warp and shared "
        "memory\n"
        "in steps of %d bytes a block; this card, or how it is shared, has\n"
        "limits that the model does not know.\n",
        int(kSharedStep));
  }
}

// What ilp8-lb asked for, in the code that runs here, and what it got.
inline void printBound(const std::vector<Result>& results,
                       const SmLimits& sm) {
  int made[2] = {};
  CUDA_CHECK(cudaMemcpyFromSymbol(made, boundedFor, sizeof(made)));
  for (const Result& r : results) {
    if (r.row->kernel != scaleAddBounded<8>) continue;
    std::printf(
        "%s: compiled for %d.%d, asked for %d blocks an SM, got %d, with %d\n"
        "registers a thread and %d bytes of local memory.\n",
        r.row->label, made[0] / 100, made[0] / 10 % 10, made[1], r.blocks,
        r.attributes.numRegs, int(r.attributes.localSizeBytes));
    const int most = std::min(sm.warps * 32 / kThreadsPerBlock, sm.blocks);
    gate("bound-is-met", r.blocks >= std::min(made[1], most),
         "%s: asked for %d blocks an SM, this card holds %d, got %d",
         r.row->label, made[1], most, r.blocks);
  }
}

inline void printMeasured(const std::vector<Result>& results,
                          const Device& device, double copyGBs,
                          const Result& best) {
  std::printf(
      "\nTable 2: %.0f elements, %.1f MB a pass (read 8, write 4 bytes an "
      "element)\n"
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
                100.0 * r.timing.spread, r.gbs, percent(r.gbs, copyGBs),
                percent(r.gbs, device.peakGBs), r.gbs / best.gbs);
  }
  std::printf(
      "blocks, warps: resident on an SM. in flight: bytes of loads in flight "
      "on\n"
      "an SM = threads x loads before the first use x bytes a load; <= where "
      "a\n"
      "check on every element lets the compiler start fewer loads first.\n");
  if (best.gbs > copyGBs && copyGBs > 0.0) {
    std::printf(
        "%s moves as many bytes as the copy, but not the same kind: a copy\n"
        "writes one byte for each byte read, a row one for two. Hence above "
        "100 %%.\n",
        best.row->label);
  }
}

// The rows in order of their bytes in flight. ns: by Little's law, how long
// the bytes of one load are in flight = bytes in flight / rate of loads.
inline void printCurve(std::vector<Result> results, const Device& device,
                       const Result& best) {
  constexpr int kBar = 48;
  std::stable_sort(results.begin(), results.end(),
                   [](const Result& a, const Result& b) {
                     return a.inFlight < b.inFlight;
                   });
  std::printf("\nTable 3: one curve\n%-16s %9s %6s %7s %6s\n", "row",
              "in flight", "occ %", "ns", "GB/s");
  for (const Result& r : results) {
    if (!r.note.empty()) continue;
    const double loadsGBs = r.gbs * 8.0 / 12.0;
    const int bar = std::max(1, int(kBar * r.gbs / best.gbs + 0.5));
    std::printf("%-16s %9s %6.1f %7.0f %6.0f %s\n", r.row->label,
                inFlightText(r).c_str(), 100.0 * r.occupancy,
                double(r.inFlight) * device.sms / loadsGBs, r.gbs,
                std::string(bar, r.row->loadsFirst ? '#' : '-').c_str());
  }
  std::printf(
      "ns: bytes in flight on all SMs / bytes loaded a second, the time that "
      "a\n"
      "load takes in this row (Little's law). Bars of -: fewer bytes in "
      "flight\n"
      "than the table can know.\n");
}

// Little's law with this card's numbers.
inline void printLittle(const std::vector<Result>& results,
                        const Device& device, double latencyNs,
                        const Result& best) {
  const bool known = device.peakGBs > 0.0;
  const double loadGBs = (known ? device.peakGBs : best.gbs) * 8.0 / 12.0;
  const double need = latencyNs * loadGBs / device.sms;
  std::printf(
      "\nLittle's law: bytes in flight = latency x rate. Latency of one load "
      "from\n"
      "DRAM %.0f ns (pointer chase, nothing else running) x %.0f GB/s of "
      "loads "
      "(2/3\n"
      "of %s) / %d SMs = %.0f bytes an SM, at the least.\n",
      latencyNs, loadGBs, known ? "the peak" : "the best row", device.sms,
      need);
  const Result *below = nullptr, *above = nullptr;
  for (const Result& r : results) {
    if (!r.note.empty() || !r.row->loadsFirst) continue;
    const Result*& side = double(r.inFlight) < need ? below : above;
    const bool take = side == nullptr ||
                      (side == below ? r.gbs > side->gbs : r.gbs < side->gbs);
    if (take) side = &r;
  }
  if (below) {
    std::printf("The fastest row with fewer: %s, %.0f bytes, %s %% of %s.\n",
                below->row->label, double(below->inFlight),
                percent(below->gbs, best.gbs), best.row->label);
  }
  if (above) {
    std::printf("The slowest row with as many: %s, %.0f bytes, %s %% of %s.\n",
                above->row->label, double(above->inFlight),
                percent(above->gbs, best.gbs), best.row->label);
  }
}

// The pair that answers the question: bytes in flight equal within 5 %, and
// occupancy as different as the rows offer. Of equal pairs, the one whose low
// row needs fewer load instructions.
inline void printPair(const std::vector<Result>& results) {
  const Result *high = nullptr, *low = nullptr;
  for (const Result& a : results) {
    for (const Result& b : results) {
      if (!a.note.empty() || !b.note.empty() || !a.row->loadsFirst ||
          !b.row->loadsFirst || a.blocks * a.threads <= b.blocks * b.threads) {
        continue;
      }
      const double ratio = double(a.inFlight) / double(b.inFlight);
      if (!(ratio >= 0.95 && ratio <= 1.05)) continue;
      const double apart = a.occupancy / b.occupancy;
      const double most = high ? high->occupancy / low->occupancy : 0.0;
      if (apart > most || (apart == most && b.row->items < low->row->items)) {
        high = &a;
        low = &b;
      }
    }
  }
  if (high == nullptr) {
    std::printf("\nThe pair: no two rows here have equal bytes in flight.\n");
    return;
  }
  std::printf(
      "\nThe pair: equal bytes in flight, occupancy %.1f times apart\n",
      high->occupancy / low->occupancy);
  for (const Result* r : {high, low}) {
    std::printf("%-16s %9s bytes %6.1f %% occupancy %8.4f ms %6.0f GB/s\n",
                r->row->label, inFlightText(*r).c_str(), 100.0 * r->occupancy,
                r->timing.ms, r->gbs);
  }
  std::printf("Time ratio %.2f.\n", low->timing.ms / high->timing.ms);
}

// The block size that the occupancy API suggests for scaleAdd<1>, timed.
inline void printSuggestion(const SmLimits& sm, const Passes& passes,
                            const std::vector<float>& want,
                            const Result& best) {
  int grid = 0, threads = 0;
  CUDA_CHECK(
      cudaOccupancyMaxPotentialBlockSize(&grid, &threads, scaleAdd<1>, 0, 0));
  const Row row = {"suggested", scaleAdd<1>, 1, 1, 0, true};
  Result r = askDriver(row, sm, threads);
  measure(&r, passes, want);
  if (!r.note.empty()) {
    std::printf("\nSuggested: %s\n", r.note.c_str());
    return;
  }
  std::printf(
      "\ncudaOccupancyMaxPotentialBlockSize suggests %d threads a block for\n"
      "scaleAdd<1>: %d blocks an SM, %.1f %% occupancy, %.4f ms, %.0f GB/s:\n"
      "%s %% of the fastest row, %s, at %.1f %% occupancy.\n",
      threads, r.blocks, 100.0 * r.occupancy, r.timing.ms, r.gbs,
      percent(r.gbs, best.gbs), best.row->label, 100.0 * best.occupancy);
}

inline int run() {
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
  printCeilings(results, sm);
  printBound(results, sm);
#ifdef __CUDACC_DEBUG__
  std::printf(
      "Built with -G: no load is moved, the bytes in flight are fewer.\n");
#endif

  const Passes passes(count);
  const std::vector<float> want = reference();
  const double latencyNs = measureLatency(device, passes, lines);
  std::printf(
      "\nCeilings: copies of as many bytes, half read, half written\n");
  const double copyGBs = std::max(
      measureCopy("cudaMemcpyAsync", passes,
                  [](float* to, const float* from, size_t n) {
                    CUDA_CHECK(cudaMemcpyAsync(to, from, n * sizeof(float),
                                               cudaMemcpyDeviceToDevice));
                  }),
      measureCopy("copy16", passes,
                  [](float* to, const float* from, size_t n) {
                    copy16<<<blocksFor(n / 4, 256), 256>>>(
                        reinterpret_cast<float4*>(to),
                        reinterpret_cast<const float4*>(from), n / 4);
                  }));

  CUDA_CHECK(cudaMemset(passes.data.data, 0xFF, passes.bytes()));
  for (int p = 0; p < passes.count; ++p) {
    fillInput<<<blocksFor(kElems, 256), 256>>>(passes.x(p), passes.y(p));
    CUDA_CHECK(cudaGetLastError());
  }
  const Result* best = nullptr;
  for (Result& r : results) {
    measure(&r, passes, want);
    if (r.note.empty() && (best == nullptr || r.gbs > best->gbs)) best = &r;
  }
  if (best != nullptr) {
    printMeasured(results, device, copyGBs, *best);
    printCurve(results, device, *best);
    printLittle(results, device, latencyNs, *best);
    printPair(results);
    printSuggestion(sm, passes, want, *best);
  }
  std::printf(failures() ? "\n%d checks FAILED.\n" : "\nAll checks passed.\n",
              failures());
  return failures() ? 1 : 0;
}

int main() try { return run(); } catch (const std::exception& e) {
  std::fprintf(stderr, "FAILED: %s\n", e.what());
  return 1;
}
