# lesson(FOLDER/FILE.cu ARCH [DRAFT]): one lesson program and its test.
#
# Target and test: lesson.FILE; program: bin/FILE in the build folder. ARCH:
# the lowest architecture that the lesson needs, and the one it is compiled for
# unless the user names others. A lesson that cannot be compiled so is left out
# by name. DRAFT: the tests list what it lacks, and do not fail for it.

if(NOT LESSONS_TOOLKIT_ARCHS)
  execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --list-gpu-arch
    OUTPUT_VARIABLE listed COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "compute_[0-9]+" listed "${listed}")
  string(REPLACE "compute_" "" listed "${listed}")
  set(LESSONS_TOOLKIT_ARCHS "${listed}" CACHE INTERNAL "of this nvcc")
endif()

# The user's architectures, each one that this nvcc knows.
set(native "${CMAKE_CUDA_ARCHITECTURES_NATIVE}")
if("native" IN_LIST LESSONS_ARCHS AND NOT native MATCHES "[0-9]")
  message(FATAL_ERROR
    "CMAKE_CUDA_ARCHITECTURES=native needs a GPU on the machine that "
    "configures, and none was found. Name the architecture instead, for "
    "example -DCMAKE_CUDA_ARCHITECTURES=90.")
endif()
set(lessons_archs "${LESSONS_ARCHS}")
list(TRANSFORM lessons_archs REPLACE "^native$" "${native}")
list(TRANSFORM lessons_archs REPLACE "^all$" "${LESSONS_TOOLKIT_ARCHS}")
set(major "${LESSONS_TOOLKIT_ARCHS}")
list(FILTER major INCLUDE REGEX "0$|^75$")
list(TRANSFORM lessons_archs REPLACE "^all-major$" "${major}")
foreach(entry IN LISTS lessons_archs)
  string(REGEX MATCH "^([0-9]+)[af]?(-real|-virtual)?$" _ "${entry}")
  if(NOT CMAKE_MATCH_1 IN_LIST LESSONS_TOOLKIT_ARCHS)
    message(FATAL_ERROR
      "CMAKE_CUDA_ARCHITECTURES=${LESSONS_ARCHS}: CUDA "
      "${CMAKE_CUDA_COMPILER_VERSION} cannot compile for '${entry}'. It "
      "knows native, all, all-major and ${LESSONS_TOOLKIT_ARCHS}.")
  endif()
endforeach()

if(NOT CMAKE_CUDA_STANDARD)
  set(CMAKE_CUDA_STANDARD 17)
elseif(CMAKE_CUDA_STANDARD LESS 17)
  message(FATAL_ERROR
    "CMAKE_CUDA_STANDARD=${CMAKE_CUDA_STANDARD}: the lessons need 17.")
endif()
set(lessons_options "$<$<BOOL:${LESSONS_WERROR}>:-Werror=all-warnings>")
if(MSVC)  # which would have getenv_s for getenv
  list(APPEND lessons_options -D_CRT_SECURE_NO_WARNINGS
    "-Xcompiler=/W3,/Zc:preprocessor$<$<BOOL:${LESSONS_WERROR}>:,/WX>")
else()
  list(APPEND lessons_options "-Xcompiler=-Wall,-Wextra")
endif()
set(lessons_ccbin ${CMAKE_CUDA_HOST_COMPILER})
list(TRANSFORM lessons_ccbin PREPEND "-ccbin=")
if(lessons_ccbin MATCHES "clang")
  # cooperative_groups.h has static functions that nobody calls.
  list(APPEND lessons_options -Xcompiler=-Wno-unused-function)
endif()

# lesson_target(KIND NAME SOURCE [ARGUMENT...]): the program KIND.NAME, for the
# variable `archs`, and its test, where exit code 77 is a skip.
function(lesson_target kind name source)
  set(target ${kind}.${name})
  add_executable(${target} "${source}")
  target_compile_options(${target} PRIVATE ${lessons_options})
  set_target_properties(${target} PROPERTIES
    OUTPUT_NAME ${name} CUDA_ARCHITECTURES "${archs}"
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin"
    CUDA_STANDARD_REQUIRED ON CUDA_EXTENSIONS OFF)
  add_test(NAME ${target} COMMAND ${target} ${ARGN})
  set_tests_properties(${target} PROPERTIES
    LABELS ${kind} RUN_SERIAL ON TIMEOUT 300)
  if(NOT LESSONS_REQUIRE_GPU)
    set_tests_properties(${target} PROPERTIES SKIP_RETURN_CODE 77)
  endif()
endfunction()

function(lesson source arch)
  cmake_path(GET source PARENT_PATH folder)
  cmake_path(GET source STEM name)
  if(NOT arch IN_LIST LESSONS_TOOLKIT_ARCHS)
    message(STATUS
      "lesson ${name} left out: CUDA ${CMAKE_CUDA_COMPILER_VERSION} cannot "
      "compile for sm_${arch}; it knows ${LESSONS_TOOLKIT_ARCHS}")
    return()
  endif()
  set(archs ${lessons_archs})
  foreach(entry IN LISTS archs)
    string(REGEX MATCH "^[0-9]+" number "${entry}")
    if(number LESS arch)
      list(REMOVE_ITEM archs "${entry}")
    endif()
  endforeach()
  if(NOT lessons_archs)
    set(archs ${arch})
  elseif(NOT archs)
    message(STATUS
      "lesson ${name} left out: it needs sm_${arch} or newer, and "
      "CMAKE_CUDA_ARCHITECTURES is ${LESSONS_ARCHS}")
    return()
  endif()

  lesson_target(lesson ${name} ${source})
  if(LESSONS_CHECKS AND PROJECT_IS_TOP_LEVEL)
    lesson_target(yours ${name} ${source} yours)
    set_target_properties(yours.${name} PROPERTIES OUTPUT_NAME ${name}-yours
      COMPILE_DEFINITIONS "LESSON_YOURS;LESSON_NO_CUB;LESSON_QUICK")
  endif()
  set(archs ${arch} 90)  # machine code for the tests
  list(REMOVE_DUPLICATES archs)
  foreach(one IN LISTS archs)
    set(cubin "${PROJECT_BINARY_DIR}/cubin/${name}.sm_${one}.cubin")
    add_custom_command(OUTPUT "${cubin}"
      COMMAND ${CMAKE_CUDA_COMPILER} -std=c++17 -O3 -arch=sm_${one} -cubin
        -DLESSON_NO_CUB ${lessons_ccbin} -o "${cubin}" ${name}.cu
      WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}/${folder}"
      DEPENDS "${PROJECT_SOURCE_DIR}/${source}" VERBATIM
      COMMENT "Machine code of ${name} for sm_${one}")
    set_property(GLOBAL APPEND PROPERTY lessons_cubins "${cubin}")
  endforeach()
endfunction()
