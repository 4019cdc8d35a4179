# Shows that check.cmake sees what a record lacks: made-up records pass, and
# each single edit of one fails with the message it should.
#
#   cmake -DROOT=DIR -DWORK=DIR -P tests/recorded/can_fail.cmake
cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/../says.cmake")
include("${ROOT}/cmake/evidence-file.cmake")

set(edits "=== first-edit\n=== second-edit\n")
string(SHA256 sha256 "${edits}")
set(mutants "tests/mutants/day99-test.txt: ${sha256}
day99-test.01-first-edit: caught by exit 1: FAILED sum
day99-test.02-second-edit: caught by racecheck: RACECHECK SUMMARY
")
set(sanitizer "compute-sanitizer --tool memcheck --leak-check full ./test
========= LEAK SUMMARY: 0 bytes leaked in 0 allocations
========= ERROR SUMMARY: 0 errors
exit status 0

compute-sanitizer --tool racecheck ./test
========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)
exit status 0

compute-sanitizer --tool synccheck ./test
========= ERROR SUMMARY: 0 errors
exit status 0

compute-sanitizer --tool initcheck ./test
========= ERROR SUMMARY: 0 errors
exit status 0
")
set(skipped "  exit status 77: SKIPPED: why")
set(hostile "no device visible
${skipped}
a device that does not exist
${skipped}
built for sm_75, PTX switched off
${skipped}
a lesson for compute capability 99.0
${skipped}
a card with 800 MB free
${skipped}
a card with 100 MB free
${skipped}
twice at once
  exit status 0: All checks passed.
100 runs in a row, 8 at a time
  exit status 0: 0 failures
8 runs at full size, 8 at a time
  exit status 0: 0 failures
")

file(REMOVE_RECURSE "${WORK}")
file(WRITE "${WORK}/tests/mutants/day99-test.txt" "${edits}")
set(header "")
foreach(key IN LISTS evidence_keys)
  string(APPEND header "# ${key}: made up\n")
endforeach()

# expect(KIND TEXT [OLD NEW]): the record of KIND with OLD replaced by NEW is
# refused with TEXT; with an empty TEXT it passes.
function(expect kind text)
  set(body "${${kind}}")
  if(ARGC GREATER 2)
    string(FIND "${body}" "${ARGV2}" at)
    if(at EQUAL -1)
      message(FATAL_ERROR "no `${ARGV2}` to edit in the record of ${kind}")
    endif()
    string(REPLACE "${ARGV2}" "${ARGV3}" body "${body}")
  endif()
  file(WRITE "${WORK}/evidence/day99-test/${kind}-2026-01-01-test.txt"
    "${header}\n${body}")
  execute_process(
    COMMAND ${CMAKE_COMMAND} "-DROOT=${WORK}" -DKIND=${kind}
      -DFOLDER=day99-test -P "${ROOT}/tests/recorded/check.cmake"
    RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  must_report("the record of ${kind}" "${status}" "${output}" "${text}")
endfunction()

foreach(kind mutants sanitizer hostile)
  expect(${kind} "")
endforeach()
expect(mutants "does not say `tests/mutants/day99-test.txt:" "${sha256}" "0")
expect(mutants "does not say `-second-edit: caught by"
  "02-second-edit: caught by" "02-second-edit: NOT CAUGHT,")
expect(mutants "does not say `-first-edit: caught by" "01-first" "01-third")
expect(mutants "3 caught, but there are 2 edits"
  "day99-test.02" "day99-test.03-more: caught by exit 1\nday99-test.02")
expect(sanitizer "does not say `compute-sanitizer --tool synccheck"
  "--tool synccheck" "--tool memcheck")
expect(sanitizer "does not say `LEAK SUMMARY: 0 bytes"
  "0 bytes leaked in 0" "4 bytes leaked in 1")
expect(sanitizer "does not say `RACECHECK SUMMARY: 0 hazards"
  "0 hazards displayed (0 errors, 0" "1 hazard displayed (0 errors, 1")
expect(sanitizer "not every tool ended clean"
  "initcheck ./test\n========= ERROR SUMMARY: 0 errors"
  "initcheck ./test\n========= ERROR SUMMARY: 1 error")
expect(sanitizer "not every tool ended clean"
  "0 warnings)\nexit status 0" "0 warnings)\nexit status 1")
expect(hostile "does not say `twice at once" "twice at" "at")
expect(hostile "does not say `100 runs in a row" "100 runs" "10 runs")
expect(hostile "no runs at full size" "8 runs at full" "0 runs at full")
expect(hostile "a run did not end as it must" "All checks passed" "FAILED total")
expect(hostile "a run did not end as it must"
  "100 runs in a row, 8 at a time\n  exit status 0: 0 failures"
  "100 runs in a row, 8 at a time\n  exit status 1: 3 failures")
expect(hostile "a run did not end as it must"
  "99.0\n  exit status 77: SKIPPED" "99.0\n  exit status 0: SKIPPED")

# A record that is missing.
execute_process(
  COMMAND ${CMAKE_COMMAND} "-DROOT=${WORK}" -DKIND=hostile -DFOLDER=day98-none
    -P "${ROOT}/tests/recorded/check.cmake"
  RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
must_report("a missing record" "${status}" "${output}"
  "evidence/day98-none has no hostile-*.txt")

# The hash of machine code does not depend on the folder it was made in.
foreach(case "a|_INTERNAL_0123abcd_7_test_cu_89abcdef4name"
    "b|_INTERNAL_fedc3210_7_test_cu_89abcdef4name"
    "c|_INTERNAL_0123abcd_7_test_cu_89abcdef4nine")
  string(REGEX MATCH "^(.)\\|(.*)$" ignored "${case}")
  file(WRITE "${WORK}/${CMAKE_MATCH_1}.cubin" "${CMAKE_MATCH_2}")
  cubin_sha256("${WORK}/${CMAKE_MATCH_1}.cubin" test ${CMAKE_MATCH_1})
endforeach()
if(NOT a STREQUAL b OR a STREQUAL c)
  message(SEND_ERROR "cubin_sha256: ${a}, ${b}, ${c}; wanted A, A, B")
endif()
