# Recorded profiles of day 24: one launch of each row over 2^24 - 611 floats,
# 256 threads a block.
set(sectors
  l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio)
set(active smsp__thread_inst_executed_pred_on_per_inst_executed.ratio)
set(conflicts l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum)
set(adds l1tex__t_requests_pipe_lsu_mem_global_op_red.sum)
set(rows reduceAtomicGlobal reduceAtomicShared reduceInterleavedModulo
  reduceInterleavedStrided reduceSequential reduceSequentialTwoLoads
  reduceSequentialAtomic reduceShuffleAtomic reduceFinalAtomic)

# In v1 fewer lanes of a warp work, for each instruction, than in v3.
value(v3_active KERNEL reduceSequential METRIC ${active})
percent_of(fewer 90 ${v3_active})
rule(v1-diverges KERNEL reduceInterleavedModulo METRIC ${active}
  AT_MOST ${fewer})

# v2 has bank conflicts; what is counted of v1 and v3 is less than a
# hundredth of it.
value(v2_conflicts KERNEL reduceInterleavedStrided METRIC ${conflicts})
percent_of(hundredth 1 ${v2_conflicts})
rule(v2-bank-conflicts KERNEL reduceInterleavedStrided METRIC ${conflicts}
  AT_LEAST 1000000)
foreach(kernel reduceInterleavedModulo reduceSequential)
  rule(v2-bank-conflicts KERNEL ${kernel} METRIC ${conflicts}
    AT_MOST ${hundredth})
endforeach()

# Sectors of 32 bytes a request of a warp.
foreach(kernel IN LISTS rows)
  rule(loads-4-sectors KERNEL ${kernel} LAUNCHES EQUAL 1)
  rule(loads-4-sectors KERNEL ${kernel} METRIC ${sectors} EQUAL 4 WITHIN 0.1)
endforeach()
rule(copy-16-sectors KERNEL copyFloats METRIC ${sectors} EQUAL 16 WITHIN 0.1)

# Atomics on global memory: one request a warp in v0, one a block in the other
# rows. 16,776,605 elements are 524,270 warps and 65,535 blocks of 256.
rule(atomics-a-thread-or-a-block KERNEL reduceAtomicGlobal
  METRIC ${adds} EQUAL 524270)
foreach(kernel reduceAtomicShared reduceSequentialAtomic reduceShuffleAtomic)
  rule(atomics-a-thread-or-a-block KERNEL ${kernel} METRIC ${adds} EQUAL 65535)
endforeach()
rule(atomics-a-thread-or-a-block KERNEL reduceFinalAtomic
  METRIC ${adds} EQUAL 32768)
