/* dlsym: RTLD_DEFAULT (0) and RTLD_NEXT (-1) go to the C library by a jump, so that it finds the
 * caller's return address; every other handle goes to cinchDlsym. */
  .text
  .globl dlsym
  .type dlsym, %function
dlsym:
  .cfi_startproc
  hint #34 /* bti c, for machines that know it */
  add x2, x0, #1
  cmp x2, #1
  b.ls 1f
  b cinchDlsym
1:
  stp x29, x30, [sp, #-32]!
  .cfi_def_cfa_offset 32
  .cfi_offset x29, -32
  .cfi_offset x30, -24
  stp x0, x1, [sp, #16]
  bl cinchRealDlsym
  mov x16, x0
  ldp x0, x1, [sp, #16]
  ldp x29, x30, [sp], #32
  .cfi_restore x30
  .cfi_restore x29
  .cfi_def_cfa_offset 0
  br x16
  .cfi_endproc
  .size dlsym, . - dlsym
  .hidden cinchDlsym
  .hidden cinchRealDlsym
  .section .note.GNU-stack, "", %progbits
