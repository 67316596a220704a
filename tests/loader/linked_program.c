/* A program that is linked to NCCL itself, or holds it. */
#include <stdio.h>

#include "tests/loader/toy_calls.h"

int main(void) {
  printf("result %d\n", (int)callAllReduce(ncclAllReduce));
  return 0;
}
