# Recorded profiles of day 45: one launch of each row, 256 threads a block.
# The driver's figure for a row is the number of resident warps that its
# launch allows, which Nsight Compute works out from the same limits.
set(sectors
  l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio)
set(achieved sm__warps_active.avg.pct_of_peak_sustained_active)
set(driver sm__maximum_warps_per_active_cycle_pct)

rule(float-loads-4-sectors KERNEL "scaleAdd|scaleAddBounded|scaleAddGuarded"
  METRIC ${sectors} EQUAL 4 WITHIN 1)
rule(float4-loads-16-sectors KERNEL scaleAddVec
  METRIC ${sectors} EQUAL 16 WITHIN 1)

# Rows dialled to 1, 2 and 3 blocks of 8 warps, of the 64 warps of an SM. The
# driver's figure is an upper bound: a place stands empty while the last warps
# of its block end and the next block starts. The H200 of the recorded profile
# fills 73 to 91 % of it (three blocks of one load a thread: 27.7 of 37.5). So:
# never more, and more than one block fewer could fill; of a single block, four
# fifths.
set(dialled "scaleAdd|scaleAddGuarded|scaleAddVec")
foreach(row "12.5|5" "25|2" "37.5|1")
  string(REGEX MATCH "^(.*)\\|(.*)$" ignored "${row}")
  rule(achieved-occupancy KERNEL ${dialled} WHERE ${driver} ${CMAKE_MATCH_1}
    LAUNCHES EQUAL ${CMAKE_MATCH_2})
endforeach()
foreach(row "12.5|10" "25|12.5" "37.5|25")
  string(REGEX MATCH "^(.*)\\|(.*)$" ignored "${row}")
  rule(achieved-occupancy KERNEL ${dialled} WHERE ${driver} ${CMAKE_MATCH_1}
    METRIC ${achieved} AT_MOST ${CMAKE_MATCH_1})
  rule(achieved-occupancy KERNEL ${dialled} WHERE ${driver} ${CMAKE_MATCH_1}
    METRIC ${achieved} AT_LEAST ${CMAKE_MATCH_2})
endforeach()

# 8 bytes an element come from DRAM, in every row and for the suggestion.
set(all "scaleAdd|scaleAddBounded|scaleAddGuarded|scaleAddVec")
rule(dram-reads-8-bytes KERNEL ${all} LAUNCHES EQUAL 17)
rule(dram-reads-8-bytes KERNEL ${all}
  METRIC dram__bytes_read.sum EQUAL 134222616 WITHIN 1)
