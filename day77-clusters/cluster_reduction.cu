// Day 77: thread block clusters and distributed shared memory
// Question: what does the cluster machinery cost, and where does it pay?
//
// Rows: up to `few` one sum, then one exchange of a sum, then a matrix
//   atomic baseline             day 24's tree, one atomic per block
//   dsm, cluster of 1           the same blocks, launched as clusters
//   dsm, cluster of 2           two add up in distributed shared memory: one
//   dsm, cluster of 4           atomic per cluster
//   dsm, cluster of 8           the largest portable size
//   dsm, cluster of 16          where the card allows it
//   dsm, relaxed, cluster of 8  the second barrier without its fence
//   few blocks                  the baseline from one resident wave of blocks
//   few blocks, cluster of 2    the clusters from one wave
//   few blocks, cluster of 4    "
//   few blocks, cluster of 8    "
//   few blocks, cluster of 16   "
//   exchange by cluster barriers  each block reads the sums of the others
//   exchange one way            each block sends its sum to the others
//   exchange through memory     the same without a cluster
//   copy (ceiling)              16-byte copy of the matrix
//   one block per row, two reads  sum the row, read it again, write it
//   one block per row, row in shared memory  where it fits in one SM
//   k blocks per row, no cluster  two reads; sums meet in global memory
//   k blocks per row, by ticket  one read; blocks start without a cluster
//   cluster of 2 per row        slices in shared memory, two barriers
//   cluster of 4 per row        "
//   cluster of 8 per row        "
//   cluster of 16 per row       "
//   cluster of 2 per row, one way  the same, but the sums are sent
//   cluster of 4 per row, one way  "
//   cluster of 8 per row, one way  "
//   cluster of 16 per row, one way  "
//   cluster of 8 per row, registers too  part of the slice is held there
//   cluster of 16 per row, registers too  "
// With -DLESSON_YOURS: yours. Not measured: the bandwidth of distributed
// shared memory; bulk copies (TMA); loading a row while the one before is
// written; sums of part 1 sent one way; by ticket without registers; one block
// per row with registers; other types; longer rows.
//
// Build:
//   nvcc -std=c++17 -O3 -arch=sm_90 -o cluster_reduction cluster_reduction.cu
// Run:   ./cluster_reduction
// Verified: NVIDIA H200, compute capability 9.0, driver 580.159.04, CUDA 13.0,
//   evidence/day77-clusters/run-h200-sm_90.txt
// Read on to the table of rows; what follows it may be skipped.

#include <cooperative_groups.h>
#include <cuda_pipeline_primitives.h>
#include <cuda_profiler_api.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda/annotated_ptr>
#include <cuda/atomic>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#error "clusters need compute capability 9.0: compile with -arch=sm_90"
#endif
namespace cg = cooperative_groups;

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

// ---- what you may change; a wrong value stops the compiler ----------------

// snippet: constants
constexpr int kElems = (kQuick ? 1 << 16 : 1 << 24) - 611;  // of part 1
constexpr int kThreadsPerBlock = 256;
constexpr int kRepetitions = kQuick ? 2 : 1000;  // of each row: 1 to 32768
#ifndef LESSON_MAX_CLUSTER
#define LESSON_MAX_CLUSTER 16  // 1 to 32; 8 is portable, more an opt-in
#endif
constexpr int kMaxClusterBlocks = LESSON_MAX_CLUSTER;
constexpr int kRounds = kQuick ? 20 : 2000;  // exchanges per launch
constexpr int kExchangeThreads[] = {32, 256, 1024};
constexpr int kMatrixElems = kQuick ? 1 << 18 : 1 << 27;       // of part 2
constexpr int kMinRowLog = 14, kMaxRowLog = kQuick ? 17 : 20;  // 6 to 20
constexpr int kMaxValue = 15;  // elements are 1/8, 2/8, ... kMaxValue/8
constexpr int kRowThreads[] = {128, 256, 384, 512, 768, 1024};  // all tried
constexpr int kInRegisters = 8;  // float4 per thread, of the row with these

static_assert(kElems >= 1 << 15 && kElems < (1 << 24),
              "kElems: a float counts ones exactly only below 2^24; below "
              "2^15 it would take too many copies to pass L2");
static_assert(kThreadsPerBlock >= 32 && kThreadsPerBlock <= 1024 &&
                  (kThreadsPerBlock & (kThreadsPerBlock - 1)) == 0,
              "kThreadsPerBlock: the tree halves the block, so a power of 2 "
              "from 32 to 1024");
static_assert(kMaxClusterBlocks >= 1 && kMaxClusterBlocks <= 32,
              "LESSON_MAX_CLUSTER: one lane of a warp reads one block's sum");
static_assert(kRounds > 0 && kInRegisters > 0 && kInRegisters <= 8,
              "kRounds, kInRegisters: at least 1; registers for 8 float4");
static_assert(16.0 * kRounds + 120 < 0x1p24,
              "kRounds: the sum of 16 blocks that began with 0 to 15 is exact "
              "in a float only below 2^24");
static_assert(kMaxValue > 0 && double(kMaxValue) * (1 << kMaxRowLog) < 0x1p24,
              "kMaxValue, kMaxRowLog: a row has a positive sum, exact in any "
              "order only below 2^24 eighths");
static_assert(kMinRowLog >= 6 && kMinRowLog <= kMaxRowLog &&
                  kMatrixElems > 0 && kMatrixElems % (1 << kMaxRowLog) == 0,
              "kMatrixElems, kMinRowLog: rows of whole 256 bytes, of which "
              "every length divides the matrix");
template <size_t n>
constexpr bool wholeWarps(const int (&sizes)[n], bool all = true) {
  for (int s : sizes) all = all && s >= 32 && s <= 1024 && s % 32 == 0;
  return all;
}
static_assert(wholeWarps(kRowThreads) && wholeWarps(kExchangeThreads),
              "kRowThreads, kExchangeThreads: 1 to 32 whole warps");
// end snippet

// ---- part 1: one reduction, two tails -------------------------------------

// snippet: empty-kernel
__global__ void doNothing() {}  // what does a launch cost by itself?
// end snippet

// snippet: block-tree
// Day 24's tree with two loads per thread; leaves the block's sum in tile[0].
// One thread: two elements, kThreadsPerBlock apart, of each of its tiles.
// One warp: 4 sectors per load. Launch: kThreadsPerBlock threads, any number
// of blocks; a block past the end of the input leaves an exact zero.
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
// end snippet

// snippet: atomic-tail
// The baseline: one atomic per block.
__global__ void reduceBlockAtomic(const float* in, size_t n, float* out) {
  __shared__ float tile[kThreadsPerBlock];
  reduceBlockToTile(in, n, tile);
  if (threadIdx.x == 0) atomicAdd(out, tile[0]);
}
// end snippet

// snippet: warp-sum
// Every lane gets the sum over the warp.
__device__ inline float warpSum(float value) {
  for (int distance = 16; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xFFFFFFFFu, value, distance);
  }
  return value;
}
// end snippet

// snippet: barrier-halves
// Blocks per cluster and in the grid, as the last launch saw them: the host
// compares both with the row's label.
__device__ int launched[2];
__device__ inline void reportLaunch() {
  if (blockIdx.x != 0 || threadIdx.x != 0) return;
  launched[0] = cg::this_cluster().num_blocks();
  launched[1] = gridDim.x;
}

// The halves of a cluster barrier, in PTX. The arrival of cooperative groups
// is a release: it first waits for the thread's own writes. This one does not.
// `aligned`: all threads of a warp come together.
__device__ inline void arriveRelaxed() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
__device__ inline void waitForCluster() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// end snippet

