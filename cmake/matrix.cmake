# Compiles every lesson with several toolkits and host compilers and writes
# research/BUILD-MATRIX.md. For maintainers; needs no GPU, takes minutes.
#
# Usage: cmake "-DNVCCS=/path/nvcc;..." ["-DHOSTS=g++;clang++"]
#          [-DCUDA12=DIR -DCLANG=clang++-16] [-DWORK=DIR] -P cmake/matrix.cmake
#
# CUDA12: include/ and bin/ptxas of a CUDA 12.0 toolkit, with nvvm/libdevice,
# for which CLANG is the CUDA compiler: where no nvcc of 12.x is at hand, this
# shows that the lessons use nothing that 12.0 lacks.
cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/evidence-file.cmake")
default(HOSTS "g++;clang++")
default(WORK "${ROOT}/build/matrix")
if(NOT NVCCS)
  message(FATAL_ERROR "NVCCS: name at least one nvcc")
endif()
file(MAKE_DIRECTORY "${WORK}")

set(warnings -Werror all-warnings
  -Xcompiler -Wall,-Wextra,-Wshadow,-Wformat-security)
lessons_listed("${ROOT}" lessons)
list(LENGTH lessons all)
string(TIMESTAMP today "%Y-%m-%d" UTC)
find_program(GIT git)
set(commit "unknown")
if(GIT)
  execute_process(COMMAND ${GIT} -C "${ROOT}" rev-parse --short=12 HEAD
    OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE
    COMMAND_ERROR_IS_FATAL ANY)
  execute_process(
    COMMAND ${GIT} -C "${ROOT}" status --porcelain -- "day*/*.cu"
    OUTPUT_VARIABLE changed COMMAND_ERROR_IS_FATAL ANY)
  if(changed)
    message(FATAL_ERROR "commit the lessons first:\n${changed}")
  endif()
endif()

# first_line(result command...): the first line that a command prints.
function(first_line result)
  execute_process(COMMAND ${ARGN} OUTPUT_VARIABLE said
    COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX REPLACE "\n.*" "" said "${said}")
  string(REGEX REPLACE "^[^ ]*/" "" said "${said}")
  set(${result} "${said}" PARENT_SCOPE)
endfunction()

# row(toolkit host standard kind command...): compiles every lesson by the
# command, in which @SOURCE@ and @ARCH@ stand for its file and its own
# architecture, and appends a row to `rows`. What the compiler said of those
# that fail goes to the property `reasons`.
set(rows "")
function(row toolkit host standard kind)
  set(failed "")
  set(built 0)
  foreach(lesson IN LISTS lessons)
    lesson_parts("${lesson}")
    string(REPLACE "@SOURCE@" "${ROOT}/${source}" command "${ARGN}")
    string(REPLACE "@ARCH@" "${arch}" command "${command}")
    execute_process(COMMAND ${command} WORKING_DIRECTORY "${WORK}"
      RESULT_VARIABLE status OUTPUT_VARIABLE said ERROR_VARIABLE said)
    if(status EQUAL 0 AND said STREQUAL "")
      math(EXPR built "${built} + 1")
      continue()
    endif()
    string(APPEND failed " ${name}")
    string(REGEX MATCH "[^\n]*(error|warning|unsupported)[^\n]*" why "${said}")
    message(STATUS "  ${name}: exit status ${status}: ${why}")
    string(REGEX REPLACE "^[^ ]*/" "" why "${why}")
    get_property(reasons GLOBAL PROPERTY reasons)
    string(FIND "${reasons}" "- ${name}: `${why}`\n" at)
    if(at EQUAL -1)
      set_property(GLOBAL APPEND_STRING PROPERTY reasons
        "- ${name}: `${why}`\n")
    endif()
  endforeach()
  set(answer "${built} of ${all}")
  if(failed)
    string(APPEND answer ", not${failed}")
  endif()
  string(APPEND rows
    "| ${toolkit} | ${host} | ${standard} | ${kind} | ${answer} |\n")
  set(rows "${rows}" PARENT_SCOPE)
endfunction()

list(LENGTH NVCCS nvccs)
list(LENGTH HOSTS hosts)
math(EXPR steps "${nvccs} * (${hosts} * 4 + 1)")
if(CUDA12)
  math(EXPR steps "${steps} + 2")
endif()
set(step 0)
foreach(nvcc IN LISTS NVCCS)
  execute_process(COMMAND "${nvcc}" --version OUTPUT_VARIABLE said
    COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCH "V([0-9.]+)" _ "${said}")
  set(toolkit "nvcc ${CMAKE_MATCH_1}")
  foreach(host IN LISTS HOSTS)
    first_line(host_version "${host}" --version)
    set(quiet "")
    if(host_version MATCHES "clang")
      # Clang sees the unused functions that cooperative_groups.h holds.
      set(quiet -Xcompiler -Wno-unused-function)
    endif()
    foreach(standard IN ITEMS 17 20)
      foreach(kind IN ITEMS Release Debug)
        math(EXPR step "${step} + 1")
        message(STATUS "matrix ${step}/${steps}: ${toolkit}, ${host}, "
          "C++${standard}, ${kind}")
        set(flags -O3)
        if(kind STREQUAL "Debug")
          set(flags -g -G)
        endif()
        row("${toolkit}" "${host_version}" "C++${standard}"
          "${kind}, each lesson's own"
          "${nvcc}" -std=c++${standard} ${flags} -arch=sm_@ARCH@ -ccbin ${host}
          ${warnings} ${quiet} -o program @SOURCE@)
      endforeach()
    endforeach()
  endforeach()

  # What the lessons of the oldest architectures become on the newest.
  math(EXPR step "${step} + 1")
  message(STATUS "matrix ${step}/${steps}: ${toolkit}, newer architectures")
  list(GET HOSTS 0 host)
  first_line(host_version "${host}" --version)
  foreach(arch IN ITEMS 100 120)
    row("${toolkit}" "${host_version}" "C++17" "Release, sm_${arch}"
      "${nvcc}" -std=c++17 -O3 -arch=sm_${arch} -ccbin ${host} ${warnings}
      -o program @SOURCE@)
  endforeach()
