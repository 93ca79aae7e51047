// Package operatortest compares what is generated from the API types of public operators: the CRDs
// of `thole generate crd` with those of controller-gen, and the codecs of `thole generate` with
// encoding/json. It is a module of its own: the modules of the operators are its requirements.
package operatortest

import (
	// The packages whose kinds are compared.
	_ "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	_ "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	_ "github.com/fluxcd/helm-controller/api/v2"
	_ "github.com/fluxcd/kustomize-controller/api/v1"
	_ "github.com/fluxcd/source-controller/api/v1"
	_ "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	_ "sigs.k8s.io/cluster-api/api/core/v1beta2"
	_ "sigs.k8s.io/gateway-api/apis/v1"

	// What the plugin with these kinds imports.
	_ "github.com/thole-dev/thole/sdk"
)
