# Shows on fixture.csv, numbers made up for the purpose, that a rule holds and
# breaks where it should.
set(occupancy sm__warps_active.avg.pct_of_peak_sustained_active)
set(most sm__maximum_warps_per_active_cycle_pct)

rule(bytes KERNEL sumOne METRIC dram__bytes_read.sum EQUAL 67108864 WITHIN 1)
broken_rule(bytes KERNEL sumOne
  METRIC dram__bytes_read.sum EQUAL 67108864 WITHIN 0.01)
rule(bytes KERNEL "sumOne|sumMany"
  METRIC dram__bytes_read.sum EQUAL 67108864 WITHIN 2)
broken_rule(bytes KERNEL "sumOne|sumMany"
  METRIC dram__bytes_read.sum EQUAL 67108864 WITHIN 1)
broken_rule(bytes KERNEL sum METRIC dram__bytes_read.sum AT_LEAST 0.001)
broken_rule(bytes KERNEL sumOne METRIC no__such_metric.sum AT_LEAST 1)
broken_rule(bytes KERNEL sumMany METRIC no_value AT_LEAST 1)

rule(decimals KERNEL sumOne METRIC ratio.ratio EQUAL 3.875)
broken_rule(decimals KERNEL sumOne METRIC ratio.ratio EQUAL 3.874)
rule(decimals KERNEL sumOne METRIC ratio.ratio AT_LEAST 3.875)
broken_rule(decimals KERNEL sumOne METRIC ratio.ratio AT_LEAST 3.876)
rule(decimals KERNEL sumOne METRIC ratio.ratio AT_MOST 3.875)
broken_rule(decimals KERNEL sumOne METRIC ratio.ratio AT_MOST 3.874)
broken_rule(decimals KERNEL sumOne METRIC ratio.ratio AT_LEAST 0)

rule(chosen KERNEL sumMany TEMPLATE 256 LAUNCHES EQUAL 2)
rule(chosen KERNEL sumMany TEMPLATE 256 4 LAUNCHES EQUAL 1)
broken_rule(chosen KERNEL sumMany TEMPLATE 25 LAUNCHES EQUAL 2)
rule(chosen KERNEL sumMany WHERE launch__grid_size 1056 LAUNCHES EQUAL 1)
rule(chosen KERNEL sumMany TEMPLATE 256 8 METRIC ratio.ratio EQUAL 16)
broken_rule(chosen KERNEL sumMany TEMPLATE 512 METRIC ratio.ratio EQUAL 16)

rule(column KERNEL sumOne METRIC ${occupancy} EQUAL @${most} WITHIN 10)
broken_rule(column KERNEL sumMany METRIC ${occupancy} EQUAL @${most} WITHIN 10)

value(one KERNEL sumOne METRIC ratio.ratio)
percent_of(half 50 ${one})
rule(value KERNEL sumOne METRIC ratio.ratio AT_LEAST ${half})
if(NOT half STREQUAL "1.937")
  fault("percent_of: ${half}, not 1.937")
endif()
