# Recorded profiles of day 77: one launch of each row of part 1, and of each
# schedule and row length of part 2 over 2^27 floats.
set(n_bytes 536870912)
set(reads dram__bytes_read.sum)
set(writes dram__bytes_write.sum)

# Part 2: the matrix is read once and written once where a row stays in
# shared memory.
foreach(kernel copyVectors normaliseRowShared normaliseRowCluster)
  rule(reads-once KERNEL ${kernel} METRIC ${reads} EQUAL ${n_bytes} WITHIN 2)
endforeach()
rule(reads-once KERNEL normaliseRowCluster LAUNCHES AT_LEAST 5)

# Rows of 2^17 and 2^18 floats, 1024 and 512 of them: those in progress do not
# fit in the L2, so the second read goes to DRAM.
foreach(rows 1024 512)
  rule(two-reads-read-more KERNEL normaliseRowTwoReads
    WHERE launch__grid_size ${rows} METRIC ${reads} AT_LEAST 700000000)
endforeach()
