package appliance

import (
	"maps"
	"slices"
)

// DeepCopy is what a generator of deep copies would write.
func (s *Spec) DeepCopy() *Spec {
	out := *s
	out.Selector = maps.Clone(s.Selector)
	out.Services = slices.Clone(s.Services)
	for i := range out.Services {
		service := &out.Services[i]
		service.Command = slices.Clone(service.Command)
		service.Env = slices.Clone(service.Env)
		service.Ports = slices.Clone(service.Ports)
	}
	out.Tolerated = slices.Clone(s.Tolerated)
	for i := range out.Tolerated {
		if seconds := out.Tolerated[i].Seconds; seconds != nil {
			value := *seconds
			out.Tolerated[i].Seconds = &value
		}
	}
	if s.Budget != nil {
		budget := *s.Budget
		out.Budget = &budget
	}
	return &out
}
