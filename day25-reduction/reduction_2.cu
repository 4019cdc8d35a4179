// Day 25: parallel reduction, versions 5 to 11
// Question: a sum is bound by memory. How close to the card's streaming rate
//   can it get, what brings it there, and is the library better?
//
// Rows:
//   copy (ceiling)        16-byte copy, one float4 per thread
//   v4 two loads          day 24's last tree that leaves partial sums
//   v4c cascaded          the same tree behind a grid-stride loop, fixed grid
//   v5 shuffle tail       the tree stops at 64 values; one warp shuffles
//   v6 template           the block size is a template argument: no tree loop
//   v7 float4             16-byte loads; the 0 to 3 floats left one by one
//   v8 two launches       v7, then one block of v6 folds the partials
//   v8a atomic finish     v7, each block adds its partial atomically
//   v9 last block         v7, the block that finishes last folds the partials
//   v9a loads first       v9, all loads of a tile before the first add
//   v9b streaming loads   v9a, each cache line read is evicted first
//   v10 loads in flight   v9b, a shape that follows n, at most one wave
//   v11 dependent launch  v10, its start overlaps the end of the one before
//   library               cub::DeviceReduce::Sum
//
// Not measured: transfers, the first launch, the allocation of scratch memory,
//   the zero that v8a adds to.
// Build: nvcc -std=c++17 -O3 -arch=sm_75 -o reduction_2 reduction_2.cu
//        nvcc -std=c++17 -O3 -arch=sm_90 -o reduction_2 reduction_2.cu
//        v11 needs the second; -DLESSON_NO_CUB: no library, compiles faster;
//        -DLESSON_YOURS: a row of your own.
// Run:   ./reduction_2 [--help]
// Verified: NVIDIA H200, compute capability 9.0, driver 580.159.04, CUDA 13.0,
//   evidence/day25-reduction/run-h200-sm_75.txt,
//   evidence/day25-reduction/run-h200-sm_90.txt
// Read from "what you may change" to the table of rows; the rest checks,
// measures and prints.

#include <cuda_profiler_api.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cuda/atomic>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>
#ifndef LESSON_NO_CUB
#include <cub/device/device_reduce.cuh>
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
using Index = std::int64_t;  // n may exceed 2^32

constexpr Index kElems = kQuick ? 1048576 : 67108864;  // 4096 or more
constexpr int kThreadsPerBlock = 256;
constexpr int kBlocks = 1024;          // the fixed grid of v4c to v9b
constexpr int kLoads = 8;              // 1 to 8 float4 before the first add
constexpr int kThreadsInFlight = 512;  // a block of v10 and v11 ...
constexpr int kThreadsSmall = 256, kLoadsSmall = 4;  // ... where n is small
constexpr int kGrowthLast = kQuick ? 17 : 28;        // growth: n up to 2^this

constexpr bool works(int threads) {  // as a block
  return threads >= 64 && threads <= 1024 && (threads & (threads - 1)) == 0;
}
static_assert(works(kThreadsPerBlock) && works(kThreadsInFlight) &&
                  works(kThreadsSmall),
              "kThreads...: a tree that halves needs a power of two, its tail "
              "folds 64 values, and no GPU takes more than 1024 threads");
static_assert(
    kElems >= 4096 && kElems / kThreadsPerBlock < Index(1) << 31,
    "kElems: a grid has at most 65535 blocks in y, one for each copy "
    "of the input, and 2^31 - 1 in x: v4 has one for 2 per thread");
static_assert(
    kBlocks >= 1 && kBlocks <= 1 << 20,
    "kBlocks: a grid has at least one block; 2^20 partials are 4 MB");
static_assert(std::min(kLoads, kLoadsSmall) >= 1 &&
                  std::max(kLoads, kLoadsSmall) <= 8,
              "kLoads...: each takes 4 of the 64 registers of a thread");
static_assert(kGrowthLast >= 10 && kGrowthLast <= 30,
              "kGrowthLast: growth starts at 2^10; 2^30 floats are 4.3 GB");
static_assert(sizeof(float4) == 16, "float4: one 16-byte access");
// end snippet

// ---- kernels, in the order of the ladder ----------------------------------
// x holds n floats and may start at any float. Partials: one float per block.

// snippet: indices
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
// end snippet

// snippet: copy-ceiling
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
// end snippet

// snippet: v4-two-loads
// v4, day 24's last tree that leaves partial sums, at this size. Every block
// pays for its start, its tree and its barriers after two loads per thread.
// One thread: two loads, one word of shared memory.
// One warp: 4 sectors per load; whole warps drop out of the tree down to 32
//   values. Launch: a block for every 2 * blockDim.x elements.
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
// end snippet

// snippet: v4c-cascaded
// v4c changes the way in: a fixed grid walks over the input, so a tree is paid
// for once per block, however large n is.
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
// end snippet

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

// snippet: v5-tail
// v5 changes the end of the tree, as day 24's last rows do: one warp does the
// last six levels without a barrier. Old slides do so on `volatile` shared
// memory; that is undefined, since the lanes of a warp may drift apart.
// One thread: as v4c. Launch: any grid; at least 64 threads per block.
// One warp: the first folds two values per lane and shuffles five times.
__global__ void reduceShuffleTail(const float* x, Index n, float* partials) {
  __shared__ float values[kThreadsPerBlock];
  const unsigned tid = threadIdx.x;
  float sum = sumStrided(x, n);
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
}
// end snippet

