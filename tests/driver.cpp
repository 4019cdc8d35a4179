// A driver that does not work, for the refusals of the lessons: built as
// libcuda.so.1 it names DRIVER_VERSION as its version, and every other call
// of it answers DRIVER_ERROR.
#include <cstring>

extern "C" {

static int fail() { return DRIVER_ERROR; }

int cuInit(unsigned) { return DRIVER_ERROR; }

int cuDriverGetVersion(int* version) {
  *version = DRIVER_VERSION;
  return 0;
}

int cuGetProcAddress_v2(const char* name, void** function, int version,
                        unsigned long long flags, void* status);

int cuGetProcAddress(const char* name, void** function, int version,
                     unsigned long long flags) {
  return cuGetProcAddress_v2(name, function, version, flags, nullptr);
}

int cuGetProcAddress_v2(const char* name, void** function, int version,
                        unsigned long long, void*) {
  *function = reinterpret_cast<void*>(fail);
  if (std::strcmp(name, "cuDriverGetVersion") == 0) {
    *function = reinterpret_cast<void*>(cuDriverGetVersion);
  } else if (std::strcmp(name, "cuGetProcAddress") == 0) {
    *function = version < 12000 ? reinterpret_cast<void*>(cuGetProcAddress)
                                : reinterpret_cast<void*>(cuGetProcAddress_v2);
  }
  return 0;
}

}  // extern "C"
