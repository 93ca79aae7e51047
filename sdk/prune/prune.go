// Package prune deletes what earlier runs have created and a run does not want any more.
//
//	for _, site := range r.Spec.Sites {
//		r.Apply(deploymentOf(site))
//	}
//	prune.Unnamed(r.Run) // the Deployments of sites that are not in the spec any more
//
// A plugin that imports the package needs a host with the feature prune of thole/v1, and is
// refused by older ones: importing it names the feature in the manifest, by which the host labels
// what the plugin creates from then on.
package prune

import (
	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/sdk"
	"github.com/thole-dev/thole/sdk/internal/guest"
)

func init() { guest.Feature(abi.FeaturePrune) }

// Unnamed deletes the objects of kinds in Owns that the controller has created for the primary, and that
// this run names neither in Apply nor otherwise. It takes place after everything else that the run asks
// for, if that has succeeded, and not at all if the run ends with an error. What was adopted, what
// another controller has created, and what exists since before the plugin imported this package is left
// alone.
func Unnamed(r *sdk.Run) { r.Intend(func(out *abi.Result) { out.Prune = true }) }
