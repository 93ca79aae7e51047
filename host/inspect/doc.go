// Package inspect tells what a plugin's file is and needs, without a cluster
// and without running more of it than a load does: the data behind `thole
// inspect`.
//
//	inspect.go    from the file to the report, by the steps of a load
//	report.go     the report, as JSON and YAML have it
//	words.go      what imports, exports and toolchains mean
//	rights.go     which RBAC rules the host needs for each controller
//	resources.go  where kinds are served: guessed, or asked of a cluster
//	rows.go       the report in words, row by row
//	table.go      the report printed: a table for people, JSON or YAML
package inspect
