"""Running TFF: worker processes, the connection to them, cohorts spread over them."""
