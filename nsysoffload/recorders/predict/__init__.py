"""Predict a trace: compile for a GPU that is not there, time the schedule by a model."""
