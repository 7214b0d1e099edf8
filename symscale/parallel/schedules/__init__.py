"""Pipeline schedules: the order of work on each device, and what follows from it."""
