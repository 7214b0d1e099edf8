"""Whole questions: the training step, its time, memory and bottleneck."""
