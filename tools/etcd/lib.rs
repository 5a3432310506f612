//! Empty: each manifest beside this file only names the package that brings one version of etcd.
