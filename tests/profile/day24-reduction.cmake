# Recorded profiles of day 24: one launch of each row over 2^24 - 611 floats,
# 256 threads a block.
set(sectors
  l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio)
set(conflicts l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum)
set(passes l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum)

# Sectors of 32 bytes a request of a warp.
foreach(kernel reduceAtomicGlobal reduceAtomicShared reduceInterleavedModulo
    reduceInterleavedStrided reduceSequential reduceSequentialTwoLoads
    reduceSequentialAtomic reduceShuffleAtomic reduceFinalAtomic)
  rule(loads-4-sectors KERNEL ${kernel} LAUNCHES EQUAL 1)
  rule(loads-4-sectors KERNEL ${kernel} METRIC ${sectors} EQUAL 4 WITHIN 0.1)
endforeach()
rule(copy-16-sectors KERNEL copyFloats METRIC ${sectors} EQUAL 16 WITHIN 0.1)

# Passes through the banks: 65,534 blocks times 94, 94 and 24 for the tree,
# and one more for the load of the block's sum. Other traffic meets the loads
# at the banks: in v4 of day 25, v3's tree, an H200 counts 2.2 % more passes
# than loads, and counts these as conflicts too. Hence 5 %.
rule(tree-bank-passes KERNEL reduceInterleavedModulo
  METRIC ${passes} EQUAL 6225730 WITHIN 5)
rule(tree-bank-passes KERNEL reduceInterleavedStrided
  METRIC ${passes} EQUAL 6225730 WITHIN 5)
rule(tree-bank-passes KERNEL reduceSequential
  METRIC ${passes} EQUAL 1638350 WITHIN 5)

# v2 has as many loads as v3 and as many passes as v1: 70 a block more.
rule(v2-bank-conflicts KERNEL reduceInterleavedStrided
  METRIC ${conflicts} EQUAL 4587380 WITHIN 5)
foreach(kernel reduceInterleavedModulo reduceSequential)
  value(all KERNEL ${kernel} METRIC ${passes})
  percent_of(few 5 ${all})
  rule(v2-bank-conflicts KERNEL ${kernel} METRIC ${conflicts} AT_MOST ${few})
endforeach()

# v0s: lanes leave the loop one after another. The trees only predicate.
set(active smsp__thread_inst_executed_per_inst_executed.ratio)
rule(v0s-lanes-leave KERNEL reduceAtomicShared METRIC ${active} AT_MOST 24)
foreach(kernel reduceInterleavedModulo reduceInterleavedStrided
    reduceSequential reduceSequentialTwoLoads)
  rule(trees-keep-their-lanes KERNEL ${kernel} METRIC ${active} AT_LEAST 31)
endforeach()
