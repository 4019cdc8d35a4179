# cmake -DROOT=DIR "-DSOURCES=a.cu;b.cu" -P helpers.cmake
# The helper block stands in every lesson, byte for byte the same.
cmake_minimum_required(VERSION 3.25)

function(helper_block path result)
  file(READ "${path}" hex HEX)
  string(HEX "\n// ---- helpers: " first)
  string(HEX "\n// ---- end of helpers " last)
  string(FIND "${hex}" "${first}" begin)
  string(FIND "${hex}" "${last}" end)
  if(begin EQUAL -1 OR end LESS begin)
    message(FATAL_ERROR
      "${path}: no helper block from `// ---- helpers: ` to "
      "`// ---- end of helpers `")
  endif()
  math(EXPR length "${end} - ${begin}")
  if(length LESS 4000)
    message(FATAL_ERROR "${path}: the helper block is too short to be one")
  endif()
  string(SUBSTRING "${hex}" ${begin} ${length} block)
  set(${result} "${block}" PARENT_SCOPE)
endfunction()

list(LENGTH SOURCES count)
if(count LESS 2)
  message(FATAL_ERROR "nothing to compare: SOURCES=${SOURCES}")
endif()
list(POP_FRONT SOURCES reference)
helper_block("${ROOT}/${reference}" want)
foreach(source IN LISTS SOURCES)
  helper_block("${ROOT}/${source}" got)
  if(NOT got STREQUAL want)
    message(SEND_ERROR
      "${source}: the helper block differs from the one in ${reference}. "
      "Copy it from there, or change it in every lesson.")
  endif()
endforeach()
