"""The chapters of a training report, each a function from the study to sections."""
