package scenario

import (
	"errors"
	"fmt"

	"github.com/thole-dev/thole/host/internal/devcluster"
)

// changeCluster gives a script a control plane of its own, and disturbs it.
func changeCluster(s *script, args []string) error {
	switch {
	case len(args) == 1 && args[0] == "own":
		return s.ownCluster()
	case len(args) == 1 && args[0] == "restart":
		return s.disturb((*devcluster.Cluster).Restart)
	case len(args) == 2 && args[0] == "save":
		return s.saveCluster(args[1])
	case len(args) == 2 && args[0] == "restore":
		return s.disturb(func(c *devcluster.Cluster) error { return c.Restore(args[1]) })
	}
	return wrongUse("%q", args)
}

func (s *script) ownCluster() error {
	if s.cluster != nil {
		return errors.New("`cluster own` must be the first command of the script")
	}
	s.own = devcluster.Start(s.tb, s.Suite.Flags...)
	return s.connect()
}

// versionsAhead is by how many changes a control plane is ahead of what was saved, at least: a host recognizes
// an old state by a resourceVersion that is lower than one that it knows, and the state is changed at once.
const versionsAhead = 100

func (s *script) saveCluster(name string) error {
	if err := s.disturb(func(c *devcluster.Cluster) error { return c.Save(name) }); err != nil {
		return err
	}
	ns, err := s.object("namespace/"+s.namespace, "")
	if err != nil {
		return err
	}
	for i := range versionsAhead {
		if err := s.mergePatch(ns, fmt.Appendf(nil, `{"metadata":{"annotations":{"ahead":"%d"}}}`, i)); err != nil {
			return err
		}
	}
	return nil
}

func (s *script) disturb(do func(*devcluster.Cluster) error) error {
	if s.own == nil {
		return errors.New("other scripts use this control plane: begin the script with `cluster own`")
	}
	return do(s.own)
}
