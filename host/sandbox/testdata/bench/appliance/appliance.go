// Package appliance is the controller that the benchmarks of dispatch run in
// every form: as a guest, in the host's own process, behind HTTP and as a
// program. Types and logic are the same everywhere; only how an object comes
// in and a status goes out differs. It imports nothing of Thole, and compiles
// under TinyGo.
package appliance

import (
	"hash/fnv"
	"strconv"
)

// Spec is what the user wants.
type Spec struct {
	Replicas  int32             `json:"replicas"`
	Paused    bool              `json:"paused,omitempty"`
	Schedule  string            `json:"schedule,omitempty"`
	Selector  map[string]string `json:"selector,omitempty"`
	Services  []Service         `json:"services"`
	Tolerated []Toleration      `json:"tolerations,omitempty"`
	Budget    *Budget           `json:"budget,omitempty"`
}

// Service is one container with its surroundings.
type Service struct {
	Name    string   `json:"name"`
	Image   string   `json:"image"`
	Command []string `json:"command,omitempty"`
	Env     []EnvVar `json:"env,omitempty"`
	Ports   []Port   `json:"ports,omitempty"`
	Limits  Sizes    `json:"limits"`
}

// EnvVar is a variable in a service's environment.
type EnvVar struct {
	Name  string `json:"name"`
	Value string `json:"value,omitempty"`
}

// Port is a port that a service listens on.
type Port struct {
	Name   string `json:"name"`
	Number int32  `json:"number"`
}

// Sizes are what a service may use.
type Sizes struct {
	MilliCPU  int64 `json:"milliCPU"`
	MemoryMiB int64 `json:"memoryMiB"`
}

// Toleration is a taint that is accepted.
type Toleration struct {
	Key     string `json:"key"`
	Effect  string `json:"effect,omitempty"`
	Seconds *int64 `json:"seconds,omitempty"`
}

// Budget bounds a disruption.
type Budget struct {
	MinAvailable int32   `json:"minAvailable"`
	Share        float64 `json:"share"`
}

// Status is what the user sees.
type Status struct {
	Phase    string          `json:"phase,omitempty"`
	Replicas int32           `json:"replicas,omitempty"`
	Digest   string          `json:"digest,omitempty"`
	Total    Sizes           `json:"total"`
	Services []ServiceStatus `json:"services,omitempty"`
}

// ServiceStatus is a service as it was accepted.
type ServiceStatus struct {
	Name      string `json:"name"`
	Image     string `json:"image"`
	Variables int32  `json:"variables"`
	Address   string `json:"address,omitempty"`
}

// Reconcile computes the status that the spec asks for.
func Reconcile(name string, s *Spec) Status {
	status := Status{Phase: phase(s), Replicas: s.Replicas, Digest: digest(s), Services: make([]ServiceStatus, 0, len(s.Services))}
	for i := range s.Services {
		service := &s.Services[i]
		status.Total.MilliCPU += service.Limits.MilliCPU * int64(s.Replicas)
		status.Total.MemoryMiB += service.Limits.MemoryMiB * int64(s.Replicas)
		status.Services = append(status.Services, ServiceStatus{
			Name: service.Name, Image: service.Image, Variables: int32(len(service.Env)), Address: address(name, service),
		})
	}
	return status
}

func phase(s *Spec) string {
	if s.Paused {
		return "Paused"
	}
	if s.Budget != nil && s.Budget.MinAvailable > s.Replicas {
		return "Short"
	}
	return "Running"
}

func address(name string, s *Service) string {
	if len(s.Ports) == 0 {
		return ""
	}
	return s.Name + "." + name + ":" + strconv.FormatInt(int64(s.Ports[0].Number), 10)
}

func digest(s *Spec) string {
	sum := fnv.New64a()
	write := func(word string) {
		_, _ = sum.Write([]byte(word))
		_, _ = sum.Write([]byte{0})
	}
	for i := range s.Services {
		write(s.Services[i].Image)
		for _, word := range s.Services[i].Command {
			write(word)
		}
		for _, v := range s.Services[i].Env {
			write(v.Name)
			write(v.Value)
		}
	}
	return strconv.FormatUint(sum.Sum64(), 16)
}
