# Runs a command and fails unless it ends as expected.
#
# Usage: cmake -DEXIT=CODE [-DSTDERR=TEXT] [-DSTDOUT=TEXT] [-DIN=DIR]
#          -P tests/expect.cmake -- COMMAND [ARGUMENT...]
#
# EXIT: a number, or `nonzero`. STDERR, STDOUT: text that must stand in the
# command's output, literally. IN: the working folder.
cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/says.cmake")

set(command "")
set(found FALSE)
math(EXPR last "${CMAKE_ARGC} - 1")
foreach(i RANGE ${last})
  if(found)
    string(REPLACE ";" "\\;" argument "${CMAKE_ARGV${i}}")
    list(APPEND command "${argument}")
  elseif("${CMAKE_ARGV${i}}" STREQUAL "--")
    set(found TRUE)
  endif()
endforeach()
if(command STREQUAL "" OR NOT DEFINED EXIT)
  message(FATAL_ERROR "expect: EXIT or the command after -- is missing")
endif()
if(NOT DEFINED IN)
  set(IN "${CMAKE_CURRENT_SOURCE_DIR}")
endif()

execute_process(
  COMMAND ${command}
  WORKING_DIRECTORY "${IN}"
  RESULT_VARIABLE status
  OUTPUT_VARIABLE stdout
  ERROR_VARIABLE stderr)

set(wrong "")
if(EXIT STREQUAL "nonzero")
  if(NOT status MATCHES "^[1-9][0-9]*$")
    string(APPEND wrong "exit status ${status}, expected one that is not 0\n")
  endif()
elseif(NOT "${status}" STREQUAL "${EXIT}")
  string(APPEND wrong "exit status ${status}, expected ${EXIT}\n")
endif()
foreach(stream IN ITEMS stdout stderr)
  string(TOUPPER "${stream}" want)
  if(DEFINED ${want})
    says("${${stream}}" "${${want}}" reported)
    if(NOT reported OR "${${want}}" STREQUAL "")
      string(APPEND wrong "${stream} lacks: ${${want}}\n")
    endif()
  endif()
endforeach()
if(NOT wrong STREQUAL "")
  message(NOTICE "--- stdout\n${stdout}\n--- stderr\n${stderr}\n---\n${wrong}")
  message(FATAL_ERROR "expect: not as expected")
endif()
