# Runs the lessons in hostile surroundings on a machine with a GPU, and
# records how each run ended.
#
#   cmake [-DNVCC=nvcc] [-DNVIDIA_SMI=nvidia-smi] [-DONLY=FOLDER] [-DRUNS=100]
#         [-DJOBS=8] [-DFULL=8] [-DWORK=DIR] [-DROOT=DIR]
#         -P cmake/hostile.cmake
#
# Writes evidence/LESSON/hostile-DATE-GPU.txt. RUNS: how often in a row each
# lesson is run, JOBS at a time. Those runs, and the two at once, are built
# with -DLESSON_QUICK: every check, small inputs. FULL: how often each is run
# at full size, JOBS at a time too. Needs a POSIX shell. What needs no GPU is
# in tests/hostile/.
cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/evidence-file.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/programs.cmake")
default(NVCC nvcc)
default(NVIDIA_SMI nvidia-smi)
default(WORK "${ROOT}/build/hostile-work")
default(RUNS 100)
default(JOBS 8)
default(FULL 8)

file(REMOVE_RECURSE "${WORK}")
evidence_start()
string(REPLACE "." "" capability "${ev_compute-capability}")

add_program("${WORK}" fill_card "${NVCC}" -std=c++17 -O3 -arch=native
  -o "${WORK}/fill_card" "${ROOT}/tests/hostile/fill_card.cu")
lessons_listed("${ROOT}" listed)
foreach(lesson IN LISTS listed)
  lesson_parts("${lesson}")
  if(ONLY AND NOT folder STREQUAL ONLY)
    continue()
  endif()
  set(compile "${NVCC}" -std=c++17 -O3 -arch=native -DLESSON_QUICK
    -DLESSON_NO_CUB)
  add_program("${WORK}" "${name}-quick" ${compile}
    -o "${WORK}/${name}-quick.exe" "${ROOT}/${source}")
  # The lesson as it would be on a card that is too old for it.
  file(READ "${ROOT}/${source}" text)
  string(REGEX REPLACE "openDevice\\([ \n]*[0-9]+, [0-9]+," "openDevice(99, 0,"
    text "${text}")
  file(WRITE "${WORK}/${name}-later.cu" "${text}")
  add_program("${WORK}" "${name}-later" ${compile}
    -o "${WORK}/${name}-later.exe" "${WORK}/${name}-later.cu")
endforeach()
build_lessons("${WORK}" lessons)
list(LENGTH lessons left)
math(EXPR left "9 * ${left}")

# run(what wanted text command): one run through the shell, in the lesson's
# folder. It must end with status `wanted` and say `text`.
function(run what wanted text command)
  execute_process(COMMAND sh -c "${command}" WORKING_DIRECTORY "${work}"
    RESULT_VARIABLE status OUTPUT_VARIABLE said ERROR_VARIABLE said
    TIMEOUT 600)
  string(REGEX MATCH "(SKIPPED|FAILED|All |[0-9]+ failures)[^\n]*" line "${said}")
  set(body "${body}${what}\n  ${command}\n  exit status ${status}: ${line}\n"
    PARENT_SCOPE)
  string(FIND "${said}" "${text}" at)
  if(NOT status STREQUAL wanted OR at EQUAL -1)
    set(clean FALSE PARENT_SCOPE)
    fault("${folder}: ${what}: status ${status}, wanted ${wanted} and '${text}':\n${said}")
  endif()
  math(EXPR left "${left} - 1")
  set(left ${left} PARENT_SCOPE)
  message("hostile: ${folder}: ${what}: status ${status}, ${left} left")
endfunction()

# many_runs(count what program): JOBS at a time, and each must end with 0.
macro(many_runs count what program)
  run("${count} ${what}, ${JOBS} at a time" 0 "0 failures"
    "rm -f failed; seq ${count} | xargs -P ${JOBS} -I % sh -c \
'${program} >run.% 2>&1 || echo % >>failed'; \
if test -e failed; then wc -l <failed; exit 1; else echo 0 failures; fi")
endmacro()

foreach(lesson IN LISTS lessons)
  lesson_parts("${lesson}")
  set(work "${WORK}/${name}")
  set(quick "../${name}-quick.exe")
  set(body "")
  set(clean TRUE)
  run("no device visible" 77 "offers no GPU"
    "CUDA_VISIBLE_DEVICES= ./${name}")
  run("a device that does not exist" 77 "offers no GPU"
    "CUDA_VISIBLE_DEVICES=99 ./${name}")
  # The driver may hold code that it has compiled before: no cache.
  set(no_ptx "CUDA_DISABLE_PTX_JIT=1 CUDA_CACHE_DISABLE=1")
  if(arch LESS capability)
    run("built for sm_${arch}, PTX switched off" 77 "Rebuild with -arch="
      "${no_ptx} ./${name}")
  else()
    run("built for sm_${arch}, PTX switched off" 0 "All "
      "${no_ptx} ${quick}")
  endif()
  run("a lesson for compute capability 99.0" 77 "needs 99.0 or newer"
    "../${name}-later.exe")
  # Enough for the program to start, and not even that.
  run("a card with 800 MB free" 77 "MB free" "../fill_card 800 ./${name}")
  run("a card with 100 MB free" 77 "SKIPPED" "../fill_card 100 ./${name}")
  run("twice at once" 0 "All "
    "${quick} >1.txt 2>&1 & ${quick} >2.txt 2>&1; a=$?; wait $!; b=$?; \
cat 1.txt 2.txt; exit $((a + b))")
  many_runs(${RUNS} "runs in a row" ${quick})
  many_runs(${FULL} "runs at full size" ./${name})
  if(NOT clean)
    message("  ${folder}: nothing recorded")
    continue()
  endif()
  write_text("${work}/body" body)
  cubin_sha256("${work}/${name}.cubin" "${name}" ev_cubin-sha256)
  set(ev_compile-command
    "nvcc -std=c++17 -O3 -arch=sm_${arch} -o ${name} ${name}.cu")
  set(ev_run-command "see each run")
  file(READ "${work}/1.txt" said)
  evidence_sms(said)
  evidence_record("evidence/${folder}/hostile-${today}-${slug}.txt"
    "${work}/body")
endforeach()
stop_on_faults("hostile: these did not end as they must")
