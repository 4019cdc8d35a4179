# Records evidence: runs every lesson that this machine can run and keeps what
# it printed, bound to the source, the machine code and the machine.
#
# Usage: cmake [-DLESSONS=folder/file.cu|75,...] [-DNVCC=nvcc]
#          [-DNVIDIA_SMI=nvidia-smi] [-DWORK=DIR] [-DGIT_COMMIT=HASH
#          -DGIT_DIRTY=yes|no] [-DROOT=DIR] -P cmake/evidence.cmake
#        cmake -DCHECK=ON ... -P cmake/evidence.cmake    (evidence-check.cmake)
#
# Without LESSONS: those of CMakeLists.txt, each for its own architecture, and
# day 25 for sm_90 too. A lesson's `Verified:` line is brought up to date
# before its file is compiled, so that the recorded source says what was
# recorded. A run that fails is never recorded and stops the script.
cmake_minimum_required(VERSION 3.25)
if(CHECK)
  include("${CMAKE_CURRENT_LIST_DIR}/evidence-check.cmake")
  return()
endif()
include("${CMAKE_CURRENT_LIST_DIR}/evidence-file.cmake")

default(NVCC nvcc)
default(NVIDIA_SMI nvidia-smi)
default(WORK "${ROOT}/build/evidence-work")
string(REPLACE "," ";" LESSONS "${LESSONS}")
lessons_listed("${ROOT}" listed)
if(LESSONS STREQUAL "")
  set(LESSONS ${listed} "day25-reduction/reduction_2.cu|90")
endif()

file(REMOVE_RECURSE "${WORK}")
evidence_start()

list(LENGTH LESSONS count)
set(step 0)
set(recorded 0)
foreach(lesson IN LISTS LESSONS)
  math(EXPR step "${step} + 1")
  lesson_parts("${lesson}")
  set(file "evidence/${folder}/run-${today}-${slug}-sm_${arch}.txt")
  message(STATUS "evidence ${step}/${count}: ${source} for sm_${arch}")

  # The lesson alone in a folder of its own, as a student has it.
  set(work "${WORK}/${name}-sm_${arch}")
  file(MAKE_DIRECTORY "${work}")
  read_text("${ROOT}/${source}" "${source}" text ok)
  stop_on_faults("evidence: nothing was recorded")
  if(lesson IN_LIST listed)  # the architecture that the header speaks of
    string(REGEX MATCH "[0-9]+\\.[0-9]+" cuda "${ev_nvcc-version}")
    set(verified "")
    set(row "// Verified:")
    foreach(part IN ITEMS "${ev_gpu}," "compute capability ${ev_compute-capability},"
        "driver ${ev_driver}," "CUDA ${cuda}," "${today}," "${file}")
      string(LENGTH "${row} ${part}" width)
      if(width GREATER 79)
        string(APPEND verified "${row}\n")
        set(row "//  ")
      endif()
      string(APPEND row " ${part}")
    endforeach()
    string(APPEND verified "${row}\n")
    string(FIND "${text}" "\n// Verified:" at)
    if(at EQUAL -1)
      message(FATAL_ERROR "${source}: no line '// Verified:' in its header")
    endif()
    math(EXPR at "${at} + 1")
    string(SUBSTRING "${text}" 0 ${at} head)
    string(SUBSTRING "${text}" ${at} -1 rest)
    take_line(rest line)
    while(rest MATCHES "^//  ")
      take_line(rest line)
    endwhile()
    set(text "${head}${verified}${rest}")
  endif()
  write_text("${work}/${name}.cu" text)

  set(flags -std=c++17 -O3 -arch=sm_${arch})
  execute_process(
    COMMAND "${NVCC}" ${flags} -cubin -o ${name}.cubin ${name}.cu
    COMMAND_ECHO NONE WORKING_DIRECTORY "${work}" COMMAND_ERROR_IS_FATAL ANY)
  execute_process(
    COMMAND "${NVCC}" ${flags} -o ${name} ${name}.cu
    WORKING_DIRECTORY "${work}" COMMAND_ERROR_IS_FATAL ANY)
  string(TIMESTAMP now "%Y-%m-%dT%H:%M:%SZ" UTC)
  execute_process(
    COMMAND "${work}/${name}" WORKING_DIRECTORY "${work}"
    OUTPUT_FILE "${work}/output" ERROR_FILE "${work}/output"
    RESULT_VARIABLE status)
  if(status EQUAL 77)
    file(READ "${work}/output" said)
    message(NOTICE "${said}${source}: this machine cannot run it, nothing was recorded")
    continue()
  elseif(NOT status EQUAL 0)
    file(READ "${work}/output" said)
    message(NOTICE "${said}")
    message(FATAL_ERROR
      "${source}: exit status ${status}; a failed run is not evidence")
  endif()

  file(READ "${work}/output" said)
  take_line(said line)
  if(NOT line MATCHES "^(.+), compute capability ([0-9.]+), ([0-9]+) SMs")
    message(FATAL_ERROR "${source}: the first line names no GPU: ${line}")
  endif()
  if(NOT CMAKE_MATCH_1 STREQUAL ev_gpu OR
      NOT CMAKE_MATCH_2 STREQUAL ev_compute-capability)
    message(FATAL_ERROR
      "${source} ran on '${line}', nvidia-smi describes '${ev_gpu}': set "
      "CUDA_VISIBLE_DEVICES to the one to record")
  endif()
  set(ev_sms "${CMAKE_MATCH_3}")
  if(NOT now MATCHES "^${today}")
    message(FATAL_ERROR "midnight (UTC) passed; start again")
  endif()

  # The source that ran becomes the source of the tree.
  file(SHA256 "${ROOT}/${source}" before)
  file(SHA256 "${work}/${name}.cu" after)
  if(NOT before STREQUAL after)
    file(COPY_FILE "${work}/${name}.cu" "${ROOT}/${source}")
    set(ev_git-dirty yes)
  endif()
  cubin_sha256("${work}/${name}.cubin" "${name}" ev_cubin-sha256)
  set(ev_compile-command
    "nvcc -std=c++17 -O3 -arch=sm_${arch} -o ${name} ${name}.cu")
  set(ev_run-command "./${name}")
  set(ev_date-utc "${now}")
  evidence_record("${file}" "${work}/output")
  math(EXPR recorded "${recorded} + 1")
endforeach()
if(recorded EQUAL 0)
  message(FATAL_ERROR "evidence: this machine could run no lesson")
endif()
message(STATUS "evidence: ${recorded} of ${count} recorded. Next: the targets `charts` and `weave`.")
