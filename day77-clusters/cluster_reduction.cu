// Day 77: thread block clusters and distributed shared memory
// Question: what does the cluster machinery cost, and where does it pay?
//
// Rows:
//   atomic baseline     day 24's tree, one atomic a block
//   dsm, cluster of 1   the same as clusters of one block: prices the launch
//   dsm, cluster of 2   sums meet in shared memory; one atomic a cluster
//   dsm, cluster of 4   the same, four blocks a cluster
//   dsm, cluster of 8   the same, eight blocks: the largest portable size
//   dsm, cluster of 16  the same, where the card allows the non-portable size
//   few blocks          the baseline from one resident wave of blocks
//   copy (ceiling)      16-byte copy of the matrix
//   one block a row, two reads  sum the row, read it again, write it
//   one block a row, row in shared memory  where the row fits in one SM
//   cluster of 2 a row  each block holds half of the row in shared memory
//   cluster of 4 a row  each block holds a quarter
//   cluster of 8 a row  each block holds an eighth
//
// Not measured: the bandwidth and the latency of distributed shared memory
//   by themselves; other element types; rows that no cluster can hold.
//
// Build:
//   nvcc -std=c++17 -O3 -arch=sm_90 -o cluster_reduction cluster_reduction.cu
// Run:   ./cluster_reduction
// Verified: NVIDIA H200, compute capability 9.0, driver 580.159.04, CUDA 13.0,
//   2026-11-29, evidence/day77-clusters/run-2026-11-29-nvidia-h200-sm_90.txt

#include <cooperative_groups.h>
#include <cuda_pipeline_primitives.h>
#include <cuda_profiler_api.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

namespace cg = cooperative_groups;

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

// Part 1. The length is odd: no block size divides it.
constexpr int kElems = (kQuick ? 1 << 16 : 1 << 24) - 611;
constexpr int kThreadsPerBlock = 256;
constexpr int kMaxClusterBlocks = 16;  // 8 is portable, more is an opt-in
constexpr int kRepetitions = kQuick ? 10 : 1000;

// Part 2. A matrix of kMatrixElems floats, in rows of 2^kMinRowLog to
// 2^kMaxRowLog. Every row of the table tries these block sizes.
constexpr int kMatrixElems = kQuick ? 1 << 19 : 1 << 27;
constexpr int kMinRowLog = 14;
constexpr int kMaxRowLog = 18;
constexpr int kMaxValue = 32;  // the elements are 1, 2, ... kMaxValue
constexpr int kRowThreads[] = {128, 256, 512, 1024};

static_assert(kElems > 0 && kElems < (1 << 24),
              "a float counts ones exactly only below 2^24");
static_assert(kThreadsPerBlock >= 32 && kThreadsPerBlock <= 1024 &&
                  (kThreadsPerBlock & (kThreadsPerBlock - 1)) == 0,
              "the tree halves the block: a power of two from 32 to 1024");
static_assert(kMaxClusterBlocks >= 1 && kMaxClusterBlocks <= 32,
              "one lane of a warp reads the sum of one block");
static_assert(kRepetitions >= 1 && kRepetitions <= kMaxLaunches,
              "kRepetitions: a launch adds into a word of its own, and there "
              "are kMaxLaunches words");
static_assert(kMaxValue > 0 &&
                  double(kMaxValue) * (1 << kMaxRowLog) < double(1 << 24),
              "a row has a positive sum, exact in any order only below 2^24");
constexpr bool wholeWarps() {
  for (int threads : kRowThreads) {
    if (threads < 32 || threads > 1024 || threads % 32 != 0) return false;
  }
  return true;
}
static_assert(wholeWarps(), "a block of a row has 1 to 32 whole warps");
static_assert(kMinRowLog >= 6 && kMinRowLog <= kMaxRowLog &&
                  kMatrixElems > 0 && kMatrixElems % (1 << kMaxRowLog) == 0,
              "rows of whole 256 bytes, of which every length divides the "
              "matrix");

// ---- input ----------------------------------------------------------------

__host__ __device__ inline std::uint64_t mix(std::uint64_t i) {
  i = (i + 1) * 0x9E3779B97F4A7C15ull;
  i = (i ^ (i >> 29)) * 0xBF58476D1CE4E5B9ull;
  return i ^ (i >> 32);
}

// kOnes: one element too many or too few is off by one. kPosition: -2, -1, 1
// or 2, so that the right number of elements from the wrong addresses is wrong
// too. kRows: 1 to kMaxValue, so that no row sums to zero.
enum class Data { kOnes, kPosition, kRows };
__host__ __device__ inline float valueAt(std::uint64_t i, Data data) {
  if (data == Data::kOnes) return 1.0f;
  if (data == Data::kRows) return float(mix(i) % kMaxValue + 1);
  const int k = int(mix(i) & 3);
  return float(k < 2 ? k - 2 : k - 1);
}

// `rows` rows of `length` floats. Rows start `pitch` floats apart: a multiple
// of 64, so that every row starts on a 256-byte boundary. The input of part 1
// is such a matrix too: each row is a copy of the whole input, every second
// one negated, so that a launch which reads the wrong one is caught.
struct Matrix {
  size_t rows;
  int length, pitch;
  Matrix(size_t rowCount, int rowLength, int gap = 0)
      : rows(rowCount),
        length(rowLength),
        pitch((rowLength + 63) / 64 * 64 + gap) {}
  size_t bytes() const { return rows * pitch * sizeof(float); }
};

