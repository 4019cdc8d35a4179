# Tests of what the lessons claim: the claims tables, machine code, recorded
# profiles, planted faults, hostile surroundings. Included from the top
# CMakeLists.txt, after the lessons.

# The tools of the CUDA toolkit stand beside nvcc, or where these say.
cmake_path(GET CMAKE_CUDA_COMPILER PARENT_PATH nvcc_folder)
find_program(LESSONS_CUOBJDUMP cuobjdump HINTS "${nvcc_folder}"
  DOC "cuobjdump of the CUDA toolkit")
if(LESSONS_CUOBJDUMP)
  cmake_path(GET LESSONS_CUOBJDUMP PARENT_PATH cuobjdump_folder)
endif()
find_program(LESSONS_NVDISASM nvdisasm
  HINTS "${cuobjdump_folder}" "${nvcc_folder}"
  DOC "nvdisasm of the CUDA toolkit; cuobjdump needs it")
find_program(LESSONS_NCU ncu HINTS "${nvcc_folder}" DOC "Nsight Compute")
find_program(LESSONS_COMPUTE_SANITIZER compute-sanitizer
  HINTS "${nvcc_folder}" DOC "compute-sanitizer of the CUDA toolkit")

get_property(lessons GLOBAL PROPERTY LESSONS)
string(REGEX REPLACE "\\|[0-9]+" "" sources "${lessons}")

# Targets for a machine with a GPU; each writes to evidence/.
add_custom_target(profile
  COMMAND ${CMAKE_COMMAND} "-DNVCC=${CMAKE_CUDA_COMPILER}"
    "-DNCU=${LESSONS_NCU}" "-DWORK=${CMAKE_BINARY_DIR}/profile-work"
    -P "${CMAKE_SOURCE_DIR}/cmake/profile.cmake"
  USES_TERMINAL COMMENT "What Nsight Compute counts in the lessons" VERBATIM)
add_custom_target(sanitizer
  COMMAND ${CMAKE_COMMAND} "-DNVCC=${CMAKE_CUDA_COMPILER}"
    "-DSANITIZER=${LESSONS_COMPUTE_SANITIZER}"
    "-DWORK=${CMAKE_BINARY_DIR}/sanitizer-work"
    -P "${CMAKE_SOURCE_DIR}/cmake/sanitize.cmake"
  USES_TERMINAL COMMENT "compute-sanitizer over the lessons" VERBATIM)
add_custom_target(mutants
  COMMAND ${CMAKE_COMMAND} "-DNVCC=${CMAKE_CUDA_COMPILER}" -DRUN=ON
    -DRECORD=ON "-DSANITIZER=${LESSONS_COMPUTE_SANITIZER}"
    "-DCUOBJDUMP=${LESSONS_CUOBJDUMP}"
    "-DWORK=${CMAKE_BINARY_DIR}/mutants-work"
    -P "${CMAKE_SOURCE_DIR}/cmake/mutants.cmake"
  USES_TERMINAL COMMENT "Planted faults, and what catches them" VERBATIM)
add_custom_target(hostile
  COMMAND ${CMAKE_COMMAND} "-DNVCC=${CMAKE_CUDA_COMPILER}"
    "-DWORK=${CMAKE_BINARY_DIR}/hostile-work"
    -P "${CMAKE_SOURCE_DIR}/cmake/hostile.cmake"
  USES_TERMINAL COMMENT "The lessons in hostile surroundings" VERBATIM)

