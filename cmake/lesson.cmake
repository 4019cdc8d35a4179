# lesson(FOLDER/FILE.cu ARCH [DRAFT]): one lesson program and its test.
#
# Target and test: lesson.FILE; program: bin/FILE in the build folder; labels
# of the test: `lesson` and the day. ARCH: the lowest architecture that the
# lesson needs, and the one it is compiled for unless the user names others. A
# lesson that cannot be compiled so is left out by name. DRAFT: the tests list
# what the lesson lacks, and do not fail for it.

if(NOT LESSONS_TOOLKIT_ARCHS)
  execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --list-gpu-arch
    OUTPUT_VARIABLE listed COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "compute_[0-9]+" listed "${listed}")
  string(REPLACE "compute_" "" listed "${listed}")
  set(LESSONS_TOOLKIT_ARCHS "${listed}" CACHE INTERNAL "of this nvcc")
endif()

# The user's architectures, each one that this nvcc knows.
set(lessons_archs "")
foreach(entry IN LISTS LESSONS_ARCHS)
  if(entry STREQUAL "native")
    set(entry ${CMAKE_CUDA_ARCHITECTURES_NATIVE})
    if(NOT entry MATCHES "[0-9]")
      message(FATAL_ERROR
        "CMAKE_CUDA_ARCHITECTURES=native needs a GPU on the machine that "
        "configures, and none was found. Name the architecture instead, for "
        "example -DCMAKE_CUDA_ARCHITECTURES=90.")
    endif()
  elseif(entry STREQUAL "all")
    set(entry ${LESSONS_TOOLKIT_ARCHS})
  elseif(entry STREQUAL "all-major")
    set(entry 75 ${LESSONS_TOOLKIT_ARCHS})
    list(FILTER entry INCLUDE REGEX "^75$|0$")
    list(REMOVE_DUPLICATES entry)
  endif()
  list(APPEND lessons_archs ${entry})
endforeach()
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
set(ccbin "")
if(CMAKE_CUDA_HOST_COMPILER)
  set(ccbin "-ccbin=${CMAKE_CUDA_HOST_COMPILER}")
  if(CMAKE_CUDA_HOST_COMPILER MATCHES "clang")
    # cooperative_groups.h has static functions that nobody calls.
    list(APPEND lessons_options -Xcompiler=-Wno-unused-function)
  endif()
endif()

# Machine code for the tests, and each lesson with its row `yours`.
set(lessons_all "")
if(LESSONS_CHECKS)
  set(lessons_all ALL)
endif()
if(PROJECT_IS_TOP_LEVEL)
  add_custom_target(cubins ${lessons_all})
endif()

# lesson_program(TARGET NAME SOURCE): for the variable `archs`.
function(lesson_program target name source)
  add_executable(${target} "${source}")
  target_compile_options(${target} PRIVATE ${lessons_options})
  set_target_properties(${target} PROPERTIES
    OUTPUT_NAME ${name} CUDA_ARCHITECTURES "${archs}"
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin"
    CUDA_STANDARD_REQUIRED ON CUDA_EXTENSIONS OFF)
endfunction()

# lesson_test(TARGET LABELS [ARGUMENT...]): exit code 77 is a skip.
function(lesson_test target labels)
  add_test(NAME ${target} COMMAND ${target} ${ARGN})
  set_tests_properties(${target} PROPERTIES
    LABELS "${labels}" RUN_SERIAL ON TIMEOUT 300)
  if(NOT LESSONS_REQUIRE_GPU)
    set_tests_properties(${target} PROPERTIES SKIP_RETURN_CODE 77)
  endif()
endfunction()

function(lesson source arch)
  cmake_path(GET source PARENT_PATH folder)
  cmake_path(GET source STEM name)
  string(REGEX MATCH "^day[0-9]+" day "${folder}")

  if(NOT arch IN_LIST LESSONS_TOOLKIT_ARCHS)
    message(STATUS
      "lesson ${name} left out: CUDA ${CMAKE_CUDA_COMPILER_VERSION} cannot "
      "compile for sm_${arch}; it knows ${LESSONS_TOOLKIT_ARCHS}")
    return()
  endif()
  set(archs ${lessons_archs})
  if(NOT archs)
    set(archs ${arch})
  endif()
  foreach(entry IN LISTS archs)
    string(REGEX MATCH "^[0-9]+" number "${entry}")
    if(number LESS arch)
      list(REMOVE_ITEM archs "${entry}")
    endif()
  endforeach()
  if(NOT archs)
    message(STATUS
      "lesson ${name} left out: it needs sm_${arch} or newer, and "
      "CMAKE_CUDA_ARCHITECTURES is ${LESSONS_ARCHS}")
    return()
  endif()

  lesson_program(lesson.${name} ${name} ${source})
  lesson_test(lesson.${name} "lesson;${day}")
  if(NOT PROJECT_IS_TOP_LEVEL)
    return()
  endif()
  if(LESSONS_CHECKS)
    lesson_program(yours.${name} ${name}-yours ${source})
    target_compile_definitions(yours.${name} PRIVATE
      LESSON_YOURS LESSON_NO_CUB LESSON_QUICK)
    if(LESSONS_REQUIRE_GPU)
      lesson_test(yours.${name} "${day}" yours)
    endif()
  endif()
  set(cubin_archs ${arch} 90)
  list(REMOVE_DUPLICATES cubin_archs)
  foreach(one IN LISTS cubin_archs)
    set(cubin "${PROJECT_BINARY_DIR}/cubin/${name}.sm_${one}.cubin")
    add_custom_command(OUTPUT "${cubin}"
      COMMAND ${CMAKE_COMMAND} -E make_directory "${PROJECT_BINARY_DIR}/cubin"
      COMMAND ${CMAKE_CUDA_COMPILER} -std=c++17 -O3 -arch=sm_${one} -cubin
        -DLESSON_NO_CUB ${ccbin} -o "${cubin}" ${name}.cu
      WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}/${folder}"
      DEPENDS "${PROJECT_SOURCE_DIR}/${source}" VERBATIM
      COMMENT "Machine code of ${name} for sm_${one}")
    add_custom_target(cubin.${name}.sm_${one} DEPENDS "${cubin}")
    add_dependencies(cubins cubin.${name}.sm_${one})
  endforeach()
endfunction()