// What lies between two rows stays NaN: a read past the end convicts itself.
__global__ void fillMatrix(float* x, Matrix m, Data data) {
  const size_t step = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
       i < m.rows * m.length; i += step) {
    const size_t r = i / m.length, c = i % m.length;
    const float value = valueAt(data == Data::kRows ? i : c, data);
    x[r * m.pitch + c] = data != Data::kRows && r % 2 == 1 ? -value : value;
  }
}

// ---- sums inside a warp and a block ---------------------------------------

// Every lane gets the sum over the warp.
__device__ inline float warpSum(float value) {
  for (int distance = 16; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xFFFFFFFFu, value, distance);
  }
  return value;
}

// Every thread gets the sum over the block.
__device__ inline float blockSum(float value) {
  __shared__ float warpSums[32];
  const int lane = threadIdx.x % 32, warps = blockDim.x / 32;
  value = warpSum(value);
  if (lane == 0) warpSums[threadIdx.x / 32] = value;
  __syncthreads();
  return warpSum(lane < warps ? warpSums[lane] : 0.0f);
}

// ---- part 1: one reduction, two tails -------------------------------------

// Day 24's tree with two loads a thread, shared by every row of part 1.
// Leaves the block's sum in tile[0].
// One thread: two elements, kThreadsPerBlock apart, from each grid's width of
// the input. One warp: 4 sectors a load.
// Launch assumption: kThreadsPerBlock threads, any number of blocks. A block
// past the end of the input leaves an exact zero.
__device__ void reduceBlockToTile(const float* in, size_t n, float* tile) {
  const int t = threadIdx.x;
  const size_t step = size_t(gridDim.x) * (2 * kThreadsPerBlock);
  float sum = 0.0f;
  for (size_t i = blockIdx.x * size_t(2 * kThreadsPerBlock) + t; i < n;
       i += step) {
    sum += in[i];
    if (i + kThreadsPerBlock < n) sum += in[i + kThreadsPerBlock];
  }
  tile[t] = sum;
  __syncthreads();
  for (int s = kThreadsPerBlock / 2; s > 0; s /= 2) {
    if (t < s) tile[t] += tile[t + s];
    __syncthreads();
  }
}

// The baseline: one atomic a block.
// snippet: atomic-tail
__global__ void reduceBlockAtomic(const float* in, size_t n, float* out) {
  __shared__ float tile[kThreadsPerBlock];
  reduceBlockToTile(in, n, tile);
  if (threadIdx.x == 0) atomicAdd(out, tile[0]);
}
// end snippet

// What changed: the blocks of a cluster add their sums through distributed
// shared memory, and one atomic a cluster is left.
// One thread: lane r of the first warp of block 0 reads the sum of block r.
// One warp: one remote read a lane, as many as the cluster has blocks.
// Launch assumption: a whole number of clusters, at most 32 blocks each.
// snippet: cluster-combine
__global__ void reduceClusterDsm(const float* in, size_t n, float* out) {
  __shared__ float tile[kThreadsPerBlock];
  cg::cluster_group cluster = cg::this_cluster();
  reduceBlockToTile(in, n, tile);

  // Both barriers bear load. This one: every block of the cluster runs, and
  // its tile[0] is written and visible, before anyone reads it.
  cluster.sync();
  float sum = 0.0f;
  if (cluster.block_rank() == 0 && threadIdx.x < cluster.num_blocks()) {
    sum = cluster.map_shared_rank(tile, threadIdx.x)[0];
  }
  // And this one: no block leaves, and takes its shared memory with it,
  // before block 0 has read there.
  cluster.sync();
  if (cluster.block_rank() == 0 && threadIdx.x < 32) {
    sum = warpSum(sum);
    if (threadIdx.x == 0) atomicAdd(out, sum);
  }
}
// end snippet

// ---- part 2: out = in * (1 / sum of the row) ------------------------------

__device__ inline float sum4(float4 v) { return (v.x + v.y) + (v.z + v.w); }

__device__ inline float4 scale4(float4 v, float scale) {
  return make_float4(v.x * scale, v.y * scale, v.z * scale, v.w * scale);
}

// The ceiling. One thread: one float4. One warp: 16 sectors an access.
__global__ void copyVectors(const float4* in, float4* out, size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) __stcs(out + i, __ldcs(in + i));
}

// A load that asks L2 to keep what it brings: these lines are the last to be
// evicted. No intrinsic does that, so it is written in PTX, the assembly
// language of the toolkit.
__device__ inline float4 loadAndKeep(const float4* address) {
  float4 v;
  asm("{\n"
      "  .reg .b64 policy;\n"
      "  createpolicy.fractional.L2::evict_last.b64 policy;\n"
      "  ld.global.L2::cache_hint.v4.f32 {%0, %1, %2, %3}, [%4], policy;\n"
      "}"
      : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
      : "l"(__cvta_generic_to_global(address)));
  return v;
}

