// Package deploytest tests the directory deploy: it sends the manifests to a real
// API server, runs the program as it is in the image with the rights of its service
// account, and runs the commands of deploy/README.md.
package deploytest
