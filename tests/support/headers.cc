// The program that the precompiled headers of all tests belong to.
int main() {
  return 0;
}