// One block a row: sum it, read it again, write it. The first read asks L2 to
// keep the row. The second goes backwards, so it begins with what was read
// last and is likeliest still there; it and the writes ask L2 to let go.
// One thread: kRowLoads float4 in flight. One warp: 16 sectors an access.
// Launch assumption: one block a row, whole warps.
constexpr int kRowLoads = 8;
__global__ void normaliseRowTwoReads(const float* in, float* out, int length,
                                     int pitch) {
  const size_t row = blockIdx.x * size_t(pitch);
  const float4* from = reinterpret_cast<const float4*>(in + row);
  float4* to = reinterpret_cast<float4*>(out + row);
  const int t = threadIdx.x, width = blockDim.x, tile = width * kRowLoads;
  const int whole = length / 4 / tile * tile;  // float4 in whole tiles

  // All loads of a round come before its first addition. To have it so in the
  // machine code, the round adds up its last vector first.
  const size_t next = width;
  float sum = 0.0f;
#pragma unroll 1
  for (int i = t; i < whole; i += tile) {
    float4 v[kRowLoads];
#pragma unroll
    for (int k = 0; k < kRowLoads; ++k) {
      v[k] = loadAndKeep(from + i + k * next);
    }
#pragma unroll
    for (int k = kRowLoads - 1; k >= 0; --k) sum += sum4(v[k]);
  }
  for (int i = 4 * whole + t; i < length; i += width) sum += in[row + i];

  const float scale = __frcp_rn(blockSum(sum));  // one division a row
  for (int i = 4 * whole + t; i < length; i += width) {
    out[row + i] = in[row + i] * scale;
  }
  for (int i = whole - tile + t; i >= 0; i -= tile) {
    float4 v[kRowLoads];
#pragma unroll
    for (int k = 0; k < kRowLoads; ++k) v[k] = __ldcs(from + i + k * width);
#pragma unroll
    for (int k = 0; k < kRowLoads; ++k) {
      __stcs(to + i + k * width, scale4(v[k], scale));
    }
  }
}

// A slice starts on a multiple of this many bytes in shared memory. Beside
// other shared variables it would start wherever they end, and each line that
// arrives from L2 would lie across two rows of the banks.
constexpr int kSliceAlign = 128;
static_assert(kSliceAlign % 128 == 0,
              "a line of 128 bytes must fill one row of the 32 banks");

// How many floats of a row each of `blocks` blocks holds: whole float4, so
// that every slice starts on a 16-byte boundary. The last slices of a short
// row are smaller, or empty.
__host__ __device__ inline int sliceFloats(int length, int blocks) {
  return ((length + blocks - 1) / blocks + 3) / 4 * 4;
}

// Brings `count` floats into shared memory and returns the thread's share of
// their sum. The copies are asynchronous: they pass no register, so all of a
// thread's can be in flight at once. A thread reads only what it brought
// itself, so no block barrier is needed.
__device__ inline float holdSlice(const float* from, int count,
                                  float4* slice) {
  const int vectors = count / 4, t = threadIdx.x, width = blockDim.x;
#pragma unroll 8
  for (int i = t; i < vectors; i += width) {
    __pipeline_memcpy_async(slice + i, from + 4 * i, sizeof(float4));
  }
  __pipeline_commit();
  float sum = 0.0f;
  const int last = vectors * 4 + t;  // an element of the last partial vector
  if (last < count) sum = reinterpret_cast<float*>(slice)[last] = from[last];
  __pipeline_wait_prior(0);
#pragma unroll 4
  for (int i = t; i < vectors; i += width) sum += sum4(slice[i]);
  return sum;
}

// Writes the thread's share of the slice, scaled.
__device__ inline void writeSlice(float* to, int count, const float4* slice,
                                  float scale) {
  const int vectors = count / 4, t = threadIdx.x, width = blockDim.x;
  float4* to4 = reinterpret_cast<float4*>(to);
#pragma unroll 4
  for (int i = t; i < vectors; i += width) {
    __stcs(to4 + i, scale4(slice[i], scale));
  }
  const int last = vectors * 4 + t;
  if (last < count) {
    to[last] = reinterpret_cast<const float*>(slice)[last] * scale;
  }
}

// What changed: the row stays in shared memory, so it is read once.
// One thread: one float4 in blockDim.x. One warp: 512 bytes an access.
// Launch assumption: one block a row, whole warps; the row fits in one SM.
__global__ void normaliseRowShared(const float* in, float* out, int length,
                                   int pitch) {
  extern __shared__ __align__(kSliceAlign) float4 slice[];
  const size_t row = blockIdx.x * size_t(pitch);
  const float sum = blockSum(holdSlice(in + row, length, slice));
  writeSlice(out + row, length, slice, __frcp_rn(sum));
}

