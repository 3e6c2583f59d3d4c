"""Benchmarks, each against something that a reader can run too. Ratios count: machines are noisy."""
