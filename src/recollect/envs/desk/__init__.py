"""The built-in service desks: airline, retail, telecom; made from seeds, judged by state."""