// snippet: cluster-combine
// What changed: the blocks of a cluster add their sums through distributed
// shared memory, and one atomic per cluster is left.
// One thread: lane r of the first warp of block 0 reads the sum of block r.
// One warp: one remote read per lane, as many as the cluster has blocks.
// Launch: a whole number of clusters, at most 32 blocks each.
template <bool kRelaxed>
__device__ inline void combine(const float* in, size_t n, float* out) {
  __shared__ float tile[kThreadsPerBlock];
  cg::cluster_group cluster = cg::this_cluster();
  reportLaunch();
  reduceBlockToTile(in, n, tile);

  // Both barriers are needed. This one: every block of the cluster runs, and
  // its tile[0] is written and visible, before anyone reads it.
  cluster.sync();
  float sum = 0.0f;
  const bool adds = cluster.block_rank() == 0 && threadIdx.x < 32;
  if (adds && threadIdx.x < cluster.num_blocks()) {
    sum = cluster.map_shared_rank(tile, threadIdx.x)[0];
  }
  if (adds) sum = warpSum(sum);
  // And this one: no block leaves, and takes its shared memory with it, before
  // block 0 has read there. Nobody reads what was written before it, so a
  // relaxed arrival is enough; the shuffles have used the remote values.
  if (kRelaxed) {
    arriveRelaxed();
    waitForCluster();
  } else {
    cluster.sync();
  }
  if (adds && threadIdx.x == 0) atomicAdd(out, sum);
}
__global__ void reduceClusterDsm(const float* in, size_t n, float* out) {
  combine<false>(in, n, out);
}
__global__ void reduceClusterRelaxed(const float* in, size_t n, float* out) {
  combine<true>(in, n, out);
}
// end snippet

// snippet: cluster-launch
// How a kernel is launched: in clusters of `cluster` blocks (0: without), or
// `together`, a cooperative launch: all blocks are resident, or it is refused.
// So is a grid that is not a whole number of clusters: the grid is padded.
struct Launch {
  cudaLaunchAttribute attribute{};
  cudaLaunchConfig_t config{};
  Launch(size_t blocks, int threads, size_t bytes, int cluster,
         bool together = false) {
    const size_t whole = cluster > 1 ? cluster : 1;
    config.gridDim = dim3(unsigned((blocks + whole - 1) / whole * whole));
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = bytes;
    config.attrs = &attribute;
    config.numAttrs = cluster > 0 || together;
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {unsigned(cluster), 1, 1};
    if (!together) return;
    attribute.id = cudaLaunchAttributeCooperative;
    attribute.val.cooperative = 1;
  }
  Launch(const Launch&) = delete;  // config points to attribute
  template <typename... Args>
  void operator()(const void* kernel, Args... args) const {
    void* arguments[sizeof...(args) + 1] = {&args...};
    CUDA_CHECK(cudaLaunchKernelExC(&config, kernel, arguments));
  }
};

// The launch of part 1: `blocks` is padded; padded blocks add an exact zero.
void launchClusterDsm(const void* kernel, const Launch& launch,
                      const float* in, float* out) {
  launch(kernel, in, size_t(kElems), out);
}
// end snippet

// snippet: cluster-query
// The largest cluster in which this launch of the kernel can run at all.
int largestCluster(const void* kernel, const Launch& launch) {
  int blocks = 0;
  CUDA_CHECK(
      cudaOccupancyMaxPotentialClusterSize(&blocks, kernel, &launch.config));
  return std::min(kMaxClusterBlocks, blocks);
}
// How many clusters of this launch run at once; 0 where none can. A cluster
// lives inside one GPC, and only the driver knows how many SMs each one has:
// SMs / cluster size is not the answer.
int clustersAtOnce(const void* kernel, const Launch& launch) {
  int clusters = 0;
  const unsigned size = launch.attribute.val.clusterDim.x;
  if (size > unsigned(largestCluster(kernel, launch))) return 0;
  CUDA_CHECK(
      cudaOccupancyMaxActiveClusters(&clusters, kernel, &launch.config));
  return clusters;
}
// end snippet

// ---- every block needs the total of a group of blocks ---------------------

// snippet: one-way-sum
// Each block of a cluster has a mailbox in its shared memory. The others send
// their sums into it by st.async: one instruction writes the value there and
// counts its bytes at the mbarrier beside it. A block waits at its own
// mbarrier only: no thread of another block has to arrive anywhere.
struct Mailbox {
  std::uint64_t arrived;  // the mbarrier
  float sums[32];         // of block 0, 1, 2, ...
};
__device__ inline unsigned sharedAddress(const void* p) {
  return unsigned(__cvta_generic_to_shared(p));
}
__device__ inline unsigned addressIn(int rank, const void* p) {  // of its copy
  unsigned a;
  asm("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(a)
      : "r"(sharedAddress(p)), "r"(rank));
  return a;
}
// One thread, before the cluster barrier that lets the others send.
__device__ inline void openMailbox(Mailbox& box) {
  const unsigned bar = sharedAddress(&box.arrived);
  asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(bar) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
// One thread, once per total: its arrival, and the bytes that come; some may
// have come before, but without the arrival the total is not complete.
__device__ inline void expectSums(Mailbox& box, int blocks) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(
                   sharedAddress(&box.arrived)),
               "r"(4 * blocks)
               : "memory");
}
__device__ inline void sendSum(Mailbox& box, float sum, int from, int to) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 "
      "[%0], %1, [%2];" ::"r"(addressIn(to, &box.sums[from])),
      "r"(__float_as_uint(sum)), "r"(addressIn(to, &box.arrived))
      : "memory");
}
// Every thread: the total, the 0th, 1st, 2nd, ... (`use`) of this mailbox.
__device__ inline float awaitSums(Mailbox& box, int blocks, int use) {
  for (unsigned done = 0; done == 0;) {
    asm volatile(
        "{ .reg .pred p;\n"
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], "
        "%2;\n selp.u32 %0, 1, 0, p; }"
        : "=r"(done)
        : "r"(sharedAddress(&box.arrived)), "r"(use % 2)
        : "memory");
  }
  const int lane = threadIdx.x % 32;
  return warpSum(lane < blocks ? box.sums[lane] : 0.0f);
}
// end snippet

// snippet: cluster-sum
// Every thread gets the sum of the blocks' `partial`. Only the first warp
// reads them: if every warp did, the price would grow with threads times
// blocks. One warp: lane r of the first reads the sum of block r. Before a
// call: a cluster barrier, after which every partial is visible.
__device__ inline float sumOfCluster(float* partial) {
  __shared__ float total;
  cg::cluster_group cluster = cg::this_cluster();
  const int lane = threadIdx.x, blocks = cluster.num_blocks();
  if (lane < 32) {
    const float sum = warpSum(
        lane < blocks ? *cluster.map_shared_rank(partial, lane) : 0.0f);
    if (lane == 0) total = sum;
  }
  __syncthreads();
  return total;
}
// end snippet

// snippet: memory-sum
// Without a cluster: block `rank` of k leaves its sum in a word of global
// memory, with the number of the exchange (the tag) in the upper half. One
// load reads both tag and sum, so no fence is needed.
// One warp: lane r of the first reads the word of block r until its tag comes.
// Launch: all k blocks must get to run at once, or they wait forever. Between
// two calls: a block barrier; the second uses other words.
using Word = unsigned long long;
constexpr int kMostBlocks = 16;  // words per exchange
__device__ inline float sumThroughMemory(float sum, Word* words, int rank,
                                         int k, unsigned tag) {
  using Atomic = cuda::atomic_ref<Word, cuda::thread_scope_device>;
  constexpr auto kRelaxed = cuda::memory_order_relaxed;
  __shared__ float total;
  const int lane = threadIdx.x;
  if (lane < 32) {
    const Word mine = Word(tag) << 32 | __float_as_uint(sum);
    if (lane == 0) Atomic(words[rank]).store(mine, kRelaxed);
    Word word = Word(tag) << 32;  // a zero, for lanes without a block
    if (lane < k) do {
        word = Atomic(words[lane]).load(kRelaxed);
      } while (unsigned(word >> 32) != tag);
    sum = warpSum(__uint_as_float(unsigned(word)));
    if (lane == 0) total = sum;
  }
  __syncthreads();
  return total;
}
// end snippet

// snippet: exchange-kernels
// The price of an exchange: kRounds times, each block of a group of k gets the
// sum over all. Block b begins with b, and each round adds 1, and more if
// the sum was wrong; threads that do not end with b + kRounds are counted.
// Launch: one group, as a cluster or (through memory) cooperative.
__device__ inline float nextValue(float value, float sum, int round, int k) {
  return value + 1.0f + (sum - float(k * round + k * (k - 1) / 2));
}
__device__ inline void countWrong(float value, Word* wrong) {
  if (!(value == float(blockIdx.x + kRounds))) atomicAdd(wrong, 1ull);
}

