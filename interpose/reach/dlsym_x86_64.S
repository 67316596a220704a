/* dlsym: RTLD_DEFAULT (0) and RTLD_NEXT (-1) go to the C library by a jump, so that it finds the
 * caller's return address; every other handle goes to cinchDlsym. */
  .text
  .globl dlsym
  .type dlsym, @function
dlsym:
  .cfi_startproc
  endbr64
  lea 1(%rdi), %rax
  cmp $1, %rax
  ja cinchDlsym
  push %rdi
  .cfi_adjust_cfa_offset 8
  push %rsi
  .cfi_adjust_cfa_offset 8
  sub $8, %rsp
  .cfi_adjust_cfa_offset 8
  call cinchRealDlsym
  add $8, %rsp
  .cfi_adjust_cfa_offset -8
  pop %rsi
  .cfi_adjust_cfa_offset -8
  pop %rdi
  .cfi_adjust_cfa_offset -8
  jmp *%rax
  .cfi_endproc
  .size dlsym, . - dlsym
  .hidden cinchDlsym
  .hidden cinchRealDlsym
  .section .note.GNU-stack, "", @progbits