// What changed: a cluster shares the row. Each block holds its slice in its
// own shared memory; only the blocks' sums, 4 bytes each, travel.
// One thread: as above, of a slice. One warp: lane r reads block r's sum.
// Launch assumption: one cluster a row, at most 32 blocks each.
// snippet: row-in-cluster
__global__ void normaliseRowCluster(const float* in, float* out, int length,
                                    int pitch) {
  extern __shared__ __align__(kSliceAlign) float4 slice[];
  __shared__ float partial;
  cg::cluster_group cluster = cg::this_cluster();
  const int rank = cluster.block_rank(), blocks = cluster.num_blocks();
  const int share = sliceFloats(length, blocks);
  const int begin = min(rank * share, length);
  const int count = min(share, length - begin);  // 0: still at both barriers
  const size_t at = blockIdx.x / blocks * size_t(pitch) + begin;

  const float sum = blockSum(holdSlice(in + at, count, slice));
  if (threadIdx.x == 0) partial = sum;
  cluster.sync();  // every partial is written and visible
  const int lane = threadIdx.x % 32;
  const float rowSum =
      warpSum(lane < blocks ? *cluster.map_shared_rank(&partial, lane) : 0.0f);
  const float scale = __frcp_rn(rowSum);

  // The second barrier in its two halves: no block leaves while another may
  // read its partial, but none waits for that before it writes. A whole
  // cluster.sync() behind the writes would first wait for them to arrive.
  cluster.barrier_arrive();
  writeSlice(out + at, count, slice, scale);
  cluster.barrier_wait();
}
// end snippet

// ---- launches and queries -------------------------------------------------

// snippet: cluster-launch
// A launch in clusters of clusterBlocks blocks. The driver refuses a grid that
// is no whole number of clusters, so the grid is padded.
struct ClusterLaunch {
  cudaLaunchAttribute attribute{};
  cudaLaunchConfig_t config{};
  ClusterLaunch(size_t blocks, int threads, size_t dynamicBytes,
                int clusterBlocks) {
    const size_t clusters = (blocks + clusterBlocks - 1) / clusterBlocks;
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = clusterBlocks;
    attribute.val.clusterDim.y = 1;
    attribute.val.clusterDim.z = 1;
    config.gridDim = dim3(unsigned(clusters * clusterBlocks));
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = dynamicBytes;
    config.attrs = &attribute;
    config.numAttrs = 1;
  }
  ClusterLaunch(const ClusterLaunch&) = delete;
  ClusterLaunch& operator=(const ClusterLaunch&) = delete;
};

constexpr size_t kSumBlocks =
    (size_t(kElems) + 2 * kThreadsPerBlock - 1) / (2 * kThreadsPerBlock);

void launchClusterDsm(int clusterBlocks, const float* in, float* out) {
  const ClusterLaunch launch(kSumBlocks, kThreadsPerBlock, 0, clusterBlocks);
  CUDA_CHECK(cudaLaunchKernelEx(&launch.config, reduceClusterDsm, in,
                                size_t(kElems), out));
}
// end snippet

// snippet: cluster-query
// The largest cluster in which this launch of the kernel can run at all.
template <typename Kernel>
int largestCluster(Kernel kernel, const ClusterLaunch& launch) {
  int blocks = 0;
  CUDA_CHECK(
      cudaOccupancyMaxPotentialClusterSize(&blocks, kernel, &launch.config));
  return blocks;
}

// How many clusters of this launch run at once; 0 where none can. A cluster
// lives inside one GPC, and only the driver knows how many SMs each one has:
// SMs / clusterBlocks is not the answer.
template <typename Kernel>
int clustersAtOnce(Kernel kernel, const ClusterLaunch& launch) {
  const int blocks = int(launch.attribute.val.clusterDim.x);
  int clusters = 0;
  if (blocks <= std::min(kMaxClusterBlocks, largestCluster(kernel, launch))) {
    CUDA_CHECK(
        cudaOccupancyMaxActiveClusters(&clusters, kernel, &launch.config));
  }
  return clusters;
}
// end snippet

// "81%", or "n/a" where the whole is not known.
std::string percent(double part, double whole) {
  char text[16] = "n/a";
  if (whole > 0.0) {
    std::snprintf(text, sizeof(text), "%.0f%%", 100.0 * part / whole);
  }
  return text;
}

// ---- part 1: checks, times, table -----------------------------------------

enum class Grid { kBlocks, kClusters, kOneWave };

struct CostRow {
  const char* label;
  Grid grid;
  int clusterBlocks;
};

constexpr CostRow kCostRows[] = {
    {"atomic baseline", Grid::kBlocks, 0},
    {"dsm, cluster of 1", Grid::kClusters, 1},
    {"dsm, cluster of 2", Grid::kClusters, 2},
    {"dsm, cluster of 4", Grid::kClusters, 4},
    {"dsm, cluster of 8", Grid::kClusters, 8},
    {"dsm, cluster of 16", Grid::kClusters, 16},
    {"few blocks", Grid::kOneWave, 0},
};

// The sum of the position data, in double. Every partial and every running
// sum is exact in float, in whatever order, while the positive and the
// negative elements each sum to less than 2^24.
double positionSum() {
  double positive = 0.0, negative = 0.0;
  for (int i = 0; i < kElems; ++i) {
    const double value = valueAt(std::uint64_t(i), Data::kPosition);
    (value > 0.0 ? positive : negative) += value;
  }
  gate("sum-input-exact", positive < 0x1p24 && -negative < 0x1p24,
       "the elements sum to %.0f and %.0f, not below 2^24", positive,
       negative);
  return positive + negative;
}