__global__ void exchangeByBarriers(int k, Word*, unsigned, Word* wrong) {
  __shared__ float partial[2];
  cg::cluster_group cluster = cg::this_cluster();
  float value = float(blockIdx.x);
#pragma unroll 4
  for (int r = 0; r < kRounds; ++r) {
    float* mine = &partial[r % 2];  // the other may still be read
    if (threadIdx.x == 0) *mine = value;
    cluster.sync();
    value = nextValue(value, sumOfCluster(mine), r, k);
  }
  cluster.sync();  // no block leaves while another reads
  countWrong(value, wrong);
}

__global__ void exchangeOneWay(int k, Word*, unsigned, Word* wrong) {
  __shared__ Mailbox boxes[2];  // a fast block is one round ahead at most
  const int t = threadIdx.x;
  for (int b = 0; b < 2 && t == 0; ++b) openMailbox(boxes[b]);
  cg::this_cluster().sync();
  float value = float(blockIdx.x);
#pragma unroll 4
  for (int r = 0; r < kRounds; ++r) {
    Mailbox& box = boxes[r % 2];
    __syncthreads();  // all have read the round before
    if (t == 0) expectSums(box, k);
    if (t < k) sendSum(box, value, blockIdx.x, t);
    value = nextValue(value, awaitSums(box, k, r / 2), r, k);
  }
  countWrong(value, wrong);
}

__global__ void exchangeThroughMemory(int k, Word* words, unsigned tag,
                                      Word* wrong) {
  float value = float(blockIdx.x);
#pragma unroll 4
  for (int r = 0; r < kRounds; ++r) {
    Word* set = words + r % 2 * kMostBlocks;
    __syncthreads();  // all have read the round before
    const float sum = sumThroughMemory(value, set, blockIdx.x, k, tag + r);
    value = nextValue(value, sum, r, k);
  }
  countWrong(value, wrong);
}
// end snippet

// ---- part 2: out = in * (1 / sum of the row) ------------------------------

// snippet: matrix
// `count` rows of `length` floats that start `pitch` floats apart, a multiple
// of 64: each starts on 256 bytes. The rest is for `k blocks per row`.
struct Matrix {
  int count, length, pitch, k = 1;
  Word* words = nullptr;              // kMostBlocks per row
  unsigned* ticket = nullptr;         // the next one
  unsigned tag = 0, firstTicket = 0;  // of this launch
};

__device__ inline float sum4(float4 v) { return (v.x + v.y) + (v.z + v.w); }
__device__ inline float4 scale4(float4 v, float scale) {
  return make_float4(v.x * scale, v.y * scale, v.z * scale, v.w * scale);
}

// Every thread gets the sum over the block. Between two calls: a barrier.
__device__ inline float blockSum(float value) {
  __shared__ float warpSums[32];
  const int lane = threadIdx.x % 32, warps = blockDim.x / 32;
  value = warpSum(value);
  if (lane == 0) warpSums[threadIdx.x / 32] = value;
  __syncthreads();
  return warpSum(lane < warps ? warpSums[lane] : 0.0f);
}
// end snippet

// snippet: copy
// The ceiling. One thread: one float4. One warp: 16 sectors per access.
__global__ void copyVectors(const float* in, float* out, Matrix m) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i >= size_t(m.count) * m.pitch / 4) return;
  __stcs(reinterpret_cast<float4*>(out) + i,
         __ldcs(reinterpret_cast<const float4*>(in) + i));
}
// end snippet

// snippet: two-reads
// The thread's share of the sum of `count` floats. The loads ask L2 to keep
// what they bring: these lines are the last to be evicted. A round issues its
// loads, then adds them up, the last vector first. One thread: kRowLoads
// float4 in flight (CUDA 13.5: at least 6). One warp: 16 sectors per access.
constexpr int kRowLoads = 8;
__device__ inline float sumAndKeep(const float* in, int count) {
  const cuda::annotated_ptr<const float4, cuda::access_property::persisting>
      from(reinterpret_cast<const float4*>(in));
  const int t = threadIdx.x, width = blockDim.x, tile = width * kRowLoads;
  const int whole = count / 4 / tile * tile;  // float4 in whole tiles
  float sum = 0.0f;
#pragma unroll 1
  for (int i = t; i < whole; i += tile) {
    float4 v[kRowLoads];
#pragma unroll
    for (int q = 0; q < kRowLoads; ++q) v[q] = from[i + q * width];
#pragma unroll
    for (int q = kRowLoads - 1; q >= 0; --q) sum += sum4(v[q]);
  }
  for (int i = 4 * whole + t; i < count; i += width) sum += in[i];
  return sum;
}

// Reads the same floats again and writes them, scaled. It goes backwards, so
// it begins with what was read last and is most likely in L2 still; reads and
// writes ask L2 to evict their lines first.
__device__ inline void readAgainAndScale(const float* in, float* out,
                                         int count, float scale) {
  const float4* from = reinterpret_cast<const float4*>(in);
  float4* to = reinterpret_cast<float4*>(out);
  const int t = threadIdx.x, width = blockDim.x, tile = width * kRowLoads;
  const int whole = count / 4 / tile * tile;
  for (int i = 4 * whole + t; i < count; i += width) out[i] = in[i] * scale;
  for (int i = whole - tile + t; i >= 0; i -= tile) {
    float4 v[kRowLoads];
#pragma unroll
    for (int q = 0; q < kRowLoads; ++q) v[q] = __ldcs(from + i + q * width);
#pragma unroll
    for (int q = 0; q < kRowLoads; ++q)
      __stcs(to + i + q * width, scale4(v[q], scale));
  }
}

// One block per row. Launch: as many blocks as rows, whole warps.
__global__ void normaliseRowTwoReads(const float* in, float* out, Matrix m) {
  const size_t at = blockIdx.x * size_t(m.pitch);
  const float sum = blockSum(sumAndKeep(in + at, m.length));
  readAgainAndScale(in + at, out + at, m.length, __frcp_rn(sum));
}
// end snippet

// snippet: row-in-one-block
// A slice starts on a multiple of this many bytes in shared memory: a line of
// 128 bytes that arrives from L2 then lies in one row of the 32 banks.
constexpr int kSliceAlign = 128;

// 16 bytes into shared memory. The copy is asynchronous and passes through no
// register; like __ldcs it asks L2 to evict the line first.
__device__ inline void copyAsync(float4* to, const float4* from) {
  const cuda::access_property streaming(cuda::access_property::streaming{});
  asm volatile(
      "cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(
          unsigned(__cvta_generic_to_shared(to))),
      "l"(__cvta_generic_to_global(from)), "l"(std::uint64_t(streaming))
      : "memory");
}

// Holds `count` floats: the first kRegs float4 of each thread in registers,
// the others in shared memory. Returns the thread's share of their sum. All of
// a thread's copies are in flight at once, and it reads only what it brought
// itself, so no block barrier is needed.
template <int kRegs>
__device__ inline float hold(const float* in, int count, float4* slice,
                             float4 (&v)[kRegs + 1]) {
  const float4* from = reinterpret_cast<const float4*>(in);
  const int vectors = count / 4, t = threadIdx.x, width = blockDim.x;
  const int inRegs = kRegs * width, last = vectors * 4 + t;
#pragma unroll 8
  for (int i = t; i < vectors - inRegs; i += width)
    copyAsync(slice + i, from + inRegs + i);
  __pipeline_commit();
  if (vectors >= inRegs) {  // one test for all loads, and none on its own
#pragma unroll
    for (int q = 0; q < kRegs; ++q) v[q] = __ldcs(from + t + q * width);
  } else {
#pragma unroll
    for (int q = 0; q < kRegs; ++q) {
      const bool mine = t + q * width < vectors;
      v[q] = mine ? from[t + q * width] : make_float4(0, 0, 0, 0);
    }
  }
  float sum = 0.0f;
#pragma unroll
  for (int q = kRegs - 1; q >= 0; --q) sum += sum4(v[q]);
  if (last < count) sum += v[kRegs].x = in[last];  // of a partial vector
  __pipeline_wait_prior(0);
#pragma unroll 4
  for (int i = t; i < vectors - inRegs; i += width) sum += sum4(slice[i]);
  return sum;
}

