//! Holds nothing. The suites are in `tests/`, one binary for each job, so that each has one API server and one host.
