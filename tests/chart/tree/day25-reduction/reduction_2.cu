// Not a lesson: what the charts read of one.
// Verified: Test GPU, compute capability 9.0, driver 580.1.2,
//   CUDA 13.0, 2026-01-02,
//   evidence/day25-reduction/run-2026-01-02-test-gpu-sm_75.txt
