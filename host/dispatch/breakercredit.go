package dispatch

import "time"

// standing is how the last run of an object has ended under the running revision, as far as it
// counts for the breaker.
type standing uint8

const (
	notRun  standing = iota // it has not run
	ranWell                 // not through a failure of the plugin itself
	failed                  // through one
	standings
)

// maxCredit is how much credit a namespace has at most.
const maxCredit = 5

// credit is how many more runs of a namespace may fail that the breaker does not hold while it is
// open, by the standing of their objects before. Every run that does not fail earns one for each
// standing. A failing run costs one, and another one for each second that it took in the guest.
// That of an object whose last run has failed costs nothing and has no credit: however often
// somebody touches it, it changes nothing for others.
type credit [failed]uint8

// maxTenants bounds for how many namespaces there is a credit: as many as Kubernetes supports
// in a cluster. Beyond that any of them are dropped, as after a restart.
const maxTenants = 10_000

// credits has the credit of each namespace that has one.
type credits map[string]credit

// left returns the credit of a namespace for objects with a standing.
func (c credits) left(tenant string, s standing) int {
	if s == failed {
		return 0
	}
	return int(c[tenant][s])
}

// add adds a run of an object with a standing.
func (c credits) add(tenant string, s standing, fails bool, took time.Duration) {
	has, known := c[tenant]
	switch {
	case !fails:
		for s := range has {
			has[s] = min(has[s]+1, maxCredit)
		}
	case s != failed:
		has[s] -= uint8(min(int64(has[s]), 1+int64(took/time.Second)))
	}
	switch {
	case has == credit{}:
		delete(c, tenant)
		return
	case !known:
		c.makeRoom()
	}
	c[tenant] = has
}

// makeRoom drops credits until there is room for another one.
func (c credits) makeRoom() {
	for tenant := range c {
		if len(c) < maxTenants {
			return
		}
		delete(c, tenant)
	}
}
