# Tests of what the lessons claim: the claims tables, machine code, recorded
# profiles, planted faults, hostile surroundings. Included from the top
# CMakeLists.txt, after the lessons.

# The tools of the CUDA toolkit stand beside nvcc, or where these say.
cmake_path(GET CMAKE_CUDA_COMPILER PARENT_PATH nvcc_folder)
find_program(LESSONS_CUOBJDUMP cuobjdump HINTS "${nvcc_folder}"
  DOC "cuobjdump of the CUDA toolkit")
find_program(LESSONS_NVDISASM nvdisasm HINTS "${nvcc_folder}"
  DOC "nvdisasm of the CUDA toolkit; cuobjdump needs it")

get_property(lessons GLOBAL PROPERTY LESSONS)
string(REGEX REPLACE "\\|[0-9]+" "" sources "${lessons}")

if(NOT LESSONS_CHECKS)
  return()
endif()

# skipped_test(NAME REASON): a test that this machine cannot run. It is shown
# as skipped, and fails where LESSONS_REQUIRE_TOOLS is on.
function(skipped_test name reason)
  if(WIN32)
    add_test(NAME ${name} COMMAND cmd /c "echo SKIPPED: ${reason}& exit 77")
  else()
    add_test(NAME ${name} COMMAND sh -c "echo 'SKIPPED: ${reason}'; exit 77")
  endif()
  if(NOT LESSONS_REQUIRE_TOOLS)
    set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77)
  endif()
endfunction()

# ---- claims
add_test(NAME claims.agree
  COMMAND ${CMAKE_COMMAND} -DROOT=${CMAKE_SOURCE_DIR} "-DSOURCES=${sources}"
    -P ${CMAKE_SOURCE_DIR}/tests/claims/check.cmake)
add_test(NAME claims.can-fail
  COMMAND ${CMAKE_COMMAND} -DROOT=${CMAKE_SOURCE_DIR}
    -DWORK=${CMAKE_BINARY_DIR}/claims-can-fail
    -P ${CMAKE_SOURCE_DIR}/tests/claims/can_fail.cmake)

# ---- machine code, of each lesson for its own architecture and for sm_90
set(machine_code_archs 90)
foreach(lesson IN LISTS lessons)
  string(REGEX MATCH "^(.*)\\|([0-9]+)$" ignored "${lesson}")
  set(source "${CMAKE_MATCH_1}")
  set(archs ${CMAKE_MATCH_2} 90)
  cmake_path(GET source PARENT_PATH folder)
  cmake_path(GET source STEM name)
  list(REMOVE_DUPLICATES archs)
  list(APPEND machine_code_archs ${archs})
  foreach(arch IN LISTS archs)
    if(NOT TARGET cubin.${name}.sm_${arch})
      continue()  # the toolkit cannot compile for it
    endif()
    set(test machine-code.${name}.sm_${arch})
    if(NOT LESSONS_CUOBJDUMP OR NOT LESSONS_NVDISASM)
      skipped_test(${test} "cuobjdump and nvdisasm not found")
      continue()
    endif()
    add_test(NAME ${test}
      COMMAND ${CMAKE_COMMAND}
        -DRULES=${CMAKE_SOURCE_DIR}/tests/machine-code/${folder}.cmake
        -DCUBIN=${CMAKE_BINARY_DIR}/cubin/${name}.sm_${arch}.cubin
        -DARCH=${arch} -DCUOBJDUMP=${LESSONS_CUOBJDUMP}
        -P ${CMAKE_SOURCE_DIR}/tests/machine-code/engine.cmake)
  endforeach()
endforeach()
list(REMOVE_DUPLICATES machine_code_archs)
foreach(arch IN LISTS machine_code_archs)
  if(NOT arch IN_LIST LESSONS_TOOLKIT_ARCHS)
    continue()
  endif()
  set(test machine-code.can-fail.sm_${arch})
  if(NOT LESSONS_CUOBJDUMP OR NOT LESSONS_NVDISASM)
    skipped_test(${test} "cuobjdump and nvdisasm not found")
    continue()
  endif()
  add_test(NAME ${test}
    COMMAND ${CMAKE_COMMAND}
      -DRULES=${CMAKE_SOURCE_DIR}/tests/machine-code/fixture.cmake
      -DSOURCE=${CMAKE_SOURCE_DIR}/tests/machine-code/fixture.cu
      -DCUBIN=${CMAKE_BINARY_DIR}/cubin/fixture.sm_${arch}.cubin
      -DARCH=${arch} -DNVCC=${CMAKE_CUDA_COMPILER}
      -DCUOBJDUMP=${LESSONS_CUOBJDUMP}
      -P ${CMAKE_SOURCE_DIR}/tests/machine-code/engine.cmake)
endforeach()