// snippet: v6-template
// v6 changes what the compiler knows: the block size is a template argument,
// so the tree has no loop, only its levels.
// One thread, one warp: as v5. Launch: any grid, kThreads threads per block.
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

// snippet: v7-load
// v7 changes the loads: 16 bytes each, a quarter as many.
// One thread: n / (4 * gridThreads()) loads. How many of them are under way
//   at once is left to the compiler.
// One warp: 512 bytes in a row, 16 sectors per load. Launch: as v6.
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

template <int kThreads>
__global__ void reduceVectorized(const float* x, Index n, float* partials) {
  const float sum = blockReduceSum<kThreads>(sumVectors(x, n));
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}
// end snippet

// snippet: atomic-finish
// v8a changes who folds, by day 24's atomic finish: every block adds its
// partial to the result, in the order in which blocks finish. Where a sum
// rounds, its last bits can change from launch to launch.
// One thread: thread 0 of a block issues one atomic add.
// One warp: as v7. Launch: as v7; *result is 0.
template <int kThreads>
__global__ void reduceVectorizedAtomic(const float* x, Index n,
                                       float* result) {
  const float sum = blockReduceSum<kThreads>(sumVectors(x, n));
  if (threadIdx.x == 0) atomicAdd(result, sum);
}
// end snippet

// snippet: v9-last-block
// v9 changes who folds again: each block leaves its partial and takes a
// ticket; the one with the last ticket folds all partials. Which lane adds
// which partial, and when, does not depend on which block is last: on one
// card the same input gives the same bits.
// One thread: thread 0 of a block stores the partial and takes the ticket.
// One warp: the first of the last block has up to 32 * kBatch partials in
//   flight.
// Launch: as v7; *tickets is 0, and each launch leaves it so for the next.
template <int kBatch>  // for the first warp of a block, its sum in lane 0
__device__ __forceinline__ void finishInLastBlock(float sum, float* partials,
                                                  unsigned* tickets,
                                                  float* result) {
  unsigned ticket = 0;
  if (threadIdx.x == 0) {
    partials[blockIdx.x] = sum;
    // Release: a thread that sees the ticket taken also sees the partial.
    // Acquire: this thread reads no partial before it has the ticket.
    cuda::atomic_ref<unsigned, cuda::thread_scope_device> counter(*tickets);
    ticket = counter.fetch_add(1, cuda::memory_order_acq_rel);
  }
  ticket = __shfl_sync(kFullMask, ticket, 0);
  if (ticket != gridDim.x - 1) return;
  __syncwarp();  // orders what lane 0 acquired before the other lanes' reads
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
  if (threadIdx.x < 32) finishInLastBlock<16>(sum, partials, tickets, result);
}
// end snippet

// snippet: v10-in-flight
// v9a, v9b and v10 change what is under way; v9a and v10 other things too.
// v9a: kPerThread independent loads, all issued before the first add. One test
//   covers a tile, so none is between the loads. __launch_bounds__: 1024
//   threads per SM leave each 64 registers, room for the loads. v9 needs fewer
//   registers: v9's grid may be more than one wave of v9a, so v9a against v9
//   does not show the loads alone.
// v9b: __ldcs. Each word is read once, so its cache line is evicted first.
// v10: larger blocks, a shape that follows n, at most one wave (inFlight).
// From v9a on, two stages of shuffles and one barrier sum a block, not a tree;
// each lane folds kThreads / 32 partials at once (v9: 16); a block that is
// alone takes no ticket. No row shows what any one of these gains by itself.
// One thread: kPerThread loads of 16 bytes in flight.
// One warp: kPerThread * 512 bytes in flight.
// Launch: any grid of kThreads threads per block; tickets as v9.
template <int kThreads>
__device__ __forceinline__ float sumOfWarps(float sum) {  // in thread 0
  __shared__ float warpSums[kThreads / 32];
  const int tid = int(threadIdx.x);
  sum = warpReduceSum(sum);
  if (tid % 32 == 0) warpSums[tid / 32] = sum;
  __syncthreads();
  if (tid >= 32) return 0.0f;
  sum = tid < kThreads / 32 ? warpSums[tid] : 0.0f;
  for (int offset = kThreads / 64; offset > 0; offset /= 2) {
    sum += __shfl_down_sync(kFullMask, sum, offset);
  }
  return sum;
}

template <int kThreads, int kPerThread, bool kStreaming, bool kWait = false>
__global__ void __launch_bounds__(kThreads, 1024 / kThreads)
    reduceInFlight(const float* x, Index n, float* partials, unsigned* tickets,
                   float* result) {
#if __CUDA_ARCH__ >= 900
  if (kWait) cudaGridDependencySynchronize();  // v11: before anything else
#endif
  constexpr Index kTile = 4 * kThreads * kPerThread;  // floats
  const bool aligned = reinterpret_cast<std::uintptr_t>(x) % 16 == 0;
  float4 values[kPerThread];
  float sum = 0.0f;
  Index first = blockIdx.x * kTile;  // of this block's tile
#pragma unroll 1
  for (; aligned && first + kTile <= n; first += gridDim.x * kTile) {
    const float4* mine = reinterpret_cast<const float4*>(x + first);
#pragma unroll
    for (int k = 0; k < kPerThread; ++k) {
      const float4* from = mine + k * kThreads + threadIdx.x;
      values[k] = kStreaming ? __ldcs(from) : *from;
    }
#pragma unroll
    for (int k = 0; k < kPerThread; ++k) sum += sumOf(values[k]);
  }
  if (aligned && first < n) {  // true in one block: a tile that is not full
    const float4* mine = reinterpret_cast<const float4*>(x + first);
    const int left = int(n - first);
#pragma unroll
    for (int k = 0; k < kPerThread; ++k) {
      const int i = k * kThreads + int(threadIdx.x);
      values[k] = i < left / 4 ? mine[i] : make_float4(0, 0, 0, 0);
    }
#pragma unroll
    for (int k = 0; k < kPerThread; ++k) sum += sumOf(values[k]);
    if (threadIdx.x < left % 4) sum += x[n - 1 - threadIdx.x];
  } else if (!aligned) {
#pragma unroll 1
    for (Index i = gridThread(); i < n; i += gridThreads()) sum += x[i];
  }
  sum = sumOfWarps<kThreads>(sum);
  if (gridDim.x == 1) {
    if (threadIdx.x == 0) *result = sum;
  } else if (threadIdx.x < 32) {
    finishInLastBlock<kThreads / 32>(sum, partials, tickets, result);
  }
}
// end snippet

