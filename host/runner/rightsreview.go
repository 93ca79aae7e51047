package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/access"
	"github.com/thole-dev/thole/host/events"
	"github.com/thole-dev/thole/host/internal/explain"
	"github.com/thole-dev/thole/host/object"
	"github.com/thole-dev/thole/host/outcome"
	"github.com/thole-dev/thole/host/rights"
)

// This file looks regularly whether a plugin with a service account still has every right
// that it needs, whether or not a run misses it.

// rightsReview is that of one revision.
type rightsReview struct {
	runner        *Runner
	plugin        string
	account       rights.Account
	ofAccount     []rights.Rule
	refused       []atomic.Bool // of ofAccount: something was refused for want of the rule since the last review
	ofHost        []rights.Rule
	missing       atomic.Pointer[[]lack] // what was found last
	lastOfAccount []lack                 // of that, first whether it is there, then one for each rule; used by run
	due           func()                 // makes all objects of the plugin due
	cancel        context.CancelFunc
	done          chan struct{}
}

const (
	defaultReviewEvery = time.Minute
	reviewJitter       = 0.1
	// reviewRetry is the pause after a review that failed.
	reviewRetry = 10 * time.Second
)

// startReview begins to review the rights of a revision, and ends that of the one before.
func (r *Runner) startReview(p *plugin, rev *Revision, constrained bool, resources map[abi.Kind]object.Resource) {
	before := p.review.Load()
	before.end()
	account := rev.Policy.Account()
	if account == (rights.Account{}) {
		p.review.Store(nil)
		return
	}
	of := servedAs(resources)
	secrets := rev.Policy.Secrets()
	ctx, cancel := context.WithCancel(context.Background())
	v := &rightsReview{
		runner: r, plugin: rev.Plugin, account: account, due: func() { r.makeDue(rev.Plugin) }, cancel: cancel, done: make(chan struct{}),
		ofAccount: rev.Policy.Allow.AccountRules(rev.Manifest, r.namespacesOf(rev), of, secrets...),
		ofHost:    rev.Policy.Allow.HostRules(rev.Manifest, account, rights.Acting{Constrained: constrained, Local: r.Access.Local}, r.namespacesOf(rev), of, secrets...),
	}
	v.refused = make([]atomic.Bool, len(v.ofAccount))
	found := before.found()
	v.missing.Store(&found) // what was reported is not reported again
	p.review.Store(v)
	go v.run(ctx)
}

// end ends a review, nil for none, and waits for that.
func (v *rightsReview) end() {
	if v != nil {
		v.cancel()
		<-v.done
	}
}

// found returns what a review, nil for none, found missing last.
func (v *rightsReview) found() []lack {
	if v == nil {
		return nil
	}
	return *v.missing.Load()
}

// missingRights returns the text of each lack that a review, nil for none, found last.
func (v *rightsReview) missingRights() []string { return textsOf(v.found()) }

func (v *rightsReview) run(ctx context.Context) {
	defer close(v.done)
	for {
		pause := v.runner.ReviewEvery
		if v.review(ctx) != nil { // the API server is away, which others report
			pause = min(pause, reviewRetry)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(outcome.AddJitter(pause, reviewJitter, rand.Float64())):
		}
	}
}

// review looks once, and reports what has changed.
func (v *rightsReview) review(ctx context.Context) error {
	refused := v.takeRefused()
	missing, err := v.look(ctx)
	if err = cmp.Or(err, ctx.Err()); err != nil {
		for _, i := range refused { // the next review looks for them
			v.refused[i].Store(true)
		}
		return err
	}
	v.report(missing, slices.ContainsFunc(refused, func(i int) bool { return !v.lacks(i) }))
	return nil
}

// refuse records that something was refused for want of a right of the account. A right that is taken away
// and given back between two reviews is missing in none of them.
func (v *rightsReview) refuse(verb string, on object.Resource, key object.Key) {
	if v == nil {
		return
	}
	for i, rule := range v.ofAccount {
		if rule.Has(verb, on.GVR.Group, on.GVR.Resource, key.Namespace, key.Name) {
			v.refused[i].Store(true)
		}
	}
}

// takeRefused returns the rules for want of which something was refused since the last call.
func (v *rightsReview) takeRefused() (refused []int) {
	for i := range v.refused {
		if v.refused[i].Swap(false) {
			refused = append(refused, i)
		}
	}
	return refused
}

// lacks reports whether the last review has found that the account lacks a rule.
func (v *rightsReview) lacks(rule int) bool {
	return len(v.lastOfAccount) > 0 && !v.lastOfAccount[rule+1].isNone()
}

