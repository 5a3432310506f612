//! Leases in PostgreSQL: every operation is one statement, judged by the server's clock.
