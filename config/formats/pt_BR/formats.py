"""Dates as the back office shows them: short, and to the second, by which lines are told apart."""

DATE_FORMAT = "d/m/Y"
DATETIME_FORMAT = "d/m/Y H:i:s"
