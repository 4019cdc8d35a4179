# Shows, on the pairs of kernels in fixture.cu, that each measure finds what
# it should and that each rule can be broken.

rule(count KERNEL sumByShuffle COUNT "SHFL" EQUAL 5)
rule(count KERNEL sumByShuffle COUNT "SHFL" AT_LEAST 5)
rule(count KERNEL sumByShuffle COUNT "SHFL" AT_MOST 5)
rule(count KERNEL treeInLoop COUNT "SHFL" EQUAL 0)
broken_rule(count KERNEL treeInLoop COUNT "SHFL" AT_LEAST 1)
broken_rule(count KERNEL sumByShuffle COUNT "SHFL" EQUAL 4)
broken_rule(count KERNEL sumByShuffle COUNT "SHFL" AT_LEAST 6)
broken_rule(count KERNEL sumByShuffle COUNT "SHFL" AT_MOST 4)
broken_rule(count KERNEL noSuchKernel COUNT "SHFL" EQUAL 0)
broken_rule(count KERNEL sumByShuff COUNT "SHFL" EQUAL 0)

# The width of a load is a part of its name.
rule(wide KERNEL copyByFour COUNT "LDG[^ ]*\\.128" EQUAL 1)
broken_rule(wide KERNEL copyByOne COUNT "LDG[^ ]*\\.128" EQUAL 1)

# A template argument chooses one instance; ALL and EXCEPT choose many.
rule(chosen KERNEL treeUnrolled TEMPLATE 64 COUNT "BAR\\.SYNC" EQUAL 7)
rule(chosen KERNEL treeUnrolled TEMPLATE 256 COUNT "BAR\\.SYNC" EQUAL 9)
rule(chosen KERNEL treeUnrolled TEMPLATE _ COUNT "BAR\\.SYNC" AT_LEAST 7)
rule(chosen KERNEL treeUnrolled COUNT "BAR\\.SYNC" AT_LEAST 7)
broken_rule(chosen KERNEL treeUnrolled COUNT "BAR\\.SYNC" AT_LEAST 8)
broken_rule(chosen KERNEL treeUnrolled TEMPLATE 128
  COUNT "BAR\\.SYNC" AT_LEAST 0)
rule(chosen KERNEL treeUnrolled COUNT "BAR\\.SYNC" AT_MOST "@1 / 7")
broken_rule(chosen KERNEL treeUnrolled COUNT "BAR\\.SYNC" AT_MOST "@1 / 16")
rule(local KERNEL ALL EXCEPT arrayInMemory COUNT "LDL|STL" EQUAL 0)
broken_rule(local KERNEL ALL COUNT "LDL|STL" EQUAL 0)
rule(chosen KERNEL readNeighbour ARCH 90 COUNT "UCGABAR_ARV" AT_LEAST 1)
rule(chosen KERNEL noSuchKernel ARCH 1 COUNT "SHFL" EQUAL 0)

# The test of every element in guardALoad is a predicate on its loads.
rule(predicated KERNEL guardALoad PREDICATED "LDG" EQUAL 16)
rule(predicated KERNEL copyByOne PREDICATED "LDG" EQUAL 0)
broken_rule(predicated KERNEL guardATile PREDICATED "LDG" EQUAL 16)

# Loops with a barrier in them, and loops without.
rule(loops KERNEL treeInLoop LOOPS_AROUND "BAR\\.SYNC" EQUAL 1)
rule(loops KERNEL treeUnrolled LOOPS_AROUND "BAR\\.SYNC" EQUAL 0)
rule(loops KERNEL treeUnrolled LOOPS_AROUND "LDG" AT_LEAST 1)
broken_rule(loops KERNEL treeInLoop LOOPS_AROUND "BAR\\.SYNC" EQUAL 0)
broken_rule(loops KERNEL treeUnrolled LOOPS_AROUND "BAR\\.SYNC" AT_LEAST 1)

# Loads before the first arithmetic.
rule(together KERNEL guardATile BLOCK "LDG" UNTIL "FFMA" EQUAL 16)
broken_rule(together KERNEL guardALoad BLOCK "LDG" UNTIL "FFMA" EQUAL 16)
rule(together KERNEL guardALoad RUN "LDG" UNTIL "FFMA" AT_LEAST 2)
broken_rule(together KERNEL copyByOne RUN "LDG" UNTIL "FFMA" AT_LEAST 2)
broken_rule(together KERNEL guardATile BLOCK "LDG" UNTIL "LDG" AT_LEAST 2)

# Atomics: on global memory (RED, ATOM) and on shared memory (ATOMS).
rule(atomic KERNEL addGlobal COUNT "RED|ATOMG" EQUAL 1)
rule(atomic KERNEL addGlobal COUNT "ATOMS" EQUAL 0)
rule(atomic KERNEL addShared COUNT "ATOMS" AT_LEAST 1)
broken_rule(atomic KERNEL addGlobal COUNT "ATOMS" AT_LEAST 1)

# Clusters.
if(ARCH GREATER_EQUAL 90)
  rule(cluster KERNEL readNeighbour COUNT "UCGABAR_WAIT" AT_LEAST 2)
  rule(cluster KERNEL readNeighbour COUNT "MAPA|S2U?R[^,]*, SR_SWINHI"
    AT_LEAST 1)
  broken_rule(cluster KERNEL addShared COUNT "UCGABAR_WAIT" AT_LEAST 1)
  broken_rule(cluster KERNEL addShared COUNT "MAPA|S2U?R[^,]*, SR_SWINHI"
    AT_LEAST 1)
endif()

measure(shuffles KERNEL sumByShuffle COUNT "SHFL")
if(NOT shuffles EQUAL 5)
  fault("measure: ${shuffles} shuffles, not 5")
endif()
