# The lessons' snippets: all of them export, each is what stands between its
# lines in the source, and those that lesson pages rely on are there.
#
# Usage: cmake -DWORK=DIR -P tests/snippets/names.cmake
cmake_minimum_required(VERSION 3.25)
cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH tests)
cmake_path(GET tests PARENT_PATH root)
file(REMOVE_RECURSE "${WORK}")
execute_process(
  COMMAND ${CMAKE_COMMAND} "-DOUT=${WORK}/out"
    -P "${root}/cmake/snippets.cmake"
  COMMAND_ERROR_IS_FATAL ANY)

set(wrong "")
foreach(name IN ITEMS
    day24-reduction/atomic-global day24-reduction/atomic-shared
    day24-reduction/v1-modulo day24-reduction/v2-strided
    day24-reduction/v3-sequential day24-reduction/v4-two-loads
    day24-reduction/shuffle-tail day24-reduction/atomic-finish
    day25-reduction/warp-reduce day25-reduction/v5-tail
    day25-reduction/v6-template day25-reduction/v7-load
    day25-reduction/v8-two-passes day25-reduction/atomic-finish
    day25-reduction/v9-last-block day25-reduction/v10-in-flight
    day25-reduction/library-call
    day45-occupancy/ilp-body day45-occupancy/bounded-kernel
    day45-occupancy/smem-dial day45-occupancy/occupancy-query
    day45-occupancy/one-guard-a-tile day45-occupancy/pointer-chase
    day77-clusters/atomic-tail day77-clusters/cluster-combine
    day77-clusters/cluster-launch day77-clusters/row-in-cluster
    day77-clusters/cluster-query)
  if(NOT EXISTS "${WORK}/out/${name}.cu")
    string(APPEND wrong "no snippet ${name}, which pages rely on\n")
  endif()
endforeach()

# Each export against the lines that the index names, without their indent.
file(STRINGS "${WORK}/out/index.tsv" rows)
list(POP_FRONT rows)
foreach(row IN LISTS rows)
  string(REPLACE "\t" ";" row "${row}")
  list(GET row 0 folder)
  list(GET row 1 name)
  list(GET row 2 source)
  list(GET row 3 first)
  list(GET row 4 last)
  list(GET row 5 hash)
  set(file "${WORK}/out/${folder}/${name}.cu")
  file(SHA256 "${file}" got)
  if(NOT got STREQUAL hash)
    string(APPEND wrong "${folder}/${name}: not the hash of the index\n")
  endif()
  file(READ "${root}/${source}" text)
  set(skip 1)
  while(skip LESS first)
    string(FIND "${text}" "\n" at)
    math(EXPR at "${at} + 1")
    string(SUBSTRING "${text}" ${at} -1 text)
    math(EXPR skip "${skip} + 1")
  endwhile()
  file(READ "${file}" code)
  string(REGEX REPLACE "[^\n]" "" newlines "${code}")
  string(LENGTH "${newlines}" lines)
  math(EXPR wanted "${last} - ${first} + 1")
  set(squeezed "\n${text}")
  string(REGEX REPLACE "\n +" "\n" squeezed "${squeezed}")
  string(REGEX REPLACE "\n +" "\n" code "\n${code}")
  string(FIND "${squeezed}" "${code}// end snippet\n" at)
  if(NOT at EQUAL 0 OR NOT lines EQUAL wanted)
    string(APPEND wrong "${folder}/${name}: not lines ${first} to ${last} of ${source}\n")
  endif()
endforeach()
if(NOT wrong STREQUAL "")
  message(FATAL_ERROR "${wrong}")
endif()
