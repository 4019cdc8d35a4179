# Records what Nsight Compute counts in each row of the lessons.
#
#   cmake [-DNVCC=nvcc] [-DNCU=ncu] [-DNVIDIA_SMI=nvidia-smi] [-DONLY=FOLDER]
#         [-DARCH=90] [-DWORK=DIR] [-DROOT=DIR] -P cmake/profile.cmake
#
# Writes evidence/LESSON/profile-DATE-GPU-sm_XX.csv: the usual header, then
# the table of ncu --csv --page raw, a launch a line, less the columns that are
# not asked for here (ncu adds hundreds). The lessons mark what is
# recorded: they call cudaProfilerStart before and cudaProfilerStop after one
# launch of each row, at full size. Clocks are left alone; ncu empties the
# caches before each pass. ARCH: instead of each lesson's own.
#
# tests/profile/LESSON.cmake says what the numbers must be.
cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/evidence-file.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/programs.cmake")
default(NVCC nvcc)
default(NCU ncu)
default(NVIDIA_SMI nvidia-smi)
default(WORK "${ROOT}/build/profile-work")

set(metrics
  gpu__time_duration.sum
  launch__block_size
  launch__grid_size
  launch__cluster_size
  launch__registers_per_thread
  launch__shared_mem_per_block_dynamic
  launch__shared_mem_per_block_static
  launch__occupancy_limit_blocks
  launch__occupancy_limit_registers
  launch__occupancy_limit_shared_mem
  launch__occupancy_limit_warps
  sm__maximum_warps_per_active_cycle_pct
  sm__warps_active.avg.pct_of_peak_sustained_active
  dram__bytes_read.sum
  dram__bytes_write.sum
  lts__t_sectors_op_write.sum
  l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio
  l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_st.ratio
  l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum
  l1tex__t_requests_pipe_lsu_mem_global_op_red.sum
  l1tex__t_requests_pipe_lsu_mem_local_op_ld.sum
  l1tex__t_requests_pipe_lsu_mem_local_op_st.sum
  l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum
  l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum
  l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum
  smsp__inst_executed.sum
  smsp__thread_inst_executed_per_inst_executed.ratio
  smsp__thread_inst_executed_pred_on_per_inst_executed.ratio
  smsp__sass_average_branch_targets_threads_uniform.pct)
set(columns ID "Kernel Name" "Block Size" "Grid Size" CC ${metrics})
string(REPLACE ";" "," metrics "${metrics}")

# keep_columns(csv): leaves only `columns` in the table in variable `csv`.
function(keep_columns csv_name)
  set(csv "${${csv_name}}")
  list_safe(csv)
  set(kept "")
  set(places "")
  while(NOT csv STREQUAL "")
    take_line(csv line)
    string(REGEX MATCHALL "\"[^\"]*\"" cells "${line}")
    if("${places}" STREQUAL "")
      foreach(column IN LISTS columns)
        list(FIND cells "\"${column}\"" place)
        if(NOT place EQUAL -1)
          list(APPEND places ${place})
        endif()
      endforeach()
    endif()
    list(GET cells ${places} cells)
    list(JOIN cells "," line)
    string(APPEND kept "${line}\n")
  endwhile()
  set(${csv_name} "${kept}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE "${WORK}")
evidence_start()

build_lessons("${WORK}" lessons)

list(LENGTH lessons left)
foreach(lesson IN LISTS lessons)
  lesson_parts("${lesson}")
  set(work "${WORK}/${name}")
  math(EXPR left "${left} - 1")
  message("profile: ${folder}, ${left} left after it")
  file(READ "${work}/${name}.cu" text)
  if(NOT text MATCHES "cudaProfilerStart")
    fault("${folder}: ${name}.cu does not mark what to record: call cudaProfilerStart() before and cudaProfilerStop() after the checked launch of each row (<cuda_profiler_api.h>)")
    continue()
  endif()

  execute_process(
    COMMAND "${NCU}" --clock-control none --profile-from-start off
      --metrics "${metrics}" --force-overwrite -o profile "./${name}"
    WORKING_DIRECTORY "${work}" RESULT_VARIABLE status
    OUTPUT_VARIABLE said ERROR_VARIABLE said)
  set(ran "${said}")
  if(NOT status EQUAL 0)
    string(LENGTH "${said}" length)
    if(length GREATER 3000)
      math(EXPR length "${length} - 3000")
      string(SUBSTRING "${said}" ${length} -1 said)
    endif()
    message(NOTICE "${said}")
    fault("${folder}: ncu or the lesson ended with status ${status}; nothing recorded")
    continue()
  endif()
  execute_process(
    COMMAND "${NCU}" --import profile.ncu-rep --csv --page raw
      --print-units base
    WORKING_DIRECTORY "${work}" RESULT_VARIABLE status
    OUTPUT_FILE "${work}/profile.csv" ERROR_VARIABLE said)
  if(NOT status EQUAL 0)
    fault("${folder}: ncu --import ended with status ${status}: ${said}")
    continue()
  endif()
  file(READ "${work}/profile.csv" text)
  string(FIND "${text}" "\"ID\"," at)
  if(at EQUAL -1)
    fault("${folder}: ncu recorded no launch: ${text}")
    continue()
  endif()
  string(SUBSTRING "${text}" ${at} -1 text)  # a warning may stand before it
  keep_columns(text)
  write_text("${work}/body" text)

  execute_process(COMMAND "${NCU}" --version OUTPUT_VARIABLE said)
  set(ncu "ncu")
  if(said MATCHES "Version ([0-9.]+)")
    set(ncu "ncu (${CMAKE_MATCH_1})")
  endif()
  cubin_sha256("${work}/${name}.cubin" "${name}" ev_cubin-sha256)
  set(ev_compile-command
    "nvcc -std=c++17 -O3 -arch=sm_${arch} -o ${name} ${name}.cu")
  set(ev_run-command "${ncu} --clock-control none --profile-from-start off --metrics ... ./${name}")
  evidence_sms(ran)
  evidence_record("evidence/${folder}/profile-${today}-${slug}-sm_${arch}.csv"
    "${work}/body")
endforeach()
stop_on_faults("profile: not every lesson could be recorded")
