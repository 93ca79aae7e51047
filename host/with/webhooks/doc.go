// Package webhooks lets the API server ask plugins about objects: reviews of requests, and conversions between
// versions. Both are one capability, see abi/webhooks/RATIONALE.md.
package webhooks