// ---- launches: each starts its row over x[0, n) and does not wait ---------

const cudaStream_t kStream = cudaStreamPerThread;  // one that can be captured
constexpr size_t kScratchBytes = 1 << 22;

struct Work {          // what a row may use
  unsigned sms, wave;  // wave: blocks of v10 that are resident at once
  float* partials;     // one per block
  unsigned* tickets;   // one counter, 0 between launches
  void* library;       // its scratch memory
  bool cooperative;    // a check: v10 is refused where a block has to wait
} work;

// Blocks for n elements, so many per block; at least one.
unsigned gridOf(Index n, int perBlock) {
  return unsigned(std::max<Index>((n + perBlock - 1) / perBlock, 1));
}

template <auto kKernel>  // a thread for each float4 and for each float left
void everyFloat4(const float* x, Index n, float* out) {
  const unsigned grid = gridOf(n - 3 * vectorsIn(x, n), kThreadsPerBlock);
  kKernel<<<grid, kThreadsPerBlock, 0, kStream>>>(x, n, out);
}

template <auto kKernel>
void twoPerThread(const float* x, Index n, float* out) {
  const unsigned grid = gridOf(n, 2 * kThreadsPerBlock);
  kKernel<<<grid, kThreadsPerBlock, 0, kStream>>>(x, n, out);
}

template <auto kKernel>
void fixedGrid(const float* x, Index n, float* out) {
  kKernel<<<kBlocks, kThreadsPerBlock, 0, kStream>>>(x, n, out);
}

// snippet: v8-two-passes
// v8: one block of v6 folds v7's partials, in a second launch, which starts
// when the first has ended.
template <auto kFirst, auto kSecond>
void twoLaunches(const float* x, Index n, float* out) {
  constexpr int kThreads = kThreadsPerBlock;
  kFirst<<<kBlocks, kThreads, 0, kStream>>>(x, n, work.partials);
  kSecond<<<1, kThreads, 0, kStream>>>(work.partials, kBlocks, out);
}
// end snippet

template <auto kKernel>
void lastBlock(const float* x, Index n, float* out) {
  kKernel<<<kBlocks, kThreadsPerBlock, 0, kStream>>>(x, n, work.partials,
                                                     work.tickets, out);
}

// snippet: v11-dependent
// v11 changes when v10 starts. A dependent launch does not wait until the
// kernel before it is over: its blocks are placed as soon as the other's have
// ended, while that one's writes may still be on their way. So v11 waits for
// them before it touches memory: its input may be what the other wrote, and
// partials and tickets are in use until then.
// One thread, one warp: as v10, after cudaGridDependencySynchronize().
// Launch: as v10, `early`; compute capability 9.0 and newer.
using InFlight = void(const float*, Index, float*, unsigned*, float*);
void launchInFlight(InFlight* kernel, unsigned grid, int threads, bool early,
                    const float* x, Index n, float* out) {
  cudaLaunchAttribute attribute = {};
  attribute.id = work.cooperative
                     ? cudaLaunchAttributeCooperative
                     : cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  if (work.cooperative) attribute.val.cooperative = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(grid);
  config.blockDim = dim3(unsigned(threads));
  config.stream = kStream;
  config.attrs = &attribute;
  config.numAttrs = early || work.cooperative ? 1 : 0;
  CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, x, n, work.partials,
                                work.tickets, out));
}
// end snippet

// snippet: v10-shape
// Up to one large tile, one block sums alone, sooner than others could hand in
// their partials. Above that an SM gets at most one tile, of the smallest size
// for which the SMs suffice; then a wave of large blocks walks over the input.
template <auto kSmall, auto kMiddle, auto kLarge, bool kEarly = false>
void inFlight(const float* x, Index n, float* out) {
  const unsigned small = gridOf(n, 4 * kThreadsSmall * kLoadsSmall);
  const unsigned middle = gridOf(n, 4 * kThreadsInFlight * kLoadsSmall);
  const unsigned large = gridOf(n, 4 * kThreadsInFlight * kLoads);
  const bool alone = large == 1 && small > 1;
  if (small <= work.sms && !alone) {
    launchInFlight(kSmall, small, kThreadsSmall, kEarly, x, n, out);
    return;
  }
  const bool suffice = middle <= work.sms;
  const unsigned grid = suffice ? middle : std::min(large, work.wave);
  launchInFlight(suffice ? kMiddle : kLarge, alone ? 1 : grid,
                 kThreadsInFlight, kEarly, x, n, out);
}
template <auto kSmall, auto kMiddle, auto kLarge>
constexpr auto dependent = inFlight<kSmall, kMiddle, kLarge, true>;
// end snippet

