// Small kernels in pairs: one that holds a rule and one that breaks it. The
// test machine-code.engine shows with them that every measure of engine.cmake
// finds what it should, and fails where it should.

__global__ void sumByShuffle(const float* in, float* out) {
  float sum = in[threadIdx.x];
  for (int offset = 16; offset > 0; offset /= 2) {
    sum += __shfl_down_sync(0xffffffffu, sum, offset);
  }
  if (threadIdx.x == 0) *out = sum;
}

// A tree whose number of levels is known at run time only: a loop around a
// barrier.
__global__ void treeInLoop(const float* in, float* out) {
  __shared__ float tile[1024];
  tile[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  for (unsigned stride = blockDim.x / 2; stride > 0; stride /= 2) {
    if (threadIdx.x < stride) tile[threadIdx.x] += tile[threadIdx.x + stride];
    __syncthreads();
  }
  if (threadIdx.x == 0) *out = tile[0];
}

template <int kThreads>
__global__ void treeUnrolled(const float* in, float* out) {
  __shared__ float tile[kThreads];
  float sum = 0.0f;
  for (unsigned i = threadIdx.x; i < 4096u * gridDim.x; i += kThreads) {
    sum += in[i];  // a loop, but without a barrier in it
  }
  tile[threadIdx.x] = sum;
  __syncthreads();
#pragma unroll
  for (int stride = kThreads / 2; stride > 0; stride /= 2) {
    if (threadIdx.x < stride) tile[threadIdx.x] += tile[threadIdx.x + stride];
    __syncthreads();
  }
  if (threadIdx.x == 0) *out = tile[0];
}
template __global__ void treeUnrolled<64>(const float*, float*);
template __global__ void treeUnrolled<256>(const float*, float*);

__global__ void copyByFour(const float4* in, float4* out) {
  out[threadIdx.x] = in[threadIdx.x];
}
__global__ void copyByOne(const float* in, float* out) {
  out[threadIdx.x] = in[threadIdx.x];
}

// One test for the whole tile: eight times two loads, then the arithmetic.
__global__ void guardATile(const float* x, const float* y, float* out, float a,
                           unsigned n) {
  const unsigned first = blockIdx.x * 2048 + threadIdx.x;
  if (blockIdx.x * 2048 + 2048 <= n) {
    float xs[8], ys[8];
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      xs[k] = x[first + k * 256];
      ys[k] = y[first + k * 256];
    }
#pragma unroll
    for (int k = 0; k < 8; ++k) out[first + k * 256] = a * xs[k] + ys[k];
  } else {
    for (unsigned i = first; i < n; i += 256) out[i] = a * x[i] + y[i];
  }
}
// A test for every load: the compiler mixes loads and arithmetic.
__global__ void guardALoad(const float* x, const float* y, float* out, float a,
                           unsigned n) {
  const unsigned first = blockIdx.x * 2048 + threadIdx.x;
  float xs[8], ys[8];
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    const unsigned i = first + k * 256;
    if (i < n) {
      xs[k] = x[i];
      ys[k] = y[i];
    }
  }
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    const unsigned i = first + k * 256;
    if (i < n) out[i] = a * xs[k] + ys[k];
  }
}

__global__ void addGlobal(const float* in, float* total) {
  atomicAdd(total, in[threadIdx.x]);
}
__global__ void addShared(const float* in, float* total) {
  __shared__ float sum;
  if (threadIdx.x == 0) sum = 0.0f;
  __syncthreads();
  atomicAdd(&sum, in[threadIdx.x]);
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd(total, sum);
}

// An array written and read at indices that only the run knows lives in local
// memory.
__global__ void arrayInMemory(const int* in, float* out) {
  float values[64] = {};
  for (int k = 0; k < 64; ++k) values[in[k] & 63] += float(k);
  out[threadIdx.x] = values[in[threadIdx.x] & 63];
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
__global__ void readNeighbour(float* out) {
  __shared__ float value;
  if (threadIdx.x == 0) value = float(blockIdx.x);
  asm volatile(
      "barrier.cluster.arrive.aligned;\n"
      "barrier.cluster.wait.aligned;" ::
          : "memory");
  float* remote = nullptr;
  asm("mapa.u64 %0, %1, 1;" : "=l"(remote) : "l"(&value));
  out[blockIdx.x] = *remote;
  asm volatile(
      "barrier.cluster.arrive.aligned;\n"
      "barrier.cluster.wait.aligned;" ::
          : "memory");
}
#endif
