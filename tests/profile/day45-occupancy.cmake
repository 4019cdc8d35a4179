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

# Rows dialled to 1, 2 and 3 blocks of 8 warps, of the 64 warps of an SM.
set(dialled "scaleAdd|scaleAddGuarded|scaleAddVec")
foreach(row "12.5|5" "25|2" "37.5|1")
  string(REGEX MATCH "^(.*)\\|(.*)$" ignored "${row}")
  rule(achieved-occupancy KERNEL ${dialled} WHERE ${driver} ${CMAKE_MATCH_1}
    LAUNCHES EQUAL ${CMAKE_MATCH_2})
endforeach()
foreach(percent 12.5 25 37.5)
  rule(achieved-occupancy KERNEL ${dialled} WHERE ${driver} ${percent}
    METRIC ${achieved} EQUAL ${percent} WITHIN 10)
endforeach()
