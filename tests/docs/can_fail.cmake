# cmake -DROOT=DIR -DBUILD=DIR -DCTEST=CTEST -DWORK=DIR
#   "-DLESSONS=FOLDER/FILE.cu|ARCH;..." -P can_fail.cmake
# workflows.cmake, failures.cmake and readme.cmake fail when they should: each
# fault is planted in a copy.
cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/../says.cmake")

# planted(FILE OLD NEW TEXT): OLD, which must be there, becomes NEW, and the
# check reports TEXT.
function(planted file old new text)
  file(REMOVE_RECURSE "${WORK}")
  file(COPY "${ROOT}/.github" DESTINATION "${WORK}")
  if(NOT old STREQUAL "")
    file(READ "${WORK}/.github/${file}" content)
    string(FIND "${content}" "${old}" at)
    if(at EQUAL -1)
      message(FATAL_ERROR "${file}: no `${old}` to edit")
    endif()
    string(REPLACE "${old}" "${new}" content "${content}")
    file(WRITE "${WORK}/.github/${file}" "${content}")
  endif()
  execute_process(
    COMMAND ${CMAKE_COMMAND} "-DROOT=${WORK}"
      -P "${ROOT}/tests/docs/workflows.cmake"
    RESULT_VARIABLE status
    OUTPUT_VARIABLE output
    ERROR_VARIABLE output)
  must_report("`${old}` -> `${new}` in ${file}" "${status}" "${output}"
    "${text}")
endfunction()

planted("" "" "" "")
file(READ "${ROOT}/.github/workflows/ci.yml" ci)
string(REGEX MATCH "@[0-9a-f]+ # v[0-9.]+" pin "${ci}")
string(REGEX REPLACE " #.*" "" bare "${pin}")
string(REGEX REPLACE "^@." "@" short "${pin}")
planted(workflows/ci.yml "${pin}" "@v5" "is not `OWNER/ACTION@COMMIT")
planted(workflows/ci.yml "${pin}" "${bare}" "is not `OWNER/ACTION@COMMIT")
planted(workflows/ci.yml "${pin}" "${short}" "40 digits, not 39")
planted(workflows/ci.yml "persist-credentials: false" "fetch-depth: 1"
  "0 times `persist-credentials: false`")
planted(workflows/ci.yml "contents: read" "contents: write"
  "the only permission")
planted(workflows/ci.yml "\npermissions:\n  contents: read\n" ""
  "the only permission")
planted(workflows/ci.yml "    timeout-minutes: 10\n" "" "time limits")
planted(workflows/ci.yml "12.0.1-devel" "12.4.1-devel" "one 12.0 toolkit")
planted(workflows/ci.yml "bash .ci/run" "true" "no `run: bash .ci/run`")
planted(workflows/gpu.yml "  workflow_dispatch:\n" "  pull_request:\n"
  "other events")
planted(workflows/gpu.yml "!github.event.repository.fork" "always()"
  "no `if:")
planted(workflows/gpu.yml "--workflow --preset gpu" "--preset gpu"
  "no `run: cmake --workflow")
planted(actionlint.yaml "    - sm_90\n" "" "does not declare sm_90")

# edited(SCRIPT FILE OLD NEW TEXT): the same for a document, checked by
# tests/docs/SCRIPT.cmake.
function(edited script document old new text)
  file(READ "${ROOT}/${document}" table)
  string(FIND "${table}" "${old}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "${document}: no `${old}` to edit")
  endif()
  string(REPLACE "${old}" "${new}" table "${table}")
  file(WRITE "${WORK}/document.md" "${table}")
  execute_process(
    COMMAND ${CMAKE_COMMAND} "-DROOT=${ROOT}" "-DBUILD=${BUILD}"
      "-DCTEST=${CTEST}" "-DLESSONS=${LESSONS}"
      "-DTABLE=${WORK}/document.md" "-DREADME=${WORK}/document.md"
      -P "${ROOT}/tests/docs/${script}.cmake"
    RESULT_VARIABLE status
    OUTPUT_VARIABLE output
    ERROR_VARIABLE output)
  must_report("`${old}` -> `${new}` in ${document}" "${status}" "${output}"
    "${text}")
endfunction()

macro(unmet)
  edited(failures research/FAILURES.md ${ARGN})
endmacro()
unmet("test `alone.*`" "test `alone`" "no test `alone` in this build")
unmet("test `snippets.bad.*`" "test `snippets.worse.*`" "no test `snippets.w")
unmet("gate `total`" "gate `tot`" "no lesson has the gate `tot`")
unmet("says \"does not fit\"" "says \"fits like a glove\"" "nothing says")
unmet("#wsl" "#wsl2" "no heading for #wsl2")
unmet("gate `index-64-bit` |" "64 bits |" "names nothing that can be looked up")
unmet("\n| Nothing fits" "\n| Nothing | fits" "not a row of three cells")

macro(misread)
  edited(readme README.md ${ARGN})
endmacro()
list(GET LESSONS -1 lesson)
string(REGEX REPLACE "/.*" "" folder "${lesson}")
misread("(${folder}/README.md)" "(${folder})" "no row of five cells for ${lesson}")
misread("-O3 -arch=sm_75 -o reduction_1 r" "-O2 -arch=sm_75 -o reduction_1 r"
  "is not the Build line of a lesson")
misread("/tmp/reduction_1 day24" "/tmp/reduction_2 day24" "is not the Build line")
misread("--preset check" "--preset checks" "no workflow preset `checks`")
misread("\n## Compile" "\n| 99 | a | 7.5 | b | [c](day99-d/README.md) |\n## Compile"
  "CMakeLists.txt")