// snippet: library-call
#ifdef LESSON_NO_CUB
constexpr std::nullptr_t library = nullptr;
#else  // below 2^31 n is given as an int: 32-bit offsets are the faster ones
void library(const float* x, Index n, float* out) {
  using cub::DeviceReduce;
  size_t bytes = kScratchBytes;  // an error where it needs more
  void* const temp = work.library;
  CUDA_CHECK(n >> 31
                 ? DeviceReduce::Sum(temp, bytes, x, out, n, kStream)
                 : DeviceReduce::Sum(temp, bytes, x, out, int(n), kStream));
}
#endif
// end snippet

// snippet: yours
#ifdef LESSON_YOURS
// Your turn: right, and slow where n is small. Rewrite kernel and launch. x
// may start at any float; out[0] is the sum of x[0, n), and is not 0 before.
__global__ void reduceYours(const float* x, Index n, float* partials) {
  const float sum = treeSum(sumStrided(x, n));
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

template <auto kKernel>
void yours(const float* x, Index n, float* out) {
  constexpr int kThreads = kThreadsPerBlock;
  kKernel<<<kBlocks, kThreads, 0, kStream>>>(x, n, work.partials);
  kKernel<<<1, kThreads, 0, kStream>>>(work.partials, kBlocks, out);
}
#endif
// end snippet

// ---- the table of rows ----------------------------------------------------

// snippet: row-table
// What a row leaves. added, step and sum: one float; added adds it to what was
// there; a step, between two sums, has no column in the tables of growth.
enum class Leaves { copy, partials, added, step, sum };
struct Row {
  const char* label;
  Leaves leaves;
  void (*launch)(const float* x, Index n, float* out);
  const char* kernels;
  std::string whyNot = {};    // why this build or this card has no such row
  std::string name() const {  // v10
    return std::string(label).substr(0, std::string(label).find(' '));
  }
};
#define ROW(label, leaves, launch, ...) \
  { label, Leaves::leaves, launch<__VA_ARGS__>, #__VA_ARGS__ }

constexpr int kB = kThreadsPerBlock, kFew = kLoadsSmall;
constexpr int kS = kThreadsSmall, kI = kThreadsInFlight;
const std::vector<Row> kRows = {
    ROW("copy (ceiling)", copy, everyFloat4, copyFloats),
    ROW("v4 two loads", partials, twoPerThread, reduceSequentialTwoLoads),
    ROW("v4c cascaded", partials, fixedGrid, reduceCascaded),
    ROW("v5 shuffle tail", partials, fixedGrid, reduceShuffleTail),
    ROW("v6 template", partials, fixedGrid, reduceUnrolled<kB>),
    ROW("v7 float4", partials, fixedGrid, reduceVectorized<kB>),
    ROW("v8 two launches", sum, twoLaunches, reduceVectorized<kB>,
        reduceUnrolled<kB>),
    ROW("v8a atomic finish", added, fixedGrid, reduceVectorizedAtomic<kB>),
    ROW("v9 last block", sum, lastBlock, reduceLastBlock<kB>),
    ROW("v9a loads first", step, lastBlock, reduceInFlight<kB, kLoads, false>),
    ROW("v9b streaming loads", step, lastBlock,
        reduceInFlight<kB, kLoads, true>),
    ROW("v10 loads in flight", sum, inFlight, reduceInFlight<kS, kFew, false>,
        reduceInFlight<kI, kFew, false>, reduceInFlight<kI, kLoads, true>),
    ROW("v11 dependent launch", sum, dependent,
        reduceInFlight<kS, kFew, false, true>,
        reduceInFlight<kI, kFew, false, true>,
        reduceInFlight<kI, kLoads, true, true>),
    {"library", Leaves::sum, library, "cub::DeviceReduce::Sum"},
#ifdef LESSON_YOURS
    ROW("yours", sum, yours, reduceYours),
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

// ---- input and CPU reference ----------------------------------------------

// snippet: input-pattern
// ones: an element dropped or read twice moves the sum by exactly one.
// position: 1/64 to 64/64 with a sign, by a hash of the index: the right count
// from the wrong addresses fails, and so do whole numbers and 16-bit floats.
// kSeed makes a period add up to 0, so that sums stay small: below 300 over
// neighbours, below 2^15 over what a thread, a block or a fold adds up. A
// float holds every multiple of 1/64 up to 2^18: no order rounds.
// uneven: values in [0, 1) whose sum has to round.
enum class Pattern { ones, position, uneven };
constexpr Index kExact = 1 << 24;  // floats hold every integer up to here
constexpr Index kPeriod = 100003;  // a prime
constexpr std::uint32_t kSeed = 22760;

__host__ __device__ inline float valueAt(Pattern pattern, Index i) {
  if (pattern == Pattern::ones) return 1.0f;
  std::uint32_t h = std::uint32_t(i % kPeriod) * 0x9e3779b1u + kSeed;
  h = (h ^ (h >> 15)) * 0x2545f491u;
  h = (h ^ (h >> 13)) * 0xd1342543u;
  if (pattern == Pattern::uneven) return float(h >> 8) / float(kExact);
  return float(1 + (h >> 25 & 63)) / (h >> 31 ? -64.0f : 64.0f);
}
// end snippet

// snippet: reference
// The reference: elements [first, first + n), added in double, which rounds
// nothing here. One period is added up value by value, once.
double sumCpu(Pattern pattern, Index first, Index n) {
  if (pattern == Pattern::ones) return double(n);
  static double upTo[kPeriod + 1];  // sums of the first 0, 1, 2, ...
  for (Index i = 0, end = upTo[1] == 0.0 ? kPeriod : 0; i < end; ++i) {
    upTo[i + 1] = upTo[i] + valueAt(Pattern::position, i);
  }
  const Index end = first + n;
  return double(end / kPeriod - first / kPeriod) * upTo[kPeriod] +
         upTo[end % kPeriod] - upTo[first % kPeriod];
}
// end snippet

// snippet: fill-input
// Fills copy blockIdx.y, or counts in *wrong where x differs from copy
// `which`; NaN differs from everything. Each copy starts at another place in
// the pattern: a launch that reads another one, or another launch's partials,
// leaves a wrong sum.
constexpr Index kShift = 7919;
__global__ void fillInput(float* x, Index n, Index stride, Pattern pattern,
                          Index which, unsigned* wrong) {
  const Index i = gridThread(), copy = which + blockIdx.y;
  if (i >= n) return;
  const float value = valueAt(pattern, copy * kShift + i);
  if (!wrong) x[copy * stride + i] = value;
  if (wrong && !(x[i] == value)) atomicAdd(wrong, 1u);
}
// end snippet

constexpr Index kPad = 256;  // floats behind a buffer
constexpr Index kHuge = (Index(1) << 32) + (1 << 20) + 5;

size_t bytesOf(Index floats) { return size_t(floats) * sizeof(float); }
void fillBytes(void* d_x, int byte, size_t bytes) {
  CUDA_CHECK(cudaMemsetAsync(d_x, byte, bytes, kStream));
}
template <typename T>
std::vector<T> readBack(const T* d_x, Index n) {
  std::vector<T> h_x(size_t{0} + n);
  CUDA_CHECK(cudaMemcpyAsync(h_x.data(), d_x, h_x.size() * sizeof(T),
                             cudaMemcpyDeviceToHost, kStream));
  CUDA_CHECK(cudaStreamSynchronize(kStream));
  return h_x;
}

// Copies of n floats of a pattern, 3.4e38 behind each (no poison, so that a
// copy of it shows); the first starts `past` floats past a 16-byte boundary.
struct Input {
  Pattern pattern;
  Index n;
  int copies = 1, past = 0, next = 0;  // next: the copy for the next launch
  Index stride = strideOf(n);
  DeviceArray<float> memory{size_t(stride * copies)};
  const float* first = fill();
  static Index strideOf(Index n) { return (n / kPad + 2) * kPad; }
  const float* copy(int i) const { return first + i % copies * stride; }
  double want(int i) const { return sumCpu(pattern, i % copies * kShift, n); }
  const float* fill() {
    float* const x = memory.data + past;
    const dim3 grid(gridOf(n, 256), unsigned(copies));
    fillBytes(memory.data, 0x7f, bytesOf(stride * copies));
    fillInput<<<grid, 256, 0, kStream>>>(x, n, stride, pattern, 0, nullptr);
    CUDA_CHECK(cudaGetLastError());
    const bool small = pattern != Pattern::position || std::abs(want(0)) < 300;
    gate("position-data", small, text("n = %.0f: %g", double(n), want(0)));
    return x;
  }
};

// ---- checks ---------------------------------------------------------------

// snippet: graph-clock
// Times `launch` without what it costs the host: a graph holds `sums` of them.
template <typename Launch>
Timing timeGraph(Launch launch, int sums, double batchMs) {
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  const auto mode = cudaStreamCaptureModeThreadLocal;
  CUDA_CHECK(cudaStreamBeginCapture(kStream, mode));
  for (int i = 0; i < sums; ++i) launch(i);
  CUDA_CHECK(cudaStreamEndCapture(kStream, &graph));
  CUDA_CHECK(cudaGraphInstantiate(&exec, graph, 0));
  const auto start = [&](int) { CUDA_CHECK(cudaGraphLaunch(exec, kStream)); };
  Timing timing = timeKernel(start, kStream, batchMs);
  timing.ms /= sums;
  timing.launches = sums;
  CUDA_CHECK(cudaGraphExecDestroy(exec));
  CUDA_CHECK(cudaGraphDestroy(graph));
  return timing;
}
// end snippet

// snippet: one-check
// Runs a row on poisoned memory: once, or timed where `timing` is given, from
// a graph where `sums` is. A row of one float leaves launch i in word i, and
// each must be its sum; of other rows the last launch is compared. Nothing may
// be written behind.
bool runsRight(const Row& row, Input& input, Timing* timing = nullptr,
               double batchMs = kBatchMs, int sums = 0) {
  const bool isCopy = row.leaves == Leaves::copy;
  const bool oneFloat = row.leaves >= Leaves::added;
  const int before = row.leaves == Leaves::added ? 0 : -1;  // -1: NaN
  Index left = isCopy ? input.n : kBlocks;                  // floats
  if (row.launch == kRows[1].launch) left = gridOf(input.n, 2 * kB);  // v4
  const Index room = kPad + (oneFloat ? kMaxLaunches : left);
  DeviceArray<float> out(size_t{0} + room);
  fillBytes(out.data, before, bytesOf(room));
  fillBytes(work.partials, 0xff, kScratchBytes);
  const auto launch = [&](int i) {
    float* const word = oneFloat ? out.data + i : out.data;
    row.launch(input.copy(input.next + i), input.n, word);
  };
  int launches = 1;
  if (timing) {
    *timing = sums ? timeGraph(launch, sums, batchMs)
                   : timeKernel(launch, kStream, batchMs);
    launches = timing->launches;
  } else {
    launch(0);
    CUDA_CHECK(cudaGetLastError());
  }
  if (oneFloat) left = launches;

  const int last = input.next + launches - 1;
  double want = input.want(last), got = isCopy ? want : 0.0;
  if (isCopy) {
    DeviceArray<unsigned> wrong(1);
    fillBytes(wrong.data, 0, sizeof(unsigned));
    fillInput<<<gridOf(left, 256), 256, 0, kStream>>>(
        out.data, left, 0, input.pattern, last % input.copies, wrong.data);
    got += readBack(wrong.data, 1)[0];
  }
  const std::vector<float> words = readBack(out.data, isCopy ? 0 : left);
  for (size_t i = 0; i < words.size(); ++i) {
    got = oneFloat ? words[i] : got + words[i];
    if (oneFloat) want = input.want(input.next + int(i));
    if (oneFloat && !(got == want)) break;  // this launch is wrong
  }
  bool ok = gate("total", got == want,
                 text("%s, n = %.0f: %.6f, not %.6f", row.label,
                      double(input.n), got, want));
  const auto behind = readBack(reinterpret_cast<int*>(out.data) + left, kPad);
  const auto kept = std::count(behind.begin(), behind.end(), before);
  ok &= gate("nothing-behind", kept == kPad, row.label);
  ok &= gate("tickets-reset", readBack(work.tickets, 1)[0] == 0, row.label);
  input.next = (input.next + launches) % input.copies;
  return ok;
}
// end snippet

// How many different results 20 launches over the same values leave; the first
// is compared with a sum in double: value i comes again every kPeriod floats.
int resultsOf(const Row& row, const Input& uneven) {
  constexpr int kLaunches = 20;
  DeviceArray<float> out(kLaunches);
  fillBytes(out.data, row.leaves == Leaves::added ? 0 : -1,
            bytesOf(kLaunches));
  for (int i = 0; i < kLaunches; ++i) {
    row.launch(uneven.first, uneven.n, out.data + i);
  }
  CUDA_CHECK(cudaGetLastError());
  const std::vector<float> sums = readBack(out.data, kLaunches);
  double want = 0.0;
  for (Index i = 0; i < std::min(uneven.n, kPeriod); ++i) {
    const Index times = (uneven.n - i + kPeriod - 1) / kPeriod;
    want += double(times) * double(valueAt(uneven.pattern, i));
  }
  gate("same-bits", std::abs(double(sums[0]) - want) < 1e-5 * want,
       text("%s: %.1f, not about %.1f", row.label, double(sums[0]), want));
  return int(std::set<float>(sums.begin(), sums.end()).size());
}

// ---- the ladder -----------------------------------------------------------

void printLadder(const Device& device, const std::vector<Row>& rows) {
  Input ones{Pattern::ones, std::min(kElems, kExact - 1)};
  Input uneven{Pattern::uneven, std::min(kElems, kExact)};
  const double bytes = double(bytesOf(kElems));
  const int copies = copiesBeyondL2(device, bytesOf(kElems));
  Input input{Pattern::position, kElems, copies};
  std::printf(
      "v4 to v9b: %d threads per block; v4c to v9b: %d blocks\n"
      "v10, v11: %d threads per block, at most %u blocks\n\n"
      "The ladder: %.0f floats, %d copies in turn\n",
      kThreadsPerBlock, kBlocks, kThreadsInFlight, work.wave, double(kElems),
      copies);
  Table table(device, "  x above  results  leaves");
  Timing above, copied;
  for (const Row& row : rows) {
    const bool isCopy = row.leaves == Leaves::copy;
    Timing timing;
    CUDA_CHECK(cudaProfilerStart());  // a profiler records this run
    bool right = row.whyNot.empty() && runsRight(row, input);
    CUDA_CHECK(cudaProfilerStop());
    right = right && runsRight(row, ones) && runsRight(row, input, &timing);
    if (right) {
      std::string own = isCopy ? "-  n floats" : "-  partials";
      if (row.leaves >= Leaves::added) {
        const int results = resultsOf(row, uneven);
        own = text("%d  one float", results);
        const bool may = row.leaves == Leaves::added || row.label[0] != 'v';
        gate("same-bits", may || results == 1, row.label);
      }
      const std::string times = timesAbove(above, timing);
      table.print(row.label, timing, (isCopy ? 2 : 1) * bytes,
                  text("%9s%20s", times.c_str(), own.c_str()));
    } else {
      const bool wrong = row.whyNot.empty();
      table.line(row.label, wrong ? "WRONG, not timed" : row.whyNot);
    }
    (isCopy ? copied : above) = timing;  // no sum is compared with the copy
  }
  std::printf(
      "\nGB/s counts 4n bytes read, and for the copy 4n written as well. What "
      "only reads\ncan pass the copy; its ceiling is the peak. results: how "
      "many different ones 20\nlaunches over values that round leave.\n");
  int v9 = 0, v9a = 0;  // blocks per SM
  CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
      &v9, reduceLastBlock<kB>, kB, 0));
  CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
      &v9a, reduceInFlight<kB, kLoads, false>, kB, 0));
  std::printf("Of %d blocks the card holds %d of v9 at once, %d of v9a.\n",
              kBlocks, std::min(kBlocks, v9 * int(work.sms)),
              std::min(kBlocks, v9a * int(work.sms)));
  if (table.copyGBs == 0.0) return;
  DeviceArray<float> out(size_t{kElems});
  const auto driverCopy = [&](int i) {
    CUDA_CHECK(cudaMemcpyAsync(out.data, input.copy(i), bytesOf(kElems),
                               cudaMemcpyDeviceToDevice, kStream));
  };
  const Timing driver = timeKernel(driverCopy, kStream);
  const double share = table.copyGBs * driver.ms * 1e6 / (2 * bytes);
  std::printf("The copy row reaches %.2f of cudaMemcpyAsync, %.4f ms.\n",
              share, driver.ms);
  const bool counts = !kQuick && std::min(copied.ms, driver.ms) > 0.02 &&
                      std::max(copied.spread, driver.spread) < 0.2;
  gate("copy", !counts || (share > 0.8 && share < 1.25), "is no ceiling");
}

