# Shows that cmake/mutants.cmake accepts edits that are caught and reports
# those that are not. The lesson here is a program that needs no GPU.
#
#   cmake -DROOT=DIR -DWORK=DIR -DNVCC=nvcc [-DCUOBJDUMP=cuobjdump]
#         -P tests/mutants/can_fail.cmake
cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/../says.cmake")

set(lesson [=[
#include <cstdio>
constexpr int kCount = 10;
static_assert(kCount > 4, "kCount: five or more");
__global__ void sum(float* x) {
  x[0] += __shfl_down_sync(0xffffffffu, x[threadIdx.x], 16);
}
int main() {
  int sum = 0;
  for (int i = 0; i < kCount; ++i) sum += i;
  volatile int waited = 0;
  while (sum > 1000) ++waited;
  if (sum != 45) {
    std::printf("FAILED sum: %d\n", sum);
    return 1;
  }
  return 0;  // [an unbalanced bracket; and a semicolon
}
]=])
set(start "  for (int i = 0; i < kCount; ++i) sum += i;")

file(REMOVE_RECURSE "${WORK}")
file(WRITE "${WORK}/CMakeLists.txt" "lesson(day99-test/test.cu 75)\n")
file(WRITE "${WORK}/day99-test/test.cu" "${lesson}")
file(WRITE "${WORK}/research/day99-test.md"
  "`no-shuffle`, `still-shuffles`: no run shows them.\n")
file(WRITE "${WORK}/tests/machine-code/day99-test.cmake"
  "rule(shuffles KERNEL sum COUNT \"SHFL\" EQUAL 1)\n")

# edit(NAME CAUGHT FIND REPLACE): one more edit for the next run.
set(edits "")
function(edit name caught find replace)
  set(edits "${edits}=== ${name}
A line that says what.
caught: ${caught}
--- find
${find}
--- replace
${replace}
" PARENT_SCOPE)
endfunction()

# run(STATUS [TEXT...]): runs the edits; the output must hold every TEXT.
function(run wanted)
  file(WRITE "${WORK}/tests/mutants/day99-test.txt" "${edits}")
  execute_process(
    COMMAND ${CMAKE_COMMAND} "-DROOT=${WORK}" "-DNVCC=${NVCC}" -DRUN=ON
      -DARCH=sm_75 "-DCUOBJDUMP=${CUOBJDUMP}" -DTIMEOUT=3 -DLEAST=3
      -P "${ROOT}/cmake/mutants.cmake"
    RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  set(missing "")
  foreach(text IN LISTS ARGN)
    says("${output}" "${text}" reported)
    if(NOT reported)
      string(APPEND missing "\nno word of `${text}`")
    endif()
  endforeach()
  if(NOT status EQUAL wanted OR NOT missing STREQUAL "")
    message(SEND_ERROR
      "${output}\nstatus ${status}, wanted ${wanted}${missing}")
  endif()
  set(edits "" PARENT_SCOPE)
endfunction()

edit(short-loop "exit 1" "i < kCount;" "i < kCount - 1;")
edit(few "compiler: five or more" "kCount = 10" "kCount = 4")
edit(two-lines "exit 1" "${start}\n  volatile" "  volatile")
edit(bracket "exit 1" "  return 0;  // [" "  return 1;  // [FAILED\n  // [")
if(CUOBJDUMP)
  edit(no-shuffle "machine code: shuffles"
    "__shfl_down_sync(0xffffffffu, x[threadIdx.x], 16)" "x[threadIdx.x]")
endif()
string(REPLACE "return 1;  // [FAILED" "std::printf(\"FAILED end\\n\");\n  \
return 1;  //" edits "${edits}")
run(0 "01-short-loop: caught by exit 1: FAILED sum: 36"
  "02-few: caught by the compiler: five or more"
  "03-two-lines: caught by exit 1: FAILED sum: 0" "FAILED end" "all as expected")

# Edits that cannot be made; nothing is compiled.
edit(twice "exit 1" "kCount" "kCounts")
edit(nowhere "exit 1" "kCounts" "kCount")
edit(same "exit 1" "${start}" "${start}")
edit(unknown "luck" "i < kCount;" "i <= kCount;")
edit(why "racecheck" "i < kCount;" "i <= kCount;")
edit(Upper "exit 1" "i < kCount;" "i <= kCount;")
run(1 "01-twice: the text to find stands in the lesson more than once"
  "02-nowhere: the lesson does not hold" "03-same: nothing to find, or nothing"
  "04-unknown: caught by 'luck'?"
  "05-why: no run shows it, and research/day99-test.md does not say why"
  "'=== Upper' is no name" "nothing was compiled")
edit(short-loop "exit 1" "i < kCount;" "i < kCount - 1;")
run(1 "1 edits; write at least 3")

# Edits that nothing catches.
edit(survivor "exit 1" "int sum = 0;" "long sum = 0;")
edit(compiles "compiler: five or more" "kCount = 10" "kCount = 9")
edit(other-message "compiler: four or more" "kCount = 10" "kCount = 4")
edit(broken "exit 1" "int sum = 0;" "int sum = ;")
edit(hangs "exit 1" "sum > 1000" "sum > 10")
edit(silent "exit 1" "  return 0;" "  return 1;")
if(CUOBJDUMP)
  edit(still-shuffles "machine code: shuffles" ", 16)" ", 8)")
endif()
run(1 "01-survivor: NOT CAUGHT, expected exit 1: status 0"
  "02-compiles: NOT CAUGHT" "it compiles" "03-other-message: NOT CAUGHT"
  "04-broken: NOT CAUGHT" "it does not compile" "05-hangs: NOT CAUGHT"
  "06-silent: NOT CAUGHT" "these were not caught")
