// Package webhooks serves the admission reviews and conversions of plugins to the API server. Both are one capability,
// see abi/webhooks/RATIONALE.md.
//
// Every replica of the host serves them, whether it leads or not, over TLS, at
// /validate/PLUGIN/CONTROLLER, /mutate/PLUGIN/CONTROLLER and /convert/PLUGIN/CONTROLLER. The
// leader of a plugin writes the webhook configurations and the conversion of its
// CustomResourceDefinitions that send the API server there.
//
//	capability.go     what the capability asks of manifests and rights, and shows of them
//	settings.go       its sections of the configuration and of policies
//	serving.go        the parts joined; what is wrong with what is done for a plugin
//	plugins.go        the plugins that run or are being started, and what they offer
//	server.go         the HTTPS server: paths, limits, who may ask
//	body.go           bodies of requests, within a bound for all of them
//	admission.go      one AdmissionReview
//	patch.go          the JSON patch of a mutation
//	conversion.go     one ConversionReview
//	call.go           a call of a plugin, and the answer if it fails
//	clients.go        certificates of clients
//	registrar.go      what the API server is told, kept as it is to be
//	configurations.go the webhook configurations of a plugin, and the conversion of a CRD
//	watches.go        how the registrar learns what there is
//	metrics.go        the metrics
//
// Guarantees:
//   - A review is answered by the revision that runs when its call begins. A revision that is
//     replaced ends its calls; a call that comes too late for it is made on the next one.
//   - Nothing is kept of a review: neither what the plugin has read, nor in its memory.
//   - A plugin that fails, takes too long or does not run is answered for as its failure policy
//     says, by a message that names it.
//   - At most [maxBytes] are read of a request, and nothing if it is for no controller. All reviews
//     together have at most [maxBytesInFlight], and so have all conversions with their results; the
//     calls in flight are bounded for each plugin and for all.
package webhooks