// Launch i adds copy i into word i of the results: the first `launches` words
// must hold `want`, or minus it where the copy is negated, and the others must
// still be zero. Then all are zero again.
bool resultsAre(float* d_results, int launches, size_t copies, double want) {
  constexpr size_t kBytes = kMaxLaunches * sizeof(float);
  std::vector<float> words(kMaxLaunches);
  CUDA_CHECK(cudaGetLastError());
  CUDA_CHECK(
      cudaMemcpy(words.data(), d_results, kBytes, cudaMemcpyDeviceToHost));
  CUDA_CHECK(cudaMemset(d_results, 0, kBytes));
  for (int i = 0; i < kMaxLaunches; ++i) {
    const double sign = i % copies % 2 == 0 ? 1.0 : -1.0;
    const double expected = i < launches ? sign * want : 0.0;
    if (!(double(words[i]) == expected)) {
      std::printf("word %d holds %.1f instead of %.1f\n", i, double(words[i]),
                  expected);
      return false;
    }
  }
  return true;
}

// Copies of the input of part 1, with NaN after each; one a launch suffices.
Matrix sumCopies(const Device& device) {
  const int copies = copiesBeyondL2(device, kElems * sizeof(float));
  return {size_t(std::min(copies, kMaxLaunches)), kElems, 64};
}

void costOfClusters(const Device& device) {
  int blocksAnSm = 0;
  CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
      &blocksAnSm, reduceBlockAtomic, kThreadsPerBlock, 0));
  const size_t wave =
      std::min(kSumBlocks, size_t(device.sms) * size_t(blocksAnSm));
  const ClusterLaunch single(kSumBlocks, kThreadsPerBlock, 0, 1);
  const int portable = largestCluster(reduceClusterDsm, single);
  CUDA_CHECK(cudaFuncSetAttribute(
      reduceClusterDsm, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  const int largest = largestCluster(reduceClusterDsm, single);
  std::printf(
      "\nPart 1: what clusters cost. Sum of %d floats, %d threads a block.\n"
      "reduceClusterDsm, largest cluster: %d blocks, %d with the"
      " non-portable opt-in.\n\n"
      "%-20s %8s %8s %9s %7s %7s %7s %9s\n"
      "%-20s %8s %8s %9s %7s %7s %7s %9s\n",
      kElems, kThreadsPerBlock, portable, largest, "", "clusters", "global",
      "time", "", "", "% of", "times", "row", "at once", "atomics", "ms",
      "spread", "GB/s", "peak", "baseline");

  const Matrix copies = sumCopies(device);
  DeviceArray<float> input(copies.rows * copies.pitch), results(kMaxLaunches);
  CUDA_CHECK(cudaMemset(results.data, 0, kMaxLaunches * sizeof(float)));
  const double want = positionSum();
  double baselineMs = 0.0, clusterMs = 0.0, fewMs = 0.0;
  for (const CostRow& row : kCostRows) {
    int atOnce = 0;
    size_t atomics = row.grid == Grid::kOneWave ? wave : kSumBlocks;
    if (row.clusterBlocks > 0) {
      const ClusterLaunch shape(kSumBlocks, kThreadsPerBlock, 0,
                                row.clusterBlocks);
      atomics = shape.config.gridDim.x / row.clusterBlocks;
      atOnce = clustersAtOnce(reduceClusterDsm, shape);
      if (atOnce == 0) {
        std::printf(
            "%-20s skipped: clusters have at most %d blocks here, and"
            " kMaxClusterBlocks is %d\n",
            row.label, largest, kMaxClusterBlocks);
        continue;
      }
    }
    auto launch = [&](int i) {
      const float* in = input.data + i % copies.rows * copies.pitch;
      if (row.clusterBlocks > 0) {
        launchClusterDsm(row.clusterBlocks, in, results.data + i);
      } else {
        reduceBlockAtomic<<<unsigned(atomics), kThreadsPerBlock>>>(
            in, kElems, results.data + i);
      }
    };
    auto fill = [&](Data data) {
      CUDA_CHECK(cudaMemset(input.data, 0xFF, copies.bytes()));
      fillMatrix<<<2048, 256>>>(input.data, copies, data);
    };

    fill(Data::kOnes);
    CUDA_CHECK(cudaProfilerStart());  // a profiler records this launch
    launch(0);
    CUDA_CHECK(cudaDeviceSynchronize());
    CUDA_CHECK(cudaProfilerStop());
    bool right = gate("sum-of-ones-exact",
                      resultsAre(results.data, 1, copies.rows, kElems), "%s",
                      row.label);
    fill(Data::kPosition);
    for (int i = 0; i < kRepetitions; ++i) launch(i);
    right &= gate("repetitions-exact",
                  resultsAre(results.data, kRepetitions, copies.rows, want),
                  "%s, one of %d launches", row.label, kRepetitions);
    const Timing timing = timeKernel(launch);
    right &= gate("timed-sums-exact",
                  resultsAre(results.data, timing.launches, copies.rows, want),
                  "%s", row.label);
    if (!right) continue;

    if (row.grid == Grid::kBlocks) baselineMs = timing.ms;
    if (row.grid == Grid::kOneWave) fewMs = timing.ms;
    if (row.clusterBlocks > 1 && (clusterMs == 0.0 || timing.ms < clusterMs)) {
      clusterMs = timing.ms;
    }
    const double gbs = kElems * sizeof(float) / timing.ms / 1e6;
    std::printf("%-20s %8s %8zu %9.4f %6.1f%% %7.0f %7s %9.2f\n", row.label,
                atOnce > 0 ? std::to_string(atOnce).c_str() : "-", atomics,
                timing.ms, 100.0 * timing.spread, gbs,
                percent(gbs, device.peakGBs).c_str(), baselineMs / timing.ms);
  }
  std::printf(
      "\nGB/s: 4 bytes an element, read once. Times baseline: the baseline's"
      " time over the row's.\nThe sums of %d launches of a row are compared,"
      " and of all timed ones.\n",
      kRepetitions);
  if (wave < kSumBlocks && fewMs > 0.0 && fewMs < baselineMs &&
      clusterMs > baselineMs) {
    std::printf(
        "Fewer atomics did not pay: the best cluster of 2 or more reaches %.2f"
        " times the baseline.\nFewer blocks did: %zu instead of %zu reach"
        " %.2f times.\n",
        baselineMs / clusterMs, wave, kSumBlocks, baselineMs / fewMs);
  }
}

// ---- part 2: checks, times, table -----------------------------------------

// slices: how many blocks hold the row in shared memory; 0: it is not held,
// 2 or more: they are a cluster.
struct RowSchedule {
  const char* label;
  void (*kernel)(const float*, float*, int, int);  // none: the copy
  int slices;
};

constexpr RowSchedule kRowSchedules[] = {
    {"copy (ceiling)", nullptr, 0},
    {"one block a row, two reads", normaliseRowTwoReads, 0},
    {"one block a row, row in shared memory", normaliseRowShared, 1},
    {"cluster of 2 a row", normaliseRowCluster, 2},
    {"cluster of 4 a row", normaliseRowCluster, 4},
    {"cluster of 8 a row", normaliseRowCluster, 8},
};
constexpr int kSchedules = int(sizeof(kRowSchedules) / sizeof(RowSchedule));

// Bytes of shared memory that a block of the row asks for.
size_t sliceBytes(const RowSchedule& row, const Matrix& m) {
  if (row.slices == 0) return 0;
  return size_t(sliceFloats(m.length, row.slices)) * sizeof(float);
}

// Opts in to the most that it can get, beside the kernel's other shared
// variables, and returns that.
size_t maxSliceBytes(const RowSchedule& row) {
  if (row.slices == 0) return 0;
  cudaFuncAttributes attributes;
  CUDA_CHECK(cudaFuncGetAttributes(&attributes, row.kernel));
  const int most = deviceAttribute(cudaDevAttrMaxSharedMemoryPerBlockOptin) -
                   int(attributes.sharedSizeBytes);
  CUDA_CHECK(cudaFuncSetAttribute(
      row.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most));
  return size_t(most);
}

bool fits(const RowSchedule& row, const Matrix& m) {
  return sliceBytes(row, m) <= maxSliceBytes(row);
}

ClusterLaunch rowClusters(const RowSchedule& row, const Matrix& m, int threads,
                          size_t bytes) {
  return ClusterLaunch(m.rows * row.slices, threads, bytes, row.slices);
}

// How many rows are in progress; 0 where this cannot run. 1 for the copy.
int rowsAtOnce(const RowSchedule& row, const Matrix& m, int threads,
               const Device& device) {
  if (row.kernel == nullptr) return 1;
  if (!fits(row, m)) return 0;
  int most = 0;
  if (row.slices > 1) {
    most = clustersAtOnce(row.kernel,
                          rowClusters(row, m, threads, sliceBytes(row, m)));
  } else {
    CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        &most, row.kernel, threads, sliceBytes(row, m)));
    most *= device.sms;
  }
  return int(std::min(size_t(most), m.rows));
}

