//go:build unix

package doctest

import (
	"go/ast"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/thole-dev/thole/abi"
	"github.com/thole-dev/thole/host/effect"
	"github.com/thole-dev/thole/host/with/changes/handled"
	"github.com/thole-dev/thole/host/with/leaderelection/election"
)

// Names: constants with their comments.

func annotationTable(t *testing.T) string {
	dispatch, effects := constants(t, "host/dispatch"), constants(t, "host/effect")
	return table([]string{"annotation", ""}, [][]string{
		dispatch.row(t, "RequestedAt"),
		dispatch.row(t, "Suspend"),
		effects.row(t, "AppliedAnnotation"),
		{code(election.ClaimsAnnotation), "On a Lease, where replicas share the plugins: as JSON its holder and the plugins that it leads by it"},
		{code(election.PreferredHolderAnnotation), "On a Lease: the replica that its holder is asked to leave it to"},
		{code("plugins.thole.dev/<plugin>"), "On the Lease of the plugin, where replicas share the plugins: as JSON the digest of the module that runs, those that were rolled back, which no replica runs, and that of the last good one, which runs if a newer one cannot"},
		{code("<controller>.<plugin>." + effects.value(t, "AppliedAnnotation") + "-<hash>"), "The same on an object that the controller does not own, one for each primary: the digest, the namespace and name of the primary, \"created\" if the primary has created the object, and the size of a large one"},
		{code(handled.Annotation("<plugin>", "<controller>")), "On the primaries of a controller with `changes: annotation`: as JSON what the last run that ended well was given, the progress of runs since then, and a digest of both. Writing it runs nothing. Remove it only to have the object handled as a new one after a restart of the host"},
	})
}

func nameTable(t *testing.T) string {
	objects, devloop, webhooks := constants(t, "host/object"), constants(t, "cmd/thole-tools/internal/devloop"), constants(t, "host/with/webhooks")
	return table([]string{"name", "what", ""}, [][]string{
		{code(effect.Finalizer("<plugin>", "<controller>")), "finalizer", "Holds an object until the controller's cleanup has succeeded"},
		{code(objects.value(t, "ManagerPrefix") + "<plugin>/<controller>"), "field manager", "Primaries and the objects that they own. A name of more than 128 bytes is cut and ends in a digest"},
		{code(objects.value(t, "ManagerPrefix") + "<plugin>/<controller>/<hash>"), "field manager", "Objects that the controller does not own, one for each primary by a hash of its namespace and name"},
		{code(abi.LabelAppliedBy), "label", "On what a controller with `prune` has created in `owns`, with `<plugin>.<controller>`: a result with `prune` deletes what has it and is not named. One that somebody else has set has no effect"},
		{code(abi.LabelManagedBy), "label", "On what a plugin with `managed` owns, with the name of the plugin: by it the host follows these objects"},
		{code(webhooks.value(t, "labelHost")), "label", "On webhook configurations of plugins and on CustomResourceDefinitions that one converts: the host that writes them, by the Secret of its certificates"},
		{code(webhooks.value(t, "labelPlugin")), "label", "On the webhook configurations of a plugin, with its name"},
		{code(webhooks.value(t, "fieldManager")), "field manager", "Webhook configurations, and the conversion of CustomResourceDefinitions"},
		{code("<resourceName>-shard-<number>"), "Lease", "Of the plugins of a shard, where replicas share the plugins"},
		{code("<resourceName>-plugin-<plugin>"), "Lease", "Of a plugin whose policy has `leaderElection: {ownLease: true}`"},
		{code(devloop.value(t, "fieldManager")), "field manager", "What `thole dev` applies from `crd.yaml` and `sample.yaml`"},
	})
}

func conditionTable(t *testing.T) string {
	outcome := constants(t, "host/outcome")
	var rows [][]string
	for _, name := range []string{"Ready", "Reconciling", "Stalled"} {
		rows = append(rows, outcome.row(t, name))
	}
	for _, c := range outcome {
		if strings.HasPrefix(c.name, "Reason") && ast.IsExported(c.name) {
			rows = append(rows, []string{"reason " + code(c.value), sentence(c.comment)})
		}
	}
	return table([]string{"condition", ""}, rows)
}

func podEventTable(t *testing.T) string {
	return prefixTable(t, "reason", "reason", capabilityDirs(t)...)
}

