"""What the benchmarks that run training jobs share: a slow network, the job, its figures."""