void launchRow(const RowSchedule& row, const Matrix& m, int threads,
               const float* in, float* out) {
  if (row.kernel == nullptr) {
    const size_t n = m.bytes() / sizeof(float4);
    copyVectors<<<unsigned((n + threads - 1) / threads), threads>>>(
        reinterpret_cast<const float4*>(in), reinterpret_cast<float4*>(out),
        n);
  } else if (row.slices > 1) {
    const ClusterLaunch launch =
        rowClusters(row, m, threads, sliceBytes(row, m));
    CUDA_CHECK(cudaLaunchKernelEx(&launch.config, row.kernel, in, out,
                                  m.length, m.pitch));
  } else {
    row.kernel<<<unsigned(m.rows), threads, sliceBytes(row, m)>>>(
        in, out, m.length, m.pitch);
  }
  CUDA_CHECK(cudaGetLastError());
}

// Counts the floats of the result that are wrong: not exactly valueAt times
// the scale of the row (1 where scale is null: a copy), or, between two rows,
// not the poison any more.
__global__ void countWrong(const float* got, Matrix m, const float* scale,
                           unsigned long long* wrong) {
  const size_t step = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
       i < m.rows * m.pitch; i += step) {
    const size_t r = i / m.pitch, c = i % m.pitch;
    bool right = __float_as_uint(got[i]) == 0xFFFFFFFFu;
    if (c < size_t(m.length)) {
      const float factor = scale == nullptr ? 1.0f : scale[r];
      right = got[i] == valueAt(r * m.length + c, Data::kRows) * factor;
    }
    if (!right) atomicAdd(wrong, 1ull);
  }
}

// A matrix on the card, its result, and the comparison with what the CPU
// says: sums in double, and from them the same single-precision reciprocal
// that the kernels take. Both are correctly rounded.
struct MatrixRun {
  Matrix m;
  DeviceArray<float> in, out, scale;
  DeviceArray<unsigned long long> wrong;

