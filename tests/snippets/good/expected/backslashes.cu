#define SUM(a, b) \
  ((a) +          \
   (b))
const char* path = "C:\\new\\";  // ends with \
