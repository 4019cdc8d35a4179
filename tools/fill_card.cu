// Fills the memory of the card, all but argv[1] megabytes, then runs the
// command argv[2] and returns its exit status. 99: the card was not filled.
#include <cuda_runtime.h>

#include <cstdlib>

int main(int argc, char** argv) {
  const size_t leave = size_t(argc == 3 ? std::atoi(argv[1]) : 0) << 20;
  size_t free = 0, total = 0;
  for (size_t size = size_t(1) << 40; size >= size_t(1) << 21; size /= 2) {
    for (void* block = nullptr;;) {
      if (cudaMemGetInfo(&free, &total) != cudaSuccess) return 99;
      if (free < leave + size) break;
      if (cudaMalloc(&block, size) != cudaSuccess) {
        cudaGetLastError();  // a smaller block may still fit
        break;
      }
    }
  }
  if (free > 2 * leave) return 99;
  const int status = std::system(argv[2]);
  return status % 256 == 0 ? status / 256 : 99;  // as POSIX packs it
}