# ---- compute-sanitizer, on a machine with a GPU
if(LESSONS_SANITIZER)
  if(NOT LESSONS_COMPUTE_SANITIZER)
    message(FATAL_ERROR "LESSONS_SANITIZER: compute-sanitizer not found; "
      "set LESSONS_COMPUTE_SANITIZER")
  endif()
  foreach(source IN LISTS sources)
    cmake_path(GET source STEM name)
    if(NOT TARGET ${name})
      continue()
    endif()
    get_target_property(archs ${name} CUDA_ARCHITECTURES)
    add_executable(${name}-quick ${source})
    target_compile_definitions(${name}-quick PRIVATE LESSON_QUICK)
    target_compile_options(${name}-quick PRIVATE -lineinfo)
    set_target_properties(${name}-quick PROPERTIES
      CUDA_ARCHITECTURES "${archs}" CUDA_STANDARD 17)
    foreach(tool memcheck racecheck synccheck initcheck)
      set(leaks "")
      if(tool STREQUAL "memcheck")
        set(leaks --leak-check full)
      endif()
      set(test sanitizer.${name}.${tool})
      add_test(NAME ${test}
        COMMAND ${LESSONS_COMPUTE_SANITIZER} --tool ${tool} ${leaks}
          --error-exitcode 1 $<TARGET_FILE:${name}-quick>)
      set_tests_properties(${test} PROPERTIES
        LABELS sanitizer RUN_SERIAL ON TIMEOUT 300)
      if(NOT LESSONS_REQUIRE_GPU)
        set_tests_properties(${test} PROPERTIES SKIP_RETURN_CODE 77)
      endif()
    endforeach()
  endforeach()
endif()

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
      -DHOST=${CMAKE_CUDA_HOST_COMPILER}
      -DCUOBJDUMP=${LESSONS_CUOBJDUMP}
      -P ${CMAKE_SOURCE_DIR}/tests/machine-code/engine.cmake)
endforeach()

# ---- what was recorded on a GPU
add_test(NAME profile.recorded-can-fail
  COMMAND ${CMAKE_COMMAND} -DROOT=${CMAKE_SOURCE_DIR}
    -DWORK=${CMAKE_BINARY_DIR}/recorded-can-fail
    -P ${CMAKE_SOURCE_DIR}/tests/recorded/can_fail.cmake)
add_test(NAME profile.can-fail
  COMMAND ${CMAKE_COMMAND}
    -DRECORD=${CMAKE_SOURCE_DIR}/tests/profile/fixture.csv
    -DRULES=${CMAKE_SOURCE_DIR}/tests/profile/fixture.cmake
    -P ${CMAKE_SOURCE_DIR}/tests/profile/engine.cmake)
add_test(NAME profile.stale
  COMMAND ${CMAKE_COMMAND} -DEXIT=nonzero
    "-DSTDERR=tests/profile/fixture.csv:1: stale: the profile of another text than CMakeLists.txt; record it: cmake --build build --target profile"
    -P ${CMAKE_SOURCE_DIR}/tests/expect.cmake -- ${CMAKE_COMMAND}
    -DRECORD=${CMAKE_SOURCE_DIR}/tests/profile/fixture.csv
    -DRULES=${CMAKE_SOURCE_DIR}/tests/profile/fixture.cmake
    -DSOURCE=${CMAKE_SOURCE_DIR}/CMakeLists.txt
    -P ${CMAKE_SOURCE_DIR}/tests/profile/engine.cmake)
foreach(source IN LISTS sources)
  cmake_path(GET source PARENT_PATH folder)
  cmake_path(GET source STEM name)
  file(GLOB records CONFIGURE_DEPENDS
    "${CMAKE_SOURCE_DIR}/evidence/${folder}/profile-*.csv")
  if(NOT records)
    set(records "${CMAKE_SOURCE_DIR}/evidence/${folder}/profile-none.csv")
  endif()
  foreach(record IN LISTS records)
    cmake_path(GET record STEM LAST_ONLY stem)
    string(REGEX REPLACE "^profile-[0-9]*-[0-9]*-[0-9]*-" "" stem "${stem}")
    add_test(NAME profile.${name}.${stem}
      COMMAND ${CMAKE_COMMAND} -DRECORD=${record}
        -DRULES=${CMAKE_SOURCE_DIR}/tests/profile/${folder}.cmake
        -DSOURCE=${CMAKE_SOURCE_DIR}/${source}
        -P ${CMAKE_SOURCE_DIR}/tests/profile/engine.cmake)
  endforeach()
  foreach(kind mutants sanitizer hostile)
    add_test(NAME ${kind}.recorded.${name}
      COMMAND ${CMAKE_COMMAND} -DROOT=${CMAKE_SOURCE_DIR} -DKIND=${kind}
        -DFOLDER=${folder} -P ${CMAKE_SOURCE_DIR}/tests/recorded/check.cmake)
  endforeach()
