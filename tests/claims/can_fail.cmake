# Shows that check.cmake sees each kind of fault: a small lesson with its
# claims passes, and each single edit of it fails with the message it should.
#
#   cmake -DROOT=DIR -DWORK=DIR -P tests/claims/can_fail.cmake
cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/../says.cmake")

set(lesson [=[
// gate("in-a-comment", ok, "does not count");
static_assert(kThreads % 32 == 0, "whole warps only; else the "
              "shuffle reads [nothing]");
static_assert(kElems < (1 << 24), "float counts to 2^24");
inline bool gate(const char* name, bool ok, const char* format, ...);
__global__ void sum(const float* x, float* out) {}
template <int kN>
__global__ void __launch_bounds__(kThreads, 1024 / kThreads)
    sumBounded(const float* x, float* out) {}
__global__ void fill(float* x) {}
void check() {
  gate("total-exact", !(got != want), "%f", got);
  gate(
      "row-count", rows == 2, "%d", rows);
}
]=])
set(claims [=[
# Claims

| a | b |
|---|---|
| free text | in another table |

| id | claim | kind | check | source |
|---|---|---|---|---|
| d99-01 | warps are whole | compiler | "whole warps only; else the shuffle reads [n" | - |
| d99-02 | sums are exact | compiler | "float counts" | - |
| d99-03 | the sum is right | run | `total-exact` | - |
| d99-04 | both rows are there | run | `row-count`, `total-exact` | - |
| d99-05 | it shuffles | machine code | `shuffles` | - |
| d99-06 | it reads once | profile | `reads-once` | - |
| d99-07 | warps are whole | compiler | "whole warps" | - |
| d99-08 | warps are whole | compiler | "whole warps" | - |
| d99-09 | warps are whole | compiler | "whole warps" | - |
| d99-10 | a warp has 32 threads | source | - | Guide, 5.1, 13.0, 2026-11-29 |
]=])
set(machine "# No row: fill
foreach(kernel sum sumBounded)  # not sumLast
  rule(shuffles KERNEL \${kernel} COUNT \"SHFL\" EQUAL 5)
endforeach()
")
set(profile "# rule(in-a-comment x)\nrule(reads-once KERNEL sum)\n")

file(REMOVE_RECURSE "${WORK}")
# expect(TEXT [FILE OLD NEW]): check.cmake on the lesson with OLD replaced by
# NEW in one of its files reports TEXT; with an empty TEXT it passes.
function(expect text)
  if(ARGC GREATER 1)
    string(FIND "${${ARGV1}}" "${ARGV2}" at)
    if(at EQUAL -1)
      message(FATAL_ERROR "no `${ARGV2}` to edit in the ${ARGV1}")
    endif()
    string(REPLACE "${ARGV2}" "${ARGV3}" ${ARGV1} "${${ARGV1}}")
  endif()
  file(WRITE "${WORK}/day99-test/test.cu" "${lesson}")
  file(WRITE "${WORK}/research/day99-test.md" "${claims}")
  file(WRITE "${WORK}/tests/machine-code/day99-test.cmake" "${machine}")
  file(WRITE "${WORK}/tests/profile/day99-test.cmake" "${profile}")
  execute_process(
    COMMAND ${CMAKE_COMMAND} "-DROOT=${WORK}"
      "-DSOURCES=day99-test/test.cu" -P "${ROOT}/tests/claims/check.cmake"
    RESULT_VARIABLE status
    OUTPUT_VARIABLE output
    ERROR_VARIABLE output)
  must_report("the lesson" "${status}" "${output}" "${text}")
endfunction()

expect("")
# Claims that point at nothing.
expect("no gate in day99-test/test.cu is called `total-wrong`"
  claims "| `total-exact`" "| `total-wrong`")
expect("has a message that starts with \"floats count\""
  claims "float counts" "floats count")
expect("is called `shuffled`" claims "`shuffles`" "`shuffled`")
expect("is called `reads-twice`" claims "`reads-once`" "`reads-twice`")
expect("no gate in" claims "`row-count`, `total-exact`"
  "`row-count`, `in-a-comment`")
# Checks that no claim names.
expect("no claim names the gate `row-count`" claims "`row-count`, " "")
expect("no claim names the gate `new-gate`"
  lesson "gate(\n" "gate(\"new-gate\", a == b, \"\");\n  gate(\n")
expect("no claim names the static_assert `float counts"
  claims "| compiler | \"float counts\"" "| run | `row-count`")
expect("no claim names the machine code rule `shuffles`"
  claims "| machine code | `shuffles`" "| run | `row-count`")
expect("no claim names the profile rule `reads-once`"
  claims "| profile | `reads-once`" "| run | `row-count`")
# Kernels that no machine code rule names.
expect("no rule names the kernel sumBounded of" machine " sumBounded" "")
expect("no rule names the kernel sum of" machine "sum sumB" "sumB")
expect("no rule names the kernel fill of" machine "# No row: fill" "#")
expect("no rule names the kernel sumLast of"
  lesson "void fill(float* x) {}" "void fill(float* x) {}
__global__ void sumLast(float* x) {}")
expect("No row: empty: day99-test/test.cu has no such kernel"
  machine "row: fill" "row: fill empty")
expect("4 times __global__, but 3 kernels" lesson "template <int kN>"
  "static __global__ int odd() {}\ntemplate <int kN>")
# Gates and asserts that say nothing.
expect("cannot fail" lesson "rows == 2" "true")
expect("must be a literal" lesson "\"row-count\"" "rowCount")
expect("without a message" lesson ", \"float counts to 2^24\"" "")
# The table itself.
expect("d99-03 twice" claims "d99-04" "d99-03")
expect("must be d99-" claims "d99-04" "d98-04")
expect("unknown kind `seen`" claims "| profile |" "| seen |")
expect("not five cells" claims "| run | `total-exact` | - |"
  "| run | `total-exact` |")
expect("claims nothing" claims "it reads once" " ")
expect("has an empty source" claims "`reads-once` | - |" "`reads-once` | |")
expect("names in backticks" claims "`reads-once`" "reads-once")
expect("in double quotes" claims "\"float counts\"" "float counts")
expect("a claim of kind source must cite one"
  claims "Guide, 5.1, 13.0, 2026-11-29" "-")
expect("has no check; write -" claims "| source | - |"
  "| source | `row-count` |")
expect("at most one in ten may" claims "| d99-09 | warps are whole | compiler \
| \"whole warps\" | - |\n" "")
expect("a claim outside a table" claims "| id | claim |" "| id | claims |")
expect("no claim; head the table" claims "| id | claim | kind | check |"
  "| number | claim | kind | check |")