  explicit MatrixRun(const Matrix& matrix)
      : m(matrix),
        in(m.rows * m.pitch),
        out(m.rows * m.pitch),
        scale(m.rows),
        wrong(1) {
    CUDA_CHECK(cudaMemset(in.data, 0xFF, m.bytes()));
    fillMatrix<<<2048, 256>>>(in.data, m, Data::kRows);
    std::vector<float> scales(m.rows);
    std::uint64_t i = 0;
    for (float& value : scales) {
      double sum = 0.0;
      for (int k = 0; k < m.length; ++k) sum += valueAt(i++, Data::kRows);
      value = 1.0f / float(sum);
    }
    CUDA_CHECK(cudaMemcpy(scale.data, scales.data(), m.rows * sizeof(float),
                          cudaMemcpyHostToDevice));
  }

  void poison() { CUDA_CHECK(cudaMemset(out.data, 0xFF, m.bytes())); }

  unsigned long long wrongFloats(const RowSchedule& row) {
    unsigned long long n = 0;
    CUDA_CHECK(cudaMemset(wrong.data, 0, sizeof(n)));
    countWrong<<<2048, 256>>>(
        out.data, m, row.kernel == nullptr ? nullptr : scale.data, wrong.data);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaMemcpy(&n, wrong.data, sizeof(n), cudaMemcpyDeviceToHost));
    return n;
  }

  // Moves the last float to the next one that there is.
  void plantFault() {
    float* last = out.data + m.rows * m.pitch - 1;
    std::uint32_t bits = 0;
    CUDA_CHECK(cudaMemcpy(&bits, last, 4, cudaMemcpyDeviceToHost));
    ++bits;
    CUDA_CHECK(cudaMemcpy(last, &bits, 4, cudaMemcpyHostToDevice));
  }
};

// threads: 0 where no block size can run. ms: 0 there, and where a result is
// wrong.
struct RowResult {
  double ms = 0.0, spread = 0.0;
  int threads = 0, atOnce = 0;
};

// Checks a row with each block size; where `timed`, also times it and keeps
// the fastest.
RowResult checkAndTime(const RowSchedule& row, MatrixRun& data,
                       const Device& device, bool timed = true) {
  RowResult best;
  for (int threads : kRowThreads) {
    const int atOnce = rowsAtOnce(row, data.m, threads, device);
    if (atOnce == 0) continue;
    auto launch = [&](int) {
      launchRow(row, data.m, threads, data.in.data, data.out.data);
    };
    const char* format = "%s, length %d, %d threads: %llu floats are wrong";
    data.poison();
    launch(0);
    unsigned long long wrong = data.wrongFloats(row);
    bool right = gate("matrix-exact", wrong == 0, format, row.label,
                      data.m.length, threads, wrong);
    data.plantFault();
    const unsigned long long planted = data.wrongFloats(row);
    right &= gate("comparison-convicts", planted == wrong + 1,
                  "%s, length %d: %llu wrong floats, with one planted %llu",
                  row.label, data.m.length, wrong, planted);
    if (!timed) {
      best.threads = threads;
      continue;
    }
    data.poison();
    const Timing timing = timeKernel(launch);
    wrong = data.wrongFloats(row);
    right &= gate("timed-matrix-exact", wrong == 0, format, row.label,
                  data.m.length, threads, wrong);
    if (!right) return {0.0, 0.0, threads, atOnce};
    if (best.ms == 0.0 || timing.ms < best.ms) {
      best = {timing.ms, timing.spread, threads, atOnce};
    }
  }
  // Larger clusters may find too few SMs together on a small card.
  const bool launches =
      row.slices < 2 ||
      (row.slices == 2 &&
       clustersAtOnce(row.kernel,
                      rowClusters(row, data.m, kRowThreads[0], 0)) > 0);
  if (launches && fits(row, data.m)) {
    gate("rows-that-fit-ran", best.threads > 0, "%s, length %d", row.label,
         data.m.length);
  }
  if (best.ms > 0.0) {
    CUDA_CHECK(cudaProfilerStart());  // a profiler records this launch
    launchRow(row, data.m, best.threads, data.in.data, data.out.data);
    CUDA_CHECK(cudaDeviceSynchronize());
    CUDA_CHECK(cudaProfilerStop());
  }
  return best;
}

// Rows shorter than a cluster, partial last vectors, lengths that nothing
// divides: every schedule, with every block size.
void checkRaggedRows(const Device& device) {
  int ran = 0;
  for (int length : {1, 3, 5, 7, 31, 1000, 4097, (1 << 15) + 3}) {
    MatrixRun data(Matrix(5, length));
    for (const RowSchedule& row : kRowSchedules) {
      if (checkAndTime(row, data, device, false).threads > 0) ++ran;
    }
  }
  std::printf("Rows of 1 to %d floats: %d rows of the table compared.\n",
              (1 << 15) + 3, ran);
}

