# Tests of the lesson files and of the build itself. No GPU needed.
if(NOT LESSONS_CHECKS)
  return()
endif()

get_property(lessons GLOBAL PROPERTY LESSONS)
foreach(lesson IN LISTS lessons)
  string(REGEX REPLACE "\\|.*" "" source "${lesson}")
  cmake_path(GET source STEM name)

  if(TARGET ${name} AND NOT WIN32)
    add_test(NAME alone.${name}
      COMMAND ${CMAKE_COMMAND} -DSOURCE=${CMAKE_SOURCE_DIR}/${source}
        -DNVCC=${CMAKE_CUDA_COMPILER} -DWORK=${CMAKE_BINARY_DIR}/alone/${name}
        -P ${CMAKE_SOURCE_DIR}/tests/lessons/alone.cmake)
  endif()
  add_test(NAME rows.${name}
    COMMAND ${CMAKE_COMMAND} -DSOURCE=${CMAKE_SOURCE_DIR}/${source}
      -P ${CMAKE_SOURCE_DIR}/tests/lessons/rows.cmake)
endforeach()

string(REGEX REPLACE "\\|[0-9]+" "" sources "${lessons}")
add_test(NAME helpers.same
  COMMAND ${CMAKE_COMMAND} -DROOT=${CMAKE_SOURCE_DIR} "-DSOURCES=${sources}"
    -P ${CMAKE_SOURCE_DIR}/tests/lessons/helpers.cmake)
add_test(NAME lessons.listed
  COMMAND ${CMAKE_COMMAND} -DROOT=${CMAKE_SOURCE_DIR} "-DSOURCES=${sources}"
    -P ${CMAKE_SOURCE_DIR}/tests/lessons/listed.cmake)
add_test(NAME lessons.tests-can-fail
  COMMAND ${CMAKE_COMMAND} -DROOT=${CMAKE_SOURCE_DIR} "-DSOURCES=${sources}"
    -DWORK=${CMAKE_BINARY_DIR}/tests-can-fail
    -P ${CMAKE_SOURCE_DIR}/tests/lessons/can_fail.cmake)

foreach(case IN ITEMS skip-shown require-gpu toolkit-lacks-arch arch-too-low
    arch-override native-without-gpu bad-arch)
  add_test(NAME workflow.${case}
    COMMAND ${CMAKE_COMMAND} -DCASE=${case} -DROOT=${CMAKE_SOURCE_DIR}
      -DBUILD=${CMAKE_BINARY_DIR} -DCTEST=${CMAKE_CTEST_COMMAND}
      -DNVCC=${CMAKE_CUDA_COMPILER}
      -DWORK=${CMAKE_BINARY_DIR}/workflow/${case}
      -P ${CMAKE_SOURCE_DIR}/tests/lessons/workflow.cmake)
  set_tests_properties(workflow.${case} PROPERTIES TIMEOUT 240)
endforeach()