// Writes what the thread holds, scaled.
template <int kRegs>
__device__ inline void write(float* out, int count, const float4* slice,
                             const float4 (&v)[kRegs + 1], float scale) {
  float4* to = reinterpret_cast<float4*>(out);
  const int vectors = count / 4, t = threadIdx.x, width = blockDim.x;
  const int inRegs = kRegs * width, last = vectors * 4 + t;
#pragma unroll
  for (int q = 0; q < kRegs; ++q) {
    const int i = t + q * width;
    if (i < vectors) __stcs(to + i, scale4(v[q], scale));
  }
#pragma unroll 4
  for (int i = t; i < vectors - inRegs; i += width)
    __stcs(to + inRegs + i, scale4(slice[i], scale));
  if (last < count) out[last] = v[kRegs].x * scale;
}

// What changed: the row stays in shared memory, so it is read once.
// One thread: one float4 in blockDim.x. One warp: 512 bytes per access.
// Launch: one block per row, whole warps; the row fits in one SM.
__global__ void normaliseRowShared(const float* in, float* out, Matrix m) {
  extern __shared__ __align__(kSliceAlign) float4 slice[];
  float4 v[1];  // of the last partial vector
  const size_t at = blockIdx.x * size_t(m.pitch);
  const float sum = blockSum(hold<0>(in + at, m.length, slice, v));
  write<0>(out + at, m.length, slice, v, __frcp_rn(sum));
}
// end snippet

// snippet: part-of-row
// How many floats of a row each of `blocks` blocks has: whole float4, so that
// every part starts on 16 bytes. The last parts of a short row are smaller, or
// empty; such a block still takes part in every exchange.
__host__ __device__ inline int partFloats(int length, int blocks) {
  return ((length + blocks - 1) / blocks + 3) / 4 * 4;
}
struct Part {
  size_t at;  // its first float, from the beginning of the matrix
  int count;
};
__device__ inline Part partOf(Matrix m, size_t row, int rank, int blocks) {
  const int share = partFloats(m.length, blocks);
  const int begin = min(rank * share, m.length);
  return {row * m.pitch + begin, min(share, m.length - begin)};
}
// end snippet

// snippet: blocks-without-cluster
// The opponent without clusters: k blocks share a row, read their parts twice,
// and meet in global memory. Each group of k walks over the rows; the few rows
// in progress mostly stay in L2 until their second read.
// One thread, one warp: as in the other row with two reads.
// Launch: cooperative, so that all blocks are resident: whole groups of k.
__global__ void normaliseRowBlocks(const float* in, float* out, Matrix m) {
  reportLaunch();
  const int k = m.k, rank = blockIdx.x % k, groups = gridDim.x / k;
  for (int row = blockIdx.x / k; row < m.count; row += groups) {
    const Part part = partOf(m, row, rank, k);
    const float sum = blockSum(sumAndKeep(in + part.at, part.count));
    const float total =
        sumThroughMemory(sum, m.words + row * kMostBlocks, rank, k, m.tag);
    readAgainAndScale(in + part.at, out + part.at, part.count,
                      __frcp_rn(total));
  }
}
// end snippet

// snippet: blocks-by-ticket
// What changed: each block has only one part, and holds it. The ticket that it
// takes when it starts says which one: k tickets per row. All blocks of
// earlier rows have started, and will end. Those of its own row start when
// there is room: the hardware does so, but CUDA promises it only within a
// cluster or a cooperative launch.
// One thread: kInRegisters float4 in registers, the others in shared memory.
// One warp: 512 bytes per access. Launch: one at a time, k blocks per row, of
// which at least k run at once.
__global__ void __launch_bounds__(1024)
    normaliseRowByTicket(const float* in, float* out, Matrix m) {
  extern __shared__ __align__(kSliceAlign) float4 slice[];
  __shared__ unsigned ticket;
  float4 v[kInRegisters + 1];
  if (threadIdx.x == 0) ticket = atomicAdd(m.ticket, 1u) - m.firstTicket;
  __syncthreads();
  reportLaunch();
  const int row = ticket / m.k, rank = ticket % m.k;
  const Part part = partOf(m, row, rank, m.k);
  const float sum =
      blockSum(hold<kInRegisters>(in + part.at, part.count, slice, v));
  const float total =
      sumThroughMemory(sum, m.words + row * kMostBlocks, rank, m.k, m.tag);
  write<kInRegisters>(out + part.at, part.count, slice, v, __frcp_rn(total));
}
// end snippet

// snippet: row-in-cluster
// What changed: a cluster shares the row. Each block holds its part in its
// own shared memory; only the blocks' sums, 4 bytes each, travel.
// One thread, one warp: as with one block per row, but for its part only.
// Launch: one cluster per row, at most 32 blocks each.
__global__ void normaliseRowCluster(const float* in, float* out, Matrix m) {
  extern __shared__ __align__(kSliceAlign) float4 slice[];
  __shared__ float partial;
  float4 v[1];
  cg::cluster_group cluster = cg::this_cluster();
  const int blocks = cluster.num_blocks(), rank = cluster.block_rank();
  const Part part = partOf(m, blockIdx.x / blocks, rank, blocks);
  reportLaunch();
  const float sum = blockSum(hold<0>(in + part.at, part.count, slice, v));
  if (threadIdx.x == 0) partial = sum;
  cluster.sync();  // every partial is written and visible
  const float scale = __frcp_rn(sumOfCluster(&partial));

  // The second barrier in its two halves: no block leaves while another may
  // read its partial, but none waits for that before it writes. A whole
  // cluster.sync() after the writes would first wait for them to arrive.
  cluster.barrier_arrive();
  write<0>(out + part.at, part.count, slice, v, scale);
  cluster.barrier_wait();
}
// end snippet

// snippet: row-one-way
// What changed: the sums travel one way. No block leaves before all sums have
// reached it, so there is no second barrier. At the one that opens the
// mailboxes the threads arrive before the loads, and wait after them.
// One thread, launch: as above. One warp: lane r of the first sends to r.
template <int kRegs>
__device__ inline void oneWay(const float* in, float* out, Matrix m) {
  extern __shared__ __align__(kSliceAlign) float4 slice[];
  __shared__ Mailbox box;
  float4 v[kRegs + 1];
  cg::cluster_group cluster = cg::this_cluster();
  const int blocks = cluster.num_blocks(), rank = cluster.block_rank();
  const int t = threadIdx.x;
  if (t == 0) openMailbox(box);
  arriveRelaxed();
  const Part part = partOf(m, blockIdx.x / blocks, rank, blocks);
  reportLaunch();
  const float sum = blockSum(hold<kRegs>(in + part.at, part.count, slice, v));
  waitForCluster();  // every mailbox of the cluster is open
  if (t == 0) expectSums(box, blocks);
  if (t < blocks) sendSum(box, sum, rank, t);
  const float scale = __frcp_rn(awaitSums(box, blocks, 0));
  write<kRegs>(out + part.at, part.count, slice, v, scale);
}
__global__ void normaliseRowOneWay(const float* in, float* out, Matrix m) {
  oneWay<0>(in, out, m);
}
// What changed: part of the slice is in registers, so longer rows fit, and an
// SM holds more blocks of long rows.
__global__ void __launch_bounds__(1024)
    normaliseRowRegisters(const float* in, float* out, Matrix m) {
  oneWay<kInRegisters>(in, out, m);
}
// end snippet

#ifdef LESSON_YOURS
// snippet: yours
// Your turn: right, and slow as it stands. Rewrite the kernel and its launch;
// every check and every column are ready.
__global__ void normaliseRowYours(const float* in, float* out, Matrix m) {
  const size_t at = blockIdx.x * size_t(m.pitch);
  float sum = 0.0f;
  for (int i = threadIdx.x; i < m.length; i += blockDim.x) sum += in[at + i];
  const float scale = __frcp_rn(blockSum(sum));
  for (int i = threadIdx.x; i < m.length; i += blockDim.x)
    out[at + i] = in[at + i] * scale;
}
void launchYours(const float* in, float* out, Matrix m) {
  normaliseRowYours<<<m.count, 256>>>(in, out, m);
}
// end snippet
#endif

