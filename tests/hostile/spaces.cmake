# A source folder and a build folder with spaces: the project configures, one
# lesson builds and runs as anywhere else.
#
#   cmake -DROOT=DIR -DWORK=DIR -DLESSON=NAME -DNVCC=nvcc -DCTEST=ctest
#         -P tests/hostile/spaces.cmake
cmake_minimum_required(VERSION 3.25)

file(REMOVE_RECURSE "${WORK}")
set(source "${WORK}/the lessons (copy)")
set(build "${WORK}/a build folder")
file(GLOB parts "${ROOT}/*.txt" "${ROOT}/*.json" "${ROOT}/*.md"
  "${ROOT}/day*" "${ROOT}/cmake" "${ROOT}/tests" "${ROOT}/research"
  "${ROOT}/evidence")
file(COPY ${parts} DESTINATION "${source}")
execute_process(
  COMMAND ${CMAKE_COMMAND} -S "${source}" -B "${build}"
    "-DCMAKE_CUDA_COMPILER=${NVCC}" -DLESSONS_WERROR=ON
  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
execute_process(
  COMMAND ${CMAKE_COMMAND} --build "${build}" --target ${LESSON}
  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
# Skipped or passed: both are no failure.
execute_process(
  COMMAND ${CTEST} --test-dir "${build}" -R "^lesson\\.${LESSON}$"
    --no-tests=error
  COMMAND_ERROR_IS_FATAL ANY)