void rowsInClusters(const Device& device) {
  constexpr size_t kInBytes = size_t(kMatrixElems) * sizeof(float);
  constexpr double kUsefulBytes = 2.0 * kInBytes;
  std::printf(
      "\nPart 2: where clusters pay. out = in * (1 / sum of the row), %.0f MB"
      " in, %.0f MB out.\n",
      kInBytes / 1e6, kInBytes / 1e6);
  if (kUsefulBytes < 4.0 * double(device.l2Bytes)) {
    std::printf("These are less than four L2: some reads come from there.\n");
  }
  checkRaggedRows(device);

  const double l2MB = double(device.l2Bytes) / 1e6;
  std::string summary;  // of the best cluster row against the best one-block
  for (int log = kMinRowLog; log <= kMaxRowLog; ++log) {
    MatrixRun data(Matrix(size_t(kMatrixElems) >> log, 1 << log));
    if (log == kMinRowLog) {
      const Timing timing = timeKernel([&](int) {
        CUDA_CHECK(cudaMemcpyAsync(data.out.data, data.in.data, kInBytes,
                                   cudaMemcpyDeviceToDevice));
      });
      std::printf("cudaMemcpyAsync of the matrix: %.4f ms, %.0f GB/s\n",
                  timing.ms, kUsefulBytes / timing.ms / 1e6);
    }
    RowResult results[kSchedules];
    double copyMs = 0.0, oneBlockMs = 0.0, clusterMs = 0.0, twoReadsMB = 0.0;
    for (int k = 0; k < kSchedules; ++k) {
      const RowSchedule& row = kRowSchedules[k];
      const RowResult& result = results[k] = checkAndTime(row, data, device);
      if (result.ms == 0.0) continue;
      if (row.kernel == normaliseRowTwoReads) {
        twoReadsMB = double(result.atOnce) * data.m.length * 4 / 1e6;
      }
      double& best = row.kernel == nullptr ? copyMs
                     : row.slices > 1      ? clusterMs
                                           : oneBlockMs;
      if (best == 0.0 || result.ms < best) best = result.ms;
    }

    std::printf(
        "\nRow length 2^%d, %zu rows. Two reads: %.0f MB of rows in progress,"
        " L2 %.0f MB.\n"
        "%-38s %7s %7s %7s %6s %5s %6s %6s %10s\n"
        "%-38s %7s %7s %7s %6s %5s %6s %6s %10s\n",
        log, data.m.rows, twoReadsMB, l2MB, "", "threads", "rows at", "time",
        "", "", "% of", "% of", "times best", "row", "a block", "once", "ms",
        "spread", "GB/s", "copy", "peak", "one-block");
    for (int k = 0; k < kSchedules; ++k) {
      const RowResult& result = results[k];
      const RowSchedule& row = kRowSchedules[k];
      if (!fits(row, data.m)) {
        std::printf("%-38s does not fit: %zu KiB a block, %zu KiB at most\n",
                    row.label, sliceBytes(row, data.m) / 1024,
                    maxSliceBytes(row) / 1024);
      } else if (result.threads == 0) {
        std::printf("%-38s skipped: no cluster of %d blocks (of at most %d)\n",
                    row.label, row.slices, kMaxClusterBlocks);
      }
      if (result.ms == 0.0) continue;  // not here, or not right
      const bool copy = row.kernel == nullptr;
      const double gbs = kUsefulBytes / result.ms / 1e6;
      char ratio[16];
      std::snprintf(ratio, sizeof(ratio), "%.2f", oneBlockMs / result.ms);
      std::printf("%-38s %7d %7s %7.4f %5.1f%% %5.0f %6s %6s %10s\n",
                  row.label, result.threads,
                  copy ? "-" : std::to_string(result.atOnce).c_str(),
                  result.ms, 100.0 * result.spread, gbs,
                  percent(copyMs, result.ms).c_str(),
                  percent(gbs, device.peakGBs).c_str(), copy ? "-" : ratio);
    }
    if (clusterMs > 0.0 && oneBlockMs > 0.0) {
      char line[100];
      std::snprintf(line, sizeof(line),
                    "  2^%d: %.2f times, %s of the copy; %.0f MB in progress,"
                    " L2 %.0f MB\n",
                    log, oneBlockMs / clusterMs,
                    percent(copyMs, clusterMs).c_str(), twoReadsMB, l2MB);
      summary += line;
    }
  }
  std::printf(
      "\nGB/s: 8 bytes an element, one read and one write, in every row; a"
      " second read does\nnot count. Threads: the fastest of those tried."
      " The best cluster row against the\nbest one-block row; then what the"
      " row with two reads has in progress:\n%s",
      summary.c_str());
}

int main() try {
  Device device;
  int code = openDevice(9, 0, reinterpret_cast<const void*>(&reduceClusterDsm),
                        &device);
  if (code == 0 &&
      (deviceAttribute(cudaDevAttrClusterLaunch) == 0 ||
       clustersAtOnce(reduceClusterDsm,
                      ClusterLaunch(1, kThreadsPerBlock, 0, 1)) == 0)) {
    code = refuse(
        "%s cannot launch thread block clusters.\n"
        "  Choose another GPU with CUDA_VISIBLE_DEVICES.",
        device.name.c_str());
  }
  if (code == 0) {
    code = requireMemory(
        device, (size_t(16) << 20) +
                    std::max(sumCopies(device).bytes(),
                             2 * size_t(kMatrixElems) * sizeof(float)));
  }
  if (code != 0) return code;

  costOfClusters(device);
  rowsInClusters(device);
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