// ---- the table of rows ----------------------------------------------------

// snippet: row-table
// Label, kernel, kind. The number behind "cluster of" in a label is the size
// of the clusters that are launched.
struct Row {
  const char* label;
  const void* kernel;
  const char* name;
  enum Kind {
    kSum,  // part 1 begins here
    kFew,
    kPrice,
    kPriceMemory,
    kCopy,  // part 2 begins here
    kBlock,
    kHeld,
    kGroups,
    kTickets,
    kClusters,
    kYours
  } kind;
};
#define ROW(label, kernel, kind) \
  { label, reinterpret_cast<const void*>(kernel), #kernel, Row::kind }
#define DSM(n) ROW("dsm, cluster of " #n, reduceClusterDsm, kSum)
#define FEW(n) ROW("few blocks, cluster of " #n, reduceClusterDsm, kFew)
#define PER_ROW(n, how, kernel) \
  ROW("cluster of " #n " per row" how, kernel, kClusters)
#define BARRIERS(n) PER_ROW(n, "", normaliseRowCluster)
#define ONE_WAY(n) PER_ROW(n, ", one way", normaliseRowOneWay)
#define REGISTERS(n) PER_ROW(n, ", registers too", normaliseRowRegisters)
const Row kRows[] = {
    ROW("atomic baseline", reduceBlockAtomic, kSum),
    DSM(1),
    DSM(2),
    DSM(4),
    DSM(8),
    DSM(16),
    ROW("dsm, relaxed, cluster of 8", reduceClusterRelaxed, kSum),
    ROW("few blocks", reduceBlockAtomic, kFew),
    FEW(2),
    FEW(4),
    FEW(8),
    FEW(16),
    ROW("exchange by cluster barriers", exchangeByBarriers, kPrice),
    ROW("exchange one way", exchangeOneWay, kPrice),
    ROW("exchange through memory", exchangeThroughMemory, kPriceMemory),
    ROW("copy (ceiling)", copyVectors, kCopy),
    ROW("one block per row, two reads", normaliseRowTwoReads, kBlock),
    ROW("one block per row, row in shared memory", normaliseRowShared, kHeld),
    ROW("k blocks per row, no cluster", normaliseRowBlocks, kGroups),
    ROW("k blocks per row, by ticket", normaliseRowByTicket, kTickets),
    BARRIERS(2),
    BARRIERS(4),
    BARRIERS(8),
    BARRIERS(16),
    ONE_WAY(2),
    ONE_WAY(4),
    ONE_WAY(8),
    ONE_WAY(16),
    REGISTERS(8),
    REGISTERS(16),
#ifdef LESSON_YOURS
    ROW("yours", normaliseRowYours, kYours),
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

// ---- input, and one way to check and to time ------------------------------

// snippet: input
// Element c of copy or row r of an input. Part 1: copy 0 holds ones, so that
// one element too many or too few is off by one; the others odd 32nds up to
// 31/32, so that wrong addresses, another copy and rounded elements show.
// Part 2 (length > 0): 1/8 to kMaxValue/8, so that no row sums to zero.
__host__ __device__ inline float inputAt(std::uint64_t r, std::uint64_t c,
                                         int length) {
  std::uint64_t i = (length > 0 ? r * length + c : r << 32 | c) + 1;
  i *= 0x9E3779B97F4A7C15ull;
  i = (i ^ (i >> 29)) * 0xBF58476D1CE4E5B9ull;
  i ^= i >> 32;
  if (length > 0) return float(i % kMaxValue + 1) / 8;
  return r == 0 ? 1.0f : (2 * int(i % 32) - 31) / 32.0f;
}
// What lies between two rows is NaN, so that a read past the end shows.
__global__ void fill(float* x, size_t rows, size_t pitch, int used,
                     int length) {
  const size_t step = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
       i < rows * pitch; i += step) {
    x[i] = i % pitch < size_t(used) ? inputAt(i / pitch, i % pitch, length)
                                    : __uint_as_float(~0u);
  }
}
// end snippet

bool wanted(const Row& row) { return has(wantedRows, row.label); }

// A conclusion compares all rows of some kinds, or says that it does not.
bool allWanted(Row::Kind from, Row::Kind to) {
  bool all = true;
  for (const Row& row : kRows)
    all = all && (row.kind < from || row.kind > to || wanted(row));
  return all;
}

int clusterOf(const Row& row) {  // 0: no cluster
  const char* at = std::strstr(row.label, "cluster of ");
  return at == nullptr ? 0 : std::atoi(at + 11);
}

int blocksAtOnce(const Row& row, int threads, size_t bytes, const Device& d) {
  int perSm = 0;
  CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&perSm, row.kernel,
                                                           threads, bytes));
  return perSm * d.multiProcessorCount;
}

// Compares what the kernel saw of its last launch with what it should be.
bool launchedIs(const Row& row, int cluster, size_t blocks) {
  int was[2] = {0, 0};
  const int none[2] = {0, 0};
  CUDA_CHECK(cudaMemcpyFromSymbol(was, launched, sizeof(was)));
  CUDA_CHECK(cudaMemcpyToSymbol(launched, none, sizeof(none)));
  return gate("launched-as-labelled",
              was[0] == cluster && size_t(was[1]) == blocks,
              text("%s: %d blocks in clusters of %d, not %zu of %d", row.label,
                   was[1], was[0], blocks, cluster));
}

template <typename Start>
void profiled(Start start) {  // a profiler records this launch
  CUDA_CHECK(cudaProfilerStart());
  start(0);
  CUDA_CHECK(cudaDeviceSynchronize());
  CUDA_CHECK(cudaProfilerStop());
}

// Batches, in ms: of a row, and where a glance will do (to choose a block
// size, and for launches that repeat their work many times).
constexpr double kRowMs = 2.0, kGlanceMs = 0.1;

struct Shape {
  int blocks, threads, atOnce;  // blocks per row or cluster, threads per block
};
struct Result {
  Shape shape = {};
  Timing timing;
  std::string why;  // it has no time
};

// start(shape, i) starts launch i; right(shape, n) says whether launches 0 to
// n-1 left right results, and poisons them. Checks every shape, times the
// fastest, and checks it again.
template <typename Start, typename Right>
Result measure(const Row& row, const std::vector<Shape>& shapes, Start start,
               Right right) {
  Result best;
  bool ok = true;
  double ms = 0.0, least = 1e9;  // quick: the first shape
  for (const Shape& shape : shapes) {
    auto again = [&](int) { start(shape, 0); };
    if (kQuick || shapes.size() == 1)
      again(0);
    else
      ms = timeKernel(again, nullptr, kGlanceMs).ms;
    ok &= gate("exact", right(shape, 1), row.label);
    if (ms < least) best.shape = shape, least = ms;
  }
  if (ok) {
    profiled([&](int i) { start(best.shape, i); });
    ok &= gate("exact", right(best.shape, 1), row.label);
    auto again = [&](int i) { start(best.shape, i); };
    best.timing = timeKernel(again, nullptr, kRowMs);
    ok &= gate("timed-exact", right(best.shape, best.timing.launches),
               row.label);
  }
  if (!ok) best.why = "WRONG, not timed";
  return best;
}

// ---- part 1 ---------------------------------------------------------------

constexpr int kTile = 2 * kThreadsPerBlock, kTiles = (kElems - 1) / kTile + 1;
static_assert(kRepetitions >= 1 && kRepetitions <= kMaxLaunches,
              "kRepetitions: each launch adds into a word of its own, and "
              "there are kMaxLaunches words");