// ---- growth, by two clocks ------------------------------------------------

bool fits(Index floats) {  // in the memory that is free, 64 MB to spare
  size_t free = 0, total = 0;
  CUDA_CHECK(cudaMemGetInfo(&free, &total));
  return bytesOf(floats) + (size_t(64) << 20) <= free;
}

// Microseconds per sum, launched by the host one by one or from a graph.
void printGrowth(const Device& device, const std::vector<Row>& rows,
                 bool graph) {
  const auto grows = [](const Row& row) {
    return row.leaves == Leaves::sum && row.whyNot.empty();
  };
  if (std::none_of(rows.begin(), rows.end(), grows)) return;
  constexpr int kSums = kQuick ? 16 : 256;      // launches of a graph, at most
  constexpr int kCopies = kQuick ? 64 : 65535;  // blocks in y, at most
  const char* const by = graph ? "from a graph" : "by the host";
  const auto cell = [](int width, double value) {
    return value > 0.0 ? text("%*.3f", width, value)
                       : text("%*s", width, "n/a");
  };
  std::string line =
      text("\nGrowth, launched %s: us per sum\nn    inputs", by);
  for (const Row& row : rows) {
    if (row.leaves == Leaves::sum) line += text("%10s", row.name().c_str());
  }
  std::printf("%s   spread  library/v10  library/v11  v10 %% peak\n",
              line.c_str());
  std::map<std::string, double> us;               // by the name of a row
  std::vector<std::pair<double, int>> ratios[2];  // to v10, v11; log2 of n
  int knee = 10, e = 10;
  for (; e <= kGrowthLast; ++e) {
    const Index n = Index(1) << e;
    const double bytes = double(bytesOf(n)), before = us["v10"];
    const int copies = std::min(copiesBeyondL2(device, bytesOf(n)), kCopies);
    int sums = int(std::clamp<Index>((Index(1) << 30) / n, 8, kSums));
    if (sums > copies) sums -= sums % copies;  // each copy equally often
    // Between two reads of one copy, in multiples of L2:
    const double passes = bytes * (graph ? std::min(copies, sums) : copies) /
                          double(std::max(device.l2CacheSize, 1));
    const bool fromL2 = passes < 1.0;
    const bool fromMemory = passes > 4.0;
    if (!fits(copies * Input::strideOf(n))) break;
    Input input{Pattern::position, n, copies};
    double spread = 0.0;
    line =
        text("2^%d%8s", e, fromL2 ? "L2" : (fromMemory ? "memory" : "mixed"));
    for (const Row& row : rows) {
      if (row.leaves != Leaves::sum) continue;
      Timing timing;
      const bool right = row.whyNot.empty() && runsRight(row, input) &&
                         runsRight(row, input, &timing, 1.0, graph ? sums : 0);
      us[row.name()] = right ? timing.ms * 1e3 : 0.0;
      const bool counts = right && fromMemory && device.peakGBs > 0.0;
      gate("rate", !counts || bytes < 1.02e6 * device.peakGBs * timing.ms,
           row.label);
      spread = std::max(spread, timing.spread);
      line += cell(10, us[row.name()]);
    }
    line += text("%8.1f%%", 100 * spread);
    const double v10 = us["v10"];
    for (int k : {0, 1}) {
      const double mine = k == 0 ? v10 : us["v11"];
      const double ratio = mine > 0.0 ? us["library"] / mine : 0.0;
      if (ratio > 0.0) ratios[k].push_back({ratio, e});
      line += cell(13, ratio);
    }
    const double rate = v10 > 0.0 ? bytes / v10 / 1e3 : 0.0;
    std::printf("%s%12s\n", line.c_str(),
                percent(rate, device.peakGBs).c_str());
    if (before == 0.0 || v10 < 1.45 * before) knee = e;
  }
  std::printf(
      "\ninputs: up to %d copies in turn. L2: they fit in it; memory: they "
      "fill it more\nthan 4 times; mixed: neither.\n",
      graph ? kSums : kCopies);
  if (e <= kGrowthLast) {
    std::printf("2^%d to 2^%d: left out, too little memory.\n", e,
                kGrowthLast);
  }
  if (knee < e - 1) {  // else v10 has no such times
    std::printf(
        "Beyond 2^%d, twice the floats always take v10 at least 1.45 times as "
        "long.\n",
        knee);
  }
  for (int k : {0, 1}) {
    if (ratios[k].empty()) continue;
    const auto [least, most] =
        std::minmax_element(ratios[k].begin(), ratios[k].end());
    std::printf(
        "Launched %s, back to back, the library takes %.3f (2^%d) to %.3f "
        "(2^%d)\ntimes as long as v%d%s.\n",
        by, least->first, least->second, most->first, most->second, 10 + k,
        k ? ", which overlaps the launch before it" : "");
  }
}