endforeach()

# ---- planted faults: without a GPU, the edits and what the compiler catches
set(cuobjdump "")
if(LESSONS_CUOBJDUMP AND LESSONS_NVDISASM)
  set(cuobjdump "-DCUOBJDUMP=${LESSONS_CUOBJDUMP}")
endif()
add_test(NAME mutants.edits
  COMMAND ${CMAKE_COMMAND} -DNVCC=${CMAKE_CUDA_COMPILER} ${cuobjdump}
    -DHOST=${CMAKE_CUDA_HOST_COMPILER} -DWORK=${CMAKE_BINARY_DIR}/mutants
    -P ${CMAKE_SOURCE_DIR}/cmake/mutants.cmake)
add_test(NAME mutants.can-fail
  COMMAND ${CMAKE_COMMAND} -DROOT=${CMAKE_SOURCE_DIR}
    -DNVCC=${CMAKE_CUDA_COMPILER} ${cuobjdump}
    -DWORK=${CMAKE_BINARY_DIR}/mutants-can-fail
    -P ${CMAKE_SOURCE_DIR}/tests/mutants/can_fail.cmake)
set_tests_properties(mutants.edits mutants.can-fail PROPERTIES TIMEOUT 600)
if(LESSONS_REQUIRE_GPU)
  add_test(NAME mutants.caught
    COMMAND ${CMAKE_COMMAND} -DNVCC=${CMAKE_CUDA_COMPILER} -DRUN=ON
      ${cuobjdump} -DSANITIZER=${LESSONS_COMPUTE_SANITIZER}
      -DWORK=${CMAKE_BINARY_DIR}/mutants-run
      -P ${CMAKE_SOURCE_DIR}/cmake/mutants.cmake)
  set_tests_properties(mutants.caught PROPERTIES RUN_SERIAL ON TIMEOUT 1200)
endif()

# ---- hostile surroundings
if(NOT WIN32)
  # Drivers that do not work, and what each lesson must say of them.
  string(REGEX MATCH "^([0-9]+)\\.([0-9]+)" ignored
    "${CMAKE_CUDA_COMPILER_VERSION}")
  math(EXPR toolkit "${CMAKE_MATCH_1} * 1000 + ${CMAKE_MATCH_2} * 10")
  math(EXPR older "${toolkit} - 1000")
  set(driver_old "${older}" 100)
  set(said_old "was built with CUDA")
  set(driver_empty "${toolkit}" 100)
  set(said_empty "offers no GPU")
  set(driver_broken "${toolkit}" 999)
  set(said_broken "does not work: cudaErrorUnknown")
  set(said_none "no NVIDIA driver found")
  set(drivers "${CMAKE_BINARY_DIR}/drivers")
  file(WRITE "${drivers}/none/libcuda.so.1" "")
  foreach(case old empty broken)
    list(GET driver_${case} 0 version)
    list(GET driver_${case} 1 error)
    add_library(driver-${case} SHARED tests/hostile/driver.cpp)
    target_compile_definitions(driver-${case} PRIVATE
      DRIVER_VERSION=${version} DRIVER_ERROR=${error})
    set_target_properties(driver-${case} PROPERTIES
      OUTPUT_NAME cuda SUFFIX .so.1
      LIBRARY_OUTPUT_DIRECTORY "${drivers}/${case}")
  endforeach()
  foreach(source IN LISTS sources)
    cmake_path(GET source STEM name)
    if(NOT TARGET ${name})
      continue()
    endif()
    foreach(case none old empty broken)
      add_test(NAME hostile.driver-${case}.${name}
        COMMAND ${CMAKE_COMMAND} -E env "LD_LIBRARY_PATH=${drivers}/${case}"
          ${CMAKE_COMMAND} -DEXIT=77 "-DSTDERR=${said_${case}}"
          -P ${CMAKE_SOURCE_DIR}/tests/expect.cmake -- $<TARGET_FILE:${name}>)
    endforeach()
    add_test(NAME hostile.no-visible-device.${name}
      COMMAND ${CMAKE_COMMAND} -E env "LD_LIBRARY_PATH=${drivers}/empty"
        CUDA_VISIBLE_DEVICES= ${CMAKE_COMMAND} -DEXIT=77
        "-DSTDERR=CUDA_VISIBLE_DEVICES is\n  \"\": unset it"
        -P ${CMAKE_SOURCE_DIR}/tests/expect.cmake -- $<TARGET_FILE:${name}>)
    get_target_property(arch ${name} CUDA_ARCHITECTURES)
    list(GET arch 0 arch)
    add_test(NAME hostile.crlf-read-only.${name}
      COMMAND ${CMAKE_COMMAND} -DSOURCE=${CMAKE_SOURCE_DIR}/${source}
        -DNVCC=${CMAKE_CUDA_COMPILER} -DARCH=${arch}
        -DWORK=${CMAKE_BINARY_DIR}/hostile/alone-${name}
        -P ${CMAKE_SOURCE_DIR}/tests/hostile/alone.cmake)
  endforeach()

  # The rest with one lesson, the one that compiles fastest.
  if(TARGET occupancy)
    add_test(NAME hostile.spaces
      COMMAND ${CMAKE_COMMAND} -DROOT=${CMAKE_SOURCE_DIR} -DLESSON=occupancy
        -DNVCC=${CMAKE_CUDA_COMPILER} -DCTEST=${CMAKE_CTEST_COMMAND}
        "-DWORK=${CMAKE_BINARY_DIR}/hostile/spaces"
        -P ${CMAKE_SOURCE_DIR}/tests/hostile/spaces.cmake)
  endif()
