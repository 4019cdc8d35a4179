// Day 1: the smallest lesson that the page tests need
// Question: none.
//
// Build: nvcc -std=c++17 -O3 -arch=sm_75 -o first first.cu
// Run:   ./first
// Verified: Test GPU, compute capability 9.0, driver 580.1.2,
//   CUDA 13.0, 2026-01-02,
//   evidence/day01-first/run-2026-01-02-test-gpu-sm_75.txt

// snippet: one-kernel
__global__ void fill(float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = 1.0f;
}
// end snippet

int main() {
  // snippet: the-launch
  fill<<<1, 32>>>(nullptr, 0);
  return cudaDeviceSynchronize() == cudaSuccess ? 0 : 1;
  // end snippet
}

// snippet: for-slides
// A comment that only slides show.
// end snippet
