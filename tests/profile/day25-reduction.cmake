# Recorded profiles of day 25: one launch of each row over 2^26 floats. v8 is
# a launch of reduceVectorized, as v7, and one block of reduceUnrolled.
set(n_bytes 268435456)
set(reads dram__bytes_read.sum)
set(sectors
  l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio)
set(requests l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum)
set(v6 KERNEL reduceUnrolled WHERE launch__grid_size 1024)

# Each row once, v7 twice. (The copy is compared with its input within the
# marks, by a kernel that no rule names.)
foreach(kernel copyFloats reduceSequentialTwoLoads reduceCascaded
    reduceShuffleTail reduceVectorizedAtomic reduceLastBlock reduceInFlight
    DeviceReduceKernel)
  rule(dram-reads-4n KERNEL ${kernel} LAUNCHES EQUAL 1)
  rule(dram-reads-4n KERNEL ${kernel} METRIC ${reads} EQUAL ${n_bytes} WITHIN 1)
endforeach()
rule(dram-reads-4n ${v6} LAUNCHES EQUAL 1)
rule(dram-reads-4n ${v6} METRIC ${reads} EQUAL ${n_bytes} WITHIN 1)
rule(dram-reads-4n KERNEL reduceVectorized LAUNCHES EQUAL 2)
rule(dram-reads-4n KERNEL reduceVectorized
  METRIC ${reads} EQUAL ${n_bytes} WITHIN 1)

value(v6_requests ${v6} METRIC ${requests})
percent_of(quarter 25 ${v6_requests})
rule(v7-quarter-of-loads KERNEL reduceVectorized
  METRIC ${requests} EQUAL ${quarter} WITHIN 1)

foreach(kernel reduceSequentialTwoLoads reduceCascaded reduceShuffleTail)
  rule(scalar-loads-4-sectors KERNEL ${kernel} METRIC ${sectors} EQUAL 4)
endforeach()
rule(scalar-loads-4-sectors ${v6} METRIC ${sectors} EQUAL 4)

foreach(kernel copyFloats reduceVectorized reduceVectorizedAtomic
    reduceLastBlock reduceInFlight)
  rule(float4-loads-16-sectors KERNEL ${kernel}
    METRIC ${sectors} EQUAL 16 WITHIN 1)
endforeach()
