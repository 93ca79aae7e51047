// Package telemetry holds what every stage reports to: one JSON stream of
// logs, into which klog and logr are bridged, and one registry of metrics.
//
// Metrics carry the names that the field already has where the meaning is the
// same: controller_runtime_* of controller-runtime, workqueue_* and
// rest_client_* of Kubernetes components. Everything else is thole_*.
package telemetry