endforeach()

if(CUDA12)
  first_line(clang_version "${CLANG}" --version)
  file(READ "${CUDA12}/include/cuda.h" text)
  string(REGEX MATCH "#define CUDA_VERSION ([0-9]+)" _ "${text}")
  math(EXPR major "${CMAKE_MATCH_1} / 1000")
  math(EXPR minor "${CMAKE_MATCH_1} % 1000 / 10")
  # What nvcc declares by itself and this clang does not; and the little that
  # day 25 uses of the toolkit's libraries, as CUDA 12.0 declares it.
  file(WRITE "${WORK}/shim/shim.h"
    "#include <cuda_runtime.h>\n"
    "#define __CUDA_INCLUDE_COMPILER_INTERNAL_HEADERS__\n"
    "#include <crt/sm_90_rt.h>\n"
    "template <typename T> __device__ T __ldcg(const T* p) { return *p; }\n"
    "template <typename T> __device__ T __ldcs(const T* p) { return *p; }\n"
    "template <typename T> __device__ void __stcs(T* p, T v) { *p = v; }\n")
  file(WRITE "${WORK}/shim/cub/device/device_reduce.cuh"
    "#pragma once\n"
    "namespace cub { struct DeviceReduce {\n"
    "template <typename In, typename Out>\n"
    "static cudaError_t Sum(void*, size_t&, In, Out, int,\n"
    "                       cudaStream_t = 0) { return cudaSuccess; } }; }\n")
  file(WRITE "${WORK}/shim/cuda/atomic"
    "#pragma once\n"
    "namespace cuda {\n"
    "enum memory_order { memory_order_acq_rel };\n"
    "enum thread_scope { thread_scope_device };\n"
    "template <typename T, thread_scope> struct atomic_ref {\n"
    "  __host__ __device__ explicit atomic_ref(T& object) : at(&object) {}\n"
    "  __host__ __device__ T fetch_add(T add, memory_order) const {\n"
    "    T old = *at; *at += add; return old; }\n"
    "  T* at; };\n"
    "__host__ __device__ inline void atomic_thread_fence(\n"
    "    memory_order, thread_scope) {} }\n")
  foreach(side IN ITEMS host device)
    math(EXPR step "${step} + 1")
    message(STATUS "matrix ${step}/${steps}: CUDA ${major}.${minor}, ${side}")
    row("headers of CUDA ${major}.${minor}, no nvcc" "${clang_version}"
      "C++17" "types checked only, ${side} side"
      "${CLANG}" -x cuda -std=c++17 -fsyntax-only
      "--cuda-path=${CUDA12}" --cuda-gpu-arch=sm_90 --cuda-${side}-only
      -D_CG_HAS_CLUSTER_GROUP -Wall -Wextra -Werror
      -Wno-unknown-cuda-version -isystem "${WORK}/shim"
      -isystem "${CUDA12}/include" -include shim.h @SOURCE@)
  endforeach()
endif()

string(REPLACE ";" " " warnings "${warnings}")
get_property(reasons GLOBAL PROPERTY reasons)
if(reasons)
  set(reasons "\nWhat the compilers said first:\n\n${reasons}")
endif()
file(CONFIGURE OUTPUT "${ROOT}/research/BUILD-MATRIX.md" NEWLINE_STYLE LF
  @ONLY CONTENT [=[
# What the lessons were built with

Written by `cmake/matrix.cmake` on @today@, from commit @commit@, on Linux
x86-64. Each lesson was compiled and linked by

    nvcc -std=c++STANDARD FLAGS -arch=sm_XX -ccbin HOST -o PROGRAM LESSON.cu
      @warnings@

where FLAGS is `-O3` for Release and `-g -G` for Debug, and sm_XX is the
lesson's own architecture where the table names no other. With clang
`-Wno-unused-function` was added: cooperative_groups.h holds functions that a
program may leave unused. A warning is a failure. The last column counts the
lessons that were built.

| toolkit | host compiler | standard | build | built |
|---|---|---|---|---|
@rows@@reasons@
What the table does not show:

- No nvcc of CUDA 12.x took part. Its headers did, where the table says so:
  the types of all that the lessons call were checked against them, with
  clang's front end, with stand-ins for what day 25 uses of cub and cuda/atomic
  and for the intrinsics that this clang lacks, and no code was made. The
  workflow `ci.yml` builds the lessons with nvcc 12.0 in a container.
- Windows with MSVC is built by `ci.yml` only.
- Nothing here ran. What ran, and on which card, is in
  [evidence](../evidence/).
]=])
message(STATUS "wrote research/BUILD-MATRIX.md")