// ---- awkward inputs, checked and not timed --------------------------------

void checkAwkward(const std::vector<Row>& rows) {
  constexpr Index kMi = 1 << 20;
  std::set<Index> lengths = {0,    1,       2,       3,       4,
                             5,    31,      32,      33,      1023,
                             1025, kMi - 1, kMi + 1, kMi + 2, kMi + 3};
  const Index small = 4 * kThreadsSmall * kLoadsSmall, sms = work.sms;
  const Index middle = 4 * kThreadsInFlight * kLoadsSmall;
  const Index large = 4 * kThreadsInFlight * kLoads;
  for (Index edge : {Index(kB), Index(2 * kB), small, middle, large,
                     small * sms, middle * sms, large * work.wave}) {
    for (Index more : {-1, 0, 1}) lengths.insert(edge + more);
  }
  int runs = 0, right = 0;
  const auto runAll = [&](Pattern pattern, Index n, int past) {
    Input input{pattern, n, 1, past};
    for (const Row& row : rows) {
      if (!row.whyNot.empty()) continue;
      ++runs;
      right += runsRight(row, input);
    }
  };
  for (const Index n : lengths) {
    runAll(Pattern::ones, n, 1);
    for (int past : {0, 1, 2, 3}) runAll(Pattern::position, n, past);
  }
  gate("awkward-inputs", right == runs, text("%d of %d", right, runs));
  std::printf(
      "\nAwkward inputs, not timed: %d lengths from 0 to %.0f, bases 0 to 3 "
      "floats past\na boundary: %d of %d runs right.\n",
      int(lengths.size()), double(*lengths.rbegin()), right, runs);
  runs = right = 0;
  const bool tried = !kQuick && fits(2 * kHuge);
  if (tried) runAll(Pattern::position, kHuge, 0);  // above 32 bits
  gate("index-64-bit", right == runs, text("%d of %d", right, runs));
  std::printf("n = 2^32 + 2^20 + 5: %s.\n",
              tried    ? text("%d of %d rows right", right, runs).c_str()
              : kQuick ? "left out (LESSON_QUICK)"
                       : "left out, too little memory");
}