endif()

# Other ways to compile a lesson, two at a time since each takes seconds:
# C++20 with line information, and for the debugger with clang as the host
# compiler. No warning from either.
if(NOT MSVC)
  set(work "${CMAKE_BINARY_DIR}/hostile")
  file(WRITE "${work}/empty.cu" "int main() {}\n")
  find_program(LESSONS_CLANG clang++ DOC "clang as a host compiler of nvcc")
  set(clang_works 1)
  if(LESSONS_CLANG)
    execute_process(
      COMMAND ${CMAKE_CUDA_COMPILER} -ccbin=${LESSONS_CLANG} -c
        -o "${work}/empty.o" "${work}/empty.cu"
      RESULT_VARIABLE clang_works OUTPUT_QUIET ERROR_QUIET)
  endif()
  foreach(lesson IN LISTS lessons)
    string(REGEX MATCH "^(.*)\\|([0-9]+)$" ignored "${lesson}")
    set(source "${CMAKE_MATCH_1}")
    set(arch "${CMAKE_MATCH_2}")
    cmake_path(GET source STEM name)
    if(NOT arch IN_LIST LESSONS_TOOLKIT_ARCHS)
      continue()
    endif()
    set(compile ${CMAKE_CUDA_COMPILER} -arch=sm_${arch} -DLESSON_NO_CUB
      -Xcompiler=-Wall,-Wextra -Werror=all-warnings -c
      ${CMAKE_SOURCE_DIR}/${source})
    set(host "")
    if(CMAKE_CUDA_HOST_COMPILER)
      set(host -ccbin=${CMAKE_CUDA_HOST_COMPILER})
    endif()
    add_test(NAME hostile.cpp20-lineinfo.${name}
      COMMAND ${compile} ${host} -std=c++20 -O3 -lineinfo
        -o "${work}/${name}-20.o")
    if(clang_works EQUAL 0)
      add_test(NAME hostile.debug-clang.${name}
        COMMAND ${compile} -ccbin=${LESSONS_CLANG} -std=c++17 -g -G
          -Xcompiler=-Wno-unused-function  # cooperative_groups.h has some
          -o "${work}/${name}-g.o")
    else()
      skipped_test(hostile.debug-clang.${name}
        "no clang++ that this nvcc takes as its host compiler")
    endif()
  endforeach()
endif()
