# Text that trips scripts is exported byte for byte.
#
# Usage: cmake -DSOURCE=a.cu "-DEXPECTED=files" -DWORK=DIR
#          -P tests/snippets/hostile.cmake
cmake_minimum_required(VERSION 3.25)
cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH tests)
cmake_path(GET tests PARENT_PATH root)
file(REMOVE_RECURSE "${WORK}")
execute_process(
  COMMAND ${CMAKE_COMMAND} "-DOUT=${WORK}/out" "-DSOURCES=${SOURCE}"
    -P "${root}/cmake/snippets.cmake"
  COMMAND_ERROR_IS_FATAL ANY)
file(GLOB exported "${WORK}/out/hostile/*.cu")
list(LENGTH exported count)
list(LENGTH EXPECTED expected)
if(NOT count EQUAL expected OR count EQUAL 0)
  message(FATAL_ERROR "${count} files exported, ${expected} expected")
endif()
foreach(file IN LISTS EXPECTED)
  cmake_path(GET file FILENAME name)
  execute_process(
    COMMAND ${CMAKE_COMMAND} -E compare_files "${file}"
      "${WORK}/out/hostile/${name}"
    RESULT_VARIABLE differs)
  if(NOT differs EQUAL 0)
    message(FATAL_ERROR "${name} is not as expected")
  endif()
endforeach()
