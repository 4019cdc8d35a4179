# One planted fault: copies a tree, edits the copy, runs a command on it and
# expects how that ends (expect.cmake).
#
# Usage: cmake -DTREE=DIR -DWORK=DIR -DEXIT=CODE [-DSTDERR=TEXT]
#          [-DSTDOUT=TEXT] [-DFILE=PATH -DFROM=TEXT -DTO=TEXT]
#          [-DREMOVE=PATH] [-DCOPY=PATH -DCOPY_TO=PATH] [-DUNCHANGED=PATH]
#          -P tests/case.cmake -- COMMAND [ARGUMENT...]
#
# FROM must stand in FILE exactly once. REMOVE and COPY: a file of the copy.
# UNCHANGED: a file that the command must leave as it is. `@TREE@` in an
# argument stands for the copy, `@CR@` in TO for a carriage return.
cmake_minimum_required(VERSION 3.25)

file(REMOVE_RECURSE "${WORK}")
file(COPY "${TREE}/" DESTINATION "${WORK}/tree")
set(TREE "${WORK}/tree")

if(DEFINED FILE)
  file(READ "${TREE}/${FILE}" text)
  string(FIND "${text}" "${FROM}" first)
  string(FIND "${text}" "${FROM}" last REVERSE)
  if(first EQUAL -1 OR NOT first EQUAL last)
    message(FATAL_ERROR "case: '${FROM}' does not stand in ${FILE} just once")
  endif()
  string(ASCII 13 cr)
  string(REPLACE "@CR@" "${cr}" TO "${TO}")
  string(REPLACE "${FROM}" "${TO}" text "${text}")
  string(REGEX REPLACE "\n$" "" text "${text}")
  file(CONFIGURE OUTPUT "${TREE}/${FILE}" CONTENT "@text@" @ONLY
    NEWLINE_STYLE LF)
endif()
if(DEFINED REMOVE)
  if(NOT EXISTS "${TREE}/${REMOVE}")
    message(FATAL_ERROR "case: no ${REMOVE} to remove")
  endif()
  file(REMOVE "${TREE}/${REMOVE}")
endif()
if(DEFINED COPY)
  cmake_path(GET COPY_TO PARENT_PATH folder)
  file(MAKE_DIRECTORY "${TREE}/${folder}")
  file(COPY_FILE "${TREE}/${COPY}" "${TREE}/${COPY_TO}")
endif()
if(DEFINED UNCHANGED)
  file(SHA256 "${TREE}/${UNCHANGED}" before)
endif()

math(EXPR last "${CMAKE_ARGC} - 1")
foreach(i RANGE ${last})  # what expect.cmake reads
  string(REPLACE "@TREE@" "${TREE}" CMAKE_ARGV${i} "${CMAKE_ARGV${i}}")
endforeach()
include("${CMAKE_CURRENT_LIST_DIR}/expect.cmake")

if(DEFINED UNCHANGED)
  file(SHA256 "${TREE}/${UNCHANGED}" after)
  if(NOT before STREQUAL after)
    message(FATAL_ERROR "case: ${UNCHANGED} was changed")
  endif()
endif()
