// Package deploytest tests what is in deploy: the manifests against a real API
// server, the program as the image has it, under the rights of its service
// account, and the commands of deploy/README.md by running them.
package deploytest
