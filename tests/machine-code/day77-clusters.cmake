# Machine code of day 77.
# No row: fillMatrix countWrong
set(cluster "reduceClusterDsm;normaliseRowCluster")
set(single "reduceBlockAtomic;normaliseRowTwoReads;normaliseRowShared")
# The address of another block's shared memory: MAPA, or, where the compiler
# spells it out, the window of shared memory in the generic address space.
set(remote "MAPA|S2U?R[^,]*, SR_SWINHI")

# Two barriers, each an arrival and a wait; a kernel without clusters has none.
foreach(kernel IN LISTS cluster)
  rule(cluster-barriers KERNEL ${kernel} COUNT "UCGABAR_ARV" AT_LEAST 2)
  rule(cluster-barriers KERNEL ${kernel} COUNT "UCGABAR_WAIT" AT_LEAST 2)
  rule(remote-shared-memory KERNEL ${kernel} COUNT "${remote}" AT_LEAST 1)
endforeach()
foreach(kernel IN LISTS single)
  rule(no-cluster-in-one-block KERNEL ${kernel} COUNT "UCGABAR" EQUAL 0)
  rule(no-cluster-in-one-block KERNEL ${kernel} COUNT "${remote}" EQUAL 0)
endforeach()

# One atomic a block or a cluster, by one thread.
foreach(kernel reduceBlockAtomic reduceClusterDsm)
  rule(one-atomic KERNEL ${kernel} COUNT "REDG?\\." EQUAL 1)
endforeach()

# Both barriers stand before the atomic. Each arrival has a fence before it,
# and the second one of a row stands before the row is written.
rule(atomic-after-barriers KERNEL reduceClusterDsm
  RUN "UCGABAR_ARV" UNTIL "REDG?\\." AT_LEAST 2)
foreach(kernel IN LISTS cluster)
  rule(arrival-waits-for-writes KERNEL ${kernel} COUNT "MEMBAR" AT_LEAST 2)
  rule(arrival-waits-for-writes KERNEL ${kernel}
    RUN "MEMBAR" UNTIL "UCGABAR_ARV" EQUAL 1)
endforeach()
rule(arrives-before-writing KERNEL normaliseRowCluster
  RUN "UCGABAR_ARV" UNTIL "STG" AT_LEAST 2)

rule(copy-16-byte-accesses KERNEL copyVectors COUNT "LDG[^ ]*\\.128" EQUAL 1)
rule(copy-16-byte-accesses KERNEL copyVectors COUNT "STG[^ ]*\\.128" EQUAL 1)
foreach(kernel normaliseRowShared normaliseRowCluster)
  rule(copies-16-bytes-asynchronous KERNEL ${kernel}
    COUNT "LDGSTS\\.E\\.BYPASS\\.128" AT_LEAST 1)
endforeach()
# The first read, with a policy; then the second, which is evicted first (EF).
rule(two-reads-loads-in-flight KERNEL normaliseRowTwoReads
  BLOCK "LDG\\.E\\.128" UNTIL "FADD" AT_LEAST 8)
rule(two-reads-loads-in-flight KERNEL normaliseRowTwoReads
  BLOCK "LDG\\.E\\.EF\\.128" UNTIL "FMUL" AT_LEAST 8)

rule(no-local-memory KERNEL ALL COUNT "LDL|STL" EQUAL 0)
