# A lesson file with CRLF line ends, alone in a read-only folder: it compiles,
# and compiling leaves nothing there.
#
#   cmake -DSOURCE=FILE.cu -DWORK=DIR -DNVCC=nvcc -DARCH=75
#         -P tests/hostile/alone.cmake
cmake_minimum_required(VERSION 3.25)

execute_process(COMMAND chmod -R u+w "${WORK}" ERROR_QUIET)
file(REMOVE_RECURSE "${WORK}")
cmake_path(GET SOURCE FILENAME name)
file(READ "${SOURCE}" text)
string(REPLACE "\n" "\r\n" text "${text}")
file(WRITE "${WORK}/read-only/${name}" "${text}")
file(READ "${WORK}/read-only/${name}" bytes LIMIT 500 HEX)
if(NOT bytes MATCHES "0d0a")
  message(FATAL_ERROR "the copy has no CRLF line ends: this proves nothing")
endif()
file(MAKE_DIRECTORY "${WORK}/out")
file(CHMOD "${WORK}/read-only/${name}" PERMISSIONS OWNER_READ)
file(CHMOD "${WORK}/read-only" PERMISSIONS OWNER_READ OWNER_EXECUTE)
execute_process(
  COMMAND "${NVCC}" -std=c++17 -O3 -arch=sm_${ARCH} -DLESSON_NO_CUB
    -Xcompiler=-Wall,-Wextra -Werror=all-warnings
    -o "${WORK}/out/program" ${name}
  WORKING_DIRECTORY "${WORK}/read-only" RESULT_VARIABLE status)
file(GLOB left RELATIVE "${WORK}/read-only" "${WORK}/read-only/*")
file(CHMOD "${WORK}/read-only" PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "nvcc ended with status ${status}")
endif()
if(NOT left STREQUAL name)
  message(FATAL_ERROR "compiling left in the read-only folder: ${left}")
endif()