// snippet: reference
// The sum of each copy in double. In float it is exact, in whatever order the
// atomics come: ones stay below 2^24, and of the other copies the positive
// and the negative sums of the tiles each add up to less than 2^24 32nds (sums
// of more tiles only cancel more; a block's own stay below kTile per tile).
std::vector<double> sumsOf(size_t copies) {
  std::vector<double> sums = {double(kElems)};
  for (size_t copy = 1; copy < copies; ++copy) {
    double positive = 0.0, negative = 0.0, tile = 0.0;
    for (int i = 0; i < kElems; ++i) {
      tile += inputAt(copy, i, 0);
      if ((i + 1) % kTile != 0 && i + 1 < kElems) continue;
      (tile > 0.0 ? positive : negative) += tile;
      tile = 0.0;
    }
    gate("sum-input-exact", positive < 0x1p19 && -negative < 0x1p19,
         text("tiles sum to %g and %g, not below 2^19", positive, negative));
    sums.push_back(positive + negative);
  }
  return sums;
}
// end snippet

void costOfClusters(const Device& device, int portable) {
  const size_t pitch = kElems + 64, bytes = kMaxLaunches * sizeof(float);
  const size_t copies = copiesBeyondL2(device, kElems * sizeof(float));
  const std::vector<double> sums = sumsOf(copies);
  DeviceArray<float> in(copies * pitch), out(kMaxLaunches);
  std::vector<float> words(kMaxLaunches);
  fill<<<2048, 256>>>(in.data, copies, pitch, kElems, 0);
  CUDA_CHECK(cudaMemset(out.data, 0, bytes));
  // Launch i reads copy i % copies and adds into word i. The words of n
  // launches hold the sums of their copies, the others 0. Then all are 0.
  auto right = [&](Shape, int n) {
    int wrong = 0;
    CUDA_CHECK(
        cudaMemcpy(words.data(), out.data, bytes, cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaMemset(out.data, 0, bytes));
    for (int i = 0; i < kMaxLaunches; ++i)
      wrong += !(double(words[i]) == (i < n ? sums[i % copies] : 0.0));
    return wrong == 0;
  };
  Timing first, few, best, bestFew;  // without clusters, and with
  const int largest =
      largestCluster(kRows[1].kernel, Launch(1, kThreadsPerBlock, 0, 1));
  std::printf(
      "\nPart 1: what clusters cost. Largest cluster: %d blocks, "
      "opted in %d.\n\nSum of %d floats, %d threads per block\n",
      portable, largest, kElems, kThreadsPerBlock);
  Table table(device, "   blocks  at once  atomics  x baseline  x few blocks");
  for (const Row& row : kRows) {
    if (row.kind > Row::kFew || !wanted(row)) continue;
    const int cluster = clusterOf(row), whole = std::max(cluster, 1);
    const Launch one(1, kThreadsPerBlock, 0, cluster);
    const int atOnce = cluster > 0
                           ? clustersAtOnce(row.kernel, one)
                           : blocksAtOnce(row, kThreadsPerBlock, 0, device);
    if (atOnce == 0) {
      gate("sizes-that-fit-ran", cluster > largest, row.label);
      table.line(row.label, text("skipped: at most %d here", largest));
      continue;
    }
    const bool all = row.kind == Row::kSum;
    const Launch launch(all ? kTiles : std::min(atOnce * whole, kTiles),
                        kThreadsPerBlock, 0, cluster);
    const int blocks = int(launch.config.gridDim.x);
    auto start = [&](Shape, int i) {
      launchClusterDsm(row.kernel, launch, in.data + i % copies * pitch,
                       out.data + i);
    };
    for (int i = 0; i < kRepetitions; ++i) start({}, i);
    bool ok = gate("repetitions-exact", right({}, kRepetitions), row.label);
    if (cluster > 0) ok &= launchedIs(row, cluster, blocks);
    const Result result = measure(row, {{}}, start, right);
    if (!ok || !result.why.empty()) {
      table.line(row.label, "WRONG, not timed");
      continue;
    }
    const Timing& timing = result.timing;
    if (cluster == 0) (all ? first : few) = timing;
    Timing& least = all ? best : bestFew;
    if (cluster > 1 && (least.ms == 0 || timing.ms < least.ms)) least = timing;
    table.print(row.label, timing, double(kElems) * sizeof(float),
                text("%9d%9s%9d%12s%14s", blocks,
                     cluster > 0 ? std::to_string(atOnce).c_str() : "-",
                     blocks / whole, timesAbove(first, timing).c_str(),
                     timesAbove(few, timing).c_str()));
  }
  std::printf(
      "\nGB/s: 4 bytes per element, read once. At once: clusters. x: the time "
      "of the baseline, or of\n`few blocks`, over the row's; ~ where the "
      "spread hides it.\n");
  if (allWanted(Row::kSum, Row::kFew))
    std::printf(
        "The best cluster of 2 or more is at\n%s of the baseline, fewer "
        "blocks without clusters at %s; from one wave the best cluster is at\n"
        "%s of `few blocks`.\n",
        timesAbove(first, best).c_str(), timesAbove(first, few).c_str(),
        timesAbove(few, bestFew).c_str());
  std::printf("%d blocks that do nothing, in ms:", kTiles);
  for (int cluster : {0, 1, 2, 8}) {
    if (cluster > portable) {
      std::printf(", cluster of %d skipped: at most %d here", cluster,
                  portable);
      continue;
    }
    const Launch launch(kTiles, kThreadsPerBlock, 0, cluster);
    auto start = [&](int) { launch((const void*)doNothing); };
    profiled(start);
    std::printf(cluster == 0 ? " no cluster%s %.4f" : ", cluster of %s %.4f",
                cluster == 0 ? "" : std::to_string(cluster).c_str(),
                timeKernel(start, nullptr, 1.0).ms);
  }
  std::printf(".\n");
}

// ---- the price of an exchange ---------------------------------------------

unsigned nextTag = 1;  // no tag comes twice

void priceOfExchange(const Device& device) {
  DeviceArray<Word> words(2 * kMostBlocks + 1);  // the last counts errors
  Word* wrong = words.data + 2 * kMostBlocks;
  CUDA_CHECK(cudaMemset(words.data, 0, (2 * kMostBlocks + 1) * sizeof(Word)));
  // Nanoseconds per exchange, as text; "n/a" where it cannot run.
  auto price = [&](const Row& row, int k, int threads) -> std::string {
    const bool together = row.kind == Row::kPriceMemory;
    const Launch launch(k, threads, 0, together ? 0 : k, together);
    if (together ? device.cooperativeLaunch == 0 ||
                       blocksAtOnce(row, threads, 0, device) < k
                 : clustersAtOnce(row.kernel, launch) == 0)
      return "n/a";
    auto start = [&](int) {
      launch(row.kernel, k, words.data, nextTag, wrong);
      nextTag += kRounds;
    };
    profiled(start);
    const double ms = timeKernel(start, nullptr, kGlanceMs).ms;
    Word n = 0;
    CUDA_CHECK(cudaMemcpy(&n, wrong, sizeof(n), cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaMemset(wrong, 0, sizeof(n)));
    return gate("exchange-exact", n == 0,
                text("%s, %d blocks: %llu wrong threads", row.label, k, n))
               ? text("%.0f", ms * 1e6 / kRounds)
               : "WRONG";
  };
  for (int threads : kExchangeThreads) {
    std::printf(
        "\nPrice of an exchange, %d threads per block: ns until every "
        "block has the sum, of %d\n%-38s%11s%11s%11s%11s\n",
        threads, kRounds, "row", "2 blocks", "4 blocks", "8 blocks",
        "16 blocks");
    for (const Row& row : kRows) {
      if (row.kind != Row::kPrice && row.kind != Row::kPriceMemory) continue;
      if (!wanted(row)) continue;
      std::printf("%-38s", row.label);
      for (int k : {2, 4, 8, 16})
        std::printf("%11s", price(row, k, threads).c_str());
      std::printf("\n");
      printedRows.push_back(row.label);
    }
  }
}

// ---- part 2 ---------------------------------------------------------------

// Bytes of shared memory per block, for the part of a row that it holds.
size_t sliceBytes(const Row& row, int length, int threads, int blocks) {
  int vectors = partFloats(length, blocks) / 4;
  if (row.kernel == (const void*)normaliseRowRegisters ||
      row.kernel == (const void*)normaliseRowByTicket)
    vectors -= std::min(vectors, kInRegisters * threads);
  const bool held = row.kind == Row::kHeld || row.kind == Row::kTickets ||
                    row.kind == Row::kClusters;
  return held ? vectors * sizeof(float4) : 0;
}

// All shapes in which a row can run; none, and why. `must`: the card runs the
// row by its own figures, whatever was opted in or asked for a shape.
std::vector<Shape> shapesOf(const Row& row, const Matrix& m, const Device& d,
                            std::string* why) {
  std::vector<Shape> shapes;
  std::vector<int> sizes = {std::max(clusterOf(row), 1)};
  if (row.kind == Row::kGroups || row.kind == Row::kTickets)
    sizes = {2, 4, 8, kMostBlocks};
  if (row.kind == Row::kYours) return {{}};
  cudaFuncAttributes own;
  CUDA_CHECK(cudaFuncGetAttributes(&own, row.kernel));
  const bool clusters = row.kind == Row::kClusters;
  const bool can = row.kind != Row::kGroups || d.cooperativeLaunch != 0;
  const int widest =
      *std::max_element(std::begin(kRowThreads), std::end(kRowThreads));
  const size_t least = sliceBytes(row, m.length, widest, sizes.back());
  const size_t most = own.maxDynamicSharedSizeBytes;
  for (const int& threads : kRowThreads) {
    const bool first = &threads == kRowThreads;
    if (!can || (kQuick && !first && threads != widest)) continue;
    for (int blocks : sizes) {
      const size_t bytes = sliceBytes(row, m.length, threads, blocks);
      if (bytes > most) continue;
      const int atOnce =
          clusters
              ? clustersAtOnce(row.kernel, Launch(1, threads, bytes, blocks))
              : blocksAtOnce(row, threads, bytes, d) / blocks;
      const Shape shape = {blocks, threads, std::min(atOnce, m.count)};
      if (atOnce > 0) shapes.push_back(shape);
    }
  }
  int largest = kMaxClusterBlocks;
  if (clusters && least <= most)  // else it exceeds the opt-in
    largest = largestCluster(row.kernel, Launch(1, widest, least, sizes[0]));
  const bool must = can &&
                    least + own.sharedSizeBytes <= d.sharedMemPerBlockOptin &&
                    (!clusters || sizes[0] <= largest);
  gate("sizes-that-fit-ran", !shapes.empty() || !must, row.label);
  if (shapes.empty())
    *why = least > most ? text("does not fit: %zu KiB per block, %zu at most",
                               least / 1024, most / 1024)
           : clusters   ? text("skipped: at most %d per cluster here", largest)
                        : "skipped: no cooperative launch here";
  return shapes;
}

// snippet: one-check
// Counts the floats of the result that are wrong: not exactly the input times
// the scale of the row (1 where scale is null: a copy), or, between two rows,
// not the poison any more. Leaves poison everywhere.
__global__ void countWrongFloats(float* got, Matrix m, const float* scale,
                                 Word* wrong) {
  const size_t step = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
       i < size_t(m.count) * m.pitch; i += step) {
    const size_t r = i / m.pitch, c = i % m.pitch;
    bool right = __float_as_uint(got[i]) == ~0u;
    if (c < size_t(m.length))
      right = got[i] == inputAt(r, c, m.length) * (scale ? scale[r] : 1.0f);
    if (!right) atomicAdd(wrong, 1ull);
    got[i] = __uint_as_float(~0u);
  }
}
// end snippet

// A matrix on the card, its result, and the comparison with what the CPU says:
// sums in double, and from them the same single-precision reciprocal that the
// kernels take. Both are correctly rounded.
struct MatrixRun {
  Matrix m;
  size_t floats, errors;  // errors, the next ticket: after the other words
  DeviceArray<float> in, out, scale;
  DeviceArray<Word> words;
  int compared = 0;

  MatrixRun(int count, int length)
      : m{count, length, (length + 63) / 64 * 64},
        floats(size_t(count) * m.pitch),
        errors(size_t(count) * kMostBlocks),
        in(floats),
        out(floats),
        scale(count),
        words(errors + 2) {
    m.words = words.data;
    m.ticket = reinterpret_cast<unsigned*>(words.data + errors + 1);
    CUDA_CHECK(cudaMemset(words.data, 0, (errors + 2) * sizeof(Word)));
    CUDA_CHECK(cudaMemset(out.data, 0xFF, floats * sizeof(float)));
    fill<<<2048, 256>>>(in.data, count, m.pitch, length, length);
    std::vector<float> scales;
    for (int r = 0; r < count; ++r) scales.push_back(1.0f / float(sumOf(r)));
    CUDA_CHECK(cudaMemcpy(scale.data, scales.data(), count * sizeof(float),
                          cudaMemcpyHostToDevice));
  }
  // Rows of the table are added up once, in pieces of the shortest length.
  double sumOf(int r) const {
    static std::vector<double> pieces;
    const int piece = 1 << kMinRowLog, per = m.length / piece;
    double sum = 0.0;
    if (m.length % piece != 0) {
      for (int c = 0; c < m.length; ++c) sum += inputAt(r, c, m.length);
    }
    for (int p = r * per; m.length % piece == 0 && p < (r + 1) * per; ++p) {
      if (p == int(pieces.size())) {
        pieces.push_back(0.0);
        for (int c = 0; c < piece; ++c) pieces[p] += inputAt(p, c, piece);
      }
      sum += pieces[p];
    }
    return sum;
  }
  size_t gridOf(const Row& row, const Shape& shape) const {
    if (row.kind == Row::kCopy) return (floats / 4 - 1) / shape.threads + 1;
    const int rows = row.kind == Row::kGroups ? shape.atOnce : m.count;
    return size_t(rows) * shape.blocks;
  }
  void start(const Row& row, const Shape& shape) {
    const bool groups = row.kind == Row::kGroups;
    m.k = shape.blocks;
    m.tag = nextTag++;
#ifdef LESSON_YOURS
    if (row.kind == Row::kYours) return launchYours(in.data, out.data, m);
#endif
    const size_t bytes =
        sliceBytes(row, m.length, shape.threads, shape.blocks);
    const Launch launch(gridOf(row, shape), shape.threads, bytes,
                        clusterOf(row), groups);
    launch(row.kernel, (const float*)in.data, out.data, m);
    m.firstTicket += row.kind == Row::kTickets ? launch.config.gridDim.x : 0;
  }
  void compare(const Row& row) {
    countWrongFloats<<<2048, 256>>>(
        out.data, m, row.kind == Row::kCopy ? nullptr : scale.data,
        words.data + errors);
    CUDA_CHECK(cudaGetLastError());
    // So that no later launch can mistake a sum of this one for its own.
    CUDA_CHECK(cudaMemset2DAsync(words.data, sizeof(Word), 0xFF, 4, errors));
    ++compared;
  }
  Word takeWrong() {
    Word n = 0, *wrong = words.data + errors;
    CUDA_CHECK(cudaMemcpy(&n, wrong, sizeof(n), cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaMemset(wrong, 0, sizeof(n)));
    return n;
  }
  // The last launch left a right result, and was what the row says.
  bool right(const Row& row, const Shape& shape) {
    compare(row);
    const Word n = takeWrong();
    const bool exact =
        gate("matrix-exact", n == 0,
             text("%s, length %d, %d threads: %llu floats are wrong",
                  row.label, m.length, shape.threads, n));
    const bool alone =  // blocks without a cluster are clusters of one
        row.kind == Row::kGroups || row.kind == Row::kTickets;
    const int cluster = alone ? 1 : clusterOf(row);
    return exact &&
           (cluster == 0 || launchedIs(row, cluster, gridOf(row, shape)));
  }
  // Each shape, the first one often; and a comparison that must see an error.
  int checkAll(const Row& row, const std::vector<Shape>& shapes) {
    for (const Shape& shape : shapes) start(row, shape), right(row, shape);
    if (shapes.empty()) return 0;
    const int often = kRepetitions / 8 + 1;  // of eight lengths
    for (int i = 0; i < often; ++i) start(row, shapes[0]), compare(row);
    const Word wrong = takeWrong();
    gate("repetitions-exact", wrong == 0,
         text("%s: %llu wrong floats", row.label, wrong));
    std::uint32_t bits = 0;  // the last float moves to the next there is
    float* last = out.data + size_t(m.count - 1) * m.pitch + m.length - 1;
    start(row, shapes[0]);
    CUDA_CHECK(cudaMemcpy(&bits, last, 4, cudaMemcpyDeviceToHost));
    ++bits;
    CUDA_CHECK(cudaMemcpy(last, &bits, 4, cudaMemcpyHostToDevice));
    compare(row);
    gate("comparison-sees-one-bit", takeWrong() == 1, row.label);
    return int(shapes.size()) + often + 1;
  }
};

void rowsInClusters(const Device& device) {
  constexpr double kBytes = 2.0 * kMatrixElems * sizeof(float);  // useful
  std::printf(
      "\nPart 2: where clusters pay. out = in * (1 / sum of the row), "
      "%.0f MB in, %.0f MB out.\n%s",
      kBytes / 2e6, kBytes / 2e6,
      kBytes < 4.0 * device.l2CacheSize
          ? "That is less than four L2: some reads come from there.\n"
          : "");
  // Rows shorter than a cluster, partial last vectors, lengths that nothing
  // divides: every row of the table, in every shape.
  int due = 0, compared = 0;
  std::string buys, at[3];  // lengths: clusters ahead, even, behind
  const std::vector<int> ragged = {1, 3, 5, 7, 31, 1000, 4097, (1 << 15) + 3};
  for (int length : ragged) {
    MatrixRun run(5, length);
    for (const Row& row : kRows) {
      if (row.kind >= Row::kCopy && wanted(row))
        due += run.checkAll(row, shapesOf(row, run.m, device, &buys));
    }
    compared += run.compared;
  }
  gate("ragged-rows-compared", due == compared,
       text("%d launches, %d comparisons", due, compared));
  std::printf("Rows of %d to %d floats: %d launches compared.\n",
              ragged.front(), ragged.back(), compared);

  buys.clear();
  for (int log = kMinRowLog; log <= kMaxRowLog; ++log) {
    MatrixRun run(kMatrixElems >> log, 1 << log);
    const size_t matrixBytes = size_t(kBytes / 2);
    auto copyMatrix = [&](int) {
      CUDA_CHECK(cudaMemcpyAsync(run.out.data, run.in.data, matrixBytes,
                                 cudaMemcpyDeviceToDevice));
    };
    const Timing copied = timeKernel(copyMatrix, nullptr, kRowMs);
    std::printf("\ncudaMemcpyAsync of the matrix: %.4f ms, %.1f GB/s\n",
                copied.ms, kBytes / copied.ms / 1e6);
    CUDA_CHECK(cudaMemset(run.out.data, 0xFF, matrixBytes));
    std::vector<std::pair<const Row*, Result>> results;
    std::pair<const Row*, Timing> best[2];  // without clusters, and with
    for (const Row& row : kRows) {
      if (row.kind < Row::kCopy || !wanted(row)) continue;
      Result result;
      const std::vector<Shape> shapes =
          shapesOf(row, run.m, device, &result.why);
      if (!shapes.empty()) {
        result = measure(
            row, shapes, [&](const Shape& s, int) { run.start(row, s); },
            [&](const Shape& s, int) { return run.right(row, s); });
      }
      results.push_back({&row, result});
      auto& least = best[row.kind == Row::kClusters];
      if (result.why.empty() && row.kind > Row::kCopy &&
          row.kind < Row::kYours &&
          (least.first == nullptr || result.timing.ms < least.second.ms))
        least = {&row, result.timing};
    }
    std::printf("\nRow length 2^%d, %d rows\n", log, run.m.count);
    Table table(device, "   blocks  threads  rows at once  x no cluster");
    for (const auto& [row, result] : results) {
      const Shape& s = result.shape;
      const bool copy = row->kind == Row::kCopy;
      const double ratio = result.timing.ms / copied.ms;
      const double noise = std::max(result.timing.spread, copied.spread);
      auto number = [](int n) { return n > 0 ? std::to_string(n) : "-"; };
      if (copy && !kQuick && noise < 0.2)
        gate("copy-like-memcpy", ratio > 0.8 && ratio < 1.25,
             text("%.2f times cudaMemcpyAsync's time", ratio));
      const std::string own =
          text("%9s%9s%14s%14s", number(copy ? 0 : s.blocks).c_str(),
               number(s.threads).c_str(), number(copy ? 0 : s.atOnce).c_str(),
               copy ? "-" : timesAbove(best[0].second, result.timing).c_str());
      result.why.empty()
          ? void(table.print(row->label, result.timing, kBytes, own))
          : table.line(row->label, result.why);
    }
    const auto& [without, with] = best;
    if (without.first == nullptr || with.first == nullptr) continue;
    const std::string times = timesAbove(without.second, with.second);
    const bool ahead = with.second.ms < without.second.ms;
    at[times[0] == '~' ? 1 : ahead ? 0 : 2] += text(" 2^%d", log);
    buys += text("2^%-6d%-41s%-38s%6s\n", log, without.first->label,
                 with.first->label, times.c_str());
  }
  std::printf(
      "\nGB/s: 8 bytes per element, one read and one write, in every row; a "
      "second read does\nnot count. Blocks (per row) and threads (per block): "
      "the fastest of those tried.\nx no cluster: the time of the best row "
      "without clusters in the same table over the row's.\n");
  if (buys.empty()) return;
  const char* const of =
      allWanted(Row::kBlock, Row::kClusters) ? "" : "Of the rows named: ";
  std::printf(
      "\n%sWhat clusters buy: the time of the best row without them "
      "over the best with them\n%-8s%-41s%-38s%6s\n%s\n",
      of, "length", "without", "with", "times", buys.c_str());
  const char* const what[] = {"ahead", "even, within the spread,", "behind"};
  for (int k = 0; k < 3; ++k) {
    if (at[k].empty()) continue;
    std::printf("%sClusters are %s at%s.\n", of, what[k], at[k].c_str());
  }
  if (at[0].empty() || !allWanted(Row::kGroups, Row::kTickets)) return;
  std::printf(
      "Unlike k blocks per row they need no cooperative launch and no ticket, "
      "and no words in memory\nwith tags that never come twice: the hardware "
      "starts a cluster together.\n");
}

void lesson() {
  int clusters = 0;
  const Device device = openDevice(90, kRows[1].kernel);
  const Launch single(1, kThreadsPerBlock, 0, 1);
  CUDA_CHECK(cudaDeviceGetAttribute(&clusters, cudaDevAttrClusterLaunch, 0));
  if (clusters == 0 || clustersAtOnce(kRows[1].kernel, single) == 0)
    throw Skip(std::string(device.name) +
               " cannot launch clusters; choose "
               "another GPU with CUDA_VISIBLE_DEVICES.");
  const int portable = largestCluster(kRows[1].kernel, single);
  // Before any other query: all the shared memory that a block can have, and
  // clusters of more than the portable eight blocks.
  bool any[Row::kYours + 1] = {};
  for (const Row& row : kRows) {
    cudaFuncAttributes own;
    any[row.kind] |= wanted(row);
    CUDA_CHECK(cudaFuncGetAttributes(&own, row.kernel));
    CUDA_CHECK(cudaFuncSetAttribute(
        row.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
        int(device.sharedMemPerBlockOptin - own.sharedSizeBytes)));
    if (cudaFuncSetAttribute(row.kernel,
                             cudaFuncAttributeNonPortableClusterSizeAllowed,
                             1) != cudaSuccess)
      cudaGetLastError();  // refused: the largest cluster is a portable one
  }
  if (any[Row::kSum] || any[Row::kFew]) costOfClusters(device, portable);
  if (any[Row::kPrice] || any[Row::kPriceMemory]) priceOfExchange(device);
  if (std::count(any + Row::kCopy, std::end(any), true))
    rowsInClusters(device);
}

int main(int argc, char** argv) {
  std::vector<std::pair<std::string, std::string>> rows;
  for (const Row& row : kRows) rows.push_back({row.label, row.name});
  return runLesson(argc, argv, "about 10 s on an NVIDIA H200", rows, lesson);
}
