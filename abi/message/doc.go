// Package message writes and reads the messages of thole/v1, those of the core and of capabilities
// alike. A type of a message lists its fields once, for both directions: see [Fields].
package message
