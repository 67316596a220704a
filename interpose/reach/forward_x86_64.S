/* One stub for each function of NCCL under both of its names. It asks cinchForwardTarget(index of
 * the name, return address) for the real function and jumps there with the arguments untouched. The
 * nccl names are weak: where Cinch has an entry point, that one is linked. */
  .text
  .set index, 0

#define CINCH_NCCL_NAME(name) \
  .weak nccl##name; \
  .type nccl##name, @function; \
  .globl pnccl##name; \
  .type pnccl##name, @function; \
nccl##name: \
pnccl##name: \
  endbr64; \
  mov $index, %r11d; \
  jmp forward; \
  .set index, index + 1;
#include "interpose/reach/nccl_names.def"

  .type forward, @function
forward:
  .cfi_startproc
  push %rbp
  .cfi_adjust_cfa_offset 8
  .cfi_rel_offset %rbp, 0
  mov %rsp, %rbp
  .cfi_def_cfa_register %rbp
  push %rdi
  push %rsi
  push %rdx
  push %rcx
  push %r8
  push %r9
  sub $128, %rsp
  movups %xmm0, (%rsp)
  movups %xmm1, 16(%rsp)
  movups %xmm2, 32(%rsp)
  movups %xmm3, 48(%rsp)
  movups %xmm4, 64(%rsp)
  movups %xmm5, 80(%rsp)
  movups %xmm6, 96(%rsp)
  movups %xmm7, 112(%rsp)
  mov %r11d, %edi
  mov 8(%rbp), %rsi
  call cinchForwardTarget
  mov %rax, %r11
  movups (%rsp), %xmm0
  movups 16(%rsp), %xmm1
  movups 32(%rsp), %xmm2
  movups 48(%rsp), %xmm3
  movups 64(%rsp), %xmm4
  movups 80(%rsp), %xmm5
  movups 96(%rsp), %xmm6
  movups 112(%rsp), %xmm7
  add $128, %rsp
  pop %r9
  pop %r8
  pop %rcx
  pop %rdx
  pop %rsi
  pop %rdi
  pop %rbp
  .cfi_def_cfa %rsp, 8
  jmp *%r11
  .cfi_endproc
  .size forward, . - forward
  .hidden cinchForwardTarget
  .section .note.GNU-stack, "", @progbits
