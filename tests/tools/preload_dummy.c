/* Stands in for libcinch.so: something that can be preloaded and does nothing. */
typedef int cinchPreloadDummy;
