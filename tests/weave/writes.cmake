# Pages whose blocks are emptied, or filled with something else, are woven
# back byte for byte; woven a second time they stay.
#
# Usage: cmake -DWORK=DIR -P tests/weave/writes.cmake
cmake_minimum_required(VERSION 3.25)
cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH tests)
cmake_path(GET tests PARENT_PATH root)
include("${root}/cmake/text.cmake")
file(REMOVE_RECURSE "${WORK}")
file(COPY "${tests}/tree" DESTINATION "${WORK}")
set(pages README.md day01-first/README.md)

# empty(page filling): replaces what stands in the page's blocks.
function(empty page filling)
  file(READ "${WORK}/tree/${page}" old)
  set(text "")
  set(inside FALSE)
  set(fence "")
  while(NOT old STREQUAL "")
    take_line(old line)
    if(line STREQUAL "<!-- end -->")
      set(inside FALSE)
    endif()
    if(inside)
      continue()
    endif()
    string(APPEND text "${line}\n")
    in_fence(line fence code)
    if(NOT code AND line MATCHES "^<!-- (snippet|output): ")
      set(inside TRUE)
      string(APPEND text "${filling}")
    endif()
  endwhile()
  file(WRITE "${WORK}/tree/${page}" "${text}")
endfunction()

# weave(rewritten): runs it; that many pages must have been rewritten.
function(weave rewritten)
  execute_process(
    COMMAND ${CMAKE_COMMAND} "-DROOT=${WORK}/tree" "-DWORK=${WORK}/work"
      -P "${root}/cmake/weave.cmake"
    OUTPUT_VARIABLE said COMMAND_ERROR_IS_FATAL ANY)
  string(FIND "${said}" "weave: ${rewritten} pages rewritten" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "expected ${rewritten} pages, said: ${said}")
  endif()
  foreach(page IN LISTS pages)
    execute_process(
      COMMAND ${CMAKE_COMMAND} -E compare_files "${WORK}/tree/${page}"
        "${tests}/tree/${page}"
      RESULT_VARIABLE differs)
    if(NOT differs EQUAL 0)
      message(FATAL_ERROR "${page} was not woven back")
    endif()
  endforeach()
endfunction()

foreach(filling IN ITEMS "" "old text\n\n```cuda\nint old\;\n```\n")
  foreach(page IN LISTS pages)
    empty(${page} "${filling}")
  endforeach()
  weave(2)
endforeach()
weave(0)
