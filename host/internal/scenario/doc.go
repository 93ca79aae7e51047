// Package scenario runs scripts that disturb a controller host and check what comes
// of it: a real thole with real plugins, a real API server, and between them the
// fault proxy.
//
// A script is a file in txtar format, see [testscript]: commands, then files. It has
// a namespace of its own, $NS, a host that runs in this namespace, and a proxy.
//
//	plugin podmanager
//	host start
//	fault apply pods lost times=1
//	apply web.yaml
//	expect podmanager/web condition:Ready=True observed
//	requests apply pods code=0 = 1
//
//	-- web.yaml --
//	...
//
// The scripts in testdata are run by
//
//	go test ./host/internal/scenario -run TestScenarios/NAME
//	go test ./host/internal/scenario -run TestScenarios -scripts DIR -plugins DIR
//
// where a relative DIR is relative to this package.
//
// # Commands that do something
//
// They write to the API server directly, not through the proxy, as field manager
// scenario. In files, $NS is the namespace of the script, and namespaced objects
// without a namespace are in it; -n NAMESPACE is another one. RESOURCE is named as
// for kubectl: pod, pods, podmanagers.example.thole.dev. Flags may stand before and
// after other arguments.
//
//	plugin NAME|DIRECTORY|FILE [as NAME]  install a plugin in the directory of the host, with its
//	                                      policy and its CRD: NAME.wasm and NAME.yaml, or main.go,
//	                                      policy.yaml and crd.yaml in a directory
//	plugin -compiler go NAME ...          the same, with main.go compiled by Go instead of TinyGo
//	plugin -policy NAME FILE              replace its policy
//	plugin -remove NAME                   remove its files
//	host start [-nowait] [ARGUMENT ...]   start thole, with arguments of `thole run`, and wait until
//	                                      every plugin runs
//	host stop                             end it by SIGTERM; it must exit with 0
//	host kill                             end it by SIGKILL
//	host restart                          stop and start with the same arguments
//	host pause, host continue             SIGSTOP, SIGCONT
//	host await-exit                       wait until a fault has killed it
//	host supervise                        start it again whenever it was killed, until host stop
//	apply FILE ...                        server-side apply; waits until the kind of a CRD is served
//	create FILE ...                       create objects
//	patch RESOURCE/NAME [-status] JSON    merge patch, of the subresource with -status or -scale;
//	                                      <now> is the time, as in lastTransitionTime
//	patch RESOURCE -l SELECTOR [-status] JSON
//	                                      the same for each object that is selected
//	own RESOURCE/NAME [-controller] RESOURCE/NAME
//	                                      make the second one the only owner of the first one
//	delete RESOURCE/NAME [-orphan]        delete an object, and its dependents unless -orphan
//	annotate RESOURCE/NAME KEY=VALUE KEY- set and remove annotations
//	label RESOURCE/NAME KEY=VALUE KEY-    set and remove labels
//	fault VERBS RESOURCES FAULT ...       add a rule to the proxy, see README.md
//	fault clear                           remove all rules
//	faults FILE                           replace all rules by those of a file
//	requests reset                        forget the requests so far
//	cluster own                           a control plane for this script alone; the first command
//	cluster restart                       restart it with its data
//	cluster save NAME                     keep a copy of the data of etcd; restarts the cluster
//	cluster restore NAME                  put the copy back, as from a backup
//
//	service start [FILE ...]              a system outside of the cluster: an HTTPS server that keeps what is
//	                                      PUT under a path. In the files, $SERVICE is its host,
//	                                      $SERVICE_CA its CA, for a text of YAML in double quotes,
//	                                      and $WEBHOOK an address for --webhooks-listen
//	service up                            it answers, as at its start
//	service down                          it takes no connections
//	service slow TIME                     it answers after that time
//	service status CODE                   it answers with that status, and keeps nothing
//	service redirect URL                  it redirects every request to the URL
//	service moved                         it redirects every request to another path of its own
//	service wrong-certificate             its certificate is for another host
//
// A line that begins with [!faults] is left out where every script is run with faults of its own
// (TestSoakReplicaSetFaults).
//
// What concerns other scripts needs `cluster own`: these commands, the removal of a
// CRD, and a host in other namespaces.
//
// # Commands that check something
//
// A check is repeated until it holds, for two minutes or for -within. With -for it
// must hold for that time afterwards. After ! it must not hold, at once and for the
// time of -for.
//
//	expect RESOURCE/NAME VALUE ...          the object exists and has all values:
//	                                        PATH=TEXT, PATH!=TEXT: JSONPath without braces, "" if it is missing
//	                                        PATH~=TEXT: it contains the text
//	                                        condition:TYPE=STATUS, condition:TYPE.FIELD=TEXT
//	                                        observed: status.observedGeneration is metadata.generation
//	absent RESOURCE/NAME                    there is no such object
//	count RESOURCE [-l SELECTOR] NUMBER     so many objects
//	event RESOURCE/NAME TYPE REASON [TEXT]  an Event about the object
//	metric NAME{LABEL="VALUE"} >= NUMBER    the sum of the series; also = and <=
//	ready, not-ready [TEXT]                 /readyz?verbose
//	plugins NAME STATE [TEXT]               /plugins
//	log TEXT                                the log, also of earlier hosts of the script
//	requests [VERBS [RESOURCES]] [code=CODE] = NUMBER
//	                                        so many requests at the proxy since `requests reset`,
//	                                        named as in rules; CODE as the host saw it, 0 for no reply,
//	                                        4xx for a class; also <= and >=
//
//	refused FILE TEXT                       the API server does not create the object, and says the text
//	reviewed FILE VALUE ...                 the API server would create the object with all values, as for
//	                                        expect: it calls the webhooks that set them
//	served has PATH TEXT                    the service has something under the path that contains the text
//	served lacks PATH                       it has nothing there
//	served requests METHOD NUMBER           it has handled so many requests with the method
//	served authorization TEXT               the last of them had that header
//
// A script waits for what it expects, so there is no command that sleeps.
//
// [testscript]: https://pkg.go.dev/github.com/rogpeppe/go-internal/testscript
package scenario
