# Records what compute-sanitizer says of the lessons.
#
#   cmake [-DNVCC=nvcc] [-DSANITIZER=compute-sanitizer] [-DNVIDIA_SMI=...]
#         [-DONLY=FOLDER] [-DARCH=90] [-DJOBS=4] [-DWORK=DIR] [-DROOT=DIR]
#         -P cmake/sanitize.cmake
#
# JOBS: how many tools run at a time.
# Writes evidence/LESSON/sanitizer-DATE-GPU-sm_XX.txt: for each tool its
# command, its ERROR SUMMARY and LEAK SUMMARY lines and its exit status. The
# lessons are built with -DLESSON_QUICK, small inputs and every check.
cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/evidence-file.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/programs.cmake")
default(NVCC nvcc)
default(SANITIZER compute-sanitizer)
default(NVIDIA_SMI nvidia-smi)
default(WORK "${ROOT}/build/sanitizer-work")
default(JOBS 1)  # side by side they slow each other down

file(REMOVE_RECURSE "${WORK}")
evidence_start()

build_lessons("${WORK}" lessons -DLESSON_QUICK -lineinfo)

set(tools "memcheck --leak-check full" racecheck synccheck initcheck)
foreach(lesson IN LISTS lessons)
  lesson_parts("${lesson}")
  foreach(tool IN LISTS tools)
    separate_arguments(arguments UNIX_COMMAND "${tool}")
    list(GET arguments 0 short)
    add_run("${WORK}/run" "${name}.${short}" 600
      ${CMAKE_COMMAND} -E chdir "${WORK}/${name}"
      "${SANITIZER}" --tool ${arguments} --error-exitcode 1 "./${name}")
  endforeach()
endforeach()
build_programs("${WORK}/run" ${JOBS})

foreach(lesson IN LISTS lessons)
  lesson_parts("${lesson}")
  set(work "${WORK}/${name}")
  set(body "")
  set(clean TRUE)
  foreach(tool IN LISTS tools)
    string(REGEX REPLACE " .*" "" short "${tool}")
    program_status("${WORK}/run" "${name}.${short}" status said)
    string(APPEND body "compute-sanitizer --tool ${tool} ./${name}\n")
    string(REGEX MATCHALL "=========[^\n]*SUMMARY[^\n]*" lines "${said}")
    foreach(line IN LISTS lines)
      string(APPEND body "${line}\n")
    endforeach()
    string(APPEND body "exit status ${status}\n\n")
    message("sanitizer: ${folder}, ${tool}: exit status ${status}")
    if(NOT status EQUAL 0 OR "${lines}" STREQUAL "")
      set(clean FALSE)
      string(SUBSTRING "${said}" 0 4000 said)
      message(NOTICE "${said}")
      fault("${folder}: ${tool}: exit status ${status}")
    endif()
  endforeach()
  if(NOT clean)
    message("  ${folder}: nothing recorded")
    continue()
  endif()
  write_text("${work}/body" body)
  cubin_sha256("${work}/${name}.cubin" "${name}" ev_cubin-sha256)
  set(ev_compile-command "nvcc -std=c++17 -O3 -arch=sm_${arch} -DLESSON_QUICK -lineinfo -o ${name} ${name}.cu")
  set(ev_run-command "compute-sanitizer --tool ... ./${name}")
  evidence_sms(said)
  evidence_record(
    "evidence/${folder}/sanitizer-${today}-${slug}-sm_${arch}.txt"
    "${work}/body")
endforeach()
stop_on_faults("sanitizer: these are not clean")
