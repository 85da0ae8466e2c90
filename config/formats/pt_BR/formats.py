"""Date formats of the back office: short, with seconds, so that rows can be told apart."""

DATE_FORMAT = "d/m/Y"
DATETIME_FORMAT = "d/m/Y H:i:s"