// capabilityDirs are the folders of the capabilities.
func capabilityDirs(t *testing.T) (dirs []string) {
	found, err := filepath.Glob(filepath.Join(root(t), "host", "with", "*", "capability.go"))
	done(t, err)
	for _, path := range found {
		dirs = append(dirs, "host/with/"+filepath.Base(filepath.Dir(path)))
	}
	return dirs
}

func stepTable(t *testing.T) string {
	return prefixTable(t, "Step", "step", "host/sandbox")
}

// prefixTable has the constants of packages whose names begin alike.
func prefixTable(t *testing.T, prefix, header string, dirs ...string) string {
	return table([]string{header, ""}, prefixRows(t, prefix, dirs...))
}

func prefixRows(t *testing.T, prefix string, dirs ...string) (rows [][]string) {
	for _, dir := range dirs {
		for _, c := range constants(t, dir) {
			if strings.HasPrefix(c.name, prefix) && c.value != "" {
				rows = append(rows, []string{code(c.value), c.text()})
			}
		}
	}
	return rows
}

func stateTable(t *testing.T) string {
	catalog := constants(t, "host/catalog")
	var rows [][]string
	for _, c := range catalog {
		if c.typ == "State" {
			rows = append(rows, []string{code(c.value), sentence(c.comment)})
		}
	}
	return table([]string{"state", ""}, rows)
}

// logEventTable has the types of events with the beginning of their comments.
func logEventTable(t *testing.T) string {
	var rows [][]string
	for _, file := range parseDir(t, "host/events") {
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			name := spec.Name.Name
			comment := strings.Join(strings.Fields(spec.Doc.Text()), " ")
			if implements(file, name, "event") && comment != "" && !strings.Contains(comment, "It is not logged") {
				comment = regexp.MustCompile(`^`+name+` (reports that |reports |is )`).ReplaceAllString(comment, "")
				rows = append(rows, []string{code(name), sentence(comment)})
			}
			return false
		})
	}
	for _, row := range prefixRows(t, "event", capabilityDirs(t)...) {
		row[1] = sentence(regexp.MustCompile(`^(?i:event)\w* reports that `).ReplaceAllString(row[1], ""))
		rows = append(rows, row)
	}
	return table([]string{"event", ""}, rows)
}

// implements reports whether a file declares the method for the type.
func implements(file *ast.File, typeName, method string) (found bool) {
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Name.Name == method && f.Recv != nil {
			id, _ := f.Recv.List[0].Type.(*ast.Ident)
			found = found || id != nil && id.Name == typeName
		}
	}
	return found
}

// named is a constant of type string with its comment, which is before it or behind
// it on the line.
type named struct{ name, typ, value, comment string }

type nameds []named

func (all nameds) find(t *testing.T, name string) named {
	i := slices.IndexFunc(all, func(c named) bool { return c.name == name })
	if i < 0 {
		t.Fatalf("there is no constant %s", name)
	}
	if all[i].comment == "" {
		t.Fatalf("the constant %s has no comment", name)
	}
	return all[i]
}

func (all nameds) value(t *testing.T, name string) string   { return all.find(t, name).value }
func (all nameds) comment(t *testing.T, name string) string { return all.find(t, name).text() }

func (all nameds) row(t *testing.T, name string) []string {
	return []string{code(all.value(t, name)), all.comment(t, name)}
}

// text returns the comment without the name of the constant.
func (c named) text() string {
	comment := strings.Join(strings.Fields(c.comment), " ")
	return sentence(strings.TrimPrefix(comment, c.name+" is "))
}

func constants(t *testing.T, dir string) (all nameds) {
	for _, file := range parseDir(t, dir) {
		for _, d := range file.Decls {
			group, ok := d.(*ast.GenDecl)
			if !ok || group.Tok != token.CONST {
				continue
			}
			typ := ""
			for _, s := range group.Specs {
				spec := s.(*ast.ValueSpec)
				if id, ok := spec.Type.(*ast.Ident); ok {
					typ = id.Name
				}
				all = append(all, named{spec.Names[0].Name, typ, literal(spec), commentOf(group, spec)})
			}
		}
	}
	return all
}

func literal(spec *ast.ValueSpec) string {
	if len(spec.Values) != 1 {
		return ""
	}
	return stringOf(spec.Values[0])
}

func commentOf(group *ast.GenDecl, spec *ast.ValueSpec) string {
	switch {
	case spec.Comment != nil:
		return spec.Comment.Text()
	case spec.Doc != nil:
		return spec.Doc.Text()
	case len(group.Specs) == 1:
		return group.Doc.Text()
	}
	return ""
}
