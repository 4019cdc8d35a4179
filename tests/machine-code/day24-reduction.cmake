# Machine code of day 24.
# No row: fillInput
set(red "REDG?\\.")  # an atomic on global memory that brings no value back
set(trees "reduceInterleavedModulo;reduceInterleavedStrided;\
reduceSequential;reduceSequentialTwoLoads")
set(shuffling "reduceShuffleAtomic;reduceFinalAtomic")

rule(copy-16-byte-accesses KERNEL copyFloats COUNT "LDG[^ ]*\\.128" AT_LEAST 1)
rule(copy-16-byte-accesses KERNEL copyFloats COUNT "STG[^ ]*\\.128" AT_LEAST 1)

# v0: one atomic a thread, and nothing before or around it.
rule(v0-red-per-thread KERNEL reduceAtomicGlobal COUNT "${red}" EQUAL 1)
foreach(other "ATOM" "BAR\\." "SHFL" "REDUX" "MEMBAR")
  rule(v0-red-per-thread KERNEL reduceAtomicGlobal COUNT "${other}" EQUAL 0)
endforeach()

rule(v0s-shared-cas-loop KERNEL reduceAtomicShared
  LOOPS_AROUND "ATOMS\\.CAS" AT_LEAST 1)
rule(v0s-shared-cas-loop KERNEL reduceAtomicShared COUNT "${red}" EQUAL 1)

# An integer division starts with a reciprocal.
rule(v1-divides KERNEL reduceInterleavedModulo COUNT "MUFU\\.RCP" AT_LEAST 1)
foreach(kernel reduceInterleavedStrided reduceSequential
    reduceSequentialTwoLoads)
  rule(v1-divides KERNEL ${kernel} COUNT "MUFU\\.RCP" EQUAL 0)
endforeach()

foreach(kernel IN LISTS trees)
  rule(trees-predicated KERNEL ${kernel} PREDICATED "LDS" AT_LEAST 2)
  rule(trees-predicated KERNEL ${kernel} PREDICATED "STS" AT_LEAST 1)
endforeach()
foreach(kernel reduceSequentialAtomic ${trees} ${shuffling})
  rule(trees-loop-one-barrier KERNEL ${kernel} COUNT "BAR\\.SYNC" EQUAL 2)
  rule(trees-loop-one-barrier KERNEL ${kernel}
    LOOPS_AROUND "BAR\\.SYNC" EQUAL 1)
endforeach()

foreach(kernel reduceSequentialTwoLoads reduceFinalAtomic)
  rule(v4-two-loads-first KERNEL ${kernel} RUN "LDG" UNTIL "FADD" AT_LEAST 2)
endforeach()

foreach(kernel IN LISTS shuffling)
  rule(tail-five-shuffles KERNEL ${kernel} COUNT "SHFL" EQUAL 5)
endforeach()
foreach(kernel copyFloats reduceAtomicGlobal reduceAtomicShared
    reduceSequentialAtomic ${trees})
  rule(tail-five-shuffles KERNEL ${kernel} COUNT "SHFL" EQUAL 0)
endforeach()

foreach(kernel reduceSequentialAtomic ${shuffling})
  rule(atomic-finish-red KERNEL ${kernel} COUNT "${red}" EQUAL 1)
  rule(atomic-finish-red KERNEL ${kernel} COUNT "STG" EQUAL 0)
endforeach()
foreach(kernel IN LISTS trees)
  rule(atomic-finish-red KERNEL ${kernel} COUNT "RED|ATOM" EQUAL 0)
  rule(atomic-finish-red KERNEL ${kernel} COUNT "STG" EQUAL 1)
endforeach()

rule(no-local-memory KERNEL ALL COUNT "LDL|STL" EQUAL 0)
