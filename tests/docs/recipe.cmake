# cmake -DROOT=DIR -DWORK=DIR -DNVCC=NVCC -DCTEST=CTEST -P recipe.cmake
# README.md's recipe for a new lesson works: its commands are run on a copy of
# this repository, and the copied lesson is built, tested, exported, and
# refused for want of evidence.
cmake_minimum_required(VERSION 3.25)

set(tree "${WORK}/tree")
set(build "${WORK}/build")
file(REMOVE_RECURSE "${WORK}")
file(MAKE_DIRECTORY "${tree}")

# What git tracks, or will; without git, all but build folders.
find_program(GIT git)
set(status 1)
if(GIT)
  execute_process(
    COMMAND ${GIT} -C "${ROOT}" ls-files --cached --others --exclude-standard
    RESULT_VARIABLE status OUTPUT_VARIABLE files ERROR_QUIET)
  string(REGEX REPLACE "\n$" "" files "${files}")
  string(REPLACE "\n" ";" files "${files}")
endif()
if(NOT status EQUAL 0)
  file(GLOB_RECURSE files RELATIVE "${ROOT}" "${ROOT}/*")
  list(FILTER files EXCLUDE REGEX "^(build[^/]*|\\.git)/")
endif()
foreach(file IN LISTS files)
  if(EXISTS "${ROOT}/${file}")
    cmake_path(GET file PARENT_PATH folder)
    file(COPY "${ROOT}/${file}" DESTINATION "${tree}/${folder}")
  endif()
endforeach()

# step(WHAT STATUS RESULT command...): runs it; its exit status is STATUS (0
# or fail), its output goes to RESULT.
function(step what expected result)
  message(STATUS "${what}")
  execute_process(COMMAND ${ARGN}
    WORKING_DIRECTORY "${tree}"
    RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if((expected STREQUAL "0" AND NOT status EQUAL 0)
      OR (expected STREQUAL "fail" AND status EQUAL 0))
    message(FATAL_ERROR "${what}: exit status ${status}\n${output}")
  endif()
  set(${result} "${output}" PARENT_SCOPE)
endfunction()

function(must_match what text_name pattern)
  if(NOT "${${text_name}}" MATCHES "${pattern}")
    message(FATAL_ERROR "${what}: no `${pattern}` in\n${${text_name}}")
  endif()
endfunction()

# The first shell block under the heading, as it stands.
file(READ "${ROOT}/README.md" text)
string(FIND "${text}" "\n### A new lesson\n" at)
if(at EQUAL -1)
  message(FATAL_ERROR "README.md has no heading `A new lesson`")
endif()
string(SUBSTRING "${text}" ${at} -1 text)
string(FIND "${text}" "\n```sh\n" begin)
math(EXPR begin "${begin} + 7")
string(SUBSTRING "${text}" ${begin} -1 text)
string(FIND "${text}" "\n```\n" end)
string(SUBSTRING "${text}" 0 ${end} recipe)
file(WRITE "${WORK}/recipe.sh" "${recipe}\n")
step("the recipe of README.md" 0 _ sh -eu "${WORK}/recipe.sh")

set(ENV{CUDA_VISIBLE_DEVICES} "")  # a GPU changes nothing
step("configure" 0 output ${CMAKE_COMMAND} -S . -B "${build}"
  "-DCMAKE_CUDA_COMPILER=${NVCC}" -DCMAKE_BUILD_TYPE=Release
  -DLESSONS_CHECKS=ON -DLESSONS_WERROR=ON)
step("build the new lesson" 0 output
  ${CMAKE_COMMAND} --build "${build}" --target scan)
step("list the tests" 0 tests ${CTEST} --test-dir "${build}" -N)
foreach(test IN ITEMS lesson alone rows evidence)
  must_match("list the tests" tests ": ${test}\\.scan\n")
endforeach()
must_match("list the tests" tests ": machine-code\\.scan\\.sm_75\n")
must_match("list the tests" tests "(^|\n)Total Tests: [0-9]+")

step("run those that need no GPU" 0 output
  ${CTEST} --test-dir "${build}" --no-tests=error -V -R
  "^(lesson\\.scan|rows\\.scan|helpers\\.same|lessons\\.listed|claims\\.agree|docs\\.readme)$")
must_match("run" output "lesson\\.scan [. ]*\\*\\*\\*Skipped")
must_match("run" output "SKIPPED: ")
foreach(test IN ITEMS rows.scan helpers.same lessons.listed claims.agree
    docs.readme)
  must_match("run" output "${test} [. ]*Passed")
endforeach()

step("export its regions" 0 output ${CMAKE_COMMAND} "-DOUT=${WORK}/snippets"
  -P cmake/snippets.cmake)
foreach(folder IN ITEMS day24-reduction day99-scan)
  file(GLOB regions RELATIVE "${WORK}/snippets/${folder}"
    "${WORK}/snippets/${folder}/*.cu")
  list(LENGTH regions ${folder})
endforeach()
if(day99-scan EQUAL 0 OR NOT day99-scan EQUAL day24-reduction)
  message(FATAL_ERROR
    "${day99-scan} regions of the copy, ${day24-reduction} of the original")
endif()

step("ask for its evidence" fail output
  ${CTEST} --test-dir "${build}" --no-tests=error -V -R "^evidence\\.scan$")
must_match("evidence" output
  "day99-scan/scan\\.cu:[0-9]+: no evidence/day99-scan/run-<date>-<gpu>-sm_75\\.txt")
