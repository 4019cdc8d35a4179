# cmake -DROOT=DIR -DCLANG_FORMAT=CLANG_FORMAT -P format.cmake
# Every CUDA source is formatted as .clang-format says. Inputs of tests that
# are malformed on purpose (folders good and bad) are left out.
cmake_minimum_required(VERSION 3.25)

file(GLOB sources "${ROOT}/day*/*.cu")
file(GLOB_RECURSE tests "${ROOT}/tests/*.cu")
list(FILTER tests EXCLUDE REGEX "/(good|bad)/")
list(LENGTH sources count)
if(count LESS 4)
  message(FATAL_ERROR "found ${count} lessons in ${ROOT}")
endif()
execute_process(
  COMMAND "${CLANG_FORMAT}" --style=file --dry-run -Werror ${sources} ${tests}
  RESULT_VARIABLE status
  ERROR_VARIABLE output)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "run clang-format -i on these files:\n${output}")
endif()
