# lesson(FOLDER/FILE.cu ARCH): one lesson program and its test.
#
# Target and executable: FILE, in bin/ of the build folder. Test:
# lesson.FILE, labels `lesson` and the day. ARCH is the lowest architecture
# that the lesson needs; LESSONS_ARCH replaces it. A lesson that this toolkit
# or LESSONS_ARCH cannot serve is left out with a message.
# Global property LESSONS: a list of 'FOLDER/FILE.cu|ARCH', left-out ones too.

# What this nvcc can compile for, as "75;80;...".
if(NOT LESSONS_TOOLKIT_ARCHS)
  execute_process(
    COMMAND ${CMAKE_CUDA_COMPILER} --list-gpu-arch
    OUTPUT_VARIABLE listed
    COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "compute_[0-9]+" listed "${listed}")
  list(TRANSFORM listed REPLACE "compute_" "")
  set(LESSONS_TOOLKIT_ARCHS "${listed}" CACHE INTERNAL
    "architectures that nvcc --list-gpu-arch names")
endif()

# The architectures to compile for where LESSONS_ARCH is set.
set(lessons_arch_numbers "${LESSONS_ARCH}")
if(LESSONS_ARCH STREQUAL "native")
  string(REGEX MATCHALL "[0-9]+" lessons_arch_numbers
    "${CMAKE_CUDA_ARCHITECTURES_NATIVE}")
  if(NOT lessons_arch_numbers)
    message(FATAL_ERROR
      "LESSONS_ARCH=native needs a GPU on the machine that configures, and "
      "none was found. Name the architecture instead, for example "
      "-DLESSONS_ARCH=90.")
  endif()
endif()
foreach(arch IN LISTS lessons_arch_numbers)
  if(NOT arch MATCHES "^[0-9]+$")
    message(FATAL_ERROR
      "LESSONS_ARCH=${LESSONS_ARCH}: '${arch}' is not an architecture. Use "
      "native or numbers such as 75 or 90.")
  endif()
  if(NOT arch IN_LIST LESSONS_TOOLKIT_ARCHS)
    message(FATAL_ERROR
      "LESSONS_ARCH=${LESSONS_ARCH}: CUDA ${CMAKE_CUDA_COMPILER_VERSION} "
      "cannot compile for sm_${arch}. It knows: ${LESSONS_TOOLKIT_ARCHS}.")
  endif()
endforeach()

# The machine code that the tests read.
if(LESSONS_CHECKS)
  add_custom_target(cubins ALL)
else()
  add_custom_target(cubins)
endif()

function(lesson source arch)
  cmake_path(GET source PARENT_PATH folder)
  cmake_path(GET source STEM name)
  set_property(GLOBAL APPEND PROPERTY LESSONS "${source}|${arch}")

  set(archs ${arch})
  if(lessons_arch_numbers)
    set(archs ${lessons_arch_numbers})
  endif()
  foreach(one IN LISTS archs)
    if(one LESS arch)
      message(STATUS
        "lesson ${name} left out: it needs sm_${arch} or newer, and "
        "LESSONS_ARCH asks for sm_${one}")
      return()
    endif()
    if(NOT one IN_LIST LESSONS_TOOLKIT_ARCHS)
      message(STATUS
        "lesson ${name} left out: CUDA ${CMAKE_CUDA_COMPILER_VERSION} cannot "
        "compile for sm_${one}; try -DLESSONS_ARCH=... with one of "
        "${LESSONS_TOOLKIT_ARCHS}")
      return()
    endif()
  endforeach()

  add_executable(${name} ${source})
  set_target_properties(${name} PROPERTIES
    CUDA_ARCHITECTURES "${archs}"
    CUDA_STANDARD 17
    CUDA_STANDARD_REQUIRED ON
    CUDA_EXTENSIONS OFF
    RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
  if(MSVC)
    # MSVC would have getenv_s for getenv.
    target_compile_definitions(${name} PRIVATE _CRT_SECURE_NO_WARNINGS)
    target_compile_options(${name} PRIVATE
      "-Xcompiler=/W3,/Zc:preprocessor"
      $<$<BOOL:${LESSONS_WERROR}>:-Werror=all-warnings -Xcompiler=/WX>)
  else()
    set(warnings "-Wall,-Wextra")
    if(CMAKE_CUDA_HOST_COMPILER MATCHES "clang")
      # cooperative_groups.h has static functions that nobody calls.
      string(APPEND warnings ",-Wno-unused-function")
    endif()
    target_compile_options(${name} PRIVATE
      "-Xcompiler=${warnings}"
      $<$<BOOL:${LESSONS_WERROR}>:-Werror=all-warnings>)
  endif()

  string(REGEX MATCH "^day[0-9]+" day "${folder}")
  add_test(NAME lesson.${name} COMMAND ${name})
  set_tests_properties(lesson.${name} PROPERTIES
    LABELS "lesson;${day}" RUN_SERIAL ON TIMEOUT 300)
  if(NOT LESSONS_REQUIRE_GPU)
    # Exit code 77: this machine cannot run the lesson.
    set_tests_properties(lesson.${name} PROPERTIES SKIP_RETURN_CODE 77)
  endif()

  set(cubin_archs ${arch} 90)
  list(REMOVE_DUPLICATES cubin_archs)
  foreach(one IN LISTS cubin_archs)
    if(one IN_LIST LESSONS_TOOLKIT_ARCHS)
      set(cubin "${CMAKE_BINARY_DIR}/cubin/${name}.sm_${one}.cubin")
      add_custom_command(
        OUTPUT "${cubin}"
        COMMAND ${CMAKE_COMMAND} -E make_directory
          "${CMAKE_BINARY_DIR}/cubin"
        COMMAND ${CMAKE_CUDA_COMPILER} -std=c++17 -O3 -arch=sm_${one} -cubin
          $<$<BOOL:${CMAKE_CUDA_HOST_COMPILER}>:-ccbin=${CMAKE_CUDA_HOST_COMPILER}>
          -o "${cubin}" ${name}.cu
        WORKING_DIRECTORY "${CMAKE_SOURCE_DIR}/${folder}"
        DEPENDS "${CMAKE_SOURCE_DIR}/${source}"
        COMMENT "Machine code of ${name} for sm_${one}"
        VERBATIM COMMAND_EXPAND_LISTS)
      add_custom_target(cubin.${name}.sm_${one} DEPENDS "${cubin}")
      add_dependencies(cubins cubin.${name}.sm_${one})
    endif()
  endforeach()
endfunction()
