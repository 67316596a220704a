"""Training through Cinch: real processes, NCCL calls, and what they learn."""
