# Recorded profiles of day 77: one launch of each row of part 1, and of each
# schedule and row length of part 2 over 2^27 floats.
set(n_bytes 536870912)
set(reads dram__bytes_read.sum)
set(sectors
  l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio)

rule(part1-loads-4-sectors KERNEL reduceBlockAtomic LAUNCHES EQUAL 2)
rule(part1-loads-4-sectors KERNEL "reduceBlockAtomic|reduceClusterDsm"
  METRIC ${sectors} EQUAL 4 WITHIN 1)
foreach(kernel copyVectors normaliseRowTwoReads)
  rule(part2-loads-16-sectors KERNEL ${kernel} LAUNCHES EQUAL 5)
  rule(part2-loads-16-sectors KERNEL ${kernel}
    METRIC ${sectors} EQUAL 16 WITHIN 1)
endforeach()

# Part 2: the matrix is read once and written once where a row stays in
# shared memory.
foreach(kernel copyVectors normaliseRowShared normaliseRowCluster)
  rule(reads-once KERNEL ${kernel} METRIC ${reads} EQUAL ${n_bytes} WITHIN 1)
endforeach()
rule(reads-once KERNEL normaliseRowCluster LAUNCHES AT_LEAST 5)

# 512 rows of 2^18 floats, 1 MiB each, and 1024 of half of that: with a block
# an SM, those in progress do not fit in the 60 MiB of L2 of the H200 of the
# profile, and at least a tenth of the matrix is read again.
rule(two-reads-read-more KERNEL normaliseRowTwoReads
  WHERE launch__grid_size 512 METRIC ${reads} AT_LEAST 590558003)
rule(two-reads-read-more KERNEL normaliseRowTwoReads
  WHERE launch__grid_size 1024 METRIC ${reads} AT_LEAST 590558003)

# Rows of 2^14 to 2^16 floats: those in progress fit in the L2.
foreach(rows 8192 4096 2048)
  rule(two-reads-once-in-l2 KERNEL normaliseRowTwoReads
    WHERE launch__grid_size ${rows} METRIC ${reads} EQUAL ${n_bytes} WITHIN 5)
endforeach()
