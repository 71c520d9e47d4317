module ropeway/web/site

go 1.26.0

require (
	github.com/alecthomas/chroma/v2 v2.27.0
	github.com/yuin/goldmark v1.8.7
	ropeway v0.0.0
)

require (
	github.com/dlclark/regexp2/v2 v2.2.1 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)

replace ropeway => ../..
