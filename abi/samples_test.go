package abi

import "time"

// A full message has every field (see TestSamplesSetEveryField), a minimal one
// only the required fields.

func minimalManifest() *Manifest {
	return &Manifest{Name: "web", Controllers: []Controller{{Name: "site", For: Kind{"example.com/v1", "Site"}.All()}}}
}

func fullManifest() *Manifest {
	return &Manifest{
		Name:    "web",
		Version: "1.4.0", MemoVersion: "2",
		Managed: true,
		Controllers: []Controller{{
			Name:        "site",
			For:         Followed{Kind{"example.com/v1", "Site"}, Selector{Namespaces: []string{"prod"}, LabelSelector: "shard=1", FieldSelector: "spec.host=a"}, 60_000},
			Owns:        []Followed{{Kind: Kind{"apps/v1", "Deployment"}, Selector: Selector{MetadataOnly: true}}, Kind{"v1", "Service"}.All()},
			Reads:       AllOf(Kind{"v1", "Secret"}),
			Watches:     []Watch{{Followed: Kind{"v1", "Node"}.All(), By: WatchByLabel, Key: "example.com/site"}, {Followed: Kind{"v1", "Pod"}.All(), By: WatchByField, Field: "spec.pod"}},
			Writes:      []Kind{{"v1", "ConfigMap"}},
			Indexes:     []Index{{Name: "by-type", Kind: Kind{"v1", "Secret"}, Field: "type"}, {Name: "by-host", Kind: Kind{"example.com/v1", "Site"}, Field: "spec.host"}},
			Finalizer:   true,
			Gone:        true,
			Prune:       true,
			Interval:    600_000,
			Sections:    []Section{{Name: "example", Value: []byte(`{"every":3}`)}, {Name: "another", Value: []byte("true")}},
			Timeout:     2_000,
			Concurrency: 4,
			Retry:       Retry{Initial: 1_000, Factor: 150, Cap: 60_000, Jitter: 10, Attempts: 8, Then: ThenCap},
			Conditions: Conditions{
				Target:           "Ready",
				Owned:            []string{"Available", "example.com/Degraded"},
				Summarized:       []string{"Available", "example.com/Degraded"},
				NegativePolarity: []string{"example.com/Degraded"},
				Summaries: []Summary{{
					Target:           "Published",
					Summarized:       []string{"Available", "CertificateExpired"},
					NegativePolarity: []string{"CertificateExpired"},
				}},
			},
		}, {
			Name: "replicas", For: Kind{"apps/v1", "ReplicaSet"}.All(), Owns: AllOf(Kind{"v1", "Pod"}),
			WhileDeleting: true, StatusOwner: StatusOwnerGuest, Applied: AppliedMemory,
		}},
	}
}

const site = `{"apiVersion":"example.com/v1","kind":"Site","metadata":{"name":"shop","namespace":"default",` +
	`"uid":"5f0c","resourceVersion":"812","generation":3},"spec":{"replicas":9007199254740993,"title":"Schöne \u0042ücher"}}`

func minimalRequest() *Request {
	return &Request{Controller: "site", Object: []byte(site), Now: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
}

func fullRequest() *Request {
	return &Request{
		Controller: "site",
		Object:     []byte(site),
		Deleting:   true,
		Gone:       true,
		Reasons:    []Reason{ReasonOwned, ReasonRetry},
		Attempt:    2,
		Previous: &Previous{
			Class: ClassDenied,
			Failures: []EffectFailure{{
				Verb:    "apply",
				Ref:     Ref{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "default", Name: "shop", UID: "77aa"},
				Class:   ClassDenied,
				Reason:  "Forbidden",
				Message: "the plugin may not create deployments",
				Group:   "workloads",
			}},
		},
		Sections: []Section{{Name: "example", Value: []byte(`{"rank":1}`)}},
		Signals:  [][]byte{[]byte(`{"reachable":false}`), []byte(`7`)},
		Memo:     []byte(`{"etag":"a1"}`),
		Now:      time.Date(2026, 11, 20, 12, 0, 0, 123456789, time.UTC),
		Seed:     [32]byte{0: 1, 31: 255},
		Config:   []byte(`{"region":"north"}`),
	}
}

func minimalResult() *Result { return &Result{Result: OutcomeSuccess} }

func fullResult() *Result {
	return &Result{
		Result:       OutcomeRequeue,
		RequeueAfter: 30_000,
		Status:       []byte(`{"url":"https://shop.example.com","old":null}`),
		Conditions: []Condition{
			{Type: "Available", Status: "False", Reason: "RollingOut", Message: "1 of 3 replicas"},
			{Type: "example.com/Degraded"},
		},
		Patch: []byte(`{"metadata":{"labels":{"tier":"web","old":null}},"spec":{"replicas":3}}`),
		Apply: []Apply{{
			Object: []byte(`{"apiVersion":"v1","kind":"Service","metadata":{"name":"shop"},"spec":{"ports":[{"port":80}]}}`),
			Adopt:  true,
			Group:  "services",
		}, {
			Object: []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"shop-x7k2p"}}`),
			Create: true,
		}, {
			Object:  []byte(`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"shop"}}`),
			Replace: true,
		}},
		Release: []Ref{{APIVersion: "v1", Kind: "Pod", Name: "shop-1", UID: "77bb"}},
		Delete: []Delete{{
			Ref:                Ref{APIVersion: "v1", Kind: "ConfigMap", Namespace: "default", Name: "old", UID: "12ab"},
			Propagation:        PropagationOrphan,
			GracePeriodSeconds: new(int64),
			ResourceVersion:    "912",
			Group:              "services",
		}},
		Prune:  true,
		Groups: []Group{{Name: "services", Condition: "Available"}},
		Events: []Event{{Type: EventWarning, Reason: "Slow", Message: "the rollout takes long", Group: "services"}},
		Memo:   []byte(`[1]`), Sections: []Section{{Name: "example", Value: []byte(`{"a":1}`)}},
		Error: &Failure{Reason: "NoQuota", Message: "the quota is used up", After: 60_000, Terminal: true},
	}
}

func fullGetCall() *GetCall {
	return &GetCall{
		Ref:    Ref{APIVersion: "v1", Kind: "Secret", Namespace: "default", Name: "shop-tls", UID: "90fe"},
		Fields: []string{"metadata", "/data/tls.crt"},
	}
}

func fullListCall() *ListCall {
	return &ListCall{
		APIVersion: "v1", Kind: "Pod", Namespace: "default", LabelSelector: "app=shop,tier in (web)",
		FieldSelector: "spec.nodeName=node-1", Fields: []string{"spec"}, Limit: 100, Continue: "c1", OwnedBy: OwnedBySelf,
	}
}

func fullListReply() *ListReply {
	return &ListReply{
		Items:    [][]byte{[]byte(site), []byte(`{"apiVersion":"example.com/v1","kind":"Site","metadata":{"name":"zoo"}}`)},
		Continue: "c2",
	}
}
