//! Leases in etcd: every operation is one transaction, and nothing is decided from a read.
