# cmake -DCASE=NAME -DROOT=DIR -DBUILD=DIR -DCTEST=CTEST -DNVCC=NVCC
#   -DWORK=DIR -P workflow.cmake
# What the build does with lessons that cannot run or cannot be compiled
# here. CUDA_VISIBLE_DEVICES is emptied, so a GPU changes nothing.
cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/../says.cmake")

set(ENV{CUDA_VISIBLE_DEVICES} "")
file(REMOVE_RECURSE "${WORK}")

# configure(STATUS TEXT [args...]): configures into WORK; the exit status is
# STATUS (0 or fail) and the output contains TEXT.
function(configure expected text)
  execute_process(
    COMMAND ${CMAKE_COMMAND} -S "${ROOT}" -B "${WORK}"
      "-DCMAKE_CUDA_COMPILER=${NVCC}" -DCMAKE_BUILD_TYPE=Release ${ARGN}
    RESULT_VARIABLE status
    OUTPUT_VARIABLE output
    ERROR_VARIABLE output)
  says("${output}" "${text}" reported)
  if(expected STREQUAL "fail")
    set(as_expected NOT status EQUAL 0)
  else()
    set(as_expected status EQUAL 0)
  endif()
  if(NOT (${as_expected}) OR NOT reported)
    message(FATAL_ERROR
      "configure ${ARGN}: expected ${expected} and `${text}`, got status "
      "${status} and\n${output}")
  endif()
endfunction()

function(targets_without name)
  execute_process(
    COMMAND ${CMAKE_COMMAND} --build "${WORK}" --target help
    OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
  if(NOT output MATCHES "reduction_1" AND NOT name STREQUAL "reduction_1")
    message(FATAL_ERROR "reduction_1 is not a target:\n${output}")
  endif()
  if(output MATCHES "[ .]${name}[\n:]")
    message(FATAL_ERROR "${name} is still a target:\n${output}")
  endif()
endfunction()

if(CASE STREQUAL "skip-shown")
  # The lessons of this build, without a GPU to see: skipped, not passed.
  execute_process(
    COMMAND ${CTEST} --test-dir "${BUILD}" -R "^lesson\\." --no-tests=error
    RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  file(READ "${BUILD}/CTestTestfile.cmake" tests)
  if(tests MATCHES "SKIP_RETURN_CODE \"77\"")
    if(NOT status EQUAL 0 OR NOT output MATCHES "\\*\\*\\*Skipped"
        OR NOT output MATCHES "The following tests did not run")
      message(FATAL_ERROR "status ${status}:\n${output}")
    endif()
  elseif(status EQUAL 0)
    message(FATAL_ERROR "a GPU is required, yet a skip passed:\n${output}")
  endif()
elseif(CASE STREQUAL "require-gpu")
  configure(0 "" -DLESSONS_REQUIRE_GPU=ON)
  execute_process(
    COMMAND ${CMAKE_COMMAND} --build "${WORK}" --target reduction_1
    OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
  execute_process(
    COMMAND ${CTEST} --test-dir "${WORK}" -R "^lesson\\.reduction_1$"
      --no-tests=error
    RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(status EQUAL 0 OR NOT output MATCHES "\\*\\*\\*Failed")
    message(FATAL_ERROR "a skip did not fail (${status}):\n${output}")
  endif()
elseif(CASE STREQUAL "toolkit-lacks-arch")
  file(WRITE "${WORK}/toolkit.cmake"
    "set(LESSONS_TOOLKIT_ARCHS \"75;80\" CACHE INTERNAL \"\")\n")
  configure(0 "lesson cluster_reduction left out: CUDA"
    -C "${WORK}/toolkit.cmake")
  targets_without(cluster_reduction)
elseif(CASE STREQUAL "arch-too-low")
  configure(0 "lesson cluster_reduction left out: it needs sm_90 or newer"
    -DLESSONS_ARCH=80)
  targets_without(cluster_reduction)
elseif(CASE STREQUAL "arch-override")
  configure(0 "" -DLESSONS_ARCH=90 -DCMAKE_EXPORT_COMPILE_COMMANDS=ON
    -DCMAKE_CUDA_ARCHITECTURES=80)
  file(READ "${WORK}/compile_commands.json" commands)
  if(NOT commands MATCHES "compute_90" OR commands MATCHES "compute_75|80")
    message(FATAL_ERROR "LESSONS_ARCH=90 is not what compiles:\n${commands}")
  endif()
elseif(CASE STREQUAL "native-without-gpu")
  configure(fail "LESSONS_ARCH=native needs a GPU" -DLESSONS_ARCH=native)
elseif(CASE STREQUAL "bad-arch")
  configure(fail "is not an architecture" -DLESSONS_ARCH=hopper)
  configure(fail "cannot compile for sm_35" -DLESSONS_ARCH=35)
else()
  message(FATAL_ERROR "unknown CASE=${CASE}")
endif()