void lesson() {
  const Device device =
      openDevice(75, reinterpret_cast<const void*>(&copyFloats));
#ifndef LESSON_NO_CUB
  std::printf("library: CUB %d.%d.%d\n", CUB_MAJOR_VERSION, CUB_MINOR_VERSION,
              CUB_SUBMINOR_VERSION);
#endif
  const auto v10 = reduceInFlight<kThreadsInFlight, kLoads, true>;
  const auto v11 = reduceInFlight<kThreadsInFlight, kLoads, true, true>;
  int perSm = 0;
  CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
      &perSm, v10, kThreadsInFlight, 0));
  const unsigned sms = unsigned(device.multiProcessorCount);
  DeviceArray<float> partials(kScratchBytes / sizeof(float));
  DeviceArray<char> scratch(kScratchBytes);
  DeviceArray<unsigned> tickets(1);
  fillBytes(tickets.data, 0, sizeof(unsigned));
  work = {sms, perSm * sms, partials.data, tickets.data, scratch.data, false};
  cudaFuncAttributes code;  // decides, not the card: what it was compiled for
  CUDA_CHECK(cudaFuncGetAttributes(&code, v11));
  std::vector<Row> rows;
  for (Row row : kRows) {
    if (!row.launch) row.whyNot = "skipped: built with LESSON_NO_CUB";
    if (row.name() == "v11" && code.ptxVersion < 90) {
      row.whyNot = text("skipped: this is code for %.1f; -arch=sm_90 needed",
                        code.ptxVersion / 10.0);
    }
    if (has(wantedRows, row.label)) rows.push_back(row);
  }
  printLadder(device, rows);
  for (bool graph : {false, true}) printGrowth(device, rows, graph);
  checkAwkward(rows);
  for (const Row& row : rows) {
    if (row.name() != "v10") continue;
    // More than a tile for each block of a wave: that wave is the grid.
    constexpr int kMost = std::max(kLoads, kLoadsSmall);
    const Index n = Index(8) * kThreadsInFlight * kMost * work.wave;
    if (!device.cooperativeLaunch || !fits(n)) {
      std::printf("one wave: not tried, %s.\n", device.cooperativeLaunch
                                                    ? "too little memory"
                                                    : "no cooperative launch");
      continue;
    }
    Input input{Pattern::position, n};
    work.cooperative = true;
    if (gate("one-wave", runsRight(row, input), row.label)) {
      std::printf("v10's %u blocks are one wave: none has to wait.\n",
                  work.wave);
    }
  }
}

int main(int argc, char** argv) {
  Rows rows;
  for (const Row& row : kRows) rows.push_back({row.label, row.kernels});
  return runLesson(argc, argv, "about 8 s on an NVIDIA H200", rows, lesson);
}