// look returns what is missing. What the account lacks is what was found last while the host
// lacks the right to ask.
func (v *rightsReview) look(ctx context.Context) (missing []lack, err error) {
	missing, err = v.runner.lacksOf(ctx, rights.Account{}, v.ofHost)
	if err != nil {
		return nil, err
	}
	ofAccount, err := v.runner.lacksOfAccount(ctx, v.account, v.ofAccount)
	switch {
	case err == nil:
		v.lastOfAccount = ofAccount
	case !slices.ContainsFunc(missing, func(l lack) bool { return !l.isNone() }):
		return nil, err
	}
	return slices.DeleteFunc(slices.Concat(missing, v.lastOfAccount), lack.isNone), nil
}

// lacksOfAccount is lacksOf, after the lack of the account itself.
func (r *Runner) lacksOfAccount(ctx context.Context, account rights.Account, rules []rights.Rule) (missing []lack, err error) {
	missing = []lack{{}}
	err = r.Access.Exists(ctx, account)
	if gone, is := errors.AsType[*access.MissingAccountError](err); is {
		missing[0].account = gone.Error()
	} else if err != nil {
		return nil, err
	}
	ofRules, err := r.lacksOf(ctx, account, rules)
	return append(missing, ofRules...), err
}

// lacksOf returns a lack for each rule of an account, or of the host for the zero Account.
func (r *Runner) lacksOf(ctx context.Context, account rights.Account, rules []rights.Rule) (missing []lack, err error) {
	for _, rule := range rules {
		l := lack{onlyIf: rule.OnlyIf, right: explain.Right{User: access.UserOf(account), Group: rule.Group, Resource: rule.Path(), Namespace: rule.Namespace, Name: rule.Name}}
		for _, verb := range rule.Verbs {
			allowed, err := r.Access.Review(ctx, account, access.Action{
				Verb: verb, Group: rule.Group, Resource: rule.Resource, Subresource: rule.Subresource, Namespace: rule.Namespace, Name: rule.Name,
			})
			if err != nil {
				return nil, err
			}
			if !allowed {
				l.verbs = append(l.verbs, verb)
			}
		}
		missing = append(missing, l)
	}
	return missing, nil
}

// report reports what has changed. After a right was granted all objects are due: what the
// plugin could not read or write may have been needed by any. regained means that something was
// refused for want of a rule that the account has again.
func (v *rightsReview) report(missing []lack, regained bool) {
	before := v.found()
	v.missing.Store(&missing)
	switch {
	case slices.EqualFunc(before, missing, func(a, b lack) bool { return a.isPartOf(b) && b.isPartOf(a) }):
	case len(missing) > 0:
		v.runner.Events.Observe(events.RightsMissing{Plugin: v.plugin, Missing: textsOf(missing)})
	default:
		v.runner.Events.Observe(events.RightsGranted{Plugin: v.plugin})
	}
	granted := func(l lack) bool { return !slices.ContainsFunc(missing, l.isPartOf) }
	if regained || slices.ContainsFunc(before, granted) {
		v.due()
	}
}

// lack is what is missing of a rule, or that an account is.
type lack struct {
	right   explain.Right
	verbs   []string
	onlyIf  string // is needed only if
	account string // why there is none, for the account alone
}

func (l lack) isNone() bool { return len(l.verbs) == 0 && l.account == "" }

// isPartOf reports whether everything that is missing is missing in other, too.
func (l lack) isPartOf(other lack) bool {
	lacks := func(verb string) bool { return !slices.Contains(other.verbs, verb) }
	return l.right == other.right && l.onlyIf == other.onlyIf && l.account == other.account && !slices.ContainsFunc(l.verbs, lacks)
}

// text says what to do about it.
func (l lack) text() string {
	if l.account != "" {
		return l.account
	}
	text := l.right.Advice(l.verbs...)
	if l.onlyIf != "" {
		text += ", if " + l.onlyIf
	}
	return text
}

// maxMissing bounds how many rules are shown and reported: an account may have lost its rights in
// each of many namespaces.
const maxMissing = 100

// textsOf returns the text of each lack, and how many more there are.
func textsOf(missing []lack) (texts []string) {
	for _, l := range missing[:min(len(missing), maxMissing)] {
		texts = append(texts, l.text())
	}
	if more := len(missing) - maxMissing; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more: thole rbac prints all rules", more))
	}
	return texts
}

// makeDue makes all objects of a plugin due, and calls its parts.
func (r *Runner) makeDue(plugin string) {
	if p := r.running(plugin); p != nil {
		for _, part := range p.parts {
			if part.Granted != nil {
				part.Granted()
			}
		}
	}
	for _, c := range r.controllersOf(plugin) {
		c.Granted(c.keys(every))
	}
}

func (r *Runner) controllersOf(plugin string) (all []*controller) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.controllers {
		if c.Plugin == plugin {
			all = append(all, c)
		}
	}
	return all
}
