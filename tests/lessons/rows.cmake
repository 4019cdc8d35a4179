# cmake -DSOURCE=LESSON.cu -P rows.cmake
# The header's list of rows and the table of rows in the code name the same
# labels in the same order. No line is longer than 79 columns.
cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/../../cmake/text.cmake")

file(READ "${SOURCE}" text)
list_safe(text)

string(REGEX MATCH "[^\n]{80}[^\n]*" long "${text}")
if(long)
  message(SEND_ERROR "${SOURCE}: longer than 79 columns: ${long}")
endif()

string(FIND "${text}" "\n// Rows:\n" begin)
if(begin EQUAL -1)
  message(FATAL_ERROR "${SOURCE}: the header has no `// Rows:`")
endif()
string(SUBSTRING "${text}" ${begin} -1 header)
string(FIND "${header}" "\n//\n" end)
string(SUBSTRING "${header}" 0 ${end} header)
string(REGEX MATCHALL "\n//   [^ \n][^\n]*" lines "${header}")
set(promised "")
foreach(line IN LISTS lines)
  if(NOT line MATCHES "^\n//   (.*[^ ])  +[^ ]")
    message(FATAL_ERROR
      "${SOURCE}: not `//   LABEL  text`, two spaces between: ${line}")
  endif()
  # The label ends at the first run of two spaces.
  string(REGEX REPLACE "^\n//   " "" label "${line}")
  string(REGEX REPLACE "  .*" "" label "${label}")
  list(APPEND promised "${label}")
endforeach()

string(REGEX MATCHALL "\n *{\"[^\"\n]+\"," lines "${text}")
set(rows "")
foreach(line IN LISTS lines)
  string(REGEX REPLACE "^\n *{\"([^\"]+)\",$" "\\1" label "${line}")
  list(APPEND rows "${label}")
endforeach()

list(LENGTH rows count)
if(count LESS 2)
  message(FATAL_ERROR "${SOURCE}: found no table of rows")
endif()
if(NOT rows STREQUAL promised)
  string(REPLACE ";" "\n  " rows "${rows}")
  string(REPLACE ";" "\n  " promised "${promised}")
  message(FATAL_ERROR
    "${SOURCE}: the header promises\n  ${promised}\n"
    "the table of rows has\n  ${rows}")
endif()
