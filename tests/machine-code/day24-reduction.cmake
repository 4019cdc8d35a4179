# Machine code of day 24.
set(red "REDG?\\.")  # an atomic on global memory that brings no value back
set(partials "reduceInterleavedModulo;reduceInterleavedStrided;\
reduceSequential;reduceSequentialTwoLoads")
set(shuffling "reduceShuffleAtomic;reduceFinalAtomic")

# v0: one atomic a thread, without an answer, and nothing shared.
rule(v0-red-a-thread KERNEL reduceAtomicGlobal COUNT "${red}" EQUAL 1)
rule(v0-red-a-thread KERNEL reduceAtomicGlobal COUNT "ATOM" EQUAL 0)
rule(v0-red-a-thread KERNEL reduceAtomicGlobal COUNT "BAR\\." EQUAL 0)

# v0s: the threads meet in shared memory, where adding a float is a loop of
# compare-and-swap; one atomic of the block follows.
rule(v0s-atomic-shared KERNEL reduceAtomicShared
  LOOPS_AROUND "ATOMS\\.CAS" AT_LEAST 1)
rule(v0s-atomic-shared KERNEL reduceAtomicShared COUNT "${red}" EQUAL 1)

# v1 to v4 leave their sums without an atomic; the last rows add them.
foreach(kernel IN LISTS partials)
  rule(v1-to-v4-no-atomic KERNEL ${kernel} COUNT "RED|ATOM" EQUAL 0)
endforeach()
foreach(kernel reduceSequentialAtomic ${shuffling})
  rule(one-atomic-a-block KERNEL ${kernel} COUNT "${red}" EQUAL 1)
endforeach()

# v1 divides to find the working threads, v2 and v3 do not.
rule(v1-divides KERNEL reduceInterleavedModulo COUNT "MUFU\\.RCP" AT_LEAST 1)
foreach(kernel reduceInterleavedStrided reduceSequential)
  rule(v1-divides KERNEL ${kernel} COUNT "MUFU\\.RCP" EQUAL 0)
endforeach()

# v4: both loads are issued before the first addition.
foreach(kernel reduceSequentialTwoLoads reduceFinalAtomic)
  rule(v4-two-loads-first KERNEL ${kernel} RUN "LDG" UNTIL "FADD" AT_LEAST 2)
endforeach()

# The last five levels in registers: five shuffles, and none elsewhere.
foreach(kernel IN LISTS shuffling)
  rule(tail-shuffles KERNEL ${kernel} COUNT "SHFL" AT_LEAST 5)
endforeach()
foreach(kernel reduceSequentialAtomic ${partials})
  rule(tail-shuffles KERNEL ${kernel} COUNT "SHFL" EQUAL 0)
endforeach()

rule(copy-128-bit KERNEL copyFloats COUNT "LDG[^ ]*\\.128" AT_LEAST 1)
rule(copy-128-bit KERNEL copyFloats COUNT "STG[^ ]*\\.128" AT_LEAST 1)
rule(no-local-memory KERNEL ALL COUNT "LDL|STL" EQUAL 0)
