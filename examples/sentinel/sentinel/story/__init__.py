"""A live story: operators click, schedules fire and are edited, workers are killed, and everything is audited."""
