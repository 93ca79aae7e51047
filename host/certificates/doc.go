// Package certificates makes the certificates that the host serves TLS with, renews them, and keeps
// them in a Secret, which all replicas share.
//
//	certificates.go  which certificates there are, and when they are replaced
//	keeper.go        the Secret
//
// Guarantee: in whatever order replicas take the steps of a rotation, whoever trusts the bundle of any
// of them accepts the certificate of each.
package certificates
