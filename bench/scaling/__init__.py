"""Time and error of collectives on many ranks, from the cost model of interpose/policy."""
