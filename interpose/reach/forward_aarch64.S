/* One stub for each function of NCCL under both of its names. It asks cinchForwardTarget(index of
 * the name, return address) for the real function and jumps there with the arguments untouched. The
 * nccl names are weak: where Cinch has an entry point, that one is linked. */
  .text
  .set index, 0

#define CINCH_NCCL_NAME(name) \
  .weak nccl##name; \
  .type nccl##name, %function; \
  .globl pnccl##name; \
  .type pnccl##name, %function; \
nccl##name: \
pnccl##name: \
  hint CINCH_BTI_C; \
  mov w17, index; \
  b forward; \
  .set index, index + 1;
  .set CINCH_BTI_C, 34
#include "interpose/reach/nccl_names.def"

  .type forward, %function
forward:
  .cfi_startproc
  stp x29, x30, [sp, #-224]!
  .cfi_def_cfa_offset 224
  .cfi_offset x29, -224
  .cfi_offset x30, -216
  mov x29, sp
  stp x0, x1, [sp, #16]
  stp x2, x3, [sp, #32]
  stp x4, x5, [sp, #48]
  stp x6, x7, [sp, #64]
  stp q0, q1, [sp, #80]
  stp q2, q3, [sp, #112]
  stp q4, q5, [sp, #144]
  stp q6, q7, [sp, #176]
  str x8, [sp, #208] /* where a struct is returned */
  mov w0, w17
  mov x1, x30
  bl cinchForwardTarget
  mov x16, x0
  ldr x8, [sp, #208]
  ldp x0, x1, [sp, #16]
  ldp x2, x3, [sp, #32]
  ldp x4, x5, [sp, #48]
  ldp x6, x7, [sp, #64]
  ldp q0, q1, [sp, #80]
  ldp q2, q3, [sp, #112]
  ldp q4, q5, [sp, #144]
  ldp q6, q7, [sp, #176]
  ldp x29, x30, [sp], #224
  .cfi_restore x30
  .cfi_restore x29
  .cfi_def_cfa_offset 0
  br x16
  .cfi_endproc
  .size forward, . - forward
  .hidden cinchForwardTarget
  .section .note.GNU-stack, "", %progbits
